/* slurm_start.c - a start: from free GPUs to a job in Slurm's queue.
 *
 *     number     from the host, on its disk         crash: never started
 *     launch     written, with the file `ask`       crash: never started
 *     fence      raised, both locks held            crash: never started
 *     sbatch     once for this number, ever         crash: searched by tag
 *
 * sbatch may fail although Slurm took the job (the answer was lost), and may
 * still run after firnd died. So without a job number from sbatch, the attempt
 * is searched by its tag until the controller has answered twice and a while
 * has passed; if it is not found, the fence is raised above it and the next
 * attempt begins. Should the job appear later, its shepherd finds the fence,
 * and the engine cancels it as an orphan.
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

/* As on one host, except variables that Slurm sets on a node or that describe
 * this host. */
static bool is_passed_on(const struct slurm *slurm, const char *variable)
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
    return passenv_has(variable, slurm->pass_env);
}

/* What gpu_at() needs. */
struct layout {
    const struct slurm *slurm;
    const struct slurmjob *job;
};

static struct worker_gpu gpu_at(const void *arg, firn_node_id node, int index)
{
    const struct layout *layout = arg;
    const struct slurm *slurm = layout->slurm;
    return (struct worker_gpu){
        .mem_gib =
            slurm->cluster.types[slurm->cluster.nodes[node].type].mem_gib,
        .address = slurm->hosts.at[node].host,
        .pilot = slurm_pilot_of(layout->job, node, index)};
}

/* Options of the job's srun, for its shepherd: one FIRN_SRUN=--option each. */
static void add_step_options(const struct firn_launch *launch,
                             struct launchfile *file)
{
    for (const char *const *at = launch->step_options;
         at != NULL && *at != NULL; at++)
        vec_add(&file->common, arena_printf(&file->text, "FIRN_SRUN=%s", *at));
}

void slurm_variables(const struct slurm *slurm, const struct slurmjob *job,
                     const struct firn_alloc *held,
                     const struct firn_launch *launch, struct launchfile *file)
{
    const struct layout layout = {slurm, job};
    const struct slurm_host *first = &slurm->hosts.at[held->parts[0].node];
    const struct workerenv env = {.cluster = &slurm->cluster,
                                  .job = job->base.id,
                                  .attempt = job->base.attempt,
                                  .alloc = held,
                                  .has_driver = first->is_mps,
                                  .host = first->host,
                                  .names = slurm->names.at,
                                  .gpu = gpu_at,
                                  .arg = &layout};
    for (char **at = environ; *at != NULL && job->user[0] == '\0'; at++)
        if (is_passed_on(slurm, *at)) /* another user's shell is not firnd's */
            vec_add(&file->common, *at);
    if (launch->can_checkpoint)
        vec_add(&file->common, "FIRN_TERM=checkpoint");
    add_step_options(launch, file);
    workerenv_add(&env, launch, file);
}

/* --- sbatch --------------------------------------------------------------- */

static enum firn_status submit(struct slurm *slurm, struct slurmjob *job,
                               const struct firn_launch *launch,
                               struct firn_error *err)
{
    struct slurm_argv words = {0};
    struct arena text = {0};
    struct firn_buf script = {0};
    enum firn_status status = slurm_batch_script(slurm, job, &script, err);
    if (status != FIRN_OK) {
        buf_release(&script);
        return status;
    }
    slurm_batch_argv(slurm, job, launch, &words, &text);
    job->submit = SUBMIT_ASKED;
    failpoint("engine.fork.before");
    commands_start(slurm->commands,
                   &(struct command){.argv = words.at.at,
                                     .input = {script.at, script.n},
                                     .limit_s = submit_limit_s,
                                     .tag = SLURM_CMD_SUBMIT,
                                     .about = job->base.id,
                                     .more = job->base.attempt});
    failpoint("engine.fork.after");
    vec_release(&words.at);
    arena_release(&text);
    buf_release(&script);
    return FIRN_OK;
}

