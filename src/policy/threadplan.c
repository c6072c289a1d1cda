/* threadplan.c - layouts of elastic threads, and proposals for more GPUs.
 *
 * Li et al., EasyScale, SC 2023, 3.4: a job's maxP threads are laid out over
 * the GPUs it has, of whatever types, so that a step is shortest; what
 * capability is then left over is the waste (firn/waste.h). C_i of a job is
 * what it is expected to do on one GPU of type i, so the unit of `perf` is the
 * unit of rates.
 *
 * Where several processes of the job fit on a GPU and are faster together than
 * one, the layout may have them: executors of the paper, MC_i = m C_i I_i and
 * MA_i = m A_i.
 *
 * The paper adds one GPU at a time, of any type. One more is often worth
 * nothing: 32 threads take as long on 9 GPUs as on 8. With `several` a proposal
 * is the fewest more GPUs of one type that shorten the step at all, and the
 * next, and so on, up to twice as many GPUs as before. With `trims` a GPU that
 * a new layout leaves idle or does not need is given back: so a job moves on to
 * faster GPUs.
 *
 * The model ranks proposals; those that are left are asked of the forecast,
 * which knows what synchronisation costs. One that does not gain there is
 * dropped.
 *
 * Cost: O(types^2) for a layout; a job's proposals take that for each GPU it
 * might get, and one forecast for each proposal made.
 */
#include "policy/threadplan.h"
#include <firn/waste.h>
#include <string.h>

static const double slack = 1e-9; /* shorter by less is not shorter */

/* NULL: one executor on each GPU. */
static const struct firn_executor_ways *ways_of(const struct threadplan *plan)
{
    const struct firn_view *view = plan->view;
    struct firn_executor_ways *all = NULL;
    for (int t = 0; t < view->cluster->ntypes; t++) {
        struct firn_executor_ways some;
        if (!(plan->types >> t & 1) ||
            firn_view_executors(view, plan->job, t, &some) == 0)
            continue;
        if (all == NULL)
            all = firn_view_alloc(view, FIRN_TYPES_MAX * sizeof *all);
        all[t] = some;
    }
    return all;
}

void threadplan_init(struct threadplan *plan, const struct firn_view *view,
                     const struct firn_job *job, uint32_t types)
{
    const struct firn_cluster *c = view->cluster;
    int threads =
        job->spec.threads > 0 ? job->spec.threads : job->spec.gpus_max;
    plan->view = view;
    plan->job = job;
    plan->types = types & job->type_mask;
    plan->threads =
        threads < FIRN_WASTE_THREADS_MAX ? threads : FIRN_WASTE_THREADS_MAX;
    plan->ways = ways_of(plan);
    for (int t = 0; t < c->ntypes; t++) {
        struct firn_way way = {
            .gpus = 1, .type = t, .tunes = FIRN_TUNE_THREADS};
        plan->per_gpu[t] = 0;
        if (!(plan->types >> t & 1))
            continue;
        double rate = firn_view_rate(view, job, &way);
        plan->per_gpu[t] = rate > 0 ? rate : c->types[t].speed / job->spec.gpus;
    }
}

/* By type, with the threads of each; false when no GPU can be used. */
static bool lay_out(const struct threadplan *plan, const int *counts,
                    struct firn_waste_type *types, struct firn_waste *waste)
{
    int ntypes = plan->view->cluster->ntypes;
    for (int t = 0; t < ntypes; t++)
        types[t] = (struct firn_waste_type){
            .ngpus = plan->types >> t & 1 ? counts[t] : 0,
            .rate = plan->per_gpu[t]};
    return firn_waste_choose(types, plan->ways, ntypes, plan->threads, waste);
}

bool threadplan_layout(const struct threadplan *plan, const int *counts,
                       struct layout *out)
{
    struct firn_waste_type types[FIRN_TYPES_MAX];
    struct firn_waste waste;
    if (!lay_out(plan, counts, types, &waste))
        return false;
    out->gpus = 0;
    for (int t = 0; t < plan->view->cluster->ntypes; t++) {
        out->counts[t] = types[t].ngpus;
        out->gpus += types[t].ngpus;
    }
    out->perf = waste.perf;
    out->waste = waste.waste_norm;
    return true;
}

