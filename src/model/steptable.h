/* steptable.h - measured step times, looked up.
 *
 * The tables of Pollux, Sia and Titan: `placements.csv` has one row for each
 * (placement, samples a GPU), a placement being one digit a node ("44": two
 * nodes of four); `scalability.csv` one for each (nodes, GPUs, samples a GPU).
 */
#ifndef MODEL_STEPTABLE_H
#define MODEL_STEPTABLE_H
#include <firn/itertime.h>

enum { STEPTABLE_DIGITS = 16 };

/* A row: its place, or "" with nodes and GPUs only. */
struct steptable_row {
    char place[STEPTABLE_DIGITS + 1]; /* canonical */
    int nodes, gpus;
    double batch, step_s, sync_s;
};

/* Rows are sorted: by (place, batch), and `grid` by (nodes, gpus, batch). */
struct steptable {
    struct steptable_row *rows, *grid;
    size_t nrows, ngrid;
};

struct steptable_time {
    double step_s, sync_s;
    bool extrapolated; /* outside what was measured */
};

struct sheet;

/* Adds the rows of a file with `frozen` layers frozen (all rows, if the file
 * has no such column). FIRN_EINVAL with the line when a number is not positive
 * and finite. */
enum firn_status steptable_add(struct steptable *table, const struct sheet *in,
                               double frozen, const char *path,
                               struct firn_error *err);
/* Reads a file and adds its rows with nothing frozen. */
enum firn_status steptable_read(struct steptable *table, const char *path,
                                struct firn_error *err);
/* Once all files are read: sorts, and makes the grid. */
void steptable_ready(struct steptable *table);
void steptable_release(struct steptable *table);

/* The GPUs on each node, and samples a GPU. `table` has rows. */
struct steptable_time steptable_at(const struct steptable *table,
                                   const int *gpus, int nodes, double batch);

/* The same from the grid, when only the numbers of GPUs and nodes are known. */
struct steptable_time steptable_spread(const struct steptable *table, int gpus,
                                       int nodes, double batch);

/* The largest measured batch on a GPU. */
double steptable_batch_max(const struct steptable *table);

#endif
