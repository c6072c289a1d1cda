/* reprosample.c - draws jobs from a trace and assigns applications to them.
 *
 * This is how Pollux, Sia and IceFrog make their workloads: jobs are drawn from
 * the Philly trace, keep their submission time and number of GPUs, and get an
 * application by their GPU-hours.
 *
 * Jobs are drawn by a partial shuffle of those that qualify, in the order of
 * the trace; the same words give the same bytes.
 */
#include "repro/reprosample.h"
#include "base/buf.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "repro/reprotrace.h"
#include <firn/trace.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 64, DAY_S = 86400 };

struct task {
    char app[64];
    double weight;
    double below_h;    /* for jobs with fewer GPU-hours */
    double frozen_max; /* largest share of frozen layers; 0: no limit */
    long gpus_min, gpus_max, batch;
};

struct drawn {
    double at_s, gpu_h; /* at_s: seconds after the hour from_h */
    int gpus;
};

struct sample {
    const char *file;
    long jobs, seed, from_h, to_h;
    double cap_h;
    struct task tasks[TASKS_MAX];
    int ntasks;
    VEC(struct drawn) pool;
};

/* Parses "APP*WEIGHT@MIN-MAX/BATCH[^SHARE]". */
static bool read_task(struct task *task, char *text)
{
    char *weight = strchr(text, '*'), *min = strchr(text, '@');
    char *max = min != NULL ? strchr(min, '-') : NULL;
    char *batch = max != NULL ? strchr(max, '/') : NULL;
    if (weight == NULL || batch == NULL || weight > min)
        return false;
    char *share = strchr(batch, '^');
    *weight++ = *min++ = *max++ = *batch++ = '\0';
    if (share != NULL) {
        *share++ = '\0';
        if (!str_double(share, &task->frozen_max) || task->frozen_max <= 0 ||
            task->frozen_max > 1)
            return false;
    }
    return str_copy(task->app, sizeof task->app, text) &&
           str_double(weight, &task->weight) && task->weight > 0 &&
           str_int(min, 1, 100000, &task->gpus_min) &&
           str_int(max, task->gpus_min, 100000, &task->gpus_max) &&
           str_int(batch, 1, 1L << 40, &task->batch);
}

/* "HOURS:TASK,TASK,..." */
static bool read_tasks(struct sample *s, char *text)
{
    double below_h;
    char *at = strchr(text, ':');
    if (at == NULL)
        return false;
    *at++ = '\0';
    if (!str_double(text, &below_h))
        return false;
    while (at != NULL && s->ntasks < TASKS_MAX) {
        char *next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        struct task *task = &s->tasks[s->ntasks++];
        if (!read_task(task, at))
            return false;
        task->below_h = below_h;
        at = next;
    }
    return true;
}

static bool read_hours(struct sample *s, char *text)
{
    char *to = strchr(text, '-');
    if (to == NULL)
        return false;
    *to++ = '\0';
    return str_int(text, 0, 23, &s->from_h) &&
           str_int(to, s->from_h + 1, 24, &s->to_h);
}

static bool read_word(struct sample *s, char *text)
{
    if (strncmp(text, "jobs=", 5) == 0)
        return str_int(text + 5, 1, 1000000, &s->jobs);
    if (strncmp(text, "seed=", 5) == 0)
        return str_int(text + 5, 0, 1L << 40, &s->seed);
    if (strncmp(text, "cap=", 4) == 0)
        return str_double(text + 4, &s->cap_h) && s->cap_h > 0;
    if (strncmp(text, "hours=", 6) == 0)
        return read_hours(s, text + 6);
    return read_tasks(s, text);
}

static enum firn_status read_words(struct sample *s, const struct words *words,
                                   struct firn_error *err)
{
    for (size_t i = 1; i < words->n; i++) {
        char *text = mem_strdup(words->at[i]);
        bool is_good = read_word(s, text);
        mem_free(text);
        if (!is_good)
            return firn_fail(err, FIRN_EINVAL, "'sample:' cannot read '%s'",
                             words->at[i]);
    }
    if (words->n == 0 || s->jobs == 0 || s->ntasks == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "'sample:' wants a file, jobs=N and tasks");
    s->file = words->at[0];
    return FIRN_OK;
}

