/* tickjob.h - a job in ticks that checkpoints, and notices company.
 *
 * A worker holds two locks while it lives: one of its rank in its job, one of
 * its GPU by node and index, as Slurm gives them. They are files below
 * `folder`, and the kernel drops them with the process, however it ends. Ticks
 * done are kept in a file of the job by its first worker, now and then; asked
 * to stop (SIGUSR1) it keeps all of them and ends with FIRN_EXIT_CHECKPOINT.
 * The ledger has a line of one length for each thing that happened:
 *
 *     begin   it has both locks
 *     saved   it leaves by a checkpoint
 *     end     all ticks are done
 *     job     another process has this rank of this job
 *     gpu     another process has this GPU
 */
#ifndef TESTS_LIB_TICKJOB_H
#define TESTS_LIB_TICKJOB_H
#include <stddef.h>

enum { TICKJOB_LINE = 72 };

struct tickjob_line {
    long job, attempt;
    int rank, nranks, gpu;
    char what[8], node[20];
    double at_s; /* of the host's monotonic clock */
};

/* What the process is to do; its exit status. By FIRN_JOB, FIRN_EPOCH, RANK,
 * WORLD_SIZE, LOCAL_RANK, CUDA_VISIBLE_DEVICES and SLURMD_NODENAME. */
int tickjob_work(const char *folder, int nticks);
/* Line `i` of the ledger, from 0; 0: there is none. */
int tickjob_read(const char *folder, size_t i, struct tickjob_line *out);
double tickjob_now_s(void);

#endif
