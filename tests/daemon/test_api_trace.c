/* test_api_trace.c - the daemon's history as a trace.
 *
 * The host has a node of four V100s and one of eight A100s, which are the
 * reference: a second on V100s is worth less than one.
 */
#include "apiscene.h"
#include "lib/play.h"
#include <firn/trace.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CLUSTER "1x4:v100@16,1x8:a100@80"

static double speed_of_v100(void)
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    assert_int_equal(firn_cluster_parse_spec(&cluster, CLUSTER, &err), FIRN_OK);
    double speed = cluster.types[firn_cluster_type(&cluster, "v100")].speed;
    assert_true(speed > 0 && speed < 1);
    firn_cluster_release(&cluster);
    return speed;
}

/* Job `id` starts, and ends there after so long. */
static void start_and_end(firn_job_id id, const char *held, double ran_s,
                          enum firn_end end)
{
    struct firn_error err;
    api_run_job(id);
    struct store_attempt attempt = {.job = id,
                                    .number = api_job_of(id)->attempt,
                                    .started_s = 2000,
                                    .ended_s = 2000 + ran_s,
                                    .end = (int)end,
                                    .held = held};
    assert_int_equal(
        book_attempt_ended(api_scene.book, api_job_of(id), &attempt, &err),
        FIRN_OK);
}

static void is_done(firn_job_id id)
{
    struct firn_error err;
    assert_int_equal(book_state(api_scene.book, api_job_of(id), LIVE_SUCCEEDED,
                                LIVE_BECAUSE_EXIT, 2200, "done", &err),
                     FIRN_OK);
}

/* A job of these lines that ran once, and kept to that type, or "". */
static void typed_job(const char *lines, const char *type, const char *held,
                      double ran_s)
{
    static const char start[] = "run: [sleep, '1']\n";
    char text[512];
    snprintf(text, sizeof text, "%s%s\n", start, lines);
    api_just("POST", "/v1/jobs", text, 201);
    firn_job_id id = (firn_job_id)book_count(api_scene.book);
    start_and_end(id, held, ran_s, FIRN_END_DONE);
    struct firn_error err = {0};
    assert_int_equal(book_type(api_scene.book, api_job_of(id), type, &err),
                     FIRN_OK);
    is_done(id);
}

static void past_job(const char *lines, const char *held, double ran_s)
{
    typed_job(lines, "", held, ran_s);
}

static struct reply fetch(const char *target)
{
    struct reply r = caller_ask(&api_scene.caller, "GET", target, NULL, "");
    assert_int_equal(r.status, 200);
    return r;
}

