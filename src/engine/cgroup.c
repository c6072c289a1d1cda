/* cgroup.c - mkdir, cgroup.procs, cgroup.kill, memory.events.
 *
 * Our own group is the line "0::/path" of /proc/self/cgroup, below the mount
 * point of a file system of type cgroup2. No controller is switched on: that
 * needs a group without processes, which only the operator can arrange;
 * memory.events is read if it exists.
 */
#define _GNU_SOURCE
#include "engine/cgroup.h"
#include "base/lines.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PATH_SIZE = 512 };

/* The fifth field of "... /sys/fs/cgroup rw,... - cgroup2 ...". */
static bool mount_point(char out[PATH_SIZE])
{
    struct lines *lines;
    bool is_found = false;
    if (lines_open(&lines, "/proc/self/mountinfo", NULL) != FIRN_OK)
        return false;
    for (char *line; !is_found && (line = lines_next(lines)) != NULL;) {
        if (strstr(line, " - cgroup2 ") == NULL)
            continue;
        char *at = line;
        for (int i = 0; i < 4 && at != NULL; i++) {
            at = strchr(at, ' ');
            at = at != NULL ? at + 1 : NULL;
        }
        if (at != NULL) {
            at[strcspn(at, " ")] = '\0';
            is_found = str_copy(out, PATH_SIZE, at);
        }
    }
    lines_close(lines);
    return is_found;
}

/* The path behind `word` in a line of /proc/self/cgroup. */
static bool group_of(const char *word, char out[CGROUP_PATH])
{
    struct lines *lines;
    bool is_found = false;
    if (lines_open(&lines, "/proc/self/cgroup", NULL) != FIRN_OK)
        return false;
    for (char *line; !is_found && (line = lines_next(lines)) != NULL;) {
        const char *at = strchr(line, ':');
        is_found = at != NULL && strncmp(at, word, strlen(word)) == 0 &&
                   str_copy(out, CGROUP_PATH, at + strlen(word));
    }
    lines_close(lines);
    return is_found;
}

bool cgroup_of_memory(char out[CGROUP_PATH])
{
    return group_of(":memory:", out) || group_of("::", out);
}

static bool is_delegated(const char *path)
{
    char value = '0';
    return (getxattr(path, "user.delegate", &value, 1) == 1 ||
            getxattr(path, "trusted.delegate", &value, 1) == 1) &&
           value == '1';
}

void cgroup_name(char out[CGROUP_NAME], int64_t job, int64_t attempt,
                 int64_t pid)
{
    snprintf(out, CGROUP_NAME, "firn-%lld-%lld-%lld", (long long)job,
             (long long)attempt, (long long)pid);
}

/* The path of the group `name`, whether or not it exists. */
static bool find_path(struct cgroup *cgroup, enum cgroup_mode mode,
                      const char *name)
{
    char mount[PATH_SIZE], group[CGROUP_PATH], path[sizeof cgroup->path];
    *cgroup = (struct cgroup){.folder = -1};
    if (mode == CGROUP_OFF || !mount_point(mount) || !group_of("::", group))
        return false;
    int n = snprintf(path, sizeof path, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof path ||
        (mode == CGROUP_AUTO && !is_delegated(path)))
        return false;
    n = snprintf(cgroup->path, sizeof cgroup->path, "%s/%s", path, name);
    return n > 0 && (size_t)n < sizeof cgroup->path;
}

bool cgroup_open(struct cgroup *cgroup, enum cgroup_mode mode, const char *name)
{
    if (!find_path(cgroup, mode, name) ||
        (mkdir(cgroup->path, 0755) != 0 && errno != EEXIST))
        return false;
    cgroup->folder = open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return cgroup->folder >= 0;
}

static int remove_group(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
    (void)st;
    (void)at;
    if (type == FTW_DP)
        rmdir(path);
    return 0;
}

/* Removes a group, with the groups that the job made in it. */
static void remove_all(const char *path)
{
    nftw(path, remove_group, 16, FTW_DEPTH | FTW_PHYS);
}

void cgroup_remove(enum cgroup_mode mode, const char *name)
{
    struct cgroup cgroup;
    if (find_path(&cgroup, mode, name))
        remove_all(cgroup.path);
}

static bool put(const struct cgroup *cgroup, const char *file, const char *text)
{
    if (cgroup->folder < 0)
        return false;
    int fd = openat(cgroup->folder, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_put = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return is_put;
}

bool cgroup_enter(const struct cgroup *cgroup)
{
    return put(cgroup, "cgroup.procs", "0");
}

bool cgroup_add(const struct cgroup *cgroup, int64_t pid)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)pid);
    return put(cgroup, "cgroup.procs", text);
}

void cgroup_kill(const struct cgroup *cgroup)
{
    (void)put(cgroup, "cgroup.kill", "1");
}

/* Reads the number behind `word` in a file and closes it; false: none. */
static bool find_number(int fd, const char *word, uint64_t *out)
{
    char text[1024];
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, word);
    if (at != NULL)
        *out = strtoull(at + strlen(word), NULL, 10);
    return at != NULL;
}

/* The number behind `word` in a file of the group; 0: none. */
static uint64_t number_in(const struct cgroup *cgroup, const char *file,
                          const char *word)
{
    uint64_t number = 0;
    if (cgroup->folder >= 0)
        find_number(openat(cgroup->folder, file, O_RDONLY | O_CLOEXEC), word,
                    &number);
    return number;
}

bool cgroup_own_ooms(uint64_t *out)
{
    struct cgroup own;
    return find_path(&own, CGROUP_ON, "memory.events") &&
           find_number(open(own.path, O_RDONLY | O_CLOEXEC), "oom_kill ", out);
}

uint64_t cgroup_ooms(const struct cgroup *cgroup)
{
    return number_in(cgroup, "memory.events", "oom_kill ");
}

bool cgroup_end(enum cgroup_mode mode, const char *name)
{
    struct cgroup cgroup;
    if (!find_path(&cgroup, mode, name))
        return false;
    cgroup.folder = open(cgroup.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup.folder < 0)
        return false;
    bool is_killed = put(&cgroup, "cgroup.kill", "1");
    bool is_there = number_in(&cgroup, "cgroup.events", "populated ") > 0;
    close(cgroup.folder);
    return is_killed && is_there;
}

void cgroup_close(struct cgroup *cgroup)
{
    if (cgroup->folder < 0)
        return;
    close(cgroup->folder);
    remove_all(cgroup->path);
    cgroup->folder = -1;
}
