/* tables.h - measured step times: how fast a simulated job really goes.
 *
 * The published tables behind profiles. They are the simulator's truth; its
 * forecasts see the profiles' fits (core/known.h) and never a table, unless
 * the user asks for that (`--forecast tables`, `--forecast pollux`).
 */
#ifndef SIM_TABLES_H
#define SIM_TABLES_H
#include "core/known.h"
#include "model/measured.h"
#include <firn/sim.h>

/* The tables of one profile; no rows: use the fit. */
struct tables_of {
    struct steptable steps[FIRN_PROFILE_TYPES];
    struct measured_level *levels; /* by frozen layers, of all types */
    size_t nlevels;
};

struct tables {
    struct known known;      /* first: tables_true_s() relies on it */
    struct tables_of *of;    /* by profile */
    struct plantable *plans; /* by plan_models(); NULL: no tables */
};

/* `profiles` is "builtin", a folder of profiles, or a data folder (then the
 * shipped profiles and its tables). FIRN_EINVAL with a sentence when it is
 * none of them. Of the tables only those of the cluster's types are read. The
 * caller closes. */
enum firn_status tables_open(struct tables *out, const char *profiles,
                             const struct firn_cluster *cluster,
                             struct firn_error *err);
void tables_close(struct tables *tables);
/* Every pair of applications counts as never measured together. */
void tables_forget_pairs(struct tables *tables);

/* What forecasts go by from now on. FIRN_EDATA when a table has too few rows
 * for Pollux's law. */
enum firn_status tables_forecast_by(struct tables *tables,
                                    enum firn_sim_forecast by,
                                    struct firn_error *err);

/* Seconds of an iteration by tables, and by the fits where there are none.
 * `known` is that of a struct tables. The slowest type counts; what does not
 * fit its GPUs spills to the host and crawls, so that every run ends. */
double tables_true_s(const struct known *known, const struct known_app *app,
                     const struct spread *where, const struct setting *setting);

#endif
