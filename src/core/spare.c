/* spare.c - no job is stopped for moves that could be left out.
 *
 * A policy that divides GPUs by type may find that jobs on slow GPUs gain by
 * faster ones, that a job which accepts nothing else loses little by waiting,
 * and move the former onto the GPUs of the latter; then the slow GPUs stand
 * free, and the work of a job without checkpoints is lost. Each move alone is
 * a gain of the policy's measure; together they cost work for nothing.
 *
 * So, after the policy: for each job that the plan stops, in the order of ids,
 * the jobs that move onto its GPUs are taken, and those that move onto the GPUs
 * of these, and so on. If all of them can stay where they are, and the job
 * then can, too, they do. A move is a change of GPUs, not of their number: what
 * a policy takes for a job that grows, or gives to one that starts, is its
 * decision and stays.
 *
 * Invariants:
 * (1) the plan only loses steps: nothing is placed where it was not before;
 * (2) no two jobs come to share a GPU by this: a job stays only on GPUs that no
 *     other job has in the plan;
 * (3) jobs that are trained together are left as the policy has them.
 *
 * Cost: O(jobs) where a plan both stops and moves, and the stopped times the
 * moved, LOOKS_MOST of such pairs at most; the stops beyond that stay.
 */
#include "core/spare.h"
#include <stdlib.h>

enum { LOOKS_MOST = 4000000 };

struct mover {
    const struct firn_job *job;
    bool is_in; /* of the chain that is looked at */
    bool stays; /* its move has been taken out */
};

struct sparing {
    struct firn_plan *plan;
    const struct firn_job **stopped;
    struct mover *moved;
    size_t nstopped, nmoved;
    size_t *chain; /* indices of `moved` */
    size_t nchain;
    long nlooks;
};

static bool is_alone(const struct firn_alloc *alloc)
{
    return alloc->how.merged_with == FIRN_NO_JOB &&
           alloc->how.after == FIRN_NO_JOB; /* (3) */
}

static void sort_in(struct sparing *s, const struct firn_job *job)
{
    const struct plan_entry *entry = plan_entry_of(s->plan, job);
    const struct firn_alloc *to = firn_plan_of(s->plan, job);
    bool is_rejected = entry != NULL && entry->kind == PLAN_REJECT;
    if (job->held.nparts == 0 || is_rejected || !is_alone(&job->held))
        return;
    if (to->nparts == 0)
        s->stopped[s->nstopped++] = job;
    else if (to->ngpus == job->held.ngpus && is_alone(to) &&
             !firn_alloc_equal(to, &job->held))
        s->moved[s->nmoved++] = (struct mover){.job = job};
}

static int by_id(const void *a, const void *b)
{
    const struct firn_job *x = *(const struct firn_job *const *)a;
    const struct firn_job *y = *(const struct firn_job *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The jobs that the plan stops, by id, and those that it moves. */
static void sort_all(struct sparing *s)
{
    const struct firn_plan *plan = s->plan;
    if (plan->keeps_all) {
        for (size_t i = 0; i < plan->entries.n; i++)
            if (plan_entry_of(plan, plan->entries.at[i].job) ==
                &plan->entries.at[i])
                sort_in(s, plan->entries.at[i].job);
    } else {
        for (struct state_job *sj = plan->state->first; sj; sj = sj->after)
            sort_in(s, &sj->job);
    }
    if (s->nstopped > 1)
        qsort(s->stopped, s->nstopped, sizeof(struct firn_job *), by_id);
}

static bool is_free(const struct firn_plan *plan,
                    const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if ((firn_plan_free_on(plan, part->node, part->board) & part->gpus) !=
            part->gpus)
            return false;
    }
    return true;
}

/* Adds the jobs that move onto these GPUs to the chain. */
static void add_takers(struct sparing *s, const struct firn_alloc *held)
{
    for (size_t i = 0; i < s->nmoved; i++) {
        struct mover *mover = &s->moved[i];
        s->nlooks++;
        if (mover->is_in || mover->stays ||
            !firn_alloc_overlaps(firn_plan_of(s->plan, mover->job), held))
            continue;
        mover->is_in = true;
        s->chain[s->nchain++] = i;
    }
}

static bool stay(struct sparing *s, const struct firn_job *stopped)
{
    for (size_t i = 0; i < s->nchain; i++)
        firn_plan_drop(s->plan, s->moved[s->chain[i]].job);
    for (size_t i = 0; i < s->nchain; i++) {
        const struct firn_job *job = s->moved[s->chain[i]].job;
        if (!is_free(s->plan, &job->held) || /* (2) */
            !firn_plan_keep(s->plan, job))
            return false;
    }
    return is_free(s->plan, &stopped->held) && firn_plan_keep(s->plan, stopped);
}

static bool spare(struct sparing *s, const struct firn_job *stopped)
{
    size_t mark = firn_plan_mark(s->plan);
    s->nchain = 0;
    add_takers(s, &stopped->held);
    for (size_t i = 0; i < s->nchain; i++)
        add_takers(s, &s->moved[s->chain[i]].job->held);
    bool stays = s->nchain > 0 && stay(s, stopped);
    if (!stays)
        firn_plan_undo(s->plan, mark);
    for (size_t i = 0; i < s->nchain; i++) {
        s->moved[s->chain[i]].is_in = false;
        s->moved[s->chain[i]].stays = stays;
    }
    return stays;
}

int spare_stops(struct firn_plan *plan)
{
    struct arena *scratch = plan->view->scratch;
    size_t most = plan->keeps_all ? plan->entries.n : plan->view->nrunning;
    struct sparing s = {.plan = plan};
    int n = 0;
    if (most < 2)
        return 0;
    s.stopped = arena_alloc(scratch, most * sizeof(struct firn_job *));
    s.moved = arena_alloc(scratch, most * sizeof *s.moved);
    sort_all(&s);
    if (s.nstopped == 0 || s.nmoved == 0)
        return 0;
    s.chain = arena_alloc(scratch, s.nmoved * sizeof *s.chain);
    for (size_t i = 0; i < s.nstopped && s.nlooks < LOOKS_MOST; i++)
        n += spare(&s, s.stopped[i]);
    return n;
}
