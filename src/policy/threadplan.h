/* threadplan.h - what a job of elastic threads could run on (EasyScale).
 *
 * EasyScale's intra-job scheduler: given GPUs by type, the layout of the job's
 * threads with the least waste, and proposals for more GPUs. It decides
 * nothing; policy/easyscale.c does.
 */
#ifndef POLICY_THREADPLAN_H
#define POLICY_THREADPLAN_H
#include <firn/policy.h>

enum { THREADPLAN_MOST = 8 }; /* proposals of one job */

/* One job. Initialised by threadplan_init(). */
struct threadplan {
    const struct firn_view *view;
    const struct firn_job *job;
    int threads;                    /* maxP */
    uint32_t types;                 /* that it may use */
    double per_gpu[FIRN_TYPES_MAX]; /* C_i: rate on one GPU of each of them,
                                     * by one executor */
    const struct firn_executor_ways *ways; /* numbers of executors by type;
                                            * NULL: one everywhere */
};

/* Threads on GPUs by type. */
struct layout {
    int counts[FIRN_TYPES_MAX]; /* GPUs */
    int gpus;                   /* sum of them */
    double perf;                /* rate by the analytical model (1e) */
    double waste;               /* (1d), 0..1 */
};

/* `types` is what it is restricted to. Asks the forecast for one GPU of each
 * type; where nothing is known, the type's speed. */
void threadplan_init(struct threadplan *plan, const struct firn_view *view,
                     const struct firn_job *job, uint32_t types);

/* The best layout on these GPUs; false when there are none it can use. */
bool threadplan_layout(const struct threadplan *plan, const int *counts,
                       struct layout *out);

/* Takes away GPUs that make no step shorter, of the slowest type first, but
 * leaves at least `least`. */
void threadplan_trim(const struct threadplan *plan, struct layout *layout,
                     int least);

/* The rate that is expected there; that of the model when it is not known. */
double threadplan_rate(const struct threadplan *plan,
                       const struct layout *layout);

/* More GPUs, of one type: what the job would run on then. */
struct proposal {
    struct layout layout;
    int more; /* GPUs of `type` on top of those it has */
    int type;
    double rate; /* expected */
    double gain; /* speed-up for each of them */
    void *of;    /* the caller's */
};

struct threadplan_limits {
    const int *free; /* GPUs to be had, by type */
    int gpus_min, gpus_max;
    double waste_max;
    int top;      /* proposals at most, up to THREADPLAN_MOST */
    bool several; /* more than one GPU at a time, up to as many as it has */
    bool trims;   /* GPUs that a layout does not need are given back */
};

/* The best proposals on top of `now`, best first: those with the highest
 * speed-up per GPU, then with more GPUs. Returns how many there are. */
int threadplan_propose(const struct threadplan *plan, const struct layout *now,
                       const struct threadplan_limits *limits,
                       struct proposal *out);

#endif
