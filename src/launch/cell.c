/* cell.c - mkdir, limits, cgroup.procs, kill, rmdir: see the header.
 *
 * In version 1 a limit is a file of the controller's own hierarchy, in version
 * 2 all are files of one folder; the devices of version 2 are a program
 * (launch/devices.h). limits[] is the table: what asks for a limit, and how it
 * is set.
 */
#define _GNU_SOURCE
#include "launch/cell.h"
#include "launch/devices.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 80, ABOVE = 120, FOLDER = 220, CPU_PERIOD_US = 100000 };

/* Where groups are made: one place in version 2, one for each controller in
 * version 1. */
static struct place {
    char folder[ABOVE];     /* of all groups of firn */
    const char *controller; /* NULL: all of version 2 */
} places[5];
static size_t nplaces;
static int version;
static struct cell_limits limits;
static bool closes_gpus;

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

/* --- limits --------------------------------------------------------------- */

/* Swap would only make a job slow that needs more than it may have. A host
 * without an account of swap has no such file. */
static bool limit_memory(const char *folder, struct cell_gpus gpus)
{
    (void)gpus;
    bool is_set = put_number(
        folder, version == 2 ? "memory.max" : "memory.limit_in_bytes",
        limits.memory_bytes);
    if (version == 2)
        put(folder, "memory.swap.max", "0");
    else
        put_number(folder, "memory.memsw.limit_in_bytes", limits.memory_bytes);
    return is_set;
}

static bool limit_pids(const char *folder, struct cell_gpus gpus)
{
    (void)gpus;
    return put_number(folder, "pids.max", limits.pids);
}

static bool limit_cpus(const char *folder, struct cell_gpus gpus)
{
    char text[64];
    (void)gpus;
    if (version == 1)
        return put_number(folder, "cpu.cfs_period_us", CPU_PERIOD_US) &&
               put_number(folder, "cpu.cfs_quota_us",
                          limits.cpus * CPU_PERIOD_US);
    snprintf(text, sizeof text, "%lld %d",
             (long long)limits.cpus * CPU_PERIOD_US, CPU_PERIOD_US);
    return put(folder, "cpu.max", text);
}

/* The text of a file of the group above; "": none. */
static void read_above(const char *folder, const char *file,
                       char out[CPUS_TEXT])
{
    char path[FOLDER + 60];
    snprintf(path, sizeof path, "%s/../%s", folder, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, CPUS_TEXT - 1) : -1;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
}

/* In version 1 a group has no memory node until it is given some. */
static bool copy_mems(const char *folder)
{
    char mems[CPUS_TEXT];
    read_above(folder, "cpuset.mems", mems);
    return version == 2 || put(folder, "cpuset.mems", mems);
}

static bool limit_cpuset(const char *folder, struct cell_gpus gpus)
{
    char text[CPUS_TEXT];
    struct cpus own = limits.cpuset;
    if (limits.cpus_per_gpu > 0 &&
        !cpus_of_gpus(&limits.cpuset, gpus.places, (size_t)limits.cpus_per_gpu,
                      &own))
        return false;
    cpus_write(&own, text);
    return copy_mems(folder) && put(folder, "cpuset.cpus", text);
}

static bool limit_devices(const char *folder, struct cell_gpus gpus)
{
    return version == 2 ? devices_set_v2(folder, gpus.devices)
                        : devices_set_v1(folder, gpus.devices);
}

static bool wants_memory(void)
{
    return limits.memory_bytes > 0;
}

static bool wants_pids(void)
{
    return limits.pids > 0;
}

static bool wants_cpus(void)
{
    return limits.cpus > 0;
}

static bool wants_cpuset(void)
{
    return limits.cpuset.n > 0;
}

static bool wants_devices(void)
{
    return closes_gpus;
}

static const struct limit {
    const char *controller;
    bool (*is_wanted)(void);
    bool (*set)(const char *folder, struct cell_gpus gpus);
    bool follows_gpus; /* it is set again when the attempt has other GPUs */
} table[] = {{"memory", wants_memory, limit_memory, false},
             {"pids", wants_pids, limit_pids, false},
             {"cpu", wants_cpus, limit_cpus, false},
             {"cpuset", wants_cpuset, limit_cpuset, true},
             {"devices", wants_devices, limit_devices, true}};
enum { NTABLE = sizeof table / sizeof *table };

/* Sets the limits of a controller (NULL: all); *any: was one asked for? */
static bool limit(const char *folder, const char *controller,
                  struct cell_gpus gpus, bool only_gpus, bool *any)
{
    bool is_set = true;
    for (size_t i = 0; i < NTABLE; i++) {
        const struct limit *one = &table[i];
        if (!one->is_wanted() || (only_gpus && !one->follows_gpus) ||
            (controller != NULL && strcmp(controller, one->controller) != 0))
            continue;
        *any = true;
        is_set = is_set && one->set(folder, gpus);
    }
    return is_set;
}

