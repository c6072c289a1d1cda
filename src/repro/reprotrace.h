/* reprotrace.h - traces that scenarios make up.
 *
 * A trace of a scenario is a file below $FIRN_DATA, an absolute path, or one
 * of these, in which FILE is such a file:
 *
 *     gen:OPTIONS             what `firn trace gen OPTIONS` writes, for the
 *                             scenario's cluster
 *     join:FILE FILE ...      the rows of all of them, which have one header
 *     thin:N FILE             every Nth row, from the first
 *     swap:A=B,C=D FILE       all rows, with B wherever one has A, and so on;
 *                             the first pair that a row has counts
 *     keep:A,B FILE           the rows that have A, or B; with !A,B those that
 *                             have neither
 *     draw:N,SEED,SHARE,COLUMN FILE ...
 *                             N rows of all of them, drawn so that SHARE of
 *                             them have more than 4 in that column
 *     sample:FILE KEY=V ...   jobs drawn from a trace; see below
 *
 * FILE may be a gen: too, behind thin, swap or keep: keep:A gen:OPTIONS.
 *
 * A sample is drawn from the jobs of FILE that are submitted within `hours`
 * of a day and last a minute or longer, each at most once. A job keeps its
 * time of day; its GPU-hours (GPUs x duration, at most `cap`) choose the list
 * of tasks, its draw the task. Keys:
 *
 *     jobs=N seed=S hours=3-7 cap=100
 *     1:TASK,TASK,...         tasks of jobs below 1 GPU-hour; the lists are in
 *                             rising order, the last is for all others too
 *
 * TASK is APP*WEIGHT@MIN-MAX/BATCH[^SHARE]: drawn by weight; on MIN to MAX
 * GPUs, as many as the job asked for within these bounds, its GPU-hours kept.
 * With a SHARE no more than that of its layers may be frozen, and the job is of
 * the group "bound"; other tasks of the same application are of "free".
 */
#ifndef REPRO_TRACE_H
#define REPRO_TRACE_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>

/* Is it none of the files? */
bool trace_is_made(const char *name);

/* The path of a file: below $FIRN_DATA unless it is absolute. FIRN_ENOENT with
 * a sentence when it is not there. */
enum firn_status trace_path(const char *name, struct firn_buf *out,
                            struct firn_error *err);

/* Writes a made-up trace to `path`. FIRN_ENOENT when a file of it is not
 * there, FIRN_EINVAL when it makes no sense. */
enum firn_status trace_make(const char *name, const char *cluster,
                            const char *path, struct firn_error *err);

/* "a{1..3}b" into a1b, a2b, a3b; without braces, itself. */
struct words;
void trace_spread(const char *pattern, struct words *out);

#endif
