/* apiwork.h - what the parts of the API share; for api*.c.
 *
 * api.c finds the route and its caller's right to it; a handler gets a call,
 * and answers it by one of the functions here, once. Handlers are in the files
 * that their names say: api_job_get in api_job*.c.
 */
#ifndef DAEMON_APIWORK_H
#define DAEMON_APIWORK_H
#include "base/jsonwrite.h"
#include "base/vec.h"
#include "daemon/api.h"
#include <jansson.h>

struct api_call {
    struct api *api;
    struct http_exchange *exchange;
    const struct http_request *request;
    char word[128];     /* what stood for ":id" or ":name" */
    bool is_read;       /* the route changes nothing */
    enum access access; /* of the caller to what the request names */
};

/* An answer that waits for its commit. */
struct api_waiting {
    struct http_exchange *exchange;
    int status;
    const char *type;
    struct firn_buf body;
    bool is_read;
    double since_s; /* by clock_elapsed_s() */
};

/* A request that waits for the end of a decision. */
struct api_parked {
    struct http_exchange *exchange;
    const struct http_request *request;
};

/* An answer without end. */
struct api_stream {
    struct api_stream *next, *before;
    struct api *api;
    struct http_exchange *exchange;
    void (*tick)(struct api_stream *stream); /* now and then */
    double wrote_s;                          /* when, by clock_elapsed_s() */
    firn_job_id job;                         /* FIRN_NO_JOB: all */
    int64_t last;                            /* events: the id sent last */
    int64_t offset, end; /* logs: the next byte; -1: goes on with the job */
};

struct tokens;
struct api_refusals; /* see api_refusal.c */
struct boardsessions;

struct api {
    struct api_host host;
    struct tokens *tokens;
    struct api_refusals *refusals;  /* NULL: none so far */
    struct boardsessions *sessions; /* of browsers */
    VEC(struct api_waiting) waiting;
    bool is_paused;
    VEC(struct api_parked) parked; /* while paused, and until all are handled */
    size_t nresumed;               /* of them: handled */
    struct api_stream *streams;
    int nstreams;
    int64_t heard_id, settled_id; /* of events: the last, the last on disk */
};

/* --- answers: each ends the call --------------------------------------- */

/* Takes the buffer's memory. Given when what it shows is on disk. */
void api_reply(struct api_call *call, int status, struct firn_buf *json);
void api_reply_as(struct api_call *call, int status, const char *type,
                  struct firn_buf *body);
void api_fail(struct api_call *call, const struct firn_error *err);

/* Is the job the caller's own? */
bool api_owns(const struct api_call *call, const struct live_job *job);

/* Is the token of that number the caller's own, or none at all? */
bool api_owns_token(const struct api_call *call, const char *word);
/* Is there a token of that number that has not expired? */
bool api_token_is_good(const struct api *api, int id);
/* Reads the tokens of the state file. */
void api_tokens_load(struct api *api);

/* These answer and return false when it cannot go on. */
bool api_find_job(struct api_call *call, struct live_job **out);
/* A job that is not over. */
bool api_find_living(struct api_call *call, struct live_job **out);
/* A whole number of the query; `fallback` when it is not there. */
bool api_query_int(struct api_call *call, const char *name, int64_t max,
                   int64_t fallback, int64_t *out);
/* The body is one JSON object with none but these keys (a list that ends with
 * NULL). The caller gives it back with json_decref. */
bool api_read_object(struct api_call *call, const char *const *keys,
                     json_t **out);
/* The body is a job file, as YAML or JSON; the asking user is in it. */
bool api_read_ask(struct api_call *call, struct live_ask *out);
/* For a hook of the host that is not there. */
void api_not_here(struct api_call *call);
static inline bool api_has(struct api_call *call, bool is_there)
{
    if (!is_there)
        api_not_here(call);
    return is_there;
}

/* --- streams ----------------------------------------------------------- */

/* Answers with a stream; NULL: there are too many, and that is the answer. */
struct api_stream *api_stream_open(struct api_call *call, const char *type,
                                   void (*more)(void *arg));
/* False: the reader does not keep up; the stream is ended. */
bool api_stream_write(struct api_stream *stream, struct firn_bytes data);

/* Refusals that were counted and not said yet; says those that are due. */
bool refusals_are_left(const struct api *api);
void refusals_say(struct api *api);

/* --- JSON: see base/jsonwrite.h ------------------------------------------ */

/* Adds `cause` and `for_job`; nothing where there is no cause. */
void api_json_stop(struct firn_buf *out, const struct live_stop *stop);
/* GPUs as the book has them, by the names of their nodes. */
void api_json_gpus(struct firn_buf *out, const struct api *api, const char *key,
                   const char *held);
/* A job as a line of a list, and with all there is. */
void api_json_job(struct firn_buf *out, const struct api *api,
                  const struct live_job *job);
/* ACCESS_PUBLIC: without its command, environment, folder and file. */
void api_json_whole_job(struct firn_buf *out, struct api *api,
                        const struct live_job *job, enum access access);
/* How much of its output is kept and dropped; nothing where it has none. */
void api_json_log(struct firn_buf *out, const struct api *api,
                  const struct live_job *job);

/* --- handlers ---------------------------------------------------------- */

#define ROUTE(method, path, handler, right) void handler(struct api_call *call);
#include "daemon/routes.def"
#undef ROUTE

/* Sets the metrics by user, queue and GPU type. */
void api_sums_count(struct metrics *metrics, const struct api_host *host);

#endif
