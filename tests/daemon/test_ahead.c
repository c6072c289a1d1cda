/* test_ahead.c - processes that are there before their GPUs are: what forecasts
 * and the policy make of them.
 *
 * In these scenes a start takes 60 s, and 5 s if its processes were there for
 * 55 s before.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/dryrunwork.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#define JOB_OF(duration) \
    "gpus: 1\napp: mine\ncheckpoint: {grace: 10}\nduration: " duration
#define JOB                 JOB_OF("100s")
#define SHARED_OF(duration) JOB_OF(duration) "\nshare: allowed\nmemory: 4"

static firn_job_id early_job;

static int prepares(void *state)
{
    (void)state;
    return 1;
}

static double prepared_s(void *state, firn_job_id job)
{
    (void)state;
    return job == early_job ? 40 : 0;
}

static firn_job_id foreseen_first;
static int nforeseen; /* times */

static int ahead_s(void *state)
{
    (void)state;
    return 120;
}

static void foresee(void *state, const struct firn_foreseen *jobs, size_t n)
{
    (void)state;
    foreseen_first = n > 0 ? jobs[0].job : 0;
    nforeseen++;
}

static void open_scene(struct loopscene *s, const char *policy)
{
    early_job = 0;
    loopscene_play.prepares = prepares;
    loopscene_play.prepared_s = prepared_s;
    loopscene_open(s, "1x1:v100@16", policy, false);
    livecosts_add(s->loop->desk.costs, "mine", LIVECOST_START, 60);
    livecosts_add(s->loop->desk.costs, "mine", LIVECOST_PREPARED, 5);
    livecosts_add(s->loop->desk.costs, "mine", LIVECOST_WAITS, 1);
}

/* a runs; b and c wait, and were submitted in this order. */
static void open_queue(struct loopscene *s, const char *policy, const char *b,
                       const char *c)
{
    open_scene(s, policy);
    loopscene_submit(s, "a", JOB);
    loopscene_turn(s);
    loopscene_submit(s, "b", b);
    loopscene_submit(s, "c", c);
    loopscene_turn(s);
}

static firn_job_id in_round(struct loopscene *s, const char *name)
{
    return desk_track(&s->loop->desk, loopscene_job(s, name)->id)->round_id;
}

/* The engine was told that this job is the next. */
static void tell(struct loopscene *s, const char *name)
{
    vec_add(&s->loop->ahead.told, loopscene_job(s, name)->id);
}

static void a_start_is_shorter_by_what_is_prepared(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_scene(&s, "fifo");
    const struct desk *desk = &s.loop->desk;
    assert_true(desk_start_s(desk, "mine", 0) == 60);
    assert_true(desk_start_s(desk, "mine", 20) == 40);
    assert_true(desk_start_s(desk, "mine", 1000) == 5);
    loopscene_close(&s);
}

/* Its processes were there for 20 s, and 45 s later it made its first step: a
 * start that was cut short takes 65 s. One that was there for 50 s and made its
 * first step 9 s later may have waited for its GPUs and says nothing about
 * that. One that needed 25 s more, and not the 5 s that are left behind a whole
 * preparation, was cut short as well. */
static void a_start_that_was_cut_short_is_measured_whole(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_scene(&s, "fifo");
    loopscene_submit(&s, "a", JOB);
    loopscene_turn(&s);
    struct live_job *job = book_job(s.loop->book, loopscene_job(&s, "a")->id);
    struct track *track = desk_track(&s.loop->desk, job->id);
    static const double prepared_s[] = {20, 50, 50}, rest_s[] = {45, 9, 25},
                        start_s[] = {62.5, 62.5, 200.0 / 3};
    for (int i = 0; i < 3; i++) {
        track->launch_s = 1e-9;
        track->prepared_s = prepared_s[i];
        track->start_attempt = 0;
        job->last.prepare_s = rest_s[i];
        job->last.step = 1;
        loop_costs_reported(s.loop, job, track);
        double learned_s = desk_start_s(&s.loop->desk, "mine", 0);
        assert_true(fabs(learned_s - start_s[i]) < 1e-3);
    }
    loopscene_close(&s);
}

