/* herd.h - the mark that all processes of an attempt have.
 *
 *     FIRN_HERD=MARK-JOB-ATTEMPT        in the environment of each worker, and
 * so of what a worker starts FIRN_SHEPHERD=MARK-JOB-ATTEMPT    in that of their
 * shepherd alone
 *
 * MARK is drawn once for a state folder and kept in its database. So processes
 * are known whatever became of the files of a job: a job that deletes its lock
 * and its pid file is still found in /proc, taken over, and not started a
 * second time beside itself. A process that clears its environment is found by
 * its shepherd, which no job can change, and by the lock that it has open.
 */
#ifndef ENGINE_HERD_H
#define ENGINE_HERD_H
#include "base/vec.h"
#include "engine/procs.h"
#include <firn/job.h>

enum { HERD_TEXT = 96 };

/* The variable of a worker, of a shepherd. No variable of one attempt begins
 * with that of another. Empty without a mark. */
void herd_worker(char out[HERD_TEXT], const char *mark, firn_job_id job,
                 int64_t attempt);
void herd_shepherd(char out[HERD_TEXT], const char *mark, firn_job_id job,
                   int64_t attempt);

struct herd_process {
    struct procs_id id;
    firn_job_id job;
    int64_t attempt;
    bool is_shepherd;
};

/* The processes of this state folder, now. */
struct herd {
    VEC(struct herd_process) at;
};
/* False: not all processes of the host could be looked at, errno says why.
 * Without a mark there are none. Release in any case. */
bool herd_look(struct herd *out, const char *mark);
void herd_release(struct herd *herd);

#endif
