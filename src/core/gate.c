/* gate.c - divides the GPUs among users and projects, then lets jobs in.
 *
 * Source: progressive filling (max-min fairness) over a decayed past, as in
 * Slurm's fair tree, but with GPUs that are held now counted beside the past:
 *
 *     claim(account) = (past weight * mean GPUs of the past + GPUs now) / share
 *
 * The GPUs of the cluster are dealt out job by job. Next is the project with
 * the lowest claim, in it the member with the lowest, of that member the first
 * job in the policy's own rank (else: priority, running before waiting, id).
 * When no GPU is left, the waiting jobs that were not reached are kept back.
 *
 *   1. Running jobs that stay in any case: those of a policy that does not
 *      preempt, and those that started less than a slice ago. Within quotas.
 *   2. All others, within the quotas of user and project.
 *   3. Borrowing: what is left goes to members beyond their quota whose quota
 *      allows it, to jobs that can be stopped; first to those that run.
 *   4. Growth: GPUs still left raise the cap (job->gpus_cap) of elastic jobs,
 *      under policies that resize.
 *
 * A running job that got nothing is stopped if a job of 1. or 2. needs its
 * GPUs, or if it is beyond a quota that does not allow borrowing. That a job
 * stops is core's own step, not the policy's: borrowed GPUs are taken back
 * under policies that do not preempt, too.
 *
 * Whole GPUs are dealt. Under policies that share and do not preempt, jobs that
 * may share are let in behind the decision, to join others on their GPUs.
 *
 * A job that is reached but finds too few GPUs left is let in all the same and
 * takes nothing: whether it blocks the queue or is passed over is the policy's
 * rule. It counts for quotas that do not allow borrowing, since the policy may
 * start it. Jobs whose deadline is near come before all claims.
 *
 * Invariants:
 * (1) the GPUs dealt out never exceed those that are up, type by type;
 * (2) the jobs of an account that are let in or run need no more than its
 * quota, but by borrowing; (3) the result depends on the state and the time
 * alone; ties go to the lower account and job id; (4) with one member and no
 * quota and deadline every job is let in.
 *
 * The order of the last decision is kept (state->line): between two decisions
 * few jobs change their place.
 *
 * Cost: O(jobs + moved jobs log moved jobs + dealt jobs x members).
 */
#include "core/gate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job in the division. */
struct claimant {
    struct firn_job *job;
    double key;        /* the policy's rank, or the time of submission */
    double latest_s;   /* it has to start then for its deadline; infinity */
    int gpus;          /* that it needs */
    int need;          /* the same in shares of a GPU: division.crowd */
    int dealt;         /* GPUs; 0: none */
    const int *counts; /* of each type */
    int member, priority;
    enum gate_why over; /* the quota that it is beyond */
    enum gate_why was;  /* up to now */
    bool runs, is_urgent, is_borrowed, is_reached;
};

/* The jobs of one member: claimants first to last - 1, dealt up to `next`. */
struct seat {
    int member; /* -1: there are no accounts */
    size_t first, last, next;
};

struct division {
    struct gate *gate;
    struct state *state;
    struct accounts *accounts; /* NULL: only deadlines count */
    struct arena *scratch;
    double now_s;
    struct claimant *jobs;
    size_t njobs;
    struct seat *seats;
    size_t nseats;
    double *now;   /* GPUs dealt, by account */
    double *asked; /* GPUs of jobs that are let in and found no room */
    int *left;     /* GPUs by type */
    int left_all;
    bool preempts, resizes;
    bool has_urgent;
    int crowd; /* shares of a GPU that are dealt */
};

bool gate_is_used(const struct state *state)
{
    return state->accounts != NULL || state->ndeadlines > 0;
}

/* --- the jobs in order ---------------------------------------------------- */

/* A deadline comes first when less than this share of the job's own time is
 * left as reserve. A job that runs keeps its GPUs up to the larger one: its
 * reserve grows while it runs, and it would lose and get them by turns. */
static const double RESERVE = 0.25, RESERVE_RUNNING = 1;

