/* test_sharers.c - rates follow the neighbours on shared GPUs.
 *
 * Toys that hold half-shares, driven through the same round as firn sim. A
 * slowdown of 2 keeps every number exact: a job goes at 1 alone and at 1/2
 * while another job is on one of its GPUs.
 */
#include "base/buf.h"
#include "lib/drive.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define HEADER "#firn-trace 1\nname,submit_s,gpus,duration_s,may_share\n"

static const struct firn_job *named(const struct firn_view *view,
                                    const char *name)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        if (strcmp(jobs[i]->spec.name, name) == 0)
            return jobs[i];
    return NULL;
}

/* Half-shares for all: each job joins the first one before it that has room,
 * and is a host of its own where none has. */
static enum firn_status pair(void *state, const struct firn_view *view,
                             struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        if (jobs[i]->held.nparts > 0)
            firn_plan_keep(plan, jobs[i]);
    for (size_t i = 0; i < view->njobs; i++) {
        bool has = jobs[i]->held.nparts > 0;
        for (size_t k = 0; k < view->njobs && !has; k++)
            has = k != i && jobs[k]->spec.gpus == jobs[i]->spec.gpus &&
                  firn_plan_share(plan, jobs[i], jobs[k]);
        struct firn_want want = {.gpus = jobs[i]->spec.gpus, .shared = true};
        if (!has)
            firn_plan_give_want(plan, jobs[i], &want);
    }
    return FIRN_OK;
}

static const struct firn_policy_def pairs = {
    .name = "pairs",
    .summary = "two on each GPU",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE | FIRN_DOES_SHARE,
    .decide = pair,
};

static void open_play(struct play *play, const char *spec, const char *rows)
{
    play_open(play, spec, rows);
    play->options.share_slowdown = 2;
}

/* a alone 0..20: 20 done. Together 20..80 at 1/2: b's 30 are done at 80, a
 * has 20 + 30. a alone again: the other 50 by 130.
 * GPU-seconds: a 2 x 130, b 2 x 60, none of it overhead. */
static void rate_halves_while_two_share_and_recovers(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x2:v100", HEADER "a,0,2,100,1\nb,20,2,30,1\n");
    struct drive run = drive_run(&play, &pairs, "b 80\na 130\n");
    assert_true(run.spent.given == 2 * 130 + 2 * 60);
    assert_true(run.spent.useful == run.spent.given);
    assert_true(run.spent.overhead == 0 && run.spent.lost == 0);
    play_close(&play);
}

/* Twice the same with another slowdown: a 20 + 30/1.5, so 60 left at 50. */
static void slowdown_is_an_option(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x2:v100", HEADER "a,0,2,100,1\nb,20,2,20,1\n");
    play.options.share_slowdown = 1.5;
    struct drive run;
    assert_int_equal(drive_try(&play, &pairs, &run), FIRN_OK);
    assert_true(play_near(run.end_s, 110));
    buf_release(&run.text);
    play_close(&play);
}

/* a has GPU 0 and b (two GPUs, so that no job joins it) the others; c joins a
 * at 10. a: 10 + (t - 10)/2 = 30 at 50; c has 20 by then and runs alone. b is
 * never slowed: 60. d comes at 65 and joins c, which has 35: its last 5 take
 * 10 s, till 75; d has 5 by then and 25 left alone: 100. */
static void only_neighbours_are_slowed(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x3:v100",
              HEADER "a,0,1,30,1\nb,0,2,60,1\nc,10,1,40,1\nd,65,1,30,1\n");
    drive_run(&play, &pairs, "a 50\nb 60\nc 75\nd 100\n");
    play_close(&play);
}

/* a holds all four GPUs, b two of them: a is slowed as a whole, since its
 * slowest GPU counts. */
static enum firn_status corner(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    struct firn_part all = {.gpus = 0xf}, two = {.gpus = 0x3};
    struct firn_alloc a = {&all, 1, 4, true, 0, FIRN_HOW_AS_SUBMITTED},
                      b = {&two, 1, 2, true, 0, FIRN_HOW_AS_SUBMITTED};
    if (named(view, "a"))
        firn_plan_place(plan, named(view, "a"), &a);
    if (named(view, "b"))
        firn_plan_place(plan, named(view, "b"), &b);
    return FIRN_OK;
}

static void one_shared_gpu_slows_the_whole_job(void **state)
{
    (void)state;
    struct firn_policy_def toy = pairs;
    struct play play;
    toy.decide = corner;
    /* a: 10 by 10, + 20 by 50 while b's 20 take 40 s, + 70: 120. */
    open_play(&play, "1x4:v100", HEADER "a,0,4,100,1\nb,10,2,20,1\n");
    drive_run(&play, &toy, "b 50\na 120\n");
    play_close(&play);
}

/* Shares while c is not there; with c, b is taken off and a holds its GPU
 * whole, both in one round. */
static enum firn_status part_ways(void *state, const struct firn_view *view,
                                  struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *a = named(view, "a"), *b = named(view, "b");
    const struct firn_job *c = named(view, "c");
    struct firn_want want = {.gpus = 1, .shared = c == NULL};
    if (a != NULL)
        firn_plan_give_want(plan, a, &want);
    if (b != NULL && (a == NULL || c == NULL) &&
        !(a != NULL && firn_plan_share(plan, b, a)))
        firn_plan_give_want(plan, b, &want);
    if (c != NULL)
        firn_plan_give(plan, c, 1);
    return FIRN_OK;
}

