/* diff.c - the smallest set of steps from what runs to what is wanted.
 *
 * A job whose wanted GPUs are those it has makes no step. Order: everything
 * that frees GPUs comes before everything that only takes some, so an engine
 * that applies steps one by one never holds a GPU twice for STOP and START;
 * RESIZE and MOVE free and take at once and are the engine's to sequence.
 */
#include "core/diff.h"
#include <stdlib.h>

static const struct firn_alloc nothing = FIRN_ALLOC_NONE;

static void add_step(struct diff *diff, const struct firn_job *job,
                     const struct firn_alloc *to, double now_s)
{
    bool runs = job->held.nparts > 0, will = to->nparts > 0;
    if ((!runs && !will) || (runs && firn_alloc_equal(&job->held, to)))
        return;
    enum firn_step_kind kind = FIRN_STEP_MOVE;
    if (!runs)
        kind = FIRN_STEP_START;
    else if (!will)
        kind = FIRN_STEP_STOP;
    else if (job->held.ngpus != to->ngpus)
        kind = FIRN_STEP_RESIZE;
    diff->steps[diff->nsteps++] = (struct firn_step){.kind = kind,
                                                     .job = job,
                                                     .to = to,
                                                     .at_s = now_s,
                                                     .for_job = FIRN_NO_JOB};
}

/* Stops, then changes in place, then starts. */
static int phase(enum firn_step_kind kind)
{
    static const int phases[] = {[FIRN_STEP_STOP] = 0,
                                 [FIRN_STEP_RESIZE] = 1,
                                 [FIRN_STEP_MOVE] = 1,
                                 [FIRN_STEP_START] = 2};
    return phases[kind];
}

static int by_phase_then_id(const void *a, const void *b)
{
    const struct firn_step *x = a, *y = b;
    if (phase(x->kind) != phase(y->kind))
        return phase(x->kind) - phase(y->kind);
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

static int by_job_id(const void *a, const void *b)
{
    const struct plan_entry *x = *(const struct plan_entry *const *)a;
    const struct plan_entry *y = *(const struct plan_entry *const *)b;
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

static void add_entry(const struct firn_plan *plan, struct diff *out,
                      const struct plan_entry *entry)
{
    if (plan_entry_of(plan, entry->job) != entry)
        return; /* a later entry of this job counts */
    if (entry->kind == PLAN_REJECT)
        out->rejects[out->nrejects++] = entry;
    bool holds = entry->kind == PLAN_HOLD;
    add_step(out, entry->job, holds ? &entry->alloc : &nothing,
             plan->view->now_s);
}

void diff_plan(const struct firn_plan *plan, struct diff *out)
{
    struct arena *scratch = plan->view->scratch;
    size_t nentries = plan->entries.n;
    size_t most = nentries + (plan->keeps_all ? 0 : plan->view->nrunning);
    *out = (struct diff){0};
    if (most == 0)
        return;
    out->steps = arena_alloc(scratch, most * sizeof *out->steps);
    out->rejects = arena_alloc(scratch, (nentries + 1) * sizeof *out->rejects);
    for (size_t i = 0; i < nentries; i++)
        add_entry(plan, out, &plan->entries.at[i]);
    if (!plan->keeps_all) {
        for (struct state_job *sj = plan->state->first; sj; sj = sj->after)
            if (sj->job.held.nparts > 0 &&
                plan_entry_of(plan, &sj->job) == NULL)
                add_step(out, &sj->job, &nothing, plan->view->now_s);
    }
    if (out->nsteps > 1)
        qsort(out->steps, out->nsteps, sizeof *out->steps, by_phase_then_id);
    if (out->nrejects > 1)
        qsort(out->rejects, out->nrejects, sizeof(struct plan_entry *),
              by_job_id);
}
