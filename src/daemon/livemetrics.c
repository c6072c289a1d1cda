/* livemetrics.c - the metrics of firnd as OpenMetrics text.
 *
 * Every series is there from the start with 0, so that a dashboard sees a rate
 * from the first event on. Histograms have fixed bounds, for seconds from a
 * millisecond to a month, for ratios from 1 % to 10; what lies above the last
 * is in "+Inf".
 *
 * Source of the format: OpenMetrics 1.0. Cost: an addition each; a text of some
 * ten kilobytes for a scrape.
 */
#include "daemon/livemetrics.h"
#include "base/buf.h"
#include "base/mem.h"
#include "daemon/livejob.h"
#include <firn/status.h>
#include <firn/version.h>
#include <math.h>
#include <string.h>

enum type { GAUGE, COUNTER, SECONDS, RATIO };

enum { LABELS_MAX = 24, BOUNDS_MAX = 20, ROUTES_MAX = 64, STATUSES = 16 };

struct label {
    const char *name;
    const char *values[LABELS_MAX];
};

#define X(code, text, over) text,
static const struct label JOB = {"state", {LIVE_STATE_MAP(X)}};
#undef X
#define X(code, text) text,
static const struct label REASON = {"reason", {LIVE_REASON_MAP(X)}};
#undef X
static const struct label NONE = {NULL, {NULL}};
static const struct label GPU = {
    "state", {"free", "held", "outside", "drained", "down"}};
static const struct label NODE = {"state", {"up", "drained", "down"}};
static const struct label STEP = {"kind", {"start", "stop", "resize", "move"}};
static const struct label SUBMIT = {"result", {"new", "again", "refused"}};
static const struct label REPORT = {"result", {"taken", "stale", "refused"}};
static const struct label REFUSAL = {
    "reason", {"token", "right", "shape", "slow", "crowd", "rate"}};
static const struct label END = {
    "how", {"done", "checkpoint", "failed", "killed", "memory", "lost"}};
static const struct label RESTART = {
    "why", {"resize", "preempt", "failure", "memory", "lost"}};
#define X(code, text) text,
static const struct label CAUSE = {"cause", {LIVE_CAUSE_MAP(X)}};
#undef X
static const struct label DISK = {"state", {"ample", "low", "spent", "full"}};
/* Their values are names that users or the cluster give: metrics_row(). */
static const struct label USER = {"user", {NULL}};
static const struct label QUEUE = {"queue", {NULL}};
static const struct label TYPE = {"type", {NULL}};
static const struct label ONE_GPU = {"node", {NULL}}; /* metrics_gpu_row() */
static const struct label UNDO = {"kind", {"share", "resize", "transfer"}};

static const struct {
    enum type type;
    const char *name, *help;
    const struct label *label;
} table[] = {
#define METRIC(id, type, name, label, help) {type, name, help, &label},
#include "daemon/livemetrics.def"
#undef METRIC
};

static const double seconds[] = {
    .001, .003, .01, .03,  .1,    .3,    1,     3,      10,     30,
    60,   300,  900, 3600, 14400, 43200, 86400, 259200, 864000, 2592000};
static const double ratios[] = {.01, .02, .05, .1, .2, .5, 1, 2, 5, 10};

struct histogram {
    double sum;
    unsigned long long counts[BOUNDS_MAX + 1]; /* the last: above all */
};

struct route {
    const char *method, *path;
    int statuses[STATUSES]; /* 0: free; the last takes what has no place */
    unsigned long long counts[STATUSES];
};

struct metrics {
    double values[METRIC_N][LABELS_MAX];
    struct histogram histograms[METRIC_N];
    struct firn_buf rows[METRIC_N]; /* as text, of labels without values */
    struct route routes[ROUTES_MAX];
    size_t nroutes;
};

struct metrics *metrics_new(void)
{
    return mem_new(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *metrics)
{
    for (int id = 0; metrics != NULL && id < METRIC_N; id++)
        buf_release(&metrics->rows[id]);
    mem_free(metrics);
}

static int labels_of(enum metric id)
{
    int n = 0;
    while (n < LABELS_MAX && table[id].label->values[n] != NULL)
        n++;
    return n > 0 ? n : 1;
}

static double *value_of(struct metrics *metrics, enum metric id, int label)
{
    if (id >= METRIC_N || label < 0 || label >= labels_of(id) ||
        table[id].type > COUNTER)
        FIRN_BUG("no value %d of metric %d", label, (int)id);
    return &metrics->values[id][label];
}

void metrics_add(struct metrics *metrics, enum metric id, int label, double by)
{
    *value_of(metrics, id, label) += by;
}

void metrics_set(struct metrics *metrics, enum metric id, int label,
                 double value)
{
    *value_of(metrics, id, label) = value;
}

static bool has_rows(enum metric id)
{
    return table[id].label->name != NULL && table[id].label->values[0] == NULL;
}

void metrics_clear(struct metrics *metrics, enum metric id)
{
    buf_clear(&metrics->rows[id]);
}

/* Appends `name="value"` with its escapes. */
static void put_label(struct firn_buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            buf_putc(out, '\\');
        if (*value == '\n')
            buf_puts(out, "\\n");
        else
            buf_putc(out, *value);
    }
    buf_putc(out, '"');
}

/* The row up to its labels. */
static struct firn_buf *begin_row(struct metrics *metrics, enum metric id)
{
    if (id >= METRIC_N || !has_rows(id))
        FIRN_BUG("metric %d has a label with fixed values", (int)id);
    buf_printf(&metrics->rows[id], "%s{", table[id].name);
    return &metrics->rows[id];
}

static void end_row(struct firn_buf *out, double number)
{
    buf_puts(out, "} ");
    buf_double(out, number);
    buf_putc(out, '\n');
}