/* On two GPUs: a and b share 0..10, 5 done each. c comes at 10 and takes the
 * other GPU for 200 s; b waits while a runs alone, 95 more, till 105. b then
 * has a's GPU: 35 more, till 140. */
static void job_that_stops_sharing_goes_at_full_speed(void **state)
{
    (void)state;
    struct firn_policy_def toy = pairs;
    struct play play;
    toy.decide = part_ways;
    open_play(&play, "1x2:v100",
              HEADER "a,0,1,100,1\nb,0,1,40,1\nc,10,1,200,0\n");
    drive_run(&play, &toy, "a 105\nb 140\nc 210\n");
    play_close(&play);
}

/* Three on one GPU where the cluster allows it: the slowdown is one number,
 * however many share. All end together, and each one's end frees a place. */
static void three_may_share_where_the_cluster_says_so(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100",
              HEADER "a,0,1,10,1\nb,0,1,20,1\nc,0,1,30,1\nd,0,1,5,1\n");
    play.cluster.jobs_per_gpu = 3;
    /* a 20; d takes its place 20..30 (5 at 1/2); b 40; c 20 at 40, 50. */
    drive_run(&play, &pairs, "a 20\nd 30\nb 40\nc 50\n");
    play_close(&play);
}

/* The node dies at 30 under a and b: 20 + 5 and 5 done, and nothing is lost
 * without checkpoints. Both come back at 40 with a restart of 10: 50.
 * b: 15 left at 1/2: 80; a: 25 + 15 = 40 at 80, 60 alone: 140. */
static void sharers_survive_their_node(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100", HEADER "a,0,1,100,1\nb,20,1,20,1\n");
    play.options.restart_s = 10;
    play_failures(&play, "30,0,down\n40,0,up\n");
    struct drive run = drive_run(&play, &pairs, "b 80\na 140\n");
    assert_true(run.spent.overhead == 20);
    assert_true(run.spent.given == 30 + 10 + 100 + 40);
    play_close(&play);
}

/* Restarting job a is joined by b: no progress before it resumes, and then at
 * half speed. First starts are charged: a resumes at 10, b comes at 5 and
 * resumes at 15; a: 10..50 at 1/2 = its 20. b: from 15, 17.5 at 50, then
 * alone: 2.5 more. */
static void neighbours_that_restart_slow_down_too(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100", HEADER "a,0,1,20,1\nb,5,1,20,1\n");
    play.options.restart_s = 10;
    play.options.charges_first_start = true;
    struct drive run = drive_run(&play, &pairs, "a 50\nb 52.5\n");
    assert_true(run.spent.overhead == 20);
    play_close(&play);
}

/* The same with quiet starts: a trains alone from 10 to 15, then has 15 left,
 * at 1/2 until 45. b has 15 by then and does the last 5 alone. */
static void a_quiet_start_slows_no_neighbour_down(void **state)
{
    (void)state;
    struct play play;
    open_play(&play, "1x1:v100", HEADER "a,0,1,20,1\nb,5,1,20,1\n");
    play.options.restart_s = 10;
    play.options.charges_first_start = true;
    play.options.quiet_starts = true;
    struct drive run = drive_run(&play, &pairs, "a 45\nb 50\n");
    assert_true(run.spent.overhead == 20);
    play_close(&play);
}

/* The last 4 s of jobs of the application x are quiet. */
static void check_ends(const char *rows, const char *want)
{
    static const struct firn_restart_cost ends[] = {{"x", 4}};
    struct play play;
    char trace[200];
    snprintf(trace, sizeof trace,
             "#firn-trace 1\nname,submit_s,gpus,duration_s,may_share,app\n%s",
             rows);
    open_play(&play, "1x1:v100", trace);
    play.options.ends = ends;
    play.options.nends = 1;
    drive_run(&play, &pairs, want);
    play_close(&play);
}

/* a and b share from 0 on; a has done 6 of 10 at 12 and its last 4 alone until
 * 16. b has 6 at 12 as well, 10 at 16, and its own end from 16 of 20 on. c
 * comes at 20, when b has 14, and halves it until b has 16 at 24: b ends at 28,
 * c has 2 by 24 and trains on alone. */
static void a_quiet_end_slows_no_job_down_and_is_not_slowed(void **state)
{
    (void)state;
    check_ends("a,0,1,10,1,x\nb,0,1,20,1,x\nc,20,1,20,1,y\n",
               "a 16\nb 28\nc 42\n");
}

/* One that is shorter than its end is quiet from its first step on: b trains
 * from 10 to 13 and a goes on as before. */
static void a_job_may_be_all_end(void **state)
{
    (void)state;
    check_ends("a,0,1,20,1,y\nb,10,1,3,1,x\n", "b 13\na 20\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_halves_while_two_share_and_recovers),
        cmocka_unit_test(slowdown_is_an_option),
        cmocka_unit_test(only_neighbours_are_slowed),
        cmocka_unit_test(one_shared_gpu_slows_the_whole_job),
        cmocka_unit_test(job_that_stops_sharing_goes_at_full_speed),
        cmocka_unit_test(three_may_share_where_the_cluster_says_so),
        cmocka_unit_test(sharers_survive_their_node),
        cmocka_unit_test(neighbours_that_restart_slow_down_too),
        cmocka_unit_test(a_quiet_start_slows_no_neighbour_down),
        cmocka_unit_test(a_quiet_end_slows_no_job_down_and_is_not_slowed),
        cmocka_unit_test(a_job_may_be_all_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
