/* test_span.c - how long jobs take: learned, stretched, or said not to be
 * known.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "daemon/dryrunwork.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_OF(app)                                                       \
    "gpus: 1\ncheckpoint: {grace: 10}\nshare: allowed\nmemory: 4\napp: " app \
    "\n"
#define SHARED SHARED_OF("mine")
#define SOFT   "gpus: 1\ncheckpoint: {grace: 10}\n"

static const struct firn_job *in_round(struct loopscene *s, const char *name)
{
    const struct live_job *job = loopscene_job(s, name);
    return desk_job(&s->loop->desk, desk_track(&s->loop->desk, job->id));
}

/* The answer to `firn eta`. */
static const char *eta(struct loopscene *s, const char *name)
{
    static char out[2048];
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(dryrun_eta(s->loop, loopscene_job(s, name), &json, &err),
                     FIRN_OK);
    snprintf(out, sizeof out, "%s", json.at);
    buf_release(&json);
    return out;
}

/* A number of it; NaN: null. `nth` counts from 0 within a list. */
static double number(const char *json, const char *key, int nth)
{
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *at = strstr(json, name);
    assert_non_null(at);
    for (at += strlen(name); nth > 0; nth--)
        at = strchr(at, ',') + 1;
    at += strspn(at, " [");
    return strncmp(at, "null", 4) == 0 ? (double)NAN : strtod(at, NULL);
}

static void those_that_wait_learn_from_those_that_ended(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf", false);
    loopscene_submit(&s, "a", SOFT "app: mine");
    loopscene_turn(&s);
    loopscene_submit(&s, "b", SOFT "app: mine");
    loopscene_submit(&s, "c", SOFT "app: other\nduration: 500s");
    loopscene_submit(&s, "d", SOFT "app: mine");
    firn_job_id before = in_round(&s, "b")->id;
    assert_true(in_round(&s, "b")->spec.duration_s == 3600);
    loopscene_pass(&s, 100);
    loopscene_done(&s, "a"); /* so b goes before c, which says 500 s */
    assert_int_equal(loopscene_job(&s, "b")->state, LIVE_RUNNING);
    assert_true(fabs(in_round(&s, "d")->spec.duration_s - 100) < 5);
    assert_true(in_round(&s, "c")->spec.duration_s == 500);
    assert_int_equal(in_round(&s, "b")->id, before); /* no place is lost */
    loopscene_submit(&s, "e", SOFT "app: mine");
    assert_true(fabs(in_round(&s, "e")->spec.duration_s - 100) < 5);
    loopscene_close(&s);
    loopscene_open(&s, "1x1:v100@16", "sjf", true); /* and is remembered */
    assert_true(fabs(in_round(&s, "e")->spec.duration_s - 100) < 5);
    loopscene_close(&s);
}

static void the_nearest_kind_counts(void **unused)
{
    (void)unused;
    struct livehistory *h = livehistory_new();
    assert_true(livehistory_guess(h, "ann", "x") == 0);
    assert_true(livehistory_done(h, "ann", "x", 100));
    assert_false(livehistory_done(h, "ann", "x", 105)); /* no news */
    assert_true(livehistory_done(h, "bob", "x", 1000));
    assert_true(fabs(livehistory_guess(h, "ann", "x") - 102.5) < 1);
    assert_true(livehistory_guess(h, "bob", "x") == 1000);
    assert_true(fabs(livehistory_guess(h, "eve", "x") - 402) < 1);
    assert_true(fabs(livehistory_guess(h, "ann", "y") - 102.5) < 1);
    assert_true(livehistory_guess(h, "eve", "y") == 0);
    assert_true(livehistory_guess(h, "eve", "") == 0);
    assert_false(livehistory_done(h, "ann", "x", NAN));
    assert_false(livehistory_done(h, "ann", "x", -1));
    livehistory_free(h);
}

/* Users of the application have said 100 and 50 s for jobs of 110 and 55 s, of
 * which 20 s come before the first step and 5 behind the last: 100 s are 85.07
 * s of training, and 50 s 29.84 (model/told.h). So a is done after 110 s and b,
 * which waits for it, after 165. A user whose durations are right gets no start
 * on top of them: c takes 100 s in all. */
