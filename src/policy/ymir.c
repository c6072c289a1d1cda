/* ymir.c - fine-tuning jobs share GPUs, and what they learn.
 *
 * Jobs that fine-tune one foundation model can be merged in pairs: trained
 * together from the start (spatial), or one after the other, the second from
 * the weights of the first (temporal), which may take fewer epochs (Ymir, Gao
 * et al., ICS 2024). Every `interval` seconds the task merger (policy/merger.h)
 * decides how many GPUs each job has and which jobs are merged, by forecasts of
 * the time to the end.
 *
 *   objective   slowdown or speedup, the two readings of the paper's eq. (7)
 *               (merger.c). Its text says slowdown, its fraction is a speed-up.
 *               Slowdown is the default, as the sum over two workloads that are
 *               not reported is lower, vit-large and roberta-large of load 1 on
 *               8 x 4 V100 with the answer key: 772 + 391 s, where speedup has
 *               756 + 445.
 *   together    two waiting jobs without progress, on the same GPUs
 *   after       a job without progress waits for one that runs, and is given
 *               its weights when it has ended. This is decided anew at every
 *               round for as long as it waits.
 *   guard       once both of a pair have reported two epochs, the pair is
 *               parted if the metric of either has not improved (the paper's
 *               rule), or if by these epochs both one after the other, alone on
 *               the same GPUs, are forecast to end sooner. A note says which.
 *   profile     with profile-s a new job has its first seconds on 1 or 4 GPUs
 *               and is not merged in them. It is off by default: the
 *               simulator's forecasts need no such phase. What was done in it
 *               counts as no progress for merging together.
 *
 *   ahead       Ymir's pipeline switch: these seconds of a restart (data
 *               loaders) are spent while other jobs still use the GPUs. The
 *               paper gives its signal 30 s before a round. No more than the
 *               engine can do (view->ahead_s): live it is what starts have
 *               gained by prepared processes in the mean (local engine; 0 on
 *               Slurm, which starts a job when its GPUs are free); the
 *               simulator does as many as `firn sim --ahead` says, 0 by
 *               default.
 *
 * The engine knows which jobs can be merged (firn_view_merge): the same model,
 * different datasets, and both accept it; together only where their keys are
 * equal (firn_job_spec.merge_key).
 *
 * firn's own, off by default as the paper has neither:
 *   between     between rounds running jobs stay as they are and waiting ones
 *               may have what is free, instead of waiting for the next round
 *   charge      T has the restart that a change of GPUs costs, so that jobs are
 *               moved less
 * On vit-large and roberta-large of load 1, which no paper's table here uses,
 * both together make mean JCT 704 and 389 s instead of 736 and 435 (estimates,
 * after the cold start, 10 seeds).
 *
 * Invariants: (1) at most two jobs are merged; (2) a job is merged together
 * only before it has made progress.
 *
 * The engine undoes a temporal transfer that does worse than the foundation
 * weights are expected to (taskbook_hurts(); daemon/loop_guard.c live,
 * sim/simengine.c in the simulator): the job begins anew. guard=no switches
 * that off too.
 *
 * Left out: pipeline-parallel jobs.
 *
 * Cost: O(jobs x counts + pairs) forecasts a round, and the solver.
 */
#include "base/keep.h"
#include "base/vec.h"
#include "policy/merger.h"
#include "policy/rounds.h"
#include <stdint.h>
#include <stdlib.h>

enum { NOTES = 16 }; /* waiting jobs that get a note, each round */

/* `second` waits for `first`; or may begin with its weights, once it ended. */
struct bond {
    firn_job_id first, second;
    double gain;
    bool is_ready;
};

struct ymir {
    struct merger_rules rules;
    bool between, merge, guard;
    double profile_s;
    int profile_gpus;

    struct rounds rounds;
    VEC(struct bond) bonds;
    struct pairs_result latest;
};

static const char *const objectives[] = {"speedup", "slowdown", NULL};

