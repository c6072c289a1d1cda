/* sim.h - the simulator: a trace, a cluster and a policy in; metrics out.
 *
 * The simulator is event-driven: time jumps to the next arrival, completion,
 * wake-up or failure, and between events every job goes at a constant rate.
 * Every cost is charged. The same trace, seed and policy give the same bytes,
 * except for `cpu_s`, which is measured.
 */
#ifndef FIRN_SIM_H
#define FIRN_SIM_H
#include <firn/cluster.h>
#include <firn/cost.h>
#include <firn/trace.h>
#include <signal.h>
#include <stdint.h>

FIRN_C_BEGIN

/* Called now and then with how far a run is, 0..1. */
typedef void firn_sim_progress(void *arg, double share);

/* One application's own restart cost. */
struct firn_restart_cost {
    const char *app;
    double cost_s;
};

/* One application's own cost of a resize without a stop. */
struct firn_resize_cost {
    const char *app;
    struct firn_cost cost;
};

/* A job of `app` beside one of `other` on the same GPUs: step time over that
 * alone, >= 1. */
struct firn_pair_slowdown {
    const char *app, *other;
    double slowdown;
};

/* How wrong predictions and reports are. The truth stays as it is. All 0: not
 * at all. The first two are deviations of a normal distribution, 0.5 is half of
 * the value; the others are limits of a uniform one. See sim/noise.h. */
struct firn_sim_noise {
    double throughput; /* one draw a job and way, on the predicted rate */
    double sharing;    /* one draw a job or pair, on its predicted memory,
                        * utilisation and slowdown */
    double transfer;   /* one draw a job, for predictions of transfer */
    double report;     /* one draw a report, on its rate */
    double iterations; /* two draws a job, on the work that it is forecast to
                        * have left: alone, and merged with another */
};

/* How jobs freeze front layers as they train: see core/trainer.c. A rule holds
 * for every job, also where the policy leaves it to the trainer. */
enum firn_sim_freeze {
    FIRN_SIM_FREEZE_POLICY,    /* by penalty where the policy leaves it to the
                                * trainer (FIRN_TUNE_FREEZE), else nothing */
    FIRN_SIM_FREEZE_OFF,       /* nothing, whatever the policy */
    FIRN_SIM_FREEZE_FREEZEOUT, /* a schedule of its own, nothing owed */
    FIRN_SIM_FREEZE_TUNED,     /* that, its parameter by effective progress */
    FIRN_SIM_FREEZE_PENALTY,   /* IceFrog's tuner */
};

/* "policy", "off", "freezeout", "tuned-freezeout", "penalty"; NULL beyond
 * them. */
FIRN_API const char *firn_sim_freeze_name(enum firn_sim_freeze rule);

/* What forecasts of step times go by. */
enum firn_sim_forecast {
    FIRN_SIM_FORECAST_FIT,    /* the fits of profiles */
    FIRN_SIM_FORECAST_TABLES, /* of jobs that run by measured tables: these,
                               * looked up, and exact */
    FIRN_SIM_FORECAST_POLLUX, /* of such jobs: Pollux's law, fitted to them */
    FIRN_SIM_FORECAST_DATA,   /* of models that are sharded or in stages: the
                               * law of a whole copy on each GPU */
};

/* "fit", "tables", "pollux", "data"; NULL beyond them. */
FIRN_API const char *firn_sim_forecast_name(enum firn_sim_forecast by);

/* Data loaders can be started ahead, for which Ymir gives its signal 30 s
 * before a round; loading weights needs the GPUs. */
#define FIRN_SIM_AHEAD_MAX_S 30.0

struct firn_world_def;

struct firn_policy_def;

/* Start from firn_sim_defaults(); fields are added at the end only. */
struct firn_sim_options {
    size_t size;                        /* set by firn_sim_defaults() */
    const char *trace;                  /* path, or path#group */
    const struct firn_world_def *world; /* firn_compat_find(); NULL: honest */
    const struct firn_cluster *cluster;
    const char *policy; /* a name that firn_policy_find() knows; not read
                         * where policy_def is set */
    const struct firn_policy_def *policy_def; /* a policy of the caller's own;
                                               * it need not be registered */
    const char *const *settings; /* "policy.option=value"; those of other
                                  * policies are passed over */
    size_t nsettings;
    uint64_t seed; /* failures; and policies that draw */
    bool strict;   /* bad rows stop the run */

