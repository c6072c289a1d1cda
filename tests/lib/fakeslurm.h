/* fakeslurm.h - fakes of Slurm's commands, by the test program itself.
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
 * shards a GPU, in partition main. The test chooses the faults.
 */
#ifndef LIB_FAKESLURM_H
#define LIB_FAKESLURM_H
#include <stdbool.h>
#include <stdint.h>

/* The exit status for main(); -1: argv[0] is not a command of Slurm. */
int fakeslurm_main(int argc, char **argv);

/* Makes the commands in folder_path() and puts them into PATH. */
void fakeslurm_open(void);
const char *fakeslurm_path(void); /* of the commands */

/* Sets how a command behaves from now on; "" for no fault.
 *
 *     away    there is no controller
 *     babble  it prints text that has no known form
 *     refuse  sbatch: the controller says no, once
 *     deaf    sbatch: the job is taken, but the answer is lost, once
 *     slow    squeue: the answer is made now and printed when the fault is over
 *     hang    sbatch: the job is taken, and no answer comes, once;
 *             srun: it does not notice that its tasks are gone
 */
void fakeslurm_say(const char *command, const char *how);
/* True if scontrol has the fault "away". */
bool fakeslurm_is_away(void);
/* True if the command has reported "no controller" or been slow since its fault
 * was set. */
bool fakeslurm_was_away(const char *command);
/* While true, jobs stay pending. */
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
/* Replaces the line that squeue prints for a job; NULL forgets the job. */
void fakeslurm_line(int64_t id, const char *line);
/* The arguments of the last sbatch, one a line. */
const char *fakeslurm_words(void);
/* The pid of a job's batch step; 0: none yet. */
int fakeslurm_batch(int64_t id);

#endif
