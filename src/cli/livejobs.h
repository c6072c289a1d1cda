/* livejobs.h - jobs of firnd as tables, pages and JSON.
 */
#ifndef CLI_LIVEJOBS_H
#define CLI_LIVEJOBS_H
#include "cli/client.h"
#include <firn/bytes.h>
#include <jansson.h>
#include <stdbool.h>

/* Which jobs to list: by default all unfinished ones. */
struct live_list {
    const char *states; /* "failed,lost"; NULL: see above */
    const char *user;   /* NULL: of all users */
    bool with_over;     /* finished ones too */
    size_t most;        /* 0: all; else at most this many pending jobs, or, with
                         * states or with_over, of all */
};

/* GETs them, page by page, as one object: {"jobs": [...], "more": BOOL}. */
enum firn_status live_jobs_get(struct client *client,
                               const struct live_list *list, json_t **out,
                               struct firn_error *err);

/* The same as JSON text, without building a tree. On failure `out` has a part
 * of it. */
enum firn_status live_jobs_print(struct client *client,
                                 const struct live_list *list,
                                 struct firn_buf *out, struct firn_error *err);

/* A table of these jobs, running ones first. */
void live_jobs_table(const json_t *answer, struct firn_buf *out);
/* The same, of the first `most` jobs: "and 12 more" behind them. */
void live_jobs_lines(const json_t *answer, size_t most, struct firn_buf *out);
/* The page of one job, from GET /v1/jobs/:id. */
void live_job_page(const json_t *answer, struct firn_buf *out);

/* Counts the jobs in a state. */
size_t live_jobs_count(const json_t *answer, const char *state);
/* Has the job finished? And the exit status for the command that waited for it:
 * 0 if it succeeded, else the job's own, or 1. */
bool live_job_is_over(const json_t *job);
int live_job_status(const json_t *job);

#endif