static double latest_start_s(const struct firn_job *job, double now_s)
{
    if (!(job->spec.deadline_s > 0))
        return (double)INFINITY;
    double reserve = job->held.nparts > 0 ? RESERVE_RUNNING : RESERVE;
    double left_s = firn_job_left_s(job, now_s);
    return job->spec.deadline_s - (1 + reserve) * left_s;
}

static int before(const struct claimant *a, const struct claimant *b)
{
    if (a->member != b->member)
        return a->member < b->member ? -1 : 1;
    if (a->is_urgent != b->is_urgent)
        return a->is_urgent ? -1 : 1;
    if (a->is_urgent && a->latest_s != b->latest_s)
        return firn_cmp(a->latest_s, b->latest_s);
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    int by = firn_cmp(a->key, b->key);
    return by != 0 ? by : (a->job->id > b->job->id) - (a->job->id < b->job->id);
}

static int by_order(const void *a, const void *b)
{
    return before(a, b);
}

static int gpus_needed(const struct division *d, const struct firn_job *job)
{
    bool is_least =
        d->resizes && !(d->state->policy->obeys & FIRN_OBEYS_REQUEST);
    int need = is_least ? job->spec.gpus_min : job->spec.gpus;
    if (!d->resizes && job->held.nparts > 0)
        need = job->held.ngpus;
    return need > 0 ? need : 1;
}

/* By the policy's rank; without one a running job goes before waiting ones. */
static double key_of(const struct division *d, const struct firn_job *job)
{
    const struct firn_policy_def *policy = d->state->policy;
    if (policy->rank != NULL)
        return policy->rank(d->state->policy_state, job, d->now_s).key;
    return job->held.nparts > 0 ? -(double)INFINITY : job->spec.submit_s;
}

static struct claimant claimant_of(const struct division *d,
                                   struct state_job *sj)
{
    const struct firn_job_spec *spec = &sj->job.spec;
    int gpus = gpus_needed(d, &sj->job);
    double latest_s = latest_start_s(&sj->job, d->now_s);
    return (struct claimant){
        .job = &sj->job,
        .key = key_of(d, &sj->job),
        .latest_s = latest_s,
        .is_urgent = latest_s <= d->now_s,
        .gpus = gpus,
        .need = spec->may_share || spec->may_merge ? gpus : gpus * d->crowd,
        .member = sj->member,
        .priority = spec->priority,
        .was = sj->gated,
        .runs = sj->job.held.nparts > 0};
}

/* The jobs in the order of the last decision, the new ones behind: few of them
 * are out of place. Two neighbours in the wrong order are both taken out, so
 * what stays is in order, and at most twice as many jobs are taken out as have
 * moved. `loose` gets them. */
static void gather(struct division *d, struct claimant *loose, size_t *nloose)
{
    const struct state *state = d->state;
    firn_job_id last = -1;
    size_t n = 0, out = 0, nold = state->line.n;
    struct state_job *sj = state->last;
    for (size_t i = 0; i < nold; i++)
        last = state->line.at[i] > last ? state->line.at[i] : last;
    while (sj != NULL && sj->before != NULL && sj->before->job.id > last)
        sj = sj->before;
    if (sj != NULL && sj->job.id <= last)
        sj = NULL; /* none is new */
    for (size_t i = 0; i < nold || sj != NULL; i++) {
        struct firn_job *job =
            i < nold ? state_job(state, state->line.at[i]) : &sj->job;
        if (i >= nold)
            sj = sj->after;
        if (job == NULL)
            continue;
        struct claimant c = claimant_of(d, state_record(job));
        d->has_urgent |= c.is_urgent;
        if (n > 0 && before(&d->jobs[n - 1], &c) > 0) {
            loose[out++] = d->jobs[--n];
            loose[out++] = c;
        } else {
            d->jobs[n++] = c;
        }
    }
    d->njobs = n;
    *nloose = out;
}

/* Merges the loose ones into the others, from the end. */
static void merge(struct division *d, const struct claimant *loose, size_t n)
{
    size_t kept = d->njobs, at = d->njobs + n;
    d->njobs = at;
    while (n > 0) {
        bool takes = kept == 0 || before(&d->jobs[kept - 1], &loose[n - 1]) < 0;
        d->jobs[--at] = takes ? loose[--n] : d->jobs[--kept];
    }
}

