/* test_loop_full.c - a scheduler whose disk is full or fails, at every write.
 *
 * The loop is driven over an engine that the test plays (loopscene.h) and over
 * a disk that fails when told (diskvfs.h). At any write the disk may stop
 * taking writes; the story goes on, the disk comes back, and in the end memory
 * and disk agree, every job is where it would be without the fault, no job has
 * had two processes at once, and every attempt has an end.
 */
#include "daemon/storework.h"
#include "loopscene.h"
#include "tests/daemon/diskvfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}"

/* The disk is looked at, and written to, in the next turn. */
static void turn(struct loopscene *s)
{
    s->loop->store->disk.retry_s = 0;
    s->loop->store->disk.looked_s = -1e9;
    loopscene_turn(s);
}

/* The jobs there are so far were acknowledged. */
static void commit(struct loopscene *s)
{
    struct firn_error err;
    assert_int_equal(store_commit(s->loop->store, &err), FIRN_OK);
}

/* With room again: what is pending is written, the reserve is made. */
static void heal(struct loopscene *s)
{
    disk_fail(DISK_FULL, 0, 0);
    for (int i = 0; i < 4; i++)
        turn(s);
    assert_false(store_is_stalled(s->loop->store));
    assert_int_equal(store_room(s->loop->store), ROOM_AMPLE);
    loopscene_pass(s, 10); /* what the engine wants to try again, it has */
    turn(s);
}

static bool see_attempt(void *arg, const struct store_attempt *attempt)
{
    int *counts = arg;
    counts[0]++;
    counts[1] += attempt->end < 0;
    return true;
}

/* Of a job: attempts on disk, and those without an end. */
static void count_attempts(struct loopscene *s, firn_job_id id, int counts[2])
{
    struct firn_error err;
    counts[0] = counts[1] = 0;
    assert_int_equal(
        store_each_attempt(s->loop->store, id, see_attempt, counts, &err),
        FIRN_OK);
}

/* What is on disk is what is in memory. */
static void check_disk(struct loopscene *s)
{
    struct firn_error err;
    for (size_t i = 0; i < book_count(s->loop->book); i++) {
        const struct live_job *job = book_at(s->loop->book, i);
        struct live_job *on_disk = NULL;
        int counts[2];
        assert_int_equal(
            store_read_job(s->loop->store, job->id, &on_disk, &err), FIRN_OK);
        assert_int_equal(on_disk->state, job->state);
        assert_int_equal(on_disk->attempt, job->attempt);
        assert_string_equal(on_disk->held, job->held);
        count_attempts(s, job->id, counts);
        assert_int_equal(counts[0], job->attempt);
        if (live_state_is_over(job->state))
            assert_int_equal(counts[1], 0);
        live_job_free(on_disk);
    }
}

static const char *state_of(struct loopscene *s, const char *name)
{
    return live_state_name(loopscene_job(s, name)->state);
}

/* Three jobs on two GPUs: one is done, one is cancelled, the third follows. */
static long story(enum disk_fault how, long from, long times)
{
    struct loopscene s;
    disk_fail(DISK_FULL, 0, 0);
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    struct live_job *b = loopscene_submit(&s, "b", SOFT);
    loopscene_submit(&s, "c", SOFT);
    commit(&s);
    disk_fail(how, from, times);
    turn(&s);
    assert_true(loopscene_attempts() <= 2);
    if (strcmp(state_of(&s, "a"), "running") == 0)
        loopscene_done(&s, "a");
    turn(&s);
    loopscene_cancel(&s, b);
    turn(&s);
    if (b->state == LIVE_COMPLETING)
        loopscene_leave(&s, "b");
    turn(&s);
    long calls = disk_calls();
    heal(&s);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "a" : "c";
        if (strcmp(state_of(&s, name), "running") == 0)
            loopscene_done(&s, name);
        turn(&s);
    }
    assert_string_equal(loopscene_text(&s),
                        "a succeeded -; b cancelled -; c succeeded -");
    assert_int_equal(loopscene_attempts(), 0);
    check_disk(&s);
    loopscene_close(&s);
    loopscene_remove_state();
    return calls;
}

/* Every write in the soak, every fifth in the check, every 11th under a
 * sanitizer. */
static long stride(void)
{
    if (getenv("FIRN_SOAK") != NULL)
        return 1;
    return getenv("FIRN_QUICK") != NULL ? 11 : 5;
}

