/* joblog_view.c - both files of a log, read by the offsets of its bytes.
 *
 * The writer may rename `log` to `log.1` between our two open() calls. Then
 * both are the same file, or there is a gap between them: both are opened
 * again. A gap that stays (a file was truncated) means a log without its older
 * half.
 *
 * Checked: both are plain files with one name, reached without symbolic links;
 * the offset in a first line is small enough that sums cannot overflow.
 */
#define _GNU_SOURCE
#include "base/str.h"
#include "engine/joblog.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 200, TRIES = 5, OLDER = 0, NEWER = 1, PATH_SIZE = 4200 };
static const int64_t BASE_MAX = (int64_t)1 << 60;

int64_t joblog_base(const char *text, size_t n)
{
    static const char before[] = "firn: ",
                      behind[] = " bytes of output came before this line;";
    size_t at = sizeof before - 1;
    int64_t base = 0;
    if (n < at || memcmp(text, before, at) != 0)
        return 0;
    size_t first = at;
    for (; at < n && text[at] >= '0' && text[at] <= '9'; at++) {
        if (base > BASE_MAX / 10)
            return 0;
        base = 10 * base + (text[at] - '0');
    }
    if (at == first || n - at < sizeof behind - 1 ||
        memcmp(text + at, behind, sizeof behind - 1) != 0)
        return 0;
    return base;
}

/* False: the path is not a plain file. A missing file is -1. */
static bool open_one(const char *path, int *out, struct stat *st)
{
    *st = (struct stat){0};
    *out = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*out < 0)
        return errno != ELOOP;
    if (fstat(*out, st) == 0 && S_ISREG(st->st_mode) && st->st_nlink <= 1)
        return true; /* a second name may be that of another user's file */
    close(*out);
    *out = -1;
    return false;
}

static int64_t base_of(int fd)
{
    char line[LINE];
    ssize_t n = fd >= 0 ? pread(fd, line, sizeof line, 0) : 0;
    return n > 0 ? joblog_base(line, (size_t)n) : 0;
}

/* False: the two files are not neighbouring halves. */
static bool join(struct joblog_view *view, const struct stat st[2])
{
    bool has_older = view->fd[OLDER] >= 0, has_newer = view->fd[NEWER] >= 0;
    if (has_older && has_newer && st[OLDER].st_ino == st[NEWER].st_ino &&
        st[OLDER].st_dev == st[NEWER].st_dev)
        return false;
    int64_t older = base_of(view->fd[OLDER]);
    int64_t older_end = older + (int64_t)st[OLDER].st_size;
    int64_t newer = base_of(view->fd[NEWER]);
    bool is_headless = !has_newer || (newer == 0 && st[NEWER].st_size == 0);
    if (has_older && is_headless)
        newer = older_end; /* its first line is not written yet */
    view->base[OLDER] = has_older ? older : newer;
    view->base[NEWER] = newer;
    view->first = view->base[OLDER];
    view->end = newer + (int64_t)st[NEWER].st_size;
    return !has_older || older_end == newer;
}

bool joblog_view(struct joblog_view *view, const char *path)
{
    char older[PATH_SIZE];
    snprintf(older, sizeof older, "%s.1", path);
    *view = (struct joblog_view){.fd = {-1, -1}};
    for (int i = 0; i < TRIES; i++) {
        struct stat st[2];
        joblog_view_close(view);
        if (!open_one(path, &view->fd[NEWER], &st[NEWER]))
            return false;
        (void)open_one(older, &view->fd[OLDER], &st[OLDER]);
        if (join(view, st))
            return true;
    }
    if (view->fd[OLDER] >= 0)
        close(view->fd[OLDER]);
    view->fd[OLDER] = -1;
    view->base[OLDER] = view->first = view->base[NEWER];
    return true;
}

void joblog_view_close(struct joblog_view *view)
{
    for (int i = 0; i < 2; i++) {
        if (view->fd[i] >= 0)
            close(view->fd[i]);
        view->fd[i] = -1;
    }
}

ssize_t joblog_read(const struct joblog_view *view, int64_t offset, char *out,
                    size_t n)
{
    int which = offset < view->base[NEWER] ? OLDER : NEWER;
    int64_t stop = which == OLDER ? view->base[NEWER] : view->end;
    if (offset < view->first || offset >= stop || view->fd[which] < 0)
        return 0;
    if ((int64_t)n > stop - offset)
        n = (size_t)(stop - offset);
    return pread(view->fd[which], out, n, (off_t)(offset - view->base[which]));
}