static void line_up(struct division *d)
{
    struct state *state = d->state;
    size_t most = state->nwaiting + state->nrunning, nloose = 0;
    struct claimant *loose;
    d->jobs = arena_alloc(d->scratch, (most + 1) * sizeof *d->jobs);
    loose = arena_alloc(d->scratch, (most + 1) * sizeof *loose);
    gather(d, loose, &nloose);
    if (nloose > 1)
        qsort(loose, nloose, sizeof *loose, by_order);
    merge(d, loose, nloose);
    d->seats = arena_alloc(d->scratch, (d->njobs + 1) * sizeof *d->seats);
    state->line.n = 0;
    for (size_t i = 0; i < d->njobs; i++) {
        int member = d->jobs[i].member;
        vec_add(&state->line, d->jobs[i].job->id);
        if (d->nseats == 0 || d->seats[d->nseats - 1].member != member)
            d->seats[d->nseats++] = (struct seat){member, i, i, i};
        d->seats[d->nseats - 1].last = i + 1;
    }
}

/* --- quotas --------------------------------------------------------------- */

static struct account *account_at(const struct division *d, int at)
{
    if (d->accounts == NULL)
        FIRN_BUG("a job has account %d, and there are no accounts", at);
    return &d->accounts->list.at[at];
}

/* GPUs that it is charged for. */
static double gpus_of(const struct division *d, const struct claimant *c)
{
    return (double)c->need / d->crowd;
}

/* Would `gpus` more be beyond a quota of this account? */
static enum gate_why beyond_one(const struct division *d, int at, double gpus)
{
    const struct account *account = account_at(d, at);
    double held = d->now[at] + account->outside;
    if (!account->limits.borrows)
        held += d->asked[at];
    if (account->limits.gpus > 0 && held + gpus > account->limits.gpus)
        return GATE_GPUS;
    if (account->limits.gpu_hours > 0 &&
        account->window_gpu_s >= 3600 * account->limits.gpu_hours - 1e-6)
        return GATE_HOURS;
    return GATE_OPEN;
}

static enum gate_why beyond(const struct division *d, int member, double gpus)
{
    if (member < 0)
        return GATE_OPEN;
    enum gate_why why = beyond_one(d, account_at(d, member)->user, gpus);
    return why != GATE_OPEN
               ? why
               : beyond_one(d, account_at(d, member)->project, gpus);
}

static bool may_borrow(const struct division *d, const struct claimant *c)
{
    int member = c->member;
    return member >= 0 && !c->job->spec.keeps_gpus &&
           account_at(d, account_at(d, member)->user)->limits.borrows &&
           account_at(d, account_at(d, member)->project)->limits.borrows;
}

/* --- dealing -------------------------------------------------------------- */

/* GPUs of each type for the job, from what is left: those that it holds if
 * they can be had, else of the types with most left. NULL: too few. */
static const int *take_counts(struct division *d, const struct claimant *c)
{
    const struct firn_cluster *cluster = &d->state->cluster;
    const struct firn_alloc *held = &c->job->held;
    size_t bytes = (size_t)cluster->ntypes * sizeof(int);
    int *counts = arena_alloc(d->scratch, bytes), need = c->need;
    memset(counts, 0, bytes);
    for (int i = 0; i < held->nparts && need > 0; i++) {
        firn_type_id type = cluster->nodes[held->parts[i].node].type;
        int n = __builtin_popcountll(held->parts[i].gpus) * d->crowd;
        n = n < need ? n : need;
        n = n < d->left[type] - counts[type] ? n : d->left[type] - counts[type];
        counts[type] += n > 0 ? n : 0;
        need -= n > 0 ? n : 0;
    }
    uint32_t mask = c->job->type_mask;
    while (need > 0) {
        int best = -1;
        for (int t = 0; t < cluster->ntypes; t++)
            if ((mask >> t & 1) && d->left[t] > counts[t] &&
                (best < 0 ||
                 d->left[t] - counts[t] > d->left[best] - counts[best]))
                best = t;
        if (best < 0)
            return NULL;
        int n = d->left[best] - counts[best];
        if (c->job->spec.one_type && n < need)
            return NULL;
        n = n < need ? n : need;
        counts[best] += n;
        need -= n;
        mask &= ~((uint32_t)1 << best);
    }
    return counts;
}

