/* fuzz_api.c - any requests, one after the other, by every route of the API.
 *
 * An input is requests with a byte of 0xff between them. The first byte of one
 * chooses the route, the second who asks and what the body is said to be; then
 * come the route's word (":id"), a line of the query (a=b&c=d), and the body.
 * The HTTP server is played here: each request is answered once, with a status
 * that HTTP has, or becomes a stream; and what is said to be JSON is JSON.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/apiwork.h"
#include "fuzz/fuzzfolder.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUERY = 256, WORD = 128, PATH = 300, AT_ONCE = 40, INPUTS = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the server, played -------------------------------------------------- */

struct http_exchange {
    char query[QUERY];
    char value[QUERY];
    const char *type, *key;
    char attempt[16];
    int nanswers;
    bool is_stream;
    void (*gone)(void *arg);
    void (*more)(void *arg);
    void *arg;
};

const char *http_query(const struct http_exchange *exchange, const char *name)
{
    struct http_exchange *ex = (struct http_exchange *)exchange;
    size_t n = strlen(name);
    for (const char *at = ex->query; *at != '\0';) {
        size_t length = strcspn(at, "&");
        if (strncmp(at, name, n) == 0 && at[n] == '=' && n < length) {
            snprintf(ex->value, sizeof ex->value, "%.*s", (int)(length - n - 1),
                     at + n + 1);
            return ex->value;
        }
        at += length + (at[length] == '&');
    }
    return NULL;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    if (strcmp(name, "Content-Type") == 0)
        return exchange->type;
    if (strcmp(name, "Firn-Epoch") == 0)
        return exchange->attempt;
    return strcmp(name, "Idempotency-Key") == 0 ? exchange->key : NULL;
}

void http_set_header(struct http_exchange *exchange, const char *name,
                     const char *value)
{
    (void)exchange;
    if (name[0] == '\0' || value == NULL)
        abort();
}

void http_watch(struct http_exchange *exchange, http_answered *answered,
                void *arg, int number)
{
    (void)exchange, (void)answered, (void)arg, (void)number;
}

void http_answer(struct http_exchange *exchange, int status,
                 const char *content_type, struct firn_bytes body)
{
    json_error_t what;
    if (exchange->nanswers++ > 0 || exchange->is_stream || status < 200 ||
        status > 599)
        abort();
    if (strcmp(content_type, "application/json") != 0)
        return;
    json_t *json = json_loadb(body.at, body.n, JSON_DECODE_ANY, &what);
    if (json == NULL)
        abort();
    json_decref(json);
}

void http_fail(struct http_exchange *exchange, enum firn_status status,
               const char *text)
{
    if (status == FIRN_OK || text == NULL || text[0] == '\0')
        abort();
    http_answer(exchange, 400, "text/plain", (struct firn_bytes){text, 0});
}

void http_refuse(struct http_exchange *exchange, int status, const char *code,
                 const char *text)
{
    if (code[0] == '\0')
        abort();
    http_answer(exchange, status, "text/plain", (struct firn_bytes){text, 0});
}

void http_stream(struct http_exchange *exchange, const char *content_type,
                 void (*gone)(void *arg), void *arg)
{
    if (exchange->nanswers > 0 || content_type == NULL)
        abort();
    exchange->is_stream = true;
    exchange->gone = gone;
    exchange->arg = arg;
}

void http_stream_more(struct http_exchange *exchange, void (*more)(void *arg))
{
    exchange->more = more;
}

void http_stream_wake(struct http_exchange *exchange)
{
    (void)exchange;
}

bool http_stream_write(struct http_exchange *exchange, struct firn_bytes data)
{
    (void)exchange, (void)data;
    return true;
}

void http_stream_end(struct http_exchange *exchange)
{
    (void)exchange;
}

/* Not of the API alone: needs the whole daemon. */
void api_trace_get(struct api_call *call)
{
    api_not_here(call);
}

/* --- the host ------------------------------------------------------------ */

static char folder[FUZZ_FOLDER];
static struct store *store;
static struct book *book;
static struct api *api;
static struct metrics *metrics;

static double now_s(void *arg)
{
    (void)arg;
    return 1000;
}

static void changed(void *arg, struct live_job *job)
{
    (void)arg, (void)job;
}

static bool log_path(void *arg, const struct live_job *job, char *out,
                     size_t max)
{
    (void)arg, (void)job;
    return (size_t)snprintf(out, max, "%s/firnd.lock", folder) < max;
}

static enum firn_status drain(void *arg, const char *name, bool is_drained,
                              struct firn_error *err)
{
    (void)arg, (void)is_drained;
    return strcmp(name, "n0") == 0
               ? FIRN_OK
               : firn_fail(err, FIRN_ENOENT, "there is no node '%.40s'", name);
}

