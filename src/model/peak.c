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
 * first and last have one layer computed again. Gradients are there throughout
 * when they are accumulated. peaklayer.c has the bytes of a layer, peakfixed.c
 * those of weights, optimizer and logits.
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
    .idle = 0.02,
    .idle_loss = 0.10,
    .idle_loss_again = 0.45,
    .idle_casts = 0.25,
    .idle_mib = 100,
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
    struct peak_layer one;   /* kept by it until then */
    struct peak_layer again; /* computed again in it; zeros: nothing */
};

struct counting {
    const struct firn_peak_job *job;
    struct peak_sizes s;
    struct peak_share p;
    struct peak_fixed f;
    struct peak_logits logits;
    struct peak_biases biases;
    struct pass first, last;  /* that the backward pass meets */
    double all[FIRN_TERMS];   /* kept by all layers of the stage, and the head
                               */
    double in_flight;         /* micro-batches of the pipeline's stage */
    double terms[FIRN_TERMS]; /* of the moment that is counted */
};

static void add_terms(double *to, const double *from, double times)
{
    for (int i = 0; i < FIRN_TERMS; i++)
        to[i] += times * from[i];
}

static void begin(struct counting *n, double gradients)
{
    memcpy(n->terms, n->f.always, sizeof n->terms);
    double kept = n->job->keeps_gradients ? n->f.gradients : gradients;
    n->terms[FIRN_TERM_GRADIENTS] = fmin(kept, n->f.gradients);
    n->terms[FIRN_TERM_BUCKETS] = n->f.buckets;
    if (n->job->keeps_gradients)
        n->terms[FIRN_TERM_WORKSPACE] += n->f.rests;
}

static void count_loss(struct counting *n, bool is_backward)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, 0);
    add_terms(n->terms, n->all, 1);
    /* Checkpointed, autocast's copies live until the forward pass ends. */
    n->terms[FIRN_TERM_CASTS] +=
        is_again && is_backward ? n->f.head_cast : n->f.casts;
    n->terms[FIRN_TERM_LOGITS] =
        n->logits.number *
        (is_backward ? n->logits.backward : n->logits.forward);
}

static void count_head(struct counting *n)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, n->f.head_gradient);
    add_terms(n->terms, n->all, 1);
    n->terms[FIRN_TERM_CASTS] += is_again ? n->f.head_cast : n->f.casts;
    if (n->s.is_amp && !n->s.is_frozen)
        n->terms[FIRN_TERM_WORK] += n->f.head_gradient / 2; /* in bf16 first */
    n->terms[FIRN_TERM_LOGITS] = n->logits.number * n->logits.head;
}

static void add_again(struct counting *n, const struct pass *pass)
{
    add_terms(n->terms, pass->again.terms, 1);
    n->terms[FIRN_TERM_MATRICES] += n->biases.gradients;
    n->terms[FIRN_TERM_WORK] += pass->one.work + n->f.work_gradient;
}

/* Of t5 with recomputation the last pass through its decoder needs most: the
 * decoder's gradients are there too. */
static double first_gradients(const struct counting *n)
{
    const struct firn_arch *a = &n->job->arch;
    if (a->kind != FIRN_ARCH_SEQ2SEQ ||
        n->job->recompute == FIRN_RECOMPUTE_NONE || n->s.is_frozen)
        return n->f.head_gradient;
    double passed = (a->decoder_layers - 1) * firn_arch_decoder_params(a);
    return n->f.head_gradient + n->f.gradients * passed / firn_arch_params(a);
}

static void count_first(struct counting *n)
{
    bool is_again = n->job->recompute == FIRN_RECOMPUTE_LAYERS;
    begin(n, first_gradients(n));
    add_terms(n->terms, n->all, 1);
    add_again(n, &n->first);
    n->terms[FIRN_TERM_CASTS] += is_again ? n->f.layer_cast : n->f.casts;
}

