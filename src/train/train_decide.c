/* train_decide.c - variances, decisions and reports of a training session.
 *
 * A decision depends on measured times, so process 0 takes it and sends the
 * new entries of its decision log to the others, who enter them in theirs:
 * from there on it is an input like any other, in the log and the checkpoint.
 *
 * The variance of a layer's gradient across the V threads is worked out from
 * sums of squares: each thread carries the squares of its own gradients, by
 * layer, as a part of its context, and every process has those of the mean;
 * (sum_v squares_v - V meansq) / (V - 1), put together at the end of an epoch.
 * No gradient of another process is read, so it costs one pass over each
 * gradient and works in a chain; and the sum runs in the order of threads, so
 * it has the same bits for every placement. With V = 1 successive means are
 * compared instead (firn/gradstat.h).
 */
#include "train/trainwork.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- measuring ----------------------------------------------------------- */

void firn_train_measure(struct firn_train *t, const float *grad)
{
    if (t->measures && t->nthreads > 1)
        firn_gradstat_squares(t->squares, grad, t->layer_start, t->nlayers,
                              firn_freezer_frozen(t->freezer));
}

void firn_train_measure_mean(struct firn_train *t, const float *mean)
{
    if (!t->measures)
        return;
    size_t first = firn_freezer_frozen(t->freezer);
    if (t->nthreads > 1) {
        firn_gradstat_squares(t->meansq, mean, t->layer_start, t->nlayers,
                              first);
        t->nmeasured++;
        return;
    }
    size_t at = t->layer_start[first];
    if (t->has_before) {
        firn_gradstat_between(t->meansq, mean, t->before, t->layer_start,
                              t->nlayers, first);
        t->nmeasured++;
    }
    memcpy(t->before + at, mean + at, (t->nelements - at) * sizeof *mean);
    t->has_before = true;
}

/* Own threads' squares to process 0, each with its thread's number before it;
 * they start anew. */
static enum firn_status send_squares(struct firn_train *t, void **all,
                                     size_t *nall, struct firn_error *err)
{
    size_t row = 1 + t->nlayers;
    double *rows = malloc((t->nmine * row + 1) * sizeof *rows);
    if (rows == NULL)
        return firn_fail(err, FIRN_ENOMEM, "no memory for variances");
    for (size_t i = 0; i < t->nmine; i++) {
        size_t nbytes;
        void *squares =
            firn_threads_stored(t->threads, t->mine[i], TRAIN_SQUARES, &nbytes);
        rows[i * row] = t->mine[i];
        memcpy(rows + i * row + 1, squares, t->nlayers * sizeof *rows);
        memset(squares, 0, t->nlayers * sizeof *rows);
    }
    enum firn_status status = firn_group_gather(
        t->group, rows, t->nmine * row * sizeof *rows, all, nall, err);
    free(rows);
    return status;
}

/* Process 0: the variances of the epoch from all rows, in thread order. */
static void sum_squares(struct firn_train *t, const double *rows)
{
    size_t row = 1 + t->nlayers, n = (size_t)t->nthreads;
    double v = (double)n, steps = (double)t->nmeasured;
    for (size_t l = 0; l < t->nlayers; l++)
        t->variance[l] = 0;
    for (size_t thread = 0; thread < n; thread++)
        for (size_t i = 0; i < n; i++)
            if (rows[i * row] == (double)thread)
                for (size_t l = 0; l < t->nlayers; l++)
                    t->variance[l] += rows[i * row + 1 + l];
    for (size_t l = 0; l < t->nlayers; l++) {
        double sum = (t->variance[l] - v * t->meansq[l]) / (v - 1);
        t->variance[l] = fmax(sum, 0) / steps;
    }
}

