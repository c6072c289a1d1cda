/* waste.h - how well elastic threads fill unequal GPUs (EasyScale).
 *
 * A job has maxP elastic threads, fixed in number; a step ends when each has
 * done one mini-batch, on however many GPUs there are. Symbols, by GPU type i:
 *
 *   N_i  GPUs in use          C_i  mini-batches a second of one of them
 *   A_i  threads on each      m, I_i  executors on a GPU, and the share of C_i
 *                             that each keeps beside the others
 *
 *   (1a) CU_capacity = sum N_i A_i >= maxP
 *   (1b) f = max A_i / C_i over the types with N_i > 0
 *   (1c) waste = sum N_i (C_i - A_i / f) + (CU_capacity - maxP) / f
 *   (1d) waste_norm = waste / sum N_i C_i
 *   (1e) perf = sum N_i C_i - waste = maxP / f
 *
 * (1c) is printed without the factor N_i; with it (1e) is what it must be, the
 * threads done in a second. f is the time of a step. With m executors, C_i is
 * MC_i = m C_i I_i and A_i is MA_i = m A_i.
 */
#ifndef FIRN_WASTE_H
#define FIRN_WASTE_H
#include <firn/status.h>
#include <stdbool.h>

FIRN_C_BEGIN

struct firn_waste_type {
    int ngpus;           /* N_i >= 0 */
    double rate;         /* C_i > 0, mini-batches a second */
    int threads;         /* A_i >= 0, of one executor */
    int executors;       /* m; 0 means 1 */
    double interference; /* I_i in (0, 1]; 0 means 1 */
};

struct firn_waste {
    double capacity;   /* (1a), threads */
    double step_s;     /* (1b), f */
    double waste;      /* (1c), mini-batches a second */
    double waste_norm; /* (1d), 0 to 1 */
    double perf;       /* (1e), mini-batches a second */
};

enum { FIRN_WASTE_THREADS_MAX = 1 << 24 };

/* FIRN_EINVAL when a number makes no sense, when no type has GPUs, or when
 * fewer than `maxp` threads have room (1a). */
FIRN_API enum firn_status firn_waste_of(const struct firn_waste_type *types,
                                        int ntypes, int maxp,
                                        struct firn_waste *out,
                                        struct firn_error *err);

/* The best layout of `maxp` threads on `ngpus` GPUs of these rates (C_g, or
 * MC_g with several executors), which need not be alike: threads[g] of each,
 * with the least step_s = max threads[g] / C_g, exactly: rates are taken as
 * the rational numbers they are, and no comparison is rounded. Of equal steps
 * the lower GPU gets the thread. Some GPU may get none. O(ngpus^2) at most,
 * whatever maxp is. `out` may be NULL; its capacity is maxp. */
FIRN_API enum firn_status firn_waste_layout(const double *rates, int ngpus,
                                            int maxp, int *threads,
                                            struct firn_waste *out,
                                            struct firn_error *err);

/* The same by types, for frequent calls: sets the `threads` of each, the
 * most on any of its executors, so that step_s is the least there is with the
 * `executors` and `interference` given. False, and no change, when no type has
 * GPUs or `maxp` or another number makes no sense. O(types^2), whatever the
 * GPUs and maxp. */
FIRN_API bool firn_waste_best(struct firn_waste_type *types, int ntypes,
                              int maxp, struct firn_waste *out);

/* A number of executors that may stand on one GPU, beside one. */
struct firn_executors {
    int number;   /* m >= 2 */
    double speed; /* m I: mini-batches a second of all of them / of one */
};

enum { FIRN_EXECUTORS_MAX = 8 };

/* Those that a type of GPU allows. */
struct firn_executor_ways {
    struct firn_executors at[FIRN_EXECUTORS_MAX];
    int n; /* 0: one executor */
};

/* firn_waste_best() that chooses the executors as well: sets `executors`,
 * `interference` and `threads` of each type, so that step_s is the least there
 * is with one executor or any number in ways[i] for which there is a thread for
 * each of the type's executors; of equal steps the fewest executors. `ways` may
 * be NULL: one executor. False, and no change, as above. O((types x ways)^2 x
 * executors). */
FIRN_API bool firn_waste_choose(struct firn_waste_type *types,
                                const struct firn_executor_ways *ways,
                                int ntypes, int maxp, struct firn_waste *out);

FIRN_C_END

#endif
