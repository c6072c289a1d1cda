/* test_sim.c - schedules worked out by hand, from trace file to result.
 *
 * Each case draws its schedule in a comment; the numbers follow from it and
 * are checked exactly where they are exact in binary. Charts read: one row per
 * job, [from..to) in seconds.
 */
#include "lib/play.h"
#include <firn/policy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* Of four GPUs:
 *   a 2 GPUs  [0..100)
 *   b 4 GPUs  comes at 10, [100..150)
 *   c 1 GPU   comes at 20, behind b, [150..180)
 *   d 2 GPUs  comes at 30, behind b, [150..190)
 */
static const char four[] = "a,0,2,100\n"
                           "b,10,4,50\n"
                           "c,20,1,30\n"
                           "d,30,2,40\n";

static void set(struct play *play, const char *const *setting)
{
    play->options.settings = setting;
    play->options.nsettings = 1;
}

static void strict_fifo_blocks_behind_a_job_that_does_not_fit(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", four);
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 100);
    assert_true(play_end(&play, "b") == 150);
    assert_true(play_end(&play, "c") == 180);
    assert_true(play_end(&play, "d") == 190);
    assert_string_equal(play.done.at[3].name, "d");
    assert_true(play_job(&play, "b")->first_start_s == 100);
    assert_true(play_job(&play, "d")->served_gpu_s == 80);
    play_close(&play);
}

/* JCT: 100, 140, 160, 160. Without GPUs: 0, 90, 130, 120.
 * Percentiles between ranks 0..3: p50 at 1.5, p90 at 2.7, p99 at 2.97. */
static void times_of_the_strict_schedule(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", four);
    play_run(&play, "fifo");
    const struct firn_sim_result *r = &play.result;
    assert_int_equal(r->jobs, 4);
    assert_int_equal(r->unfinished + r->rejected + r->bad_rows, 0);
    assert_true(r->jct_mean_s == 140);
    assert_true(r->jct_p50_s == 150);
    assert_true(r->jct_p90_s == 160 && r->jct_p99_s == 160);
    assert_true(r->jct_max_s == 160);
    assert_true(r->queue_mean_s == 85);
    assert_true(r->queue_p50_s == 105);
    assert_true(play_near(r->queue_p99_s, 129.7));
    assert_true(r->makespan_s == 190);
    assert_int_equal(r->restarts, 0);
    assert_int_equal(r->classes[0].jobs, 1);
    assert_true(r->classes[0].jct_mean_s == 160);
    assert_int_equal(r->classes[1].jobs, 3);
    assert_true(play_near(r->classes[1].jct_mean_s, 400.0 / 3));
    assert_int_equal(r->classes[2].jobs + r->classes[3].jobs, 0);
    assert_true(isnan(r->classes[3].jct_mean_s));
    play_close(&play);
}

/* Held: 2x100 + 4x50 + 1x30 + 2x40 = 510 of 4x190 GPU-seconds, all useful.
 * Free: 2x100 + 0 + 1x30 + 2x10 = 250, all of it on the one, partly used node.
 *
 * rho = JCT / (duration / min(1, G/N/gpus)), N from the number of jobs here:
 * 1 from 0, 2 from 10, 3 from 20, 4 from 30, 3 from 100, 2 from 150 (b gone),
 * 1 from 180.
 *   a: 10 + 20 + 30 + 280 = 340 job-seconds in 100 s, N 3.4: share 4/3.4/2
 *   b: 20 + 30 + 280 + 150 = 480 in 140 s: share 4/(480/140)/4
 *   c: 30 + 280 + 150 + 60 = 520 in 160 s, N 3.25: share 1
 *   d: 280 + 150 + 60 + 10 = 500 in 160 s, N 3.125: share 4/3.125/2 = 0.64 */
