/* test_firn_merge.c - fine-tuning jobs under the policy firn, in simulation.
 *
 * Two toy models take 0.01 s a sample on one V100 and half of that on two;
 * epochs are those of the shipped table (sim/transfers.def). Restarts cost
 * nothing.
 */
#include "base/buf.h"
#include "lib/play.h"
#include "lib/taskapps.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void open_play(struct play *play, const char *cluster, const char *rows)
{
    struct firn_buf text = {0};
    buf_puts(&text, "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                    "gpus_max,app,batch,nominal,may_merge\n");
    buf_puts(&text, rows);
    play_open(play, cluster, text.at);
    play->options.profiles = taskapps_folder;
    buf_release(&text);
}

static void run_with(struct play *play, const char *setting)
{
    play->options.settings = &setting;
    play->options.nsettings = setting != NULL;
    play_run(play, "firn");
    play->options.nsettings = 0;
}

static bool log_has(const struct play *play, const char *text)
{
    struct firn_buf log = play_read(play->log);
    bool is_there = strstr(log.at, text) != NULL;
    buf_release(&log);
    return is_there;
}

static double jct_s(const struct play *play, const char *name, double submit_s)
{
    return play_end(play, name) - submit_s;
}

/* ---- weights ---- */

/* qqp needs 5 epochs instead of 10 with the weights of any other task. */
static void measured_weights_of_an_ended_job_halve_the_work(void **unused)
{
    (void)unused;
    struct play play;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,1,roberta-base@wnli,16,1,1\n"
              "b,20000,1,5,1,1,roberta-base@qqp,16,1,1\n");
    play.options.transfer_key = true;
    run_with(&play, "firn.weights=no");
    double alone_s = jct_s(&play, "b", 20000);
    run_with(&play, NULL);
    assert_true(fabs(jct_s(&play, "b", 20000) / alone_s - 0.5) < 1e-6);
    run_with(&play, "firn.after-known=2.5"); /* it would have to save more */
    assert_true(jct_s(&play, "b", 20000) == alone_s);
    play_close(&play);
}

/* a and b teach the estimator their curves. c and d, of b's task, come at once
 * when both have ended, and a GPU is there for each: one of them tries the
 * weights of a, which nothing was measured of, and the other begins with the
 * model's. e and f come when the weights have been measured: both use them. */
static void one_job_of_a_task_tries_weights_that_were_never_measured(void **u)
{
    (void)u;
    struct play play;
    open_play(&play, "1x2:v100",
              "a,0,1,5,1,1,roberta-base@mrpc,16,1,1\n"
              "b,20000,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "c,200000,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "d,200000,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "e,400000,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "f,400000,1,5,1,1,roberta-base@qqp,16,1,1\n");
    run_with(&play, "firn.after-min=1");
    double alone_s = jct_s(&play, "b", 20000);
    assert_true(fabs(jct_s(&play, "c", 200000) / alone_s - 0.5) < 1e-6);
    assert_true(fabs(jct_s(&play, "d", 200000) / alone_s - 1) < 1e-6);
    assert_true(fabs(jct_s(&play, "e", 400000) / alone_s - 0.5) < 1e-6);
    assert_true(fabs(jct_s(&play, "f", 400000) / alone_s - 0.5) < 1e-6);
    play_close(&play);
}

/* ---- partners ---- */

/* The first two teach the estimator their curves. The other two are then tried
 * together; neither gets to its target beside the other, which the first epochs
 * of both tell. */
static void a_pair_that_hurts_is_parted_and_its_note_says_why(void **unused)
{
    (void)unused;
    struct play play;
    int parted = 0, paired = 0;
    open_play(&play, "1x1:v100",
              "a,0,1,5,1,1,roberta-base@mnli,16,1,1\n"
              "b,0,1,5,1,1,roberta-base@qqp,16,1,1\n"
              "c,400000,1,5,1,1,roberta-base@mnli,16,1,1\n"
              "d,400000,1,5,1,1,roberta-base@qqp,16,1,1\n");
    for (play.options.seed = 1; play.options.seed <= 8; play.options.seed++) {
        run_with(&play, "firn.weights=no");
        paired += log_has(&play, "~");
        parted += log_has(&play, "no longer trained together: ");
    }
    assert_true(paired >= 2);
    assert_true(parted >= 2);
    play_close(&play);
}

/* A job of food101 comes every 100 s. split-1 needs one epoch of ten beside one
 * of them: it waits for the next, up to `gather` seconds. The last one has no
 * partner to expect: no job of food101 has come for hours. */
static void a_job_waits_for_a_partner_while_such_jobs_come_often(void **unused)
{
    (void)unused;
    struct play play;
    struct firn_buf rows = {0};
    for (int i = 0; i < 20; i++) {
        if (i == 15)
            buf_puts(&rows, "s,1450,1,5,1,1,vit@imagenet-split-1,48,1,1\n");
        buf_printf(&rows, "f%d,%d,1,5,1,1,vit@food101,48,1,1\n", i, 100 * i);
    }
    buf_puts(&rows, "t,30000,1,5,1,1,vit@imagenet-split-1,48,1,1\n");
    open_play(&play, "4x8:v100", rows.at);
    play.options.transfer_key = true;
    run_with(&play, "firn.weights=no");
    assert_true(play_job(&play, "s")->first_start_s == 1500);
    assert_true(play_job(&play, "t")->first_start_s == 30000);
    run_with(&play, "firn.gather=30");
    assert_true(play_job(&play, "s")->first_start_s < 1500);
    run_with(&play, "firn.gather=0");
    assert_true(play_job(&play, "s")->first_start_s == 1450);
    buf_release(&rows);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_weights_of_an_ended_job_halve_the_work),
        cmocka_unit_test(
            one_job_of_a_task_tries_weights_that_were_never_measured),
        cmocka_unit_test(a_pair_that_hurts_is_parted_and_its_note_says_why),
        cmocka_unit_test(a_job_waits_for_a_partner_while_such_jobs_come_often),
    };
    return cmocka_run_group_tests(tests, taskapps_make, taskapps_remove);
}
