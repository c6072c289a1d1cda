/* known.h - what profiles say of applications: step times, stages, layers.
 *
 * Behind every forecast (core/forecaster.h), and behind the truth of a
 * simulation (sim/truth_table.h), which takes step times from measured tables
 * where there are any (sim/tables.h). No table is reachable from here.
 *
 * Training is cut into parts: its stages, or, for applications that may freeze
 * layers, equal pieces of them, so that there are 20 parts or more.
 */
#ifndef SIM_KNOWN_H
#define SIM_KNOWN_H
#include "model/paralleltime.h"
#include "model/plantable.h"
#include <firn/job.h>
#include <firn/profile.h>

enum { SPREAD_NODES = 64 };

struct known_app;
struct spread;
struct setting;

struct known {
    struct firn_profiles profiles;
    const struct firn_cluster *cluster;
    const char *format;            /* of the trace; "" when there is none */
    const struct plantable *plans; /* measured plans that forecasts go by, by
                                    * the index of plan_models(); NULL: fits */
    bool is_plain; /* forecasts take every model for a whole copy on each GPU */
    /* Seconds of an iteration, for forecasts; NULL: the profiles' fits. The
     * simulator sets it where its user asks for exact forecasts. */
    double (*iteration_s)(const struct known *known,
                          const struct known_app *app,
                          const struct spread *where,
                          const struct setting *setting);
};

/* `profiles` is "builtin" (those in the program) or a folder of profiles.
 * FIRN_EINVAL with a sentence when it is neither. The caller closes. */
enum firn_status known_open(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err);
/* The two halves of known_open(), for a caller that changes profiles in
 * between: reads them; then copies the statistics that one profile takes from
 * another. */
enum firn_status known_load(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err);
enum firn_status known_link(struct known *known, struct firn_error *err);
void known_close(struct known *known);

/* The profile of a job, if it has one. */
struct known_app {
    const struct firn_profile *profile; /* NULL: none */
    size_t which;
    firn_type_id ref; /* the first type it accepts that the profile knows */
};

/* `types` is a mask of those the job accepts. The profile that knows most of
 * them, of the trace's own sources first. */
struct known_app known_find(const struct known *known, const char *app,
                            uint32_t types);

/* The same for a profile that is not among these; `which` is a number that no
 * other profile has. Without a profile when it knows none of the types. */
struct known_app known_by(const struct known *known,
                          const struct firn_profile *profile, size_t which,
                          uint32_t types);

/* FIRN_EINVAL: a job names an application that no profile has. The sentence
 * has those that have one for this cluster. */
enum firn_status known_unheard(const struct known *known, const char *trace,
                               const struct firn_job_spec *spec,
                               struct firn_error *err);

/* --- where a job is ------------------------------------------------------- */

/* GPUs on each node; `each` is exact up to SPREAD_NODES nodes. */
struct spread {
    int nodes, gpus, fullest;
    int each[SPREAD_NODES];
    uint32_t types; /* mask */
};

struct spread spread_of(const struct firn_cluster *cluster,
                        const struct firn_alloc *alloc);
/* The GPUs of the largest node of a type. O(nodes). */
int spread_largest(const struct firn_cluster *cluster, firn_type_id type);
/* Packed on nodes of `most` GPUs. */
struct spread spread_packed(firn_type_id type, int most, int gpus);
/* Over that many nodes: packed if they are as few as can be (0: those), else
 * evenly. Without nodes (nodes 0 in the answer) when it does not fit or there
 * are more nodes than GPUs. */
struct spread spread_over(firn_type_id type, int most, int gpus, int nodes);

/* --- how it is run -------------------------------------------------------- */

/* What a trainer sets. */
struct setting {
    struct firn_batch_split split;
    double frozen; /* front layers */
    double psi;    /* what an iteration is worth for that, (0, 1] */
    double belief; /* expected throughput / that of the fit, where a trainer
                    * chose layers by wrong expectations; 0: they are equal */
    enum firn_parallel parallel; /* OWN: a whole copy on each GPU, of an
                                  * application that has no choice */
    int stages;
};

