/* peakplan.c - enumerates ways to train, and keeps the best that fit.
 *
 * Memory is the costly part and does not depend on the GPU type, so each way is
 * counted once; the time of a way on a type is a sum of a few quotients whose
 * numerators belong to the way and whose denominators to the type.
 *
 * Invariants:
 * (1) t is a power of two that divides the heads and is at most a node's GPUs;
 *     p divides the layers; d x passes x micro-batch is the batch.
 * (2) the order of plans is total, so it does not depend on the enumeration.
 *
 * Cost: O(ways + ways x types), bench/peakplan.c.
 */
#include <firn/peakplan.h>

#include "model/peakterms.h"
#include <math.h>
#include <string.h>

#define MIB_PER_GIB 1024.0

/* Of one GPU to the host's memory, bytes a second: PCIe 4, nominal. */
static const double host_bytes_s = 20e9;

/* What a step of a way does, before any GPU type is known. */
struct work {
    double launches;     /* layers whose kernels are launched */
    double flops;        /* of one GPU, with the pipeline's bubble */
    double numbers;      /* of attention matrices */
    double tensor_bytes; /* to and from a neighbour in the node */
    double data_bytes;   /* to and from a neighbour of the data group */
    double host_bytes;
    bool is_fp32;
    int group; /* GPUs that the data group spans, t d */
};

static double active_params(const struct firn_arch *a,
                            const struct peak_counts *counts)
{
    if (a->experts == 0)
        return counts->all;
    return counts->all - counts->experts * (1 - (double)a->active / a->experts);
}

static double flops_per_token(const struct firn_peak_job *job,
                              const struct peak_counts *counts)
{
    const struct firn_arch *a = &job->arch;
    bool is_frozen = job->adapter != FIRN_ADAPTER_NONE;
    double layers = a->layers + a->decoder_layers;
    double attention = 12 * layers * firn_arch_q_width(a) * job->seq;
    double forward = 2 * active_params(a, counts) + attention / 3;
    double out = forward * (is_frozen ? 2 : 3);
    if (job->recompute == FIRN_RECOMPUTE_LAYERS)
        out += forward;
    if (job->recompute == FIRN_RECOMPUTE_SELECTIVE)
        out += 0.05 * forward;
    return out;
}

/* Bytes that each of n GPUs sends when they reduce `bytes`. */
static double reduced(double bytes, int n)
{
    return 2.0 * (n - 1) / n * bytes;
}

static double data_bytes(const struct firn_peak_job *job,
                         const struct peak_counts *counts, int passes)
{
    double params = counts->all;
    double size = job->mode == FIRN_MODE_FP32 ? 4 : 2, trained = params;
    double gradient = job->mode == FIRN_MODE_AMP ? 4 : size;
    double mine = 1.0 / ((double)job->tp * job->pp);
    if (job->adapter != FIRN_ADAPTER_NONE) {
        trained = counts->adapters;
        gradient = 4;
    }
    double sum = reduced(gradient * trained * mine, job->dp);
    if (job->zero == 0)
        return sum;
    double others = (job->dp - 1.0) / job->dp * mine;
    double scatters = (job->zero >= 2 ? passes : 1) * sum / 2;
    if (job->zero < 3) {
        double kept = job->mode == FIRN_MODE_AMP ? 4 : size;
        if (job->adapter != FIRN_ADAPTER_NONE)
            kept = 4;
        return scatters + others * kept * trained;
    }
    double gathers = job->keeps_gathered ? 1 : 2.0 * passes;
    return scatters + gathers * others * size * params;
}

/* Of a layer and a pass, what offloading takes to the host. */
static double moved_bytes(const struct firn_peak_job *job)
{
    struct peak_sizes s = peak_sizes_of(job);
    struct peak_layer layer = peak_layer_of(job, &s, PEAK_LAYER);
    return job->recompute == FIRN_RECOMPUTE_LAYERS ? layer.input : layer.total;
}

static struct work work_of(const struct firn_peak_job *job,
                           const struct peak_counts *counts, int passes)
{
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq * passes;
    double layers = (a->layers + a->decoder_layers) / (double)job->pp;
    double params = counts->all;
    double bubble = (passes + job->pp - 1.0) / passes;
    double size = job->mode == FIRN_MODE_FP32 ? 4 : 2;
    struct work w = {
        .launches = layers * passes * bubble,
        .flops = bubble * flops_per_token(job, counts) * tokens /
                 ((double)job->tp * job->pp),
        .tensor_bytes =
            4 * layers * reduced(tokens * a->hidden * size, job->tp),
        .data_bytes = data_bytes(job, counts, passes),
        .is_fp32 = job->mode == FIRN_MODE_FP32,
        .group = job->tp * job->dp,
    };
    if (job->is_eager && !w.is_fp32)
        w.numbers = tokens * a->heads * job->seq * layers / job->tp;
    if (job->offloads_optimizer)
        w.host_bytes = 16 * params /
                       ((double)job->tp * job->pp * (job->zero ? job->dp : 1));
    if (job->offloads_activations)
        w.host_bytes += 2 * layers * passes * moved_bytes(job);
    return w;
}

