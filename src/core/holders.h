/* holders.h - which jobs have half-shares on a board.
 *
 * Jobs that share GPUs slow each other down, so that every report of one asks
 * for the others. This index answers without a walk over all jobs.
 */
#ifndef CORE_HOLDERS_H
#define CORE_HOLDERS_H
#include "base/vec.h"
#include "core/freemap.h"
#include <firn/job.h>

struct holders_board {
    VEC(const struct firn_job *) jobs;
};

struct holders {
    const struct freemap *map;    /* borrowed: it numbers the boards */
    struct holders_board *boards; /* NULL until a job shares */
};

void holders_release(struct holders *holders);
/* The job has got its GPUs, and is about to lose them. O(parts), and nothing if
 * it does not share. */
void holders_add(struct holders *holders, const struct firn_job *job);
void holders_remove(struct holders *holders, const struct firn_job *job);
/* Of the jobs with half-shares of these GPUs, the one with the lowest id above
 * `after`; NULL: none. O(parts x jobs on a board). */
const struct firn_job *holders_next(const struct holders *holders,
                                    const struct firn_alloc *gpus,
                                    firn_job_id after);

#endif
