/* ckpt_anew.c - a job that begins anew: its checkpoints do not count any more.
 *
 * The scheduler orders it of a job that began with another job's weights and
 * does worse for them (FIRN_ANEW=N: attempt N is the first of the new
 * beginning). The variable is set for every attempt from N on, and the trainer
 * removes the checkpoints once: the file NAME.anew in their folder then holds
 * N. A crash in between leaves checkpoints and no such file, and the next
 * attempt removes them.
 */
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <firn/ckpt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 300 };

/* The number in the file; 0: there is none. */
static int read_mark(int dir, const char *file)
{
    char text[16] = "";
    long n = 0;
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (got > 0)
        text[got] = '\0';
    return got > 0 && str_int(text, 0, 1 << 30, &n) ? (int)n : 0;
}

static bool write_mark(int dir, const char *file, int attempt)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", attempt);
    int fd = openat(
        dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written =
        fd >= 0 && write(fd, text, (size_t)n) == n && fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0)
        is_written = false;
    return is_written && fsync(dir) == 0;
}

/* NAME-000000000012.ckpt */
static bool is_checkpoint(const char *file, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(file, name, n) != 0 || file[n] != '-')
        return false;
    const char *at = file + n + 1;
    size_t digits = strspn(at, "0123456789");
    return digits > 0 && strcmp(at + digits, ".ckpt") == 0;
}

static bool remove_all(DIR *folder, const char *name)
{
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        if (is_checkpoint(entry->d_name, name) &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            return false;
    return true;
}

enum firn_status firn_ckpt_anew(const char *dir, const char *name, int attempt,
                                struct firn_error *err)
{
    char file[NAME_MAX_BYTES];
    int length = snprintf(file, sizeof file, "%s.anew", name);
    if (length < 0 || length >= (int)sizeof file)
        return firn_fail(err, FIRN_EINVAL, "the name of the job is too long");
    DIR *folder = opendir(dir);
    if (folder == NULL && errno == ENOENT)
        return FIRN_OK; /* there is no checkpoint */
    bool is_done = folder != NULL;
    if (is_done && read_mark(dirfd(folder), file) < attempt)
        is_done = remove_all(folder, name) &&
                  write_mark(dirfd(folder), file, attempt);
    enum firn_status status =
        is_done ? FIRN_OK
                : firn_fail(err, FIRN_EIO,
                            "%s: cannot remove the checkpoints of job %s, "
                            "which is to begin anew: %s",
                            dir, name, strerror(errno));
    if (folder != NULL)
        closedir(folder);
    return status;
}