static void a_users_duration_has_the_start_and_the_end_in_it(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct livecosts *costs = s.loop->desk.costs;
    livecosts_add(costs, "mine", LIVECOST_START, 20);
    livecosts_add(costs, "mine", LIVECOST_END, 5);
    livecosts_ended(costs, "mine", 100, 110);
    livecosts_ended(costs, "mine", 50, 55);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_submit(&s, "b", SOFT "app: mine\nduration: 50s");
    loopscene_submit(&s, "c", SOFT "app: other\nduration: 100s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 110) < 1);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 110) < 1);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 165) < 1);
    assert_true(fabs(number(eta(&s, "c"), "finish_s", 0) - 265) < 1);
    const struct {
        const char *app;
        double duration_s, share, tolerance;
    } parts[] = {{"mine", 50, 0.5969, 1e-4},
                 {"mine", 5, 0.1, 1e-9},
                 {"other", 100, 0.75, 1e-9}};
    for (int i = 0; i < 3; i++) {
        const struct firn_job_spec spec = {.app = parts[i].app,
                                           .duration_s = parts[i].duration_s};
        double share = desk_share_of_training(&s.loop->desk, &spec);
        assert_true(fabs(share - parts[i].share) < parts[i].tolerance);
    }
    loopscene_close(&s);
}

/* Both make their last step after 80 s and hold their GPUs for 20 s more, at
 * the same time: the second does not wait for the end of the first. */
static void two_jobs_end_side_by_side(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 20);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_submit(&s, "b", SOFT "app: mine\nduration: 101s");
    loopscene_submit(&s, "c", SOFT "app: mine\nduration: 50s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 100) < 1);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 101) < 1);
    assert_true(fabs(number(eta(&s, "c"), "finish_s", 0) - 150) < 1);
    loopscene_close(&s);
}

/* Jobs of 200 s of start and 800 s of training, 2 times slower beside each
 * other. At 400 s a has 600 s of training left and b gets the same GPU. Until b
 * is through its start a loses nothing; then it has 400 s left, which take 800:
 * it ends 1000 s from now. b has done half of its training by then and does the
 * rest alone, in 400 s. A report of a from the time alone is not taken for one
 * beside b, neither before nor after the first step of b. */
static void
a_job_is_slowed_from_the_first_step_of_its_neighbour_on(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_START, 200);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t999\n");
    loopscene_submit(&s, "a", SHARED "duration: 1000s");
    loopscene_turn(&s);
    loopscene_pass(&s, 300);
    loopscene_report(&s, "a", 0.125, 8, 100);
    loopscene_pass(&s, 100);
    loopscene_report(&s, "a", 0.25, 8, 100);
    loopscene_submit(&s, "b", SHARED "duration: 1000s");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b running n0[0]~");
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 1000) < 20);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 1400) < 20);
    loopscene_pass(&s, 200);
    loopscene_report(&s, "a", 0.5, 8, 100);
    loopscene_pass(&s, 80); /* b has trained for 80 s, and so 40 of 800 */
    loopscene_report(&s, "b", 0.05, 16, 100);
    loopscene_report(&s, "a", 0.55, 16, 100);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 720) < 20);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 1120) < 20);
    loopscene_close(&s);
}

/* The same of jobs that are all to come: w ends after 100 s, b trains for 100 s
 * from then on, and c, which starts beside it, makes its first step after 300.
 */
static void a_start_that_is_to_come_slows_no_job_down(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_START, 200);
    livecosts_add(s.loop->desk.costs, "quick", LIVECOST_START, 0);
    liveforecast_load_slowdowns(s.loop->desk.forecast,
                                "mine\tmine\t2\t999\nquick\tmine\t2\t999\n"
                                "mine\tquick\t2\t999\n");
    loopscene_submit(&s, "w", SOFT "duration: 100s\napp: whole");
    loopscene_turn(&s);
    loopscene_submit(&s, "b", SHARED_OF("quick") "duration: 100s");
    loopscene_submit(&s, "c", SHARED_OF("mine") "duration: 1000s");
    loopscene_turn(&s);
    double start_s = number(eta(&s, "b"), "start_s", 0);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - start_s - 100) < 5);
    loopscene_close(&s);
}

/* Jobs of 800 s of training and 200 s behind their last step, 2 times slower
 * beside each other. a has 400 s of training left and b all of it when b gets
 * the same GPU: a makes its last step after 800 s and ends 1000 s from now. b
 * has done 400 by then, does the rest alone in 400 s while a ends, and ends
 * 1400 s from now. */
static void a_job_slows_its_neighbour_until_its_last_step(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 200);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t999\n");
    loopscene_submit(&s, "a", SHARED "duration: 1000s");
    loopscene_turn(&s);
    loopscene_pass(&s, 200);
    loopscene_report(&s, "a", 0.25, 8, 100);
    loopscene_pass(&s, 200);
    loopscene_report(&s, "a", 0.5, 8, 100);
    loopscene_submit(&s, "b", SHARED "duration: 1000s");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b running n0[0]~");
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 1000) < 20);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 1400) < 20);
    loopscene_close(&s);
}

