/* local_wake.c - one descriptor that is readable when there is something to do.
 *
 * An epoll set of: the shepherds' pidfds (readable when one is over), an
 * inotify watch on each epoch's folder (its pid file appears), and a timer set
 * for the earliest of all deadlines. Where the kernel has no pidfd, or no
 * inotify is left, the timer looks instead.
 *
 * Times on the engine's clock become times of the monotonic one, so that
 * setting the clock of day changes nothing.
 */
#define _GNU_SOURCE
#include "engine/epochfiles.h"
#include "engine/localwork.h"
#include "engine/procs.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const double look_every_s = 0.05; /* when nothing wakes us */

static bool add(const struct local *l, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(l->poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

enum firn_status local_wake_open(struct local *l, struct firn_error *err)
{
    l->poll = epoll_create1(EPOLL_CLOEXEC);
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->poll < 0 || l->timer < 0 || !add(l, l->timer))
        return firn_fail(err, FIRN_EIO, "cannot watch processes: %s",
                         strerror(errno));
    if (l->notes >= 0 && !add(l, l->notes)) {
        close(l->notes);
        l->notes = -1;
    }
    return FIRN_OK;
}

void local_wake_close(struct local *l)
{
    if (l->notes >= 0)
        close(l->notes);
    if (l->timer >= 0)
        close(l->timer);
    if (l->poll >= 0)
        close(l->poll);
}

void local_wake_drain(struct local *l)
{
    char room[4096];
    while (read(l->timer, room, 8) > 0)
        ;
    while (l->notes >= 0 && read(l->notes, room, sizeof room) > 0)
        ;
}

/* When a job has to be looked at though nothing wakes us. */
static double due_s(const struct localjob *job, double now_s)
{
    if (job->held.nparts == 0)
        return job->want.nparts > 0 && job->again_s > now_s ? job->again_s
                                                            : (double)INFINITY;
    bool is_blind = job->is_over || job->pidfd < 0 ||
                    (job->phase == FIRN_PHASE_STARTING && job->watch < 0);
    double due =
        job->phase == FIRN_PHASE_RUNNING ? (double)INFINITY : job->until_s;
    return is_blind && now_s + look_every_s < due ? now_s + look_every_s : due;
}

void local_wake_arm(struct local *l)
{
    double now_s = local_now_s(l), due = l->others_s;
    for (size_t i = 0; i < l->jobs.n; i++) {
        double job_s = due_s(l->jobs.at[i], now_s);
        due = job_s < due ? job_s : due;
    }
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

void local_wait(struct local *l, double until_s)
{
    struct pollfd fd = {.fd = l->poll, .events = POLLIN};
    double left_s = until_s - local_now_s(l);
    int ms = isfinite(left_s) && left_s < 1e6 ? (int)(1000 * left_s) + 1 : -1;
    poll(&fd, 1, left_s > 0 ? ms : 0);
}

void local_watch_epoch(struct local *l, struct localjob *job)
{
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/epoch-%lld", job->folder,
                     (long long)job->epoch);
    if (l->notes >= 0 && n > 0 && (size_t)n < sizeof path)
        job->watch = inotify_add_watch(l->notes, path, IN_MOVED_TO);
}

void local_watch_pid(struct local *l, struct localjob *job)
{
    job->pidfd = procs_open(job->pid);
    if (job->pidfd >= 0 && !add(l, job->pidfd)) {
        close(job->pidfd);
        job->pidfd = -1;
    }
}

void local_unwatch(struct local *l, struct localjob *job)
{
    if (job->pidfd >= 0)
        close(job->pidfd); /* and out of the set */
    if (job->watch >= 0)
        inotify_rm_watch(l->notes, job->watch);
    job->pidfd = job->watch = -1;
}