/* The total batch as submitted (0: the initial one), nothing frozen, its model
 * spread in the fastest way that fits. */
struct setting known_setting(const struct known *known,
                             const struct known_app *app,
                             const struct spread *where, double batch);
/* The same, spread as `as` has it (OWN: as above). An application that has no
 * choice has none here either. */
struct setting known_setting_as(const struct known *known,
                                const struct known_app *app,
                                const struct spread *where, double batch,
                                const struct setting *as);

/* The same for model/paralleltime.h. */
struct parallel_run known_run(const struct spread *where,
                              const struct setting *setting);
/* In how many ways its model may be spread, as parallel_of() has it. */
unsigned known_parallels(const struct known *known, const struct known_app *app,
                         uint32_t types);
/* Memory allows it there; always for an application that has no choice. */
bool known_fits(const struct known *known, const struct known_app *app,
                const struct spread *where, const struct setting *setting);
/* Peak memory of a GPU of that type; NaN: not known. */
double known_mem_mib(const struct known *known, const struct known_app *app,
                     const struct spread *where, firn_type_id type,
                     const struct setting *setting);

/* The same batch by gradient accumulation in that many passes, but no smaller
 * ones than local_min and no fewer than it has: 0 leaves it as it is. The last
 * pass may be smaller; it is taken to last as long. */
struct setting known_passes(const struct known *known,
                            const struct known_app *app, uint32_t types,
                            const struct setting *setting, int passes);

/* The smallest and largest batch on a GPU and pass on these types. */
double known_local_min(const struct known *known, const struct known_app *app,
                       uint32_t types);
double known_local_max(const struct known *known, const struct known_app *app,
                       uint32_t types);

/* The application's fit on a type; that on the reference for one the profile
 * does not know, and then how many times slower it is taken to be. */
const struct firn_profile_gpu *known_gpu(const struct known *known,
                                         const struct known_app *app,
                                         firn_type_id type, double *slower);

/* Seconds of an iteration as forecasts have it: by known->iteration_s, or by
 * the fits. The slowest type counts. */
double known_fit_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting);
/* By the fits in any case; and on one type. */
double known_law_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting);
double known_law_on_s(const struct firn_profile *profile,
                      const struct firn_profile_gpu *gpu,
                      const struct spread *where,
                      const struct setting *setting);

/* An iteration as it is run: what rates are made of. */
struct running {
    double iteration_s;
    double batch; /* realised */
    double psi;
};

/* Reference seconds a second in a stage, `ref` being the job as submitted. */
double running_rate(const struct firn_profile *profile, size_t stage,
                    const struct running *ref, const struct running *now);

/* --- how far it is -------------------------------------------------------- */

/* It knows its layers well enough to freeze some; `has_variance`: and what
 * that costs. */
bool known_can_freeze(const struct firn_profile *profile, bool has_variance);

/* How training is cut: n = stages x pieces parts. */
struct parts {
    size_t n, pieces;
};
struct parts known_parts(const struct firn_profile *profile, bool freezes);

/* All its work in iterations at the initial batch; 0: not known. */
double known_work(const struct firn_profile *profile);
/* The share of it that is done when part k begins. */
double known_share(const struct firn_profile *profile, struct parts parts,
                   size_t k);
/* Seconds alone as `ref` is run; needs known_work. */
double known_alone_s(const struct firn_profile *profile,
                     const struct running *ref);
/* Reference seconds that part k takes; `scale` is known_scale() of the job's
 * duration, worked out once. */
double known_scale(const struct firn_profile *profile,
                   const struct running *ref, double duration_s);
double known_part_s(const struct firn_profile *profile, struct parts parts,
                    size_t k, const struct running *ref, double scale);

#endif