static enum firn_status fill_pool(struct sample *s, struct firn_error *err)
{
    struct firn_buf path = {0};
    struct firn_trace *trace;
    struct firn_trace_options options = {0};
    struct firn_job_spec spec;
    struct firn_error end = {0};
    enum firn_status status = trace_path(s->file, &path, err);
    if (status == FIRN_OK)
        status = firn_trace_open(&trace, path.at, &options, err);
    buf_release(&path);
    if (status != FIRN_OK)
        return status;
    while (firn_trace_next(trace, &spec, &end)) {
        double at_s = fmod(spec.submit_s, DAY_S) - 3600.0 * (double)s->from_h;
        double gpu_h = spec.gpus * spec.duration_s / 3600;
        struct drawn one = {at_s, fmin(gpu_h, s->cap_h), spec.gpus};
        if (at_s >= 0 && at_s < 3600.0 * (double)(s->to_h - s->from_h) &&
            spec.duration_s >= 60)
            vec_add(&s->pool, one);
    }
    firn_trace_close(trace);
    if (s->pool.n < (size_t)s->jobs)
        return firn_fail(err, FIRN_EINVAL, "%s: has only %zu such jobs",
                         s->file, s->pool.n);
    return FIRN_OK;
}

/* The first s->jobs of the pool become the sample. */
static void shuffle(struct sample *s, struct rng *rng)
{
    for (size_t i = 0; i < (size_t)s->jobs; i++) {
        size_t k = i + (size_t)rng_below(rng, s->pool.n - i);
        struct drawn one = s->pool.at[i];
        s->pool.at[i] = s->pool.at[k];
        s->pool.at[k] = one;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct drawn *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->gpu_h < y->gpu_h ? -1 : x->gpu_h > y->gpu_h;
}

/* Draws a task for a job of `gpu_h` GPU-hours, by weight. */
static const struct task *pick(const struct sample *s, double gpu_h,
                               struct rng *rng)
{
    double below_h = s->tasks[s->ntasks - 1].below_h, total = 0;
    for (int i = s->ntasks - 1; i >= 0; i--)
        if (gpu_h < s->tasks[i].below_h)
            below_h = s->tasks[i].below_h;
    for (int i = 0; i < s->ntasks; i++)
        total += s->tasks[i].below_h == below_h ? s->tasks[i].weight : 0;
    double left = rng_unit(rng) * total;
    const struct task *last = NULL;
    for (int i = 0; i < s->ntasks; i++) {
        if (s->tasks[i].below_h != below_h)
            continue;
        last = &s->tasks[i];
        left -= last->weight;
        if (left < 0)
            break;
    }
    return last;
}

/* Appends a job; `group` NULL: the trace has no columns group and frozen_max.
 */
static void put_job(const struct task *task, const struct drawn *one, long id,
                    const char *group, struct firn_buf *out)
{
    long gpus = one->gpus;
    gpus = gpus < task->gpus_min ? task->gpus_min : gpus;
    gpus = gpus > task->gpus_max ? task->gpus_max : gpus;
    buf_printf(out, "%s-%ld,", task->app, id);
    buf_double(out, one->at_s);
    buf_printf(out, ",%ld,", gpus);
    buf_double(out, 3600 * one->gpu_h / (double)gpus);
    buf_printf(out, ",%ld,%ld,%s,%ld", task->gpus_min, task->gpus_max,
               task->app, task->batch);
    if (group != NULL)
        buf_printf(out, ",%s,%g", group, task->frozen_max);
    buf_putc(out, '\n');
}

/* Does a task of that application (NULL: any) limit the frozen layers? */
static bool has_bounds(const struct sample *s, const char *app)
{
    for (int i = 0; i < s->ntasks; i++)
        if (s->tasks[i].frozen_max > 0 &&
            (app == NULL || strcmp(s->tasks[i].app, app) == 0))
            return true;
    return false;
}

static const char *group_of(const struct sample *s, const struct task *task)
{
    if (!has_bounds(s, NULL))
        return NULL;
    if (!has_bounds(s, task->app))
        return "";
    return task->frozen_max > 0 ? "bound" : "free";
}

enum firn_status sample_make(const struct words *words, struct firn_buf *out,
                             struct firn_error *err)
{
    struct sample *s = mem_new(1, sizeof *s);
    struct rng rng;
    s->to_h = 24;
    s->seed = 1;
    s->cap_h = INFINITY;
    enum firn_status status = read_words(s, words, err);
    if (status == FIRN_OK)
        status = fill_pool(s, err);
    if (status == FIRN_OK) {
        rng_seed(&rng, (uint64_t)s->seed);
        shuffle(s, &rng);
        qsort(s->pool.at, (size_t)s->jobs, sizeof *s->pool.at, by_time);
        buf_printf(out,
                   "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,"
                   "gpus_max,app,batch%s\n",
                   has_bounds(s, NULL) ? ",group,frozen_max" : "");
        for (long i = 0; i < s->jobs; i++) {
            const struct drawn *one = &s->pool.at[i];
            const struct task *task = pick(s, one->gpu_h, &rng);
            put_job(task, one, i, group_of(s, task), out);
        }
    }
    vec_release(&s->pool);
    mem_free(s);
    return status;
}
