/* forecaster.h - what is expected of jobs, in the simulator and live.
 *
 * All formulas and averages behind firn/forecast.h are here. What differs
 * between the two is what they hand in: priors, once (struct
 * forecaster_priors), and observations, as they come (struct
 * forecaster_report and below). sim/simforecast.c makes observations from
 * simulated progress, daemon/liveforecast.c from what trainers report and the
 * engine measures. forecaster.c says how the two go together.
 *
 * A forecaster never sees the truth of a simulation: a prior is a fit, and an
 * observation is what a job reported, with its noise.
 */
#ifndef CORE_FORECASTER_H
#define CORE_FORECASTER_H
#include "core/known.h"
#include "core/trainer.h"
#include <firn/forecast.h>

struct forecaster;

/* What is believed before a job has reported anything. */
struct forecaster_priors {
    const struct firn_cluster *cluster; /* borrowed */
    const struct known *known;          /* profiles; borrowed. NULL: none */
    struct trainer
        *trainer;   /* what trainers set; borrowed. NULL: no profiles */
    double scaling; /* a job without step times goes (n / gpus)^scaling as fast
                     * on n GPUs */
    double share_slowdown; /* step time on shared GPUs / alone */
    /* What is said of jobs is a record (a trace's), not a user's estimate:
     * durations are exact and refer to GPUs of speed 1, `share_slowdown` holds
     * for every application without a profile, and an application's profile
     * knows its memory better than its job does. */
    bool is_recorded;
};

/* The caller frees. */
struct forecaster *forecaster_new(const struct forecaster_priors *priors);
void forecaster_free(struct forecaster *forecaster);

/* Which job: a small number, reused after forecaster_forget() or by another
 * id, and an id that no other job ever has (not -1). */
struct forecaster_key {
    int slot;
    firn_job_id id;
};

/* --- observations -------------------------------------------------------- */

/* A job reports how it goes on the GPUs that it holds. */
struct forecaster_report {
    const struct firn_job *job; /* with what it holds */
    double rate;                /* reference seconds a second; 0: it stands */
    double done_s;              /* reference seconds */
    bool is_alone;              /* on all of its GPUs */
    const char *beside; /* application of the one other job on them; NULL:
                         * there are several */
    double step_s;      /* of a step; <= 0: these four are not reported */
    int batch, passes, nfrozen;
    const double *variance; /* of gradients, by layer; NULL: not reported */
    size_t nlayers;
};
void forecaster_learn(struct forecaster *forecaster, struct forecaster_key key,
                      const struct forecaster_report *report);

/* What one GPU of a job needs, by its trainer's account; the most counts.
 * Negative: not reported. */
void forecaster_learn_load(struct forecaster *forecaster,
                           struct forecaster_key key,
                           const struct firn_load *load);
/* How much one GPU of a job that is alone on its GPUs is used, as measured
 * from outside. Counts for other jobs of its application, and less than the
 * trainer's account. */
void forecaster_learn_sample(struct forecaster *forecaster,
                             struct forecaster_key key,
                             const struct firn_job *job,
                             const struct firn_load *load);
/* The two jobs slowed each other down too much: their slowdown is
 * FORECASTER_BAD from now on, and that of all jobs of the two applications. A
 * job without an application counts for itself alone. */
#define FORECASTER_BAD 1e6
struct forecaster_job {
    struct forecaster_key key;
    const struct firn_job *job;
};
void forecaster_part(struct forecaster *forecaster, struct forecaster_job a,
                     struct forecaster_job b);
/* Bad pairs of applications as text, and back. */
void forecaster_save_pairs(const struct forecaster *forecaster,
                           struct firn_buf *out);
void forecaster_load_pairs(struct forecaster *forecaster, const char *text);
/* Measured slowdowns of pairs of applications as text, and back. A line that
 * cannot be read is passed over. */
void forecaster_save_slowdowns(const struct forecaster *forecaster,
                               struct firn_buf *out);
void forecaster_load_slowdowns(struct forecaster *forecaster, const char *text);
/* Step times that jobs had alone on their GPUs, by application, GPU type and
 * shape, as text and back; the same of lines that cannot be read, or are of a
 * type that is not here. */
