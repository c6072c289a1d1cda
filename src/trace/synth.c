/* synth.c - Philly-like GPUs, durations and arrivals from a seed.
 *
 * GPUs: the counts of the Philly trace (82247 jobs), cut at gpus_max. With
 * `multi` that share of jobs has several, in Philly's proportions.
 *
 * Durations: a mixture of three log-normals for jobs of one GPU and another
 * for jobs of more, fitted by expectation maximisation to the logarithms of
 * Philly's durations. Seconds, Philly against the fit:
 *
 *                    p50          p90            p99             mean
 *     1 GPU     1117  1164    8512   8900   135404   86520    8301   5843
 *     more      4584  4278  209130 219236   906798 1135233   79058  87272
 *
 * so the far tail of small jobs is lighter than Philly's. Whole seconds, from
 * 1; longer ones than duration_max_s are drawn again (60 days by default;
 * Philly's longest has 54).
 *
 * Arrivals: exponential gaps. Diurnal: the same moments, mapped through the
 * inverse of
 *
 *     L(t) = t - (A day / 2 pi) cos(2 pi (t/day - phase))
 *
 * the integral of the rate 1 + A sin(2 pi (t/day - phase)). Philly's hours of
 * the day have a first harmonic of A = 0.29, over users in many time zones;
 * A is 0.5 here, a day that one can see. The trace starts at midnight and the
 * peak is at noon, so phase is 1/4 and L(0) is 0.
 *
 * Language models are in the manner of Frenzy's NewWorkload, of which the paper
 * says no more than GPT-2 and BERT of several sizes and batches: a model of the
 * list, each as likely, a batch of 2, 4, 8, 16 or 32, of those allowed,
 * sequences of 1024, and a duration of Philly's jobs with several GPUs.
 *
 * (1) Only rng.h and fmath.h: the same bytes on any machine.
 * (2) The first job comes at 0 and the last at span_s, to a millisecond.
 * Elastic jobs take from a quarter of their GPUs (at least 1) to twice as many
 * (at most gpus_max).
 */
#include "trace/synth.h"
#include "base/fmath.h"
#include <firn/llm.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int gpus;
    uint64_t jobs;
} sizes[] = {
    {1, 76627}, {2, 1818}, {4, 1870}, {8, 1643}, {12, 7},
    {16, 199},  {24, 7},   {32, 67},  {64, 6},   {128, 3},
};

enum { NSIZES = sizeof sizes / sizeof *sizes };

static const struct part {
    double weight, mean, deviation; /* of ln(seconds) */
} one_gpu[] = {{0.1869, 4.1711, 0.1726},
               {0.2148, 7.6162, 0.5108},
               {0.5983, 7.1926, 1.9627}},
  more_gpus[] = {{0.1970, 2.9009, 0.3380},
                 {0.3224, 5.6541, 1.9980},
                 {0.4806, 11.1970, 1.3476}};

enum { NPARTS = 3 };

enum { long_seq = 1024 };

static const double longest_s = 60 * 86400.0;
static const double day_s = 86400.0;
static const double swing = 0.5;  /* A */
static const double phase = 0.25; /* in days */
static const double two_pi = 6.283185307179586;

static struct synth_draws seed_draws(uint64_t seed)
{
    struct rng root;
    struct synth_draws draws;
    rng_seed(&root, seed);
    rng_seed(&draws.arrival, rng_u64(&root));
    rng_seed(&draws.gpus, rng_u64(&root));
    rng_seed(&draws.duration, rng_u64(&root));
    rng_seed(&draws.elastic, rng_u64(&root));
    rng_seed(&draws.app, rng_u64(&root));
    rng_seed(&draws.model, rng_u64(&root));
    rng_seed(&draws.batch, rng_u64(&root));
    return draws;
}

