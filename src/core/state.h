/* state.h - what core knows: the cluster, its free GPUs, the jobs, their
 * order.
 *
 * The one place that changes jobs. A round reads it through a view; events and
 * steps change it through the functions below. Jobs are kept in a list by id;
 * their slots are small and reused, for arrays on the side.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H
#include "base/arena.h"
#include "base/heap.h"
#include "base/map.h"
#include "core/accounts.h"
#include "core/freemap.h"
#include "core/holders.h"
#include "core/ladder.h"

/* Why a waiting job is kept from the policy at present. */
enum gate_why {
    GATE_OPEN,  /* it is not */
    GATE_SHARE, /* its user or project has had its share of the GPUs */
    GATE_GPUS,  /* quota of GPUs held at one time */
    GATE_HOURS, /* quota of GPU-hours of the window */
};

/* A job with core's own links. `job` comes first, so that one pointer is both.
 */
struct state_job {
    struct firn_job job;
    struct state_job *before, *after; /* list of the living, by id */
    int parts_cap;                    /* room in job.held.parts */
    char *name; /* and merge key of the job; kept with the slot for the next */
    size_t name_cap;
    uint64_t *barred;    /* room for a bit of each node; NULL until needed */
    int member;          /* account that is charged; -1: there are none */
    enum gate_why gated; /* no view has it: core/gate.h */
    enum gate_why noted; /* the reason that its note gives */
};

struct state {
    struct firn_cluster cluster; /* own copy of the nodes: is_up changes */
    struct freemap map;
    struct holders holders; /* who shares its GPUs */
    VEC(struct state_job *) by_slot;
    VEC(int) free_slots;
    VEC(struct state_job *) by_id; /* NULL when ended */
    struct state_job *first, *last;
    size_t nwaiting, nrunning;
    size_t ngated;     /* waiting jobs that no view has */
    size_t ndeadlines; /* living jobs that have one */
    size_t none_node;  /* living jobs that keep to one node */
    size_t nchoosy;    /* living jobs that do not accept every GPU type, or
                        * not several at once, or not every node */
    struct map names;  /* interned application, group and type names */

    struct accounts *accounts; /* borrowed; NULL: no job is charged */
    const struct firn_policy_def *policy;
    void *policy_state;
    struct ladder ladder;  /* used when the policy has a rank */
    struct heap rank_ends; /* slots by the time their rank ends */
    VEC(firn_job_id) line; /* of the gate: its order of the last decision */
    VEC(firn_job_id)
    gatings; /* jobs that state_gate() changed, not noted yet */
};

void state_init(struct state *state, const struct firn_cluster *cluster,
                const struct firn_policy_def *policy, void *policy_state);
void state_release(struct state *state);

/* A new job. FIRN_EINVAL when the cluster could never run it or the id is not
 * above all before. Strings are copied. */
enum firn_status state_submit(struct state *state, firn_job_id id,
                              const struct firn_job_spec *spec, double now_s,
                              struct firn_error *err);
/* The living job with this id, or NULL. */
struct firn_job *state_job(const struct state *state, firn_job_id id);
/* Of the living jobs that share these GPUs, the one with the lowest id above
 * `after` (FIRN_NO_JOB: of all); NULL: none. */
const struct firn_job *state_sharer(const struct state *state,
                                    const struct firn_alloc *gpus,
                                    firn_job_id after);
/* These nodes are barred to it (firn_job.barred), copied; NULL: none. */
void state_bar(struct state *state, struct firn_job *job,
               const uint64_t *nodes);
/* Takes away what it holds; it waits. Its counters are brought up to now. */
void state_drop(struct state *state, struct firn_job *job, double now_s);
/* A waiting job now holds these GPUs (copied), which must be free. */
void state_hold(struct state *state, struct firn_job *job,
                const struct firn_alloc *alloc, double now_s);
void state_report(struct state *state, struct firn_job *job,
                  const struct firn_report *report, double now_s);
/* A job that waits since now has that much work by belief (struct firn_job). */
void state_believe(struct state *state, struct firn_job *job, double belief,
                   double now_s);
/* Replaces a guessed duration by a better guess. */
void state_correct(struct state *state, struct firn_job *job, double duration_s,
                   double now_s);
/* The job is over and forgotten: the pointer dies. */
void state_end(struct state *state, struct firn_job *job, double now_s);
/* Nothing may be held on a node that goes down. */
void state_node(struct state *state, firn_node_id node, bool is_up);

/* What a job had done before it came to this state. Zeroed: nothing. */
struct state_past {
    double since_s;              /* it has held GPUs, or none, from then on */
    double first_start_s;        /* of no account while `starts` is 0 */
    double held_s, served_gpu_s; /* up to since_s */
    int starts, gpus_most;
    struct firn_report report;
};
/* A job that was just submitted has that past, and holds `held` (nparts 0:
 * waits), whose GPUs are free. */
void state_restore(struct state *state, struct firn_job *job,
                   const struct state_past *past, const struct firn_alloc *held,
                   double now_s);

/* Keeps a waiting job from all views and from the order of service, or lets it
 * in again (GATE_OPEN). */
void state_gate(struct state *state, struct firn_job *job, enum gate_why why,
                double now_s);
/* Core's own record of a job. */
static inline struct state_job *state_record(const struct firn_job *job)
{
    return (struct state_job *)(uintptr_t)job; /* its first member */
}

/* When the next rank ends; infinity for never. */
double state_rank_end_s(const struct state *state);
/* Ranks anew the jobs whose rank has ended; true when there were any. */
bool state_rank_expired(struct state *state, double now_s);

#endif
