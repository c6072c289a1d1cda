/* faultplan.c - which system call of which program fails next, and how.
 */
#define _GNU_SOURCE
#include "lib/faultplan.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct faultplan *faultplan_make(const char *path)
{
    struct faultplan *plan = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *plan) == 0)
        plan =
            mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return plan != MAP_FAILED ? plan : NULL;
}

void faultplan_free(struct faultplan *plan)
{
    if (plan != NULL)
        munmap(plan, sizeof *plan);
}

void faultplan_strike(struct faultplan *plan, enum fault_role role,
                      enum fault_call call, int error, long nth, long length)
{
    faultplan_stop(plan);
    memset(plan->only, 0, sizeof plan->only);
    for (int r = 0; r < FAULT_ROLES; r++)
        for (int c = 0; c < FAULT_CALLS; c++)
            plan->counts[r][c] = 0;
    plan->nstruck = 0;
    memset(plan->struck, 0, sizeof plan->struck);
    plan->role = role;
    plan->call = call;
    plan->error = error;
    plan->length = length;
    plan->nth = nth;
}

void faultplan_stop(struct faultplan *plan)
{
    plan->nth = 0;
    plan->is_disk_full = 0;
    plan->sync_us = 0;
    plan->clock_s = 0;
}

const char *fault_role_name(enum fault_role role)
{
    static const char *const names[] = {
#define X(code, name) name,
        FAULT_ROLE_MAP(X)
#undef X
    };
    return names[role];
}

const char *fault_call_name(enum fault_call call)
{
    static const char *const names[] = {
#define X(code, name) name,
        FAULT_CALL_MAP(X)
#undef X
    };
    return names[call];
}

const char *fault_error_name(int error)
{
    return error == FAULT_SHORT ? "short" : strerrorname_np(error);
}

const int *fault_errors(enum fault_call call)
{
    static const int tried[FAULT_CALLS][8] = {
        [FAULT_OPEN] = {EMFILE, ENFILE, EIO, EACCES, EINTR, ENOSPC},
        [FAULT_READ] = {EIO, EINTR},
        [FAULT_WRITE] = {EIO, EINTR, ENOSPC, FAULT_SHORT},
        [FAULT_PIPE] = {EINTR},
        [FAULT_RENAME] = {EIO, EACCES, ENOSPC},
        [FAULT_SYNC] = {EIO, EINTR, ENOSPC},
        [FAULT_TRUNCATE] = {EIO, EINTR, ENOSPC},
        [FAULT_MKDIR] = {EIO, EACCES, ENOSPC},
        [FAULT_UNLINK] = {EIO, EACCES},
        [FAULT_STAT] = {EIO, EACCES},
        [FAULT_LOCK] = {EINTR, ENOLCK},
        [FAULT_FORK] = {EAGAIN, ENOMEM},
        [FAULT_EXEC] = {EACCES, EIO, ENOMEM},
        [FAULT_SOCKET] = {EMFILE, ENFILE, EINTR},
        [FAULT_SEND] = {EINTR, ECONNRESET, FAULT_SHORT},
        [FAULT_EVENT] = {EMFILE, ENFILE, ENOSPC},
        [FAULT_WAIT] = {EINTR},
        [FAULT_MEMORY] = {ENOMEM}};
    return tried[call];
}
