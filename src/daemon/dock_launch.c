/* dock_launch.c - what an engine is told of a job that it starts.
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
 * With a launcher jobs run as their users: these folders can be passed through
 * by all (0711), and the launcher gives `work` and `ckpt` to the user.
 *
 * Texts live until the next launch. Folders are made here, so that an engine
 * finds them; when one cannot be made the engine tries again later, rather than
 * start a job that would fail for want of it. Of two jobs that are merged the
 * processes of one are told of the other, and leave by the longer grace of the
 * two; a checkpoint is due by the shorter interval, since both write at once.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "daemon/abilities.h"
#include "daemon/dock.h"
#include "daemon/partner.h"
#include "daemon/slurmask.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static const double GRACE_S = 30;

enum firn_status dock_mark(struct dock *dock, struct firn_error *err)
{
    struct firn_buf text = {0};
    enum firn_status status = store_get_meta(dock->store, "mark", &text, err);
    bool is_there = status == FIRN_OK && text.n == sizeof dock->mark - 1;
    if (is_there)
        memcpy(dock->mark, text.at, text.n);
    buf_release(&text);
    if (is_there || (status != FIRN_OK && status != FIRN_ENOENT))
        return status;
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return firn_fail(err, FIRN_EIO, "cannot draw a number: %s",
                         strerror(errno));
    snprintf(dock->mark, sizeof dock->mark, "%016llx",
             (unsigned long long)number);
    return store_put_meta(
        dock->store, "mark",
        (struct firn_bytes){dock->mark, sizeof dock->mark - 1}, err);
}

/* Does the file exist? FIRN_EIO: that cannot be found out now. */
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

enum firn_status dock_layout(struct dock *dock, const struct live_job *job,
                             struct firn_error *err)
{
    struct firn_buf path = {0};
    bool has_control = false, has_lock = false;
    buf_printf(&path, "%s/control/%d", dock->config->state, job->id);
    enum firn_status status = find(path.at, &has_control, err);
    buf_clear(&path);
    buf_printf(&path, "%s/jobs/%d/lock", dock->config->state, job->id);
    if (status == FIRN_OK && !has_control)
        status = find(path.at, &has_lock, err);
    if (has_lock && !has_control)
        vec_add(&dock->older, job->id);
    buf_release(&path);
    return status;
}

/* Behind `launch`, until the next one. */
struct launchtext {
    struct arena text;
    struct firn_launch_mate mate;
    int executors[FIRN_TYPES_MAX];
    const char *trouble; /* NULL: all folders are there */
    const char *settings[10];
    const char *submit[SLURMASK_MAX], *step[SLURMASK_MAX];
};

void dock_launch_free(struct dock *dock)
{
    if (dock->launch == NULL)
        return;
    arena_release(&dock->launch->text);
    mem_free(dock->launch);
    dock->launch = NULL;
}

const char *dock_job_folder(const struct dock *dock, firn_job_id id,
                            struct firn_buf *out)
{
    buf_clear(out);
    buf_printf(out, "%s/jobs/%d", dock->config->state, id);
    return out->at;
}

/* A freezing policy lets a job freeze by its user's rule; others do not. */
static const char *freeze_of(const struct dock *dock,
                             const struct live_job *job)
{
    if (job->ask.freeze[0] == '\0')
        return "";
    return dock->tunes & FIRN_TUNE_FREEZE ? job->ask.freeze : "off";
}

/* The first folder that cannot be made is why the job cannot be launched now.
 */
static const char *make_below(struct dock *dock, const char *folder,
                              const char *name)
{
    const char *path = arena_printf(&dock->launch->text, "%s/%s", folder, name);
    mode_t mode = dock->config->launcher != NULL ? 0711 : 0700;
    if (mkdir(path, mode) != 0 && errno != EEXIST &&
        dock->launch->trouble == NULL)
        dock->launch->trouble = arena_printf(
            &dock->launch->text, "cannot make '%s': %s", path, strerror(errno));
    return path;
}

/* "<state>/jobs/N" or "<state>/control/N", made. */
static const char *job_folder(struct dock *dock, const char *kind,
                              firn_job_id id)
{
    char name[32];
    snprintf(name, sizeof name, "%d", id);
    return make_below(dock, make_below(dock, dock->config->state, kind), name);
}

/* Where its checkpoints go; "" when it writes none. */
static const char *ckpt_folder(struct dock *dock, const struct live_job *job)
{
    if (job->ask.ckpt_dir[0] != '\0' || !job->ask.can_checkpoint)
        return job->ask.ckpt_dir;
    return make_below(dock, job_folder(dock, "jobs", job->id), "ckpt");
}

/* Was it started by an older firnd, and has not ended? */
static bool is_older(const struct dock *dock, firn_job_id id)
{
    for (size_t i = 0; i < dock->older.n; i++)
        if (dock->older.at[i] == id)
            return true;
    return false;
}

/* Where its control files are: see above. */
static const char *control_folder(struct dock *dock, const struct live_job *job)
{
    return job_folder(dock, is_older(dock, job->id) ? "jobs" : "control",
                      job->id);
}