    /* How fast jobs go (sim/truth.h). */
    double scaling;        /* rate = (gpus held / gpus asked)^scaling */
    double share_slowdown; /* step time on shared GPUs / alone, >= 1 */
    const char *profiles;  /* measured rates: "builtin", a folder of profiles
                            * or of measured tables; NULL or "none": the
                            * trace's durations only (docs/profiles.md) */
    enum firn_sim_freeze freeze; /* of jobs whose profile knows its layers */
    enum firn_sim_forecast forecast;
    struct firn_sim_noise noise; /* on predictions and reports */

    /* What a change of GPUs costs (seconds without progress). */
    double restart_s; /* for jobs and applications that name no cost */
    const struct firn_restart_cost *restarts; /* by application */
    size_t nrestarts;

    /* Every job may run on that many GPUs; 0, 0: as the trace says. */
    int elastic_min, elastic_max;
    bool shares;    /* every job accepts half-shares of GPUs */
    bool slows_all; /* share_slowdown holds for pairs that were measured too */

    /* When decisions are made (sim/cadence.h). */
    double interval_s;        /* 0: at each event; else only at k*interval */
    double quantum_s;         /* completions rounded up to it; 0: exact */
    bool charges_first_start; /* the first start costs a restart too */

    /* Failures: from a file "time_s,node,down|up", or drawn. */
    const char *failures;
    double mtbf_s, mttr_s; /* per node; 0: no failures */
    double checkpoint_s;   /* work lost at a failure: since the last multiple
                            * of this much running; 0: none lost */

    /* Files to write; NULL for none. */
    const char *jobs_path, *log_path, *timeline_path;
    double timeline_s; /* seconds between two rows; 0: about 500 rows in all */

    bool times_rounds; /* decide_cpu_s is measured: two looks at the clock a
                        * round */
    firn_sim_progress *progress;
    void *progress_arg;
    const volatile sig_atomic_t *stop; /* set: leave with FIRN_EINTR */
    bool asks_gpus; /* a language model without a number of GPUs becomes a gang
                     * of the number that a user who knows its memory asks for:
                     * the fewest that hold it on the fastest type that can */
    bool transfer_key; /* forecasts of merged fine-tuning jobs are the true
                        * epochs (the answer key), not estimates from reports */
    double ahead_s;    /* seconds of a start that are done before the GPUs of
                        * the job are free, for policies that plan it (ymir): 0
                        * to FIRN_SIM_AHEAD_MAX_S. 0: as firn's engines do */
    double handover_s; /* what a running job takes to let GPUs go, after the end
                        * of its mini-batch (of a job with a profile): the next
                        * job on them waits. 0: GPUs are free at once */
    bool resizes;      /* running jobs are resized without a stop: a change of
                        * the GPUs of a running job that does not share them,
                        * and runs on the new ones in the same way, costs what
                        * its application's profile has measured, else */
    double resize_s;   /* this, instead of a restart; < 0: a restart */
    double resize_prepare_s, resize_slowdown; /* the rest of struct firn_cost */
    const struct firn_resize_cost *resize_costs; /* by application: before what
                                                  * a profile has */
    size_t nresize_costs;
    bool restart_is_all;    /* restart_s holds for all jobs and applications, */
    bool resize_is_all;     /* resize_s and the next two too */
    const char *accounts;   /* file of users, projects, shares and quotas
                             * (docs/shares.md); NULL: none. The user of a job
                             * without one is its group */
    const char *usage_path; /* with `accounts`: GPU-hours of each, as CSV; NULL:
                             * no file */
    const struct firn_pair_slowdown *pairs; /* measured pairs of applications
                                             * that have no profile */
    size_t npairs;
    bool quiet_starts; /* a job slows others on its GPUs down from its first
                        * step on; else from its start on */
    int prepares;      /* the processes of this many waiting jobs are started
                        * before the GPUs of the jobs are free; 0: of none */
    const struct firn_restart_cost *prepared; /* by application: what is left of
                                               * a start that was prepared in
                                               * time; others are not prepared
                                               */
    size_t nprepared;
    const struct firn_restart_cost *ends; /* by application: the last seconds of
                                           * work of a job on shared GPUs, in
                                           * which it is not slowed down and
                                           * slows no other job down */
    size_t nends;
};

/* Fills `options`, of which the caller knows the first `size` bytes, with the
 * defaults. */
FIRN_API void firn_sim_options_init(struct firn_sim_options *options,
                                    size_t size);

/* The options with their defaults; set trace, cluster, and policy or
 * policy_def. */
static inline struct firn_sim_options firn_sim_defaults(void)
{
    struct firn_sim_options options;
    firn_sim_options_init(&options, sizeof options);
    return options;
}

