/* summarypage.c - results as tables for people.
 *
 * Results that share cluster and restart cost stand together under a line
 * that says so: first the main table, then completion times by the number of
 * GPUs asked for, then whatever in the input was not quite right. The part of
 * a path that all traces share is left out.
 *
 * Nothing measured is printed, so equal runs give equal bytes.
 */
#include "base/buf.h"
#include "base/table.h"
#include "sim/summary.h"
#include "sim/world.h"
#include <math.h>
#include <string.h>

void summary_time(double time_s, struct firn_buf *out)
{
    if (isnan(time_s)) {
        buf_putc(out, '-');
        return;
    }
    if (time_s < 0) {
        buf_putc(out, '-');
        time_s = -time_s;
    }
    if (time_s < 59.995) {
        buf_printf(out, "%.2fs", time_s);
        return;
    }
    if (time_s < 3599.95) {
        long long tenths = llround(time_s * 10);
        buf_printf(out, "%lldm%02lld.%llds", tenths / 600, tenths / 10 % 60,
                   tenths % 10);
        return;
    }
    if (time_s < 359999.5) {
        long long s = llround(time_s);
        buf_printf(out, "%lldh%02lldm%02llds", s / 3600, s / 60 % 60, s % 60);
        return;
    }
    if (!(time_s < 1e15)) {
        buf_printf(out, "%gs", time_s);
        return;
    }
    long long m = llround(time_s / 60);
    buf_printf(out, "%lldd%02lldh%02lldm", m / 1440, m / 60 % 24, m % 60);
}

static void cell_time(struct table *table, double time_s)
{
    struct firn_buf text = {0};
    summary_time(time_s, &text);
    table_cell(table, text.at);
    buf_release(&text);
}

static void cell_number(struct table *table, double value, double unit)
{
    if (isnan(value))
        table_cell(table, "-");
    else
        table_cellf(table, unit == 100 ? "%.1f" : "%.2f", value * unit);
}

/* How many bytes of each trace's name are a folder common to all. */
static size_t shared_folder(const struct firn_sim_result *results, size_t n)
{
    const char *slash = strrchr(results[0].trace, '/');
    size_t common = slash ? (size_t)(slash - results[0].trace) + 1 : 0;
    for (size_t i = 1; i < n; i++)
        while (common > 0 &&
               strncmp(results[0].trace, results[i].trace, common) != 0)
            do
                common--;
            while (common > 0 && results[0].trace[common - 1] != '/');
    return common;
}

static void put_heading(const struct firn_sim_result *result,
                        struct firn_buf *out)
{
    buf_printf(out, "cluster %s, a restart costs ", result->cluster);
    buf_double(out, result->restart_s);
    buf_printf(out, " s, seed %llu", (unsigned long long)result->seed);
    /* Not by the simulator's own rules: the numbers are another's. */
    if (result->world[0] != '\0' &&
        strcmp(result->world, world_honest.name) != 0)
        buf_printf(out, ", by the rules of %s", result->world);
    buf_puts(out, "\n\n");
}

static void put_main(const struct firn_sim_result *results, size_t n,
                     size_t cut, struct firn_buf *out)
{
    static const char *const heads[] = {
        "trace", "policy", "jobs",     "JCT mean", "p50",
        "p90",   "p99",    "queue",    "makespan", "alloc%",
        "util%", "frag%",  "restarts", "rho",      "unfair%"};
    struct table table;
    table_init(&table, "llrrrrrrrrrrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n; i++) {
        const struct firn_sim_result *r = &results[i];
        table_cell(&table, r->trace + cut);
        table_cell(&table, r->policy);
        table_cellf(&table, "%ld", r->jobs);
        cell_time(&table, r->jct_mean_s);
        cell_time(&table, r->jct_p50_s);
        cell_time(&table, r->jct_p90_s);
        cell_time(&table, r->jct_p99_s);
        cell_time(&table, r->queue_mean_s);
        cell_time(&table, r->makespan_s);
        cell_number(&table, r->gpu_alloc_ratio, 100);
        cell_number(&table, r->gpu_util_ratio, 100);
        cell_number(&table, r->fragmentation, 100);
        table_cellf(&table, "%ld", r->restarts);
        cell_number(&table, r->rho_mean, 1);
        cell_number(&table, r->unfair_share, 100);
    }
    table_print(&table, out);
    table_release(&table);
}