/* a has nothing left but its end: b starts beside it and does not wait for it.
 */
static void a_job_starts_beside_one_behind_its_last_step(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"sjf-ffs", "firn"};
    for (int i = 0; i < 2; i++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:v100@16", policies[i], false);
        livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 200);
        loopscene_submit(&s, "a", SHARED "duration: 1000s");
        loopscene_turn(&s);
        loopscene_pass(&s, 800);
        loopscene_report(&s, "a", 1, 8, 100);
        loopscene_submit(&s, "b", SHARED "duration: 1000s");
        loopscene_turn(&s);
        assert_string_equal(loopscene_text(&s),
                            "a running n0[0]~; b running n0[0]~");
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* A job of 100 s whose first steps are slow: in a second it does half of one,
 * and would take 200 s. What is between its first two reports does not count.
 * From the third on, with durations of its application known to be right, 2 s
 * of the expected rate count beside what was seen: (0.5 + 2) / 3, and 120 s.
 * Later what was seen counts. Nothing is expected where no duration was judged.
 */
static void a_slow_first_step_says_little(void **unused)
{
    (void)unused;
    static const char *const apps[] = {SOFT "app: known\nduration: 100s",
                                       SOFT "app: new\nduration: 100s"};
    for (int i = 0; i < 2; i++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:v100@16", "fifo", false);
        livecosts_add(s.loop->desk.costs, "known", LIVECOST_ESTIMATE, 1);
        loopscene_submit(&s, "a", apps[i]);
        loopscene_turn(&s);
        loopscene_report(&s, "a", 0.0001, 1, 100);
        loopscene_pass(&s, 1);
        loopscene_report(&s, "a", 0.005, 2, 100);
        if (i == 0)
            assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 100) < 2);
        loopscene_pass(&s, 1);
        loopscene_report(&s, "a", 0.01, 2, 100);
        double early_s = number(eta(&s, "a"), "finish_s", 0);
        assert_true(i == 0 ? early_s > 100 && early_s < 150 : early_s > 190);
        loopscene_pass(&s, 47);
        loopscene_report(&s, "a", 0.48, 1, 100);
        assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 53) < 2);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* The first step of a job of 100 s takes 4 s instead of one. The policy is told
 * a quarter of the rate where nothing was expected. Where it was, 2 s of that
 * count beside 10 s of what was seen: (10 / 4 + 2) / 12. */
static void policies_do_not_believe_a_slow_first_step(void **unused)
{
    (void)unused;
    static const char *const apps[] = {SOFT "app: known\nduration: 100s",
                                       SOFT "app: new\nduration: 100s"};
    static const double first[] = {1, 0.25}, second[] = {0.375, 0.25};
    for (int i = 0; i < 2; i++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:v100@16", "fifo", false);
        livecosts_add(s.loop->desk.costs, "known", LIVECOST_ESTIMATE, 1);
        loopscene_submit(&s, "a", apps[i]);
        loopscene_turn(&s);
        loopscene_report(&s, "a", 0.01, 4, 100);
        assert_true(fabs(in_round(&s, "a")->rate - first[i]) < 1e-6);
        loopscene_pass(&s, 10);
        loopscene_report(&s, "a", 0.02, 4, 100);
        assert_true(fabs(in_round(&s, "a")->rate - second[i]) < 0.01);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

static void measured_pairs_are_there_after_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf text = {0};
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t9\n");
    loopscene_submit(&s, "a", SHARED "duration: 1000s");
    loopscene_turn(&s);
    loopscene_pass(&s, 120); /* they are written every 60 s */
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", true);
    liveforecast_save_slowdowns(s.loop->desk.forecast, &text);
    assert_int_equal(text.n, strlen("mine\tmine\t2\t9\n"));
    assert_memory_equal(text.at, "mine\tmine\t2\t9\n", text.n);
    buf_release(&text);
    loopscene_close(&s);
}

/* Starts of the application take 20 s: policies see that it trains from then
 * on, as in a simulation, until its first report says when it did. */
static void the_round_knows_when_a_started_job_begins_to_train(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    struct desk *desk = &s.loop->desk;
    livecosts_add(desk->costs, "mine", LIVECOST_START, 20);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    const struct track *track = desk_track(desk, loopscene_job(&s, "a")->id);
    const struct firn_job *job = desk_job(desk, track);
    double began_s = job->since_s;
    assert_true(fabs(job->resumes_s - began_s - 20) < 1e-6);
    loopscene_pass(&s, 10);
    loopscene_report(&s, "a", 0.1, 8, 100);
    job = desk_job(desk, track);
    assert_true(fabs(job->resumes_s - began_s - 10) < 1);
    loopscene_close(&s);
}

/* A policy that is asked about the future gets the answers of the real one. */
static void a_dry_run_has_the_forecasts_of_the_round(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct dryrun dry = {.stretch = 1};
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    assert_int_equal(dryrun_open_all(&dry, s.loop, &err), FIRN_OK);
    struct firn_view live = round_view(s.loop->desk.round, 0);
    struct firn_view view = round_view(dry.round, 0);
    assert_ptr_equal(view.forecast, live.forecast);
    assert_ptr_equal(view.forecaster, live.forecaster);
    assert_int_equal(view.ahead_s, live.ahead_s);
    dryrun_close(&dry);
    loopscene_close(&s);
}

/* It reported its last step 15 s ago, and jobs are gone 20 s behind that. */
static void the_end_of_a_job_counts_from_its_last_step(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 20);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    loopscene_pass(&s, 40);
    loopscene_report(&s, "a", 0.5, 0.8, 100);
    loopscene_pass(&s, 40);
    loopscene_report(&s, "a", 1, 0.8, 100);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 20) < 2);
    loopscene_pass(&s, 15);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 5) < 2);
    loopscene_close(&s);
}

