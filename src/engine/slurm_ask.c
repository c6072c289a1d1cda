/* slurm_ask.c - Slurm's commands: asked beside the loop, never waited for.
 *
 * Queue and nodes are asked for at `slurm.poll` while something starts or
 * leaves, and at four times that otherwise; never twice at once. When commands
 * fail or take too long the controller is away: everything stays as it is, what
 * was wanted waits, and a sentence says since when. An engine that was opened
 * without a controller is away until the nodes were heard of.
 *
 * A job's name may have ends of lines in it. So each record of the queue ends
 * with a mark that was drawn for this one question, and what is between two
 * marks is one line.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "engine/slurmwork.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const double answer_s = 20, cancel_every_s = 1;

void slurm_run(struct slurm *l, const char *const *argv,
               const struct command *how)
{
    struct command command = *how;
    VEC(const char *) words = {0};
    struct firn_buf path = {0};
    if (l->path[0] != '\0')
        buf_printf(&path, "%s/", l->path);
    buf_puts(&path, argv[0]);
    vec_add(&words, path.at);
    for (size_t i = 1; argv[i] != NULL; i++)
        vec_add(&words, argv[i]);
    vec_add(&words, NULL);
    command.argv = words.at;
    commands_start(l->commands, &command);
    vec_release(&words);
    buf_release(&path);
}

static void came_back(struct slurm *l)
{
    if (!(l->away_s > 0) || l->is_kept)
        return; /* what GPUs others use is to be known before */
    log_info("Slurm answers again");
    l->away_s = 0;
    buf_clear(&l->trouble);
}

void slurm_went_away(struct slurm *l, const char *name, const char *why)
{
    char when[16] = "";
    struct tm parts;
    bool is_new = !(l->away_s > 0);
    if (is_new)
        l->away_s = slurm_now_s(l);
    time_t since = (time_t)l->away_s;
    if (localtime_r(&since, &parts) != NULL)
        strftime(when, sizeof when, "%H:%M", &parts);
    buf_clear(&l->trouble);
    buf_printf(&l->trouble, "slurmctld does not answer since %s: %s: %s", when,
               name, why);
    if (is_new)
        log_warn("%s", l->trouble.at);
}

const char *slurm_said(const struct command_done *done, char out[SLURM_EXCERPT])
{
    struct firn_bytes text = done->err;
    while (text.n > 0 &&
           (text.at[text.n - 1] == '\n' || text.at[text.n - 1] == ' '))
        text.n--;
    if (done->is_late)
        text = (struct firn_bytes){"it took too long", 16};
    return slurm_excerpt(text, out);
}

bool slurm_is_answer(struct slurm *l, const char *name,
                     const struct command_done *done)
{
    char text[SLURM_EXCERPT];
    if (done->has_run && !done->is_late && done->status == 0) {
        came_back(l);
        return true;
    }
    slurm_went_away(l, name, slurm_said(done, text));
    return false;
}

/* Is anything on its way? */
static bool is_busy(const struct slurm *l)
{
    for (size_t i = 0; i < l->roster.jobs.n; i++) {
        enum firn_phase phase = l->roster.jobs.at[i]->phase;
        if (phase == FIRN_PHASE_STARTING || phase == FIRN_PHASE_LEAVING)
            return true;
    }
    return l->rests.n > 0 || l->strays.n > 0 || l->away_s > 0;
}

void slurm_poll_soon(struct slurm *l)
{
    double soon_s = slurm_now_s(l) + 0.1 * l->poll_s;
    l->queue_due_s = fmin(l->queue_due_s, soon_s);
}

static void ask_queue(struct slurm *l, double now_s)
{
    char format[64];
    uint64_t drawn = 0;
    const char *argv[] = {"squeue", "--me", "-h", "-a",   "-r",
                          "-t",     "all",  "-o", format, NULL};
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        drawn = (uint64_t)(1e6 * now_s); /* better than none */
    snprintf(l->queue_mark, sizeof l->queue_mark, "|%" PRIx64, drawn);
    snprintf(format, sizeof format, "%s%s", SLURM_QUEUE_FORMAT, l->queue_mark);
    l->queue_asked_s = now_s;
    l->queue_due_s = INFINITY;
    slurm_run(l, argv,
              &(struct command){.limit_s = answer_s, .tag = SLURM_CMD_QUEUE});
}