void slurm_submitted(struct slurm *slurm, const struct command_done *done)
{
    struct slurmjob *job = slurm_find(slurm, (firn_job_id)done->about);
    int64_t id = 0;
    if (job == NULL || job->base.held.nparts == 0 ||
        job->base.attempt != done->more || job->submit != SUBMIT_ASKED)
        return; /* found as an orphan in the queue */
    job->known_s = slurm_now_s(slurm);
    job->nmissing = 0;
    job->look_s = 0;
    slurm_poll_soon(slurm);
    if (done->has_run && !done->is_late && done->status == 0 &&
        slurm_id_read(done->out, &id, NULL) == FIRN_OK) {
        job->slurm_id = id;
        job->submit = SUBMIT_DONE;
        job->refusal[0] = '\0';
        return;
    }
    bool is_clear =
        !done->has_run ||
        (slurm_is_refusal(done) &&
         strstr(done->err.at, "Batch job submission failed") != NULL);
    job->is_refused = is_clear;
    slurm_failure(done, job->refusal);
    job->submit = SUBMIT_UNSURE;
    job->settle_s = job->known_s + (is_clear ? 0 : slurm_settle_s(slurm));
    if (is_clear && !done->has_run)
        job->nmissing = 2; /* sbatch did not run */
    log_warn("job %d: sbatch failed: %s", job->base.id, job->refusal);
}

/* --- all of it ------------------------------------------------------------ */

static enum firn_status prepare(struct slurm *slurm, struct slurmjob *job,
                                const struct firn_launch *launch,
                                struct firn_error *err)
{
    struct launchfile file;
    FIRN_TRY(slurm_cell(slurm, launch->folder, err));
    slurm_user_of(slurm, job, launch);
    roster_launch_begin(&job->base, launch, &file);
    slurm_variables(slurm, job, &job->base.held, launch, &file);
    enum firn_status status =
        roster_prepare(&job->base, launch,
                       &(struct roster_file){&file, .is_remote = true}, err);
    launchfile_release(&file);
    FIRN_TRY(status);
    FIRN_TRY(slurm_pilots_prepare(job, err));
    roster_watch(&slurm->roster, &job->base);
    return submit(slurm, job, launch, err);
}

void slurm_launch(struct slurm *slurm, struct slurmjob *job)
{
    struct firn_launch launch = {0};
    struct firn_error err = {0};
    job->base.is_numbered = false;
    bool is_known = slurm->host.launch(slurm->host.arg, job->base.id, &launch);
    bool is_from_inbox =
        is_known && launch.inbox != NULL && launch.inbox[0] != '\0';
    if (!is_known ||
        (!is_from_inbox && (launch.argv == NULL || launch.argv[0] == NULL))) {
        roster_report_end(&slurm->roster, &job->base, FIRN_EVENT_FAIL,
                          FIRN_END_LOST);
        slurm_drop(slurm, job);
        return;
    }
    if (is_from_inbox) { /* Slurm has the job; the engine says where it runs */
        str_copy(job->inbox, sizeof job->inbox, launch.inbox);
        job->base.grace_s = launch.grace_s;
        job->submit = SUBMIT_ASKED;
        slurm_inbox_start(slurm, job);
    } else if (launch.trouble != NULL ||
               prepare(slurm, job, &launch, &err) != FIRN_OK) {
        if (launch.trouble != NULL)
            firn_fail(&err, FIRN_EIO, "%s", launch.trouble);
        slurm_forget_attempt(slurm, job);
        roster_retry(&slurm->roster, &job->base, err.text);
        return;
    }
    job->base.began_s = slurm_now_s(slurm);
    job->base.until_s = INFINITY;
    job->look_s = job->base.began_s;
    roster_phase(&slurm->roster, &job->base, FIRN_PHASE_STARTING);
}
