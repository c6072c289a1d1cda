/* dryrun.c - what would happen: the real policy on a copy of the real state.
 *
 * A second round is made with the same policy, options, policy memory and jobs;
 * its engine starts nothing. Time is rolled forward from one expected end to
 * the next: a job that runs ends when the work it has left is done at the rate
 * it reports, or at the rate that is forecast for what the policy gave it. The
 * job in question starts where the policy first gives it GPUs.
 *
 * What it leaves out: jobs that will be submitted meanwhile, restarts' costs,
 * and guessed durations are guesses. The range told for a moment is from half
 * to twice its distance, unless the job runs and reports.
 *
 * Cost: a round for each end until the answer, MOST_ROUNDS at most. Nothing
 * that anybody can see changes.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROUNDS = 2000 };

struct dryrun {
    struct loop *loop;
    struct firn_engine_def def;
    struct round *round;
    double began_s, now_s;
    firn_job_id job; /* in question, in this round */
    double start_s;  /* since now; NaN: not within what was rolled */
    double end_s;
    struct firn_buf gpus; /* that it starts on */
    double rate;
    int nslowed; /* running jobs that lost GPUs for its start */
};

/* --- an engine that does nothing ----------------------------------------- */

static double now_s(void *state)
{
    return ((const struct dryrun *)state)->now_s;
}

static enum firn_status apply(void *state, const struct firn_step *step,
                              struct firn_error *err)
{
    struct dryrun *dry = state;
    (void)err;
    if (step->job->id == dry->job && step->kind != FIRN_STEP_STOP &&
        isnan(dry->start_s)) {
        struct firn_buf gpus = {0};
        dry->start_s = dry->now_s - dry->began_s;
        firn_alloc_print(step->to, &gpus);
        loop_gpus_text(dry->loop, gpus.at, &dry->gpus);
        buf_release(&gpus);
    }
    if (step->job->id != dry->job && (step->kind == FIRN_STEP_STOP ||
                                      step->to->ngpus < step->job->held.ngpus))
        dry->nslowed++;
    return FIRN_OK;
}

/* Its jobs have the ids of the real round's. */
static firn_job_id book_id(const struct dryrun *dry, const struct firn_job *job)
{
    return loop_book_id(dry->loop, job->id);
}

static double rate(void *state, const struct firn_job *job,
                   const struct firn_way *way, double at_s)
{
    const struct dryrun *dry = state;
    (void)at_s;
    return liveforecast_rate(dry->loop->forecast, book_id(dry, job), job, way);
}

static int gpus_max(void *state, const struct firn_job *job, unsigned tunes)
{
    const struct dryrun *dry = state;
    return liveforecast_gpus_max(dry->loop->forecast, book_id(dry, job), job,
                                 tunes);
}

static double slowdown(void *state, const struct firn_job *job,
                       const struct firn_job *other)
{
    const struct dryrun *dry = state;
    struct liveforecast_job a = {book_id(dry, job), job};
    struct liveforecast_job b = {book_id(dry, other), other};
    return liveforecast_slowdown(dry->loop->forecast, a, b);
}

static struct firn_load load(void *state, const struct firn_job *job,
                             const struct firn_way *way)
{
    const struct dryrun *dry = state;
    return liveforecast_load(dry->loop->forecast, book_id(dry, job), job, way);
}

static size_t llm_ways(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max)
{
    const struct dryrun *dry = state;
    return liveforecast_llm_ways(dry->loop->forecast, book_id(dry, job), job,
                                 out, max);
}

static bool merge(void *state, const struct firn_job *a,
                  const struct firn_job *b, enum firn_merge_kind kind,
                  const struct firn_way *way, double at_s,
                  struct firn_merge *out)
{
    const struct dryrun *dry = state;
    struct loop_pair pair = {a, b, kind};
    return loop_merge(dry->loop, &pair, way, at_s, out);
}

static const struct firn_forecast_def forecast_def = {.merge = merge,
                                                      .rate = rate,
                                                      .gpus_max = gpus_max,
                                                      .slowdown = slowdown,
                                                      .load = load,
                                                      .llm_ways = llm_ways};

/* --- the copy ------------------------------------------------------------ */

