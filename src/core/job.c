/* job.c - how far a job is, and whether a cluster can ever run it.
 */
#include "core/accept.h"
#include <firn/job.h>

#include "base/str.h"
#include <firn/parallel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

double firn_job_served_gpu_s(const struct firn_job *job, double now_s)
{
    if (job->state != FIRN_JOB_RUNNING)
        return job->served_gpu_s;
    return job->served_gpu_s + job->held.ngpus * (now_s - job->since_s);
}

double firn_job_done_s(const struct firn_job *job, double now_s)
{
    if (job->state != FIRN_JOB_RUNNING || now_s <= job->resumes_s)
        return job->done_s;
    double done_s = job->done_s + job->rate * (now_s - job->resumes_s);
    return done_s > job->spec.duration_s ? job->spec.duration_s : done_s;
}

double firn_job_work_s(const struct firn_job *job)
{
    return job->belief > 0 ? job->spec.duration_s * job->belief
                           : job->spec.duration_s;
}

double firn_job_work_left_s(const struct firn_job *job, double now_s)
{
    double left_s = job->spec.duration_s - firn_job_done_s(job, now_s);
    return job->belief > 0 ? left_s * job->belief : left_s;
}

double firn_job_left_s(const struct firn_job *job, double now_s)
{
    double left_s = firn_job_work_left_s(job, now_s);
    if (job->state != FIRN_JOB_RUNNING || job->rate <= 0)
        return left_s;
    double restart_s = job->resumes_s > now_s ? job->resumes_s - now_s : 0;
    return restart_s + left_s / job->rate;
}

bool firn_job_can(const struct firn_job *job, unsigned what)
{
    return (job->spec.cannot & what) == 0;
}

unsigned firn_job_tunes(const struct firn_job *job, unsigned tunes)
{
    if (!firn_job_can(job, FIRN_CAN_BATCH))
        tunes &= ~(unsigned)FIRN_TUNE_BATCH;
    if (!firn_job_can(job, FIRN_CAN_FREEZE))
        tunes &= ~(unsigned)FIRN_TUNE_FREEZE;
    if (!firn_job_can(job, FIRN_CAN_EXECUTORS))
        tunes &= ~(unsigned)FIRN_TUNE_EXECUTORS;
    return tunes;
}

unsigned firn_job_lacks(const struct firn_job *job, const struct firn_how *how)
{
    unsigned need = 0;
    need |= how->passes > 1 ? FIRN_CAN_PASSES : 0u;
    need |= how->tensor > 1 ? FIRN_CAN_TENSOR : 0u;
    int zero = firn_parallel_zero(how->parallel);
    need |= zero == 3 ? FIRN_CAN_SHARDED : 0u;
    need |= zero == 1 || zero == 2 ? FIRN_CAN_ZERO : 0u;
    need |= firn_parallel_recomputes(how->parallel) ? FIRN_CAN_RECOMPUTE : 0u;
    need |= firn_parallel_offloads(how->parallel) ? FIRN_CAN_OFFLOAD : 0u;
    need |= how->stages > 1 ? FIRN_CAN_PIPELINE : 0u;
    need |= how->merged_with != FIRN_NO_JOB ? FIRN_CAN_PARTNER : 0u;
    need |= how->after != FIRN_NO_JOB ? FIRN_CAN_AFTER : 0u;
    return need & job->spec.cannot;
}

bool firn_job_may_merge(const struct firn_job *a, const struct firn_job *b)
{
    const char *one = a->spec.merge_key != NULL ? a->spec.merge_key : "";
    const char *two = b->spec.merge_key != NULL ? b->spec.merge_key : "";
    return a != b && a->spec.may_merge && b->spec.may_merge &&
           firn_job_can(a, FIRN_CAN_PARTNER) &&
           firn_job_can(b, FIRN_CAN_PARTNER) && strcmp(one, two) == 0;
}

bool firn_job_is_gang(const struct firn_job *job)
{
    return job->spec.gpus_min == job->spec.gpus_max;
}

/* Does the list "v100|a100" (any case; empty for any) name this type? */
static bool names_type(const char *list, const char *type)
{
    if (*list == '\0')
        return true;
    while (*list != '\0') {
        size_t n = strcspn(list, "|");
        char name[FIRN_NAME_MAX];
        snprintf(name, sizeof name, "%.*s", (int)n, list);
        if (n < sizeof name && str_equal_nocase(name, type))
            return true;
        list += n + (list[n] == '|');
    }
    return false;
}

/* No type of the cluster will do: says why. */
static void explain_types(const struct firn_job_spec *spec,
                          const struct firn_cluster *cluster,
                          char why[JOB_WHY_MAX])
{
    const struct firn_gpu_type *largest = NULL;
    char names[JOB_WHY_MAX / 2] = "";
    size_t n = 0;
    for (int t = 0; t < cluster->ntypes; t++) {
        const struct firn_gpu_type *type = &cluster->types[t];
        if (names_type(spec->types, type->name) &&
            (largest == NULL || type->mem_gib > largest->mem_gib))
            largest = type;
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s",
                                  t > 0 ? ", " : "", type->name);
    }
    if (largest == NULL)
        snprintf(why, JOB_WHY_MAX,
                 "accepts GPUs of type '%.60s' only; the cluster has %s",
                 spec->types, names);
    else
        snprintf(why, JOB_WHY_MAX,
                 "needs %g GiB on each GPU; the largest that it accepts is "
                 "%s with %g GiB",
                 spec->mem_gib, largest->name, largest->mem_gib);
}

/* The most GPUs that one node of these types has. */
static int most_on_a_node(const struct firn_cluster *cluster, uint32_t types)
{
    int most = 0;
    for (int i = 0; i < cluster->nnodes; i++)
        if ((types >> cluster->nodes[i].type & 1) &&
            cluster->nodes[i].ngpus > most)
            most = cluster->nodes[i].ngpus;
    return most;
}

bool job_accept(const struct firn_job_spec *spec,
                const struct firn_cluster *cluster, struct job_accept *out,
                char why[JOB_WHY_MAX])
{
    int least = out->resizes ? spec->gpus_min : spec->gpus;
    int suiting = 0;
    out->types = 0;
    out->gpus = 0;
    for (int t = 0; t < cluster->ntypes; t++) {
        const struct firn_gpu_type *type = &cluster->types[t];
        if (!names_type(spec->types, type->name))
            continue;
        if (type->mem_gib > 0 && spec->mem_gib > type->mem_gib)
            continue;
        out->types |= (uint32_t)1 << t;
        suiting += type->ngpus;
        if (!spec->one_type)
            out->gpus = suiting;
        else if (type->ngpus > out->gpus)
            out->gpus = type->ngpus;
    }
    if (out->types == 0) {
        explain_types(spec, cluster, why);
        return false;
    }
    if (spec->gpus < 1) {
        snprintf(why, JOB_WHY_MAX,
                 "names no number of GPUs, and its memory fits on none");
        return false;
    }
    if (spec->one_node) {
        int most = most_on_a_node(cluster, out->types);
        out->gpus = most < out->gpus ? most : out->gpus;
        if (least > most) {
            snprintf(why, JOB_WHY_MAX,
                     "wants %d GPUs on one node, the largest node that it can "
                     "use has %d",
                     least, most);
            return false;
        }
    }
    if (least > out->gpus) {
        snprintf(why, JOB_WHY_MAX, "wants %d GPUs%s, the cluster has %d%s",
                 least, suiting > out->gpus ? " of one type" : "", out->gpus,
                 suiting < cluster->ngpus ? " that it can use" : "");
        return false;
    }
    return true;
}
