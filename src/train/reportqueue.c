/* reportqueue.c - a few reports in order; superseded ones make room.
 *
 * Invariants: (1) n <= FIRN_REPORTQUEUE_SLOTS; (2) order of arrival; (3) the
 * newest report of each kind is never dropped. With more slots than kinds
 * there is always a superseded one when it is full.
 */
#include "train/reportqueue.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum firn_status firn_reportitem_init(struct firn_reportitem *item,
                                      const struct firn_trainer_report *report,
                                      struct firn_error *err)
{
    size_t n = report->variance != NULL ? report->nlayers : 0;
    double *copy = NULL;
    if (n > 0) {
        copy = malloc(n * sizeof *copy);
        if (copy == NULL)
            return firn_fail(err, FIRN_ENOMEM,
                             "no memory for the variances of %zu layers", n);
        memcpy(copy, report->variance, n * sizeof *copy);
    }
    item->report = *report;
    item->report.variance = copy;
    item->report.nlayers = n;
    item->variance = copy;
    return FIRN_OK;
}

void firn_reportitem_release(struct firn_reportitem *item)
{
    free(item->variance);
    item->variance = NULL;
    item->report.variance = NULL;
}

static bool is_superseded(const struct firn_reportqueue *queue, size_t i)
{
    for (size_t j = i + 1; j < queue->n; j++)
        if ((queue->at[i].variance == NULL) == (queue->at[j].variance == NULL))
            return true;
    return false;
}

static void close_gap(struct firn_reportqueue *queue, size_t i)
{
    queue->n--;
    memmove(&queue->at[i], &queue->at[i + 1],
            (queue->n - i) * sizeof *queue->at);
}

/* Drops the oldest superseded one; false when there is none. */
static bool drop_one(struct firn_reportqueue *queue)
{
    for (size_t i = 0; i < queue->n; i++)
        if (is_superseded(queue, i)) {
            firn_reportitem_release(&queue->at[i]);
            close_gap(queue, i);
            return true;
        }
    return false;
}

size_t firn_reportqueue_add(struct firn_reportqueue *queue,
                            const struct firn_reportitem *item)
{
    size_t ndropped =
        queue->n == FIRN_REPORTQUEUE_SLOTS && drop_one(queue); /* (3) */
    queue->at[queue->n++] = *item;
    return ndropped;
}

struct firn_reportitem firn_reportqueue_take(struct firn_reportqueue *queue)
{
    struct firn_reportitem item = queue->at[0];
    close_gap(queue, 0);
    return item;
}

size_t firn_reportqueue_back(struct firn_reportqueue *queue,
                             const struct firn_reportitem *item)
{
    struct firn_reportitem mine = *item;
    for (size_t i = 0; i < queue->n; i++)
        if ((queue->at[i].variance == NULL) == (mine.variance == NULL)) {
            firn_reportitem_release(&mine);
            return 1;
        }
    /* None of its kind is there, so the queue is of one kind: if it is full,
     * one of those is superseded. */
    size_t ndropped = queue->n == FIRN_REPORTQUEUE_SLOTS && drop_one(queue);
    memmove(&queue->at[1], &queue->at[0], queue->n * sizeof *queue->at);
    queue->at[0] = mine;
    queue->n++;
    return ndropped;
}

size_t firn_reportqueue_thin(struct firn_reportqueue *queue)
{
    size_t ndropped = 0;
    while (drop_one(queue))
        ndropped++;
    return ndropped;
}

void firn_reportqueue_release(struct firn_reportqueue *queue)
{
    for (size_t i = 0; i < queue->n; i++)
        firn_reportitem_release(&queue->at[i]);
    queue->n = 0;
}
