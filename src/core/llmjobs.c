/* llmjobs.c - memory and speed of language models, from their shape alone.
 *
 * A model of batch B on n GPUs is split t ways by tensor and d = n / t ways by
 * data parallelism; t is a power of two that divides the heads, d at most B.
 * Each GPU has ceil(B / d) samples of a step. Training is as spec.training
 * says; by default Megatron's mixed precision with Adam and attention that
 * keeps its matrices, which Frenzy's formula (MARP) always speaks of. Two
 * figures say what a GPU must have: ours (device_mib) against the type's GiB,
 * and MARP's in 10^9 bytes against the same number, which is how vendors count;
 * with it the paper's GPT2-7B at batch 2 needs 8 A100 of 40, as printed.
 *
 * Speed is firn/llmplan.h's, with the constants of the GPU type: host, compute,
 * tensor and data traffic one after the other. The slowest GPU counts. A tensor
 * group that crosses nodes has its traffic on the network, which the GPUs of a
 * node share. With S samples a second,
 *
 *     rate = S(held) / S(reference)
 *
 * and the reference is the best split that fits of the GPUs asked for, packed
 * on the type of speed 1 or else the first type that can hold it. Forecasts
 * use the same model: for these jobs a scheduler knows all there is to know,
 * but for noise.
 *
 * A user who asked for nothing (gpus 0) gave a duration on the best plan of
 * the reference type, best by samples a second for each GPU. Where a number of
 * GPUs is put in its place the duration is scaled: the samples to train stay.
 *
 * A model on GPUs too small for it (a scheduler may mix types, or split it as
 * a wrong formula says) would fail in truth; here it crawls at SPILL of its
 * speed, so that no policy gains by it and every run ends. What counts for that
 * is the expected memory; plans go by the upper end.
 *
 * A model that firn/llm.h does not have, and a way of training that
 * firn/memory.h does not have, go by firn/peak.h and firn/peakplan.h.
 *
 * Left out: accumulation (passes), pipelines, ZeRO.
 */
#include "core/llmjobs.h"
#include "core/accept.h"
#include "core/cluster_build.h"
#include <firn/llmplan.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB_PER_GIB 1024.0
#define SPILL       0.1

/* A model of firn/arch.h, or a way of training that firn/memory.h lacks. */
static bool read_arch(struct llmjob *out, const struct firn_job_spec *spec)
{
    struct firn_peak_job *peak = &out->peak;
    if (firn_arch_find(&peak->arch, spec->app, NULL) != FIRN_OK)
        return false;
    peak->seq = spec->seq;
    peak->micro_batch = 1;
    firn_training_peak(&spec->training, peak);
    out->is_peak = true;
    out->job.shape = (struct firn_llm_shape){.hidden = peak->arch.hidden,
                                             .layers = peak->arch.layers,
                                             .heads = peak->arch.heads,
                                             .vocab = peak->arch.vocab};
    return firn_peak_check(peak, NULL) == FIRN_OK;
}

/* How it trains; false when it is none, or its sequences are too long. */
static bool read_spec(struct llmjob *out, const struct firn_job_spec *spec)
{
    *out = (struct llmjob){
        .job = {.seq = spec->seq, .micro_batch = 1},
        .batch = spec->batch,
        .ref_samples_s = 1,
    };
    if (spec->seq <= 0 || spec->batch <= 0)
        return false;
    firn_training_apply(&spec->training, &out->job);
    if (firn_training_peak(&spec->training, &out->peak) ||
        firn_llm_find(&out->job.shape, spec->app, NULL) != FIRN_OK)
        return read_arch(out, spec);
    /* A llama that does not say otherwise has the library's attention; Frenzy's
     * models are GPT-2 and BERT, whose matrices the formula counts. */
    if (out->job.shape.family == FIRN_LLM_LLAMA &&
        spec->training.attention == 0)
        out->job.attention = FIRN_ATTENTION_SDPA;
    return firn_memory_check(&out->job, NULL) == FIRN_OK;
}

bool llmjobs_is(const struct firn_job_spec *spec)
{
    struct llmjob llm;
    return spec->seq > 0 && read_spec(&llm, spec);
}

/* --- GPUs ---------------------------------------------------------------- */

