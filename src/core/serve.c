/* serve.c - jobs in rank order, each with the GPUs it asked for.
 *
 * The rule: walk all jobs in rank order; a job that fits in what is left runs,
 * another is passed over (or, when strict, ends the walk). Without preemption
 * the running jobs are outside the walk and keep what they hold.
 *
 * Two ways to the same answer:
 *
 * - quick(), when every job accepts every GPU: then fitting is counting, and
 *   among the waiting jobs of one size only the first can be the next; the
 *   ladder has it at hand. With preemption, waiting job w runs exactly when
 *   the running jobs before it hold at most C - gpus(w). Admit the first in
 * rank of those firsts, push the last in rank out while more than C GPUs are
 * held, and repeat until no job qualifies. What is pushed out and still fits
 * comes back by the same rule, so the end is the walk's answer: the set in
 * which each job runs exactly when those before it that run leave it room,
 * which is unique. Cost: O(changes x sizes x log jobs), whatever the number of
 * jobs.
 * - walk(), when some jobs accept only some types or a job's GPUs must be of
 *   one type: job by job. With preemption the jobs that run are found by
 *   counting the GPUs of each type. O(jobs log jobs). It is also the oracle of
 * the first in the tests.
 *
 * Jobs that stay keep their GPUs; new ones are placed after that, in order.
 */
#include "core/serve.h"
#include "core/plan.h"
#include <stdio.h>
#include <string.h>

struct service {
    struct firn_plan *plan;
    const struct firn_view *view;
    struct ladder *ladder;
    unsigned how;
    int *moves; /* slots moved in the ladder, to be moved back */
    size_t nmoves, cap;
};

static struct firn_job *job_in(const struct service *s, int slot)
{
    return &s->plan->state->by_slot.at[slot]->job;
}

static void flip(struct service *s, int slot)
{
    ladder_flip(s->ladder, job_in(s, slot), s->view->now_s);
    if (s->nmoves == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        int *moves = firn_view_alloc(s->view, cap * sizeof *moves);
        if (s->nmoves > 0)
            memcpy(moves, s->moves, s->nmoves * sizeof *moves);
        s->moves = moves;
        s->cap = cap;
    }
    s->moves[s->nmoves++] = slot;
}

static bool is_of_one_type(const struct service *s, const struct firn_job *job)
{
    return (s->how & FIRN_SERVE_ONE_TYPE) || job->spec.one_type;
}

static bool give(struct service *s, const struct firn_job *job,
                 const int *counts)
{
    struct firn_want want = {.gpus = job->spec.gpus,
                             .one_type = is_of_one_type(s, job),
                             .fastest = s->how & FIRN_SERVE_FASTEST,
                             .counts = counts};
    return firn_plan_give_want(s->plan, job, &want);
}

/* ---- without preemption: each class has a cursor ---- */

/* The class whose cursor is next in rank (of those that fit, when skipping),
 * or -1. */
static int next_class(const struct service *s, const int *cursors, int room)
{
    int best = -1;
    for (size_t i = 0; i < s->ladder->classes.n; i++) {
        if ((s->how & FIRN_SERVE_SKIP) && s->ladder->classes.at[i].gpus > room)
            break; /* classes are by size */
        if (cursors[i] != TREAP_NONE &&
            (best < 0 || ladder_precedes(s->ladder, cursors[i], cursors[best])))
            best = (int)i;
    }
    bool is_blocked = best >= 0 && s->ladder->classes.at[best].gpus > room;
    return is_blocked ? -1 : best;
}

static void take_turns(struct service *s)
{
    const struct ladder *ladder = s->ladder;
    int room = s->view->gpus_free;
    if (room == 0)
        return;
    int *cursors =
        firn_view_alloc(s->view, (ladder->classes.n + 1) * sizeof *cursors);
    for (size_t i = 0; i < ladder->classes.n; i++)
        cursors[i] = ladder->classes.at[i].first;
    for (int c; (c = next_class(s, cursors, room)) >= 0;) {
        const struct treap_node *node = &ladder->pool.at[cursors[c]];
        room -= node->weight;
        give(s, job_in(s, cursors[c]), NULL);
        cursors[c] = treap_after(&ladder->pool, ladder->classes.at[c].root,
                                 node->key, node->id);
    }
}