static void put_classes(const struct firn_sim_result *results, size_t n,
                        size_t cut, struct firn_buf *out)
{
    static const char *const heads[] = {"trace", "policy", "1",   "jobs",
                                        "2-4",   "jobs",   "5-8", "jobs",
                                        "9+",    "jobs"};
    struct table table;
    table_init(&table, "llrrrrrrrr");
    buf_puts(out, "\nmean JCT by GPUs asked for\n");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (size_t i = 0; i < n; i++) {
        table_cell(&table, results[i].trace + cut);
        table_cell(&table, results[i].policy);
        for (int c = 0; c < FIRN_CLASSES; c++) {
            cell_time(&table, results[i].classes[c].jct_mean_s);
            table_cellf(&table, "%ld", results[i].classes[c].jobs);
        }
    }
    table_print(&table, out);
    table_release(&table);
}

struct remark {
    long count;
    const char *one, *many;
};

/* "label: 3 this, 1 that"; nothing when all counts are 0. */
static void put_remarks(const char *label, const char *second,
                        const struct remark *remarks, size_t n,
                        struct firn_buf *out)
{
    bool has_any = false;
    for (size_t i = 0; i < n; i++) {
        if (remarks[i].count == 0)
            continue;
        if (!has_any)
            buf_printf(out, "%s%s%s: ", label, second ? ", " : "",
                       second ? second : "");
        buf_printf(out, "%s%ld %s", has_any ? ", " : "", remarks[i].count,
                   remarks[i].count == 1 ? remarks[i].one : remarks[i].many);
        has_any = true;
    }
    if (has_any)
        buf_putc(out, '\n');
}

static bool same_rows(const struct firn_sim_result *a,
                      const struct firn_sim_result *b)
{
    return strcmp(a->trace, b->trace) == 0 && a->bad_rows == b->bad_rows &&
           a->ignored_rows == b->ignored_rows &&
           a->unsorted_rows == b->unsorted_rows &&
           a->nominal_jobs == b->nominal_jobs;
}

static void put_footer(const struct firn_sim_result *results, size_t n,
                       size_t cut, struct firn_buf *out)
{
    size_t before = out->n;
    buf_putc(out, '\n');
    for (size_t i = 0; i < n; i++) {
        const struct firn_sim_result *r = &results[i];
        size_t first = 0;
        while (!same_rows(&results[first], r))
            first++;
        const struct remark rows[] = {
            {r->bad_rows, "bad row skipped", "bad rows skipped"},
            {r->ignored_rows, "row that is no GPU job ignored",
             "rows that are no GPU jobs ignored"},
            {r->unsorted_rows, "row out of order of submission",
             "rows out of order of submission"},
            {r->nominal_jobs, "job with a nominal duration",
             "jobs with nominal durations"},
        };
        if (first == i)
            put_remarks(r->trace + cut, NULL, rows, 4, out);
        const struct remark ends[] = {
            {r->unfinished, "job unfinished", "jobs unfinished"},
            {r->rejected, "job rejected", "jobs rejected"},
            {r->failures, "node failure", "node failures"},
        };
        put_remarks(r->trace + cut, r->policy, ends, 3, out);
    }
    if (out->n == before + 1) {
        out->n = before;
        out->at[before] = '\0';
    }
}

static bool same_setting(const struct firn_sim_result *a,
                         const struct firn_sim_result *b)
{
    return strcmp(a->cluster, b->cluster) == 0 && a->seed == b->seed &&
           strcmp(a->world, b->world) == 0 && a->restart_s == b->restart_s;
}

void summary_page(const struct firn_sim_result *results, size_t n,
                  struct firn_buf *out)
{
    if (n == 0)
        return;
    size_t cut = shared_folder(results, n), from = 0;
    while (from < n) {
        size_t to = from + 1;
        while (to < n && same_setting(&results[from], &results[to]))
            to++;
        if (from > 0)
            buf_putc(out, '\n');
        put_heading(&results[from], out);
        put_main(results + from, to - from, cut, out);
        put_classes(results + from, to - from, cut, out);
        put_footer(results + from, to - from, cut, out);
        from = to;
    }
}
