/* ckpt_read.c - reads a checkpoint: complete and valid, or an error.
 *
 * A file is read into memory rather than mapped: if it is truncated or removed
 * on another host meanwhile, that is an error or has no effect, never a signal.
 * Its end is read first, so that an incomplete file costs little; then all of
 * it is read and every byte is checked.
 *
 * (1) No length is used before it is known to lie inside the file, and memory
 *     is asked for by the size of the file, never by a number in it.
 * (2) Every byte is covered: by a CRC, by a comparison, or by having to be
 *     zero. So any change of a single byte is an error.
 * (3) Nothing is returned before (2) holds for the whole file.
 *
 * Cost: one pass; names are sorted for looking up.
 */
#include "train/ckpt_parts.h"
#include "train/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct firn_ckpt {
    char *where;
    void *owned; /* the bytes, unless borrowed */
    const uint8_t *bytes;
    size_t n;
    uint64_t step;
    struct firn_ckpt_section *at;
    size_t count;
    char *names; /* of all sections, each terminated */
    struct entry {
        const char *name;
        size_t index;
    } * sorted; /* by name */
};

void firn_ckpt_close(struct firn_ckpt *c)
{
    if (c == NULL)
        return;
    free(c->where);
    free(c->owned);
    free(c->at);
    free(c->names);
    free(c->sorted);
    free(c);
}

static enum firn_status refuse(const struct firn_ckpt *c,
                               struct firn_error *err, const char *why)
{
    return firn_fail(err, FIRN_EINVAL, "%s: %s", c->where, why);
}

static enum firn_status no_memory(const char *where, struct firn_error *err)
{
    return firn_fail(err, FIRN_ENOMEM, "%s: out of memory", where);
}

/* --- head and end --- */

static enum firn_status check_head(const char *where, const uint8_t *head,
                                   uint64_t n, struct firn_error *err)
{
    if (n < 8 || memcmp(head, CKPT_MAGIC, 8) != 0)
        return firn_fail(err, FIRN_EINVAL, "%s: is not a checkpoint", where);
    if (n < CKPT_HEAD + CKPT_END)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is torn: it ends after %" PRIu64 " bytes", where,
                         n);
    uint32_t version = ckpt_get32(head + 8);
    if (version != FIRN_CKPT_VERSION)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is of version %" PRIu32 ", not %d", where,
                         version, FIRN_CKPT_VERSION);
    if (ckpt_get32(head + 12) != 0)
        return firn_fail(err, FIRN_EINVAL, "%s: its head is damaged", where);
    return FIRN_OK;
}

static enum firn_status check_end(const char *where, const uint8_t *end,
                                  uint64_t n, struct firn_error *err)
{
    if (n % CKPT_ALIGN != 0 || ckpt_get32(end) != CKPT_MARK_END ||
        ckpt_get32(end + 4) != 0 || ckpt_get32(end + 20) != 0 ||
        ckpt_get64(end + 24) != CKPT_MAGIC_END)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is torn or was added to: it does not end like a "
                         "checkpoint",
                         where);
    if (ckpt_get64(end + 8) > (n - CKPT_HEAD - CKPT_END) / CKPT_LEAST)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is damaged: it cannot hold %" PRIu64 " sections",
                         where, ckpt_get64(end + 8));
    return FIRN_OK;
}

/* --- sections --- */

