/* api.c - the HTTP API: what its routes share, and answers.
 *
 * api_route.c finds the route of a request. Answers that show what is not on
 * disk yet wait in a list, in their order, for api_settle().
 *
 * (1) A call is answered once, or became a stream.
 * (2) Text of a client is only compared, read as a number, or given to the
 *     book, which checks names.
 */
#include "daemon/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/apiwork.h"
#include "daemon/boardsession.h"
#include "daemon/jobfile.h"
#include "daemon/tokens.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS_MAX = 200, PATH_MOST = 4095 };

/* How long the caller of a change waits for a disk that takes no writes. */
static const double UNSAVED_S = 5;

/* --- life -------------------------------------------------------------- */

static void on_event(void *arg, const struct store_event *event)
{
    struct api *api = arg;
    if (event->id > api->heard_id)
        api->heard_id = event->id;
}

enum firn_status api_new(struct api **out, const struct api_host *host,
                         struct firn_error *err)
{
    int64_t last = store_last_event(host->store);
    (void)err;
    struct api *api = mem_new(1, sizeof *api);
    api->host = *host;
    api->heard_id = api->settled_id = last;
    api_tokens_load(api);
    api->sessions = boardsessions_new();
    book_listen(host->book, on_event, api);
    *out = api;
    return FIRN_OK;
}

void api_free(struct api *api)
{
    if (api == NULL)
        return;
    book_listen(api->host.book, NULL, NULL);
    for (size_t i = 0; i < api->waiting.n; i++)
        buf_release(&api->waiting.at[i].body);
    vec_release(&api->waiting);
    mem_free(api->refusals);
    tokens_free(api->tokens);
    boardsessions_free(api->sessions);
    vec_release(&api->parked);
    mem_free(api);
}

int api_job_of_token(void *arg, const char *token)
{
    const struct api *api = arg;
    return book_token(api->host.book, token);
}

enum access_role api_role_of_uid(void *arg, uid_t uid, const char *user)
{
    static const struct access_lists none;
    const struct api *api = arg;
    return api->host.role_of_uid != NULL
               ? api->host.role_of_uid(api->host.arg, uid, user)
               : access_role_of_uid(&none, uid, user);
}

/* --- answers ----------------------------------------------------------- */

void api_reply_as(struct api_call *call, int status, const char *type,
                  struct firn_buf *body)
{
    struct api *api = call->api;
    struct api_waiting one = {.exchange = call->exchange,
                              .status = status,
                              .type = type,
                              .body = *body,
                              .is_read = call->is_read,
                              .since_s = clock_elapsed_s()};
    *body = (struct firn_buf){0};
    bool is_stalled = store_is_stalled(api->host.store);
    if (store_has_changes(api->host.store) && !(is_stalled && one.is_read)) {
        vec_add(&api->waiting, one);
        return;
    }
    http_answer(one.exchange, status, type,
                (struct firn_bytes){one.body.at, one.body.n});
    buf_release(&one.body);
}

void api_reply(struct api_call *call, int status, struct firn_buf *json)
{
    buf_putc(json, '\n');
    api_reply_as(call, status, "application/json", json);
}

void api_fail(struct api_call *call, const struct firn_error *err)
{
    http_fail(call->exchange, err->status, err->text);
}

bool api_is_waiting(const struct api *api)
{
    return api->waiting.n > 0;
}

/* An answer to a change that is not on disk waits for UNSAVED_S; then the
 * answer is that the outcome is unknown. */
static bool settle_one(struct api_waiting *one, enum firn_status commit,
                       const struct firn_error *err)
{
    struct firn_error unsaved = {0};
    if (commit == FIRN_EUNSAVED && !one->is_read) {
        if (clock_elapsed_s() < one->since_s + UNSAVED_S)
            return false;
        firn_fail(&unsaved, commit,
                  "this was done and is not on disk: it is written when there "
                  "is room, but if firnd is started anew before, do it again. "
                  "%s",
                  err->text);
        http_fail(one->exchange, commit, unsaved.text);
    } else if (commit == FIRN_OK || commit == FIRN_EUNSAVED) {
        http_answer(one->exchange, one->status, one->type,
                    (struct firn_bytes){one->body.at, one->body.n});
    } else {
        http_fail(one->exchange, commit, err->text);
    }
    buf_release(&one->body);
    return true;
}

