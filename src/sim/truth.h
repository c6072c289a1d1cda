/* truth.h - how fast a job really goes on given GPUs.
 *
 * The simulator's hidden side: policies never see it, only the reports made
 * from it. A truth answers as a pure function of what it is asked; other
 * truths (sim/truth_table.h: measured tables) fit behind the same struct.
 */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H
#include <firn/job.h>

enum { TRUTH_NEIGHBOURS = 8, TRUTH_JOBS = 64 };

/* The other jobs on a job's GPUs. */
struct truth_near {
    int sharers; /* the most jobs, itself included, on any of its GPUs */
    int napps;   /* applications of the others, repeated ones once */
    const char *apps[TRUTH_NEIGHBOURS];
    int njobs; /* the others themselves, and what they hold */
    struct {
        const struct firn_job *job;
        const struct firn_alloc *alloc;
    } jobs[TRUTH_JOBS];
    const struct firn_job *merged; /* trained together with it; or NULL */
    int after; /* task it began with the weights of (transfers.h); 0: none */
};

/* A rate, and until how much work it holds (infinity: for ever); until_s >
 * done_s. */
struct truth_pace {
    double rate; /* reference seconds a second, > 0 */
    double until_s;
};

struct truth {
    const char *name;
    const struct firn_cluster *cluster;
    double scaling;        /* exponent of the GPU count */
    double share_slowdown; /* step time on shared GPUs / alone */
    const void *state;     /* of the kind of truth; borrowed */

    /* Reference seconds a second, > 0. `sharers` is the most jobs, itself
     * included, on any of its GPUs. */
    double (*rate)(const struct truth *truth, const struct firn_job *job,
                   const struct firn_alloc *alloc, int sharers);

    /* The same for a truth that knows more: which jobs share its GPUs, and that
     * the rate changes as the job goes on. NULL: `rate`, for ever. */
    struct truth_pace (*pace)(const struct truth *truth,
                              const struct firn_job *job,
                              const struct firn_alloc *alloc,
                              const struct truth_near *near, double done_s);

    /* Seconds of one step (a mini-batch of every thread) of the job on these
     * GPUs; 0 when that is not known. NULL: it never is. */
    double (*step_s)(const struct truth *truth, const struct firn_job *job,
                     const struct firn_alloc *alloc);

    /* How long a job takes alone on the GPUs it asked for, of those types
     * (a mask); NaN when that is not known. Sets its restart cost too when
     * the trace names none. May be NULL. */
    double (*duration_s)(const struct truth *truth, struct firn_job_spec *spec,
                         uint32_t types);

    /* The application is known. NULL: none is. */
    bool (*knows)(const struct truth *truth, const char *app);
};

/* The trace's own duration: at the GPUs asked for, of the reference type, a
 * job gains one reference second a second. Other counts scale by the exponent,
 * other types by their speed (the slowest one held counts), and sharing
 * divides by the slowdown. */
struct truth truth_from_trace(const struct firn_cluster *cluster,
                              double scaling, double share_slowdown);

#endif
