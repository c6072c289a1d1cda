/* liveforecast_merge.h - what two fine-tuning jobs are expected to gain from
 * being merged, live.
 *
 * Behind struct firn_forecast_def's `merge`. The estimator is the simulator's
 * (core/taskbook.h), fed by what trainers report: the loss after each epoch,
 * and the epochs that a job took. Until it knows a pair, what pairs gained
 * elsewhere stands in.
 */
#ifndef DAEMON_LIVEFORECAST_MERGE_H
#define DAEMON_LIVEFORECAST_MERGE_H
#include <firn/bytes.h>
#include <firn/forecast.h>

struct livemerge;
struct livemerge *livemerge_new(void);
void livemerge_free(struct livemerge *merges);
/* All that was learned as text, and back into an empty one. FIRN_EDATA: the
 * text is damaged or of another version, and nothing is learned from it. */
struct firn_buf;
void livemerge_save(const struct livemerge *merges, struct firn_buf *out);
enum firn_status livemerge_load(struct livemerge *merges,
                                struct firn_bytes text, struct firn_error *err);

/* One of the two jobs. */
struct livemerge_side {
    const char *base, *dataset;
    double alone_s; /* that it would take from now on, alone */
    double epoch_s; /* of these, for one epoch; NaN: not known */
    bool is_new;    /* nothing is done of it */
};
/* False: not to be merged so. The weight and times are as in firn/forecast.h.
 */
bool livemerge_expect(struct livemerge *merges,
                      const struct livemerge_side side[2],
                      enum firn_merge_kind kind, struct firn_merge *out);
/* What the second job would save by the weights of the first, which has ended;
 * only their bases and datasets are looked at. False: not known. */
bool livemerge_after(struct livemerge *merges,
                     const struct livemerge_side side[2],
                     struct firn_after *out);
/* An epoch of a job has this loss, or 1 - metric; `with` is the dataset of the
 * job that it is trained together with, or whose weights it began with, by
 * `kind`; NULL: it is trained alone. `target_loss` is NaN, and `epochs_max` 0,
 * where the job names none. */
struct livemerge_epoch {
    const char *base, *dataset, *with;
    enum firn_merge_kind kind;
    int epoch;
    double loss, target_loss, epochs_max;
};
void livemerge_epoch(struct livemerge *merges,
                     const struct livemerge_epoch *report);
/* The place of a task, of n numbers (firn/transfer.h). Tasks without one are
 * taken to be equally alike. */
void livemerge_place(struct livemerge *merges, const char *base,
                     const char *dataset, const double *embedding, int n);
/* Is a job that reports this worse off with another's weights than with the
 * base's own (taskbook_hurts)? */
struct taskbook_harm;
bool livemerge_hurts(struct livemerge *merges,
                     const struct livemerge_epoch *report,
                     struct taskbook_harm *out);
/* The job has ended with that epoch, its last. */
void livemerge_ended(struct livemerge *merges,
                     const struct livemerge_epoch *last);
/* Trained together they got on like this: the sum of what each did in a second
 * over what it does alone. 1 when they only take turns. */
void livemerge_saw(struct livemerge *merges,
                   const struct livemerge_side side[2], double together);

#endif
