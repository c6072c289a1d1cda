/* freezer.c - decides which front layers stay frozen, and keeps the books.
 *
 * The penalty rule is IceFrog's layer tuner (firn/freeze.h), given a rate made
 * from what was measured in this very training. With l layers frozen now and
 * l' asked about, a step takes
 *
 *   T(l') = forward + backward(l') + rest(l')
 *
 * forward does not change with freezing (measured). The others are kept as
 * ratios to it, so that they stay true when the job moves to a faster or
 * slower machine. What is known of a ratio before any measurement is its
 * shape: backward goes half with the FLOPs left (theta), half with their root,
 * which is the prior of the performance model; rest goes with the parameters
 * left (omega). Each frozen count that was really run gives a factor on that
 * shape, interpolated between the counts seen and constant beyond them; the
 * newest measurement of a count moves it half way.
 *
 * Symbols: theta(l), omega(l): share of backward FLOPs and of parameters
 * behind the first l layers; psi: the frozen penalty.
 *
 * Invariants:
 * (1) nfrozen < nlayers, and 0 < psi <= 1; nfrozen = 0 has psi 1;
 * (2) the log's steps never fall;
 * (3) owed < 1 after every step: whole steps are moved to `due`;
 * (4) steps taken and psi alone determine owed, due and effective, so a replay
 *     with the same log gives the same extra steps;
 * (5) a call that fails has changed neither frozen layers nor psi nor log;
 * (6) no rule's decision is above `most`. Decisions from a replay or a
 *     checkpoint are taken unchanged: the bits depend on them.
 *
 * Cost: a decision O(nlayers * counts seen), a step O(1). It knows no clock and
 * no randomness. The bytes of a checkpoint are made in freezersave.c.
 */
#include "train/freezer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double psi_least = 0.01;

/* --- made and freed ------------------------------------------------------- */