static void close_all(void)
{
    api_free(api);
    metrics_free(metrics);
    book_close(book);
    store_close(store);
    fuzz_folder_empty(folder);
}

static void tidy_up(void)
{
    close_all();
    rmdir(folder);
}

static void open_all(void)
{
    struct firn_error err = {0};
    char said[512];
    if (store_open(&store, folder, said, sizeof said, &err) != FIRN_OK ||
        book_open(&book, store, &err) != FIRN_OK)
        abort();
    metrics = metrics_new();
    struct api_host host = {.book = book,
                            .store = store,
                            .metrics = metrics,
                            .engine = "none",
                            .now_s = now_s,
                            .changed = changed,
                            .cancel = changed,
                            .reported = changed,
                            .drain = drain,
                            .log_path = log_path};
    if (api_new(&api, &host, &err) != FIRN_OK)
        abort();
}

/* A new state now and then: it must not grow for ever. */
static void begin(void)
{
    static int ninputs;
    if (folder[0] != '\0' && ++ninputs % INPUTS != 0)
        return;
    if (folder[0] != '\0') {
        close_all();
    } else {
        fuzz_folder_make(folder);
        atexit(tidy_up);
    }
    open_all();
}

/* --- requests ------------------------------------------------------------ */

/* The next line without its end, as text; what is too long is cut. */
static struct firn_bytes take_line(struct firn_bytes *from, char *out,
                                   size_t max)
{
    const char *end = memchr(from->at, '\n', from->n);
    size_t n = end != NULL ? (size_t)(end - from->at) : from->n;
    snprintf(out, max, "%.*s", (int)(n < max ? n : max - 1), from->at);
    size_t used = n + (end != NULL);
    *from = (struct firn_bytes){from->at + used, from->n - used};
    return *from;
}

static void make_path(const char *pattern, const char *word, char path[PATH])
{
    const char *colon = strchr(pattern, ':');
    if (colon == NULL) {
        snprintf(path, PATH, "/v1%s", pattern);
        return;
    }
    snprintf(path, PATH, "/v1%.*s%s%s", (int)(colon - pattern), pattern, word,
             colon + strcspn(colon, "/"));
}

static void ask(struct http_exchange *ex, struct firn_bytes text, char *body)
{
    size_t nroutes = 0;
    const struct api_route *routes = api_routes(&nroutes);
    unsigned char which = (unsigned char)text.at[0];
    unsigned char how = (unsigned char)text.at[1];
    const struct api_route *route = &routes[which % nroutes];
    char word[WORD], path[PATH];
    text = (struct firn_bytes){text.at + 2, text.n - 2};
    *ex = (struct http_exchange){.type = how & 1 ? "application/json"
                                                 : "application/yaml",
                                 .key = how & 2 ? "key" : NULL};
    snprintf(ex->attempt, sizeof ex->attempt, "%d", how >> 4);
    take_line(&text, word, sizeof word);
    take_line(&text, ex->query, sizeof ex->query);
    make_path(route->path, word, path);
    memcpy(body, text.at, text.n);
    body[text.n] = '\0';
    struct http_request request = {.method = route->method,
                                   .path = path,
                                   .body = {body, text.n},
                                   .caller = {.role = how & 8   ? ACCESS_JOB
                                                      : how & 4 ? ACCESS_VIEWER
                                                                : ACCESS_USER,
                                              .job = how & 8 ? atoi(word) : -1,
                                              .user = "ann"}};
    api_handle(api, ex, &request);
    if (ex->is_stream && ex->more != NULL)
        ex->more(ex->arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_exchange exchanges[AT_ONCE];
    char *bodies[AT_ONCE];
    struct firn_error err = {0};
    int n = 0;
    begin();
    while (size >= 4 && n < AT_ONCE) {
        const uint8_t *end = memchr(data, 0xff, size);
        size_t length = end != NULL ? (size_t)(end - data) : size;
        if (length >= 4) {
            bodies[n] = mem_new(length + 1, 1);
            ask(&exchanges[n], (struct firn_bytes){(const char *)data, length},
                bodies[n]);
            n++;
        }
        length += end != NULL;
        data += length;
        size -= length;
    }
    enum firn_status status = store_commit(store, &err);
    api_settle(api, status, &err);
    api_tick(api);
    for (int i = 0; i < n; i++) {
        if (exchanges[i].is_stream)
            exchanges[i].gone(exchanges[i].arg);
        else if (exchanges[i].nanswers != 1)
            abort();
        mem_free(bodies[i]);
    }
    return 0;
}