/* ---- with preemption: jobs change sides in the ladder ---- */

/* Would the running jobs before this waiting one leave it room? `last` is the
 * last of all that run: behind it, all of them are before. */
static bool has_room(const struct service *s, int slot, int gpus, int last)
{
    int64_t held = treap_sum(&s->ladder->pool, s->ladder->running);
    if (held + gpus <= s->view->gpus_up)
        return true;
    if (ladder_is_behind(s->ladder, slot, last, s->view->now_s))
        return false;
    held = ladder_before(s->ladder, slot, s->view->now_s);
    return held + gpus <= s->view->gpus_up;
}

/* The next waiting job to run, or TREAP_NONE. */
static int next_up(const struct service *s)
{
    int best = TREAP_NONE;
    int last = treap_last(&s->ladder->pool, s->ladder->running);
    for (size_t i = 0; i < s->ladder->classes.n; i++) {
        const struct ladder_class *c = &s->ladder->classes.at[i];
        if (c->gpus > s->view->gpus_up)
            break; /* classes are by size */
        if (c->first == TREAP_NONE ||
            (best != TREAP_NONE && ladder_precedes(s->ladder, best, c->first)))
            continue;
        if (has_room(s, c->first, c->gpus, last))
            best = c->first;
    }
    return best;
}

/* Turns the ladder's moves into the plan, and takes them back. */
static void settle(struct service *s)
{
    for (size_t i = 0; i < s->nmoves; i++) {
        const struct firn_job *job = job_in(s, s->moves[i]);
        if (job->state == FIRN_JOB_RUNNING &&
            !s->ladder->is_running.at[job->slot] &&
            firn_plan_of(s->plan, job)->nparts > 0)
            firn_plan_drop(s->plan, job);
    }
    for (size_t i = 0; i < s->nmoves; i++) {
        const struct firn_job *job = job_in(s, s->moves[i]);
        if (job->state == FIRN_JOB_WAITING &&
            s->ladder->is_running.at[job->slot] &&
            firn_plan_of(s->plan, job)->nparts == 0)
            give(s, job, NULL);
    }
    for (size_t i = s->nmoves; i > 0; i--)
        ladder_flip(s->ladder, job_in(s, s->moves[i - 1]), s->view->now_s);
}

static void quick(struct service *s)
{
    firn_plan_keep_all(s->plan);
    if (s->how & FIRN_SERVE_PREEMPT) {
        for (int slot; (slot = next_up(s)) != TREAP_NONE;) {
            flip(s, slot);
            while (treap_sum(&s->ladder->pool, s->ladder->running) >
                   s->view->gpus_up)
                flip(s, treap_last(&s->ladder->pool, s->ladder->running));
        }
        settle(s);
    } else
        take_turns(s);
}

/* ---- the walk ---- */

struct walker {
    const struct firn_job *job;
    double key;
    int *counts; /* GPUs of each type; NULL: passed over */
    bool stays;  /* on the GPUs it has */
};

static void sort_walkers(struct walker *jobs, struct walker *spare, size_t n)
{
    if (n < 2)
        return;
    size_t half = n / 2;
    sort_walkers(jobs, spare, half);
    sort_walkers(jobs + half, spare, n - half);
    memcpy(spare, jobs, half * sizeof *jobs);
    size_t a = 0, b = half, to = 0;
    while (a < half && b < n)
        jobs[to++] = spare[a].key <= jobs[b].key ? spare[a++] : jobs[b++];
    while (a < half)
        jobs[to++] = spare[a++];
}

/* Every job that is not settled beforehand, in rank order (ties by id: the
 * list is by id and the sort is stable). */
