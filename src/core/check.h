/* check.h - is this plan allowed? Asked of every plan, whatever the policy.
 */
#ifndef CORE_CHECK_H
#define CORE_CHECK_H
#include "core/diff.h"
#include "core/plan.h"

/* FIRN_EREFUSED with a sentence when the closed plan, as `changes` against
 * what runs, gives a GPU twice, uses a dead node or a GPU that is not there,
 * gives a job a number or type of GPUs it cannot use, or goes beyond what the
 * policy says it does. State is as before. O(changes). */
enum firn_status check_plan(const struct firn_plan *plan,
                            const struct diff *changes, struct firn_error *err);

#endif
