/* api_route.c - from a request to the function that answers it.
 *
 * The table is routes.def. A path is matched part by part; the one part that
 * begins with ":" becomes the call's word. Rights are looked at here, by the
 * table of access.def; a list asks the same table for each of its rows.
 *
 * While a decision is on its way, a submit is handled, which asks the host for
 * nothing but to be told of it, and what the daemon says of itself; other
 * requests wait, in their order.
 *
 * Cost: a walk over some twenty routes for each request.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/api.h"
#include "daemon/apiwork.h"
#include <stdio.h>
#include <string.h>

static const struct api_route table[] = {
#define ROUTE(method, path, handler, right) \
    {#method, path, handler, ACCESS_RIGHT_##right},
#include "daemon/routes.def"
#undef ROUTE
};
enum { NROUTES = sizeof table / sizeof *table };

const struct api_route *api_routes(size_t *n)
{
    *n = NROUTES;
    return table;
}

/* Does `path` go with `pattern`? Its ":" part is copied into `word`. */
static bool matches(const char *pattern, const char *path, char word[128])
{
    for (;;) {
        size_t np = strcspn(pattern + 1, "/") + 1;
        size_t n = strcspn(path + 1, "/") + 1;
        if (pattern[1] == ':') {
            if (n < 2 || n > 128)
                return false;
            memcpy(word, path + 1, n - 1);
            word[n - 1] = '\0';
        } else if (np != n || memcmp(pattern, path, n) != 0) {
            return false;
        }
        pattern += np;
        path += n;
        if (*pattern == '\0' || *path == '\0')
            return *pattern == *path;
    }
}

/* Does the caller own what the request names? A job owns itself and must name
 * its own number. What does not exist is owned: the handler says that it does
 * not exist. */
static bool is_owner(const struct api_route *route, struct api_call *call)
{
    const struct http_caller *caller = &call->request->caller;
    struct firn_error ignored;
    struct live_job *job;
    long id;
    if (strncmp(route->path, "/tokens/:id", 11) == 0)
        return api_owns_token(call, call->word);
    if (strncmp(route->path, "/jobs/:id", 9) != 0)
        return true;
    if (caller->role == ACCESS_JOB)
        return str_id(call->word, INT32_MAX, &id) && id == caller->job;
    if (access_may(caller->role, route->right, false) ==
        access_may(caller->role, route->right, true))
        return true; /* the same for all: need not be looked up */
    if (book_find(call->api->host.book, call->word, &job, &ignored) != FIRN_OK)
        return true;
    return api_owns(call, job);
}

bool api_owns(const struct api_call *call, const struct live_job *job)
{
    const struct http_caller *caller = &call->request->caller;
    return caller->role > ACCESS_JOB &&
           strcmp(job->ask.user, caller->user) == 0;
}

/* A sentence with the way out. */
static void refuse(struct api_call *call, const struct api_route *route)
{
    const struct http_caller *caller = &call->request->caller;
    struct live_job *job;
    struct firn_error err;
    bool is_others =
        access_may(caller->role, route->right, true) != ACCESS_NONE;
    api_turned_away(call->api, HTTP_REFUSED_RIGHT, caller);
    if (caller->role == ACCESS_JOB)
        firn_fail(&err, FIRN_EINVAL,
                  "this caller may not do that: the token of a job is good for "
                  "the reports of that job only");
    else if (is_others &&
             book_find(call->api->host.book, call->word, &job, &err) == FIRN_OK)
        firn_fail(&err, FIRN_EINVAL,
                  "this caller may not do that: job %d belongs to user %s",
                  job->id, job->ask.user);
    else
        firn_fail(&err, FIRN_EINVAL,
                  "this caller may not do that: %s has the role %s (firnd's "
                  "options operators, users and viewers give roles)",
                  caller->user, access_role_name(caller->role));
    http_refuse(call->exchange, 403, "forbidden", err.text);
}

static bool is_read(const struct api_route *route)
{
    /* Sessions are in memory only. */
    return strcmp(route->method, "GET") == 0 || route->handle == api_ask_plan ||
           strncmp(route->path, "/board", 6) == 0;
}

/* Changes that people ask for, and what was refused to a user by name. Refusals
 * of jobs and guests, of which a loop can make thousands a second, are counted
 * by api_refusal.c and written once a second. */
static bool is_audited(const struct api_route *route, int status,
                       const struct http_caller *caller)
{
    if (status == 403)
        return caller->role > ACCESS_JOB;
    return !is_read(route) && route->handle != api_report_post;
}

void api_count(void *arg, int number, int status,
               const struct http_request *request)
{
    struct api *api = arg;
    const struct api_host *host = &api->host;
    if (host->audit != NULL && number >= 0 &&
        is_audited(&table[number], status, &request->caller))
        audit_request(host->audit, host->now_s(host->arg), request, status);
    if (api->host.metrics == NULL)
        return;
    if (number < 0)
        metrics_http(api->host.metrics, "other", "other", status);
    else
        metrics_http(api->host.metrics, table[number].method,
                     table[number].path, status);
}

