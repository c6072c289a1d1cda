/* fits.c - asks core whether the cluster accepts a job (job_accept), before the
 * job is stored; looks at its deadline and its working directory.
 *
 * A function of its arguments, and of the folders of this host. A language
 * model for which firn chooses the number of GPUs is not judged here: its plans
 * are searched later.
 */
#include "daemon/fits.h"
#include "core/accept.h"
#include "daemon/jobfile.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

enum firn_status fits_deadline(const struct live_ask *ask, double now_s,
                               struct firn_error *err)
{
    double ago_s = now_s - ask->deadline_s;
    if (!(ask->deadline_s > 0) || ago_s <= 0)
        return FIRN_OK;
    return firn_fail(err, FIRN_EREFUSED,
                     "the deadline of the job was %.1f h ago (--anyway submits "
                     "it all the same)",
                     ago_s / 3600);
}

enum firn_status fits_workdir(const struct live_ask *ask,
                              struct firn_error *err)
{
    char near[1024];
    struct stat is;
    if (ask->workdir[0] != '/' || strlen(ask->workdir) >= sizeof near)
        return FIRN_OK;
    if (stat(ask->workdir, &is) == 0)
        return S_ISDIR(is.st_mode)
                   ? FIRN_OK
                   : firn_fail(err, FIRN_EREFUSED,
                               "the working directory '%.200s' is not a "
                               "folder (--anyway submits it all the same)",
                               ask->workdir);
    if (errno != ENOENT && errno != ENOTDIR)
        return FIRN_OK; /* not for this process to see */
    snprintf(near, sizeof near, "%s", ask->workdir);
    while (near[1] != '\0' && (stat(near, &is) != 0 || !S_ISDIR(is.st_mode))) {
        char *slash = strrchr(near, '/');
        slash[slash == near] = '\0';
    }
    return firn_fail(err, FIRN_EREFUSED,
                     "there is no working directory '%.200s'; the nearest "
                     "folder that there is: %.200s (--anyway submits it all "
                     "the same)",
                     ask->workdir, near);
}
