/* livejobs.h - jobs as the daemon tells of them, as pages.
 */
#ifndef CLI_LIVEJOBS_H
#define CLI_LIVEJOBS_H
#include "cli/client.h"
#include <firn/bytes.h>
#include <jansson.h>
#include <stdbool.h>

/* Which jobs: by default all that are not over. */
struct live_list {
    const char *states; /* "failed,lost"; NULL: see above */
    const char *user;   /* NULL: everybody's */
    bool with_over;     /* those that are over too */
    size_t most; /* 0: all; else of those that wait, or of all, the first */
};

/* GETs them, page by page, as one object: {"jobs": [...], "more": BOOL}. */
enum firn_status live_jobs_get(struct client *client,
                               const struct live_list *list, json_t **out,
                               struct firn_error *err);

/* The same as said_print() has it, but quickly. On failure `out` has a part of
 * it. */
enum firn_status live_jobs_print(struct client *client,
                                 const struct live_list *list,
                                 struct firn_buf *out, struct firn_error *err);

/* Of these: a line for each, those that run first. */
void live_jobs_table(const json_t *answer, struct firn_buf *out);
/* The same, of the first `most` jobs: "and 12 more" behind them. */
void live_jobs_lines(const json_t *answer, size_t most, struct firn_buf *out);
/* Of GET /v1/jobs/:id: all of one. */
void live_job_page(const json_t *answer, struct firn_buf *out);

/* How many of them are in that state. */
size_t live_jobs_count(const json_t *answer, const char *state);
/* Is the job over; and the exit status to end with: 0 when it succeeded, else
 * its own status, or 1. */
bool live_job_is_over(const json_t *job);
int live_job_status(const json_t *job);

#endif
