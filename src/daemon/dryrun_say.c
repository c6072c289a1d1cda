/* dryrun_say.c - the answers of `firn plan` and `firn eta`.
 *
 * From what dryrun.c rolled: moments with their ranges, a sentence, and for a
 * plan the smallest change that would start the job now. What is not known is
 * null, and `unknown` says why.
 *
 * Bound: the smallest change is searched by halving, at most twice the binary
 * logarithm of the GPUs asked for in decisions, and for SMALLER_S of processor
 * time.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/jsonwrite.h"
#include "daemon/dryrunwork.h"
#include <math.h>
#include <stdio.h>

static const double SMALLER_S = 0.3; /* of work, for the smallest change */

/* --- answers ------------------------------------------------------------- */

static void put_range(struct firn_buf *json, const char *key, double at_s,
                      const double range[2])
{
    char name[32];
    snprintf(name, sizeof name, "%s_s", key);
    jsonbuf_double(json, name, at_s);
    snprintf(name, sizeof name, "%s_range_s", key);
    jsonbuf_open(json, name, '[');
    for (int i = 0; i < 2; i++)
        jsonbuf_double(json, NULL, isnan(at_s) ? (double)NAN : range[i]);
    jsonbuf_close(json, ']');
}

/* Why something is not known, as a sentence; "" when all is. */
static void put_because(const struct dryrun *dry, struct firn_buf *text)
{
    const struct live_job *job = book_job(dry->loop->book, dry->hung);
    buf_puts(text, "");
    if (job != NULL)
        buf_printf(text,
                   "not known when it starts, because job %d (%s), which goes "
                   "before it, has no duration and reports no progress",
                   job->id, job->ask.name);
    else if (isnan(dry->start_s) && dry->limit != DRYRUN_WITHIN)
        buf_puts(text, "not known when it starts: ");
    else if (isnan(dry->start_s))
        buf_puts(text, "it is not seen to start");
    else if (!dry->is_known)
        buf_puts(text, "not known when it ends, because it has no duration and "
                       "reports no progress");
    else if (isnan(dry->end_s) && dry->limit != DRYRUN_WITHIN)
        buf_puts(text, "not known when it ends: ");
    else if (isnan(dry->end_s))
        buf_puts(text, "not known when it ends, because it does not end within "
                       "what was looked at");
    if (job == NULL && text->n > 0 && text->at[text->n - 1] == ' ')
        dryrun_limit_text(dry, text);
}

/* The answer in one sentence. */
static void put_text(const struct dryrun *dry, const struct firn_buf *because,
                     struct firn_buf *json)
{
    struct firn_buf text = {0};
    const char *gpus = dry->gpus.n > 0 ? dry->gpus.at : "-";
    bool does_start = dry->hung == FIRN_NO_JOB && !isnan(dry->start_s);
    if (does_start && dry->start_s <= 0)
        buf_printf(&text, "on %s", gpus);
    else if (does_start)
        buf_printf(&text, "starts in about %.0f s on %s", dry->start_s, gpus);
    if (does_start && dry->is_known && isfinite(dry->end_s))
        buf_printf(&text, ", done in about %.0f s", dry->end_s);
    if (because->n > 0)
        buf_printf(&text, "%s%s", does_start ? "; " : "", because->at);
    if (dry->nslowed > 0)
        buf_printf(&text, "; other jobs give up GPUs %d times", dry->nslowed);
    jsonbuf_text(json, "text", text.at);
    buf_release(&text);
}

static void put_answer(const struct dryrun *dry, const struct range *range,
                       struct firn_buf *json)
{
    struct firn_buf because = {0};
    bool is_start_known = dry->hung == FIRN_NO_JOB;
    put_because(dry, &because);
    jsonbuf_open(json, NULL, '{');
    put_text(dry, &because, json);
    jsonbuf_text(json, "policy", dry->loop->desk.policy->name);
    jsonbuf_bool(json, "starts", !isnan(dry->start_s));
    put_range(json, "start", is_start_known ? dry->start_s : (double)NAN,
              range->start);
    put_range(json, "finish",
              is_start_known && dry->is_known ? dry->end_s : (double)NAN,
              range->end);
    if (because.n > 0)
        jsonbuf_text(json, "unknown", because.at);
    else
        jsonbuf_raw(json, "unknown", "null");
    jsonbuf_text(json, "gpus", dry->gpus.n > 0 ? dry->gpus.at : "-");
    jsonbuf_double(json, "rate", dry->rate);
    jsonbuf_int(json, "slows", dry->nslowed);
    jsonbuf_int(json, "simulated", range->nevents);
    buf_release(&because);
}