/* a and b make their last steps at the same time on one GPU, and are gone after
 * 5 s. Of an application that has none that is how long its ends take; one that
 * has learns it of ends alone. */
static void ends_beside_each_other_count_for_new_applications(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    struct livecosts *costs = s.loop->desk.costs;
    livecosts_add(costs, "mine", LIVECOST_END, 3);
    loopscene_submit(&s, "a", SHARED "duration: 100s");
    loopscene_submit(&s, "b", SHARED_OF("other") "duration: 100s");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "a running n0[0]~; b running n0[0]~");
    loopscene_pass(&s, 100);
    loopscene_report(&s, "a", 1, 1, 100);
    loopscene_report(&s, "b", 1, 1, 100);
    loopscene_pass(&s, 5);
    loopscene_done(&s, "a");
    loopscene_done(&s, "b");
    assert_true(livecosts_own_mean(costs, "mine", LIVECOST_END) == 3);
    assert_true(fabs(livecosts_own_mean(costs, "other", LIVECOST_END) - 5) < 1);
    loopscene_submit(&s, "c", SHARED "duration: 100s");
    loopscene_turn(&s);
    loopscene_pass(&s, 100);
    loopscene_report(&s, "c", 1, 1, 100);
    loopscene_pass(&s, 7);
    loopscene_done(&s, "c");
    assert_true(fabs(livecosts_own_mean(costs, "mine", LIVECOST_END) - 5) < 1);
    loopscene_close(&s);
}

/* Its user said 100 s; it was silent for 300, so that it was taken to need more
 * and more, and took 410 in all: 4.1 times what its user said. */
static void
what_a_duration_was_wrong_by_is_that_of_the_users_word(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    for (int i = 0; i < 6; i++)
        loopscene_pass(&s, 50);
    assert_true(in_round(&s, "a")->spec.duration_s > 250);
    loopscene_report(&s, "a", 0.5, 1, 100);
    loopscene_pass(&s, 100);
    loopscene_report(&s, "a", 0.9, 1, 100);
    loopscene_pass(&s, 10);
    loopscene_done(&s, "a");
    double wrong =
        livecosts_own_mean(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE);
    assert_true(fabs(wrong - 4.1) < 0.1);
    loopscene_close(&s);
}

/* It never said how fast it went; it took 40 of 100 s. */
static void a_duration_is_judged_without_reports(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    loopscene_pass(&s, 40);
    loopscene_done(&s, "a");
    double wrong =
        livecosts_own_mean(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE);
    assert_true(fabs(wrong - 0.4) < 0.02);
    loopscene_close(&s);
}

/* Both on one GPU: what they take says nothing about a job alone, not even of
 * the one that stays behind. */
static void no_duration_is_judged_of_jobs_on_shared_gpus(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    loopscene_submit(&s, "a", SHARED "duration: 100s");
    loopscene_turn(&s);
    loopscene_submit(&s, "b", SHARED "duration: 100s");
    loopscene_pass(&s, 40);
    assert_non_null(strstr(loopscene_text(&s), "b running n0[0]~"));
    loopscene_done(&s, "a");
    loopscene_pass(&s, 40);
    loopscene_done(&s, "b");
    assert_true(
        livecosts_own_mean(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE) < 0);
    loopscene_submit(&s, "c", SHARED "duration: 100s");
    loopscene_turn(&s);
    loopscene_pass(&s, 70);
    loopscene_done(&s, "c");
    assert_true(livecosts_own_mean(s.loop->desk.costs, "mine",
                                   LIVECOST_ESTIMATE) > 0.6);
    loopscene_close(&s);
}

