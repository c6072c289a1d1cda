/* metrics.c - integrals, percentiles and finish-time fairness.
 *
 * Completion time (JCT) = end - submission; queueing = JCT - time with GPUs. In
 * the sums of a group queueing has the time, too, in which GPUs that a job
 * holds had not been handed over by the job before. Percentiles interpolate
 * linearly between ranks (numpy's default), so they can be compared with what
 * others print.
 *
 * Finish-time fairness (Themis, NSDI'20), against a 1/N share:
 *
 *   rho = JCT / (duration / (min(gpus, G / N) / gpus)^scaling)
 *
 * G is the cluster's GPUs and N the mean number of jobs in the system while
 * this one was there, from one running integral: O(1) a job. rho <= 1 means
 * the job did at least as well as with its own N-th of the cluster.
 *
 * Fragmentation = free GPUs on partly used nodes / free GPUs, both integrated
 * over time.
 */
#include "sim/metrics.h"
#include "base/fmath.h"
#include "base/sort.h"
#include "base/str.h"
#include "core/llmjobs.h"
#include <math.h>
#include <string.h>

void metrics_init(struct metrics *metrics, const struct firn_cluster *cluster,
                  double scaling, struct timeline *timeline)
{
    *metrics = (struct metrics){.scaling = scaling,
                                .gpus = cluster->ngpus,
                                .cluster = cluster,
                                .timeline = timeline};
}

void metrics_release(struct metrics *metrics)
{
    vec_release(&metrics->jobs_at_submit);
    vec_release(&metrics->merged);
    vec_release(&metrics->jct_s);
    vec_release(&metrics->queue_s);
    vec_release(&metrics->rho);
    vec_release(&metrics->resume_gpus);
    heap_release(&metrics->resumes);
}

/* Adds the time until `to_s` with what has held since the last change. */
static void integrate(struct metrics *metrics, double to_s)
{
    double dt_s = to_s - metrics->last_s;
    if (!metrics->has_begun || dt_s <= 0)
        return;
    long free = metrics->now.gpus_up - metrics->now.gpus_held;
    metrics->sums.up += (double)metrics->now.gpus_up * dt_s;
    metrics->sums.held += (double)metrics->now.gpus_held * dt_s;
    metrics->sums.free += (double)free * dt_s;
    metrics->sums.stranded += (double)metrics->stranded * dt_s;
    metrics->sums.jobs += (double)metrics->njobs * dt_s;
    metrics->last_s = to_s;
}

/* Restarts that are over by `to_s`, for the timeline. */
static void resume_until(struct metrics *metrics, double to_s)
{
    const struct heap_item *top;
    while ((top = heap_top(&metrics->resumes)) != NULL && top->key <= to_s) {
        int slot = top->item;
        double at_s = top->key;
        heap_remove(&metrics->resumes, slot);
        metrics->now.gpus_progressing += metrics->resume_gpus.at[slot];
        timeline_add(metrics->timeline, at_s, &metrics->now);
    }
}

void metrics_arriving(struct metrics *metrics, double now_s)
{
    if (!metrics->has_begun) {
        metrics->has_begun = true;
        metrics->begin_s = now_s;
        metrics->last_s = now_s;
    }
    integrate(metrics, now_s);
}

void metrics_submitted(struct metrics *metrics, const struct firn_job *job)
{
    vec_reserve(&metrics->jobs_at_submit, (size_t)job->slot + 1);
    metrics->jobs_at_submit.at[job->slot] = metrics->sums.jobs;
    vec_reserve(&metrics->merged, (size_t)job->slot + 1);
    metrics->merged.at[job->slot] = 0;
}

void metrics_changed(struct metrics *metrics, const struct state *state,
                     double now_s)
{
    integrate(metrics, now_s);
    metrics->now.running = (long)state->nrunning;
    metrics->now.waiting = (long)state->nwaiting;
    metrics->now.gpus_up = state->map.up_gpus;
    metrics->now.gpus_held = state->map.up_gpus - state->map.free_gpus;
    metrics->now.gpus_free_fragmented = state->map.stranded;
    metrics->stranded = state->map.stranded;
    metrics->njobs = (long)(state->nrunning + state->nwaiting);
    if (metrics->timeline != NULL) {
        resume_until(metrics, now_s);
        timeline_add(metrics->timeline, now_s, &metrics->now);
    }
}

