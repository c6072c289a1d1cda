/* test_inbox.c - jobs that their users gave to the engine's own queue.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void tell(struct loopscene *s, struct firn_inbox inbox)
{
    inbox.name = inbox.name != NULL ? inbox.name : "train";
    inbox.user = inbox.user != NULL ? inbox.user : "ann";
    inbox.types = inbox.types != NULL ? inbox.types : "";
    loopscene_event(
        s, (struct firn_event){.kind = FIRN_EVENT_INBOX, .inbox = &inbox});
}

/* The only one, or the last of several. */
static struct live_job *last_job(struct loopscene *s)
{
    size_t n = book_count(s->loop->book);
    assert_true(n > 0);
    return book_at(s->loop->book, n - 1);
}

static int gpus_free(struct loopscene *s)
{
    return round_view(s->loop->desk.round, 0).gpus_free;
}

static void it_is_a_rigid_job_and_one_however_often_told(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    struct firn_inbox inbox = {
        .key = "17-1700000000", .gpus = 2, .limit_s = 600, .submit_s = 900};
    tell(&s, inbox);
    tell(&s, inbox);
    assert_int_equal(book_count(s.loop->book), 1);
    const struct live_job *job = last_job(&s);
    assert_string_equal(job->ask.name, "train");
    assert_string_equal(job->ask.user, "ann");
    assert_string_equal(job->ask.inbox, "17-1700000000");
    assert_int_equal(job->submitted_s, 900);
    assert_true(job->ask.duration_s == 600);
    assert_false(desk_can_stop(job) || job->ask.may_share);
    assert_string_equal(loopscene_text(&s), "train running n0[0-1]");
    loopscene_kill(&s);
    loopscene_open(&s, "1x4:v100@16", "fifo", true);
    tell(&s, inbox);
    tell(&s, (struct firn_inbox){.key = ""});
    assert_string_equal(loopscene_text(&s), "train running n0[0-1]");
    loopscene_done(&s, "train");
    assert_int_equal(last_job(&s)->state, LIVE_SUCCEEDED);
    loopscene_close(&s);
}

static void its_gpus_are_put_aside_and_those_it_got_are_told(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_play.is_stuck = true;
    tell(&s, (struct firn_inbox){.key = "1-1", .gpus = 2});
    assert_int_equal(gpus_free(&s), 2); /* put aside for it */
    loopscene_play.is_stuck = false;
    loopscene_taken(&s, 0, 4); /* Slurm chose one other */
    assert_int_equal(last_job(&s)->state, LIVE_RUNNING);
    assert_int_equal(gpus_free(&s), 1);
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    assert_string_equal(loopscene_job(&s, "b")->held, "n0[3]");
    loopscene_kill(&s);
    loopscene_open(&s, "1x4:v100@16", "fifo", true);
    loopscene_taken(&s, 0, 4);
    assert_string_equal(loopscene_text(&s), "train running n0[0-1]; "
                                            "b running n0[3]");
    assert_int_equal(gpus_free(&s), 0);
    loopscene_done(&s, "train");
    loopscene_taken(&s, 0, 0);
    assert_int_equal(gpus_free(&s), 3);
    loopscene_close(&s);
}

