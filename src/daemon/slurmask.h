/* slurmask.h - the `slurm:` block of a job file as options of Slurm's commands.
 */
#ifndef DAEMON_SLURMASK_H
#define DAEMON_SLURMASK_H
#include "base/arena.h"
#include "daemon/livejob.h"

/* Room for all options, with the NULL at the end. */
enum { SLURMASK_MAX = 40 };

/* FIRN_EINVAL: a value that Slurm's commands must not get, with a sentence. */
enum firn_status slurmask_check(const struct live_ask *ask,
                                struct firn_error *err);
/* Options of sbatch, and of srun; each list ends with NULL. Texts lie in the
 * arena. */
void slurmask_submit(const struct live_ask *ask, struct arena *text,
                     const char *out[SLURMASK_MAX]);
void slurmask_step(const struct live_ask *ask, struct arena *text,
                   const char *out[SLURMASK_MAX]);

#endif
