/* holding.h - allocations owned by an engine: copy, compare, look up a GPU.
 */
#ifndef ENGINE_HOLDING_H
#define ENGINE_HOLDING_H
#include <firn/alloc.h>
#include <stdbool.h>

/* Copies `from`, parts included; the old parts of `to` are freed. */
void holding_copy(struct firn_alloc *to, const struct firn_alloc *from);
void holding_release(struct firn_alloc *alloc);

/* Adds the GPUs of `more` to `to`. */
void holding_join(struct firn_alloc *to, const struct firn_alloc *more);

/* True: the trainer can go on from `held` to `want` without a restart. The GPUs
 * are the same, and a neighbour that left is reported to the trainer by orders.
 */
bool holding_is_same_run(const struct firn_alloc *held,
                         const struct firn_alloc *want);

/* All GPUs of the allocation exist in the cluster. */
bool holding_is_on(const struct firn_cluster *cluster,
                   const struct firn_alloc *alloc);

/* The allocation has this GPU of the part's board. */
bool holding_has(const struct firn_alloc *held, const struct firn_part *part,
                 uint64_t bit);

#endif
