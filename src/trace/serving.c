/* serving.c - replicas that follow the day.
 *
 * The number of replicas wanted, every five minutes:
 *
 *     G share (1 + 0.5 sin(2 pi (t/day - 1/4))) + 0.01 G normal
 *
 * rounded and cut to 0..G: half the mean at midnight, when the trace begins,
 * and one and a half times the mean at noon. If there are fewer, new ones come
 * at random moments of the five minutes; if there are more, those that came
 * last go. Moments are whole milliseconds, so that a replica that goes and one
 * that comes do not meet by rounding.
 *
 * A replica's duration refers to GPUs of speed 1; on slower ones it stays
 * longer.
 *
 * (1) Only rng.h and fmath.h: the same bytes on any machine.
 * Cost: O(replicas log replicas), all kept in memory.
 */
#include "trace/serving.h"
#include "base/fmath.h"
#include "base/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double day_s = 86400, step_s = 300;
static const double swing = 0.5, unrest = 0.01;

/* Replicas wanted at t. */
static int wanted(const struct serving_options *options, struct rng *rng,
                  double t_s)
{
    double g = options->cluster_gpus;
    double share =
        options->share * (1 + swing * fm_sin_turn(t_s / day_s - 0.25));
    double n = floor(g * (share + unrest * rng_normal(rng)) + 0.5);
    return n < 0 ? 0 : n > g ? options->cluster_gpus : (int)n;
}

static double moment_s(struct rng *rng, double from_s)
{
    return from_s + floor(rng_unit(rng) * step_s * 1000) / 1000;
}

static int by_time(const void *a, const void *b)
{
    const struct serving_replica *p = a, *q = b;
    if (p->from_s != q->from_s)
        return p->from_s < q->from_s ? -1 : 1;
    return (p->to_s > q->to_s) - (p->to_s < q->to_s);
}

enum firn_status serving_make(struct serving *out,
                              const struct serving_options *options,
                              struct firn_error *err)
{
    struct serving made = {0};
    VEC(size_t) open = {0}; /* those that have not gone yet, last one last */
    struct rng rng;
    if (!(options->share > 0 && options->share <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "serving is %g: must be above 0, to 1",
                         options->share);
    rng_seed(&rng, options->seed);
    long nsteps = (long)ceil(options->span_s / step_s);
    for (long i = 0; i < nsteps; i++) {
        double t_s = (double)i * step_s;
        int more = wanted(options, &rng, t_s) - (int)open.n;
        for (; more > 0; more--) {
            struct serving_replica one = {moment_s(&rng, t_s), 0};
            vec_add(&open, made.replicas.n);
            vec_add(&made.replicas, one);
        }
        for (; more < 0; more++)
            made.replicas.at[open.at[--open.n]].to_s = moment_s(&rng, t_s);
    }
    while (open.n > 0)
        made.replicas.at[open.at[--open.n]].to_s = options->span_s;
    for (size_t i = 0; i < made.replicas.n; i++) {
        struct serving_replica *one = &made.replicas.at[i];
        one->to_s = fmax(one->to_s, one->from_s + 1);
    }
    if (made.replicas.n > 0)
        qsort(made.replicas.at, made.replicas.n, sizeof *made.replicas.at,
              by_time);
    vec_release(&open);
    *out = made;
    return FIRN_OK;
}

void serving_release(struct serving *serving)
{
    vec_release(&serving->replicas);
}

double serving_peek_s(const struct serving *serving)
{
    if (serving->next == serving->replicas.n)
        return INFINITY;
    return serving->replicas.at[serving->next].from_s;
}

bool serving_next(struct serving *serving, struct firn_job_spec *out)
{
    if (serving->next == serving->replicas.n)
        return false;
    const struct serving_replica *one = &serving->replicas.at[serving->next];
    snprintf(serving->name, sizeof serving->name, "serve%zu", serving->next++);
    *out = (struct firn_job_spec){.name = serving->name,
                                  .app = "",
                                  .group = "serving",
                                  .types = "",
                                  .submit_s = one->from_s,
                                  .duration_s = one->to_s - one->from_s,
                                  .gpus = 1,
                                  .gpus_min = 1,
                                  .gpus_max = 1,
                                  .priority = SERVING_PRIORITY,
                                  .restart_s = -1};
    return true;
}
