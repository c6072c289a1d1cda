/* test_brute.c - the event-driven simulator against one that steps seconds.
 *
 * Small random scenes with integer times on one GPU type: every job must
 * start, restart and end at the same second in both, hold GPUs as long, and
 * the GPU-seconds must have gone the same ways, all exactly. Policies, restart
 * costs, decision intervals, charged first starts, and outages with lost work
 * are drawn too. Seeds are printed; FIRN_SEED runs one of them alone.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/brute.h"
#include "lib/play.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_S = 100000 };

static const struct {
    const char *name, *setting;
} policies[] = {
    [BRUTE_FIFO] = {"fifo", "fifo.skip=0"},
    [BRUTE_FIFO_SKIP] = {"fifo", "fifo.skip=1"},
    [BRUTE_SJF] = {"sjf", "sjf.skip=1"},
    [BRUTE_SJF_STRICT] = {"sjf", "sjf.skip=0"},
    [BRUTE_SRTF] = {"srtf", ""},
    [BRUTE_TIRESIAS] = {"tiresias", ""},
};

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

/* Sizes divide 12 and so do thresholds: crossings fall on whole seconds. */
static void draw_jobs(struct rng *rng, struct brute *b)
{
    static const int sizes[] = {1, 2, 3, 4, 6, 12};
    static const int gaps[] = {1, 5, 20, 60};
    int gap = gaps[below(rng, 4)], longest = 1 + below(rng, 200);
    int restart = below(rng, 3) ? below(rng, 30) : 0, at = 0;
    b->njobs = 1 + below(rng, 24);
    for (int i = 0; i < b->njobs; i++) {
        struct brute_job *job = &b->jobs[i];
        do
            job->gpus = sizes[below(rng, 6)];
        while (job->gpus > b->gpus);
        at += below(rng, 3) ? below(rng, gap) : 0;
        job->submit = at;
        job->duration = 1 + below(rng, longest);
        job->restart = restart;
    }
}

static void draw_outages(struct rng *rng, struct brute *b)
{
    int at = 1 + below(rng, 100);
    b->noutages = 1 + below(rng, BRUTE_OUTAGES);
    b->checkpoint = below(rng, 3) * (1 + below(rng, 20));
    for (int i = 0; i < b->noutages; i++) {
        b->outages[i].down = at;
        b->outages[i].up = at + 1 + below(rng, 60);
        at = b->outages[i].up + 1 + below(rng, 200);
    }
}

static void draw(struct rng *rng, struct brute *b, char spec[32])
{
    *b = (struct brute){.policy = (enum brute_policy)below(rng, 6)};
    int nodes = 1 + below(rng, 3), each = 1 + below(rng, 8);
    b->gpus = nodes * each;
    snprintf(spec, 32, "%dx%d:v100", nodes, each);
    draw_jobs(rng, b);
    b->interval = below(rng, 4) ? 1 : 1 + below(rng, 60);
    b->charges_first = below(rng, 4) == 0;
    if (nodes == 1 && below(rng, 2))
        draw_outages(rng, b);
    b->nthresholds = below(rng, BRUTE_QUEUES) + 1;
    for (int i = 0, at = 0; i < b->nthresholds; i++)
        b->thresholds[i] = at += 12 * (1 + below(rng, 30));
}

static void make_play(struct play *play, const struct brute *b,
                      const char *spec)
{
    struct firn_buf text = {0};
    for (int i = 0; i < b->njobs; i++)
        buf_printf(&text, "j%d,%d,%d,%d\n", i, b->jobs[i].submit,
                   b->jobs[i].gpus, b->jobs[i].duration);
    play_open(play, spec, text.at);
    buf_clear(&text);
    for (int i = 0; i < b->noutages; i++)
        buf_printf(&text, "%d,0,down\n%d,0,up\n", b->outages[i].down,
                   b->outages[i].up);
    if (b->noutages > 0)
        play_failures(play, text.at);
    buf_release(&text);
    play->options.restart_s = b->jobs[0].restart;
    play->options.interval_s = b->interval > 1 ? b->interval : 0;
    play->options.checkpoint_s = b->checkpoint;
    play->options.charges_first_start = b->charges_first;
}