/* The slowest type that it has GPUs of among those not in `seen`; or -1. */
static int slowest(const struct threadplan *plan, const struct layout *layout,
                   uint32_t seen)
{
    int found = -1;
    for (int t = 0; t < plan->view->cluster->ntypes; t++)
        if (layout->counts[t] > 0 && !(seen >> t & 1) &&
            (found < 0 || plan->per_gpu[t] < plan->per_gpu[found]))
            found = t;
    return found;
}

void threadplan_trim(const struct threadplan *plan, struct layout *layout,
                     int least)
{
    struct firn_waste_type types[FIRN_TYPES_MAX];
    struct firn_waste waste;
    if (!lay_out(plan, layout->counts, types, &waste))
        return;
    int spare = (int)waste.capacity - plan->threads;
    uint32_t seen = 0;
    for (int t; (t = slowest(plan, layout, seen)) >= 0;) {
        int executors = types[t].executors > 0 ? types[t].executors : 1;
        int each = types[t].threads * executors, most = layout->gpus - least;
        int gone = each == 0 ? layout->counts[t] : spare / each;
        seen |= (uint32_t)1 << t;
        gone = gone < layout->counts[t] ? gone : layout->counts[t];
        gone = gone < most ? gone : most;
        if (gone <= 0)
            continue;
        layout->counts[t] -= gone;
        layout->gpus -= gone;
        spare -= gone * each;
    }
    threadplan_layout(plan, layout->counts, layout);
}

double threadplan_rate(const struct threadplan *plan,
                       const struct layout *layout)
{
    struct firn_way way = {.gpus = layout->gpus,
                           .tunes = FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS,
                           .counts = layout->counts};
    double rate = firn_view_rate(plan->view, plan->job, &way);
    return rate >= 0 ? rate : layout->perf; /* NaN: not known */
}

/* A higher gain, or as high with more GPUs. */
static bool is_better(const struct proposal *a, const struct proposal *b)
{
    return a->gain != b->gain ? a->gain > b->gain : a->more > b->more;
}

/* Puts it where it belongs among the best. */
static int insert(struct proposal *best, int n, int top,
                  const struct proposal *one)
{
    int at = n;
    while (at > 0 && is_better(one, &best[at - 1]))
        at--;
    if (at == top)
        return n;
    n = n < top ? n + 1 : n;
    memmove(&best[at + 1], &best[at], (size_t)(n - 1 - at) * sizeof *best);
    best[at] = *one;
    return n;
}

/* The forecast decides. */
static int ask(const struct threadplan *plan, const struct layout *now,
               struct proposal *best, int n)
{
    double rate = threadplan_rate(plan, now);
    struct proposal asked[THREADPLAN_MOST] = {0};
    int left = 0;
    for (int i = 0; i < n; i++) {
        struct proposal *one = &best[i];
        one->rate = threadplan_rate(plan, &one->layout);
        one->gain = (one->rate / rate - 1) / one->more;
        if (one->gain > slack)
            left = insert(asked, left, n, one);
    }
    for (int i = 0; i < left; i++)
        best[i] = asked[i];
    return left;
}

int threadplan_propose(const struct threadplan *plan, const struct layout *now,
                       const struct threadplan_limits *limits,
                       struct proposal *out)
{
    int n = 0;
    for (int t = 0; t < plan->view->cluster->ntypes; t++) {
        double longest = now->perf * (1 + slack);
        int most = limits->free[t] < now->gpus ? limits->free[t] : now->gpus;
        int room =
            limits->gpus_max - (limits->trims ? now->counts[t] : now->gpus);
        most = most < room ? most : room; /* others may be given back */
        most = most > 1 && !limits->several ? 1 : most;
        if (!(plan->types >> t & 1))
            continue;
        for (int more = 1; more <= most; more++) {
            struct proposal one = {.layout = *now, .more = more, .type = t};
            one.layout.counts[t] += more;
            threadplan_layout(plan, one.layout.counts, &one.layout);
            if (one.layout.perf <= longest)
                continue;
            longest = one.layout.perf * (1 + slack);
            if (limits->trims)
                threadplan_trim(plan, &one.layout, limits->gpus_min);
            if (one.layout.gpus > limits->gpus_max ||
                one.layout.waste > limits->waste_max)
                continue;
            one.gain = (one.layout.perf / now->perf - 1) / more;
            n = insert(out, n, limits->top, &one);
        }
    }
    return n > 0 ? ask(plan, now, out, n) : 0;
}
