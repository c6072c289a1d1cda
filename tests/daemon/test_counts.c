/* test_counts.c - how long jobs train whose users say how many iterations they
 * make.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <math.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}\n"

static const struct firn_job_spec *spec_of(struct loopscene *s,
                                           const char *name)
{
    const struct track *track =
        desk_track(&s->loop->desk, loopscene_job(s, name)->id);
    return &desk_job(&s->loop->desk, track)->spec;
}

/* 20 s of start, 5 s of end, and 100 iterations of 0.1 s were measured. a
 * trains for 60 s, whatever its user said; b, without a duration, for 30, and
 * ends 30 + 25 s behind a. Of c's application nothing was measured: its user's
 * word has the start and the end of the others in it. */
static void iterations_are_believed_before_a_duration(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_START, 20);
    livecosts_add(s.loop->desk.costs, "mine", LIVECOST_END, 5);
    livecounts_ended(s.loop->desk.counts, "mine\t1\t\t0", 100, 10);
    loopscene_submit(
        &s, "a", SOFT "app: mine\nduration: 200s\ntarget: {iterations: 600}");
    loopscene_submit(&s, "b", SOFT "app: mine\ntarget: {iterations: 300}");
    loopscene_submit(
        &s, "c", SOFT "app: other\nduration: 100s\ntarget: {iterations: 600}");
    loopscene_turn(&s);
    assert_true(fabs(loopscene_ends_in_s(&s, "a") - 85) < 1);
    assert_true(fabs(loopscene_ends_in_s(&s, "b") - 140) < 1);
    assert_true(fabs(loopscene_ends_in_s(&s, "c") - 240) < 1);
    assert_true(fabs(spec_of(&s, "a")->duration_s - 200) < 1e-9);
    assert_true(fabs(spec_of(&s, "b")->duration_s - 55) < 1e-9);
    assert_false(spec_of(&s, "b")->is_nominal);
    loopscene_close(&s);
}

/* Jobs of the scene make 100 steps in all. a took 100 s for them, and some for
 * turns of the loop, and its user had said nothing: then one of 250 iterations
 * takes 250 s, and one that waits already is told so. After a kill it is still
 * known. A job on two GPUs, or of another batch, is of another kind. */
static void a_job_that_ends_teaches_how_long_the_next_one_trains(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "sjf", false);
    loopscene_submit(&s, "a", SOFT "app: mine");
    loopscene_submit(&s, "x", SOFT "app: other\nduration: 1h");
    loopscene_turn(&s);
    loopscene_submit(&s, "b", SOFT "app: mine\ntarget: {iterations: 250}");
    loopscene_submit(&s, "hour", SOFT "app: other\nduration: 1000s");
    loopscene_turn(&s);
    assert_true(spec_of(&s, "b")->is_nominal);
    for (int i = 1; i <= 10; i++) {
        loopscene_pass(&s, 10);
        loopscene_report(&s, "a", 0.1 * i, 1, 100);
    }
    loopscene_done(&s, "a");
    loopscene_turn(&s);
    /* b goes first: it is known to be the shorter one. */
    assert_int_equal(loopscene_job(&s, "b")->state, LIVE_RUNNING);
    assert_int_equal(loopscene_job(&s, "hour")->state, LIVE_PENDING);
    assert_true(fabs(spec_of(&s, "b")->duration_s - 250) < 25);
    loopscene_pass(&s, 120);
    loopscene_turn(&s);
    loopscene_kill(&s);
    loopscene_open(&s, "1x2:v100@16", "sjf", true);
    const struct livecounts *counts = s.loop->desk.counts;
    assert_true(fabs(livecounts_training_s(counts, "mine\t1\t\t0", 250) - 250) <
                25);
    loopscene_submit(&s, "c", SOFT "app: mine\ntarget: {iterations: 50}");
    loopscene_submit(&s, "d",
                     SOFT "app: mine\ntarget: {iterations: 50}\nbatch: 64");
    loopscene_turn(&s);
    assert_true(fabs(spec_of(&s, "c")->duration_s - 50) < 5);
    assert_true(spec_of(&s, "d")->is_nominal);
    loopscene_close(&s);
}