void api_settle(struct api *api, enum firn_status commit,
                const struct firn_error *err)
{
    size_t nleft = 0;
    for (size_t i = 0; i < api->waiting.n; i++)
        if (!settle_one(&api->waiting.at[i], commit, err))
            api->waiting.at[nleft++] = api->waiting.at[i];
    api->waiting.n = nleft;
    if (commit != FIRN_OK || api->settled_id == api->heard_id)
        return;
    api->settled_id = api->heard_id;
    for (struct api_stream *s = api->streams; s != NULL; s = s->next)
        http_stream_wake(s->exchange);
}

/* --- what handlers read ------------------------------------------------ */

bool api_find_job(struct api_call *call, struct live_job **out)
{
    struct firn_error err;
    if (book_find(call->api->host.book, call->word, out, &err) == FIRN_OK)
        return true;
    api_fail(call, &err);
    return false;
}

bool api_find_living(struct api_call *call, struct live_job **out)
{
    if (!api_find_job(call, out))
        return false;
    if (!live_state_is_over((*out)->state))
        return true;
    http_refuse(call->exchange, 409, "over", "the job is over");
    return false;
}

bool api_query_int(struct api_call *call, const char *name, int64_t max,
                   int64_t fallback, int64_t *out)
{
    const char *text = http_query(call->exchange, name);
    *out = fallback;
    if (text == NULL)
        return true;
    size_t ndigits = strspn(text, "0123456789");
    long long value = 0;
    errno = 0;
    if (ndigits > 0 && text[ndigits] == '\0')
        value = strtoll(text, NULL, 10);
    if (ndigits > 0 && text[ndigits] == '\0' && errno == 0 && value <= max) {
        *out = value;
        return true;
    }
    struct firn_error err;
    firn_fail(&err, FIRN_EINVAL, "'%s' must be a whole number from 0 to %lld",
              name, (long long)max);
    api_fail(call, &err);
    return false;
}

static bool fail_json(struct api_call *call, const json_error_t *what)
{
    struct firn_error err;
    firn_fail(&err, FIRN_EINVAL, "the body is no JSON: line %d: %s", what->line,
              what->text);
    api_fail(call, &err);
    return false;
}

bool api_read_object(struct api_call *call, const char *const *keys,
                     json_t **out)
{
    json_error_t what;
    struct firn_error err = {0};
    struct firn_bytes body = call->request->body;
    json_t *root = json_loadb(body.at, body.n, JSON_REJECT_DUPLICATES, &what);
    if (root == NULL)
        return fail_json(call, &what);
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        firn_fail(&err, FIRN_EINVAL, "the body must be a JSON object");
    json_object_foreach(root, key, value)
    {
        size_t i = 0;
        while (keys[i] != NULL && strcmp(keys[i], key) != 0)
            i++;
        if (keys[i] == NULL)
            firn_fail(&err, FIRN_EINVAL, "unknown key '%.64s'", key);
    }
    if (err.status == FIRN_OK) {
        *out = root;
        return true;
    }
    json_decref(root);
    api_fail(call, &err);
    return false;
}

/* JSON with its escapes undone and its lines broken, which YAML can read. */
static bool json_to_yaml(struct api_call *call, struct firn_buf *out)
{
    json_error_t what;
    struct firn_bytes body = call->request->body;
    json_t *root = json_loadb(body.at, body.n, JSON_REJECT_DUPLICATES, &what);
    if (root == NULL)
        return fail_json(call, &what);
    size_t n = json_dumpb(root, NULL, 0, JSON_INDENT(1));
    char *text = mem_new(n + 1, 1);
    json_dumpb(root, text, n, JSON_INDENT(1));
    json_decref(root);
    buf_add(out, text, n);
    mem_free(text);
    return true;
}

/* The query's workdir, for a file without one. */
static bool take_workdir(struct api_call *call, struct live_ask *ask)
{
    const char *here = http_query(call->exchange, "workdir");
    if (here == NULL || ask->workdir[0] != '\0')
        return true;
    size_t n = strnlen(here, PATH_MOST + 1);
    bool is_good = here[0] == '/' && n <= PATH_MOST;
    for (size_t i = 0; i < n; i++)
        is_good = is_good && (unsigned char)here[i] >= ' ' && here[i] != 0x7f;
    if (!is_good) {
        live_ask_release(ask);
        http_fail(call->exchange, FIRN_EINVAL,
                  "'workdir' must be a path from the root");
        return false;
    }
    mem_free(ask->workdir);
    ask->workdir = mem_strdup(here);
    return true;
}

