/* reprotrace.h - traces of scenarios: files, or made from files.
 *
 * A trace of a scenario is a file below $FIRN_DATA, an absolute path, or one of
 * these, where FILE is such a file:
 *
 *     gen:OPTIONS             output of `firn trace gen OPTIONS` for the
 *                             scenario's cluster
 *     join:FILE FILE ...      the rows of all files, which have one header
 *     thin:N FILE             every Nth row, from the first
 *     swap:A=B,C=D FILE       all rows; in a row with A, A is replaced by B,
 *                             else C by D, ...
 *     keep:A,B FILE           the rows that contain A or B; with !A,B the rows
 *                             that contain neither
 *     draw:N,SEED,SHARE,COLUMN FILE ...
 *                             N random rows, a SHARE of them with a value above
 *                             4 in COLUMN
 *     sample:FILE KEY=V ...   jobs drawn from a trace; see below
 *
 * After thin, swap and keep, FILE may also be gen: as in keep:A gen:OPTIONS.
 *
 * A sample is drawn, without replacement, from the jobs of FILE that are
 * submitted within `hours` of a day and last at least a minute. A job keeps its
 * time of day. Its GPU-hours (GPUs x duration, at most `cap`) select a list of
 * tasks, of which one is drawn. Keys:
 *
 *     jobs=N seed=S hours=3-7 cap=100
 *     1:TASK,TASK,...         tasks of jobs below 1 GPU-hour; lists in
 * ascending order, the last one also for all larger jobs
 *
 * TASK is APP*WEIGHT@MIN-MAX/BATCH[^SHARE]. It is drawn by WEIGHT; the job gets
 * its number of GPUs, limited to MIN..MAX, and keeps its GPU-hours. With SHARE
 * at most that share of its layers may be frozen, and the job is in the group
 * "bound"; other tasks of the same application are in the group "free".
 */
#ifndef REPRO_TRACE_H
#define REPRO_TRACE_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

/* Is it made from files, i.e. one of the kinds above? */
bool trace_is_made(const char *name);

/* Is it drawn at random (by gen, draw or sample), so that another seed gives
 * another workload? */
bool trace_is_drawn(const char *name);

/* Sets the path of a file: below $FIRN_DATA unless absolute or docs/..., which
 * is below the current directory. FIRN_ENOENT if it is not there. */
enum firn_status trace_path(const char *name, struct firn_buf *out,
                            struct firn_error *err);

/* Writes the trace to `path`. FIRN_ENOENT if one of its files is not there,
 * FIRN_EINVAL if the description is invalid. */
enum firn_status trace_make(const char *name, const char *cluster,
                            const char *path, struct firn_error *err);

/* Expands "a{1..3}b" to a1b, a2b, a3b and "a{1,4}b" to a1b, a4b; appends other
 * names unchanged. */
struct words;
void trace_spread(const char *pattern, struct words *out);

#endif
