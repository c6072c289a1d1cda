/* shepherd_verdict.c - how an attempt ended, from how its workers ended.
 *
 * The first of these that applies:
 *   LOST         a worker on another host vanished: the other workers' ends are
 *                consequences
 *   FAILED,      a worker failed by itself
 *   MEMORY
 *   KILLED       our signals ended a worker, also with status 0: many programs
 *                exit with 0 after SIGTERM, whatever was left to do
 *   CHECKPOINT   a worker exited with the status of a checkpoint
 *   DONE         else
 *
 * MEMORY needs one of: the kernel killed a process of the attempt's control
 * group for lack of memory; a worker died of SIGKILL and the kernel killed one
 * in our own group since the attempt began; the job's last output says so.
 * Where our own group has no counter (the root group, say), the counter is the
 * whole host's, less the kills that the kernel's log attributes to other
 * processes. That log is used only if we may read it and it has our process
 * numbers, which it has not in a container with namespaces of its own.
 */
#define _GNU_SOURCE
#include "engine/shepherdwork.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <firn/launch.h>
#include <firn/report.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t shepherd_ooms(void)
{
    enum { ROOM = 1 << 15 };
    static const char name[] = "\noom_kill ";
    uint64_t own = 0;
    if (cgroup_own_ooms(&own))
        return own;
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    char *text = mem_new(ROOM, 1);
    size_t n = 0;
    ssize_t got;
    while (n < ROOM - 1 && (got = read(fd, text + n, ROOM - 1 - n)) > 0)
        n += (size_t)got;
    close(fd);
    const char *at = strstr(text, name);
    uint64_t count = at != NULL ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
    mem_free(text);
    return count;
}

/* True: this process is in the kernel's initial pid and cgroup namespaces, so
 * the kernel's log uses our names. Their inode numbers are fixed in Linux. */
static bool has_kernels_names(void)
{
    static const ino_t cgroup = 0xeffffffb, pid = 0xeffffffc;
    struct stat pids, groups;
    return stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino == pid &&
           (stat("/proc/self/ns/cgroup", &groups) != 0 ||
            groups.st_ino == cgroup);
}

int shepherd_kernel(void)
{
    uint64_t own = 0;
    if (cgroup_own_ooms(&own) || !has_kernels_names())
        return -1; /* not needed, or in names of another namespace */
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && lseek(fd, 0, SEEK_END) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_worker(const struct shepherd *s, long pid)
{
    for (size_t i = 0; s->workers != NULL && i < s->nworkers; i++)
        if (s->workers[i].pid == pid)
            return true;
    return false;
}

/* The record is "...;oom-kill:...,task_memcg=/a/b,task=tail,pid=71,uid=0". A
 * group above ours is not foreign: it counts for a group without a counter. */
bool shepherd_is_foreign_oom(const struct shepherd *s, const char *group,
                             const char *record)
{
    static const char of[] = ",task_memcg=", who[] = ",pid=";
    const char *at = strstr(record, ";oom-kill:");
    const char *in = at != NULL ? strstr(at, of) : NULL;
    const char *pid = in != NULL ? strstr(in, who) : NULL;
    if (pid == NULL)
        return false;
    in += sizeof of - 1;
    size_t n = strcspn(in, ",\n");
    bool is_above = n <= 1 || (strncmp(group, in, n) == 0 &&
                               (group[n] == '/' || group[n] == '\0'));
    return !is_above && !is_worker(s, strtol(pid + sizeof who - 1, NULL, 10));
}

/* Counts foreign kills. The kernel logs a kill before it counts it. */
static uint64_t foreign_ooms(const struct shepherd *s)
{
    char record[8192], group[CGROUP_PATH];
    uint64_t n = 0;
    if (s->kernel < 0 || !cgroup_of_memory(group))
        return 0;
    for (;;) {
        ssize_t got = read(s->kernel, record, sizeof record - 1);
        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue; /* old records were overwritten */
        if (got <= 0)
            return n;
        record[got] = '\0';
        n += shepherd_is_foreign_oom(s, group, record);
    }
}

/* The last output of this attempt says that memory ran out. */
static bool is_memory_in_log(const struct shepherd *s)
{
    static const char *const phrases[] = {"out of memory", "out_of_memory",
                                          "outofmemory", "memoryerror",
                                          "bad_alloc"};
    char *tail = mem_new(JOBLOG_TAIL + 1, 1);
    bool is_found = false;
    for (size_t i = 0; i < s->output.ntail; i++) {
        char c = s->output.tail[i];
        tail[i] = c == '\0' ? ' ' : (char)tolower((unsigned char)c);
    }
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        is_found = is_found || strstr(tail, phrases[i]) != NULL;
    mem_free(tail);
    return is_found;
}

static bool is_memory(const struct shepherd *s)
{
    if (cgroup_ooms(&s->cgroup) > 0)
        return true;
    uint64_t ooms = s->bad_status == 128 + SIGKILL ? shepherd_ooms() : 0;
    if (ooms > s->ooms && ooms - s->ooms > foreign_ooms(s))
        return true;
    return is_memory_in_log(s);
}

struct attempt_exit shepherd_verdict(const struct shepherd *s)
{
    struct attempt_exit result = {.attempt = s->launch.attempt};
    if (s->is_lost) {
        result.end = FIRN_END_LOST;
    } else if (s->bad_status >= 0) {
        result.end =
            s->is_memory || is_memory(s) ? FIRN_END_MEMORY : FIRN_END_FAILED;
        result.status = s->bad_status;
    } else if (s->ended_status >= 0) {
        result.end = FIRN_END_KILLED;
        result.status = s->ended_status > 0 ? s->ended_status : 128 + SIGTERM;
    } else if (s->has_checkpoint) {
        result.end = FIRN_END_CHECKPOINT;
        result.status = FIRN_EXIT_CHECKPOINT;
    }
    return result;
}