static double seconds(const struct work *w, const struct firn_llm_gpus *gpus,
                      const struct firn_llm_speed *speed)
{
    double rate = w->is_fp32 ? speed->fp32_flops_s : speed->half_flops_s;
    double link = w->group <= gpus->node_gpus
                      ? speed->node_bytes_s
                      : speed->net_bytes_s / gpus->node_gpus;
    double out = w->launches * speed->layer_s +
                 w->flops / (rate * gpus->speed) +
                 w->tensor_bytes / speed->node_bytes_s + w->data_bytes / link;
    if (w->numbers > 0)
        out += w->numbers / (speed->matrix_s * gpus->speed);
    if (w->host_bytes > 0)
        out += w->host_bytes / host_bytes_s;
    return out;
}

double firn_peak_step_s(const struct firn_peak_job *job, int passes,
                        const struct firn_llm_gpus *gpus,
                        const struct firn_llm_speed *speed)
{
    struct peak_counts counts = peak_counts_of(job);
    struct work work = work_of(job, &counts, passes);
    return seconds(&work, gpus, speed);
}

/* --- plans ---------------------------------------------------------------- */

static int order(double a, double b)
{
    return (a > b) - (a < b);
}

static bool is_better(const struct firn_peak_plan *a,
                      const struct firn_peak_plan *b)
{
    int by[] = {
        order(a->samples_s_gpu, b->samples_s_gpu),
        order(b->ngpus, a->ngpus),
        order(a->headroom_mib, b->headroom_mib),
        order(b->type, a->type),
        order(b->t, a->t),
        order(b->p, a->p),
        order(b->zero, a->zero),
        order(a->micro_batch, b->micro_batch),
    };
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        if (by[i] != 0)
            return by[i] > 0;
    return false;
}

static void keep(struct firn_peak_plan *out, size_t n, size_t max,
                 const struct firn_peak_plan *plan)
{
    if (max == 0 ||
        (n >= max && (plan->samples_s_gpu < out[max - 1].samples_s_gpu ||
                      !is_better(plan, &out[max - 1]))))
        return;
    size_t at = n < max ? n : max - 1;
    for (; at > 0 && is_better(plan, &out[at - 1]); at--)
        out[at] = out[at - 1];
    out[at] = *plan;
}

enum { TYPES_MAX = 256 };

/* A GPU type, with seconds a unit instead of units a second. */
struct rates {
    double mem_mib; /* INFINITY: not known */
    double flop, number, node_byte, net_byte, launch;
    int node, count;
};

struct search {
    const struct firn_peak_search *ask;
    struct peak_counts counts;
    struct firn_peak_plan *out;
    size_t max, n;
    int types; /* of the search, TYPES_MAX at most */
    struct rates rates[TYPES_MAX];
    int node, count;    /* the most of any type */
    double largest_mib; /* INFINITY: a type's memory is not known */
    struct firn_peak_refused refused;
};

static void note_smallest(struct search *s, const struct firn_peak_job *job,
                          double device_mib)
{
    struct firn_peak_refused *r = &s->refused;
    r->ways++;
    if (r->ways > 1 && device_mib >= r->least_mib)
        return;
    r->least_mib = device_mib;
    r->t = job->tp;
    r->p = job->pp;
    r->d = job->dp;
    r->zero = job->zero;
    r->micro_batch = job->micro_batch;
}

static double way_seconds(const struct work *w, const struct rates *r)
{
    double link = w->group <= r->node ? r->node_byte : r->net_byte;
    return w->launches * r->launch + w->flops * r->flop +
           w->numbers * r->number + w->tensor_bytes * r->node_byte +
           w->data_bytes * link + w->host_bytes / host_bytes_s;
}

/* Samples a second below which a plan is behind the worst that is kept, with
 * room for rounding; keep() compares exactly. */
static double least_samples(const struct search *s, int ngpus)
{
    if (s->max == 0 || s->n < s->max)
        return 0;
    return (1 - 1e-12) * ngpus * s->out[s->max - 1].samples_s_gpu;
}

/* The loop of the search: most plans are behind the worst that is kept, and
 * are only counted. */
static void try_types(struct search *s, const struct firn_peak_job *job,
                      int passes, const struct firn_peak *peak)
{
    struct work work = work_of(job, &s->counts, passes);
    int ngpus = job->tp * job->pp * job->dp;
    double samples = (double)job->micro_batch * passes * job->dp;
    size_t before = s->n;
    double least = least_samples(s, ngpus);
    for (int i = 0; i < s->types; i++) {
        const struct rates *r = &s->rates[i];
        if (peak->device_mib > r->mem_mib || ngpus > r->count ||
            job->tp > r->node)
            continue;
        double step_s = way_seconds(&work, r);
        /* A product, not a quotient: this is the search's innermost line. */
        if (s->n++ >= s->max && (s->max == 0 || samples < least * step_s))
            continue;
        double rate = samples / step_s;
        bool is_known = isfinite(r->mem_mib);
        struct firn_peak_plan plan = {
            .type = i,
            .t = job->tp,
            .p = job->pp,
            .d = job->dp,
            .zero = job->zero,
            .ngpus = ngpus,
            .micro_batch = job->micro_batch,
            .passes = passes,
            .samples_s = rate,
            .samples_s_gpu = rate / ngpus,
            .headroom_mib = is_known ? r->mem_mib - peak->device_mib : 0,
            .expected_mib = peak->expected_mib,
            .high_mib = peak->high_mib,
            .device_mib = peak->device_mib};
        keep(s->out, s->n - 1, s->max, &plan);
        least = least_samples(s, ngpus);
    }
    s->refused.fitting += s->n > before;
}

