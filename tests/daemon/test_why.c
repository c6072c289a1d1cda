/* test_why.c - one reason, with numbers; and what would happen if.
 */
#define _GNU_SOURCE
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "daemon/jobfile.h"
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SOFT "gpus: 1\ncheckpoint: {grace: 10}"

/* Fails unless the answer has that reason, and the words in its text. */
static void expect(struct loopscene *s, const char *name, const char *reason,
                   const char *words)
{
    struct firn_buf json = {0};
    struct firn_error err = {0};
    assert_int_equal(why_job(s->loop, loopscene_job(s, name), &json, &err),
                     FIRN_OK);
    json_t *root = json_loads(json.at, 0, NULL);
    assert_non_null(root);
    const char *text = json_string_value(json_object_get(root, "text"));
    assert_string_equal(json_string_value(json_object_get(root, "reason")),
                        reason);
    if (strstr(text, words) == NULL)
        fail_msg("\"%s\"", text);
    json_decref(root);
    buf_release(&json);
}

static void too_few_gpus_are_counted_and_the_next_are_expected(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    loopscene_submit(&s, "b", "gpus: 2");
    loopscene_turn(&s);
    expect(&s, "b", "capacity", "waits for 2 GPUs; 1 free");
    loopscene_report(&s, "a", 0.5, 2, 100);
    expect(&s, "b", "capacity", "enough in about 2 min");
    expect(&s, "a", "none", "runs on n0[0]");
    loopscene_close(&s);
}

static json_t *object_of(struct firn_buf *json)
{
    json_t *root = json_loads(json->at, 0, NULL);
    assert_non_null(root);
    buf_release(json);
    return root;
}

static void why_and_eta_agree_and_why_names_the_blockers(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 2\nduration: 100s\nrestart: allowed");
    loopscene_submit(&s, "b", "gpus: 2\nduration: 300s");
    loopscene_submit(&s, "c", "gpus: 4\nduration: 50s");
    loopscene_turn(&s);
    struct live_job *job = loopscene_job(&s, "c");
    assert_int_equal(why_job(s.loop, job, &json, &err), FIRN_OK);
    json_t *why = object_of(&json);
    assert_int_equal(dryrun_eta(s.loop, job, &json, &err), FIRN_OK);
    json_t *eta = object_of(&json);
    double start_s = json_number_value(json_object_get(why, "start_s"));
    double same_s = json_number_value(json_object_get(eta, "start_s"));
    assert_true(start_s > 200 && start_s < 310);
    assert_true(fabs(start_s - same_s) < 1);
    const json_t *blockers = json_object_get(why, "blockers");
    assert_int_equal(json_array_size(blockers), 2);
    const json_t *first = json_array_get(blockers, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "job")),
                     loopscene_job(&s, "a")->id);
    assert_int_equal(json_integer_value(json_object_get(first, "gpus")), 2);
    json_decref(why);
    json_decref(eta);
    loopscene_close(&s);
}

/* Free GPUs are no reason of a job that its user holds, or that runs. */
static void only_a_job_that_lacks_gpus_is_told_how_many_are_free(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "a", "gpus: 2\nmemory: 10GiB");
    loopscene_submit(&s, "b", "gpus: 3");
    loopscene_hold(&s, job, true);
    loopscene_submit(&s, "c", "gpus: 4");
    loopscene_turn(&s);
    assert_int_equal(why_job(s.loop, job, &json, &err), FIRN_OK);
    json_t *held = object_of(&json);
    assert_int_equal(why_job(s.loop, loopscene_job(&s, "c"), &json, &err),
                     FIRN_OK);
    json_t *waits = object_of(&json);
    assert_null(json_object_get(held, "have"));
    assert_true(json_number_value(json_object_get(json_object_get(held, "need"),
                                                  "mem_gib")) == 10);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(waits, "have"), "gpus")),
                     1);
    json_decref(held);
    json_decref(waits);
    loopscene_close(&s);
}

/* What `firn ls` says of it. */
static void expect_listed(struct loopscene *s, const char *name,
                          const char *reason, const char *words)
{
    struct api_host host = loop_host(s->loop);
    enum live_reason because = LIVE_BECAUSE_NONE;
    char text[LIVE_TEXT];
    host.waits(host.arg, loopscene_job(s, name), &because, text);
    assert_string_equal(live_reason_name(because), reason);
    assert_string_equal(text, words);
}

