/* ckpt_write.c - writes a checkpoint: complete, or not at all.
 *
 * Sections are streamed into ".<name>-<step>.ckpt.tmp", their CRC computed on
 * the way, so a checkpoint costs one buffer of memory whatever its size. The
 * order at the end is the one that survives a power cut: write, sync the file,
 * rename, sync the folder; only then are older files removed.
 *
 * (1) A file of a final name is complete: it was synced before it got that
 * name. (2) A failure (a full disk, a bad section) is remembered: the commit
 * fails too, and the temporary file is removed. One exception: if the folder
 *     cannot be synced, the new file is in place, and the error says so.
 * (3) The file just committed is never removed, nor a newer one: a run that
 * went back to an older checkpoint left those. (4) A temporary file is locked
 * while its writer lives. A crash leaves it unlocked, and the next writer of
 * that name removes it. Two writers of one name must be in two processes: a
 * lock belongs to a process.
 *
 * Cost: one pass over the data, memory of a buffer and the names.
 */
#include "train/ckpt_parts.h"
#include "train/crc32c.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, CHUNK = 1 << 18 };

struct firn_ckpt_writer {
    int fd;
    char *dir, *name, *path, *temp;
    uint64_t step;
    uint8_t *buffer;
    size_t used;
    const char **names; /* of the sections; owned */
    size_t nsections, cap;
    uint32_t crc;             /* of the section under way */
    uint32_t crc_of_crcs;     /* of those before */
    struct firn_error broken; /* FIRN_OK: not yet */
};

static enum firn_status tell(const struct firn_ckpt_writer *w,
                             struct firn_error *err)
{
    if (err != NULL)
        *err = w->broken;
    return w->broken.status;
}

static bool broke(struct firn_ckpt_writer *w, int why)
{
    firn_fail(&w->broken, FIRN_EIO, "%s: cannot be written: %s", w->path,
              strerror(why));
    return false;
}

/* --- bytes --- */

