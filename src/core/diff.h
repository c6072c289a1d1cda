/* diff.h - what runs against what the plan wants.
 */
#ifndef CORE_DIFF_H
#define CORE_DIFF_H
#include "core/plan.h"
#include <firn/engine.h>

/* A plan as steps: STOP, then RESIZE and MOVE, then START; by job id within
 * each. Rejections are beside them. In the round's scratch memory. */
struct diff {
    struct firn_step *steps;
    size_t nsteps;
    const struct plan_entry **rejects;
    size_t nrejects;
};

/* Pure: reads the closed plan. O(entries log entries) for a plan that keeps
 * all, and O(running) more for one that started empty. */
void diff_plan(const struct firn_plan *plan, struct diff *out);

#endif
