/* report_page.c - the page of `firn report`: tables and charts of runs.
 *
 * One HTML file without scripts and without references to other files. For each
 * trace: a table, distributions of completion times and of fairness, GPUs held
 * and jobs waiting over time, means by size, the jobs that made the difference
 * between the best policy and each other one, and jobs as bars.
 *
 * The difference of two means over the same n jobs is the mean of the
 * differences of each job, so a job's part of it is (JCT_b - JCT_a) / n. The
 * jobs are listed by the size of that part, with what changed: time in the
 * queue or time on GPUs.
 *
 * Cost: a sort of the jobs for each chart and pair.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/sort.h"
#include "cli/report.h"
#include <firn/version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOVERS = 10, BARS_RUNS = 6 };

static const char style[] =
    "<style>body{font:14px/1.5 system-ui,sans-serif;color:#14202b;"
    "max-width:900px;margin:2em auto;padding:0 1em}h1{font-size:22px}"
    "h2{font-size:18px;margin-top:2em;border-bottom:1px solid #d5dee6}"
    "h3{font-size:15px;margin-top:1.6em}table{border-collapse:collapse}"
    "th{font-weight:500;color:#5d6f7f}th,td{padding:3px 10px;text-align:right;"
    "border-bottom:1px solid #e6ecf1}th:first-child,td:first-child{text-align:"
    "left}td.t{text-align:left}pre{overflow-x:auto;font-size:12px}figure{"
    "margin:1em 0}figcaption{font-weight:600;"
    "font-size:13px}svg{max-width:100%;height:auto}text{font:11px system-ui,"
    "sans-serif;fill:#465664}.e{text-anchor:end}.m{text-anchor:middle}"
    ".g{stroke:#e6ecf1}.dim{color:#5d6f7f}</style>";

static void put_span_cell(struct firn_buf *out, double seconds)
{
    buf_puts(out, "<td>");
    report_span(out, seconds);
    buf_puts(out, "</td>");
}

static void put_heads(struct firn_buf *out, const char *const *heads)
{
    buf_puts(out, "<table><tr>");
    for (; *heads != NULL; heads++)
        buf_printf(out, "<th>%s</th>", *heads);
    buf_puts(out, "</tr>\n");
}

static void put_table(const struct report_run *runs, size_t n,
                      struct firn_buf *out)
{
    static const char *const heads[] = {
        "policy", "jobs",     "mean JCT", "p50",      "p90", "p99",
        "queue",  "makespan", "held",     "restarts", NULL};
    put_heads(out, heads);
    for (size_t i = 0; i < n; i++) {
        const struct report_run *run = &runs[i];
        buf_puts(out, "<tr><td>");
        report_text(out, run->policy);
        buf_printf(out, "</td><td>%zu</td>", run->jobs.n);
        put_span_cell(out, run->jct_s);
        put_span_cell(out, run->p50_s);
        put_span_cell(out, run->p90_s);
        put_span_cell(out, run->p99_s);
        put_span_cell(out, run->queue_s);
        put_span_cell(out, run->makespan_s);
        if (isnan(run->held))
            buf_puts(out, "<td>-</td>");
        else
            buf_printf(out, "<td>%.1f %%</td>", 100 * run->held);
        buf_printf(out, "<td>%.0f</td></tr>\n", run->restarts);
    }
    buf_puts(out, "</table>\n");
}

/* --- charts ----------------------------------------------------------------
 */

typedef double job_value(const struct report_job *job);
static double jct_of(const struct report_job *job)
{
    return job->jct_s;
}

/* Shares of jobs below each value. */
static void put_distribution(const struct report_run *runs, size_t n,
                             struct firn_buf *out)
{
    job_value *value = jct_of;
    struct report_line *lines = mem_new(n, sizeof *lines);
    double **x = mem_new(n, sizeof(double *));
    double **y = mem_new(n, sizeof(double *));
    for (size_t i = 0; i < n; i++) {
        size_t njobs = runs[i].jobs.n;
        x[i] = mem_new(njobs, sizeof(double));
        y[i] = mem_new(njobs, sizeof(double));
        for (size_t k = 0; k < njobs; k++) {
            x[i][k] = value(&runs[i].jobs.at[k]);
            y[i][k] = 100 * (double)(k + 1) / (double)njobs;
        }
        sort_doubles(x[i], njobs);
        lines[i] = (struct report_line){runs[i].policy, x[i], y[i], njobs};
    }
    struct report_chart chart = {.title =
                                     "Completion times: percent of jobs below",
                                 .x_title = "JCT, by logarithms",
                                 .lines = lines,
                                 .nlines = n,
                                 .is_log = true};
    report_svg(&chart, out);
    for (size_t i = 0; i < n; i++) {
        mem_free(x[i]);
        mem_free(y[i]);
    }
    mem_free(x);
    mem_free(y);
    mem_free(lines);
}