/* The policy may change the batch of the first job, so that its steps differ,
 * and the second may be trained together with another; steps of the third are
 * alike. */
static void steps_of_several_kinds_teach_nothing(void **unused)
{
    (void)unused;
    static const char *const jobs[] = {
        SOFT "app: mine\nbatch-rule: linear",
        SOFT "app: mine\nfinetune: {base: b, dataset: d, sharing: allowed}",
        SOFT "app: mine"};
    for (int k = 0; k < 3; k++) {
        struct loopscene s;
        loopscene_open(&s, "1x1:v100@16", "sjf", false);
        loopscene_submit(&s, "a", jobs[k]);
        loopscene_turn(&s);
        for (int i = 1; i <= 10; i++) {
            loopscene_pass(&s, 10);
            loopscene_report(&s, "a", 0.1 * i, 1, 100);
        }
        loopscene_done(&s, "a");
        loopscene_turn(&s);
        double learned_s =
            livecounts_training_s(s.loop->desk.counts, "mine\t1\t\t0", 250);
        assert_true(k < 2 ? learned_s == 0 : learned_s > 200);
        loopscene_close(&s);
        loopscene_remove_state();
    }
}

/* On a cluster of several types it is not known what an iteration takes unless
 * the job names one. */
static void a_kind_has_one_gpu_type(void **unused)
{
    (void)unused;
    struct loopscene s;
    char key[LIVECOUNTS_KEY];
    loopscene_open(&s, "1x1:v100@16,1x1:t4@16", "fifo", false);
    const struct firn_cluster *cluster = &s.loop->dock.cluster;
    struct firn_job_spec spec = {.app = "mine", .gpus = 2, .batch = 32};
    assert_false(livecounts_key(cluster, &spec, key));
    spec.types = "t4|v100";
    assert_false(livecounts_key(cluster, &spec, key));
    spec.types = "t4";
    assert_true(livecounts_key(cluster, &spec, key));
    assert_string_equal(key, "mine\t2\tt4\t32");
    spec.app = "";
    assert_false(livecounts_key(cluster, &spec, key));
    loopscene_close(&s);
}

/* What is kept is what was learned; lines of a broken file are passed over. */
static void what_was_learned_is_written_and_read(void **unused)
{
    (void)unused;
    struct livecounts *counts = livecounts_new(), *again = livecounts_new();
    struct livecounts_row row;
    struct firn_buf text = {0};
    assert_true(livecounts_ended(counts, "a\t1\t\t0", 100, 4));
    assert_true(livecounts_ended(counts, "a\t1\t\t0", 400, 10));
    assert_false(livecounts_ended(counts, "a\t1\t\t0", 400, 10));
    livecounts_ended(counts, "b\t8\tv100\t64", 10, 5);
    livecounts_save(counts, &text);
    buf_puts(&text, "short\t1\t\t0\t1\t2\nc\t1\t\t0\t1\t1\t1\t1\tx\n"
                    "d\t1\t\t0\t-1\t1\t1\t1\t1\n\ne\n"
                    "f\t1\t\t0\t1\t1\t1\t1\t1\t1\n"
                    "g\tone\t\t0\t1\t1\t1\t1\t1\n");
    livecounts_load(again, text.at);
    assert_true(livecounts_training_s(again, "a\t1\t\t0", 700) ==
                livecounts_training_s(counts, "a\t1\t\t0", 700));
    assert_true(livecounts_training_s(again, "c\t1\t\t0", 1) == 0);
    assert_true(livecounts_at(again, 1, &row));
    assert_string_equal(row.app, "b");
    assert_string_equal(row.type, "v100");
    assert_true(row.gpus == 8 && row.batch == 64);
    assert_true(fabs(row.iteration_s - 0.5) < 1e-9 && fabs(row.first_s) < 1e-9);
    assert_false(livecounts_at(again, 2, &row));
    buf_release(&text);
    livecounts_free(counts);
    livecounts_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(iterations_are_believed_before_a_duration),
        CASE(a_job_that_ends_teaches_how_long_the_next_one_trains),
        CASE(steps_of_several_kinds_teach_nothing),
        CASE(a_kind_has_one_gpu_type),
        CASE(what_was_learned_is_written_and_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
