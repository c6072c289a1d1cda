/* drive.h - the engine of the simulator under a toy policy.
 *
 * The same engine and round as firn_sim_run(), with a loop as short as
 * possible; the results are written down as text. The work of each job is added
 * up a second time, naively: the test fails if the sum is not the duration
 * (except for rates from a profile). At most 256 jobs, no checkpoints.
 */
#ifndef LIB_DRIVE_H
#define LIB_DRIVE_H
#include "lib/play.h"
#include "sim/simengine.h"
#include <firn/policy.h>

/* How a run went. */
struct drive {
    struct world_spent spent;
    struct firn_buf text; /* "a 130\n": jobs in order of their end */
    double end_s;         /* of the last one */
    long steps;
};

/* Runs the play's trace on its cluster under `policy` until no job is left.
 * The caller releases `out->text`. On failure `out` is as far as it came. */
enum firn_status drive_try(struct play *play,
                           const struct firn_policy_def *policy,
                           struct drive *out);

/* The same; fails the test unless the jobs ended as `want` says. */
struct drive drive_run(struct play *play, const struct firn_policy_def *policy,
                       const char *want);

#endif
