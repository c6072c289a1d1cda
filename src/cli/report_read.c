/* report_read.c - the files of `firn sim --out` as runs with their statistics.
 *
 * Columns are found by the names in the first line, so that files of older and
 * newer versions can be read as long as they have those that are needed. A row
 * that is not as long as the first is left out.
 *
 * Cost: reading, and a sort of the jobs of each run.
 */
#include "base/buf.h"
#include "base/files.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "cli/report.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64 };

struct row {
    char *cells[COLUMNS_MAX];
    size_t n;
};

/* Cuts a line of CSV in place; quotes around a cell are taken off. */
static void cut(char *line, struct row *row)
{
    row->n = 0;
    for (char *at = line; row->n < COLUMNS_MAX;) {
        bool is_quoted = *at == '"';
        char *to = at += is_quoted;
        row->cells[row->n++] = at;
        while (*at != '\0' && (is_quoted || *at != ',')) {
            if (is_quoted && at[0] == '"' && at[1] != '"') {
                is_quoted = false;
                at++;
                continue;
            }
            at += is_quoted && at[0] == '"'; /* two quotes mean one */
            *to++ = *at++;
        }
        bool is_last = *at == '\0';
        *to = '\0';
        if (is_last)
            return;
        at++;
    }
}

struct table_in {
    struct lines *lines;
    struct firn_buf first; /* the first line */
    struct row head, row;
};

static enum firn_status in_open(struct table_in *in, const char *path,
                                struct firn_error *err)
{
    *in = (struct table_in){0};
    FIRN_TRY(lines_open(&in->lines, path, err));
    char *line = lines_next(in->lines);
    buf_puts(&in->first, line != NULL ? line : "");
    cut(in->first.at, &in->head);
    return FIRN_OK;
}

static void in_close(struct table_in *in)
{
    lines_close(in->lines);
    buf_release(&in->first);
}

static bool in_next(struct table_in *in)
{
    for (char *line; (line = lines_next(in->lines)) != NULL;) {
        if (lines_bad(in->lines))
            continue;
        cut(line, &in->row);
        if (in->row.n == in->head.n)
            return true;
    }
    return false;
}

static const char *cell(const struct table_in *in, const char *name)
{
    for (size_t i = 0; i < in->head.n; i++)
        if (strcmp(in->head.cells[i], name) == 0)
            return in->row.cells[i];
    return "";
}

/* NaN: there is none. */
static double number(const struct table_in *in, const char *name)
{
    double value;
    return str_double(cell(in, name), &value) ? value : (double)NAN;
}

/* --- a run -----------------------------------------------------------------
 */

static int by_name(const void *one, const void *two)
{
    const struct report_job *a = one, *b = two;
    return strcmp(a->name, b->name);
}

static enum firn_status read_jobs(struct report_run *run, const char *path,
                                  struct firn_error *err)
{
    struct table_in in;
    FIRN_TRY(in_open(&in, path, err));
    while (in_next(&in)) {
        struct report_job job = {.gpus = number(&in, "gpus"),
                                 .submit_s = number(&in, "submit_s"),
                                 .start_s = number(&in, "first_start_s"),
                                 .end_s = number(&in, "end_s"),
                                 .jct_s = number(&in, "jct_s"),
                                 .queue_s = number(&in, "queue_s"),
                                 .held_s = number(&in, "held_s"),
                                 .restarts = number(&in, "restarts"),
                                 .rho = number(&in, "rho")};
        if (isnan(job.jct_s) || isnan(job.submit_s) || isnan(job.end_s))
            continue;
        job.name = mem_strdup(cell(&in, "name"));
        vec_add(&run->jobs, job);
    }
    in_close(&in);
    if (run->jobs.n == 0)
        return firn_fail(err, FIRN_EDATA, "%s: no finished job", path);
    qsort(run->jobs.at, run->jobs.n, sizeof *run->jobs.at, by_name);
    return FIRN_OK;
}

/* A run without it has no charts over time. */
static void read_timeline(struct report_run *run, const char *path)
{
    struct table_in in;
    struct firn_error none;
    if (in_open(&in, path, &none) != FIRN_OK)
        return;
    while (in_next(&in)) {
        struct report_moment moment = {
            number(&in, "time_s"), number(&in, "running"),
            number(&in, "waiting"), number(&in, "gpus_up"),
            number(&in, "gpus_held")};
        if (!isnan(moment.at_s) && !isnan(moment.gpus_held))
            vec_add(&run->timeline, moment);
    }
    in_close(&in);
}

double report_percentile(const double *sorted, size_t n, double share)
{
    if (n == 0)
        return (double)NAN;
    double rank = share * (double)(n - 1);
    size_t low = (size_t)rank;
    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (rank - (double)low) * (sorted[low + 1] - sorted[low]);
}

