/* llmjobs_plans.c - all plans of a language model, and the nearest that do not
 * fit.
 *
 * A plan is a split (llmjobs.c) on GPUs of one type, packed on as few nodes as
 * can be: t ways by tensor parallelism within a node, d copies that divide the
 * batch evenly, and for models of firn/peak.h a stage of ZeRO, passes, and what
 * is saved beside. Of each type and t x d x stage there is one plan: the one
 * that has the least to save, and then the fewest passes. Memory does not
 * depend on the type, and is predicted once for all of them.
 *
 * Order of plans: samples a second of a GPU, then fewer GPUs, the lower stage,
 * more room, type, t.
 *
 * A way that does not fit is tried with the most passes and all that may be
 * saved, on the largest type that has the GPUs; those with the least lack are
 * told, with the term of memory that is the largest.
 *
 * Cost: O(t x d x stages x (passes + types)) predictions and step times; the
 * order is by moved pointers for few plans, else by qsort.
 */
#include "core/llmjobswork.h"
#include "model/llmplan.h"
#include <firn/parallel.h>
#include <stdlib.h>
#include <string.h>

/* --- plans --------------------------------------------------------------- */

static int by_efficiency(const void *a, const void *b)
{
    const struct llmplan *p = a, *q = b;
    int p_gpus = p->t * p->d, q_gpus = q->t * q->d;
    if (p->samples_s_gpu != q->samples_s_gpu)
        return p->samples_s_gpu > q->samples_s_gpu ? -1 : 1;
    if (p_gpus != q_gpus)
        return p_gpus < q_gpus ? -1 : 1;
    if (p->zero != q->zero)
        return p->zero < q->zero ? -1 : 1;
    if (p->room_gib != q->room_gib)
        return p->room_gib > q->room_gib ? -1 : 1;
    if (p->type != q->type)
        return p->type < q->type ? -1 : 1;
    return (p->t > q->t) - (p->t < q->t);
}

/* Most models have a few dozen plans: pointers to those are moved, as qsort
 * takes three times as long. */
