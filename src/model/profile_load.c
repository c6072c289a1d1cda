/* profile_load.c - all profiles of a folder, and those that are shipped.
 *
 * Folders are read in the order of their names, byte by byte, whatever order
 * the system gives. The shipped files are in the library as lines: the build
 * turns profiles/ into profiles.inc; see files_shipped().
 */
#include "base/buf.h"
#include "base/files.h"
#include "base/mem.h"
#include <firn/profile.h>
#include <stdlib.h>
#include <string.h>

static const char *const builtin[] = {
#if __has_include("model/profiles.inc")
#include "model/profiles.inc"
#endif
    NULL};

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
    struct firn_buf text = {0};
    enum firn_status status = files_text(&text, path, err);
    if (status == FIRN_OK)
        status = add(out, cap, (struct firn_bytes){text.at, text.n}, path, err);
    buf_release(&text);
    return status;
}

static int by_source(const void *a, const void *b)
{
    const struct firn_profile *x = a, *y = b;
    int c = strcmp(x->source, y->source);
    return c != 0 ? c : strcmp(x->app, y->app);
}

/* On success sorts the profiles into `out`; on failure releases them. */
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
    struct files top = {0};
    struct firn_profiles got = {0};
    size_t cap = 0;
    enum firn_status status = FIRN_OK;
    if (!files_list(&top, dir, ""))
        return firn_fail(err, FIRN_ENOENT, "%s: not a folder", dir);
    for (size_t i = 0; i < top.n && status == FIRN_OK; i++) {
        struct files inner = {0};
        if (files_ends(top.at[i], ".txt"))
            status = read_one(&got, &cap, top.at[i], err);
        else if (files_list(&inner, top.at[i], ".txt"))
            for (size_t j = 0; j < inner.n && status == FIRN_OK; j++)
                status = read_one(&got, &cap, inner.at[j], err);
        files_release(&inner);
    }
    files_release(&top);
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
    size_t cap = 0;
    enum firn_status status = FIRN_OK;
    const char *const *at = builtin;
    for (const char *where;
         status == FIRN_OK && (where = files_shipped(&at, &text)) != NULL;)
        status =
            add(&got, &cap, (struct firn_bytes){text.at, text.n}, where, err);
    buf_release(&text);
    return done(&got, status, out);
}