/* The header's PATH, which is the submitter's, for a job that sets none: the
 * programs that it names are those that the submitter would run. */
static bool take_path(struct api_call *call, struct live_ask *ask)
{
    const char *path = http_header(call->exchange, "Firn-Path");
    size_t nenv = 0;
    if (path == NULL)
        return true;
    bool is_good = strlen(path) <= (size_t)2 * PATH_MOST;
    for (const char *at = path; *at != '\0'; at++)
        is_good = is_good && (unsigned char)*at >= ' ' && *at != 0x7f;
    if (!is_good) {
        live_ask_release(ask);
        http_fail(call->exchange, FIRN_EINVAL,
                  "Firn-Path must be a value of PATH of at most 8190 bytes");
        return false;
    }
    for (; ask->env[nenv] != NULL; nenv++)
        if (strncmp(ask->env[nenv], "PATH=", 5) == 0)
            return true;
    struct firn_buf variable = {0};
    char **env = mem_new(nenv + 2, sizeof *env);
    buf_printf(&variable, "PATH=%s", path);
    memcpy(env, ask->env, nenv * sizeof *env);
    env[nenv] = mem_strdup(variable.at);
    buf_release(&variable);
    mem_free(ask->env);
    ask->env = env;
    return true;
}

bool api_read_ask(struct api_call *call, struct live_ask *out)
{
    struct firn_buf yaml = {0};
    struct firn_bytes body = call->request->body;
    struct firn_error err;
    const char *type = http_header(call->exchange, "Content-Type");
    if (body.n == 0 || memchr(body.at, '\0', body.n) != NULL) {
        http_fail(call->exchange, FIRN_EINVAL,
                  "the body must be a job file, as YAML or JSON");
        return false;
    }
    if (type != NULL && strncmp(type, "application/json", 16) == 0) {
        if (!json_to_yaml(call, &yaml))
            return false;
        body = (struct firn_bytes){yaml.at, yaml.n};
    }
    enum firn_status status = jobfile_read(out, body, "job file", &err);
    buf_release(&yaml);
    if (status != FIRN_OK) {
        api_fail(call, &err);
        return false;
    }
    mem_free(out->user); /* a job file cannot name another user */
    out->user = mem_strdup(call->request->caller.user);
    return take_workdir(call, out) && take_path(call, out);
}

void api_not_here(struct api_call *call)
{
    http_refuse(call->exchange, 501, "not-here",
                "this daemon does not do that");
}

/* --- streams ----------------------------------------------------------- */

static void stream_gone(void *arg)
{
    struct api_stream *stream = arg;
    struct api *api = stream->api;
    if (stream->next != NULL)
        stream->next->before = stream->before;
    if (stream->before != NULL)
        stream->before->next = stream->next;
    else
        api->streams = stream->next;
    api->nstreams--;
    mem_free(stream);
}

struct api_stream *api_stream_open(struct api_call *call, const char *type,
                                   void (*more)(void *arg))
{
    struct api *api = call->api;
    if (api->nstreams == STREAMS_MAX) {
        http_refuse(call->exchange, 503, "too-many",
                    "too many streams are open; close some, or ask for pages");
        return NULL;
    }
    struct api_stream *stream = mem_new(1, sizeof *stream);
    stream->api = api;
    stream->exchange = call->exchange;
    stream->wrote_s = clock_elapsed_s();
    stream->next = api->streams;
    if (stream->next != NULL)
        stream->next->before = stream;
    api->streams = stream;
    api->nstreams++;
    http_stream(call->exchange, type, stream_gone, stream);
    http_stream_more(call->exchange, more);
    return stream;
}

bool api_stream_write(struct api_stream *stream, struct firn_bytes data)
{
    stream->wrote_s = clock_elapsed_s();
    if (http_stream_write(stream->exchange, data))
        return true;
    http_stream_end(stream->exchange);
    return false;
}

bool api_wants_tick(const struct api *api)
{
    return api->streams != NULL || refusals_are_left(api);
}

void api_tick(struct api *api)
{
    for (struct api_stream *s = api->streams; s != NULL; s = s->next)
        s->tick(s);
    refusals_say(api);
}
