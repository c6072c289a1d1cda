/* loop_launch.c - what an engine is told of a job that it starts.
 *
 *     <state>/jobs/N/log      its output
 *     <state>/jobs/N/ckpt     its checkpoints, if it does not say where
 *     <state>/jobs/N/work     it runs there, if it does not say where
 *     <state>/control/N       lock, fence, pid and exit (engine/attemptfiles.h)
 *
 * A job is told of the first three, and may delete what it finds there; what
 * the engine lives by is elsewhere. An older firnd had all of it in jobs/N, and
 * ran jobs there. Jobs that were started by it keep that layout until they end,
 * for their processes and their files are there: a job is one of these when
 * jobs/N/lock is there and control/N is not.
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
#include <sys/random.h>
#include <sys/stat.h>

static const double GRACE_S = 30;

enum firn_status loop_mark(struct loop *loop, struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = store_get_meta(loop->store, "mark", &text, err);
    bool is_there = status == FIRN_OK && text.n == sizeof loop->mark - 1;
    if (is_there)
        memcpy(loop->mark, text.at, text.n);
    buf_release(&text);
    if (is_there || (status != FIRN_OK && status != FIRN_ENOENT))
        return status;
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return firn_fail(err, FIRN_EIO, "cannot draw a number: %s",
                         strerror(errno));
    snprintf(loop->mark, sizeof loop->mark, "%016llx",
             (unsigned long long)number);
    return store_put_meta(
        loop->store, "mark",
        (struct firn_bytes){loop->mark, sizeof loop->mark - 1}, err);
}

/* Is it there? FIRN_EIO: that cannot be said now. */
static enum firn_status find(const char *path, bool *is_there,
                             struct firn_error *err)
{
    struct stat st;
    *is_there = lstat(path, &st) == 0;
    if (!*is_there && errno != ENOENT && errno != ENOTDIR)
        return firn_fail(err, FIRN_EIO, "cannot look at '%s': %s", path,
                         strerror(errno));
    return FIRN_OK;
}

enum firn_status loop_layout(struct loop *loop, const struct live_job *job,
                             struct firn_error *err)
{
    struct firn_buf path = {0};
    bool has_control = false, has_lock = false;
    buf_printf(&path, "%s/control/%d", loop->config->state, job->id);
    enum firn_status status = find(path.at, &has_control, err);
    buf_clear(&path);
    buf_printf(&path, "%s/jobs/%d/lock", loop->config->state, job->id);
    if (status == FIRN_OK && !has_control)
        status = find(path.at, &has_lock, err);
    loop_track_make(loop, job->id)->is_older = has_lock && !has_control;
    buf_release(&path);
    return status;
}

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

static const char *make_below(struct loop *loop, const char *folder,
                              const char *name)
{
    const char *path = arena_printf(&loop->launch->text, "%s/%s", folder, name);
    make_folder(path);
    return path;
}

/* "<state>/jobs/N" or "<state>/control/N", made. */
static const char *job_folder(struct loop *loop, const char *kind,
                              firn_job_id id)
{
    char name[32];
    snprintf(name, sizeof name, "%d", id);
    return make_below(loop, make_below(loop, loop->config->state, kind), name);
}

/* Where its checkpoints go; "" when it writes none. */
static const char *ckpt_folder(struct loop *loop, const struct live_job *job)
{
    if (job->ask.ckpt_dir[0] != '\0' || !job->ask.can_checkpoint)
        return job->ask.ckpt_dir;
    return make_below(loop, job_folder(loop, "jobs", job->id), "ckpt");
}

/* Where its control files are: see above. */
static const char *control_folder(struct loop *loop, const struct live_job *job)
{
    const struct track *track = loop_track(loop, job->id);
    bool is_older = track != NULL && track->is_older;
    return job_folder(loop, is_older ? "jobs" : "control", job->id);
}

/* Where it is run. */
static const char *workdir(struct loop *loop, const struct live_job *job)
{
    const struct track *track = loop_track(loop, job->id);
    if (job->ask.workdir[0] != '\0')
        return job->ask.workdir;
    const char *folder = job_folder(loop, "jobs", job->id);
    return track != NULL && track->is_older ? folder
                                            : make_below(loop, folder, "work");
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
    const struct live_job *mate = partner_of(loop->book, job);
    const struct live_job *first = job->how.after != FIRN_NO_JOB
                                       ? book_job(loop->book, job->how.after)
                                       : NULL;
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
    const char *folder = job_folder(loop, "jobs", id);
    const struct live_ask *ask = &job->ask;
    *out = (struct firn_launch){
        .name = ask->name,
        .argv = (const char *const *)ask->argv,
        .env = (const char *const *)ask->env,
        .workdir = workdir(loop, job),
        .folder = control_folder(loop, job),
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
        .has_run = job->state == LIVE_RUNNING,
    };
    launch_others(loop, job, out);
    return true;
}