/* One of sizes[first] and those behind it, as often as Philly has them. */
static int draw_size(struct rng *rng, int first, int gpus_max)
{
    uint64_t total = 0;
    for (int i = first; i < NSIZES && sizes[i].gpus <= gpus_max; i++)
        total += sizes[i].jobs;
    uint64_t at = rng_below(rng, total);
    int i = first;
    while (at >= sizes[i].jobs)
        at -= sizes[i++].jobs;
    return sizes[i].gpus;
}

static int draw_gpus(struct rng *rng, const struct synth_options *options)
{
    if (options->multi <= 0 || options->gpus_max < 2)
        return draw_size(rng, 0, options->gpus_max);
    if (rng_unit(rng) >= options->multi)
        return 1;
    return draw_size(rng, 1, options->gpus_max);
}

int synth_seq(const char *model)
{
    struct firn_llm_shape shape;
    if (firn_llm_find(&shape, model, NULL) != FIRN_OK)
        return 0;
    bool is_short = shape.positions > 0 && shape.positions < long_seq;
    return is_short ? shape.positions : long_seq;
}

static double draw_one_s(struct rng *rng, const struct part *parts)
{
    double at = rng_unit(rng), normal = rng_normal(rng);
    int i = 0;
    while (i < NPARTS - 1 && at >= parts[i].weight)
        at -= parts[i++].weight;
    return floor(fm_exp(parts[i].mean + parts[i].deviation * normal) + 0.5);
}

/* Draws until it is short enough: about one in five is below a minute. */
static double draw_duration_s(struct rng *rng, bool is_small, double max_s)
{
    for (;;) {
        double seconds = draw_one_s(rng, is_small ? one_gpu : more_gpus);
        if (seconds <= max_s)
            return seconds >= 1 ? seconds : 1;
    }
}

/* L(t) of the essay; cos(2 pi phase) is 0. */
static double work_until(double t_s)
{
    double swung = fm_sin_turn(t_s / day_s - phase + 0.25); /* cosine */
    return t_s - swing * day_s / two_pi * swung;
}

/* The t with L(t) = `work`, by Newton's steps. L rises at 0.5 to 1.5 and bends
 * by less than 3.7e-5, so an error e becomes less than 3.7e-5 e^2; the first
 * is below 13752 s, and seven steps leave less than a microsecond. */
static double when_done(double work)
{
    double t_s = work;
    for (int i = 0; i < 7; i++) {
        double rate = 1 + swing * fm_sin_turn(t_s / day_s - phase);
        double step_s = (work_until(t_s) - work) / rate;
        t_s -= step_s;
        if (step_s < 1e-6 && step_s > -1e-6)
            break;
    }
    return t_s > 0 ? t_s : 0;
}

/* When a share 0..1 of all gaps has passed. */
static double moment_s(const struct synth *synth, double share)
{
    double t_s = share * synth->span_s;
    if (synth->options.arrivals == SYNTH_DIURNAL)
        t_s = when_done(share * work_until(synth->span_s));
    return floor(t_s * 1000 + 0.5) / 1000;
}

static enum firn_status check(const struct synth_options *options,
                              struct firn_error *err)
{
    if (options->jobs < 1)
        return firn_fail(err, FIRN_EINVAL, "jobs is %ld: must be 1 or more",
                         options->jobs);
    if (!(options->load > 0) || !isfinite(options->load))
        return firn_fail(err, FIRN_EINVAL, "load is %g: must be above 0",
                         options->load);
    if (options->cluster_gpus < 1)
        return firn_fail(err, FIRN_EINVAL, "the cluster has no GPU");
    if (options->gpus_max < 0)
        return firn_fail(err, FIRN_EINVAL, "gpus-max is %d: must be 1 or more",
                         options->gpus_max);
    if (!(options->multi >= 0 && options->multi <= 1))
        return firn_fail(err, FIRN_EINVAL, "multi is %g: must be from 0 to 1",
                         options->multi);
    if (options->duration_max_s != 0 && !(options->duration_max_s >= 60))
        return firn_fail(err, FIRN_EINVAL,
                         "duration-max is %g s: must be 60 or more",
                         options->duration_max_s);
    for (size_t i = 0; i < options->nmodels; i++) {
        struct firn_llm_shape shape;
        FIRN_TRY(firn_llm_find(&shape, options->models[i], err));
        if ((options->model_batches[i] & 0x3eu) == 0)
            return firn_fail(err, FIRN_EINVAL, "%s has no batch to draw",
                             options->models[i]);
    }
    if (!(options->elastic >= 0 && options->elastic <= 1))
        return firn_fail(err, FIRN_EINVAL, "elastic is %g: must be from 0 to 1",
                         options->elastic);
    return FIRN_OK;
}

