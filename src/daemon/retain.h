/* retain.h - finished jobs, events and reports are kept for a time and up to a
 * number, then removed.
 *
 *     keep-jobs, keep-jobs-days   firn's own files of finished jobs: log, the
 *                                 folders of its starts
 *     keep-rows                   finished jobs in the database
 *     keep-events-days            events, and reports of finished jobs
 *
 * What a job wrote itself is never removed: its working directory and its
 * checkpoints, also where these are inside of its folder. The folder goes when
 * nothing is left in it.
 */
#ifndef DAEMON_RETAIN_H
#define DAEMON_RETAIN_H
#include <firn/job.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct retain;

/* One step, if one is due; the time of the next. It takes some milliseconds at
 * most, however much there is to remove. */
double retain_turn(struct loop *loop, double now_s);
void retain_free(struct retain *retain);

/* --- the files: retain_files.c -------------------------------------------- */

enum retain_left {
    RETAIN_GONE, /* firn's files are removed, now or before */
    RETAIN_MORE, /* not all: call it again */
    RETAIN_KEPT  /* a process has the job's lock, or it cannot be removed */
};
/* How much one call does. */
struct retain_budget {
    int nfiles;     /* still to be removed */
    double until_s; /* by clock_elapsed_s() */
};
/* Removes firn's files of a finished job below the state folder, those of its
 * starts 1 to `nstarts`. */
enum retain_left retain_files(const char *state, firn_job_id id,
                              int64_t nstarts, struct retain_budget *budget);

#endif
