/* titan.h - the state shared by TitanSched's engine and its policies.
 *
 * Private to the titan world. The policies read the engine's tasks through
 * view->forecaster and write this round's decisions into them; the engine
 * carries these out once the round has been applied. Deciding twice on one
 * view therefore decides the same.
 */
#ifndef COMPAT_TITAN_H
#define COMPAT_TITAN_H
#include "compat/titanspeed.h"
#include "compat/titanwork.h"
#include "sim/world.h"
#include <firn/policy.h>

enum {
    TITAN_ELASTIC = 1, /* world_policy.quirks: jobs take 1 to 32 GPUs */
    TITAN_LEASE_S = 600,
};

/* A job as the artifact keeps it. */
struct titan_task {
    const struct firn_job *job; /* while deciding */
    int kind;                   /* of titanspeed */
    int gpus;                   /* asked for */
    double submit_s, duration_s;
    double work, done; /* samples */
    int held;          /* GPUs */
    struct titanspeed_pace pace;
    double restart_s; /* still to be burnt */
    double since_s;   /* waits since then */
    double stay_s;    /* charged and waited, up to the last change */
    double run_s, served_gpu_s, deserved_gpu_s;
    double leased_s;
    int guest; /* 1 + id of the task that is merged into it; 0 */
    int host;  /* 1 + id of the one that it is merged into; 0 */
    int queue; /* 0, or 1 after 14400 GPU-seconds */
    int fell;  /* its place in the order of falling */

    /* This round's decisions. */
    double deserves_gpu_s;
    bool renews, has_changed;
    int takes, joins; /* as guest and host */
    int merged_kind;  /* with both batches */
};

struct titan {
    struct world world; /* first */
    struct titanspeed speed;
    struct titanwork work;
    struct firn_job_spec spec; /* the next arrival */
    bool has_spec, is_over;
    VEC(struct titan_task) tasks; /* by id */
    VEC(int) waiting, running;    /* the artifact's lists, in its order */
    VEC(struct firn_event) events;
    size_t next_event;
    double round_s; /* all running tasks have come to this boundary */
    int falls;
    VEC(int) line; /* this round's order; empty: nothing was decided */
};

/* The policy ymir, which may merge jobs (titanmerge.c). */
extern const struct firn_policy_def titan_ymir;

/* srtf, tiresias, optimus, themis and ymir; ends with {0}. */
extern const struct world_policy titan_policies[];

/* Predicted seconds to the end on n packed GPUs, by one-pass-more. */
double titan_expected_s(const struct titan *t, const struct titan_task *task,
                        int n);
/* Every round, as long as there are jobs. */
double titan_wake_s(const void *state, const struct firn_view *view);

#endif