/* How many times a V100 is the type of speed 1, by the first type of the
 * cluster whose name is known. */
static double reference_speed(const struct firn_cluster *cluster)
{
    for (int t = 0; t < cluster->ntypes; t++) {
        const struct firn_gpu_type *type = &cluster->types[t];
        const struct type_known *known = type_find(type->name);
        if (known != NULL)
            return known->speed / type->speed;
    }
    return 1;
}

static int largest_node(const struct firn_cluster *cluster, firn_type_id type)
{
    int most = 1;
    for (int i = 0; i < cluster->nnodes; i++)
        if (cluster->nodes[i].type == type && cluster->nodes[i].ngpus > most)
            most = cluster->nodes[i].ngpus;
    return most;
}

/* How fast GPUs of a type train. A cluster that gives a known type another
 * speed than firn's makes it compute as much faster or slower. */
static struct firn_llm_speed speed_of(const struct firn_cluster *cluster,
                                      firn_type_id id)
{
    const struct firn_gpu_type *type = &cluster->types[id];
    const struct type_known *known = type_find(type->name);
    double to_v100 = type->speed * reference_speed(cluster);
    struct firn_llm_speed speed = firn_llm_speed_of(type->name, to_v100);
    if (known != NULL && known->speed != to_v100) {
        double factor = to_v100 / known->speed;
        speed.half_flops_s *= factor;
        speed.fp32_flops_s *= factor;
        speed.matrix_s *= factor;
    }
    return speed;
}

/* Of each constant the slower one. */
static struct firn_llm_speed slower(struct firn_llm_speed a,
                                    struct firn_llm_speed b)
{
    return (struct firn_llm_speed){
        .half_flops_s = fmin(a.half_flops_s, b.half_flops_s),
        .fp32_flops_s = fmin(a.fp32_flops_s, b.fp32_flops_s),
        .node_bytes_s = fmin(a.node_bytes_s, b.node_bytes_s),
        .net_bytes_s = fmin(a.net_bytes_s, b.net_bytes_s),
        .layer_s = fmax(a.layer_s, b.layer_s),
        .matrix_s = fmin(a.matrix_s, b.matrix_s),
    };
}

/* GPUs of one type, looked up once for many placements. */
struct gpus {
    double mem_gib;
    struct firn_llm_speed speed;
    int node; /* GPUs of its largest node */
    int most; /* all of them */
};

static struct gpus gpus_of(const struct firn_cluster *cluster,
                           firn_type_id type)
{
    return (struct gpus){.mem_gib = cluster->types[type].mem_gib,
                         .speed = speed_of(cluster, type),
                         .node = largest_node(cluster, type),
                         .most = cluster->types[type].ngpus};
}

static struct llmspot packed_on(const struct gpus *of, int gpus, int nodes)
{
    int node = of->node;
    struct llmspot spot = {
        .gpus = gpus,
        .nodes = (gpus + node - 1) / node,
        .fullest = gpus < node ? gpus : node,
        .mem_gib = of->mem_gib,
        .speed = of->speed,
    };
    unsigned each = (unsigned)spot.fullest;
    if (spot.nodes > 1)
        each |= (unsigned)(gpus % node);
    if (nodes > 0 && nodes > spot.nodes) { /* evenly */
        spot.nodes = nodes;
        spot.fullest = (gpus + nodes - 1) / nodes;
        each = (unsigned)spot.fullest | (unsigned)(gpus / nodes);
    }
    spot.step = (int)(each & -each);
    return spot;
}

struct llmspot llmjobs_packed(const struct firn_cluster *cluster,
                              firn_type_id type, int gpus, int nodes)
{
    struct gpus of = gpus_of(cluster, type);
    return packed_on(&of, gpus, nodes);
}

