/* test_loop_memory.c - memory of language models: predicted, seen, corrected.
 */
#include "base/buf.h"
#include "tests/daemon/loopscene.h"
#include <firn/parallel.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* 8B in bf16: 60 GiB of weights, gradients and moments. */
static const char model[] =
    "batch: 8\ncheckpoint: {grace: 9}\ncan: [tensor, sharded, passes]\n"
    "model: {name: llama-3.1-8b, seq: 1024, precision: bf16, loss: fused,\n"
    "        optimizer: adamw-fused, checkpointing: layers}";

static struct firn_peak_seen seen_of(const struct loopscene *s,
                                     const struct live_job *job)
{
    struct firn_job_spec spec;
    desk_spec(&s->loop->desk, job, &spec);
    return memseen_get(s->loop->desk.memory, &spec);
}

static struct firn_how how_of(const struct loopscene *s,
                              const struct live_job *job)
{
    return desk_track(&s->loop->desk, job->id)->granted.how;
}

/* The object of the API; "" without one. */
static void check_json(const struct loopscene *s, const struct live_job *job,
                       const char *words)
{
    struct firn_buf text = {0};
    loop_memory_json(s->loop, job, &text);
    const char *got = text.n > 0 ? text.at : "";
    if (words[0] == '\0' ? got[0] != '\0' : strstr(got, words) == NULL)
        fail_msg("'%s' has no '%s'", got, words);
    buf_release(&text);
}

static void a_plan_that_ran_out_of_memory_is_not_made_again(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:a100@40", "frenzy", false);
    struct live_job *job = loopscene_submit(&s, "a", model);
    loopscene_turn(&s);
    struct firn_how first = how_of(&s, job);
    int gpus = desk_track(&s.loop->desk, job->id)->granted.ngpus;
    assert_true(first.tensor >= 1 && first.passes >= 1);
    check_json(&s, job, "\"ratio\": 1}");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_int_equal(job->reason, LIVE_BECAUSE_RETRY);
    assert_non_null(strstr(job->why, "ran out of memory: predicted "));
    assert_non_null(strstr(job->why, " of 40 GiB a GPU; memory of llama-3.1-8b "
                                     "is now predicted "));
    assert_true(job->ask.mem_gib == 0); /* another plan, not a larger GPU */
    struct firn_peak_seen seen = seen_of(&s, job);
    assert_int_equal(seen.failures, 1);
    assert_true(firn_peak_ratio(&seen) >= 1.1);
    loopscene_pass(&s, 5);
    assert_int_equal(job->state, LIVE_RUNNING);
    struct firn_how second = how_of(&s, job);
    assert_false(firn_how_equal(&first, &second) &&
                 desk_track(&s.loop->desk, job->id)->granted.ngpus == gpus);
    check_json(&s, job, "\"ratio\": 1.");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_int_equal(job->state, LIVE_FAILED);
    assert_int_equal(job->reason, LIVE_BECAUSE_OUT_OF_MEMORY);
    check_json(&s, job, "");
    loopscene_close(&s);
}

/* The only plan there is does not fit any more. */
static void a_model_without_another_plan_has_failed(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:a100@80", "frenzy", false);
    struct live_job *job = loopscene_submit(
        &s, "a",
        "batch: 1\ncheckpoint: {grace: 9}\ncan: [passes]\n"
        "model: {name: llama-3.1-8b, seq: 1024, precision: bf16, loss: fused,\n"
        "        optimizer: adamw-fused, checkpointing: layers}");
    loopscene_turn(&s);
    assert_string_equal(job->held, "n0[0]");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_int_equal(job->state, LIVE_FAILED);
    assert_non_null(strstr(job->why, ", and no plan fits"));
    loopscene_close(&s);
}

/* Reported at its end or before: once an attempt. By half of what the allocator
 * was predicted to hold the mean goes to 0.75. A restart keeps it. */
static void a_peak_corrects_predictions_once_an_attempt(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:a100@40", "frenzy", false);
    struct live_job *job = loopscene_submit(&s, "a", model);
    loopscene_turn(&s);
    loopscene_report(&s, "a", 0.1, 1, 1024);
    check_json(&s, job, "\"seen_gib\": 1,");
    assert_int_equal(seen_of(&s, job).n, 0);
    for (int i = 2; i <= 12; i++)
        loopscene_report(&s, "a", 0.1 + 0.01 * i, 1, 1024);
    struct firn_peak_seen seen = seen_of(&s, job);
    assert_int_equal(seen.n, 1);
    assert_true(fabs(seen.mean - 0.75) < 1e-12);
    loopscene_done(&s, "a");
    assert_int_equal(seen_of(&s, job).n, 1);
    loopscene_close(&s);
    loopscene_open(&s, "1x4:a100@40", "frenzy", true);
    job = loopscene_submit(&s, "b", model);
    seen = seen_of(&s, job);
    assert_true(seen.n == 1 && fabs(seen.mean - 0.75) < 1e-12);
    struct firn_job_spec spec;
    desk_spec(&s.loop->desk, job, &spec);
    assert_true(fabs(spec.mem_ratio - 0.75) < 1e-12);
    /* Below a tenth report, at the end. */
    loopscene_turn(&s);
    loopscene_report(&s, "b", 0.1, 1, 1024);
    loopscene_done(&s, "b");
    assert_int_equal(seen_of(&s, job).n, 2);
    loopscene_close(&s);
}