/* The head of a section at `at`, `left` bytes before the end record. */
static bool read_head(const uint8_t *at, uint64_t left,
                      struct firn_ckpt_section *s, size_t *nname)
{
    if (left < CKPT_LEAST || ckpt_get32(at) != CKPT_MARK)
        return false;
    uint32_t type = ckpt_get32(at + 4), ndims = ckpt_get32(at + 8);
    uint32_t n = ckpt_get32(at + 12);
    if (type < FIRN_CKPT_BYTES || type >= FIRN_CKPT_NTYPES ||
        ndims > FIRN_CKPT_DIMS || n == 0 || n > FIRN_CKPT_NAME ||
        ckpt_head_bytes(ndims, n) > left)
        return false;
    s->type = (enum firn_ckpt_type)type;
    s->ndims = ndims;
    for (uint32_t i = 0; i < ndims; i++)
        s->dims[i] = ckpt_get64(at + 16 + 8 * (size_t)i);
    s->nbytes = ckpt_get64(at + 16 + 8 * (size_t)ndims);
    s->name = (const char *)at + CKPT_FIXED + 8 * (size_t)ndims;
    s->data = at + ckpt_head_bytes(ndims, n);
    *nname = n;
    uint64_t room = left - ckpt_head_bytes(ndims, n);
    return s->nbytes <= room && ckpt_padded(s->nbytes + 4) <= room &&
           ckpt_is_name(s->name, n) && ckpt_is_shaped(s);
}

static bool is_zero(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Checks the section at *offset and steps over it. */
static enum firn_status read_section(struct firn_ckpt *c, size_t *offset,
                                     struct firn_ckpt_section *s, size_t *nname,
                                     uint32_t *crc_of_crcs,
                                     struct firn_error *err)
{
    const uint8_t *at = c->bytes + *offset;
    if (!read_head(at, c->n - CKPT_END - *offset, s, nname))
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is damaged: no section can begin at byte %zu",
                         c->where, *offset);
    size_t n = (size_t)((const uint8_t *)s->data - at) + (size_t)s->nbytes;
    size_t total = (size_t)ckpt_padded((uint64_t)n + 4);
    if (crc32c_add(0, at, n) != ckpt_get32(at + n) ||
        !is_zero(at + n + 4, total - n - 4))
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is damaged: section '%.*s' has another CRC",
                         c->where, (int)*nname, s->name);
    *crc_of_crcs = crc32c_add(*crc_of_crcs, at + n, 4);
    *offset += total;
    return FIRN_OK;
}

/* All sections, with names that still lie in the file. *total: bytes of the
 * names, each with its end. */
static enum firn_status read_sections(struct firn_ckpt *c, size_t *nnames,
                                      size_t *total, struct firn_error *err)
{
    size_t offset = CKPT_HEAD;
    uint32_t crc = 0;
    for (size_t i = 0; i < c->count; i++) {
        FIRN_TRY(read_section(c, &offset, &c->at[i], &nnames[i], &crc, err));
        *total += nnames[i] + 1;
    }
    const uint8_t *end = c->bytes + c->n - CKPT_END;
    if (offset != c->n - CKPT_END)
        return refuse(c, err, "is damaged: bytes follow its last section");
    if (crc != ckpt_get32(end + 16))
        return refuse(c, err,
                      "is damaged: its sections are not those it was "
                      "written with");
    return FIRN_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Copies the names, to end each, and sorts them. */
static enum firn_status index_names(struct firn_ckpt *c, const size_t *nnames,
                                    struct firn_error *err)
{
    char *to = c->names;
    for (size_t i = 0; i < c->count; i++) {
        memcpy(to, c->at[i].name, nnames[i]);
        to[nnames[i]] = '\0';
        c->sorted[i] = (struct entry){to, i};
        c->at[i].name = to;
        to += nnames[i] + 1;
    }
    qsort(c->sorted, c->count, sizeof *c->sorted, by_name);
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->sorted[i - 1].name, c->sorted[i].name) == 0)
            return firn_fail(err, FIRN_EINVAL, "%s: has section '%s' twice",
                             c->where, c->sorted[i].name);
    return FIRN_OK;
}

