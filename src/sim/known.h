/* known.h - what is known of applications: step times, stages, layers.
 *
 * Behind the truth of a simulation (sim/truth_table.h) and behind its
 * forecasts (sim/simforecast.h). The two differ in one thing: a truth takes
 * step times from the measured tables where there are any, a forecast does so
 * only when it is told to (known_forecast_by).
 *
 * Training is cut into parts: its stages, or, for applications that may freeze
 * layers, equal pieces of them, so that there are 20 parts or more.
 */
#ifndef SIM_KNOWN_H
#define SIM_KNOWN_H
#include "model/measured.h"
#include "model/paralleltime.h"
#include <firn/job.h>
#include <firn/profile.h>
#include <firn/sim.h>

enum { SPREAD_NODES = 64 };

/* The tables of one profile; no rows: use the fit. */
struct known_tables {
    struct steptable steps[FIRN_PROFILE_TYPES];
    struct measured_level *levels; /* by frozen layers, of all types */
    size_t nlevels;
};

struct known {
    struct firn_profiles profiles;
    struct known_tables *tables; /* by profile */
    const struct firn_cluster *cluster;
    const char *format; /* of the trace */
    bool looks_up;      /* forecasts go by tables where there are some */
    bool is_plain;      /* they take every model for a whole copy on each GPU */
};

/* `profiles` is "builtin", a folder of profiles, or a data folder (then the
 * shipped profiles and its tables). FIRN_EINVAL with a sentence when it is
 * none of them. Of the tables only those of the cluster's types are read. The
 * caller closes. */
enum firn_status known_open(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err);
void known_close(struct known *known);

/* What known_fit_s() goes by: the profiles' fits unless it is told. FIRN_EDATA
 * when a table has too few rows for Pollux's law. */
enum firn_status known_forecast_by(struct known *known,
                                   enum firn_sim_forecast by,
                                   struct firn_error *err);

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
/* Over so many nodes: packed if that is as few as can be (0: that), else
 * evenly. Without nodes (nodes 0 in the answer) when it does not fit or there
 * are more nodes than GPUs. */
struct spread spread_over(firn_type_id type, int most, int gpus, int nodes);

/* --- how it is run -------------------------------------------------------- */

/* What a trainer sets. */
struct setting {
    struct firn_batch_split split;
    double frozen; /* front layers */
    double psi;    /* what an iteration is worth for that, (0, 1] */
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

/* Seconds of an iteration, by the fits (or what known_forecast_by() said) or by
 * tables first. The slowest type counts. In truth what does not fit its GPUs
 * spills to the host and crawls, so that every run ends. */
double known_fit_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting);
/* By the fits, whatever forecasts go by. */
double known_law_s(const struct known *known, const struct known_app *app,
                   const struct spread *where, const struct setting *setting);
double known_true_s(const struct known *known, const struct known_app *app,
                    const struct spread *where, const struct setting *setting);

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
