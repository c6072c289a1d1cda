/* measure.h - what a command costs, and lines for `make bench`.
 *
 * A line is name, value, relation, limit and unit, separated by tabs;
 * bench/run.sh formats them, prints met or missed, and writes them as JSON.
 */
#ifndef LIB_MEASURE_H
#define LIB_MEASURE_H

struct measured {
    double cpu_s;    /* user and system, children included */
    double peak_mib; /* most memory resident in any one process */
    int status;      /* as the command exited; -1 when it did not */
};

/* Runs argv[0], which ends with NULL, its output thrown away. */
struct measured measure_command(const char *const argv[]);

/* CPU time of this process. */
double measure_cpu_s(void);

/* CPU time of a running process; NaN when there is none. */
double measure_cpu_of(int pid);

/* Kills all child processes, among them orphans that this process adopted as
 * their subreaper, until none is left. */
void measure_end_children(void);

/* Prints a line: `value` must be at most `limit`, or equal to it, or is only
 * reported. */
void measure_at_most(const char *name, double value, double limit,
                     const char *unit);
void measure_exactly(const char *name, double value, double limit,
                     const char *unit);
void measure_tell(const char *name, double value, const char *unit);

/* An engine on which time stands still: it forecasts, and takes every step. */
struct firn_engine_def;
struct firn_forecast_def;
struct firn_engine_def measure_engine(const struct firn_forecast_def *forecast);

/* A remark between the lines. */
void measure_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
