/* topmodel.h - the list of jobs of `firn top`: order, selection, scrolling.
 *
 * Made anew of each answer; the selected job is remembered by its number, so
 * that it stays selected while others come and go.
 */
#ifndef CLI_TOPMODEL_H
#define CLI_TOPMODEL_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Columns that the list can be sorted by, in the order of the key s. */
enum top_sort {
    TOP_BY_STATE,
    TOP_BY_ID,
    TOP_BY_USER,
    TOP_BY_GPUS,
    TOP_BY_BUSY,
    TOP_BY_RAN,
    TOP_BY_END,
    TOP_NSORTS
};

const char *top_sort_name(enum top_sort sort);

struct top_row {
    const json_t *job, *forecast; /* borrowed; forecast: NULL if unknown */
    int rank;                     /* of its state */
    double id;
};

struct top_list {
    /* What the user has chosen. */
    enum top_sort sort;
    bool is_reversed;
    double selected; /* number of a job; -1: none */

    struct top_row *rows;
    size_t n;
    size_t at;    /* of the selected job */
    size_t first; /* row that is shown */
};

/* Takes the jobs of an answer (live_jobs_get) and the forecasts of GET
 * /v1/forecast, which may be NULL. O(n log n). */
void top_list_set(struct top_list *list, const json_t *jobs,
                  const json_t *forecast);
void top_list_release(struct top_list *list);
/* Selects the job `rows` rows below; a negative number: above. */
void top_list_move(struct top_list *list, long rows);
/* Scrolls so that the selected job is among `room` rows. */
void top_list_scroll(struct top_list *list, size_t room);
/* NULL without jobs. */
const struct top_row *top_list_selected(const struct top_list *list);

#endif
