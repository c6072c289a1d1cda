/* test_spare.c - no plan stops a job for the sake of its own moves.
 *
 * A stop is needless when everything that the plan put on the job's GPUs runs
 * already, holds as many GPUs as before, and left GPUs behind that stay free:
 * had it stayed, the job could have stayed, too. Checked for all policies, on
 * random scenes of several GPU types that forecast faster GPUs as faster. With
 * FIRN_COUNT=1 the policies' own plans are only counted, as they are before
 * core takes such stops out.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/spare.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the property ---- */

static bool overlap(const struct firn_alloc *a, const struct firn_alloc *b)
{
    for (int i = 0; i < a->nparts; i++)
        for (int k = 0; k < b->nparts; k++)
            if (a->parts[i].node == b->parts[k].node &&
                a->parts[i].board == b->parts[k].board &&
                (a->parts[i].gpus & b->parts[k].gpus) != 0)
                return true;
    return false;
}

static bool is_free(const struct firn_plan *plan,
                    const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if ((firn_plan_free_on(plan, part->node, part->board) & part->gpus) !=
            part->gpus)
            return false;
    }
    return true;
}

/* The job moves in this plan and leaves free GPUs behind. */
static bool could_stay(const struct firn_plan *plan, const struct firn_job *job)
{
    const struct firn_alloc *to = firn_plan_of(plan, job);
    return job->held.nparts > 0 && to->ngpus == job->held.ngpus &&
           job->held.how.merged_with == FIRN_NO_JOB &&
           is_free(plan, &job->held);
}

/* Does the plan stop the job only because others moved onto its GPUs? */
static bool is_needless(const struct firn_view *view,
                        const struct firn_plan *plan,
                        const struct firn_job *stopped)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    int ntook = 0;
    if (stopped->held.nparts == 0 ||
        stopped->held.how.merged_with != FIRN_NO_JOB ||
        firn_plan_of(plan, stopped)->nparts > 0)
        return false;
    for (size_t i = 0; i < view->njobs; i++) {
        if (!overlap(firn_plan_of(plan, jobs[i]), &stopped->held))
            continue;
        if (!could_stay(plan, jobs[i]))
            return false;
        ntook++;
    }
    return ntook > 0;
}

static const struct firn_policy_def *inner;
static long ndecided, nneedless;
static bool counts_only;

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    FIRN_TRY(inner->decide(state, view, plan));
    if (!counts_only)
        spare_stops(plan); /* as the round does */
    const struct firn_job *const *jobs = firn_view_jobs(view);
    ndecided++;
    for (size_t i = 0; i < view->njobs; i++)
        if (is_needless(view, plan, jobs[i])) {
            nneedless++;
            if (!counts_only)
                fail_msg("%s stops job %s for its own moves", inner->name,
                         jobs[i]->spec.name);
        }
    return FIRN_OK;
}

static void drive(const struct firn_policy_def *policy, uint64_t seed,
                  unsigned kinds)
{
    struct firn_policy_def def = *policy;
    struct rng rng;
    inner = policy;
    def.decide = decide;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = scene_new(text.at, &def, NULL);
    scene->has_fast_types = true;
    for (int round = 0; round < 60; round++) {
        struct firn_error err = {0};
        if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
            fail_msg("%s, seed %llu, round %d: %s", policy->name,
                     (unsigned long long)seed, round, err.text);
        scene_shake(scene, &rng, kinds);
        if (rng_below(&rng, 3) == 0)
            scene->now_s += (double)rng_below(&rng, 400);
        round_tick(scene->round, scene->now_s);
    }
    buf_release(&text);
    scene_free(scene);
}

/* Long jobs, of which some accept one type only, over many intervals. */
static void drive_long(const struct firn_policy_def *policy, uint64_t seed)
{
    static const char *const accepts[] = {"a100",      "v100",    "t4",
                                          "a100|v100", "v100|t4", "a100|v100"};
    struct firn_policy_def def = *policy;
    struct firn_buf text = {0};
    struct rng rng;
    char job[128];
    inner = policy;
    def.decide = decide;
    rng_seed(&rng, seed);
    for (int t = 0; t < 3; t++)
        buf_printf(&text, "%s1 node x %d gpus of %s", t > 0 ? "; " : "",
                   4 + (int)rng_below(&rng, 5), accepts[t]);
    struct scene *scene = scene_new(text.at, &def, NULL);
    scene->has_fast_types = true;
    scene->restart_s = 30;
    for (int round = 0; round < 60; round++) {
        for (int n = (int)rng_below(&rng, round < 5 ? 6 : 2); n > 0; n--) {
            snprintf(job, sizeof job, "J%zu wants %d for %d types %s%s",
                     scene->names.n, 1 + (int)rng_below(&rng, 2),
                     1000 + (int)rng_below(&rng, 40000),
                     accepts[rng_below(&rng, 6)],
                     rng_below(&rng, 3) == 0 ? " shares" : "");
            scene_submit(scene, job);
        }
        scene_play(scene, scene->now_s + (double)rng_below(&rng, 600));
    }
    buf_release(&text);
    scene_free(scene);
}