/* Reads the sections; head and end were checked. */
static enum firn_status read_all(struct firn_ckpt *c, struct firn_error *err)
{
    size_t total = 1;
    c->count = (size_t)ckpt_get64(c->bytes + c->n - CKPT_END + 8);
    size_t *nnames = calloc(c->count + 1, sizeof *nnames);
    c->at = calloc(c->count + 1, sizeof *c->at);
    c->sorted = calloc(c->count + 1, sizeof *c->sorted);
    enum firn_status status = FIRN_OK;
    if (nnames == NULL || c->at == NULL || c->sorted == NULL)
        status = no_memory(c->where, err);
    if (status == FIRN_OK)
        status = read_sections(c, nnames, &total, err);
    if (status == FIRN_OK) {
        c->names = malloc(total);
        status = c->names == NULL ? no_memory(c->where, err)
                                  : index_names(c, nnames, err);
    }
    free(nnames);
    return status;
}

static enum firn_status check_all(struct firn_ckpt *c, struct firn_error *err)
{
    FIRN_TRY(check_head(c->where, c->bytes, c->n, err));
    FIRN_TRY(check_end(c->where, c->bytes + c->n - CKPT_END, c->n, err));
    return read_all(c, err);
}

/* --- open and parse --- */

static struct firn_ckpt *new_ckpt(const char *where)
{
    struct firn_ckpt *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->where = strdup(where);
    if (c->where != NULL)
        return c;
    free(c);
    return NULL;
}

/* NULL: no memory. */
static void *aligned(size_t n)
{
    size_t room = n / CKPT_ALIGN * CKPT_ALIGN + CKPT_ALIGN;
    return room > n ? aligned_alloc(CKPT_ALIGN, room) : NULL;
}

enum firn_status firn_ckpt_parse(struct firn_ckpt **out, const void *bytes,
                                 size_t n, const char *where,
                                 struct firn_error *err)
{
    FIRN_TRY(check_head(where, bytes, n, err));
    struct firn_ckpt *c = new_ckpt(where);
    if (c == NULL)
        return no_memory(where, err);
    c->bytes = bytes;
    c->n = n;
    enum firn_status status = FIRN_OK;
    if ((uintptr_t)bytes % CKPT_ALIGN != 0) {
        c->owned = aligned(n);
        if (c->owned != NULL)
            c->bytes = memcpy(c->owned, bytes, n);
        else
            status = no_memory(where, err);
    }
    if (status == FIRN_OK)
        status = check_all(c, err);
    if (status != FIRN_OK) {
        firn_ckpt_close(c);
        return status;
    }
    *out = c;
    return FIRN_OK;
}

