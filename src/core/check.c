/* check.c - refuses wrong plans with a sentence.
 *
 * The check trusts nothing the plan recorded about GPUs being free: it
 * replays the steps against state's own map, which between rounds holds
 * exactly what runs. First everything that is let go is given back, then
 * everything wanted is taken, job by job; the first that cannot be taken is
 * the lie. Afterwards the map is put back. A wrong policy can be unfair; it
 * cannot oversubscribe.
 */
#include "core/check.h"
#include "base/buf.h"

static enum firn_status refuse(const struct firn_plan *plan,
                               const struct firn_step *step,
                               struct firn_error *err, const char *what)
{
    struct firn_buf text = {0};
    firn_alloc_print(&step->job->held, &text);
    firn_fail(err, FIRN_EREFUSED,
              "plan of policy %s at %g s refused: job %d ('%.40s', has %.80s) "
              "%s",
              plan->state->policy->name, plan->view->now_s, step->job->id,
              step->job->spec.name, text.at, what);
    buf_release(&text);
    return FIRN_EREFUSED;
}

/* Well formed: existing GPUs in order, each named once, and counted right. */
static const char *malformed(const struct firn_cluster *cluster,
                             const struct firn_alloc *to)
{
    int ngpus = 0;
    for (int i = 0; i < to->nparts; i++) {
        const struct firn_part *part = &to->parts[i];
        if (part->node < 0 || part->node >= cluster->nnodes)
            return "would use a node that is not there";
        const struct firn_node *node = &cluster->nodes[part->node];
        int boards = (node->ngpus + FIRN_BOARD_GPUS - 1) / FIRN_BOARD_GPUS;
        if (part->board < 0 || part->board >= boards || part->gpus == 0)
            return "would use a GPU that is not there";
        int top = 63 - __builtin_clzll(part->gpus);
        if (part->board * FIRN_BOARD_GPUS + top >= node->ngpus)
            return "would use a GPU that is not there";
        if (i > 0 &&
            (part[-1].node > part->node ||
             (part[-1].node == part->node && part[-1].board >= part->board)))
            return "names a node twice or out of order";
        ngpus += __builtin_popcountll(part->gpus);
    }
    return ngpus == to->ngpus ? NULL : "has its GPUs counted wrong";
}

/* What is wrong with the types of those GPUs? */
static const char *wrong_type(const struct firn_cluster *cluster,
                              const struct firn_job *job,
                              const struct firn_alloc *to)
{
    const struct firn_node *nodes = cluster->nodes;
    for (int i = 0; i < to->nparts; i++) {
        firn_type_id type = nodes[to->parts[i].node].type;
        if (job->spec.one_type && type != nodes[to->parts[0].node].type)
            return "would use GPUs of several types but keeps to one";
        if ((job->type_mask >> type & 1) == 0)
            return job->spec.one_type && job->starts > 0
                       ? "would leave the GPU type that it keeps to"
                       : "would use a GPU type it does not accept";
    }
    return NULL;
}

/* What would its trainer have to do and cannot? */
static const char *unable(const struct firn_job *job,
                          const struct firn_alloc *to)
{
    static const struct {
        unsigned can;
        const char *text;
    } texts[] = {
        {FIRN_CAN_PASSES, "would run in passes, which its trainer cannot"},
        {FIRN_CAN_TENSOR,
         "would be split in tensors, which its trainer cannot"},
        {FIRN_CAN_SHARDED, "would be sharded, which its trainer cannot"},
        {FIRN_CAN_PIPELINE, "would run in stages, which its trainer cannot"},
        {FIRN_CAN_ZERO, "would run with ZeRO, which its trainer cannot"},
        {FIRN_CAN_RECOMPUTE,
         "would compute activations again, which its trainer cannot"},
        {FIRN_CAN_OFFLOAD,
         "would have its optimizer on the host, which its trainer cannot"},
        {FIRN_CAN_PARTNER, "would be merged, which its trainer cannot"},
        {FIRN_CAN_AFTER,
         "would start from another's weights, which its trainer cannot"},
    };
    unsigned lacks = firn_job_lacks(job, &to->how);
    for (size_t i = 0; lacks != 0 && i < sizeof texts / sizeof *texts; i++)
        if (lacks & texts[i].can)
            return texts[i].text;
    if (to->tunes != firn_job_tunes(job, to->tunes))
        return "would tune what its trainer cannot";
    return NULL;
}

/* May this job run on that many GPUs of those types? */
static const char *unsuitable(const struct firn_cluster *cluster,
                              const struct firn_job *job,
                              const struct firn_alloc *to)
{
    for (int i = 0; i < to->nparts; i++)
        if (!cluster->nodes[to->parts[i].node].is_up)
            return "would use a node that is down";
        else if (firn_job_is_barred(job, to->parts[i].node))
            return "would use a node that is barred to it";
    const char *what = wrong_type(cluster, job, to);
    if (what != NULL)
        return what;
    if (job->spec.one_node && firn_alloc_nodes(to) > 1)
        return "would use several nodes but keeps to one";
    if (to->ngpus < job->spec.gpus_min || to->ngpus > job->spec.gpus_max)
        return firn_job_is_gang(job)
                   ? "is a gang and would be split"
                   : "would hold fewer or more GPUs than it allows";
    what = unable(job, to);
    if (what != NULL)
        return what;
    if (to->how.merged_with != FIRN_NO_JOB)
        return job->spec.may_merge ? NULL
                                   : "would be merged but does not allow it";
    if (to->is_shared && !job->spec.may_share)
        return "would share GPUs but does not allow it";
    if (to->how.passes < 0 || to->how.tensor < 0 ||
        to->how.after < FIRN_NO_JOB ||
        (to->how.tensor > 1 && to->ngpus % to->how.tensor != 0) ||
        to->how.stages < 0 || to->how.parallel < 0 ||
        (to->how.stages > 1 && to->ngpus % to->how.stages != 0))
        return "would be split in a way that cannot be";
    return NULL;
}

