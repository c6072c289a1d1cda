/* cage.c - mkdir, cgroup.procs, cgroup.kill, memory.events.
 *
 * Our own group is the line "0::/path" of /proc/self/cgroup, below the mount
 * point of a file system of type cgroup2. No controller is switched on: that
 * needs a group without processes of its own, which is the operator's to
 * arrange; memory.events is read where it is there.
 */
#define _GNU_SOURCE
#include "engine/cage.h"
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

/* Of "... /sys/fs/cgroup rw,... - cgroup2 ..." the fifth word. */
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

/* The path behind such a word of a line. */
static bool group_of(const char *word, char out[CAGE_GROUP])
{
    struct lines *lines;
    bool is_found = false;
    if (lines_open(&lines, "/proc/self/cgroup", NULL) != FIRN_OK)
        return false;
    for (char *line; !is_found && (line = lines_next(lines)) != NULL;) {
        const char *at = strchr(line, ':');
        is_found = at != NULL && strncmp(at, word, strlen(word)) == 0 &&
                   str_copy(out, CAGE_GROUP, at + strlen(word));
    }
    lines_close(lines);
    return is_found;
}

bool cage_memory_group(char out[CAGE_GROUP])
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

void cage_name(char out[CAGE_NAME], int64_t job, int64_t epoch, int64_t pid)
{
    snprintf(out, CAGE_NAME, "firn-%lld-%lld-%lld", (long long)job,
             (long long)epoch, (long long)pid);
}

/* Where the group of that name is, or would be. */
static bool find_path(struct cage *cage, enum cage_mode mode, const char *name)
{
    char mount[PATH_SIZE], group[CAGE_GROUP], path[sizeof cage->path];
    *cage = (struct cage){.folder = -1};
    if (mode == CAGE_OFF || !mount_point(mount) || !group_of("::", group))
        return false;
    int n = snprintf(path, sizeof path, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof path ||
        (mode == CAGE_AUTO && !is_delegated(path)))
        return false;
    n = snprintf(cage->path, sizeof cage->path, "%s/%s", path, name);
    return n > 0 && (size_t)n < sizeof cage->path;
}

bool cage_open(struct cage *cage, enum cage_mode mode, const char *name)
{
    if (!find_path(cage, mode, name) ||
        (mkdir(cage->path, 0755) != 0 && errno != EEXIST))
        return false;
    cage->folder = open(cage->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return cage->folder >= 0;
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

/* With those that the job made in it. */
static void remove_all(const char *path)
{
    nftw(path, remove_group, 16, FTW_DEPTH | FTW_PHYS);
}

void cage_remove(enum cage_mode mode, const char *name)
{
    struct cage cage;
    if (find_path(&cage, mode, name))
        remove_all(cage.path);
}

static bool put(const struct cage *cage, const char *file, const char *text)
{
    if (cage->folder < 0)
        return false;
    int fd = openat(cage->folder, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_put = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return is_put;
}

bool cage_enter(const struct cage *cage)
{
    return put(cage, "cgroup.procs", "0");
}

void cage_kill(const struct cage *cage)
{
    (void)put(cage, "cgroup.kill", "1");
}

/* The number behind a word of a file, which is closed; false: there is none. */
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

/* The same of one of its files; 0: there is none. */
static uint64_t number_in(const struct cage *cage, const char *file,
                          const char *word)
{
    uint64_t number = 0;
    if (cage->folder >= 0)
        find_number(openat(cage->folder, file, O_RDONLY | O_CLOEXEC), word,
                    &number);
    return number;
}

bool cage_own_ooms(uint64_t *out)
{
    struct cage own;
    return find_path(&own, CAGE_ON, "memory.events") &&
           find_number(open(own.path, O_RDONLY | O_CLOEXEC), "oom_kill ", out);
}

uint64_t cage_ooms(const struct cage *cage)
{
    return number_in(cage, "memory.events", "oom_kill ");
}

bool cage_end(enum cage_mode mode, const char *name)
{
    struct cage cage;
    if (!find_path(&cage, mode, name))
        return false;
    cage.folder = open(cage.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cage.folder < 0)
        return false;
    bool is_killed = put(&cage, "cgroup.kill", "1");
    bool is_there = number_in(&cage, "cgroup.events", "populated ") > 0;
    close(cage.folder);
    return is_killed && is_there;
}

void cage_close(struct cage *cage)
{
    if (cage->folder < 0)
        return;
    close(cage->folder);
    remove_all(cage->path);
    cage->folder = -1;
}
