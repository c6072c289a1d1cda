/* past.c - the run time of a finished job for a trace, from its attempts.
 *
 * A trace has one run time, on a number of GPUs of the reference type, from
 * which the simulator computes how long the job takes elsewhere. Here is the
 * inverse, by the same rules (sim/truth.c): an attempt that ran for t seconds
 * has done t times the rate that the simulator would give it there, which is
 *
 *     slowest speed of its GPUs x (their number / that of the trace)
 *
 * and for a language model that of core/llmjobs.c. So a job that a simulation
 * places as it was placed live takes as long as it took live.
 *
 * (1) A model stays one if the simulator could place it at all; otherwise it is
 *     a job like any other, that takes the time it took.
 * (2) A model whose user said no number of GPUs may have as many as it could
 *     have had here, the policy choosing.
 * (3) A job that cannot be stopped is never resized: whatever its range, it is
 *     a gang of the GPUs that it had.
 *
 * Numbers of nodes are those of now. Where firn.yaml had other nodes at the
 * time, speeds may be wrong, but for jobs that keep to a type, which is known
 * by name. A node that is no more counts as one of the reference type. On
 * several types at once a job is taken to wait for the slowest. Time beside
 * another job counts in full, because it was not recorded.
 */
#include "daemon/past.h"
#include "core/accept.h"
#include "core/llmjobs.h"
#include "daemon/recover.h"

void past_add(struct past *past, const char *held, double ran_s)
{
    struct past_start start = {.ran_s = ran_s};
    if (held == NULL || !(ran_s > 0) || !recover_alloc(held, &start.held))
        return;
    if (start.held.ngpus > 0)
        vec_add(&past->starts, start);
    else
        mem_free(start.held.parts);
}

void past_release(struct past *past)
{
    for (size_t i = 0; i < past->starts.n; i++)
        mem_free(past->starts.at[i].held.parts);
    vec_release(&past->starts);
}

static bool is_here(const struct past *past, const struct firn_alloc *held)
{
    for (int i = 0; i < held->nparts; i++)
        if (past->cluster == NULL ||
            held->parts[i].node >= past->cluster->nnodes)
            return false;
    return true;
}

/* Of the slowest of its GPUs. */
static double speed(const struct past *past, const struct firn_alloc *held)
{
    const struct firn_cluster *c = past->cluster;
    double least = 0;
    firn_type_id kept = c != NULL && *past->type != '\0'
                            ? firn_cluster_type(c, past->type)
                            : -1;
    if (kept >= 0)
        return c->types[kept].speed;
    for (int i = 0; i < held->nparts; i++) {
        firn_node_id node = held->parts[i].node;
        double s = c != NULL && node < c->nnodes
                       ? c->types[c->nodes[node].type].speed
                       : 1;
        least = i == 0 || s < least ? s : least;
    }
    return least;
}

/* As the simulator will see it; false: it could not place it. */
static bool open_model(const struct past *past,
                       const struct firn_job_spec *spec, struct llmjob *out)
{
    struct firn_job_spec as = *spec;
    struct job_accept accept = {.resizes = false};
    char types[LLMJOBS_TYPES_TEXT], why[JOB_WHY_MAX];
    if (past->cluster == NULL || !llmjobs_is(spec))
        return false;
    llmjobs_restrict(past->cluster, &as, types);
    if (!job_accept(&as, past->cluster, &accept, why))
        return false;
    *out = llmjobs_open(past->cluster, &as, accept.types);
    return out->ref_samples_s > 0;
}

/* (2), (3) */
static void set_gpus(const struct past *past, struct firn_job_spec *spec)
{
    bool is_open = spec->gpus == 0;
    if (is_open && past->cluster != NULL && llmjobs_is(spec))
        llmjobs_fill(past->cluster, spec);
    spec->gpus = past->starts.at[past->starts.n - 1].held.ngpus;
    bool is_fixed = !past->may_stop && !is_open;
    if (is_fixed || spec->gpus_min < 1 || spec->gpus_min > spec->gpus)
        spec->gpus_min = spec->gpus;
    if (is_fixed || spec->gpus_max < spec->gpus)
        spec->gpus_max = spec->gpus;
}

void past_spec(const struct past *past, struct firn_job_spec *spec)
{
    struct llmjob model = {0};
    double gpu_s = 0;
    set_gpus(past, spec);
    bool is_model = open_model(past, spec, &model);
    if (!is_model) /* (1) */
        spec->seq = 0;
    for (size_t i = 0; i < past->starts.n; i++) {
        const struct past_start *start = &past->starts.at[i];
        double rate = speed(past, &start->held) * start->held.ngpus;
        if (is_model && is_here(past, &start->held)) {
            struct llmspot spot = llmjobs_held(past->cluster, &start->held);
            rate = llmjobs_rate(&model, &spot, (struct llmhow){0}) * spec->gpus;
        }
        gpu_s += start->ran_s * rate;
    }
    spec->duration_s = gpu_s / spec->gpus;
}