/* --- groups --------------------------------------------------------------- */

static void use(const char *root, const char *controller)
{
    struct place *place = &places[nplaces];
    int n = snprintf(place->folder, sizeof place->folder, "%s%s%s/firn", root,
                     controller != NULL ? "/" : "",
                     controller != NULL ? controller : "");
    place->controller = controller;
    if (n > 0 && (size_t)n < sizeof place->folder && make(place->folder))
        nplaces++;
}

static const struct place *place_of(const char *controller)
{
    for (size_t i = 0; i < nplaces; i++)
        if (version == 2 || strcmp(places[i].controller, controller) == 0)
            return &places[i];
    return NULL;
}

/* In version 2 a controller must be handed down from the root. In version 1 a
 * group of processors needs some before one below it can have them. */
static bool has_controller(const char *root, const char *controller)
{
    char word[16], text[CPUS_TEXT];
    const struct place *place = place_of(controller);
    bool is_devices = strcmp(controller, "devices") == 0;
    if (place == NULL)
        return false;
    if (is_devices)
        return version == 2 ? devices_can_v2(place->folder)
                            : devices_can_v1(place->folder);
    if (version == 2) {
        snprintf(word, sizeof word, "+%s", controller);
        put(root, "cgroup.subtree_control", word);
        return put(place->folder, "cgroup.subtree_control", word);
    }
    if (strcmp(controller, "cpuset") != 0)
        return true;
    read_above(place->folder, "cpuset.cpus", text);
    return copy_mems(place->folder) && put(place->folder, "cpuset.cpus", text);
}

int cell_open(const char *root, const struct cell_limits *wanted,
              const char **lacks, bool *closes)
{
    char unified[ABOVE + 40];
    limits = *wanted;
    if (limits.cpus_per_gpu > 0 && limits.cpuset.n == 0)
        cpus_here(&limits.cpuset);
    closes_gpus = limits.devices != CELL_ALL;
    nplaces = 0;
    *lacks = NULL;
    snprintf(unified, sizeof unified, "%s/cgroup.controllers", root);
    if (access(unified, F_OK) == 0)
        use(root, NULL);
    else
        for (size_t i = 0; i < NTABLE; i++)
            if (table[i].is_wanted != wants_cpuset || wants_cpuset())
                use(root, table[i].controller); /* none enters an empty set */
    version = nplaces == 0 ? 0 : places[0].controller == NULL ? 2 : 1;
    for (size_t i = 0; i < NTABLE; i++)
        if (table[i].is_wanted() &&
            (version == 0 || !has_controller(root, table[i].controller))) {
            if (table[i].is_wanted == wants_devices)
                closes_gpus = false;
            if (table[i].is_wanted != wants_devices ||
                limits.devices == CELL_OWN)
                *lacks = table[i].controller;
        }
    *closes = closes_gpus;
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

static void name_folder(char out[FOLDER], const struct place *place,
                        const char *mark, int job, int64_t attempt)
{
    snprintf(out, FOLDER, "%.119s/%.20s-%d-%lld", place->folder, mark, job,
             (long long)attempt);
}

bool cell_enter(const char *mark, int job, int64_t attempt,
                struct cell_gpus gpus, uid_t uid, gid_t gid)
{
    bool is_limited = true;
    for (size_t i = 0; i < nplaces; i++) {
        char folder[FOLDER];
        bool has_limit = false;
        name_folder(folder, &places[i], mark, job, attempt);
        bool is_made = make(folder);
        bool is_set =
            limit(folder, places[i].controller, gpus, false, &has_limit) &&
            is_made;
        bool is_in = is_made && (version == 1 || give(folder, uid, gid)) &&
                     put(folder, "cgroup.procs", "0");
        is_limited = is_limited && (!has_limit || (is_set && is_in)); /* (1) */
        if (is_made && !is_in)
            rmdir(folder);
    }
    return is_limited;
}

bool cell_change(const char *mark, int job, int64_t attempt,
                 struct cell_gpus gpus)
{
    bool is_limited = true;
    for (size_t i = 0; i < nplaces; i++) {
        char folder[FOLDER];
        bool has_limit = false;
        name_folder(folder, &places[i], mark, job, attempt);
        bool is_set =
            limit(folder, places[i].controller, gpus, true, &has_limit);
        is_limited = is_limited && (!has_limit || is_set);
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
        snprintf(folder, sizeof folder, "%.119s/%.80s", above, e->d_name);
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