static enum firn_status check_config(const struct firn_freezer_config *c,
                                     struct firn_error *err)
{
    if (c->nlayers == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "a freezer needs at least one layer");
    if (c->nlayers > FIRN_FREEZER_LAYERS)
        return firn_fail(err, FIRN_EINVAL, "%zu layers; the limit is %d",
                         c->nlayers, FIRN_FREEZER_LAYERS);
    if ((unsigned)c->rule > FIRN_FREEZER_USER)
        return firn_fail(err, FIRN_EINVAL, "freezing rule %d is unknown",
                         (int)c->rule);
    if (c->rule == FIRN_FREEZER_USER && c->user == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "the user's freezing rule has no function");
    if (c->rule == FIRN_FREEZER_FREEZEOUT &&
        !(c->freezeout.first > 0 && c->freezeout.first <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "FreezeOut's first share is %g, not within 0 and 1",
                         c->freezeout.first);
    const struct firn_tuner *t = &c->tuner;
    if (!(t->max_share >= 0 && t->max_share <= 1 && t->hysteresis >= 0) ||
        !isfinite(t->hysteresis) || !isfinite(t->warmup))
        return firn_fail(err, FIRN_EINVAL,
                         "the layer tuner's max_share %g, warmup %g or "
                         "hysteresis %g is out of range",
                         t->max_share, t->warmup, t->hysteresis);
    if (!(c->frozen_max >= 0 && c->frozen_max <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "the share of layers that may be frozen is %g, not "
                         "within 0 and 1",
                         c->frozen_max);
    for (size_t i = 0; c->flops != NULL && i < c->nlayers; i++)
        if (!isfinite(c->flops[i]) || c->flops[i] < 0)
            return firn_fail(err, FIRN_EINVAL, "the FLOPs of layer %zu are %g",
                             i + 1, c->flops[i]);
    return FIRN_OK;
}

/* left[l] = share of all that lies behind the first l of n parts. When there
 * is nothing, the parts are equal. */
static void shares_left(double *left, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += left[i];
    double behind = 0;
    for (size_t i = n; i > 0; i--) {
        behind += sum > 0 ? left[i - 1] / sum : 1.0 / (double)n;
        left[i - 1] = fmin(behind, 1);
    }
    left[0] = 1;
}

static void fill_shares(struct firn_freezer *f,
                        const struct firn_freezer_config *c)
{
    for (size_t i = 0; i < c->nlayers; i++) {
        f->theta[i] = c->flops != NULL ? c->flops[i] : 1;
        f->omega[i] = c->nelements != NULL ? (double)c->nelements[i] : 1;
        f->seen_backward[i] = -1;
        f->seen_rest[i] = -1;
    }
    shares_left(f->theta, c->nlayers);
    shares_left(f->omega, c->nlayers);
}

/* A half of 4 layers is 2, and 0.29 of 100 is 29, whatever the rounding. */
static size_t most_of(const struct firn_freezer_config *c)
{
    double most = floor(c->frozen_max * (double)c->nlayers + 1e-9);
    if (!(c->frozen_max > 0) || most >= (double)c->nlayers)
        return c->nlayers - 1;
    return (size_t)most;
}

enum firn_status firn_freezer_new(struct firn_freezer **out,
                                  const struct firn_freezer_config *c,
                                  struct firn_error *err)
{
    FIRN_TRY(check_config(c, err));
    size_t n = c->nlayers;
    struct firn_freezer *f = calloc(1, sizeof *f);
    double *doubles = calloc(4 * n + FIRN_FREEZE_DOUBLES(n), sizeof *doubles);
    if (f == NULL || doubles == NULL) {
        free(f);
        free(doubles);
        return firn_fail(err, FIRN_ENOMEM, "no memory for %zu layers", n);
    }
    f->rule = c->rule;
    f->tuner = c->tuner;
    if (!(f->tuner.max_share > 0))
        f->tuner.max_share = firn_tuner_default().max_share;
    if (c->frozen_max >
        0) /* the best allowed count, not the best one cut down */
        f->tuner.max_share = fmin(f->tuner.max_share, c->frozen_max);
    f->most = most_of(c);
    f->warmup_epochs = c->warmup_epochs;
    f->freezeout = c->freezeout;
    f->user = c->user;
    f->arg = c->arg;
    f->theta = doubles;
    f->omega = doubles + n;
    f->seen_backward = doubles + 2 * n;
    f->seen_rest = doubles + 3 * n;
    firn_freeze_init(&f->freeze, doubles + 4 * n, n);
    fill_shares(f, c);
    f->psi = 1;
    *out = f;
    return FIRN_OK;
}

void firn_freezer_free(struct firn_freezer *freezer)
{
    if (freezer == NULL)
        return;
    free(freezer->theta); /* the start of all doubles */
    free(freezer->log);
    free(freezer->replay);
    free(freezer);
}

/* --- the rate of the layer tuner ------------------------------------------ */

/* Seen values over their shape, interpolated at `l`; 0 where nothing was
 * seen. */
static double factor_at(const double *seen, const double *shape, size_t n,
                        size_t l)
{
    size_t below = n, above = n;
    for (size_t i = 0; i < n; i++) {
        if (seen[i] < 0 || !(shape[i] > 0))
            continue;
        if (i <= l)
            below = i;
        if (i >= l && above == n)
            above = i;
    }
    if (below == n && above == n)
        return 0;
    if (below == n || above == n || below == above) {
        size_t i = below == n ? above : below;
        return seen[i] / shape[i];
    }
    double share = (double)(l - below) / (double)(above - below);
    return (1 - share) * (seen[below] / shape[below]) +
           share * (seen[above] / shape[above]);
}

/* The prior's shape of backward time: (6) with exponents 1 and 1/2. */
static double backward_shape(double theta)
{
    return 0.5 * theta + 0.5 * sqrt(theta);
}

struct pace {
    const struct firn_freezer *f;
    double *shape; /* backward's, by frozen count */
    double forward_s;
};

static double rate(const void *context, int batch, size_t nfrozen)
{
    const struct pace *p = context;
    const struct firn_freezer *f = p->f;
    size_t n = f->freeze.nlayers;
    double backward =
        p->shape[nfrozen] * factor_at(f->seen_backward, p->shape, n, nfrozen);
    double rest =
        f->omega[nfrozen] * factor_at(f->seen_rest, f->omega, n, nfrozen);
    double step_s = p->forward_s * (1 + backward + rest);
    return step_s > 0 ? batch / step_s : 0;
}

static double half_way(double seen, double now)
{
    return seen < 0 ? now : 0.5 * (seen + now);
}

/* Remembers the times as ratios to forward. */
static void see_times(struct firn_freezer *f,
                      const struct firn_freezer_ask *ask)
{
    size_t l = f->freeze.nfrozen;
    if (!(ask->forward_s > 0) || !(ask->backward_s > 0))
        return;
    f->seen_backward[l] =
        half_way(f->seen_backward[l], ask->backward_s / ask->forward_s);
    f->seen_rest[l] = half_way(f->seen_rest[l], ask->rest_s / ask->forward_s);
}

static enum firn_status by_penalty(const struct firn_freezer *f,
                                   const struct firn_freezer_ask *ask,
                                   size_t *nfrozen, struct firn_error *err)
{
    const int batch = 1; /* one: the batch stays, so only steps/s matter */
    size_t n = f->freeze.nlayers;
    *nfrozen = 0;
    if (ask->epoch < f->warmup_epochs)
        return FIRN_OK;
    *nfrozen = f->freeze.nfrozen;
    if (!(ask->forward_s > 0) || !(ask->backward_s > 0))
        return FIRN_OK; /* times are needed to change anything */
    double *shape = malloc(n * sizeof *shape);
    if (shape == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for %zu layers", n);
    for (size_t i = 0; i < n; i++)
        shape[i] = backward_shape(f->theta[i]);
    struct pace pace = {f, shape, ask->forward_s};
    struct firn_tuner_ask question = {.freeze = &f->freeze,
                                      .batches = &batch,
                                      .nbatches = 1,
                                      .rate = rate,
                                      .context = &pace,
                                      .progress = ask->progress,
                                      .batch_now = batch};
    struct firn_tuning best = {0};
    if (firn_tuner_best(&f->tuner, &question, &best))
        *nfrozen = best.nfrozen;
    free(shape);
    return FIRN_OK;
}

/* --- the log -------------------------------------------------------------- */

static enum firn_status make_room(struct firn_freezer *f, size_t more,
                                  struct firn_error *err)
{
    if (f->nlog + more <= f->cap)
        return FIRN_OK;
    size_t cap = f->cap > 0 ? 2 * f->cap : 64;
    if (cap < f->nlog + more)
        cap = f->nlog + more;
    struct firn_decision *log = realloc(f->log, cap * sizeof *log);
    if (log == NULL)
        return firn_fail(err, FIRN_ENOMEM,
                         "no memory for a log of %zu decisions", cap);
    f->log = log;
    f->cap = cap;
    return FIRN_OK;
}

static double bounded(double psi)
{
    return psi >= psi_least ? fmin(psi, 1) : psi_least; /* NaN: the least */
}

/* The penalty of freezing `nfrozen` layers, by the variances; 1 without any. */
static double own_psi(const struct firn_freezer *f, size_t nfrozen)
{
    bool known = f->freeze.prefix[f->freeze.nlayers] > 0;
    if (nfrozen == 0 || !known || f->rule == FIRN_FREEZER_FREEZEOUT)
        return 1;
    return bounded(firn_freeze_penalty(&f->freeze, nfrozen));
}

/* A checked decision takes effect; there is room in the log. */
static void apply(struct firn_freezer *f, struct firn_decision d)
{
    if (d.kind == FIRN_DECIDED_FROZEN) {
        firn_freeze_set(&f->freeze, d.value, NULL);
        f->psi = d.psi;
    }
    if (d.kind == FIRN_DECIDED_PASSES)
        f->passes = d.value;
    if (d.kind == FIRN_DECIDED_BATCH)
        f->batch = d.value;
    if (d.kind == FIRN_DECIDED_RATE)
        f->rate = d.value;
    f->log[f->nlog++] = d;
    f->last_step = d.step;
}

enum firn_status firn_freezer_check(const struct firn_decision *d,
                                    size_t nlayers, uint64_t last_step,
                                    struct firn_error *err)
{
    if (d->step < last_step)
        return firn_fail(err, FIRN_EINVAL,
                         "a decision at step %llu comes after one at step %llu",
                         (unsigned long long)d->step,
                         (unsigned long long)last_step);
    if (d->kind < FIRN_DECIDED_FROZEN || d->kind > FIRN_DECIDED_RATE)
        return firn_fail(err, FIRN_EINVAL, "a decision of unknown kind %u",
                         (unsigned)d->kind);
    if (d->kind == FIRN_DECIDED_FROZEN && d->value >= nlayers)
        return firn_fail(err, FIRN_EINVAL,
                         "%u of %zu layers cannot be frozen: nothing would "
                         "learn",
                         (unsigned)d->value, nlayers);
    if (d->kind == FIRN_DECIDED_PASSES && d->value == 0)
        return firn_fail(err, FIRN_EINVAL, "a batch cannot be cut into 0");
    if (d->kind >= FIRN_DECIDED_BATCH && d->value == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "a batch or a learning rate cannot become 0");
    if (!(d->psi >= 0 && d->psi <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "the frozen penalty is %g, not "
                         "within 0 and 1",
                         d->psi);
    return FIRN_OK;
}

enum firn_status firn_freezer_set(struct firn_freezer *freezer,
                                  const struct firn_decision *decision,
                                  struct firn_error *err)
{
    FIRN_TRY(firn_freezer_check(decision, freezer->freeze.nlayers,
                                freezer->last_step, err));
    FIRN_TRY(make_room(freezer, 1, err));
    struct firn_decision d = *decision;
    if (d.kind != FIRN_DECIDED_FROZEN)
        d.psi = 0;
    else if (d.value == 0)
        d.psi = 1;
    else
        d.psi = d.psi > 0 ? bounded(d.psi) : own_psi(freezer, d.value);
    apply(freezer, d);
    return FIRN_OK;
}

/* --- replay --------------------------------------------------------------- */

enum firn_status firn_freezer_replay(struct firn_freezer *freezer,
                                     const struct firn_decision *log, size_t n,
                                     struct firn_error *err)
{
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        FIRN_TRY(
            firn_freezer_check(&log[i], freezer->freeze.nlayers, last, err));
        last = log[i].step;
    }
    struct firn_decision *copy = malloc((n > 0 ? n : 1) * sizeof *copy);
    if (copy == NULL)
        return firn_fail(err, FIRN_ENOMEM,
                         "no memory for a replay of %zu decisions", n);
    if (n > 0)
        memcpy(copy, log, n * sizeof *copy);
    free(freezer->replay);
    freezer->replay = copy;
    freezer->nreplay = n;
    freezer->replayed = 0;
    return FIRN_OK;
}

bool firn_freezer_replaying(const struct firn_freezer *freezer, uint64_t step)
{
    size_t n = freezer->nreplay;
    return n > 0 && step <= freezer->replay[n - 1].step;
}

/* The log has this decision already (a resumed replay). */
static bool is_logged(const struct firn_freezer *f,
                      const struct firn_decision *d)
{
    for (size_t i = f->nlog; i > 0 && f->log[i - 1].step >= d->step; i--) {
        const struct firn_decision *l = &f->log[i - 1];
        if (l->step == d->step && l->kind == d->kind && l->value == d->value)
            return true;
    }
    return false;
}

enum firn_status firn_freezer_follow(struct firn_freezer *freezer,
                                     uint64_t step, struct firn_error *err)
{
    while (freezer->replayed < freezer->nreplay &&
           freezer->replay[freezer->replayed].step <= step) {
        struct firn_decision d = freezer->replay[freezer->replayed];
        if (d.kind != FIRN_DECIDED_LAYOUT && !is_logged(freezer, &d)) {
            if (d.step < freezer->last_step)
                d.step = freezer->last_step; /* (2) */
            FIRN_TRY(firn_freezer_set(freezer, &d, err));
        }
        freezer->replayed++;
    }
    return FIRN_OK;
}

/* --- deciding ------------------------------------------------------------- */

static enum firn_status check_ask(const struct firn_freezer *f,
                                  const struct firn_freezer_ask *ask,
                                  struct firn_error *err)
{
    if (ask->step < f->last_step)
        return firn_fail(err, FIRN_EINVAL,
                         "asked at step %llu after a decision at step %llu",
                         (unsigned long long)ask->step,
                         (unsigned long long)f->last_step);
    if (!(ask->progress >= 0 && ask->progress <= 1))
        return firn_fail(err, FIRN_EINVAL,
                         "the progress is %g, not within 0 "
                         "and 1",
                         ask->progress);
    const double times_s[] = {ask->forward_s, ask->backward_s, ask->rest_s};
    static const char *const names[] = {"forward", "backward", "remaining"};
    for (size_t i = 0; i < 3; i++)
        if (!isfinite(times_s[i]) || times_s[i] < 0)
            return firn_fail(err, FIRN_EINVAL, "the %s time of a step is %g s",
                             names[i], times_s[i]);
    return FIRN_OK;
}

static enum firn_status by_rule(const struct firn_freezer *f,
                                const struct firn_freezer_ask *ask,
                                size_t *nfrozen, struct firn_error *err)
{
    size_t n = f->freeze.nlayers;
    if (f->rule == FIRN_FREEZER_PENALTY)
        return by_penalty(f, ask, nfrozen, err);
    if (f->rule == FIRN_FREEZER_FREEZEOUT) {
        *nfrozen = firn_freezeout_frozen(&f->freezeout, n, ask->progress);
        return FIRN_OK;
    }
    *nfrozen = f->user(f->arg, ask, &f->freeze);
    if (*nfrozen >= n)
        return firn_fail(err, FIRN_EINVAL,
                         "the user's rule freezes %zu of %zu layers: nothing "
                         "would learn",
                         *nfrozen, n);
    return FIRN_OK;
}

enum firn_status firn_freezer_decide(struct firn_freezer *freezer,
                                     const struct firn_freezer_ask *ask,
                                     size_t *nfrozen, struct firn_error *err)
{
    FIRN_TRY(check_ask(freezer, ask, err));
    if (ask->variance != NULL)
        FIRN_TRY(firn_freeze_observe(&freezer->freeze, ask->variance,
                                     freezer->freeze.nlayers, err));
    see_times(freezer, ask);
    if (firn_freezer_replaying(freezer, ask->step)) {
        FIRN_TRY(firn_freezer_follow(freezer, ask->step, err));
    } else if (freezer->rule != FIRN_FREEZER_OFF) {
        size_t wanted = 0;
        FIRN_TRY(by_rule(freezer, ask, &wanted, err));
        if (wanted > freezer->most)
            wanted = freezer->most; /* (6) */
        FIRN_TRY(make_room(freezer, 1, err));
        apply(freezer, (struct firn_decision){.step = ask->step,
                                              .epoch = ask->epoch,
                                              .kind = FIRN_DECIDED_FROZEN,
                                              .value = (uint32_t)wanted,
                                              .psi = own_psi(freezer, wanted)});
    }
    *nfrozen = freezer->freeze.nfrozen;
    return FIRN_OK;
}

/* --- what is told and owed ----------------------------------------------- */

size_t firn_freezer_frozen(const struct firn_freezer *freezer)
{
    return freezer->freeze.nfrozen;
}

size_t firn_freezer_most(const struct firn_freezer *freezer)
{
    return freezer->most;
}

double firn_freezer_psi(const struct firn_freezer *freezer)
{
    return freezer->psi;
}

unsigned firn_freezer_passes(const struct firn_freezer *freezer)
{
    return freezer->passes;
}

unsigned firn_freezer_batch(const struct firn_freezer *freezer)
{
    return freezer->batch;
}

double firn_freezer_rate(const struct firn_freezer *freezer)
{
    return freezer->rate > 0 ? 1e-6 * freezer->rate : 1;
}

size_t firn_freezer_log(const struct firn_freezer *freezer,
                        const struct firn_decision **log)
{
    *log = freezer->log;
    return freezer->nlog;
}

unsigned firn_freezer_step(struct firn_freezer *freezer, double *effective)
{
    freezer->effective += freezer->psi;
    if (freezer->due > 0) {
        freezer->due--;
    } else {
        freezer->owed += firn_freeze_owed(freezer->psi);
        double whole = floor(freezer->owed); /* at most 99 by psi_least */
        freezer->owed -= whole;              /* (3) */
        freezer->due = (uint32_t)whole;
    }
    if (effective != NULL)
        *effective = freezer->effective;
    return freezer->due;
}