static bool starts_with(struct loop *loop, const struct question *asked,
                        int gpus)
{
    struct firn_error err = {0};
    struct dryrun dry = {.stretch = 1};
    struct firn_job_spec less = *asked->spec;
    struct question q = {.spec = &less};
    less.gpus = less.gpus_min = gpus;
    if (asked->spec->gpus_max <= asked->spec->gpus_min) /* takes one number */
        less.gpus_max = gpus;
    bool starts = dryrun_open(&dry, loop, &q, &err) == FIRN_OK &&
                  round_decide(dry.round, dry.now_s, &err) == FIRN_OK &&
                  !isnan(dry.start_s);
    dryrun_close(&dry);
    return starts;
}

/* The most GPUs, of fewer than it asks for, with which it would start at once;
 * 0: none would. Found by halving, then by closing in, as far as the time goes:
 * a round with a long queue costs. */
static int smaller(struct loop *loop, const struct question *asked)
{
    int too_many = asked->spec->gpus_min, gpus = too_many - 1;
    double until_s = clock_cpu_s() + SMALLER_S;
    while (gpus >= 1 && !starts_with(loop, asked, gpus)) {
        too_many = gpus;
        gpus = clock_cpu_s() < until_s ? gpus / 2 : 0;
    }
    while (gpus >= 1 && too_many - gpus > 1 && clock_cpu_s() < until_s) {
        int middle = gpus + (too_many - gpus) / 2;
        if (starts_with(loop, asked, middle))
            gpus = middle;
        else
            too_many = middle;
    }
    return gpus;
}

static void put_plan(struct loop *loop, const struct dryrun *dry,
                     const struct question *q, struct firn_buf *json)
{
    const struct firn_job_spec *spec = q->spec;
    int fewer = dry->start_s > 0 || isnan(dry->start_s) ? smaller(loop, q) : 0;
    jsonbuf_double(json, "memory_gib",
                   spec->mem_gib > 0 ? spec->mem_gib : (double)NAN);
    jsonbuf_bool(json, "is_guess", spec->is_nominal);
    if (fewer > 0) {
        char text[80];
        snprintf(text, sizeof text, "could start now with gpus: %d", fewer);
        jsonbuf_text(json, "change", text);
    } else {
        jsonbuf_raw(json, "change", "null");
    }
}

/* A language model that fits nowhere: why, in place of an answer. */
static enum firn_status put_refused(struct loop *loop,
                                    const struct live_ask *ask,
                                    const struct firn_job_spec *spec,
                                    struct firn_buf *json,
                                    const struct firn_error *err)
{
    if (spec->seq <= 0 || err->status == FIRN_EIO)
        return err->status;
    jsonbuf_open(json, NULL, '{');
    jsonbuf_text(json, "text", err->text);
    jsonbuf_text(json, "policy", loop->desk.policy->name);
    jsonbuf_bool(json, "starts", false);
    dryrun_memory(loop, ask, json);
    jsonbuf_close(json, '}');
    return FIRN_OK;
}

enum firn_status dryrun_plan(struct loop *loop, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err)
{
    struct dryrun dry = {0};
    struct firn_job_spec spec;
    struct range range;
    desk_ask_spec(&loop->desk, ask, dock_now_s(&loop->dock), &spec);
    if (spec.name == NULL || spec.name[0] == '\0')
        spec.name = "the job";
    struct question q = {.spec = &spec,
                         .is_known = !spec.is_nominal ||
                                     desk_guess_s(&loop->desk, ask) > 0};
    enum firn_status status = dryrun_ask(&dry, loop, &q, &range, err);
    if (status == FIRN_OK) {
        put_answer(&dry, &range, json);
        put_plan(loop, &dry, &q, json);
        dryrun_memory(loop, ask, json);
        jsonbuf_close(json, '}');
    } else {
        status = put_refused(loop, ask, &spec, json, err);
    }
    dryrun_close(&dry);
    return status;
}