static void count(struct report_run *run)
{
    size_t n = run->jobs.n;
    double *jct_s = mem_new(n, sizeof *jct_s);
    double first_s = INFINITY, last_s = 0, held = 0, up = 0;
    for (size_t i = 0; i < n; i++) {
        const struct report_job *job = &run->jobs.at[i];
        jct_s[i] = job->jct_s;
        run->jct_s += job->jct_s / (double)n;
        run->queue_s += isnan(job->queue_s) ? 0 : job->queue_s / (double)n;
        run->restarts += isnan(job->restarts) ? 0 : job->restarts;
        first_s = fmin(first_s, job->submit_s);
        last_s = fmax(last_s, job->end_s);
    }
    sort_doubles(jct_s, n);
    run->p50_s = report_percentile(jct_s, n, 0.5);
    run->p90_s = report_percentile(jct_s, n, 0.9);
    run->p99_s = report_percentile(jct_s, n, 0.99);
    run->makespan_s = last_s - first_s;
    for (size_t i = 0; i + 1 < run->timeline.n; i++) {
        const struct report_moment *at = &run->timeline.at[i];
        held += at->gpus_held * (at[1].at_s - at->at_s);
        up += at->gpus_up * (at[1].at_s - at->at_s);
    }
    run->held = up > 0 ? held / up : (double)NAN;
    mem_free(jct_s);
}

static void run_release(struct report_run *run)
{
    for (size_t i = 0; i < run->jobs.n; i++)
        mem_free(run->jobs.at[i].name);
    vec_release(&run->jobs);
    vec_release(&run->timeline);
    mem_free(run->trace);
    mem_free(run->policy);
}

/* "DIR/TRACE--POLICY.jobs.csv" */
static enum firn_status read_run(struct report_run *run, const char *path,
                                 struct firn_error *err)
{
    static const char ending[] = ".jobs.csv";
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    struct firn_buf other = {0};
    run->trace = mem_strdup(name);
    run->trace[strlen(name) - strlen(ending)] = '\0';
    char *cut_at = strstr(run->trace, "--");
    run->policy = mem_strdup(cut_at != NULL ? cut_at + 2 : run->trace);
    if (cut_at != NULL)
        *cut_at = '\0';
    FIRN_TRY(read_jobs(run, path, err));
    buf_add(&other, path, strlen(path) - strlen(ending));
    buf_puts(&other, ".timeline.csv");
    read_timeline(run, other.at);
    buf_release(&other);
    count(run);
    return FIRN_OK;
}

static int by_trace_and_jct(const void *one, const void *two)
{
    const struct report_run *a = one, *b = two;
    int order = strcmp(a->trace, b->trace);
    if (order == 0)
        order = (a->jct_s > b->jct_s) - (a->jct_s < b->jct_s);
    return order != 0 ? order : strcmp(a->policy, b->policy);
}

enum firn_status report_add(struct report *report, const char *path,
                            struct firn_error *err)
{
    return report_add_as(report, path, NULL, NULL, err);
}

enum firn_status report_add_as(struct report *report, const char *path,
                               const char *trace, const char *policy,
                               struct firn_error *err)
{
    struct report_run run = {0};
    enum firn_status status = read_run(&run, path, err);
    if (status != FIRN_OK) {
        run_release(&run);
        return status;
    }
    if (trace != NULL) {
        mem_free(run.trace);
        run.trace = mem_strdup(trace);
    }
    if (policy != NULL) {
        mem_free(run.policy);
        run.policy = mem_strdup(policy);
    }
    vec_add(&report->runs, run);
    qsort(report->runs.at, report->runs.n, sizeof *report->runs.at,
          by_trace_and_jct);
    return FIRN_OK;
}

enum firn_status report_read(struct report *report, const char *dir,
                             struct firn_error *err)
{
    struct files files = {0};
    enum firn_status status = FIRN_OK;
    if (!files_list(&files, dir, ".jobs.csv"))
        return firn_fail(err, FIRN_EIO, "cannot read the folder '%.300s': %s",
                         dir, strerror(errno));
    for (size_t i = 0; i < files.n && status == FIRN_OK; i++)
        status = report_add(report, files.at[i], err);
    if (status == FIRN_OK && files.n == 0)
        status = firn_fail(err, FIRN_ENOENT,
                           "the folder '%.300s' has no results: 'firn sim "
                           "--out %.300s' writes some",
                           dir, dir);
    files_release(&files);
    return status;
}

void report_release(struct report *report)
{
    for (size_t i = 0; i < report->runs.n; i++)
        run_release(&report->runs.at[i]);
    vec_release(&report->runs);
}
