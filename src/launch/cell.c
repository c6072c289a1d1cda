/* cell.c - mkdir, limits, cgroup.procs, kill, rmdir: see the header.
 */
#define _GNU_SOURCE
#include "launch/cell.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 80, FOLDER = 160, CPU_PERIOD_US = 100000 };

/* Where groups are made: one place in version 2, one for each controller in
 * version 1. */
static struct place {
    const char *folder;     /* of all groups of firn */
    const char *controller; /* NULL: all of version 2 */
} places[3];
static size_t nplaces;
static int version;
static struct cell_limits limits;

static bool put(const char *folder, const char *file, const char *text)
{
    char path[FOLDER + 60];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_put =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_put;
}

static bool put_number(const char *folder, const char *file, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return put(folder, file, text);
}

static bool make(const char *folder)
{
    return mkdir(folder, 0755) == 0 || errno == EEXIST;
}

static void use(const char *folder, const char *controller)
{
    if (make(folder))
        places[nplaces++] = (struct place){folder, controller};
}

/* --- limits --------------------------------------------------------------- */

/* The limit of a controller; 0: none. */
static int64_t limit_of(const char *controller)
{
    return strcmp(controller, "memory") == 0 ? limits.memory_bytes
           : strcmp(controller, "pids") == 0 ? limits.pids
                                             : limits.cpus;
}

/* Swap would only make a job slow that needs more than it may have. A host
 * without an account of swap has no such file. */
static bool limit_memory(const char *folder)
{
    bool is_set = put_number(
        folder, version == 2 ? "memory.max" : "memory.limit_in_bytes",
        limits.memory_bytes);
    if (version == 2)
        put(folder, "memory.swap.max", "0");
    else
        put_number(folder, "memory.memsw.limit_in_bytes", limits.memory_bytes);
    return is_set;
}

static bool limit_cpus(const char *folder)
{
    char text[64];
    if (version == 1)
        return put_number(folder, "cpu.cfs_period_us", CPU_PERIOD_US) &&
               put_number(folder, "cpu.cfs_quota_us",
                          limits.cpus * CPU_PERIOD_US);
    snprintf(text, sizeof text, "%lld %d",
             (long long)limits.cpus * CPU_PERIOD_US, CPU_PERIOD_US);
    return put(folder, "cpu.max", text);
}

static bool limit(const char *folder, const char *controller)
{
    if (limit_of(controller) == 0)
        return true;
    if (strcmp(controller, "memory") == 0)
        return limit_memory(folder);
    return strcmp(controller, "pids") == 0
               ? put_number(folder, "pids.max", limits.pids)
               : limit_cpus(folder);
}

static bool limit_all(const char *folder, const char *controller)
{
    if (controller != NULL)
        return limit(folder, controller);
    return limit(folder, "memory") && limit(folder, "pids") &&
           limit(folder, "cpu");
}

/* --- groups --------------------------------------------------------------- */

/* In version 2 a controller must be handed down from the root. */
static bool has_controller(const char *controller)
{
    char word[16];
    if (version == 2) {
        snprintf(word, sizeof word, "+%s", controller);
        put("/sys/fs/cgroup", "cgroup.subtree_control", word);
        return put(places[0].folder, "cgroup.subtree_control", word);
    }
    for (size_t i = 0; i < nplaces; i++)
        if (strcmp(places[i].controller, controller) == 0)
            return true;
    return false;
}

int cell_open(const struct cell_limits *wanted, const char **lacks)
{
    static const char *const controllers[] = {"memory", "pids", "cpu"};
    limits = *wanted;
    nplaces = 0;
    *lacks = NULL;
    if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) {
        use("/sys/fs/cgroup/firn", NULL);
        version = nplaces > 0 ? 2 : 0;
    } else {
        use("/sys/fs/cgroup/pids/firn", "pids");
        use("/sys/fs/cgroup/memory/firn", "memory");
        use("/sys/fs/cgroup/cpu/firn", "cpu");
        version = nplaces > 0 ? 1 : 0;
    }
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
        if (limit_of(controllers[i]) > 0 &&
            (version == 0 || !has_controller(controllers[i])))
            *lacks = controllers[i];
    return version;
}