static void ratios_and_fairness_of_the_strict_schedule(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", four);
    play_run(&play, "fifo");
    const struct firn_sim_result *r = &play.result;
    assert_true(play_near(r->gpu_alloc_ratio, 510.0 / 760));
    assert_true(play_near(r->gpu_util_ratio, 510.0 / 760));
    assert_true(r->fragmentation == 1);
    assert_true(r->gpu_s_given == 510 && r->gpu_s_useful == 510);
    double a = 1 / 1.7, b = 140 * (140.0 / 480) / 50, c = 160.0 / 30, d = 2.56;
    assert_true(play_near(play_job(&play, "a")->rho, a));
    assert_true(play_near(play_job(&play, "b")->rho, b));
    assert_true(play_near(play_job(&play, "c")->rho, c));
    assert_true(play_near(play_job(&play, "d")->rho, d));
    assert_true(play_near(r->rho_mean, (a + b + c + d) / 4));
    assert_true(play_near(r->rho_p50, (b + d) / 2));
    assert_true(play_near(r->rho_p99, d + (c - d) * 0.97));
    assert_true(play_near(r->rho_max, c));
    assert_true(r->unfair_share == 0.5);
    play_close(&play);
}

/* c fits at 20; d does not before c ends; b waits for all four GPUs:
 *   a [0..100)  c [20..50)  d [50..90)  b [100..150) */
static void fifo_with_skip_lets_small_jobs_pass(void **state)
{
    (void)state;
    static const char *const skip[] = {"fifo.skip=1"};
    struct play play;
    play_open(&play, "1x4:v100", four);
    set(&play, skip);
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 100);
    assert_true(play_end(&play, "b") == 150);
    assert_true(play_end(&play, "c") == 50);
    assert_true(play_end(&play, "d") == 90);
    assert_true(play.result.jct_mean_s == (100 + 140 + 30 + 60) / 4.0);
    assert_true(play.result.makespan_s == 150);
    play_close(&play);
}

/* Two GPUs; a has both until 100. Then in order c (10 s), d (20 s, two GPUs),
 * b (50 s):
 *   skipping:  c [100..110)  b [100..150)  d [150..170)
 *   strict:    c [100..110)  d [110..130)  b [130..180) */
static void sjf_serves_short_jobs_first(void **state)
{
    (void)state;
    static const char *const strict[] = {"sjf.skip=0"};
    struct play play;
    play_open(&play, "1x2:v100", "a,0,2,100\nb,1,1,50\nc,2,1,10\nd,3,2,20\n");
    play_run(&play, "sjf");
    assert_true(play_end(&play, "c") == 110);
    assert_true(play_end(&play, "b") == 150);
    assert_true(play_end(&play, "d") == 170);
    set(&play, strict);
    play_run(&play, "sjf");
    assert_true(play_end(&play, "c") == 110);
    assert_true(play_end(&play, "d") == 130);
    assert_true(play_end(&play, "b") == 180);
    play_close(&play);
}

/* Two GPUs; short (1 GPU, 3 s) comes at 2 and has 3 s left, long 8 s:
 *   long 2 GPUs [0..2) and [5..13), short [2..5) */
static void srtf_preempts_for_a_shorter_rest(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x2:v100", "long,0,2,10\nshort,2,1,3\n");
    play_run(&play, "srtf");
    assert_true(play_end(&play, "short") == 5);
    assert_true(play_end(&play, "long") == 13);
    assert_int_equal(play_job(&play, "long")->restarts, 1);
    assert_int_equal(play.result.restarts, 1);
    assert_true(play_job(&play, "long")->queue_s == 3);
    assert_true(play.result.gpu_s_overhead == 0);
    play_close(&play);
}

/* With a restart of 4 s long resumes at 9 and ends at 17. Held: 2x2 + 1x3 +
 * 2x12 = 31 of 34 GPU-seconds, of which 2x4 without progress. */
static void srtf_pays_for_the_restart(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x2:v100", "long,0,2,10\nshort,2,1,3\n");
    play.options.restart_s = 4;
    play_run(&play, "srtf");
    assert_true(play_end(&play, "short") == 5);
    assert_true(play_end(&play, "long") == 17);
    const struct firn_sim_result *r = &play.result;
    assert_true(r->gpu_s_given == 31 && r->gpu_s_overhead == 8);
    assert_true(r->gpu_s_useful == 23 && r->gpu_s_lost == 0);
    assert_true(play_near(r->gpu_alloc_ratio, 31.0 / 34));
    assert_true(play_near(r->gpu_util_ratio, 23.0 / 34));
    play_close(&play);
}

