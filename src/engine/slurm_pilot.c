/* slurm_pilot.c - further allocations of an attempt that runs.
 *
 *     list       the number and its GPUs, on disk    crash: found unwanted
 *     sbatch     once for this number, ever          crash: searched by tag
 *     squeue     PENDING, RUNNING, over, missing     slurm_pilot_table.c
 *
 * The Slurm job of a pilot only keeps its GPUs: `firnd --pilot FOLDER` waits
 * until the attempt has an end (shepherd_pilot.c). Its workers are steps, which
 * the attempt's supervisor starts by srun --jobid --overlap.
 *
 * Invariants
 *   1. A number is on disk before sbatch is started for it, and used once.
 *   2. An answer of squeue counts only if it was asked for after sbatch had
 *      returned.
 *   3. What happens to a pilot is what the table says.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "engine/slurmwork.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 1 << 20 }; /* of the pilots of an attempt */
static const double submit_limit_s = 60;
static const double late_s = 60;  /* pending so long: it is given back */
static const double moment_s = 5; /* no reason counts before */
static const double again_s = 60; /* before the next is asked for */

/* --- the table ------------------------------------------------------------ */

static void say_why(const struct slurm_pilot *pilot, enum pilot_event event,
                    char *out, size_t size)
{
    if (pilot->reason[0] != '\0')
        snprintf(out, size,
                 "Slurm does not give it a further allocation: %.60s",
                 pilot->reason);
    else
        snprintf(out, size,
                 "Slurm does not give it a further allocation: %.60s",
                 pilot_event_words(event));
}

static void act(struct slurm *slurm, struct slurmjob *job,
                const struct slurm_pilot *pilot, enum pilot_event event,
                unsigned acts)
{
    char why[SLURM_EXCERPT];
    say_why(pilot, event, why, sizeof why);
    if ((acts & PILOT_DO_CANCEL) != 0)
        slurm_return(slurm, job, pilot);
    if ((acts & PILOT_DO_BAR) != 0) {
        struct firn_alloc trains = slurm_resized_trains(job);
        job->again_s = slurm_now_s(slurm) + again_s;
        log_info("job %d: %s", job->base.id, why);
        slurm_bar_gpus(slurm, job->base.id, trains.ngpus, why);
        mem_free(trains.parts);
    }
    if ((acts & PILOT_DO_RESTART) != 0) {
        snprintf(job->refusal, sizeof job->refusal, "%.*s", SLURM_EXCERPT - 1,
                 why);
        job->must_restart = true;
    }
    if ((acts & PILOT_DO_LOSE) != 0) {
        log_warn("job %d: Slurm took its allocation %lld; it goes on from a "
                 "checkpoint",
                 job->base.id, (long long)pilot->slurm_id);
        job->has_lost_pilot = true;
        slurm_request(job, ATTEMPT_CHECKPOINT);
    }
}

void slurm_pilot_happens(struct slurm *slurm, struct slurmjob *job, size_t i,
                         enum pilot_event event)
{
    struct pilot_row row;
    struct slurm_pilot pilot = job->pilots.at[i];
    if (!pilot_next(pilot.state, event, &row)) /* (3) */
        return;
    job->pilots.at[i].state = row.next;
    job->look_s = 0;
    if (row.next == PILOT_RETURNING || row.next == PILOT_GONE) {
        memmove(&job->pilots.at[i], &job->pilots.at[i + 1],
                (job->pilots.n - i - 1) * sizeof pilot);
        job->pilots.n--;
        (void)slurm_pilots_write(job, NULL); /* a longer list does no harm */
        if (job->after.nparts == 0 && !(row.acts & PILOT_DO_LOSE))
            slurm_resized_hold(job);
    }
    act(slurm, job, &pilot, event, row.acts);
}

void slurm_pilots_happen(struct slurm *slurm, struct slurmjob *job,
                         enum pilot_state state, enum pilot_event event)
{
    for (size_t i = job->pilots.n; i-- > 0;)
        if (job->pilots.at[i].state == state)
            slurm_pilot_happens(slurm, job, i, event);
}

/* --- asking for one ------------------------------------------------------- */

static enum firn_status submit(struct slurm *slurm, struct slurmjob *job,
                               const struct slurm_pilot *pilot,
                               struct firn_error *err)
{
    struct firn_launch launch = {0};
    struct slurm_argv words = {0};
    struct arena text = {0};
    struct firn_buf script = {0};
    if (!slurm->host.launch(slurm->host.arg, job->base.id, &launch))
        return firn_fail(err, FIRN_ENOENT, "there is no job %d", job->base.id);
    enum firn_status status =
        slurm_batch_pilot_script(slurm, job, &script, err);
    if (status == FIRN_OK) {
        slurm_batch_pilot(slurm, job, pilot, &launch, &words, &text);
        failpoint("engine.pilot.before");
        commands_start(slurm->commands,
                       &(struct command){.argv = words.at.at,
                                         .input = {script.at, script.n},
                                         .limit_s = submit_limit_s,
                                         .tag = SLURM_CMD_PILOT,
                                         .about = job->base.id,
                                         .more = job->base.attempt * NUMBERS +
                                                 pilot->number});
        failpoint("engine.pilot.after");
    }
    vec_release(&words.at);
    arena_release(&text);
    buf_release(&script);
    return status;
}