static void put_over_time(const struct report_run *runs, size_t n,
                          bool is_waiting, struct firn_buf *out)
{
    struct report_line *lines = mem_new(n, sizeof *lines);
    double **xy = mem_new(2 * n, sizeof(double *));
    size_t nmoments = 0;
    for (size_t i = 0; i < n; i++) {
        size_t m = runs[i].timeline.n;
        xy[2 * i] = mem_new(m + 1, sizeof(double));
        xy[2 * i + 1] = mem_new(m + 1, sizeof(double));
        for (size_t k = 0; k < m; k++) {
            const struct report_moment *at = &runs[i].timeline.at[k];
            xy[2 * i][k] = at->at_s;
            xy[2 * i + 1][k] = is_waiting ? at->waiting : at->gpus_held;
        }
        nmoments += m;
        lines[i] =
            (struct report_line){runs[i].policy, xy[2 * i], xy[2 * i + 1], m};
    }
    struct report_chart chart = {.title = is_waiting ? "Jobs that wait"
                                                     : "GPUs held",
                                 .x_title = "time since the first submit",
                                 .lines = lines,
                                 .nlines = n,
                                 .is_step = true};
    if (nmoments > 0)
        report_svg(&chart, out);
    for (size_t i = 0; i < 2 * n; i++)
        mem_free(xy[i]);
    mem_free(xy);
    mem_free(lines);
}

/* --- classes and fairness ----------------------------------------------------
 */

static void put_classes(const struct report_run *runs, size_t n,
                        struct firn_buf *out)
{
    static const struct {
        const char *name;
        double least, most;
    } classes[] = {{"1 GPU", 0, 1},
                   {"2 to 4", 2, 4},
                   {"5 to 8", 5, 8},
                   {"9 and more", 9, INFINITY}};
    static const char *const heads[] = {
        "mean JCT by GPUs", "1 GPU",    "2 to 4",      "5 to 8",
        "9 and more",       "rho mean", "rho above 1", NULL};
    put_heads(out, heads);
    for (size_t i = 0; i < n; i++) {
        const struct report_run *run = &runs[i];
        double rho = 0;
        size_t nrho = 0, nabove = 0;
        buf_puts(out, "<tr><td>");
        report_text(out, run->policy);
        buf_puts(out, "</td>");
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
            double sum_s = 0;
            size_t njobs = 0;
            for (size_t k = 0; k < run->jobs.n; k++) {
                const struct report_job *job = &run->jobs.at[k];
                if (job->gpus < classes[c].least || job->gpus > classes[c].most)
                    continue;
                sum_s += job->jct_s;
                njobs++;
            }
            put_span_cell(out, njobs > 0 ? sum_s / (double)njobs : (double)NAN);
        }
        for (size_t k = 0; k < run->jobs.n; k++)
            if (!isnan(run->jobs.at[k].rho)) {
                rho += run->jobs.at[k].rho;
                nabove += run->jobs.at[k].rho > 1;
                nrho++;
            }
        if (nrho > 0)
            buf_printf(out, "<td>%.2f</td><td>%.1f %%</td></tr>\n",
                       rho / (double)nrho, 100 * (double)nabove / (double)nrho);
        else
            buf_puts(out, "<td>-</td><td>-</td></tr>\n");
    }
    buf_puts(out, "</table><p class='dim'>rho: a job's completion time divided "
                  "by that with its equal share of the cluster; above 1 it did "
                  "worse than its share.</p>\n");
}

/* --- which jobs made the difference
 * ------------------------------------------- */

struct mover {
    const struct report_job *a, *b;
    double by_s;
};

static int by_size(const void *one, const void *two)
{
    const struct mover *a = one, *b = two;
    double x = fabs(a->by_s), y = fabs(b->by_s);
    if (x != y)
        return x > y ? -1 : 1;
    return strcmp(a->a->name, b->a->name);
}

