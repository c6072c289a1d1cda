/* httpgarbage.c - requests that must change nothing, of every kind.
 */
#include "lib/httpgarbage.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct route {
    const char *method, *path;
};

static const struct route routes[] = {
#define ROUTE(method, path, handler, who) {#method, path},
#include "daemon/routes.def"
#undef ROUTE
};
enum { NROUTES = sizeof routes / sizeof *routes };

#define PICK(rng, list) (list)[rng_below((rng), sizeof(list) / sizeof *(list))]

static const char *const methods[] = {
    "PUT", "DELETE", "HEAD",  "OPTIONS", "TRACE",
    "get", "POSTER", "PATCH", "CONNECT", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};

static const char *const words[] = {
    "0",    "-1",       "2147483648", "9223372036854775808", "99999999",
    "1%00", "..",       "%2e%2e",     "%2e%2e%2fx",          "1%3bdrop",
    "'",    "%25s%25n", "%c3%28",     "%0d%0aX:%20y",        "no-such-job",
    "*",    "0x1",      "%20"};

static const char *const bodies[] = {
    "",
    "{",
    "[]",
    "null",
    "{\"gpus\": \"many\"}",
    "{\"priority\": 101}",
    "{\"priority\": -1}",
    "{\"priority\": 1e9}",
    "{\"gpus\": {\"min\": 3, \"max\": 1}}",
    "{\"gpus\": 0}",
    "{\"nonesuch\": 1}",
    "{\"priority\": 1, \"priority\": 2}",
    "{\"name\": \"nonesuch\"}",
    "{\"options\": {\"nonesuch\": 1}}",
    "run: [\n",
    "run: &a [*a]\n",
    "gpus: 1\n",
    "run: x\nnonesuch: y\n",
    "run: x\ngpus: -1\n",
    "run: x\ngpus: 99999999999999999999\n",
    "run: x\nname: ../../etc/passwd\n",
    "run: x\nname: \"a\\nb\"\n",
    "run: x\nrun: y\n",
    "\xff\xfe\x00r",
    "run: x\nduration: nan\n",
    "run: x\ndeadline: 1e400\n",
};

static const char *const heads[] = {
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "Content-Length: +0\r\n\r\n",
    "Content-Length: 18446744073709551617\r\n\r\n",
    "Transfer-Encoding: gzip\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "X : 1\r\n\r\n",
    "X: a\r\n b\r\n\r\n",
    "Host: y\r\n\r\n",
    "no colon\r\n\r\n",
    "Authorization: Bearer not-the-token-of-anything\r\n\r\n",
    "Authorization: Basic eA==\r\n\r\n",
};

static void put(struct garbage *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(g->bytes + g->n, GARBAGE_BYTES - g->n, fmt, args);
    va_end(args);
    if (n > 0 && g->n + (size_t)n < GARBAGE_BYTES)
        g->n += (size_t)n;
}

/* The route's path with `word` where ":id" or ":name" stands. */
static void put_path(struct garbage *g, const char *path, const char *word)
{
    const char *colon = strchr(path, ':');
    if (colon == NULL) {
        put(g, "%s", path);
        return;
    }
    put(g, "%.*s%s%s", (int)(colon - path), path, word,
        colon + strcspn(colon, "/"));
}

static void put_body(struct garbage *g, const char *body, size_t n)
{
    put(g, "Content-Length: %zu\r\n\r\n", n);
    if (g->n + n < GARBAGE_BYTES) {
        memcpy(g->bytes + g->n, body, n);
        g->n += n;
    }
}