static bool write_all(struct firn_ckpt_writer *w, const uint8_t *at, size_t n)
{
    while (n > 0) {
        ssize_t done = write(w->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return broke(w, done < 0 ? errno : EIO);
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static bool flush(struct firn_ckpt_writer *w)
{
    size_t n = w->used;
    w->used = 0;
    return write_all(w, w->buffer, n);
}

/* Small pieces are gathered; of large ones the CRC is taken while they are in
 * the cache. */
static bool emit(struct firn_ckpt_writer *w, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0) {
        size_t part = n < CHUNK ? n : CHUNK;
        w->crc = crc32c_add(w->crc, at, part);
        if (w->used + part > BUFFER && !flush(w))
            return false;
        if (part == CHUNK) {
            if (!write_all(w, at, part))
                return false;
        } else {
            memcpy(w->buffer + w->used, at, part);
            w->used += part;
        }
        at += part;
        n -= part;
    }
    return true;
}

/* The CRC of the section, and zeros up to the next multiple of 16. */
static bool emit_crc(struct firn_ckpt_writer *w, uint64_t nbytes)
{
    uint8_t tail[CKPT_ALIGN + 4] = {0};
    uint8_t sum[4];
    ckpt_put32(sum, w->crc);
    memcpy(tail, sum, sizeof sum);
    w->crc_of_crcs = crc32c_add(w->crc_of_crcs, sum, sizeof sum);
    uint64_t end = nbytes % CKPT_ALIGN + sizeof sum;
    return emit(w, tail, sizeof sum + (size_t)(ckpt_padded(end) - end));
}

/* --- create --- */

static char *temp_path(const char *dir, const char *name, uint64_t step)
{
    size_t n = strlen(dir) + strlen(name) + CKPT_TAIL + sizeof "/..tmp";
    char *path = malloc(n);
    if (path != NULL)
        snprintf(path, n, "%s/.%s-%012" PRIu64 ".ckpt.tmp", dir, name, step);
    return path;
}

/* True: a living process has the lock; else takes it. */
static bool is_held(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock) != 0 &&
           (errno == EACCES || errno == EAGAIN);
}

/* Removes a temporary file that no process writes. */
static void sweep_one(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (!is_held(fd))
        unlink(path);
    close(fd);
}

/* Is it the temporary file of a checkpoint called `name`? */
static bool is_temp(const char *file, const char *name, uint64_t *step)
{
    char plain[FIRN_CKPT_NAME + CKPT_TAIL + 1];
    size_t n = strlen(file);
    if (n < 6 || file[0] != '.' || strcmp(file + n - 4, ".tmp") != 0 ||
        n - 5 >= sizeof plain)
        return false;
    memcpy(plain, file + 1, n - 5);
    plain[n - 5] = '\0';
    return ckpt_is_file(plain, name, step);
}

/* Removes what crashed writers of this name left. A folder that cannot be read
 * fails later, when it is written. */
static void sweep(const struct firn_ckpt_writer *w)
{
    uint64_t step;
    DIR *folder = opendir(w->dir);
    if (folder == NULL)
        return;
    for (struct dirent *e; (e = readdir(folder)) != NULL;)
        if (is_temp(e->d_name, w->name, &step)) {
            char *path = temp_path(w->dir, w->name, step);
            if (path != NULL)
                sweep_one(path);
            free(path);
        }
    closedir(folder);
}

static void discard(struct firn_ckpt_writer *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    for (size_t i = 0; i < w->nsections; i++)
        free((void *)w->names[i]);
    free(w->names);
    free(w->buffer);
    free(w->dir);
    free(w->name);
    free(w->path);
    free(w->temp);
    free(w);
}

void firn_ckpt_drop(struct firn_ckpt_writer *w)
{
    if (w != NULL && w->fd >= 0)
        unlink(w->temp);
    discard(w);
}

static struct firn_ckpt_writer *new_writer(const char *dir, const char *name,
                                           uint64_t step)
{
    struct firn_ckpt_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->fd = -1;
    w->step = step;
    w->dir = strdup(dir);
    w->name = strdup(name);
    w->path = ckpt_path(dir, name, step);
    w->temp = temp_path(dir, name, step);
    w->buffer = malloc(BUFFER);
    if (w->dir != NULL && w->name != NULL && w->path != NULL &&
        w->temp != NULL && w->buffer != NULL)
        return w;
    discard(w);
    return NULL;
}

static enum firn_status begin(struct firn_ckpt_writer *w,
                              struct firn_error *err)
{
    uint8_t head[CKPT_HEAD] = CKPT_MAGIC;
    sweep(w);
    w->fd = open(w->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0 && errno == EEXIST)
        return firn_fail(err, FIRN_EIO, "%s: another process writes it",
                         w->path);
    if (w->fd < 0)
        return firn_fail(err, FIRN_EIO, "%s: cannot be written: %s", w->path,
                         strerror(errno));
    (void)is_held(w->fd);
    ckpt_put32(head + 8, FIRN_CKPT_VERSION);
    emit(w, head, sizeof head);
    return FIRN_OK;
}

enum firn_status firn_ckpt_create(struct firn_ckpt_writer **out,
                                  const char *dir, const char *name,
                                  uint64_t step, struct firn_error *err)
{
    if (!ckpt_is_name(name, strlen(name)) || name[0] == '.' ||
        strchr(name, '/') != NULL)
        return firn_fail(
            err, FIRN_EINVAL,
            "'%s' cannot be a checkpoint's name: it becomes part of "
            "a file's name",
            name);
    if (step >= CKPT_STEPS)
        return firn_fail(err, FIRN_EINVAL,
                         "checkpoint '%s': step %" PRIu64
                         " has more than %d digits",
                         name, step, CKPT_STEP_DIGITS);
    struct firn_ckpt_writer *w = new_writer(dir, name, step);
    if (w == NULL)
        return firn_fail(err, FIRN_ENOMEM, "checkpoint '%s': out of memory",
                         name);
    enum firn_status status = begin(w, err);
    if (status != FIRN_OK) {
        discard(w);
        return status;
    }
    *out = w;
    return FIRN_OK;
}

/* --- put --- */

static bool keep_name(struct firn_ckpt_writer *w, const char *name)
{
    char *copy = strdup(name);
    if (copy != NULL && w->nsections == w->cap) {
        size_t more = w->cap * 2 + 16;
        const char **grown = realloc((void *)w->names, more * sizeof *grown);
        if (grown != NULL) {
            w->names = grown;
            w->cap = more;
        }
    }
    if (copy == NULL || w->nsections == w->cap) {
        free(copy);
        firn_fail(&w->broken, FIRN_ENOMEM, "%s: out of memory", w->path);
        return false;
    }
    w->names[w->nsections++] = copy;
    return true;
}

static bool is_good(struct firn_ckpt_writer *w,
                    const struct firn_ckpt_section *s)
{
    if (s->name == NULL || !ckpt_is_name(s->name, strlen(s->name)))
        firn_fail(&w->broken, FIRN_EINVAL,
                  "%s: '%.200s' cannot be the name of a section: it has 1 to "
                  "%d bytes, none a control character",
                  w->path, s->name == NULL ? "" : s->name, FIRN_CKPT_NAME);
    else if (!ckpt_is_shaped(s))
        firn_fail(&w->broken, FIRN_EINVAL,
                  "%s: section '%s': %" PRIu64
                  " bytes are not what its type and dims make",
                  w->path, s->name, s->nbytes);
    else if (s->nbytes > SIZE_MAX || (s->data == NULL && s->nbytes > 0))
        firn_fail(&w->broken, FIRN_EINVAL, "%s: section '%s' has no data",
                  w->path, s->name);
    return w->broken.status == FIRN_OK;
}

enum firn_status firn_ckpt_put(struct firn_ckpt_writer *w,
                               const struct firn_ckpt_section *s,
                               struct firn_error *err)
{
    if (w->broken.status != FIRN_OK || !is_good(w, s) || !keep_name(w, s->name))
        return tell(w, err);
    uint8_t head[CKPT_HEAD_MAX] = {0};
    size_t nname = strlen(s->name);
    uint8_t *at = head + 16;
    ckpt_put32(head, CKPT_MARK);
    ckpt_put32(head + 4, (uint32_t)s->type);
    ckpt_put32(head + 8, s->ndims);
    ckpt_put32(head + 12, (uint32_t)nname);
    for (unsigned i = 0; i < s->ndims; i++, at += 8)
        ckpt_put64(at, s->dims[i]);
    ckpt_put64(at, s->nbytes);
    memcpy(at + 8, s->name, nname);
    w->crc = 0;
    if (!emit(w, head, ckpt_head_bytes(s->ndims, nname)) ||
        !emit(w, s->data, (size_t)s->nbytes) || !emit_crc(w, s->nbytes))
        return tell(w, err);
    return FIRN_OK;
}

/* --- commit --- */

static int sync_fd(int fd)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

/* File systems that cannot sync a folder say EINVAL. */
static bool sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_synced = sync_fd(fd) == 0 || errno == EINVAL;
    int why = errno;
    close(fd);
    errno = why;
    return is_synced;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first name that is there twice; NULL: none. Sorts them. */
static const char *find_twice(const char **names, size_t n)
{
    if (n > 1)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}

static bool end_file(struct firn_ckpt_writer *w)
{
    uint8_t end[CKPT_END] = {0};
    const char *twice = find_twice(w->names, w->nsections);
    if (twice != NULL) {
        firn_fail(&w->broken, FIRN_EINVAL, "%s: section '%s' was put twice",
                  w->path, twice);
        return false;
    }
    ckpt_put32(end, CKPT_MARK_END);
    ckpt_put64(end + 8, w->nsections);
    ckpt_put32(end + 16, w->crc_of_crcs);
    ckpt_put64(end + 24, CKPT_MAGIC_END);
    return emit(w, end, sizeof end) && flush(w);
}

/* Into place, in the order that survives a power cut. */
static bool settle(struct firn_ckpt_writer *w)
{
    if (sync_fd(w->fd) != 0)
        return broke(w, errno);
    if (rename(w->temp, w->path) != 0)
        return broke(w, errno);
    int fd = w->fd;
    w->fd = -1; /* nothing to unlink */
    close(fd);
    if (sync_folder(w->dir))
        return true;
    firn_fail(&w->broken, FIRN_EIO,
              "%s: is in place, but its folder cannot be synced: %s", w->path,
              strerror(errno));
    return false;
}

/* All but the newest `keep` up to the present one. */
static void prune(const struct firn_ckpt_writer *w, unsigned keep)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    if (ckpt_steps(w->dir, w->name, &steps, &n, NULL) != FIRN_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        if (steps[i] > w->step)
            continue;
        if (keep > 0) {
            keep--;
            continue;
        }
        char *path = ckpt_path(w->dir, w->name, steps[i]);
        if (path != NULL)
            unlink(path);
        free(path);
    }
    free(steps);
}

enum firn_status firn_ckpt_commit(struct firn_ckpt_writer *w, unsigned keep,
                                  struct firn_error *err)
{
    enum firn_status status = FIRN_OK;
    if (w->broken.status == FIRN_OK && end_file(w) && settle(w))
        prune(w, keep > 0 ? keep : 2);
    else
        status = tell(w, err);
    firn_ckpt_drop(w);
    return status;
}
