/* train.c - the loop of an elastic training job, in one process.
 *
 * A step is: every thread of this process enters, computes and leaves; the
 * mean of all gradients; the trainer's update; the boundary. What the processes
 * exchange besides gradients (losses, orders, a signal that only one of them
 * got) goes in one pulse behind the mean, so a boundary at which nothing
 * happens costs no meeting of its own, and all processes know the same there:
 * they stop, save and decide together.
 *
 * Invariants
 *   1. What happens at a boundary follows from step, config and the last
 *      pulse, which are equal in all processes.
 *   2. A decision is followed by a checkpoint where there is a folder: a
 *      process that is killed never has to take one again.
 *   3. The first failure is kept; nothing is done after it but closing.
 */
#include "train/trainwork.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void firn_train_fail(struct firn_train *t, const struct firn_error *err)
{
    if (t->state != TRAIN_FAILED)
        t->err = *err;
    t->state = TRAIN_FAILED;
}

/* --- the pulse ----------------------------------------------------------- */

/* Collective: losses and orders of all processes. A loss is posted by the
 * process that has the thread, the others post 0. */
static enum firn_status beat(struct firn_train *t, struct firn_error *err)
{
    struct firn_orders orders = firn_reporter_orders(t->reporter);
    struct train_pulse own = {
        .stop = orders.stop > 0,
        .nfrozen = t->rank == 0 ? orders.nfrozen : -1,
        .passes = t->rank == 0 ? orders.passes : -1,
        .batch = t->rank == 0 ? orders.batch : -1,
        .save = t->rank == 0 && t->every_s > 0 &&
                firn_train_now_s() - t->saved_s >= t->every_s,
        .resize =
            t->rank == 0 && firn_train_can_join(t) ? firn_join_due(t->join) : 0,
    };
    memcpy(t->pulse, &own, sizeof own);
    FIRN_TRY(firn_group_allgather(t->group, t->pulse, t->pulse_bytes, t->pulses,
                                  err));
    memcpy(&t->word, t->pulses, sizeof t->word);
    double sum = 0;
    for (int v = 0; v < t->nthreads; v++) {
        double loss = 0;
        for (int r = 0; r < t->nprocs; r++) {
            double posted;
            memcpy(&posted,
                   t->pulses + (size_t)r * t->pulse_bytes + sizeof own +
                       (size_t)v * sizeof posted,
                   sizeof posted);
            loss += posted;
        }
        sum += loss;
    }
    for (int r = 0; r < t->nprocs; r++) {
        struct train_pulse other;
        memcpy(&other, t->pulses + (size_t)r * t->pulse_bytes, sizeof other);
        t->stop |= other.stop != 0;
    }
    if (t->in_step)
        t->loss = sum / t->nthreads;
    t->has_pulse = true;
    return FIRN_OK;
}

/* --- boundaries ---------------------------------------------------------- */

bool firn_train_is_done(const struct firn_train *t)
{
    return t->is_finished || (t->due == 0 && firn_train_epoch(t) >= t->nepochs);
}

/* A checkpoint that fails stops training only when it was to be the last. */
static enum firn_status save(struct firn_train *t, bool must,
                             struct firn_error *err)
{
    bool written = false;
    if (t->dir == NULL || t->saved == t->step + 1)
        return FIRN_OK;
    FIRN_TRY(firn_train_save(t, &written, err));
    if (written)
        return FIRN_OK;
    if (must)
        return err->status;
    firn_train_say(t, "no checkpoint at step %llu: %s",
                   (unsigned long long)t->step, err->text);
    return FIRN_OK;
}

/* Has it done its first step since it was started? What it can do is known
 * then, and the scheduler waits for it. */
static bool is_first_step(const struct firn_train *t)
{
    return t->said_can == 0 && t->recent.nsteps > 0;
}

