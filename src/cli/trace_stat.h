/* trace_stat.h - statistics of a trace.
 *
 * Durations are kept in memory (8 bytes per job) for exact percentiles.
 */
#ifndef CLI_TRACE_STAT_H
#define CLI_TRACE_STAT_H
#include "base/vec.h"
#include <firn/cluster.h>
#include <firn/trace.h>

struct trace_size {
    int gpus;
    long jobs;
};

struct trace_stat {
    const char *path;   /* borrowed */
    const char *format; /* static */
    struct firn_trace_report report;
    long nominal, elastic, sharing;
    VEC(struct trace_size) sizes; /* by gpus, ascending */
    VEC(double) durations_s;      /* ascending */
    double gpu_s, duration_sum_s;
    double first_s, last_s; /* submissions */
    double hour;            /* the hour being counted, from time 0 */
    long hour_jobs;
    double peak_hour; /* the first hour with the most arrivals */
    long peak_jobs;
    int cluster_gpus; /* 0: no cluster was given */
    long too_large;   /* jobs with more GPUs than the cluster */
};

/* Reads the whole trace. The caller releases `out`. */
enum firn_status trace_stat_read(struct trace_stat *out, const char *path,
                                 bool strict,
                                 const struct firn_cluster *cluster,
                                 struct firn_error *err);
void trace_stat_release(struct trace_stat *stat);

/* Append the statistics as text, or as one JSON object. */
void trace_stat_table(const struct trace_stat *stat, struct firn_buf *out);
void trace_stat_json(const struct trace_stat *stat, struct firn_buf *out);

#endif