/* Reports of a job come 10.9 s apart. Beside each other both take 16 of these
 * for 0.99 of their training, which is 88.1 s alone, and start and end take
 * 1.9 s: 100 s were 90. Of a pair that was never measured nothing is known. */
static void a_duration_is_judged_of_jobs_whose_slowdown_is_known(void **unused)
{
    (void)unused;
    static const char *const known[] = {"mine\tmine\t2\t9\n", ""};
    for (int k = 0; k < 2; k++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
        liveforecast_load_slowdowns(s.loop->desk.forecast, known[k]);
        loopscene_submit(&s, "a", SHARED "duration: 100s");
        loopscene_submit(&s, "b", SHARED "duration: 100s");
        loopscene_turn(&s);
        for (int i = 0; i <= 16; i++) {
            loopscene_report(&s, "a", 0.01 + 0.99 * i / 16, 0, 100);
            loopscene_report(&s, "b", 0.01 + 0.99 * i / 16, 0, 100);
            loopscene_pass(&s, i < 16 ? 10 : 1);
        }
        assert_non_null(strstr(loopscene_text(&s), "b running n0[0]~"));
        loopscene_done(&s, "a");
        double wrong =
            livecosts_own_mean(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE);
        assert_true(k == 0 ? fabs(wrong - 0.9) < 0.01 : wrong < 0);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* Its first step began 20 s after it got its GPU and took 5 s, the 99 others
 * took 75 s, 0.76 each: the first one took 4.24 s longer, which is a part of a
 * start of 24.24, behind which 75.76 s of the user's 125 are training. */
static void slow_first_steps_are_a_part_of_the_start(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 125s");
    loopscene_turn(&s);
    struct live_job *job = book_job(s.loop->book, loopscene_job(&s, "a")->id);
    desk_track(&s.loop->desk, job->id)->launch_s = 1e-3;
    job->last.prepare_s = 20;
    loopscene_pass(&s, 25);
    for (int i = 0; i <= 9; i++) {
        loopscene_report(&s, "a", 0.01 + 0.11 * i, 0.75, 100);
        loopscene_pass(&s, i < 9 ? 75. / 9 - 0.6 : 0); /* turns: 0.3 s each */
    }
    loopscene_done(&s, "a");
    double wrong =
        livecosts_own_mean(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE);
    assert_true(fabs(wrong - 0.8) < 0.015);
    const struct desk *desk = &s.loop->desk;
    double first_s = livecosts_own_mean(desk->costs, "mine", LIVECOST_FIRST);
    assert_true(fabs(first_s - 4.24) < 0.7); /* turns take time */
    assert_true(fabs(desk_start_s(desk, "mine", 0) - 24.24) < 0.7);
    assert_true(fabs(desk_start_s(desk, "mine", 1000) - 4.24) < 0.7);
    const struct firn_job_spec spec = {.app = "mine", .duration_s = 125};
    double share = desk_share_of_training(desk, &spec);
    assert_true(fabs(share - 75.76 / 125) < 0.01);
    loopscene_close(&s);
}

/* The first tenth took 10.3 s, the others 10 s each: that is chance. */
static void steps_that_are_hardly_slower_are_not_slow(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 125s");
    loopscene_turn(&s);
    struct live_job *job = book_job(s.loop->book, loopscene_job(&s, "a")->id);
    desk_track(&s.loop->desk, job->id)->launch_s = 1e-3;
    job->last.prepare_s = 20;
    loopscene_pass(&s, 30);
    for (int i = 1; i <= 10; i++) {
        loopscene_report(&s, "a", 0.1 * i, 1, 100);
        loopscene_pass(&s, i < 10 ? 9.7 : 0); /* turns: 0.3 s each */
    }
    loopscene_done(&s, "a");
    const struct livecosts *costs = s.loop->desk.costs;
    assert_true(livecosts_own_mean(costs, "mine", LIVECOST_FIRST) == 0);
    loopscene_close(&s);
}

/* As the slow ones above, but later steps had frozen layers: how much longer
 * the first ones took than as many like them is not known. */
static void steps_of_several_kinds_say_nothing_of_the_first_ones(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 125s");
    loopscene_turn(&s);
    struct live_job *job = book_job(s.loop->book, loopscene_job(&s, "a")->id);
    desk_track(&s.loop->desk, job->id)->launch_s = 1e-3;
    job->last.prepare_s = 20;
    loopscene_pass(&s, 25);
    for (int i = 0; i <= 9; i++) {
        loopscene_report(&s, "a", 0.01 + 0.11 * i, 0.75, 100);
        loopscene_pass(&s, i < 9 ? 75. / 9 - 0.6 : 0);
    }
    job->last.nfrozen = 1;
    loopscene_done(&s, "a");
    const struct livecosts *costs = s.loop->desk.costs;
    assert_true(livecosts_own_mean(costs, "mine", LIVECOST_FIRST) < 0);
    loopscene_close(&s);
}

/* Users of the application have said 100 s for jobs of 100: 20 s until their
 * first step, 30 more for slow first ones, and 50. At its first report the job
 * has taken 20 s and has made one step of 100; it ends 80 s later, and 60 s
 * later when another 20 have passed. */
static void a_job_in_its_slow_first_steps_is_not_late(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct livecosts *costs = s.loop->desk.costs;
    livecosts_add(costs, "mine", LIVECOST_START, 20);
    livecosts_add(costs, "mine", LIVECOST_FIRST, 30);
    livecosts_add(costs, "mine", LIVECOST_ESTIMATE, 1);
    livecosts_ended(costs, "mine", 100, 100);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 100) < 1);
    struct live_job *job = book_job(s.loop->book, loopscene_job(&s, "a")->id);
    struct track *track = desk_track(&s.loop->desk, job->id);
    track->launch_s = 1e-3;
    job->last.prepare_s = 20;
    loopscene_pass(&s, 20);
    loopscene_report(&s, "a", 0.01, 0, 100);
    assert_false(desk_is_training(&s.loop->desk, track));
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 79) < 1.5);
    double left_s = desk_left(&s.loop->desk, job, track).left_s;
    assert_true(fabs(left_s - 79) < 1.5);
    loopscene_pass(&s, 20);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 59) < 1.5);
    loopscene_pass(&s, 10);
    assert_true(desk_is_training(&s.loop->desk, track));
    loopscene_close(&s);
}

