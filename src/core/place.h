/* place.h - which GPUs: fewest nodes, then best fit.
 */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H
#include "base/arena.h"
#include "core/freemap.h"
#include <firn/plan.h>

/* A rule of placement: which free GPUs a job gets. */
typedef bool place_rule(struct freemap *map, const struct firn_want *want,
                        uint32_t accepts, struct arena *scratch,
                        struct firn_alloc *out);

/* Chooses `want->gpus` free GPUs among the types `accepts` (a mask) and takes
 * them in `map`. The parts live in `scratch`. False, and no change, when there
 * is no such choice. O(nodes / 64) per node used. */
place_rule place_take;

#endif
