/* test_merge.c - who is trained with whom, who is not and hears why, and what a
 * pair has in common.
 */
#include "base/buf.h"
#include "base/str.h"
#include "lib/folder.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* All that is said against merging it. */
static const char *said_of(struct loopscene *s, const char *name)
{
    static char text[1000];
    struct firn_buf json = {0};
    desk_not_merged(&s->loop->desk, loopscene_job(s, name), &json);
    assert_true(str_copy(text, sizeof text, json.at));
    buf_release(&json);
    return text;
}

/* One that has what `a` has not, or not what it has; what is said of it. */
static const struct apart {
    const char *a, *b, *said;
} aparts[] = {
    {LOOPSCENE_TASK("one"), LOOPSCENE_TASK_IN("\nworkdir: /var", "two"),
     "workdir differs"},
    {LOOPSCENE_TASK("one"), LOOPSCENE_TASK_IN("", "two"), "workdir differs"},
    {LOOPSCENE_TASK_IN("", "one"), LOOPSCENE_TASK_IN("", "two"),
     "each runs in its own folder, for want of a workdir"},
    {LOOPSCENE_TASK("one"), LOOPSCENE_TASK("two") "\nenv: {SEED: 1}",
     "env differs: SEED"},
    {LOOPSCENE_TASK("one") "\nenv: {SEED: 2}",
     LOOPSCENE_TASK("two") "\nenv: {SEED: 1}", "env differs: SEED"},
    {LOOPSCENE_TASK("one") "\nenv: {A: 1, Z: 1}",
     LOOPSCENE_TASK("two") "\nenv: {Z: 1, B: 1, A: 1}", "env differs: B"},
    {LOOPSCENE_TASK("one"), LOOPSCENE_TASK("two") "\nfreeze: {rule: penalty}",
     "the rule of freezing differs"},
    {LOOPSCENE_TASK("one") "\nmemory: 9", LOOPSCENE_TASK("two") "\nmemory: 9",
     "a GPU has not the memory for both"},
    {LOOPSCENE_TASK("one"), LOOPSCENE_TASK("one"), "it has the same dataset"},
};

