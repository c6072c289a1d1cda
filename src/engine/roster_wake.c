/* roster_wake.c - one descriptor that is readable when the engine has work, and
 * the wait on it.
 *
 * An epoll set of: a timer for the earliest deadline, an inotify watch on each
 * attempt's folder (files renamed into it), and what the engine adds
 * (processes, commands). Where no inotify watch is left, or the file system
 * does not support it, the engine has to set the timer often enough.
 *
 * Deadlines are converted to the monotonic clock, so setting the time of day
 * changes nothing.
 */
#define _GNU_SOURCE
#include "engine/roster.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

bool roster_wake_add(const struct roster *r, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(r->poll, EPOLL_CTL_ADD, fd, &event) == 0;
}

enum firn_status roster_wake_open(struct roster *r, int also, const char *what,
                                  struct firn_error *err)
{
    r->poll = epoll_create1(EPOLL_CLOEXEC);
    r->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    r->notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (r->poll < 0 || r->timer < 0 || !roster_wake_add(r, r->timer) ||
        (also >= 0 && !roster_wake_add(r, also)))
        return firn_fail(err, FIRN_EIO, "cannot watch %s: %s", what,
                         strerror(errno));
    if (r->notes >= 0 && !roster_wake_add(r, r->notes)) {
        close(r->notes);
        r->notes = -1;
    }
    return FIRN_OK;
}

void roster_close(struct roster *r)
{
    if (r->notes >= 0)
        close(r->notes);
    if (r->timer >= 0)
        close(r->timer);
    if (r->poll >= 0)
        close(r->poll);
    r->notes = r->timer = r->poll = -1;
    vec_release(&r->jobs);
    vec_release(&r->events);
}

bool roster_wake_is_set(const struct roster *r)
{
    struct pollfd fd = {.fd = r->poll, .events = POLLIN};
    return poll(&fd, 1, 0) != 0;
}

bool roster_wake_drain(const struct roster *r)
{
    bool has_changes = false;
    alignas(struct inotify_event) char room[4096];
    ssize_t n;
    while (read(r->timer, room, 8) > 0)
        ;
    while (r->notes >= 0 && (n = read(r->notes, room, sizeof room)) > 0) {
        has_changes = true;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(room + at);
            /* A change in a watched folder; -1, when the kernel lost some: in
             * any. */
            for (size_t i = 0; i < r->jobs.n; i++)
                if (event->wd == -1 || r->jobs.at[i]->watch == event->wd)
                    r->jobs.at[i]->is_noted = true;
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return has_changes;
}

double roster_due_s(const struct rosterjob *job, double looked_s)
{
    return job->want.nparts > 0 && job->again_s > looked_s ? job->again_s
                                                           : (double)INFINITY;
}

void roster_wake_arm(const struct roster *r, double now_s, double due_s)
{
    double due = roster_has_events(r) ? now_s : due_s;
    struct itimerspec spec = {{0, 0}, {0, 0}};
    if (isfinite(due)) {
        double in_s = due - now_s > 0 ? due - now_s : 0;
        spec.it_value.tv_sec = (time_t)in_s;
        spec.it_value.tv_nsec =
            (long)(1e9 * (in_s - (double)spec.it_value.tv_sec)) + 1;
        if (spec.it_value.tv_nsec > 999999999)
            spec.it_value.tv_nsec = 999999999;
    }
    timerfd_settime(r->timer, 0, &spec, NULL);
}

void roster_watch(const struct roster *r, struct rosterjob *job)
{
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/epoch-%lld", job->folder,
                     (long long)job->attempt);
    if (r->notes >= 0 && n > 0 && (size_t)n < sizeof path)
        job->watch = inotify_add_watch(r->notes, path, IN_MOVED_TO);
    job->is_noted = true; /* files may be there already */
}

void roster_unwatch(const struct roster *r, struct rosterjob *job)
{
    if (job->watch >= 0)
        inotify_rm_watch(r->notes, job->watch);
    job->watch = -1;
}

/* --- waiting -------------------------------------------------------------- */

static bool pop(struct roster *r, struct firn_event *out)
{
    if (!roster_has_events(r)) {
        r->events.n = r->nreported = 0;
        return false;
    }
    *out = r->events.at[r->nreported++];
    return true;
}

bool roster_next(struct roster *r, const struct roster_work *work,
                 double until_s, struct firn_event *out)
{
    for (;;) {
        bool has_event = pop(r, out);
        if (!has_event) {
            work->turn(work->engine);
            has_event = pop(r, out);
        }
        bool is_idle = r->jobs.n == 0 && isinf(until_s);
        bool is_time = has_event || is_idle || until_s <= roster_now_s(r);
        work->arm(work->engine);
        if (is_time)
            return has_event;
        struct pollfd fd = {.fd = r->poll, .events = POLLIN};
        double left_s = fmax(until_s - roster_now_s(r), 0);
        poll(&fd, 1, left_s < 1e6 ? (int)(1000 * left_s) + 1 : -1);
    }
}
