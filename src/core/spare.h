/* spare.h - takes needless stops out of a plan.
 */
#ifndef CORE_SPARE_H
#define CORE_SPARE_H
#include "core/plan.h"

/* A job that runs and that the plan stops stays where it is, if what the plan
 * put on its GPUs can stay where it was; so does that. How many stops were
 * taken out. Before plan_close(). */
int spare_stops(struct firn_plan *plan);

#endif
