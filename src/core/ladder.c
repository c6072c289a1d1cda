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
 * (3) weights are spec.gpus, what rank order gives each job.
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
    *at = (struct ladder_class){gpus, TREAP_NONE};
    return at;
}

void ladder_add(struct ladder *ladder, const struct firn_job *job, double key,
                double now_s, bool runs)
{
    size_t slot = (size_t)job->slot;
    vec_reserve(&ladder->is_running, slot + 1);
    ladder->is_running.at[slot] = runs;
    if (runs && !ladder->has_contest)
        return;
    int *root =
        runs ? &ladder->running : &class_of(ladder, job->spec.gpus)->root;
    double stored = runs && ladder->counts_down ? key + now_s : key; /* (2) */
    treap_insert(&ladder->pool, root, job->slot, stored, job->id,
                 job->spec.gpus);
}

void ladder_remove(struct ladder *ladder, const struct firn_job *job)
{
    bool runs = ladder->is_running.at[job->slot];
    if (runs && !ladder->has_contest)
        return;
    int *root =
        runs ? &ladder->running : &class_of(ladder, job->spec.gpus)->root;
    treap_remove(&ladder->pool, root, job->slot);
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

int64_t ladder_before(const struct ladder *ladder, int slot, double now_s)
{
    const struct treap_node *node = &ladder->pool.at[slot];
    double key = ladder->counts_down ? node->key + now_s : node->key;
    return treap_sum_before(&ladder->pool, ladder->running, key, node->id);
}
