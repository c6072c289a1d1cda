/* train_batch.c - another batch, by order.
 *
 * The scheduler orders the samples of a whole step; a thread's batch is that
 * over V, rounded down, within 1 and what a thread has in an epoch. It changes
 * at the end of an epoch (or before the first step): the next epoch has other
 * steps, so what epochs and progress are counted by starts anew there. The new
 * batch and the learning rate that goes with it are two entries of the decision
 * log: a replay, or a resumed run, takes them at the same step and has the same
 * bits.
 *
 * Invariants
 *   1. `base_epoch` epochs were done when `base_ordinary` ordinary steps were;
 *      from there on an epoch has `steps_per_epoch` of them.
 *   2. The batch and its learning rate change together, in all processes at the
 *      same step.
 */
#include "train/trainwork.h"
#include <math.h>

bool firn_train_has_sampler(const struct firn_train *t)
{
    return t->sampler.nthreads > 0;
}

/* One thread's part of a total batch. */
static int each_of(const struct firn_train *t, int total)
{
    uint64_t most = firn_sampler_places(&t->sampler);
    int each = total / t->nthreads;
    if ((uint64_t)(each > 0 ? each : 0) > most)
        each = (int)most;
    return each > 1 ? each : 1;
}

int firn_train_batch_due(const struct firn_train *t)
{
    int total = t->word.batch > 0 ? t->word.batch : t->batch_asked;
    bool may = t->step == 0 || firn_train_at_epoch(t);
    if (total <= 0 || !may || !firn_train_has_sampler(t))
        return 0;
    int each = each_of(t, total);
    return each != t->sampler.batch ? each * t->nthreads : 0;
}

int firn_train_rate_due(const struct firn_train *t, int batch)
{
    double variance = 0;
    for (size_t l = 0; l < t->nlayers && t->has_variance; l++)
        variance += t->variance[l];
    struct firn_batch_noise noise = firn_batch_noise_of(
        t->nthreads, t->sampler.batch, variance, t->mean_square);
    double factor = firn_batch_factor(
        t->batch_rule, (double)t->batch0 * t->nthreads, batch, &noise);
    return (int)fmin(fmax(round(1e6 * factor), 1), 2e9);
}

void firn_train_rebatch(struct firn_train *t)
{
    int total = (int)firn_freezer_batch(t->freezer);
    if (!firn_train_has_sampler(t) || total <= 0)
        return;
    int each = each_of(t, total);
    if (each == t->sampler.batch)
        return;
    t->base_epoch = firn_train_epoch(t); /* (1) */
    t->base_ordinary = t->ordinary;
    t->sampler.batch = each;
    t->steps_per_epoch = firn_sampler_batches(&t->sampler);
}

int firn_train_batch(const struct firn_train *train)
{
    firn_train_uses(train, FIRN_CAN_BATCH);
    return firn_train_has_sampler(train) ? train->sampler.batch : 0;
}

double firn_train_rate(const struct firn_train *train)
{
    firn_train_uses(train, TRAIN_USES_RATE);
    return firn_freezer_rate(train->freezer);
}