/* Counts `gpus` for the three accounts of a member. */
static void count(struct division *d, int member, double gpus)
{
    if (member < 0)
        return;
    d->now[member] += gpus;
    d->now[account_at(d, member)->user] += gpus;
    d->now[account_at(d, member)->project] += gpus;
}

/* The same for a job that is let in and finds no room. */
static void ask(struct division *d, int member, double gpus)
{
    if (member < 0)
        return;
    d->asked[account_at(d, member)->user] += gpus;
    d->asked[account_at(d, member)->project] += gpus;
}

static bool deal(struct division *d, struct claimant *c)
{
    c->counts = take_counts(d, c);
    if (c->counts == NULL)
        return false;
    for (int t = 0; t < d->state->cluster.ntypes; t++)
        d->left[t] -= c->counts[t];
    d->left_all -= c->need;
    c->dealt = c->gpus;
    count(d, c->member, gpus_of(d, c));
    return true;
}

/* Does it keep its GPUs whatever the claims are? */
static bool stays(const struct division *d, const struct claimant *c)
{
    if (!d->preempts || c->job->spec.keeps_gpus)
        return true;
    return d->accounts != NULL &&
           d->now_s < c->job->since_s + d->accounts->slice_s;
}

/* 1.: of each member the running jobs before the first that waits. */
static void deal_staying(struct division *d)
{
    for (size_t i = 0; i < d->nseats; i++)
        for (size_t k = d->seats[i].first; k < d->seats[i].last; k++) {
            struct claimant *c = &d->jobs[k];
            if (!c->runs && d->preempts)
                break;
            if (!c->runs || !stays(d, c))
                continue;
            c->over = beyond(d, d->seats[i].member, gpus_of(d, c));
            if (c->over == GATE_OPEN || c->job->spec.keeps_gpus)
                c->is_reached = deal(d, c);
        }
}

static double claim(const struct division *d, int at)
{
    const struct account *account = account_at(d, at);
    double past = d->accounts->past * accounts_past_gpus(d->accounts, account);
    return (past + account->outside + d->now[at]) / account->limits.share;
}

/* The next of a seat's jobs that has not been reached; NULL: none. */
static struct claimant *next_of(const struct division *d, struct seat *seat)
{
    while (seat->next < seat->last && d->jobs[seat->next].is_reached)
        seat->next++;
    return seat->next < seat->last ? &d->jobs[seat->next] : NULL;
}

static int compare_seats(const struct division *d, const struct seat *a,
                         const struct seat *b)
{
    if (a->member < 0 || b->member < 0)
        return 0;
    int pa = account_at(d, a->member)->project;
    int pb = account_at(d, b->member)->project;
    int by = pa != pb ? firn_cmp(claim(d, pa), claim(d, pb))
                      : firn_cmp(claim(d, a->member), claim(d, b->member));
    return by != 0 ? by : (pa > pb) - (pa < pb);
}

/* The seat whose turn it is; NULL: all jobs were reached. */
static struct seat *next_seat(struct division *d)
{
    struct seat *best = NULL;
    const struct claimant *first = NULL;
    for (size_t i = 0; i < d->nseats; i++) {
        struct seat *seat = &d->seats[i];
        const struct claimant *c = next_of(d, seat);
        if (c == NULL)
            continue;
        bool was_urgent = first != NULL && first->is_urgent;
        bool wins = first == NULL || (c->is_urgent && !was_urgent);
        if (!wins && c->is_urgent == was_urgent)
            wins = was_urgent ? c->latest_s < first->latest_s
                              : compare_seats(d, seat, best) < 0;
        if (wins) {
            best = seat;
            first = c;
        }
    }
    return best;
}

/* A waiting job that was let in before at this moment and found no room. */
static bool was_passed(const struct division *d, const struct claimant *c)
{
    return d->gate->is_again && !c->runs && c->was == GATE_OPEN;
}

/* 2. */
static void deal_by_claims(struct division *d)
{
    for (struct seat *seat; d->left_all > 0 && (seat = next_seat(d)) != NULL;) {
        struct claimant *c = &d->jobs[seat->next++];
        c->is_reached = true;
        c->over = beyond(d, seat->member, gpus_of(d, c));
        if (c->over == GATE_OPEN && (was_passed(d, c) || !deal(d, c)))
            ask(d, seat->member, gpus_of(d, c));
    }
}

