/* api.h - the HTTP API over the book: routes, rights, JSON, streams.
 *
 * It changes jobs through the book; everything else it asks of its host (the
 * daemon's loop, or a test) through the functions below. A turn of the host:
 *
 *     http_run(http);                      requests come in: api_handle()
 *     ...                                  events, a round, steps
 *     status = store_commit(store, &err);  one commit for all of it
 *     api_settle(api, status, &err);       answers go out, streams are woken
 *     api_tick(api);                       followed logs, signs of life
 *
 * (1) A change is acknowledged only when it is on disk: an answer that was made
 *     while the store has changes waits for api_settle(). Only while the disk
 *     takes no writes are answers to GET given at once, from memory. So
 *     api_settle() is called at the end of every turn, and api_tick() at least
 *     four times a second while api_wants_tick().
 * (2) Every route names a right (routes.def), and access.def says which roles
 *     have it; the check is in one place, before the handler.
 *
 * The host closes its struct http before it frees the api.
 */
#ifndef DAEMON_API_H
#define DAEMON_API_H
#include "daemon/audit.h"
#include "daemon/book.h"
#include "daemon/http.h"
#include "daemon/livecosts.h"
#include "daemon/livemetrics.h"
#include <firn/policy.h>

struct api;

/* A node as the API shows it; texts are borrowed until the next call. */
struct api_node {
    const char *name, *type;
    double mem_gib; /* of each GPU; 0: not known */
    int ngpus;      /* in all */
    int nfree;      /* held by no job and used by no foreign process */
    int noutside;   /* used by foreign processes */
    bool is_up, is_drained;
    const char *why; /* why the node is down; "" if the engine does not tell */
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

/* What the API needs beside the book. All but now_s may be NULL: requests that
 * need it are then answered with 501. JSON that a hook appends is one value. A
 * hook that fails has changed nothing. */
struct api_host {
    void *arg;
    struct book *book;
    struct store *store;
    struct metrics *metrics;
    struct audit *audit;        /* NULL: none */
    const char *engine;         /* its name, for /version */
    double (*now_s)(void *arg); /* seconds since 1970 */

    /* Borrowed until the next call into the host. */
    size_t (*nodes)(void *arg, const struct api_node **out);
    /* FIRN_ENOENT: no such node. */
    enum firn_status (*drain)(void *arg, const char *node, bool is_drained,
                              struct firn_error *err);

    /* Appends GPUs of the book ("n0[0-3]") by the names of their nodes. */
    void (*gpus_text)(void *arg, const char *held, struct firn_buf *out);
    /* Why the engine can start nothing at present; NULL: it can. */
    const char *(*trouble)(void *arg);

    /* After a change that matters to a round: a new job, a hold or release,
     * another range of GPUs, another priority. */
    void (*changed)(void *arg, struct live_job *job);
    /* After book_cancel(): end the job. */
    void (*cancel)(void *arg, struct live_job *job);
    /* Behind `cancel`: kills its processes now, without grace. False: the
     * engine cannot. MAY be NULL. */
    bool (*kill)(void *arg, struct live_job *job);
    /* How much its GPUs are used at present, as the engine measures it; false:
     * not known. MAY be NULL. */
    bool (*load)(void *arg, const struct live_job *job, struct firn_load *out);
    /* How much one GPU is used, by all processes; `job` holds it, or
     * FIRN_NO_JOB. False: not known. MAY be NULL. */
    bool (*gpu_load)(void *arg, int node, int gpu, firn_job_id job,
                     struct firn_load *out);
    /* Does a foreign process use this GPU? MAY be NULL. */
    bool (*is_outside)(void *arg, int node, int gpu);
    /* After book_report(); `job->orders` is what goes back to the trainer. */
    void (*reported)(void *arg, struct live_job *job);

    void (*policy)(void *arg, struct api_policy *out);
    /* Takes effect at the next round; `name` NULL: the present policy. */
    enum firn_status (*set_policy)(void *arg, const char *name,
                                   const struct api_setting *settings,
                                   size_t nsettings, struct firn_error *err);