static void other_method(struct garbage *g, struct rng *rng)
{
    const struct route *route = &PICK(rng, routes);
    put(g, "%s ", PICK(rng, methods));
    put_path(g, route->path, "1x");
    put(g, " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    g->what = "a method that the path does not have";
}

/* With an id that no job or node has; routes without one only ask. */
static void other_id(struct garbage *g, struct rng *rng)
{
    const struct route *route = &PICK(rng, routes);
    while (strchr(route->path, ':') == NULL)
        route = &PICK(rng, routes);
    put(g, "%s ", route->method);
    put_path(g, route->path, PICK(rng, words));
    put(g, " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    g->what = "an id that is none";
}

static void no_path(struct garbage *g, struct rng *rng)
{
    static const char *const paths[] = {"//",
                                        "/v2/jobs",
                                        "/jobs/",
                                        "/v1",
                                        "/jobs/1/2/3",
                                        "/../etc/passwd",
                                        "/%2e%2e/x",
                                        "/jobs?limit=-1",
                                        "/jobs?limit=99999999999999999999",
                                        "/jobs?state=nonesuch",
                                        "/events?after=x",
                                        "/jobs?after=%00",
                                        "*",
                                        "http://x/jobs"};
    put(g, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", PICK(rng, paths));
    g->what = "a path or a query that is none";
}

static void hostile_body(struct garbage *g, struct rng *rng)
{
    static const struct route takers[] = {{"POST", "/plan"},
                                          {"PATCH", "/policy"},
                                          {"PATCH", "/jobs/1"},
                                          {"POST", "/jobs"},
                                          {"POST", "/jobs/1/reports"}};
    const struct route *to = &PICK(rng, takers);
    const char *body = PICK(rng, bodies);
    put(g, "%s %s HTTP/1.1\r\nHost: x\r\n", to->method, to->path);
    if (rng_below(rng, 3) == 0)
        put(g, "Content-Type: application/json\r\n");
    put_body(g, body, body[0] == '\xff' ? 4 : strlen(body));
    g->what = "a hostile body";
}

static void large_body(struct garbage *g, struct rng *rng)
{
    size_t n = (1 << 20) - 100 + (size_t)rng_below(rng, 200);
    put(g, "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", n);
    memset(g->bytes + g->n, "a[{-\n"[rng_below(rng, 5)], n);
    g->n += n;
    g->what = "a large body";
}

/* A job file of random bytes between good lines; held, should it be taken. */
static void hostile_job(struct garbage *g, struct rng *rng)
{
    char body[400];
    int n = snprintf(body, sizeof body, "run: [/bin/true]\nname: strange\n");
    for (uint64_t i = rng_below(rng, 40); i > 0; i--)
        body[n++] = (char)(rng_below(rng, 8) == 0 ? rng_below(rng, 256)
                                                  : ' ' + rng_below(rng, 95));
    put(g, "POST /jobs?hold=1 HTTP/1.1\r\nHost: x\r\n");
    put_body(g, body, (size_t)n);
    g->is_job = true;
    g->what = "a hostile job file";
}

static void hostile_head(struct garbage *g, struct rng *rng)
{
    put(g, "POST /plan HTTP/1.1\r\nHost: x\r\n%s", PICK(rng, heads));
    g->what = "a hostile head";
}

/* The beginning of a submit and of a change, or bytes of it lost. */
static void half(struct garbage *g, struct rng *rng)
{
    static const char good[] = "POST /jobs HTTP/1.1\r\nHost: x\r\n"
                               "Content-Length: 35\r\n\r\n"
                               "run: [/bin/true]\nname: half-sent\n \n";
    static const char chunked[] =
        "POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "10\r\nrun: [/bin/true]\r\n1\r\n\n\r\n0\r\n\r\n";
    const char *text = rng_below(rng, 2) == 0 ? good : chunked;
    put(g, "%.*s", (int)rng_below(rng, strlen(text) - 1), text);
    g->is_half = true;
    g->what = "half a submit";
}

void garbage_make(struct garbage *out, struct rng *rng)
{
    static void (*const makers[])(struct garbage *, struct rng *) = {
        other_method, other_id,     no_path,     hostile_body,
        other_id,     hostile_head, hostile_job, half,
        other_method, hostile_body, half,        hostile_head};
    char *bytes = out->bytes;
    *out = (struct garbage){.bytes = bytes};
    if (rng_below(rng, 200) == 0)
        large_body(out, rng);
    else
        PICK(rng, makers)(out, rng);
}

bool garbage_may(const struct garbage *garbage, int status)
{
    static const int refusals[] = {400, 401, 403, 404, 405, 409, 410,
                                   413, 414, 422, 431, 501, 505};
    if (status == 0 || (garbage->is_job && status == 201))
        return true;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i] == status)
            return true;
    return false;
}