/* 3.: the jobs that are beyond a quota, in the order of claims of their
 * members before it; those that run first. */
static void deal_borrowed(struct division *d)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < d->njobs && d->left_all > 0; i++) {
            struct claimant *c = &d->jobs[i];
            if (c->over == GATE_OPEN || c->dealt > 0 ||
                c->runs != (pass == 0) || !may_borrow(d, c))
                continue;
            if (was_passed(d, c) || deal(d, c))
                c->is_borrowed = true;
        }
}

/* --- growth --------------------------------------------------------------- */

static bool may_grow(const struct division *d, const struct claimant *c)
{
    if (c->dealt == 0 || c->dealt >= c->job->spec.gpus_max)
        return false;
    int member = c->member;
    return c->is_borrowed || beyond(d, member, 1) == GATE_OPEN;
}

/* Of a seat the job that has grown least. */
static struct claimant *least_grown(const struct division *d,
                                    const struct seat *seat)
{
    struct claimant *best = NULL;
    for (size_t k = seat->first; k < seat->last; k++) {
        struct claimant *c = &d->jobs[k];
        if (may_grow(d, c) && (best == NULL || c->dealt < best->dealt))
            best = c;
    }
    return best;
}

/* 4.: one GPU at a time, by claims. */
static void deal_growth(struct division *d)
{
    while (d->left_all > 0) {
        const struct seat *best = NULL;
        struct claimant *job = NULL;
        for (size_t i = 0; i < d->nseats; i++) {
            struct claimant *c = least_grown(d, &d->seats[i]);
            if (c != NULL &&
                (best == NULL || compare_seats(d, &d->seats[i], best) < 0)) {
                best = &d->seats[i];
                job = c;
            }
        }
        if (job == NULL)
            return;
        job->dealt++;
        d->left_all -= job->need / job->gpus;
        count(d, best->member, 1);
    }
}

/* Has this member a quota of GPUs or GPU-hours, its user's or project's? */
static bool has_quota(const struct division *d, int member)
{
    const struct account_limits *user =
        &account_at(d, account_at(d, member)->user)->limits;
    const struct account_limits *project =
        &account_at(d, account_at(d, member)->project)->limits;
    return user->gpus > 0 || user->gpu_hours > 0 || project->gpus > 0 ||
           project->gpu_hours > 0;
}

/* Caps of elastic jobs. While no job that was let in waits, GPUs that are free
 * or held are left to them: shrinking would help no other job. */
static void set_caps(struct division *d)
{
    bool waits = false;
    for (size_t i = 0; i < d->njobs; i++)
        waits |= !d->jobs[i].runs && d->jobs[i].dealt > 0;
    int free = waits ? 0 : d->state->map.free_gpus + d->left_all;
    for (size_t i = 0; i < d->njobs; i++) {
        struct claimant *c = &d->jobs[i];
        int member = c->member, cap = c->dealt;
        bool is_held = beyond(d, member, 1) != GATE_OPEN && !may_borrow(d, c);
        if (!waits && !is_held && c->job->held.ngpus > cap)
            cap = c->job->held.ngpus;
        cap += is_held ? 0 : free;
        bool counts = d->nseats > 1 || has_quota(d, member);
        c->job->gpus_cap = counts && cap > 0 ? cap : 0;
    }
}

/* --- what follows --------------------------------------------------------- */

/* A waiting job of 1. or 2. */
static bool is_served(const struct claimant *c)
{
    return !c->runs && c->dealt > 0 && !c->is_borrowed;
}

/* GPUs of each type that jobs of 1. and 2. need beyond the free ones. */
static bool count_needs(const struct division *d, int *needs)
{
    bool any = false;
    for (int t = 0; t < d->state->cluster.ntypes; t++)
        needs[t] = -d->state->map.types[t].free * d->crowd;
    for (size_t i = 0; i < d->njobs; i++)
        if (is_served(&d->jobs[i]))
            for (int t = 0; t < d->state->cluster.ntypes; t++)
                needs[t] += d->jobs[i].counts[t];
    for (int t = 0; t < d->state->cluster.ntypes; t++)
        any |= needs[t] > 0;
    return any;
}