/* What a restart still takes counts as time left, and ties go to who came
 * first. */
static void srtf_counts_the_restart_as_time_left(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10\nb,4,1,6\nc,12,1,5\n");
    play.options.restart_s = 4;
    /* b ties with a at 4 (6 left each) and waits: a [0..10). b [10..16); at
     * 12 b has 4 left, c 5: c [16..21). No job restarts. */
    play_run(&play, "srtf");
    assert_true(play_end(&play, "a") == 10);
    assert_true(play_end(&play, "b") == 16);
    assert_true(play_end(&play, "c") == 21);
    play_close(&play);
    /* b preempts at 5: a has 5 left. b [5..9). a restarts at 9, resumes at
     * 13, would end at 18. c comes at 11: a needs 7, c only 6: c [11..17). a
     * restarts again [17..21) and ends at 26. */
    play_open(&play, "1x1:v100", "a,0,1,10\nb,5,1,4\nc,11,1,6\n");
    play.options.restart_s = 4;
    play_run(&play, "srtf");
    assert_true(play_end(&play, "b") == 9);
    assert_true(play_end(&play, "c") == 17);
    assert_true(play_end(&play, "a") == 26);
    assert_int_equal(play_job(&play, "a")->restarts, 2);
    assert_true(play.result.gpu_s_overhead == 2 + 4);
    play_close(&play);
}

/* Two GPUs, threshold 20 GPU-seconds, restart free:
 *   a 2 GPUs, 30 s: [0..10), then 20 GPU-seconds: queue 1
 *   b 1 GPU, 10 s, comes at 5, behind a by submission: [10..20)
 *   c 1 GPU, 25 s, comes at 12: [12..32), then queue 1 too, behind a
 *   a again [32..52), c again [52..57) */
static void tiresias_demotes_by_gpu_service(void **state)
{
    (void)state;
    static const char *const queues[] = {"tiresias.thresholds=20"};
    struct play play;
    play_open(&play, "1x2:v100", "a,0,2,30\nb,5,1,10\nc,12,1,25\n");
    set(&play, queues);
    play_run(&play, "tiresias");
    assert_true(play_end(&play, "b") == 20);
    assert_true(play_end(&play, "a") == 52);
    assert_true(play_end(&play, "c") == 57);
    assert_true(play_job(&play, "b")->first_start_s == 10);
    assert_int_equal(play.result.restarts, 2);
    /* With a restart of 3 s: a resumes at 35, ends at 55; c 58, 63. */
    play.options.restart_s = 3;
    play_run(&play, "tiresias");
    assert_true(play_end(&play, "a") == 55);
    assert_true(play_end(&play, "c") == 63);
    assert_true(play.result.gpu_s_overhead == 2 * 3 + 3);
    play_close(&play);
}

/* Service is GPUs x time: with threshold 30, wide (4 GPUs) falls at 7.5. */
static void tiresias_falls_between_whole_seconds(void **state)
{
    (void)state;
    static const char *const queues[] = {"tiresias.thresholds=30"};
    struct play play;
    play_open(&play, "1x4:v100", "wide,0,4,10\nthin,1,1,5\n");
    set(&play, queues);
    play_run(&play, "tiresias");
    assert_true(play_job(&play, "thin")->first_start_s == 7.5);
    assert_true(play_end(&play, "thin") == 12.5);
    assert_true(play_end(&play, "wide") == 15);
    play_close(&play);
}

/* One GPU freed at the very second a job arrives is there for it. */
static void completion_comes_before_arrival_at_one_instant(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10\nb,10,1,10\n");
    play_run(&play, "fifo");
    assert_true(play_job(&play, "b")->first_start_s == 10);
    assert_true(play.result.queue_mean_s == 0);
    assert_true(play.result.gpu_alloc_ratio == 1);
    play_close(&play);
}

/* Time begins with the first submission: makespan and ratios do not count
 * what was before. */
