/* peak.c - counts the tensors of a training step, moment by moment.
 *
 * Weights and optimizer state are there at all moments. In addition:
 *
 *   loss            the kept activations of all layers, casts, 10 bytes a logit
 *                   (bf16, its fp32 copy, log-softmax; 8 where logits are fp32)
 *   loss, backward  the same with 12 bytes a logit: log-softmax, the gradient
 *                   of the loss and of the logits
 *   head            2 bytes a logit and the gradient of the output matrix
 *   first           the backward pass of the last layer: activations of all
 *                   layers, the gradient of the output, the layer's work
 *   last            of the first layer: one layer's activations, all gradients
 *   embedding       all gradients; of a tied embedding also the output's and
 * the sum of both step            all gradients, the optimizer's scratch
 *
 * With checkpointing the inputs of layers take the place of activations, and
 * first and last have one layer computed again. Activations that are offloaded
 * come back tensor by tensor: first and last have a layer's input. Gradients
 * are there throughout when they are accumulated, and in Megatron's precision.
 * peaklayer.c has the bytes of a layer, peakfixed.c those of weights, optimizer
 * and logits.
 *
 * docs/memory.md compares the sums with peaks measured on an H200.
 *
 * Invariants:
 * (1) the terms add up to expected.
 * (2) low <= expected <= high, and high - low <= 0.25 expected.
 *
 * Cost: below a microsecond, no allocation.
 */
#include "model/peakterms.h"

#include "model/range.h"
#include <math.h>
#include <string.h>

const struct peak_constants peak_constants = {
    .workspace_mib = 68,
    .spread = 0.05,
    .idle = {[PEAK_IDLE_MIB] = 6,
             [PEAK_IDLE_ALL] = 0.028,
             [PEAK_IDLE_LOSS] = 0.20,
             [PEAK_IDLE_LOSS_AGAIN] = 0.45,
             [PEAK_IDLE_CASTS] = 0.45,
             [PEAK_IDLE_LATE] = 0.55},
};

static const double context_mib = 771; /* profiles/h200/context.csv */

static void at_least_one(int *degree)
{
    if (*degree == 0)
        *degree = 1;
}

static enum firn_status check_parallel(const struct firn_peak_job *j,
                                       struct firn_error *err)
{
    FIRN_TRY(range_check("the tensor-parallel degree", j->tp, 1, j->arch.heads,
                         err));
    FIRN_TRY(range_check("the data-parallel degree", j->dp, 1, 1 << 20, err));
    FIRN_TRY(range_check("the pipeline degree", j->pp, 1, j->arch.layers, err));
    int experts = j->arch.experts > 0 ? j->arch.experts : 1;
    FIRN_TRY(range_check("the expert-parallel degree", j->ep, 1, experts, err));
    if (j->arch.heads % j->tp != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%d heads cannot be split over %d GPUs", j->arch.heads,
                         j->tp);
    if ((long)j->tp * j->dp % j->ep != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "experts over %d GPUs: tensor x data parallel is %ld, "
                         "no multiple of it",
                         j->ep, (long)j->tp * j->dp);
    return range_check("the ZeRO stage", j->zero, 0, 3, err);
}

enum firn_status firn_peak_check(struct firn_peak_job *job,
                                 struct firn_error *err)
{
    struct firn_peak_job j = *job;
    FIRN_TRY(firn_arch_check(&j.arch, err));
    at_least_one(&j.tp);
    at_least_one(&j.dp);
    at_least_one(&j.pp);
    at_least_one(&j.ep);
    if (j.micro_batches == 0)
        j.micro_batches = j.pp;
    if (j.arch.kind == FIRN_ARCH_VISION) {
        int side = j.arch.image / j.arch.patch;
        j.seq = side * side + 1;
    }
    FIRN_TRY(range_check("the sequence length", j.seq, 1, 1 << 24, err));
    if (j.arch.learns_positions && j.arch.positions < j.seq)
        j.arch.positions = j.seq;
    FIRN_TRY(range_check("the micro-batch", j.micro_batch, 1, 1 << 20, err));
    FIRN_TRY(range_check("the number of micro-batches", j.micro_batches, 1,
                         1 << 20, err));
    FIRN_TRY(check_parallel(&j, err));
    if (j.adapter != FIRN_ADAPTER_NONE) {
        FIRN_TRY(range_check("the LoRA rank", j.rank, 1, j.arch.hidden, err));
        if (j.on == 0)
            return firn_fail(err, FIRN_EINVAL, "LoRA without a projection");
    }
    *job = j;
    return FIRN_OK;
}

