/* api.h - the HTTP API over the book: routes, rights, JSON, streams.
 *
 * It changes jobs by the book and asks its host for the rest by the functions
 * below, so that a test can stand in for the loop. A turn of the host:
 *
 *     http_run(http);                      requests come in: api_handle()
 *     ...                                  events, a round, steps
 *     status = store_commit(store, &err);  one commit for all of it
 *     api_settle(api, status, &err);       answers go out, streams are woken
 *     api_tick(api);                       followed logs, signs of life
 *
 * (1) Nothing is acknowledged that is not on disk: an answer that was made
 * while the store has changes waits for api_settle(). Only while the disk takes
 * no writes are answers to GET given at once, which then show what is in
 *     memory. So api_settle() is called at
 *     the end of every turn, whether something changed or not, and api_tick()
 *     at least four times a second while api_wants_tick().
 * (2) Every route says who may call it (routes.def); the check is in one place,
 *     before the handler.
 *
 * The host closes its struct http before it frees the api.
 */
#ifndef DAEMON_API_H
#define DAEMON_API_H
#include "daemon/book.h"
#include "daemon/http.h"
#include "daemon/livemetrics.h"
#include <firn/policy.h>

struct api;

/* A node as the API tells it; texts are borrowed until the next call. */
struct api_node {
    const char *name, *type;
    double mem_gib; /* of each GPU; 0: not known */
    int ngpus;      /* in all */
    int nfree;      /* nobody has them; unless it is drained, jobs may */
    int noutside;   /* used by somebody outside of firn */
    bool is_up, is_drained;
    const char *why; /* it is not up; "" for no word */
};

/* An option of the policy that is not at its default, as text. */
struct api_setting {
    const char *name, *value;
};

struct api_policy {
    const struct firn_policy_def *def;
    const struct api_setting *settings;
    size_t nsettings;
};

/* What the API needs beside the book. Each may be NULL but now_s: what it is
 * for is then answered with 501. JSON that a hook appends is one value. A hook
 * that fails has changed nothing. */
struct api_host {
    void *arg;
    struct book *book;
    struct store *store;
    struct metrics *metrics;
    const char *engine;         /* its name, for /version */
    double (*now_s)(void *arg); /* since the epoch */

    /* Borrowed until the next call into the host. */
    size_t (*nodes)(void *arg, const struct api_node **out);
    /* FIRN_ENOENT: no such node. */
    enum firn_status (*drain)(void *arg, const char *node, bool is_drained,
                              struct firn_error *err);

    /* GPUs as the book has them ("n0[0-3]") with their nodes' names. */
    void (*gpus_text)(void *arg, const char *held, struct firn_buf *out);
    /* Why the engine can start nothing at present; NULL: it can. */
    const char *(*trouble)(void *arg);

    /* The book has changed in what a round would look at: a new job, one held
     * or released, other bounds, another priority. */
    void (*changed)(void *arg, struct live_job *job);
    /* After book_cancel(): the job shall end. */
    void (*cancel)(void *arg, struct live_job *job);
    /* After book_report(); `job->orders` is what goes back to the trainer. */
    void (*reported)(void *arg, struct live_job *job);

    void (*policy)(void *arg, struct api_policy *out);
    /* From the next round on; `name` NULL: the one there is. */
    enum firn_status (*set_policy)(void *arg, const char *name,
                                   const struct api_setting *settings,
                                   size_t nsettings, struct firn_error *err);

    /* Why a job that is PENDING waits at this moment; NULL: as the book has
     * it. Asked for each job of a list. */
    void (*waits)(void *arg, const struct live_job *job,
                  enum live_reason *reason, char why[LIVE_TEXT]);
    /* A JSON list of sentences: why it is not trained together with others. */
    void (*not_merged)(void *arg, const struct live_job *job,
                       struct firn_buf *json);
    enum firn_status (*why)(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);
    enum firn_status (*eta)(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);
    /* What would happen if; changes nothing. */
    enum firn_status (*plan)(void *arg, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err);

    /* A request of a route of the table was handled, in `seconds`; NULL: the
     * host does not count them. */
    void (*handled)(void *arg, const char *method, const char *route,
                    double seconds);

    /* The file of a job's output; false: it cannot have one. */
    bool (*log_path)(void *arg, const struct live_job *job, char *out,
                     size_t max);
};

/* Becomes the book's listener. */
enum firn_status api_new(struct api **out, const struct api_host *host,
                         struct firn_error *err);
void api_free(struct api *api);

/* For struct http_config, with the api as its `arg`. */
void api_handle(void *arg, struct http_exchange *exchange,
                const struct http_request *request);
int api_job_of_token(void *arg, const char *token);
/* Told of requests and connections that are refused: counts them and writes at
 * most one line a second for each peer into the log. */
void api_turned_away(void *arg, enum http_refusal why,
                     const struct http_caller *caller);
/* Told of an answer's status, for counting: http_watch(). */
void api_count(void *arg, int number, int status);

/* While the host decides: submits are handled, whose `changed` the host has to
 * put off, and what the daemon says of itself; other requests wait until it
 * goes on. `waits` is then not asked. */
void api_pause(struct api *api);
/* Goes on: requests that waited are handled in their order, one at least, until
 * it is `until_s` by clock_elapsed_s(). True: none is left; else requests that
 * come wait behind them, but for submits, and the caller calls again. */
bool api_resume(struct api *api, double until_s);

/* The turn's commit has gone so: answers that waited for it are given, or
 * become failures with the sentence of `err`. FIRN_EUNSAVED: what was only read
 * is answered, what was changed waits a few seconds for the next call. */
void api_settle(struct api *api, enum firn_status commit,
                const struct firn_error *err);
/* Are there answers that wait for a commit? */
bool api_is_waiting(const struct api *api);
bool api_wants_tick(const struct api *api);
void api_tick(struct api *api);

/* The table, for tests and for counting. */
enum api_who { API_OPERATOR, API_JOB, API_ANYONE };
struct api_call;
struct api_route {
    const char *method, *path;
    void (*handle)(struct api_call *call);
    enum api_who who;
};
const struct api_route *api_routes(size_t *n);

#endif
