/* loop_memory.c - memory of language models: predicted, seen, corrected.
 *
 * A language model runs by a plan that was made for its memory, as firn/peak.h
 * or firn/memory.h predicts it. Its trainer reports the most that its allocator
 * held; where the engine measures GPUs, that less the CUDA context counts too.
 * The largest of an attempt, over what was predicted for its plan, corrects the
 * predictions of that model and mode (daemon/memseen.h): once an attempt, at
 * its tenth report of memory or at its end. An attempt that ran out of memory
 * is no peak but a lower bound: the ratio is raised until its plan no longer
 * fits, and the job gets another plan if there is one: more GPUs, ZeRO, more
 * passes or a larger type. A policy that makes no plans has the job tried on
 * GPUs with more memory, as any other (loop_fail.c). On GPUs that it shares
 * nothing is learned.
 *
 * Invariants:
 * (1) a ratio is on disk with the change that it comes from (book_wrote);
 * (2) jobs that wait are scheduled by the newest ratio; jobs that run keep the
 *     plan they have.
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/log.h"
#include "core/llmjobs.h"
#include "daemon/abilities.h"
#include "daemon/jobfile.h"
#include "daemon/loopwork.h"
#include <firn/parallel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REPORTS = 10 };

void loop_memory_load(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    loop->desk.memory = memseen_new();
    if (store_get_meta(loop->store, "memory", &text, &err) == FIRN_OK &&
        text.n > 0)
        memseen_load(loop->desk.memory, text.at);
    buf_release(&text);
}

static void save(struct loop *loop)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    memseen_save(loop->desk.memory, &text);
    book_wrote(loop->book,
               store_put_meta(loop->store, "memory",
                              (struct firn_bytes){text.at, text.n}, &err),
               &err);
    buf_release(&text);
}

/* How its trainer was told to run. A policy that makes no plans tells nothing:
 * a copy on each GPU then, in the passes that its user says. */
static struct llmhow as_told(const struct firn_alloc *held,
                             const struct firn_training *training)
{
    struct llmhow how = {.tensor = held->how.tensor,
                         .parallel = held->how.parallel,
                         .passes = held->how.passes};
    if (how.tensor == 0)
        how.tensor = 1;
    if (firn_parallel_kind(how.parallel) == FIRN_PARALLEL_OWN)
        how.parallel |= FIRN_PARALLEL_DATA;
    if (how.passes == 0)
        how.passes = training->accumulation > 0 ? training->accumulation : 1;
    return how;
}

/* What is predicted, at ratio 1, of the plan that the job has; false: it has
 * none, or cannot be split as it was told. `spec` is the job's. */
static bool predict(const struct loop *loop, const struct live_job *job,
                    const struct track *track, struct firn_job_spec *spec,
                    struct llmplan *out)
{
    const struct firn_cluster *cluster = &loop->dock.cluster;
    const struct firn_alloc *held = &track->granted;
    desk_spec(&loop->desk, job, spec);
    spec->mem_ratio = 0;
    if (held->nparts == 0 || spec->gpus < 1 || !llmjobs_is(spec))
        return false;
    struct llmjob llm = llmjobs_open(cluster, spec, ~(uint32_t)0);
    struct llmspot spot = llmjobs_held(cluster, held);
    struct llmhow how = as_told(held, &spec->training);
    bool is_there = llmjobs_memory(&llm, &spot, how, out);
    out->room_gib = spot.mem_gib; /* of the smallest GPU that it has */
    return is_there;
}

/* (2). A job that is admitted again is behind those that were not: from the
 * first job of the model on all that wait are, in their order. */
static void tell_waiting(struct loop *loop, const struct live_job *of)
{
    loop->desk.readmits = false;
    for (size_t i = 0; i < book_count(loop->book); i++) {
        struct live_job *job = book_at(loop->book, i);
        const struct track *track = desk_track(&loop->desk, job->id);
        const struct firn_job *in_round =
            track != NULL ? desk_job(&loop->desk, track) : NULL;
        if (job == of || in_round == NULL || in_round->held.nparts > 0 ||
            job->state != LIVE_PENDING)
            continue;
        if (strcmp(job->ask.app, of->ask.app) == 0)
            loop->desk.readmits = true;
        if (loop->desk.readmits)
            loop_changed(loop, job);
    }
    loop->desk.readmits = false;
}

static void learn(struct loop *loop, struct live_job *job, struct track *track)
{
    struct firn_job_spec spec;
    struct llmplan plan;
    if (track->memory.is_learned || !(track->memory.most_gib > 0) ||
        track->granted.is_shared || partner_of(loop->book, job) != NULL ||
        !predict(loop, job, track, &spec, &plan))
        return;
    struct firn_peak_seen seen = memseen_get(loop->desk.memory, &spec);
    double before = firn_peak_ratio(&seen);
    firn_peak_saw(&seen, plan.reserved_gib, track->memory.most_gib);
    memseen_put(loop->desk.memory, &spec, &seen);
    track->memory.is_learned = true;
    save(loop);
    if (fabs(firn_peak_ratio(&seen) - before) > 0.01)
        tell_waiting(loop, job);
}

