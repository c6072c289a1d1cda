/* spare.h - takes needless stops out of a plan.
 */
#ifndef CORE_SPARE_H
#define CORE_SPARE_H
#include "core/plan.h"

/* A running job that the plan stops stays where it is if the jobs that the plan
 * moves onto its GPUs can stay where they are; they stay too. Returns how many
 * stops were taken out. Called before plan_close(). */
int spare_stops(struct firn_plan *plan);

#endif