static struct walker *line_up(const struct service *s, size_t *n)
{
    const struct firn_view *view = s->view;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    struct walker *line =
        firn_view_alloc(view, (view->njobs + 1) * sizeof *line);
    *n = 0;
    for (size_t i = 0; i < view->njobs; i++) {
        bool runs = jobs[i]->state == FIRN_JOB_RUNNING;
        if (runs && (s->how & FIRN_SERVE_PREEMPT) == 0)
            continue;
        double key = ladder_key(s->ladder, jobs[i]->slot, view->now_s);
        line[(*n)++] = (struct walker){.job = jobs[i], .key = key};
    }
    struct walker *spare = firn_view_alloc(view, (*n + 1) * sizeof *spare);
    sort_walkers(line, spare, *n);
    return line;
}

/* The GPUs of each type a running job has; false when `left` lacks them. */
static bool count_held(const struct service *s, struct walker *w,
                       const int *left)
{
    const struct firn_cluster *cluster = s->view->cluster;
    const struct firn_alloc *held = &w->job->held;
    if (held->nparts == 0)
        return false;
    int *counts =
        firn_view_alloc(s->view, (size_t)cluster->ntypes * sizeof *counts);
    for (int i = 0; i < held->nparts; i++)
        counts[cluster->nodes[held->parts[i].node].type] +=
            __builtin_popcountll(held->parts[i].gpus);
    for (int t = 0; t < cluster->ntypes; t++)
        if (counts[t] > left[t])
            return false;
    w->counts = counts;
    w->stays = true;
    return true;
}

/* The type to draw from: one that has `need` if there is any; of several the
 * fastest, or that with most left. -1 for none. */
static firn_type_id pick_type(const struct service *s, uint32_t mask,
                              const int *left, int need)
{
    const struct firn_gpu_type *types = s->view->cluster->types;
    firn_type_id best = -1;
    for (int t = 0; t < s->view->cluster->ntypes; t++) {
        if ((mask >> t & 1) == 0 || left[t] == 0)
            continue;
        if (best < 0) {
            best = t;
            continue;
        }
        bool has = left[t] >= need, had = left[best] >= need;
        if (has != had)
            best = has ? t : best;
        else if (s->how & FIRN_SERVE_FASTEST)
            best = types[t].speed > types[best].speed ? t : best;
        else
            best = left[t] > left[best] ? t : best;
    }
    return best;
}

/* The nodes that are not barred to the job have the GPUs that it asks for. */
static bool has_nodes(const struct service *s, const struct firn_job *job)
{
    const struct firn_cluster *cluster = s->view->cluster;
    int gpus = 0;
    if (job->barred == NULL)
        return true;
    for (firn_node_id n = 0; n < cluster->nnodes; n++)
        if (cluster->nodes[n].is_up && !firn_job_is_barred(job, n) &&
            (job->type_mask >> cluster->nodes[n].type & 1) != 0)
            gpus += cluster->nodes[n].ngpus;
    return gpus >= job->spec.gpus;
}

/* New GPUs for a job, by count; false when `left` has no room. One that another
 * policy left with more or fewer GPUs than it asked for stays or stops:
 * no job is resized here. */
static bool count_new(const struct service *s, struct walker *w,
                      const int *left)
{
    const struct firn_alloc *held = &w->job->held;
    if (!has_nodes(s, w->job) ||
        (held->nparts > 0 && held->ngpus != w->job->spec.gpus))
        return false;
    int ntypes = s->view->cluster->ntypes;
    int *counts = firn_view_alloc(s->view, (size_t)ntypes * sizeof *counts);
    uint32_t mask = w->job->type_mask;
    for (int need = w->job->spec.gpus; need > 0;) {
        firn_type_id t = pick_type(s, mask, left, need);
        if (t < 0 || (is_of_one_type(s, w->job) && left[t] < need))
            return false;
        counts[t] = left[t] < need ? left[t] : need;
        need -= counts[t];
        mask &= ~((uint32_t)1 << t);
    }
    w->counts = counts;
    return true;
}