void loop_memory_reported(struct loop *loop, struct live_job *job)
{
    struct track *track = desk_track(&loop->desk, job->id);
    double gib = job->last.memory_mib / 1024;
    if (track == NULL || job->ask.seq <= 0 || !(gib > 0))
        return;
    if (track->memory.attempt != job->attempt)
        track->memory = (struct memory_seen){.attempt = job->attempt};
    track->memory.most_gib = fmax(track->memory.most_gib, gib);
    if (++track->memory.nreports >= REPORTS)
        learn(loop, job, track);
}

void loop_memory_sampled(struct loop *loop, const struct live_job *job,
                         double gib)
{
    struct track *track = desk_track(&loop->desk, job->id);
    struct firn_job_spec spec;
    struct llmplan plan;
    if (track == NULL || job->ask.seq <= 0 || !(gib > 0) ||
        job->last.memory_mib > 0 || !predict(loop, job, track, &spec, &plan))
        return; /* what the trainer reports is without the context */
    if (track->memory.attempt != job->attempt)
        track->memory = (struct memory_seen){.attempt = job->attempt};
    gib -= plan.need_gib - plan.high_gib;
    track->memory.most_gib = fmax(track->memory.most_gib, gib);
}

void loop_memory_ended(struct loop *loop, struct live_job *job,
                       const struct firn_event *event)
{
    struct track *track = desk_track(&loop->desk, job->id);
    if (track == NULL || event->attempt != track->memory.attempt ||
        event->end == FIRN_END_MEMORY)
        return;
    learn(loop, job, track);
}

/* Is there a plan for the job as it is predicted now? */
static bool has_plan(const struct loop *loop, const struct live_job *job)
{
    const struct firn_cluster *cluster = &loop->dock.cluster;
    struct firn_job_spec spec;
    jobfile_spec(&job->ask, 0, &spec);
    spec.mem_ratio = memseen_ratio(loop->desk.memory, &spec);
    spec.cannot = FIRN_CAN_ALL & ~abilities_of(job, NULL);
    int least = spec.gpus_max > 0 ? spec.gpus_min : 1;
    int most = spec.gpus_max > 0 ? spec.gpus_max : cluster->ngpus;
    uint32_t types = llmjobs_types(cluster, &spec);
    spec.gpus = most;
    struct llmjob llm = llmjobs_open(cluster, &spec, types);
    struct llmplans plans = llmjobs_plans(&llm, cluster, types, least, most);
    bool is_there = plans.n > 0;
    vec_release(&plans);
    return is_there;
}

enum loop_memory loop_memory_ran_out(struct loop *loop, struct live_job *job,
                                     char told[LIVE_TEXT])
{
    struct track *track = desk_track(&loop->desk, job->id);
    struct firn_job_spec spec;
    struct llmplan plan;
    char most[48] = "";
    if (track == NULL || track->granted.is_shared ||
        partner_of(loop->book, job) != NULL ||
        !predict(loop, job, track, &spec, &plan) || !(plan.room_gib > 0))
        return LOOP_MEMORY_UNKNOWN;
    struct firn_peak_seen seen = memseen_get(loop->desk.memory, &spec);
    double before = firn_peak_ratio(&seen), had = plan.room_gib;
    double context_gib = plan.need_gib - plan.high_gib;
    firn_peak_ran_out(&seen, plan.high_gib, had - context_gib);
    memseen_put(loop->desk.memory, &spec, &seen);
    save(loop);
    tell_waiting(loop, job);
    if (track->memory.attempt == job->attempt && track->memory.most_gib > 0)
        snprintf(most, sizeof most, ", reported %.3g GiB",
                 track->memory.most_gib);
    int n =
        snprintf(told, LIVE_TEXT,
                 "predicted %.3g GiB (at most %.3g) of %.3g GiB a GPU%s",
                 before * plan.expected_gib, before * plan.high_gib, had, most);
    if (track->granted.how.tensor == 0)
        return LOOP_MEMORY_TOLD;
    bool goes_on = has_plan(loop, job);
    snprintf(told + n, LIVE_TEXT - (size_t)n,
             "; memory of %.60s is now predicted %.2f times as large%s",
             job->ask.app, firn_peak_ratio(&seen) / before,
             goes_on ? "" : ", and no plan fits");
    return goes_on ? LOOP_MEMORY_REPLAN : LOOP_MEMORY_NO_PLAN;
}

void loop_memory_json(const struct loop *loop, const struct live_job *job,
                      struct firn_buf *out)
{
    const struct track *track = desk_track(&loop->desk, job->id);
    struct firn_job_spec spec;
    struct llmplan plan;
    if (track == NULL || job->ask.seq <= 0 || live_state_is_over(job->state) ||
        !predict(loop, job, track, &spec, &plan))
        return;
    double ratio = memseen_ratio(loop->desk.memory, &spec);
    ratio = ratio > 0 ? ratio : 1;
    jsonbuf_open(out, NULL, '{');
    jsonbuf_double(out, "expected_gib", ratio * plan.expected_gib);
    jsonbuf_double(out, "high_gib", ratio * plan.high_gib);
    jsonbuf_double(out, "reserved_gib", ratio * plan.reserved_gib);
    jsonbuf_double(out, "gpu_gib", plan.room_gib);
    if (track->memory.attempt == job->attempt && track->memory.most_gib > 0)
        jsonbuf_double(out, "seen_gib", track->memory.most_gib);
    jsonbuf_double(out, "ratio", ratio);
    jsonbuf_close(out, '}');
}
