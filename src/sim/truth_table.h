/* truth_table.h - truth from measured tables and fitted profiles.
 *
 * Step times come from the published tables where a data folder is given and
 * has them, else from the profile's fit. How a job's rate follows is in
 * truth_table.c. Applications without a profile go by the trace, as in
 * truth.h.
 */
#ifndef SIM_TRUTH_TABLE_H
#define SIM_TRUTH_TABLE_H
#include "core/trainer.h"
#include "sim/tables.h"
#include "sim/truth.h"

struct truth_table {
    struct tables tables; /* with the profiles */
    struct trainer *trainer;
    struct truth base;
};

/* `profiles` as for tables_open(). The caller frees. */
enum firn_status truth_table_open(struct truth_table **out,
                                  const char *profiles,
                                  const struct firn_cluster *cluster,
                                  enum firn_sim_freeze freeze,
                                  struct firn_error *err);
void truth_table_free(struct truth_table *table);

/* A job of that application on these types, with these FIRN_TUNE_*, freezes
 * layers. */
bool truth_table_freezes(const struct truth_table *table, const char *app,
                         uint32_t types, unsigned tunes);

/* The truth for a cluster; `base` is what holds for unknown applications.
 * `format` is that of the trace ("pollux"): it says whose applications are
 * meant when several sources have one of that name; "" for none. The table
 * serves one truth at a time. */
struct truth truth_from_table(struct truth_table *table,
                              const struct truth *base, const char *format);

#endif
