/* herd.h - the mark in the environment of all processes of an attempt.
 *
 *     FIRN_HERD=MARK-JOB-ATTEMPT      in each worker, inherited by its children
 *     FIRN_SHEPHERD=MARK-JOB-ATTEMPT  in the shepherd only
 *     FIRN_AHEAD=MARK-JOB-...         in both, as long as they are prepared for
 *                                     an attempt that is still to come
 *
 * MARK is a random number of the state folder, kept in its database. By it the
 * engine finds processes in /proc even if a job deleted its lock and pid files:
 * the attempt is taken over instead of being started a second time. A process
 * that clears its environment is found by its shepherd, which a job cannot
 * change, and by its open lock file.
 */
#ifndef ENGINE_HERD_H
#define ENGINE_HERD_H
#include "base/vec.h"
#include "engine/procs.h"
#include <firn/job.h>

enum { HERD_TEXT = 96 };

/* The variable of a worker, of a shepherd; empty without a mark. No attempt's
 * variable is a prefix of another attempt's. */
void herd_worker(char out[HERD_TEXT], const char *mark, firn_job_id job,
                 int64_t attempt);
void herd_shepherd(char out[HERD_TEXT], const char *mark, firn_job_id job,
                   int64_t attempt);

struct herd_process {
    struct procs_id id;
    firn_job_id job;
    int64_t attempt;
    bool is_shepherd;
    bool is_prepared; /* started for an attempt that is still to come: 0 */
};

/* The marked processes of this state folder. */
struct herd {
    VEC(struct herd_process) at;
};
/* Searches all processes of the host. False: some could not be read (errno).
 * Without a mark it finds none. Release `out` in any case. */
bool herd_look(struct herd *out, const char *mark);
void herd_release(struct herd *herd);

#endif
