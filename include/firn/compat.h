/* compat.h - published simulators, imitated to the second.
 *
 * `firn sim --compat NAME` runs a workload by the rules of a published
 * artifact: its rounds, its rounding, its costs, its known bugs. That shows
 * where firn's numbers agree with the authors' and where they differ, and why
 * (docs/fidelity.md). The default simulator has none of this.
 */
#ifndef FIRN_COMPAT_H
#define FIRN_COMPAT_H
#include <firn/sim.h>

FIRN_C_BEGIN

/* The world of that name, for firn_sim_options.world; NULL with a sentence
 * that names all. */
FIRN_API const struct firn_world_def *firn_compat_find(const char *name,
                                                       struct firn_error *err);

/* All of them, in the order of compat.def. */
FIRN_API const struct firn_world_def *const *firn_compats(size_t *n);

/* Its name and one line about it. */
FIRN_API const char *firn_compat_name(const struct firn_world_def *world);
FIRN_API const char *firn_compat_summary(const struct firn_world_def *world);

FIRN_C_END

#endif
