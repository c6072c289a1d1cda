/* peak.h - the peak GPU memory of one training step, term by term.
 *
 * memory.h predicts for the three shapes that firn's papers use. This header
 * predicts for every architecture of arch.h and the ways people train them:
 * precision, optimizer, LoRA, DoRA and QLoRA, activation checkpointing,
 * offload, ZeRO and FSDP, tensor, sequence, pipeline and expert parallelism.
 *
 * A step passes a few moments at which its memory may peak (firn_peak_moment).
 * At each the bytes of every term are counted; the largest sum is the answer,
 * and its terms are the breakdown. `expected_mib` is the peak of all tensors
 * (PyTorch's max_memory_allocated). `reserved_mib` is what the allocator holds
 * for them; high_mib - low_mib is at most a quarter of expected. `device_mib`
 * is high_mib and the CUDA context: what a GPU must have.
 *
 * Evaluation allocates nothing and keeps no state.
 */
#ifndef FIRN_PEAK_H
#define FIRN_PEAK_H
#include <firn/arch.h>
#include <firn/memory.h>

FIRN_C_BEGIN

/* Bytes a parameter: weight + gradient + Adam's state. */
enum firn_peak_mode {
    FIRN_MODE_FP32,        /* 4 + 4 + 8 */
    FIRN_MODE_AMP,         /* 4 + 4 + 8, and bf16 copies (autocast) */
    FIRN_MODE_BF16,        /* 2 + 2 + 4 */
    FIRN_MODE_BF16_MASTER, /* 2 + 2 + 12: DeepSpeed's 16 bytes */
    FIRN_MODE_MEGATRON,    /* 2 + 6 + 12 */
    FIRN_MODES,
};

enum firn_peak_optimizer {
    FIRN_OPT_ADAMW,         /* tensor by tensor */
    FIRN_OPT_ADAMW_FOREACH, /* one more tensor a parameter during the step */
    FIRN_OPT_ADAMW_FUSED,
    FIRN_OPT_ADAM_8BIT,
    FIRN_OPT_ADAFACTOR, /* a row and a column for each matrix */
    FIRN_OPT_LION,
    FIRN_OPT_SGD, /* with momentum */
    FIRN_OPT_SGD_PLAIN,
    FIRN_OPTS,
};

enum firn_peak_loss {
    FIRN_LOSS_PLAIN,   /* the library's: logits in fp32 */
    FIRN_LOSS_CHUNKED, /* the logits in bf16, in fp32 an eighth at a time */
    FIRN_LOSS_FUSED,   /* logits an eighth at a time: Liger's kernel */
    FIRN_LOSSES,
};

enum firn_peak_recompute {
    FIRN_RECOMPUTE_NONE,
    FIRN_RECOMPUTE_SELECTIVE, /* matrix products are kept, the rest again */
    FIRN_RECOMPUTE_LAYERS,    /* only the inputs of layers are kept */
    FIRN_RECOMPUTES,
};

enum firn_peak_adapter {
    FIRN_ADAPTER_NONE, /* all parameters are trained */
    FIRN_ADAPTER_LORA,
    FIRN_ADAPTER_DORA,
    FIRN_ADAPTER_QLORA, /* the base in 4 bits, constants quantised twice */
    FIRN_ADAPTERS,
};

struct firn_peak_job {
    struct firn_arch arch;
    int seq;
    int micro_batch;
    enum firn_peak_mode mode;
    enum firn_peak_optimizer optimizer;
    enum firn_peak_loss loss;
    enum firn_peak_recompute recompute;
    enum firn_peak_adapter adapter;
    int rank;             /* of LoRA */
    unsigned on;          /* FIRN_LLM_*: projections with an adapter */
    bool is_adapter_half; /* adapters in bf16, not fp32 */
    bool is_eager;        /* attention keeps its matrices */
    bool keeps_gradients; /* accumulation: they are there from the start */
    bool offloads_optimizer, offloads_activations;
    int zero;            /* 0 to 3; 3 is also FSDP */
    bool keeps_gathered; /* ZeRO 3 without resharding after the forward pass */
    bool is_sequence;    /* sequence parallel, within the tensor group */
    int tp, dp, pp, ep;  /* 0 means 1; ep divides tp dp */
    int micro_batches;   /* of a step, for pipelines; 0: pp */
};

