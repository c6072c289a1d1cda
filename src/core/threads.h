/* threads.h - jobs of elastic threads: how fast they go on what they hold.
 *
 * Of an allocation or a way with FIRN_TUNE_THREADS. The job has a fixed number
 * of threads, each with its own share of the batch, and the trainer lays them
 * out over the GPUs there are, more of them on faster ones. Behind the truth
 * and the forecast alike; threads.c has the formulas.
 */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H
#include "core/known.h"
#include <firn/forecast.h>
#include <firn/waste.h>

/* spec.threads, or gpus_max of them. */
int threads_number(const struct firn_job_spec *spec);

/* GPUs held of each type; `counts` has room for FIRN_TYPES_MAX. */
void threads_count(const struct firn_cluster *cluster,
                   const struct firn_alloc *alloc, int *counts);

/* The GPUs of each type that a way names. False when it cannot be: it names
 * none, or a type that the job may not use. */
bool threads_ask(const struct firn_cluster *cluster, const struct firn_job *job,
                 const struct firn_way *way, int *counts);

/* Packed by type on nodes of `largest` GPUs, or over `nodes` nodes if that is
 * not 0. Without nodes (nodes 0 in the answer) when it does not fit on them. */
struct spread threads_spread(const struct firn_cluster *cluster,
                             const int *largest, const int *counts, int nodes);

/* Reference seconds a second without a profile, alone on its GPUs. */
double threads_rate(const struct firn_cluster *cluster, double scaling,
                    const struct firn_job_spec *spec, const int *counts);

/* Of one job. */
struct threads {
    const struct known *known;
    const struct known_app *app;
    const struct spread *where;
    const int *counts;
    int number;
    double batch;       /* of all of them */
    bool has_executors; /* several processes on a GPU, where that is faster */
    double (*iteration_s)(const struct known *known,
                          const struct known_app *app,
                          const struct spread *where,
                          const struct setting *setting);
};

/* The numbers of executors that fit on a GPU of that type, for threads that
 * share a batch of `batch`; none: not known. */
int threads_executors(const struct known *known, const struct known_app *app,
                      firn_type_id type, double batch, int number,
                      struct firn_executor_ways *out);

/* The layout of its threads that threads_iteration_s() is the time of: threads
 * and executors by type, in `types` (FIRN_TYPES_MAX of them). */
void threads_lay_out(const struct threads *threads,
                     const struct setting *setting,
                     struct firn_waste_type *types);

/* Memory allows it, with the model spread as `setting` has it; always for an
 * application that has no choice how to spread it. */
bool threads_fit(const struct threads *threads, const struct setting *setting);

/* Seconds of an iteration with what `setting` freezes; its batch is not read.
 * `iteration_s` is the truth's (sim/tables.h) or known_fit_s(). */
double threads_iteration_s(const struct threads *threads,
                           const struct setting *setting);

#endif
