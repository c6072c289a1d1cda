/* titanspeed.c - TitanSched's measured step times, looked up as it does.
 *
 * Up to four nodes every placement was measured at a dozen batches or more,
 * and a line is drawn between two of them. Beyond, the artifact has 6 and 8
 * nodes with a few numbers of GPUs and interpolates on a Delaunay mesh of
 * (nodes, GPUs, batch). The points form a lattice, so every cell is a prism
 * whose six corners lie on one sphere, and the mesh may cut it into
 * tetrahedra in any of six ways. Which one it chose (qhull, as scipy calls it)
 * is in `cuts`; with it the mesh is not needed (tetrahedra).
 *
 * An iteration has one synchronised step and passes - 1 without exchange. The
 * artifact predicts with one pass more than it makes (one-pass-more).
 *
 * Cost: O(log rows) a lookup; 64 lookups a kind.
 */
#include "compat/titanspeed.h"
#include "compat/titansheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NEAR_NODES = 4, /* every placement up to here was measured */
    FAR_FIRST = NEAR_NODES * TITAN_NODE_GPUS + 1,
    GRID = 10000, /* places of rows known by nodes and GPUs only */
};

static const char *const model_names[TITAN_MODELS] = {
    "roberta-base", "roberta-large", "vit", "vit-large"};

/* Beyond four nodes a point lies in a prism: three columns (nodes, GPUs), each
 * at two measured batches. A mesh cuts a prism into three tetrahedra by the
 * order in which columns change from the lower batch to the upper one. All
 * six orders are equally Delaunay; these are the mesh's, one digit for each of
 * 17 to 32 GPUs. Batches not listed have order 0 throughout. */
static const struct {
    const char *model;
    int batch;
    const char *orders;
} cuts[] = {
    {"vit", 192, "4043100010001110"},
    {"vit", 384, "1000110033331110"},
    {"vit", 576, "2010111033330000"},
    {"vit-large", 192, "3343000000101110"},
    {"vit-large", 384, "3000110033331110"},
    {"vit-large", 576, "4033111000101110"},
    {"roberta-base", 64, "4320000000000000"},
    {"roberta-base", 128, "2000011040000000"},
    {"roberta-base", 192, "0000100033300000"},
    {"roberta-large", 64, "3333100000000000"},
    {"roberta-large", 128, "4000000020000000"},
    {"roberta-large", 192, "3333100043200000"},
};

static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static int grid_place(int nodes, int gpus)
{
    return GRID + 100 * nodes + gpus;
}

