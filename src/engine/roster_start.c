/* roster_start.c - what is written before a shepherd starts, here or elsewhere.
 *
 * The order matters: after a crash at any point, a restarted engine must
 * understand what it finds.
 *
 *     number     on the host's disk                    crash: never started
 *     launch     written; for other hosts also `ask`   crash: never started
 *     fence      raised, with the locks held           crash: never started
 *
 * The numbers of all jobs that can start now are written in one commit, since a
 * commit waits for the disk: 64 starts with one each took 0.14 to 0.25 s, in
 * which firnd answered no request. After the fence the engine starts the
 * shepherd. Workers on other hosts than their shepherd have a lock
 * of their own, and both locks have to be free.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "engine/attemptfiles.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/resizefile.h"
#include "engine/roster.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- numbers -------------------------------------------------------------- */

void roster_unnumber(struct rosterjob *job)
{
    if (job->is_numbered)
        holding_release(&job->held);
    job->is_numbered = false;
}

/* Numbers one job; the number is not on disk yet. False: the job was put off.
 */
static bool number_one(struct roster *r, const struct roster_starts *starts,
                       struct rosterjob *job)
{
    const struct firn_engine_host *host = starts->host;
    struct firn_error err = {0};
    if (starts->may_start != NULL && !starts->may_start(starts->engine, job))
        return false;
    if (host->next_attempt(host->arg, job->id, &job->attempt, &err) !=
        FIRN_OK) {
        roster_retry(r, job, err.text);
        return false;
    }
    job->is_numbered = job->is_fresh = true;
    holding_copy(&job->held, &job->want);
    return true;
}

void roster_number(struct roster *r, const struct roster_starts *starts)
{
    const struct firn_engine_host *host = starts->host;
    struct firn_error err = {0};
    struct rosterjob *job;
    size_t n = 0;
    while ((job = roster_next_to_start(r, &starts->limits)) != NULL)
        n += number_one(r, starts, job);
    if (n == 0)
        return;
    bool is_kept = host->keep == NULL || host->keep(host->arg, &err) == FIRN_OK;
    for (size_t i = 0; i < r->jobs.n; i++) {
        job = r->jobs.at[i];
        if (job->is_fresh && !is_kept) {
            roster_unnumber(job);
            roster_retry(r, job, err.text);
        }
        job->is_fresh = false;
    }
    failpoint("engine.number.after");
}

/* --- files ---------------------------------------------------------------- */

void roster_launch_begin(const struct rosterjob *job,
                         const struct firn_launch *launch,
                         struct launchfile *out)
{
    *out =
        (struct launchfile){.job = job->id,
                            .attempt = job->attempt,
                            .workdir = launch->workdir ? launch->workdir : "/",
                            .log = launch->log ? launch->log : "/dev/null",
                            .log_max_bytes = launch->log_max_bytes,
                            .grace_s = launch->grace_s,
                            .can_checkpoint = launch->can_checkpoint};
    for (const char *const *at = launch->argv; *at != NULL; at++)
        vec_add(&out->argv, *at);
    for (const char *const *at = launch->env; at != NULL && *at != NULL; at++)
        vec_add(&out->env, *at);
}

enum firn_status roster_resize_write(const struct rosterjob *job,
                                     const struct launchfile *file,
                                     const struct resize *resize,
                                     struct firn_error *err)
{
    struct firn_buf text = {0};
    char name[48];
    launchfile_write(file, &text);
    snprintf(name, sizeof name, "launch-%lld", (long long)resize->number);
    int folder = attempt_folder(job->folder, job->attempt, false);
    enum firn_status status =
        folder < 0
            ? firn_fail(err, FIRN_EIO, "the folder of its attempt is gone")
            : attempt_put(folder, name, (struct firn_bytes){text.at, text.n},
                          err);
    failpoint("engine.resize.launch.after");
    if (status == FIRN_OK)
        status = resize_put(folder, resize, err);
    failpoint("engine.resize.after");
    if (folder >= 0)
        close(folder);
    buf_release(&text);
    return status;
}

static enum firn_status raise_fence(const struct rosterjob *job, bool is_remote,
                                    struct firn_error *err)
{
    int above = attempt_above(job->folder);
    int lock = above >= 0 ? attempt_lock(above) : -2;
    int workers =
        lock >= 0 && is_remote ? attempt_workers_lock(above, false) : -2;
    enum firn_status status = FIRN_OK;
    if (lock >= 0 && (workers >= 0 || !is_remote))
        status = attempt_fence_raise(above, job->attempt, err);
    else
        status = firn_fail(err, FIRN_EIO, "%s",
                           lock == -1 || workers == -1
                               ? "processes of the job are still running"
                               : strerror(errno));
    if (workers >= 0)
        close(workers);
    if (lock >= 0)
        close(lock);
    if (above >= 0)
        close(above);
    return status;
}

enum firn_status roster_prepare(struct rosterjob *job,
                                const struct firn_launch *launch,
                                const struct roster_file *launch_file,
                                struct firn_error *err)
{
    int folder = attempt_folder(launch->folder, job->attempt, true);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO,
                         "cannot create the folder of the attempt: %s",
                         strerror(errno));
    roster_enter(job, launch);
    job->has_run = job->is_unsure = false;
    struct firn_buf text = {0};
    launchfile_write(launch_file->file, &text);
    enum firn_status status = attempt_put(
        folder, "launch", (struct firn_bytes){text.at, text.n}, err);
    if (status == FIRN_OK && launch_file->is_remote)
        status = attempt_request_put(folder, "ask", ATTEMPT_GO, err);
    buf_release(&text);
    close(folder);
    failpoint("engine.launch.after");
    FIRN_TRY(status);
    FIRN_TRY(raise_fence(job, launch_file->is_remote, err));
    failpoint("engine.fence.after");
    return FIRN_OK;
}
