/* report.h - results of simulations as one page: `firn report`.
 *
 * A run is what `firn sim --out DIR` wrote of one trace and policy:
 * DIR/TRACE--POLICY.jobs.csv, and its .timeline.csv if it is there.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H
#include "base/vec.h"
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

struct report_job {
    char *name;
    double gpus, submit_s, start_s, end_s, jct_s, queue_s, held_s, restarts;
    double rho; /* finish-time fairness; NaN: the file has none */
};

struct report_moment {
    double at_s, running, waiting, gpus_up, gpus_held;
};

struct report_run {
    char *trace, *policy;
    VEC(struct report_job) jobs; /* by name */
    VEC(struct report_moment) timeline;
    /* Of all jobs. */
    double jct_s, p50_s, p90_s, p99_s, queue_s, makespan_s, restarts;
    double held; /* share of the GPUs that are up, over time; NaN: unknown */
};

struct report {
    VEC(struct report_run) runs; /* by trace, then by mean JCT */
    const char *intro;           /* HTML below the title; NULL: none */
};

/* Adds the runs of a folder. FIRN_ENOENT: it has none. */
enum firn_status report_read(struct report *report, const char *dir,
                             struct firn_error *err);
/* Adds one run, by the path of its .jobs.csv. */
enum firn_status report_add(struct report *report, const char *path,
                            struct firn_error *err);
/* The same, under these names. */
enum firn_status report_add_as(struct report *report, const char *path,
                               const char *trace, const char *policy,
                               struct firn_error *err);
void report_release(struct report *report);

/* A percentile of sorted numbers, between ranks; NaN: there are none. */
double report_percentile(const double *sorted, size_t n, double share);

/* The whole page, self-contained. */
void report_page(const struct report *report, struct firn_buf *out);

/* Writes each chart of the page into the folder: N-TITLE.svg, and with `is_png`
 * also .png, for which rsvg-convert must be installed. */
enum firn_status report_charts(const struct firn_buf *page, const char *dir,
                               bool is_png, struct firn_error *err);

/* --- charts: report_svg.c ------------------------------------------------ */

struct report_line {
    const char *name;
    const double *x, *y;
    size_t n;
};
struct report_chart {
    const char *title, *x_title;
    const struct report_line *lines;
    size_t nlines;
    bool is_log, is_step; /* x by logarithms, in seconds; steps */
};
void report_svg(const struct report_chart *chart, struct firn_buf *out);
/* Jobs as bars: when they waited, and when they ran. */
void report_bars(const struct report_run *run, struct firn_buf *out);
/* The colour of the i-th line. */
const char *report_colour(size_t i);
/* Text with < > & " and ' escaped. */
void report_text(struct firn_buf *out, const char *text);
/* "3h20m" */
void report_span(struct firn_buf *out, double seconds);

#endif
