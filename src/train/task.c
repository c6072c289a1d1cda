/* task.c - which task a step belongs to, how alike two tasks are, the guard.
 *
 * Annealed sampling (Stickland and Murray, 2019; Ymir 6.1): at epoch e = 1..E
 * task t is drawn with weight N_t^a, a = 1 - 0.8 (e - 1) / (E - 1). Early on
 * the large task has its proportional share, at the end (a = 0.2) they are
 * nearly even, so that the small one is not forgotten.
 *
 * The draw of a step is a function of seed, epoch and step alone: every process
 * and every resumed run finds the same task without communication.
 *
 * Likeness (Task2Vec, CVPR 2019): an embedding is the diagonal of the Fisher
 * information, i.e. the mean squared gradient by parameter; the symmetric
 * distance of two is the cosine distance of f/(f+g) and g/(f+g), which keeps
 * parameters with large values from deciding alone. One minus it is our
 * similarity. Both are scaled to the same sum first, so that it does not matter
 * over how many samples they were summed.
 *
 * Invariants: (1) shares sum to 1 within rounding; (2) log and exp come from
 * base/fmath.h, hence the same draw on every machine.
 */
#include "base/fmath.h"
#include "base/rng.h"
#include <firn/task.h>
#include <math.h>

/* --- which task ----------------------------------------------------------- */

static double exponent(const struct firn_task_mix *mix, uint64_t epoch)
{
    if (mix->nepochs < 2)
        return 1;
    uint64_t last = mix->nepochs - 1;
    if (epoch > last)
        epoch = last;
    return 1 - 0.8 * (double)epoch / (double)last;
}

/* The tasks one after the other, each with its share of the epochs; the first
 * ones have one more where they cannot be even. */
static size_t temporal_task(const struct firn_task_mix *mix, uint64_t epoch)
{
    uint64_t each = mix->nepochs / mix->ntasks;
    uint64_t rest = mix->nepochs % mix->ntasks;
    if (epoch >= mix->nepochs)
        return mix->ntasks - 1;
    if (epoch < rest * (each + 1))
        return (size_t)(epoch / (each + 1));
    return (size_t)(rest + (epoch - rest * (each + 1)) / each);
}

/* Not yet divided by their sum. */
static double weight(const struct firn_task_mix *mix, uint64_t epoch,
                     size_t task)
{
    if (mix->mode == FIRN_TASK_NORMAL)
        return task == 0;
    if (mix->mode == FIRN_TASK_TEMPORAL)
        return task == temporal_task(mix, epoch);
    uint64_t n = mix->nsamples[task];
    return n > 0 ? fm_pow((double)n, exponent(mix, epoch)) : 0; /* (2) */
}

static double sum_of_weights(const struct firn_task_mix *mix, uint64_t epoch)
{
    double sum = 0;
    for (size_t i = 0; i < mix->ntasks; i++)
        sum += weight(mix, epoch, i);
    return sum;
}

enum firn_status firn_task_shares(const struct firn_task_mix *mix,
                                  uint64_t epoch, double *share,
                                  struct firn_error *err)
{
    if (mix->ntasks == 0)
        return firn_fail(err, FIRN_EINVAL, "a mix needs at least one task");
    if ((unsigned)mix->mode > FIRN_TASK_SPATIAL)
        return firn_fail(err, FIRN_EINVAL, "task mode %d is unknown",
                         (int)mix->mode);
    if (mix->mode == FIRN_TASK_SPATIAL) {
        if (mix->nsamples == NULL)
            return firn_fail(err, FIRN_EINVAL,
                             "annealed sampling wants the tasks' samples");
        for (size_t i = 0; i < mix->ntasks; i++)
            if (mix->nsamples[i] == 0)
                return firn_fail(err, FIRN_EINVAL, "task %zu has no samples",
                                 i + 1);
    }
    double sum = sum_of_weights(mix, epoch);
    for (size_t i = 0; i < mix->ntasks; i++)
        share[i] = weight(mix, epoch, i) / sum;
    return FIRN_OK;
}

/* Spreads a number over all 64 bits (the finaliser of splitmix64). */
static uint64_t spread(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

size_t firn_task_of_step(const struct firn_task_mix *mix, uint64_t epoch,
                         uint64_t step)
{
    if (mix->ntasks < 2 || mix->mode == FIRN_TASK_NORMAL)
        return 0;
    if (mix->mode == FIRN_TASK_TEMPORAL)
        return temporal_task(mix, epoch);
    struct rng rng;
    rng_seed(&rng, spread(spread(spread(mix->seed) ^ epoch) ^ step));
    double at = rng_unit(&rng) * sum_of_weights(mix, epoch);
    size_t last = 0;
    for (size_t i = 0; i < mix->ntasks; i++) {
        double w = weight(mix, epoch, i);
        if (w > 0)
            last = i;
        if (at < w)
            return i;
        at -= w;
    }
    return last; /* rounding left a remainder */
}

/* --- how alike ------------------------------------------------------------ */

void firn_task_fisher_add(double *fisher, const float *grad, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fisher[i] += (double)grad[i] * (double)grad[i];
}

static double positive(double x)
{
    return x > 0 ? x : 0;
}

double firn_task_similarity(const double *left, const double *right, size_t n)
{
    double sum_left = 0, sum_right = 0;
    for (size_t i = 0; i < n; i++) {
        sum_left += positive(left[i]);
        sum_right += positive(right[i]);
    }
    if (!(sum_left > 0 && sum_right > 0) || !isfinite(sum_left + sum_right))
        return 0;
    double dot = 0, left2 = 0, right2 = 0;
    for (size_t i = 0; i < n; i++) {
        double f = positive(left[i]) / sum_left;
        double g = positive(right[i]) / sum_right;
        if (!(f + g > 0))
            continue;
        double a = f / (f + g), b = g / (f + g);
        dot += a * b;
        left2 += a * a;
        right2 += b * b;
    }
    double norm = sqrt(left2) * sqrt(right2);
    return norm > 0 ? fmin(dot / norm, 1) : 0;
}

/* --- the guard ------------------------------------------------------------ */

enum firn_task_verdict firn_task_judge(const struct firn_task_guard *guard,
                                       const double *loss_merged,
                                       const double *loss_alone, size_t nepochs)
{
    uint64_t epochs = guard->epochs > 0 ? guard->epochs : 2;
    if (nepochs < epochs || isnan(loss_alone[nepochs - 1]))
        return FIRN_TASK_TOO_EARLY;
    double alone = loss_alone[nepochs - 1];
    double most = alone + guard->margin * fabs(alone);
    /* A NaN loss counts as infinite. */
    return loss_merged[nepochs - 1] <= most ? FIRN_TASK_PAYS : FIRN_TASK_UNDO;
}