/* --- moments -------------------------------------------------------------- */

/* A layer in its backward pass. */
struct pass {
    const struct peak_layer *kept;  /* until then; NULL: its input alone */
    const struct peak_layer *again; /* computed again in it; NULL: nothing */
    double input, work;
};

struct counting {
    const struct firn_peak_job *job;
    const struct peak_counts *counts;
    struct peak_sizes s;
    struct peak_layer stack, dense, cross, products; /* one of each kind */
    struct pass first, last; /* that the backward pass meets */
    struct peak_biases biases;
    /* Of a stage of the pipeline: */
    struct peak_share p;
    struct peak_fixed f;
    struct peak_logits logits;
    double all[FIRN_TERMS]; /* kept by all layers, and at both ends */
    double total;           /* of `all` */
};

/* What is there at a moment, besides f.always. */
struct moment {
    double gradients;
    bool has_all;            /* what all layers keep */
    bool has_kept;           /* what the layer of `pass` keeps */
    const struct pass *pass; /* NULL: no layer's backward pass */
    double casts, logits, matrices, work, scratch;
    double rests; /* of blocks */
};

/* Accumulated, or in the buffer that Megatron fills. */
static bool keeps_gradients(const struct counting *n)
{
    return n->job->keeps_gradients || (n->s.is_megatron && !n->s.is_frozen);
}

static void at_loss(const struct counting *n, bool is_backward,
                    struct moment *out)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    out->has_all = true;
    /* Checkpointed, autocast's copies live until the forward pass ends. */
    out->casts = is_again && is_backward ? n->f.head_cast : n->f.casts;
    out->logits = n->logits.number *
                  (is_backward ? n->logits.backward : n->logits.forward);
}

static void at_head(const struct counting *n, struct moment *out)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    out->gradients = n->f.head_gradient;
    out->has_all = true;
    out->casts = is_again ? n->f.head_cast : n->f.casts;
    if (n->s.is_amp && !n->s.is_frozen)
        out->work = n->f.head_gradient / 2; /* in bf16 first */
    out->logits = n->logits.number * n->logits.head;
}

/* Of t5 with recomputation the last pass through its decoder needs most: the
 * decoder's gradients are there too. */
static double first_gradients(const struct counting *n)
{
    if (n->counts->decoder == 0 || n->job->recompute == FIRN_RECOMPUTE_NONE ||
        n->s.is_frozen)
        return n->f.head_gradient;
    return n->f.head_gradient +
           n->f.gradients * n->counts->decoder / n->counts->all;
}

static void at_first(const struct counting *n, struct moment *out)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    out->gradients = first_gradients(n);
    out->has_all = true;
    out->pass = &n->first;
    out->has_kept = n->job->offloads_activations;
    out->matrices = n->biases.gradients;
    out->work = n->first.work + n->f.work_gradient + n->f.unpacked;
    out->casts = is_again ? n->f.layer_cast : n->f.casts;
}

/* The layer's own gradients come after its largest tensors are gone. */
static void at_last(const struct counting *n, struct moment *out)
{
    out->gradients = n->f.gradients - n->f.embed_gradient - n->f.layer_gradient;
    if (n->job->arch.is_tied)
        out->gradients += n->f.head_gradient;
    out->pass = &n->last;
    out->has_kept = true;
    out->matrices = n->biases.kept + n->biases.gradients;
    out->work = n->last.work + n->f.work_gradient + n->f.unpacked;
    out->casts = n->f.layer_cast;
}

