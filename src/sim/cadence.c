/* cadence.c - times rounded up to multiples, or not at all.
 */
#include "sim/cadence.h"
#include <math.h>

/* The first multiple of `step_s` at or after `at_s`; a time within rounding of
 * a multiple is that multiple. */
static double round_up(double at_s, double step_s)
{
    if (step_s <= 0)
        return at_s;
    double steps = at_s / step_s, near = round(steps);
    if (fabs(steps - near) > 1e-9 * (1 + near))
        near = ceil(steps);
    double up_s = near * step_s;
    return up_s < at_s ? at_s : up_s;
}

static double decide_s(const struct cadence *cadence, double now_s)
{
    return round_up(now_s, cadence->interval_s);
}

static double finish_s(const struct cadence *cadence, double end_s)
{
    return round_up(end_s, cadence->quantum_s);
}

struct cadence cadence_every(double interval_s, double quantum_s,
                             bool charges_first_start)
{
    return (struct cadence){.name = interval_s > 0 ? "rounds" : "events",
                            .interval_s = interval_s,
                            .quantum_s = quantum_s,
                            .charges_first_start = charges_first_start,
                            .decide_s = decide_s,
                            .finish_s = finish_s};
}
