/* memory.h - how much GPU memory a transformer needs while it trains.
 *
 * Two predictors. MARP is Frenzy's, as printed: with W = V h + l (12 h^2 +
 * 13 h) parameters, batch B, t-way tensor and d-way data parallel,
 *
 *   bytes = 20 W / t + s B h l (10/d + 24/(d t) + 5 a s/(d h t))
 *
 * Ours counts the tensors that PyTorch keeps for a given precision, optimizer,
 * attention and parallel form, takes the largest of the moments of a step at
 * which memory may peak, and adds what only measurement can tell: the
 * allocator's overhead and its fragmentation (struct firn_memory_fit).
 *
 * Expected is the peak of the tensors, PyTorch's max_memory_allocated: what
 * MARP speaks of, and what repeats from run to run. The allocator holds more
 * than that, by how its blocks fall (`reserved_mib`, max_memory_reserved), and
 * the high end is the most of this that was ever seen. `device_mib`, the high
 * end and the CUDA context, is what a GPU must have; plans go by it.
 *
 * Symbols: h hidden, l layers, a heads, V vocab, s seq, b micro_batch,
 * t tp, d dp. Evaluation allocates nothing and keeps no state.
 */
#ifndef FIRN_MEMORY_H
#define FIRN_MEMORY_H
#include <firn/llm.h>

FIRN_C_BEGIN

enum firn_precision {
    FIRN_PRECISION_FP32,
    FIRN_PRECISION_BF16,     /* weights, gradients, moments: 2 bytes each */
    FIRN_PRECISION_AMP,      /* bf16 autocast over fp32 weights */
    FIRN_PRECISION_MEGATRON, /* 20 bytes a parameter with Adam */
};

enum firn_optimizer {
    FIRN_OPTIMIZER_ADAMW,
    FIRN_OPTIMIZER_SGD,       /* with momentum */
    FIRN_OPTIMIZER_SGD_PLAIN, /* without */
};

enum firn_attention {
    FIRN_ATTENTION_EAGER, /* keeps the s x s matrices */
    FIRN_ATTENTION_SDPA,  /* does not (flash attention and its like) */
};

/* How a job trains its transformer, as its user says it: each member is 0 (not
 * said) or 1 + a value of its enum; higher values are of peak.h. Not said:
 * Megatron's precision, Adam, attention that keeps its matrices, no
 * checkpointing. The members behind those four are of peak.h alone. */
struct firn_training {
    unsigned char precision, optimizer, attention, checkpointing;
    unsigned char loss, mode, zero, lora_precision;
    unsigned char offload; /* 1 optimizer, 2 activations; a set */
    unsigned char lora_on; /* FIRN_LLM_*; 0: q and v */
    unsigned short lora;   /* rank; 0: not said */
    int accumulation;      /* passes of a step; 0: as few as memory allows */
};

enum firn_training_setting {
    FIRN_TRAINING_PRECISION, /* fp32, bf16, amp, megatron, bf16-master */
    FIRN_TRAINING_OPTIMIZER, /* adamw, sgd, sgd-plain, and those of peak.h */
    FIRN_TRAINING_ATTENTION, /* eager, sdpa */
    FIRN_TRAINING_CHECKPOINTING, /* off, layers, selective */
    FIRN_TRAINING_COLUMNS,       /* those before it are columns of a trace */
    FIRN_TRAINING_LOSS = FIRN_TRAINING_COLUMNS, /* plain, chunked, fused */
    FIRN_TRAINING_MODE,                         /* full, lora, dora, qlora */
    FIRN_TRAINING_ZERO,           /* 0, 1, 2, 3, fsdp (the same as 3) */
    FIRN_TRAINING_LORA_PRECISION, /* fp32, bf16 */
    FIRN_TRAINING_LORA,           /* a rank */
    FIRN_TRAINING_LORA_ON,        /* q, k, v, o, gate, up, down, all */
    FIRN_TRAINING_OFFLOAD,        /* optimizer, activations */
    FIRN_TRAINING_ACCUMULATION,   /* a whole number */
    FIRN_TRAINING_SETTINGS,
};

