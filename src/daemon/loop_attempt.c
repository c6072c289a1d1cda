/* loop_attempt.c - a job's attempts: opened before a process exists, ended
 * once.
 *
 * (1) The GPUs that the book has for a job are those of its present attempt:
 * they are written with the attempt's number, in one commit, before a process
 * of it exists, so that the book and the processes agree after a crash. What
 * the round has given it since is in the track. (2) An end counts once, for the
 * attempt that is open; the end of an attempt behind which the next one has
 * begun is written to its own row.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- beginning ------------------------------------------------------------ */

/* A job that its partner's processes train writes nothing itself: its log names
 * the job whose log has its output. */
static void tell_log(const struct loop *loop, const struct live_job *job,
                     const struct live_job *lead)
{
    struct firn_buf path = {0}, text = {0};
    buf_printf(&path, "%s/jobs", loop->config->state);
    mkdir(path.at, 0700); /* there already, or the next one fails */
    mkdir(dock_job_folder(&loop->dock, job->id, &path), 0700);
    buf_puts(&path, "/log");
    int fd = open(path.at,
                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                      O_NONBLOCK,
                  0600);
    buf_printf(&text,
               "firn: trained by job %d (%s), whose log has its output\n",
               lead->id, lead->ask.name);
    if (fd < 0 || write(fd, text.at, text.n) != (ssize_t)text.n)
        log_warn("%s: %s", path.at, strerror(errno));
    if (fd >= 0)
        close(fd);
    buf_release(&path);
    buf_release(&text);
}

enum firn_status loop_open_attempt(struct loop *loop, struct live_job *job,
                                   const struct live_job *partner,
                                   struct firn_error *err)
{
    struct track *track = desk_track(&loop->desk, job->id);
    bool is_led = partner != NULL && partner->id < job->id;
    const struct firn_job *in_round = desk_job(&loop->desk, track);
    const struct firn_alloc *gpus = is_led ? &in_round->held : &track->granted;
    struct firn_how how = partner_how(&loop->desk, &gpus->how);
    struct firn_buf held = {0};
    int64_t attempt = 0;
    how.merged_with = partner != NULL ? partner->id : FIRN_NO_JOB;
    firn_alloc_print(gpus, &held);
    enum firn_status status =
        book_held_next(loop->book, job, held.at, err); /* (1) */
    buf_release(&held);
    if (status == FIRN_OK)
        status = book_how(loop->book, job, &how, err);
    if (status == FIRN_OK)
        status = desk_type_keep(&loop->desk, job, gpus->parts[0].node, err);
    if (status == FIRN_OK)
        status = book_open_attempt(loop->book, job, &attempt, err);
    if (book_wrote(loop->book, status, err)) {
        track->open_attempt = attempt;
        track->opened_s = dock_now_s(&loop->dock);
        loop_costs_opened(loop, job, track);
        if (job->ask.limit_s > 0)
            loop->desk.limits_s = 0; /* look at it in this turn */
        if (is_led)
            tell_log(loop, job, partner);
    }
    return status;
}

/* --- ending --------------------------------------------------------------- */

void loop_close_late(struct loop *loop, struct live_job *job, int64_t attempt,
                     const struct firn_event *event)
{
    struct firn_error err = {0};
    struct store_attempt last = {.number = attempt,
                                 .ended_s = dock_now_s(&loop->dock),
                                 .end = event->end,
                                 .exit_status = event->exit_status};
    book_wrote(loop->book, book_close_attempts(loop->book, job, &last, &err),
               &err);
}

/* (2) */
void loop_close_attempt(struct loop *loop, struct live_job *job,
                        const struct firn_event *event)
{
    struct firn_error err = {0};
    struct track *track = desk_track(&loop->desk, job->id);
    if (event == NULL)
        return;
    if (event->attempt > 0 && event->attempt < track->open_attempt)
        loop_close_late(loop, job, event->attempt, event);
    if (track->open_attempt == 0 || event->attempt != track->open_attempt)
        return;
    struct store_attempt attempt = {.job = job->id,
                                    .number = event->attempt,
                                    .started_s = track->opened_s,
                                    .ended_s = dock_now_s(&loop->dock),
                                    .end = event->end,
                                    .exit_status = event->exit_status,
                                    .held = job->held};
    track->open_attempt = 0;
    track->rate = track->turn = track->best = 0;
    track->best_epoch = 0;
    metrics_add(loop->metrics, METRIC_ENDS, event->end, 1);
    book_wrote(loop->book, book_attempt_ended(loop->book, job, &attempt, &err),
               &err);
    book_wrote(loop->book, book_held(loop->book, job, "-", &err), &err);
}

void loop_attempt_times(struct loop *loop, const struct firn_event *event)
{
    struct firn_error err = {0};
    const struct store_attempt times = {.job = event->job,
                                        .number = event->attempt,
                                        .started_s = event->began_s,
                                        .ended_s = event->ended_s};
    book_wrote(loop->book,
               book_attempt_times(loop->book, &times, event->user, &err), &err);
}

void loop_stopped_text(const struct live_job *job, int end, double ran_s,
                       char out[LIVE_TEXT])
{
    char since[32];
    if (ran_s > 120)
        snprintf(since, sizeof since, "%.0f min", ran_s / 60);
    else
        snprintf(since, sizeof since, "%.0f s", fmax(ran_s, 0));
    if (!(ran_s >= 0))
        snprintf(out, LIVE_TEXT,
                 "stopped before its processes began; waits for GPUs");
    else if (end == FIRN_END_CHECKPOINT)
        snprintf(out, LIVE_TEXT, "stopped by a checkpoint; waits for GPUs");
    else if (job->ask.can_checkpoint)
        snprintf(out, LIVE_TEXT,
                 "stopped after %s; no checkpoint was written then, and work "
                 "since the last one before, if there is any, is lost; waits "
                 "for GPUs",
                 since);
    else
        snprintf(out, LIVE_TEXT,
                 "stopped; it writes no checkpoints, and the work of attempt "
                 "%lld (%s) is lost; waits for GPUs",
                 (long long)job->attempt, since);
}

void loop_failed_text(const struct firn_event *event, char out[LIVE_TEXT])
{
    int status = event->exit_status;
    if (event->end == FIRN_END_LOST)
        snprintf(out, LIVE_TEXT, "as its supervisor or host vanished");
    else if (event->end == FIRN_END_MEMORY)
        snprintf(out, LIVE_TEXT, "for want of memory");
    else if (status > 128)
        snprintf(out, LIVE_TEXT, "by signal %d", status - 128);
    else
        snprintf(out, LIVE_TEXT, "with status %d", status);
}
