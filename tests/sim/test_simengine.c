/* test_simengine.c - restart costs, elastic jobs, and what is refused.
 *
 * Costs and refusals through firn_sim_run(); elastic jobs with toys driven
 * through the same round, since the registered policies give each job what it
 * asked for.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/drive.h"
#include "lib/toys.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elastic jobs ---- */

/* Each job gets gpus_max when it is alone, else gpus_min. */
static enum firn_status breathe(void *state, const struct firn_view *view,
                                struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        firn_plan_give(plan, jobs[i],
                       view->njobs == 1 ? jobs[i]->spec.gpus_max
                                        : jobs[i]->spec.gpus_min);
    return FIRN_OK;
}

static enum firn_status starve(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        firn_plan_give(plan, jobs[i], jobs[i]->spec.gpus_min);
    return FIRN_OK;
}

static const struct firn_policy_def breathing = {
    .name = "breathing",
    .summary = "large when alone",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE | FIRN_DOES_RESIZE,
    .decide = breathe,
};

static const struct firn_policy_def starving = {
    .name = "starving",
    .summary = "the least for each job",
    .decide = starve,
};

static const char elastic[] =
    "#firn-trace 1\n"
    "name,submit_s,gpus,duration_s,gpus_min,gpus_max\n"
    "a,0,4,100,4,16\n"
    "b,20,4,50,4,16\n";

/* Sixteen GPUs, exponent 0.5, restart 10 s; durations are for 4 GPUs.
 *   a on 16 goes at (16/4)^0.5 = 2: 40 done at 20
 *     on 4 from 20, resumes at 30 at rate 1: 80 done at 70
 *     on 16 from 70, resumes at 80 at 2: the last 20 by 90
 *   b (50 s) on 4 from 20, its first start free, at 1: 70
 * GPU-seconds: a 16x20 + 4x50 + 16x20, b 4x50; overhead 4x10 + 16x10.
 * Steps: start a, resize a, start b, resize a. */
static void elastic_job_speeds_up_by_the_exponent(void **state)
{
    (void)state;
    struct play play;
    struct drive run;
    play_open(&play, "1x16:v100", elastic);
    play.options.scaling = 0.5;
    play.options.restart_s = 10;
    assert_int_equal(drive_try(&play, &breathing, &run), FIRN_OK);
    assert_memory_equal(run.text.at, "b 70\na ", 7);
    assert_true(play_near(run.end_s, 90));
    assert_true(play_near(run.spent.given, 840 + 200));
    assert_true(play_near(run.spent.overhead, 200));
    assert_true(play_near(run.spent.useful, 840));
    assert_int_equal(run.steps, 4);
    buf_release(&run.text);
    play_close(&play);
}

/* The same with resizes that cost 1 s; restarts cost 10.
 *   a on 16 at rate 2: 40 done at 20
 *     on 4 from 20, resumes at 21 at rate 1: 90 done at 71, when b ends, whose
 *     GPUs were free at 21
 *     on 16 from 71, resumes at 72 at 2: the last 10 by 77
 * GPU-seconds: a 16x20 + 4x51 + 16x6, b 4x51; overhead 4x1 + 4x1 + 16x1. */
static void a_resize_without_a_stop_costs_less_than_a_restart(void **state)
{
    (void)state;
    struct play play;
    struct drive run;
    play_open(&play, "1x16:v100", elastic);
    play.options.scaling = 0.5;
    play.options.restart_s = 10;
    play.options.resizes = true;
    play.options.resize_s = 1;
    assert_int_equal(drive_try(&play, &breathing, &run), FIRN_OK);
    assert_true(play_near(run.end_s, 77));
    assert_true(play_near(run.spent.given, 620 + 204));
    assert_true(play_near(run.spent.overhead, 24));
    assert_true(play_near(run.spent.useful, 800));
    buf_release(&run.text);
    play_run(&play, "optimus"); /* its log names the cost, and is replayed */
    struct firn_buf log = play_read(play.log);
    assert_non_null(strstr(log.at, "\nresize_s\t1\n"));
    buf_release(&log);
    play_close(&play);
}

