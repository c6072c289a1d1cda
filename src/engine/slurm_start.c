/* slurm_start.c - from GPUs that are free to a job that Slurm has.
 *
 *     number     from the host, on its disk         crash: never started
 *     launch     written, with the word `ask`       crash: never started
 *     fence      raised, both locks in hand         crash: never started
 *     sbatch     once for this number, ever         crash: looked for by tag
 *
 * sbatch may fail though the job was taken (its answer was lost), and may still
 * run when we are dead. So when it did not return a number, the epoch is looked
 * for by its tag until the controller has answered twice and a while has
 * passed; if it is not there then, the fence goes above it and another number
 * is used. Should it appear after all, its shepherd finds the fence, and the
 * queue's sweep cancels it.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/holding.h"
#include "engine/launchfile.h"
#include "engine/passenv.h"
#include "engine/slurmwork.h"
#include "engine/workerenv.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static const double submit_limit_s = 60;

/* --- the launch file ------------------------------------------------------ */

/* Our own variables, as on one host; but those that Slurm sets on a node, or
 * that are of this host alone, are the node's. */
static bool is_passed_on(const struct slurm *l, const char *variable)
{
    static const char *const not_these[] = {"SLURM",
                                            "SBATCH_",
                                            "SRUN_",
                                            "HOSTNAME=",
                                            "PWD=",
                                            "OLDPWD=",
                                            "SHLVL=",
                                            "_=",
                                            "CUDA_VISIBLE_DEVICES=",
                                            "ROCR_VISIBLE_DEVICES=",
                                            "GPU_DEVICE_ORDINAL=",
                                            "ZE_AFFINITY_MASK=",
                                            "NVIDIA_VISIBLE_DEVICES="};
    for (size_t i = 0; i < sizeof not_these / sizeof *not_these; i++)
        if (strncmp(variable, not_these[i], strlen(not_these[i])) == 0)
            return false;
    return passenv_has(variable, l->pass_env);
}

static struct worker_gpu gpu_at(const void *arg, firn_node_id node, int index)
{
    const struct slurm *l = arg;
    (void)index;
    return (struct worker_gpu){
        NULL, l->cluster.types[l->cluster.nodes[node].type].mem_gib};
}

static void tell_workers(const struct slurm *l, const struct slurmjob *job,
                         const struct firn_launch *launch,
                         struct launchfile *file)
{
    const struct firn_alloc *held = &job->base.held;
    const struct slurm_host *first = &l->hosts.at[held->parts[0].node];
    const struct workerenv of = {.cluster = &l->cluster,
                                 .job = job->base.id,
                                 .epoch = job->base.epoch,
                                 .alloc = held,
                                 .has_driver = first->is_mps,
                                 .host = first->host,
                                 .names = l->names.at,
                                 .gpu = gpu_at,
                                 .arg = l};
    for (char **at = environ; *at != NULL; at++)
        if (is_passed_on(l, *at))
            vec_add(&file->common, *at);
    workerenv_tell(&of, launch, file);
}

/* --- sbatch --------------------------------------------------------------- */

static enum firn_status submit(struct slurm *l, struct slurmjob *job,
                               bool is_per_node, struct firn_error *err)
{
    struct slurm_words words = {0};
    struct arena text = {0};
    struct firn_buf script = {0};
    enum firn_status status = slurm_batch_script(l, job, &script, err);
    if (status != FIRN_OK) {
        buf_release(&script);
        return status;
    }
    slurm_batch_words(l, job, is_per_node, &words, &text);
    job->submit = SUBMIT_ASKED;
    failpoint("engine.fork.before");
    commands_start(l->commands,
                   &(struct command){.argv = words.at.at,
                                     .input = {script.at, script.n},
                                     .limit_s = submit_limit_s,
                                     .tag = SLURM_CMD_SUBMIT,
                                     .about = job->base.id,
                                     .more = job->base.epoch});
    failpoint("engine.fork.after");
    vec_release(&words.at);
    arena_release(&text);
    buf_release(&script);
    return FIRN_OK;
}

/* Did the controller say no, in so many words? */
static bool is_no(const struct command_done *done)
{
    static const char *const unclear[] = {
        "ontact", "imed out", "ommunication", "onnect",
        "Zero",   "message",  "temporarily",  "nexpected"};
    if (done->is_late || done->status == 0 || done->status > 128)
        return false;
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++)
        if (strstr(done->err.at, unclear[i]) != NULL)
            return false;
    return true;
}

static bool is_refusal(const struct command_done *done)
{
    return !done->has_run ||
           (is_no(done) &&
            strstr(done->err.at, "Batch job submission failed") != NULL);
}

