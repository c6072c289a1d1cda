/* profilemaker.h - what the makers of shipped profiles share.
 *
 * Private to measured_fit.c and measured_frozen.c.
 */
#ifndef MODEL_PROFILEMAKER_H
#define MODEL_PROFILEMAKER_H
#include "model/sheet.h"
#include <firn/profile.h>

struct maker {
    const char *dir, *h200;
    struct firn_profiles out;
    size_t cap;
    struct firn_error *err;
};

/* Measurements of one application on one type; base/vec.h fills it. */
struct maker_obs {
    struct firn_step_obs *at;
    size_t n, cap;
};

#define MAKER_FITTED                                                   \
    "step times: least squares of log step on all rows, full form of " \
    "itertime.h"
#define MAKER_THINNED \
    "; statistics: thinned to 20 stages at most, each as long as its epochs"

/* A new profile; valid until the next one. */
struct firn_profile *maker_add(struct maker *m, const char *source,
                               const char *app);
void maker_tell(struct firn_profile *p, const char *origin,
                const char *hardware, const char *method);
/* Adds a type, its step times fitted. */
enum firn_status maker_fit(struct firn_profile *p, const char *type,
                           const struct maker_obs *obs, struct firn_error *err);
/* Gradient statistics, thinned. */
enum firn_status maker_stats(struct maker *m, struct firn_profile *p,
                             size_t most);
enum firn_status maker_read(struct maker *m, struct sheet *out, const char *dir,
                            const char *rel);
double maker_cell(const struct sheet *sheet, size_t row, const char *column);
/* A line a + b x by least squares, both coefficients >= 0. */
void maker_line(const double *x, const double *y, size_t n, double *a,
                double *b);

/* One application of IceFrog by frozen layers; the five CIFAR models; the
 * H200 tables; what `source` measured of pairs. */
enum firn_status maker_frozen(struct maker *m, const char *app,
                              const char *folder);
enum firn_status maker_cifar(struct maker *m);
enum firn_status maker_h200(struct maker *m);
enum firn_status maker_pairs(struct maker *m, const char *source);

#endif