static void a_list_says_the_same_in_short(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", SOFT);
    struct live_job *job = loopscene_submit(&s, "b", "gpus: 2");
    loopscene_submit(&s, "c", "gpus: 9");
    expect_listed(&s, "b", "new", "no round has seen it yet");
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.5, 2, 100);
    expect_listed(&s, "b", "capacity", "waits for 2 GPUs; 1 free");
    expect_listed(&s, "c", "never", loopscene_job(&s, "c")->why);
    loopscene_hold(&s, job, true);
    expect_listed(&s, "b", "held", "its user holds it back");
    loopscene_close(&s);
}

static void gpus_of_others_are_counted_apart(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:v100@16", "fifo", false);
    loopscene_taken(&s, 0, 6);
    loopscene_submit(&s, "a", "gpus: 3");
    loopscene_turn(&s);
    expect(&s, "a", "capacity",
           "waits for 3 GPUs; 2 free, 2 used by processes outside of firn");
    loopscene_taken(&s, 0, 0);
    assert_int_equal(loopscene_job(&s, "a")->state, LIVE_RUNNING);
    loopscene_close(&s);
}

static void types_memory_and_drains_have_reasons_of_their_own(void **unused)
{
    (void)unused;
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:t4@16,1x1:a100@40", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1\ngpu: [a100]\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    loopscene_submit(&s, "kind", "gpus: 1\ngpu: [a100]");
    loopscene_submit(&s, "large", "gpus: 1\nmemory: 30");
    loopscene_turn(&s);
    expect(&s, "kind", "type", "1 GPU of a100; 0 free");
    expect(&s, "large", "memory", "with >= 30.0 GiB; 0 free");
    loop_drain(s.loop, 1, true, &err);
    loopscene_turn(&s);
    expect(&s, "kind", "drained", "0 are left");
    loopscene_close(&s);
}

static void held_and_hopeless_jobs_say_so(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *job = loopscene_submit(&s, "held", "gpus: 1");
    loopscene_hold(&s, job, true);
    loopscene_submit(&s, "huge", "gpus: 99");
    loopscene_submit(&s, "bad", "gpus: 1\nretry: {on: [failure], max: 9}");
    loopscene_turn(&s);
    expect(&s, "held", "held", "its user");
    expect(&s, "huge", "never", "wants 99 GPUs");
    loopscene_fail(&s, "bad", FIRN_END_FAILED, 4);
    expect(&s, "bad", "retry", "status 4");
    loopscene_close(&s);
}

/* What the answer of a dry run says under a key. */
static double planned(struct loopscene *s, const char *lines, const char *key,
                      char *change, size_t max)
{
    struct firn_buf text = {0}, json = {0};
    struct firn_error err = {0};
    struct live_ask ask = {0};
    buf_printf(&text, "name: x\nrun: [/bin/true]\n%s\n", lines);
    struct firn_bytes bytes = {text.at, text.n};
    assert_int_equal(jobfile_read(&ask, bytes, "t", &err), FIRN_OK);
    if (dryrun_plan(s->loop, &ask, &json, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    json_t *root = json_loads(json.at, 0, NULL);
    assert_non_null(root);
    const json_t *value = json_object_get(root, key);
    double out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    const char *said = json_string_value(json_object_get(root, "change"));
    snprintf(change, max, "%s", said != NULL ? said : "");
    json_decref(root);
    live_ask_release(&ask);
    buf_release(&text);
    buf_release(&json);
    return out;
}

static void a_dry_run_tells_start_and_end_and_changes_nothing(void **unused)
{
    (void)unused;
    struct loopscene s;
    char change[128];
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1\nduration: 100\ncheckpoint: {grace: 9}");
    loopscene_turn(&s);
    char before[256];
    snprintf(before, sizeof before, "%s", loopscene_text(&s));
    size_t ids = s.loop->desk.books.n;
    double now_s = planned(&s, "gpus: 1\nduration: 50", "start_s", change, 128);
    assert_true(now_s == 0);
    double end_s =
        planned(&s, "gpus: 1\nduration: 50", "finish_s", change, 128);
    assert_true(fabs(end_s - 50) < 1e-6);
    double later_s =
        planned(&s, "gpus: 2\nduration: 50", "start_s", change, 128);
    assert_true(later_s > 95 && later_s <= 100);
    assert_string_equal(change, "could start now with gpus: 1");
    assert_int_equal(s.loop->desk.books.n, ids);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), before);
    loopscene_close(&s);
}

static void the_smallest_change_is_told(void **unused)
{
    (void)unused;
    struct loopscene s;
    char change[128];
    loopscene_open(&s, "1x8:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 2\nduration: 100");
    loopscene_turn(&s);
    planned(&s, "gpus: 8\nduration: 50", "start_s", change, 128);
    assert_string_equal(change, "could start now with gpus: 6");
    loopscene_submit(&s, "b", "gpus: 7\nduration: 10"); /* goes before it */
    loopscene_turn(&s);
    planned(&s, "gpus: 8\nduration: 50", "start_s", change, 128);
    assert_string_equal(change, "");
    loopscene_close(&s);
}

