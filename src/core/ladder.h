/* ladder.h - jobs in the order a policy serves them, kept as they change.
 *
 * Two kinds of ordered set over job slots. `running` holds the jobs with GPUs,
 * with running sums of GPUs, so that "how many GPUs do those before this job
 * hold?" is one descent. The waiting jobs are split by how many GPUs they
 * want; only the first of each class can be the next to start, so a queue of a
 * million jobs is looked at in as many steps as there are sizes.
 */
#ifndef CORE_LADDER_H
#define CORE_LADDER_H
#include "base/treap.h"
#include "base/vec.h"
#include <firn/policy.h>

/* The waiting jobs that want `gpus` GPUs. */
struct ladder_class {
    int gpus;
    int root;
    int first; /* slot; TREAP_NONE when no job waits */
};

struct ladder {
    struct treap_pool pool;
    int running; /* root; keys of a countdown are the moment of reaching 0 */
    VEC(struct ladder_class) classes; /* by gpus, ascending */
    VEC(bool) is_running;             /* by slot: which side it is on */
    bool counts_down;                 /* running keys fall with time */
    bool has_contest; /* running jobs can be preempted: order them too */
};

/* A policy that never preempts asks nothing about running jobs; then they are
 * not kept in order. */
void ladder_init(struct ladder *ladder, const struct firn_policy_def *policy);
void ladder_release(struct ladder *ladder);

/* Puts a job in, on the side asked for. `key` is its rank's key at `now_s`. */
void ladder_add(struct ladder *ladder, const struct firn_job *job, double key,
                double now_s, bool runs);
void ladder_remove(struct ladder *ladder, const struct firn_job *job);
/* Moves it to the other side with the key it has at `now_s`. */
void ladder_flip(struct ladder *ladder, const struct firn_job *job,
                 double now_s);

/* Its key at `now_s`. */
double ladder_key(const struct ladder *ladder, int slot, double now_s);
/* Is the waiting job in slot `a` before the one in `b`? */
bool ladder_precedes(const struct ladder *ladder, int a, int b);
/* Is the waiting job in `slot` surely behind the running one in `other`? */
bool ladder_is_behind(const struct ladder *ladder, int slot, int other,
                      double now_s);
/* GPUs that running jobs before this waiting one ask for, at `now_s`. Only
 * for policies that preempt. */
int64_t ladder_before(const struct ladder *ladder, int slot, double now_s);

#endif