/* The same, and the processes of a growth take 3 s to prepare, in which steps
 * take twice as long:
 *   a has 90 done at 71; on 4 of 16 GPUs at rate 1/2 until 74: 91.5; pauses
 *     until 75, then goes at 2: the last 8.5 by 79.25
 * GPU-seconds of a: 16x20 + 4x51 + 16x8.25; overhead 4x1 + 4x1, 12x3 while it
 * prepares, 16x1. */
static void a_job_trains_on_while_its_growth_is_prepared(void **state)
{
    (void)state;
    struct play play;
    struct drive run;
    play_open(&play, "1x16:v100", elastic);
    play.options.scaling = 0.5;
    play.options.restart_s = 10;
    play.options.resizes = true;
    play.options.resize_s = 1;
    play.options.resize_prepare_s = 3;
    play.options.resize_slowdown = 2;
    assert_int_equal(drive_try(&play, &breathing, &run), FIRN_OK);
    assert_true(play_near(run.end_s, 79.25));
    assert_true(play_near(run.spent.given, 656 + 204));
    assert_true(play_near(run.spent.overhead, 60));
    assert_true(play_near(run.spent.useful, 800));
    buf_release(&run.text);
    play_run(&play, "optimus"); /* its log is replayed */
    play_close(&play);
}

/* The same again, with 2 of these 3 s done before the GPUs are free: a goes at
 * rate 1/2 until 72: 90.5; pauses until 73, then goes at 2: the last 9.5 by
 * 77.75. GPU-seconds of a: 16x20 + 4x51 + 16x6.75; overhead 4x1 + 4x1, 12x1
 * while it prepares, 16x1. With 30 s ahead nothing is prepared behind 71: it
 * pauses until 72 and does the last 10 by 77; overhead 4x1 + 4x1 + 16x1. */
static void a_growth_is_prepared_ahead_as_a_start_is(void **state)
{
    (void)state;
    static const double ahead_s[] = {2, 30}, ends_s[] = {77.75, 77};
    static const double overhead[] = {36, 24};
    for (int i = 0; i < 2; i++) {
        struct play play;
        struct drive run;
        play_open(&play, "1x16:v100", elastic);
        play.options.scaling = 0.5;
        play.options.restart_s = 10;
        play.options.resizes = true;
        play.options.resize_s = 1;
        play.options.resize_prepare_s = 3;
        play.options.resize_slowdown = 2;
        play.options.ahead_s = ahead_s[i];
        assert_int_equal(drive_try(&play, &breathing, &run), FIRN_OK);
        assert_true(play_near(run.end_s, ends_s[i]));
        assert_true(play_near(run.spent.overhead, overhead[i]));
        assert_true(play_near(run.spent.useful, 800));
        buf_release(&run.text);
        play_close(&play);
    }
}

/* On one GPU from 0 on: a goes at 1/2 beside b, b at 1/1.25 beside a. b is done
 * at 125, when a has done 62.5, and a at 125 + 37.5. */
static void pairs_that_are_named_slow_each_other_down_as_said(void **state)
{
    (void)state;
    struct play play;
    const struct firn_pair_slowdown pairs[] = {{"x", "y", 2}, {"y", "x", 1.25}};
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,may_share\n"
              "a,0,1,100,x,1\nb,0,1,100,y,1\n");
    play.options.pairs = pairs;
    play.options.npairs = 2;
    play_run(&play, "sjf-ffs"); /* its log names the pairs, and is replayed */
    assert_true(play_near(play_end(&play, "b"), 125));
    assert_true(play_near(play_end(&play, "a"), 162.5));
    struct firn_buf log = play_read(play.log);
    assert_non_null(strstr(log.at, "\npair_of\t\"x\"\t\"y\"\t2\n"));
    buf_release(&log);
    play_close(&play);
}

