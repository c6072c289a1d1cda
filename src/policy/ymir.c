/* ymir.c - fine-tuning jobs share GPUs, and what they learn.
 *
 * Jobs that fine-tune one foundation model can be merged in pairs: trained
 * together from the start (spatial), or one after the other, the second from
 * the weights of the first (temporal), which may take fewer epochs (Ymir, Gao
 * et al., ICS 2024). Every `interval` seconds the task merger
 * (policy/merger.h) decides how many GPUs each job has and who is merged, by
 * forecasts of the time to the end.
 *
 *   objective   slowdown or speedup, the two readings of the paper's eq. (7)
 *               (merger.c). The default has the lower mean completion time on
 *               the published workloads of load 1, vit, vit-large, roberta-
 *               base and -large on 8 x 4 V100: 450, 750, 325 and 387 s where
 *               speedup has 520, 827, 351 and 457; without merging, too.
 *   together    two waiting jobs without progress, on the same GPUs
 *   after       a job without progress waits for one that runs, and is given
 *               its weights when it has ended. This is decided anew at every
 *               round for as long as it waits.
 *   guard       two epochs after a merge the reported rates must make it worth
 *               its while: both one after the other, alone on the same GPUs,
 *               must not be forecast to end sooner; else it is undone.
 *   profile     with profile-s a new job has its first seconds on 1 or 4 GPUs
 *               and is not merged in them. It is off by default: the
 *               simulator's forecasts need no such phase. What was done in it
 *               counts as no progress for merging together.
 *
 *   ahead       Ymir's pipeline switch: so many seconds of a restart (data
 *               loaders, weights) are spent while others still use the GPUs.
 *               The paper prepares loaders 30 s before a round. 0 by default,
 *               to be compared with policies that have no such thing.
 *
 * Which jobs can be merged is the engine's to know (firn_view_merge): the same
 * model, different datasets, and both accept it; together only where their keys
 * are equal (firn_job_spec.merge_key).
 *
 * Between rounds, which the paper does not have, running jobs stay as they are
 * and waiting ones may have what is free (`between`).
 *
 * Invariants: (1) at most two jobs are merged; (2) a job is merged together
 * only before it has made progress; (3) a change of GPUs is counted with its
 * restart.
 *
 * Left out: undoing a temporal transfer, as its weights cannot be taken back
 * from a job without losing its progress; pipeline-parallel jobs.
 *
 * Cost: O(jobs x counts + pairs) forecasts a round, and the solver.
 */
#include "policy/ymir.h"
#include <stdlib.h>

enum { NOTES = 16 }; /* waiting jobs that are told why, each round */

static const char *const objectives[] = {"speedup", "slowdown", NULL};

#define OPTION(member) offsetof(struct ymir, member)

static const struct firn_option options[] = {
    {.name = "objective",
     .type = FIRN_OPTION_CHOICE,
     .fallback = "slowdown",
     .choices = objectives,
     .help = "largest sum of speed-ups, or smallest sum of slowdowns",
     .offset = OPTION(rules.objective)},
    {.name = "interval",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "120",
     .min = 1e-3,
     .max = 1e9,
     .help = "seconds between two rounds",
     .offset = OPTION(rules.interval_s)},
    {.name = "wait",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "1",
     .min = 1e-3,
     .max = 1e6,
     .help = "intervals that waiting is charged, with slowdown",
     .offset = OPTION(rules.wait)},
    {.name = "restart",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "30",
     .min = 0,
     .max = 1e9,
     .help = "seconds a restart costs jobs that do not name a cost",
     .offset = OPTION(rules.restart_s)},
    {.name = "ahead",
     .type = FIRN_OPTION_INT,
     .fallback = "0",
     .min = 0,
     .max = 1e6,
     .help = "seconds of each restart that are hidden behind other work",
     .offset = OPTION(rules.ahead_s)},
    {.name = "merge",
     .type = FIRN_OPTION_BOOL,
     .fallback = "yes",
     .help = "jobs are merged at all",
     .offset = OPTION(merge)},
    {.name = "spatial",
     .type = FIRN_OPTION_BOOL,
     .fallback = "yes",
     .help = "two jobs may be trained together",
     .offset = OPTION(rules.spatial)},
    {.name = "temporal",
     .type = FIRN_OPTION_BOOL,
     .fallback = "yes",
     .help = "a job may wait for another's weights",
     .offset = OPTION(rules.temporal)},
    {.name = "weight",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "1",
     .min = 0,
     .max = 1e6,
     .help = "pairs with a lower TranWt are not considered",
     .offset = OPTION(rules.weight_min)},
    {.name = "pool",
     .type = FIRN_OPTION_INT,
     .fallback = "32",
     .min = 1,
     .max = 1e6,
     .help = "jobs that are considered for merging in a round, shortest first",
     .offset = OPTION(rules.pool)},
    {.name = "guard",
     .type = FIRN_OPTION_BOOL,
     .fallback = "yes",
     .help = "a merge that does not pay after two epochs is undone",
     .offset = OPTION(guard)},
    {.name = "between",
     .type = FIRN_OPTION_BOOL,
     .fallback = "yes",
     .help = "between two rounds, waiting jobs may have free GPUs",
     .offset = OPTION(between)},
    {.name = "profile-s",
     .type = FIRN_OPTION_DOUBLE,
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "seconds that a new job is profiled",
     .offset = OPTION(profile_s)},
    {.name = "profile-gpus",
     .type = FIRN_OPTION_INT,
     .fallback = "1",
     .min = 1,
     .max = 64,
     .help = "GPUs for that: 1, or 4 for pipeline-parallel jobs",
     .offset = OPTION(profile_gpus)},
    {0},
};

