/* slurm_wake.c - one descriptor that is readable when there is something to do.
 *
 * An epoll set of: the commands under way, an inotify watch on each epoch's
 * folder (where workers are on this host too, or the file system tells), and a
 * timer for the earliest of all that is due.
 */
#define _GNU_SOURCE
#include "engine/slurmwork.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool add(const struct slurm *l, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(l->poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

enum firn_status slurm_wake_open(struct slurm *l, struct firn_error *err)
{
    l->poll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->poll < 0 || l->timer < 0 || !add(l, l->timer) ||
        !add(l, commands_fd(l->commands)))
        return firn_fail(err, FIRN_EIO, "cannot watch commands: %s",
                         strerror(errno));
    if (l->notes >= 0 && !add(l, l->notes)) {
        close(l->notes);
        l->notes = -1;
    }
    return FIRN_OK;
}

void slurm_wake_close(struct slurm *l)
{
    if (l->notes >= 0)
        close(l->notes);
    if (l->timer >= 0)
        close(l->timer);
    if (l->poll >= 0)
        close(l->poll);
    l->notes = l->timer = l->poll = -1;
}

void slurm_wake_drain(struct slurm *l)
{
    char room[4096];
    while (read(l->timer, room, 8) > 0)
        ;
    while (l->notes >= 0 && read(l->notes, room, sizeof room) > 0)
        l->is_stirred = true;
}

static double due_s(const struct slurmjob *job, double now_s)
{
    if (job->held.nparts > 0)
        return job->look_s;
    return job->want.nparts > 0 && job->again_s > now_s ? job->again_s
                                                        : (double)INFINITY;
}

void slurm_wake_arm(struct slurm *l)
{
    double now_s = slurm_now_s(l), due = slurm_inbox_due_s(l);
    if (commands_count(l->commands, SLURM_CMD_QUEUE) == 0)
        due = fmin(due, l->queue_due_s);
    if (commands_count(l->commands, SLURM_CMD_NODES) == 0)
        due = fmin(due, l->nodes_due_s);
    for (size_t i = 0; i < l->jobs.n; i++)
        due = fmin(due, due_s(l->jobs.at[i], now_s));
    if (l->nowed_given < l->owed.n)
        due = now_s;
    struct itimerspec spec = {{0, 0}, {0, 0}};
    if (isfinite(due)) {
        double in_s = due - now_s > 0 ? due - now_s : 0;
        spec.it_value.tv_sec = (time_t)in_s;
        spec.it_value.tv_nsec =
            (long)(1e9 * (in_s - (double)spec.it_value.tv_sec)) + 1;
        if (spec.it_value.tv_nsec > 999999999)
            spec.it_value.tv_nsec = 999999999;
    }
    timerfd_settime(l->timer, 0, &spec, NULL);
}

void slurm_wait(struct slurm *l, double until_s)
{
    struct pollfd fd = {.fd = l->poll, .events = POLLIN};
    double left_s = until_s - slurm_now_s(l);
    int ms = isfinite(left_s) && left_s < 1e6 ? (int)(1000 * left_s) + 1 : -1;
    poll(&fd, 1, left_s > 0 ? ms : 0);
}

void slurm_watch_epoch(struct slurm *l, struct slurmjob *job)
{
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/epoch-%lld", job->folder,
                     (long long)job->epoch);
    if (l->notes >= 0 && n > 0 && (size_t)n < sizeof path)
        job->watch = inotify_add_watch(l->notes, path, IN_MOVED_TO);
}

void slurm_unwatch(struct slurm *l, struct slurmjob *job)
{
    if (job->watch >= 0)
        inotify_rm_watch(l->notes, job->watch);
    job->watch = -1;
}
