/* adaptdltiresias.h - Tiresias as AdaptDL's simulator has it.
 */
#ifndef COMPAT_ADAPTDLTIRESIAS_H
#define COMPAT_ADAPTDLTIRESIAS_H
#include <firn/policy.h>

extern const struct firn_policy_def adaptdl_tiresias;

#endif