static void sort_plans(struct llmplans *plans)
{
    enum { FEW = 48 };
    struct llmplan copy[FEW];
    const struct llmplan *order[FEW];
    if (plans->n > FEW) {
        qsort(plans->at, plans->n, sizeof *plans->at, by_efficiency);
        return;
    }
    if (plans->n < 2)
        return;
    memcpy(copy, plans->at, plans->n * sizeof *copy);
    for (size_t n = 0; n < plans->n; n++) {
        size_t at = n;
        for (; at > 0 && by_efficiency(&copy[n], order[at - 1]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = &copy[n];
    }
    for (size_t i = 0; i < plans->n; i++)
        plans->at[i] = *order[i];
}

static bool has_gpus(const struct llmgpus *of, int t, int d)
{
    return t <= of->node && d <= of->most / t;
}

static void add_plan(struct llmplans *out, const struct llmjob *llm,
                     const struct llmgpus *of, firn_type_id type,
                     const struct llmsplit *split)
{
    struct llmspot spot = llmjobs_packed_on(of, split->t * split->d, 0);
    struct llmplan plan = llmsplit_plan(split, type);
    bool has_formula = !llm->is_peak && !llm->is_seen;
    plan.marp_gib = has_formula ? split->marp_gib : split->need_gib;
    if (!llmspot_fits(&spot, plan.need_gib) &&
        !llmspot_fits(&spot, plan.marp_gib))
        return;
    plan.samples_s = llmsplit_samples_s(llm, &spot, split);
    plan.samples_s_gpu = plan.samples_s / (split->t * split->d);
    plan.room_gib = spot.mem_gib > 0 ? spot.mem_gib - plan.need_gib : 0;
    vec_add(out, plan);
}

/* Adds the split to the types of `left` that it fits with the fewest passes,
 * and takes those off `left`. Memory does not depend on the type and is
 * predicted once. */
static void add_passes(struct llmplans *out, const struct llmjob *llm,
                       const struct llmgpus *of, uint32_t *left,
                       struct llmsplit *split)
{
    int mine = llm->batch / split->d, passes = 0;
    while (*left != 0 &&
           (passes = llmsplit_next_passes(llm, mine, passes)) > 0) {
        llmsplit_need(llm, split, passes);
        for (uint32_t types = *left; types != 0; types &= types - 1) {
            int type = __builtin_ctz(types);
            struct llmspot spot = {.mem_gib = of[type].mem_gib};
            if (!llmspot_fits(&spot, split->need_gib))
                continue;
            add_plan(out, llm, &of[type], type, split);
            *left &= ~((uint32_t)1 << type);
        }
    }
}

/* Of each type that has the GPUs one plan: with the least that it has to save.
 */
static void add_saves(struct llmplans *out, const struct llmjob *llm,
                      const struct llmgpus *of, int ntypes,
                      struct llmsplit *split)
{
    uint32_t left = 0;
    for (int type = 0; type < ntypes; type++)
        if (has_gpus(&of[type], split->t, split->d))
            left |= (uint32_t)1 << type;
    for (int n = 0;
         left != 0 && (split->saves = llmsplit_nth_saves(llm, n)) >= 0; n++)
        add_passes(out, llm, of, &left, split);
}

static void add_plans(struct llmplans *out, const struct llmjob *llm,
                      const struct llmgpus *of, int ntypes, int t, int d)
{
    struct llmsplit split = {.t = t, .d = d};
    if (llm->is_peak) {
        for (split.zero = 0; split.zero <= 3; split.zero++)
            if (llmsplit_is_open(llm, &split))
                add_saves(out, llm, of, ntypes, &split);
        return;
    }
    bool is_known = false;
    for (int type = 0; type < ntypes; type++) {
        if (!has_gpus(&of[type], t, d))
            continue;
        if (!is_known) {
            llmsplit_need_by_memory(llm, &split);
            split.marp_gib = firn_marp_bytes(&llm->job.shape, llm->job.seq,
                                             llm->batch, t, d) /
                             1e9;
        }
        is_known = true;
        add_plan(out, llm, &of[type], type, &split);
    }
}

/* The GPUs of each type that may be used, and the most of any: in a node, and
 * in all. */
struct reach {
    struct llmgpus of[FIRN_TYPES_MAX];
    int ntypes, node, most;
};

static void find_reach(struct reach *out, const struct firn_cluster *cluster,
                       uint32_t types, int gpus_max)
{
    double reference = llmjobs_reference_speed(cluster);
    out->ntypes = cluster->ntypes;
    out->node = out->most = 0;
    for (int type = 0; type < cluster->ntypes; type++) {
        struct llmgpus *of = &out->of[type];
        *of = (struct llmgpus){0};
        if (!(types >> type & 1))
            continue;
        *of = llmjobs_gpus_at(cluster, type, reference);
        if (of->most > gpus_max)
            of->most = gpus_max;
        out->node = of->node > out->node ? of->node : out->node;
        out->most = of->most > out->most ? of->most : out->most;
    }
}

struct llmplans llmjobs_plans(const struct llmjob *llm,
                              const struct firn_cluster *cluster,
                              uint32_t types, int gpus_min, int gpus_max)
{
    struct llmplans out = {0};
    struct reach reach;
    find_reach(&reach, cluster, types, gpus_max);
    vec_reserve(&out, 32);
    for (int t = 1; t <= reach.node && llm->job.shape.heads % t == 0; t *= 2)
        for (int d = 1; d <= llm->batch && d <= reach.most / t; d++)
            if (llm->batch % d == 0 && t * d >= gpus_min)
                add_plans(&out, llm, reach.of, reach.ntypes, t, d);
    sort_plans(&out);
    return out;
}

/* --- ways that do not fit ------------------------------------------------ */

struct missing {
    struct llmmiss *out;
    size_t n, max;
};

static void add_miss(struct missing *to, const struct llmmiss *miss)
{
    size_t at = to->n < to->max ? to->n++ : to->max;
    for (; at > 0 && to->out[at - 1].plan.room_gib < miss->plan.room_gib; at--)
        if (at < to->max)
            to->out[at] = to->out[at - 1];
    if (at < to->max)
        to->out[at] = *miss;
}

/* The way with the most passes and all that may be saved, on the largest type
 * that has the GPUs. */
static void try_miss(struct missing *to, const struct llmjob *llm,
                     const struct reach *reach, struct llmsplit *split)
{
    int mine = llm->batch / split->d, passes = 0, next = 0;
    struct llmmiss miss = {.plan.type = -1};
    while ((next = llmsplit_next_passes(llm, mine, passes)) > 0)
        passes = next;
    if (passes == 0)
        return;
    split->saves = llm->saves;
    struct firn_peak m = llmsplit_need(llm, split, passes);
    double most = 0;
    for (int type = 0; type < reach->ntypes; type++) {
        double gib = reach->of[type].mem_gib;
        if (!has_gpus(&reach->of[type], split->t, split->d))
            continue;
        if (gib <= 0 || gib >= split->need_gib)
            return; /* it fits */
        if (gib > most) {
            most = gib;
            miss.plan = llmsplit_plan(split, type);
        }
    }
    if (miss.plan.type < 0)
        return;
    struct llmspot spot =
        llmjobs_packed_on(&reach->of[miss.plan.type], split->t * split->d, 0);
    miss.plan.samples_s = llmsplit_samples_s(llm, &spot, split);
    miss.plan.room_gib = most - split->need_gib;
    for (int i = 0; i < FIRN_TERMS; i++)
        if (m.terms_mib[i] > m.terms_mib[miss.term])
            miss.term = (enum firn_peak_term)i;
    miss.term_gib = m.terms_mib[miss.term] * llm->mem_ratio / MIB_PER_GIB;
    add_miss(to, &miss);
}

size_t llmjobs_misses(const struct llmjob *llm,
                      const struct firn_cluster *cluster, uint32_t types,
                      int gpus_max, struct llmmiss *out, size_t max)
{
    struct missing to = {.out = out, .max = max};
    struct reach reach;
    if (!llm->is_peak || max == 0)
        return 0;
    find_reach(&reach, cluster, types, gpus_max);
    for (int t = 1; t <= reach.node && llm->job.shape.heads % t == 0; t *= 2)
        for (int d = 1; d <= llm->batch && d <= reach.most / t; d++) {
            struct llmsplit split = {.t = t, .d = d};
            if (llm->batch % d != 0)
                continue;
            for (split.zero = 0; split.zero <= 3; split.zero++)
                if (llmsplit_is_open(llm, &split))
                    try_miss(&to, llm, &reach, &split);
        }
    return to.n;
}

/* --- as a forecast has them ---------------------------------------------- */

/* What its trainer is told, as in struct firn_how; 0: there is no choice. */
static int parallel_of(const struct llmjob *llm, const struct llmplan *plan)
{
    int kind = FIRN_PARALLEL_DATA;
    if (!llm->is_peak)
        return FIRN_PARALLEL_OWN;
    bool is_ordered = plan->d > 1 && !llm->has_said_zero;
    if (is_ordered && plan->zero == 1)
        kind |= FIRN_SAVES_STATE;
    else if (is_ordered && plan->zero == 2)
        kind |= FIRN_SAVES_GRADIENTS;
    else if (plan->d == 1 || (llm->cannot & FIRN_CAN_SHARDED))
        kind = FIRN_PARALLEL_OWN;
    else if (plan->zero == 3)
        kind = FIRN_PARALLEL_SHARDED;
    return kind | plan->saves;
}

size_t llmjobs_ways(const struct llmjob *llm,
                    const struct firn_cluster *cluster,
                    const struct firn_job *job, double correction,
                    struct firn_llm_way *out, size_t max)
{
    struct llmplans plans = llmjobs_plans(
        llm, cluster, job->type_mask, job->spec.gpus_min, job->spec.gpus_max);
    size_t n = plans.n;
    for (size_t i = 0; i < n && i < max; i++) {
        const struct llmplan *p = &plans.at[i];
        out[i] = (struct firn_llm_way){
            .way = {.gpus = p->t * p->d,
                    .type = p->type,
                    .tensor = p->t,
                    .passes = llm->cannot & FIRN_CAN_PASSES ? 0 : p->passes,
                    .parallel = parallel_of(llm, p)},
            .mem_gib = p->need_gib,
            .marp_gib = p->marp_gib,
            .rate = correction * p->samples_s / llm->ref_samples_s,
        };
    }
    vec_release(&plans);
    return n;
}
