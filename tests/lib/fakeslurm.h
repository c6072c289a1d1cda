/* fakeslurm.h - Slurm's commands, played by the test program itself.
 *
 * In the folder `slurm/bin` of the case are sbatch, squeue, scancel, scontrol
 * and srun, all links to the running program, whose main() begins with
 *
 *     int code = fakeslurm_main(argc, argv);
 *     if (code >= 0)
 *         return code;
 *
 * Jobs are real processes of this host; the controller is a folder of files.
 * There are two nodes, n0 and n1, of four GPUs v100 each, by slots, with four
 * shards a GPU, in partition main. What goes wrong is for the test to say.
 */
#ifndef LIB_FAKESLURM_H
#define LIB_FAKESLURM_H
#include <stdbool.h>
#include <stdint.h>

/* What main() has to return; -1: this is not one of Slurm's commands. */
int fakeslurm_main(int argc, char **argv);

/* Makes it, in folder_path(), and puts it into PATH. */
void fakeslurm_open(void);
const char *fakeslurm_path(void); /* of the commands */

/* How a command behaves from now on; "": well.
 *
 *     away    there is no controller
 *     babble  it prints text that has no known form
 *     refuse  sbatch: the controller says no, once
 *     deaf    sbatch: the job is taken, but the answer is lost, once
 *     slow    squeue: the answer is of now, and is heard when all is well
 *     hang    sbatch: the job is taken, and nothing is heard, once;
 *             srun: it does not notice that its tasks are gone
 */
void fakeslurm_say(const char *command, const char *how);
/* Is scontrol told to be "away"? */
bool fakeslurm_is_away(void);
/* Did this command say that there is no controller, or is it slow, since it was
 * told to? */
bool fakeslurm_was_away(const char *command);
/* Jobs wait as long as this is so. */
void fakeslurm_hold(bool is_held);
/* A node's State=, GresUsed= and Reason=. */
void fakeslurm_node(const char *name, const char *state, const char *used,
                    const char *why);
/* A node's Gres=. */
void fakeslurm_gres(const char *name, const char *gres);
/* The type of all GPUs without slots and shards. */
void fakeslurm_plain(void);

/* How many jobs sbatch took, how many scancel was called for. */
int fakeslurm_submitted(void);
int fakeslurm_cancelled(void);
/* The state of a job as squeue tells it; "": it is not known. */
const char *fakeslurm_state(int64_t id);
/* Puts a line of squeue in place of a job; NULL: it is forgotten. */
void fakeslurm_line(int64_t id, const char *line);
/* The words of the last sbatch, one a line. */
const char *fakeslurm_words(void);
/* The pid of a job's batch step; 0: none yet. */
int fakeslurm_batch(int64_t id);

#endif