/* One way: its micro-batch is the largest that fits some type, and the smaller
 * ones where a smaller one takes another type in. */
static void try_way(struct search *s, struct firn_peak_job *job)
{
    int mine = s->ask->batch / job->dp;
    for (int passes = 1; passes <= mine; passes++) {
        if (mine % passes != 0 || (passes > 1 && !s->ask->has_accumulation))
            continue;
        job->micro_batch = mine / passes;
        job->micro_batches = passes;
        job->keeps_gradients = passes > 1;
        struct firn_peak peak = peak_counted(job, &s->counts, &peak_constants);
        note_smallest(s, job, peak.device_mib);
        if (peak.device_mib > s->largest_mib)
            continue;
        try_types(s, job, passes, &peak);
        if (passes >= job->pp)
            break; /* fewer samples at a time only wait longer */
    }
}

static void try_zero(struct search *s, struct firn_peak_job *job)
{
    int stage = job->zero;
    int first = s->ask->has_zero ? 0 : stage,
        last = s->ask->has_zero ? 3 : stage;
    if (job->dp == 1)
        last = first = s->ask->has_zero ? 0 : stage;
    for (job->zero = first; job->zero <= last; job->zero++)
        try_way(s, job);
    job->zero = stage;
}

static struct rates rates_of(const struct firn_llm_gpus *g, bool is_fp32)
{
    struct firn_llm_speed v = firn_llm_speed_of(g->name, g->speed);
    return (struct rates){
        .mem_mib = g->mem_gib > 0 ? g->mem_gib * MIB_PER_GIB : INFINITY,
        .flop = 1 / (is_fp32 ? v.fp32_flops_s : v.half_flops_s),
        .number = 1 / v.matrix_s,
        .node_byte = 1 / v.node_bytes_s,
        .net_byte = g->node_gpus / v.net_bytes_s,
        .launch = v.layer_s,
        .node = g->node_gpus,
        .count = g->count};
}

static void open_search(struct search *s, bool is_fp32)
{
    const struct firn_peak_search *ask = s->ask;
    s->types = ask->ntypes < TYPES_MAX ? (int)ask->ntypes : TYPES_MAX;
    for (int i = 0; i < s->types; i++) {
        const struct firn_llm_gpus *g = &ask->types[i];
        s->rates[i] = rates_of(g, is_fp32);
        s->node = g->node_gpus > s->node ? g->node_gpus : s->node;
        s->count = g->count > s->count ? g->count : s->count;
        s->largest_mib = fmax(s->largest_mib, s->rates[i].mem_mib);
        s->refused.most_gib = fmax(s->refused.most_gib, g->mem_gib);
    }
    if (ask->gpus_max > 0 && ask->gpus_max < s->count)
        s->count = ask->gpus_max;
}

size_t firn_peak_plans(const struct firn_peak_job *job,
                       const struct firn_peak_search *search,
                       struct firn_peak_plan *out, size_t max,
                       struct firn_peak_refused *refused)
{
    struct search s = {.ask = search, .out = out, .max = max};
    struct firn_peak_job j = *job;
    s.counts = peak_counts_of(job);
    open_search(&s, job->mode == FIRN_MODE_FP32);
    int pp_max = search->pp_max > 1 ? search->pp_max : 1;
    for (j.tp = 1; j.tp <= s.node && j.arch.heads % j.tp == 0; j.tp *= 2)
        for (j.pp = 1; j.pp <= pp_max && j.pp <= j.arch.layers; j.pp++) {
            if (j.arch.layers % j.pp != 0)
                continue;
            int most = s.count / (j.tp * j.pp);
            for (j.dp = 1; j.dp <= search->batch && j.dp <= most; j.dp++)
                if (search->batch % j.dp == 0)
                    try_zero(&s, &j);
        }
    if (refused)
        *refused = s.refused;
    return s.n;
}

int firn_peak_largest(const struct firn_peak_job *job, double mem_gib)
{
    struct firn_peak_job j = *job;
    int low = 0, high = 1;
    for (j.micro_batch = 1; j.micro_batch < 1 << 20; j.micro_batch *= 2) {
        if (firn_peak_of(&j).device_mib > mem_gib * MIB_PER_GIB)
            break;
        low = j.micro_batch;
    }
    high = j.micro_batch;
    while (high - low > 1) {
        j.micro_batch = low + (high - low) / 2;
        if (firn_peak_of(&j).device_mib > mem_gib * MIB_PER_GIB)
            high = j.micro_batch;
        else
            low = j.micro_batch;
    }
    return low;
}