static const char *beyond(const struct firn_step *step, unsigned does)
{
    static const struct {
        unsigned need;
        const char *text;
    } rules[] = {
        [FIRN_STEP_START] = {0, ""},
        [FIRN_STEP_STOP] = {FIRN_DOES_PREEMPT,
                            "would be stopped by a policy that does not "
                            "preempt"},
        [FIRN_STEP_RESIZE] = {FIRN_DOES_RESIZE,
                              "would be resized by a policy that does not "
                              "resize"},
        [FIRN_STEP_MOVE] = {FIRN_DOES_MOVE,
                            "would be moved by a policy that does not move"},
    };
    unsigned need = rules[step->kind].need;
    if ((does & need) != need)
        return rules[step->kind].text;
    if (step->to->how.merged_with != FIRN_NO_JOB)
        return does & FIRN_DOES_MERGE
                   ? NULL
                   : "would be merged by a policy that does not merge";
    if (step->to->is_shared && (does & FIRN_DOES_SHARE) == 0)
        return "would share GPUs under a policy that does not share";
    return NULL;
}

/* Two jobs that are merged name each other, hold the same GPUs, and have
 * nothing of which each needs its own. */
static const char *badly_merged(const struct firn_plan *plan,
                                const struct firn_step *step)
{
    static const char unrequited[] =
        "is merged with a job that is not merged with it";
    if (step->to->how.merged_with == FIRN_NO_JOB)
        return NULL;
    const struct firn_job *other =
        state_job(plan->state, step->to->how.merged_with);
    if (other == NULL || other == step->job)
        return unrequited;
    struct firn_alloc theirs = *firn_plan_of(plan, other);
    bool names_it = theirs.how.merged_with == step->job->id;
    theirs.how = step->to->how;
    if (!names_it || !firn_alloc_equal(&theirs, step->to))
        return unrequited;
    return firn_job_may_merge(step->job, other)
               ? NULL
               : "would be merged with a job it cannot be trained with";
}

static const char *wrong(const struct firn_plan *plan,
                         const struct firn_step *step)
{
    const char *what = NULL;
    if (step->to->nparts > 0) {
        what = malformed(&plan->state->cluster, step->to);
        /* No job is merged with a job and starts from the weights of the same
         * one, which would have to run and to have ended. */
        if (what == NULL && step->to->how.merged_with == 0 &&
            step->to->how.after == 0)
            what = "has a zeroed `how`, which names job 0 as its partner: "
                   "start from FIRN_HOW_AS_SUBMITTED";
        if (what == NULL)
            what = unsuitable(&plan->state->cluster, step->job, step->to);
        if (what == NULL)
            what = badly_merged(plan, step);
    }
    return what ? what : beyond(step, plan->state->policy->does);
}

/* Replays the steps on the map and back; returns the step that cannot be. The
 * last step is only tried: nothing after it could be in its way. */
static const struct firn_step *replay(struct freemap *map,
                                      const struct diff *changes)
{
    const struct firn_step *steps = changes->steps, *bad = NULL;
    size_t n = changes->nsteps, taken = 0;
    for (size_t i = 0; i < n; i++)
        if (steps[i].job->held.nparts > 0)
            freemap_give(map, &steps[i].job->held);
    for (size_t i = 0; i < n && bad == NULL; i++) {
        if (!freemap_can_take(map, steps[i].to))
            bad = &steps[i];
        else if (i + 1 < n)
            freemap_take(map, steps[taken++].to);
    }
    while (taken > 0)
        freemap_give(map, steps[--taken].to);
    for (size_t i = 0; i < n; i++)
        if (steps[i].job->held.nparts > 0)
            freemap_take(map, &steps[i].job->held);
    return bad;
}

enum firn_status check_plan(const struct firn_plan *plan,
                            const struct diff *changes, struct firn_error *err)
{
    for (size_t i = 0; i < plan->entries.n; i++) {
        const struct plan_entry *entry = &plan->entries.at[i];
        bool is_latest = plan_entry_of(plan, entry->job) == entry;
        if (is_latest && entry->kind == PLAN_HOLD && entry->alloc.nparts <= 0) {
            struct firn_step step = {.job = entry->job};
            return refuse(plan, &step, err, "is given an empty set of GPUs");
        }
    }
    for (size_t i = 0; i < changes->nsteps; i++) {
        const char *what = wrong(plan, &changes->steps[i]);
        if (what != NULL)
            return refuse(plan, &changes->steps[i], err, what);
    }
    if (changes->nrejects > 0 &&
        (plan->state->policy->does & FIRN_DOES_REJECT) == 0) {
        struct firn_step step = {.job = changes->rejects[0]->job};
        return refuse(plan, &step, err,
                      "would be rejected by a policy that does not reject");
    }
    const struct firn_step *bad = replay(&plan->state->map, changes);
    if (bad != NULL)
        return refuse(plan, bad, err, "would use a GPU that another job has");
    return FIRN_OK;
}
