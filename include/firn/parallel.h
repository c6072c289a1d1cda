/* parallel.h - iteration time of models too large for one GPU.
 *
 * Sharded data parallel, pipeline, hybrid (IceFrog 9-13) and tensor parallel
 * (Megatron-LM). Symbols: a GPUs, m batch per GPU, l frozen layers, theta and
 * omega the unfrozen shares of FLOPs and parameters, p pipeline stages, K
 * micro-batches, d pipeline replicas, F(l, j) frozen layers in stage j.
 * Inputs are seconds and shares, outputs seconds. Pure functions.
 */
#ifndef FIRN_PARALLEL_H
#define FIRN_PARALLEL_H
#include <firn/itertime.h>
#include <stdbool.h>

FIRN_C_BEGIN

/* How a model is spread over the GPUs that train it. */
enum firn_parallel {
    FIRN_PARALLEL_OWN,      /* the best of those its application has */
    FIRN_PARALLEL_DATA,     /* a whole copy on each GPU (DDP) */
    FIRN_PARALLEL_SHARDED,  /* one copy over all of them (SDP) */
    FIRN_PARALLEL_PIPELINE, /* in stages (PP), GPUs / stages times over (HP) */
    FIRN_PARALLEL_OFFLOAD,  /* sharded, its optimizer on the host */
    FIRN_PARALLEL_RECOMPUTE /* whole copies, activations computed again */
};

/* What saves memory beside: added to one of the above in `parallel` of struct
 * firn_how, as plans of language models have it. */
enum firn_saves {
    FIRN_SAVES_STATE = 8,      /* ZeRO 1: copies divide the optimizer's state */
    FIRN_SAVES_GRADIENTS = 16, /* ZeRO 2: and the gradients */
    FIRN_SAVES_ACTIVATIONS = 32, /* activations are computed again */
    FIRN_SAVES_HOST = 64,        /* the optimizer is on the host */
    FIRN_SAVES = 120             /* all of these bits */
};

/* The enum firn_parallel of such a number. */
static inline int firn_parallel_kind(int parallel)
{
    return parallel & ~(int)FIRN_SAVES;
}

/* The stage of ZeRO, 0 to 3. */
static inline int firn_parallel_zero(int parallel)
{
    int kind = firn_parallel_kind(parallel);
    if (kind == FIRN_PARALLEL_SHARDED || kind == FIRN_PARALLEL_OFFLOAD)
        return 3;
    if (parallel & FIRN_SAVES_GRADIENTS)
        return 2;
    return parallel & FIRN_SAVES_STATE ? 1 : 0;
}

static inline bool firn_parallel_recomputes(int parallel)
{
    return firn_parallel_kind(parallel) == FIRN_PARALLEL_RECOMPUTE ||
           (parallel & FIRN_SAVES_ACTIVATIONS) != 0;
}

static inline bool firn_parallel_offloads(int parallel)
{
    return firn_parallel_kind(parallel) == FIRN_PARALLEL_OFFLOAD ||
           (parallel & FIRN_SAVES_HOST) != 0;
}

/* --- sharded data parallel ------------------------------------------------
 *
 *   (9)   T_bwd(a,m,0) = (T_grad(m,0)^g + T_para(a,0)^g)^(1/g),  g = gamma_lm
 *   (10)  the same with T_grad by (6) and
 *         T_para(a,l) = alpha_para + beta_para omega T_para(a,0)
 *   (5)   T_iter = T_fwd + (T_bwd^gamma + T_sync^gamma)^(1/gamma)
 *
 * T_para is the all-gather of parameters. The forward pass gathers all of
 * them, frozen or not, and overlaps them with gamma_lm in the same way. As in
 * (6)(7), a frozen time is never above the unfrozen one. */
struct firn_sharded {
    struct firn_itertime base;      /* compute; sync: reduce-scatter; (6)(7) */
    struct firn_sync_law gather;    /* T_para(a, 0); none on one GPU */
    double gamma_lm;                /* >= 1 */
    double para_alpha_s, para_beta; /* (10) */
};

FIRN_API double firn_sharded_backward(const struct firn_sharded *m,
                                      const struct firn_shape *shape);
FIRN_API double firn_sharded_iteration(const struct firn_sharded *m,
                                       const struct firn_shape *shape);

/* --- pipeline ---------------------------------------------------------------
 *
 *   (11)(12)  T_pp = sum_j (T_fwd^j + T_act^j)
 *                  + sum_j (T_bwd^j(F(l,j)) + 1[F(l,j+1) = 0] T_grad^j)
 *                  + (K - 1) max_j (T_fwd^j + T_bwd^j(F(l,j)))
 *
 * The last line is ours: K micro-batches keep the slowest stage busy K times;
 * K = 1 is the paper. All times are of one micro-batch. Stage j + 1 with
 * frozen layers sends no gradient to stage j. T_bwd(F) is (6); a stage without
 * any unfrozen layer has no backward pass. */
struct firn_stage {
    double forward_s, backward_s; /* backward: with nothing frozen */
    double act_s, grad_s;         /* to and from stage j + 1; last stage: 0 */
    double sync_s;                /* (13): among the d replicas, unfrozen */
    double theta, omega;          /* unfrozen shares of this stage */
};

/* (6) and (7), as in struct firn_itertime. */
struct firn_freeze_law {
    double flop_alpha_s, flop_beta, flop_gamma;
    double sync_alpha_s, sync_beta;
};

/* NaN for p < 1 or micro_batches < 1. */
FIRN_API double firn_pipeline_iteration(const struct firn_stage *stages, int p,
                                        int micro_batches,
                                        const struct firn_freeze_law *freeze);

/* --- hybrid -----------------------------------------------------------------
 *
 *   (13)  T_sync(p, d, l) = sum_j T_sync^j(d, F(l,j)),  0 for d = 1
 *
 * overlapped with the backward part of (12) as in (5); the forward part and
 * the K - 1 further micro-batches are not overlapped. NaN for replicas < 1. */
FIRN_API double firn_hybrid_iteration(const struct firn_stage *stages, int p,
                                      int micro_batches, int replicas,
                                      const struct firn_freeze_law *freeze,
                                      double gamma);

/* --- tensor parallel
 * ----------------------------------------------------------
 *
 * Megatron-LM (Shoeybi et al., 2019) splits each transformer layer over t GPUs
 * and all-reduces the layer's output, s b h values, twice in the forward and
 * twice in the backward pass:
 *
 *   T = compute / t + 4 layers T_ar(s b h),
 *   T_ar(M) = 2 (t-1) latency + 2 (t-1)/t M / bandwidth       (ring), 0 at t =
 * 1
 */
struct firn_tensor {
    int layers;
    double seq, hidden;     /* s tokens, h */
    double bytes_per_value; /* 2 for bf16 */
    double latency_s;       /* of one ring step */
    double bandwidth_bytes_s;
};

/* Seconds of forward and backward for `batch` sequences that take `compute_s`
 * on one GPU. t >= 1. */
FIRN_API double firn_tensor_step(const struct firn_tensor *m, double compute_s,
                                 double batch, int t);

FIRN_C_END

#endif
