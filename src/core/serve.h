/* serve.h - the plain walk behind firn_plan_serve, for tests to compare with.
 */
#ifndef CORE_SERVE_H
#define CORE_SERVE_H
#include <firn/plan.h>

/* firn_plan_serve without its quick way. O(jobs log jobs). */
void serve_walk(struct firn_plan *plan, const struct firn_view *view,
                unsigned how);

#endif