static void at_step(const struct counting *n, struct moment *out)
{
    out->gradients = n->f.gradients;
    out->scratch = n->f.scratch;
    out->rests = (n->f.step_copies + !keeps_gradients(n)) * n->f.rests;
}

static struct moment moment_of(const struct counting *n,
                               enum firn_peak_moment moment)
{
    struct moment out = {0};
    switch (moment) {
    case FIRN_MOMENT_LOSS:
    case FIRN_MOMENT_LOSS_BACK:
        at_loss(n, moment == FIRN_MOMENT_LOSS_BACK, &out);
        break;
    case FIRN_MOMENT_HEAD:
        at_head(n, &out);
        break;
    case FIRN_MOMENT_FIRST:
        at_first(n, &out);
        break;
    case FIRN_MOMENT_LAST:
        at_last(n, &out);
        break;
    case FIRN_MOMENT_EMBEDDING:
        out.gradients = n->f.gradients;
        out.work = n->job->arch.is_tied ? 2 * n->f.embed_gradient : 0;
        break;
    case FIRN_MOMENT_STEP:
    case FIRN_MOMENTS:
        at_step(n, &out);
        break;
    }
    if (keeps_gradients(n)) {
        out.gradients = n->f.gradients;
        out.rests += n->f.rests;
    }
    out.gradients = fmax(0, fmin(out.gradients, n->f.gradients));
    return out;
}

static double moment_bytes(const struct counting *n, const struct moment *m)
{
    double out =
        n->f.total + m->gradients + n->f.buckets + (m->has_all ? n->total : 0);
    if (m->pass && m->has_kept)
        out += m->pass->kept ? m->pass->kept->total : m->pass->input;
    if (m->pass && m->pass->again)
        out += m->pass->again->total;
    return out + m->casts + m->logits + m->matrices + m->work + m->scratch +
           m->rests;
}

static void add_terms(double *to, const double *from, double times)
{
    for (int i = 0; i < FIRN_TERMS; i++)
        to[i] += times * from[i];
}

/* The same bytes as moment_bytes(), term by term. */
static void moment_terms(const struct counting *n, const struct moment *m,
                         double *terms)
{
    memcpy(terms, n->f.always, sizeof n->f.always);
    if (m->has_all)
        add_terms(terms, n->all, 1);
    if (m->pass && m->has_kept && m->pass->kept)
        add_terms(terms, m->pass->kept->terms, 1);
    else if (m->pass && m->has_kept)
        terms[FIRN_TERM_INPUTS] += m->pass->input;
    if (m->pass && m->pass->again)
        add_terms(terms, m->pass->again->terms, 1);
    terms[FIRN_TERM_GRADIENTS] += m->gradients;
    terms[FIRN_TERM_BUCKETS] += n->f.buckets;
    terms[FIRN_TERM_CASTS] += m->casts;
    terms[FIRN_TERM_LOGITS] += m->logits;
    terms[FIRN_TERM_MATRICES] += m->matrices;
    terms[FIRN_TERM_WORK] += m->work;
    terms[FIRN_TERM_SCRATCH] += m->scratch;
    terms[FIRN_TERM_WORKSPACE] += m->rests;
}

/* --- a stage -------------------------------------------------------------- */

static void set_pass(struct counting *n, const struct peak_layer *layer,
                     struct pass *pass)
{
    *pass = (struct pass){.input = layer->input, .work = layer->work};
    bool is_moved = n->job->offloads_activations;
    if (n->job->recompute != FIRN_RECOMPUTE_NONE)
        pass->again = layer;
    else if (!is_moved)
        pass->kept = layer;
    if (n->job->recompute == FIRN_RECOMPUTE_SELECTIVE && !is_moved)
        pass->kept = &n->products;
}

