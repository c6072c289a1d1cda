/* steptable.c - interpolation in measured step times.
 *
 * A placement that was measured is found by its canonical name, the rotation
 * of its digits that is smallest as text ("42" and "24" are both "24", "123"
 * and "132" differ), and its step and sync times are interpolated linearly in
 * samples a GPU. That is how the AdaptDL simulator reads the same tables.
 *
 * Any other placement is taken from the grid: the placements' rows averaged by
 * (nodes n, GPUs r, samples b), with the scalability rows. There the authors
 * interpolate on a Delaunay tessellation of a lattice, which is not unique.
 * Here: linearly in b within each measured (n, r), then in r / n within each
 * measured n, then in n between the two nearest. Outside the measured range the
 * nearest value is returned, marked `extrapolated`.
 *
 * Cost: O(log rows) for a placement, O(grid) otherwise.
 */
#include "model/steptable.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/sheet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cmp(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_place(const void *a, const void *b)
{
    const struct steptable_row *x = a, *y = b;
    int c = strcmp(x->place, y->place);
    return c != 0 ? c : cmp(x->batch, y->batch);
}

static int by_size(const void *a, const void *b)
{
    const struct steptable_row *x = a, *y = b;
    if (x->nodes != y->nodes)
        return x->nodes - y->nodes;
    if (x->gpus != y->gpus)
        return x->gpus - y->gpus;
    int c = cmp(x->batch, y->batch);
    return c != 0 ? c : strcmp(x->place, y->place);
}

/* The smallest rotation of the digits, in place. */
static void canonical(char *digits)
{
    char twice[2 * STEPTABLE_DIGITS + 1], best[STEPTABLE_DIGITS + 1];
    size_t n = strlen(digits);
    memcpy(best, digits, n + 1);
    memcpy(twice, digits, n);
    memcpy(twice + n, digits, n + 1);
    for (size_t i = 1; i < n; i++)
        if (strncmp(twice + i, best, n) < 0)
            memcpy(best, twice + i, n);
    memcpy(digits, best, n + 1);
}

static bool set_place(struct steptable_row *row, const char *digits)
{
    if (*digits == '\0' || !str_copy(row->place, sizeof row->place, digits))
        return false;
    for (const char *c = digits; *c != '\0'; c++) {
        if (*c < '1' || *c > '9')
            return false;
        row->nodes++;
        row->gpus += *c - '0';
    }
    canonical(row->place);
    return true;
}

static bool positive(double x)
{
    return isfinite(x) && x > 0;
}

/* Indices of the columns; -1 for a missing one. */
struct columns {
    int place, nodes, gpus, batch, step, sync;
};

/* One row of the file; false when it is not usable. */
static bool take(const struct sheet *in, const struct columns *at, size_t i,
                 struct steptable_row *row)
{
    *row = (struct steptable_row){
        .batch = sheet_number(in, i, at->batch),
        .step_s = sheet_number(in, i, at->step),
        .sync_s = sheet_number(in, i, at->sync),
    };
    if (at->place >= 0) {
        if (!set_place(row, sheet_text(in, i, at->place)))
            return false;
    } else {
        double nodes = sheet_number(in, i, at->nodes);
        double gpus = sheet_number(in, i, at->gpus);
        if (!(nodes >= 1 && gpus >= nodes && gpus < 1e6))
            return false;
        row->nodes = (int)nodes;
        row->gpus = (int)gpus;
    }
    if (row->sync_s > row->step_s)
        row->sync_s = row->step_s;
    return positive(row->batch) && positive(row->step_s) && row->sync_s >= 0;
}

enum firn_status steptable_add(struct steptable *table, const struct sheet *in,
                               double frozen, const char *path,
                               struct firn_error *err)
{
    int column = sheet_column(in, "frozen_layer");
    struct columns columns = {.place = sheet_column(in, "placement"),
                              .nodes = sheet_column(in, "num_nodes"),
                              .gpus = sheet_column(in, "num_replicas"),
                              .batch = sheet_column(in, "local_bsz"),
                              .step = sheet_column(in, "step_time"),
                              .sync = sheet_column(in, "sync_time")};
    table->rows = mem_grow(table->rows, table->nrows, table->nrows + in->nrows,
                           sizeof *table->rows);
    for (size_t i = 0; i < in->nrows; i++) {
        if (column >= 0 && sheet_number(in, i, column) != frozen)
            continue;
        if (!take(in, &columns, i, &table->rows[table->nrows]))
            return firn_fail(err, FIRN_EINVAL,
                             "%s: row %zu: no placement, batch and step time "
                             "above 0",
                             path, i + 1);
        table->nrows++;
    }
    return FIRN_OK;
}

enum firn_status steptable_read(struct steptable *table, const char *path,
                                struct firn_error *err)
{
    struct sheet in = {0};
    FIRN_TRY(sheet_read(&in, path, err));
    enum firn_status status = steptable_add(table, &in, 0, path, err);
    sheet_release(&in);
    return status;
}

