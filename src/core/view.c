/* view.c - lists of jobs for a policy, made when asked for.
 *
 * A round that asks for no list costs nothing here: the counts come from
 * state, and the arrays are built in scratch memory on demand. Building walks
 * the list of living jobs, which is by id, from the newest on and no further
 * than the last one that is wanted: those that wait are mostly new. Jobs that
 * core/gate.h keeps back are in no list and in no count.
 */
#include <firn/view.h>

#include "core/state.h"

enum { ANY = -1 };

/* The living jobs in one state (or ANY), by id. */
static const struct firn_job **collect(const struct firn_view *view, int only,
                                       size_t n)
{
    const struct firn_job **out =
        arena_alloc(view->scratch, (n + 1) * sizeof *out);
    const struct state *state = view->state;
    size_t left = n;
    for (struct state_job *sj = state->last; left > 0; sj = sj->before)
        if (sj->gated == GATE_OPEN &&
            (only == ANY || sj->job.state == (enum firn_job_state)only))
            out[--left] = &sj->job;
    return out;
}

const struct firn_job *const *firn_view_jobs(const struct firn_view *view)
{
    return collect(view, ANY, view->njobs);
}

const struct firn_job *const *firn_view_waiting(const struct firn_view *view)
{
    return collect(view, FIRN_JOB_WAITING, view->nwaiting);
}

const struct firn_job *firn_view_next_waiting(const struct firn_view *view,
                                              const struct firn_job *job)
{
    const struct state *state = view->state;
    const struct state_job *sj = state->first;
    if (job != NULL) /* the job is the first member of its state_job */
        sj = ((const struct state_job *)(const void *)job)->after;
    while (sj != NULL &&
           (sj->job.state != FIRN_JOB_WAITING || sj->gated != GATE_OPEN))
        sj = sj->after;
    return sj != NULL ? &sj->job : NULL;
}

const struct firn_job *const *firn_view_running(const struct firn_view *view)
{
    return collect(view, FIRN_JOB_RUNNING, view->nrunning);
}

/* Jobs that would do with the same GPUs. */
struct kind {
    uint32_t types;
    bool one_type;
    int gpus, n;
};
enum { KINDS = 64, FILLS = 4 };

/* One more of its kind; of more kinds than there is room for the last one is
 * one. False: there are enough. */
static bool counts(struct kind *kinds, const struct firn_job *job, int gpus_up)
{
    int i = 0, gpus = job->spec.gpus_min > 1 ? job->spec.gpus_min : 1;
    while (i < KINDS - 1 && kinds[i].n > 0 &&
           (kinds[i].types != job->type_mask || kinds[i].gpus != gpus ||
            kinds[i].one_type != job->spec.one_type))
        i++;
    if (kinds[i].n == 0)
        kinds[i] = (struct kind){job->type_mask, job->spec.one_type, gpus, 0};
    return kinds[i].n++ < FILLS * (gpus_up / gpus + 1);
}

struct sorting {
    const struct firn_view *view;
    firn_job_order *order;
    const void *arg;
    const struct firn_job **spare;
};

/* Merge sort: stable, so jobs that are equal stay by id. */
static void sort_jobs(const struct sorting *s, const struct firn_job **jobs,
                      size_t n)
{
    const struct firn_job **spare = s->spare;
    if (n < 2)
        return;
    size_t half = n / 2;
    sort_jobs(s, jobs, half);
    sort_jobs(s, jobs + half, n - half);
    for (size_t i = 0; i < half; i++)
        spare[i] = jobs[i];
    size_t a = 0, b = half, to = 0;
    while (a < half && b < n)
        jobs[to++] = s->order(spare[a], jobs[b], s->view, s->arg) <= 0
                         ? spare[a++]
                         : jobs[b++];
    while (a < half)
        jobs[to++] = spare[a++];
}

/* The waiting jobs in that order; NULL: by id. */
static const struct firn_job **queue_of(const struct firn_view *view,
                                        firn_job_order *order, const void *arg)
{
    const struct firn_job **queue =
        collect(view, FIRN_JOB_WAITING, view->nwaiting);
    if (order != NULL) {
        struct sorting sorting = {
            view, order, arg,
            arena_alloc(view->scratch, (view->nwaiting + 1) * sizeof *queue)};
        sort_jobs(&sorting, queue, view->nwaiting);
    }
    return queue;
}

const struct firn_job *const *
firn_view_foremost_by(const struct firn_view *view, size_t least,
                      firn_job_order *order, const void *arg, size_t *n)
{
    if (view->nwaiting <= least) {
        *n = view->njobs;
        return firn_view_jobs(view);
    }
    struct kind kinds[KINDS] = {{0}};
    const struct state *state = view->state;
    const struct firn_job **queue = queue_of(view, order, arg);
    const struct firn_job **out =
        arena_alloc(view->scratch, (view->njobs + 1) * sizeof *out);
    bool *is_in = arena_alloc(view->scratch, state->by_slot.n + 1);
    size_t count = 0;
    for (size_t i = 0; i < view->nwaiting; i++)
        is_in[queue[i]->slot] = counts(kinds, queue[i], view->gpus_up);
    for (const struct state_job *sj = state->first; sj; sj = sj->after)
        if (sj->job.state == FIRN_JOB_RUNNING ||
            (sj->gated == GATE_OPEN && is_in[sj->job.slot]))
            out[count++] = &sj->job;
    *n = count;
    return out;
}

const struct firn_job *const *firn_view_foremost(const struct firn_view *view,
                                                 size_t least, size_t *n)
{
    return firn_view_foremost_by(view, least, NULL, NULL, n);
}

const struct firn_job **firn_view_sorted(const struct firn_view *view,
                                         firn_job_order *order, const void *arg)
{
    const struct firn_job **jobs = collect(view, ANY, view->njobs);
    struct sorting sorting = {
        view, order, arg,
        arena_alloc(view->scratch, (view->njobs + 1) * sizeof *jobs)};
    sort_jobs(&sorting, jobs, view->njobs);
    return jobs;
}

void *firn_view_alloc(const struct firn_view *view, size_t bytes)
{
    return arena_alloc(view->scratch, bytes);
}
