/* drive.c - a loop around engine and round, for toys.
 *
 * All events of an instant are taken in before its decision, as sim/sim.c
 * does; there are no metrics and no files.
 *
 * Every run is audited: before anything changes, each running job's work is
 * added up anew from what it holds and with whom, each job compared with every
 * other; when it ends, the work must be its duration. Failures that lose work
 * are not followed.
 */
#include "lib/drive.h"
#include "base/buf.h"
#include "core/round.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* ---- the audit ---- */

enum { AUDIT_JOBS = 256, AUDIT_NODES = 64 };

struct audit {
    struct drive *out;
    const struct firn_sim_options *options;
    double last_s;
    double work_s[AUDIT_JOBS], resumes_s[AUDIT_JOBS]; /* by id */
    /* Of resizes without a stop: a job goes at `old_rate` until `ready_s`, and
     * the GPUs that it leaves are free at free_s, by node and GPU. */
    double ready_s[AUDIT_JOBS], old_rate[AUDIT_JOBS];
    double free_s[AUDIT_NODES][2 * FIRN_BOARD_GPUS];
    const struct state *state;
};

static bool overlap(const struct firn_alloc *a, const struct firn_alloc *b)
{
    for (int i = 0; i < a->nparts; i++)
        for (int k = 0; k < b->nparts; k++)
            if (a->parts[i].node == b->parts[k].node &&
                a->parts[i].board == b->parts[k].board &&
                (a->parts[i].gpus & b->parts[k].gpus) != 0)
                return true;
    return false;
}

/* Is it in its quiet end? */
static bool is_ending(const struct audit *audit, const struct firn_job *job)
{
    const struct firn_sim_options *options = audit->options;
    for (size_t i = 0; i < options->nends; i++)
        if (strcmp(options->ends[i].app, job->spec.app) == 0)
            return audit->work_s[job->id] + options->ends[i].cost_s >=
                   job->spec.duration_s * (1 - 1e-9);
    return false;
}

static double rate_of(const struct audit *audit, const struct state *state,
                      const struct firn_job *job)
{
    const struct firn_cluster *cluster = audit->options->cluster;
    double rate = INFINITY;
    for (int i = 0; i < job->held.nparts; i++) {
        int type = cluster->nodes[job->held.parts[i].node].type;
        rate = fmin(rate, cluster->types[type].speed);
    }
    rate *=
        pow((double)job->held.ngpus / job->spec.gpus, audit->options->scaling);
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (&sj->job != job && overlap(&sj->job.held, &job->held) &&
            !is_ending(audit, job) && !is_ending(audit, &sj->job) &&
            !(audit->options->quiet_starts &&
              audit->resumes_s[sj->job.id] > audit->last_s))
            return rate / audit->options->share_slowdown;
    return rate;
}

/* Time goes on to `now_s` with everything as it was. */
static void audit_until(struct audit *audit, const struct state *state,
                        double now_s)
{
    double rate[AUDIT_JOBS] = {0};
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.held.nparts > 0) /* by what is done so far */
            rate[sj->job.id] = rate_of(audit, state, &sj->job);
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        const struct firn_job *job = &sj->job;
        double from_s = fmax(audit->last_s, audit->resumes_s[job->id]);
        double old_s = fmin(now_s, audit->ready_s[job->id]) - audit->last_s;
        if (job->held.nparts > 0 && old_s > 0)
            audit->work_s[job->id] += old_s * audit->old_rate[job->id];
        if (job->held.nparts > 0 && now_s > from_s)
            audit->work_s[job->id] += (now_s - from_s) * rate[job->id];
    }
    audit->last_s = now_s;
}

/* When the last of these GPUs is free, `at_s` at the earliest; those that are
 * not in `but` are free at `until_s` from now on, unless it is 0. */
static double free_s(struct audit *audit, const struct firn_alloc *alloc,
                     const struct firn_alloc *but, double at_s, double until_s,
                     bool *is_part)
{
    *is_part = true;
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        for (int g = 0; g < FIRN_BOARD_GPUS && audit->options->resizes; g++) {
            struct firn_part one = {part->node, part->board,
                                    part->gpus & (uint64_t)1 << g};
            const struct firn_alloc as = {.parts = &one, .nparts = 1};
            double *at =
                &audit->free_s[part->node][part->board * FIRN_BOARD_GPUS + g];
            if (one.gpus == 0)
                continue;
            at_s = fmax(at_s, *at);
            if (overlap(&as, but))
                continue;
            *is_part = false;
            *at = until_s > 0 ? fmax(*at, until_s) : *at;
        }
    }
    return at_s;
}