struct llmspot llmjobs_held(const struct firn_cluster *cluster,
                            const struct firn_alloc *alloc)
{
    struct llmspot spot = {.gpus = alloc->ngpus,
                           .nodes = firn_alloc_nodes(alloc)};
    unsigned each = 0;
    for (int i = 0, next; i < alloc->nparts; i = next) {
        firn_node_id node = alloc->parts[i].node;
        firn_type_id id = cluster->nodes[node].type;
        const struct firn_gpu_type *type = &cluster->types[id];
        struct firn_llm_speed speed = speed_of(cluster, id);
        int gpus = 0;
        for (next = i; next < alloc->nparts && alloc->parts[next].node == node;
             next++)
            gpus += __builtin_popcountll(alloc->parts[next].gpus);
        each |= (unsigned)gpus;
        spot.fullest = gpus > spot.fullest ? gpus : spot.fullest;
        spot.speed = i == 0 ? speed : slower(spot.speed, speed);
        if (type->mem_gib > 0 &&
            (spot.mem_gib <= 0 || type->mem_gib < spot.mem_gib))
            spot.mem_gib = type->mem_gib;
    }
    spot.step = (int)(each & -each);
    return spot;
}

/* --- one split ----------------------------------------------------------- */

struct split {
    double samples_s, need_gib, expected_gib;
};

static bool can_split(const struct llmjob *llm, int gpus, int t)
{
    return gpus % t == 0 && gpus / t <= llm->batch &&
           llm->job.shape.heads % t == 0;
}

/* What runs on each of t d GPUs. */
static struct firn_memory_job part_of(const struct llmjob *llm, int t, int d)
{
    struct firn_memory_job job = llm->job;
    job.tp = t;
    job.dp = d;
    job.micro_batch = llm->batch / d + (llm->batch % d > 0);
    return job;
}

/* The same for firn/peak.h. */
static struct firn_peak_job peak_of(const struct llmjob *llm,
                                    const struct firn_memory_job *job)
{
    struct firn_peak_job peak = llm->peak;
    peak.tp = job->tp;
    peak.dp = job->dp;
    peak.micro_batch = job->micro_batch;
    return peak;
}

/* GiB that a GPU must have, and that it is expected to hold. */
struct need {
    double device_gib, expected_gib;
};

static struct need need_of(const struct llmjob *llm,
                           const struct firn_memory_job *job)
{
    if (llm->is_peak) {
        struct firn_peak_job peak = peak_of(llm, job);
        struct firn_peak m = firn_peak_of(&peak);
        double context_mib = m.device_mib - m.high_mib;
        return (struct need){m.device_mib / MIB_PER_GIB,
                             (m.expected_mib + context_mib) / MIB_PER_GIB};
    }
    struct firn_memory m = firn_memory_of(job, NULL);
    double context_mib = m.device_mib - m.high_mib;
    return (struct need){m.device_mib / MIB_PER_GIB,
                         (m.reserved_mib + context_mib) / MIB_PER_GIB};
}

static double samples_s(const struct llmjob *llm, const struct llmspot *spot,
                        const struct firn_memory_job *job)
{
    struct firn_llm_speed speed = spot->speed;
    struct firn_llm_gpus gpus = {
        .name = "",
        .mem_gib = spot->mem_gib,
        .speed = 1,
        .node_gpus = spot->nodes > 1 ? spot->fullest : spot->gpus,
        .count = spot->gpus,
    };
    if (job->tp > spot->step)
        speed.node_bytes_s = speed.net_bytes_s / spot->fullest;
    double used = (double)llm->batch / ((double)job->micro_batch * job->dp);
    if (llm->is_peak) {
        struct firn_peak_job peak = peak_of(llm, job);
        return llm->batch / firn_peak_step_s(&peak, 1, &gpus, &speed);
    }
    return used * firn_llm_samples_s(job, &gpus, &speed);
}

static struct split split_of(const struct llmjob *llm,
                             const struct llmspot *spot, int t)
{
    struct firn_memory_job job = part_of(llm, t, spot->gpus / t);
    struct need need = need_of(llm, &job);
    return (struct split){
        .samples_s = samples_s(llm, spot, &job),
        .need_gib = need.device_gib,
        .expected_gib = need.expected_gib,
    };
}

static bool fits(const struct llmspot *spot, double gib)
{
    return spot->mem_gib <= 0 || gib <= spot->mem_gib;
}

/* The fastest split of those that fit (`tensor` 0), or the one asked for;
 * samples_s is 0 when there is none. `crawls` lets those that do not fit
 * count, at their crawl. */