static void what_is_gone_from_the_queue_is_over(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1");
    loopscene_turn(&s);
    tell(&s, (struct firn_inbox){.key = "1-1", .gpus = 1, .name = "x"});
    tell(&s, (struct firn_inbox){.key = "2-1", .gpus = 1, .name = "y"});
    assert_int_equal(loopscene_job(&s, "x")->state, LIVE_PENDING);
    tell(&s, (struct firn_inbox){.key = "1-1", .is_gone = true});
    tell(&s, (struct firn_inbox){.key = "9-9", .is_gone = true});
    assert_int_equal(loopscene_job(&s, "x")->state, LIVE_CANCELLED);
    assert_int_equal(loopscene_job(&s, "y")->state, LIVE_PENDING);
    for (int i = 0; i < 2; i++) { /* put back, twice */
        tell(&s, (struct firn_inbox){.key = "1-1", .gpus = 1, .name = "x"});
        assert_int_equal(last_job(&s)->state, LIVE_PENDING);
        assert_int_equal(book_count(s.loop->book), 4 + i);
        tell(&s, (struct firn_inbox){.key = "1-1", .is_gone = true});
        assert_int_equal(last_job(&s)->state, LIVE_CANCELLED);
    }
    assert_int_equal(loopscene_play.ninbox_cancels, 0);
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    assert_int_equal(loopscene_job(&s, "y")->state, LIVE_PENDING);
    tell(&s, (struct firn_inbox){.key = "3-1", .gpus = 1, .name = "z"});
    tell(&s, (struct firn_inbox){.key = ""}); /* that is all there is */
    assert_int_equal(loopscene_job(&s, "y")->state, LIVE_CANCELLED);
    assert_int_equal(loopscene_job(&s, "z")->state, LIVE_PENDING);
    loopscene_close(&s);
}

static void a_cancel_goes_to_the_queue_until_it_is_gone(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_inbox inbox = {.key = "1-1", .gpus = 9};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    tell(&s, inbox);
    struct live_job *job = last_job(&s);
    assert_int_equal(job->reason, LIVE_BECAUSE_NEVER); /* too many GPUs */
    loopscene_cancel(&s, job);
    loopscene_turn(&s);
    assert_int_equal(loopscene_play.ninbox_cancels, 1);
    assert_int_equal(job->state, LIVE_COMPLETING);
    loopscene_close(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    assert_int_equal(loopscene_play.ninbox_cancels, 2); /* said again */
    tell(&s, (struct firn_inbox){.key = "1-1", .is_gone = true});
    assert_int_equal(last_job(&s)->state, LIVE_CANCELLED);
    tell(&s, inbox); /* revived by a crash of the controller */
    assert_int_equal(loopscene_play.ninbox_cancels, 3);
    assert_int_equal(book_count(s.loop->book), 1);
    assert_int_equal(last_job(&s)->state, LIVE_CANCELLED);
    loopscene_close(&s);
}

static void no_text_from_outside_is_trusted(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    tell(&s, (struct firn_inbox){.key = "1-1",
                                 .gpus = 1,
                                 .name = "$(rm -rf /)\n\x1b[2J",
                                 .user = "../../x"});
    const char *name = last_job(&s)->ask.name;
    assert_string_equal(name, "job---rm--rf------2J");
    assert_string_equal(last_job(&s)->ask.user, "..-..-x");
    tell(&s, (struct firn_inbox){.key = "2 1", .gpus = 1});
    tell(&s, (struct firn_inbox){.key = "3-1", .gpus = -1});
    assert_int_equal(book_count(s.loop->book), 1);
    tell(&s, (struct firn_inbox){.key = "4-1", .gpus = 1, .name = ""});
    assert_string_equal(last_job(&s)->ask.name, "job-2");
    tell(&s, (struct firn_inbox){.key = "5-1", .gpus = 1, .name = "42"});
    assert_string_equal(last_job(&s)->ask.name, "job-42");
    loopscene_close(&s);
}

static void its_gpus_are_not_changed(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    tell(&s, (struct firn_inbox){.key = "1-1", .gpus = 1});
    assert_int_equal(book_bounds(s.loop->book, last_job(&s), 2, 2, 1, &err),
                     FIRN_EINVAL);
    assert_non_null(strstr(err.text, "number of GPUs is fixed"));
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(it_is_a_rigid_job_and_one_however_often_told),
        CASE(its_gpus_are_put_aside_and_those_it_got_are_told),
        CASE(what_is_gone_from_the_queue_is_over),
        CASE(a_cancel_goes_to_the_queue_until_it_is_gone),
        CASE(no_text_from_outside_is_trusted),
        CASE(its_gpus_are_not_changed),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