/* The cluster's own scheduler has the job in its queue and expects to start it
 * later than the policy, which gave it GPUs. */
static void put_off(struct loop *loop, const struct live_job *job,
                    struct dryrun *dry, struct range *range)
{
    double wait_s = dock_starts_in_s(&loop->dock, job->id);
    if (!(wait_s > 0) || isnan(dry->start_s) || dry->start_s >= wait_s)
        return;
    double later_s = wait_s - dry->start_s;
    dry->start_s = wait_s;
    dry->end_s += later_s;
    for (int i = 0; i < 2; i++) {
        range->start[i] += later_s;
        range->end[i] += later_s;
    }
}

/* A pinned job runs to its end, whatever the policy decides. */
static enum firn_status eta_pinned(struct loop *loop,
                                   const struct live_job *job,
                                   struct track *track, struct firn_buf *json)
{
    struct desk_left left = desk_left(&loop->desk, job, track);
    struct dryrun dry = {.loop = loop,
                         .end_s = left.left_s,
                         .rate = track->rate,
                         .is_known = left.is_known,
                         .hung = FIRN_NO_JOB};
    double by = left.reports ? 1 + desk_eta_width(&loop->desk) : 2;
    struct range range = {{0, 0}, {left.left_s / by, left.left_s * by}, 0};
    dryrun_gpus(&dry, &track->granted);
    put_off(loop, job, &dry, &range);
    if (left.is_known)
        desk_eta_told(track, dock_now_s(&loop->dock), dry.end_s);
    put_answer(&dry, &range, json);
    jsonbuf_close(json, '}');
    buf_release(&dry.gpus);
    return FIRN_OK;
}

double dryrun_start_s(struct loop *loop, const struct live_job *job)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    struct firn_error none = {0};
    struct dryrun dry = {0};
    struct range range;
    if (track == NULL || desk_job(&loop->desk, track) == NULL)
        return (double)NAN;
    struct question q = {
        .job = job, .is_known = desk_left(&loop->desk, job, track).is_known};
    enum firn_status status = dryrun_ask(&dry, loop, &q, &range, &none);
    bool is_known = status == FIRN_OK && dry.hung == FIRN_NO_JOB;
    if (is_known)
        put_off(loop, job, &dry, &range);
    double start_s = is_known ? dry.start_s : (double)NAN;
    dryrun_close(&dry);
    return start_s;
}

enum firn_status dryrun_eta(struct loop *loop, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err)
{
    struct track *track = desk_track(&loop->desk, job->id);
    if (track != NULL && track->is_pinned && !job->is_ending &&
        !desk_can_stop(job))
        return eta_pinned(loop, job, track, json);
    if (live_state_is_over(job->state))
        return firn_fail(err, FIRN_EDATA, "job %d (%s) has ended: %s; no ETA",
                         job->id, job->ask.name, live_state_name(job->state));
    if (track == NULL || desk_job(&loop->desk, track) == NULL)
        return firn_fail(err, FIRN_EDATA,
                         "job %d (%s) is %s and not scheduled (%.150s); no ETA",
                         job->id, job->ask.name, live_state_name(job->state),
                         job->why);
    struct dryrun dry = {0};
    struct range range;
    struct question q = {
        .job = job, .is_known = desk_left(&loop->desk, job, track).is_known};
    enum firn_status status = dryrun_ask(&dry, loop, &q, &range, err);
    if (status == FIRN_OK && !isnan(dry.end_s)) {
        double width = desk_eta_width(&loop->desk);
        dryrun_widen(range.end, dry.end_s / (1 + width));
        dryrun_widen(range.end, dry.end_s * (1 + width));
    }
    if (status == FIRN_OK) {
        put_off(loop, job, &dry, &range);
        if (dry.is_known && dry.hung == FIRN_NO_JOB)
            desk_eta_told(track, dock_now_s(&loop->dock), dry.end_s);
        put_answer(&dry, &range, json);
        jsonbuf_close(json, '}');
    }
    dryrun_close(&dry);
    return status;
}
