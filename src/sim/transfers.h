/* transfers.h - what fine-tuning tasks of one model gain from each other.
 *
 * A task is an application "model@dataset". Its work alone is epochs times
 * samples; trained together with another task of the model, or begun with that
 * one's weights, it needs another number of epochs (transfers.def, measured).
 * The simulator's truth goes by these numbers. Its forecasts do not: they ask
 * sim/taskfeed.h, and only a run with the answer key gets them from here.
 */
#ifndef SIM_TRANSFERS_H
#define SIM_TRANSFERS_H
#include "core/known.h"
#include <firn/forecast.h>

struct simengine;

/* Epochs of a task that did not reach its target in the ten measured ones. */
enum { TRANSFERS_NEVER = 20 };
/* Tasks, and how many of them a model has: in rows that follow each other. */
enum { TRANSFERS_TASKS = 36, TRANSFERS_SETS = 9 };

/* The task of an application, from 1 on; 0: none that was measured. */
int transfers_task(const char *app);

/* Epochs alone, and samples of an epoch. 0 for no task. */
double transfers_epochs(int task);
double transfers_samples(int task);

/* Two different tasks of one model. */
bool transfers_is_pair(int task, int other);

/* Epochs of `task` when both are trained together, counted in epochs of both;
 * and when it begins with the weights of `other`. 0: not reached within those
 * that were measured, or no pair. */
double transfers_together(int task, int other);
double transfers_after(int task, int other);

/* The answer key: epochs of `task` merged so over epochs alone; false: it does
 * not get to its target so. Forecasts of a run without --transfer-key never
 * call it (tests/sim/test_scrambled_key.c). */
bool transfers_key(int task, int other, enum firn_merge_kind kind,
                   double *ratio);

/* How many times faster `task` gets on for the weights of `other`. 1 for no
 * pair. */
double transfers_gain(int task, int other);

/* Reference seconds a second of `task` while it is trained together with
 * `other` and needs `ratio` times as many epochs, of both. `joint` is an
 * iteration with the batches of both, `ref` one of the task as submitted. */
double transfers_rate(int task, int other, double ratio,
                      const struct running *joint, const struct running *ref);

/* Reference seconds that a job has left alone, by what is known of it. */
double transfers_left_s(struct simengine *engine, const struct firn_job *job,
                        double now_s);

/* For struct firn_forecast_def, of an engine whose state is a struct
 * simengine. */
bool transfers_merge(void *state, const struct firn_job *a,
                     const struct firn_job *b, enum firn_merge_kind kind,
                     const struct firn_way *way, double now_s,
                     struct firn_merge *out);
/* The task whose weights an ended job has left; 0: none. */
int transfers_left_by(const struct simengine *engine, firn_job_id id);
bool transfers_saved(void *state, firn_job_id from, const struct firn_job *job,
                     struct firn_after *out);

#endif
