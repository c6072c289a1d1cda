/* ladder.c - treaps of jobs by rank: one for those that run, one per size for
 * those that wait.
 *
 * Invariants:
 * (1) every job is in exactly one tree: `running` if it is on the running
 *     side, else that of the class of spec.gpus (without contest the running
 *     are in none);
 * (2) a waiting job's stored key is its key; a running job's is its key too,
 *     or, when keys count down, key + now at the time it was stored. All
 *     running keys fall at the same pace, so their order never changes with
 *     time, and a waiting key k compares with them as k + now;
 * (3) weights are spec.gpus, what rank order gives each job;
 * (4) `first` of a class is the first of its tree: asked for every round, so
 *     it is kept rather than looked for.
 *
 * Cost: O(log jobs) each.
 */
#include "core/ladder.h"
#include <string.h>

void ladder_init(struct ladder *ladder, const struct firn_policy_def *policy)
{
    *ladder = (struct ladder){.running = TREAP_NONE,
                              .counts_down = policy->rank_counts_down,
                              .has_contest = policy->does & FIRN_DOES_PREEMPT};
}

void ladder_release(struct ladder *ladder)
{
    treap_release(&ladder->pool);
    vec_release(&ladder->classes);
    vec_release(&ladder->is_running);
}

/* The class for that many GPUs, made if it is new. */
static struct ladder_class *class_of(struct ladder *ladder, int gpus)
{
    size_t lo = 0, hi = ladder->classes.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (ladder->classes.at[mid].gpus < gpus)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < ladder->classes.n && ladder->classes.at[lo].gpus == gpus)
        return &ladder->classes.at[lo];
    vec_reserve(&ladder->classes, ladder->classes.n + 1);
    struct ladder_class *at = &ladder->classes.at[lo];
    memmove(at + 1, at, (ladder->classes.n - lo) * sizeof *at);
    ladder->classes.n++;
    *at = (struct ladder_class){gpus, TREAP_NONE, TREAP_NONE};
    return at;
}

bool ladder_precedes(const struct ladder *ladder, int a, int b)
{
    const struct treap_node *at = ladder->pool.at;
    int c = firn_cmp(at[a].key, at[b].key);
    return c != 0 ? c < 0 : at[a].id < at[b].id;
}

void ladder_add(struct ladder *ladder, const struct firn_job *job, double key,
                double now_s, bool runs)
{
    size_t slot = (size_t)job->slot;
    vec_reserve(&ladder->is_running, slot + 1);
    ladder->is_running.at[slot] = runs;
    if (!runs) {
        struct ladder_class *c = class_of(ladder, job->spec.gpus);
        treap_insert(&ladder->pool, &c->root, job->slot, key, job->id,
                     job->spec.gpus);
        if (c->first == TREAP_NONE ||
            ladder_precedes(ladder, job->slot, c->first))
            c->first = job->slot; /* (4) */
    } else if (ladder->has_contest) {
        double stored = ladder->counts_down ? key + now_s : key; /* (2) */
        treap_insert(&ladder->pool, &ladder->running, job->slot, stored,
                     job->id, job->spec.gpus);
    }
}

void ladder_remove(struct ladder *ladder, const struct firn_job *job)
{
    if (!ladder->is_running.at[job->slot]) {
        struct ladder_class *c = class_of(ladder, job->spec.gpus);
        treap_remove(&ladder->pool, &c->root, job->slot);
        if (c->first == job->slot)
            c->first = treap_first(&ladder->pool, c->root); /* (4) */
    } else if (ladder->has_contest)
        treap_remove(&ladder->pool, &ladder->running, job->slot);
}

void ladder_flip(struct ladder *ladder, const struct firn_job *job,
                 double now_s)
{
    double key = ladder_key(ladder, job->slot, now_s);
    bool runs = ladder->is_running.at[job->slot];
    ladder_remove(ladder, job);
    ladder_add(ladder, job, key, now_s, !runs);
}

double ladder_key(const struct ladder *ladder, int slot, double now_s)
{
    double stored = ladder->pool.at[slot].key;
    bool falls = ladder->counts_down && ladder->is_running.at[slot];
    return falls ? stored - now_s : stored;
}

/* A waiting job's key among those of the running: (2). */
static double running_key(const struct ladder *ladder, int slot, double now_s)
{
    double key = ladder->pool.at[slot].key;
    return ladder->counts_down ? key + now_s : key;
}

bool ladder_is_behind(const struct ladder *ladder, int slot, int other,
                      double now_s)
{
    return running_key(ladder, slot, now_s) > ladder->pool.at[other].key;
}

int64_t ladder_before(const struct ladder *ladder, int slot, double now_s)
{
    return treap_sum_before(&ladder->pool, ladder->running,
                            running_key(ladder, slot, now_s),
                            ladder->pool.at[slot].id);
}