/* Collective: the variances of the epoch that is over, in process 0. */
static enum firn_status close_epoch(struct firn_train *t,
                                    struct firn_error *err)
{
    if (!t->measures || t->nmeasured == 0)
        return FIRN_OK;
    if (t->nthreads > 1) {
        void *all = NULL;
        size_t *nall = malloc((size_t)t->nprocs * sizeof *nall);
        enum firn_status status =
            nall != NULL ? send_squares(t, &all, nall, err)
                         : firn_fail(err, FIRN_ENOMEM, "no memory");
        if (status == FIRN_OK && t->rank == 0)
            sum_squares(t, all);
        firn_group_free(all);
        free(nall);
        FIRN_TRY(status);
    } else {
        for (size_t l = 0; l < t->nlayers; l++)
            t->variance[l] = t->meansq[l] / (double)t->nmeasured;
    }
    t->mean_square = 0;
    for (size_t l = 0; l < t->nlayers && t->nthreads > 1; l++)
        t->mean_square += t->meansq[l] / (double)t->nmeasured;
    t->has_variance = true;
    t->nmeasured = 0;
    memset(t->meansq, 0, t->nlayers * sizeof *t->meansq);
    return FIRN_OK;
}

/* --- times --------------------------------------------------------------- */

/* Estimates the times that the trainer did not report: forward is the rest
 * between enter and leave, or half of backward if nothing was reported; the
 * update is the time from the mean to the next boundary. */
void firn_train_time_step(struct firn_train *t)
{
    double *part = t->present_s, switch_s = 0;
    uint64_t nswitches;
    firn_threads_cost(t->threads, &switch_s, &nswitches);
    part[FIRN_STEP_SWITCH] += switch_s - t->switched_s;
    t->switched_s = switch_s;
    double reported = part[FIRN_STEP_DATA] + part[FIRN_STEP_FORWARD] +
                      part[FIRN_STEP_BACKWARD];
    if (reported <= 0) {
        part[FIRN_STEP_FORWARD] = t->compute_s / 3;
        part[FIRN_STEP_BACKWARD] = t->compute_s * 2 / 3;
    } else if (part[FIRN_STEP_FORWARD] <= 0) {
        part[FIRN_STEP_FORWARD] = fmax(0, t->compute_s - reported);
    }
    if (part[FIRN_STEP_UPDATE] <= 0)
        part[FIRN_STEP_UPDATE] = firn_train_now_s() - t->reduced_s;
    for (int p = 0; p < FIRN_STEP_NPARTS; p++) {
        firn_steptimes_add(&t->times, (enum firn_step_part)p, part[p]);
        firn_steptimes_add(&t->recent, (enum firn_step_part)p, part[p]);
        part[p] = 0;
    }
    firn_steptimes_end(&t->times);
    firn_steptimes_end(&t->recent);
    t->compute_s = 0;
}

/* --- decisions ----------------------------------------------------------- */

bool firn_train_at_epoch(const struct firn_train *t)
{
    return t->due == 0 && t->ordinary > 0 &&
           (t->ordinary - t->base_ordinary) % t->steps_per_epoch == 0;
}

static double progress_of(const struct firn_train *t)
{
    double since = (double)(t->ordinary - t->base_ordinary);
    double epochs = (double)t->base_epoch + since / (double)t->steps_per_epoch;
    if (t->is_finished || t->nepochs == 0)
        return 1;
    return fmin(1, epochs / (double)t->nepochs);
}

/* Process 0, at the end of an epoch. */
static enum firn_status by_rule(struct firn_train *t, struct firn_error *err)
{
    const struct firn_steptimes *times = &t->times;
    struct firn_freezer_ask ask = {
        .step = t->step,
        .epoch = firn_train_epoch(t),
        .progress = progress_of(t),
        .variance = t->has_variance ? t->variance : NULL,
        .forward_s = firn_steptimes_mean(times, FIRN_STEP_DATA) +
                     firn_steptimes_mean(times, FIRN_STEP_FORWARD),
        .backward_s = firn_steptimes_mean(times, FIRN_STEP_BACKWARD),
        .rest_s = firn_steptimes_mean(times, FIRN_STEP_REDUCE) +
                  firn_steptimes_mean(times, FIRN_STEP_UPDATE)};
    size_t nfrozen;
    return firn_freezer_decide(t->freezer, &ask, &nfrozen, err);
}

