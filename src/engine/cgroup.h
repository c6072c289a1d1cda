/* cgroup.h - a control group for one attempt, where the system allows it.
 *
 * In version 2 of control groups a process cannot leave its group by forking or
 * by a new session, all processes of a group can be killed at once, and the
 * kernel counts the processes that it killed there for lack of memory. The
 * group is made below our own group, if that was delegated to us (systemd's
 * Delegate=yes marks it so) or the operator asks for it. Without a control
 * group everything works too, by process groups and /proc.
 */
#ifndef ENGINE_CGROUP_H
#define ENGINE_CGROUP_H
#include <stdbool.h>
#include <stdint.h>

enum cgroup_mode { CGROUP_AUTO, CGROUP_ON, CGROUP_OFF };

struct cgroup {
    int folder; /* -1: none */
    char path[1024];
};

/* The name for an attempt's group, with the pid of its shepherd: unique on a
 * host. */
enum { CGROUP_NAME = 80 };
void cgroup_name(char out[CGROUP_NAME], int64_t job, int64_t attempt,
                 int64_t pid);

/* Makes and opens the group; `name` has no '/'. False: none can be had. */
bool cgroup_open(struct cgroup *cgroup, enum cgroup_mode mode,
                 const char *name);
/* Moves the calling process into the group; safe after fork(). */
bool cgroup_enter(const struct cgroup *cgroup);
/* Moves another process into the group. */
bool cgroup_add(const struct cgroup *cgroup, int64_t pid);
void cgroup_kill(const struct cgroup *cgroup);
/* How many processes the kernel killed in the group for lack of memory. */
uint64_t cgroup_ooms(const struct cgroup *cgroup);
/* The caller's group for memory, "/a/b", of either version; false: none. */
enum { CGROUP_PATH = 512 };
bool cgroup_of_memory(char out[CGROUP_PATH]);
/* How many processes the kernel killed in the caller's own group and below;
 * false: the group has no counter. */
bool cgroup_own_ooms(uint64_t *out);
/* Removes the group, which must be empty. */
void cgroup_close(struct cgroup *cgroup);
/* Kills all processes in the group of a dead shepherd. True: some are left. */
bool cgroup_end(enum cgroup_mode mode, const char *name);
/* Removes the group if it exists and is empty. */
void cgroup_remove(enum cgroup_mode mode, const char *name);

#endif