/* Runs a job in as many passes as there are jobs. */
static enum firn_status pass(void *state, const struct firn_view *view,
                             struct firn_plan *plan)
{
    (void)state;
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    how.passes = (int)view->njobs;
    for (size_t i = 0; i < view->njobs; i++)
        firn_plan_give_want(
            plan, jobs[i],
            &(struct firn_want){.gpus = jobs[i]->spec.gpus, .how = &how});
    return FIRN_OK;
}

static const struct firn_policy_def passing = {
    .size = sizeof(struct firn_policy_def),
    .name = "passing",
    .summary = "passes",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .decide = pass,
};

/* On its GPUs a is run in 1, then 2, then 1 passes: two restarts of 10 s. The
 * replay takes that for moves, and refuses one that changes nothing. */
static void a_move_that_changes_the_way_alone_is_replayed(void **state)
{
    (void)state;
    struct play play;
    struct firn_sim_result result;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n"
              "a,0,2,100\nb,20,2,30\n");
    play.options.restart_s = 10;
    play.options.policy_def = &passing;
    play.options.log_path = play.log;
    if (firn_sim_run(&play.options, &result, &play.err) != FIRN_OK)
        fail_msg("%s", play.err.text);
    assert_true(play_near(result.makespan_s, 120));
    struct firn_buf log = play_read(play.log);
    char *move = strstr(log.at, "\n20\tmove\t0\tn0[0-1]\tpasses=2 ");
    assert_non_null(move);
    assert_non_null(strstr(log.at, "\n50\tmove\t0\tn0[0-1]\tpasses=1 "));
    if (firn_sim_replay(play.log, &result, &play.err) != FIRN_OK)
        fail_msg("%s", play.err.text);
    strstr(log.at, "\tpasses=1 ")[8] = '2'; /* as it was before */
    play_write(play.log, log.at);
    assert_int_equal(firn_sim_replay(play.log, &result, &play.err),
                     FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "moved to where it is"));
    buf_release(&log);
    play_close(&play);
}

/* a has done its work at 10.1, which is seen at 15; at 12 it loses GPUs to b
 * and does no more work. The replay must see that, too. */
static void resized_while_its_end_waits_for_the_quantum(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\n"
              "name,submit_s,gpus,duration_s,gpus_min,gpus_max\n"
              "a,0,4,10.1,1,4\nb,12,2,50,1,4\n");
    play.options.quantum_s = 5;
    play_run(&play, "optimus");
    struct firn_buf log = play_read(play.log);
    assert_non_null(strstr(log.at, "12\tresize\t0"));
    assert_true(play_near(play_end(&play, "a"), 15));
    buf_release(&log);
    play_close(&play);
}

/* A quarter of the GPUs: half the speed at exponent 0.5, a quarter at 1, all
 * of it at 0. */
static void fewer_gpus_slow_a_job_by_the_exponent(void **state)
{
    (void)state;
    static const double cases[][2] = {{0.5, 200}, {1, 400}, {0, 100}};
    struct play play;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min\n"
              "a,0,4,100,1\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct drive run;
        play.options.scaling = cases[i][0];
        assert_int_equal(drive_try(&play, &starving, &run), FIRN_OK);
        assert_true(play_near(run.end_s, cases[i][1]));
        buf_release(&run.text);
    }
    play_close(&play);
}

/* ---- random scenes under toys; drive.c audits each job's work ---- */

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

