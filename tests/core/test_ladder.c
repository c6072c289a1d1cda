/* test_ladder.c - jobs by rank, against an array that is searched through. */
#include "core/ladder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "scene_random.h"
#include <cmocka.h>
#include <string.h>

enum { JOBS = 40 };

struct model {
    struct ladder ladder;
    struct firn_job jobs[JOBS];
    double key[JOBS]; /* at the time `at_s` */
    double at_s[JOBS];
    bool in[JOBS], runs[JOBS];
};

static void start(struct model *m, bool counts_down, unsigned does)
{
    struct firn_policy_def policy = {.rank_counts_down = counts_down,
                                     .does = does};
    memset(m, 0, sizeof *m);
    ladder_init(&m->ladder, &policy);
}

static void add(struct model *m, int slot, int gpus, double key, double now_s,
                bool runs)
{
    m->jobs[slot].slot = slot;
    m->jobs[slot].id = 1000 - slot; /* ties go against the slots */
    m->jobs[slot].spec.gpus = gpus;
    m->key[slot] = key;
    m->at_s[slot] = now_s;
    m->in[slot] = true;
    m->runs[slot] = runs;
    ladder_add(&m->ladder, &m->jobs[slot], key, now_s, runs);
}

static double model_key(const struct model *m, int slot, double now_s)
{
    bool falls = m->ladder.counts_down && m->runs[slot];
    return m->key[slot] - (falls ? now_s - m->at_s[slot] : 0);
}

static long model_before(const struct model *m, int slot, double now_s)
{
    long sum = 0;
    for (int i = 0; i < JOBS; i++) {
        if (!m->in[i] || !m->runs[i])
            continue;
        int c = firn_cmp(model_key(m, i, now_s), model_key(m, slot, now_s));
        if (c < 0 || (c == 0 && m->jobs[i].id < m->jobs[slot].id))
            sum += m->jobs[i].spec.gpus;
    }
    return sum;
}

/* The first waiting job of a size, or -1. */
static int model_first(const struct model *m, int gpus, double now_s)
{
    int best = -1;
    for (int i = 0; i < JOBS; i++) {
        if (!m->in[i] || m->runs[i] || m->jobs[i].spec.gpus != gpus)
            continue;
        int c = best < 0 ? -1
                         : firn_cmp(model_key(m, i, now_s),
                                    model_key(m, best, now_s));
        if (c < 0 || (c == 0 && m->jobs[i].id < m->jobs[best].id))
            best = i;
    }
    return best;
}

static void compare(const struct model *m, double now_s, uint64_t seed)
{
    for (int i = 0; i < JOBS; i++) {
        if (!m->in[i])
            continue;
        if (ladder_key(&m->ladder, i, now_s) != model_key(m, i, now_s))
            fail_msg("seed %llu: key of %d", (unsigned long long)seed, i);
        if (!m->runs[i] &&
            ladder_before(&m->ladder, i, now_s) != model_before(m, i, now_s))
            fail_msg("seed %llu: before %d", (unsigned long long)seed, i);
    }
    for (size_t c = 0; c < m->ladder.classes.n; c++) {
        const struct ladder_class *class = &m->ladder.classes.at[c];
        assert_true(c == 0 || class[-1].gpus < class->gpus);
        int first = treap_first(&m->ladder.pool, class->root);
        if (first != model_first(m, class->gpus, now_s))
            fail_msg("seed %llu: first of %d", (unsigned long long)seed,
                     class->gpus);
    }
}

static void churn(uint64_t seed, bool counts_down)
{
    struct model m;
    struct rng rng;
    double now_s = 0;
    rng_seed(&rng, seed);
    start(&m, counts_down, FIRN_DOES_PREEMPT);
    for (int i = 0; i < 300; i++) {
        int slot = (int)rng_below(&rng, JOBS);
        now_s += (double)rng_below(&rng, 4);
        if (!m.in[slot]) {
            add(&m, slot, 1 + (int)rng_below(&rng, 9),
                (double)rng_below(&rng, 30), now_s, rng_below(&rng, 2));
        } else if (rng_below(&rng, 3) == 0) {
            ladder_remove(&m.ladder, &m.jobs[slot]);
            m.in[slot] = false;
        } else {
            m.key[slot] = model_key(&m, slot, now_s);
            m.at_s[slot] = now_s;
            m.runs[slot] = !m.runs[slot];
            ladder_flip(&m.ladder, &m.jobs[slot], now_s);
        }
        compare(&m, now_s, seed);
    }
    ladder_release(&m.ladder);
}

static void order_and_sums_agree_with_a_search(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(100); i++)
        churn((uint64_t)i, i % 2);
}

/* A waits with 10. B runs with 12 at 0: at 5 it has 7 and is before A. */
static void running_keys_fall_when_they_count_down(void **unused)
{
    (void)unused;
    struct model m;
    start(&m, true, FIRN_DOES_PREEMPT);
    add(&m, 0, 2, 10, 0, false);
    add(&m, 1, 3, 12, 0, true);
    assert_int_equal(ladder_before(&m.ladder, 0, 0), 0);
    assert_int_equal(ladder_before(&m.ladder, 0, 5), 3);
    assert_true(ladder_key(&m.ladder, 1, 5) == 7);
    assert_true(ladder_key(&m.ladder, 0, 5) == 10);
    ladder_release(&m.ladder);
}

static void without_contest_running_jobs_are_in_no_tree(void **unused)
{
    (void)unused;
    struct model m;
    start(&m, false, 0);
    add(&m, 0, 2, 1, 0, true);
    add(&m, 1, 2, 2, 0, false);
    assert_int_equal(m.ladder.running, TREAP_NONE);
    ladder_remove(&m.ladder, &m.jobs[0]);
    ladder_remove(&m.ladder, &m.jobs[1]);
    assert_int_equal(m.ladder.classes.at[0].root, TREAP_NONE);
    ladder_release(&m.ladder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_sums_agree_with_a_search),
        cmocka_unit_test(running_keys_fall_when_they_count_down),
        cmocka_unit_test(without_contest_running_jobs_are_in_no_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