/* One decision. */
struct meeting {
    struct ymir *y;
    const struct firn_view *view;
    struct firn_plan *plan;
    const struct firn_job *const *jobs; /* by id */
    struct merger_unit *units;
    size_t n;
    bool is_round;
};

static const struct firn_job *job_of(const struct meeting *m, firn_job_id id)
{
    size_t low = 0, high = m->view->njobs;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->jobs[mid]->id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->view->njobs && m->jobs[low]->id == id ? m->jobs[low] : NULL;
}

/* Whom a running job is trained together with, if that one is still there. */
static const struct firn_job *partner(const struct meeting *m,
                                      const struct firn_job *job)
{
    firn_job_id with =
        job->held.nparts > 0 ? job->held.how.merged_with : FIRN_NO_JOB;
    const struct firn_job *other = with != FIRN_NO_JOB ? job_of(m, with) : NULL;
    return other != NULL && other->held.how.merged_with == job->id ? other
                                                                   : NULL;
}

/* ---- bonds ---- */

static struct bond *bond_of(struct ymir *y, const struct firn_job *second)
{
    for (size_t i = 0; i < y->bonds.n; i++)
        if (y->bonds.at[i].second == second->id)
            return &y->bonds.at[i];
    return NULL;
}

/* Lets go of those that have begun, and of all that wait when `anew`; those
 * whose first has ended are ready. */
static void keep_bonds(const struct meeting *m, bool anew)
{
    struct ymir *y = m->y;
    size_t kept = 0;
    for (size_t i = 0; i < y->bonds.n; i++) {
        struct bond bond = y->bonds.at[i];
        const struct firn_job *first = job_of(m, bond.first);
        const struct firn_job *second = job_of(m, bond.second);
        if (second == NULL || firn_job_done_s(second, m->view->now_s) > 0)
            continue;
        bond.is_ready = bond.is_ready || first == NULL;
        if (!bond.is_ready && (anew || first->held.nparts == 0))
            continue;
        y->bonds.at[kept++] = bond;
    }
    y->bonds.n = kept;
}

static void make_bonds(const struct meeting *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct merger_unit *unit = &m->units[i];
        if (unit->partner != MERGER_NONE && unit->is_second &&
            unit->kind == FIRN_MERGE_AFTER) {
            struct bond bond = {.first = m->units[unit->partner].job->id,
                                .second = unit->job->id,
                                .gain = unit->follow_gain};
            vec_add(&m->y->bonds, bond);
        }
    }
}

/* ---- units ---- */

static double held_s(const struct meeting *m, const struct firn_job *job)
{
    return job->held_s +
           (job->held.nparts > 0 ? m->view->now_s - job->since_s : 0);
}

/* Has it made no progress but in its profiling? */
static bool is_fresh(const struct meeting *m, const struct firn_job *job)
{
    const struct ymir *y = m->y;
    if (y->profile_s > 0)
        return held_s(m, job) <= y->profile_s + y->rules.interval_s;
    return job->held.nparts == 0 && firn_job_done_s(job, m->view->now_s) <= 0;
}

/* Both alone, the shorter first, would end sooner than they report to; or
 * nobody can tell. */
static bool is_bad(const struct meeting *m, const struct firn_job *a,
                   const struct firn_job *b)
{
    const struct firn_job *jobs[2] = {a, b};
    struct firn_way way = {.gpus = a->held.ngpus, .type = FIRN_ANY_TYPE};
    struct firn_merge merge;
    double now_s = m->view->now_s, alone_s[2], merged_s[2];
    double begun_s = fmax(a->resumes_s, b->resumes_s);
    if (!firn_view_merge(m->view, a, b, FIRN_MERGE_TOGETHER, &way, &merge))
        return true;
    if (!m->y->guard || !(now_s - begun_s >= 2 * merge.epoch_s))
        return false;
    for (int i = 0; i < 2; i++) {
        double left_s =
            jobs[i]->spec.duration_s - firn_job_done_s(jobs[i], now_s);
        alone_s[i] = firn_view_left_s(m->view, jobs[i], &way);
        merged_s[i] = left_s / jobs[i]->rate;
    }
    /* When the first is done the other goes on alone. */
    int last = merged_s[0] <= merged_s[1];
    double first_s = merged_s[1 - last];
    merged_s[last] = first_s + alone_s[last] * (1 - first_s / merged_s[last]);
    return merged_s[0] + merged_s[1] >
           2 * fmin(alone_s[0], alone_s[1]) + fmax(alone_s[0], alone_s[1]);
}

