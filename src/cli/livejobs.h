/* livejobs.h - gets jobs from firnd and formats them.
 */
#ifndef CLI_LIVEJOBS_H
#define CLI_LIVEJOBS_H
#include "cli/client.h"
#include <firn/bytes.h>
#include <jansson.h>
#include <stdbool.h>

/* Which jobs; zeroed: all that have not ended. */
struct live_list {
    const char *states; /* "failed,lost"; NULL: see above */
    const char *user;   /* NULL: all users */
    bool with_over;     /* include ended jobs */
    size_t most;        /* limit of waiting jobs, or of ended ones; 0: none */
};

/* Gets all pages as one object: {"jobs": [...], "more": BOOL}. */
enum firn_status live_jobs_get(struct client *client,
                               const struct live_list *list, json_t **out,
                               struct firn_error *err);

/* Appends the same object as JSON, faster than by answer_print(). On failure
 * `out` has a part of it. */
enum firn_status live_jobs_print(struct client *client,
                                 const struct live_list *list,
                                 struct firn_buf *out, struct firn_error *err);

/* Formats such an object as a table, running jobs first. */
void live_jobs_table(const json_t *answer, struct firn_buf *out);
/* The same for the first `most` jobs, followed by "and 12 more". */
void live_jobs_lines(const json_t *answer, size_t most, struct firn_buf *out);
/* Formats the answer of GET /v1/jobs/:id. */
void live_job_page(const json_t *answer, struct firn_buf *out);

/* Appends what made a job leave its GPUs, of an event or an attempt: "policy,
 * for job 17"; nothing if it has no cause. */
void live_put_cause(struct firn_buf *out, const json_t *object);

/* Number of jobs in that state. */
size_t live_jobs_count(const json_t *answer, const char *state);
/* Place of its state in the order of tables: running 0, ended states last. */
int live_job_rank(const json_t *job);
/* Appends the GPUs it asked for: "4", "1..8", or "-" if firnd chooses. */
void live_job_gpus(struct firn_buf *out, const json_t *job);
/* Has the job ended? The exit status of a command that waits for it: 0 if it
 * succeeded, else its own status, or 1. */
bool live_job_is_over(const json_t *job);
int live_job_status(const json_t *job);

#endif