/* The trace as a file that is open. */
static struct firn_trace *open_trace_of(const char *target)
{
    struct reply r = fetch(target);
    struct firn_trace *trace = NULL;
    struct firn_error err = {0};
    play_write(api_scene.log, r.body);
    reply_release(&r);
    if (firn_trace_open(&trace, api_scene.log,
                        &(struct firn_trace_options){.strict = true},
                        &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return trace;
}

static struct firn_trace *open_trace(void)
{
    return open_trace_of("/v1/trace");
}

static struct firn_job_spec next_of(struct firn_trace *trace)
{
    struct firn_job_spec spec;
    struct firn_error err = {0};
    if (!firn_trace_next(trace, &spec, &err))
        fail_msg("no more: %s", err.text);
    return spec;
}

static void the_trace_of_finished_jobs_reads_back(void **state)
{
    (void)state;
    double v100 = speed_of_v100();
    past_job("name: a\ngpus: 2", "n0[0-1]", 60);
    api_just("POST", "/v1/jobs",
             "name: e\nrun: [sleep, '1']\ngpus: 1..4\n"
             "elastic: {consistency: D2, scan: passed}\n",
             201);
    start_and_end(2, "n0[2] n1[0,3]~", 100, FIRN_END_CHECKPOINT);
    start_and_end(2, "n1[0-3]", 25, FIRN_END_DONE);
    is_done(2);
    api_just("POST", "/v1/jobs", api_simple, 201); /* never runs */
    struct firn_trace *trace = open_trace();
    struct firn_job_spec spec = next_of(trace);
    assert_string_equal(spec.name, "1-a");
    assert_int_equal(spec.gpus, 2);
    assert_true(play_near(spec.duration_s, 60 * v100) && spec.submit_s == 0);
    spec = next_of(trace);
    assert_string_equal(spec.name, "2-e");
    assert_int_equal(spec.gpus, 4);
    assert_int_equal(spec.gpus_min, 1);
    assert_true(play_near(spec.duration_s, (3 * 100 * v100 + 4 * 25) / 4.0));
    assert_true(spec.submit_s > 0);
    assert_false(firn_trace_next(trace, &spec, NULL));
    firn_trace_close(trace);
    struct reply r = fetch("/v1/trace?since=1000000");
    assert_null(strstr(r.body, "1-a"));
    reply_release(&r);
}

/* One of each level; without such a job the column is missing. */
static void the_trace_marks_jobs_that_keep_to_one_type(void **state)
{
    (void)state;
    static const char *const levels[] = {"D2, scan: passed", "D1", "D0"};
    double v100 = speed_of_v100();
    past_job("name: x\ngpus: 1", "n1[0]", 50);
    past_job("name: y\ngpus: 1..2\nelastic: {consistency: D2, scan: passed}",
             "n0[0]", 50);
    struct reply r = fetch("/v1/trace");
    assert_non_null(strstr(r.body, "#firn-trace 1\nname,submit_s,gpus,"
                                   "duration_s,gpus_max,group\n"));
    reply_release(&r);
    for (int i = 0; i < 3; i++) {
        char lines[80];
        snprintf(lines, sizeof lines,
                 "name: l%d\ngpus: 1..4\nelastic: {consistency: %s}", i,
                 levels[i]);
        /* Nodes were counted otherwise when the last one ran. */
        typed_job(lines,
                  i == 0   ? ""
                  : i == 1 ? "v100"
                           : "a100",
                  "n0[0-1]", 100);
    }
    struct firn_trace *trace = open_trace();
    for (int i = 0; i < 2; i++)
        assert_false(next_of(trace).one_type);
    for (int i = 0; i < 3; i++) {
        struct firn_job_spec spec = next_of(trace);
        assert_int_equal(spec.one_type, i > 0);
        assert_int_equal(spec.gpus_max, 4);
        assert_true(play_near(spec.duration_s, i == 2 ? 100 : 100 * v100));
    }
    firn_trace_close(trace);
}

/* What the round went by, the simulation does. */
static void a_row_has_the_spec_that_was_scheduled(void **state)
{
    (void)state;
    past_job("name: all\nqueue: team\npriority: 7\ngpus: 2..4\ngpu: a100\n"
             "memory: 12GiB\nbatch: 64\napp: bert\nshare: allowed\n"
             "elastic: {threads: 8}\nfreeze: {max: 30%}\n"
             "finetune: {base: b, dataset: d, sharing: allowed}",
             "n1[0-2]", 10);
    past_job("name: alone\ngpus: 2..4\nshare: allowed\n"
             "finetune: {base: b, dataset: d, sharing: allowed}",
             "n1[0-2]", 10);
    past_job("name: again\ngpus: 2..4\nshare: allowed\nrestart: allowed",
             "n1[0-2]", 10);
    struct firn_trace *trace = open_trace();
    struct firn_job_spec spec = next_of(trace);
    assert_string_equal(spec.group, "team");
    assert_string_equal(spec.app, "bert");
    assert_string_equal(spec.types, "a100");
    assert_int_equal(spec.priority, 7);
    assert_int_equal(spec.batch, 64);
    assert_int_equal(spec.threads, 8);
    assert_true(spec.mem_gib == 12 && spec.frozen_max == 0.3);
    assert_true(spec.may_share && spec.may_merge && spec.one_type);
    assert_true(spec.gpus_min == 2 && spec.gpus == 3 && spec.gpus_max == 4);
    spec = next_of(trace); /* can neither be stopped nor resized */
    assert_false(spec.may_share || spec.may_merge || spec.one_type);
    assert_true(spec.gpus_min == 3 && spec.gpus == 3 && spec.gpus_max == 3);
    spec = next_of(trace); /* can, from nothing */
    assert_true(spec.may_share && !spec.may_merge);
    assert_true(spec.gpus_min == 2 && spec.gpus_max == 4);
    firn_trace_close(trace);
}

/* How long the first job holds its GPUs when the history is simulated. */
static double simulated_s(const char *policy)
{
    struct reply r = fetch("/v1/trace");
    struct play play;
    play_open(&play, CLUSTER, r.body);
    play_run(&play, policy);
    assert_int_equal(play.result.bad_rows, 0);
    double held_s = play.done.at[0].held_s;
    play_close(&play);
    reply_release(&r);
    return held_s;
}

static void a_job_placed_as_it_was_takes_as_long_as_it_took(void **state)
{
    (void)state;
    past_job("name: a\ngpus: 2\ngpu: v100", "n0[0-1]", 60);
    assert_true(play_near(simulated_s("fifo"), 60));
    api_scene_stop(NULL);
    api_scene_start(NULL);
    past_job("gpus: 2\ngpu: v100\nbatch: 8\nmodel: {name: gpt2, seq: 512}",
             "n0[0-1]", 60);
    assert_true(play_near(simulated_s("fifo"), 60));
    struct reply r = fetch("/v1/trace");
    assert_non_null(strstr(r.body, ",seq"));
    reply_release(&r);
}

/* Its user left the GPUs to the policy: so does the trace. */
static void a_language_model_keeps_its_shape_and_open_range(void **state)
{
    (void)state;
    past_job("batch: 8\nmodel: {name: gpt2-xl, seq: 1024}", "n1[0-1]", 600);
    past_job("batch: 8\nmodel: {name: big, hidden: 12288, layers: 96, "
             "heads: 96, vocab: 50257, seq: 2048}",
             "n1[0-7]", 600); /* none of these GPUs holds it */
    struct firn_trace *trace = open_trace();
    struct firn_job_spec spec = next_of(trace);
    assert_string_equal(spec.app, "gpt2-xl");
    assert_int_equal(spec.seq, 1024);
    assert_int_equal(spec.gpus, 2);
    assert_true(spec.gpus_min <= 2 && spec.gpus_max > 2);
    assert_true(play_near(spec.duration_s, 600)); /* on the reference */
    spec = next_of(trace);
    assert_int_equal(spec.seq, 0);
    assert_true(spec.gpus == 8 && spec.gpus_min == 8 && spec.gpus_max == 8);
    assert_true(play_near(spec.duration_s, 600));
    firn_trace_close(trace);
    assert_true(simulated_s("frenzy") > 0);
}

/* By Slurm's account a short job may begin and end in the same second. */
/* Two jobs held a GPU for 100 s each; the first step of the second came after
 * 30 s, as the state file has it. Of the first nothing is known. */
static void a_measured_start_is_no_training(void **state)
{
    (void)state;
    struct firn_error err = {0};
    double v100 = speed_of_v100();
    past_job("gpus: 1", "n0[0]", 100);
    api_just("POST", "/v1/jobs", "run: [sleep, '1']\ngpus: 1\n", 201);
    firn_job_id id = (firn_job_id)book_count(api_scene.book);
    start_and_end(id, "n0[0]", 100, FIRN_END_DONE);
    assert_int_equal(book_first_step(api_scene.book, api_job_of(id), 30, &err),
                     FIRN_OK);
    is_done(id);
    struct firn_trace *trace = open_trace_of("/v1/trace?costs=1");
    assert_true(fabs(next_of(trace).duration_s - 100 * v100) < 1e-6);
    assert_true(fabs(next_of(trace).duration_s - 70 * v100) < 1e-6);
    firn_trace_close(trace);
}

static void a_job_that_took_no_time_is_in_the_trace(void **state)
{
    (void)state;
    past_job("gpus: 1", "n0[0]", 0);
    struct firn_trace *trace = open_trace();
    struct firn_job_spec spec = next_of(trace);
    assert_true(spec.gpus == 1 && spec.duration_s > 0);
    firn_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(the_trace_of_finished_jobs_reads_back),
        CASE(the_trace_marks_jobs_that_keep_to_one_type),
        CASE(a_row_has_the_spec_that_was_scheduled),
        CASE(a_job_placed_as_it_was_takes_as_long_as_it_took),
        CASE(a_language_model_keeps_its_shape_and_open_range),
        CASE(a_measured_start_is_no_training),
        CASE(a_job_that_took_no_time_is_in_the_trace),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