/* The GPUs of a job that is being profiled; 0 when it is not. */
static int pinned(const struct meeting *m, const struct firn_job *job)
{
    size_t n;
    if (held_s(m, job) >= m->y->profile_s)
        return 0;
    const int *counts = merger_counts(m->view, job, &n);
    size_t i = 0;
    while (i + 1 < n && counts[i + 1] <= m->y->profile_gpus)
        i++;
    return n > 0 ? counts[i] : 0;
}

static void add_unit(struct meeting *m, const struct firn_job *job,
                     const struct firn_job *with)
{
    const struct bond *bond = bond_of(m->y, job);
    struct merger_unit unit = {.job = job, .with = with, .gain = 1};
    bool may_merge = m->y->merge && job->spec.may_merge && with == NULL;
    bool has_weights = bond != NULL && bond->is_ready;
    if (has_weights)
        unit.gain = bond->gain;
    unit.pinned = with == NULL ? pinned(m, job) : 0;
    unit.may_lead = may_merge && unit.pinned == 0;
    unit.may_merge = unit.may_lead && !has_weights && is_fresh(m, job);
    unit.may_follow = unit.may_merge;
    m->units[m->n++] = unit;
}

/* For another's weights. */
static bool is_waiting(const struct meeting *m, const struct firn_job *job)
{
    const struct bond *bond = bond_of(m->y, job);
    return bond != NULL && !bond->is_ready;
}

/* In a round everybody; else those that wait for nobody. */
static void list_units(struct meeting *m)
{
    m->units =
        firn_view_alloc(m->view, (m->view->njobs + 1) * sizeof *m->units);
    for (size_t i = 0; i < m->view->njobs; i++) {
        const struct firn_job *job = m->jobs[i];
        const struct firn_job *with = partner(m, job);
        if (!m->is_round && (job->held.nparts > 0 || is_waiting(m, job)))
            continue;
        if (with != NULL && is_bad(m, job, with))
            with = NULL; /* and so for the other */
        if (with == NULL || with->id > job->id)
            add_unit(m, job, with);
    }
}

/* ---- placing ---- */

static bool is_kept(const struct merger_unit *unit)
{
    const struct firn_alloc *held = &unit->job->held;
    bool is_merging =
        unit->partner != MERGER_NONE && unit->kind == FIRN_MERGE_TOGETHER;
    return held->nparts > 0 && held->ngpus == unit->gpus && !is_merging;
}

static bool keep(struct meeting *m, const struct merger_unit *unit)
{
    size_t mark = firn_plan_mark(m->plan);
    /* The half of an undone merge must leave the other's GPUs. */
    if (unit->with == NULL && partner(m, unit->job) != NULL)
        return false;
    if (firn_plan_keep(m->plan, unit->job) &&
        (unit->with == NULL || firn_plan_keep(m->plan, unit->with)))
        return true;
    firn_plan_undo(m->plan, mark);
    return false;
}

static struct firn_how how_of(const struct meeting *m,
                              const struct firn_job *job)
{
    const struct bond *bond = bond_of(m->y, job);
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.ahead_s = m->y->rules.ahead_s;
    if (bond != NULL && bond->is_ready)
        how.after = bond->first;
    return how;
}

static bool give_one(struct meeting *m, const struct firn_job *job, int gpus)
{
    struct firn_how how = how_of(m, job);
    struct firn_want want = {.gpus = gpus, .how = &how};
    return gpus >= job->spec.gpus_min &&
           firn_plan_give_want(m->plan, job, &want);
}

static bool give_both(struct meeting *m, const struct firn_job *job,
                      const struct firn_job *with, int gpus)
{
    size_t mark = firn_plan_mark(m->plan);
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.ahead_s = m->y->rules.ahead_s;
    struct firn_want want = {.gpus = gpus,
                             .types = job->type_mask & with->type_mask,
                             .one_type = with->spec.one_type,
                             .shared = true,
                             .how = &how};
    if (want.types != 0 && firn_plan_give_want(m->plan, job, &want) &&
        firn_plan_merge(m->plan, with, job))
        return true;
    firn_plan_undo(m->plan, mark);
    return false;
}

