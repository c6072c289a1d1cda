/* test_partner.c - two jobs in one training, through the loop.
 */
#include "base/buf.h"
#include "lib/folder.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* A report of epochs done; a step of it takes ten seconds of twenty. */
static void say_with(struct loopscene *s, const char *name, double progress,
                     uint64_t epochs, double metric)
{
    struct live_job *job = loopscene_job(s, name);
    struct firn_error err = {0};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = progress;
    report.step = (uint64_t)(progress * 100);
    report.epoch = epochs;
    report.step_s = 20;
    report.metric = metric;
    report.part_s[FIRN_STEP_FORWARD] = 4;
    report.part_s[FIRN_STEP_BACKWARD] = 6;
    if (book_report(s->loop->book, job, job->attempt, &report,
                    dock_now_s(&s->loop->dock), &err) != FIRN_OK)
        fail_msg("%s", err.text);
    loop_reported(s->loop, job);
    loopscene_turn(s);
}

static void say(struct loopscene *s, const char *name, double progress,
                uint64_t epochs)
{
    say_with(s, name, progress, epochs, -1);
}

static void one_training_ends_both_when_both_are_done(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    const struct live_job *a = loopscene_job(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    assert_int_equal(a->attempt, 1);
    assert_int_equal(b->attempt, 1);
    assert_non_null(strstr(a->why, "together with job 2 (b)"));
    assert_non_null(strstr(b->why, "trained by job 1 (a)"));
    say(&s, "a", 1, 4);
    say(&s, "b", 1, 4);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -; b succeeded -");
    assert_int_equal(b->exit_status, 0);
    assert_int_equal(round_view(s.loop->desk.round, 0).gpus_free, 1);
    loopscene_close(&s);
}

static void a_partner_whose_work_is_not_done_goes_on_alone(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    loopscene_submit(&s, "c", LOOPSCENE_TASK("three"));
    say(&s, "a", 1, 4);
    say(&s, "b", 0.5, 2);
    loopscene_done(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    assert_int_equal(loopscene_job(&s, "a")->state, LIVE_SUCCEEDED);
    assert_int_equal(b->nretries, 0);
    loopscene_pass(&s, 120);
    /* One job has the GPU now, alone. */
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_not_equal(loopscene_mate(&s, "b"), loopscene_job(&s, "c")->id);
    if (b->state != LIVE_RUNNING)
        loopscene_done(&s, "c");
    loopscene_pass(&s, 120);
    assert_int_equal(b->attempt, 2);
    assert_int_equal(loopscene_mate(&s, "b"), 0);
    loopscene_done(&s, "b");
    assert_int_equal(b->state, LIVE_SUCCEEDED);
    loopscene_close(&s);
}

/* Jobs that are asked to leave do, and jobs that train come to their end. */
static void let_all_end(struct loopscene *s, const char *policy)
{
    static const char *const names[] = {"a", "b", "c"};
    int nleft = 3;
    for (int i = 0; i < 20 && nleft > 0; i++) {
        nleft = 0;
        for (int k = 0; k < 3; k++) {
            const struct live_job *job = loopscene_job(s, names[k]);
            bool has_processes = loopscene_mate(s, names[k]) != FIRN_NO_JOB;
            if ((job->state == LIVE_PREEMPTING ||
                 job->state == LIVE_RESIZING) &&
                has_processes)
                loopscene_leave(s, names[k]);
            else if (job->state == LIVE_RUNNING && i > 2)
                say(s, names[k], 1, 4);
        }
        for (int k = 0; k < 3; k++) {
            const struct live_job *job = loopscene_job(s, names[k]);
            if (job->state == LIVE_RUNNING && i > 2 &&
                strstr(job->why, "trained by") == NULL)
                loopscene_done(s, names[k]);
            nleft += !live_state_is_over(job->state);
        }
        loopscene_pass(s, 60);
    }
    if (nleft > 0)
        fail_msg("under %s: %s", policy, loopscene_text(s));
}

static void any_policy_goes_on_from_a_merge(void **unused)
{
    (void)unused;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t i = 0; i < n; i++) {
        struct loopscene s;
        struct firn_error err = {0};
        loopscene_open_pair(&s);
        if (loop_new_round(s.loop, all[i], &err) != FIRN_OK)
            fail_msg("%s: %s", all[i]->name, err.text);
        loopscene_submit(&s, "c", LOOPSCENE_TASK("three"));
        loopscene_pass(&s, 60);
        let_all_end(&s, all[i]->name);
        loopscene_close(&s);
        folder_empty(folder_path());
    }
}

static void without_consent_or_with_one_dataset_nothing_is_merged(void **unused)
{
    (void)unused;
    static const char *const others[] = {
        LOOPSCENE_TASK("one"),
        "gpus: 1\nduration: 1h\ncheckpoint: {grace: 10}\n"
        "finetune: {base: base, dataset: two, sharing: never}",
        "gpus: 1\nduration: 1h\ncheckpoint: {grace: 10}\n"
        "finetune: {base: other, dataset: two, sharing: allowed}",
        "gpus: 1\nduration: 1h\n"
        "finetune: {base: base, dataset: two, sharing: allowed}",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct loopscene s;
        loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
        loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
        loopscene_submit(&s, "b", others[i]);
        loopscene_turn(&s);
        assert_int_equal(loopscene_attempts(), 1);
        assert_true(loopscene_mate(&s, "a") <= 0);
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

static bool take_first(void *arg, const struct store_attempt *attempt)
{
    if (attempt->number == 1)
        *(int *)arg = attempt->end;
    return true;
}

/* How the first attempt of a job ended. */
static int first_end(struct loopscene *s, const struct live_job *job)
{
    struct firn_error err = {0};
    int end = -2;
    if (store_each_attempt(s->loop->store, job->id, take_first, &end, &err) !=
        FIRN_OK)
        fail_msg("%s", err.text);
    return end;
}

static void a_merge_that_does_not_pay_is_undone(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    const struct live_job *a = loopscene_job(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    say(&s, "a", 0.1, 1);
    say(&s, "b", 0.1, 1);
    loopscene_pass(&s, 120);
    assert_string_equal(loopscene_text(&s),
                        LOOPSCENE_MERGED); /* too early to say */
    say(&s, "a", 0.2, 2);
    say(&s, "b", 0.2, 2);
    loopscene_pass(&s, 120);
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_not_equal(b->state, LIVE_RUNNING);
    loopscene_leave(&s, "a"); /* by a checkpoint of each */
    loopscene_pass(&s, 1);
    assert_int_equal(first_end(&s, a), FIRN_END_CHECKPOINT);
    assert_int_equal(first_end(&s, b), FIRN_END_CHECKPOINT);
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_equal((a->state == LIVE_RUNNING) + (b->state == LIVE_RUNNING),
                     1);
    const char *first = a->state == LIVE_RUNNING ? "a" : "b";
    const char *second = a->state == LIVE_RUNNING ? "b" : "a";
    assert_int_equal(loopscene_mate(&s, first), 0);
    loopscene_done(&s, first);
    loopscene_pass(&s, 1);
    assert_int_equal(loopscene_mate(&s, second), 0);
    assert_int_equal(loopscene_job(&s, second)->state, LIVE_RUNNING);
    /* The next ones of this base are not merged any more. */
    loopscene_submit(&s, "c", LOOPSCENE_TASK("three"));
    loopscene_submit(&s, "d", LOOPSCENE_TASK("four"));
    loopscene_done(&s, second);
    loopscene_pass(&s, 120);
    assert_int_equal(loopscene_attempts(), 1);
    assert_true(loopscene_mate(&s, "c") <= 0);
    loopscene_close(&s);
}

/* The datasets of the pair were seen to gain nothing; firnd is restarted. */
static void what_pairs_gain_is_known_after_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        say(&s, "a", 0.1 * (double)epoch, epoch);
        say(&s, "b", 0.1 * (double)epoch, epoch);
    }
    loopscene_pass(&s, 120);
    loopscene_leave(&s, "a");
    loopscene_pass(&s, 1);
    loopscene_close(&s);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", true);
    loopscene_turn(&s);
    const char *first =
        loopscene_job(&s, "a")->state == LIVE_RUNNING ? "a" : "b";
    loopscene_done(&s, first);
    loopscene_submit(&s, "c", LOOPSCENE_TASK("three"));
    loopscene_submit(&s, "d", LOOPSCENE_TASK("four"));
    loopscene_done(&s, first[0] == 'a' ? "b" : "a");
    loopscene_pass(&s, 120);
    assert_int_equal(loopscene_attempts(), 1);
    assert_true(loopscene_mate(&s, "c") <= 0);
    loopscene_close(&s);
}

/* Of two that end by a target the metric decides. */
static void a_merge_is_kept_while_both_get_better(void **unused)
{
    (void)unused;
    static const char to_target[] =
        LOOPSCENE_TASK("one") "\ntarget: {metric: 0.9}";
    static const char too[] = LOOPSCENE_TASK("two") "\ntarget: {metric: 0.9}";
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(&s, "a", to_target);
    loopscene_submit(&s, "b", too);
    loopscene_turn(&s);
    for (uint64_t epoch = 1; epoch <= 5; epoch++) {
        double metric = epoch < 4 ? 0.1 * (double)epoch : 0.3;
        say_with(&s, "a", 0.03 * (double)epoch, epoch, metric);
        say_with(&s, "b", 0.03 * (double)epoch, epoch, 0.1 * (double)epoch);
        loopscene_pass(&s, 120);
        if (epoch < 5)
            assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    }
    /* Two epochs in which one of them got no better. */
    assert_int_not_equal(loopscene_job(&s, "b")->state, LIVE_RUNNING);
    loopscene_leave(&s, "a");
    loopscene_close(&s);
}

static void when_one_is_cancelled_the_other_goes_on_alone(void **unused)
{
    (void)unused;
    for (int k = 0; k < 2; k++) {
        struct loopscene s;
        const char *gone = k == 0 ? "a" : "b", *stays = k == 0 ? "b" : "a";
        loopscene_open_pair(&s);
        struct live_job *job = loopscene_job(&s, gone);
        loopscene_cancel(&s, job);
        loopscene_turn(&s);
        assert_int_equal(job->state, LIVE_COMPLETING);
        assert_int_equal(loopscene_attempts(), 1);
        loopscene_leave(&s, "a");
        loopscene_pass(&s, 1);
        assert_int_equal(job->state, LIVE_CANCELLED);
        assert_int_equal(loopscene_job(&s, stays)->state, LIVE_RUNNING);
        assert_int_equal(loopscene_job(&s, stays)->attempt, 2);
        assert_int_equal(loopscene_mate(&s, stays), 0);
        assert_int_equal(loopscene_attempts(), 1);
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

static void when_one_is_held_the_other_goes_on_alone(void **unused)
{
    (void)unused;
    for (int k = 0; k < 2; k++) {
        struct loopscene s;
        const char *held = k == 0 ? "a" : "b", *stays = k == 0 ? "b" : "a";
        loopscene_open_pair(&s);
        struct live_job *job = loopscene_job(&s, held);
        say(&s, held, 0.2, 1);
        loopscene_hold(&s, job, true);
        loopscene_turn(&s);
        assert_int_equal(job->state, LIVE_PREEMPTING);
        loopscene_leave(&s, "a");
        loopscene_pass(&s, 1);
        assert_int_equal(job->state, LIVE_PENDING);
        assert_int_equal(job->reason, LIVE_BECAUSE_HELD);
        assert_int_equal(loopscene_job(&s, stays)->state, LIVE_RUNNING);
        assert_int_equal(loopscene_mate(&s, stays), 0);
        loopscene_done(&s, stays);
        loopscene_hold(&s, job, false);
        loopscene_turn(&s);
        assert_int_equal(job->state, LIVE_RUNNING);
        assert_int_equal(job->attempt, 2);
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

static void a_failed_training_of_two_is_charged_to_neither(void **unused)
{
    (void)unused;
    static const struct {
        enum firn_end end;
        int status;
    } ends[] = {{FIRN_END_FAILED, 3}, {FIRN_END_MEMORY, 1}, {FIRN_END_LOST, 0}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct loopscene s;
        loopscene_open_pair(&s);
        loopscene_fail(&s, "a", ends[i].end, ends[i].status);
        loopscene_pass(&s, 120);
        const struct live_job *a = loopscene_job(&s, "a");
        const struct live_job *b = loopscene_job(&s, "b");
        assert_int_equal(a->nretries + b->nretries, 0);
        assert_int_equal(loopscene_attempts(), 1); /* alone from here on */
        const char *first = a->state == LIVE_RUNNING ? "a" : "b";
        assert_int_equal(loopscene_mate(&s, first), 0);
        loopscene_fail(&s, first, FIRN_END_FAILED, 3); /* its own failure */
        assert_int_equal(loopscene_job(&s, first)->state, LIVE_FAILED);
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

static void a_training_of_two_outlives_firnd(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    say(&s, "b", 0.5, 1);
    loopscene_kill(&s);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", true);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    assert_int_equal(loopscene_attempts(), 1);
    const struct live_job *a = loopscene_job(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    assert_ptr_equal(partner_of(s.loop->book, a), b);
    assert_ptr_equal(partner_of(s.loop->book, b), a);
    assert_int_equal(b->attempt, 1);
    loopscene_pass(&s, 500); /* rounds see them as merged still */
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    say(&s, "b", 1, 4);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -; b succeeded -");
    loopscene_close(&s);
}

static void a_training_of_two_whose_processes_died_meanwhile_ends(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    loopscene_kill(&s);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir",
                   false); /* all processes are gone */
    loopscene_pass(&s, 1);
    const struct live_job *a = loopscene_job(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_equal((a->state == LIVE_RUNNING) + (b->state == LIVE_RUNNING),
                     1);
    assert_int_equal(a->nretries + b->nretries, 0);
    loopscene_close(&s);
}

static void a_cancel_of_a_partner_survives_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open_pair(&s);
    struct live_job *b = loopscene_job(&s, "b");
    book_cancel(s.loop->book, b, 1, "test", &err);
    assert_int_equal(store_commit(s.loop->store, &err), FIRN_OK);
    loopscene_kill(&s);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", true);
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    loopscene_pass(&s, 1);
    assert_string_equal(loopscene_text(&s), "a running n0[0]; b cancelled -");
    loopscene_close(&s);
}

static void a_changed_job_stays_with_its_partner(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open_pair(&s);
    for (int k = 0; k < 2; k++) {
        struct live_job *job = loopscene_job(&s, k == 0 ? "b" : "a");
        book_priority(s.loop->book, job, 7, 1, &err);
        loop_changed(s.loop, job);
        loopscene_pass(&s, 130);
        assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    }
    say(&s, "b", 1, 4);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -; b succeeded -");
    loopscene_close(&s);
}

/* The engine has not heard of a job that its partner is to train: no end of it
 * will be reported. */
static void
a_partner_that_loses_its_gpus_before_the_start_waits_again(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_play.is_stuck = true;
    loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    struct live_job *b = loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    loopscene_turn(&s);
    assert_int_equal(b->state, LIVE_STARTING);
    assert_non_null(strstr(b->why, "trained by job 1"));
    loop_happens_why(s.loop, b, LIFE_SENT_AWAY, "test");
    assert_int_equal(b->state, LIVE_PENDING);
    assert_non_null(desk_job(&s.loop->desk, desk_track(&s.loop->desk, b->id)));
    loopscene_play.is_stuck = false;
    loopscene_pass(&s, 1);
    loopscene_done(&s, "a");
    loopscene_pass(&s, 120);
    assert_int_equal(b->attempt, 1);
    loopscene_close(&s);
}

static void another_policy_takes_the_pair_over(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open_pair(&s);
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("fifo", &err), &err), FIRN_OK);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    say(&s, "b", 1, 4);
    loopscene_done(&s, "a");
    assert_string_equal(loopscene_text(&s), "a succeeded -; b succeeded -");
    loopscene_close(&s);
}

static void a_drained_node_takes_both_away(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "2x1:v100@16", "ymir", false);
    assert_int_equal(loop_drain(s.loop, 1, true, &err), FIRN_OK);
    loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    assert_int_equal(loop_drain(s.loop, 1, false, &err), FIRN_OK);
    assert_int_equal(loop_drain(s.loop, 0, true, &err), FIRN_OK);
    loopscene_turn(&s);
    loopscene_leave(&s, "a");
    loopscene_pass(&s, 1);
    assert_int_equal(loopscene_attempts(), 1);
    assert_null(strstr(loopscene_text(&s), "n0"));
    loopscene_close(&s);
}

static void a_job_begins_with_the_weights_of_one_that_ended(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    vec_add(&s.loop->desk.settings, "ymir.spatial=no");
    assert_int_equal(loop_new_round(s.loop, s.loop->desk.policy, &err),
                     FIRN_OK);
    const struct live_job *a = loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_turn(&s);
    const struct live_job *b = loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    loopscene_pass(&s, 120);
    assert_int_equal(b->state, LIVE_PENDING);
    assert_non_null(strstr(b->why, "waits for the weights of a: "));
    struct firn_buf json = {0}; /* it lacks a GPU, and is told both */
    assert_int_equal(why_job(s.loop, loopscene_job(&s, "b"), &json, &err),
                     FIRN_OK);
    assert_non_null(strstr(json.at, "\"reason\": \"capacity\""));
    assert_non_null(
        strstr(json.at, "\"note\": \"policy ymir: waits for the w"));
    buf_release(&json);
    firn_job_id round_id = desk_track(&s.loop->desk, a->id)->round_id,
                first = a->id;
    loopscene_done(&s, "a");
    loopscene_turn(&s);
    assert_int_equal(b->state, LIVE_RUNNING);
    assert_int_equal(loopscene_after(&s, "b"), first);
    assert_int_equal(b->how.after, first);
    loopscene_close(&s);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir",
                   true); /* whose id it was is known still */
    assert_int_equal(desk_book_id(&s.loop->desk, round_id), first);
    loopscene_close(&s);
}

/* Jobs of dataset two were seen alone: losses 1/k. */
static void know_two(struct loopscene *s)
{
    for (int k = 1; k <= 6; k++) {
        struct livemerge_epoch epoch = {.base = "base",
                                        .dataset = "two",
                                        .epoch = k,
                                        .loss = 1.0 / k,
                                        .target_loss = (double)NAN};
        livemerge_epoch(s->loop->desk.merges, &epoch);
    }
}

/* b waits for the weights of a; `fails`: a leaves none. */
static struct live_job *open_waiting(struct loopscene *s, const char *setting,
                                     bool fails)
{
    struct firn_error err = {0};
    loopscene_open(s, LOOPSCENE_ONE, "ymir", false);
    vec_add(&s->loop->desk.settings, "ymir.spatial=no");
    if (setting != NULL)
        vec_add(&s->loop->desk.settings, setting);
    assert_int_equal(loop_new_round(s->loop, s->loop->desk.policy, &err),
                     FIRN_OK);
    loopscene_submit(s, "a", LOOPSCENE_TASK("one"));
    loopscene_turn(s);
    loopscene_submit(s, "b", LOOPSCENE_TASK("two"));
    loopscene_pass(s, 120);
    if (fails)
        loopscene_fail(s, "a", FIRN_END_FAILED, 2);
    else
        loopscene_done(s, "a");
    loopscene_turn(s);
    struct live_job *b = loopscene_job(s, "b");
    assert_int_equal(b->state, LIVE_RUNNING);
    know_two(s);
    return b;
}

/* b begins with the weights of a. */
static struct live_job *open_after(struct loopscene *s, const char *setting)
{
    struct live_job *b = open_waiting(s, setting, false);
    assert_int_equal(b->how.after, 1);
    return b;
}

static void say_loss(struct loopscene *s, uint64_t epoch, double loss)
{
    struct live_job *job = loopscene_job(s, "b");
    struct firn_error err = {0};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = 0.1 * (double)epoch;
    report.step = 10 * epoch;
    report.epoch = epoch;
    report.step_s = 2;
    report.loss = loss;
    if (book_report(s->loop->book, job, job->attempt, &report,
                    dock_now_s(&s->loop->dock), &err) != FIRN_OK)
        fail_msg("%s", err.text);
    loop_reported(s->loop, job);
    loopscene_turn(s);
}

static void
weights_that_hurt_are_taken_back_and_the_job_begins_anew(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct live_job *b = open_after(&s, NULL);
    say_loss(&s, 1, 2.0); /* one epoch is too early */
    assert_int_equal(b->state, LIVE_RUNNING);
    say_loss(&s, 2, 1.0); /* 0.5 is expected alone */
    assert_int_equal(b->anew, 2);
    assert_int_not_equal(b->state, LIVE_RUNNING);
    assert_non_null(strstr(b->why, "begins anew"));
    loopscene_leave(&s, "b");
    loopscene_pass(&s, 120);
    assert_int_equal(b->state, LIVE_RUNNING);
    assert_int_equal(b->attempt, 2);
    assert_int_equal(loopscene_after(&s, "b"), 0);
    const struct track *track = desk_track(&s.loop->desk, b->id);
    assert_true(desk_job(&s.loop->desk, track)->done_s == 0);
    say_loss(&s, 1, 1.0);
    say_loss(&s, 2, 1.0); /* it is not taken back again */
    assert_int_equal(b->state, LIVE_RUNNING);
    loopscene_close(&s); /* a firnd that comes later knows */
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", true);
    assert_int_equal(loopscene_job(&s, "b")->anew, 2);
    loopscene_close(&s);
}

/* a has failed, so b has begun with the base: whatever its loss, there are no
 * weights to be taken back. */
static void a_job_that_was_given_no_weights_does_not_begin_anew(void **unused)
{
    (void)unused;
    struct loopscene s;
    const struct live_job *b = open_waiting(&s, NULL, true);
    assert_int_equal(loopscene_after(&s, "b"), 0);
    say_loss(&s, 1, 2.0);
    say_loss(&s, 2, 1.0); /* 0.5 is expected alone */
    say_loss(&s, 3, 1.0);
    assert_int_equal(b->state, LIVE_RUNNING);
    assert_int_equal(b->anew, 0);
    assert_int_equal(b->attempt, 1);
    loopscene_close(&s);
}

/* A fine-tuning job's restart costs what its last start took. */
static void a_restart_costs_what_the_last_start_took(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    struct live_job *job = loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_turn(&s);
    desk_spec(&s.loop->desk, job, &spec);
    assert_true(spec.restart_s < 0); /* not known: the policy's default */
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.prepare_s = 12.5;
    for (int i = 0; i < 2; i++) { /* the second says nothing of it */
        assert_int_equal(book_report(s.loop->book, job, job->attempt, &report,
                                     dock_now_s(&s.loop->dock), &err),
                         FIRN_OK);
        report.prepare_s = -1;
    }
    desk_spec(&s.loop->desk, job, &spec);
    assert_true(spec.restart_s == 12.5);
    loopscene_close(&s);
}

static void weights_that_help_or_without_a_guard_are_kept(void **unused)
{
    (void)unused;
    struct loopscene s;
    const struct live_job *b = open_after(&s, NULL);
    say_loss(&s, 1, 0.9);
    say_loss(&s, 2, 0.51); /* within a twentieth */
    assert_int_equal(b->anew, 0);
    assert_int_equal(b->state, LIVE_RUNNING);
    loopscene_close(&s);
    loopscene_remove(NULL);
    folder_make(NULL);
    b = open_after(&s, "ymir.guard=no");
    say_loss(&s, 1, 2.0);
    say_loss(&s, 2, 2.0);
    assert_int_equal(b->anew, 0);
    assert_int_equal(b->state, LIVE_RUNNING);
    loopscene_close(&s);
}

static void weights_of_a_job_that_failed_are_not_given(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    vec_add(&s.loop->desk.settings, "ymir.spatial=no");
    assert_int_equal(loop_new_round(s.loop, s.loop->desk.policy, &err),
                     FIRN_OK);
    loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_turn(&s);
    loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    loopscene_pass(&s, 120);
    loopscene_fail(&s, "a", FIRN_END_FAILED, 3);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a failed -; b running n0[0]");
    assert_int_equal(loopscene_after(&s, "b"), 0);
    loopscene_close(&s);
}

static void how_a_job_is_run_is_remembered(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(
        &s, "a", "gpus: 4\ncan: [tensor, passes]\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.tensor = 2;
    how.passes = 3;
    assert_int_equal(book_how(s.loop->book, job, &how, &err), FIRN_OK);
    assert_int_equal(store_commit(s.loop->store, &err), FIRN_OK);
    loopscene_kill(&s);
    loopscene_open(&s, "1x4:v100@16", "fifo", true);
    job = loopscene_job(&s, "a");
    const struct firn_job *seen =
        desk_job(&s.loop->desk, desk_track(&s.loop->desk, job->id));
    assert_int_equal(seen->held.how.tensor, 2);
    assert_int_equal(seen->held.how.passes, 3);
    assert_int_equal(seen->held.how.merged_with, FIRN_NO_JOB);
    loopscene_turn(&s);
    loopscene_done(&s, "a");
    assert_int_equal(job->how.tensor, 0); /* of a start that is over */
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_training_ends_both_when_both_are_done),
        CASE(a_partner_whose_work_is_not_done_goes_on_alone),
        CASE(any_policy_goes_on_from_a_merge),
        CASE(without_consent_or_with_one_dataset_nothing_is_merged),
        CASE(a_merge_that_does_not_pay_is_undone),
        CASE(what_pairs_gain_is_known_after_a_restart),
        CASE(a_merge_is_kept_while_both_get_better),
        CASE(when_one_is_cancelled_the_other_goes_on_alone),
        CASE(when_one_is_held_the_other_goes_on_alone),
        CASE(a_failed_training_of_two_is_charged_to_neither),
        CASE(a_training_of_two_outlives_firnd),
        CASE(a_training_of_two_whose_processes_died_meanwhile_ends),
        CASE(a_cancel_of_a_partner_survives_a_restart),
        CASE(a_changed_job_stays_with_its_partner),
        CASE(a_partner_that_loses_its_gpus_before_the_start_waits_again),
        CASE(another_policy_takes_the_pair_over),
        CASE(a_drained_node_takes_both_away),
        CASE(a_job_begins_with_the_weights_of_one_that_ended),
        CASE(weights_of_a_job_that_failed_are_not_given),
        CASE(weights_that_hurt_are_taken_back_and_the_job_begins_anew),
        CASE(a_job_that_was_given_no_weights_does_not_begin_anew),
        CASE(weights_that_help_or_without_a_guard_are_kept),
        CASE(a_restart_costs_what_the_last_start_took),
        CASE(how_a_job_is_run_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