static void jobs_that_need_processes_of_their_own_are_not_merged(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof aparts / sizeof *aparts; i++) {
        struct loopscene s;
        char want[200];
        loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
        loopscene_submit(&s, "a", aparts[i].a);
        loopscene_submit(&s, "b", aparts[i].b);
        loopscene_submit(&s, "c", "gpus: 1");
        loopscene_turn(&s);
        if (loopscene_attempts() != 1 || loopscene_mate(&s, "a") > 0 ||
            loopscene_mate(&s, "b") > 0)
            fail_msg("merged, but: %s", aparts[i].said);
        snprintf(want, sizeof want, "[\"not merged with job 2 (b): %s\"]",
                 aparts[i].said);
        assert_string_equal(said_of(&s, "a"), want);
        snprintf(want, sizeof want, "[\"not merged with job 1 (a): %s\"]",
                 aparts[i].said);
        assert_string_equal(said_of(&s, "b"), want);
        assert_string_equal(said_of(&s, "c"), "[]");
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

static void jobs_of_two_users_are_not_merged(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    for (int i = 0; i < 2; i++) {
        struct live_job *job = loopscene_submit(&s, i == 0 ? "a" : "b",
                                                i == 0 ? LOOPSCENE_TASK("one")
                                                       : LOOPSCENE_TASK("two"));
        mem_free(job->ask.user);
        job->ask.user = mem_strdup(i == 0 ? "eve" : "bob");
        job->ask.priority++; /* comes back to the round as it now is */
        loop_changed(s.loop, job);
    }
    loopscene_turn(&s);
    assert_int_equal(loopscene_attempts(), 1);
    assert_true(loopscene_mate(&s, "a") <= 0);
    assert_non_null(strstr(said_of(&s, "a"), "job 2 (b): another user's"));
    loopscene_close(&s);
}

/* A reason that holds against every merge is given once. */
static void what_stands_against_every_merge_is_said_once(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(&s, "a",
                     "gpus: 1\nduration: 1h\nworkdir: /tmp\n"
                     "finetune: {base: base, dataset: x, sharing: allowed}");
    loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    loopscene_turn(&s);
    assert_non_null(strstr(said_of(&s, "a"), "not merged: it can write no"));
    assert_non_null(strstr(said_of(&s, "b"), "job 1 (a): it can write no"));
    assert_int_equal(
        loop_new_round(s.loop, firn_policy_find("fifo", &err), &err), FIRN_OK);
    assert_string_equal(said_of(&s, "b"),
                        "[\"not merged: policy fifo merges no jobs\"]");
    loopscene_close(&s);
}

static void variables_in_another_order_are_the_same(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(&s, "a",
                     LOOPSCENE_TASK("one") "\nenv: {A: 1, B: 2}\nmemory: 8");
    loopscene_submit(&s, "b",
                     LOOPSCENE_TASK("two") "\nenv: {B: 2, A: 1}\nmemory: 8");
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    assert_string_equal(said_of(&s, "a"), "[]");
    loopscene_close(&s);
}

/* Weights are read by processes of its own. */
static void a_job_of_another_environment_may_begin_with_weights(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    const struct live_job *a = loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_turn(&s);
    loopscene_submit(&s, "b", LOOPSCENE_TASK("two") "\nenv: {SEED: 1}");
    loopscene_pass(&s, 120);
    loopscene_done(&s, "a");
    loopscene_turn(&s);
    assert_int_equal(loopscene_after(&s, "b"), a->id);
    loopscene_close(&s);
}

static void a_rider_says_in_its_log_whose_has_its_output(void **unused)
{
    (void)unused;
    struct loopscene s;
    char path[300], text[200] = "";
    loopscene_open_pair(&s);
    snprintf(path, sizeof path, "%s/jobs/2/log", s.config.state);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(
        text, "firn: trained by job 1 (a), whose log has its output\n");
    loopscene_close(&s);
}

struct search {
    firn_job_id job;
    const char *text;
    bool is_found;
};

static bool look_at(void *arg, const struct store_event *event)
{
    struct search *search = arg;
    if (event->job == search->job && strstr(event->text, search->text) != NULL)
        search->is_found = true;
    return true;
}

static void how_a_training_of_two_failed_is_said_of_both(void **unused)
{
    (void)unused;
    static const struct {
        enum firn_end end;
        int status;
        const char *why;
    } ends[] = {{FIRN_END_FAILED, 3, "ended with status 3; goes on alone"},
                {FIRN_END_FAILED, 137, "ended by signal 9; goes"},
                {FIRN_END_MEMORY, 1, "ended for want of memory; goes"},
                {FIRN_END_LOST, 0, "supervisor or host vanished; goes"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct loopscene s;
        struct firn_error err = {0};
        loopscene_open_pair(&s);
        loopscene_fail(&s, "a", ends[i].end, ends[i].status);
        for (firn_job_id id = 1; id <= 2; id++) {
            struct search search = {id, ends[i].why, false};
            store_each_event(s.loop->store, 0, 100, look_at, &search, &err);
            if (!search.is_found)
                fail_msg("job %d: no event says %s", id, ends[i].why);
        }
        assert_non_null(strstr(said_of(&s, "a"), "another job failed"));
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

/* A report after some training, half of the time; ten of the twenty seconds of
 * a step are its own. */
static void say(struct loopscene *s, const char *name, double trained_s)
{
    struct live_job *job = loopscene_job(s, name);
    struct firn_error err = {0};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.progress = trained_s / 2 / 3600;
    report.step = (uint64_t)(trained_s / 20);
    report.step_s = 20;
    report.part_s[FIRN_STEP_BACKWARD] = 10;
    if (book_report(s->loop->book, job, job->attempt, &report,
                    dock_now_s(&s->loop->dock), &err) != FIRN_OK)
        fail_msg("%s", err.text);
    loop_reported(s->loop, job);
    loopscene_turn(s);
}

/* Of two minutes each. */
static void rounds(struct loopscene *s, int n)
{
    while (n-- > 0)
        loopscene_pass(s, 120);
}

/* A program that knows nothing of mates: it is told apart from one that is
 * slow to begin, and from one that trains both. */
static void a_mate_that_is_not_trained_is_parted_from_its_lead(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    const struct live_job *a = loopscene_job(&s, "a");
    const struct live_job *b = loopscene_job(&s, "b");
    loopscene_pass(&s, 700);
    say(&s, "a", 700);
    rounds(&s, 5);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    rounds(&s, 2);
    loopscene_leave(&s, "a");
    loopscene_pass(&s, 130);
    assert_int_equal(loopscene_attempts(), 1);
    const char *first = a->state == LIVE_RUNNING ? "a" : "b";
    const char *second = a->state == LIVE_RUNNING ? "b" : "a";
    assert_int_equal(loopscene_mate(&s, first), 0);
    assert_non_null(strstr(said_of(&s, "b"), "did not train it"));
    assert_int_equal(a->nretries + b->nretries, 0);
    loopscene_done(&s, first);
    loopscene_pass(&s, 130);
    assert_int_equal(loopscene_mate(&s, second), 0);
    loopscene_close(&s);
}

static void a_mate_that_reports_stays(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open_pair(&s);
    loopscene_pass(&s, 700);
    say(&s, "a", 700);
    rounds(&s, 4);
    say(&s, "b", 1200);
    rounds(&s, 8);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    loopscene_close(&s);
}

static void a_pair_has_the_longer_grace(void **unused)
{
    (void)unused;
    static const char slow[] =
        "gpus: 1\nduration: 1h\nworkdir: /tmp\ncheckpoint: {grace: 70}\n"
        "finetune: {base: base, dataset: two, sharing: allowed}";
    struct loopscene s;
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_submit(&s, "b", slow);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    assert_true(loopscene_grace_s(&s, "a") == 70);
    loopscene_close(&s);
}

static void new_bounds_of_one_part_them(void **unused)
{
    (void)unused;
    for (int k = 0; k < 2; k++) {
        struct loopscene s;
        struct firn_error err = {0};
        const char *stays = k == 0 ? "b" : "a", *name = k == 0 ? "a" : "b";
        loopscene_open(&s, "2x1:v100@16", "ymir", false);
        assert_int_equal(loop_drain(s.loop, 1, true, &err), FIRN_OK);
        loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
        loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
        loopscene_turn(&s);
        assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
        struct live_job *job = loopscene_job(&s, name);
        assert_int_equal(book_bounds(s.loop->book, job, 2, 2, 1, &err),
                         FIRN_OK);
        loop_changed(s.loop, job);
        loopscene_pass(&s, 1);
        assert_int_equal(loopscene_attempts(), 1);
        assert_int_equal(job->state, LIVE_PREEMPTING);
        assert_non_null(strstr(job->why, "changed its bounds"));
        loopscene_leave(&s, "a");
        loopscene_pass(&s, 1);
        assert_int_equal(loopscene_attempts(), 1);
        assert_int_equal(loopscene_mate(&s, stays), 0);
        assert_int_equal(job->state, LIVE_PENDING);
        loopscene_done(&s, stays);
        assert_int_equal(loop_drain(s.loop, 1, false, &err), FIRN_OK);
        loopscene_pass(&s, 130);
        assert_int_equal(job->state, LIVE_RUNNING);
        loopscene_close(&s);
        loopscene_remove(NULL);
        folder_make(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(jobs_that_need_processes_of_their_own_are_not_merged),
        CASE(jobs_of_two_users_are_not_merged),
        CASE(what_stands_against_every_merge_is_said_once),
        CASE(variables_in_another_order_are_the_same),
        CASE(a_job_of_another_environment_may_begin_with_weights),
        CASE(a_rider_says_in_its_log_whose_has_its_output),
        CASE(how_a_training_of_two_failed_is_said_of_both),
        CASE(a_mate_that_is_not_trained_is_parted_from_its_lead),
        CASE(a_mate_that_reports_stays),
        CASE(a_pair_has_the_longer_grace),
        CASE(new_bounds_of_one_part_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