/* As in a_job_is_slowed_from_the_first_step_of_its_neighbour_on, but of the 200
 * s of b's start 80 are slow first steps: until they are over, its neighbour
 * is as fast as before, also by the reports of both. */
static void slow_first_steps_slow_no_neighbour_down(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    struct livecosts *costs = s.loop->desk.costs;
    livecosts_add(costs, "mine", LIVECOST_START, 120);
    livecosts_add(costs, "mine", LIVECOST_FIRST, 80);
    liveforecast_load_slowdowns(s.loop->desk.forecast, "mine\tmine\t2\t999\n");
    loopscene_submit(&s, "a", SHARED "duration: 1000s");
    loopscene_turn(&s);
    loopscene_pass(&s, 300);
    loopscene_report(&s, "a", 0.125, 8, 100);
    loopscene_pass(&s, 100);
    loopscene_report(&s, "a", 0.25, 8, 100);
    loopscene_submit(&s, "b", SHARED "duration: 1000s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 1000) < 20);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 1400) < 20);
    struct live_job *b = book_job(s.loop->book, loopscene_job(&s, "b")->id);
    desk_track(&s.loop->desk, b->id)->launch_s = 1e-3;
    b->last.prepare_s = 120;
    loopscene_pass(&s, 120);
    loopscene_report(&s, "b", 0.01, 0, 100);
    loopscene_report(&s, "a", 0.4, 8, 100);
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 880) < 20);
    assert_true(fabs(number(eta(&s, "b"), "finish_s", 0) - 1280) < 20);
    loopscene_pass(&s, 81); /* they are over; a's steps were beside them */
    loopscene_report(&s, "a", 0.5, 8, 100);
    double slowdown = liveforecast_slowdown(
        s.loop->desk.forecast,
        (struct liveforecast_job){loopscene_job(&s, "a")->id,
                                  in_round(&s, "a")},
        (struct liveforecast_job){b->id, in_round(&s, "b")});
    assert_true(fabs(slowdown - 2) < 1e-3); /* nothing was learned of the two */
    loopscene_close(&s);
}

/* Users of the application said a fifth of what their jobs took: 100 s are 500,
 * and a job that has run for 300 of them is not late. */