void slurm_submitted(struct slurm *l, const struct command_done *done)
{
    struct slurmjob *job = slurm_find(l, (firn_job_id)done->about);
    int64_t id = 0;
    if (job == NULL || job->base.held.nparts == 0 ||
        job->base.epoch != done->more || job->submit != SUBMIT_ASKED)
        return; /* the queue's sweep finds it */
    job->known_s = slurm_now_s(l);
    job->nmissing = 0;
    job->look_s = 0;
    slurm_poll_soon(l);
    if (done->has_run && !done->is_late && done->status == 0 &&
        slurm_id_read(done->out, &id, NULL) == FIRN_OK) {
        job->slurm_id = id;
        job->submit = SUBMIT_DONE;
        job->said[0] = '\0';
        return;
    }
    bool is_clear = is_refusal(done);
    job->is_refused = is_clear;
    slurm_said(done, job->said);
    job->submit = SUBMIT_UNSURE;
    job->settle_s = job->known_s + (is_clear ? 0 : slurm_settle_s(l));
    if (is_clear && !done->has_run)
        job->nmissing = 2; /* nobody was asked */
    log_warn("job %d: sbatch failed: %s", job->base.id, job->said);
}

/* It runs or has run, by an earlier command that was slow, or it is gone, or
 * busy: who asks for it next hears which. */
static bool is_too_late(const struct command_done *done)
{
    static const char *const words[] = {"no longer pending", "not pending nor",
                                        "already ", "nvalid job id",
                                        "try again"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(done->err.at, words[i]) != NULL)
            return true;
    return false;
}

void slurm_not_let_go(struct slurm *l, const struct command_done *done)
{
    struct slurmjob *job = slurm_find(l, (firn_job_id)done->about);
    if (job == NULL || job->base.held.nparts == 0 || job->inbox[0] == '\0' ||
        job->base.epoch != done->more || !done->has_run || !is_no(done) ||
        is_too_late(done))
        return;
    slurm_seen(l, job, job->slurm_id, SLURM_LOST);
    slurm_said(done, job->said);
}

/* --- all of it ------------------------------------------------------------ */

static enum firn_status prepare(struct slurm *l, struct slurmjob *job,
                                const struct firn_launch *launch,
                                struct firn_error *err)
{
    struct launchfile file;
    FIRN_TRY(slurm_cell(l, launch->folder, err));
    roster_launch_begin(&job->base, launch, &file);
    tell_workers(l, job, launch, &file);
    enum firn_status status = roster_prepare(
        &job->base, launch, &(struct roster_file){&file, .is_far = true}, err);
    launchfile_release(&file);
    FIRN_TRY(status);
    roster_watch(&l->roster, &job->base);
    return submit(l, job, launch->is_per_node, err);
}

/* A job that Slurm has already: nothing of it is ours but where it goes. */
static void let_go(struct slurm *l, struct slurmjob *job,
                   const struct firn_launch *launch)
{
    str_copy(job->inbox, sizeof job->inbox, launch->inbox);
    job->base.grace_s = launch->grace_s;
    job->submit = SUBMIT_ASKED;
    slurm_inbox_start(l, job);
}

void slurm_start(struct slurm *l, struct slurmjob *job)
{
    struct firn_launch launch = {0};
    struct firn_error err = {0};
    if (l->host.next_epoch(l->host.arg, job->base.id, &job->base.epoch, &err) !=
        FIRN_OK) {
        roster_again(&l->roster, &job->base, err.text);
        return;
    }
    failpoint("engine.epoch.after");
    bool is_known = l->host.launch(l->host.arg, job->base.id, &launch);
    bool is_guest = is_known && launch.inbox != NULL && launch.inbox[0] != '\0';
    if (!is_known ||
        (!is_guest && (launch.argv == NULL || launch.argv[0] == NULL))) {
        roster_tell_end(&l->roster, &job->base, FIRN_EVENT_FAIL, FIRN_END_LOST);
        slurm_drop(l, job);
        return;
    }
    holding_copy(&job->base.held, &job->base.want);
    if (is_guest)
        let_go(l, job, &launch);
    else if (prepare(l, job, &launch, &err) != FIRN_OK) {
        slurm_forget_epoch(l, job);
        roster_again(&l->roster, &job->base, err.text);
        return;
    }
    job->base.began_s = slurm_now_s(l);
    job->base.until_s = INFINITY;
    job->look_s = job->base.began_s;
    roster_phase(&l->roster, &job->base, FIRN_PHASE_STARTING);
}