/* Of a user's 100 s 60 are the start and 10 behind the last step: the policy is
 * told that, and that one job is prepared at a time. With half of the training
 * done it is 35 of the 50 s that are left. What is left of a job that was seen
 * is counted in steps, and all of it is training. */
static void the_policy_is_told_of_starts_and_ends(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_scene(&s, "fifo");
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 10);
    loopscene_submit(&s, "a", JOB);
    loopscene_turn(&s);
    const struct desk *desk = &s.loop->desk;
    const struct track *track = desk_track(desk, loopscene_job(&s, "a")->id);
    static const double done_s[] = {0, 50, 50}, idle_s[] = {70, 35, 0};
    for (int i = 0; i < 3; i++) {
        struct firn_job job = *desk_job(desk, track);
        struct liveforecast_run run = {.job = &job, .rate = 3};
        struct firn_costs costs = {0};
        job.done_s = done_s[i];
        job.rate = 0;
        if (i == 2)
            liveforecast_saw(desk->forecast, track->id, &run);
        desk_costs(desk, &job, &costs);
        assert_int_equal(costs.nprepared, 1);
        assert_true(costs.end_s == 10);
        assert_true(fabs(costs.idle_s - idle_s[i]) < 1e-9);
    }
    loopscene_close(&s);
}

/* Jobs of 200 s with 60 s of start and 10 s behind the last step, 2 times
 * slower beside each other, so that a pair gains nothing: a ends after 200 s,
 * and b and c, which are prepared, make their first steps when the one before
 * makes its last: 130 s later, so that b ends at 330 and c at 460. In the
 * future b trains and has not been seen: it is not taken for nearly done when
 * it has made half of its steps, nor does c slow it down. */
static void a_future_host_is_not_nearly_done_before_it_is(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_scene(&s, "firn");
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 10);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t999\n");
    loopscene_submit(&s, "a", SHARED_OF("200s"));
    loopscene_turn(&s);
    loopscene_submit(&s, "b", SHARED_OF("200s"));
    loopscene_submit(&s, "c", SHARED_OF("200s"));
    loopscene_turn(&s);
    assert_true(fabs(loopscene_ends_in_s(&s, "a") - 200) < 2);
    assert_true(fabs(loopscene_ends_in_s(&s, "b") - 330) < 7);
    assert_true(fabs(loopscene_ends_in_s(&s, "c") - 460) < 12);
    loopscene_close(&s);
}

/* a trains 40 of its 100 s. b is prepared in the 100 s until then and starts in
 * 5, c from the start of b on: 45 s, so that 15 of its start are left. */
static void ends_are_foretold_with_prepared_starts(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_queue(&s, "fifo", JOB, JOB);
    assert_true(fabs(loopscene_ends_in_s(&s, "a") - 100) < 2);
    assert_true(fabs(loopscene_ends_in_s(&s, "b") - 145) < 2);
    assert_true(fabs(loopscene_ends_in_s(&s, "c") - 200) < 2);
    loopscene_close(&s);
}

/* The longer of two jobs that wait has its processes there for 40 s: it needs
 * the GPU for less time, and the mean is lower if it goes first. */
