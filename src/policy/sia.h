/* sia.h - the inside of policy sia, for variants of it.
 *
 * A world that imitates another simulator may have its own idea of what a
 * restart costs a job and of how costs are rounded; the rest is the policy's.
 */
#ifndef POLICY_SIA_H
#define POLICY_SIA_H
#include "math/cbc.h"
#include "math/priced.h"
#include "policy/rounds.h"
#include <firn/policy.h>

struct sia_rules {
    double p;          /* power of the normalised rate, < 0 */
    double lambda;     /* what leaving a job out costs */
    double interval_s; /* between two rounds */
    double restart_s;  /* for jobs that name no restart cost */
    double gap;        /* proven; beyond it cbc is asked, if it may be */
    bool asks_cbc;
    bool as_solved; /* equal jobs have what the solver gave each of them */

    /* MAY be NULL: as in the paper. The factor on the rate of any configuration
     * other than the one a job holds, 0..1. */
    double (*damping)(const struct sia_rules *rules,
                      const struct firn_view *view, const struct firn_job *job);
    /* MAY be NULL: not rounded. */
    double (*rounded)(double cost);
};

struct sia {
    struct sia_rules rules; /* filled from options; hooks by init */
    struct rounds rounds;
    struct priced_result latest; /* of the latest assignment; to be read */
    struct cbc cbc;
};

/* For struct firn_policy_def; the state is a struct sia. */
extern const struct firn_option sia_options[];
enum firn_status sia_decide(void *state, const struct firn_view *view,
                            struct firn_plan *plan);
double sia_wake_s(const void *state, const struct firn_view *view);
void sia_save(const void *state, struct firn_buf *out);
enum firn_status sia_load(void *state, struct firn_bytes in,
                          struct firn_error *err);

#endif
