/* mixed.c - draws the mixed workload of mixed.def from a seed.
 *
 * Why: Philly's jobs cannot share, grow or freeze, so policies that do so look
 * like those that do not. This workload has jobs for each of the five freedoms.
 *
 *   class     of 100  jobs                                       for
 *   vision        24  may share a GPU, freeze, use 1 to 8 GPUs   SJF-BSBF,
 *   masked        10  the same, a masked language model          IceFrog
 *   elastic       18  threads over 1 to 8 GPUs of any types      EasyScale
 *   language      14  a model and a batch, no number of GPUs     Frenzy
 *   finetune      34  tasks over one backbone, may be merged     Ymir
 *
 * It is a demonstration, not evidence: the mix, the durations and the rate of
 * arrivals were adjusted until jobs queue on clusters/mixed.yaml by day and
 * each freedom is used. traces/README.md has what was tried.
 *
 * Arrivals: exponential gaps. Class, application, GPUs and duration of a job
 * are drawn independently; durations are log-normal and drawn again beyond the
 * longest, those of fine-tuning jobs are the work of their task. A duration
 * refers to the first GPU type of the cluster that the application's profile
 * has (an H200 for vision, masked and elastic jobs).
 *
 * (1) Only rng.h and fmath.h: the same bytes on any machine. (2) Each property
 * has its own stream of numbers. (3) The first job comes at 0.
 */
#include "trace/mixed.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trace/nominal.h"
#include "trace/synth.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum mixed_class {
#define GPUS(a, b, c, d)
#define MIXED_CLASS(name, of_100, gpus, median_s, deviation, longest_s) \
    CLASS_##name,
#define MIXED_APP(name, app, samples)
#include "trace/mixed.def"
#undef MIXED_CLASS
#undef GPUS
    NCLASSES
};

static const struct class
{
    const char *name;
    unsigned of_100;
    int gpus[4];
    double median_s, deviation, longest_s;
} classes[] = {
#define GPUS(a, b, c, d) \
    {                    \
        a, b, c, d       \
    }
#define MIXED_CLASS(name, of_100, gpus, median_s, deviation, longest_s) \
    {#name, of_100, gpus, median_s, deviation, longest_s},
#include "trace/mixed.def"
#undef MIXED_CLASS
#undef MIXED_APP
#undef GPUS
};

static const struct app {
    enum mixed_class class;
    const char *name;
    int samples;
} apps[] = {
#define MIXED_CLASS(name, of_100, gpus, median_s, deviation, longest_s)
#define MIXED_APP(name, app, samples) {CLASS_##name, app, samples},
#include "trace/mixed.def"
#undef MIXED_CLASS
#undef MIXED_APP
};

enum { NAPPS = sizeof apps / sizeof *apps, GPUS_MAX = 8, SHORTEST_S = 60 };

struct draws {
    struct rng arrival, class, app, gpus, duration;
};

struct mixed_options mixed_defaults(void)
{
    return (struct mixed_options){.jobs = 240, .seed = 1, .per_hour = 30};
}

static enum mixed_class draw_class(struct rng *rng)
{
    unsigned at = (unsigned)rng_below(rng, 100);
    for (int i = 0; i < NCLASSES; i++) {
        if (at < classes[i].of_100)
            return (enum mixed_class)i;
        at -= classes[i].of_100;
    }
    FIRN_BUG("the classes of mixed.def are less than 100 in 100");
}

static const struct app *draw_app(struct rng *rng, enum mixed_class class)
{
    const struct app *of[NAPPS] = {NULL};
    size_t n = 0;
    for (int i = 0; i < NAPPS; i++)
        if (apps[i].class == class)
            of[n++] = &apps[i];
    return of[rng_below(rng, n)];
}

static double draw_s(struct rng *rng, const struct class *class)
{
    double s;
    do
        s = class->median_s * fm_exp(class->deviation * rng_normal(rng));
    while (s < SHORTEST_S || s > class->longest_s);
    return floor(s);
}

/* A fine-tuning job: the work of its task on one V100, over its GPUs. */
static void set_finetune(struct firn_job_spec *job)
{
    const struct nominal *work = nominal_find("titan", job->app, "v100");
    if (work == NULL)
        FIRN_BUG("no work of %s in nominal.def", job->app);
    job->duration_s = work->gpu_s / job->gpus;
    job->restart_s = work->restart_s;
    job->gpus_max = 4;
    job->is_nominal = true;
    job->may_merge = true;
}

static void set_kind(struct firn_job_spec *job, enum mixed_class class,
                     const struct app *app)
{
    job->gpus_min = 1;
    job->batch = app->samples * (job->gpus > 0 ? job->gpus : 1);
    switch (class) {
    case CLASS_vision:
    case CLASS_masked:
        job->may_share = true;
        job->gpus_max = 2 * job->gpus;
        break;
    case CLASS_elastic:
        job->threads = job->gpus_max = job->gpus;
        break;
    case CLASS_language:
        job->seq = synth_seq(app->name);
        job->gpus_min = job->gpus_max = 0;
        break;
    case CLASS_finetune:
        job->batch = app->samples;
        set_finetune(job);
        break;
    case NCLASSES:
        break;
    }
    if (job->gpus_max > GPUS_MAX)
        job->gpus_max = GPUS_MAX;
}

static void draw_job(struct firn_job_spec *job, struct draws *draws)
{
    enum mixed_class kind = draw_class(&draws->class);
    const struct class *class = &classes[kind];
    const struct app *app = draw_app(&draws->app, kind);
    int gpus = class->gpus[rng_below(&draws->gpus, 4)];
    double s = class->median_s > 0 ? draw_s(&draws->duration, class) : 0;
    *job = (struct firn_job_spec){.app = app->name,
                                  .group = class->name,
                                  .types = "",
                                  .gpus = gpus,
                                  .restart_s = -1,
                                  .duration_s = s};
    set_kind(job, kind, app);
}

enum firn_status mixed_make(struct mixed *out,
                            const struct mixed_options *options,
                            struct firn_error *err)
{
    if (options->jobs < 1)
        return firn_fail(err, FIRN_EINVAL, "jobs is %ld: must be 1 or more",
                         options->jobs);
    if (!(options->per_hour > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "the arrivals are %g an hour: must be above 0",
                         options->per_hour);
    struct rng root;
    struct draws draws;
    rng_seed(&root, options->seed);
    rng_seed(&draws.arrival, rng_u64(&root));
    rng_seed(&draws.class, rng_u64(&root));
    rng_seed(&draws.app, rng_u64(&root));
    rng_seed(&draws.gpus, rng_u64(&root));
    rng_seed(&draws.duration, rng_u64(&root));
    size_t n = (size_t)options->jobs;
    *out = (struct mixed){.at = mem_new(n, sizeof *out->at),
                          .names = mem_new(n, sizeof *out->names),
                          .n = n};
    double at_s = 0;
    for (size_t i = 0; i < n; i++) {
        struct firn_job_spec *job = &out->at[i];
        draw_job(job, &draws);
        snprintf(out->names[i], sizeof *out->names, "%s-%zu", job->group, i);
        job->name = out->names[i];
        job->submit_s = floor(at_s);
        at_s += rng_exp(&draws.arrival, 3600 / options->per_hour);
    }
    return FIRN_OK;
}

void mixed_release(struct mixed *jobs)
{
    mem_free(jobs->at);
    mem_free(jobs->names);
    *jobs = (struct mixed){0};
}