/* Would stopping it help? Its GPUs are counted as free then. */
static bool helps(const struct division *d, const struct claimant *c,
                  int *needs)
{
    const struct firn_alloc *held = &c->job->held;
    const struct firn_node *nodes = d->state->cluster.nodes;
    bool any = false;
    for (int i = 0; i < held->nparts; i++)
        any |= needs[nodes[held->parts[i].node].type] > 0;
    for (int i = 0; any && i < held->nparts; i++)
        needs[nodes[held->parts[i].node].type] -=
            __builtin_popcountll(held->parts[i].gpus) * d->crowd;
    return any;
}

static int by_id(const void *a, const void *b)
{
    const struct firn_job *x = ((const struct gate_stop *)a)->job;
    const struct firn_job *y = ((const struct gate_stop *)b)->job;
    return (x->id > y->id) - (x->id < y->id);
}

/* Gives these GPUs to the waiting jobs that were dealt some, in their order.
 * Returns the first that gets any; NULL: none. `missing` is what each job still
 * needs. */
static const struct claimant *hand_on(const struct division *d,
                                      firn_type_id type, int gpus, int *missing)
{
    const struct claimant *first = NULL;
    for (size_t i = 0; i < d->njobs && gpus > 0; i++) {
        const struct claimant *c = &d->jobs[i];
        if (!is_served(c) || missing[i] <= 0 || c->counts[type] <= 0)
            continue;
        int some = gpus < missing[i] ? gpus : missing[i];
        first = first == NULL ? c : first;
        missing[i] -= some;
        gpus -= some;
    }
    return first;
}

/* What each waiting job that was dealt GPUs needs beyond the free ones. */
static int *count_missing(const struct division *d)
{
    int *missing = arena_alloc(d->scratch, (d->njobs + 1) * sizeof *missing);
    for (size_t i = 0; i < d->njobs; i++)
        missing[i] = is_served(&d->jobs[i]) ? d->jobs[i].need : 0;
    for (int t = 0; t < d->state->cluster.ntypes; t++)
        hand_on(d, t, d->state->map.types[t].free * d->crowd, missing);
    return missing;
}

/* For whom it stops, and why: among jobs of one member the policy's own order
 * decides. */
static struct gate_stop stop_for(const struct division *d,
                                 const struct claimant *c, int *missing)
{
    const struct firn_alloc *held = &c->job->held;
    const struct claimant *taker = NULL;
    for (int i = 0; i < held->nparts; i++) {
        const struct claimant *one = hand_on(
            d, d->state->cluster.nodes[held->parts[i].node].type,
            __builtin_popcountll(held->parts[i].gpus) * d->crowd, missing);
        taker = taker == NULL ? one : taker;
    }
    bool is_own = taker != NULL && state_record(taker->job)->member ==
                                       state_record(c->job)->member;
    return (struct gate_stop){
        .job = c->job,
        .why = c->over != GATE_OPEN ? c->over : GATE_SHARE,
        .cause = c->over != GATE_OPEN ? FIRN_CAUSE_QUOTA
                 : is_own             ? FIRN_CAUSE_POLICY
                                      : FIRN_CAUSE_SHARE,
        .for_job = taker != NULL ? taker->job->id : FIRN_NO_JOB};
}

/* Running jobs that lose their GPUs: the last in order first. */
static size_t choose_stops(struct division *d, struct gate_stop **out)
{
    int needs[FIRN_TYPES_MAX] = {0}, *missing = count_missing(d);
    size_t n = 0;
    bool is_short = count_needs(d, needs);
    *out = arena_alloc(d->scratch, (d->njobs + 1) * sizeof **out);
    for (size_t i = d->njobs; i-- > 0;) {
        struct claimant *c = &d->jobs[i];
        if (!c->runs || c->dealt > 0 || c->job->spec.keeps_gpus)
            continue;
        if (!d->preempts && c->over == GATE_OPEN)
            continue;
        bool is_hard = c->over != GATE_OPEN && !may_borrow(d, c);
        if (is_hard || (is_short && helps(d, c, needs)))
            (*out)[n++] = stop_for(d, c, missing);
    }
    if (n > 1)
        qsort(*out, n, sizeof **out, by_id);
    return n;
}

