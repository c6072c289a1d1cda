/* takers.h - which job gets the GPUs that a step takes from another.
 */
#ifndef CORE_TAKERS_H
#define CORE_TAKERS_H
#include "core/diff.h"

/* Sets `for_job` of every step that takes GPUs from its job: the job whose step
 * adds the most of them, the lower id of two. A half-share that becomes free
 * beside another job goes to the job that joins it. */
void takers_find(const struct diff *diff, struct arena *scratch);

#endif