static void late_trace_starts_its_clock_with_the_first_job(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x2:v100", "a,1000,1,10\nb,1005,1,10\n");
    play_run(&play, "fifo");
    assert_true(play.result.makespan_s == 15);
    assert_true(play_near(play.result.gpu_alloc_ratio, 20.0 / 30));
    play_close(&play);
}

static void one_job_has_itself_as_every_percentile(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x4:v100", "a,5,3,12.5\n");
    play_run(&play, "yarn-cs");
    const struct firn_sim_result *r = &play.result;
    assert_true(r->jct_mean_s == 12.5 && r->jct_p50_s == 12.5);
    assert_true(r->jct_p99_s == 12.5 && r->jct_max_s == 12.5);
    assert_true(r->rho_mean == 1 && r->unfair_share == 0);
    assert_string_equal(r->policy, "yarn-cs");
    assert_string_equal(r->trace, play.trace);
    play_close(&play);
}

/* The same three jobs, in order and not: nothing differs but the count of rows
 * that came too early. */
static void rows_out_of_order_change_nothing(void **state)
{
    (void)state;
    struct play sorted, shuffled;
    play_open(&sorted, "1x2:v100", "a,0,1,50\nb,10,2,20\nc,15,1,5\n");
    play_open(&shuffled, "1x2:v100", "b,10,2,20\nc,15,1,5\na,0,1,50\n");
    play_run(&sorted, "fifo");
    play_run(&shuffled, "fifo");
    assert_true(play_end(&sorted, "b") == 70);
    for (size_t i = 0; i < sorted.done.n; i++)
        assert_true(play_end(&shuffled, sorted.done.at[i].name) ==
                    sorted.done.at[i].end_s);
    assert_int_equal(sorted.result.unsorted_rows, 0);
    assert_int_equal(shuffled.result.unsorted_rows, 1);
    assert_int_equal(shuffled.result.jobs, 3);
    play_close(&sorted);
    play_close(&shuffled);
}

/* Eight GPUs asked for, four there, one is enough: 100 s on eight are 200 s on
 * four. Who never resizes cannot run it. */
static void an_elastic_job_larger_than_the_cluster_is_run(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max\n"
              "a,0,8,100,1,8\n");
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t i = 0; i < n; i++) {
        bool resizes = all[i]->does & FIRN_DOES_RESIZE;
        enum firn_status status = play_try(&play, all[i]->name);
        if ((status == FIRN_OK) != resizes)
            fail_msg("%s: %s", all[i]->name, play.err.text);
        if (resizes)
            assert_true(play_end(&play, "a") >= 200);
        else
            assert_non_null(strstr(play.err.text, "wants 8 GPUs"));
    }
    play_close(&play);
}

/* Sia looks up every minute, 1700 times in vain; then a ends and b has its
 * turn. That is no policy at a loss. */
static void a_long_wait_for_a_running_job_is_not_a_stall(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,1,102000\nb,1,4,50\n");
    play.options.timeline_path = NULL;
    play_run(&play, "sia");
    assert_true(play_end(&play, "b") == 102050);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_fifo_blocks_behind_a_job_that_does_not_fit),
        cmocka_unit_test(times_of_the_strict_schedule),
        cmocka_unit_test(ratios_and_fairness_of_the_strict_schedule),
        cmocka_unit_test(fifo_with_skip_lets_small_jobs_pass),
        cmocka_unit_test(sjf_serves_short_jobs_first),
        cmocka_unit_test(srtf_preempts_for_a_shorter_rest),
        cmocka_unit_test(srtf_pays_for_the_restart),
        cmocka_unit_test(srtf_counts_the_restart_as_time_left),
        cmocka_unit_test(tiresias_demotes_by_gpu_service),
        cmocka_unit_test(tiresias_falls_between_whole_seconds),
        cmocka_unit_test(completion_comes_before_arrival_at_one_instant),
        cmocka_unit_test(late_trace_starts_its_clock_with_the_first_job),
        cmocka_unit_test(one_job_has_itself_as_every_percentile),
        cmocka_unit_test(rows_out_of_order_change_nothing),
        cmocka_unit_test(an_elastic_job_larger_than_the_cluster_is_run),
        cmocka_unit_test(a_long_wait_for_a_running_job_is_not_a_stall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
