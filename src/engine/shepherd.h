/* shepherd.h - the process that runs one epoch of one job.
 *
 * A shepherd is started by an engine and outlives it. It takes the job's lock,
 * sees by the fence that its epoch is still wanted, starts the workers, hands
 * signals on, waits until the last process that ever came from them is gone,
 * and then writes how it ended. All that it and an engine tell each other are
 * the files of engine/epochfiles.h and two signals:
 *
 *     SIGUSR1   write a checkpoint and leave; after the grace, as SIGTERM
 *     SIGTERM   leave; after the grace, SIGKILL for the whole tree
 *
 * so that the escalation goes on when the scheduler is not there.
 */
#ifndef ENGINE_SHEPHERD_H
#define ENGINE_SHEPHERD_H

/* What it returns: its own fate, not the job's. */
enum shepherd_code {
    SHEPHERD_OVER = 0,    /* the epoch's end is in its exit file */
    SHEPHERD_BAD = 65,    /* no launch file that can be read */
    SHEPHERD_IO = 74,     /* the folder cannot be written */
    SHEPHERD_LOCKED = 75, /* another epoch is still there */
    SHEPHERD_FENCED = 76, /* a newer epoch is wanted, or this one was run */
};

/* `folder` is that of the epoch; the job's is above it. To be called by a
 * program of its own, at its beginning: it closes descriptors and takes over
 * signals. */
int shepherd_main(const char *folder);

/* A shepherd whose workers Slurm starts on other hosts is the batch step of a
 * Slurm job: `PROGRAM --shepherd-slurm FOLDER`. It runs `srun PROGRAM --worker
 * FOLDER MASTER_PORT=...`, whose tasks have a worker each: shepherd_one().
 */
int shepherd_one(const char *folder, const char *port);

/* What main() has to return for one of these, `--shepherd FOLDER` included;
 * -1: its arguments are of another kind. */
int shepherd_args(int argc, char **argv);

#endif