    /* Why a PENDING job waits at this moment; called for each pending job of a
     * list. NULL: the reason in the book is shown. */
    void (*waits)(void *arg, const struct live_job *job,
                  enum live_reason *reason, char why[LIVE_TEXT]);
    /* Appends a JSON object: predicted and seen memory of a language model;
     * nothing when it has no plan. MAY be NULL. */
    void (*memory)(void *arg, const struct live_job *job,
                   struct firn_buf *json);
    /* Appends a JSON list of sentences: why the job is not trained together
     * with others. */
    void (*not_merged)(void *arg, const struct live_job *job,
                       struct firn_buf *json);
    enum firn_status (*why)(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);
    enum firn_status (*eta)(void *arg, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);
    /* The same of all jobs at once; a kept answer will do unless `is_fresh`. */
    enum firn_status (*forecast)(void *arg, bool is_fresh,
                                 struct firn_buf *json, struct firn_error *err);
    /* Appends a JSON object: what starts, stops, resizes and shared GPUs were
     * measured to cost, by application. MAY be NULL. */
    void (*costs)(void *arg, struct firn_buf *json);
    /* The mean of a cost of an application; < 0: none. MAY be NULL. */
    double (*cost)(void *arg, const char *app, enum livecost which);
    /* Step time of one application beside the other / alone; MAY be NULL. */
    double (*slowdown)(void *arg, const char *app, const char *other);
    /* Predicts what a submit of the ask would do; changes nothing. */
    enum firn_status (*plan)(void *arg, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err);

    /* Called after each handled request, with the route and the time it took.
     */
    void (*handled)(void *arg, const char *method, const char *route,
                    double seconds);

    /* Can the cluster ever run it? FIRN_EREFUSED with a sentence; asked for
     * requests with the header 'Firn-Check: fits'. NULL: not known. */
    enum firn_status (*fits)(void *arg, const struct live_ask *ask,
                             struct firn_error *err);
    /* May this user submit the job: project, queue, disk, deadline? Fills in
     * the project. FIRN_EINVAL, FIRN_ELIMIT with a sentence. NULL: any. */
    enum firn_status (*admits)(void *arg, struct live_ask *ask,
                               struct firn_error *err);
    /* Appends a JSON object: users and projects with shares and quotas. */
    void (*shares)(void *arg, struct firn_buf *json);
    /* May this caller's jobs be run? FIRN_EREFUSED with a sentence. NULL: all
     * may. */
    enum firn_status (*may_run)(void *arg, const struct http_caller *caller,
                                struct firn_error *err);
    /* The role of a user of the Unix socket; NULL: firnd's own user and root
     * are operators, others guests. */
    enum access_role (*role_of_uid)(void *arg, uid_t uid, const char *user);

    /* Appends the address at which a browser finds this daemon; nothing: it
     * listens on no address. */
    void (*board_url)(void *arg, struct firn_buf *out);
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
bool api_user_of_token(void *arg, const char *token,
                       struct http_caller *caller);
enum access_role api_role_of_uid(void *arg, uid_t uid, const char *user);
bool api_session_of_token(void *arg, const char *token,
                          struct http_caller *caller);
/* Does the table have it as a route that needs no token? */
bool api_is_open(void *arg, const char *method, const char *path);
/* Counts a refused request or connection, and writes at most one line a second
 * for each peer into the log. */
void api_turned_away(void *arg, enum http_refusal why,
                     const struct http_caller *caller);
/* Counts an answer by its status, and writes changes and refusals into the
 * audit: http_watch(). */
void api_count(void *arg, int number, int status,
               const struct http_request *request);

/* Between pause and resume, while the host decides, only submits (whose
 * `changed` the host puts off), /health, /metrics and /version are handled;
 * other requests wait. `waits` is not called. */
void api_pause(struct api *api);
/* Handles the requests that waited in their order, one at least, until
 * clock_elapsed_s() is `until_s`. True: none is left; else call it again, and
 * new requests other than submits wait behind them. */
bool api_resume(struct api *api, double until_s);

/* After the turn's commit with status `commit`: sends the answers that waited
 * for it, or failures with the sentence of `err`. FIRN_EUNSAVED: answers to
 * reads are sent, those to changes wait a few seconds for the next call. */
void api_settle(struct api *api, enum firn_status commit,
                const struct firn_error *err);
/* Are there answers that wait for a commit? */
bool api_is_waiting(const struct api *api);
bool api_wants_tick(const struct api *api);
void api_tick(struct api *api);

/* The table, for tests and for counting. */
struct api_call;
struct api_route {
    const char *method, *path;
    void (*handle)(struct api_call *call);
    enum access_right right;
};
const struct api_route *api_routes(size_t *n);

#endif