void forecaster_save_steps(const struct forecaster *forecaster,
                           struct firn_buf *out);
void forecaster_load_steps(struct forecaster *forecaster, const char *text);

/* Calls `pair` for every pair of applications that was seen on shared GPUs,
 * with the step time of the first beside the second over that alone. */
typedef void forecaster_pair(void *arg, const char *app, const char *other,
                             double slowdown);
void forecaster_each_pair(const struct forecaster *forecaster,
                          forecaster_pair *pair, void *arg);

/* Another job may have the slot; what was learned of applications stays. */
void forecaster_forget(struct forecaster *forecaster,
                       struct forecaster_key key);
/* The job's spec or the types it accepts have changed; its reports hold. */
void forecaster_respec(struct forecaster *forecaster,
                       struct forecaster_key key);

/* --- answers, as firn/forecast.h has them ---------------------------------
 * `done_s` is how far the job is. A job need not have reported anything. */

double forecaster_rate(struct forecaster *forecaster, struct forecaster_key key,
                       const struct firn_job *job, const struct firn_way *way,
                       double done_s);
int forecaster_gpus_max(struct forecaster *forecaster,
                        struct forecaster_key key, const struct firn_job *job,
                        unsigned tunes);
double forecaster_slowdown(struct forecaster *forecaster,
                           struct forecaster_job job,
                           struct forecaster_job other);
/* Does it rest on no measurement of the two, nor of either beside another? */
bool forecaster_slowdown_is_guess(struct forecaster *forecaster,
                                  struct forecaster_job job,
                                  struct forecaster_job other);
/* The same with both run in these ways; 0: they make no difference. */
double forecaster_slowdown_in(struct forecaster *forecaster,
                              struct forecaster_job job,
                              const struct firn_way *way,
                              struct forecaster_job other,
                              const struct firn_way *other_way);
struct firn_load forecaster_load(struct forecaster *forecaster,
                                 struct forecaster_key key,
                                 const struct firn_job *job,
                                 const struct firn_way *way, double done_s);
/* What its trainer should set in that way, from its profile and its reports. */
bool forecaster_setting(struct forecaster *forecaster,
                        struct forecaster_key key, const struct firn_job *job,
                        const struct firn_way *way, double done_s,
                        struct firn_setting *out);
size_t forecaster_llm_ways(struct forecaster *forecaster,
                           struct forecaster_key key,
                           const struct firn_job *job, struct firn_llm_way *out,
                           size_t max);
unsigned forecaster_parallels(struct forecaster *forecaster,
                              struct forecaster_key key,
                              const struct firn_job *job);
/* Numbers of its processes that fit on one GPU of that type (core/threads.h).
 */
int forecaster_executors(struct forecaster *forecaster,
                         struct forecaster_key key, const struct firn_job *job,
                         firn_type_id type, struct firn_executor_ways *out);
/* The executors and threads of each type that the job has in that way, which
 * names elastic threads; `types` has room for FIRN_TYPES_MAX. False: nothing is
 * known of its steps. */
bool forecaster_lay_out(struct forecaster *forecaster,
                        struct forecaster_key key, const struct firn_job *job,
                        const struct firn_way *way,
                        struct firn_waste_type *types);

/* What the job holds, as a way: of several types the one it is slowest on,
 * unless its threads are elastic; then `counts` (FIRN_TYPES_MAX of them) has
 * the GPUs of each. */
struct firn_way forecaster_held(struct forecaster *forecaster,
                                struct forecaster_key key,
                                const struct firn_job *job, int *counts);
/* It has reported from GPUs that it had to itself. */
bool forecaster_is_seen(const struct forecaster *forecaster,
                        struct forecaster_key key);
/* GiB of a GPU by its trainer's account; 0: not reported. */
double forecaster_memory(const struct forecaster *forecaster,
                         struct forecaster_key key);
/* An iteration of that total batch in that way, and one of the job as
 * submitted, by the fit. False when it cannot run so or has no profile. */
bool forecaster_running(struct forecaster *forecaster,
                        struct forecaster_key key, const struct firn_job *job,
                        const struct firn_way *way, double batch,
                        struct running *now, struct running *ref);

#endif
