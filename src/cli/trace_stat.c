/* trace_stat.c - statistics of a trace.
 *
 * The load is the requested GPU time divided by the GPU time of the cluster
 * between the first and the last submission; above 1, queues grow. Hour 0
 * begins at time 0 of the trace. Percentiles interpolate linearly between
 * ranks, as in simulation results.
 */
#include "cli/trace_stat.h"
#include "base/buf.h"
#include "base/sort.h"
#include "base/table.h"
#include <math.h>

static void count_size(struct trace_stat *stat, int gpus)
{
    size_t i = stat->sizes.n;
    while (i > 0 && stat->sizes.at[i - 1].gpus > gpus)
        i--;
    if (i > 0 && stat->sizes.at[i - 1].gpus == gpus) {
        stat->sizes.at[i - 1].jobs++;
        return;
    }
    vec_add(&stat->sizes, ((struct trace_size){0}));
    for (size_t j = stat->sizes.n - 1; j > i; j--)
        stat->sizes.at[j] = stat->sizes.at[j - 1];
    stat->sizes.at[i] = (struct trace_size){gpus, 1};
}

static void count_hour(struct trace_stat *stat, double submit_s)
{
    double hour = floor(submit_s / 3600);
    if (hour > stat->hour)
        stat->hour_jobs = 0;
    stat->hour = hour;
    if (++stat->hour_jobs <= stat->peak_jobs)
        return;
    stat->peak_jobs = stat->hour_jobs;
    stat->peak_hour = hour;
}

static void count_job(struct trace_stat *stat, const struct firn_job_spec *spec)
{
    if (stat->durations_s.n == 0)
        stat->first_s = spec->submit_s;
    stat->last_s = spec->submit_s;
    stat->gpu_s += spec->gpus * spec->duration_s;
    stat->duration_sum_s += spec->duration_s;
    stat->nominal += spec->is_nominal;
    stat->elastic += spec->gpus_min < spec->gpus_max;
    stat->sharing += spec->may_share;
    stat->too_large +=
        stat->cluster_gpus > 0 && spec->gpus_min > stat->cluster_gpus;
    count_size(stat, spec->gpus);
    count_hour(stat, spec->submit_s);
    vec_add(&stat->durations_s, spec->duration_s);
}

enum firn_status trace_stat_read(struct trace_stat *out, const char *path,
                                 bool strict,
                                 const struct firn_cluster *cluster,
                                 struct firn_error *err)
{
    struct firn_trace *trace;
    struct firn_trace_options options = {.strict = strict};
    FIRN_TRY(firn_trace_open(&trace, path, &options, err));
    struct trace_stat stat = {.path = path,
                              .format = firn_trace_format(trace)->name};
    stat.cluster_gpus = cluster != NULL ? cluster->ngpus : 0;
    struct firn_job_spec spec;
    struct firn_error end = {0};
    while (firn_trace_next(trace, &spec, &end))
        count_job(&stat, &spec);
    stat.report = *firn_trace_report(trace);
    firn_trace_close(trace);
    if (end.status != FIRN_OK) {
        trace_stat_release(&stat);
        return firn_fail(err, end.status, "%s", end.text);
    }
    sort_doubles(stat.durations_s.at, stat.durations_s.n);
    *out = stat;
    return FIRN_OK;
}

void trace_stat_release(struct trace_stat *stat)
{
    vec_release(&stat->sizes);
    vec_release(&stat->durations_s);
}

/* NaN without jobs. */
static double percentile(const struct trace_stat *stat, double share)
{
    size_t n = stat->durations_s.n;
    if (n == 0)
        return NAN;
    double rank = share * (double)(n - 1);
    size_t low = (size_t)rank;
    double a = stat->durations_s.at[low];
    double b = stat->durations_s.at[low + 1 < n ? low + 1 : low];
    return a + (rank - (double)low) * (b - a);
}

static double span_s(const struct trace_stat *stat)
{
    return stat->last_s - stat->first_s;
}

/* NaN if all jobs are submitted at once, or no cluster was given. */
static double load(const struct trace_stat *stat)
{
    double room = stat->cluster_gpus * span_s(stat);
    return room > 0 ? stat->gpu_s / room : NAN;
}

static double per_hour(const struct trace_stat *stat)
{
    double span = span_s(stat);
    return span > 0 ? (double)stat->durations_s.n / span * 3600 : NAN;
}

static double mean_s(const struct trace_stat *stat)
{
    return stat->durations_s.n > 0
               ? stat->duration_sum_s / (double)stat->durations_s.n
               : NAN;
}

static void put_count(struct table *table, const char *what, long n)
{
    if (n == 0)
        return;
    table_cell(table, what);
    table_cellf(table, "%ld", n);
}