static enum firn_status set(struct firn_train *t, uint32_t kind, int value,
                            struct firn_error *err)
{
    struct firn_decision d = {.step = t->step,
                              .epoch = firn_train_epoch(t),
                              .kind = kind,
                              .value = (uint32_t)value};
    return firn_freezer_set(t->freezer, &d, err);
}

/* Frozen layers by the scheduler's order, else as they are; in any case no more
 * than may be: an order is cut off there, and a job that was resumed with more
 * (its limit was another then) thaws the rest. The same in all processes. */
static size_t frozen_due(const struct firn_train *t)
{
    int n = t->word.nfrozen >= 0 ? t->word.nfrozen : t->frozen_asked;
    size_t most = firn_freezer_most(t->freezer);
    size_t due = n >= 0 && (size_t)n < t->nlayers
                     ? (size_t)n
                     : firn_freezer_frozen(t->freezer);
    return due < most ? due : most;
}

static bool refreezes(const struct firn_train *t)
{
    return frozen_due(t) != firn_freezer_frozen(t->freezer);
}

static int passes_ordered(const struct firn_train *t)
{
    int n = t->word.passes > 0 ? t->word.passes : t->passes_asked;
    return n > 0 && (unsigned)n != firn_train_npasses(t) ? n : 0;
}

/* Process 0 takes what is due. An order on frozen layers goes before the rule,
 * a replay before both. */
static enum firn_status take(struct firn_train *t, bool at_epoch,
                             struct firn_error *err)
{
    bool replays = t->replays && firn_freezer_replaying(t->freezer, t->step);
    if (replays)
        FIRN_TRY(firn_freezer_follow(t->freezer, t->step, err));
    if (at_epoch && (replays || t->word.nfrozen < 0))
        FIRN_TRY(by_rule(t, err));
    if (!replays && refreezes(t))
        FIRN_TRY(set(t, FIRN_DECIDED_FROZEN, (int)frozen_due(t), err));
    if (!replays && passes_ordered(t) > 0)
        FIRN_TRY(set(t, FIRN_DECIDED_PASSES, passes_ordered(t), err));
    int batch = replays ? 0 : firn_train_batch_due(t);
    if (batch > 0) {
        FIRN_TRY(set(t, FIRN_DECIDED_BATCH, batch, err));
        FIRN_TRY(set(t, FIRN_DECIDED_RATE, firn_train_rate_due(t, batch), err));
    }
    return FIRN_OK;
}

/* Collective: what process 0 has logged beyond `before` goes into the logs of
 * all. */
static enum firn_status tell(struct firn_train *t, size_t before,
                             enum firn_status taken, struct firn_error *err)
{
    const struct firn_decision *log;
    size_t n = firn_freezer_log(t->freezer, &log);
    uint64_t head[2] = {taken != FIRN_OK, n - before};
    FIRN_TRY(firn_group_bcast(t->group, head, sizeof head, 0, err));
    if (taken != FIRN_OK)
        return taken;
    if (head[0] != 0)
        return firn_fail(err, FIRN_EIO, "process 0 could not decide");
    for (uint64_t i = 0; i < head[1]; i++) {
        struct firn_decision d = {0};
        if (t->rank == 0) {
            firn_freezer_log(t->freezer, &log);
            d = log[before + i];
        }
        FIRN_TRY(firn_group_bcast(t->group, &d, sizeof d, 0, err));
        if (t->rank != 0)
            FIRN_TRY(firn_freezer_set(t->freezer, &d, err));
    }
    return FIRN_OK;
}

