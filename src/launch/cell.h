/* cell.h - a control group for each attempt that is launched, with limits.
 *
 *     version 2   /sys/fs/cgroup/firn/MARK-JOB-ATTEMPT
 *     version 1   the same below /sys/fs/cgroup/pids, memory and cpu, as far as
 *                 these are mounted and root can write them
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
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of each attempt; 0: no limit. */
struct cell_limits {
    int64_t memory_bytes;
    int64_t pids; /* processes and threads */
    int64_t cpus;
};

/* The version of control groups that is used: 0 (none), 1 or 2. *lacks: a limit
 * that cannot be set on this host ("memory"); NULL: all can. */
int cell_open(const struct cell_limits *wanted, const char **lacks);
/* Moves the calling process into the groups of the attempt, with the limits.
 * False: a limit could not be set (1). Without limits failures leave the
 * process where it is. */
bool cell_enter(const char *mark, int job, int64_t attempt, uid_t uid,
                gid_t gid);
/* Kills all processes in groups of the job, and removes empty groups of the
 * mark; 1: some of the job's were not empty. */
long cell_end(const char *mark, int job);

#endif
