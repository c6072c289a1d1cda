/* planjobs.c - speed of jobs by their execution plan.
 *
 * With T seconds of a step (model/plantime.h, or a measured row),
 *
 *     rate = T(asked plan, where duration_s was recorded) / T(plan, GPUs held)
 *
 * The global batch is fixed, so a step is the same work in every plan. Recorded
 * durations of Rubick's workloads are steps x T on the asked GPUs, packed; a
 * split model whose stages x copies are no more than the nodes has the shares
 * of each stage on a node of their own. (LLaMA-7B with 2 x 4 x 4: 648 steps in
 * 779.9 s; the table has 1.203 s on eight nodes of 4 and 0.943 s on four of 8.)
 *
 * Another GPU type than that of the table: compute, links and network as the
 * constants of firn/llmplan.h say. The slowest type counts.
 *
 * A scheduler that does not change plans adds and removes copies; GPUs that
 * make no further copy are idle. A plan that cannot run is never offered by a
 * forecast; a policy that orders it nevertheless gets a hundredth of the speed
 * asked for, so that every run ends. The plan that was asked for runs on the
 * GPUs asked for: its user tried it.
 *
 * Cost: one evaluation of the law, or a binary search in a table.
 */
#include "core/planjobs.h"
#include <firn/llmplan.h>
#include <firn/parallel.h>
#include <math.h>
#include <string.h>

#define CRAWL 0.01

bool planjobs_is(const struct firn_job_spec *spec)
{
    return spec->asked.parallel > 0 && plan_model_find(spec->app) != NULL;
}

/* --- plans --------------------------------------------------------------- */

struct firn_layout planjobs_layout(const struct exec_plan *plan)
{
    struct firn_layout how = {.parallel = FIRN_PARALLEL_DATA};
    if (plan->kind == PLAN_ZERO)
        how.parallel = FIRN_PARALLEL_SHARDED;
    else if (plan->kind == PLAN_OFFLOAD)
        how.parallel = FIRN_PARALLEL_OFFLOAD;
    else if (plan->kind == PLAN_SPLIT)
        how = (struct firn_layout){FIRN_PARALLEL_PIPELINE, plan->tensor,
                                   plan->stages};
    else if (plan->recomputes)
        how.parallel = FIRN_PARALLEL_RECOMPUTE;
    return how;
}

bool planjobs_plan(const struct planjob *job, const struct firn_layout *how,
                   int gpus, struct exec_plan *out)
{
    const struct firn_layout *as = how;
    struct exec_plan plan = {PLAN_DATA, false, 1, 1, gpus, 1};
    if (how->parallel == 0 && how->tensor <= 1 && how->stages <= 1)
        as = &job->asked;
    if (as->parallel == FIRN_PARALLEL_SHARDED)
        plan.kind = PLAN_ZERO;
    else if (as->parallel == FIRN_PARALLEL_OFFLOAD)
        plan.kind = PLAN_OFFLOAD;
    else if (as->parallel == FIRN_PARALLEL_RECOMPUTE)
        plan.recomputes = true;
    if (as->parallel == FIRN_PARALLEL_PIPELINE || as->tensor > 1 ||
        as->stages > 1) {
        plan.kind = PLAN_SPLIT;
        plan.tensor = as->tensor > 1 ? as->tensor : 1;
        plan.stages = as->stages > 1 ? as->stages : 1;
        plan.data = gpus / (plan.tensor * plan.stages);
    }
    if (as == &job->asked && job->model != NULL &&
        plan.data > job->model->batch)
        plan.data = job->model->batch;
    *out = plan;
    int used = plan.data * plan.tensor * plan.stages;
    return used > 0 && (used == gpus || as == &job->asked);
}

void planjobs_restrict(struct firn_job_spec *spec)
{
    int one = (spec->asked.tensor > 1 ? spec->asked.tensor : 1) *
              (spec->asked.stages > 1 ? spec->asked.stages : 1);
    if (planjobs_is(spec) && spec->gpus_min < one && one <= spec->gpus)
        spec->gpus_min = one;
}

/* The first `gpus` GPUs of a place. */
static struct spread first_of(const struct spread *where, int gpus)
{
    struct spread out = *where;
    int left = gpus;
    out.gpus = gpus;
    out.nodes = out.fullest = 0;
    for (int i = 0; i < where->nodes && left > 0; i++) {
        int here = where->each[i] < left ? where->each[i] : left;
        out.each[out.nodes++] = here;
        out.fullest = here > out.fullest ? here : out.fullest;
        left -= here;
    }
    return out;
}

unsigned planjobs_parallels(const struct planjob *job)
{
    const struct plan_law *law = &job->model->law;
    unsigned ways = 0;
    if (plan_law_knows(law, PLAN_DATA))
        ways |= 1u << FIRN_PARALLEL_DATA | 1u << FIRN_PARALLEL_RECOMPUTE;
    if (plan_law_knows(law, PLAN_ZERO))
        ways |= 1u << FIRN_PARALLEL_SHARDED;
    if (plan_law_knows(law, PLAN_OFFLOAD))
        ways |= 1u << FIRN_PARALLEL_OFFLOAD;
    if (plan_law_knows(law, PLAN_SPLIT))
        ways |= 1u << FIRN_PARALLEL_PIPELINE;
    return ways;
}

/* --- steps --------------------------------------------------------------- */

static const struct plantable *table_of(const struct planjob *job,
                                        const struct plantable *tables)
{
    size_t n;
    return tables == NULL ? NULL : &tables[job->model - plan_models(&n)];
}

