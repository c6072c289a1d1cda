/* firn_note.c - why each job of the policy firn has what it has, in numbers.
 *
 * A note has 63 characters. Jobs that wait and jobs that are resized, moved or
 * stopped get one; a job that stays as it is keeps its last one.
 */
#include "policy/firn.h"

static const struct one_choice *best_choice(const struct one_seat *seat)
{
    const struct one_choice *best = NULL;
    for (int i = 0; i < seat->n; i++)
        if (best == NULL || seat->choices[i].value / seat->choices[i].gpus >
                                best->value / best->gpus)
            best = &seat->choices[i];
    return best;
}

/* Are enough GPUs up that the job accepts? Then others keep them. */
static bool has_gpus(const struct one_round *round, const struct firn_job *job)
{
    const struct firn_cluster *cluster = round->view->cluster;
    int n = 0;
    for (int i = 0; i < cluster->nnodes; i++)
        if (cluster->nodes[i].is_up &&
            (job->type_mask >> cluster->nodes[i].type & 1))
            n += cluster->nodes[i].ngpus;
    return n >= job->spec.gpus_min;
}

/* Why a seat has no GPUs. */
static void explain_wait(const struct one_round *round,
                         const struct one_seat *seat,
                         const struct firn_job *job)
{
    const struct one_choice *best = best_choice(seat);
    double latest_s = seat->due_s - round->view->now_s;
    if (best == NULL)
        firn_plan_note(round->plan, job,
                       has_gpus(round, job)
                           ? "its GPUs are held by jobs that are not stopped"
                           : "too few GPUs that it accepts are up");
    else if (seat->waits)
        firn_plan_note(round->plan, job,
                       "waits for a partner or its weights; age %.0f s",
                       round->view->now_s - job->spec.submit_s);
    else if (seat->is_due)
        firn_plan_note(round->plan, job,
                       "due for %.0f s; GPUs are held by jobs due before it",
                       -latest_s);
    else if (isfinite(latest_s))
        firn_plan_note(round->plan, job,
                       "worth %.2g a GPU, others %.2g; starts within %.0f s",
                       best->value / best->gpus, round->price[best->type],
                       latest_s);
    else
        firn_plan_note(round->plan, job,
                       "worth %.2g a GPU, others %.2g or more; %d free",
                       best->value / best->gpus, round->price[best->type],
                       firn_plan_free(round->plan));
}

/* What a change brings a job that ran. */
static void explain_change(const struct one_round *round,
                           const struct one_seat *seat)
{
    const struct firn_job *job = seat->job;
    const struct firn_alloc *to = firn_plan_of(round->plan, job);
    if (job->held.nparts == 0 || firn_alloc_equal(to, &job->held))
        return;
    double rate = seat->choices[seat->chosen].rate, was = 0;
    double cost_s = one_cost_s(seat, &seat->choices[seat->chosen]);
    for (int i = 0; i < seat->n; i++)
        if (seat->choices[i].is_held)
            was = seat->choices[i].rate;
    if (seat->parted != NULL)
        firn_plan_note(round->plan, job, "no longer trained together: %s",
                       seat->parted);
    else if (was > 0)
        firn_plan_note(round->plan, job,
                       "%d to %d GPUs: %.2f times as fast, costs %.0f s",
                       job->held.ngpus, to->ngpus, rate / was, cost_s);
    else
        firn_plan_note(round->plan, job, "%d to %d GPUs, costs %.0f s",
                       job->held.ngpus, to->ngpus, cost_s);
}

void one_explain(const struct one_round *round)
{
    for (size_t i = 0; i < round->n; i++) {
        const struct one_seat *seat = &round->seats[i];
        if (firn_plan_of(round->plan, seat->job)->nparts > 0) {
            explain_change(round, seat);
            continue;
        }
        explain_wait(round, seat, seat->job);
        if (seat->with != NULL)
            explain_wait(round, seat, seat->with);
    }
}
