/* test_serve.c - serving in rank order: the quick way against the walk.
 *
 * On clusters of one GPU type the two must make the same steps in the same
 * order, so they are run side by side: twice the same random scene, the same
 * random events, one served by firn_plan_serve() and one by serve_walk(). The
 * ranks and options are those of shipped policies; times are whole seconds,
 * so sums are exact and ties are ties.
 *
 * The walk itself is compared with a still plainer model in
 * a_served_job_is_one_that_those_before_it_leave_room_for.
 */
#include "core/serve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static unsigned how;

static enum firn_status decide_quick(void *state, const struct firn_view *view,
                                     struct firn_plan *plan)
{
    (void)state;
    firn_plan_serve(plan, view, how);
    return FIRN_OK;
}

static enum firn_status decide_walk(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    (void)state;
    serve_walk(plan, view, how);
    return FIRN_OK;
}

/* A policy's rank and options with another `decide`. */
static struct firn_policy_def ranked(const char *name, bool walks)
{
    struct firn_policy_def def = *firn_policy_find(name, NULL);
    def.decide = walks ? decide_walk : decide_quick;
    return def;
}

static void compare(struct scene *quick, struct scene *walk,
                    const struct firn_buf *text, uint64_t seed, int round)
{
    scene_decide(quick, quick->now_s);
    scene_decide(walk, walk->now_s);
    if (strcmp(scene_steps(quick), scene_steps(walk)) != 0)
        fail_msg("seed %llu, round %d at %g s, how %u:\n  %s\nquick: %s\n "
                 "walk: %s\n  now: %s",
                 (unsigned long long)seed, round, quick->now_s, how, text->at,
                 scene_steps(quick), scene_steps(walk), scene_text(quick));
    assert_string_equal(scene_text(quick), scene_text(walk));
}

static void side_by_side(uint64_t seed, const char *name, unsigned mask,
                         const char *settings)
{
    struct rng rng, same;
    struct firn_policy_def q = ranked(name, false), w = ranked(name, true);
    how = mask;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, 0);
    struct scene *quick = scene_new(text.at, &q, settings);
    struct scene *walk = scene_new(text.at, &w, settings);
    quick->restart_s = walk->restart_s = (double)rng_below(&rng, 3) * 5;
    compare(quick, walk, &text, seed, 0);
    for (int round = 1; round < 40; round++) {
        same = rng;
        scene_shake(quick, &rng, 0);
        scene_shake(walk, &same, 0);
        compare(quick, walk, &text, seed, round);
    }
    buf_release(&text);
    scene_free(quick);
    scene_free(walk);
}

static void quick_is_the_walk_without_preemption(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        unsigned how;
    } cases[] = {
        {"fifo", FIRN_SERVE_STRICT},
        {"fifo", FIRN_SERVE_SKIP},
        {"sjf", FIRN_SERVE_SKIP},
        {"sjf", FIRN_SERVE_STRICT},
        {"yarn-cs", FIRN_SERVE_STRICT | FIRN_SERVE_ONE_TYPE},
        {"opportunistic", FIRN_SERVE_STRICT | FIRN_SERVE_FASTEST},
        {"opportunistic", FIRN_SERVE_SKIP | FIRN_SERVE_FASTEST},
    };
    int ncases = (int)(sizeof cases / sizeof *cases);
    for (int i = 0; i < trials(420); i++)
        side_by_side((uint64_t)i, cases[i % ncases].name, cases[i % ncases].how,
                     NULL);
}

static void quick_is_the_walk_for_countdown_ranks(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(300); i++)
        side_by_side((uint64_t)(5000 + i), "srtf",
                     FIRN_SERVE_SKIP | FIRN_SERVE_PREEMPT, NULL);
}

static void quick_is_the_walk_for_ranks_that_change(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(300); i++)
        side_by_side((uint64_t)(9000 + i), "tiresias",
                     FIRN_SERVE_SKIP | FIRN_SERVE_PREEMPT,
                     i % 2 ? "tiresias.thresholds=50,200,600"
                           : "tiresias.thresholds=100");
}

/* ---- the rule itself ---- */

/* The jobs as they stand before a round, in rank order. */
struct queue {
    const struct firn_job *jobs[512];
    double keys[512];
    int n;
};

static void enqueue(struct queue *queue, const struct firn_job *job, double key)
{
    assert_true(queue->n < 512);
    int at = queue->n++;
    for (; at > 0 && queue->keys[at - 1] > key; at--) {
        queue->jobs[at] = queue->jobs[at - 1];
        queue->keys[at] = queue->keys[at - 1];
    }
    queue->jobs[at] = job;
    queue->keys[at] = key;
}