static struct firn_buf draw_rows(struct rng *rng, int gpus)
{
    struct firn_buf rows = {0};
    double at_s = 0;
    buf_puts(&rows, "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                    "gpus_max,may_share\n");
    for (int i = 0, n = 1 + below(rng, 40); i < n; i++) {
        int least = 1 + below(rng, (gpus + 1) / 2);
        int want = least + below(rng, gpus - least + 1);
        at_s += below(rng, 3) ? rng_exp(rng, 20) : 0;
        buf_printf(&rows, "j%d,%.17g,%d,%.17g,%d,%d,%d\n", i, at_s, want,
                   1 + rng_exp(rng, 60), least,
                   want + below(rng, gpus - want + 1), below(rng, 4) > 0);
    }
    return rows;
}

static void draw_outages(struct rng *rng, struct play *play)
{
    struct firn_buf rows = {0};
    double at_s = 0;
    for (int i = 0; i < 6; i++) {
        int node = below(rng, play->cluster.nnodes);
        at_s += rng_exp(rng, 80);
        buf_printf(&rows, "%.17g,%d,down\n", at_s, node);
        at_s += rng_exp(rng, 30);
        buf_printf(&rows, "%.17g,%d,up\n", at_s, node);
    }
    play_failures(play, rows.at);
    buf_release(&rows);
}

static void check_toys(uint64_t seed)
{
    static const char *const specs[] = {"1x4:v100", "3x4:v100", "5x2:t4",
                                        "1x70:v100", "2x4:v100,2x4:a100"};
    static const struct firn_policy_def *const toys[] = {
        &toy_sharer, &toy_elastic, &toy_greedy, &toy_one_by_one};
    static const int gpus[] = {4, 12, 10, 70, 16};
    struct rng rng;
    struct play play;
    rng_seed(&rng, seed);
    int which = below(&rng, 5);
    struct firn_buf rows = draw_rows(&rng, gpus[which]);
    play_open(&play, specs[which], rows.at);
    buf_release(&rows);
    play.options.seed = seed; /* drive.c prints it */
    play.options.restart_s = below(&rng, 2) ? 10 * rng_unit(&rng) : 0;
    play.options.scaling = rng_unit(&rng);
    play.options.share_slowdown = 1 + rng_unit(&rng);
    play.options.charges_first_start = below(&rng, 3) == 0;
    play.options.quiet_starts = below(&rng, 2) == 0;
    struct firn_restart_cost end = {"", 60 * rng_unit(&rng)};
    play.options.ends = &end;
    play.options.nends = below(&rng, 2) == 0;
    play.cluster.jobs_per_gpu = 1 + below(&rng, 3);
    if (below(&rng, 2))
        draw_outages(&rng, &play);
    play.options.resizes = below(&rng, 2);
    play.options.resize_s = rng_unit(&rng);
    play.options.resize_prepare_s = below(&rng, 2) ? 8 * rng_unit(&rng) : 0;
    play.options.resize_slowdown = below(&rng, 2) ? 1 + rng_unit(&rng) : 0;
    for (size_t i = 0; i < sizeof toys / sizeof *toys; i++) {
        struct drive run;
        if (drive_try(&play, toys[i], &run) != FIRN_OK)
            fail_msg("seed %llu, %s: %s", (unsigned long long)seed,
                     toys[i]->name, play.err.text);
        const struct world_spent *s = &run.spent;
        if (!play_near(s->given, s->useful + s->overhead + s->lost))
            fail_msg("seed %llu, %s: given %g, useful %g, overhead %g",
                     (unsigned long long)seed, toys[i]->name, s->given,
                     s->useful, s->overhead);
        buf_release(&run.text);
    }
    play_close(&play);
}

static void toys_do_exactly_the_work_on_random_scenes(void **state)
{
    (void)state;
    uint64_t n = getenv("FIRN_SOAK") ? 10000 : getenv("FIRN_QUICK") ? 50 : 400;
    for (uint64_t seed = 1; seed <= n; seed++)
        check_toys(seed);
}

/* ---- restart and resize costs ---- */

/* What a policy is told of a job's costs, and what the engine charges. */
static struct firn_costs told;

static enum firn_status ask_costs(void *state, const struct firn_view *view,
                                  struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        told = firn_view_costs(view, jobs[i]);
        firn_plan_give(plan, jobs[i], jobs[i]->spec.gpus);
    }
    return FIRN_OK;
}