/* Why a waiting job is kept back. (4) */
static enum gate_why judge(const struct division *d, const struct claimant *c)
{
    if (c->is_borrowed)
        return GATE_OPEN;
    if (c->is_reached)
        return c->over;
    enum gate_why over = beyond(d, c->member, gpus_of(d, c));
    if (over != GATE_OPEN)
        return over;
    return d->nseats > 1 || d->has_urgent ? GATE_SHARE : GATE_OPEN;
}

static void open_and_close(struct division *d)
{
    d->gate->npassed = 0;
    for (size_t i = 0; i < d->njobs; i++) {
        const struct claimant *c = &d->jobs[i];
        if (c->runs)
            continue;
        enum gate_why why = judge(d, c);
        d->gate->npassed += why == GATE_OPEN;
        if (c->was != why)
            state_gate(d->state, c->job, why, d->now_s);
    }
}

/* May waiting jobs join running ones on their GPUs? Under a policy that
 * preempts they could as well take their place: then whole GPUs are dealt. */
static bool may_join(const struct state *state)
{
    unsigned does = state->policy->does;
    return (does & (FIRN_DOES_SHARE | FIRN_DOES_MERGE)) &&
           !(does & FIRN_DOES_PREEMPT) && state->cluster.jobs_per_gpu > 1;
}

size_t gate_divide(struct gate *gate, struct state *state, double now_s,
                   struct arena *scratch, struct gate_stop **stops)
{
    int left[FIRN_TYPES_MAX] = {0};
    struct division d = {
        .gate = gate,
        .state = state,
        .accounts = state->accounts,
        .scratch = scratch,
        .now_s = now_s,
        .left = left,
        .preempts = state->policy->does & FIRN_DOES_PREEMPT,
        .resizes = state->policy->does & FIRN_DOES_RESIZE,
    };
    d.crowd =
        gate->is_again && may_join(state) ? state->cluster.jobs_per_gpu : 1;
    for (int t = 0; t < state->cluster.ntypes; t++) {
        left[t] = state->map.types[t].up * d.crowd;
        d.left_all += left[t];
    }
    if (d.accounts != NULL) {
        accounts_settle(d.accounts, now_s);
        size_t bytes = d.accounts->list.n * sizeof *d.now;
        d.now = arena_alloc(scratch, bytes);
        d.asked = arena_alloc(scratch, bytes);
        memset(d.now, 0, bytes);
        memset(d.asked, 0, bytes);
    }
    line_up(&d);
    bool divides = d.accounts != NULL || d.has_urgent;
    if (divides) {
        deal_staying(&d);
        deal_by_claims(&d);
        deal_borrowed(&d);
    }
    if (d.resizes && d.accounts != NULL)
        deal_growth(&d);
    size_t nstops = divides && !gate->is_again ? choose_stops(&d, stops) : 0;
    open_and_close(&d);
    if (d.resizes && d.accounts != NULL)
        set_caps(&d);
    return nstops;
}

/* The least time between two looks: a clock of seconds since 1970 tells no
 * moments apart that are closer than a quarter of a microsecond. */
static const double LOOK_S = 1e-3;

/* Quotas end with the window, and are used up while jobs run. */
static double quota_look_s(const struct state *state, double now_s)
{
    const struct accounts *accounts = state->accounts;
    double at_s = INFINITY;
    for (size_t i = 0; i < accounts->list.n; i++) {
        const struct account *a = &accounts->list.at[i];
        double gpus = a->held + a->outside;
        double rest_gpu_s = 3600 * a->limits.gpu_hours - a->window_gpu_s;
        if (a->limits.gpu_hours > 0 && gpus > 0 && rest_gpu_s > 1e-6)
            at_s = fmin(at_s, now_s + fmax(rest_gpu_s / gpus, LOOK_S));
    }
    if (state->ngated == 0)
        return at_s;
    double slice_s = accounts->slice_s > 60 ? accounts->slice_s : 60;
    at_s = fmin(at_s, accounts_window_end_s(accounts, now_s));
    if ((state->policy->does & FIRN_DOES_PREEMPT) && state->nrunning > 0)
        at_s = fmin(at_s, now_s + slice_s);
    return at_s;
}

