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
 * A model on GPUs too small for it (a scheduler may mix types, or split it as
 * a wrong formula says) would fail in truth; here it crawls at SPILL of its
 * speed, so that no policy gains by it and every run ends. What counts for that
 * is the expected memory; plans go by the upper end.
 *
 * A model that firn/llm.h does not have (one with a config.json among them),
 * and a way of training that firn/memory.h does not have, go by firn/peak.h and
 * firn/peakplan.h. Their splits are t x d x ZeRO stage x passes: the stage that
 * the user says, or else none and those that the trainer can (1 and 2: "zero";
 * 3, FSDP: "sharded"); the passes that the user says, or else the fewest that
 * fit. Where no number of passes fits, activations are computed again, or the
 * optimizer goes to the host, or both: if the trainer can and the user says
 * nothing of it. At equal speed the lower stage goes first. Samples of a step
 * are the same for all. Frenzy's formula says nothing of these: their MARP
 * figure is ours.
 *
 * spec.mem_ratio, what was seen of a model over what was predicted, scales all
 * of its memory but the CUDA context, whichever header predicts it. Frenzy's
 * formula counts until then: a model that was seen goes by our figure.
 *
 * A model of firn/llm.h whose user says its precision has its splits and speed
 * as before, but the memory that `firn memory` prints: firn/peak.h's. What is
 * not said of the optimizer is AdamW tensor by tensor there too.
 *
 * All plans of a model are llmjobs_plans.c's; this file has one split of given
 * GPUs.
 *
 * Left out: pipelines; for the other models ZeRO and passes.
 */
#include "core/accept.h"
#include "core/cluster_build.h"
#include "core/llmjobswork.h"
#include "model/llmplan.h"
#include <firn/parallel.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define SPILL 0.1

/* Numbers of passes up to this one are all tried. */
enum { PASSES_TRIED = 4096 };

/* The stages of ZeRO that copies may have: the one its user says; else none,
 * and those that its trainer can, of which the third is FSDP's too. */
static unsigned zeros_of(const struct firn_job_spec *spec,
                         const struct firn_peak_job *peak)
{
    if (spec->training.zero > 0)
        return 1U << peak->zero;
    return 1U | (spec->cannot & FIRN_CAN_SHARDED ? 0U : 8U) |
           (spec->cannot & FIRN_CAN_ZERO ? 0U : 2U | 4U);
}

/* What may be ordered to save memory: where the user says nothing of it, and
 * the trainer can. */
static int saves_of(const struct firn_job_spec *spec)
{
    const struct firn_training *said = &spec->training;
    bool recomputes = !(spec->cannot & FIRN_CAN_RECOMPUTE);
    bool offloads = !(spec->cannot & FIRN_CAN_OFFLOAD);
    return (recomputes && said->checkpointing == 0 ? FIRN_SAVES_ACTIVATIONS
                                                   : 0) |
           (offloads && said->offload == 0 ? FIRN_SAVES_HOST : 0);
}

/* A model of firn/arch.h, or a way of training that firn/memory.h lacks. */
static bool read_arch(struct llmjob *out, const struct firn_job_spec *spec)
{
    struct firn_peak_job *peak = &out->peak;
    const char *config = spec->config != NULL ? spec->config : "";
    struct firn_bytes text = {config, strlen(config)};
    if ((text.n > 0 ? firn_arch_read(&peak->arch, text, NULL)
                    : firn_arch_find(&peak->arch, spec->app, NULL)) != FIRN_OK)
        return false;
    peak->seq = spec->seq;
    peak->micro_batch = 1;
    firn_training_peak(&spec->training, peak);
    out->is_peak = true;
    out->zeros = zeros_of(spec, peak);
    out->has_said_zero = spec->training.zero > 0;
    out->saves = saves_of(spec);
    out->cannot = spec->cannot;
    out->passes = spec->training.accumulation;
    if (out->passes == 0 && (spec->cannot & FIRN_CAN_PASSES))
        out->passes = 1;
    peak->zero = 0;
    out->job.shape = (struct firn_llm_shape){.hidden = peak->arch.hidden,
                                             .layers = peak->arch.layers,
                                             .heads = peak->arch.heads,
                                             .vocab = peak->arch.vocab};
    return firn_peak_check(peak, NULL) == FIRN_OK;
}

