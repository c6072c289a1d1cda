/* policy.h - the struct that declares a scheduling policy.
 *
 * A policy is one function, decide(view) -> plan, in one file, plus one line
 * in policy/policies.def. It reads a frozen view and writes a plan; it cannot
 * tell the simulator from the daemon; it allocates only from the view's
 * scratch memory and its own zeroed state. What differs between policies is
 * declared here, and nobody ever asks which one is running.
 */
#ifndef FIRN_POLICY_H
#define FIRN_POLICY_H
#include <firn/event.h>
#include <firn/forecast.h>
#include <firn/option.h>
#include <firn/plan.h>
#include <math.h>

/* Steps a policy may plan; core refuses plans beyond them. */
enum firn_does {
    FIRN_DOES_PREEMPT = 1, /* take all GPUs from a running job */
    FIRN_DOES_RESIZE = 2,  /* change how many a running job holds */
    FIRN_DOES_MOVE = 4,    /* put a running job elsewhere */
    FIRN_DOES_SHARE = 8,   /* put two jobs on one GPU */
    FIRN_DOES_REJECT = 16, /* end a job unrun */
    FIRN_DOES_MERGE = 32,  /* train two jobs as one */
};

/* A job's place in the order of service: lower keys first, ties by id. */
struct firn_rank {
    double key;     /* not NaN */
    double until_s; /* core asks again then, and for a new decision */
};

struct firn_policy_def {
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

    /* MAY be set; NULL means nothing to do. `init` runs after the options are
     * filled. */
    enum firn_status (*init)(void *state, struct firn_error *err);
    void (*fini)(void *state);
    void (*observe)(void *state, const struct firn_event *event);
    double (*wake_s)(const void *state, const struct firn_view *view);

    /* MAY be set, both or none: over a restart of the scheduler. `save` writes
     * what cannot be found in a view; options are not part of it. `load` comes
     * after `init` and before the first decision; from then on the policy
     * plans as the saved one would. FIRN_EDATA with a sentence for bytes that
     * are not its own; the state is then as it was. */
    void (*save)(const void *state, struct firn_buf *out);
    enum firn_status (*load)(void *state, struct firn_bytes in,
                             struct firn_error *err);
};

/* The rank of first come, first served: by the time of submission, which a job
 * keeps when a live scheduler takes it in again under another id. */
FIRN_API struct firn_rank
firn_rank_fcfs(const void *state, const struct firn_job *job, double now_s);

/* The policy called `name`, or NULL with a sentence that has the nearest
 * name. */
FIRN_API const struct firn_policy_def *firn_policy_find(const char *name,
                                                        struct firn_error *err);

/* All of them, in the order of policies.def. */
FIRN_API const struct firn_policy_def *const *firn_policies(size_t *n);

#endif
