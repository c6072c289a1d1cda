/* world.h - an engine the simulator's loop can run, and its rules.
 *
 * The honest one is sim/simengine.c. A world that imitates a published
 * simulator is another engine behind the same struct, with the policies that
 * simulator had and its way of placing jobs; it lives in one file of compat/
 * and nothing here knows its name.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H
#include "core/place.h"
#include "sim/cadence.h"
#include <firn/engine.h>
#include <firn/sim.h>

struct firn_policy_def;

/* A policy as that world has it. */
struct world_policy {
    const char *name;                  /* what the user types */
    const struct firn_policy_def *def; /* NULL: the one of that name */
    const char *const *settings;       /* ends with NULL; before the user's */
    double interval_s;                 /* decisions only at multiples */
    int quirks;                        /* for the world itself */
};

/* Where GPU-seconds went. */
struct world_spent {
    double given, useful, overhead, lost;
};

enum { WORLD_WHY_MAX = 160 };

/* How every engine's state begins. The loop sets the first four before
 * `open` and reads the rest. */
struct world {
    const struct firn_sim_options *options;
    const struct world_policy *policy; /* NULL in a world that has no list */
    bool trusts_order;                 /* of the trace: see firn/trace.h */
    bool resizes; /* elastic jobs may run on fewer GPUs than they ask for */
    bool replans; /* and by another plan than they ask for */

    double now_s;
    struct cadence cadence;
    struct firn_trace *trace;       /* its report and progress are read */
    bool is_drained;                /* no job will arrive any more */
    long nominal_jobs;              /* whose duration is an estimate */
    long unprofiled_jobs;           /* of applications without a profile */
    char unprofiled[FIRN_NAME_MAX]; /* the first of these applications */
    long unfrozen_jobs;             /* that know no layers to freeze */
    char unfrozen[FIRN_NAME_MAX];   /* the first of their applications */
    struct world_spent spent;
    /* With a report of a job that began anew by it: why; "" otherwise. */
    char anew[WORLD_WHY_MAX];
    bool fails_for_ever;  /* node failures are drawn and never end */
    double node_change_s; /* the next one; infinity when there is none */
};

struct firn_world_def {
    const char *name, *summary;
    const char *artifact;                 /* what it imitates; NULL: nothing */
    const struct firn_engine_def *engine; /* state begins with struct world */
    const struct world_policy *policies;  /* ends with {0}; NULL: all, as they
                                           * are */
    place_rule *place;                    /* NULL: core's */
    /* MAY be NULL. FIRN_EINVAL with a sentence for a cluster or option that
     * the artifact never had. */
    enum firn_status (*suits)(const struct firn_sim_options *options,
                              struct firn_error *err);
    /* MAY be NULL, and answer NULL: reports are the truth. What is true of a
     * job's progress where reports are not. */
    const struct firn_report *(*truth_of)(const void *state,
                                          const struct firn_job *job);
    /* MAY be NULL. Seconds that a job held GPUs which the jobs before it had
     * not let go yet. */
    double (*waited_s)(const void *state, const struct firn_job *job);
};

/* The honest one. */
extern const struct firn_world_def world_honest;

/* The policy as this world has it; NULL with a sentence that names those it
 * has. `as` becomes the line of its list, NULL where there is no list. */
const struct firn_policy_def *
world_policy_find(const struct firn_world_def *def, const char *name,
                  const struct world_policy **as, struct firn_error *err);

#endif