static int by_place(const void *a, const void *b)
{
    const struct titanspeed_cell *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* The first row of `place` with at least this batch, or the end of its rows. */
static size_t row_of(const struct titanspeed_model *model, int place, int batch)
{
    const struct titanspeed_cell key = {.place = place, .batch = batch};
    size_t low = 0, high = model->cells.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by_place(&model->cells.at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Seconds of a step and of its exchange; NaN when they are not known. */
struct times {
    double step_s, sync_s;
};
static const struct times unknown = {(double)NAN, (double)NAN};

/* The two rows of a place around a batch; false when there are none. */
static bool rows_around(const struct titanspeed_model *model, int place,
                        int batch, const struct titanspeed_cell **low,
                        const struct titanspeed_cell **high)
{
    size_t first = row_of(model, place, 0), end = row_of(model, place + 1, 0);
    size_t at = row_of(model, place, batch);
    if (end - first < 2 || at == end || model->cells.at[first].batch > batch)
        return false;
    if (at == first)
        at++;
    *low = &model->cells.at[at - 1];
    *high = &model->cells.at[at];
    return true;
}

/* Up to four nodes: a line between two batches of the very placement. */
static struct times near_s(const struct titanspeed_model *model, int place,
                           int batch)
{
    const struct titanspeed_cell *a, *b;
    if (!rows_around(model, place, batch, &a, &b))
        return unknown;
    double width = b->batch - a->batch, x = batch - a->batch;
    return (struct times){(b->step_s - a->step_s) / width * x + a->step_s,
                          (b->sync_s - a->sync_s) / width * x + a->sync_s};
}

/* A column of a prism and its share in the point. */
struct column {
    int place;
    double weight;
};

/* Nodes 6 and 8 were measured at multiples of four GPUs. A point on 5 or 7
 * nodes is half the full nodes below it and half the nodes above with the
 * GPUs opposite. */
static void find_prism(int nodes, int gpus, struct column out[3])
{
    bool is_odd = nodes % 2 != 0;
    int top = is_odd ? nodes + 1 : nodes, below = top - 2;
    int across = is_odd ? 2 * gpus - TITAN_NODE_GPUS * below : gpus;
    int less =
        TITAN_NODE_GPUS * top - (across > TITAN_NODE_GPUS * (top - 1) ? 4 : 8);
    double half = is_odd ? 0.5 : 1, share = half * (across - less) / 4;
    out[0] = (struct column){
        below == NEAR_NODES ? 4444 : grid_place(below, TITAN_NODE_GPUS * below),
        1 - half};
    out[1] = (struct column){grid_place(top, less), half - share};
    out[2] = (struct column){grid_place(top, less + 4), share};
}

/* How the mesh cuts the prism of this number of GPUs and total batch. */
static const int *cut_of(const struct titanspeed_model *model, int total,
                         int gpus)
{
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        if (cuts[i].batch == total && strcmp(cuts[i].model, model->name) == 0)
            return orders[cuts[i].orders[gpus - FAR_FIRST] - '0'];
    return orders[0];
}

/* Five to eight nodes, 17 to 32 GPUs: tetrahedra. */
static struct times far_s(const struct titanspeed_model *model, int total,
                          int gpus, int batch)
{
    struct column columns[3];
    struct times sum = {0, 0};
    double upper = -1; /* the part left to change to the upper batch */
    find_prism((gpus + TITAN_NODE_GPUS - 1) / TITAN_NODE_GPUS, gpus, columns);
    const int *order = cut_of(model, total, gpus);
    for (int i = 0; i < 3; i++) {
        const struct column *column = &columns[order[i]];
        const struct titanspeed_cell *a, *b;
        if (!rows_around(model, column->place, batch, &a, &b))
            return unknown;
        if (upper < 0)
            upper = (double)(batch - a->batch) / (b->batch - a->batch);
        double high = fmin(column->weight, upper);
        double low = column->weight - high;
        upper -= high;
        sum.step_s += high * b->step_s + low * a->step_s;
        sum.sync_s += high * b->sync_s + low * a->sync_s;
    }
    return sum;
}

/* ---- speed of a job ---- */

/* How a total batch is split: samples on a GPU in a pass, and passes. */
struct split {
    int each, passes;
};

static struct split split_of(const struct titanspeed_model *model, int total,
                             int gpus)
{
    struct split s;
    int local = (int)ceil((double)total / gpus - 1e-8);
    s.passes = (int)ceil((double)local / model->batch_max - 1e-8);
    if (gpus == 1 && total > model->batch_max && s.passes < 2)
        s.passes = 2;
    s.each = (int)ceil((double)local / s.passes - 1e-8);
    if (s.each > total / (gpus * s.passes))
        s.each = total / (gpus * s.passes);
    if (s.each < model->batch_min)
        s.each = model->batch_min;
    return s;
}

/* `place` is for up to four nodes; `more` passes are counted in the time
 * (one-pass-more). */
static struct titanspeed_pace pace_of(const struct titanspeed_model *model,
                                      int total, int gpus, int place, int more)
{
    struct split s = split_of(model, total, gpus);
    struct times t = gpus < FAR_FIRST ? near_s(model, place, s.each)
                                      : far_s(model, total, gpus, s.each);
    return (struct titanspeed_pace){t.step_s + (t.step_s - t.sync_s) *
                                                   (s.passes - 1 + more),
                                    (double)gpus * s.each * s.passes};
}

/* The place on as few nodes as possible: 4, 4, ..., rest; smallest rotation. */
static int packed_place(int gpus)
{
    int rest = gpus % TITAN_NODE_GPUS, place = rest;
    for (int i = 0; i < gpus / TITAN_NODE_GPUS; i++)
        place = 10 * place + TITAN_NODE_GPUS;
    return place;
}

/* The digits of an allocation on up to four nodes: of all rotations of its
 * nodes the smallest. */
static int place_of(const struct firn_alloc *alloc)
{
    int best = -1, n = alloc->nparts;
    for (int first = 0; first < n; first++) {
        int place = 0;
        for (int i = 0; i < n; i++)
            place = 10 * place +
                    __builtin_popcountll(alloc->parts[(first + i) % n].gpus);
        if (best < 0 || place < best)
            best = place;
    }
    return best;
}
/* ---- reading ---- */

static bool read_cell(const struct sheet *sheet, size_t row,
                      struct titanspeed_cell *out)
{
    double place, nodes, gpus, batch;
    if (!titansheet_take(sheet, row, "local_bsz", 1, &batch) ||
        !titansheet_take(sheet, row, "step_time", 1e-12, &out->step_s) ||
        !titansheet_take(sheet, row, "sync_time", 0, &out->sync_s) ||
        batch > 1e6)
        return false;
    out->batch = (int)batch;
    if (sheet_column(sheet, "placement") >= 0) {
        out->place =
            titansheet_take(sheet, row, "placement", 1, &place) && place < GRID
                ? (int)place
                : 0;
        return out->place > 0;
    }
    if (!titansheet_take(sheet, row, "num_nodes", 1, &nodes) || nodes > 99 ||
        !titansheet_take(sheet, row, "num_replicas", 1, &gpus) || gpus > 99)
        return false;
    out->place = grid_place((int)nodes, (int)gpus);
    return true;
}

static enum firn_status read_cells(struct titanspeed_model *model,
                                   const char *folder, const char *what,
                                   struct firn_error *err)
{
    struct sheet sheet = {0};
    struct titanspeed_cell cell;
    char name[64];
    snprintf(name, sizeof name, "profiles/V100/%s_%s.csv", model->name, what);
    FIRN_TRY(titansheet_read(&sheet, folder, name, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!read_cell(&sheet, i, &cell))
            return titansheet_bad(&sheet, name, i, err);
        vec_add(&model->cells, cell);
    }
    sheet_release(&sheet);
    return FIRN_OK;
}

static enum firn_status read_model(struct titanspeed_model *model,
                                   const char *folder, struct firn_error *err)
{
    struct sheet sheet = {0};
    char name[64];
    double load_s;
    FIRN_TRY(read_cells(model, folder, "placements", err));
    for (size_t i = 0; i < model->cells.n; i++) {
        int batch = model->cells.at[i].batch;
        if (i == 0 || batch < model->batch_min)
            model->batch_min = batch;
        if (batch > model->batch_max)
            model->batch_max = batch;
    }
    FIRN_TRY(read_cells(model, folder, "scalability", err));
    if (model->cells.n == 0)
        return firn_fail(err, FIRN_EDATA, "ymir/profiles/V100/%s: no rows",
                         model->name);
    qsort(model->cells.at, model->cells.n, sizeof *model->cells.at, by_place);
    snprintf(name, sizeof name, "profiles/V100/%s_context_switch.csv",
             model->name);
    FIRN_TRY(titansheet_read(&sheet, folder, name, err));
    for (size_t i = 0; i < sheet.nrows; i++) {
        if (!titansheet_take(&sheet, i, "time_cost", 0, &load_s))
            return titansheet_bad(&sheet, name, i, err);
        model->load_s = fmax(model->load_s, load_s);
    }
    sheet_release(&sheet);
    model->is_read = true;
    return FIRN_OK;
}

static int model_of(const char *app)
{
    size_t n = strcspn(app, "@");
    for (int i = 0; i < TITAN_MODELS; i++)
        if (strlen(model_names[i]) == n && strncmp(model_names[i], app, n) == 0)
            return i;
    return -1;
}

static enum firn_status make_kind(const struct titanspeed_model *model,
                                  struct titanspeed_kind *kind,
                                  struct firn_error *err)
{
    kind->load_s = model->load_s;
    kind->gpus_max = kind->total / model->batch_min;
    if (kind->gpus_max > TITAN_GPUS_MAX)
        kind->gpus_max = TITAN_GPUS_MAX;
    for (int n = 1; n <= TITAN_GPUS_MAX; n++) {
        int place = n < FAR_FIRST ? packed_place(n) : 0;
        kind->packed[n] = pace_of(model, kind->total, n, place, 0);
        kind->expects[n] = pace_of(model, kind->total, n, place, 1);
        if (!(kind->packed[n].iter_s > 0))
            return firn_fail(err, FIRN_EDATA,
                             "ymir/profiles/V100/%s: no step time for a batch "
                             "of %d on %d GPUs",
                             model->name, kind->total, n);
    }
    return FIRN_OK;
}

enum firn_status titanspeed_kind(struct titanspeed *speed, const char *folder,
                                 const char *app, int total, int *out,
                                 struct firn_error *err)
{
    int m = model_of(app);
    if (m < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "TitanSched has no step times of '%.40s'", app);
    struct titanspeed_model *model = &speed->models[m];
    for (size_t i = 0; i < speed->kinds.n; i++)
        if (speed->kinds.at[i].model == m &&
            speed->kinds.at[i].total == total) {
            *out = (int)i;
            return FIRN_OK;
        }
    model->name = model_names[m];
    if (!model->is_read)
        FIRN_TRY(read_model(model, folder, err));
    struct titanspeed_kind kind = {.model = m, .total = total};
    FIRN_TRY(make_kind(model, &kind, err));
    vec_add(&speed->kinds, kind);
    *out = (int)speed->kinds.n - 1;
    return FIRN_OK;
}

struct titanspeed_pace titanspeed_on(const struct titanspeed *speed, int kind,
                                     const struct firn_alloc *alloc)
{
    const struct titanspeed_kind *k = &speed->kinds.at[kind];
    int place = alloc->ngpus < FAR_FIRST ? place_of(alloc) : 0;
    return pace_of(&speed->models[k->model], k->total, alloc->ngpus, place, 0);
}

void titanspeed_release(struct titanspeed *speed)
{
    for (int i = 0; i < TITAN_MODELS; i++)
        vec_release(&speed->models[i].cells);
    vec_release(&speed->kinds);
}