static struct split best_split(const struct llmjob *llm,
                               const struct llmspot *spot, int tensor,
                               bool crawls)
{
    struct split best = {0};
    for (int t = 1; t <= spot->gpus && t <= llm->job.shape.heads; t *= 2) {
        if (!can_split(llm, spot->gpus, t) || (tensor > 0 && t != tensor))
            continue;
        struct split at = split_of(llm, spot, t);
        if (!fits(spot, crawls && tensor > 0 ? at.expected_gib : at.need_gib))
            at.samples_s *= crawls ? SPILL : 0;
        if (best.need_gib == 0 || at.samples_s > best.samples_s)
            best = at;
    }
    return best;
}

/* More GPUs than samples: those beyond the batch have nothing to do. */
static struct llmspot useful(const struct llmjob *llm, struct llmspot spot)
{
    while (spot.gpus > 1 && best_split(llm, &spot, 0, true).need_gib == 0)
        spot.gpus--;
    return spot;
}

double llmjobs_rate(const struct llmjob *llm, const struct llmspot *spot,
                    int tensor)
{
    struct split at = best_split(llm, spot, tensor, true);
    if (!(at.samples_s > 0)) {
        struct llmspot fewer = useful(llm, *spot);
        at = best_split(llm, &fewer, 0, true);
    }
    return at.samples_s / llm->ref_samples_s;
}

double llmjobs_expect(const struct llmjob *llm, const struct llmspot *spot,
                      int tensor, double *need_gib)
{
    struct split at = best_split(llm, spot, tensor, false);
    if (need_gib != NULL)
        *need_gib = at.need_gib > 0 ? at.need_gib : (double)NAN;
    return at.samples_s / llm->ref_samples_s;
}

/* --- the job ------------------------------------------------------------- */

/* Types in the order of preference for being the reference: of speed 1 first;
 * -1 behind the last. */
static firn_type_id nth_type(const struct firn_cluster *cluster, uint32_t types,
                             int n)
{
    for (int is_rest = 0; is_rest < 2; is_rest++)
        for (int t = 0; t < cluster->ntypes; t++)
            if ((types >> t & 1) && (cluster->types[t].speed != 1) == is_rest &&
                n-- == 0)
                return t;
    return -1;
}

static struct llmjob bare(const struct firn_job_spec *spec)
{
    struct llmjob llm;
    if (!read_spec(&llm, spec))
        FIRN_BUG("job %s is no language model", spec->name);
    return llm;
}

/* Samples a second of that many GPUs of the reference type. */
static double reference_samples_s(const struct llmjob *llm,
                                  const struct firn_cluster *cluster,
                                  uint32_t types, int gpus)
{
    firn_type_id type = 0;
    double crawl = 0;
    for (int n = 0; (type = nth_type(cluster, types, n)) >= 0; n++) {
        struct llmspot spot = llmjobs_packed(cluster, type, gpus, 0);
        double at = best_split(llm, &spot, 0, false).samples_s;
        if (at > 0)
            return at;
        spot = useful(llm, spot);
        if (crawl <= 0)
            crawl = best_split(llm, &spot, 0, true).samples_s;
    }
    return crawl;
}

struct llmjob llmjobs_open(const struct firn_cluster *cluster,
                           const struct firn_job_spec *spec, uint32_t types)
{
    struct llmjob llm = bare(spec);
    llm.ref_samples_s = reference_samples_s(&llm, cluster, types, spec->gpus);
    return llm;
}

/* --- plans --------------------------------------------------------------- */

static int by_efficiency(const void *a, const void *b)
{
    const struct llmplan *p = a, *q = b;
    int p_gpus = p->t * p->d, q_gpus = q->t * q->d;
    double p_each = p->samples_s / p_gpus, q_each = q->samples_s / q_gpus;
    if (p_each != q_each)
        return p_each > q_each ? -1 : 1;
    if (p_gpus != q_gpus)
        return p_gpus < q_gpus ? -1 : 1;
    if (p->room_gib != q->room_gib)
        return p->room_gib > q->room_gib ? -1 : 1;
    if (p->type != q->type)
        return p->type < q->type ? -1 : 1;
    return (p->t > q->t) - (p->t < q->t);
}

