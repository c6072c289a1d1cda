/* roster_start.c - what comes before a shepherd, wherever it will run.
 *
 * The order matters, for a crash at any point must leave something that a
 * restart understands:
 *
 *     launch     written; far away also the word `ask`   crash: never started
 *     fence      raised, with the locks in hand          crash: never started
 *
 * Before it is the number, on the host's disk; after it the shepherd. Where
 * workers are on other hosts than their shepherd they have a lock of their own,
 * and both have to be free.
 */
#include "base/buf.h"
#include "base/failpoint.h"
#include "engine/epochfiles.h"
#include "engine/launchfile.h"
#include "engine/roster.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

void roster_launch_begin(const struct rosterjob *job,
                         const struct firn_launch *launch,
                         struct launchfile *out)
{
    *out =
        (struct launchfile){.job = job->id,
                            .epoch = job->epoch,
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

static enum firn_status put(const struct launchfile *file, int folder,
                            bool is_far, struct firn_error *err)
{
    struct firn_buf text = {0};
    launchfile_write(file, &text);
    enum firn_status status =
        epoch_put(folder, "launch", (struct firn_bytes){text.at, text.n}, err);
    if (status == FIRN_OK && is_far)
        status = epoch_word_put(folder, "ask", EPOCH_GO, err);
    buf_release(&text);
    return status;
}

static enum firn_status raise_fence(const struct rosterjob *job, bool is_far,
                                    struct firn_error *err)
{
    int above = epoch_above(job->folder);
    int lock = above >= 0 ? epoch_lock(above) : -2;
    int workers = lock >= 0 && is_far ? epoch_workers_lock(above, false) : -2;
    enum firn_status status = FIRN_OK;
    if (lock >= 0 && (workers >= 0 || !is_far))
        status = epoch_fence_raise(above, job->epoch, err);
    else
        status = firn_fail(err, FIRN_EIO, "%s",
                           lock == -1 || workers == -1
                               ? "processes of it are still there"
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
                                const struct roster_file *how,
                                struct firn_error *err)
{
    int folder = epoch_folder(launch->folder, job->epoch, true);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO, "cannot make its folder: %s",
                         strerror(errno));
    roster_enter(job, launch);
    job->has_run = job->is_unsure = false;
    enum firn_status status = put(how->file, folder, how->is_far, err);
    close(folder);
    failpoint("engine.launch.after");
    FIRN_TRY(status);
    FIRN_TRY(raise_fence(job, how->is_far, err));
    failpoint("engine.fence.after");
    return FIRN_OK;
}
