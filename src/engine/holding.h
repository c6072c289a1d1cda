/* holding.h - allocations that an engine keeps: of one's own, the same, on it.
 *
 * What live engines have in common when they move what is there towards what
 * is wanted.
 */
#ifndef ENGINE_HOLDING_H
#define ENGINE_HOLDING_H
#include <firn/alloc.h>
#include <stdbool.h>

/* An allocation of one's own; what was in `to` is freed. */
void holding_copy(struct firn_alloc *to, const struct firn_alloc *from);
void holding_release(struct firn_alloc *alloc);

/* The same GPUs, and nothing that its trainer must be started anew for: what
 * it is told of more room, it is told by orders. */
bool holding_is_same_run(const struct firn_alloc *held,
                         const struct firn_alloc *want);

/* Are all its GPUs of the cluster? */
bool holding_is_on(const struct firn_cluster *cluster,
                   const struct firn_alloc *alloc);

/* Is this GPU of the part's board among them? */
bool holding_has(const struct firn_alloc *held, const struct firn_part *part,
                 uint64_t bit);

#endif
