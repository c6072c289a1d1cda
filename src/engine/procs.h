/* procs.h - the processes of this host, by /proc.
 *
 * A process is known by its number and the moment it started: numbers are
 * used again, pairs are not. Signals are sent through a pidfd where the kernel
 * has them, after a look at the start, so that nobody else is hit.
 */
#ifndef ENGINE_PROCS_H
#define ENGINE_PROCS_H
#include "base/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When it started, in the kernel's ticks since boot; 0: there is none, or it
 * is dead and only waited for. */
uint64_t procs_start(pid_t pid);

/* A descriptor that is readable once the process is over; -1: no such process,
 * or no such call in this kernel. */
int procs_open(pid_t pid);

/* False: that process is gone. */
bool procs_signal(pid_t pid, uint64_t start, int number);

/* Sends to everything that descends from `root`, not to itself; how many. */
size_t procs_signal_below(pid_t root, int number);

/* Does it, or does a descendant of it, have a handler for this signal? Sends it
 * to the uppermost that do; false: nobody has one yet. A process without a
 * handler would die of it. */
bool procs_ask(pid_t pid, int number);

/* What belongs together though its common parent is gone: whoever has the file
 * open, was started with the variable (NULL: none), or is in the session (0:
 * none) and at its end, when files and environment are no longer to be seen.
 * Being in the session alone is not enough: its number may be another's by now.
 */
struct procs_marks {
    dev_t device;
    ino_t inode;
    pid_t session;
    const char *variable;
    uint64_t since; /* who started before is none of them; 0: anybody may be */
};

/* One that was seen, and is not taken for another of its number. */
struct procs_id {
    pid_t pid;
    uint64_t start;
};
struct procs_seen {
    VEC(struct procs_id) ids;
};

/* Kills all of them but the caller, and adds the new ones to `seen` (NULL:
 * nobody asks). 0: there was nobody, and of those seen before nobody is left.
 * Who was found counts though it is dead by now, since it may have forked in
 * between; and one at its end has closed its files while its memory is still
 * being given back, and then nothing tells whose it was. */
size_t procs_kill_marked(const struct procs_marks *marks,
                         struct procs_seen *seen);
/* How many of them are still there; the others are dropped. */
size_t procs_left(struct procs_seen *seen);

/* Does its environment have a variable whose beginning is `start`? 0 of a
 * process that we may not look into; -1: nothing is to be seen, for there is no
 * such process here, or it is at its end, or its environment is empty. */
int procs_has_variable(pid_t pid, const char *start);

/* Is this what the kernel calls it, 15 letters at most? */
bool procs_is_named(pid_t pid, const char *name);

#endif