static void ask_nodes(struct slurm *l)
{
    static const char *const argv[] = {"scontrol", "-o",   "-d",
                                       "show",     "node", NULL};
    l->nodes_due_s = INFINITY;
    slurm_run(l, argv,
              &(struct command){.limit_s = answer_s, .tag = SLURM_CMD_NODES});
}

void slurm_poll(struct slurm *l)
{
    double now_s = slurm_now_s(l);
    if (now_s >= l->queue_due_s &&
        commands_count(l->commands, SLURM_CMD_QUEUE) == 0)
        ask_queue(l, now_s);
    if (now_s >= l->nodes_due_s &&
        commands_count(l->commands, SLURM_CMD_NODES) == 0)
        ask_nodes(l);
    slurm_inbox_poll(l);
}

static double next_s(const struct slurm *l)
{
    return slurm_now_s(l) + (is_busy(l) ? 1 : 4) * l->poll_s;
}

/* The records as lines, without their marks; what has none stays as it is. */
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

static void take_queue(struct slurm *l, const struct command_done *done)
{
    struct slurm_jobs jobs = {0};
    struct firn_error err = {0};
    struct firn_buf lines = {0};
    if (slurm_is_answer(l, "squeue", done)) {
        put_lines(done->out, l->queue_mark, &lines);
        struct firn_bytes text = {lines.n > 0 ? lines.at : "", lines.n};
        if (slurm_jobs_read(&jobs, text, &err) == FIRN_OK)
            slurm_queue_take(l, &jobs, l->queue_asked_s);
        else
            slurm_went_away(l, "squeue", err.text);
        slurm_jobs_release(&jobs);
    }
    buf_release(&lines);
    l->queue_due_s = fmin(l->queue_due_s, next_s(l));
}

static void see_nodes(struct slurm *l, const struct slurm_nodes *nodes)
{
    bool is_first = l->is_kept;
    l->is_kept = false;
    if (is_first)
        slurm_kept_compare(l, nodes);
    slurm_nodes_take(l, nodes);
    if (is_first) {
        slurm_nodes_use(l, 0);
        slurm_nodes_first(l);
    }
    came_back(l);
}

static void take_nodes(struct slurm *l, const struct command_done *done)
{
    struct slurm_nodes nodes = {0};
    struct firn_error err = {0};
    if (slurm_is_answer(l, "scontrol", done)) {
        if (slurm_nodes_read(&nodes, done->out, &err) == FIRN_OK)
            see_nodes(l, &nodes);
        else
            slurm_went_away(l, "scontrol", err.text);
        slurm_nodes_release(&nodes);
    }
    l->nodes_due_s = fmin(l->nodes_due_s, next_s(l));
}

void slurm_answers(struct slurm *l)
{
    struct command_done done;
    while (commands_next(l->commands, &done)) {
        if (done.tag == SLURM_CMD_QUEUE)
            take_queue(l, &done);
        else if (done.tag == SLURM_CMD_NODES)
            take_nodes(l, &done);
        else if (done.tag == SLURM_CMD_SUBMIT)
            slurm_submitted(l, &done);
        else if (done.tag >= SLURM_CMD_INBOX)
            slurm_inbox_answer(l, &done);
    } /* scancel: the next answer of squeue tells */
}

const char *slurm_mark_option(const struct slurm_tag *tag,
                              char out[SLURM_TAG_MAX + 8])
{
    char mark[SLURM_TAG_MAX];
    slurm_tag_print(tag, mark);
    snprintf(out, SLURM_TAG_MAX + 8, "--name=%s", mark);
    return out;
}

void slurm_cancel(struct slurm *l, struct slurmjob *job, bool is_gentle)
{
    char id[32], mark[SLURM_TAG_MAX + 8];
    double now_s = slurm_now_s(l);
    if (job->inbox[0] != '\0') {
        slurm_inbox_cancel(l, job);
        return;
    }
    if (job->slurm_id == 0 || now_s < job->cancel_s + cancel_every_s)
        return;
    const struct slurm_tag tag = {l->cell, job->base.id, job->base.epoch};
    const char *argv[] = {"scancel", is_gentle ? "--state=PENDING" : "--quiet",
                          slurm_mark_option(&tag, mark), id, NULL};
    job->cancel_s = now_s;
    snprintf(id, sizeof id, "%lld", (long long)job->slurm_id);
    slurm_run(l, argv,
              &(struct command){.limit_s = answer_s, .tag = SLURM_CMD_CANCEL});
    slurm_poll_soon(l);
}