static void no_policy_stops_a_job_for_its_own_moves(void **unused)
{
    (void)unused;
    static const unsigned kinds[] = {
        SCENE_TYPES | SCENE_CHOOSY, SCENE_TYPES | SCENE_CHOOSY | SCENE_ELASTIC,
        SCENE_TYPES | SCENE_CHOOSY | SCENE_SHARING,
        SCENE_TYPES | SCENE_CHOOSY | SCENE_ELASTIC | SCENE_SHARING};
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    counts_only = getenv("FIRN_COUNT") != NULL;
    for (size_t i = 0; i < n; i++) {
        ndecided = nneedless = 0;
        for (int k = 0; k < trials(20); k++)
            drive(all[i], (uint64_t)(9000 + k), kinds[k % 4]);
        for (int k = 0; k < trials(5); k++)
            drive_long(all[i], (uint64_t)(500 + k));
        if (counts_only)
            print_message("%s: %ld needless stops in %ld decisions\n",
                          all[i]->name, nneedless, ndecided);
    }
}

/* ---- by hand ---- */

/* Four jobs that accept nothing but a100 run there, four that accept both run
 * on v100. On a100 these would be faster, and a long job loses little by
 * waiting for an interval: but v100 would stand free meanwhile. */
static void jobs_of_one_type_are_not_stopped_for_faster_others(void **unused)
{
    (void)unused;
    static const char *const names[] = {"icefrog", "icefrog-batch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct scene *scene =
            scene_new("1 node x 4 gpus of a100; 1 node x 4 gpus of v100; "
                      "1 node x 4 gpus of t4; "
                      "A wants 1 for 36000 types a100 on n0[0]; "
                      "B wants 1 for 36000 types a100 on n0[1]; "
                      "C wants 1 for 36000 types a100 on n0[2]; "
                      "D wants 1 for 36000 types a100 on n0[3]; "
                      "E wants 1 for 9000 types a100|v100 on n1[0]; "
                      "F wants 1 for 9000 types a100|v100 on n1[1]; "
                      "G wants 1 for 9000 types a100|v100 on n1[2]; "
                      "H wants 1 for 9000 types a100|v100 on n1[3]",
                      firn_policy_find(names[i], NULL), NULL);
        scene->has_fast_types = true;
        scene_decide(scene, 1000);
        if (strstr(scene_steps(scene), "STOP") != NULL)
            fail_msg("%s: %s", names[i], scene_steps(scene));
        scene_free(scene);
    }
}

/* A policy that plans what a case says: "A: n0[0]  B: n1[0]", and stops all
 * others. */
static struct {
    const char *job, *gpus;
} wanted[4];
static struct scene *planned;

static enum firn_status decide_wanted(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    (void)state;
    (void)view;
    for (size_t i = 0; i < 4 && wanted[i].job != NULL; i++) {
        struct firn_alloc to = scene_alloc(planned, wanted[i].gpus);
        firn_plan_place(plan, scene_job(planned, wanted[i].job), &to);
    }
    return FIRN_OK;
}

static void leads_to(const char *text, const char *steps)
{
    static const struct firn_policy_def def = {
        .name = "planned",
        .summary = "what the case says",
        .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE | FIRN_DOES_RESIZE,
        .decide = decide_wanted};
    planned = scene_new(text, &def, NULL);
    scene_decide(planned, 10);
    assert_string_equal(scene_steps(planned), steps);
    scene_free(planned);
    memset(wanted, 0, sizeof wanted);
}

static void only_moves_that_leave_free_gpus_behind_are_taken_out(void **unused)
{
    (void)unused;
    static const char three[] = "1 node x 3 gpus; A wants 1 on n0[0]; "
                                "B wants 1 on n0[1]; C wants 1 on n0[2]";
    /* B moves onto A's GPU, and its own stays free. */
    wanted[0].job = "B", wanted[0].gpus = "n0[0]";
    wanted[1].job = "C", wanted[1].gpus = "n0[2]";
    leads_to(three, "");
    /* B moves onto A's, and C onto B's. */
    wanted[0].job = "B", wanted[0].gpus = "n0[0]";
    wanted[1].job = "C", wanted[1].gpus = "n0[1]";
    leads_to(three, "");
    /* The same, but D starts where C was: a decision of the policy. */
    wanted[0].job = "B", wanted[0].gpus = "n0[0]";
    wanted[1].job = "C", wanted[1].gpus = "n0[1]";
    wanted[2].job = "D", wanted[2].gpus = "n0[2]";
    leads_to("1 node x 3 gpus; A wants 1 on n0[0]; B wants 1 on n0[1]; "
             "C wants 1 on n0[2]; D wants 1",
             "STOP A; MOVE B n0[0]; MOVE C n0[1]; START D n0[2]");
    /* B grows onto A's GPU: it is no mere move. */
    wanted[0].job = "B", wanted[0].gpus = "n0[0-1]";
    leads_to("1 node x 2 gpus; A wants 1 on n0[0]; "
             "B wants 1 from 1 to 2 on n0[1]",
             "STOP A; RESIZE B n0[0-1]");
    /* A is stopped though nothing takes its GPU: the policy wants that. */
    wanted[0].job = "B", wanted[0].gpus = "n0[1]";
    wanted[1].job = "C", wanted[1].gpus = "n0[2]";
    leads_to(three, "STOP A");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_of_one_type_are_not_stopped_for_faster_others),
        cmocka_unit_test(only_moves_that_leave_free_gpus_behind_are_taken_out),
        cmocka_unit_test(no_policy_stops_a_job_for_its_own_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
