/* dryrun_memory.c - the plans of a language model, for `firn plan`.
 *
 * "plans" lists the ways to train the model that fit GPUs of the cluster, in
 * the order of core/llmjobs.c: most samples a second for each GPU first. Beside
 * the predicted memory stands that of the GPU. "nearest" lists the ways that
 * come nearest to fitting, what each lacks, and the largest term of its memory.
 * GPUs that are busy now count too: when the job starts is the answer before.
 *
 * Cost: that of one search, some thousand predictions of a microsecond each.
 */
#include "base/jsonwrite.h"
#include "core/llmjobs.h"
#include "daemon/dryrunwork.h"
#include "daemon/jobfile.h"
#include <firn/parallel.h>

enum { PLANS = 10, NEAREST = 3 };

static void put_plan(struct firn_buf *json, const struct firn_cluster *cluster,
                     const struct llmplan *plan, int batch)
{
    const struct firn_gpu_type *type = &cluster->types[plan->type];
    jsonbuf_text(json, "type", type->name);
    jsonbuf_int(json, "gpus", plan->t * plan->d);
    jsonbuf_int(json, "tensor", plan->t);
    jsonbuf_int(json, "replicas", plan->d);
    jsonbuf_int(json, "zero", plan->zero);
    jsonbuf_bool(json, "recompute",
                 (plan->saves & FIRN_SAVES_ACTIVATIONS) != 0);
    jsonbuf_bool(json, "offload", (plan->saves & FIRN_SAVES_HOST) != 0);
    jsonbuf_int(json, "micro_batch", plan->micro_batch);
    jsonbuf_int(json, "passes", plan->passes > 0 ? plan->passes : 1);
    jsonbuf_double(json, "expected_gib", plan->expected_gib);
    jsonbuf_double(json, "high_gib", plan->high_gib);
    jsonbuf_double(json, "need_gib", plan->need_gib);
    jsonbuf_double(json, "gpu_gib", type->mem_gib);
    jsonbuf_double(json, "step_s", batch / plan->samples_s);
}

static void put_plans(struct firn_buf *json, const struct firn_cluster *cluster,
                      const struct llmplans *plans, int batch)
{
    size_t fitting = 0;
    jsonbuf_open(json, "plans", '[');
    for (size_t i = 0; i < plans->n; i++) {
        if (plans->at[i].room_gib < 0) /* it fits by Frenzy's formula alone */
            continue;
        if (++fitting > PLANS)
            continue;
        jsonbuf_open(json, NULL, '{');
        put_plan(json, cluster, &plans->at[i], batch);
        jsonbuf_close(json, '}');
    }
    jsonbuf_close(json, ']');
    jsonbuf_int(json, "nplans", (int64_t)fitting);
}

void dryrun_memory(const struct loop *loop, const struct live_ask *ask,
                   struct firn_buf *json)
{
    const struct firn_cluster *cluster = &loop->dock.cluster;
    struct firn_job_spec spec, shaped;
    struct llmmiss misses[NEAREST];
    jobfile_spec(ask, 0, &spec);
    desk_ask_spec(&loop->desk, ask, 0, &shaped);
    spec.mem_ratio = shaped.mem_ratio;
    if (!llmjobs_is(&spec))
        return;
    int most = spec.gpus > 0 ? spec.gpus_max : cluster->ngpus;
    int least = spec.gpus > 0 ? spec.gpus_min : 1;
    uint32_t types = llmjobs_types(cluster, &spec);
    spec.gpus = most > 0 ? most : 1;
    struct llmjob llm = llmjobs_open(cluster, &spec, types);
    struct llmplans plans = llmjobs_plans(&llm, cluster, types, least, most);
    size_t n = llmjobs_misses(&llm, cluster, types, most, misses, NEAREST);
    put_plans(json, cluster, &plans, llm.batch);
    vec_release(&plans);
    jsonbuf_open(json, "nearest", '[');
    for (size_t i = 0; i < n; i++) {
        jsonbuf_open(json, NULL, '{');
        put_plan(json, cluster, &misses[i].plan, llm.batch);
        jsonbuf_double(json, "lacks_gib", -misses[i].plan.room_gib);
        jsonbuf_text(json, "largest", firn_peak_term_word(misses[i].term));
        jsonbuf_double(json, "largest_gib", misses[i].term_gib);
        jsonbuf_close(json, '}');
    }
    jsonbuf_close(json, ']');
    jsonbuf_double(json, "memory_ratio",
                   spec.mem_ratio > 0 ? spec.mem_ratio : 1);
}