double gate_next_s(const struct state *state, double now_s)
{
    double at_s =
        state->accounts != NULL ? quota_look_s(state, now_s) : INFINITY;
    if (state->ndeadlines == 0)
        return at_s;
    for (const struct state_job *sj = state->first; sj; sj = sj->after) {
        double latest_s = latest_start_s(&sj->job, now_s);
        if (latest_s > now_s && sj->job.held.nparts == 0)
            at_s = fmin(at_s, latest_s);
    }
    return at_s;
}

bool gate_has_room(struct gate *gate, const struct state *state)
{
    int most = state->map.free_gpus;
    bool any = false, joins = may_join(state);
    if (gate->is_again || (most == 0 && !joins) ||
        (gate->npassed == 0 && !joins))
        return false;
    for (const struct state_job *sj = state->first; sj && !any; sj = sj->after)
        any = sj->gated == GATE_SHARE &&
              (sj->job.spec.gpus_min <= most ||
               (joins && (sj->job.spec.may_share || sj->job.spec.may_merge)));
    gate->is_again = any;
    return any;
}

/* --- in words ------------------------------------------------------------- */

static bool is_full(const struct account *account, const struct firn_job *job)
{
    return account->limits.gpus > 0 &&
           account->held + account->outside + job->spec.gpus_min >
               account->limits.gpus;
}

static void quota_text(const struct account *account,
                       const struct firn_job *job, enum gate_why why,
                       double window_s, char *out, size_t size)
{
    const char *kind = account->kind == ACCOUNT_USER ? "user" : "project";
    if (why == GATE_GPUS)
        snprintf(out, size, "over quota: %s %.40s holds %g of %d GPUs%s", kind,
                 account->name, account->held + account->outside,
                 account->limits.gpus,
                 is_full(account, job) ? ""
                                       : ", and jobs before this one wait for "
                                         "the others");
    else
        snprintf(out, size,
                 "over quota: %s %.40s has used %.1f of %g GPU-hours of this "
                 "window, which ends in %.1f h",
                 kind, account->name, account->window_gpu_s / 3600,
                 account->limits.gpu_hours, window_s / 3600);
}

/* The account whose quota it is: the user's, else the project's. */
static const struct account *quota_of(const struct state *state,
                                      const struct firn_job *job,
                                      enum gate_why why)
{
    const struct account *list = state->accounts->list.at;
    const struct account *member = &list[state_record(job)->member];
    const struct account *user = &list[member->user];
    const struct account *project = &list[member->project];
    bool is_users =
        why == GATE_GPUS
            ? is_full(user, job) ||
                  (user->limits.gpus > 0 && !is_full(project, job))
            : user->limits.gpu_hours > 0 &&
                  user->window_gpu_s >= 3600 * user->limits.gpu_hours - 1e-6;
    return is_users ? user : project;
}

void gate_text(const struct state *state, const struct firn_job *job,
               double now_s, char *out, size_t size)
{
    const struct state_job *sj = state_record(job);
    struct accounts *accounts = state->accounts;
    out[0] = '\0';
    if (sj->gated == GATE_OPEN)
        return;
    if (accounts == NULL) {
        snprintf(out, size, "jobs with near deadlines go first");
        return;
    }
    accounts_settle(accounts, now_s);
    const struct account *member = &accounts->list.at[sj->member];
    const struct account *project = &accounts->list.at[member->project];
    if (sj->gated == GATE_SHARE)
        snprintf(out, size,
                 "fair share: user %.40s (share %g) holds %g GPUs and had %.1f "
                 "on average, project %.40s (share %g) %g and %.1f; others "
                 "have a larger claim",
                 member->name, member->limits.share,
                 member->held + member->outside,
                 accounts_past_gpus(accounts, member), project->name,
                 project->limits.share, project->held + project->outside,
                 accounts_past_gpus(accounts, project));
    else
        quota_text(quota_of(state, job, sj->gated), job, sj->gated,
                   accounts_window_end_s(accounts, now_s) - now_s, out, size);
}
