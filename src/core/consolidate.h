/* consolidate.h - moves a running job so that a waiting one fits on one node.
 */
#ifndef CORE_CONSOLIDATE_H
#define CORE_CONSOLIDATE_H
#include "core/place.h"
#include "core/state.h"

/* A running job and where it goes. */
struct consolidation {
    struct firn_job *job;
    struct firn_alloc to; /* parts in the scratch memory */
    firn_job_id wanted_by;
};

/* Is there a waiting job that keeps to one node (spec.one_node), for which
 * enough GPUs are free, but on no node together, and one running job whose move
 * makes room for it and pays? */
bool consolidate_find(struct state *state, place_rule *place, double now_s,
                      struct arena *scratch, struct consolidation *out);

#endif