/* One training process: what runs on each GPU. */
struct firn_memory_job {
    struct firn_llm_shape shape; /* complete, see firn_llm_complete() */
    int seq;
    int micro_batch; /* samples on one GPU in one pass */
    enum firn_precision precision;
    enum firn_optimizer optimizer;
    enum firn_attention attention;
    bool is_checkpointing; /* activations of a layer computed again */
    bool frees_gradients;  /* before each pass: zero_grad() as PyTorch has it,
                            * and no accumulation */
    int lora_rank;         /* 0: all parameters are trained */
    unsigned lora_on;      /* FIRN_LLM_*: projections with an adapter */
    int zero;              /* 0: replicas; 1, 2, 3: ZeRO; 3 is also FSDP */
    int tp, dp;            /* 0 means 1 */
};

/* What measurement adds to counting. Bytes of the phase p of a step:
 *
 *   alloc = base + (1 + static_share) static + fixed_p
 *           + act_scale acts_p + attn_scale attn_p + logit_scale logits_p
 *   reserved = max over p of alloc + frag_mib
 *           + frag_live (acts + attn + logits)              not checkpointing
 *           + frag_ckpt (kept + logits) + frag_param moved  checkpointing
 *
 * where `moved` are the parameters of this GPU that are trained (ZeRO 3: its
 * share), and the measured reserved lies between low[c] and high[c] times that,
 * c = 1 when checkpointing. */
struct firn_memory_fit {
    double base_mib, static_share, act_scale, attn_scale, logit_scale;
    double frag_mib, frag_live, frag_ckpt, frag_param;
    double low[2], high[2];
    double context_mib;
    double params_min, params_max; /* of the models seen */
    int seq_min, seq_max;
    double tokens_max; /* micro_batch x seq */
    int nrows;
};

/* All in MiB, of one GPU. weights + gradients + optimizer + activations +
 * overhead = expected. */
struct firn_memory {
    double weights_mib;           /* with the bf16 copies that autocast makes */
    double gradients_mib;         /* with the buckets of data parallel */
    double optimizer_mib;         /* moments, master weights, its scratch */
    double activations_mib;       /* with attention matrices and logits */
    double overhead_mib;          /* library workspaces, rounding to blocks */
    double low_mib, expected_mib; /* of the tensors: alloc_mib */
    double high_mib;              /* of what the allocator reserves */
    double alloc_mib, reserved_mib, device_mib;
    double params, trained_params; /* of the whole model */
    bool is_extrapolated; /* unlike what was measured; the interval is wider */
};

/* One measured peak, for calibration. */
struct firn_memory_row {
    struct firn_memory_job job;
    double alloc_mib, reserved_mib;
};

/* Frenzy's formula in bytes per GPU, as printed; `batch` is B, the global
 * one. Only h, l, a and V of the shape are read. */
FIRN_API double firn_marp_params(const struct firn_llm_shape *shape);
FIRN_API double firn_marp_bytes(const struct firn_llm_shape *shape, int seq,
                                int batch, int t, int d);

/* Sets one setting by its word, of sets by words with commas or '+' between
 * them; "" is "not said". False: it has no such word. */
FIRN_API bool firn_training_set(struct firn_training *training,
                                enum firn_training_setting setting,
                                const char *word);
/* The word of a setting of one word; "" when it is not said, or is a number or
 * a set. */
FIRN_API const char *firn_training_word(const struct firn_training *training,
                                        enum firn_training_setting setting);
/* Writes what is said, and the defaults of the rest, into `job`. */
FIRN_API void firn_training_apply(const struct firn_training *training,
                                  struct firn_memory_job *job);

/* FIRN_EINVAL, with the number that makes no sense, or FIRN_OK; completes the
 * shape and turns tp and dp 0 into 1. */
FIRN_API enum firn_status firn_memory_check(struct firn_memory_job *job,
                                            struct firn_error *err);

/* The constants fitted to the H200 table, and where they come from. */
FIRN_API const struct firn_memory_fit *firn_memory_default(void);

/* `job` has passed firn_memory_check(). `fit` NULL: the default. */
FIRN_API struct firn_memory firn_memory_of(const struct firn_memory_job *job,
                                           const struct firn_memory_fit *fit);

/* Fits the constants to rows; the jobs need not be checked before. A row with
 * a measurement that is not finite and positive, or with reserved below
 * alloc, is FIRN_EINVAL and named by its index. Fewer than 8 rows of training
 * without checkpointing: FIRN_EDATA, and `out` is the default. Constants that
 * the rows do not tell (no eager row: attn_scale) stay near a prior. The
 * context is not in the rows and stays. */
FIRN_API enum firn_status
firn_memory_calibrate(const struct firn_memory_row *rows, size_t n,
                      struct firn_memory_fit *out, struct firn_error *err);

FIRN_C_END

#endif