static enum firn_status open_copy(struct dryrun *dry, struct loop *loop,
                                  struct firn_error *err)
{
    const struct state *state = round_state(loop->round);
    dry->loop = loop;
    dry->began_s = dry->now_s = loop_now_s(loop);
    dry->start_s = dry->end_s = NAN;
    dry->job = FIRN_NO_JOB;
    dry->def = (struct firn_engine_def){.name = "dry run",
                                        .gives = loop->live.gives,
                                        .forecast = &forecast_def,
                                        .now_s = now_s,
                                        .apply = apply};
    struct round_config as = {.cluster = &state->cluster,
                              .policy = loop->policy,
                              .settings = loop->settings.at,
                              .nsettings = loop->settings.n,
                              .seed = 1,
                              .engine = &dry->def,
                              .engine_state = dry};
    FIRN_TRY(round_new(&dry->round, &as, err));
    FIRN_TRY(loop_copy_round(loop, dry->round, dry->now_s, err));
    struct firn_buf memory = {0};
    round_save(loop->round, &memory);
    if (memory.n > 0 &&
        round_load(dry->round, (struct firn_bytes){memory.at, memory.n}, err) !=
            FIRN_OK)
        log_warn("dry run without the policy's memory: %s", err->text);
    buf_release(&memory);
    return FIRN_OK;
}

static void close_copy(struct dryrun *dry)
{
    round_free(dry->round);
    buf_release(&dry->gpus);
}

/* --- rolling forward ----------------------------------------------------- */

/* Jobs that hold GPUs and have not said how fast they go: as forecast. */
static void expect_rates(struct dryrun *dry)
{
    const struct state *state = round_state(dry->round);
    struct firn_error err = {0};
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        if (job->held.nparts == 0 || job->rate > 0)
            continue;
        struct firn_way way = {.gpus = job->held.ngpus, .type = FIRN_ANY_TYPE};
        double expected = rate(dry, job, &way, dry->now_s);
        struct firn_event event = {
            .kind = FIRN_EVENT_REPORT,
            .at_s = dry->now_s,
            .job = job->id,
            .report = {job->done_s, expected > 0 ? expected : 1, dry->now_s}};
        if (round_event(dry->round, &event, &err) != FIRN_OK)
            log_warn("dry run: %s", err.text);
        if (job->id == dry->job)
            dry->rate = event.report.rate;
    }
}

/* The first that ends, or NULL. */
static const struct firn_job *first_end(const struct dryrun *dry, double *at_s)
{
    const struct state *state = round_state(dry->round);
    const struct firn_job *first = NULL;
    *at_s = INFINITY;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        if (sj->job.held.nparts == 0)
            continue;
        double end_s = dry->now_s + firn_job_left_s(&sj->job, dry->now_s);
        if (end_s < *at_s) {
            *at_s = end_s;
            first = &sj->job;
        }
    }
    return first;
}

/* A decision, then to the next end or wake-up. False: nothing more happens, or
 * the job in question is over. */
static bool roll(struct dryrun *dry, struct firn_error *err)
{
    double end_s;
    round_tick(dry->round, dry->now_s);
    if (round_is_due(dry->round) &&
        round_decide(dry->round, dry->now_s, err) != FIRN_OK)
        return false;
    expect_rates(dry);
    const struct firn_job *ends = first_end(dry, &end_s);
    double wake_s = round_wake_s(dry->round);
    if (ends == NULL && !isfinite(wake_s))
        return false;
    if (wake_s < end_s) {
        dry->now_s = wake_s > dry->now_s ? wake_s : dry->now_s;
        return true;
    }
    dry->now_s = end_s;
    struct firn_event done = {
        .kind = FIRN_EVENT_DONE, .at_s = end_s, .job = ends->id};
    if (ends->id == dry->job) {
        dry->end_s = end_s - dry->began_s;
        return false;
    }
    return round_event(dry->round, &done, err) == FIRN_OK;
}

static void roll_on(struct dryrun *dry, struct firn_error *err)
{
    for (int i = 0; i < MOST_ROUNDS && roll(dry, err); i++)
        ;
}

/* --- answers ------------------------------------------------------------- */

static void put_range(struct firn_buf *json, const char *key, double at_s,
                      bool is_sure)
{
    buf_printf(json, ",\"%s_s\":", key);
    buf_json_double(json, at_s);
    buf_printf(json, ",\"%s_range_s\":[", key);
    buf_json_double(json, is_sure ? 0.9 * at_s : 0.5 * at_s);
    buf_putc(json, ',');
    buf_json_double(json, is_sure ? 1.1 * at_s : 2 * at_s);
    buf_putc(json, ']');
}

/* The answer in one sentence. */
static void put_text(const struct dryrun *dry, struct firn_buf *json)
{
    struct firn_buf text = {0};
    if (isnan(dry->start_s))
        buf_puts(&text, "it is not seen to start");
    else if (dry->start_s <= 0)
        buf_printf(&text, "on %s", dry->gpus.n > 0 ? dry->gpus.at : "-");
    else
        buf_printf(&text, "starts in about %.0f s on %s", dry->start_s,
                   dry->gpus.n > 0 ? dry->gpus.at : "-");
    if (isfinite(dry->end_s))
        buf_printf(&text, ", done in about %.0f s", dry->end_s);
    if (dry->nslowed > 0)
        buf_printf(&text, "; others give up GPUs %d times", dry->nslowed);
    buf_puts(json, "{\"text\":");
    buf_json_string(json, text.at);
    buf_release(&text);
}

