/* slurm_poll.c - when Slurm is asked, and where each answer goes.
 *
 * Queue and nodes are asked for every `slurm.poll` seconds while an attempt
 * starts or leaves, and at four times that otherwise; never twice at once.
 * Commands that end and files in the attempts' folders wake the engine (files
 * where inotify reports them). The timer is set for the earliest deadline.
 *
 * The name of a Slurm job may contain line ends. So each record of the queue
 * ends with a random mark, drawn for each question, and the text between two
 * marks is one record.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/slurmwork.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* An attempt is starting or leaving, or Slurm does not answer. */
static bool is_busy(const struct slurm *slurm)
{
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        enum firn_phase phase = slurm->roster.jobs.at[i]->phase;
        if (phase == FIRN_PHASE_STARTING || phase == FIRN_PHASE_LEAVING)
            return true;
        if (slurm_resize_is_busy(slurm_at(slurm, i)))
            return true;
    }
    return slurm->returns.n > 0 || slurm->releases.n > 0 ||
           slurm->orphans.n > 0 || slurm->away_s > 0;
}

static void ask_queue(struct slurm *slurm, double now_s)
{
    static const char *const env[] = {SLURM_QUEUE_ENV, NULL};
    char format[64];
    uint64_t drawn = 0;
    const char *argv[] = {
        "squeue", "-h",   "-a",
        "-r",     "-t",   "all",
        "-o",     format, slurm_has_users(slurm) ? NULL : "--me",
        NULL};
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        drawn = (uint64_t)(1e6 * now_s); /* without random numbers: the time */
    snprintf(slurm->queue_mark, sizeof slurm->queue_mark, "|%" PRIx64, drawn);
    snprintf(format, sizeof format, "%s%s", SLURM_QUEUE_FORMAT,
             slurm->queue_mark);
    slurm->queue_asked_s = now_s;
    slurm->queue_due_s = INFINITY;
    slurm_run(slurm, argv,
              &(struct command){.env = env,
                                .limit_s = slurm_answer_s,
                                .tag = SLURM_CMD_QUEUE});
}

static void ask_nodes(struct slurm *slurm)
{
    static const char *const argv[] = {"scontrol", "-o",   "-d",
                                       "show",     "node", NULL};
    slurm->nodes_due_s = INFINITY;
    slurm_run(
        slurm, argv,
        &(struct command){.limit_s = slurm_answer_s, .tag = SLURM_CMD_NODES});
}

void slurm_poll(struct slurm *slurm)
{
    double now_s = slurm_now_s(slurm);
    if (now_s >= slurm->queue_due_s &&
        commands_count(slurm->commands, SLURM_CMD_QUEUE) == 0)
        ask_queue(slurm, now_s);
    if (now_s >= slurm->nodes_due_s &&
        commands_count(slurm->commands, SLURM_CMD_NODES) == 0)
        ask_nodes(slurm);
    slurm_estimate_poll(slurm);
    slurm_ahead_poll(slurm);
    slurm_inbox_poll(slurm);
}

static double next_s(const struct slurm *slurm)
{
    return slurm_now_s(slurm) + (is_busy(slurm) ? 1 : 4) * slurm->poll_s;
}

/* Turns records into lines without marks; text without a mark stays. */
static void put_lines(struct firn_bytes text, const char *mark,
                      struct firn_buf *out)
{
    size_t n = strlen(mark);
    size_t begins = 0; /* of the record, in `out` */
    for (size_t i = 0; i < text.n; i++) {
        bool is_end = i + n < text.n && text.at[i + n] == '\n' &&
                      memcmp(text.at + i, mark, n) == 0;
        if (!is_end) {
            buf_add(out, text.at + i, 1);
            continue;
        }
        for (; begins < out->n; begins++)
            if (out->at[begins] == '\n')
                out->at[begins] = ' ';
        buf_putc(out, '\n');
        begins = out->n;
        i += n;
    }
}

/* A pilot is of the user of its attempt, whatever its name says; of an attempt
 * that is over, of any user as whom firnd may cancel it. */