static void
a_job_is_not_late_where_durations_are_known_to_be_short(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_ESTIMATE, 5);
    loopscene_submit(&s, "a", SOFT "app: mine\nduration: 100s");
    loopscene_submit(&s, "b", SOFT "app: mine\nduration: 100s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 500) < 5);
    loopscene_pass(&s, 300);
    assert_true(in_round(&s, "a")->spec.duration_s == 100);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 200) < 5);
    loopscene_close(&s);
}

static void a_job_beyond_its_guess_is_taken_to_need_more(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "duration: 100s");
    loopscene_submit(&s, "b", SOFT "duration: 50s");
    loopscene_turn(&s);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 100) < 5);
    loopscene_pass(&s, 60);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 40) < 5);
    loopscene_pass(&s, 60); /* 120 of 100 s */
    assert_true(fabs(in_round(&s, "a")->spec.duration_s - 150) < 1);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 30) < 5);
    loopscene_pass(&s, 1000);
    assert_true(in_round(&s, "a")->spec.duration_s > 1100);
    assert_true(number(eta(&s, "b"), "start_s", 0) > 1);
    /* Its own report is better than any guess: 90 of 100 steps, 1 s each. */
    loopscene_report(&s, "a", 0.9, 1, 1024);
    assert_true(fabs(number(eta(&s, "b"), "start_s", 0) - 10) < 3);
    loopscene_close(&s);
}

/* Between two looks of which the first says that there is time. */
static void
a_job_is_taken_to_need_more_when_its_time_is_nearly_over(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "duration: 300s");
    loopscene_turn(&s);
    for (int i = 1; i <= 26; i++) { /* 260 of 300 s */
        loopscene_pass(&s, 10);
        assert_true(in_round(&s, "a")->spec.duration_s == 300);
    }
    for (int i = 1; i <= 3; i++) /* 290: more than 0.95 of it */
        loopscene_pass(&s, 10);
    assert_true(in_round(&s, "a")->spec.duration_s == 450);
    loopscene_close(&s);
}

static void no_eta_is_given_behind_a_job_of_unknown_duration(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 2"); /* pinned */
    loopscene_submit(&s, "b", SOFT "duration: 50s");
    loopscene_turn(&s);
    const char *answer = eta(&s, "b");
    assert_non_null(strstr(answer, "not known when it starts, because job 1 "
                                   "(a), which goes before it, has no"));
    assert_true(isnan(number(answer, "start_s", 0)));
    assert_true(isnan(number(answer, "finish_range_s", 1)));
    answer = eta(&s, "a");
    assert_non_null(strstr(answer, "not known when it ends, because"));
    assert_true(isnan(number(answer, "finish_s", 0)));
    loopscene_report(&s, "a", 0.5, 2, 1024); /* 50 steps left, 2 s each */
    answer = eta(&s, "b");
    assert_true(fabs(number(answer, "start_s", 0) - 100) < 5);
    assert_true(fabs(number(answer, "finish_s", 0) - 150) < 5);
    assert_non_null(strstr(answer, "\"unknown\": null"));
    assert_true(fabs(number(eta(&s, "a"), "finish_s", 0) - 100) < 5);
    loopscene_close(&s);
}

/* In the round and without a word, as the pinned one above. */
static void a_queue_without_durations_is_not_guessed(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT "duration: 100s");
    loopscene_submit(&s, "b", SOFT);
    loopscene_submit(&s, "c", SOFT "duration: 10s");
    loopscene_turn(&s);
    const char *answer = eta(&s, "b"); /* its start is known, not its end */
    assert_true(fabs(number(answer, "start_s", 0) - 100) < 5);
    assert_true(number(answer, "start_range_s", 0) < 60);
    assert_true(number(answer, "start_range_s", 1) > 190);
    assert_true(isnan(number(answer, "finish_s", 0)));
    answer = eta(&s, "c");
    assert_true(isnan(number(answer, "start_s", 0)));
    assert_non_null(strstr(answer, "because job 2 (b)"));
    struct live_ask ask = {0};
    struct firn_buf json = {0};
    struct firn_error err = {0};
    ask.name = ask.app = ask.user = ask.queue = ask.types = "";
    ask.consistency = ask.guarantee = ask.scan = "";
    ask.precision = ask.optimizer = ask.attention = ask.checkpointing = "";
    ask.gpus_min = ask.gpus_max = 1;
    ask.duration_s = 5;
    assert_int_equal(dryrun_plan(s.loop, &ask, &json, &err), FIRN_OK);
    assert_non_null(strstr(json.at, "because job 2 (b)"));
    buf_release(&json);
    loopscene_close(&s);
}

