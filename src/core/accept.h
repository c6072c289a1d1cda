/* accept.h - can this cluster ever run that job?
 */
#ifndef CORE_ACCEPT_H
#define CORE_ACCEPT_H
#include <firn/job.h>

enum { JOB_WHY_MAX = 160 };

struct job_accept {
    bool resizes;   /* set by the caller: the policy may run an elastic job on
                     * fewer GPUs than it asked for */
    uint32_t types; /* mask of the types the job accepts and fits on */
    int gpus;       /* how many GPUs those are, up or down; for a job of one
                     * type, of the type that has most */
};

/* False, with a reason in `why` ("wants 8 GPUs, ..."), when even the whole
 * empty cluster could not give it the GPUs it asked for, or, where the policy
 * resizes, the fewest it accepts. */
bool job_accept(const struct firn_job_spec *spec,
                const struct firn_cluster *cluster, struct job_accept *out,
                char why[JOB_WHY_MAX]);

#endif