/* A guest that fits beside its host in several passes of a step only. */
static void a_dry_run_shares_as_the_round_does(void **unused)
{
    (void)unused;
    static const char half[] = "share: allowed\nmemory: 8GiB\nbatch: 32\n"
                               "duration: 10\nelastic: {threads: 1}";
    struct loopscene s;
    char change[128];
    loopscene_open(&s, "1x1:v100@16", "sjf-bsbf", false);
    loopscene_submit(&s, "host",
                     "share: allowed\nmemory: 8GiB\nbatch: 32\n"
                     "duration: 60\nelastic: {threads: 1}");
    loopscene_turn(&s);
    double start_s = planned(&s, half, "start_s", change, 128);
    loopscene_submit(&s, "guest", half);
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s),
                        "host running n0[0]~; guest running n0[0]~");
    assert_true(start_s == 0);
    loopscene_close(&s);
}

/* Nodes have their names wherever they are told. */
static void an_eta_has_the_names_of_nodes(void **unused)
{
    (void)unused;
    static const char *const names[] = {"gpu-a", "gpu-b"};
    static const char *const jobs[] = {"soft", "rigid"};
    struct loopscene s;
    loopscene_play.names = names;
    loopscene_open(&s, "2x1:v100@16", "fifo", false);
    loopscene_submit(&s, "soft", SOFT);
    loopscene_submit(&s, "rigid", "gpus: 1");
    loopscene_turn(&s);
    for (size_t i = 0; i < 2; i++) {
        struct firn_buf json = {0};
        struct firn_error err = {0};
        dryrun_eta(s.loop, loopscene_job(&s, jobs[i]), &json, &err);
        assert_non_null(strstr(json.at, names[i]));
        buf_release(&json);
    }
    loopscene_close(&s);
}

static double lost_s; /* at each look at the clock */

/* Instead of libc's: of a machine on which time passes while nothing is done.
 * Not so the processor time. */
int clock_gettime(clockid_t which, struct timespec *t)
{
    static double sum_s;
    int rc = (int)syscall(SYS_clock_gettime, which, t);
    if (which == CLOCK_MONOTONIC) {
        sum_s += lost_s;
        double whole_s = floor(sum_s);
        t->tv_sec += (time_t)whole_s;
        t->tv_nsec += (long)((sum_s - whole_s) * 1e9);
        t->tv_sec += t->tv_nsec / 1000000000;
        t->tv_nsec %= 1000000000;
    }
    return rc;
}

static void check_eta(void)
{
    struct loopscene s;
    struct firn_buf json = {0};
    struct firn_error err = {0};
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1\nduration: 100\ncheckpoint: {grace: 9}");
    loopscene_submit(&s, "b", "gpus: 1\nduration: 10");
    loopscene_submit(&s, "c", "gpus: 1\nduration: 10");
    loopscene_turn(&s);
    assert_int_equal(dryrun_eta(s.loop, loopscene_job(&s, "c"), &json, &err),
                     FIRN_OK);
    json_t *root = json_loads(json.at, 0, NULL);
    double start_s = json_number_value(json_object_get(root, "start_s"));
    double end_s = json_number_value(json_object_get(root, "finish_s"));
    assert_true(start_s > 105 && start_s < 110 + 1e-6);
    assert_true(fabs(end_s - start_s - 10) < 1e-6);
    json_decref(root);
    buf_release(&json);
    loopscene_close(&s);
}

static void an_eta_follows_the_queue(void **unused)
{
    (void)unused;
    check_eta();
}

static void an_eta_is_known_on_a_busy_machine_too(void **unused)
{
    (void)unused;
    lost_s = 0.5;
    check_eta();
    lost_s = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(too_few_gpus_are_counted_and_the_next_are_expected),
        CASE(why_and_eta_agree_and_why_names_the_blockers),
        CASE(only_a_job_that_lacks_gpus_is_told_how_many_are_free),
        CASE(gpus_of_others_are_counted_apart),
        CASE(a_list_says_the_same_in_short),
        CASE(types_memory_and_drains_have_reasons_of_their_own),
        CASE(held_and_hopeless_jobs_say_so),
        CASE(a_dry_run_tells_start_and_end_and_changes_nothing),
        CASE(the_smallest_change_is_told),
        CASE(a_dry_run_shares_as_the_round_does),
        CASE(an_eta_has_the_names_of_nodes),
        CASE(an_eta_follows_the_queue),
        CASE(an_eta_is_known_on_a_busy_machine_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