/* Where it is run. */
static const char *workdir(struct dock *dock, const struct live_job *job)
{
    if (job->ask.workdir[0] != '\0')
        return job->ask.workdir;
    const char *folder = job_folder(dock, "jobs", job->id);
    return is_older(dock, job->id) ? folder : make_below(dock, folder, "work");
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

/* Its partner in a training of two, and the job whose weights it begins with.
 */
static void launch_others(struct dock *dock, const struct live_job *job,
                          struct firn_launch *out)
{
    const struct live_job *partner = partner_of(dock->book, job);
    const struct live_job *first = job->how.after != FIRN_NO_JOB
                                       ? book_job(dock->book, job->how.after)
                                       : NULL;
    out->after = "";
    out->anew = job->anew;
    if (partner != NULL) {
        dock->launch->mate = (struct firn_launch_mate){
            .job = partner->id,
            .attempt = partner->attempt,
            .name = partner->ask.name,
            .argv = (const char *const *)partner->ask.argv,
            .dataset = partner->ask.dataset,
            .ckpt = ckpt_folder(dock, partner),
            .token = partner->token,
            .threads = threads_of(&partner->ask),
            .freeze_max = partner->ask.freeze_max,
            .target_metric = partner->ask.target_metric};
        out->mate = &dock->launch->mate;
        out->grace_s = fmax(out->grace_s, grace_of(&partner->ask));
        double its_s = partner->ask.ckpt_every_s; /* both write at once */
        if (its_s > 0 && !(out->ckpt_every_s > 0 && out->ckpt_every_s < its_s))
            out->ckpt_every_s = its_s;
    }
    if (first != NULL && first->state == LIVE_SUCCEEDED && job->anew == 0) {
        out->after = ckpt_folder(dock, first);
        out->after_job = first->id;
    }
}

/* What else the job file says of its model, for its trainer. The third stage of
 * ZeRO is part of the plan, and the engine's to tell. */
static const char *const *settings_of(struct dock *dock,
                                      const struct live_ask *ask)
{
    struct launchtext *to = dock->launch;
    char rank[16] = "";
    bool is_plan = ask->zero[0] == '3' || ask->zero[0] == 'f';
    size_t n = 0;
    if (ask->lora > 0)
        snprintf(rank, sizeof rank, "%d", ask->lora);
    const char *const said[][2] = {
        {"FIRN_CONFIG", ask->config},
        {"FIRN_MODE", ask->mode},
        {"FIRN_LORA", rank},
        {"FIRN_LORA_ON", ask->lora_on},
        {"FIRN_LORA_PRECISION", ask->lora_precision},
        {"FIRN_LOSS", ask->loss},
        {"FIRN_ZERO", is_plan ? "" : ask->zero},
        {"FIRN_OFFLOAD", ask->offload},
    };
    _Static_assert(sizeof said / sizeof *said <
                       sizeof to->settings / sizeof *to->settings,
                   "room for all settings and the end");
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i][1][0] != '\0')
            to->settings[n++] =
                arena_printf(&to->text, "%s=%s", said[i][0], said[i][1]);
    to->settings[n] = NULL;
    return to->settings;
}

/* A trainer of a language model has no other source of its batch. */
static int batch_of(const struct live_job *job)
{
    if (job->orders.batch > 0)
        return job->orders.batch;
    return job->ask.model[0] != '\0' ? job->ask.batch : 0;
}

bool dock_launch(struct dock *dock, firn_job_id id, struct firn_launch *out)
{
    const struct live_job *job = book_job(dock->book, id);
    if (job == NULL ||
        (live_state_is_over(job->state) && job->ask.inbox[0] == '\0'))
        return false; /* one of the inbox may still have to be ended there */
    if (dock->launch == NULL)
        dock->launch = mem_new(1, sizeof *dock->launch);
    arena_reset(&dock->launch->text);
    dock->launch->trouble = NULL;
    const char *folder = job_folder(dock, "jobs", id);
    const struct live_ask *ask = &job->ask;
    *out = (struct firn_launch){
        .name = ask->name,
        .user = ask->user,
        .argv = (const char *const *)ask->argv,
        .env = (const char *const *)ask->env,
        .workdir = workdir(dock, job),
        .folder = control_folder(dock, job),
        .log = arena_printf(&dock->launch->text, "%s/log", folder),
        .log_max_bytes = dock->log_mib << 20,
        .url = dock->url.n > 0 ? dock->url.at : "",
        .token = job->token,
        .ckpt = ckpt_folder(dock, job),
        .ckpt_every_s = ask->ckpt_every_s,
        .freeze = freeze_of(dock, job),
        .freeze_max = ask->freeze_max,
        .target_metric = ask->target_metric,
        .model = ask->model,
        .precision = ask->precision,
        .optimizer = ask->optimizer,
        .attention = ask->attention,
        .checkpointing = ask->checkpointing,
        .settings = settings_of(dock, ask),
        .threads = threads_of(ask),
        .grace_s = grace_of(ask),
        .can_checkpoint = ask->can_checkpoint,
        .is_per_node = strcmp(ask->launch, "one") == 0,
        .can_join = (abilities_of(job, NULL) & FIRN_CAN_JOIN) != 0,
        .inbox = ask->inbox,
        .after = "",
        .has_run = job->state == LIVE_RUNNING,
        .batch = batch_of(job),
        .batch_rule = ask->batch_rule,
        .frozen = strcmp(freeze_of(dock, job), "penalty") == 0
                      ? job->start_frozen
                      : -1,
    };
    launch_others(dock, job, out);
    slurmask_submit(ask, &dock->launch->text, dock->launch->submit);
    slurmask_step(ask, &dock->launch->text, dock->launch->step);
    out->submit_options = dock->launch->submit;
    out->step_options = dock->launch->step;
    out->attempt_limit_s = ask->slurm_time_s;
    out->constraint = ask->slurm_constraint;
    out->gpus_min = ask->gpus_min;
    out->gpus_max = ask->gpus_max;
    for (int t = 0; t < FIRN_TYPES_MAX; t++)
        dock->launch->executors[t] = job->executors[t];
    out->executors = dock->launch->executors;
    out->trouble = dock->launch->trouble;
    return true;
}
