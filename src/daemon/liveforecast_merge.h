/* liveforecast_merge.h - what two fine-tuning jobs are expected to gain from
 * being merged, live.
 *
 * Behind struct firn_forecast_def's `merge`. The simulator has measured epochs
 * for each pair of tasks (sim/transfers.h); here nothing is known of a pair but
 * what pairs gained elsewhere, until reports come.
 */
#ifndef DAEMON_LIVEFORECAST_MERGE_H
#define DAEMON_LIVEFORECAST_MERGE_H
#include <firn/forecast.h>

struct livemerge;
struct livemerge *livemerge_new(void);
void livemerge_free(struct livemerge *merges);

/* One of the two jobs. */
struct livemerge_side {
    const char *base, *dataset;
    double alone_s; /* that it would take from now on, alone */
    double epoch_s; /* of these, for one epoch; NaN: not known */
    bool is_new;    /* nothing is done of it */
};
/* False: not to be merged so. The weight and times are as in firn/forecast.h.
 */
bool livemerge_expect(const struct livemerge *merges,
                      const struct livemerge_side side[2],
                      enum firn_merge_kind kind, struct firn_merge *out);
/* Trained together they got on like this: the sum of what each did in a second
 * over what it does alone. 1 when they only take turns. */
void livemerge_saw(struct livemerge *merges,
                   const struct livemerge_side side[2], double together);

#endif
