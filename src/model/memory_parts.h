/* memory_parts.h - the counted bytes of a training step, before calibration.
 *
 * Shared by the predictor and its fit. All numbers are bytes on one GPU.
 */
#ifndef MODEL_MEMORY_PARTS_H
#define MODEL_MEMORY_PARTS_H
#include <firn/memory.h>

enum { MEMORY_PHASES = 5 };

/* The bytes at one moment of a step at which memory may peak, without those
 * that are always present. */
struct memory_phase {
    double gradients;
    double casts;   /* copies of weights in the compute precision */
    double scratch; /* of the optimizer */
    double kept;    /* layer inputs kept by checkpointing */
    double acts, attn, logits;
};

struct memory_parts {
    double model_params; /* of the whole model, without adapters */
    double adapter_params;
    double params;             /* of this GPU */
    double weights, optimizer; /* always present */
    double live; /* acts + attn + logits of the whole model; fragmentation */
    double kept; /* layer inputs + logits, when checkpointing */
    int nphases;
    struct memory_phase phases[MEMORY_PHASES];
};

struct memory_parts memory_parts(const struct firn_memory_job *job);

static inline double memory_static(const struct memory_parts *parts,
                                   const struct memory_phase *phase)
{
    return parts->weights + parts->optimizer + phase->gradients;
}

/* The phase's bytes by this fit, without fragmentation. */
double memory_phase_bytes(const struct memory_parts *parts,
                          const struct memory_phase *phase,
                          const struct firn_memory_fit *fit);

/* The largest phase. */
const struct memory_phase *memory_peak(const struct memory_parts *parts,
                                       const struct firn_memory_fit *fit);

/* Fragmentation in bytes. */
double memory_frag(const struct memory_parts *parts, bool is_checkpointing,
                   const struct firn_memory_fit *fit);

#endif
