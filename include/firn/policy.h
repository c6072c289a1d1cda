/* policy.h - the struct that declares a scheduling policy.
 *
 * A policy is one function, decide(view) -> plan. It reads a frozen view and
 * writes a plan; it cannot tell the simulator from the daemon; it allocates
 * only from the view's scratch memory and its own zeroed state. Differences
 * between policies are declared in struct firn_policy_def; no code asks which
 * policy is running.
 *
 * There are three ways to bring one in: a file of src/policy with a line in
 * policies.def; a pointer in struct firn_sim_options (firn/sim.h); a shared
 * object with FIRN_POLICY_PLUGIN(), loaded by firn_policy_load().
 * docs/library.md shows the last two.
 *
 * Compatibility: struct firn_policy_def grows at its end only, and its `size`
 * tells the library how much of it there is. struct firn_view, firn_job,
 * firn_cluster and firn_plan are made by the library and read through pointers:
 * they too grow at their end only. A change of another kind raises
 * FIRN_POLICY_ABI.
 */
#ifndef FIRN_POLICY_H
#define FIRN_POLICY_H
#include <firn/event.h>
#include <firn/forecast.h>
#include <firn/option.h>
#include <firn/plan.h>
#include <math.h>

FIRN_C_BEGIN

/* The steps that a policy may plan; core refuses others. */
enum firn_does {
    FIRN_DOES_PREEMPT = 1, /* take all GPUs from a running job */
    FIRN_DOES_RESIZE = 2,  /* change how many a running job holds */
    FIRN_DOES_MOVE = 4,    /* put a running job elsewhere */
    FIRN_DOES_SHARE = 8,   /* put two jobs on one GPU */
    FIRN_DOES_REJECT = 16, /* end a job unrun */
    FIRN_DOES_MERGE = 32,  /* train two jobs as one */
    FIRN_DOES_REPLAN = 64, /* run a job by another execution plan than it asked
                            * for, on fewer GPUs than that plan needs */
};

/* What a policy does by itself; shares, quotas and (under policies that
 * preempt) deadlines are core's: docs/shares.md. */
enum firn_obeys {
    FIRN_OBEYS_PRIORITY = 1, /* of two equal jobs the one with the higher
                              * spec.priority goes first */
    FIRN_OBEYS_REQUEST = 2,  /* an elastic job starts on the GPUs that it asked
                              * for (spec.gpus), not on its fewest */
};

/* A job's place in the order of service: lower keys first, ties by id. */
struct firn_rank {
    double key;     /* not NaN */
    double until_s; /* core asks again then, and for a new decision */
};

struct firn_policy_def {
    size_t size;                       /* sizeof(struct firn_policy_def) */
    const char *name;                  /* what the user types: [a-z0-9-]+ */
    const char *summary;               /* one line for `firn policies` */
    const char *paper;                 /* where it comes from, or NULL */
    unsigned needs;                    /* FIRN_NEED_* */
    unsigned does;                     /* FIRN_DOES_* */
    unsigned tunes;                    /* FIRN_TUNE_*: left to trainers */
    const struct firn_option *options; /* ends with {0}; NULL for none */
    size_t state_size;                 /* bytes, zeroed, passed to each hook */

    /* MUST be set. Write into `plan` what each job should hold from now on.
     * Must not keep pointers into `view`. Called twice on the same view it
     * must plan the same. */
    enum firn_status (*decide)(void *state, const struct firn_view *view,
                               struct firn_plan *plan);

    /* MAY be set: the order firn_plan_serve() serves in. A pure function of
     * options, job and time. Core asks when a job is submitted, starts, stops
     * or reports, and at `until_s`; between, the answer must not change. */
    struct firn_rank (*rank)(const void *state, const struct firn_job *job,
                             double now_s);
    bool rank_counts_down; /* the key of a running job falls by 1 a second */

    /* MAY be set, with FIRN_DOES_PREEMPT: a job that has run for 100 hours
     * gives way to a new one, at the latest a day after that one was submitted.
     * The conformance suite (tests/policy/test_all.c) checks it. */
    bool ages;

    /* MAY be set; NULL means nothing to do. `init` runs after the options are
     * filled. */
    enum firn_status (*init)(void *state, struct firn_error *err);
    void (*fini)(void *state);
    void (*observe)(void *state, const struct firn_event *event);
    double (*wake_s)(const void *state, const struct firn_view *view);

    /* MAY be set, both or none: over a restart of the scheduler. `save` writes
     * what cannot be found in a view; options are not part of it. `load` comes
     * after `init` and before the first decision; from then on the policy
     * plans as the saved one would. Bytes of another policy or version are
     * refused by FIRN_EDATA and a sentence, and leave the state unchanged. */
    void (*save)(const void *state, struct firn_buf *out);
    enum firn_status (*load)(void *state, struct firn_bytes in,
                             struct firn_error *err);

    unsigned obeys; /* FIRN_OBEYS_* */
};

/* The rank of first come, first served: by the time of submission, which a job
 * keeps when a live scheduler takes it in again under another id. */
FIRN_API struct firn_rank
firn_rank_fcfs(const void *state, const struct firn_job *job, double now_s);

/* The policy called `name`, built in or loaded before; or NULL with a sentence
 * that has the nearest name. Never loads a file. */
FIRN_API const struct firn_policy_def *firn_policy_find(const char *name,
                                                        struct firn_error *err);

/* The built-in policies, in the order of policies.def. */
FIRN_API const struct firn_policy_def *const *firn_policies(size_t *n);

/* --- policies in shared objects ------------------------------------------ */

enum { FIRN_POLICY_ABI = 1 };

/* The symbol `firn_policy_plugin` of a shared object. */
struct firn_policy_plugin {
    size_t size; /* of this struct */
    int abi;     /* FIRN_POLICY_ABI */
    size_t job_size, view_size;
    const struct firn_policy_def *policy;
};

/* Exports `def`, a struct firn_policy_def, as the policy of a shared object:
 * once in one of its files, at file scope. */
#define FIRN_POLICY_PLUGIN(def)                                         \
    FIRN_C_BEGIN                                                        \
    FIRN_API extern const struct firn_policy_plugin firn_policy_plugin; \
    FIRN_C_END                                                          \
    const struct firn_policy_plugin firn_policy_plugin = {              \
        sizeof(struct firn_policy_plugin), FIRN_POLICY_ABI,             \
        sizeof(struct firn_job), sizeof(struct firn_view), &(def)}

/* Loads the policy of the shared object at `path`, which has a '/', for the
 * rest of the process's life; firn_policy_find() knows it by its name from then
 * on. A path that was loaded before gives the same policy. NULL with a
 * sentence: no such file, no policy in it, a policy for another firn, or a name
 * that another policy has.
 *
 * The shared object runs within the calling process, with all its rights: load
 * only files that you would run as a program. Not for several threads at
 * once. */
FIRN_API const struct firn_policy_def *firn_policy_load(const char *path,
                                                        struct firn_error *err);

FIRN_C_END

#endif
