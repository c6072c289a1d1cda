/* truth_table.h - truth from measured tables and fitted profiles.
 *
 * Step times come from the published tables where a data folder is given and
 * has them, else from the profile's fit. How a job's rate follows is in
 * truth_table.c. Applications without a profile go by the trace, as in
 * truth.h.
 */
#ifndef SIM_TRUTH_TABLE_H
#define SIM_TRUTH_TABLE_H
#include "sim/truth.h"

struct truth_table;

/* `profiles` is "builtin", a folder of profiles, or a data folder (then the
 * shipped profiles and its tables). FIRN_EINVAL with a sentence when it is
 * none of them. The caller frees. */
enum firn_status truth_table_open(struct truth_table **out,
                                  const char *profiles, struct firn_error *err);
void truth_table_free(struct truth_table *table);

/* The truth for a cluster; `base` is what holds for unknown applications.
 * `format` is that of the trace ("pollux"): it says whose applications are
 * meant when several sources have one of that name; "" for none. The table
 * serves one truth at a time. */
struct truth truth_from_table(struct truth_table *table,
                              const struct truth *base, const char *format);

#endif