static bool is_its_users(const struct slurm *slurm, const struct slurm_job *at)
{
    const struct slurmjob *job = slurm_find(slurm, (firn_job_id)at->tag.job);
    return job == NULL || job->base.held.nparts == 0 ||
           job->base.attempt != at->tag.attempt ||
           slurm_is_user(slurm, job->user, at->user);
}

static void take_queue(struct slurm *slurm, const struct command_done *done)
{
    struct slurm_jobs jobs = {0};
    struct firn_error err = {0};
    struct firn_buf lines = {0};
    if (slurm_is_answer(slurm, "squeue", done)) {
        put_lines(done->out, slurm->queue_mark, &lines);
        struct firn_bytes text = {lines.n > 0 ? lines.at : "", lines.n};
        enum firn_status status = slurm_jobs_read(&jobs, text, &err);
        for (size_t i = 0; i < jobs.at.n; i++)
            if (jobs.at.at[i].pilot != 0 &&
                !is_its_users(slurm, &jobs.at.at[i]))
                jobs.at.at[i].is_ours = false;
        if (status == FIRN_OK)
            slurm_queue_take(slurm, &jobs, slurm->queue_asked_s);
        else
            slurm_went_away(slurm, "squeue", err.text);
        slurm_jobs_release(&jobs);
    }
    buf_release(&lines);
    slurm->queue_due_s = fmin(slurm->queue_due_s, next_s(slurm));
}

static void see_nodes(struct slurm *slurm, const struct slurm_nodes *nodes)
{
    bool is_first = slurm->is_from_file;
    slurm->is_from_file = false;
    if (is_first)
        slurm_kept_compare(slurm, nodes);
    slurm_nodes_take(slurm, nodes);
    if (is_first) {
        slurm_nodes_use(slurm, 0);
        slurm_nodes_first(slurm);
    }
    slurm_came_back(slurm);
}

static void take_nodes(struct slurm *slurm, const struct command_done *done)
{
    struct slurm_nodes nodes = {0};
    struct firn_error err = {0};
    if (slurm_is_answer(slurm, "scontrol", done)) {
        if (slurm_nodes_read(&nodes, done->out, &err) == FIRN_OK)
            see_nodes(slurm, &nodes);
        else
            slurm_went_away(slurm, "scontrol", err.text);
        slurm_nodes_release(&nodes);
    }
    slurm->nodes_due_s = fmin(slurm->nodes_due_s, next_s(slurm));
}

void slurm_answers(struct slurm *slurm)
{
    struct command_done done;
    while (commands_next(slurm->commands, &done)) {
        if (done.tag == SLURM_CMD_QUEUE)
            take_queue(slurm, &done);
        else if (done.tag == SLURM_CMD_NODES)
            take_nodes(slurm, &done);
        else if (done.tag == SLURM_CMD_SUBMIT)
            slurm_submitted(slurm, &done);
        else if (done.tag == SLURM_CMD_PILOT)
            slurm_pilot_submitted(slurm, &done);
        else if (done.tag == SLURM_CMD_ESTIMATE)
            slurm_estimate_take(slurm, &done);
        else if (done.tag == SLURM_CMD_AHEAD)
            slurm_ahead_take(slurm, &done);
        else if (done.tag >= SLURM_CMD_INBOX)
            slurm_inbox_answer(slurm, &done);
    } /* the result of scancel is seen in the queue */
}

void slurm_wake_arm(void *slurm_engine)
{
    struct slurm *slurm = slurm_engine;
    double now_s = slurm_now_s(slurm), due = slurm_inbox_due_s(slurm);
    due = fmin(due, slurm_bars_due_s(slurm));
    due = fmin(due, slurm_ahead_due_s(slurm));
    if (commands_count(slurm->commands, SLURM_CMD_QUEUE) == 0)
        due = fmin(due, slurm->queue_due_s);
    if (commands_count(slurm->commands, SLURM_CMD_NODES) == 0)
        due = fmin(due, slurm->nodes_due_s);
    for (size_t i = 0; i < slurm->roster.jobs.n; i++) {
        const struct slurmjob *job = slurm_at(slurm, i);
        due = fmin(due, job->base.held.nparts > 0
                            ? job->look_s
                            : roster_due_s(&job->base, now_s));
    }
    roster_wake_arm(&slurm->roster, now_s, due);
}