/* Exactly n bytes from `offset` on. */
static enum firn_status read_at(int fd, const char *path, uint8_t *to, size_t n,
                                off_t offset, struct firn_error *err)
{
    while (n > 0) {
        ssize_t done = pread(fd, to, n, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
        if (done == 0)
            return firn_fail(err, FIRN_EINVAL, "%s: was cut while it was read",
                             path);
        to += done;
        offset += done;
        n -= (size_t)done;
    }
    return FIRN_OK;
}

/* Reads head and end: is the file complete? */
static enum firn_status look(int fd, const char *path, uint64_t *size,
                             struct firn_error *err)
{
    struct stat st;
    uint8_t head[CKPT_HEAD] = {0}, end[CKPT_END];
    if (fstat(fd, &st) != 0)
        return firn_fail(err, FIRN_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return firn_fail(err, FIRN_EINVAL, "%s: is not a regular file", path);
    uint64_t n = (uint64_t)st.st_size;
    FIRN_TRY(
        read_at(fd, path, head, n < CKPT_HEAD ? (size_t)n : CKPT_HEAD, 0, err));
    FIRN_TRY(check_head(path, head, n, err));
    FIRN_TRY(read_at(fd, path, end, CKPT_END, (off_t)(n - CKPT_END), err));
    FIRN_TRY(check_end(path, end, n, err));
    *size = n;
    return FIRN_OK;
}

static enum firn_status read_file(struct firn_ckpt *c, int fd,
                                  struct firn_error *err)
{
    uint64_t size = 0;
    FIRN_TRY(look(fd, c->where, &size, err));
    c->owned = size <= SIZE_MAX / 2 ? aligned((size_t)size) : NULL;
    if (c->owned == NULL)
        return no_memory(c->where, err);
    c->bytes = c->owned;
    c->n = (size_t)size;
    FIRN_TRY(read_at(fd, c->where, c->owned, c->n, 0, err));
    return check_all(c, err);
}

enum firn_status firn_ckpt_open(struct firn_ckpt **out, const char *path,
                                struct firn_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return firn_fail(err, errno == ENOENT ? FIRN_ENOENT : FIRN_EIO,
                         "%s: %s", path, strerror(errno));
    struct firn_ckpt *c = new_ckpt(path);
    enum firn_status status =
        c == NULL ? no_memory(path, err) : read_file(c, fd, err);
    close(fd);
    if (status != FIRN_OK) {
        firn_ckpt_close(c);
        return status;
    }
    const char *file = strrchr(path, '/');
    (void)ckpt_is_file(file == NULL ? path : file + 1, NULL, &c->step);
    *out = c;
    return FIRN_OK;
}

enum firn_status firn_ckpt_open_newest(struct firn_ckpt **out, const char *dir,
                                       const char *name,
                                       struct firn_error *refused,
                                       struct firn_error *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    struct firn_error first = {0}, why = {0};
    FIRN_TRY(ckpt_steps(dir, name, &steps, &n, err));
    enum firn_status status = FIRN_ENOENT;
    for (size_t i = 0; i < n && status != FIRN_OK && status != FIRN_ENOMEM;
         i++) {
        char *path = ckpt_path(dir, name, steps[i]);
        status = path == NULL ? no_memory(dir, &why)
                              : firn_ckpt_open(out, path, &why);
        free(path);
        /* A file that was removed meanwhile is not an error. */
        if (status != FIRN_OK && status != FIRN_ENOENT &&
            first.status == FIRN_OK)
            first = why;
    }
    free(steps);
    if (status == FIRN_ENOMEM)
        return firn_fail(err, status, "%s", why.text);
    if (status != FIRN_OK && first.status != FIRN_OK)
        return firn_fail(err, first.status,
                         "%s: no checkpoint of '%s' is whole; of the newest: "
                         "%s",
                         dir, name, first.text);
    if (status != FIRN_OK)
        return firn_fail(err, FIRN_ENOENT, "%s: has no checkpoint of '%s'", dir,
                         name);
    if (refused != NULL)
        *refused = first;
    return FIRN_OK;
}

/* --- asking --- */

uint64_t firn_ckpt_step(const struct firn_ckpt *c)
{
    return c->step;
}

size_t firn_ckpt_count(const struct firn_ckpt *c)
{
    return c->count;
}

const struct firn_ckpt_section *firn_ckpt_at(const struct firn_ckpt *c,
                                             size_t i)
{
    return i < c->count ? &c->at[i] : NULL;
}

const struct firn_ckpt_section *firn_ckpt_find(const struct firn_ckpt *c,
                                               const char *name)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, c->sorted[middle].name);
        if (order == 0)
            return &c->at[c->sorted[middle].index];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

enum firn_status firn_ckpt_take(const struct firn_ckpt *c, const char *name,
                                enum firn_ckpt_type type, void *data,
                                size_t nbytes, struct firn_error *err)
{
    const struct firn_ckpt_section *s = firn_ckpt_find(c, name);
    if (s == NULL)
        return firn_fail(err, FIRN_ENOENT, "%s: has no section '%s'", c->where,
                         name);
    if (s->type != type || s->nbytes != nbytes)
        return firn_fail(
            err, FIRN_EINVAL,
            "%s: section '%s' is %" PRIu64 " bytes of %s, not %zu of %s",
            c->where, name, s->nbytes, firn_ckpt_type_name(s->type), nbytes,
            firn_ckpt_type_name(type));
    if (nbytes > 0)
        memcpy(data, s->data, nbytes);
    return FIRN_OK;
}
