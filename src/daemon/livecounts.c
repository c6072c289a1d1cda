/* livecounts.c - see livecounts.h: one line through the ended jobs of each
 * kind.
 *
 * The key of a kind is "APP<tab>GPUS<tab>TYPE<tab>BATCH", its line in the state
 * file the key and five sums behind it. At most KINDS_MAX kinds are kept;
 * nothing is learned of jobs of further ones.
 *
 * Cost: a look into a hash table.
 */
#include "daemon/livecounts.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/counted.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KINDS_MAX = 4096, CELLS = 4, SUMS = 5, CELL = 40 };
/* A forecast that moves by this share is worth telling. */
static const double CHANGE = 0.05;

struct livecounts {
    struct map keys;
    VEC(struct counted) kinds; /* by number */
};

struct livecounts *livecounts_new(void)
{
    return mem_new(1, sizeof(struct livecounts));
}

void livecounts_free(struct livecounts *counts)
{
    if (counts == NULL)
        return;
    map_release(&counts->keys);
    vec_release(&counts->kinds);
    mem_free(counts);
}

/* The type that all of its GPUs are of, "" for that of the whole cluster; NULL:
 * they may be of several. */
static const char *only_type(const struct firn_cluster *cluster,
                             const struct firn_job_spec *spec)
{
    const char *types = spec->types != NULL ? spec->types : "";
    if (cluster->ntypes == 1)
        return "";
    return *types != '\0' && strchr(types, '|') == NULL ? types : NULL;
}

bool livecounts_key(const struct firn_cluster *cluster,
                    const struct firn_job_spec *spec, char out[LIVECOUNTS_KEY])
{
    const char *type = only_type(cluster, spec);
    if (type == NULL || spec->app == NULL || *spec->app == '\0' ||
        strpbrk(spec->app, "\t\n") != NULL || strpbrk(type, "\t\n") != NULL)
        return false;
    int n = snprintf(out, LIVECOUNTS_KEY, "%s\t%d\t%s\t%d", spec->app,
                     spec->gpus, type, spec->batch);
    return n > 0 && n < LIVECOUNTS_KEY;
}

/* Made if there is none; NULL: there are too many. */
static struct counted *make_kind(struct livecounts *counts, const char *key)
{
    int number = map_find(&counts->keys, key);
    if (number < 0 && counts->keys.n >= KINDS_MAX)
        return NULL;
    if (number < 0) {
        number = map_add(&counts->keys, key);
        vec_add(&counts->kinds, (struct counted){0});
    }
    return &counts->kinds.at[number];
}

bool livecounts_ended(struct livecounts *counts, const char *key,
                      double iterations, double trained_s)
{
    struct counted *kind = make_kind(counts, key);
    if (kind == NULL)
        return false;
    double before_s = counted_training_s(kind, iterations);
    counted_add(kind, iterations, trained_s);
    double now_s = counted_training_s(kind, iterations);
    return fabs(now_s - before_s) > CHANGE * before_s;
}

double livecounts_training_s(const struct livecounts *counts, const char *key,
                             double iterations)
{
    int number = map_find(&counts->keys, key);
    return number >= 0
               ? counted_training_s(&counts->kinds.at[number], iterations)
               : 0;
}

/* --- as rows and as text ---------------------------------------------------
 */

/* Copies the text up to the next tab; returns what is behind the tab, or NULL:
 * it is too long, or there is none. */
static const char *take_cell(const char *text, char *cell, size_t size)
{
    size_t n = strcspn(text, "\t");
    if (n >= size || text[n] == '\0')
        return NULL;
    memcpy(cell, text, n);
    cell[n] = '\0';
    return text + n + 1;
}

/* The key's parts; false: it has others. */
static bool read_key(const char *key, struct livecounts_row *out)
{
    char gpus[CELL];
    *out = (struct livecounts_row){0};
    return (key = take_cell(key, out->app, sizeof out->app)) != NULL &&
           (key = take_cell(key, gpus, sizeof gpus)) != NULL &&
           str_int(gpus, 0, INT_MAX, &out->gpus) &&
           (key = take_cell(key, out->type, sizeof out->type)) != NULL &&
           str_int(key, 0, INT_MAX, &out->batch);
}

bool livecounts_at(const struct livecounts *counts, size_t i,
                   struct livecounts_row *out)
{
    if (i >= counts->kinds.n || !read_key(map_name(&counts->keys, (int)i), out))
        return false;
    const struct counted *kind = &counts->kinds.at[i];
    out->iteration_s =
        counted_training_s(kind, 2) - counted_training_s(kind, 1);
    out->first_s = counted_training_s(kind, 1) - out->iteration_s;
    return true;
}

void livecounts_save(const struct livecounts *counts, struct firn_buf *out)
{
    for (size_t i = 0; i < counts->kinds.n; i++) {
        const struct counted *kind = &counts->kinds.at[i];
        if (counted_is_sound(kind))
            buf_printf(out, "%s\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\n",
                       map_name(&counts->keys, (int)i), kind->w, kind->wn,
                       kind->wnn, kind->wt, kind->wnt);
    }
}

/* Where the sums of a line begin; NULL: it has no key. */
static char *behind_key(char *line)
{
    for (int i = 0; i < CELLS && line != NULL; i++) {
        line = strchr(line, '\t');
        line = line != NULL ? line + 1 : NULL;
    }
    return line;
}

static void load_line(struct livecounts *counts, char *line)
{
    double sums[SUMS];
    char *sum = behind_key(line);
    if (sum == NULL || (size_t)(sum - line) > LIVECOUNTS_KEY)
        return;
    sum[-1] = '\0'; /* the key ends here */
    for (int i = 0; i < SUMS; i++) {
        char *end = sum != NULL ? strchr(sum, '\t') : NULL;
        if (sum == NULL || (end == NULL) != (i == SUMS - 1))
            return;
        if (end != NULL)
            *end = '\0';
        if (!str_double(sum, &sums[i]))
            return;
        sum = end != NULL ? end + 1 : NULL;
    }
    struct counted read = {sums[0], sums[1], sums[2], sums[3], sums[4]};
    struct livecounts_row row;
    struct counted *kind = counted_is_sound(&read) && read_key(line, &row)
                               ? make_kind(counts, line)
                               : NULL;
    if (kind != NULL)
        *kind = read;
}

void livecounts_load(struct livecounts *counts, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    for (char *line; (line = lines_next(in)) != NULL;)
        load_line(counts, line);
    lines_close(in);
}
