/* profile_table.h - reads a measured table into rows by application.
 *
 * Two formats, recognised by their header. Columns are found by name; other
 * columns are ignored; an empty cell means not measured.
 *
 *   H200:    model, batch, layers, frozen, flops_unfrozen_ratio,
 *            params_unfrozen_ratio, iter_ms [, bwd_ms, peak_alloc_mib,
 *            gpu_util_pct]; one GPU
 *   IceFrog: placement, local_bsz, step_time, sync_time [, frozen_layer] [,
 *            app]; Pollux's is the same without frozen_layer; placement "413"
 *            means three nodes with 4, 1 and 3 GPUs
 *
 * The second format has the number of frozen layers, but not their shares of
 * parameters and FLOPs. These come from a layer table: app, frozen_layers,
 * param_frac_left, flop_frac_left, activation_frac_left; the last one replaces
 * FLOPs outside [0, 1]. Without a layer table all layers count the same.
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
    char bad[TABLE_BAD_SHOWN][320]; /* messages about the first bad rows */
    bool counts_layers;             /* has frozen layers but no layer table */
    int most_frozen;
};

/* Shares that are still trained, by number of frozen layers. */
struct profile_layers {
    bool is_known;
    int n;
    double theta[TABLE_LAYERS], omega[TABLE_LAYERS];
};

/* Reads the layer table `spec`, FILE or FILE#APP. `spec` NULL: layer_info.csv
 * in the directory of the table or its parent; is_known is false if there is
 * none. The application is APP, else the name of the table's directory, else
 * the only one in the file. */
enum firn_status profile_layers_read(struct profile_layers *out,
                                     const char *spec, const char *table_path,
                                     struct firn_error *err);

/* Reads a table; bad rows are skipped and kept as messages. Borrows `path`.
 * Release `out` in any case. */
enum firn_status profile_table_read(struct profile_table *out, const char *path,
                                    const struct profile_layers *layers,
                                    struct firn_error *err);
void profile_table_release(struct profile_table *table);

/* Without a layer table: gives each of 1 + `most_frozen` layers the same
 * weight. */
void profile_table_count_layers(struct profile_table *table, int most_frozen);

/* The *n rows of one application; the caller frees them (mem_free). */
struct evaluate_row *profile_table_of(const struct profile_table *table,
                                      const char *app, size_t *n);

#endif