/* Adds the split on every type that has the GPUs and holds it. Memory does not
 * depend on the type and is predicted once. */
static void add_plans(struct llmplans *out, const struct llmjob *llm,
                      const struct gpus *of, int ntypes, int t, int d)
{
    struct firn_memory_job job = part_of(llm, t, d);
    double need_gib = -1, marp_gib = -1; /* not known yet */
    for (int type = 0; type < ntypes; type++) {
        if (t > of[type].node || d > of[type].most / t)
            continue;
        if (need_gib < 0) {
            need_gib = need_of(llm, &job).device_gib;
            marp_gib = firn_marp_bytes(&llm->job.shape, llm->job.seq,
                                       llm->batch, t, d) /
                       1e9;
        }
        struct llmspot spot = packed_on(&of[type], t * d, 0);
        if (!fits(&spot, need_gib) && !fits(&spot, marp_gib))
            continue;
        struct llmplan plan = {
            .type = type,
            .t = t,
            .d = d,
            .samples_s = samples_s(llm, &spot, &job),
            .need_gib = need_gib,
            .marp_gib = marp_gib,
            .room_gib = spot.mem_gib > 0 ? spot.mem_gib - need_gib : 0,
        };
        vec_add(out, plan);
    }
}

struct llmplans llmjobs_plans(const struct llmjob *llm,
                              const struct firn_cluster *cluster,
                              uint32_t types, int gpus_min, int gpus_max)
{
    struct llmplans out = {0};
    struct gpus of[FIRN_TYPES_MAX];
    int node = 0, most = 0;
    for (int type = 0; type < cluster->ntypes; type++) {
        of[type].node = of[type].most = 0;
        if (!(types >> type & 1))
            continue;
        of[type] = gpus_of(cluster, type);
        if (of[type].most > gpus_max)
            of[type].most = gpus_max;
        node = of[type].node > node ? of[type].node : node;
        most = of[type].most > most ? of[type].most : most;
    }
    for (int t = 1; t <= node && llm->job.shape.heads % t == 0; t *= 2)
        for (int d = 1; d <= llm->batch && d <= most / t; d++)
            if (llm->batch % d == 0 && t * d >= gpus_min)
                add_plans(&out, llm, of, cluster->ntypes, t, d);
    if (out.n > 1)
        qsort(out.at, out.n, sizeof *out.at, by_efficiency);
    return out;
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
            .way = {.gpus = p->t * p->d, .type = p->type, .tensor = p->t},
            .mem_gib = p->need_gib,
            .marp_gib = p->marp_gib,
            .rate = correction * p->samples_s / llm->ref_samples_s,
        };
    }
    vec_release(&plans);
    return n;
}

int llmjobs_gpus_max(const struct llmjob *llm)
{
    int heads = llm->job.shape.heads;
    int64_t most = heads & -heads; /* the largest power of two dividing them */
    most *= llm->batch;
    return most < INT_MAX ? (int)most : INT_MAX;
}

/* --- what a user asks for ------------------------------------------------ */

/* The types a user allows, whatever their memory. */
static uint32_t allowed(const struct firn_cluster *cluster,
                        const struct firn_job_spec *spec)
{
    struct firn_job_spec any = *spec;
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    any.gpus = any.gpus_min = any.gpus_max = 1;
    return job_accept(&any, cluster, &accept, why) ? accept.types : 0;
}

/* Those that fit by our figure, best first. */
static struct llmplans plans_that_fit(const struct llmjob *llm,
                                      const struct firn_cluster *cluster,
                                      uint32_t types)
{
    struct llmplans all = llmjobs_plans(llm, cluster, types, 1, cluster->ngpus);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].room_gib >= 0)
            all.at[n++] = all.at[i];
    all.n = n;
    return all;
}

/* The fewest GPUs of a type that hold it; 0 for none. */
static int fewest_of(const struct llmplans *plans, firn_type_id type)
{
    int fewest = 0;
    for (size_t i = 0; i < plans->n; i++) {
        int gpus = plans->at[i].t * plans->at[i].d;
        if (plans->at[i].type == type && (fewest == 0 || gpus < fewest))
            fewest = gpus;
    }
    return fewest;
}

