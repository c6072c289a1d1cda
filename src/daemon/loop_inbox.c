/* loop_inbox.c - jobs that were sent to the cluster's own queue.
 *
 * People who keep to the commands of the engine's cluster send their jobs to a
 * queue of it that is ours to serve. The engine tells of each; here it becomes
 * a job like any other, rigid and never stopped, which the policy places. To
 * start it means that the engine lets it go, on the nodes that it was given.
 *
 * Which of a node's GPUs it gets the engine's cluster decides. As many are put
 * aside for it until it ends; if it got other ones, the engine
 * reports these as used by foreign processes.
 *
 * (1) One job of the queue is one job here, however often it is told of: its
 * key is the request's id. (2) No text of it is used but as a name, cut to the
 * letters of one. (3) One that is gone from the queue before it was started is
 * over; so is one that is not there any more after a restart. (4) One that is
 * over here and still in the queue, as after a crash of the cluster's own
 * controller, is ended there if it ran, or its user cancelled it here. One that
 * never ran (it was taken out and put back, or the cluster would not let it go)
 * is a new job: what firn did not start it does not end.
 *
 * Cost: a walk over the living jobs for each report.
 */
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <ctype.h>
#include <string.h>

enum { KEY_MAX = 100 };

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";

static bool is_key(const char *key)
{
    size_t n = strlen(key);
    return n > 0 && n <= KEY_MAX && strspn(key, letters) == n;
}

/* (2) `head` and the text, whose other letters become '-'. */
static char *plain(const char *head, const char *text)
{
    struct firn_buf out = {0};
    buf_puts(&out, head);
    for (; *text != '\0' && out.n < LIVE_NAME_MAX - 1; text++)
        buf_putc(&out, *text == '_' || strchr(letters, *text) ? *text : '-');
    char *name = mem_strdup(out.n > 0 ? out.at : "");
    buf_release(&out);
    return name;
}

/* A job's name begins with a letter or a digit, and is no number. */
static char *plain_name(const char *text)
{
    bool is_odd = !isalnum((unsigned char)text[0]) ||
                  strspn(text, "0123456789") == strlen(text);
    return plain(text[0] != '\0' && is_odd ? "job-" : "", text);
}

/* The living job of that key, or NULL. */
static struct live_job *find(struct loop *loop, const char *key)
{
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        struct live_job *job =
            loop->desk.tracks.at[i] != NULL
                ? book_job(loop->book, loop->desk.tracks.at[i]->id)
                : NULL;
        if (job != NULL && strcmp(job->ask.inbox, key) == 0)
            return job;
    }
    return NULL;
}

/* (3) */
static void gone(struct loop *loop, struct live_job *job)
{
    loop_happens_why(loop, job, LIFE_INBOX_GONE, NULL);
}

static void sweep(struct loop *loop)
{
    for (size_t i = 0; i < loop->desk.tracks.n; i++) {
        const struct track *track = loop->desk.tracks.at[i];
        struct live_job *job = track != NULL && !track->is_told
                                   ? book_job(loop->book, track->id)
                                   : NULL;
        if (job != NULL && job->ask.inbox[0] != '\0')
            gone(loop, job);
    }
}

static struct live_ask ask_of(const struct firn_inbox *inbox)
{
    return (struct live_ask){.name = plain_name(inbox->name),
                             .user = plain("", inbox->user),
                             .queue = mem_strdup("inbox"),
                             .types = mem_strdup(inbox->types),
                             .inbox = mem_strdup(inbox->key),
                             .gpus_min = inbox->gpus,
                             .gpus_max = inbox->gpus,
                             .duration_s =
                                 inbox->limit_s > 0 ? inbox->limit_s : 0};
}

/* Did it end without having run, and not by its user's wish? */
static bool was_taken_out(const struct live_job *job)
{
    bool is_users =
        job->state == LIVE_CANCELLED && job->reason == LIVE_BECAUSE_USER;
    return live_state_is_over(job->state) && !is_users && !(job->started_s > 0);
}

/* (1) `*job` is what it made, now or before. */
static enum firn_status submit(struct loop *loop,
                               const struct firn_inbox *inbox,
                               struct live_job **job, bool *is_new,
                               struct firn_error *err)
{
    double now_s = dock_now_s(&loop->dock);
    double sent_s = inbox->submit_s > 0 && inbox->submit_s < now_s
                        ? inbox->submit_s
                        : now_s;
    enum firn_status status = FIRN_OK;
    firn_job_id before = FIRN_NO_JOB;
    *job = NULL;
    do { /* from one job to a later one: it ends */
        before = *job != NULL ? (*job)->id : FIRN_NO_JOB;
        struct live_ask ask = ask_of(inbox);
        struct firn_buf request = {0};
        buf_printf(&request, "inbox-%s", inbox->key);
        if (*job != NULL)
            buf_printf(&request, "+%d", (*job)->id); /* it is back */
        status = book_submit(loop->book, &ask, "", request.at, sent_s, job,
                             is_new, err);
        buf_release(&request);
        if (status != FIRN_OK)
            live_ask_release(&ask);
    } while (status == FIRN_OK && !*is_new && was_taken_out(*job) &&
             (*job)->id > before);
    return status;
}

static void take_in(struct loop *loop, const struct firn_inbox *inbox)
{
    struct live_job *job = NULL;
    struct firn_error err = {0};
    bool is_new = false;
    enum firn_status status = submit(loop, inbox, &job, &is_new, &err);
    if (!book_wrote(loop->book, status, &err))
        return;
    if (is_new) {
        loop_changed(loop, job);
        desk_track_make(&loop->desk, job->id)->is_told = true;
    } else if (strcmp(job->ask.inbox, inbox->key) != 0) {
        log_warn("job %d has the request id of job %s of the inbox, which is "
                 "left alone",
                 job->id, inbox->key);
    } else if (live_state_is_over(job->state)) {
        log_warn("job %d is over and in the inbox again: it is ended there",
                 job->id);
        dock_cancel(&loop->dock, job->id); /* (4) */
    }
}

void loop_inbox_event(struct loop *loop, const struct firn_inbox *inbox)
{
    if (inbox->key[0] == '\0') {
        sweep(loop);
        return;
    }
    if (!is_key(inbox->key) || inbox->gpus < 0) {
        log_warn("a job of the inbox without a proper key is left alone");
        return;
    }
    struct live_job *job = find(loop, inbox->key);
    if (job != NULL && inbox->is_gone)
        gone(loop, job);
    else if (job != NULL)
        desk_track_make(&loop->desk, job->id)->is_told = true;
    else if (!inbox->is_gone && inbox->gpus > 0)
        take_in(loop, inbox);
}