/* By the terms on one type. */
static double law_s(const struct planjob *job,
                    const struct firn_cluster *cluster, firn_type_id type,
                    const struct plan_spot *spot, const struct exec_plan *plan)
{
    const struct firn_gpu_type *gpu = &cluster->types[type];
    const struct plan_model *model = job->model;
    if (strcmp(gpu->name, model->type) == 0)
        return plan_step_s(&model->law, plan, spot);
    struct firn_llm_speed here = firn_llm_speed_of(gpu->name, gpu->speed);
    struct firn_llm_speed there = firn_llm_speed_of(model->type, 1);
    struct plan_ratio ratio = {here.half_flops_s / there.half_flops_s,
                               here.node_bytes_s / there.node_bytes_s,
                               here.net_bytes_s / there.net_bytes_s};
    struct plan_law law = plan_law_on(&model->law, &ratio);
    return plan_step_s(&law, plan, spot);
}

/* A measured row, or the terms on the slowest type; NaN: neither. */
static double step_s(const struct planjob *job,
                     const struct firn_cluster *cluster,
                     const struct spread *where, const struct exec_plan *plan,
                     const struct plantable *tables, bool *is_measured)
{
    const struct plantable *table = table_of(job, tables);
    double longest_s = 0;
    *is_measured = false;
    if (where->nodes < 1 || where->nodes > SPREAD_NODES)
        return (double)NAN;
    struct plan_spot spot = plan_spot_of(where->each, where->nodes);
    for (uint32_t types = where->types; types != 0; types &= types - 1) {
        firn_type_id type = __builtin_ctz(types);
        double one_s = (double)NAN;
        if (table != NULL &&
            strcmp(cluster->types[type].name, job->model->type) == 0)
            one_s = plantable_at(table, plan, where->each, where->nodes);
        *is_measured = !isnan(one_s);
        if (isnan(one_s))
            one_s = law_s(job, cluster, type, &spot, plan);
        if (isnan(one_s))
            return one_s;
        longest_s = fmax(longest_s, one_s);
    }
    return longest_s;
}

/* --- jobs ---------------------------------------------------------------- */

/* Where a recorded duration refers to. */
static struct spread recorded(const struct firn_cluster *cluster,
                              firn_type_id type, const struct exec_plan *plan,
                              int gpus)
{
    int most = spread_largest(cluster, type);
    int apart = plan->stages * plan->data;
    if (plan->kind == PLAN_SPLIT && apart <= cluster->nnodes &&
        plan->tensor <= most)
        return spread_over(type, most, gpus, apart);
    return spread_packed(type, most, gpus);
}

static firn_type_id reference(const struct firn_cluster *cluster,
                              const struct plan_model *model, uint32_t types)
{
    firn_type_id first = -1;
    for (int t = 0; t < cluster->ntypes; t++) {
        if (!(types >> t & 1))
            continue;
        if (strcmp(cluster->types[t].name, model->type) == 0)
            return t;
        first = first < 0 ? t : first;
    }
    return first < 0 ? 0 : first;
}

struct planjob planjobs_open(const struct firn_cluster *cluster,
                             const struct firn_job_spec *spec, uint32_t types,
                             const struct plantable *tables)
{
    struct planjob job = {.asked = spec->asked, .gpus = spec->gpus, .ref_s = 1};
    struct exec_plan plan;
    bool is_measured;
    if (!planjobs_is(spec))
        return job;
    job.model = plan_model_find(spec->app);
    job.ref = reference(cluster, job.model, types);
    if (!planjobs_plan(&job, &spec->asked, spec->gpus, &plan))
        return job;
    struct spread where = recorded(cluster, job.ref, &plan, spec->gpus);
    double ref_s = step_s(&job, cluster, &where, &plan, tables, &is_measured);
    job.ref_s = ref_s > 0 ? ref_s : 1;
    return job;
}

/* Its user runs it so. */
static bool is_asked(const struct planjob *job, const struct exec_plan *plan)
{
    struct exec_plan asked;
    return planjobs_plan(job, &job->asked, job->gpus, &asked) &&
           exec_plan_equal(plan, &asked);
}

/* Has every type the memory for the plan? */
static bool fits(const struct planjob *job, const struct firn_cluster *cluster,
                 const struct spread *where, const struct exec_plan *plan)
{
    for (uint32_t types = where->types; types != 0; types &= types - 1) {
        const struct firn_gpu_type *type =
            &cluster->types[__builtin_ctz(types)];
        if (!plan_is_possible(job->model, plan, type->mem_gib, where->fullest))
            return false;
    }
    return true;
}

double planjobs_expect(const struct planjob *job,
                       const struct firn_cluster *cluster,
                       const struct spread *where,
                       const struct firn_layout *how,
                       const struct plantable *tables)
{
    struct exec_plan plan;
    bool is_measured;
    if (where->nodes > SPREAD_NODES ||
        !planjobs_plan(job, how, where->gpus, &plan))
        return 0;
    struct spread used = first_of(where, plan.stages * plan.tensor * plan.data);
    double now_s = step_s(job, cluster, &used, &plan, tables, &is_measured);
    if (!(now_s > 0) || (!is_measured && !is_asked(job, &plan) &&
                         !fits(job, cluster, &used, &plan)))
        return 0;
    return job->ref_s / now_s;
}

double planjobs_rate(const struct planjob *job,
                     const struct firn_cluster *cluster,
                     const struct spread *where, const struct firn_layout *how,
                     const struct plantable *tables)
{
    double rate = planjobs_expect(job, cluster, where, how, tables);
    return rate > 0 ? rate : CRAWL;
}