enum firn_status firn_train_decide(struct firn_train *t, bool *decided,
                                   struct firn_error *err)
{
    const struct firn_decision *log;
    size_t before = firn_freezer_log(t->freezer, &log);
    bool at_epoch = firn_train_at_epoch(t) && t->decided != t->step + 1 &&
                    (t->decides || t->measures);
    *decided = false;
    if (at_epoch)
        FIRN_TRY(close_epoch(t, err));
    if (!at_epoch && !t->replays && !refreezes(t) && passes_ordered(t) == 0 &&
        firn_train_batch_due(t) == 0) {
        t->frozen_asked = -1; /* it is obeyed, or a rule has gone on */
        return FIRN_OK;
    }
    enum firn_status taken = FIRN_OK;
    if (t->rank == 0)
        taken = take(t, at_epoch, err);
    FIRN_TRY(tell(t, before, taken, err));
    if (at_epoch) {
        t->decided = t->step + 1;
        t->times = (struct firn_steptimes){0};
    }
    t->frozen_asked = -1;
    firn_train_rebatch(t);
    *decided = firn_freezer_log(t->freezer, &log) != before;
    return FIRN_OK;
}

/* --- reports ------------------------------------------------------------- */

/* As the program says, else as it was seen to do. */
static unsigned abilities(const struct firn_train *t)
{
    if (t->can >= 0)
        return (unsigned)t->can;
    unsigned can = *t->used & FIRN_CAN_ALL;
    if (!firn_train_has_sampler(t) || !(*t->used & TRAIN_USES_RATE))
        can &= ~(unsigned)FIRN_CAN_BATCH;
    if (can & FIRN_CAN_RESIZE) /* on any number of processes */
        can |= FIRN_CAN_EXECUTORS;
    return can | (firn_mate_is_asked() ? FIRN_CAN_PARTNER : 0u) |
           (firn_ahead_was_called() ? FIRN_CAN_AHEAD : 0u);
}

void firn_train_report(struct firn_train *t)
{
    struct firn_trainer_report r = firn_trainer_report_unknown();
    r.step = t->step;
    r.epoch = firn_train_epoch(t);
    r.progress = progress_of(t);
    r.effective = t->effective;
    bool is_slow = /* a first step alone says little of the others */
        t->said_can == 0 && t->recent.nsteps == 1 && t->report_every > 1;
    if (t->recent.nsteps > 0 && !is_slow) {
        r.step_s = t->is_paired && t->step > t->reported_step
                       ? (firn_train_now_s() - t->reported_s) /
                             (double)(t->step - t->reported_step)
                       : firn_steptimes_step(&t->recent);
        for (int p = 0; p < FIRN_STEP_NPARTS; p++)
            r.part_s[p] =
                firn_steptimes_mean(&t->recent, (enum firn_step_part)p);
    }
    if (isfinite(t->loss))
        r.loss = t->loss;
    if (isfinite(t->metric))
        r.metric = t->metric;
    unsigned can = abilities(t);
    r.passes = can & FIRN_CAN_PASSES ? (int)firn_train_npasses(t) : 1;
    if (firn_train_has_sampler(t))
        r.batch = t->sampler.batch * t->nthreads;
    r.nfrozen = (int)firn_freezer_frozen(t->freezer);
    r.nthreads = t->nthreads;
    r.nprocs = t->nprocs;
    r.psi = firn_freezer_psi(t->freezer);
    if (t->has_variance && t->nlayers <= FIRN_MESSAGE_LAYERS) {
        r.variance = t->variance;
        r.nlayers = t->nlayers;
    }
    if (t->recent.nsteps > 0) {
        r.can = (int)can;
        t->said_can = t->step + 1;
    }
    r.prepare_s = t->prepared_s > 0 ? t->prepared_s : -1;
    if (r.epoch <= 2)
        firn_train_probed(t, &r);
    firn_reporter_say(t->reporter, &r, NULL); /* a report may be lost */
    t->recent = (struct firn_steptimes){0};
    t->reported_s = firn_train_now_s();
    t->reported_step = t->step;
}