/* The job lets its GPUs go: they no longer progress or restart. */
static void let_go(struct metrics *metrics, const struct firn_job *job,
                   double now_s)
{
    if (metrics->timeline == NULL || job->held.nparts == 0)
        return;
    resume_until(metrics, now_s);
    if (heap_has(&metrics->resumes, job->slot))
        heap_remove(&metrics->resumes, job->slot);
    else
        metrics->now.gpus_progressing -= metrics->resume_gpus.at[job->slot];
    metrics->resume_gpus.at[job->slot] = 0;
}

static void note_merge(struct metrics *metrics, const struct firn_step *step)
{
    const struct firn_how *how = &step->to->how;
    size_t slot = (size_t)step->job->slot;
    unsigned in = (how->merged_with != FIRN_NO_JOB ? METRICS_TOGETHER : 0u) |
                  (how->after != FIRN_NO_JOB ? METRICS_AFTER : 0u);
    if (in == 0)
        return;
    vec_reserve(&metrics->merged, slot + 1);
    metrics->merged.at[slot] |= (unsigned char)in;
}

void metrics_step(struct metrics *metrics, const struct firn_step *step)
{
    if (step->kind != FIRN_STEP_STOP && step->job->starts > 0)
        metrics->restarts++;
    if (step->kind != FIRN_STEP_STOP)
        note_merge(metrics, step);
    if (step->kind != FIRN_STEP_START)
        let_go(metrics, step->job, step->at_s);
}

void metrics_report(struct metrics *metrics, const struct firn_job *job,
                    double resumes_s, double now_s)
{
    if (metrics->timeline == NULL || job->held.nparts == 0)
        return;
    vec_reserve(&metrics->resume_gpus, (size_t)job->slot + 1);
    if (metrics->resume_gpus.at[job->slot] > 0)
        let_go(metrics, job, now_s);
    metrics->resume_gpus.at[job->slot] = job->held.ngpus;
    if (resumes_s > now_s)
        heap_set(&metrics->resumes, job->slot, resumes_s, (uint64_t)job->id);
    else
        metrics->now.gpus_progressing += job->held.ngpus;
    timeline_add(metrics->timeline, now_s, &metrics->now);
}

static int class_of(int gpus)
{
    static const int most[] = {1, 4, 8};
    int c = 0;
    while (c < FIRN_CLASSES - 1 && gpus > most[c])
        c++;
    return c;
}

static double fairness(const struct metrics *metrics,
                       const struct firn_job *job, double now_s, double jct_s)
{
    double job_s = metrics->sums.jobs - metrics->jobs_at_submit.at[job->slot];
    double n = fmax(job_s / (now_s - job->spec.submit_s), 1);
    double share = fmin(metrics->gpus / n / job->spec.gpus, 1);
    double alone_s = job->spec.duration_s / fm_pow(share, metrics->scaling);
    return jct_s / alone_s;
}

/* The sums of a group; NULL when there are too many groups. */
static struct firn_sim_group *group_of(struct metrics *metrics,
                                       const char *name)
{
    int i = 0;
    while (i < metrics->ngroups && strcmp(metrics->groups[i].name, name) != 0)
        i++;
    if (i == FIRN_GROUPS)
        return NULL;
    struct firn_sim_group *group = &metrics->groups[i];
    if (i == metrics->ngroups) {
        if (!str_copy(group->name, sizeof group->name, name))
            return NULL;
        metrics->ngroups++;
    }
    return group;
}

static void add_to_group(struct metrics *metrics, const struct firn_job *job,
                         double jct_s, double queue_s)
{
    const struct firn_job_spec *spec = &job->spec;
    struct firn_sim_group *group =
        group_of(metrics, *spec->group != '\0' ? spec->group : spec->app);
    size_t slot = (size_t)job->slot;
    unsigned in = slot < metrics->merged.cap ? metrics->merged.at[slot] : 0;
    metrics->together_jobs += (in & METRICS_TOGETHER) != 0;
    metrics->after_jobs += (in & METRICS_AFTER) != 0;
    if (group == NULL)
        return;
    group->jobs++;
    group->jct_mean_s += jct_s;
    group->queue_mean_s += queue_s;
    group->queue_max_s = fmax(group->queue_max_s, queue_s);
}

/* Samples a second while it held GPUs, of a language model. */
static void add_samples(struct metrics *metrics, const struct firn_job *job,
                        double held_s)
{
    if (!llmjobs_is(&job->spec) || !(held_s > 0))
        return;
    struct llmjob llm =
        llmjobs_open(metrics->cluster, &job->spec, job->type_mask);
    metrics->samples_s += llm.ref_samples_s * job->spec.duration_s / held_s;
    metrics->llms++;
}