static void on_resize(struct audit *audit, const struct firn_step *step)
{
    const struct firn_job *job = step->job;
    const struct firn_sim_options *o = audit->options;
    bool is_part;
    double rate = rate_of(audit, audit->state, job);
    double gpus_s =
        free_s(audit, step->to, &job->held, step->at_s, 0, &is_part);
    double prepare_s = is_part ? 0 : fmax(o->resize_prepare_s - o->ahead_s, 0);
    free_s(audit, &job->held, step->to, 0, step->at_s + prepare_s + o->resize_s,
           &is_part);
    double old_s = audit->resumes_s[job->id];
    double ready_s = gpus_s + prepare_s;
    if (audit->ready_s[job->id] > step->at_s) { /* it is prepared anew */
        rate = audit->old_rate[job->id] * fmax(o->resize_slowdown, 1);
        old_s = 0;
    }
    audit->ready_s[job->id] = 0;
    if (ready_s > step->at_s && old_s <= step->at_s) {
        audit->ready_s[job->id] = ready_s;
        audit->old_rate[job->id] = rate / fmax(o->resize_slowdown, 1);
    }
    audit->resumes_s[job->id] = fmax(ready_s, old_s) + o->resize_s;
}

static void on_step(void *arg, const struct firn_step *step)
{
    struct audit *audit = arg;
    const struct firn_job *job = step->job;
    bool is_free = job->starts == 0 && !audit->options->charges_first_start;
    bool is_part;
    assert_in_range(job->id, 0, AUDIT_JOBS - 1);
    if (audit->options->resizes &&
        (step->kind == FIRN_STEP_RESIZE || step->kind == FIRN_STEP_MOVE) &&
        !job->held.is_shared && !step->to->is_shared) {
        on_resize(audit, step);
        return;
    }
    audit->ready_s[job->id] = 0;
    audit->resumes_s[job->id] =
        free_s(audit, step->to, step->to, step->at_s, 0, &is_part) +
        (is_free ? 0 : audit->options->restart_s);
}

static void on_end(void *arg, const struct firn_job *job, const char *how,
                   double now_s, double finished_s)
{
    (void)finished_s;
    struct audit *audit = arg;
    struct drive *drive = audit->out;
    double work_s = audit->work_s[job->id];
    if (audit->options->profiles == NULL && /* it knows no others */
        fabs(work_s - job->spec.duration_s) > 1e-9 * (1 + now_s))
        fail_msg("seed %llu: job %s ends at %.17g after %.17g s of work, not "
                 "%.17g",
                 (unsigned long long)audit->options->seed, job->spec.name,
                 now_s, work_s, job->spec.duration_s);
    buf_printf(&drive->text, "%s ", job->spec.name);
    if (strcmp(how, "done") != 0)
        buf_printf(&drive->text, "%s ", how);
    buf_double(&drive->text, now_s);
    buf_putc(&drive->text, '\n');
    drive->end_s = now_s;
}

/* ---- the loop ---- */

static enum firn_status loop(struct simengine *engine, struct round *round,
                             struct audit *audit, struct firn_error *err)
{
    double due_s = INFINITY;
    const struct state *state = round_state(round);
    struct firn_event event;
    for (;;) {
        double until_s = fmin(due_s, round_wake_s(round));
        if (simengine_def.next(engine, until_s, &event, err)) {
            audit_until(audit, state, event.at_s);
            FIRN_TRY(round_event(round, &event, err));
            if (round_is_due(round) && isinf(due_s))
                due_s = engine->world.cadence.decide_s(&engine->world.cadence,
                                                       event.at_s);
        } else if (isinf(until_s)) {
            return state->nwaiting > 0
                       ? firn_fail(err, FIRN_ESTALLED, "the toy stalls")
                       : FIRN_OK;
        } else {
            audit_until(audit, state, until_s);
            round_tick(round, until_s);
            due_s = INFINITY;
            FIRN_TRY(round_decide(round, until_s, err));
        }
        if (state->nwaiting + state->nrunning == 0 && engine->world.is_drained)
            return FIRN_OK;
    }
}

enum firn_status drive_try(struct play *play,
                           const struct firn_policy_def *policy,
                           struct drive *out)
{
    const struct firn_sim_options *options = &play->options;
    struct simengine engine = {.world = {.options = options}};
    struct round *round = NULL;
    struct audit audit = {.out = out, .options = options};
    *out = (struct drive){.end_s = NAN};
    buf_puts(&out->text, "");
    struct round_config config = {
        .cluster = options->cluster,
        .policy = policy,
        .engine = &simengine_def,
        .engine_state = &engine,
        .watch = {&audit, on_step, on_end, NULL, NULL}};
    play->err = (struct firn_error){0};
    assert_int_equal(simengine_def.open(&engine, &play->err), FIRN_OK);
    assert_int_equal(round_new(&round, &config, &play->err), FIRN_OK);
    audit.state = round_state(round);
    enum firn_status status = loop(&engine, round, &audit, &play->err);
    out->spent = engine.world.spent;
    out->steps = round_steps(round);
    round_free(round);
    simengine_def.close(&engine);
    return status;
}

struct drive drive_run(struct play *play, const struct firn_policy_def *policy,
                       const char *want)
{
    struct drive out;
    if (drive_try(play, policy, &out) != FIRN_OK)
        fail_msg("%s: %s", policy->name, play->err.text);
    assert_string_equal(out.text.at, want);
    buf_release(&out.text);
    return out;
}