/* May firn/peak.h count the memory of a model that firn/memory.h has? */
static void read_counts(struct llmjob *out, const struct firn_job_spec *spec)
{
    struct firn_peak_job *peak = &out->peak;
    if (spec->training.precision == 0)
        return;
    peak->arch = firn_arch_of_shape(&out->job.shape);
    peak->seq = spec->seq;
    peak->micro_batch = 1;
    peak->is_eager = out->job.attention == FIRN_ATTENTION_EAGER;
    if (spec->training.optimizer == 0)
        peak->optimizer = FIRN_OPT_ADAMW;
    out->is_counted = firn_peak_check(peak, NULL) == FIRN_OK;
}

/* How it trains; false when it is none, or its sequences are too long. */
static bool read_spec(struct llmjob *out, const struct firn_job_spec *spec)
{
    *out = (struct llmjob){
        .job = {.seq = spec->seq, .micro_batch = 1},
        .batch = spec->batch,
        .ref_samples_s = 1,
        .is_seen = spec->mem_ratio > 0,
        .mem_ratio = spec->mem_ratio > 0 ? spec->mem_ratio : 1,
    };
    if (spec->seq <= 0 || spec->batch <= 0)
        return false;
    firn_training_apply(&spec->training, &out->job);
    if (firn_training_peak(&spec->training, &out->peak) ||
        (spec->config != NULL && spec->config[0] != '\0') ||
        firn_llm_find(&out->job.shape, spec->app, NULL) != FIRN_OK)
        return read_arch(out, spec);
    /* A llama that does not say otherwise has the library's attention; Frenzy's
     * models are GPT-2 and BERT, whose matrices the formula counts. */
    if (out->job.shape.family == FIRN_LLM_LLAMA &&
        spec->training.attention == 0)
        out->job.attention = FIRN_ATTENTION_SDPA;
    if (firn_memory_check(&out->job, NULL) != FIRN_OK)
        return false;
    out->params = firn_llm_params(&out->job.shape, out->job.seq);
    read_counts(out, spec);
    return true;
}

bool llmjobs_is(const struct firn_job_spec *spec)
{
    struct llmjob llm;
    return spec->seq > 0 && read_spec(&llm, spec);
}

/* --- GPUs ---------------------------------------------------------------- */

/* How many times a V100 is the type of speed 1, by the first type of the
 * cluster whose name is known. */
double llmjobs_reference_speed(const struct firn_cluster *cluster)
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
                                      firn_type_id id, double reference)
{
    const struct firn_gpu_type *type = &cluster->types[id];
    const struct type_known *known = type_find(type->name);
    double to_v100 = type->speed * reference;
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

struct llmgpus llmjobs_gpus_at(const struct firn_cluster *cluster,
                               firn_type_id type, double reference)
{
    return (struct llmgpus){.mem_gib = cluster->types[type].mem_gib,
                            .speed = speed_of(cluster, type, reference),
                            .node = largest_node(cluster, type),
                            .most = cluster->types[type].ngpus};
}

struct llmgpus llmjobs_gpus_of(const struct firn_cluster *cluster,
                               firn_type_id type)
{
    return llmjobs_gpus_at(cluster, type, llmjobs_reference_speed(cluster));
}

struct llmspot llmjobs_packed_on(const struct llmgpus *of, int gpus, int nodes)
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
    struct llmgpus of = llmjobs_gpus_of(cluster, type);
    return llmjobs_packed_on(&of, gpus, nodes);
}

