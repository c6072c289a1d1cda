/* reprodraw.c - draws rows of traces with a given share of large jobs.
 *
 * Works on lines of text; fields must not be quoted. The same words give the
 * same bytes.
 */
#include "repro/reprodraw.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "repro/reprotrace.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LARGE = 4 }; /* a job with more GPUs is large */

struct drawing {
    long n, seed;
    double share;
    char column[64];
    struct words rows;
    VEC(size_t) small, large; /* indices of rows */
    char header[512];
};

/* Parses "N,SEED,SHARE,COLUMN". */
static bool read_what(struct drawing *d, const char *text)
{
    char n[24] = "", seed[24] = "", share[24] = "";
    return sscanf(text, "%23[^,],%23[^,],%23[^,],%63[^,]", n, seed, share,
                  d->column) == 4 &&
           str_int(n, 1, 1000000, &d->n) &&
           str_int(seed, 0, 1L << 40, &d->seed) &&
           str_double(share, &d->share) && d->share >= 0 && d->share <= 1;
}

/* Copies field k (from 0) of a line to `out`; false if there is none. */
static bool field(const char *line, int k, char *out, size_t size)
{
    for (; k > 0 && line != NULL; k--) {
        line = strchr(line, ',');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL)
        return false;
    size_t n = strcspn(line, ",");
    if (n >= size)
        return false;
    memcpy(out, line, n);
    out[n] = '\0';
    return true;
}

static int find_column(const char *header, const char *name)
{
    char text[64];
    for (int k = 0; field(header, k, text, sizeof text); k++)
        if (strcmp(text, name) == 0)
            return k;
    return -1;
}

static enum firn_status add_file(struct drawing *d, const char *name,
                                 struct firn_error *err)
{
    struct firn_buf path = {0};
    struct lines *in;
    char text[64];
    double gpus;
    enum firn_status status = trace_path(name, &path, err);
    if (status == FIRN_OK)
        status = lines_open(&in, path.at, err);
    buf_release(&path);
    if (status != FIRN_OK)
        return status;
    const char *header = lines_next(in);
    if (header != NULL && d->header[0] == '\0')
        str_copy(d->header, sizeof d->header, header);
    int k = header != NULL ? find_column(header, d->column) : -1;
    if (k < 0 || strcmp(header, d->header) != 0)
        status =
            firn_fail(err, FIRN_EINVAL,
                      "%s: the header differs from the first file's, or has no "
                      "column '%s'",
                      name, d->column);
    for (const char *line;
         status == FIRN_OK && (line = lines_next(in)) != NULL;) {
        if (!field(line, k, text, sizeof text) || !str_double(text, &gpus))
            continue;
        if (gpus > LARGE)
            vec_add(&d->large, d->rows.n);
        else
            vec_add(&d->small, d->rows.n);
        words_add(&d->rows, line, strlen(line));
    }
    lines_close(in);
    return status;
}

/* Marks n random elements of the m in `from`. */
static void draw(size_t *from, size_t m, size_t n, struct rng *rng,
                 bool *is_drawn)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = i + (size_t)rng_below(rng, m - i);
        size_t kept = from[i];
        from[i] = from[k];
        from[k] = kept;
        is_drawn[from[i]] = true;
    }
}

static enum firn_status put_rows(struct drawing *d, struct firn_buf *out,
                                 struct firn_error *err)
{
    size_t large = (size_t)floor(d->share * (double)d->n + 0.5);
    size_t small = (size_t)d->n - large;
    struct rng rng;
    if (large > d->large.n || small > d->small.n)
        return firn_fail(err, FIRN_EINVAL,
                         "'draw:' needs %zu large and %zu small jobs, but the "
                         "files have %zu and %zu",
                         large, small, d->large.n, d->small.n);
    bool *is_drawn = mem_new(d->rows.n + 1, sizeof *is_drawn);
    rng_seed(&rng, (uint64_t)d->seed);
    draw(d->large.at, d->large.n, large, &rng, is_drawn);
    draw(d->small.at, d->small.n, small, &rng, is_drawn);
    buf_printf(out, "%s\n", d->header);
    for (size_t i = 0; i < d->rows.n; i++)
        if (is_drawn[i])
            buf_printf(out, "%s\n", d->rows.at[i]);
    mem_free(is_drawn);
    return FIRN_OK;
}

enum firn_status draw_make(const struct words *words, struct firn_buf *out,
                           struct firn_error *err)
{
    struct drawing *d = mem_new(1, sizeof *d);
    enum firn_status status = FIRN_OK;
    if (words->n < 2 || !read_what(d, words->at[0]))
        status = firn_fail(err, FIRN_EINVAL,
                           "'draw:' needs N,SEED,SHARE,COLUMN and files");
    for (size_t i = 1; i < words->n && status == FIRN_OK; i++)
        status = add_file(d, words->at[i], err);
    if (status == FIRN_OK)
        status = put_rows(d, out, err);
    words_release(&d->rows);
    vec_release(&d->small);
    vec_release(&d->large);
    mem_free(d);
    return status;
}
