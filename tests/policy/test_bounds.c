/* test_bounds.c - how long a job may wait, and how often it is restarted, under
 * each policy; the table is in docs/simulator.md.
 *
 * Waiting: eight GPUs; jobs of one GPU and 600 s come every 83 s, so that 7.2
 * GPUs are busy, for STREAM_S and for twice as long; a job of all eight GPUs
 * and three hours comes at 600 s. Under a policy with a bound it waits equally
 * long both times, and no longer than the bound. Under one without, it waits
 * for the end of the stream.
 *
 * Restarts: four jobs of one to eight GPUs and ten hours, and every ten minutes
 * eight jobs of one GPU and two minutes. Counted are changes of GPUs after the
 * first start, for each hour that a job has GPUs, of the job that has the most.
 * A restart costs 30 s.
 *
 * What is measured is printed. A policy of policies.def without a row here
 * fails the test.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/play.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_S = 14400, EVERY_S = 83, SMALL_S = 600, BIG_S = 10800 };

struct bound {
    const char *policy;
    double wait_s;  /* of the large job; INFINITY: there is no bound */
    double restart; /* in an hour of a job; INFINITY: there is no bound */
};

/* 600 s: those that came before the large job end; nothing else goes first.
 * 6, 12, 30 and 60 restarts an hour: one for each lease or round. firn's are
 * its options `wait-least`, a decision later, and `restarts`; in its life a job
 * waits at most 1 / `turn` times as long again as it holds GPUs, which is
 * longer than the streams. */
static const struct bound bounds[] = {
    {"fifo", SMALL_S, 0},
    {"yarn-cs", SMALL_S, 0},
    {"opportunistic", SMALL_S, 0},
    {"optimus", SMALL_S, INFINITY},
    {"sjf", INFINITY, 0},
    {"sjf-ffs", INFINITY, 0},
    {"sjf-bsbf", INFINITY, 0},
    {"frenzy", INFINITY, 0},
    {"lucid", INFINITY, 0},
    {"srtf", INFINITY, INFINITY},
    {"tiresias", INFINITY, INFINITY},
    {"themis", INFINITY, 6},
    {"pollux", INFINITY, INFINITY},
    {"sia", INFINITY, 60},
    {"rubick", INFINITY, 60},
    {"icefrog", INFINITY, 12},
    {"icefrog-batch", INFINITY, 12},
    {"ymir", INFINITY, 30},
    {"easyscale", INFINITY, INFINITY},
    {"firn", INFINITY, 20},
};
enum { NBOUNDS = sizeof bounds / sizeof *bounds };

static void run(struct play *play, const char *policy)
{
    if (play_try(play, policy) != FIRN_OK)
        fail_msg("%s: %s", policy, play->err.text);
}

/* --- waiting ------------------------------------------------------------- */

static void open_stream(struct play *play, int stream_s)
{
    struct firn_buf rows = {0};
    for (int i = 0, at_s = 0; at_s < stream_s; i++, at_s += EVERY_S) {
        if (at_s > 600 && at_s <= 600 + EVERY_S)
            buf_printf(&rows, "big,600,8,%d\n", BIG_S);
        buf_printf(&rows, "s%d,%d,1,%d\n", i, at_s, SMALL_S);
    }
    play_open(play, "1x8:v100", rows.at);
    buf_release(&rows);
}

static void a_large_job_waits_as_long_as_is_stated(void **unused)
{
    (void)unused;
    struct play once, twice;
    open_stream(&once, STREAM_S);
    open_stream(&twice, 2 * STREAM_S);
    print_message("wait of the large job, stream of %d h and of %d h\n",
                  STREAM_S / 3600, 2 * STREAM_S / 3600);
    for (size_t i = 0; i < NBOUNDS; i++) {
        const struct bound *b = &bounds[i];
        run(&once, b->policy);
        run(&twice, b->policy);
        double one_s = play_job(&once, "big")->jct_s - BIG_S;
        double two_s = play_job(&twice, "big")->jct_s - BIG_S;
        print_message("%-14s %6.0f s %6.0f s\n", b->policy, one_s, two_s);
        if (isfinite(b->wait_s)) {
            assert_true(one_s <= b->wait_s && two_s == one_s);
        } else if (!(two_s > one_s + STREAM_S / 2.0)) {
            fail_msg("%s has a bound after all: state it", b->policy);
        }
    }
    play_close(&once);
    play_close(&twice);
}

static double first_wait_s(const struct play *play)
{
    const struct play_job *big = play_job(play, "big");
    return big->first_start_s - big->submit_s;
}

/* firn: by `wait-least`, and one decision of 60 s later. */
static void a_large_job_first_starts_within_the_bound(void **unused)
{
    (void)unused;
    for (int times = 1; times <= 2; times++) {
        struct play play;
        open_stream(&play, times * STREAM_S);
        run(&play, "firn");
        assert_true(first_wait_s(&play) <= 10800 + 60);
        play_close(&play);
    }
}

/* --- restarts ------------------------------------------------------------ */

static void open_waves(struct play *play)
{
    struct firn_buf rows = {0};
    buf_puts(&rows, "#firn-trace 1\n"
                    "name,submit_s,gpus,duration_s,gpus_min,gpus_max\n");
    for (int i = 0; i < 4; i++)
        buf_printf(&rows, "long%d,0,2,36000,1,8\n", i);
    for (int at_s = 300; at_s < 36000; at_s += 600)
        for (int i = 0; i < 8; i++)
            buf_printf(&rows, "b%d-%d,%d,1,120,1,1\n", at_s, i, at_s + i);
    play_open(play, "1x8:v100", rows.at);
    play->options.restart_s = 30;
    buf_release(&rows);
}

static void a_job_is_restarted_as_often_as_is_stated(void **unused)
{
    (void)unused;
    struct play play;
    open_waves(&play);
    print_message("restarts in an hour of a job, the most\n");
    for (size_t i = 0; i < NBOUNDS; i++) {
        double most = 0;
        run(&play, bounds[i].policy);
        for (int k = 0; k < 4; k++) {
            char name[16];
            snprintf(name, sizeof name, "long%d", k);
            const struct play_job *job = play_job(&play, name);
            most = fmax(most, job->restarts / (job->held_s / 3600));
        }
        print_message("%-14s %6.2f\n", bounds[i].policy, most);
        assert_true(most <= bounds[i].restart);
    }
    play_close(&play);
}

static void every_policy_has_a_stated_bound(void **unused)
{
    (void)unused;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    assert_int_equal(n, NBOUNDS);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < NBOUNDS && strcmp(bounds[k].policy, all[i]->name) != 0)
            k++;
        if (k == NBOUNDS)
            fail_msg("policy %s has no bound in this test", all[i]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_has_a_stated_bound),
        cmocka_unit_test(a_large_job_waits_as_long_as_is_stated),
        cmocka_unit_test(a_large_job_first_starts_within_the_bound),
        cmocka_unit_test(a_job_is_restarted_as_often_as_is_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
