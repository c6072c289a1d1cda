/* transfer.c - gains of transfer, merged iterations, and the table of times.
 *
 * Equations (1), (4) and (5) of Ymir; symbols as in transfer.h.
 *
 * The table is a sorted array: keys that differ in the batch only lie side by
 * side, so interpolation looks at the two entries about the place where the
 * key would be. Online corrections work on two levels: an entry that was seen
 * is moved itself; the log of observed over tabled time, averaged, moves all
 * the others, as a slower machine or a busier network slows everything.
 *
 * Invariants. (1) Entries are sorted and their keys differ. (2) Every iter_s
 * is positive and finite.
 */
#include "base/fmath.h"
#include <firn/transfer.h>
#include <math.h>

static const double entry_memory = 10; /* observations an entry's past weighs */
static const double drift_memory = 50;
static const double least_gain = -0.95; /* predictions are not below this */

static bool positive(double x)
{
    return x > 0 && isfinite(x);
}

double firn_transfer_gain(double p_joint, double p_alone)
{
    if (!(p_alone > 0) || !isfinite(p_alone) || !isfinite(p_joint))
        return (double)NAN;
    return (p_joint - p_alone) / p_alone;
}

/* --- gain from similarity ------------------------------------------------- */

static bool usable(const struct firn_gain_obs *o)
{
    return isfinite(o->score) && isfinite(o->gain) && o->gain > -1;
}

static void survey(struct firn_gain_model *m, const struct firn_gain_obs *obs,
                   size_t n, double *mean_score, double *mean_gain)
{
    *mean_score = *mean_gain = 0;
    m->score_min = (double)INFINITY;
    m->score_max = -(double)INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!usable(&obs[i])) {
            m->nskipped++;
            continue;
        }
        m->nused++;
        *mean_score += obs[i].score;
        *mean_gain += obs[i].gain;
        m->score_min = fmin(m->score_min, obs[i].score);
        m->score_max = fmax(m->score_max, obs[i].score);
    }
    if (m->nused > 0) {
        *mean_score /= (double)m->nused;
        *mean_gain /= (double)m->nused;
    }
}

enum firn_status firn_gain_fit(struct firn_gain_model *model,
                               const struct firn_gain_obs *obs, size_t n,
                               struct firn_error *err)
{
    struct firn_gain_model m = {0};
    double score, gain;
    survey(&m, obs, n, &score, &gain);
    if (m.nused < 2 || !(m.score_max > m.score_min))
        return firn_fail(err, FIRN_EDATA,
                         "%zu usable transfer gains (%zu refused): a line "
                         "needs two different scores",
                         m.nused, m.nskipped);
    double xx = 0, xy = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        if (!usable(&obs[i]))
            continue;
        double x = obs[i].score - score;
        double y = obs[i].gain - gain;
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    m.slope = xy / xx;
    m.intercept = gain - m.slope * score;
    m.pearson = yy > 0 ? xy / sqrt(xx * yy) : 0;
    *model = m;
    return FIRN_OK;
}

struct firn_gain_value firn_gain_at(const struct firn_gain_model *model,
                                    double score)
{
    double gain = model->intercept + model->slope * score;
    return (struct firn_gain_value){
        fmax(gain, least_gain), model->nused == 0 || score < model->score_min ||
                                    score > model->score_max};
}

double firn_gain_spatial_score(double score_ab, double score_ba)
{
    return (score_ab + score_ba) / 2;
}

/* --- spatial iterations --------------------------------------------- */

static bool sized(const struct firn_task_size *t)
{
    return positive(t->iterations) && positive(t->batch) &&
           positive(t->samples);
}

double firn_spatial_iterations(const struct firn_task_size *a,
                               const struct firn_task_size *b)
{
    if (!sized(a) || !sized(b))
        return (double)NAN;
    double epochs = fmax(a->iterations * a->batch / a->samples,
                         b->iterations * b->batch / b->samples);
    return epochs * (a->samples + b->samples) / (a->batch + b->batch);
}

/* --- the look-up table ---------------------------------------------- */

static int sign(long a, long b)
{
    return (a > b) - (a < b);
}

/* Order without the batch, then with it. */
static int family(struct firn_lut_key a, struct firn_lut_key b)
{
    if (a.flags != b.flags)
        return a.flags < b.flags ? -1 : 1;
    int by = sign(a.gpus, b.gpus);
    return by != 0 ? by : sign(a.accum, b.accum);
}

