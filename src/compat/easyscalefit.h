/* easyscalefit.h - mini-batch times of EasyScale's applications, fitted.
 *
 * Between easyscale.c, easyscalejobs.c and easyscale_fitted.c, which explains
 * the fit.
 */
#ifndef COMPAT_EASYSCALEFIT_H
#define COMPAT_EASYSCALEFIT_H
#include "sim/world.h"

/* All times are stretched by it. */
extern const double es_fit_scale;

/* The slope of struct es_app: `first_s` seconds at batch `first`, and `last_s`
 * at the largest batch of that application. 1 for one that is not known. */
double es_fit_slope(const char *app, double first, double first_s,
                    double last_s);

/* easyscale.c's, for both worlds. */
extern const struct firn_engine_def es_engine;
extern const struct world_policy es_policies[];
enum firn_status es_suits(const struct firn_sim_options *options,
                          struct firn_error *err);

extern const struct firn_world_def compat_easyscale_fitted;

#endif