static const struct firn_policy_def asking = {
    .size = sizeof(struct firn_policy_def),
    .name = "asking",
    .summary = "asks",
    .decide = ask_costs,
};

static struct firn_costs costs_of(const char *app, const char *profiles,
                                  const struct firn_sim_options *as)
{
    struct play play;
    char rows[200];
    snprintf(rows, sizeof rows,
             "#firn-trace 1\nname,submit_s,gpus,duration_s,app\na,5,1,100,%s\n",
             app);
    play_open(&play, "1x4:t4", rows);
    struct firn_sim_options *o = &play.options;
    o->profiles = profiles;
    o->restart_s = 30;
    o->resizes = as->resizes;
    o->resize_s = as->resize_s;
    o->resize_is_all = as->resize_is_all;
    o->restart_is_all = as->restart_is_all;
    o->resize_costs = as->resize_costs;
    o->nresize_costs = as->nresize_costs;
    o->charges_first_start = as->charges_first_start;
    o->prepares = as->prepares;
    o->prepared = as->prepared;
    o->nprepared = as->nprepared;
    o->ends = as->ends;
    o->nends = as->nends;
    o->interval_s = as->prepares > 0 ? 12 : 0; /* it is asked later */
    o->policy_def = &asking;
    struct firn_sim_result result;
    if (firn_sim_run(o, &result, &play.err) != FIRN_OK)
        fail_msg("%s", play.err.text);
    play_close(&play);
    return told;
}

static void policies_are_told_the_costs_that_are_charged(void **state)
{
    (void)state;
    struct firn_sim_options as = firn_sim_defaults();
    struct firn_costs costs = costs_of("bert", "builtin", &as);
    assert_false(costs.can_resize); /* restarts only, unless asked for */
    assert_true(costs.restart.pause_s == costs.resize.pause_s);
    as.resizes = true;
    as.resize_s = -1;
    costs = costs_of("bert", "builtin", &as); /* the profile's */
    assert_true(costs.can_resize);
    assert_true(play_near(costs.resize.pause_s, 0.15645));
    assert_true(play_near(costs.resize.prepare_s, 16.1689));
    assert_true(play_near(firn_cost_lost_s(&costs.resize), 0.15645));
    assert_false(costs_of("ncf", "builtin", &as).can_resize);
    as.resize_s = 1;
    assert_true(costs_of("ncf", "builtin", &as).resize.pause_s == 1);
    assert_true(costs_of("bert", "builtin", &as).resize.pause_s < 0.2);
    const struct firn_resize_cost one = {"bert", {0.5, 4, 2}};
    as.resize_costs = &one;
    as.nresize_costs = 1;
    costs = costs_of("bert", "builtin", &as);
    assert_true(costs.resize.pause_s == 0.5);
    assert_true(firn_cost_lost_s(&costs.resize) == 2.5);
    as.resize_is_all = as.restart_is_all = true;
    costs = costs_of("bert", "builtin", &as);
    assert_true(costs.resize.pause_s == 1 && costs.restart.pause_s == 30);
    assert_true(costs.first_s == 0);
    as.charges_first_start = true;
    assert_true(costs_of("bert", "builtin", &as).first_s == 30);
    assert_false(costs_of("bert", "builtin", &as).is_saved_known);
    const struct firn_restart_cost least = {"bert", 4};
    as.prepares = 1;
    as.prepared = &least;
    as.nprepared = 1;
    costs = costs_of("bert", "builtin", &as); /* 7 s behind its submit */
    assert_true(costs.is_saved_known && costs.saved_s == 7);
    assert_true(costs.nprepared == 1 && costs.end_s == 0 && costs.idle_s == 0);
    const struct firn_restart_cost end = {"ncf", 3};
    as.ends = &end;
    as.nends = 1;
    assert_true(costs_of("bert", "builtin", &as).end_s == 0);
    costs = costs_of("ncf", "builtin", &as);
    assert_true(costs.is_saved_known && costs.saved_s == 0);
    assert_true(costs.end_s == 3 && costs.idle_s == 3); /* of the duration */
}

