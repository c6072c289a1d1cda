/* freeze.c - the frozen penalty, the layer tuner, and FreezeOut.
 *
 * Equations (2), (3) and (15) of IceFrog; symbols as in freeze.h.
 *
 * For a candidate l' the paper lets layers l+1..l' enter V0 with the variance
 * they have now, and layers l'+1..l come back with the one recorded. So each
 * layer has one number whatever the candidate: recorded if it is frozen,
 * current if not. With S(l) the sum over the first l of these,
 *
 *     psi(l') = (S(L) - S(l')) / S(L)
 *
 * and one array of prefix sums answers every candidate in O(1). To freeze is
 * to stop updating a layer's number; to thaw is to update it again.
 *
 * Invariants. (1) prefix[0] = 0 and prefix rises. (2) psi(0) = 1, psi falls
 * as l' grows, psi(L) = 0. (3) The tuner never freezes more than max_share
 * of the layers, and none during warm-up.
 *
 * FreezeOut has no penalty of its own; its tuned form chooses t_0 by IceFrog's,
 * which makes the two comparable.
 */
#include "base/fmath.h"
#include <firn/freeze.h>
#include <math.h>

enum { TUNE_STEPS = 64 };

static void sum_up(struct firn_freeze *f)
{
    f->prefix[0] = 0;
    for (size_t i = 0; i < f->nlayers; i++)
        f->prefix[i + 1] = f->prefix[i] + f->value[i];
}

void firn_freeze_init(struct firn_freeze *freeze, double *storage,
                      size_t nlayers)
{
    freeze->nlayers = nlayers;
    freeze->nfrozen = 0;
    freeze->value = storage;
    freeze->prefix = storage + nlayers;
    for (size_t i = 0; i < nlayers; i++)
        freeze->value[i] = 0;
    sum_up(freeze);
}

enum firn_status firn_freeze_observe(struct firn_freeze *freeze,
                                     const double *variance, size_t n,
                                     struct firn_error *err)
{
    if (n != freeze->nlayers)
        return firn_fail(err, FIRN_EINVAL,
                         "%zu layer variances for a job of %zu layers", n,
                         freeze->nlayers);
    for (size_t i = freeze->nfrozen; i < n; i++)
        if (!isfinite(variance[i]))
            return firn_fail(err, FIRN_EINVAL,
                             "the gradient variance of layer %zu is %g", i + 1,
                             variance[i]);
    for (size_t i = freeze->nfrozen; i < n; i++)
        freeze->value[i] = fmax(variance[i], 0);
    sum_up(freeze);
    return FIRN_OK;
}

enum firn_status firn_freeze_set(struct firn_freeze *freeze, size_t nfrozen,
                                 struct firn_error *err)
{
    if (nfrozen >= freeze->nlayers && nfrozen > 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%zu of %zu layers cannot be frozen: nothing would "
                         "learn",
                         nfrozen, freeze->nlayers);
    freeze->nfrozen = nfrozen;
    return FIRN_OK;
}

double firn_freeze_penalty(const struct firn_freeze *freeze, size_t nfrozen)
{
    if (nfrozen == 0)
        return 1;
    double all = freeze->prefix[freeze->nlayers];
    if (nfrozen >= freeze->nlayers || !(all > 0))
        return 0;
    return (all - freeze->prefix[nfrozen]) / all;
}

double firn_freeze_owed(double psi)
{
    return psi > 0 ? 1 / psi - 1 : (double)INFINITY;
}

/* --- the layer tuner ---------------------------------------------------- */

struct firn_tuner firn_tuner_default(void)
{
    return (struct firn_tuner){.max_share = 0.9, .layer_step = 1};
}

/* The most layers the options allow now (invariant 3). */
static size_t most_layers(const struct firn_tuner *tuner,
                          const struct firn_tuner_ask *ask)
{
    size_t nlayers = ask->freeze->nlayers;
    if (ask->progress < tuner->warmup || !(tuner->max_share > 0))
        return 0;
    /* The small term: 0.9 of 10 layers is 9 in spite of rounding. */
    double most = floor(tuner->max_share * (double)nlayers + 1e-9);
    return most < (double)nlayers ? (size_t)most : nlayers - 1;
}