static void firn_starts_the_job_whose_processes_are_there(void **unused)
{
    (void)unused;
    static const char *const first[] = {"b", "c"};
    for (int i = 0; i < 2; i++) {
        struct loopscene s;
        open_queue(&s, "firn", JOB, JOB_OF("110s"));
        early_job = i == 1 ? loopscene_job(&s, "c")->id : 0;
        tell(&s, "c");
        loopscene_pass(&s, 100);
        loopscene_done(&s, "a");
        loopscene_turn(&s);
        assert_int_equal(loopscene_job(&s, first[i])->state, LIVE_RUNNING);
        assert_int_equal(loopscene_job(&s, first[1 - i])->state, LIVE_PENDING);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* a ends in 90 s and holds its GPU for 40 s more. Pairs of these are no gain,
 * but a job in its start slows no other down. b needs 60 s to start and could
 * come 60 s before the last step of a; c, which is worth more for its
 * processes, 20 s before. It has the place, and b does not take it before. */
static void the_end_of_a_job_is_for_the_foremost_one(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_scene(&s, "firn");
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 40);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t999\n");
    loopscene_submit(&s, "a", SHARED_OF("200s"));
    loopscene_turn(&s);
    loopscene_pass(&s, 60);
    loopscene_submit(&s, "b", SHARED_OF("190s"));
    const struct live_job *c = loopscene_submit(&s, "c", SHARED_OF("195s"));
    loopscene_turn(&s);
    early_job = c->id;
    vec_add(&s.loop->ahead.told, c->id);
    for (int i = 1; i <= 10; i++) {
        loopscene_pass(&s, 10);
        loopscene_report(&s, "a", 0.1 * i, 1, 100);
        if (i == 6)
            assert_int_equal(loopscene_job(&s, "b")->state, LIVE_PENDING);
    }
    assert_string_equal(loopscene_text(&s), "a running n0[0]~; b pending -; "
                                            "c running n0[0]~");
    loopscene_close(&s);
}

/* One job is prepared at a time, and firn goes by that. The processes of c are
 * there for 40 s now, and for all of a start when a ends, 100 s from now: it
 * starts in 5 s, and b is prepared from then on. */
static void a_future_knows_which_job_is_prepared_by_then(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_queue(&s, "firn", JOB, JOB_OF("110s"));
    early_job = loopscene_job(&s, "c")->id;
    tell(&s, "c");
    struct dryrun dry = {.stretch = 1};
    struct firn_error err = {0};
    loop_ahead_look(s.loop, dock_now_s(&s.loop->dock));
    assert_int_equal(dryrun_open_all(&dry, s.loop, &err), FIRN_OK);
    firn_job_id b_in = in_round(&s, "b"), c_in = in_round(&s, "c");
    assert_true(fabs(dryrun_ahead_s(&dry, c_in) - 40) < 1e-6);
    assert_true(dryrun_ahead_s(&dry, b_in) == 0);
    struct firn_costs costs = {0};
    const struct firn_job *job =
        desk_job(&s.loop->desk, desk_track(&s.loop->desk, early_job));
    dry.now_s += 100;
    desk_costs(&s.loop->desk, job, &costs);
    assert_true(costs.is_saved_known && fabs(costs.saved_s - 55) < 1e-6);
    dry.now_s -= 100;
    dryrun_roll(&dry);
    assert_int_equal(dry.order.n, 2);
    assert_int_equal(dry.order.at[0], c_in);
    assert_int_equal(dry.order.at[1], b_in);
    dryrun_close(&dry);
    desk_costs(&s.loop->desk, job, &costs);
    assert_true(fabs(costs.saved_s - 40) < 1);
    loopscene_close(&s);
}

/* The engine was told of b before c was submitted, and has no processes of b
 * yet. That is no reason for the longer one to go first. */
static void an_order_of_before_is_no_reason_for_the_next(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_queue(&s, "firn", JOB_OF("110s"), JOB);
    tell(&s, "b");
    struct dryrun dry = {.stretch = 1};
    struct firn_error err = {0};
    loop_ahead_look(s.loop, dock_now_s(&s.loop->dock));
    assert_int_equal(dryrun_open_all(&dry, s.loop, &err), FIRN_OK);
    dryrun_roll(&dry);
    assert_int_equal(dry.order.at[0], in_round(&s, "c"));
    assert_int_equal(dry.order.at[1], in_round(&s, "b"));
    dryrun_close(&dry);
    loopscene_close(&s);
}

/* c is prepared; b would come first under fifo. The engine is told of b then
 * and ends the preparation of c: so does a future whose order is known. */
static void
a_future_ends_the_preparation_of_a_job_that_is_not_next(void **unused)
{
    (void)unused;
    struct loopscene s;
    open_queue(&s, "fifo", JOB, JOB);
    early_job = loopscene_job(&s, "c")->id;
    tell(&s, "c");
    loop_ahead_look(s.loop, dock_now_s(&s.loop->dock));
    firn_job_id b_in = in_round(&s, "b"), c_in = in_round(&s, "c");
    struct dryrun_order order = {0};
    struct firn_error err = {0};
    for (int i = 0; i < 2; i++) {
        struct dryrun dry = {.stretch = 1};
        dryrun_ahead_expect(&dry, &order);
        assert_int_equal(dryrun_open_all(&dry, s.loop, &err), FIRN_OK);
        assert_int_equal(dry.ready.n, 1);
        assert_int_equal(dry.ready.at[0].job, i == 0 ? c_in : b_in);
        dryrun_roll(&dry);
        dryrun_ahead_keep(&dry, &order);
        dryrun_close(&dry);
    }
    assert_int_equal(order.at[0], b_in);
    vec_release(&order);
    loopscene_close(&s);
}

/* Four jobs wait whose durations differ by seconds. A second and a third future
 * prepare the job that started first in the first one, and have its order. */
static void a_forecast_goes_by_its_own_order(void **unused)
{
    (void)unused;
    static const char *const said[] = {"100s", "104s", "108s", "112s"};
    char name[] = "b";
    struct loopscene s;
    open_scene(&s, "firn");
    loopscene_submit(&s, "a", JOB);
    loopscene_turn(&s);
    for (int i = 0; i < 4; i++, name[0]++) {
        char file[160];
        snprintf(file, sizeof file, JOB_OF("%s"), said[i]);
        loopscene_submit(&s, name, file);
    }
    loopscene_turn(&s);
    struct dryrun_order order = {0}, again = {0};
    struct firn_error err = {0};
    for (int i = 0; i < 3; i++) {
        struct dryrun dry = {.stretch = 1};
        dryrun_ahead_expect(&dry, &order);
        assert_int_equal(dryrun_open_all(&dry, s.loop, &err), FIRN_OK);
        assert_int_equal(dry.ready.n, i > 0);
        if (i > 0)
            assert_int_equal(dry.ready.at[0].job, order.at[0]);
        dryrun_roll(&dry);
        assert_int_equal(dry.order.n, 4);
        dryrun_ahead_keep(&dry, i == 0 ? &order : &again);
        dryrun_close(&dry);
        for (size_t k = 0; i > 0 && k < 4; k++)
            assert_int_equal(order.at[k], again.at[k]);
    }
    vec_release(&order);
    vec_release(&again);
    loopscene_close(&s);
}

/* Also by a forecast without a decision since the last one. */
static void what_is_prepared_stays_foreseen(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_play.ahead_s = ahead_s;
    loopscene_play.foresee = foresee;
    nforeseen = 0;
    open_scene(&s, "firn");
    loopscene_submit(&s, "a", JOB);
    loopscene_turn(&s);
    const struct live_job *b = loopscene_submit(&s, "b", JOB);
    const struct live_job *c = loopscene_submit(&s, "c", JOB_OF("110s"));
    loopscene_turn(&s);
    assert_int_equal(foreseen_first, b->id);
    early_job = c->id;
    for (int i = 0; i < 4; i++) {
        int before = nforeseen;
        long ndecided = s.loop->desk.ndecided;
        loopscene_pass(&s, 6);
        assert_true(nforeseen > before);
        assert_int_equal(s.loop->desk.ndecided, ndecided);
        assert_int_equal(foreseen_first, c->id);
    }
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_start_is_shorter_by_what_is_prepared),
        CASE(the_end_of_a_job_is_for_the_foremost_one),
        CASE(a_start_that_was_cut_short_is_measured_whole),
        CASE(the_policy_is_told_of_starts_and_ends),
        CASE(a_future_host_is_not_nearly_done_before_it_is),
        CASE(ends_are_foretold_with_prepared_starts),
        CASE(firn_starts_the_job_whose_processes_are_there),
        CASE(a_future_knows_which_job_is_prepared_by_then),
        CASE(an_order_of_before_is_no_reason_for_the_next),
        CASE(a_future_ends_the_preparation_of_a_job_that_is_not_next),
        CASE(a_forecast_goes_by_its_own_order),
        CASE(what_is_prepared_stays_foreseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
