/* topmodel.c - the list of jobs of `firn top`.
 *
 * (1) Ties are in the order of ids, so that rows do not jump between updates.
 * (2) A job whose value is unknown is behind those whose value is known,
 * whatever the direction. (3) If the selected job has ended, the job in its
 * place is selected.
 */
#include "cli/topmodel.h"
#include "base/mem.h"
#include "cli/answer.h"
#include "cli/livejobs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *top_sort_name(enum top_sort sort)
{
    static const char *const names[] = {"state", "number", "user", "GPUs",
                                        "busy",  "ran",    "end"};
    return names[sort];
}

/* What a row is sorted by; NaN: unknown. More of it comes first, but for
 * state, number and end. */
static double value(const struct top_row *row, enum top_sort sort)
{
    switch (sort) {
    case TOP_BY_STATE:
        return row->rank;
    case TOP_BY_ID:
        return row->id;
    case TOP_BY_GPUS:
        return -answer_number(row->job, "gpus_max", NAN);
    case TOP_BY_BUSY:
        return -answer_number(row->job, "utilisation", NAN);
    case TOP_BY_RAN:
        return -answer_number(row->job, "ran_s", NAN);
    case TOP_BY_END:
        return answer_number(row->forecast, "finish_at_s", NAN);
    case TOP_BY_USER:
    case TOP_NSORTS:
        break;
    }
    return 0;
}

static const struct top_list *sorted_by; /* qsort() has no argument for it */

static int compare(const void *a, const void *b)
{
    const struct top_row *left = a, *right = b;
    int order = 0;
    if (sorted_by->sort == TOP_BY_USER) {
        order = strcmp(answer_text(left->job, "user"),
                       answer_text(right->job, "user"));
    } else {
        double x = value(left, sorted_by->sort);
        double y = value(right, sorted_by->sort);
        if (isnan(x) || isnan(y))
            order = isnan(x) - isnan(y);
        else
            order = (x > y) - (x < y);
        if (isnan(x) != isnan(y))
            return order; /* (2) */
    }
    if (order != 0)
        return sorted_by->is_reversed ? -order : order;
    return (left->id > right->id) - (left->id < right->id); /* (1) */
}

static int by_id(const void *a, const void *b)
{
    const struct top_row *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

/* Gives each row its forecast. Both lists are walked by id. */
static void set_forecasts(struct top_list *list, const json_t *forecast)
{
    const json_t *jobs = answer_list(forecast, "jobs");
    size_t n = json_array_size(jobs);
    struct top_row *known = mem_new(n + 1, sizeof *known);
    for (size_t i = 0; i < n; i++) {
        known[i].job = json_array_get(jobs, i);
        known[i].id = answer_number(known[i].job, "id", -1);
    }
    qsort(known, n, sizeof *known, by_id);
    qsort(list->rows, list->n, sizeof *list->rows, by_id);
    for (size_t i = 0, k = 0; i < list->n; i++) {
        while (k < n && known[k].id < list->rows[i].id)
            k++;
        if (k < n && known[k].id == list->rows[i].id)
            list->rows[i].forecast = known[k].job;
    }
    mem_free(known);
}

void top_list_set(struct top_list *list, const json_t *jobs,
                  const json_t *forecast)
{
    const json_t *all = answer_list(jobs, "jobs");
    mem_free(list->rows);
    list->n = json_array_size(all);
    list->rows = mem_new(list->n + 1, sizeof *list->rows);
    for (size_t i = 0; i < list->n; i++) {
        const json_t *job = json_array_get(all, i);
        list->rows[i] = (struct top_row){.job = job,
                                         .rank = live_job_rank(job),
                                         .id = answer_number(job, "id", -1)};
    }
    set_forecasts(list, forecast);
    sorted_by = list;
    qsort(list->rows, list->n, sizeof *list->rows, compare);
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].id == list->selected) {
            list->at = i;
            return;
        }
    top_list_move(list, 0); /* (3) */
}

void top_list_release(struct top_list *list)
{
    mem_free(list->rows);
    list->rows = NULL;
    list->n = 0;
}

void top_list_move(struct top_list *list, long rows)
{
    if (list->n == 0) {
        list->selected = -1;
        list->at = 0;
        return;
    }
    if (rows < 0 && (size_t)-rows > list->at)
        list->at = 0;
    else
        list->at += (size_t)rows; /* wraps as two's complement does */
    if (list->at >= list->n)
        list->at = list->n - 1;
    list->selected = list->rows[list->at].id;
}

void top_list_scroll(struct top_list *list, size_t room)
{
    if (list->at < list->first)
        list->first = list->at;
    if (room > 0 && list->at >= list->first + room)
        list->first = list->at - room + 1;
    if (list->first + room > list->n)
        list->first = list->n > room ? list->n - room : 0;
}

const struct top_row *top_list_selected(const struct top_list *list)
{
    return list->n > 0 ? &list->rows[list->at] : NULL;
}
