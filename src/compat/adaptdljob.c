/* adaptdljob.c - epochs, restarts and batches of one job.
 *
 * Invariants:
 * (1) progress is P(e) exactly when an epoch has just ended, whatever the
 *     seconds it took were rounded to;
 * (2) is_done exactly when epoch = epochs;
 * (3) `speed` belongs to the present place, batch and epoch, or is NaN;
 *     `time` belongs to the present place and a batch of time_b.
 *
 * Within one epoch a job that keeps its batch has one speed, so nothing is
 * looked up twice; a fixed batch changes only with the place.
 *
 * Cost: O(epochs that end) a round, and a fit where something new is seen.
 */
#include "compat/adaptdljob.h"
#include <math.h>

void adljob_release(struct adljob *job)
{
    for (int t = 0; t < ADLJOB_TYPES; t++)
        adlmodel_release(&job->models[t]);
}

/* The batch for the present place. */
static struct adlbatch choose(struct adljob *job)
{
    const struct adllimits *limits = &job->limits;
    struct adlmodel *model = &job->models[job->type];
    int gpus = job->place.gpus;
    if (job->fixed_batch > 0)
        return adlbatch_fixed(limits, job->fixed_batch, gpus, false);
    if (adlmodel_is_blank(model))
        return adlbatch_fixed(limits, fmax(limits->b0, limits->b_min * gpus),
                              gpus, false);
    model->f_tol = job->f_tol;
    struct adlbest best =
        adlmodel_best(model, &job->noise, limits, job->place.nodes, gpus);
    return adlbatch_cut(limits, best.batch, gpus);
}

static void tune(struct adljob *job)
{
    struct adlbatch batch = choose(job);
    if (batch.b != job->batch.b || batch.s != job->batch.s)
        job->speed = NAN;
    job->batch = batch;
}

void adljob_place(struct adljob *job, int type, const struct adlsteps *steps,
                  const struct adllimits *limits, const struct adlplace *place,
                  double restart_s)
{
    job->type = type;
    job->steps = steps;
    job->limits = *limits;
    job->place = *place;
    job->countdown_s = restart_s;
    job->speed = NAN;
    job->time_b = 0;
    tune(job);
}

void adljob_clear(struct adljob *job)
{
    job->place.nodes = job->place.gpus = 0;
    job->speed = NAN;
}

/* Looks the speed up, and records the observation of the job's trainer: (3). */
static void look(struct adljob *job)
{
    const struct adlplace *place = &job->place;
    double total = adlbatch_total(job->batch, place->gpus);
    if (job->time_b != job->batch.b) {
        job->time = adlsteps_at(job->steps, place, job->batch.b);
        job->time_b = job->batch.b;
    }
    job->noise = adlapp_noise(job->app, total, job->epoch);
    double gain = adlapp_gain(job->app, &job->noise, total);
    job->speed = gain / adltime_iteration(job->time, job->batch.s);
    if (job->slowdown > 0)
        job->speed /= job->slowdown;
    job->was_seen = true;
    if (job->learns)
        adlmodel_observe(&job->models[job->type], place->nodes, place->gpus,
                         job->batch.b, job->time);
}

/* Trains for `seconds`, or until the job ends; returns how long. */
static double train(struct adljob *job, double seconds)
{
    double left_s = seconds;
    while (left_s > 0 && !job->is_done) {
        if (isnan(job->speed))
            look(job);
        double goal = job->app->progress[job->epoch + 1];
        if (job->progress + job->speed * left_s < goal) {
            job->progress += job->speed * left_s;
            left_s = 0;
        } else {
            left_s -= nearbyint((goal - job->progress) / job->speed);
            job->progress = goal; /* (1) */
            job->epoch++;
            job->speed = NAN;
            job->is_done = job->epoch >= job->app->epochs; /* (2) */
        }
        if (job->fixed_batch <= 0 && !job->is_done)
            tune(job);
    }
    return seconds - left_s;
}

struct adlstride adljob_advance(struct adljob *job, double seconds)
{
    struct adlstride stride = {0};
    if (job->place.nodes == 0 || job->is_done)
        return stride;
    double before = job->progress;
    stride.idle_s = fmin(job->countdown_s, seconds);
    job->countdown_s -= stride.idle_s;
    stride.train_s = train(job, seconds - stride.idle_s);
    stride.gained = job->progress - before;
    return stride;
}

double adljob_speed(const struct adljob *job)
{
    if (job->place.nodes == 0)
        return 0;
    if (!isnan(job->speed))
        return job->speed;
    struct adljob now = *job;
    now.learns = false; /* a look-up, not an observation */
    look(&now);
    return now.speed;
}

double adljob_iterations_left(const struct adljob *job, double batch)
{
    int last = job->app->epochs - 1;
    if (job->epoch >= last)
        return 1;
    return adlapp_iterations(job->app, batch, last) -
           adlapp_iterations(job->app, batch, job->epoch);
}
