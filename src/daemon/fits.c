/* fits.c - asks core whether the cluster accepts a job (job_accept), before the
 * job is stored.
 *
 * A function of its arguments. A language model for which firn chooses the
 * number of GPUs is not judged here: its plans are searched later.
 */
#include "daemon/fits.h"
#include "core/accept.h"
#include "daemon/jobfile.h"

enum firn_status fits_check(const struct firn_cluster *cluster,
                            const struct live_ask *ask, struct firn_error *err)
{
    struct firn_job_spec spec;
    struct job_accept accept = {.resizes = ask->gpus_min < ask->gpus_max};
    char why[JOB_WHY_MAX];
    if (ask->gpus_max < 1)
        return FIRN_OK;
    jobfile_spec(ask, 0, &spec);
    if (job_accept(&spec, cluster, &accept, why))
        return FIRN_OK;
    return firn_fail(err, FIRN_EREFUSED,
                     "the job can never run here: it %s (--anyway submits it "
                     "all the same)",
                     why);
}