/* For the supervisor, in version 2. */
static bool give(const char *folder, uid_t uid, gid_t gid)
{
    static const char *const files[] = {"", "cgroup.procs", "cgroup.threads",
                                        "cgroup.subtree_control"};
    char path[FOLDER + 60];
    bool is_given = true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        is_given = is_given && (chown(path, uid, gid) == 0 || errno == ENOENT);
    }
    return is_given;
}

bool cell_enter(const char *mark, int job, int64_t attempt, uid_t uid,
                gid_t gid)
{
    bool is_limited = true;
    for (size_t i = 0; i < nplaces; i++) {
        char folder[FOLDER];
        snprintf(folder, sizeof folder, "%s/%.20s-%d-%lld", places[i].folder,
                 mark, job, (long long)attempt);
        bool is_made = make(folder);
        bool is_set = is_made && limit_all(folder, places[i].controller);
        bool is_in = is_made && (version == 1 || give(folder, uid, gid)) &&
                     put(folder, "cgroup.procs", "0");
        bool has_limit = version == 2
                             ? limits.memory_bytes + limits.pids + limits.cpus
                             : limit_of(places[i].controller);
        is_limited = is_limited && (!has_limit || (is_set && is_in)); /* (1) */
        if (is_made && !is_in)
            rmdir(folder);
    }
    return is_limited;
}

/* --- ends ----------------------------------------------------------------- */

/* Is it a group of the mark (2), and of the job? */
static bool is_of_mark(const char *name, const char *mark)
{
    size_t n = strlen(mark);
    return strncmp(name, mark, n) == 0 && name[n] == '-';
}

static bool is_of_job(const char *name, const char *mark, int job)
{
    char *end = NULL;
    const char *at = name + strlen(mark) + 1;
    return strtol(at, &end, 10) == job && end != at && *end == '-';
}

/* Version 1 has no cgroup.kill: one by one, until no process is left that
 * could have forked meanwhile. */
static void kill_all(const char *folder)
{
    char path[FOLDER + 60];
    if (put(folder, "cgroup.kill", "1"))
        return;
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    for (int turn = 0; turn < 100; turn++) {
        long pid;
        int nfound = 0;
        FILE *list = fopen(path, "re");
        while (list != NULL && fscanf(list, "%ld", &pid) == 1) { /* NOLINT */
            kill((pid_t)pid, SIGKILL);
            nfound++;
        }
        if (list != NULL)
            (void)fclose(list);
        if (nfound == 0)
            return;
        usleep(1000);
    }
}

/* The groups that a supervisor made below. */
static void remove_below(const char *folder)
{
    DIR *list = opendir(folder);
    if (list == NULL)
        return;
    for (struct dirent *e; (e = readdir(list)) != NULL;)
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            unlinkat(dirfd(list), e->d_name, AT_REMOVEDIR);
    closedir(list);
}

static long end_in(const char *above, const char *mark, int job)
{
    long nleft = 0;
    DIR *list = opendir(above);
    if (list == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(list)) != NULL;) {
        char folder[FOLDER];
        if (e->d_type != DT_DIR || !is_of_mark(e->d_name, mark) ||
            strlen(e->d_name) >= NAME)
            continue;
        bool is_job = is_of_job(e->d_name, mark, job);
        snprintf(folder, sizeof folder, "%.70s/%.80s", above, e->d_name);
        if (is_job)
            kill_all(folder);
        remove_below(folder);
        if (rmdir(folder) != 0 && errno == EBUSY && is_job)
            nleft = 1;
    }
    closedir(list);
    return nleft;
}

long cell_end(const char *mark, int job)
{
    long nleft = 0;
    for (size_t i = 0; i < nplaces; i++)
        if (end_in(places[i].folder, mark, job) > 0)
            nleft = 1;
    return nleft;
}