/* The layer's own gradients come after its largest tensors are gone. */
static void count_last(struct counting *n)
{
    double gradients =
        n->f.gradients - n->f.embed_gradient - n->f.layer_gradient;
    if (n->job->arch.is_tied)
        gradients += n->f.head_gradient;
    begin(n, fmax(gradients, 0));
    add_terms(n->terms, n->last.one.terms, 1);
    add_again(n, &n->last);
    n->terms[FIRN_TERM_MATRICES] += n->biases.kept;
    n->terms[FIRN_TERM_CASTS] += n->f.layer_cast;
}

static void count_embedding(struct counting *n)
{
    begin(n, n->f.gradients);
    if (n->job->arch.is_tied)
        n->terms[FIRN_TERM_WORK] += 2 * n->f.embed_gradient;
}

static void count_step(struct counting *n)
{
    double copies = n->f.step_copies + !n->job->keeps_gradients;
    begin(n, n->f.gradients);
    n->terms[FIRN_TERM_SCRATCH] = n->f.scratch;
    n->terms[FIRN_TERM_WORKSPACE] += copies * n->f.rests;
}

static void count_moment(struct counting *n, enum firn_peak_moment moment)
{
    switch (moment) {
    case FIRN_MOMENT_LOSS:
        count_loss(n, false);
        break;
    case FIRN_MOMENT_LOSS_BACK:
        count_loss(n, true);
        break;
    case FIRN_MOMENT_HEAD:
        count_head(n);
        break;
    case FIRN_MOMENT_FIRST:
        count_first(n);
        break;
    case FIRN_MOMENT_LAST:
        count_last(n);
        break;
    case FIRN_MOMENT_EMBEDDING:
        count_embedding(n);
        break;
    case FIRN_MOMENT_STEP:
    case FIRN_MOMENTS:
        count_step(n);
        break;
    }
}

/* Three sums at once: an addition waits for the one before it. */
static double sum(const double *terms)
{
    double a = 0, b = 0, c = 0;
    _Static_assert(FIRN_TERMS % 3 == 0, "three sums take all terms");
    for (int i = 0; i < FIRN_TERMS; i += 3) {
        a += terms[i];
        b += terms[i + 1];
        c += terms[i + 2];
    }
    return a + b + c;
}

/* What `layers` layers of a kind keep; `pass` gets one of them. */
static void fill_kind(struct counting *n, enum peak_layer_kind kind,
                      double layers, struct pass *pass)
{
    const struct firn_peak_job *job = n->job;
    pass->one = peak_layer_of(job, &n->s, kind);
    if (job->recompute == FIRN_RECOMPUTE_NONE) {
        add_terms(n->all, pass->one.terms, layers);
        return;
    }
    pass->again = pass->one;
    memset(pass->one.terms, 0, sizeof pass->one.terms);
    if (job->recompute == FIRN_RECOMPUTE_SELECTIVE) {
        struct peak_layer products = peak_products_of(job, &n->s);
        memcpy(pass->one.terms, products.terms, sizeof products.terms);
        add_terms(n->all, products.terms, layers);
    } else {
        double inputs = job->offloads_activations ? fmin(2, layers) : layers;
        pass->one.terms[FIRN_TERM_INPUTS] = pass->one.input;
        n->all[FIRN_TERM_INPUTS] += inputs * pass->one.input;
    }
}

/* The first layers may be dense where others have experts; the larger kind
 * stands for both ends. */
static void fill_layers(struct counting *n)
{
    const struct firn_arch *a = &n->job->arch;
    double layers = n->p.layers * n->in_flight, dense = 0;
    if (a->experts > 0 && a->dense_layers > 0) {
        dense = layers * a->dense_layers / a->layers;
        fill_kind(n, PEAK_LAYER_DENSE, dense, &n->last);
    }
    fill_kind(n, PEAK_LAYER, layers - dense, &n->last);
    if (a->kind == FIRN_ARCH_SEQ2SEQ)
        fill_kind(n, PEAK_LAYER_CROSS, a->decoder_layers / (double)n->job->pp,
                  &n->first);
    else
        n->first = n->last;
}

