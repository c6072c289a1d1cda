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

/* /proc has three answers, too: a process that could not be looked at, since
 * descriptors or memory are short, is not gone. */
enum procs_found {
    PROCS_GONE,   /* there is none, it is only waited for, or it is another
                     user's */
    PROCS_THERE,  /* it lives */
    PROCS_UNKNOWN /* errno says why; ask again */
};
/* When it started, in the kernel's ticks since boot; 0 unless it is THERE. */
enum procs_found procs_look(pid_t pid, uint64_t *start);
/* The same for a process that is known to live, such as a child or the caller;
 * 0: it is gone, or could not be looked at. */
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

/* What belongs together though its common parent is gone: each process that has
 * the file open (inode 0: no file), was started with one of the variables
 * (NULL: none), or is in the session (0: none) and at its end, when files and
 * environment are no longer to be seen. Being in the session alone is not
 * enough: its number may be another's by now.
 */
enum { PROCS_VARIABLES = 3 };
struct procs_marks {
    dev_t device;
    ino_t inode;
    pid_t session;
    const char *variables[PROCS_VARIABLES];
    uint64_t since; /* who started before is none of them; 0: anybody may be */
};

/* One that was seen, and is not taken for another of its number. */
struct procs_id {
    pid_t pid;
    uint64_t start;
};
struct procs_seen {
    VEC(struct procs_id) ids;
    int error; /* errno of the last look that did not see all; 0: it did */
};

/* Kills all of them but the caller, and adds the new ones to `seen` (NULL:
 * nobody asks). 0: there was nobody, and of those seen before nobody is left.
 * A process that could not be looked at counts as one of them.
 * Who was found counts though it is dead by now, since it may have forked in
 * between; and one at its end has closed its files while its memory is still
 * being given back, and then nothing tells whose it was. */
size_t procs_kill_marked(const struct procs_marks *marks,
                         struct procs_seen *seen);
/* How many of them are still there; the others are dropped. */
size_t procs_left(struct procs_seen *seen);

/* Calls `fn` for each variable of each living process that begins with one of
 * `starts`, with the rest of the variable. False: not all processes could be
 * looked at, errno says why. */
typedef void procs_variable_fn(void *arg, struct procs_id id, size_t which,
                               const char *rest);
bool procs_each_variable(const char *const *starts, size_t nstarts,
                         procs_variable_fn *fn, void *arg);

/* Does its environment have a variable whose beginning is `start`? 0 of a
 * process that we may not look into; -1: nothing is to be seen, for there is no
 * such process here, or it is at its end, or its environment is empty. */
int procs_has_variable(pid_t pid, const char *start);

/* Is this what the kernel calls it, 15 letters at most? */
bool procs_is_named(pid_t pid, const char *name);

#endif
