/* timeline.c - the state of the cluster over time, as CSV.
 *
 * Values come when they change; rows are made behind them. A row at k * step
 * can be written once later values have come, since until then its own may
 * still be replaced.
 *
 *     values    A     B          C
 *     time   ---+-----+----------+---->
 *     rows        |      |     |      |
 *                 A      B     B      C
 *
 * (1) Row times are exact products k * step with k ascending.
 * (2) When the step adapts, the rows kept are those with even k, so what is
 *     left is what a run with the doubled step would have written.
 */
#include "sim/timeline.h"
#include "base/buf.h"
#include "base/vec.h"
#include "sim/outfile.h"
#include <math.h>
#include <stdbool.h>

struct row {
    double k;
    struct timeline_values values;
};

struct timeline {
    struct outfile file;
    double step_s, k; /* the next row is at k * step_s */
    bool is_adaptive, has_values, is_full;
    double at_s; /* the values hold from here */
    struct timeline_values values;
    VEC(struct row) rows; /* only when adaptive */
    long nrows;           /* written, when not */
};

enum firn_status timeline_open(struct timeline **out, const char *path,
                               double step_s, struct firn_error *err)
{
    struct outfile file;
    FIRN_TRY(outfile_open(&file, path, err));
    struct timeline *t = mem_new(1, sizeof *t);
    t->file = file;
    t->is_adaptive = !(step_s > 0);
    t->step_s = t->is_adaptive ? 1 : step_s;
    buf_puts(&t->file.text, "time_s,running,waiting,gpus_up,gpus_held,"
                            "gpus_progressing,gpus_free_fragmented\n");
    *out = t;
    return FIRN_OK;
}

static void put_row(struct timeline *t, double k,
                    const struct timeline_values *v)
{
    struct firn_buf *out = &t->file.text;
    buf_double(out, k * t->step_s);
    buf_printf(out, ",%ld,%ld,%ld,%ld,%ld,%ld\n", v->running, v->waiting,
               v->gpus_up, v->gpus_held, v->gpus_progressing,
               v->gpus_free_fragmented);
    outfile_drain(&t->file);
}

/* Doubles the step; (2). */
static void thin(struct timeline *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->rows.n; i++) {
        if (fmod(t->rows.at[i].k, 2) != 0)
            continue;
        t->rows.at[kept] = t->rows.at[i];
        t->rows.at[kept++].k /= 2;
    }
    t->rows.n = kept;
    t->step_s *= 2;
    t->k = ceil(t->k / 2);
}

static void next_row(struct timeline *t)
{
    if (t->is_adaptive) {
        struct row row = {t->k, t->values};
        vec_add(&t->rows, row);
        t->k++;
        if (t->rows.n > TIMELINE_ROWS)
            thin(t);
        return;
    }
    put_row(t, t->k, &t->values);
    t->k++;
    t->nrows++;
    /* The second: steps so small that k no longer counts. */
    t->is_full = t->nrows >= TIMELINE_ROWS_MAX || !(t->k < 0x1p52);
}

void timeline_add(struct timeline *t, double at_s,
                  const struct timeline_values *values)
{
    if (!t)
        return;
    while (t->has_values && !t->is_full && t->k * t->step_s < at_s)
        next_row(t);
    if (!t->has_values)
        t->k = ceil(at_s / t->step_s);
    t->has_values = true;
    t->at_s = at_s;
    t->values = *values;
}

static enum firn_status finish(struct timeline *t, struct firn_error *err)
{
    while (t->has_values && !t->is_full && t->k * t->step_s <= t->at_s)
        next_row(t);
    for (size_t i = 0; i < t->rows.n; i++)
        put_row(t, t->rows.at[i].k, &t->rows.at[i].values);
    double step_s = t->step_s;
    bool is_full = t->is_full;
    FIRN_TRY(outfile_close(&t->file, err));
    if (is_full)
        return firn_fail(err, FIRN_EINVAL,
                         "timeline: more than %d rows, one each %g s: take a "
                         "larger step",
                         TIMELINE_ROWS_MAX, step_s);
    return FIRN_OK;
}

enum firn_status timeline_close(struct timeline *t, struct firn_error *err)
{
    if (!t)
        return FIRN_OK;
    enum firn_status status = finish(t, err);
    vec_release(&t->rows);
    mem_free(t);
    return status;
}
