/* worlds.h - a small world that is not the honest one.
 */
#ifndef LIB_WORLDS_H
#define LIB_WORLDS_H
#include "sim/world.h"

/* Named "late". A job says it finished 0.3 s after that was heard, and reports
 * a quarter second more work than it did. It has policies fifo and greedy (the
 * toy of toys.h). */
const struct firn_world_def *world_late(void);

#endif