static struct firn_tuning offer(const struct firn_tuner_ask *ask, int batch,
                                size_t nfrozen)
{
    struct firn_tuning t = {.batch = batch, .nfrozen = nfrozen};
    t.psi = firn_freeze_penalty(ask->freeze, nfrozen);
    if (t.psi > 0)
        t.rate_samples_s = ask->rate(ask->context, batch, nfrozen);
    t.progress_samples_s = t.psi * t.rate_samples_s;
    return t;
}

bool firn_tuner_best(const struct firn_tuner *tuner,
                     const struct firn_tuner_ask *ask, struct firn_tuning *out)
{
    size_t step = tuner->layer_step > 0 ? tuner->layer_step : 1;
    size_t most = most_layers(tuner, ask);
    struct firn_tuning best = {0};
    for (size_t l = 0; l <= most; l += step)
        for (size_t i = 0; i < ask->nbatches; i++) {
            struct firn_tuning t = offer(ask, ask->batches[i], l);
            if (t.progress_samples_s > best.progress_samples_s)
                best = t;
        }
    if (!(best.progress_samples_s > 0))
        return false;
    if (ask->batch_now > 0 && ask->freeze->nfrozen <= most) {
        struct firn_tuning now =
            offer(ask, ask->batch_now, ask->freeze->nfrozen);
        double bar = now.progress_samples_s * (1 + tuner->hysteresis);
        if (now.progress_samples_s > 0 && best.progress_samples_s <= bar) {
            best = now;
            best.kept = true;
        }
    }
    *out = best;
    return true;
}

/* --- FreezeOut ---------------------------------------------------------- */

double firn_freezeout_end(const struct firn_freezeout *rule, size_t nlayers,
                          size_t layer)
{
    if (nlayers < 2 || layer + 1 >= nlayers)
        return 1;
    double share = (double)layer / (double)(nlayers - 1);
    double end = rule->first + (1 - rule->first) * share;
    return rule->cubic ? end * end * end : end;
}

size_t firn_freezeout_frozen(const struct firn_freezeout *rule, size_t nlayers,
                             double progress)
{
    size_t low = 0;
    size_t high = nlayers > 0 ? nlayers - 1 : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (firn_freezeout_end(rule, nlayers, mid) <= progress)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

double firn_freezeout_lr(const struct firn_freezeout *rule, size_t nlayers,
                         size_t layer, double progress)
{
    double end = firn_freezeout_end(rule, nlayers, layer);
    if (progress >= end)
        return 0;
    /* 1 + cos(pi x), the cosine as a sine a quarter turn on */
    double wave = 1 + fm_sin_turn(0.5 * progress / end + 0.25);
    return 0.5 * wave / (rule->scaled ? end : 1);
}

/* The cost of the rest of training, in units of progress per samples/s. */
static double rest(const struct firn_freezeout *rule, size_t nlayers,
                   double from, firn_freezeout_gain *gain, const void *context)
{
    double total = 0;
    for (int i = 0; i < TUNE_STEPS; i++) {
        double at = from + (1 - from) * (i + 0.5) / TUNE_STEPS;
        size_t l = firn_freezeout_frozen(rule, nlayers, at);
        double e = gain(context, at, l);
        total += e > 0 ? 1 / e : (double)INFINITY;
    }
    return total;
}

double firn_freezeout_tune(const struct firn_freezeout *rule, size_t nlayers,
                           double progress, const double *firsts,
                           size_t nfirsts, firn_freezeout_gain *gain,
                           const void *context)
{
    double best = -1;
    double least = (double)INFINITY;
    for (size_t i = 0; i < nfirsts; i++) {
        struct firn_freezeout with = *rule;
        with.first = firsts[i];
        double cost = rest(&with, nlayers, progress, gain, context);
        if (cost < least || (!(cost > least) && firsts[i] > best)) {
            least = cost;
            best = firsts[i];
        }
    }
    return best < 0 ? rule->first : best;
}