enum firn_status slurm_pilot_ask(struct slurm *slurm, struct slurmjob *job,
                                 const struct firn_part *part,
                                 struct firn_error *err)
{
    double now_s = slurm_now_s(slurm);
    struct slurm_pilot pilot = {.number = job->npilots + 1,
                                .state = PILOT_ASKED,
                                .part = *part,
                                .asked_s = now_s,
                                .known_s = (double)INFINITY};
    if (pilot.number >= NUMBERS)
        return firn_fail(err, FIRN_EREFUSED,
                         "it has had %d further allocations", NUMBERS);
    job->npilots = pilot.number;
    vec_add(&job->pilots, pilot);
    enum firn_status status = slurm_pilots_write(job, err); /* (1) */
    failpoint("engine.pilot.list.after");
    if (status == FIRN_OK)
        status = submit(slurm, job, &pilot, err);
    if (status != FIRN_OK)
        job->pilots.n--;
    return status;
}

/* The pilot with this number; pilots.n: none. */
static size_t place_of(const struct slurmjob *job, int64_t number)
{
    size_t i = 0;
    while (i < job->pilots.n && job->pilots.at[i].number != number)
        i++;
    return i;
}

/* The pilot whose GPUs this one waits for is still there: slurm_chain.c. */
static bool has_before(const struct slurmjob *job,
                       const struct slurm_pilot *pilot)
{
    return pilot->follows > 0 && place_of(job, pilot->follows) < job->pilots.n;
}

void slurm_pilot_submitted(struct slurm *slurm, const struct command_done *done)
{
    struct slurmjob *job = slurm_find(slurm, (firn_job_id)done->about);
    int64_t attempt = done->more / NUMBERS, number = done->more % NUMBERS;
    int64_t id = 0;
    bool is_good = done->has_run && !done->is_late && done->status == 0 &&
                   slurm_id_read(done->out, &id, NULL) == FIRN_OK;
    bool is_clear =
        !done->has_run ||
        (slurm_is_refusal(done) &&
         strstr(done->err.at, "Batch job submission failed") != NULL);
    size_t i = job != NULL && job->base.attempt == attempt
                   ? place_of(job, number)
                   : (size_t)-1;
    slurm_poll_soon(slurm);
    if (job == NULL || i >= job->pilots.n) {
        if (is_good)
            slurm_return_known(slurm, (firn_job_id)done->about, attempt, number,
                               id);
        return;
    }
    struct slurm_pilot *pilot = &job->pilots.at[i];
    pilot->known_s = slurm_now_s(slurm);
    pilot->settle_s = pilot->known_s + slurm_settle_s(slurm);
    job->look_s = 0;
    if (is_good) {
        pilot->slurm_id = id;
        return;
    }
    char why[SLURM_EXCERPT];
    log_warn("job %d: sbatch of a further allocation failed: %s", job->base.id,
             slurm_failure(done, why));
    snprintf(pilot->reason, sizeof pilot->reason, "%.60s", why);
    if (is_clear)
        slurm_pilot_happens(slurm, job, i,
                            has_before(job, pilot) ? PILOT_ON_UNWANTED
                                                   : PILOT_ON_REFUSED);
}

/* --- squeue's answer ------------------------------------------------------ */

/* What a pending pilot's reason means: it is refused (a limit on the number of
 * jobs, which a restart does not meet), or Slurm will not start it soon. */
static enum pilot_event pending_event(const struct slurm *slurm,
                                      const struct slurm_pilot *pilot)
{
    enum slurm_pending pending = slurm_pending_of(pilot->reason);
    double waits_s = slurm_now_s(slurm) - pilot->asked_s;
    bool is_limit = pending == SLURM_WAITS_LIMIT;
    if (waits_s < fmax(slurm_settle_s(slurm), moment_s))
        return PILOT_ON_PENDING; /* nodes may be unknown for a moment */
    if (is_limit && strstr(pilot->reason, "Job") != NULL)
        return PILOT_ON_REFUSED;
    if (is_limit || pending == SLURM_WAITS_NODES ||
        pending == SLURM_WAITS_NEVER || waits_s >= late_s)
        return PILOT_ON_LATE;
    return PILOT_ON_PENDING;
}

static void take(struct slurm *slurm, struct slurmjob *job, size_t i,
                 const struct slurm_jobs *jobs, double asked_s)
{
    struct slurm_tag tag = {slurm->cell, job->base.id, job->base.attempt};
    struct slurm_pilot *pilot = &job->pilots.at[i];
    const struct slurm_job *found =
        slurm_pilot_find(slurm, jobs, &tag, job->user, pilot->number);
    if (found == NULL) {
        if (asked_s < pilot->known_s) /* (2) */
            return;
        pilot->nmissing++;
        if (pilot->nmissing >= 2 && slurm_now_s(slurm) >= pilot->settle_s)
            slurm_pilot_happens(slurm, job, i, PILOT_ON_MISSING);
        return;
    }
    pilot->nmissing = 0;
    pilot->slurm_id = found->id;
    if (pilot->known_s > asked_s && slurm_state_is_over(found->state))
        return;
    snprintf(pilot->reason, sizeof pilot->reason, "%.60s",
             found->state <= SLURM_BOOTING ? found->reason : "");
    enum pilot_event event = PILOT_ON_RUNS;
    if (has_before(job, pilot))
        pilot->asked_s = slurm_now_s(slurm); /* its wait has not begun */
    if (found->state == SLURM_PENDING)
        event = pending_event(slurm, pilot);
    else if (found->state == SLURM_BOOTING)
        event = PILOT_ON_PENDING;
    else if (found->state >= SLURM_COMPLETING)
        event = PILOT_ON_OVER;
    slurm_pilot_happens(slurm, job, i, event);
}

void slurm_pilots_take(struct slurm *slurm, const struct slurm_jobs *jobs,
                       double asked_s)
{
    for (size_t k = 0; k < slurm->roster.jobs.n; k++) {
        struct slurmjob *job = slurm_at(slurm, k);
        for (size_t i = job->pilots.n; i-- > 0;)
            take(slurm, job, i, jobs, asked_s);
    }
}