/* Terms of the breakdown, in the order they are printed. */
enum firn_peak_term {
    FIRN_TERM_WEIGHTS,  /* trained, in the precision they are kept in */
    FIRN_TERM_FROZEN,   /* weights that are not trained */
    FIRN_TERM_ADAPTERS, /* weights of LoRA */
    FIRN_TERM_CASTS,    /* copies of weights in the precision used */
    FIRN_TERM_GATHERED, /* whole layers of sharded weights */
    FIRN_TERM_MASTER,   /* weights in fp32 of the optimizer */
    FIRN_TERM_MOMENTS,  /* state of the optimizer */
    FIRN_TERM_SCRATCH,  /* of the optimizer's step */
    FIRN_TERM_GRADIENTS,
    FIRN_TERM_BUCKETS,   /* copies of gradients that are reduced */
    FIRN_TERM_INPUTS,    /* of layers, kept by checkpointing */
    FIRN_TERM_NORMS,     /* kept for the backward pass */
    FIRN_TERM_ATTENTION, /* queries, keys, values, output */
    FIRN_TERM_MATRICES,  /* of attention, position by position */
    FIRN_TERM_MLP,       /* kept for the backward pass */
    FIRN_TERM_EXPERTS,   /* tokens and products of experts */
    FIRN_TERM_LORA,      /* inputs of adapters */
    FIRN_TERM_MASKS,     /* of dropout */
    FIRN_TERM_LOGITS,    /* with their copies in fp32 and gradients */
    FIRN_TERM_WORK,      /* of the layer that is computed */
    FIRN_TERM_WORKSPACE, /* of libraries, rounding to blocks */
    FIRN_TERMS,
};

enum firn_peak_moment {
    FIRN_MOMENT_LOSS,      /* the loss is computed */
    FIRN_MOMENT_LOSS_BACK, /* its gradient */
    FIRN_MOMENT_HEAD,      /* gradient of the output matrix */
    FIRN_MOMENT_FIRST,     /* backward pass of the last layer */
    FIRN_MOMENT_LAST,      /* backward pass of the first layer */
    FIRN_MOMENT_EMBEDDING, /* gradient of the embedding */
    FIRN_MOMENT_STEP,      /* the optimizer */
    FIRN_MOMENTS,
};

struct firn_peak {
    double terms_mib[FIRN_TERMS]; /* their sum is expected_mib */
    enum firn_peak_moment moment;
    int stage; /* of a pipeline: 0 the first, 1 the last */
    double low_mib, expected_mib, high_mib;
    double reserved_mib, device_mib;
    double params, trained; /* of the whole model */
    bool is_measured;       /* modes like it were measured on a GPU */
};

/* How people write a job down, on a command line and in a job file: sets one
 * setting by its name and word. FIRN_ENOENT: there is no such setting;
 * FIRN_EINVAL: it has no such value (the sentence lists them).
 *
 *   precision       fp32, amp, bf16, bf16-master, megatron
 *   optimizer       adamw, adamw-foreach, adamw-fused, adamw-8bit, adafactor,
 *                   lion, sgd, sgd-plain
 *   loss            plain, chunked, fused
 *   checkpointing   off, layers, selective
 *   attention       sdpa, eager
 *   adapter         none, lora, dora, qlora
 *   lora            rank; without an adapter: lora
 *   lora_on         q, k, v, o, gate, up, down, all; by comma or plus
 *   lora_precision  fp32, bf16
 *   gradients       free, keep
 *   offload         optimizer, activations; by comma or plus
 *   reshard         yes, no
 *   sequence        yes, no
 *   zero, tp, dp, pp, ep, seq, micro_batch, micro_batches   whole numbers
 */
FIRN_API enum firn_status firn_peak_set(struct firn_peak_job *job,
                                        const char *setting, const char *word,
                                        struct firn_error *err);

/* Writes how a job says that it trains into `job`; not said: Megatron's
 * precision, fused Adam, sdpa. True when a word has no value in memory.h, which
 * all settings behind FIRN_TRAINING_COLUMNS are. The passes are not written. */
FIRN_API bool firn_training_peak(const struct firn_training *training,
                                 struct firn_peak_job *job);

/* FIRN_EINVAL with the number that makes no sense; turns 0 degrees into 1. */
FIRN_API enum firn_status firn_peak_check(struct firn_peak_job *job,
                                          struct firn_error *err);

/* `job` has passed firn_peak_check(). */
FIRN_API struct firn_peak firn_peak_of(const struct firn_peak_job *job);

/* Words of the breakdown and of the moments. */
FIRN_API const char *firn_peak_term_word(enum firn_peak_term term);
FIRN_API const char *firn_peak_term_about(enum firn_peak_term term);
FIRN_API const char *firn_peak_moment_word(enum firn_peak_moment moment);

FIRN_C_END

#endif
