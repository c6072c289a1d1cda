/* cadence.h - when a simulated scheduler decides, and how times are rounded.
 *
 * The honest one decides at each event and rounds nothing. Published
 * simulators decide only at intervals, round completions to whole seconds, and
 * charge even the first start. All of that is here and nowhere else, so a mode
 * that imitates one of them is another struct like this, and policies see no
 * difference.
 */
#ifndef SIM_CADENCE_H
#define SIM_CADENCE_H
#include <stdbool.h>

struct cadence {
    const char *name;
    double interval_s;        /* 0: at each event */
    double quantum_s;         /* 0: exact */
    bool charges_first_start; /* the first start costs a restart as well */

    /* The time at which a decision asked for at `now_s` is made; >= now_s. */
    double (*decide_s)(const struct cadence *cadence, double now_s);
    /* The time at which work that ends at `end_s` is seen to end; >= end_s. */
    double (*finish_s)(const struct cadence *cadence, double end_s);
};

/* interval_s and quantum_s 0 give the honest one. */
struct cadence cadence_every(double interval_s, double quantum_s,
                             bool charges_first_start);

#endif
