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

static double active_params(const struct firn_arch *a)
{
    double all = firn_arch_params(a);
    if (a->experts == 0)
        return all;
    double sparse = (a->layers - a->dense_layers) * firn_arch_experts_params(a);
    return all - sparse * (1 - (double)a->active / a->experts);
}

static double flops_per_token(const struct firn_peak_job *job)
{
    const struct firn_arch *a = &job->arch;
    bool is_frozen = job->adapter != FIRN_ADAPTER_NONE;
    double layers = a->layers + a->decoder_layers;
    double attention = 12 * layers * firn_arch_q_width(a) * job->seq;
    double forward = 2 * active_params(a) + attention / 3;
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

static double data_bytes(const struct firn_peak_job *job, double params,
                         int passes)
{
    double size = job->mode == FIRN_MODE_FP32 ? 4 : 2, trained = params;
    double gradient = job->mode == FIRN_MODE_AMP ? 4 : size;
    double mine = 1.0 / ((double)job->tp * job->pp);
    if (job->adapter != FIRN_ADAPTER_NONE) {
        trained = firn_arch_lora_params(&job->arch, job->rank, job->on, NULL);
        gradient = 4;
    }
    double sum = reduced(gradient * trained * mine, job->dp);
    if (job->zero < 3)
        return sum;
    double gathers = job->keeps_gathered ? 1 : 2.0 * passes;
    return sum / 2 + gathers * (job->dp - 1.0) / job->dp * size * params * mine;
}

static struct work work_of(const struct firn_peak_job *job, int passes)
{
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq * passes;
    double layers = (a->layers + a->decoder_layers) / (double)job->pp;
    double params = firn_arch_params(a);
    double bubble = (passes + job->pp - 1.0) / passes;
    double size = job->mode == FIRN_MODE_FP32 ? 4 : 2;
    struct work w = {
        .launches = layers * passes * bubble,
        .flops = bubble * flops_per_token(job) * tokens /
                 ((double)job->tp * job->pp),
        .tensor_bytes =
            4 * layers * reduced(tokens * a->hidden * size, job->tp),
        .data_bytes = data_bytes(job, params, passes),
        .is_fp32 = job->mode == FIRN_MODE_FP32,
        .group = job->tp * job->dp,
    };
    if (job->is_eager && !w.is_fp32)
        w.numbers = tokens * a->heads * job->seq * layers / job->tp;
    if (job->offloads_optimizer)
        w.host_bytes = 16 * params /
                       ((double)job->tp * job->pp * (job->zero ? job->dp : 1));
    if (job->offloads_activations)
        w.host_bytes += 2 * layers * tokens * a->hidden * size;
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
    struct work work = work_of(job, passes);
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

struct search {
    const struct firn_peak_search *ask;
    struct firn_peak_plan *out;
    size_t max, n;
    int types; /* of the search, TYPES_MAX at most */
    struct firn_llm_speed speed[TYPES_MAX];
    int node, count;    /* the most of any type */
    double largest_gib; /* 0: a type's memory is not known */
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

static void try_types(struct search *s, const struct firn_peak_job *job,
                      int passes, const struct firn_peak *peak)
{
    struct work work = work_of(job, passes);
    int ngpus = job->tp * job->pp * job->dp;
    double samples = (double)job->micro_batch * passes * job->dp;
    bool is_any = false;
    for (int i = 0; i < s->types; i++) {
        const struct firn_llm_gpus *gpus = &s->ask->types[i];
        double room = gpus->mem_gib * MIB_PER_GIB - peak->device_mib;
        if ((gpus->mem_gib > 0 && room < 0) || ngpus > gpus->count ||
            job->tp > gpus->node_gpus)
            continue;
        struct firn_llm_gpus one = *gpus;
        one.speed = 1; /* s->speed has it */
        double rate = samples / seconds(&work, &one, &s->speed[i]);
        struct firn_peak_plan plan = {.type = i,
                                      .t = job->tp,
                                      .p = job->pp,
                                      .d = job->dp,
                                      .zero = job->zero,
                                      .ngpus = ngpus,
                                      .micro_batch = job->micro_batch,
                                      .passes = passes,
                                      .samples_s = rate,
                                      .samples_s_gpu = rate / ngpus,
                                      .headroom_mib =
                                          gpus->mem_gib > 0 ? room : 0,
                                      .expected_mib = peak->expected_mib,
                                      .high_mib = peak->high_mib,
                                      .device_mib = peak->device_mib};
        keep(s->out, s->n++, s->max, &plan);
        is_any = true;
    }
    s->refused.fitting += is_any;
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
        struct firn_peak peak = firn_peak_of(job);
        note_smallest(s, job, peak.device_mib);
        bool fits = s->largest_gib <= 0 ||
                    peak.device_mib <= s->largest_gib * MIB_PER_GIB;
        if (!fits)
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

static void open_search(struct search *s)
{
    const struct firn_peak_search *ask = s->ask;
    bool is_known = true;
    s->types = ask->ntypes < TYPES_MAX ? (int)ask->ntypes : TYPES_MAX;
    for (int i = 0; i < s->types; i++) {
        const struct firn_llm_gpus *g = &ask->types[i];
        s->speed[i] = firn_llm_speed_of(g->name, g->speed);
        s->node = g->node_gpus > s->node ? g->node_gpus : s->node;
        s->count = g->count > s->count ? g->count : s->count;
        s->largest_gib = fmax(s->largest_gib, g->mem_gib);
        is_known = is_known && g->mem_gib > 0;
    }
    s->refused.most_gib = s->largest_gib;
    if (!is_known)
        s->largest_gib = 0;
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
    open_search(&s);
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