/* Jobs of the application took 2 s for a step alone. Behind a restart one that
 * was never alone takes 3 s beside another: 1.5 times as long. */
static void a_pair_is_judged_by_steps_from_before_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf text = {0};
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    loopscene_submit(&s, "a", SHARED "duration: 1000s\nbatch: 8");
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.1, 2, 100);
    loopscene_report(&s, "a", 0.2, 2, 100);
    loopscene_pass(&s, 120); /* they are written every 60 s */
    loopscene_done(&s, "a");
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", true);
    loopscene_submit(&s, "b", SHARED "duration: 1000s\nbatch: 8");
    loopscene_submit(&s, "c", SHARED "duration: 1000s\nbatch: 8");
    loopscene_turn(&s);
    for (int i = 1; i < 4; i++) {
        loopscene_report(&s, "c", 0.1 * i, 3, 100);
        loopscene_report(&s, "b", 0.1 * i, 3, 100);
    }
    liveforecast_save_slowdowns(s.loop->desk.forecast, &text);
    assert_true(text.n > strlen("mine\tmine\t"));
    double slowdown = strtod(text.at + strlen("mine\tmine\t"), NULL);
    assert_true(fabs(slowdown - 1.5) < 0.01);
    buf_release(&text);
    loopscene_close(&s);
}

/* b is alone on the GPU from the last step of a on, though a holds it still:
 * its steps of 2 s say nothing about the two of them. */
static void a_pair_is_judged_until_the_last_step_of_either(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf text = {0};
    loopscene_open(&s, "1x1:v100@16", "sjf-ffs", false);
    loopscene_submit(&s, "a", SHARED "duration: 1000s\nbatch: 8");
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.1, 2, 100);
    loopscene_report(&s, "a", 0.2, 2, 100);
    loopscene_submit(&s, "b", SHARED "duration: 1000s\nbatch: 8");
    loopscene_turn(&s);
    for (int i = 1; i < 4; i++)
        loopscene_report(&s, "b", 0.1 * i, 3, 100);
    loopscene_report(&s, "a", 1, 3, 100);
    for (int i = 4; i < 9; i++)
        loopscene_report(&s, "b", 0.1 * i, 2, 100);
    liveforecast_save_slowdowns(s.loop->desk.forecast, &text);
    assert_true(text.n > strlen("mine\tmine\t"));
    double slowdown = strtod(text.at + strlen("mine\tmine\t"), NULL);
    assert_true(fabs(slowdown - 1.5) < 0.01);
    buf_release(&text);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(those_that_wait_learn_from_those_that_ended),
        CASE(the_nearest_kind_counts),
        CASE(a_users_duration_has_the_start_and_the_end_in_it),
        CASE(two_jobs_end_side_by_side),
        CASE(what_a_duration_was_wrong_by_is_that_of_the_users_word),
        CASE(a_duration_is_judged_without_reports),
        CASE(no_duration_is_judged_of_jobs_on_shared_gpus),
        CASE(a_duration_is_judged_of_jobs_whose_slowdown_is_known),
        CASE(slow_first_steps_are_a_part_of_the_start),
        CASE(steps_that_are_hardly_slower_are_not_slow),
        CASE(steps_of_several_kinds_say_nothing_of_the_first_ones),
        CASE(a_job_in_its_slow_first_steps_is_not_late),
        CASE(slow_first_steps_slow_no_neighbour_down),
        CASE(the_end_of_a_job_counts_from_its_last_step),
        CASE(ends_beside_each_other_count_for_new_applications),
        CASE(the_round_knows_when_a_started_job_begins_to_train),
        CASE(a_dry_run_has_the_forecasts_of_the_round),
        CASE(a_job_is_slowed_from_the_first_step_of_its_neighbour_on),
        CASE(a_start_that_is_to_come_slows_no_job_down),
        CASE(a_job_slows_its_neighbour_until_its_last_step),
        CASE(a_pair_is_judged_until_the_last_step_of_either),
        CASE(a_job_starts_beside_one_behind_its_last_step),
        CASE(a_slow_first_step_says_little),
        CASE(policies_do_not_believe_a_slow_first_step),
        CASE(measured_pairs_are_there_after_a_restart),
        CASE(a_pair_is_judged_by_steps_from_before_a_restart),
        CASE(a_job_is_not_late_where_durations_are_known_to_be_short),
        CASE(a_job_beyond_its_guess_is_taken_to_need_more),
        CASE(a_job_is_taken_to_need_more_when_its_time_is_nearly_over),
        CASE(no_eta_is_given_behind_a_job_of_unknown_duration),
        CASE(a_queue_without_durations_is_not_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
