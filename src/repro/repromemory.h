/* repromemory.h - error of memory predictions on a table of measured peaks.
 *
 * A table of measured peaks has the columns of $FIRN_DATA/h200/llm_memory.csv:
 * model, seq, micro_batch, precision (amp, fp32, bf16, megatron), attn (eager,
 * sdpa), checkpointing (0, 1), optimizer (adamw, sgd), peak_alloc_mib and
 * peak_reserved_mib, and may have tensor, the GPUs that a layer is split over;
 * other columns are ignored. The rows of one model are predicted by one of:
 *
 *     marp         Frenzy's formula, on the rows that it covers: mixed
 *                  precision, eager attention, Adam, no checkpointing
 *     memory       firn/memory.h, fitted to the other models; on the same rows
 *     memory-all   the same, on all rows of the model
 *     weights      16 bytes a parameter and no activations, on the rows of
 *                  `marp`: wrong on purpose, to see whether a claim can fail
 *
 * The prediction is compared with peak_alloc_mib, the peak of all tensors.
 */
#ifndef REPRO_MEMORY_H
#define REPRO_MEMORY_H
#include "model/evaluate.h"

/* Name i of the list above; NULL after the last. */
const char *memory_predictor(int i);

/* The predictor that is wrong on purpose. */
const char *memory_planted(void);

/* `spec` is FILE#MODEL. FIRN_EINVAL if the file is not such a table, has no row
 * of the model, or the predictor is unknown. */
enum firn_status memory_evaluate(const char *predictor, const char *spec,
                                 struct evaluate_error *out,
                                 struct firn_error *err);

#endif
