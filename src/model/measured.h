/* measured.h - the published tables behind the shipped profiles.
 *
 * A data folder has pollux/apps, sia/apps, icefrog, ymir, easyscale and h200
 * as docs/profiles.md lists them. The full tables are the true step times of a
 * simulation; the shipped profiles are made from them.
 */
#ifndef MODEL_MEASURED_H
#define MODEL_MEASURED_H
#include "model/sheet.h"
#include "model/steptable.h"
#include <firn/profile.h>

/* Does the folder hold such tables? */
bool measured_is_here(const char *dir);

/* The step times behind a profile on one type; no rows when none were
 * published (that is no failure). The caller releases. */
enum firn_status measured_table(struct steptable *out, const char *source,
                                const char *app, const char *type,
                                const char *dir, struct firn_error *err);

/* Step times with `frozen` layers frozen. */
struct measured_level {
    double frozen;
    struct steptable table;
};

/* Step times by frozen layers, rising from 0; none when none were published.
 * The caller releases each table and frees the array. */
enum firn_status measured_levels(struct measured_level **out, size_t *n,
                                 const char *source, const char *app,
                                 const char *dir, struct firn_error *err);

/* Gradient statistics, one stage for each epoch; empty when none were
 * published. Owned by the caller, as in struct firn_profile. */
enum firn_status measured_stats(struct firn_profile_stats *out,
                                const char *source, const char *app,
                                const char *dir, struct firn_error *err);

/* The B of all validation-B.csv in a folder, rising; returns how many. The
 * caller frees the array. */
size_t measured_batches(double **out, const char *folder);

/* Fits a law of this form to a table. FIRN_EDATA when it has too few rows;
 * `out` is then unchanged. */
enum firn_status measured_law(struct firn_itertime *out,
                              const struct steptable *table,
                              enum firn_itertime_form form,
                              struct firn_error *err);

/* `h200` is the folder of the H200 tables. Fills a profile of source bsbf: step
 * times of Sia's profile of the same application on a 2080 Ti, with memory and
 * with slowdowns of pairs. */
enum firn_status measured_six(struct firn_profile *profile,
                              const struct firn_profile *sia, const char *dir,
                              const char *h200, struct firn_error *err);

/* Sets the costs of a resize of a profile by the table resize.csv; of an
 * application that it does not have: not known. */
void measured_resize(struct firn_profile *profile, const struct sheet *table);

void measured_stats_release(struct firn_profile_stats *stats);

/* Merges equally many neighbouring stages so that at most `most` are left: the
 * mean variance, and the |g|^2 with which training at a measured batch takes as
 * long as before. */
void measured_thin(struct firn_profile_stats *stats, size_t most);

/* The gradient statistics of a training measured for firn, from a table of
 * bench/gpu/freeze_worth.py (profiles/h200/freeze_variance.csv): a profile
 * without step times. `task` is the table's name of it. The caller releases.
 * FIRN_EDATA when the table has no row of it. */
enum firn_status measured_variance(struct firn_profile *out, const char *task,
                                   const char *path, struct firn_error *err);

/* All shipped profiles but the synthetic ones, made anew: fitted and thinned.
 * `h200` is the folder of the H200 tables. Takes seconds. */
enum firn_status measured_profiles(struct firn_profiles *out, const char *dir,
                                   const char *h200, struct firn_error *err);

#endif