static int order(struct firn_lut_key a, struct firn_lut_key b)
{
    int by = family(a, b);
    return by != 0 ? by : sign(a.batch, b.batch);
}

/* The first entry not before the key. */
static size_t place(const struct firn_lut *lut, struct firn_lut_key key)
{
    size_t low = 0;
    size_t high = lut->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (order(lut->entries[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_at(const struct firn_lut *lut, size_t i, struct firn_lut_key key)
{
    return i < lut->n && order(lut->entries[i].key, key) == 0;
}

static enum firn_status refuse(const struct firn_lut *lut, double iter_s,
                               bool adds, struct firn_error *err)
{
    if (!positive(iter_s))
        return firn_fail(err, FIRN_EINVAL, "an iteration took %g s", iter_s);
    if (adds && lut->n == lut->cap)
        return firn_fail(err, FIRN_ENOMEM,
                         "the table of iteration times is full: %zu entries",
                         lut->cap);
    return FIRN_OK;
}

static void insert(struct firn_lut *lut, size_t i, struct firn_lut_entry entry)
{
    for (size_t j = lut->n; j > i; j--)
        lut->entries[j] = lut->entries[j - 1];
    lut->entries[i] = entry;
    lut->n++;
}

enum firn_status firn_lut_put(struct firn_lut *lut, struct firn_lut_key key,
                              double iter_s, struct firn_error *err)
{
    size_t i = place(lut, key);
    bool known = is_at(lut, i, key);
    FIRN_TRY(refuse(lut, iter_s, !known, err));
    if (known)
        lut->entries[i].iter_s = iter_s;
    else
        insert(lut, i, (struct firn_lut_entry){key, iter_s, 0});
    return FIRN_OK;
}

enum firn_status firn_lut_observe(struct firn_lut *lut, struct firn_lut_key key,
                                  double iter_s, struct firn_error *err)
{
    size_t i = place(lut, key);
    bool known = is_at(lut, i, key);
    FIRN_TRY(refuse(lut, iter_s, !known, err));
    if (!known) {
        insert(lut, i, (struct firn_lut_entry){key, iter_s, 1});
        return FIRN_OK;
    }
    struct firn_lut_entry *e = &lut->entries[i];
    if (e->weight <= 0) { /* later ones would compare with themselves */
        double before = fmin(lut->drift_weight, drift_memory);
        double log_ratio = fm_log(iter_s / e->iter_s);
        lut->drift_weight = before + 1;
        lut->log_drift =
            (before * lut->log_drift + log_ratio) / lut->drift_weight;
        /* One observation is shrunk by half, ten by a tenth. */
        double trust = lut->drift_weight / (lut->drift_weight + 1);
        lut->drift = fm_exp(trust * lut->log_drift) - 1;
    }
    double past = fmin(e->weight, entry_memory);
    e->iter_s = (past * e->iter_s + iter_s) / (past + 1);
    e->weight = past + 1;
    return FIRN_OK;
}

/* The time of an entry, moved by the drift when it was not seen itself. */
static double corrected(const struct firn_lut *lut, size_t i)
{
    const struct firn_lut_entry *e = &lut->entries[i];
    return e->weight > 0 ? e->iter_s : e->iter_s * (1 + lut->drift);
}

bool firn_lut_find(const struct firn_lut *lut, struct firn_lut_key key,
                   struct firn_lut_value *out)
{
    size_t i = place(lut, key);
    if (is_at(lut, i, key)) {
        *out = (struct firn_lut_value){corrected(lut, i), false};
        return true;
    }
    bool above = i < lut->n && family(lut->entries[i].key, key) == 0;
    bool below = i > 0 && family(lut->entries[i - 1].key, key) == 0;
    if (!above && !below)
        return false;
    if (!above || !below) {
        *out = (struct firn_lut_value){corrected(lut, above ? i : i - 1), true};
        return true;
    }
    double low = lut->entries[i - 1].key.batch;
    double high = lut->entries[i].key.batch;
    double part = (key.batch - low) / (high - low);
    double from = corrected(lut, i - 1);
    *out = (struct firn_lut_value){from + part * (corrected(lut, i) - from),
                                   false};
    return true;
}

bool firn_transfer_undo(const double *accuracy, size_t n, size_t epochs)
{
    if (n <= epochs)
        return false;
    for (size_t i = 1; i < n; i++)
        if (accuracy[i] > accuracy[0])
            return false;
    return true;
}