/* Samples a second of the best plan on the reference type. */
static double best_samples_s(const struct llmplans *plans,
                             const struct firn_cluster *cluster, uint32_t types)
{
    firn_type_id type = 0;
    for (int n = 0; (type = nth_type(cluster, types, n)) >= 0; n++)
        for (size_t i = 0; i < plans->n; i++)
            if (plans->at[i].type == type)
                return plans->at[i].samples_s;
    return 0;
}

/* Sets the number of GPUs asked for; the samples to train stay. */
static void ask_for(struct firn_job_spec *spec, const struct llmjob *llm,
                    const struct firn_cluster *cluster,
                    const struct llmplans *plans, uint32_t types, int gpus)
{
    double samples = spec->duration_s * best_samples_s(plans, cluster, types);
    spec->gpus = gpus;
    spec->duration_s = samples / reference_samples_s(llm, cluster, types, gpus);
}

void llmjobs_ask(const struct firn_cluster *cluster, struct firn_job_spec *spec)
{
    uint32_t types = allowed(cluster, spec);
    struct llmjob llm = bare(spec);
    struct llmplans plans = plans_that_fit(&llm, cluster, types);
    firn_type_id fastest = -1;
    for (int t = 0; t < cluster->ntypes; t++)
        if (fewest_of(&plans, t) > 0 &&
            (fastest < 0 ||
             cluster->types[t].speed > cluster->types[fastest].speed))
            fastest = t;
    if (fastest >= 0) {
        int gpus = fewest_of(&plans, fastest);
        ask_for(spec, &llm, cluster, &plans, types, gpus);
        spec->gpus_min = spec->gpus_max = gpus;
    }
    vec_release(&plans);
}

void llmjobs_fill(const struct firn_cluster *cluster,
                  struct firn_job_spec *spec)
{
    uint32_t types = allowed(cluster, spec);
    struct llmjob llm = bare(spec);
    struct llmplans plans = plans_that_fit(&llm, cluster, types);
    int asked = 0, least = 0, most = 0;
    for (int t = 0; t < cluster->ntypes; t++) {
        int fewest = fewest_of(&plans, t);
        asked = fewest > asked ? fewest : asked;
        if (fewest > 0 && (least == 0 || fewest < least))
            least = fewest;
    }
    for (size_t i = 0; i < plans.n; i++) {
        int gpus = plans.at[i].t * plans.at[i].d;
        most = gpus > most ? gpus : most;
    }
    if (asked > 0) {
        ask_for(spec, &llm, cluster, &plans, types, asked);
        spec->gpus_min = least;
        spec->gpus_max = most;
    }
    vec_release(&plans);
}

/* The type has a split that fits, with a number of GPUs the job accepts. */
static bool suits(const struct llmjob *llm, const struct firn_cluster *cluster,
                  firn_type_id type, const struct firn_job_spec *spec,
                  double *need_gib)
{
    struct gpus of = gpus_of(cluster, type);
    int most = llmjobs_gpus_max(llm);
    most = most < spec->gpus_max ? most : spec->gpus_max;
    if (most > cluster->types[type].ngpus)
        most = cluster->types[type].ngpus;
    for (int gpus = spec->gpus_min; gpus <= most; gpus++) {
        struct llmspot spot = packed_on(&of, gpus, 0);
        double need = 0;
        if (llmjobs_expect(llm, &spot, 0, &need) > 0)
            return true;
        *need_gib = need < *need_gib ? need : *need_gib;
    }
    return false;
}

void llmjobs_restrict(const struct firn_cluster *cluster,
                      struct firn_job_spec *spec, char text[LLMJOBS_TYPES_TEXT])
{
    struct llmjob llm = bare(spec);
    uint32_t types = allowed(cluster, spec);
    double need_gib = INFINITY;
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < cluster->ntypes; t++)
        if ((types >> t & 1) && suits(&llm, cluster, t, spec, &need_gib))
            n += (size_t)snprintf(text + n, LLMJOBS_TYPES_TEXT - n, "%s%s",
                                  n > 0 ? "|" : "", cluster->types[t].name);
    if (n > 0)
        spec->types = text;
    else if (isfinite(need_gib) && need_gib > spec->mem_gib)
        spec->mem_gib = need_gib;
}
