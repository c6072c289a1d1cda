/* waytable.h - one number for each way a job may be run.
 *
 * A policy's search asks about few GPUs on few nodes, again and again: once a
 * job was asked about several of those ways, they have a place of their own in
 * an array for each type and tuning. Any other way is hashed. Nodes 0
 * ("as few as can be") and that number of nodes are two ways here.
 */
#ifndef SIM_WAYTABLE_H
#define SIM_WAYTABLE_H
#include <firn/forecast.h>
#include <math.h>

enum { WAYTABLE_GPUS = 64, WAYTABLE_NODES = 16, WAYTABLE_TUNES = 4 };

/* Initialised by waytable_init(). */
struct waytable {
    int ntypes;
    int nrows;       /* of sheets: 1 + ntypes; 0: everything is hashed so far */
    int nnear;       /* hashed ways that a sheet would have */
    double **sheets; /* [(type + 1) x tunes], made when first needed */
    struct waytable_cell *cells; /* a power of two of them, or none */
    size_t ncells, nused;
};

void waytable_init(struct waytable *table, int ntypes);
void waytable_release(struct waytable *table);
/* Forgets everything. */
void waytable_clear(struct waytable *table);

/* The table distinguishes ways by GPUs, nodes, type, passes and the first two
 * tunings; a way with other fields set is not for this table. */
static inline bool waytable_holds(const struct firn_way *way)
{
    return way->tensor == 0 && way->parallel == 0 && way->counts == NULL &&
           way->tunes < WAYTABLE_TUNES;
}

/* The way has a place of its own: which sheet, and where on it. */
static inline bool waytable_is_near(const struct waytable *table,
                                    const struct firn_way *way, size_t *sheet,
                                    size_t *at)
{
    *sheet = (size_t)(way->type + 1) * WAYTABLE_TUNES + (way->tunes & 3u);
    *at = (size_t)(way->gpus - 1) * (WAYTABLE_NODES + 1) + (size_t)way->nodes;
    return way->passes == 0 && (unsigned)(way->gpus - 1) < WAYTABLE_GPUS &&
           (unsigned)way->nodes <= WAYTABLE_NODES &&
           (unsigned)(way->type + 1) < (unsigned)table->nrows;
}

/* What was put in for this way; NaN for nothing. */
double waytable_find(const struct waytable *table, const struct firn_way *way);
static inline double waytable_get(const struct waytable *table,
                                  const struct firn_way *way)
{
    size_t sheet, at;
    if (!waytable_is_near(table, way, &sheet, &at))
        return waytable_find(table, way);
    return table->sheets[sheet] ? table->sheets[sheet][at] : (double)NAN;
}

/* `value` is not NaN. */
void waytable_put(struct waytable *table, const struct firn_way *way,
                  double value);

#endif