/* The path is known, or not; the method is not. */
static void no_route(struct api_call *call, const char *path)
{
    struct firn_buf allowed = {0};
    for (size_t i = 0; i < NROUTES; i++)
        if (matches(table[i].path, path, call->word))
            buf_printf(&allowed, "%s%s", allowed.n > 0 ? ", " : "",
                       table[i].method);
    if (allowed.n > 0) {
        http_set_header(call->exchange, "Allow", allowed.at);
        http_refuse(call->exchange, 405, "method-not-allowed",
                    "this path has other methods, see the header Allow");
    } else {
        http_refuse(call->exchange, 404, "not-found",
                    "the API has no such path");
    }
    buf_release(&allowed);
}

/* "ann", "token, 10.0.0.5", "job 7, 10.0.0.5". */
static void name_caller(struct book *book, const struct http_caller *caller)
{
    char name[BOOK_CALLER];
    snprintf(name, sizeof name, "%s%s%s", caller->user,
             caller->address[0] != '\0' ? ", " : "", caller->address);
    book_caller(book, name);
}

/* Is the disk too full for this? New jobs need ample room, reports (which are
 * many) a reserve that is held, all other changes a disk that takes writes. A
 * cancel is always taken: it makes room. */
static bool has_no_room(const struct api_route *route, const struct api *api)
{
    enum room room = store_room(api->host.store);
    if (route->handle == api_job_submit)
        return room != ROOM_AMPLE;
    if (route->handle == api_report_post)
        return room == ROOM_SPENT || room == ROOM_FULL;
    return room == ROOM_FULL && !is_read(route) &&
           route->handle != api_job_cancel;
}

/* (3) */
static bool can_do_now(const struct api *api, const struct api_route *route)
{
    bool is_free = !api->is_paused && api->nresumed == api->parked.n;
    return is_free || route->handle == api_job_submit ||
           route->handle == api_self_health ||
           route->handle == api_board_page || route->handle == api_board_file ||
           route->handle == api_self_version;
}

/* The host hears how long it took. */
static void call_route(const struct api_route *route, struct api_call *call)
{
    const struct api_host *host = &call->api->host;
    double began_s = clock_elapsed_s();
    route->handle(call);
    if (host->handled != NULL)
        host->handled(host->arg, route->method, route->path,
                      clock_elapsed_s() - began_s);
}

/* `is_parked`: it has waited for its turn. */
static void handle(struct api *api, struct http_exchange *exchange,
                   const struct http_request *request, bool is_parked)
{
    struct api_call call = {
        .api = api, .exchange = exchange, .request = request};
    const char *path = request->path;
    if (strncmp(path, "/v1/", 4) == 0)
        path += 3;
    for (int i = 0; i < NROUTES; i++) {
        if (strcmp(table[i].method, request->method) != 0 ||
            !matches(table[i].path, path, call.word))
            continue;
        if (!is_parked && !can_do_now(api, &table[i])) {
            struct api_parked parked = {exchange, request};
            vec_add(&api->parked, parked);
            return;
        }
        http_watch(exchange, api_count, api, i);
        call.is_read = is_read(&table[i]);
        call.access = access_may(request->caller.role, table[i].right,
                                 is_owner(&table[i], &call));
        if (call.access == ACCESS_NONE) {
            refuse(&call, &table[i]);
        } else if (has_no_room(&table[i], call.api)) {
            http_refuse(exchange, 507, "disk-full",
                        store_trouble(call.api->host.store));
        } else {
            name_caller(call.api->host.book, &request->caller);
            call_route(&table[i], &call);
            book_caller(call.api->host.book, "");
        }
        return;
    }
    http_watch(exchange, api_count, api, -1);
    no_route(&call, path);
}

bool api_is_open(void *arg, const char *method, const char *path)
{
    char word[128];
    (void)arg;
    if (strncmp(path, "/v1/", 4) == 0)
        path += 3;
    for (int i = 0; i < NROUTES; i++)
        if (table[i].right == ACCESS_RIGHT_OPEN &&
            strcmp(table[i].method, method) == 0 &&
            matches(table[i].path, path, word))
            return true;
    return false;
}

void api_handle(void *arg, struct http_exchange *exchange,
                const struct http_request *request)
{
    handle(arg, exchange, request, false);
}

void api_pause(struct api *api)
{
    api->is_paused = true;
}

bool api_resume(struct api *api, double until_s)
{
    api->is_paused = false;
    while (api->nresumed < api->parked.n) {
        struct api_parked next = api->parked.at[api->nresumed++];
        handle(api, next.exchange, next.request, true);
        if (clock_elapsed_s() >= until_s)
            break;
    }
    if (api->nresumed < api->parked.n)
        return false;
    api->nresumed = api->parked.n = 0;
    return true;
}
