/* shepherd.h - the supervisor process of one attempt of one job.
 *
 * An engine starts a shepherd, and the shepherd outlives the engine. It takes
 * the job's lock, checks by the fence that its attempt is still wanted, starts
 * the workers, forwards signals, waits until the last descendant of the workers
 * is gone, and then writes how the attempt ended. Engine and shepherd
 * communicate only by the files of engine/attemptfiles.h and two signals:
 *
 *     SIGUSR1   write a checkpoint and exit; after the grace, as SIGTERM
 *     SIGTERM   exit; after the grace, SIGKILL for the whole process tree
 *
 * so the escalation goes on while the scheduler is down.
 */
#ifndef ENGINE_SHEPHERD_H
#define ENGINE_SHEPHERD_H
#include <stddef.h>
#include <stdint.h>

/* The shepherd's own exit status, not the job's. */
enum shepherd_code {
    SHEPHERD_OVER = 0,    /* the end of the attempt is in its exit file */
    SHEPHERD_BAD = 65,    /* no readable launch file */
    SHEPHERD_IO = 74,     /* the folder cannot be written */
    SHEPHERD_LOCKED = 75, /* an earlier attempt still has processes */
    SHEPHERD_FENCED = 76, /* a newer attempt is wanted, or this one has run */
};

/* Runs the attempt in `folder`; the job's folder is its parent. Must be called
 * at the start of a program of its own: it closes descriptors and takes over
 * signals. */
int shepherd_main(const char *folder);

/* With Slurm, the shepherd is the batch step of a Slurm job: `PROGRAM
 * --shepherd-slurm FOLDER`. It runs `srun PROGRAM --worker FOLDER
 * MASTER_PORT=...`; each task of that step supervises one worker by
 * shepherd_task(). Workers that join are started by `srun PROGRAM --joiner
 * FOLDER MASTER_PORT=... RESIZE WORKER` in a further allocation: `resize` is
 * its number (0: not a joiner), `first` the number of its first worker.
 */
int shepherd_task(const char *folder, const char *port, int64_t resize,
                  size_t first);

/* Keeps a further allocation of the attempt in folder `path` until it is over:
 * `PROGRAM --pilot FOLDER`. */
int shepherd_pilot(const char *path);

/* The exit status for main() if the arguments ask for one of these programs;
 * -1: they do not. */
int shepherd_args(int argc, char **argv);

#endif
