/* repromemory.h - how far predictions of memory are from what was measured.
 *
 * A table of measured peaks has the columns of $FIRN_DATA/h200/llm_memory.csv:
 * model, seq, micro_batch, precision (amp, fp32, bf16), attn (eager, sdpa),
 * checkpointing (0, 1), optimizer (adamw, sgd), peak_alloc_mib and
 * peak_reserved_mib; others are not read. Of it one model's rows are foretold:
 *
 *     marp         by Frenzy's formula, of what it speaks of: mixed precision,
 *                  attention that keeps its matrices, Adam, nothing computed
 *                  again
 *     memory       by firn/memory.h, fitted to the rows of the other models;
 *                  of the same rows
 *     memory-all   the same, of all rows of the model
 *
 * All against peak_alloc_mib: the most that tensors held at once.
 */
#ifndef REPRO_MEMORY_H
#define REPRO_MEMORY_H
#include "model/evaluate.h"

/* A name of the list above; NULL beyond the last. */
const char *memory_predictor(int i);

/* `spec` is FILE#MODEL. FIRN_EINVAL when the file is no such table, or has no
 * such rows, or the predictor is unknown. */
enum firn_status memory_evaluate(const char *predictor, const char *spec,
                                 struct evaluate_error *out,
                                 struct firn_error *err);

#endif
