/* profile_load.c - all profiles of a folder, and those that are shipped.
 *
 * Folders are read in the order of their names, byte by byte, whatever order
 * the system gives. The shipped files are in the library as lines: the build
 * turns profiles/ into profiles.inc, a list of strings in which NULL ends a
 * file and its first string is the file's name.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include <dirent.h>
#include <firn/profile.h>
#include <stdlib.h>
#include <string.h>

struct paths {
    char **at;
    size_t n, cap;
};

static const char *const builtin[] = {
#if __has_include("model/profiles.inc")
#include "model/profiles.inc"
#endif
    NULL};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void paths_release(struct paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        mem_free(paths->at[i]);
    vec_release(paths);
}

/* What is in a folder, hidden files apart; sorted. */
static bool list(const char *dir, struct paths *out)
{
    DIR *handle = opendir(dir);
    if (handle == NULL)
        return false;
    for (const struct dirent *e; (e = readdir(handle)) != NULL;) {
        struct firn_buf path = {0};
        if (e->d_name[0] == '.')
            continue;
        buf_printf(&path, "%s/%s", dir, e->d_name);
        vec_add(out, mem_strdup(path.at));
        buf_release(&path);
    }
    closedir(handle);
    if (out->n > 0)
        qsort(out->at, out->n, sizeof *out->at, by_name);
    return true;
}

static bool is_text(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".txt") == 0;
}

static enum firn_status add(struct firn_profiles *out, size_t *cap,
                            struct firn_bytes text, const char *where,
                            struct firn_error *err)
{
    struct firn_profile *p = mem_new(1, sizeof *p);
    enum firn_status status = firn_profile_parse(p, text, where, err);
    for (size_t i = 0; i < out->n && status == FIRN_OK; i++)
        if (strcmp(out->at[i].app, p->app) == 0 &&
            strcmp(out->at[i].source, p->source) == 0) {
            status =
                firn_fail(err, FIRN_EINVAL, "%s: %s/%s has a profile already",
                          where, p->source, p->app);
            firn_profile_release(p);
        }
    if (status == FIRN_OK) {
        if (out->n == *cap) {
            *cap = *cap > 0 ? 2 * *cap : 16;
            out->at = mem_grow(out->at, out->n, *cap, sizeof *out->at);
        }
        out->at[out->n++] = *p;
    }
    mem_free(p);
    return status;
}

static enum firn_status read_one(struct firn_profiles *out, size_t *cap,
                                 const char *path, struct firn_error *err)
{
    struct lines *in;
    struct firn_buf text = {0};
    FIRN_TRY(lines_open(&in, path, err));
    for (const char *line; (line = lines_next(in)) != NULL;) {
        buf_puts(&text, lines_bad(in) ? "?" : line);
        buf_putc(&text, '\n');
    }
    bool is_broken = lines_failed(in);
    lines_close(in);
    enum firn_status status =
        is_broken
            ? firn_fail(err, FIRN_EIO, "%s: cannot be read", path)
            : add(out, cap, (struct firn_bytes){text.at, text.n}, path, err);
    buf_release(&text);
    return status;
}

static int by_source(const void *a, const void *b)
{
    const struct firn_profile *x = a, *y = b;
    int c = strcmp(x->source, y->source);
    return c != 0 ? c : strcmp(x->app, y->app);
}

/* Sorts, or gives all back. */
static enum firn_status done(struct firn_profiles *got, enum firn_status status,
                             struct firn_profiles *out)
{
    if (status != FIRN_OK) {
        firn_profiles_release(got);
        return status;
    }
    if (got->n > 0)
        qsort(got->at, got->n, sizeof *got->at, by_source);
    *out = *got;
    return FIRN_OK;
}

enum firn_status firn_profiles_load(struct firn_profiles *out, const char *dir,
                                    struct firn_error *err)
{
    struct paths top = {0};
    struct firn_profiles got = {0};
    size_t cap = 0;
    enum firn_status status = FIRN_OK;
    if (!list(dir, &top))
        return firn_fail(err, FIRN_ENOENT, "%s: not a folder", dir);
    for (size_t i = 0; i < top.n && status == FIRN_OK; i++) {
        struct paths inner = {0};
        if (is_text(top.at[i]))
            status = read_one(&got, &cap, top.at[i], err);
        else if (list(top.at[i], &inner))
            for (size_t j = 0; j < inner.n && status == FIRN_OK; j++)
                if (is_text(inner.at[j]))
                    status = read_one(&got, &cap, inner.at[j], err);
        paths_release(&inner);
    }
    paths_release(&top);
    if (status == FIRN_OK && got.n == 0)
        status =
            firn_fail(err, FIRN_ENOENT, "%s: holds no profile (*.txt)", dir);
    return done(&got, status, out);
}

enum firn_status firn_profiles_builtin(struct firn_profiles *out,
                                       struct firn_error *err)
{
    struct firn_profiles got = {0};
    struct firn_buf text = {0};
    size_t cap = 0, n = sizeof builtin / sizeof *builtin - 1;
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; i < n && status == FIRN_OK; i++) {
        const char *where = builtin[i];
        buf_clear(&text);
        for (i++; builtin[i] != NULL; i++) {
            buf_puts(&text, builtin[i]);
            buf_putc(&text, '\n');
        }
        status =
            add(&got, &cap, (struct firn_bytes){text.at, text.n}, where, err);
    }
    buf_release(&text);
    return done(&got, status, out);
}
