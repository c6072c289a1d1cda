/* loop_launch.c - what an engine is told of a job that it starts.
 *
 * Texts live until the next launch. Folders are made here, so that an engine
 * finds them. Of two jobs that are merged the processes of one are told of the
 * other, and leave by the longer grace of the two; a checkpoint is due by the
 * shorter interval, since both write at once.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "daemon/loopwork.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const double GRACE_S = 30;

/* Behind `launch`, until the next one. */
struct launchtext {
    struct arena text;
    struct firn_launch_mate mate;
};

void loop_launch_free(struct loop *loop)
{
    if (loop->launch == NULL)
        return;
    arena_release(&loop->launch->text);
    mem_free(loop->launch);
    loop->launch = NULL;
}

const char *loop_job_folder(const struct loop *loop, firn_job_id id,
                            struct firn_buf *out)
{
    buf_clear(out);
    buf_printf(out, "%s/jobs/%d", loop->config->state, id);
    return out->at;
}

/* A freezing policy lets a job freeze by its user's rule; others do not. */
static const char *freeze_of(const struct loop *loop,
                             const struct live_job *job)
{
    if (job->ask.freeze[0] == '\0')
        return "";
    return loop->policy->tunes & FIRN_TUNE_FREEZE ? job->ask.freeze : "off";
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        log_warn("cannot make '%s': %s", path, strerror(errno));
}

/* Where its checkpoints go; "" when it writes none. */
static const char *ckpt_folder(struct loop *loop, const struct live_job *job)
{
    const char *jobs =
        arena_printf(&loop->launch->text, "%s/jobs", loop->config->state);
    const char *folder =
        arena_printf(&loop->launch->text, "%s/%d", jobs, job->id);
    if (job->ask.ckpt_dir[0] != '\0' || !job->ask.can_checkpoint)
        return job->ask.ckpt_dir;
    const char *ckpt = arena_printf(&loop->launch->text, "%s/ckpt", folder);
    make_folder(jobs);
    make_folder(folder);
    make_folder(ckpt);
    return ckpt;
}

static int threads_of(const struct live_ask *ask)
{
    return ask->threads > 0 ? ask->threads
                            : (ask->is_elastic ? ask->gpus_max : 0);
}

static double grace_of(const struct live_ask *ask)
{
    return ask->grace_s > 0 ? ask->grace_s : GRACE_S;
}

/* The one who rides with it, and whose weights it begins with. */
static void launch_others(struct loop *loop, const struct live_job *job,
                          struct firn_launch *out)
{
    const struct live_job *mate = ride_other(loop, job);
    const struct live_job *first =
        job->how.after > 0 ? book_job(loop->book, job->how.after - 1) : NULL;
    out->after = "";
    if (mate != NULL) {
        loop->launch->mate = (struct firn_launch_mate){
            .job = mate->id,
            .epoch = mate->epoch,
            .name = mate->ask.name,
            .argv = (const char *const *)mate->ask.argv,
            .dataset = mate->ask.dataset,
            .ckpt = ckpt_folder(loop, mate),
            .token = mate->token,
            .threads = threads_of(&mate->ask),
            .freeze_max = mate->ask.freeze_max};
        out->mate = &loop->launch->mate;
        out->grace_s = fmax(out->grace_s, grace_of(&mate->ask));
        double its_s = mate->ask.ckpt_every_s; /* both write at once */
        if (its_s > 0 && !(out->ckpt_every_s > 0 && out->ckpt_every_s < its_s))
            out->ckpt_every_s = its_s;
    }
    if (first != NULL && first->state == LIVE_SUCCEEDED) {
        out->after = ckpt_folder(loop, first);
        out->after_job = first->id;
    }
}

bool loop_launch(void *arg, firn_job_id id, struct firn_launch *out)
{
    struct loop *loop = arg;
    const struct live_job *job = book_job(loop->book, id);
    if (job == NULL ||
        (live_state_is_over(job->state) && job->ask.inbox[0] == '\0'))
        return false; /* one of the inbox may still have to be ended there */
    if (loop->launch == NULL)
        loop->launch = mem_new(1, sizeof *loop->launch);
    arena_reset(&loop->launch->text);
    const char *jobs =
        arena_printf(&loop->launch->text, "%s/jobs", loop->config->state);
    const char *folder = arena_printf(&loop->launch->text, "%s/%d", jobs, id);
    make_folder(jobs);
    make_folder(folder);
    const struct live_ask *ask = &job->ask;
    *out = (struct firn_launch){
        .name = ask->name,
        .argv = (const char *const *)ask->argv,
        .env = (const char *const *)ask->env,
        .workdir = ask->workdir[0] != '\0' ? ask->workdir : folder,
        .folder = folder,
        .log = arena_printf(&loop->launch->text, "%s/log", folder),
        .log_max_bytes = loop->said->keep.log_mib << 20,
        .url = loop->http != NULL ? loop->url.at : "",
        .token = job->token,
        .ckpt = ckpt_folder(loop, job),
        .ckpt_every_s = ask->ckpt_every_s,
        .freeze = freeze_of(loop, job),
        .freeze_max = ask->freeze_max,
        .threads = threads_of(ask),
        .grace_s = grace_of(ask),
        .can_checkpoint = ask->can_checkpoint,
        .inbox = ask->inbox,
        .after = "",
    };
    launch_others(loop, job, out);
    return true;
}