/* Who should run after a round of `policy`, as text in rank order. */
static struct firn_buf model(struct scene *scene, bool preempts, bool skips)
{
    struct state *state = scene_state(scene);
    struct queue queue = {.n = 0};
    struct firn_buf out = {0};
    int room = preempts ? state->map.up_gpus : state->map.free_gpus;
    for (struct state_job *sj = state->first; sj; sj = sj->after) {
        struct firn_rank rank =
            state->policy->rank(state->policy_state, &sj->job, scene->now_s);
        if (preempts || sj->job.state == FIRN_JOB_WAITING)
            enqueue(&queue, &sj->job, rank.key);
    }
    buf_puts(&out, "");
    for (int i = 0; i < queue.n; i++) {
        if (queue.jobs[i]->spec.gpus <= room) {
            room -= queue.jobs[i]->spec.gpus;
            buf_printf(&out, " %d", queue.jobs[i]->id);
        } else if (!skips) {
            break;
        }
    }
    return out;
}

/* The same, of what did happen: those that run, less those that already did
 * when they are outside the queue. */
static struct firn_buf outcome(struct scene *scene, const struct firn_buf *said)
{
    struct firn_buf out = {0};
    buf_puts(&out, "");
    for (const char *at = said->at; *at != '\0';) {
        int id = 0, n = 0;
        sscanf(at, " %d%n", &id, &n);
        const struct firn_job *job = state_job(scene_state(scene), id);
        if (job->state == FIRN_JOB_RUNNING)
            buf_printf(&out, " %d", id);
        at += n;
    }
    return out;
}

static int numbers_in(const struct firn_buf *text)
{
    int n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->at[i] == ' ';
    return n;
}

static void check_round(struct scene *scene, uint64_t seed, bool preempts,
                        bool skips)
{
    size_t ran = scene_state(scene)->nrunning;
    round_tick(scene->round, scene->now_s);
    struct firn_buf want = model(scene, preempts, skips);
    scene_decide(scene, scene->now_s);
    struct firn_buf got = outcome(scene, &want);
    size_t runs = scene_state(scene)->nrunning;
    size_t should = (size_t)numbers_in(&want) + (preempts ? 0 : ran);
    if (strcmp(want.at, got.at) != 0 || runs != should)
        fail_msg("seed %llu at %g s: should run%s, %zu run: %s",
                 (unsigned long long)seed, scene->now_s, want.at, runs,
                 scene_text(scene));
    buf_release(&want);
    buf_release(&got);
}

static void follow(uint64_t seed, const char *name, const char *settings,
                   bool preempts, bool skips)
{
    struct rng rng;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, 0);
    struct scene *scene =
        scene_new(text.at, firn_policy_find(name, NULL), settings);
    for (int round = 0; round < 30; round++) {
        check_round(scene, seed, preempts, skips);
        scene_shake(scene, &rng, 0);
    }
    buf_release(&text);
    scene_free(scene);
}

static void
a_served_job_is_one_that_those_before_it_leave_room_for(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(150); i++) {
        uint64_t seed = (uint64_t)(20000 + i);
        follow(seed, "fifo", NULL, false, false);
        follow(seed, "fifo", "fifo.skip=1", false, true);
        follow(seed, "sjf", NULL, false, true);
        follow(seed, "srtf", NULL, true, true);
        follow(seed, "tiresias", "tiresias.thresholds=60,300", true, true);
    }
}

/* ---- several types: the walk ---- */

static void plans_on_several_types_are_valid_for_any_job(void **unused)
{
    (void)unused;
    static const char *const names[] = {"fifo", "yarn-cs",  "sjf",
                                        "srtf", "tiresias", "opportunistic"};
    for (int i = 0; i < trials(300); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        struct firn_buf text = scene_random(&rng, SCENE_TYPES);
        struct scene *scene =
            scene_new(text.at, firn_policy_find(names[i % 6], NULL), NULL);
        for (int round = 0; round < 30; round++) {
            scene_decide(scene, scene->now_s);
            scene_shake(scene, &rng, SCENE_TYPES | SCENE_CHOOSY);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

/* A job that wants what no other job does must not change where the others
 * stand: with it the walk serves them, without it the quick way. */
static void a_choosy_job_does_not_change_the_places_of_others(void **unused)
{
    (void)unused;
    static const char *const cluster =
        "2 nodes x 8 gpus of v100; 1 node x 4 gpus of t4; ";
    char text[256];
    const struct firn_policy_def *fifo = firn_policy_find("fifo", NULL);
    snprintf(text, sizeof text, "%sA wants 4", cluster);
    struct scene *without = scene_new(text, fifo, NULL);
    snprintf(text, sizeof text, "%sA wants 4; B wants 1 types v100", cluster);
    struct scene *with = scene_new(text, fifo, NULL);
    scene_decide(without, 0);
    scene_decide(with, 0);
    /* One node either way; t4 leaves no GPU over, v100 four. */
    assert_string_equal(scene_text(without), "A: n2[0-3]");
    assert_string_equal(scene_text(with), "A: n2[0-3]  B: n0[0]");
    scene_free(without);
    scene_free(with);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_is_the_walk_without_preemption),
        cmocka_unit_test(quick_is_the_walk_for_countdown_ranks),
        cmocka_unit_test(quick_is_the_walk_for_ranks_that_change),
        cmocka_unit_test(
            a_served_job_is_one_that_those_before_it_leave_room_for),
        cmocka_unit_test(plans_on_several_types_are_valid_for_any_job),
        cmocka_unit_test(a_choosy_job_does_not_change_the_places_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