static enum firn_status boundary(struct firn_train *t, struct firn_error *err)
{
    bool decided = false, done = firn_train_is_done(t);
    if (!t->has_pulse)
        FIRN_TRY(beat(t, err));
    if (!done)
        FIRN_TRY(firn_train_decide(t, &decided, err));
    bool last = done || t->stop;
    bool often = t->word.save != 0 || (t->every_steps > 0 && t->step > 0 &&
                                       t->step % t->every_steps == 0);
    if (last || often || decided)
        FIRN_TRY(save(t, last, err));
    if (t->rank == 0 && t->step > 0 &&
        (last || firn_train_at_epoch(t) || is_first_step(t) ||
         t->step % (uint64_t)t->report_every == 0))
        firn_train_report(t);
    if (t->stop && !done && t->dir == NULL)
        firn_train_say(t,
                       "stopped without a folder for checkpoints: the training "
                       "is lost");
    if (last)
        t->state = done ? TRAIN_DONE : TRAIN_STOPPED;
    return FIRN_OK;
}

/* The switch that process 0 has announced, if there is a next step. */
static enum firn_status resize(struct firn_train *t, struct firn_error *err)
{
    uint64_t order = t->word.resize;
    t->word.resize = 0;
    if (order == 0)
        return FIRN_OK;
    if (t->state == TRAIN_RUNS)
        return firn_train_switch(t, order, err);
    if (t->rank == 0)
        firn_join_withdraw(t->join, order, "the training has come to its end");
    return FIRN_OK;
}

bool firn_train_go(struct firn_train *train)
{
    struct firn_train *t = train;
    struct firn_error err = {0};
    if (t->state != TRAIN_RUNS)
        return false;
    enum firn_status status = FIRN_OK;
    if (t->joins)
        status = firn_fail(&err, FIRN_EINVAL,
                           "a process that joins calls firn_train_resume()");
    if (t->in_step)
        status = firn_fail(&err, FIRN_EINVAL,
                           "step %llu has no mean: firn_train_mean() was not "
                           "called",
                           (unsigned long long)t->step);
    if (status == FIRN_OK && t->reduced_s > 0)
        firn_train_time_step(t);
    if (status == FIRN_OK && !t->is_joined)
        status = boundary(t, &err);
    if (status == FIRN_OK && !t->is_joined)
        status = resize(t, &err);
    t->is_joined = false;
    if (status != FIRN_OK)
        firn_train_fail(t, &err);
    if (t->state != TRAIN_RUNS)
        return false;
    t->in_step = true;
    t->turn = 0;
    memset(t->pulse, 0, t->pulse_bytes);
    return true;
}

/* --- steps --------------------------------------------------------------- */

int firn_train_enter(struct firn_train *train)
{
    struct firn_train *t = train;
    struct firn_error err = {0};
    if (t->state != TRAIN_RUNS || !t->in_step || t->inside ||
        t->turn >= t->nmine)
        return -1;
    int thread = t->mine[t->turn];
    if (firn_threads_enter(t->threads, thread, &err) != FIRN_OK) {
        firn_train_fail(t, &err);
        return -1;
    }
    t->inside = true;
    t->entered_s = firn_train_now_s();
    if (t->prepared_s == 0)
        t->prepared_s = firn_process_age_s();
    return thread;
}

void firn_train_leave(struct firn_train *train, const float *grad, double loss)
{
    struct firn_train *t = train;
    struct firn_error err = {0};
    if (t->state != TRAIN_RUNS || !t->inside)
        return;
    t->compute_s += firn_train_now_s() - t->entered_s;
    int thread = t->mine[t->turn++];
    t->inside = false;
    memcpy(t->pulse + sizeof(struct train_pulse) + (size_t)thread * sizeof loss,
           &loss, sizeof loss);
    const float *packed = firn_train_pack(t, thread, grad);
    firn_train_measure(t, packed);
    firn_train_probe(t, packed);
    double since_s = firn_train_now_s();
    enum firn_status status = firn_threads_leave(t->threads, &err);
    if (status == FIRN_OK)
        status =
            firn_group_put(t->group, thread, packed, firn_train_first(t), &err);
    t->present_s[FIRN_STEP_REDUCE] += firn_train_now_s() - since_s;
    if (status != FIRN_OK)
        firn_train_fail(t, &err);
}