struct llmspot llmjobs_held(const struct firn_cluster *cluster,
                            const struct firn_alloc *alloc)
{
    struct llmspot spot = {.gpus = alloc->ngpus,
                           .nodes = firn_alloc_nodes(alloc)};
    double reference = llmjobs_reference_speed(cluster);
    unsigned each = 0;
    for (int i = 0, next; i < alloc->nparts; i = next) {
        firn_node_id node = alloc->parts[i].node;
        firn_type_id id = cluster->nodes[node].type;
        const struct firn_gpu_type *type = &cluster->types[id];
        struct firn_llm_speed speed = speed_of(cluster, id, reference);
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
                                    const struct llmsplit *split)
{
    struct firn_peak_job peak = llm->peak;
    peak.tp = split->t;
    peak.dp = split->d;
    peak.zero = split->zero;
    peak.micro_batch = split->micro_batch;
    peak.micro_batches = split->passes;
    peak.keeps_gradients = split->passes > 1;
    if (split->saves & FIRN_SAVES_ACTIVATIONS)
        peak.recompute = FIRN_RECOMPUTE_LAYERS;
    if (split->saves & FIRN_SAVES_HOST)
        peak.offloads_optimizer = true;
    return peak;
}

/* Sets the passes and what they need; all but the context by the ratio. */
struct firn_peak llmsplit_need(const struct llmjob *llm, struct llmsplit *split,
                               int passes)
{
    int mine = llm->batch / split->d + (llm->batch % split->d > 0);
    split->passes = passes;
    split->micro_batch = mine / passes + (mine % passes > 0);
    struct firn_peak_job peak = peak_of(llm, split);
    struct firn_peak m = firn_peak_of(&peak);
    double context_mib = m.device_mib - m.high_mib;
    double scale = llm->mem_ratio / MIB_PER_GIB;
    split->tensors_gib = m.expected_mib * scale;
    split->high_gib = m.high_mib * scale;
    split->reserved_gib = m.reserved_mib * scale;
    split->need_gib = split->high_gib + context_mib / MIB_PER_GIB;
    split->expected_gib = split->tensors_gib + context_mib / MIB_PER_GIB;
    return m;
}

/* Of one pass, for a model of firn/memory.h. */
void llmsplit_need_by_memory(const struct llmjob *llm, struct llmsplit *split)
{
    if (llm->is_counted) {
        llmsplit_need(llm, split, 1);
        split->passes = 0;
        return;
    }
    struct firn_memory_job job = part_of(llm, split->t, split->d);
    struct firn_memory m = firn_memory_of(&job, NULL);
    double context_mib = m.device_mib - m.high_mib, ratio = llm->mem_ratio;
    split->micro_batch = job.micro_batch;
    /* At ratio 1 device_mib to the last bit. */
    split->need_gib = (m.device_mib + (ratio - 1) * m.high_mib) / MIB_PER_GIB;
    split->expected_gib = (ratio * m.reserved_mib + context_mib) / MIB_PER_GIB;
    split->tensors_gib = ratio * m.expected_mib / MIB_PER_GIB;
    split->high_gib = ratio * m.high_mib / MIB_PER_GIB;
    split->reserved_gib = ratio * m.reserved_mib / MIB_PER_GIB;
}

double llmsplit_samples_s(const struct llmjob *llm, const struct llmspot *spot,
                          const struct llmsplit *split)
{
    struct firn_llm_speed speed = spot->speed;
    struct firn_llm_gpus gpus = {
        .name = "",
        .mem_gib = spot->mem_gib,
        .speed = 1,
        .node_gpus = spot->nodes > 1 ? spot->fullest : spot->gpus,
        .count = spot->gpus,
    };
    if (split->t > spot->step)
        speed.node_bytes_s = speed.net_bytes_s / spot->fullest;
    if (llm->is_peak) {
        struct firn_peak_job peak = peak_of(llm, split);
        return llm->batch /
               firn_peak_step_s(&peak, split->passes, &gpus, &speed);
    }
    struct firn_memory_job job = part_of(llm, split->t, split->d);
    double used = (double)llm->batch / ((double)job.micro_batch * job.dp);
    return used * llmplan_samples_s(&job, llm->params, &gpus, &speed);
}

/* The number of passes behind `passes` that a copy of `mine` samples may be
 * divided into, evenly; 0: there is none. */
int llmsplit_next_passes(const struct llmjob *llm, int mine, int passes)
{
    if (llm->passes > 0)
        return passes == 0 ? llm->passes : 0;
    for (int next = passes + 1; next <= mine && next <= PASSES_TRIED; next++)
        if (mine % next == 0)
            return next;
    return passes < mine ? mine : 0;
}

/* The fewest passes with which it fits; the most there are where none does. */
static void fit_passes(const struct llmjob *llm, const struct llmspot *spot,
                       int asked, struct llmsplit *split)
{
    int mine = llm->batch / split->d + (llm->batch % split->d > 0);
    int passes = asked > 0 ? asked : llmsplit_next_passes(llm, mine, 0);
    while (passes > 0) {
        llmsplit_need(llm, split, passes);
        if (llmspot_fits(spot, split->need_gib))
            return;
        passes = asked > 0 ? 0 : llmsplit_next_passes(llm, mine, passes);
    }
}

/* Is the stage the one that `how` says, of several copies? */
static bool is_stage(const struct llmjob *llm, int zero, struct llmhow how)
{
    bool may = llm->zeros >> zero & 1;
    int kind = firn_parallel_kind(how.parallel);
    int ordered = firn_parallel_zero(how.parallel);
    if (how.is_open)
        return may;
    if (kind == FIRN_PARALLEL_SHARDED && (llm->zeros & 8))
        return zero == 3;
    if (kind == FIRN_PARALLEL_DATA && (llm->zeros & 7))
        return may && zero < 3 && (llm->has_said_zero || zero == ordered);
    return may && (llm->has_said_zero || zero == 0 || zero == 3);
}

/* May it be split t ways with this stage, as `how` says? */
static bool is_wanted(const struct llmjob *llm, const struct llmsplit *split,
                      struct llmhow how)
{
    if (how.tensor > 0 && split->t != how.tensor)
        return false;
    if (!llm->is_peak)
        return split->zero == 0;
    if (split->t > 1 && (llm->cannot & FIRN_CAN_TENSOR))
        return false;
    if (split->d == 1) /* nothing to divide: one stage is as good as another */
        return split->zero == 0;
    return is_stage(llm, split->zero, how);
}

/* What may be saved, the cheapest first: its activations are computed again, or
 * its optimizer goes to the host, or both. -1 behind the last. */
int llmsplit_nth_saves(const struct llmjob *llm, int n)
{
    static const int all[] = {0, FIRN_SAVES_ACTIVATIONS, FIRN_SAVES_HOST,
                              FIRN_SAVES_ACTIVATIONS | FIRN_SAVES_HOST};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((all[i] & ~llm->saves) == 0 && n-- == 0)
            return all[i];
    return -1;
}

/* The first of these with which it fits; as `how` says where that is decided.
 */
static void fit_saves(const struct llmjob *llm, const struct llmspot *spot,
                      struct llmhow how, struct llmsplit *split)
{
    int saves = 0;
    split->saves = how.parallel & (FIRN_SAVES_ACTIVATIONS | FIRN_SAVES_HOST);
    if (!how.is_open) {
        fit_passes(llm, spot, how.passes, split);
        return;
    }
    for (int n = 0; (saves = llmsplit_nth_saves(llm, n)) >= 0; n++) {
        split->saves = saves;
        fit_passes(llm, spot, how.passes, split);
        if (llmspot_fits(spot, split->need_gib))
            return;
    }
}

/* The fastest split of those that fit, of those that `how` allows; samples_s is
 * 0 when there is none. `crawls` lets those that do not fit count, at their
 * crawl. */
static struct llmsplit best_split(const struct llmjob *llm,
                                  const struct llmspot *spot, struct llmhow how,
                                  bool crawls)
{
    struct llmsplit best = {0};
    for (int t = 1; t <= spot->gpus && t <= llm->job.shape.heads; t *= 2)
        for (int zero = 0; zero <= 3; zero++) {
            struct llmsplit at = {.t = t, .d = spot->gpus / t, .zero = zero};
            if (!can_split(llm, spot->gpus, t) || !is_wanted(llm, &at, how))
                continue;
            if (llm->is_peak)
                fit_saves(llm, spot, how, &at);
            else
                llmsplit_need_by_memory(llm, &at);
            at.samples_s = llmsplit_samples_s(llm, spot, &at);
            bool is_given = crawls && how.tensor > 0;
            if (!llmspot_fits(spot, is_given ? at.expected_gib : at.need_gib))
                at.samples_s *= crawls ? SPILL : 0;
            if (best.need_gib == 0 || at.samples_s > best.samples_s)
                best = at;
        }
    return best;
}

static const struct llmhow any_way = {.is_open = true};

bool llmsplit_is_open(const struct llmjob *llm, const struct llmsplit *split)
{
    return is_wanted(llm, split, any_way);
}

/* More GPUs than samples: those beyond the batch have nothing to do. */
static struct llmspot useful(const struct llmjob *llm, struct llmspot spot)
{
    while (spot.gpus > 1 && best_split(llm, &spot, any_way, true).need_gib == 0)
        spot.gpus--;
    return spot;
}

double llmjobs_rate(const struct llmjob *llm, const struct llmspot *spot,
                    struct llmhow how)
{
    struct llmsplit at = best_split(llm, spot, how, true);
    if (!(at.samples_s > 0)) {
        struct llmspot fewer = useful(llm, *spot);
        at = best_split(llm, &fewer, any_way, true);
    }
    return at.samples_s / llm->ref_samples_s;
}

double llmjobs_expect(const struct llmjob *llm, const struct llmspot *spot,
                      struct llmhow how, double *need_gib)
{
    struct llmsplit at = best_split(llm, spot, how, false);
    if (need_gib != NULL)
        *need_gib = at.need_gib > 0 ? at.need_gib : (double)NAN;
    return at.samples_s / llm->ref_samples_s;
}

struct llmplan llmsplit_plan(const struct llmsplit *split, firn_type_id type)
{
    return (struct llmplan){.type = type,
                            .t = split->t,
                            .d = split->d,
                            .zero = split->zero,
                            .saves = split->saves,
                            .passes = split->passes,
                            .micro_batch = split->micro_batch,
                            .samples_s = split->samples_s,
                            .expected_gib = split->tensors_gib,
                            .high_gib = split->high_gib,
                            .reserved_gib = split->reserved_gib,
                            .need_gib = split->need_gib};
}

bool llmjobs_memory(const struct llmjob *llm, const struct llmspot *spot,
                    struct llmhow how, struct llmplan *out)
{
    struct llmsplit at = best_split(llm, spot, how, true);
    *out = llmsplit_plan(&at, -1);
    return at.need_gib > 0;
}

/* --- the job ------------------------------------------------------------- */

firn_type_id llmjobs_nth_type(const struct firn_cluster *cluster,
                              uint32_t types, int n)
{
    for (int is_rest = 0; is_rest < 2; is_rest++)
        for (int t = 0; t < cluster->ntypes; t++)
            if ((types >> t & 1) && (cluster->types[t].speed != 1) == is_rest &&
                n-- == 0)
                return t;
    return -1;
}

struct llmjob llmjobs_bare(const struct firn_job_spec *spec)
{
    struct llmjob llm;
    if (!read_spec(&llm, spec))
        FIRN_BUG("job %s is no language model", spec->name);
    return llm;
}

double llmjobs_reference_samples_s(const struct llmjob *llm,
                                   const struct firn_cluster *cluster,
                                   uint32_t types, int gpus)
{
    firn_type_id type = 0;
    double crawl = 0;
    for (int n = 0; (type = llmjobs_nth_type(cluster, types, n)) >= 0; n++) {
        struct llmspot spot = llmjobs_packed(cluster, type, gpus, 0);
        double at = best_split(llm, &spot, any_way, false).samples_s;
        if (at > 0)
            return at;
        spot = useful(llm, spot);
        if (crawl <= 0)
            crawl = best_split(llm, &spot, any_way, true).samples_s;
    }
    return crawl;
}

struct llmjob llmjobs_open(const struct firn_cluster *cluster,
                           const struct firn_job_spec *spec, uint32_t types)
{
    struct llmjob llm = llmjobs_bare(spec);
    llm.ref_samples_s =
        llmjobs_reference_samples_s(&llm, cluster, types, spec->gpus);
    return llm;
}

/* --- what it may have ---------------------------------------------------- */

int llmjobs_gpus_max(const struct llmjob *llm)
{
    int heads = llm->job.shape.heads;
    int64_t most = heads & -heads; /* the largest power of two dividing them */
    most *= llm->batch;
    return most < INT_MAX ? (int)most : INT_MAX;
}

uint32_t llmjobs_types(const struct firn_cluster *cluster,
                       const struct firn_job_spec *spec)
{
    struct firn_job_spec any = *spec;
    struct job_accept accept = {0};
    char why[JOB_WHY_MAX];
    any.gpus = any.gpus_min = any.gpus_max = 1;
    return job_accept(&any, cluster, &accept, why) ? accept.types : 0;
}