enum { FIRN_CLASSES = 4 }; /* by GPUs asked for: 1, 2-4, 5-8, more */

struct firn_sim_class {
    long jobs;
    double jct_mean_s; /* NaN when there are no jobs */
};

enum { FIRN_GROUPS = 8 };

/* Of the jobs of one group that finished; of those without a group, by
 * application. */
struct firn_sim_group {
    char name[FIRN_NAME_MAX]; /* "" for jobs with neither */
    long jobs;
    double jct_mean_s, queue_mean_s, queue_max_s;
};

/* Plain data: it may be copied and sent through a pipe. Percentiles
 * interpolate linearly between ranks. */
struct firn_sim_result {
    char trace[256]; /* as named by the user */
    char policy[FIRN_NAME_MAX];
    char cluster[FIRN_NAME_MAX];
    char world[FIRN_NAME_MAX]; /* the rules: "honest", or a compat's name */
    uint64_t seed;
    double restart_s;

    long jobs;       /* finished */
    long unfinished; /* left when nothing more could happen */
    long rejected;   /* ended by the policy, unrun */
    long bad_rows, ignored_rows, unsorted_rows, nominal_jobs;
    char first_bad[3][FIRN_ERROR_TEXT];
    long unprofiled_jobs;           /* of applications without a profile */
    char unprofiled[FIRN_NAME_MAX]; /* the first such application */
    long unfrozen_jobs;             /* that know no layers to freeze */
    char unfrozen[FIRN_NAME_MAX];   /* the first such application */

    double jct_mean_s, jct_p50_s, jct_p90_s, jct_p99_s, jct_max_s;
    struct firn_sim_class classes[FIRN_CLASSES];
    double queue_mean_s, queue_p50_s, queue_p99_s; /* time without GPUs */
    double makespan_s;      /* last completion - first submission */
    double gpu_alloc_ratio; /* GPU-seconds held / GPU-seconds up, over the
                             * makespan; a GPU held by two counts once */
    double gpu_util_ratio;  /* the same for GPU-seconds that made progress */
    double fragmentation;   /* time average: of the free GPUs, how many sit on
                             * nodes that are partly used */
    long restarts;          /* changes of GPUs after the first start */
    long failures;          /* nodes lost */
    double rho_mean, rho_p50, rho_p99,
        rho_max;         /* finish-time fairness: JCT / time with 1/N
                          * of the cluster, N = mean number of jobs in the
                          * system during the job's life */
    double unfair_share; /* jobs with rho > 1 */

    /* Where the GPU-seconds went: given = useful + overhead + lost. */
    double gpu_s_given, gpu_s_useful, gpu_s_overhead, gpu_s_lost;

    /* Not printed and in no log: the first groups of which a job finished, and
     * the jobs that were trained together with another, or began with the
     * weights of one. */
    struct firn_sim_group groups[FIRN_GROUPS];
    int ngroups;
    long together_jobs, after_jobs;
    double decide_cpu_s; /* of all rounds: view, policy, check and changes;
                          * measured if options->times_rounds, else 0 */

    long rounds, events, steps;
    double cpu_s; /* measured; the only field that may differ */

    /* Not printed: the mean over the language models that finished of samples a
     * second while they held GPUs; NaN without one. */
    double samples_s_mean;

    /* Not printed: the 40th and 80th percentile of the JCT, and its mean over
     * the 40 % of the jobs that have the lowest. */
    double jct_p40_s, jct_p80_s, jct_low40_s;
};

/* Runs one simulation. On FIRN_ESTALLED and FIRN_EINTR `out` has what was
 * finished until then. */
FIRN_API enum firn_status firn_sim_run(const struct firn_sim_options *options,
                                       struct firn_sim_result *out,
                                       struct firn_error *err);

enum firn_sim_format { FIRN_SIM_TABLE, FIRN_SIM_JSON, FIRN_SIM_CSV };

/* Renders results, aligned table, JSON {"results":[...]} or CSV, into `out`. */
FIRN_API void firn_sim_print(const struct firn_sim_result *results, size_t n,
                             enum firn_sim_format format, struct firn_buf *out);

/* Reads an event log that a run wrote and checks it on its own: no GPU held
 * twice, no dead node used, every job's work adds up, and the summary at its
 * end is what its lines say. FIRN_EINVAL with file and line otherwise. */
FIRN_API enum firn_status firn_sim_replay(const char *log_path,
                                          struct firn_sim_result *out,
                                          struct firn_error *err);

FIRN_C_END

#endif