/* No single type could ever hold it, even empty and with every node up. */
static bool never_fits(const struct service *s, const struct firn_job *job)
{
    const struct firn_cluster *cluster = s->view->cluster;
    if ((s->how & FIRN_SERVE_ONE_TYPE) == 0)
        return false;
    for (int t = 0; t < cluster->ntypes; t++)
        if ((job->type_mask >> t & 1) &&
            cluster->types[t].ngpus >= job->spec.gpus)
            return false;
    return true;
}

/* Without preemption no job has to be counted: each that fits is placed. */
static void walk_in(struct service *s, const struct walker *line, size_t n)
{
    firn_plan_keep_all(s->plan);
    for (size_t i = 0; i < n; i++) {
        if (never_fits(s, line[i].job)) {
            char reason[64];
            snprintf(reason, sizeof reason, "no GPU type has %d GPUs",
                     line[i].job->spec.gpus);
            firn_plan_reject(s->plan, line[i].job, reason);
        } else if (!give(s, line[i].job, NULL) &&
                   (s->how & FIRN_SERVE_SKIP) == 0)
            return;
    }
}

/* Which jobs run, by counts of each type, in rank order. */
static void count_all(struct service *s, struct walker *line, size_t n)
{
    int ntypes = s->view->cluster->ntypes, left[FIRN_TYPES_MAX] = {0};
    for (int t = 0; t < ntypes; t++)
        left[t] = s->plan->state->map.types[t].up;
    for (size_t i = 0; i < n; i++) {
        if (!count_held(s, &line[i], left) && !count_new(s, &line[i], left))
            continue;
        for (int t = 0; t < ntypes; t++)
            left[t] -= line[i].counts[t];
    }
}

/* Places the new ones; with `counted` each on just the types it was counted
 * on. False when one found no room. */
static bool place_new(struct service *s, const struct walker *line, size_t n,
                      bool counted)
{
    bool all = true;
    for (size_t i = 0; i < n && (all || counted); i++)
        if (line[i].counts != NULL && !line[i].stays)
            all &= give(s, line[i].job, counted ? line[i].counts : NULL);
    return all;
}

static void walk(struct service *s)
{
    size_t n;
    struct walker *line = line_up(s, &n);
    if ((s->how & FIRN_SERVE_PREEMPT) == 0) {
        walk_in(s, line, n);
        return;
    }
    count_all(s, line, n);
    for (size_t i = 0; i < n; i++)
        if (line[i].stays)
            firn_plan_keep(s->plan, line[i].job);
    size_t mark = firn_plan_mark(s->plan);
    if (place_new(s, line, n, false))
        return;
    firn_plan_undo(s->plan, mark); /* one took the types another needs */
    place_new(s, line, n, true);
}

struct firn_rank firn_rank_fcfs(const void *state, const struct firn_job *job,
                                double now_s)
{
    (void)state, (void)now_s;
    return (struct firn_rank){job->spec.submit_s, INFINITY};
}

void serve_walk(struct firn_plan *plan, const struct firn_view *view,
                unsigned how)
{
    struct service s = {
        .plan = plan, .view = view, .ladder = &plan->state->ladder, .how = how};
    walk(&s);
}

void firn_plan_serve(struct firn_plan *plan, const struct firn_view *view,
                     unsigned how)
{
    struct service s = {
        .plan = plan, .view = view, .ladder = &plan->state->ladder, .how = how};
    if (plan->state->policy->rank == NULL)
        FIRN_BUG("policy %s serves by rank but has none",
                 plan->state->policy->name);
    bool one_type = (how & FIRN_SERVE_ONE_TYPE) && view->cluster->ntypes > 1;
    if (plan->state->nchoosy > 0 || one_type)
        walk(&s);
    else
        quick(&s);
}
