/* planjobs.h - jobs whose execution plans were measured.
 *
 * A job is one when it names the execution plan its user asks for (spec.asked)
 * and its application is one of model/plantable.h. How fast it goes then
 * follows from the plan and the GPUs; planjobs.c says how.
 */
#ifndef CORE_PLANJOBS_H
#define CORE_PLANJOBS_H
#include "core/known.h"
#include "model/plantable.h"
#include <firn/job.h>

struct planjob {
    const struct plan_model *model; /* NULL: the job is none */
    struct firn_layout asked;
    int gpus;         /* that it asked for */
    double ref_s;     /* a step on what duration_s refers to */
    firn_type_id ref; /* its type */
};

/* Cheap for a job that names no plan. */
bool planjobs_is(const struct firn_job_spec *spec);

/* `tables` are measured steps by the index of plan_models(), or NULL: fitted
 * terms alone. `types` is the mask of types that the job accepts. */
struct planjob planjobs_open(const struct firn_cluster *cluster,
                             const struct firn_job_spec *spec, uint32_t types,
                             const struct plantable *tables);

/* Leaves no fewer GPUs than one copy of the model in the plan asked for: its
 * policy does not change plans. */
void planjobs_restrict(struct firn_job_spec *spec);

/* The plan that `how` is on that many GPUs; a zeroed one is the plan asked for,
 * with as many copies as the GPUs make, some of which may be idle. False: there
 * is none, or the GPUs make no whole number of copies. */
bool planjobs_plan(const struct planjob *job, const struct firn_layout *how,
                   int gpus, struct exec_plan *out);
/* The reverse, and by the word of a trace. */
struct firn_layout planjobs_layout(const struct exec_plan *plan);

/* Reference seconds a second; 0 where the plan cannot run: by its shape, or by
 * memory unless a row was measured. */
double planjobs_expect(const struct planjob *job,
                       const struct firn_cluster *cluster,
                       const struct spread *where,
                       const struct firn_layout *how,
                       const struct plantable *tables);
/* The same for a simulation's truth, > 0: what cannot run crawls. */
double planjobs_rate(const struct planjob *job,
                     const struct firn_cluster *cluster,
                     const struct spread *where, const struct firn_layout *how,
                     const struct plantable *tables);

/* Ways that its application was measured in: bit i for enum firn_parallel i. */
unsigned planjobs_parallels(const struct planjob *job);

#endif
