/* local_start.c - from GPUs that are free to a shepherd that runs.
 *
 * The order matters, for a crash at any point must leave something that a
 * restart understands:
 *
 *     number     from the host, on its disk         crash: never started
 *     launch     written                            crash: never started
 *     fence      raised, with the lock in hand      crash: never started
 *     spawn      the shepherd                       crash: it is taken over
 *
 * A number that came to nothing is not used again. What fails is tried again,
 * later and later.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "engine/epochfiles.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/localwork.h"
#include "engine/procs.h"
#include "engine/workerenv.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double start_limit_s = 30;
static const double foreign_wait_s = 5;

static struct worker_gpu gpu_at(const void *arg, firn_node_id node, int index)
{
    const struct gpu *gpu = gpus_at(arg, node, index);
    return (struct worker_gpu){gpu->visible, gpu->mem_gib};
}

void local_variables(const struct local *l, const struct localjob *job,
                     const struct firn_launch *launch, struct launchfile *out)
{
    const struct workerenv of = {.cluster = &l->gpus.cluster,
                                 .job = job->base.id,
                                 .epoch = job->base.epoch,
                                 .alloc = &job->base.want,
                                 .is_one_host = l->gpus.has_nvml,
                                 .has_driver = l->gpus.has_nvml,
                                 .host = "127.0.0.1",
                                 .gpu = gpu_at,
                                 .arg = &l->gpus};
    workerenv_tell(&of, launch, out);
}

static enum firn_status write_launch(const struct local *l,
                                     const struct localjob *job,
                                     const struct firn_launch *launch,
                                     int folder, struct firn_error *err)
{
    struct launchfile file = {.job = job->base.id,
                              .epoch = job->base.epoch,
                              .workdir =
                                  launch->workdir ? launch->workdir : "/",
                              .log = launch->log ? launch->log : "/dev/null",
                              .grace_s = launch->grace_s,
                              .can_checkpoint = launch->can_checkpoint,
                              .cage = l->cage};
    struct firn_buf text = {0};
    for (const char *const *at = launch->argv; *at != NULL; at++)
        vec_add(&file.argv, *at);
    for (const char *const *at = launch->env; at != NULL && *at != NULL; at++)
        vec_add(&file.env, *at);
    local_variables(l, job, launch, &file);
    launchfile_write(&file, &text);
    enum firn_status status =
        epoch_put(folder, "launch", (struct firn_bytes){text.at, text.n}, err);
    buf_release(&text);
    launchfile_release(&file);
    return status;
}

static enum firn_status raise_fence(const struct localjob *job,
                                    struct firn_error *err)
{
    int above = open(job->base.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = above >= 0 ? epoch_lock(above) : -2;
    enum firn_status status = FIRN_OK;
    if (lock >= 0)
        status = epoch_fence_raise(above, job->base.epoch, err);
    else
        status = firn_fail(err, FIRN_EIO, "%s",
                           lock == -1 ? "processes of it are still there"
                                      : strerror(errno));
    if (lock >= 0)
        close(lock);
    if (above >= 0)
        close(above);
    return status;
}

/* A session of its own; signals wait until it can take them. */
static int spawn(const struct local *l, const char *folder, pid_t *pid)
{
    char said[4300];
    char *argv[] = {(char *)l->shepherd, "--shepherd", (char *)folder, NULL};
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    sigset_t blocked, plain;
    snprintf(said, sizeof said, "%s/said", folder);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGHUP);
    sigfillset(&plain);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &blocked);
    posix_spawnattr_setsigdefault(&how, &plain);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, said,
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    failpoint("engine.fork.before");
    int error = posix_spawn(pid, l->shepherd, &files, &how, argv, environ);
    failpoint("engine.fork.after");
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return error;
}

static enum firn_status start_shepherd(struct local *l, struct localjob *job,
                                       struct firn_error *err)
{
    char folder[4200];
    int n = snprintf(folder, sizeof folder, "%s/epoch-%lld", job->base.folder,
                     (long long)job->base.epoch);
    pid_t pid = 0;
    if (n < 0 || (size_t)n >= sizeof folder)
        return firn_fail(err, FIRN_EINVAL, "its folder's name is too long");
    roster_watch(&l->roster, &job->base);
    int error = spawn(l, folder, &pid);
    if (error != 0)
        return firn_fail(err, FIRN_EIO, "cannot run '%.200s': %s", l->shepherd,
                         strerror(error));
    job->pid = pid;
    job->start = procs_start(pid);
    local_watch_pid(l, job);
    return FIRN_OK;
}

static enum firn_status prepare(struct local *l, struct localjob *job,
                                const struct firn_launch *launch,
                                struct firn_error *err)
{
    int folder = epoch_folder(launch->folder, job->base.epoch, true);
    if (folder < 0)
        return firn_fail(err, FIRN_EIO, "cannot make its folder: %s",
                         strerror(errno));
    roster_enter(&job->base, launch);
    enum firn_status status = write_launch(l, job, launch, folder, err);
    close(folder);
    failpoint("engine.launch.after");
    FIRN_TRY(status);
    FIRN_TRY(raise_fence(job, err));
    failpoint("engine.fence.after");
    return start_shepherd(l, job, err);
}

bool local_start(struct local *l, struct localjob *job)
{
    struct firn_launch launch = {0};
    struct firn_error err = {0};
    if (local_others_are_on(l, &job->base.want)) {
        double latest_s = local_now_s(l) + foreign_wait_s;
        roster_again(&l->roster, &job->base, "others work on its GPUs");
        if (job->base.again_s > latest_s)
            job->base.again_s = latest_s;
        return false;
    }
    if (l->host.next_epoch(l->host.arg, job->base.id, &job->base.epoch, &err) !=
        FIRN_OK) {
        roster_again(&l->roster, &job->base, err.text);
        return false;
    }
    failpoint("engine.epoch.after");
    if (!l->host.launch(l->host.arg, job->base.id, &launch) ||
        launch.argv == NULL || launch.argv[0] == NULL) {
        roster_tell_end(&l->roster, &job->base, FIRN_EVENT_FAIL, FIRN_END_LOST);
        local_drop(l, job);
        return true;
    }
    holding_copy(&job->base.held, &job->base.want);
    if (prepare(l, job, &launch, &err) != FIRN_OK) {
        local_forget_epoch(l, job);
        roster_again(&l->roster, &job->base, err.text);
        return false;
    }
    job->base.began_s = local_now_s(l);
    job->base.until_s = job->base.began_s + start_limit_s;
    roster_phase(&l->roster, &job->base, FIRN_PHASE_STARTING);
    return true;
}