static void at_any_write_the_disk_may_become_full(void **state)
{
    (void)state;
    long n = 0, calls = LONG_MAX;
    for (enum disk_fault how = DISK_FULL; how <= DISK_BROKEN; how++) {
        calls = story(how, 1, 0);
        for (long at = 1; at <= calls; at += stride(), n += 2) {
            story(how, at, 1);
            story(how, at, LONG_MAX / 2);
        }
    }
    print_message("%ld stories\n", n);
    assert_true(n > 20);
}

/* Two jobs in one training: both attempts are in one commit. */
static long pair_story(enum disk_fault how, long from, long times)
{
    struct loopscene s;
    disk_fail(DISK_FULL, 0, 0);
    loopscene_open(&s, LOOPSCENE_ONE, "ymir", false);
    loopscene_submit(&s, "a", LOOPSCENE_TASK("one"));
    loopscene_submit(&s, "b", LOOPSCENE_TASK("two"));
    commit(&s);
    disk_fail(how, from, times);
    turn(&s);
    turn(&s);
    long calls = disk_calls();
    heal(&s);
    for (int i = 0; i < 20 && strcmp(loopscene_text(&s), LOOPSCENE_MERGED); i++)
        loopscene_pass(&s, 10);
    assert_string_equal(loopscene_text(&s), LOOPSCENE_MERGED);
    assert_int_equal(loopscene_attempts(), 1);
    check_disk(&s);
    for (firn_job_id id = 1; id <= 2; id++) {
        int counts[2];
        count_attempts(&s, id, counts);
        assert_int_equal(counts[1], 1); /* the one that runs */
    }
    loopscene_close(&s);
    loopscene_remove_state();
    return calls;
}

static void two_jobs_of_one_training_start_together_or_not(void **state)
{
    (void)state;
    long calls = pair_story(DISK_FULL, 1, 0);
    assert_true(calls > 4);
    for (long at = 1; at <= calls; at++) {
        pair_story(DISK_FULL, at, 1);
        pair_story(DISK_FULL, at, LONG_MAX / 2);
    }
    print_message("%ld stories\n", 2 * calls);
}

static void
while_it_is_full_nothing_starts_and_a_cancel_ends_processes(void **s)
{
    (void)s;
    struct loopscene scene;
    loopscene_open(&scene, "1x1:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&scene, "a", SOFT);
    loopscene_submit(&scene, "b", SOFT);
    loopscene_turn(&scene);
    assert_string_equal(loopscene_text(&scene), "a running n0[0]; b pending -");
    disk_fail(DISK_BROKEN, 1, LONG_MAX / 2);
    loopscene_cancel(&scene, a);
    turn(&scene);
    assert_int_equal(store_room(scene.loop->store), ROOM_FULL);
    assert_int_equal(a->state, LIVE_COMPLETING); /* the engine was told */
    loopscene_leave(&scene, "a");
    loopscene_pass(&scene, 60);
    assert_string_equal(loopscene_text(&scene), "a cancelled -; b pending -");
    assert_int_equal(loopscene_attempts(), 0);
    enum live_reason reason;
    char why[LIVE_TEXT];
    why_waits(scene.loop, loopscene_job(&scene, "b"), &reason, why);
    assert_non_null(strstr(why, "cannot be written"));
    heal(&scene);
    assert_string_equal(loopscene_text(&scene),
                        "a cancelled -; b running n0[0]");
    check_disk(&scene);
    loopscene_close(&scene);
}

/* Killed while its changes are pending, it comes back to the last commit, and
 * takes over what the engine has. */
static void killed_while_it_is_full_it_takes_over_what_runs(void **state)
{
    (void)state;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *a = loopscene_submit(&s, "a", SOFT);
    loopscene_turn(&s);
    disk_fail(DISK_FULL, 1, LONG_MAX / 2);
    loopscene_cancel(&s, a);
    turn(&s);
    assert_int_equal(a->state, LIVE_COMPLETING);
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true); /* still full */
    turn(&s);
    heal(&s);
    assert_int_equal(loopscene_attempts(), 1);
    assert_int_equal(loopscene_job(&s, "a")->attempt, 1);
    check_disk(&s);
    loopscene_close(&s);
}

int main(void)
{
    disk_install();
    const struct CMUnitTest tests[] = {
        CASE(at_any_write_the_disk_may_become_full),
        CASE(two_jobs_of_one_training_start_together_or_not),
        CASE(while_it_is_full_nothing_starts_and_a_cancel_ends_processes),
        CASE(killed_while_it_is_full_it_takes_over_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
