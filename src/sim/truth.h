/* truth.h - how fast a job really goes on given GPUs.
 *
 * The simulator's hidden side: policies never see it, only the reports made
 * from it. A truth answers one question, as a pure function; other truths
 * (measured tables) fit behind the same struct.
 */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H
#include <firn/job.h>

struct truth {
    const char *name;
    const struct firn_cluster *cluster;
    double scaling;        /* exponent of the GPU count */
    double share_slowdown; /* step time on shared GPUs / alone */

    /* Reference seconds a second, > 0. `sharers` is the most jobs, itself
     * included, on any of its GPUs. */
    double (*rate)(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers);
};

/* The trace's own duration: at the GPUs asked for, of the reference type, a
 * job gains one reference second a second. Other counts scale by the exponent,
 * other types by their speed (the slowest one held counts), and sharing
 * divides by the slowdown. */
struct truth truth_from_trace(const struct firn_cluster *cluster,
                              double scaling, double share_slowdown);

#endif