#define PREEMPTED(restart)                              \
    "#firn-trace 1\nname,submit_s,gpus,duration_s,app," \
    "restart_s\n"                                       \
    "long,0,1,100,bert," restart "\nshort,10,1,10,,\n"

/* long is preempted at 10 and comes back at 20 with 90 left: it ends at 110
 * plus the cost. */
static void check_cost(const char *rows, const struct firn_restart_cost *costs,
                       size_t ncosts, double want_s)
{
    struct play play;
    play_open(&play, "1x1:v100", rows);
    play.options.restart_s = 30;
    play.options.restarts = costs;
    play.options.nrestarts = ncosts;
    play_run(&play, "srtf");
    assert_true(play_end(&play, "long") == 110 + want_s);
    play_close(&play);
}

static void restart_cost_is_the_simulation_s_by_default(void **state)
{
    (void)state;
    check_cost(PREEMPTED("-1"), NULL, 0, 30);
    check_cost(PREEMPTED(""), NULL, 0, 30);
}

static void restart_cost_of_the_job_goes_before_the_default(void **state)
{
    (void)state;
    check_cost(PREEMPTED("7"), NULL, 0, 7);
    check_cost(PREEMPTED("0"), NULL, 0, 0);
}

static void restart_cost_named_for_an_application_goes_first(void **state)
{
    (void)state;
    static const struct firn_restart_cost costs[] = {{"yolo", 1}, {"bert", 5}};
    check_cost(PREEMPTED("7"), costs, 2, 5);
    check_cost(PREEMPTED(""), costs, 2, 5);
    check_cost(PREEMPTED("7"), costs, 1, 7);
}

/* ---- what is refused ---- */

static void job_larger_than_the_cluster_is_a_bad_row(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,8,10\nb,0,4,10\n");
    play_run(&play, "fifo");
    assert_int_equal(play.result.jobs, 1);
    assert_int_equal(play.result.bad_rows, 1);
    assert_non_null(
        strstr(play.result.first_bad[0], "wants 8 GPUs, the cluster has 4"));
    play.options.strict = true;
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "wants 8 GPUs"));
    play_close(&play);
}

static void strict_run_stops_at_a_bad_row_and_keeps_what_was(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,1,10\nb,100,-1,10\nc,200,1,10\n");
    play_run(&play, "fifo");
    assert_int_equal(play.result.jobs, 2);
    assert_int_equal(play.result.bad_rows, 1);
    play.options.strict = true;
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "line 4"));
    play_close(&play);
}

static void trace_without_a_usable_job_is_an_error(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,8,10\n");
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "not one job that can run"));
    assert_non_null(strstr(play.err.text, "wants 8 GPUs"));
    play_close(&play);
}

static void nonsense_options_are_named(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,1,10\n");
    struct firn_sim_options good = play.options;
    const struct {
        double *at, value;
        const char *word;
    } cases[] = {
        {&play.options.scaling, -1, "scaling is -1"},
        {&play.options.share_slowdown, 0.5, "share slowdown is 0.5"},
        {&play.options.restart_s, NAN, "restart cost is nan"},
        {&play.options.interval_s, -60, "interval is -60"},
        {&play.options.quantum_s, INFINITY, "quantum is inf"},
        {&play.options.mtbf_s, -1, "mtbf is -1"},
        {&play.options.checkpoint_s, -1, "checkpoint interval is -1"},
        {&play.options.timeline_s, -1, "timeline step is -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play.options = good;
        *cases[i].at = cases[i].value;
        assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
        assert_non_null(strstr(play.err.text, cases[i].word));
    }
    play.options = good;
    play.options.mtbf_s = 100;
    play.options.mttr_s = 0;
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    play.options.mttr_s = 100;
    play_failures(&play, "");
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "not both"));
    play_close(&play);
}

