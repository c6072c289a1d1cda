/* faultplan.h - which system call of which program fails next, and how.
 *
 * A plan is a small file that the test maps, and that every process with
 * tests/fault/faultcalls.so in it maps too (FAULT_PLAN names the file). The
 * library counts the calls of each role in the plan, whatever process makes
 * them, and makes a span of them fail: calls `nth` to `nth + length - 1` of one
 * kind by one role. Counts go on over restarts of a program until the test
 * clears them.
 *
 * Beside that there are switches which hold while they are on: a full disk, a
 * slow disk, a clock that is off.
 */
#ifndef TESTS_LIB_FAULTPLAN_H
#define TESTS_LIB_FAULTPLAN_H
#include <stdatomic.h>
#include <stdbool.h>

/* Known by a program's arguments; a trainer by FIRN_JOB. A child belongs to
 * its parent's role until it executes another program. */
#define FAULT_ROLE_MAP(X)   \
    X(DAEMON, "daemon")     \
    X(SHEPHERD, "shepherd") \
    X(TRAINER, "trainer")

/* Functions of libc that have the same ways to fail are one kind. */
#define FAULT_CALL_MAP(X)   \
    X(OPEN, "open")         \
    X(READ, "read")         \
    X(WRITE, "write")       \
    X(PIPE, "pipe")         \
    X(RENAME, "rename")     \
    X(SYNC, "sync")         \
    X(TRUNCATE, "truncate") \
    X(MKDIR, "mkdir")       \
    X(UNLINK, "unlink")     \
    X(STAT, "stat")         \
    X(LOCK, "lock")         \
    X(FORK, "fork")         \
    X(EXEC, "exec")         \
    X(SOCKET, "socket")     \
    X(SEND, "send")         \
    X(EVENT, "event")       \
    X(WAIT, "wait")         \
    X(MEMORY, "memory")

enum fault_role {
#define X(code, name) FAULT_##code,
    FAULT_ROLE_MAP(X)
#undef X
        FAULT_ROLES
};

enum fault_call {
#define X(code, name) FAULT_##code,
    FAULT_CALL_MAP(X)
#undef X
        FAULT_CALLS
};

enum { FAULT_SHORT = -1 /* half of what is to be written is */ };

struct faultplan {
    _Atomic int role, call, error; /* an errno value, or FAULT_SHORT */
    _Atomic long nth, length;      /* 0: none fails */
    char only[40]; /* only calls on paths with this text count; "": all */
    _Atomic long counts[FAULT_ROLES][FAULT_CALLS];
    _Atomic long nstruck; /* how many calls have failed */
    char struck[200];     /* the first of them, as text */
    /* Switches. */
    _Atomic int is_disk_full; /* no file of daemon and shepherd can grow */
    _Atomic long sync_us;     /* how long each sync takes longer */
    _Atomic long clock_s;     /* what the time of day is off */
};

/* Makes the file and maps it; NULL: it cannot be made. */
struct faultplan *faultplan_make(const char *path);
void faultplan_free(struct faultplan *plan);

/* Sets the fault and clears the counts. */
void faultplan_strike(struct faultplan *plan, enum fault_role role,
                      enum fault_call call, int error, long nth, long length);
/* No call fails any more; counts stay. */
void faultplan_stop(struct faultplan *plan);

const char *fault_role_name(enum fault_role role);
const char *fault_call_name(enum fault_call call);
/* "EIO", "short". */
const char *fault_error_name(int error);
/* The errors that calls of a kind are tried with, 0 behind the last. */
const int *fault_errors(enum fault_call call);

#endif