/* Whom a unit is given GPUs with; NULL: nobody. */
static const struct firn_job *other_of(const struct meeting *m,
                                       const struct merger_unit *unit)
{
    if (unit->partner == MERGER_NONE || unit->kind != FIRN_MERGE_TOGETHER)
        return unit->with;
    return m->units[unit->partner].job;
}

/* As decided, or on fewer GPUs where types stand in the way. */
static void place(struct meeting *m, struct merger_unit *unit)
{
    const struct firn_job *with = other_of(m, unit);
    if (with != NULL && give_both(m, unit->job, with, unit->gpus))
        return;
    while (unit->gpus > 0 && !give_one(m, unit->job, unit->gpus))
        unit->gpus--;
}

/* Choosy ones first, then the largest, then by id. */
static int by_size(const void *a, const void *b)
{
    const struct merger_unit *x = *(struct merger_unit *const *)a;
    const struct merger_unit *y = *(struct merger_unit *const *)b;
    int types_x = __builtin_popcount(x->job->type_mask);
    int types_y = __builtin_popcount(y->job->type_mask);
    if (types_x != types_y)
        return types_x - types_y;
    if (x->gpus != y->gpus)
        return y->gpus - x->gpus;
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

static void place_all(struct meeting *m)
{
    struct merger_unit **order =
        firn_view_alloc(m->view, (m->n + 1) * sizeof(struct merger_unit *));
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        struct merger_unit *unit = &m->units[i];
        bool is_guest = unit->partner != MERGER_NONE && unit->is_second &&
                        unit->kind == FIRN_MERGE_TOGETHER;
        if (unit->gpus == 0 || is_guest || (is_kept(unit) && keep(m, unit)))
            continue;
        order[n++] = unit;
    }
    if (n > 1)
        qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n; i++)
        place(m, order[i]);
}

/* ---- the round ---- */

static void note(const struct meeting *m)
{
    int told = 0;
    for (size_t i = 0; i < m->n && told < NOTES; i++) {
        const struct merger_unit *unit = &m->units[i];
        const struct bond *bond = bond_of(m->y, unit->job);
        const struct firn_job *first =
            bond != NULL && !bond->is_ready ? job_of(m, bond->first) : NULL;
        if (unit->gpus > 0)
            continue;
        told++;
        if (first != NULL) /* by name: numbers are the round's own */
            firn_plan_note(m->plan, unit->job,
                           "waits for the weights of %.20s: %.2f times faster",
                           first->spec.name, bond->gain);
        else
            firn_plan_note(m->plan, unit->job,
                           "a GPU is worth %.3g to others, more than to it",
                           m->y->latest.price);
    }
}

/* Is it time for a round? The same answer when asked twice. */
static bool begins_round(struct ymir *y, double now_s)
{
    double every_s = y->rules.interval_s;
    if (y->had_round && now_s > y->round_s &&
        now_s < (floor(y->round_s / every_s) + 1) * every_s)
        return false;
    y->had_round = true;
    y->round_s = now_s;
    return true;
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct ymir *y = state;
    struct meeting m = {
        .y = y, .view = view, .plan = plan, .jobs = firn_view_jobs(view)};
    struct merger_rules rules = y->rules;
    m.is_round = begins_round(y, view->now_s);
    keep_bonds(&m, m.is_round);
    if (!m.is_round) {
        firn_plan_keep_all(plan);
        rules.temporal = false;
        if (!y->between || view->nwaiting == 0 || view->gpus_free == 0)
            return FIRN_OK;
    }
    list_units(&m);
    merger_solve(view, &rules, m.units, m.n,
                 m.is_round ? view->gpus_up : view->gpus_free, &y->latest);
    if (m.is_round)
        make_bonds(&m);
    place_all(&m);
    note(&m);
    return FIRN_OK;
}

static double wake_s(const void *state, const struct firn_view *view)
{
    const struct ymir *y = state;
    double every_s = y->rules.interval_s;
    if (view->njobs == 0)
        return INFINITY;
    double next_s = (floor(view->now_s / every_s) + 1) * every_s;
    return next_s > view->now_s ? next_s : view->now_s + every_s;
}

static void fini(void *state)
{
    struct ymir *y = state;
    vec_release(&y->bonds);
}

const struct firn_policy_def firn_policy_ymir = {
    .name = "ymir",
    .summary = "elastic fine-tuning jobs, merged in pairs by transfer",
    .paper = "Gao et al., Ymir, ICS 2024",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_DURATION,
    .does =
        FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE | FIRN_DOES_MERGE,
    .options = options,
    .state_size = sizeof(struct ymir),
    .decide = decide,
    .wake_s = wake_s,
    .fini = fini,
    .save = ymir_save,
    .load = ymir_load,
};
