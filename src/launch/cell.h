/* cell.h - a control group for each attempt that is launched, with limits.
 *
 *     version 2   ROOT/firn/MARK-JOB-ATTEMPT
 *     version 1   the same below ROOT/pids, memory, cpu, cpuset and devices, as
 *                 far as these are mounted and root can write them
 *
 * ROOT is /sys/fs/cgroup, but for tests and hosts that mount it elsewhere.
 *
 * MARK is that of firnd's state folder, so that two launchers on a host do not
 * meet. All processes of the attempt are in its groups, which only root can
 * change: a process cannot leave them, nor raise a limit. In version 2 the
 * group is given to firnd's user, whose supervisor may make groups of its own
 * below (engine/cgroup.h); the files of limits stay root's.
 *
 * (1) A limit that is asked for and cannot be set is an error: of cell_open(),
 *     before any job, or of cell_enter(), and then the attempt is not started.
 * (2) Only groups with the mark are ended and removed.
 */
#ifndef LAUNCH_CELL_H
#define LAUNCH_CELL_H
#include "launch/cpus.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* May the processes of an attempt open GPUs that it does not hold? */
enum cell_devices {
    CELL_AUTO, /* no, where the host can close them */
    CELL_OWN,  /* no; an error where the host cannot close them */
    CELL_ALL   /* yes */
};

/* Of each attempt; 0: no limit. */
struct cell_limits {
    int64_t memory_bytes;
    int64_t pids; /* processes and threads */
    int64_t cpus;
    struct cpus cpuset; /* processors for all attempts; none: all of the host */
    int64_t cpus_per_gpu;
    enum cell_devices devices;
};

/* The GPUs of an attempt, in bits. */
struct cell_gpus {
    uint64_t devices; /* N: /dev/nvidiaN (launch/devices.h) */
    uint64_t places;  /* N: GPU N of the host, for cpus_per_gpu */
};

/* The version of control groups that is used: 0 (none), 1 or 2. *lacks: a limit
 * that cannot be set on this host ("memory"); NULL: all can. *closes: are the
 * GPUs of others closed? */
int cell_open(const char *root, const struct cell_limits *wanted,
              const char **lacks, bool *closes);
/* Moves the calling process into the groups of the attempt, with the limits.
 * False: a limit could not be set (1). Without limits failures leave the
 * process where it is. */
bool cell_enter(const char *mark, int job, int64_t attempt,
                struct cell_gpus gpus, uid_t uid, gid_t gid);
/* The attempt has other GPUs now. False: a limit could not be set. */
bool cell_change(const char *mark, int job, int64_t attempt,
                 struct cell_gpus gpus);
/* Kills all processes in groups of the job, and removes empty groups of the
 * mark; 1: some of the job's were not empty. */
long cell_end(const char *mark, int job);

#endif