static void put_sizes(const struct trace_stat *stat, struct table *table)
{
    struct firn_buf line = {0};
    for (size_t i = 0; i < stat->sizes.n; i++) {
        const struct trace_size *size = &stat->sizes.at[i];
        buf_printf(&line, "%s%d: %ld (%.1f %%)", i > 0 ? ", " : "", size->gpus,
                   size->jobs,
                   100 * (double)size->jobs / (double)stat->durations_s.n);
    }
    table_cell(table, "GPUs: jobs");
    table_cell(table, line.n > 0 ? line.at : "-");
    buf_release(&line);
}

static void put_times(const struct trace_stat *stat, struct table *table)
{
    table_cell(table, "GPU-hours");
    table_cellf(table, "%.2f", stat->gpu_s / 3600);
    table_cell(table, "span");
    table_cellf(table, "%.2f h, from %.15g to %.15g s", span_s(stat) / 3600,
                stat->first_s, stat->last_s);
    if (stat->cluster_gpus > 0) {
        table_cell(table, "load");
        if (isnan(load(stat)))
            table_cellf(table, "- on %d GPUs: all at once", stat->cluster_gpus);
        else
            table_cellf(table, "%.4f on %d GPUs", load(stat),
                        stat->cluster_gpus);
    }
    table_cell(table, "duration");
    table_cellf(table, "mean %.1f s, p50 %.1f, p90 %.1f, p99 %.1f, max %.1f",
                mean_s(stat), percentile(stat, 0.5), percentile(stat, 0.9),
                percentile(stat, 0.99), percentile(stat, 1));
    table_cell(table, "arrivals");
    if (isnan(per_hour(stat)))
        table_cell(table, "all at once");
    else
        table_cellf(table, "%.2f an hour, at most %ld (hour %.0f)",
                    per_hour(stat), stat->peak_jobs, stat->peak_hour);
}

void trace_stat_table(const struct trace_stat *stat, struct firn_buf *out)
{
    struct table table;
    table_init(&table, "ll");
    table_cell(&table, "trace");
    table_cell(&table, stat->path);
    table_cell(&table, "format");
    table_cell(&table, stat->format);
    table_cell(&table, "jobs");
    table_cellf(&table, "%ld", stat->report.jobs);
    put_count(&table, "ignored", stat->report.ignored);
    put_count(&table, "bad", stat->report.bad);
    put_count(&table, "unsorted", stat->report.unsorted);
    put_count(&table, "nominal", stat->nominal);
    put_count(&table, "elastic", stat->elastic);
    put_count(&table, "may share", stat->sharing);
    put_count(&table, "too large", stat->too_large);
    if (stat->durations_s.n > 0) {
        put_sizes(stat, &table);
        put_times(stat, &table);
    }
    table_print(&table, out);
    table_release(&table);
}

static void json_long(struct firn_buf *out, const char *key, long value)
{
    buf_printf(out, ",\"%s\":%ld", key, value);
}

static void json_double(struct firn_buf *out, const char *key, double value)
{
    buf_printf(out, ",\"%s\":", key);
    buf_json_double(out, value);
}

void trace_stat_json(const struct trace_stat *stat, struct firn_buf *out)
{
    buf_puts(out, "{\"trace\":");
    buf_json_string(out, stat->path);
    buf_puts(out, ",\"format\":");
    buf_json_string(out, stat->format);
    json_long(out, "jobs", stat->report.jobs);
    json_long(out, "ignored_rows", stat->report.ignored);
    json_long(out, "bad_rows", stat->report.bad);
    json_long(out, "unsorted_rows", stat->report.unsorted);
    json_long(out, "nominal_jobs", stat->nominal);
    json_long(out, "elastic_jobs", stat->elastic);
    json_long(out, "sharing_jobs", stat->sharing);
    buf_puts(out, ",\"gpus\":[");
    for (size_t i = 0; i < stat->sizes.n; i++)
        buf_printf(out, "%s{\"gpus\":%d,\"jobs\":%ld}", i > 0 ? "," : "",
                   stat->sizes.at[i].gpus, stat->sizes.at[i].jobs);
    buf_putc(out, ']');
    json_double(out, "gpu_hours", stat->gpu_s / 3600);
    json_double(out, "first_submit_s", stat->first_s);
    json_double(out, "span_s", span_s(stat));
    if (stat->cluster_gpus > 0) {
        json_long(out, "cluster_gpus", stat->cluster_gpus);
        json_long(out, "too_large_jobs", stat->too_large);
        json_double(out, "load", load(stat));
    }
    json_double(out, "duration_mean_s", mean_s(stat));
    json_double(out, "duration_p50_s", percentile(stat, 0.5));
    json_double(out, "duration_p90_s", percentile(stat, 0.9));
    json_double(out, "duration_p99_s", percentile(stat, 0.99));
    json_double(out, "duration_max_s", percentile(stat, 1));
    json_double(out, "arrivals_per_hour", per_hour(stat));
    json_double(out, "peak_hour", stat->peak_hour);
    json_long(out, "peak_hour_jobs", stat->peak_jobs);
    buf_putc(out, '}');
}