static const struct firn_option options[] = {
    FIRN_CHOICE(struct ymir, rules.objective, "objective", "slowdown",
                objectives,
                "largest sum of speed-ups, or smallest sum of slowdowns"),
    FIRN_NUMBER(struct ymir, rules.interval_s, "interval", "120", 1e-3, 1e9,
                "seconds between two rounds"),
    FIRN_NUMBER(struct ymir, rules.wait, "wait", "1", 1e-3, 1e6,
                "intervals that waiting is charged, with slowdown"),
    FIRN_NUMBER(struct ymir, rules.restart_s, "restart", "30", 0, 1e9,
                "seconds a restart costs jobs that do not name a cost"),
    FIRN_INT(struct ymir, rules.ahead_s, "ahead", "30", 0, 30,
             "seconds of each restart that are prepared before the GPUs are "
             "free, as far as the engine can"),
    FIRN_BOOL(struct ymir, merge, "merge", "yes", "jobs are merged at all"),
    FIRN_BOOL(struct ymir, rules.spatial, "spatial", "yes",
              "two jobs may be trained together"),
    FIRN_BOOL(struct ymir, rules.temporal, "temporal", "yes",
              "a job may wait for another's weights"),
    FIRN_NUMBER(struct ymir, rules.weight_min, "weight", "1", 0, 1e6,
                "pairs with a lower TranWt are not considered"),
    FIRN_INT(struct ymir, rules.pool, "pool", "32", 1, 1e6,
             "jobs that are considered for merging in a round, shortest first"),
    FIRN_BOOL(struct ymir, guard, "guard", "yes",
              "a merge that does not pay after two epochs is undone"),
    FIRN_BOOL(struct ymir, rules.charges, "charge", "no",
              "times have the restart that a change of GPUs costs"),
    FIRN_BOOL(struct ymir, between, "between", "no",
              "between two rounds, waiting jobs may have free GPUs"),
    FIRN_NUMBER(struct ymir, profile_s, "profile-s", "0", 0, 1e9,
                "seconds that a new job is profiled"),
    FIRN_INT(struct ymir, profile_gpus, "profile-gpus", "1", 1, 64,
             "GPUs for that: 1, or 4 for pipeline-parallel jobs"),
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

/* The partner that a running job is trained together with; NULL: none, or it is
 * gone. */
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

/* Drops the bonds of jobs that have begun, and all of waiting jobs when `anew`;
 * bonds whose first job has ended are ready. */
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

/* Does the job wait for the weights of another? */
static bool is_waiting(const struct meeting *m, const struct firn_job *job)
{
    const struct bond *bond = bond_of(m->y, job);
    return bond != NULL && !bond->is_ready;
}

/* At a round boundary: all jobs. Between rounds: only jobs that do not wait for
 * a partner. */
static void list_units(struct meeting *m)
{
    m->units =
        firn_view_alloc(m->view, (m->view->njobs + 1) * sizeof *m->units);
    for (size_t i = 0; i < m->view->njobs; i++) {
        const struct firn_job *job = m->jobs[i];
        const struct firn_job *with = partner(m, job);
        if (!m->is_round && (job->held.nparts > 0 || is_waiting(m, job)))
            continue;
        const char *why =
            with != NULL ? merger_harm(m->view, job, with, m->y->guard) : NULL;
        if (why != NULL) {
            firn_plan_note(m->plan, job, "parted from %.20s: %s",
                           with->spec.name, why);
            with = NULL; /* and so for the other */
        }
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
    /* One job of an undone merge must leave the GPUs of the other. */
    if (unit->with == NULL && partner(m, unit->job) != NULL)
        return false;
    if (firn_plan_keep(m->plan, unit->job) &&
        (unit->with == NULL || firn_plan_keep(m->plan, unit->with)))
        return true;
    firn_plan_undo(m->plan, mark);
    return false;
}

/* Seconds of a start that are prepared: what the policy wants and the engine
 * can. */
static int ahead_of(const struct meeting *m)
{
    int wanted = m->y->rules.ahead_s, can = m->view->ahead_s;
    return wanted < can ? wanted : can;
}

static struct firn_how how_of(const struct meeting *m,
                              const struct firn_job *job)
{
    const struct bond *bond = bond_of(m->y, job);
    struct firn_how how = FIRN_HOW_AS_SUBMITTED;
    how.ahead_s = ahead_of(m);
    if (bond != NULL && bond->is_ready)
        how.after = bond->first;
    how.unguarded = !m->y->guard;
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
    how.ahead_s = ahead_of(m);
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

/* The job that a unit is given GPUs together with; NULL: none. */
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
    int nnotes = 0;
    for (size_t i = 0; i < m->n && nnotes < NOTES; i++) {
        const struct merger_unit *unit = &m->units[i];
        const struct bond *bond = bond_of(m->y, unit->job);
        const struct firn_job *first =
            bond != NULL && !bond->is_ready ? job_of(m, bond->first) : NULL;
        if (unit->gpus > 0)
            continue;
        nnotes++;
        if (first !=
            NULL) /* by name: the ids of the round are not those of users */
            firn_plan_note(m->plan, unit->job,
                           "waits for the weights of %.20s: %.2f times faster",
                           first->spec.name, bond->gain);
        else
            firn_plan_note(
                m->plan, unit->job,
                "a GPU is worth %.3g to other jobs, less to this one",
                m->y->latest.price);
    }
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    struct ymir *y = state;
    struct meeting m = {
        .y = y, .view = view, .plan = plan, .jobs = firn_view_jobs(view)};
    struct merger_rules rules = y->rules;
    m.is_round =
        rounds_begin(&y->rounds, view->now_s,
                     rounds_multiple_s(y->rounds.last_s, y->rules.interval_s));
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
    return view->njobs > 0 ? rounds_multiple_s(view->now_s, y->rules.interval_s)
                           : INFINITY;
}

static void fini(void *state)
{
    struct ymir *y = state;
    vec_release(&y->bonds);
}

/* ---- over a restart ---- */

/* Bonds are kept, and the time of the last round. A bond is not in the view: a
 * job that waits for the weights of another looks like any waiting job, and
 * once the first job has ended nothing else tells of it. */

static void save(const void *state, struct firn_buf *out)
{
    const struct ymir *y = state;
    keep_begin(out, "policy ymir", 1);
    rounds_save(&y->rounds, out);
    keep_int(out, (long)y->bonds.n);
    for (size_t i = 0; i < y->bonds.n; i++) {
        const struct bond *bond = &y->bonds.at[i];
        keep_int(out, bond->first);
        keep_int(out, bond->second);
        keep_double(out, bond->gain);
        keep_int(out, bond->is_ready);
    }
}

static enum firn_status load(void *state, struct firn_bytes in,
                             struct firn_error *err)
{
    struct ymir *y = state;
    struct keep keep;
    VEC(struct bond) bonds = {0};
    FIRN_TRY(keep_open(&keep, in, "policy ymir", 1, err));
    struct rounds rounds = rounds_load(&keep);
    long n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++) {
        struct bond bond = {.first = (int)keep_read_int(&keep, 0, INT32_MAX)};
        bond.second = (int)keep_read_int(&keep, 0, INT32_MAX);
        bond.gain = keep_read_double(&keep);
        bond.is_ready = keep_read_int(&keep, 0, 1);
        vec_add(&bonds, bond);
    }
    enum firn_status status = keep_close(&keep, err);
    if (status == FIRN_OK) {
        y->rounds = rounds;
        y->bonds.n = 0;
        for (size_t i = 0; i < bonds.n; i++)
            vec_add(&y->bonds, bonds.at[i]);
    }
    vec_release(&bonds);
    return status;
}

const struct firn_policy_def firn_policy_ymir = {
    .size = sizeof(struct firn_policy_def),
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
    .save = save,
    .load = load,
};
