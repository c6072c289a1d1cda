/* forecaster_merge.h - what two fine-tuning jobs gain from being merged.
 *
 * Behind struct firn_forecast_def's `merge`. A caller says how each job goes
 * alone and how it is expected to go when merged: the simulator by the
 * published curves of each pair of tasks (sim/transfers.h), the live scheduler
 * by struct gains below. What that makes of the two is worked out here.
 */
#ifndef CORE_FORECASTER_MERGE_H
#define CORE_FORECASTER_MERGE_H
#include <firn/forecast.h>

/* One of the two jobs. Rates are in reference seconds a second. */
struct merge_side {
    double work_s;   /* reference seconds left */
    double alone;    /* rate */
    double together; /* rate while both are trained; 0: they are not to be */
    double after;    /* times less work for the other's weights; 0: the same */
    bool is_new;     /* nothing is done of it */
};

/* False: not to be merged so. `out->epoch_s` is left to the caller. */
bool merge_expect(const struct merge_side side[2], enum firn_merge_kind kind,
                  struct firn_merge *out);

/* What was seen of pairs, by base model and dataset. */
struct gains;
struct gains *gains_new(void);
void gains_free(struct gains *gains);
/* Trained together, two jobs of these datasets did so much in a second: the
 * sum of what each did over what it does alone. 1 when they only take turns. */
void gains_learn(struct gains *gains, const char *base, const char *set,
                 const char *other, double together);
/* What is to be expected of that sum. */
double gains_together(const struct gains *gains, const char *base,
                      const char *set, const char *other);
/* As text (base/keep.h), and back into empty ones. */
struct firn_buf;
struct keep;
void gains_save(const struct gains *gains, struct firn_buf *out);
void gains_load(struct gains *gains, struct keep *in);
/* Times less work for the weights of another job. */
double gains_after(const struct gains *gains);

#endif
