/* plantable.c - Rubick's tables of measured plans: read, sorted, looked up.
 *
 * The columns are exec_plan, placement, iter_time in seconds, and, in some
 * files, forward, overlap_sync and optimize. Those three are in milliseconds in
 * the rows of split models, the only ones they are used of: forward and
 * overlap_sync together are the compute of a step, which has the exchange of
 * tensor shares and stages in it and that of gradients not.
 *
 * Whether a plan could run is decided by its states alone: activations are cut
 * by accumulation, which every plan of the tables may use.
 *
 * Cost: a look-up is a binary search.
 */
#include "model/plantable.h"
#include "base/mem.h"
#include "model/sheet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GIB        (1024.0 * 1024.0 * 1024.0)
#define USED_SHARE 0.9 /* of a GPU's memory that states may take */

/* --- models -------------------------------------------------------------- */

static const struct plan_model models[] = {
#define PLAN_MODEL(id, gpu, weights, nlayers, nheads, samples)         \
    {                                                                  \
        .name = id, .type = gpu, .params = weights, .layers = nlayers, \
        .heads = nheads, .batch = samples,                             \
        .law = {                                                       \
            .seconds = {
#define PLAN_LAW(kind, ...) [PLAN_##kind] = {__VA_ARGS__},
#define TERM(term, s)       [PLAN_##term] = s
#define PLAN_MODEL_END \
    }                  \
    }                  \
    }                  \
    ,
#include "model/plan_models.def"
#undef PLAN_MODEL
#undef PLAN_LAW
#undef TERM
#undef PLAN_MODEL_END
};

const struct plan_model *plan_models(size_t *n)
{
    *n = sizeof models / sizeof *models;
    return models;
}

const struct plan_model *plan_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

double plan_states_gib(const struct plan_model *model,
                       const struct exec_plan *plan)
{
    double bytes = 16;
    if (plan->kind == PLAN_ZERO)
        bytes = 4 + 12.0 / plan->data;
    else if (plan->kind == PLAN_OFFLOAD)
        bytes = 4;
    else if (plan->kind == PLAN_SPLIT)
        bytes = 16.0 / (plan->stages * plan->tensor);
    return model->params * bytes / GIB;
}

bool plan_is_possible(const struct plan_model *model,
                      const struct exec_plan *plan, double mem_gib,
                      int node_gpus)
{
    if (!plan_law_knows(&model->law, plan->kind))
        return false;
    if (model->layers % plan->stages != 0 || plan->tensor > node_gpus ||
        model->heads % plan->tensor != 0 || plan->data > model->batch)
        return false;
    return mem_gib <= 0 || plan_states_gib(model, plan) <= USED_SHARE * mem_gib;
}

/* --- tables -------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* "112" into 1, 1, 2; false for other characters, or too many nodes. */
static bool read_place(const char *text, int each[PLANTABLE_NODES], int *nodes)
{
    size_t n = strlen(text);
    memset(each, 0, PLANTABLE_NODES * sizeof *each);
    if (n < 1 || n > PLANTABLE_NODES)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '1' || text[i] > '9')
            return false;
        each[i] = text[i] - '0';
    }
    *nodes = (int)n;
    qsort(each, n, sizeof *each, by_number);
    return true;
}

static int compare_plans(const struct exec_plan *a, const struct exec_plan *b)
{
    const int x[] = {(int)a->kind, a->recomputes, a->stages,
                     a->tensor,    a->data,       a->micro};
    const int y[] = {(int)b->kind, b->recomputes, b->stages,
                     b->tensor,    b->data,       b->micro};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare(const struct plantable_row *a, const struct plantable_row *b)
{
    int c = compare_plans(&a->row.plan, &b->row.plan);
    for (int i = 0; c == 0 && i < PLANTABLE_NODES; i++)
        c = (a->each[i] > b->each[i]) - (a->each[i] < b->each[i]);
    return c;
}

static bool read_row(const struct sheet *in, size_t i, double step_s,
                     struct plantable_row *out)
{
    int nodes;
    double forward = sheet_number(in, i, sheet_column(in, "forward"));
    double backward = sheet_number(in, i, sheet_column(in, "overlap_sync"));
    double optimize = sheet_number(in, i, sheet_column(in, "optimize"));
    *out = (struct plantable_row){0};
    if (!read_place(sheet_text(in, i, sheet_column(in, "placement")), out->each,
                    &nodes))
        return false;
    out->row.spot = plan_spot_of(out->each, nodes);
    out->row.step_s = step_s;
    if (!exec_plan_read(sheet_text(in, i, sheet_column(in, "exec_plan")),
                        out->row.spot.gpus, &out->row.plan))
        return false;
    if (out->row.plan.kind == PLAN_SPLIT && backward > 0 && optimize > 0) {
        out->row.compute_s = ((forward > 0 ? forward : 0) + backward) / 1000;
        out->row.optimize_s = optimize / 1000;
    }
    return true;
}

static int by_row(const void *a, const void *b)
{
    return compare(a, b);
}

/* Of equal rows the first of the file is kept. */
static void add_row(struct plantable *table, const struct plantable_row *row)
{
    for (size_t i = 0; i < table->n; i++)
        if (compare(&table->rows[i], row) == 0)
            return;
    table->rows[table->n++] = *row;
}

enum firn_status plantable_read(struct plantable *out, const char *path,
                                struct firn_error *err)
{
    struct sheet in = {0};
    struct plantable table = {0};
    FIRN_TRY(sheet_read(&in, path, err));
    enum firn_status status = FIRN_OK;
    int column = sheet_column(&in, "iter_time");
    if (column < 0 || sheet_column(&in, "exec_plan") < 0 ||
        sheet_column(&in, "placement") < 0)
        status = firn_fail(err, FIRN_EINVAL,
                           "%s: needs the columns exec_plan, placement and "
                           "iter_time",
                           path);
    table.rows = mem_new(in.nrows + 1, sizeof *table.rows);
    for (size_t i = 0; i < in.nrows && status == FIRN_OK; i++) {
        struct plantable_row row;
        double step_s = sheet_number(&in, i, column);
        if (step_s == 0)
            continue;
        if (!(step_s > 0) || !isfinite(step_s) ||
            !read_row(&in, i, step_s, &row))
            status = firn_fail(
                err, FIRN_EINVAL,
                "%s: row %zu: no plan '%s' on '%s' with a time", path, i + 1,
                sheet_text(&in, i, sheet_column(&in, "exec_plan")),
                sheet_text(&in, i, sheet_column(&in, "placement")));
        else
            add_row(&table, &row);
    }
    sheet_release(&in);
    if (status != FIRN_OK) {
        plantable_release(&table);
        return status;
    }
    qsort(table.rows, table.n, sizeof *table.rows, by_row);
    *out = table;
    return FIRN_OK;
}

void plantable_release(struct plantable *table)
{
    mem_free(table->rows);
    *table = (struct plantable){0};
}

double plantable_at(const struct plantable *table, const struct exec_plan *plan,
                    const int *each, int nodes)
{
    struct plantable_row key = {.row.plan = *plan};
    size_t low = 0, high = table->n;
    if (nodes < 1 || nodes > PLANTABLE_NODES)
        return (double)NAN;
    memcpy(key.each, each, (size_t)nodes * sizeof *each);
    qsort(key.each, (size_t)nodes, sizeof *key.each, by_number);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = compare(&table->rows[middle], &key);
        if (c == 0)
            return table->rows[middle].row.step_s;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)NAN;
}