static void fill(struct counting *n, const struct firn_peak_job *job, int stage,
                 const struct peak_constants *constants)
{
    double tokens = (double)job->micro_batch * job->seq;
    *n = (struct counting){.job = job, .s = peak_sizes_of(job)};
    n->p = peak_share_of(job, stage);
    n->f = peak_fixed_of(job, &n->s, &n->p, constants);
    int depth = stage == 0 ? job->pp : 1;
    n->in_flight = depth < job->micro_batches ? depth : job->micro_batches;
    fill_layers(n);
    n->biases = peak_biases_of(job, &n->s);
    n->all[FIRN_TERM_MATRICES] += n->biases.kept;
    if (stage == 1 || job->pp == 1) {
        n->logits = peak_logits_of(job, &n->s);
        n->all[FIRN_TERM_NORMS] += tokens * peak_ends_of(job, &n->s);
    }
}

/* --- the answer ----------------------------------------------------------- */

/* Rows like it were measured: one GPU, full or LoRA, the library's loss. */
static bool is_measured(const struct firn_peak_job *job)
{
    bool is_one = job->tp == 1 && job->dp == 1 && job->pp == 1 && job->ep == 1;
    bool is_mode = job->mode <= FIRN_MODE_BF16;
    bool is_adapter =
        job->adapter == FIRN_ADAPTER_NONE || job->adapter == FIRN_ADAPTER_LORA;
    bool is_optimizer = job->optimizer <= FIRN_OPT_ADAMW_FUSED ||
                        job->optimizer == FIRN_OPT_SGD;
    bool is_moved = job->offloads_optimizer || job->offloads_activations;
    return is_one && is_mode && is_adapter && is_optimizer && !is_moved &&
           job->loss == FIRN_LOSS_PLAIN &&
           job->recompute != FIRN_RECOMPUTE_SELECTIVE;
}

/* The allocator holds more than the tensors: blocks left by the loss when the
 * optimizer or a layer needs others, and rounding. */
static double reserved_of(const struct firn_peak_job *job,
                          const struct counting *n, double expected,
                          const struct peak_constants *constants)
{
    double loss = n->logits.number * n->logits.backward;
    double share = job->recompute == FIRN_RECOMPUTE_NONE
                       ? constants->idle_loss
                       : constants->idle_loss_again;
    return expected * (1 + constants->idle) + share * loss +
           constants->idle_casts * n->f.casts + constants->idle_mib * MIB;
}

/* Ways that were not measured get a wider interval. */
static void set_interval(double reserved,
                         const struct peak_constants *constants,
                         struct firn_peak *out)
{
    double spread = constants->spread + (out->is_measured ? 0 : 0.03);
    double e = out->expected_mib;
    out->reserved_mib = reserved / MIB;
    out->low_mib = (1 - spread) * e;
    out->high_mib = fmin(fmax((1 + spread) * e, 1.06 * out->reserved_mib),
                         (1.25 - spread) * e);
    out->device_mib = out->high_mib + context_mib;
}

struct firn_peak firn_peak_of(const struct firn_peak_job *job)
{
    return peak_with(job, &peak_constants);
}

struct firn_peak peak_with(const struct firn_peak_job *job,
                           const struct peak_constants *constants)
{
    struct firn_peak out = {.params = firn_arch_params(&job->arch)};
    struct counting n;
    double most = -1, reserved = 0;
    out.trained = out.params;
    if (job->adapter != FIRN_ADAPTER_NONE)
        out.trained =
            firn_arch_lora_params(&job->arch, job->rank, job->on, NULL);
    for (int stage = 0; stage < (job->pp > 1 ? 2 : 1); stage++) {
        fill(&n, job, stage, constants);
        for (int m = 0; m < FIRN_MOMENTS; m++) {
            count_moment(&n, (enum firn_peak_moment)m);
            double bytes = sum(n.terms);
            if (bytes <= most)
                continue;
            most = bytes;
            out.moment = (enum firn_peak_moment)m;
            out.stage = stage;
            memcpy(out.terms_mib, n.terms, sizeof n.terms);
        }
        reserved = fmax(reserved, reserved_of(job, &n, most, constants));
    }
    for (int i = 0; i < FIRN_TERMS; i++)
        out.terms_mib[i] *= 1 / MIB; /* exact: a power of two */
    out.expected_mib = most / MIB;
    out.is_measured = is_measured(job);
    set_interval(reserved, constants, &out);
    return out;
}
