/* cell.c - mkdir, chown, cgroup.procs, cgroup.kill: see the header.
 */
#define _GNU_SOURCE
#include "launch/cell.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char root[] = "/sys/fs/cgroup/firn";

bool cell_open(void)
{
    return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 &&
           (mkdir(root, 0755) == 0 || errno == EEXIST);
}

static bool put(const char *folder, const char *file, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_put =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_put;
}

void cell_enter(int job, int64_t attempt, uid_t uid, gid_t gid)
{
    static const char *const files[] = {"", "cgroup.procs", "cgroup.threads",
                                        "cgroup.subtree_control"};
    char folder[200], path[300];
    snprintf(folder, sizeof folder, "%s/%d-%lld", root, job,
             (long long)attempt);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return;
    bool is_given = true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        is_given = is_given && (chown(path, uid, gid) == 0 || errno == ENOENT);
    }
    if (!is_given || !put(folder, "cgroup.procs", "0"))
        rmdir(folder);
}

/* Is a folder of that name one of the job's? */
static bool is_of_job(const char *name, int job)
{
    char *end = NULL;
    return strtol(name, &end, 10) == job && end != name && *end == '-';
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

long cell_end(int job)
{
    long nleft = 0;
    DIR *list = opendir(root);
    if (list == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(list)) != NULL;) {
        char folder[sizeof root + 300];
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        snprintf(folder, sizeof folder, "%s/%s", root, e->d_name);
        if (is_of_job(e->d_name, job))
            put(folder, "cgroup.kill", "1");
        remove_below(folder);
        if (rmdir(folder) != 0 && errno == EBUSY && is_of_job(e->d_name, job))
            nleft = 1;
    }
    closedir(list);
    return nleft;
}
