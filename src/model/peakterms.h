/* peakterms.h - the bytes that peak.c adds up, by what holds them.
 *
 * peaklayer.c counts what a layer keeps for its backward pass, peakfixed.c what
 * does not depend on tokens (weights, gradients, optimizer) and the logits.
 * peak.c decides which of them are there at which moment of a step.
 *
 * struct peak_constants has the numbers that counting does not give. They were
 * fitted to the part `fit` of profiles/h200/modern_memory.csv; bench/peakfit.c
 * fits them again with one family left out.
 */
#ifndef MODEL_PEAKTERMS_H
#define MODEL_PEAKTERMS_H
#include <firn/peak.h>

#define MIB 1048576.0

/* Held by the allocator, but by no tensor: shares of these bytes, and MiB. */
enum peak_idle {
    PEAK_IDLE_MIB,        /* whatever the job */
    PEAK_IDLE_ALL,        /* of all tensors */
    PEAK_IDLE_LOSS,       /* of the loss */
    PEAK_IDLE_LOSS_AGAIN, /* of the loss, with recomputation */
    PEAK_IDLE_CASTS,      /* of autocast's copies */
    PEAK_IDLE_LATE,       /* of what layers kept, when the peak is after it */
    PEAK_IDLES,
};

struct peak_constants {
    double workspace_mib; /* held by libraries at all moments */
    double spread;        /* of measured ways: low and high are expected
                           * x (1 -+ spread) or wider */
    double idle[PEAK_IDLES];
};

extern const struct peak_constants peak_constants;

/* Parameters of the whole model: of an architecture and its adapters, whatever
 * the way it is trained. A search over ways counts them once. */
struct peak_counts {
    double all, embed, head;
    double layers;   /* all but embedding and output */
    double experts;  /* in `layers` */
    double matrices; /* that 4 bits pack */
    double adapters; /* of LoRA; 0: none */
    double widths;   /* magnitudes of DoRA */
    double decoder;  /* t5's, of all its layers but one */
};

struct peak_counts peak_counts_of(const struct firn_peak_job *job);

/* firn_peak_of() with other constants; with parameters that were counted. */
struct firn_peak peak_with(const struct firn_peak_job *job,
                           const struct peak_constants *constants);
struct firn_peak peak_counted(const struct firn_peak_job *job,
                              const struct peak_counts *counts,
                              const struct peak_constants *constants);

/* What the shares of `idle` are of, in MiB, of a job on one stage. */
void peak_idle_of(const struct firn_peak_job *job,
                  const struct peak_constants *constants,
                  double x_mib[PEAK_IDLES]);

/* Bytes of one number. */
struct peak_sizes {
    double c, r;    /* of a product, of the residual path */
    double weight;  /* of a trained parameter */
    double frozen;  /* of one that is not */
    double grad;    /* with the fp32 sum of Megatron */
    double state;   /* of a moment */
    double master;  /* fp32 weights beside */
    double adapter; /* of an adapter's parameter */
    bool is_amp, is_frozen;
    bool is_megatron; /* its layers, and its buffer of gradients */
};

struct peak_sizes peak_sizes_of(const struct firn_peak_job *job);

enum peak_layer_kind {
    PEAK_LAYER,       /* of the stack; with experts where there are some */
    PEAK_LAYER_DENSE, /* a plain MLP where others have experts */
    PEAK_LAYER_CROSS, /* of t5's decoder: attention twice */
};

/* Bytes of all tokens of this GPU in one layer, by term. */
struct peak_layer {
    double terms[FIRN_TERMS];
    double total; /* of `terms` */
    double input; /* what checkpointing keeps */
    double work;  /* most that its backward pass needs besides */
};

struct peak_layer peak_layer_of(const struct firn_peak_job *job,
                                const struct peak_sizes *s,
                                enum peak_layer_kind kind);

/* The part that selective recomputation keeps: outputs of matrix products. */
struct peak_layer peak_products_of(const struct firn_peak_job *job,
                                   const struct peak_sizes *s);

/* Kept in front of the first layer and behind the last, by token. */
double peak_ends_of(const struct firn_peak_job *job,
                    const struct peak_sizes *s);

/* Biases of attention that t5's layers share: two learned ones and one of
 * zeros. The plain kernel keeps none; recomputation keeps all as inputs of
 * layers, and has gradients of those of the decoder and a sum in fp32. */
struct peak_biases {
    double kept, gradients;
};

struct peak_biases peak_biases_of(const struct firn_peak_job *job,
                                  const struct peak_sizes *s);

/* Parameters of this GPU's stage of the pipeline. */
struct peak_share {
    double layers; /* of this stage */
    double model;  /* all but experts */
    double experts;
    double embed, head; /* in `model` */
    double one_layer;   /* whole, of this tensor share */
    double adapters;
    double packed;  /* in 4 bits; in `model` and `experts` */
    double largest; /* tensor */
    double ranks;   /* over which ZeRO divides */
};

struct peak_share peak_share_of(const struct firn_peak_job *job,
                                const struct peak_counts *counts, int stage);

/* Bytes that do not depend on tokens. */
struct peak_fixed {
    double always[FIRN_TERMS]; /* at all moments */
    double total;              /* of `always` */
    double gradients, buckets; /* all of them */
    double head_gradient, embed_gradient, layer_gradient, work_gradient;
    double casts, head_cast, layer_cast;
    double unpacked; /* one matrix of 4 bits in a layer's backward pass */
    double scratch;
    double rests;       /* of blocks, for one more copy of the weights */
    double step_copies; /* of `rests`, at the optimizer's step */
};

struct peak_fixed peak_fixed_of(const struct firn_peak_job *job,
                                const struct peak_sizes *s,
                                const struct peak_share *p,
                                const struct peak_constants *constants);

/* Logits of this GPU, and bytes of one at each moment. */
struct peak_logits {
    double number, forward, backward, head;
};

struct peak_logits peak_logits_of(const struct firn_peak_job *job,
                                  const struct peak_sizes *s);

#endif
