/* adaptdltiresias.c - two queues, the second in order of demotion.
 *
 * A job falls to the second queue when GPUs x seconds held reach 16 GPU-hours
 * and never comes back. The first queue is in order of submission; the second
 * is in order of falling, which policy/tiresias.c does not know: there it is
 * by submission too, as a rank that depends on the job alone must be. That is
 * the one difference, worth up to 0.7 % of the average completion time on the
 * Pollux authors' workloads.
 *
 * Who runs is found by counting alone, the first queue before the second; a
 * job that does not fit is passed over and loses what it holds. Running jobs
 * stay where they are, the new ones are placed in the order of the queues.
 *
 * Cost: O(jobs log jobs) a decision.
 */
#include "compat/adaptdltiresias.h"
#include "base/vec.h"
#include <stdlib.h>

/* GPU-seconds after which a job falls to the second queue. */
static const double THRESHOLD_GPU_S = 57600;

struct queues {
    VEC(int) fell; /* by job id: the how manieth that fell; 0: it did not */
    int nfell;
};

static int by_fall(const void *a, const void *b)
{
    const int *const *x = a, *const *y = b;
    return (**x > **y) - (**x < **y);
}

/* (Q6) Who reached the threshold goes to the end of the second queue. Nobody
 * falls twice, so that asked again the answer is the same. */
static void demote(struct queues *queues, const struct firn_view *view)
{
    const struct firn_job *const *running = firn_view_running(view);
    for (size_t i = 0; i < view->nrunning; i++) {
        int *fell = &queues->fell.at[running[i]->id];
        if (*fell == 0 &&
            firn_job_served_gpu_s(running[i], view->now_s) >= THRESHOLD_GPU_S)
            *fell = ++queues->nfell;
    }
}

/* All jobs, the first queue before the second. */
static const struct firn_job **line_up(struct queues *queues,
                                       const struct firn_view *view)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    const struct firn_job **line =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *line);
    const int **second =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *second);
    const struct firn_job **of =
        firn_view_alloc(view, ((size_t)queues->nfell + 1) * sizeof *of);
    size_t n = 0, nsecond = 0;
    for (size_t i = 0; i < view->njobs; i++) {
        const int *fell = &queues->fell.at[jobs[i]->id];
        if (*fell == 0)
            line[n++] = jobs[i];
        else
            second[nsecond++] = fell;
        of[*fell] = jobs[i];
    }
    if (nsecond > 1)
        qsort(second, nsecond, sizeof *second, by_fall);
    for (size_t i = 0; i < nsecond; i++)
        line[n++] = of[*second[i]];
    return line;
}

static enum firn_status decide_tiresias(void *state,
                                        const struct firn_view *view,
                                        struct firn_plan *plan)
{
    struct queues *queues = state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    if (view->njobs > 0)
        vec_reserve(&queues->fell, (size_t)jobs[view->njobs - 1]->id + 1);
    demote(queues, view);
    const struct firn_job **line = line_up(queues, view);
    int left = view->gpus_up;
    for (size_t i = 0; i < view->njobs; i++) {
        if (line[i]->spec.gpus > left) {
            firn_plan_note(plan, line[i], "%d GPUs wanted, %d left",
                           line[i]->spec.gpus, left);
            line[i] = NULL;
            continue;
        }
        left -= line[i]->spec.gpus;
        if (firn_plan_keep(plan, line[i]))
            line[i] = NULL;
    }
    for (size_t i = 0; i < view->njobs; i++)
        if (line[i] != NULL)
            firn_plan_give(plan, line[i], line[i]->spec.gpus);
    return FIRN_OK;
}

/* When the next one falls. */
static double wake_tiresias(const void *state, const struct firn_view *view)
{
    const struct queues *queues = state;
    const struct firn_job *const *running = firn_view_running(view);
    double wake_s = INFINITY;
    for (size_t i = 0; i < view->nrunning; i++) {
        const struct firn_job *job = running[i];
        double left = THRESHOLD_GPU_S - firn_job_served_gpu_s(job, view->now_s);
        if (queues->fell.at[job->id] == 0)
            wake_s = fmin(wake_s, view->now_s + left / job->held.ngpus);
    }
    return wake_s;
}

static void close_tiresias(void *state)
{
    struct queues *queues = state;
    vec_release(&queues->fell);
}

const struct firn_policy_def adaptdl_tiresias = {
    .size = sizeof(struct firn_policy_def),
    .name = "tiresias",
    .summary = "two queues by GPU service, the second in order of demotion",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_MOVE,
    .state_size = sizeof(struct queues),
    .decide = decide_tiresias,
    .wake_s = wake_tiresias,
    .fini = close_tiresias,
};
