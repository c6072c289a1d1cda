/* waytable.c - arrays for the ways that are asked about often, a hash for the
 * rest.
 *
 * A sheet of 64 GPUs by 0..16 nodes is 8.5 KiB, so that those of a hundred
 * jobs stay in a processor's second cache. A job that is asked about FEW ways
 * has none: there may be a hundred thousand that wait. The hash is open, at
 * most half full, and probes linearly; nothing walks it but to grow.
 */
#include "core/waytable.h"
#include "base/mem.h"
#include <string.h>

enum {
    CELLS_MIN = 16,
    FEW = 8,
    SHEET = WAYTABLE_GPUS * (WAYTABLE_NODES + 1),
};

/* key 0: empty. */
struct waytable_cell {
    uint64_t key;
    int passes;
    double value;
};

static size_t nsheets(const struct waytable *table)
{
    return (size_t)table->nrows * WAYTABLE_TUNES;
}

void waytable_init(struct waytable *table, int ntypes)
{
    *table = (struct waytable){.ntypes = ntypes};
}

void waytable_release(struct waytable *table)
{
    for (size_t i = 0; i < nsheets(table); i++)
        mem_free(table->sheets[i]);
    mem_free(table->sheets);
    mem_free(table->cells);
    *table = (struct waytable){0};
}

static void blank(double *sheet)
{
    for (int i = 0; i < SHEET; i++)
        sheet[i] = (double)NAN;
}

void waytable_clear(struct waytable *table)
{
    for (size_t i = 0; i < nsheets(table); i++)
        if (table->sheets[i] != NULL)
            blank(table->sheets[i]);
    if (table->nused > 0)
        memset(table->cells, 0, table->ncells * sizeof *table->cells);
    table->nused = 0;
    table->nnear = 0;
}

/* Ways of as many passes have a key of their own each, none has 0: gpus >= 1,
 * or gpus < 0. */
static uint64_t key_of(const struct firn_way *way)
{
    return (uint64_t)(uint32_t)way->gpus << 32 ^
           (uint64_t)((uint32_t)way->nodes & 0xffffffu) << 8 ^
           (uint64_t)((unsigned)(way->type + 1) & 0x3fu) << 2 ^
           (way->tunes & 3u);
}

/* Where that key is or belongs. */
static struct waytable_cell *cell_of(const struct waytable *table, uint64_t key,
                                     int passes)
{
    uint64_t hash = (key ^ (uint64_t)passes << 44) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 32) & (table->ncells - 1);
    while (table->cells[i].key != 0 &&
           (table->cells[i].key != key || table->cells[i].passes != passes))
        i = (i + 1) & (table->ncells - 1);
    return &table->cells[i];
}

double waytable_find(const struct waytable *table, const struct firn_way *way)
{
    if (table->ncells == 0)
        return (double)NAN;
    const struct waytable_cell *cell = cell_of(table, key_of(way), way->passes);
    return cell->key != 0 ? cell->value : (double)NAN;
}

static void grow(struct waytable *table)
{
    struct waytable was = *table;
    table->ncells = was.ncells > 0 ? 2 * was.ncells : CELLS_MIN;
    table->cells = mem_new(table->ncells, sizeof *table->cells);
    for (size_t i = 0; i < was.ncells; i++)
        if (was.cells[i].key != 0)
            *cell_of(table, was.cells[i].key, was.cells[i].passes) =
                was.cells[i];
    mem_free(was.cells);
}

static inline void put_near(struct waytable *table, size_t sheet, size_t at,
                            double value)
{
    if (table->sheets[sheet] == NULL) {
        table->sheets[sheet] = mem_new(SHEET, sizeof(double));
        blank(table->sheets[sheet]);
    }
    table->sheets[sheet][at] = value;
}

static void put_hashed(struct waytable *table, uint64_t key, int passes,
                       double value)
{
    if (2 * (table->nused + 1) > table->ncells)
        grow(table);
    struct waytable_cell *cell = cell_of(table, key, passes);
    table->nused += cell->key == 0;
    *cell = (struct waytable_cell){key, passes, value};
}

/* From now on near ways are in sheets; those hashed so far move there. */
static void spread_out(struct waytable *table)
{
    struct waytable was = *table;
    table->nrows = table->ntypes + 1;
    table->sheets = mem_new(nsheets(table), sizeof(double *));
    table->cells = NULL;
    table->ncells = table->nused = 0;
    for (size_t i = 0; i < was.ncells; i++) {
        uint64_t key = was.cells[i].key;
        struct firn_way way = {.gpus = (int)(key >> 32),
                               .nodes = (int)(key >> 8 & 0xffffffu),
                               .type = (int)(key >> 2 & 0x3fu) - 1,
                               .tunes = (unsigned)(key & 3u),
                               .passes = was.cells[i].passes};
        size_t sheet, at;
        if (key == 0)
            continue;
        if (waytable_is_near(table, &way, &sheet, &at))
            put_near(table, sheet, at, was.cells[i].value);
        else
            put_hashed(table, key, way.passes, was.cells[i].value);
    }
    mem_free(was.cells);
}

void waytable_put(struct waytable *table, const struct firn_way *way,
                  double value)
{
    size_t sheet, at;
    if (waytable_is_near(table, way, &sheet, &at)) {
        put_near(table, sheet, at, value);
        return;
    }
    if (table->nrows == 0) {
        struct waytable then = {.nrows = table->ntypes + 1};
        table->nnear += waytable_is_near(&then, way, &sheet, &at);
        if (table->nnear > FEW) {
            spread_out(table);
            waytable_put(table, way, value);
            return;
        }
    }
    put_hashed(table, key_of(way), way->passes, value);
}