/* Rows of equal (nodes, gpus, batch) become one, their mean. */
static void average(struct steptable *table)
{
    size_t n = 0, count = 0;
    for (size_t i = 0; i < table->ngrid; i++) {
        struct steptable_row row = table->grid[i];
        struct steptable_row *last = n > 0 ? &table->grid[n - 1] : NULL;
        row.place[0] = '\0';
        if (last != NULL && last->nodes == row.nodes &&
            last->gpus == row.gpus && last->batch == row.batch) {
            count++;
            last->step_s += (row.step_s - last->step_s) / (double)count;
            last->sync_s += (row.sync_s - last->sync_s) / (double)count;
        } else {
            table->grid[n++] = row;
            count = 1;
        }
    }
    table->ngrid = n;
}

void steptable_ready(struct steptable *table)
{
    if (table->nrows == 0)
        return;
    table->grid = mem_new(table->nrows, sizeof *table->grid);
    memcpy(table->grid, table->rows, table->nrows * sizeof *table->grid);
    table->ngrid = table->nrows;
    qsort(table->grid, table->ngrid, sizeof *table->grid, by_size);
    average(table);
    qsort(table->rows, table->nrows, sizeof *table->rows, by_place);
}

void steptable_release(struct steptable *table)
{
    mem_free(table->rows);
    mem_free(table->grid);
    *table = (struct steptable){0};
}

double steptable_batch_max(const struct steptable *table)
{
    double most = 0;
    for (size_t i = 0; i < table->nrows; i++)
        most = fmax(most, table->rows[i].batch);
    return most;
}

static struct steptable_time blend(struct steptable_time a,
                                   struct steptable_time b, double part)
{
    return (struct steptable_time){
        .step_s = a.step_s + part * (b.step_s - a.step_s),
        .sync_s = a.sync_s + part * (b.sync_s - a.sync_s),
        .extrapolated = a.extrapolated || b.extrapolated,
    };
}

/* Linear in the batch over n rows sorted by it. */
static struct steptable_time in_batch(const struct steptable_row *rows,
                                      size_t n, double batch)
{
    size_t i = 0;
    while (i + 1 < n && rows[i + 1].batch <= batch)
        i++;
    struct steptable_time at = {rows[i].step_s, rows[i].sync_s, false};
    if (rows[i].batch == batch)
        return at;
    if (batch < rows[i].batch || i + 1 == n) {
        at.extrapolated = true;
        return at;
    }
    struct steptable_time next = {rows[i + 1].step_s, rows[i + 1].sync_s,
                                  false};
    return blend(at, next,
                 (batch - rows[i].batch) / (rows[i + 1].batch - rows[i].batch));
}

/* Rows of the grid with the nodes and GPUs of row `from`. */
static size_t run(const struct steptable *table, size_t from)
{
    size_t to = from;
    const struct steptable_row *g = table->grid;
    while (to < table->ngrid && g[to].nodes == g[from].nodes &&
           g[to].gpus == g[from].gpus)
        to++;
    return to - from;
}

/* At a measured number of nodes: linear in GPUs a node. */
static struct steptable_time in_density(const struct steptable *table,
                                        int nodes, double density, double batch)
{
    struct steptable_time low = {0}, at = {0};
    double low_x = 0;
    bool has_low = false;
    for (size_t i = 0; i < table->ngrid; i += run(table, i)) {
        const struct steptable_row *row = &table->grid[i];
        if (row->nodes != nodes)
            continue;
        double x = (double)row->gpus / nodes;
        at = in_batch(row, run(table, i), batch);
        if (x == density)
            return at;
        if (x > density && has_low)
            return blend(low, at, (density - low_x) / (x - low_x));
        if (x > density)
            break;
        low = at;
        low_x = x;
        has_low = true;
    }
    at.extrapolated = true;
    return at;
}

struct steptable_time steptable_spread(const struct steptable *table, int gpus,
                                       int nodes, double batch)
{
    int low = 0, high = 0;
    for (size_t i = 0; i < table->ngrid; i++) {
        int n = table->grid[i].nodes;
        if (n <= nodes)
            low = n;
        if (n >= nodes && high == 0)
            high = n;
    }
    double density = (double)gpus / nodes;
    bool is_out = low == 0 || high == 0;
    low = low == 0 ? high : low;
    high = high == 0 ? low : high;
    struct steptable_time at = in_density(table, low, density, batch);
    if (low != high)
        at = blend(at, in_density(table, high, density, batch),
                   (double)(nodes - low) / (high - low));
    at.extrapolated = at.extrapolated || is_out;
    return at;
}

/* The number of rows of `place`; 0 when it was not measured. */
static size_t find(const struct steptable *table, const char *place,
                   size_t *first)
{
    size_t low = 0, high = table->nrows;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(table->rows[mid].place, place) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *first = low;
    while (low < table->nrows && strcmp(table->rows[low].place, place) == 0)
        low++;
    return low - *first;
}

struct steptable_time steptable_at(const struct steptable *table,
                                   const int *gpus, int nodes, double batch)
{
    char place[STEPTABLE_DIGITS + 1];
    int total = 0;
    bool has_digits = nodes <= STEPTABLE_DIGITS;
    for (int i = 0; i < nodes; i++) {
        total += gpus[i];
        has_digits = has_digits && gpus[i] <= 9;
    }
    if (has_digits) {
        size_t first;
        for (int i = 0; i < nodes; i++)
            place[i] = (char)('0' + gpus[i]);
        place[nodes] = '\0';
        canonical(place);
        size_t n = find(table, place, &first);
        if (n > 0)
            return in_batch(table->rows + first, n, batch);
    }
    return steptable_spread(table, total, nodes, batch);
}