double metrics_done(struct metrics *metrics, const struct firn_job *job,
                    double now_s, double finished_s, double waited_s)
{
    integrate(metrics, now_s);
    let_go(metrics, job, now_s);
    double jct_s = finished_s - job->spec.submit_s;
    double held_s = job->held_s + (finished_s - job->since_s);
    double rho = fairness(metrics, job, now_s, jct_s);
    vec_add(&metrics->jct_s, jct_s);
    vec_add(&metrics->queue_s, jct_s - held_s);
    vec_add(&metrics->rho, rho);
    add_to_group(metrics, job, jct_s, jct_s - held_s + waited_s);
    add_samples(metrics, job, held_s);
    int c = class_of(job->spec.gpus);
    metrics->class_sum_s[c] += jct_s;
    metrics->class_jobs[c]++;
    metrics->end_s = fmax(metrics->end_s, finished_s);
    metrics->until_end = metrics->sums;
    return rho;
}

static double mean(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return n ? sum / (double)n : NAN;
}

/* Of sorted values, linear between ranks. */
static double percentile(const double *values, size_t n, double percent)
{
    if (n == 0)
        return NAN;
    double rank = percent / 100 * (double)(n - 1);
    size_t low = (size_t)rank;
    if (low + 1 >= n)
        return values[n - 1];
    double part = rank - (double)low;
    return values[low] + (values[low + 1] - values[low]) * part;
}

static void times(struct metrics *metrics, struct firn_sim_result *out)
{
    size_t n = metrics->jct_s.n;
    double *jct = metrics->jct_s.at, *queue = metrics->queue_s.at;
    out->jobs = (long)n;
    out->jct_mean_s = mean(jct, n);
    out->queue_mean_s = mean(queue, n);
    sort_doubles(jct, n);
    sort_doubles(queue, n);
    out->jct_p40_s = percentile(jct, n, 40);
    out->jct_p80_s = percentile(jct, n, 80);
    out->jct_low40_s = mean(jct, n * 2 / 5);
    out->jct_p50_s = percentile(jct, n, 50);
    out->jct_p90_s = percentile(jct, n, 90);
    out->jct_p99_s = percentile(jct, n, 99);
    out->jct_max_s = percentile(jct, n, 100);
    out->queue_p50_s = percentile(queue, n, 50);
    out->queue_p99_s = percentile(queue, n, 99);
    for (int c = 0; c < FIRN_CLASSES; c++) {
        long jobs = metrics->class_jobs[c];
        out->classes[c].jobs = jobs;
        out->classes[c].jct_mean_s =
            jobs ? metrics->class_sum_s[c] / (double)jobs : NAN;
    }
}

static void fair(struct metrics *metrics, struct firn_sim_result *out)
{
    size_t n = metrics->rho.n, unfair = 0;
    double *rho = metrics->rho.at;
    for (size_t i = 0; i < n; i++)
        unfair += rho[i] > 1;
    out->rho_mean = mean(rho, n);
    out->unfair_share = n ? (double)unfair / (double)n : NAN;
    sort_doubles(rho, n);
    out->rho_p50 = percentile(rho, n, 50);
    out->rho_p99 = percentile(rho, n, 99);
    out->rho_max = percentile(rho, n, 100);
}

static void grouped(const struct metrics *metrics, struct firn_sim_result *out)
{
    out->ngroups = metrics->ngroups;
    for (int i = 0; i < metrics->ngroups; i++) {
        struct firn_sim_group *group = &out->groups[i];
        *group = metrics->groups[i];
        group->jct_mean_s /= (double)group->jobs;
        group->queue_mean_s /= (double)group->jobs;
    }
    out->together_jobs = metrics->together_jobs;
    out->after_jobs = metrics->after_jobs;
}

void metrics_result(struct metrics *metrics, struct firn_sim_result *out)
{
    const struct metrics_sums *sums =
        metrics->jct_s.n ? &metrics->until_end : &metrics->sums;
    times(metrics, out);
    fair(metrics, out);
    grouped(metrics, out);
    out->makespan_s =
        metrics->jct_s.n ? metrics->end_s - metrics->begin_s : NAN;
    out->gpu_alloc_ratio = sums->up > 0 ? sums->held / sums->up : NAN;
    out->fragmentation = sums->free > 0 ? sums->stranded / sums->free : 0;
    out->restarts = metrics->restarts;
    out->failures = metrics->failures;
    out->rejected = metrics->rejected;
    out->unfinished = metrics->njobs;
    out->samples_s_mean =
        metrics->llms > 0 ? metrics->samples_s / (double)metrics->llms : NAN;
}
