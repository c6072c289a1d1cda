/* profile_table.h - a measured table read into rows, by application.
 *
 * Two formats, told apart by their header line. Columns are found by name;
 * others are ignored; an empty cell was not measured.
 *
 *   H200:    model, batch, layers, frozen, flops_unfrozen_ratio,
 *            params_unfrozen_ratio, iter_ms [, bwd_ms, peak_alloc_mib,
 *            gpu_util_pct]; one GPU
 *   IceFrog: placement, local_bsz, step_time, sync_time [, frozen_layer] [,
 *            app]; Pollux's is the same without frozen_layer; "413" are three
 *            nodes with 4, 1 and 3 GPUs
 *
 * The second says how many layers are frozen but not what is left. That comes
 * from a layer table: app, frozen_layers, param_frac_left, flop_frac_left,
 * activation_frac_left; the last stands in for FLOPs where these leave
 * [0, 1]. Without one every layer counts alike.
 */
#ifndef CLI_PROFILE_TABLE_H
#define CLI_PROFILE_TABLE_H
#include "cli/flags.h"
#include "model/evaluate.h"

enum { TABLE_BAD_SHOWN = 3, TABLE_LAYERS = 512 };

struct table_row {
    int app; /* index into `apps` */
    long line;
    struct evaluate_row row;
};

struct profile_table {
    const char *path;  /* borrowed */
    struct words apps; /* in the order of first appearance */
    struct table_row *rows;
    size_t nrows, cap;
    long nbad;
    char bad[TABLE_BAD_SHOWN][320]; /* the first of them, in words */
    bool counts_layers;             /* frozen layers of unknown weight */
    int most_frozen;
};

/* What is left with so many layers frozen. */
struct profile_layers {
    bool is_known;
    int n;
    double theta[TABLE_LAYERS], omega[TABLE_LAYERS];
};

/* The layer table at `spec`, FILE or FILE#APP. With `spec` NULL: layer_info.csv
 * beside the table or in the folder above it, and is_known false when there
 * is none. The application is the one named, or that of the table's folder,
 * or the only one in the file. */
enum firn_status profile_layers_read(struct profile_layers *out,
                                     const char *spec, const char *table_path,
                                     struct firn_error *err);

/* Reads a table; bad rows are kept as words and left out. `path` is kept.
 * Release it in any case. */
enum firn_status profile_table_read(struct profile_table *out, const char *path,
                                    const struct profile_layers *layers,
                                    struct firn_error *err);
void profile_table_release(struct profile_table *table);

/* Where no layer table is known: each of 1 + `most_frozen` layers weighs the
 * same. */
void profile_table_count_layers(struct profile_table *table, int most_frozen);

/* The rows of one application; *n of them. The caller frees it (mem_free). */
struct evaluate_row *profile_table_of(const struct profile_table *table,
                                      const char *app, size_t *n);

#endif