static void unknown_policy_and_setting_are_named(void **state)
{
    (void)state;
    static const char *const settings[] = {"fifo.skp=1"};
    struct play play;
    play_open(&play, "1x4:v100", "a,0,1,10\n");
    assert_int_equal(play_try(&play, "fiffo"), FIRN_ENOENT);
    assert_non_null(strstr(play.err.text, "'fifo'"));
    play.options.settings = settings;
    play.options.nsettings = 1;
    assert_int_equal(play_try(&play, "fifo"), FIRN_ENOENT);
    assert_non_null(strstr(play.err.text, "skip"));
    assert_int_equal(play_try(&play, "srtf"), FIRN_OK);
    play_close(&play);
}

/* ---- long runs ---- */

struct watch {
    double last;
    long calls, stop_after;
    volatile sig_atomic_t stop;
};

static void on_progress(void *arg, double share)
{
    struct watch *watch = arg;
    assert_true(share >= watch->last && share <= 1);
    watch->last = share;
    watch->stop = ++watch->calls >= watch->stop_after;
}

/* 20000 jobs make 60000 events (submission, report, completion), so progress
 * is told 14 times; an interrupted run has what was finished. */
static void a_run_reports_progress_and_can_be_interrupted(void **state)
{
    (void)state;
    struct firn_buf rows = {0};
    struct play play;
    struct watch watch = {.stop_after = 1000};
    for (int i = 0; i < 20000; i++)
        buf_printf(&rows, "j%d,%d,1,1\n", i, i);
    play_open(&play, "1x4:v100", rows.at);
    buf_release(&rows);
    play.options.log_path = NULL;
    play.options.progress = on_progress;
    play.options.progress_arg = &watch;
    play.options.stop = &watch.stop;
    play_run(&play, "fifo");
    assert_int_equal(watch.calls, 14);
    assert_int_equal(play.result.jobs, 20000);
    watch = (struct watch){.stop_after = 2};
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINTR);
    assert_true(play.result.jobs > 2000 && play.result.jobs < 4000);
    assert_true(play.result.jct_mean_s == 1);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elastic_job_speeds_up_by_the_exponent),
        cmocka_unit_test(a_resize_without_a_stop_costs_less_than_a_restart),
        cmocka_unit_test(pairs_that_are_named_slow_each_other_down_as_said),
        cmocka_unit_test(a_move_that_changes_the_way_alone_is_replayed),
        cmocka_unit_test(a_job_trains_on_while_its_growth_is_prepared),
        cmocka_unit_test(a_growth_is_prepared_ahead_as_a_start_is),
        cmocka_unit_test(policies_are_told_the_costs_that_are_charged),
        cmocka_unit_test(resized_while_its_end_waits_for_the_quantum),
        cmocka_unit_test(fewer_gpus_slow_a_job_by_the_exponent),
        cmocka_unit_test(toys_do_exactly_the_work_on_random_scenes),
        cmocka_unit_test(restart_cost_is_the_simulation_s_by_default),
        cmocka_unit_test(restart_cost_of_the_job_goes_before_the_default),
        cmocka_unit_test(restart_cost_named_for_an_application_goes_first),
        cmocka_unit_test(job_larger_than_the_cluster_is_a_bad_row),
        cmocka_unit_test(strict_run_stops_at_a_bad_row_and_keeps_what_was),
        cmocka_unit_test(trace_without_a_usable_job_is_an_error),
        cmocka_unit_test(nonsense_options_are_named),
        cmocka_unit_test(unknown_policy_and_setting_are_named),
        cmocka_unit_test(a_run_reports_progress_and_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