static const char *thresholds(const struct brute *b, char out[96])
{
    int n = snprintf(out, 96, "tiresias.thresholds=");
    for (int i = 0; i < b->nthresholds; i++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%d", i ? "," : "",
                      b->thresholds[i]);
    return out;
}

static void compare_job(uint64_t seed, const struct brute *b, int i,
                        const struct play *play)
{
    const struct brute_job *want = &b->jobs[i];
    char name[16];
    snprintf(name, sizeof name, "j%d", i);
    const struct play_job *got = play_job(play, name);
    if (got->end_s == want->end && got->held_s == want->held &&
        got->first_start_s == want->first_start &&
        got->restarts == want->starts - 1 && got->served_gpu_s == want->served)
        return;
    fail_msg("FIRN_SEED=%llu: policy %s, job %s: started %g, ended %g, held "
             "%g s, %d restarts; the brute force says %d, %d, %d, %d",
             (unsigned long long)seed, policies[b->policy].name, name,
             got->first_start_s, got->end_s, got->held_s, got->restarts,
             want->first_start, want->end, want->held, want->starts - 1);
}

static void check_seed(uint64_t seed)
{
    struct rng rng;
    struct brute b;
    struct play play;
    char spec[32], queues[96];
    rng_seed(&rng, seed);
    draw(&rng, &b, spec);
    make_play(&play, &b, spec);
    const char *settings[] = {policies[b.policy].setting,
                              thresholds(&b, queues)};
    bool ours = b.policy == BRUTE_TIRESIAS, none = b.policy == BRUTE_SRTF;
    play.options.settings = ours ? settings + 1 : settings;
    play.options.nsettings = none ? 0 : 1;
    if (!brute_run(&b, LIMIT_S))
        fail_msg("FIRN_SEED=%llu: the brute force does not end",
                 (unsigned long long)seed);
    if (play_try(&play, policies[b.policy].name) != FIRN_OK)
        fail_msg("FIRN_SEED=%llu: %s", (unsigned long long)seed, play.err.text);
    for (int i = 0; i < b.njobs; i++)
        compare_job(seed, &b, i, &play);
    const struct firn_sim_result *got = &play.result;
    if (got->gpu_s_given != (double)b.given ||
        got->gpu_s_overhead != (double)b.overhead ||
        got->gpu_s_lost != (double)b.lost)
        fail_msg("FIRN_SEED=%llu: given %g, overhead %g, lost %g GPU-seconds; "
                 "the brute force says %ld, %ld, %ld",
                 (unsigned long long)seed, got->gpu_s_given,
                 got->gpu_s_overhead, got->gpu_s_lost, b.given, b.overhead,
                 b.lost);
    play_close(&play);
}

static void agrees_with_brute_force_on_random_scenes(void **state)
{
    (void)state;
    const char *one = getenv("FIRN_SEED");
    uint64_t n = getenv("FIRN_SOAK")    ? 20000
                 : getenv("FIRN_QUICK") ? 100
                                        : 1000;
    if (one != NULL) {
        check_seed(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= n; seed++)
        check_seed(seed);
}

/* The brute force itself, on the example of test_sim.c: two GPUs, long (2
 * GPUs, 10 s) runs, short (1 GPU, 3 s) comes at 2. Under srtf with a restart
 * cost of 4: short 2..5, long again 5..9 restarting, 9..17. */
static void brute_force_preempts_and_charges_the_restart(void **state)
{
    (void)state;
    struct brute b = {.policy = BRUTE_SRTF,
                      .gpus = 2,
                      .jobs = {{.gpus = 2, .duration = 10, .restart = 4},
                               {.submit = 2, .gpus = 1, .duration = 3}},
                      .njobs = 2,
                      .interval = 1};
    assert_true(brute_run(&b, 100));
    assert_int_equal(b.jobs[1].end, 5);
    assert_int_equal(b.jobs[0].end, 17);
    assert_int_equal(b.given, 2 * 2 + 3 + 12 * 2);
    assert_int_equal(b.overhead, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brute_force_preempts_and_charges_the_restart),
        cmocka_unit_test(agrees_with_brute_force_on_random_scenes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
