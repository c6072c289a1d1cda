/* procs.h - the processes of this host, by /proc.
 *
 * A process is identified by its number and its start time: numbers are reused,
 * pairs are not. Signals go through a pidfd where the kernel has them, after
 * the start time was compared, so that no other process is hit.
 */
#ifndef ENGINE_PROCS_H
#define ENGINE_PROCS_H
#include "base/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process that could not be read because descriptors or memory are short is
 * not gone. */
enum procs_found {
    PROCS_GONE,   /* no such process, a zombie, or another user's */
    PROCS_THERE,  /* it lives */
    PROCS_UNKNOWN /* not readable now; errno says why */
};
/* Its start, in the kernel's ticks since boot; 0 unless it is THERE. */
enum procs_found procs_look(pid_t pid, uint64_t *start);
/* The same for a process that is known to live, such as a child or the caller;
 * 0: gone, or not readable. */
uint64_t procs_start(pid_t pid);

/* A pidfd, readable once the process has ended; -1: no such process, or no
 * pidfds in this kernel. */
int procs_open(pid_t pid);

/* False: the process is gone. */
bool procs_signal(pid_t pid, uint64_t start, int number);

/* Signals all descendants of `root`, not `root`; returns how many. Each gets
 * `number` and behind it `then` (0: nothing). */
size_t procs_signal_below(pid_t root, int number, int then);

/* Does the process block this signal, to take it from a signalfd? */
bool procs_blocks(pid_t pid, int number);
/* Sends a signal to the process if it has a handler, else to its topmost
 * descendants that have one; false: none has one yet. Without a handler a
 * process would die of the signal. */
bool procs_ask(pid_t pid, int number);

/* What identifies the processes of an attempt whose shepherd is gone: the open
 * file (inode 0: none), one of the variables (NULL: none), or being in the
 * session (0: none) while exiting, when files and environment are no longer
 * visible. The session alone is not enough: its number may have been reused.
 */
enum { PROCS_VARIABLES = 3 };
struct procs_marks {
    dev_t device;
    ino_t inode;
    pid_t session;
    const char *variables[PROCS_VARIABLES];
    uint64_t since; /* earlier processes do not match; 0: any may */
};

/* A process, by number and start. */
struct procs_id {
    pid_t pid;
    uint64_t start;
};
struct procs_seen {
    VEC(struct procs_id) ids;
    int error; /* errno of an incomplete search; 0: the last one was complete */
};

/* Kills all matching processes but the caller, and adds new ones to `seen`
 * (may be NULL). Returns how many matched or are left of `seen`; 0: none.
 * A process that could not be read counts as a match. A match counts even if it
 * is dead by now, because it may have forked meanwhile; and an exiting process
 * has closed its files before its memory is freed. */
size_t procs_kill_marked(const struct procs_marks *marks,
                         struct procs_seen *seen);
/* How many of them still exist; the others are removed from the list. */
size_t procs_left(struct procs_seen *seen);

/* Calls `fn` for each variable of each living process that begins with one of
 * `starts`, with the rest of the variable. False: some processes could not be
 * read (errno). */
typedef void procs_variable_fn(void *arg, struct procs_id id, size_t which,
                               const char *rest);
bool procs_each_variable(const char *const *starts, size_t nstarts,
                         procs_variable_fn *fn, void *arg);

/* 1: the environment has a variable that begins with `start`. 0: it has not, or
 * we may not read it. -1: unknown, because there is no such process, it is
 * exiting, or its environment is empty. */
int procs_has_variable(pid_t pid, const char *start);

/* Resident memory of a process, in MiB; 0: not known. */
double procs_resident_mib(pid_t pid);
/* Memory of the host that programs can have, in MiB; < 0: not known. */
double procs_free_mib(void);

/* The kernel's name of the process is this (15 characters at most). */
bool procs_is_named(pid_t pid, const char *name);

#endif
