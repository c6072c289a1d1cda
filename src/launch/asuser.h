/* asuser.h - sbatch and scancel as the user whose job it is.
 *
 * Slurm's batch script of an attempt is the attempt's supervisor, and runs as
 * the user on a node. So the files by which it and firnd agree
 * (engine/attemptfiles.h) are given to the user, with firnd's group:
 *
 *     STATE/jobs/N                 2770   log; work and ckpt are the user's
 *     STATE/control/N/lock, workers 660
 *     STATE/control/N/epoch-M      2770   launch, ask, and what it writes
 *
 * A further allocation of an attempt (engine/slurm_pilot.c) is submitted the
 * same way; what firnd writes later into that folder, such as `resize`, the
 * user may read there.
 *
 * STATE/control/N, with the fence, and everything of other jobs stays firnd's.
 * A user can thus spoil the end of the user's own job and nothing else: which
 * GPUs it has is up to Slurm.
 *
 * (1) Files are given away by descriptor: a plain file with one name, or a
 *     folder, of firnd's user or of this user, reached by no link.
 * (2) The command is DIR/sbatch or DIR/scancel, its arguments are of the closed
 *     list (engine/launchslurm.h), its environment and script are made here.
 * (3) It runs as the user, without a way back (engine/identity.h), and so does
 *     the process that starts it and answers.
 */
#ifndef LAUNCH_ASUSER_H
#define LAUNCH_ASUSER_H
#include "engine/identity.h"
#include "engine/launchmsg.h"
#include <pwd.h>

struct launch_slurm {
    const char *state, *shepherd; /* the latter as nodes have it */
    const char *folder;           /* of Slurm's commands */
    const struct identity *own;   /* of firnd */
};

/* Handles a request of SBATCH or SCANCEL and sends the answer to `fd`. For a
 * process of its own: it may take a minute. */
void asuser_serve(const struct launch_slurm *slurm, const struct launchmsg *msg,
                  const struct passwd *entry, const struct identity *user,
                  int fd);

#endif