/* The layers, which are the same in all stages. Where some have a plain MLP
 * and others experts, those with experts stand for both ends. */
static void open_layers(struct counting *n)
{
    const struct firn_peak_job *job = n->job;
    n->stack = peak_layer_of(job, &n->s, PEAK_LAYER);
    if (job->arch.experts > 0 && job->arch.dense_layers > 0)
        n->dense = peak_layer_of(job, &n->s, PEAK_LAYER_DENSE);
    if (job->recompute == FIRN_RECOMPUTE_SELECTIVE)
        n->products = peak_products_of(job, &n->s);
    set_pass(n, &n->stack, &n->last);
    n->first = n->last;
    if (job->arch.kind == FIRN_ARCH_SEQ2SEQ) {
        n->cross = peak_layer_of(job, &n->s, PEAK_LAYER_CROSS);
        set_pass(n, &n->cross, &n->first);
    }
    n->biases = peak_biases_of(job, &n->s);
}

/* What `layers` layers keep until their backward pass. */
static void keep_layers(struct counting *n, const struct peak_layer *layer,
                        double layers)
{
    const struct firn_peak_job *job = n->job;
    if (job->offloads_activations)
        return;
    if (job->recompute == FIRN_RECOMPUTE_LAYERS) {
        n->all[FIRN_TERM_INPUTS] += layers * layer->input;
        n->total += layers * layer->input;
        return;
    }
    if (job->recompute == FIRN_RECOMPUTE_SELECTIVE)
        layer = &n->products;
    add_terms(n->all, layer->terms, layers);
    n->total += layers * layer->total;
}

static void open_stage(struct counting *n, int stage,
                       const struct peak_constants *constants)
{
    const struct firn_peak_job *job = n->job;
    const struct firn_arch *a = &job->arch;
    double tokens = (double)job->micro_batch * job->seq;
    int depth = stage == 0 ? job->pp : 1;
    double in_flight = depth < job->micro_batches ? depth : job->micro_batches;
    n->p = peak_share_of(job, n->counts, stage);
    n->f = peak_fixed_of(job, &n->s, &n->p, constants);
    memset(n->all, 0, sizeof n->all);
    n->total = n->biases.kept;
    n->all[FIRN_TERM_MATRICES] = n->biases.kept;
    double layers = n->p.layers * in_flight, dense = 0;
    if (a->experts > 0 && a->dense_layers > 0) {
        dense = layers * a->dense_layers / a->layers;
        keep_layers(n, &n->dense, dense);
    }
    keep_layers(n, &n->stack, layers - dense);
    if (a->kind == FIRN_ARCH_SEQ2SEQ)
        keep_layers(n, &n->cross, a->decoder_layers / (double)job->pp);
    n->logits = (struct peak_logits){0};
    if (stage == 1 || job->pp == 1) {
        double ends = tokens * peak_ends_of(job, &n->s);
        n->logits = peak_logits_of(job, &n->s);
        ends = job->offloads_activations ? 0 : ends;
        n->all[FIRN_TERM_NORMS] += ends;
        n->total += ends;
    }
}

/* --- the answer ----------------------------------------------------------- */

/* Rows like it were measured: one GPU, no fp32 weights beside. */
static bool is_measured(const struct firn_peak_job *job)
{
    return job->tp == 1 && job->dp == 1 && job->pp == 1 && job->ep == 1 &&
           job->mode <= FIRN_MODE_BF16;
}

/* The allocator holds more than the tensors: blocks left by the loss and by
 * layers when the optimizer needs others, and rounding. */
static void idle_features(const struct counting *n, double bytes,
                          enum firn_peak_moment moment, double *x_mib)
{
    double loss = n->logits.number * n->logits.backward / MIB;
    bool is_again = n->job->recompute != FIRN_RECOMPUTE_NONE;
    bool is_late = moment >= FIRN_MOMENT_EMBEDDING;
    x_mib[PEAK_IDLE_MIB] = 1;
    x_mib[PEAK_IDLE_ALL] = bytes / MIB;
    x_mib[PEAK_IDLE_LOSS] = is_again ? 0 : loss;
    x_mib[PEAK_IDLE_LOSS_AGAIN] = is_again ? loss : 0;
    x_mib[PEAK_IDLE_CASTS] = n->f.casts / MIB;
    x_mib[PEAK_IDLE_LATE] = is_late && !is_again ? n->total / MIB : 0;
}

