/* launcher.h - asks the launcher (src/launch), which starts jobs as their
 * users.
 */
#ifndef ENGINE_LAUNCHER_H
#define ENGINE_LAUNCHER_H
#include "engine/launchmsg.h"

/* Sends a request to the launcher's socket and waits for the answer, some
 * milliseconds, at most ten seconds. `*number` is that of the answer. FIRN_EIO:
 * there is no launcher; FIRN_EREFUSED: its sentence. */
enum firn_status launcher_ask(const char *socket, const struct launchmsg *msg,
                              long *number, struct firn_error *err);

/* firnd --slurm-as SOCKET sbatch|scancel USER JOB ATTEMPT MARK WORD...: has the
 * launcher run that command of Slurm as the user. The exit status for main();
 * -1: the arguments do not ask for it. */
int launcher_args(int argc, char **argv);

#endif
