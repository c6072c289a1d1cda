/* cell.h - a control group (version 2) for each attempt that is launched.
 *
 *     <mount>/firn/JOB-ATTEMPT      made by root, given to firnd's user
 *
 * The supervisor and the workers are in it; the supervisor may make groups of
 * its own below (engine/cgroup.h). Groups without processes are removed.
 */
#ifndef LAUNCH_CELL_H
#define LAUNCH_CELL_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* False: there is no such file system, or it cannot be written. */
bool cell_open(void);
/* Moves the calling process into the group of the attempt. Failures leave it
 * where it is. */
void cell_enter(int job, int64_t attempt, uid_t uid, gid_t gid);
/* Kills all processes in groups of the job, and removes empty groups of all
 * jobs; 1: some of the job's were not empty. */
long cell_end(int job);

#endif