static void put_answer(const struct dryrun *dry, struct firn_buf *json,
                       bool is_sure)
{
    put_text(dry, json);
    buf_printf(json, ",\"policy\":\"%s\",\"starts\":%s",
               dry->loop->policy->name, isnan(dry->start_s) ? "false" : "true");
    put_range(json, "start", dry->start_s, dry->start_s <= 0);
    put_range(json, "finish", dry->end_s, is_sure);
    buf_puts(json, ",\"gpus\":");
    buf_json_string(json, dry->gpus.n > 0 ? dry->gpus.at : "-");
    buf_puts(json, ",\"rate\":");
    buf_json_double(json, dry->rate);
    buf_printf(json, ",\"slows\":%d", dry->nslowed);
}

/* Fewer GPUs with which it would start at once; 0: none would. */
static int smaller(struct loop *loop, const struct firn_job_spec *spec)
{
    for (int gpus = spec->gpus_min - 1; gpus >= 1; gpus /= 2) {
        struct firn_error err = {0};
        struct dryrun dry = {0};
        struct firn_job_spec less = *spec;
        less.gpus = less.gpus_min = gpus;
        less.gpus_max = less.gpus_max < gpus ? gpus : less.gpus_max;
        bool starts = false;
        if (open_copy(&dry, loop, &err) == FIRN_OK) {
            struct firn_event event = {.kind = FIRN_EVENT_SUBMIT,
                                       .at_s = dry.now_s,
                                       .job = (firn_job_id)loop->books.n,
                                       .spec = &less};
            dry.job = event.job;
            starts = round_event(dry.round, &event, &err) == FIRN_OK &&
                     round_decide(dry.round, dry.now_s, &err) == FIRN_OK &&
                     !isnan(dry.start_s);
        }
        close_copy(&dry);
        if (starts)
            return gpus;
    }
    return 0;
}

static enum firn_status plan(struct dryrun *dry, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err)
{
    struct firn_job_spec spec;
    loop_ask_spec(dry->loop, ask, dry->now_s, &spec);
    if (spec.name == NULL || spec.name[0] == '\0')
        spec.name = "the job";
    struct firn_event event = {.kind = FIRN_EVENT_SUBMIT,
                               .at_s = dry->now_s,
                               .job = (firn_job_id)dry->loop->books.n,
                               .spec = &spec};
    dry->job = event.job;
    FIRN_TRY(round_event(dry->round, &event, err));
    struct firn_error said = {0};
    roll_on(dry, &said);
    put_answer(dry, json, false);
    int fewer =
        dry->start_s > 0 || isnan(dry->start_s) ? smaller(dry->loop, &spec) : 0;
    buf_puts(json, ",\"memory_gib\":");
    buf_json_double(json, spec.mem_gib > 0 ? spec.mem_gib : (double)NAN);
    buf_printf(json, ",\"is_guess\":%s,\"change\":",
               spec.is_nominal ? "true" : "false");
    if (fewer > 0) {
        char text[80];
        snprintf(text, sizeof text, "with gpus: %d it would start now", fewer);
        buf_json_string(json, text);
    } else {
        buf_puts(json, "null");
    }
    buf_putc(json, '}');
    return FIRN_OK;
}

enum firn_status dryrun_plan(struct loop *loop, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err)
{
    struct dryrun dry = {0};
    enum firn_status status = open_copy(&dry, loop, err);
    if (status == FIRN_OK)
        status = plan(&dry, ask, json, err);
    close_copy(&dry);
    return status;
}

enum firn_status dryrun_eta(struct loop *loop, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err)
{
    const struct track *track = loop_track(loop, job->id);
    const struct firn_job *in_round =
        track != NULL ? loop_round_job(loop, track) : NULL;
    if (in_round == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "job %d (%s) is %s and not in the policy's hands: "
                         "nothing can be said of its end",
                         job->id, job->ask.name, live_state_name(job->state));
    bool runs = in_round->held.nparts > 0, reports = in_round->rate > 0;
    struct dryrun dry = {0};
    enum firn_status status = open_copy(&dry, loop, err);
    if (status == FIRN_OK) {
        struct firn_error said = {0};
        dry.job = track->round_id;
        dry.rate = in_round->rate;
        if (runs)
            firn_alloc_print(&in_round->held, &dry.gpus);
        dry.start_s = runs ? 0 : (double)NAN;
        roll_on(&dry, &said);
        put_answer(&dry, json, runs && reports);
        buf_putc(json, '}');
    }
    close_copy(&dry);
    return status;
}
