/* policy_load.h - policies that are not built in: checked, loaded, found.
 */
#ifndef POLICY_LOAD_H
#define POLICY_LOAD_H
#include <firn/policy.h>

/* Copies `given`, which may be of an older and thus shorter kind, to `out`.
 * FIRN_EINVAL names what is wrong with it. */
enum firn_status policy_adopt(struct firn_policy_def *out,
                              const struct firn_policy_def *given,
                              struct firn_error *err);

/* The loaded policy of that name; NULL: none. */
const struct firn_policy_def *policy_loaded(const char *name);

#endif
