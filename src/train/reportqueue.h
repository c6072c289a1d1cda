/* reportqueue.h - reports that wait to be sent, never more than a few.
 *
 * Two kinds: with the layers' variances (rare, wanted by the scheduler's
 * models) and without (progress). A report is superseded by a newer one of its
 * kind. Not for two threads at once; knows no clock.
 */
#ifndef TRAIN_REPORTQUEUE_H
#define TRAIN_REPORTQUEUE_H
#include <firn/message.h>

enum { FIRN_REPORTQUEUE_SLOTS = 16 };

struct firn_reportitem {
    struct firn_trainer_report report; /* its variance is the next field */
    double *variance;                  /* owned; NULL: none */
};

/* A zeroed struct is a valid empty queue. */
struct firn_reportqueue {
    struct firn_reportitem at[FIRN_REPORTQUEUE_SLOTS]; /* oldest first */
    size_t n;
};

/* Makes an item of a report, with a copy of its variance. FIRN_ENOMEM. */
enum firn_status firn_reportitem_init(struct firn_reportitem *item,
                                      const struct firn_trainer_report *report,
                                      struct firn_error *err);
void firn_reportitem_release(struct firn_reportitem *item);

/* Appends; the item is the queue's then. How many superseded ones had to go.
 */
size_t firn_reportqueue_add(struct firn_reportqueue *queue,
                            const struct firn_reportitem *item);
/* Takes the oldest, which is the caller's then; n > 0. */
struct firn_reportitem firn_reportqueue_take(struct firn_reportqueue *queue);
/* Puts one back in front that was taken; when a newer one of its kind is there
 * it goes instead. How many went: 0 or 1. */
size_t firn_reportqueue_back(struct firn_reportqueue *queue,
                             const struct firn_reportitem *item);
/* Only the newest of each kind stays. How many went. */
size_t firn_reportqueue_thin(struct firn_reportqueue *queue);
void firn_reportqueue_release(struct firn_reportqueue *queue);

#endif