enum firn_status synth_init(struct synth *synth,
                            const struct synth_options *options,
                            struct firn_error *err)
{
    FIRN_TRY(check(options, err));
    struct synth made = {.options = *options};
    if (made.options.gpus_max == 0)
        made.options.gpus_max = options->cluster_gpus;
    if (made.options.duration_max_s == 0)
        made.options.duration_max_s = longest_s;
    struct synth_draws draws = seed_draws(options->seed);
    for (long i = 0; i < options->jobs; i++) {
        int gpus =
            options->nmodels > 0
                ? options->model_gpus[rng_below(&draws.model, options->nmodels)]
                : draw_gpus(&draws.gpus, &made.options);
        bool is_small = gpus == 1 && options->nmodels == 0;
        made.gpu_s += gpus * draw_duration_s(&draws.duration, is_small,
                                             made.options.duration_max_s);
        if (i > 0)
            made.gap_total += rng_exp(&draws.arrival, 1);
    }
    made.span_s = made.gpu_s / (options->cluster_gpus * options->load);
    made.draws = seed_draws(options->seed);
    *synth = made;
    return FIRN_OK;
}

static void draw_model(struct synth_draws *draws, const struct synth_options *o,
                       struct firn_job_spec *spec)
{
    size_t which = rng_below(&draws->model, o->nmodels);
    unsigned batches = o->model_batches[which];
    uint64_t nth =
        rng_below(&draws->batch, (uint64_t)__builtin_popcount(batches));
    for (; nth > 0; nth--)
        batches &= batches - 1;
    spec->app = o->models[which];
    spec->seq = synth_seq(spec->app);
    spec->batch = (int)(batches & -batches);
    spec->duration_s =
        draw_duration_s(&draws->duration, false, o->duration_max_s);
}

bool synth_next(struct synth *synth, struct firn_job_spec *out)
{
    const struct synth_options *o = &synth->options;
    struct synth_draws *draws = &synth->draws;
    if (synth->made == o->jobs)
        return false;
    if (synth->made > 0)
        synth->gap_sum += rng_exp(&draws->arrival, 1);
    double share = synth->gap_total > 0 ? synth->gap_sum / synth->gap_total : 0;
    snprintf(synth->name, sizeof synth->name, "j%ld", synth->made++);
    struct firn_job_spec spec = {.name = synth->name,
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .restart_s = -1,
                                 .submit_s = moment_s(synth, share)};
    if (o->nmodels > 0) {
        draw_model(draws, o, &spec);
        *out = spec;
        return true;
    }
    int gpus = draw_gpus(&draws->gpus, o);
    spec.duration_s =
        draw_duration_s(&draws->duration, gpus == 1, o->duration_max_s);
    spec.gpus = spec.gpus_min = spec.gpus_max = gpus;
    if (rng_unit(&draws->elastic) < o->elastic) {
        spec.gpus_min = gpus >= 4 ? gpus / 4 : 1;
        spec.gpus_max = 2 * gpus < o->gpus_max ? 2 * gpus : o->gpus_max;
    }
    if (o->napps > 0)
        spec.app = o->apps[rng_below(&draws->app, o->napps)];
    *out = spec;
    return true;
}