static double reserved_of(const struct counting *n, double bytes,
                          enum firn_peak_moment moment,
                          const struct peak_constants *constants)
{
    double x_mib[PEAK_IDLES], out = bytes / MIB;
    idle_features(n, bytes, moment, x_mib);
    for (int i = 0; i < PEAK_IDLES; i++)
        out += constants->idle[i] * x_mib[i];
    return out;
}

/* Ways that were not measured get a wider interval. */
static void set_interval(double reserved_mib,
                         const struct peak_constants *constants,
                         struct firn_peak *out)
{
    double spread = constants->spread + (out->is_measured ? 0 : 0.03);
    double e = out->expected_mib;
    out->reserved_mib = reserved_mib;
    out->low_mib = (1 - spread) * e;
    out->high_mib = fmin(fmax((1 + spread) * e, 1.06 * out->reserved_mib),
                         (1.25 - spread) * e);
    out->device_mib = out->high_mib + context_mib;
}

/* The largest moment of the open stage, if it is above `most`. */
static double count_stage(struct counting *n, int stage, double most,
                          struct firn_peak *out)
{
    struct moment largest = {0};
    double before = most;
    for (int i = 0; i < FIRN_MOMENTS; i++) {
        struct moment m = moment_of(n, (enum firn_peak_moment)i);
        double bytes = moment_bytes(n, &m);
        if (bytes <= most)
            continue;
        most = bytes;
        largest = m;
        out->moment = (enum firn_peak_moment)i;
        out->stage = stage;
    }
    if (most > before)
        moment_terms(n, &largest, out->terms_mib);
    return most;
}

struct firn_peak peak_counted(const struct firn_peak_job *job,
                              const struct peak_counts *counts,
                              const struct peak_constants *constants)
{
    struct firn_peak out = {.params = counts->all, .trained = counts->all};
    struct counting n = {.job = job, .counts = counts};
    double most = -1, reserved = 0;
    if (job->adapter != FIRN_ADAPTER_NONE)
        out.trained = counts->adapters;
    n.s = peak_sizes_of(job);
    open_layers(&n);
    for (int stage = 0; stage < (job->pp > 1 ? 2 : 1); stage++) {
        open_stage(&n, stage, constants);
        most = count_stage(&n, stage, most, &out);
        reserved = fmax(reserved, reserved_of(&n, most, out.moment, constants));
    }
    for (int i = 0; i < FIRN_TERMS; i++)
        out.terms_mib[i] *= 1 / MIB; /* exact: a power of two */
    out.expected_mib = most / MIB;
    out.is_measured = is_measured(job);
    set_interval(reserved, constants, &out);
    return out;
}

struct firn_peak peak_with(const struct firn_peak_job *job,
                           const struct peak_constants *constants)
{
    struct peak_counts counts = peak_counts_of(job);
    return peak_counted(job, &counts, constants);
}

struct firn_peak firn_peak_of(const struct firn_peak_job *job)
{
    return peak_with(job, &peak_constants);
}

void peak_idle_of(const struct firn_peak_job *job,
                  const struct peak_constants *constants,
                  double x_mib[PEAK_IDLES])
{
    struct peak_counts counts = peak_counts_of(job);
    struct counting n = {.job = job, .counts = &counts};
    struct firn_peak out = {0};
    n.s = peak_sizes_of(job);
    open_layers(&n);
    open_stage(&n, 0, constants);
    double bytes = count_stage(&n, 0, -1, &out);
    idle_features(&n, bytes, out.moment, x_mib);
}
