/* launchslurm.h - the arguments that the launcher passes to Slurm's commands.
 *
 * The launcher (src/launch) runs sbatch and scancel as a user for firnd. What
 * it passes on is a closed list: no option that names a file, a program, an
 * environment or another user, and only jobs that carry firn's tag of the
 * attempt that the request is about.
 */
#ifndef ENGINE_LAUNCHSLURM_H
#define ENGINE_LAUNCHSLURM_H
#include <firn/bytes.h>
#include <stdbool.h>
#include <stdint.h>

/* The attempt that a request is about. */
struct launchslurm_job {
    int job;
    int64_t attempt;
};

/* Functions of their bytes. `words` has a line for each argument. */
bool launchslurm_is_sbatch(struct firn_bytes words,
                           const struct launchslurm_job *job);
/* Of arguments that launchslurm_is_sbatch() took: is it a further allocation of
 * an attempt that runs? */
bool launchslurm_is_pilot(struct firn_bytes words,
                          const struct launchslurm_job *job);
bool launchslurm_is_scancel(struct firn_bytes words,
                            const struct launchslurm_job *job);

#endif