/* Of a model that Frenzy's formula has, in its precision and in one that is
 * said: a peak corrects the prediction, memory that ran out raises it, and the
 * second plan is another. */
static void models_of_frenzys_formula_are_learned_from_too(void **unused)
{
    (void)unused;
    static const char *const words[] = {"", ", precision: bf16"};
    for (size_t i = 0; i < 2; i++) {
        struct loopscene s;
        struct firn_buf lines = {0};
        loopscene_open(&s, "1x4:a100@40", "frenzy", false);
        buf_printf(&lines,
                   "batch: 3\ncheckpoint: {grace: 9}\ncan: [tensor]\n"
                   "model: {name: gpt2-774m, seq: 1024%s}",
                   words[i]);
        struct live_job *job = loopscene_submit(&s, "a", lines.at);
        loopscene_turn(&s);
        loopscene_report(&s, "a", 0.1, 1, 1024);
        check_json(&s, job, "\"seen_gib\": 1,");
        loopscene_done(&s, "a");
        struct firn_peak_seen seen = seen_of(&s, job);
        assert_int_equal(seen.n, 1);
        assert_true(fabs(seen.mean - 0.75) < 1e-12); /* 1 GiB is below half */
        job = loopscene_submit(&s, "b", lines.at);
        loopscene_turn(&s);
        int gpus = desk_track(&s.loop->desk, job->id)->granted.ngpus;
        assert_int_equal(gpus, 1);
        loopscene_fail(&s, "b", FIRN_END_MEMORY, 1);
        assert_non_null(strstr(job->why, "; memory of gpt2-774m is now "));
        seen = seen_of(&s, job);
        assert_int_equal(seen.failures, 1);
        loopscene_pass(&s, 5);
        assert_int_equal(job->state, LIVE_RUNNING);
        assert_true(desk_track(&s.loop->desk, job->id)->granted.ngpus > 1);
        buf_release(&lines);
        loopscene_close(&s);
    }
}

/* Jobs that wait are planned by the newest ratio; another model is not. */
static void waiting_jobs_of_the_model_are_planned_anew(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x4:a100@40", "frenzy", false);
    struct firn_buf lines = {0};
    buf_printf(&lines, "gpus: 4\n%s", model);
    struct live_job *job = loopscene_submit(&s, "a", lines.at);
    struct live_job *next = loopscene_submit(&s, "b", lines.at);
    struct live_job *last = loopscene_submit(&s, "c", lines.at);
    struct live_job *other =
        loopscene_submit(&s, "d",
                         "gpus: 4\nbatch: 8\ncheckpoint: {grace: 9}\n"
                         "model: {name: qwen2.5-0.5b, seq: 1024, loss: fused}");
    loopscene_turn(&s);
    assert_int_equal(job->state, LIVE_RUNNING);
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    loopscene_turn(&s);
    assert_int_equal(next->state, LIVE_RUNNING);
    const struct desk *desk = &s.loop->desk;
    const struct firn_job *waits = desk_job(desk, desk_track(desk, last->id));
    assert_int_equal(waits->held.nparts, 0);
    assert_true(waits->spec.mem_ratio > 1);
    waits = desk_job(desk, desk_track(desk, other->id));
    assert_int_equal(waits->held.nparts, 0);
    assert_true(waits->spec.mem_ratio == 0);
    buf_release(&lines);
    loopscene_close(&s);
}

/* fifo makes no plans: predicted stands beside what there was, and the job is
 * tried on larger GPUs as any other. */
static void a_policy_without_plans_has_it_tried_on_larger_gpus(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:a100@40,1x1:h100@80", "fifo", false);
    struct live_job *job = loopscene_submit(
        &s, "a",
        "gpus: 1\nbatch: 4\ncheckpoint: {grace: 9}\n"
        "model: {name: qwen2.5-0.5b, seq: 1024, precision: bf16,\n"
        "        loss: fused}");
    loopscene_turn(&s);
    assert_string_equal(job->held, "n0[0]");
    loopscene_fail(&s, "a", FIRN_END_MEMORY, 1);
    assert_non_null(strstr(job->why, "ran out of memory: predicted "));
    assert_non_null(strstr(job->why, "tried once more with "));
    loopscene_pass(&s, 5);
    assert_string_equal(job->held, "n1[0]");
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_plan_that_ran_out_of_memory_is_not_made_again),
        CASE(a_model_without_another_plan_has_failed),
        CASE(a_peak_corrects_predictions_once_an_attempt),
        CASE(models_of_frenzys_formula_are_learned_from_too),
        CASE(waiting_jobs_of_the_model_are_planned_anew),
        CASE(a_policy_without_plans_has_it_tried_on_larger_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