/* Jobs of both runs; their lists are in the order of their names. */
static size_t match(const struct report_run *a, const struct report_run *b,
                    struct mover *out)
{
    size_t n = 0;
    for (size_t i = 0, k = 0; i < a->jobs.n && k < b->jobs.n;) {
        int order = strcmp(a->jobs.at[i].name, b->jobs.at[k].name);
        if (order == 0) {
            out[n].a = &a->jobs.at[i];
            out[n].b = &b->jobs.at[k];
            out[n].by_s = b->jobs.at[k].jct_s - a->jobs.at[i].jct_s;
            n++;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return n;
}

static void put_cause(const struct mover *mover, struct firn_buf *out)
{
    double queue_s = mover->b->queue_s - mover->a->queue_s;
    double rest_s = mover->by_s - queue_s;
    bool is_queue = fabs(queue_s) >= fabs(rest_s);
    double by_s = is_queue ? queue_s : rest_s;
    buf_puts(out, is_queue ? "waits " : "takes ");
    report_span(out, fabs(by_s));
    buf_puts(out, by_s > 0 ? (is_queue ? " longer" : " longer on its GPUs")
                           : (is_queue ? " less" : " less on its GPUs"));
}

static void put_movers(const struct report_run *best,
                       const struct report_run *other, struct firn_buf *out)
{
    struct mover *movers = mem_new(best->jobs.n + 1, sizeof *movers);
    size_t n = match(best, other, movers);
    double all_s = 0, nbetter = 0;
    for (size_t i = 0; i < n; i++) {
        all_s += movers[i].by_s;
        nbetter += movers[i].by_s < 0;
    }
    if (n > 0)
        qsort(movers, n, sizeof *movers, by_size);
    buf_puts(out, "<h3>");
    report_text(out, other->policy);
    buf_puts(out, " against ");
    report_text(out, best->policy);
    buf_puts(out, "</h3><p>The mean is ");
    report_span(out, n > 0 ? fabs(all_s) / (double)n : (double)NAN);
    buf_printf(out,
               " %s over %zu jobs; %.0f of them end earlier. The jobs that "
               "move it most:</p>\n",
               all_s >= 0 ? "longer" : "shorter", n, nbetter);
    buf_puts(out, "<table><tr><th>job</th><th>GPUs</th><th>");
    report_text(out, best->policy);
    buf_puts(out, "</th><th>");
    report_text(out, other->policy);
    buf_puts(out, "</th><th>moves the mean by</th><th>why</th></tr>\n");
    for (size_t i = 0; i < n && i < MOVERS; i++) {
        buf_puts(out, "<tr><td>");
        report_text(out, movers[i].a->name);
        buf_printf(out, "</td><td>%.0f</td>", movers[i].a->gpus);
        put_span_cell(out, movers[i].a->jct_s);
        put_span_cell(out, movers[i].b->jct_s);
        put_span_cell(out, movers[i].by_s / (double)n);
        buf_puts(out, "<td class='t'>");
        put_cause(&movers[i], out);
        buf_puts(out, "</td></tr>\n");
    }
    buf_puts(out, "</table>\n");
    mem_free(movers);
}

/* --- the page
 * ----------------------------------------------------------------- */

static void put_trace(const struct report_run *runs, size_t n,
                      struct firn_buf *out)
{
    buf_puts(out, "<h2>");
    report_text(out, runs[0].trace);
    buf_puts(out, "</h2>\n<p>");
    report_text(out, runs[0].policy);
    buf_puts(out, " has the lowest mean completion time, ");
    report_span(out, runs[0].jct_s);
    if (n > 1 && runs[n - 1].jct_s > 0) {
        buf_printf(out, ", %.0f %% below that of ",
                   100 * (1 - runs[0].jct_s / runs[n - 1].jct_s));
        report_text(out, runs[n - 1].policy);
    }
    buf_puts(out, ".</p>\n");
    put_table(runs, n, out);
    put_distribution(runs, n, out);
    put_over_time(runs, n, false, out);
    put_over_time(runs, n, true, out);
    put_classes(runs, n, out);
    for (size_t i = 1; i < n; i++)
        put_movers(&runs[0], &runs[i], out);
    buf_puts(out, "<h3>Jobs over time</h3><p class='dim'>Light: waits. Dark: "
                  "from its first start to its end.</p>\n");
    for (size_t i = 0; i < n && i < BARS_RUNS; i++)
        report_bars(&runs[i], out);
}

void report_page(const struct report *report, struct firn_buf *out)
{
    buf_puts(out, "<!doctype html>\n<html lang='en'><head><meta "
                  "charset='utf-8'><title>firn: report</title>");
    buf_puts(out, style);
    buf_printf(out,
               "</head><body>\n<h1>Report of %zu simulations</h1>\n<p "
               "class='dim'>firn %s. JCT: completion time of a job, from its "
               "submit to its end.</p>\n",
               report->runs.n, FIRN_VERSION);
    if (report->intro != NULL)
        buf_puts(out, report->intro);
    for (size_t i = 0, n; i < report->runs.n; i += n) {
        const struct report_run *first = &report->runs.at[i];
        for (n = 1; i + n < report->runs.n &&
                    strcmp(first[n].trace, first->trace) == 0;)
            n++;
        put_trace(first, n, out);
    }
    buf_puts(out, "</body></html>\n");
}