void firn_train_mean(struct firn_train *train, float *mean)
{
    struct firn_train *t = train;
    struct firn_error err = {0};
    if (t->state != TRAIN_RUNS || !t->in_step)
        return;
    double since_s = firn_train_now_s();
    float *packed = firn_train_packed(t, mean);
    enum firn_status status = firn_group_reduce(
        t->group, packed, firn_train_first(t), (float)t->nthreads, &err);
    if (status == FIRN_OK)
        status = beat(t, &err);
    t->reduced_s = firn_train_now_s();
    t->present_s[FIRN_STEP_REDUCE] += t->reduced_s - since_s;
    if (status != FIRN_OK) {
        firn_train_fail(t, &err);
        return;
    }
    firn_train_measure_mean(t, packed);
    firn_train_unpack(t, mean);
    bool extra = t->due > 0;
    t->due = firn_freezer_step(t->freezer, &t->effective);
    t->ordinary += !extra;
    t->step++;
    t->in_step = false;
}

/* --- what is known ------------------------------------------------------- */

struct firn_threads *firn_train_threads(struct firn_train *train)
{
    return train->threads;
}

struct firn_group *firn_train_group(struct firn_train *train)
{
    return train->group;
}

struct firn_freezer *firn_train_freezer(struct firn_train *train)
{
    return train->freezer;
}

uint64_t firn_train_step(const struct firn_train *train)
{
    return train->step;
}

size_t firn_train_start(const struct firn_train *train)
{
    firn_train_uses(train, FIRN_CAN_FREEZE);
    return firn_train_first(train);
}

size_t firn_train_frozen(const struct firn_train *train)
{
    firn_train_uses(train, FIRN_CAN_FREEZE);
    return firn_freezer_frozen(train->freezer);
}

unsigned firn_train_passes(const struct firn_train *train)
{
    firn_train_uses(train, FIRN_CAN_PASSES);
    return firn_train_npasses(train);
}

void firn_train_can(struct firn_train *train, unsigned can)
{
    train->can = (int)(can & FIRN_CAN_ALL);
}

double firn_train_loss(const struct firn_train *train)
{
    return train->loss;
}

int firn_train_rank(const struct firn_train *train)
{
    return train->rank;
}

int firn_train_nthreads(const struct firn_train *train)
{
    return train->nthreads;
}

enum firn_sum firn_train_sum(const struct firn_train *train)
{
    return firn_group_sum(train->group);
}

void firn_train_time(struct firn_train *train, enum firn_step_part part,
                     double seconds)
{
    if ((unsigned)part < FIRN_STEP_NPARTS && seconds >= 0 && isfinite(seconds))
        train->present_s[part] += seconds;
}

void firn_train_metric(struct firn_train *train, double metric)
{
    train->metric = metric;
    if (train->target > 0 && metric >= train->target)
        train->is_finished = true;
}

void firn_train_finish(struct firn_train *train)
{
    train->is_finished = true;
}

const char *firn_train_said(const struct firn_train *train)
{
    return train->messages;
}

/* --- closing ------------------------------------------------------------- */

int firn_train_close(struct firn_train *train, struct firn_error *err)
{
    struct firn_train *t = train;
    struct firn_error why = {0};
    if (t == NULL)
        return 1;
    if (t->state == TRAIN_RUNS && !t->in_step && t->step > 0 &&
        save(t, true, &why) != FIRN_OK)
        firn_train_fail(t, &why);
    int code = t->state == TRAIN_FAILED    ? 1
               : t->state == TRAIN_STOPPED ? FIRN_EXIT_CHECKPOINT
                                           : 0;
    if (code == 1 && err != NULL)
        *err = t->err;
    firn_train_release(t);
    return code;
}
