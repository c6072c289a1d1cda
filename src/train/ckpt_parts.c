/* ckpt_parts.c - the format of checkpoints, for writer and reader.
 *
 * (1) A section's nbytes is its element times all its dims, computed without
 *     overflow; only BYTES without dims may have any size.
 * (2) Every length in a file is a multiple of 16 from its start, so that data
 *     read to an aligned place are aligned.
 */
#include "train/ckpt_parts.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[FIRN_CKPT_NTYPES] = {
    [FIRN_CKPT_BYTES] = {"bytes", 1}, [FIRN_CKPT_F32] = {"f32", 4},
    [FIRN_CKPT_F64] = {"f64", 8},     [FIRN_CKPT_F16] = {"f16", 2},
    [FIRN_CKPT_BF16] = {"bf16", 2},   [FIRN_CKPT_I64] = {"i64", 8},
    [FIRN_CKPT_I32] = {"i32", 4},     [FIRN_CKPT_U8] = {"u8", 1},
};

static bool is_type(enum firn_ckpt_type type)
{
    return (unsigned)type >= FIRN_CKPT_BYTES &&
           (unsigned)type < FIRN_CKPT_NTYPES;
}

const char *firn_ckpt_type_name(enum firn_ckpt_type type)
{
    return is_type(type) ? types[type].name : "?";
}

size_t firn_ckpt_type_bytes(enum firn_ckpt_type type)
{
    return is_type(type) ? types[type].bytes : 0;
}

/* --- numbers and shapes --- */

void ckpt_put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

void ckpt_put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

uint32_t ckpt_get32(const uint8_t *at)
{
    uint32_t value = 0;
    for (int i = 3; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

uint64_t ckpt_get64(const uint8_t *at)
{
    return (uint64_t)ckpt_get32(at + 4) << 32 | ckpt_get32(at);
}

bool ckpt_is_name(const char *name, size_t n)
{
    if (n == 0 || n > FIRN_CKPT_NAME)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    return true;
}

bool ckpt_is_shaped(const struct firn_ckpt_section *section)
{
    uint64_t total = firn_ckpt_type_bytes(section->type);
    if (total == 0 || section->ndims > FIRN_CKPT_DIMS)
        return false;
    if (section->ndims == 0 && section->type == FIRN_CKPT_BYTES)
        return true;
    for (unsigned i = 0; i < section->ndims; i++)
        if (section->dims[i] == 0)
            return section->nbytes == 0;
    for (unsigned i = 0; i < section->ndims; i++) {
        if (section->dims[i] > UINT64_MAX / total)
            return false;
        total *= section->dims[i];
    }
    return total == section->nbytes;
}

uint64_t ckpt_padded(uint64_t n)
{
    return (n + CKPT_ALIGN - 1) / CKPT_ALIGN * CKPT_ALIGN;
}

size_t ckpt_head_bytes(unsigned ndims, size_t name_bytes)
{
    return (size_t)ckpt_padded(CKPT_FIXED + 8 * (size_t)ndims + name_bytes);
}

/* --- files --- */

bool ckpt_is_file(const char *file, const char *name, uint64_t *step)
{
    size_t n = strlen(file);
    if (n <= CKPT_TAIL)
        return false;
    const char *tail = file + n - CKPT_TAIL;
    if (tail[0] != '-' || strcmp(tail + 1 + CKPT_STEP_DIGITS, ".ckpt") != 0)
        return false;
    if (name != NULL && (strlen(name) != n - CKPT_TAIL ||
                         memcmp(file, name, n - CKPT_TAIL) != 0))
        return false;
    uint64_t value = 0;
    for (int i = 1; i <= CKPT_STEP_DIGITS; i++) {
        if (tail[i] < '0' || tail[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(tail[i] - '0');
    }
    *step = value;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* Grows *steps to hold one more. */
static bool has_room(uint64_t **steps, size_t n, size_t *cap)
{
    if (n < *cap)
        return true;
    size_t more = *cap * 2 + 8;
    uint64_t *grown = realloc(*steps, more * sizeof *grown);
    if (grown == NULL)
        return false;
    *steps = grown;
    *cap = more;
    return true;
}

/* The next file of the folder; NULL with errno 0 behind the last. */
static struct dirent *next_file(DIR *folder)
{
    errno = 0;
    return readdir(folder);
}

enum firn_status ckpt_steps(const char *dir, const char *name, uint64_t **steps,
                            size_t *n, struct firn_error *err)
{
    uint64_t *found = NULL, step;
    size_t count = 0, cap = 0;
    bool is_full = false;
    DIR *folder = opendir(dir);
    if (folder == NULL && errno != ENOENT)
        return firn_fail(err, FIRN_EIO, "%s: %s", dir, strerror(errno));
    if (folder != NULL) {
        for (struct dirent *e; !is_full && (e = next_file(folder)) != NULL;)
            if (ckpt_is_file(e->d_name, name, &step)) {
                is_full = !has_room(&found, count, &cap);
                if (!is_full)
                    found[count++] = step;
            }
        int why = errno;
        closedir(folder);
        if (is_full || why != 0) {
            free(found);
            return firn_fail(err, is_full ? FIRN_ENOMEM : FIRN_EIO, "%s: %s",
                             dir, is_full ? "out of memory" : strerror(why));
        }
    }
    if (count > 0)
        qsort(found, count, sizeof *found, newest_first);
    *steps = found;
    *n = count;
    return FIRN_OK;
}

char *ckpt_path(const char *dir, const char *name, uint64_t step)
{
    size_t n = strlen(dir) + 1 + strlen(name) + CKPT_TAIL + 1;
    char *path = malloc(n);
    if (path != NULL)
        snprintf(path, n, "%s/%s-%012" PRIu64 ".ckpt", dir, name,
                 step % CKPT_STEPS);
    return path;
}