void metrics_row(struct metrics *metrics, enum metric id, const char *value,
                 double number)
{
    struct firn_buf *out = begin_row(metrics, id);
    put_label(out, table[id].label->name, value);
    end_row(out, number);
}

void metrics_gpu_row(struct metrics *metrics, enum metric id,
                     const struct metric_gpu_name *name, double number)
{
    struct firn_buf *out = begin_row(metrics, id);
    put_label(out, "node", name->node);
    buf_printf(out, ",gpu=\"%d\",", name->gpu);
    put_label(out, "type", name->type);
    end_row(out, number);
}

static const double *bounds_of(enum metric id, size_t *n)
{
    bool is_ratio = table[id].type == RATIO;
    *n = is_ratio ? sizeof ratios / sizeof *ratios
                  : sizeof seconds / sizeof *seconds;
    return is_ratio ? ratios : seconds;
}

void metrics_observe(struct metrics *metrics, enum metric id, double value)
{
    size_t n, i = 0;
    if (id >= METRIC_N || table[id].type < SECONDS)
        FIRN_BUG("metric %d is no histogram", (int)id);
    if (!isfinite(value))
        return;
    value = fmax(value, 0); /* times, when the clock was put back */
    const double *bounds = bounds_of(id, &n);
    while (i < n && value > bounds[i])
        i++;
    metrics->histograms[id].counts[i]++;
    metrics->histograms[id].sum += value;
}

static struct route *route_of(struct metrics *metrics, const char *method,
                              const char *path)
{
    for (size_t i = 0; i < metrics->nroutes; i++)
        if (strcmp(metrics->routes[i].path, path) == 0 &&
            strcmp(metrics->routes[i].method, method) == 0)
            return &metrics->routes[i];
    if (metrics->nroutes == ROUTES_MAX)
        FIRN_BUG("more than %d routes are counted", ROUTES_MAX);
    struct route *route = &metrics->routes[metrics->nroutes++];
    route->method = method;
    route->path = path;
    return route;
}

void metrics_http(struct metrics *metrics, const char *method,
                  const char *route, int status)
{
    struct route *r = route_of(metrics, method, route);
    int i = 0;
    while (i < STATUSES - 1 && r->statuses[i] != 0 && r->statuses[i] != status)
        i++;
    r->statuses[i] = status;
    r->counts[i]++;
}

double metrics_get(const struct metrics *metrics, enum metric id, int label)
{
    size_t n;
    double count = 0;
    if (table[id].type < SECONDS)
        return metrics->values[id][label];
    bounds_of(id, &n);
    for (size_t i = 0; i <= n; i++)
        count += (double)metrics->histograms[id].counts[i];
    return count;
}

const char *metrics_name(enum metric id)
{
    return id < METRIC_N ? table[id].name : "firn_http_requests";
}

/* --- text -------------------------------------------------------------- */

static void write_head(struct firn_buf *out, const char *name, const char *type,
                       const char *help)
{
    buf_printf(out, "# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

static void write_values(const struct metrics *metrics, enum metric id,
                         struct firn_buf *out)
{
    const struct label *label = table[id].label;
    bool is_counter = table[id].type == COUNTER;
    write_head(out, table[id].name, is_counter ? "counter" : "gauge",
               table[id].help);
    if (has_rows(id)) {
        buf_add(out, metrics->rows[id].at, metrics->rows[id].n);
        return;
    }
    for (int i = 0; i < labels_of(id); i++) {
        buf_printf(out, "%s%s", table[id].name, is_counter ? "_total" : "");
        if (label->name != NULL)
            buf_printf(out, "{%s=\"%s\"}", label->name, label->values[i]);
        buf_putc(out, ' ');
        buf_double(out, metrics->values[id][i]);
        buf_putc(out, '\n');
    }
}

static void write_histogram(const struct metrics *metrics, enum metric id,
                            struct firn_buf *out)
{
    const struct histogram *h = &metrics->histograms[id];
    const char *name = table[id].name;
    unsigned long long below = 0;
    size_t n;
    const double *bounds = bounds_of(id, &n);
    write_head(out, name, "histogram", table[id].help);
    for (size_t i = 0; i < n; i++) {
        char text[STR_DOUBLE_MAX];
        double_text(bounds[i], text);
        below += h->counts[i];
        /* A bound is a float in this format, and says so. */
        buf_printf(out, "%s_bucket{le=\"%s%s\"} %llu\n", name, text,
                   strpbrk(text, ".e") != NULL ? "" : ".0", below);
    }
    below += h->counts[n];
    buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", name, below, name);
    buf_double(out, h->sum);
    buf_printf(out, "\n%s_count %llu\n", name, below);
}

static void write_routes(const struct metrics *metrics, struct firn_buf *out)
{
    write_head(out, "firn_http_requests", "counter",
               "Requests, by route and status.");
    for (size_t i = 0; i < metrics->nroutes; i++) {
        const struct route *r = &metrics->routes[i];
        for (int k = 0; k < STATUSES && r->statuses[k] != 0; k++)
            buf_printf(out,
                       "firn_http_requests_total{method=\"%s\",route=\"%s\","
                       "status=\"%d\"} %llu\n",
                       r->method, r->path, r->statuses[k], r->counts[k]);
    }
}

void metrics_write(const struct metrics *metrics, struct firn_buf *out)
{
    for (enum metric id = 0; id < METRIC_N; id++) {
        if (table[id].type < SECONDS)
            write_values(metrics, id, out);
        else
            write_histogram(metrics, id, out);
    }
    write_routes(metrics, out);
    write_head(out, "firn_build", "info", "Which firn this is.");
    buf_printf(out, "firn_build_info{version=\"%s\"} 1\n# EOF\n", FIRN_VERSION);
}
