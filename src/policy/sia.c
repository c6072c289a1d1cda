/* sia.c - goodput over several GPU types, by an assignment problem.
 *
 * Every `interval` each job may be given one configuration: a GPU type and a
 * number of GPUs, which is 1, 2, 4, ... within a node and whole nodes beyond.
 * With r the forecast goodput of a configuration over the job's smallest one,
 * a restart factor rho for configurations that it does not hold,
 *
 *     rho = max(age - restarts * S, 0) / (age + S)    S: cost of a restart
 *
 * (1 while age < S and for jobs that hold nothing), the round minimises
 *
 *     sum over served jobs of (rho r)^p  +  lambda * jobs left out
 *
 * where no type has more GPUs than it has (Subramanya et al., Sia: goodput-
 * optimised scheduling for heterogeneous clusters, SOSP 2023, section 3.4;
 * p = -0.5, lambda = 1.1). math/priced.h solves it, values lambda - cost,
 * within a proven gap; the authors' solver takes seconds where this takes a
 * fraction of a millisecond. A job that was never seen to run is worth 1 on
 * its fewest GPUs of any type; growth is to twice the most GPUs it has held;
 * a job that is still restarting keeps what it has.
 *
 * Placing: a job that keeps its configuration keeps its GPUs; the others
 * follow, the largest first, on one node or on whole nodes. If that leaves a
 * job scattered, the round is placed anew from an empty cluster, largest first,
 * which always succeeds when node sizes are powers of two.
 *
 * Invariants:
 * (1) GPUs of a job are of one type;
 * (2) a job holds what its configuration says, or nothing;
 * (3) of two equally good assignments the one that keeps what runs is made;
 * (4) a job that no type could ever run, all nodes being up, is rejected;
 * (5) of equal jobs that have not begun the older one is served first
 *     (policy/peers.h): the assignment takes either.
 *
 * Between rounds, which the paper does not have, jobs that run stay as they
 * are and arrivals are assigned what is free. cbc is asked where the gap stays
 * above 1 %, because it costs a process each time: never in the rounds of the
 * published workloads tried, 175 times in traces/quickstart.csv on 64 GPUs,
 * whose plans are the same without it. With `cbc=no` a plan never depends on
 * its deadline. Left out: jobs with pipeline stages, and mixing types within a
 * job.
 *
 * Cost: O(jobs * configurations) forecasts a round, and the solver.
 */
#include "policy/sia.h"
#include "base/fmath.h"
#include "policy/peers.h"
#include <stdlib.h>

static const double held_bonus = 1e-7; /* of a value; see (3) */

enum { SEARCH_NODES = 20000, CBC_DEADLINE_S = 10, QUEUE_MIN = 1000 };

const struct firn_option sia_options[] = {
    FIRN_NUMBER(struct sia, rules.p, "p", "-0.5", -100, -1e-3,
                "power of the normalised goodput: fairer the lower it is"),
    FIRN_NUMBER(
        struct sia, rules.lambda, "lambda", "1.1", 0, 1e6,
        "cost of leaving a job out; above 1 every job is served that can be"),
    FIRN_NUMBER(struct sia, rules.interval_s, "interval", "60", 1e-3, 1e9,
                "seconds between two rounds"),
    FIRN_NUMBER(struct sia, rules.restart_s, "restart", "30", 0, 1e9,
                "seconds a restart costs jobs that do not name a cost"),
    FIRN_NUMBER(struct sia, rules.gap, "gap", "0.01", 0, 1,
                "share of the best sum that may be missed before cbc is asked"),
    FIRN_BOOL(struct sia, rules.asks_cbc, "cbc", "yes",
              "run the solver cbc when the gap stays larger"),
    {0},
};

/* GPUs of one type that are up. */
struct pool {
    int gpus;
    int per_node; /* on the largest node */
};

/* A job in this round. */
struct entry {
    const struct firn_job *job;
    struct priced_choice *choices; /* pool: type; units: GPUs */
    int nchoices;
    int held; /* the choice it holds, or PRICED_NONE */
    firn_type_id type;
    int gpus;       /* given; 0: none */
    bool is_stuck;  /* it is forecast to run on no number of GPUs */
    bool is_placed; /* used by place_anew() */
};

struct round {
    struct sia *sia;
    const struct firn_view *view;
    struct firn_plan *plan;
    int ntypes;
    struct pool pools[FIRN_TYPES_MAX];
    struct entry *entries;
    size_t n;
    bool is_round; /* not only arrivals between two rounds */
};

/* ---- what is there ---- */

/* Counts in the empty plan: some GPUs of nodes that are up may be out of
 * reach. */
static void count_pools(struct round *round)
{
    const struct firn_cluster *cluster = round->view->cluster;
    round->ntypes = cluster->ntypes;
    for (int t = 0; t < cluster->ntypes; t++)
        round->pools[t].gpus = firn_plan_free_of(round->plan, t);
    for (int i = 0; i < cluster->nnodes; i++) {
        const struct firn_node *node = &cluster->nodes[i];
        struct pool *pool = &round->pools[node->type];
        if (node->is_up && node->ngpus > pool->per_node)
            pool->per_node = node->ngpus;
    }
}

/* The one type of all GPUs it holds whole, or -1. */
static firn_type_id held_type(const struct firn_view *view,
                              const struct firn_job *job)
{
    const struct firn_node *nodes = view->cluster->nodes;
    if (job->held.nparts == 0 || job->held.is_shared)
        return -1;
    firn_type_id type = nodes[job->held.parts[0].node].type;
    for (int i = 1; i < job->held.nparts; i++)
        if (nodes[job->held.parts[i].node].type != type)
            return -1;
    return type;
}

/* ---- configurations ---- */

/* The next number of GPUs after `gpus`: doubling, then whole nodes. */
static int next_count(int gpus, int per_node)
{
    if (gpus >= per_node)
        return gpus + (per_node > 0 ? per_node : 1); /* rises in any case */
    return 2 * gpus < per_node ? 2 * gpus : per_node;
}

static void add_choice(struct entry *entry, firn_type_id type, int gpus)
{
    entry->choices[entry->nchoices++] =
        (struct priced_choice){.pool = type, .units = gpus};
}

/* Counts of one type from least to most, rising: the usual ones, and least
 * itself. Without an `entry` only counts them. */
static int list_type(const struct pool *pool, struct entry *entry,
                     firn_type_id type, int least, int most)
{
    int n = 0, usual = 1;
    if (most > pool->gpus)
        most = pool->gpus;
    while (usual < least)
        usual = next_count(usual, pool->per_node);
    for (int gpus = least; gpus <= most; n++) {
        if (entry)
            add_choice(entry, type, gpus);
        if (gpus == usual)
            usual = next_count(usual, pool->per_node);
        gpus = usual;
    }
    return n;
}

static void list_choices(struct round *round, struct entry *entry, int most)
{
    const struct firn_job *job = entry->job;
    int least = job->spec.gpus_min;
    size_t n = 1;
    for (int t = 0; t < round->ntypes; t++)
        if (job->type_mask >> t & 1 && round->pools[t].gpus > 0)
            n += (size_t)list_type(&round->pools[t], NULL, t, least, most);
    entry->choices = firn_view_alloc(round->view, n * sizeof *entry->choices);
    entry->nchoices = 0;
    for (int t = 0; t < round->ntypes; t++)
        if (job->type_mask >> t & 1 && round->pools[t].gpus > 0)
            list_type(&round->pools[t], entry, t, least, most);
}

/* The most GPUs it may have now: twice what it ever held. */
static int grown_to(const struct round *round, const struct firn_job *job)
{
    int most = firn_view_gpus_max(round->view, job, FIRN_TUNE_BATCH);
    int grown = job->gpus_most > 0 ? 2 * job->gpus_most : job->spec.gpus_min;
    return most < grown ? most : grown;
}

/* Which choice it holds now; made when it is not among them. */
static void find_held(struct round *round, struct entry *entry)
{
    firn_type_id type = held_type(round->view, entry->job);
    int gpus = entry->job->held.ngpus;
    entry->held = PRICED_NONE;
    if (type < 0)
        return;
    for (int c = 0; c < entry->nchoices; c++)
        if (entry->choices[c].pool == type && entry->choices[c].units == gpus)
            entry->held = c;
    if (entry->held == PRICED_NONE) {
        entry->held = entry->nchoices;
        add_choice(entry, type, gpus); /* there is room for one */
    }
}

/* ---- values ---- */

static double paper_damping(const struct sia_rules *rules,
                            const struct firn_view *view,
                            const struct firn_job *job)
{
    double restart_s = firn_view_change_s(view, job, rules->restart_s);
    double age_s = view->now_s - job->spec.submit_s;
    if (age_s < restart_s || age_s + restart_s <= 0)
        return 1;
    double kept_s = age_s - (job->starts - 1) * restart_s;
    return kept_s > 0 ? kept_s / (age_s + restart_s) : 0;
}

/* Forecast rates into `value`, NaN where nothing is known; the smallest. */
static double ask_rates(struct round *round, struct entry *entry)
{
    double least = INFINITY;
    for (int c = 0; c < entry->nchoices; c++) {
        struct priced_choice *choice = &entry->choices[c];
        struct firn_way way = {.gpus = choice->units,
                               .type = choice->pool,
                               .tunes = FIRN_TUNE_BATCH};
        choice->value = firn_view_rate(round->view, entry->job, &way);
        if (choice->value > 0 && choice->value < least)
            least = choice->value;
    }
    return least;
}

/* Where nothing is known: its fewest GPUs are worth 1. False: all is known. */
static bool guess_rates(struct entry *entry)
{
    int least = INT32_MAX;
    for (int c = 0; c < entry->nchoices; c++)
        if (isnan(entry->choices[c].value) && entry->choices[c].units < least)
            least = entry->choices[c].units;
    for (int c = 0; c < entry->nchoices; c++)
        entry->choices[c].value =
            entry->choices[c].units == least && isnan(entry->choices[c].value)
                ? 1
                : 0;
    return least < INT32_MAX;
}

/* Its fewest GPUs cannot run it at all, as a model that does not fit in their
 * memory: it begins with the fewest that can. Returns the smallest rate. */
static double begin_larger(struct round *round, struct entry *entry)
{
    int most = firn_view_gpus_max(round->view, entry->job, FIRN_TUNE_BATCH);
    int least = INT32_MAX;
    list_choices(round, entry, most);
    double slowest = ask_rates(round, entry);
    for (int c = 0; c < entry->nchoices; c++)
        if (entry->choices[c].value > 0 && entry->choices[c].units < least)
            least = entry->choices[c].units;
    for (int c = 0; c < entry->nchoices; c++)
        if (entry->choices[c].units > least)
            entry->choices[c].value = 0;
    return slowest;
}

static void set_values(struct round *round, struct entry *entry)
{
    const struct sia_rules *rules = &round->sia->rules;
    double least = ask_rates(round, entry), rho = 1;
    if (isinf(least) && guess_rates(entry))
        least = 1;
    else if (isinf(least) && entry->held == PRICED_NONE)
        least = begin_larger(round, entry);
    entry->is_stuck = isinf(least);
    if (entry->job->held.nparts > 0)
        rho = (rules->damping ? rules->damping
                              : paper_damping)(rules, round->view, entry->job);
    for (int c = 0; c < entry->nchoices; c++) {
        struct priced_choice *choice = &entry->choices[c];
        double value = choice->value / least * (c == entry->held ? 1 : rho);
        if (!(value > 1e-12)) { /* cannot run, not known, or never pays */
            choice->value = 0;
            continue;
        }
        double cost = fm_pow(value, rules->p);
        if (rules->rounded)
            cost = rules->rounded(cost);
        choice->value = rules->lambda - cost;
        if (c == entry->held)
            choice->value += held_bonus; /* (3) */
    }
}

/* ---- the assignment ---- */

static bool must_stay(const struct round *round, const struct entry *entry)
{
    return entry->held != PRICED_NONE &&
           (!round->is_round || entry->job->resumes_s > round->view->now_s);
}

/* (5) The answers of equal jobs, exchanged. */
static const int *put_older_first(const struct round *round, const int *chosen)
{
    struct peer *peers =
        firn_view_alloc(round->view, (round->n + 1) * sizeof *peers);
    int *sorted = firn_view_alloc(round->view, (round->n + 1) * sizeof *sorted);
    for (size_t i = 0; i < round->n; i++) {
        const struct entry *entry = &round->entries[i];
        peers[i] =
            (struct peer){.job = entry->job, .kind = (uint64_t)entry->nchoices};
        if (chosen[i] != PRICED_NONE)
            peers[i].gets = entry->choices[chosen[i]].units;
    }
    const size_t *from = peers_settle(round->view, peers, round->n);
    for (size_t i = 0; i < round->n; i++)
        sorted[i] = chosen[from[i]];
    return sorted;
}

static void assign(struct round *round)
{
    struct sia *sia = round->sia;
    const struct sia_rules *rules = &sia->rules;
    struct priced_item *items =
        firn_view_alloc(round->view, (round->n + 1) * sizeof *items);
    int *chosen = firn_view_alloc(round->view, (round->n + 1) * sizeof *chosen);
    int capacity[FIRN_TYPES_MAX];
    for (int t = 0; t < round->ntypes; t++)
        capacity[t] = round->pools[t].gpus;
    for (size_t i = 0; i < round->n; i++) {
        const struct entry *entry = &round->entries[i];
        items[i] = (struct priced_item){entry->choices, entry->nchoices,
                                        must_stay(round, entry) ? entry->held
                                                                : PRICED_NONE};
    }
    const struct priced_problem problem = {items, (int)round->n, capacity,
                                           round->ntypes};
    const struct priced_limits limits = {1e-6, SEARCH_NODES};
    sia->cbc.deadline_s = CBC_DEADLINE_S;
    if (!priced_solve_or_ask(&problem, &limits,
                             rules->asks_cbc ? rules->gap : INFINITY, &sia->cbc,
                             round->view->scratch, chosen, &sia->latest))
        FIRN_BUG("running jobs hold more GPUs than are up");
    const int *given =
        rules->as_solved ? chosen : put_older_first(round, chosen);
    for (size_t i = 0; i < round->n; i++)
        if (given[i] != PRICED_NONE) {
            struct entry *entry = &round->entries[i];
            entry->type = entry->choices[given[i]].pool;
            entry->gpus = entry->choices[given[i]].units;
        }
}

/* ---- placing ---- */

static bool is_kept(const struct entry *entry)
{
    return entry->gpus > 0 && entry->held != PRICED_NONE &&
           entry->choices[entry->held].pool == entry->type &&
           entry->choices[entry->held].units == entry->gpus;
}

/* The largest first; among equals those that stay, then by id. */
static int by_size(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;
    if (x->gpus != y->gpus)
        return y->gpus - x->gpus;
    if (is_kept(x) != is_kept(y))
        return is_kept(y) - is_kept(x);
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* On as few nodes as its configuration says; or `anyhow`. */
static bool place(struct round *round, const struct entry *entry, bool anyhow)
{
    int per_node = round->pools[entry->type].per_node;
    size_t mark = firn_plan_mark(round->plan);
    struct firn_want want = {
        .gpus = entry->gpus, .types = 1u << entry->type, .one_type = true};
    if (!firn_plan_give_want(round->plan, entry->job, &want))
        return false;
    int nodes = firn_alloc_nodes(firn_plan_of(round->plan, entry->job));
    if (anyhow || (nodes - 1) * per_node < entry->gpus)
        return true;
    firn_plan_undo(round->plan, mark);
    return false;
}

/* False when a job would be scattered. */
static bool place_around(struct round *round, struct entry **order, size_t n,
                         bool anyhow)
{
    for (size_t i = 0; i < n; i++)
        if (is_kept(order[i]) && !firn_plan_keep(round->plan, order[i]->job))
            FIRN_BUG("job %d cannot keep its GPUs", order[i]->job->id);
    for (size_t i = 0; i < n; i++)
        if (!is_kept(order[i]) && !place(round, order[i], anyhow))
            return false;
    return true;
}

/* From an empty cluster, size by size; of one size those that can stay where
 * they are come first. */
static void place_anew(struct round *round, struct entry **order, size_t n)
{
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && order[end]->gpus == order[i]->gpus)
            end++;
        for (size_t k = i; k < end; k++)
            order[k]->is_placed =
                is_kept(order[k]) && firn_plan_keep(round->plan, order[k]->job);
        for (size_t k = i; k < end; k++)
            if (!order[k]->is_placed && !place(round, order[k], false) &&
                !place(round, order[k], true) &&
                order[k]->job->barred == NULL) /* it waits */
                FIRN_BUG("no room for job %d, which was counted",
                         order[k]->job->id);
    }
}

static void place_all(struct round *round)
{
    struct entry **order =
        firn_view_alloc(round->view, (round->n + 1) * sizeof(struct entry *));
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++)
        if (round->entries[i].gpus > 0)
            order[n++] = &round->entries[i];
    qsort(order, n, sizeof *order, by_size);
    size_t mark = firn_plan_mark(round->plan);
    if (place_around(round, order, n, !round->is_round))
        return;
    firn_plan_undo(round->plan, mark);
    place_anew(round, order, n);
}

/* ---- the round ---- */

/* Every node with a type that it accepts is up: it will never be otherwise. */
static bool has_all(const struct round *round, const struct firn_job *job)
{
    for (int t = 0; t < round->ntypes; t++)
        if (job->type_mask >> t & 1 &&
            round->pools[t].gpus < round->view->cluster->types[t].ngpus)
            return false;
    return true;
}

/* Notes why it waits; rejects a job that no type could ever run: (4). */
static void note(const struct round *round, const struct entry *entry)
{
    const struct firn_job *job = entry->job;
    if (entry->gpus > 0)
        return;
    bool can_run = false;
    for (int c = 0; c < entry->nchoices; c++)
        can_run = can_run || entry->choices[c].value > 0;
    if (can_run) {
        firn_plan_note(round->plan, job,
                       "the GPUs are worth more to other jobs");
        return;
    }
    const char *never =
        entry->is_stuck ? "no single GPU type can run it" : NULL;
    if (entry->nchoices == 0)
        never = "wants more GPUs than any type it accepts has";
    if (never != NULL && job->held.nparts == 0 && has_all(round, job))
        firn_plan_reject(round->plan, job, never);
    else if (entry->nchoices == 0)
        firn_plan_note(round->plan, job,
                       "no GPU type it accepts has %d GPUs up",
                       job->spec.gpus_min);
    else
        firn_plan_note(round->plan, job,
                       "waiting costs less than a restart, or it fits nowhere");
}

enum firn_status sia_decide(void *state, const struct firn_view *view,
                            struct firn_plan *plan)
{
    struct sia *sia = state;
    struct round round = {.sia = sia, .view = view, .plan = plan};
    const struct firn_job *const *jobs =
        firn_view_foremost(view, QUEUE_MIN, &round.n);
    round.is_round = rounds_begin(
        &sia->rounds, view->now_s,
        rounds_multiple_s(sia->rounds.last_s, sia->rules.interval_s));
    round.entries =
        firn_view_alloc(view, (round.n + 1) * sizeof *round.entries);
    count_pools(&round);
    for (size_t i = 0; i < round.n; i++) {
        struct entry *entry = &round.entries[i];
        entry->job = jobs[i];
        list_choices(&round, entry, grown_to(&round, jobs[i]));
        find_held(&round, entry);
        set_values(&round, entry);
    }
    assign(&round);
    place_all(&round);
    for (size_t i = 0; i < round.n; i++)
        note(&round, &round.entries[i]);
    return FIRN_OK;
}

/* Where nothing runs the next round would decide as this one did. */
double sia_wake_s(const void *state, const struct firn_view *view)
{
    const struct sia *sia = state;
    return view->nrunning > 0
               ? rounds_multiple_s(view->now_s, sia->rules.interval_s)
               : INFINITY;
}

/* Without the time of its last round, a restarted sia would begin one at once,
 * and not at the next multiple of the interval. */
void sia_save(const void *state, struct firn_buf *out)
{
    const struct sia *sia = state;
    keep_begin(out, "policy sia", 1);
    rounds_save(&sia->rounds, out);
}

enum firn_status sia_load(void *state, struct firn_bytes in,
                          struct firn_error *err)
{
    struct sia *sia = state;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy sia", 1, err));
    struct rounds rounds = rounds_load(&keep);
    FIRN_TRY(keep_close(&keep, err));
    sia->rounds = rounds;
    return FIRN_OK;
}

const struct firn_policy_def firn_policy_sia = {
    .size = sizeof(struct firn_policy_def),
    .name = "sia",
    .summary = "goodput over GPU types, one assignment a round",
    .paper = "Subramanya et al., Sia, SOSP 2023",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_TYPES,
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_REJECT,
    .tunes = FIRN_TUNE_BATCH,
    .options = sia_options,
    .state_size = sizeof(struct sia),
    .decide = sia_decide,
    .wake_s = sia_wake_s,
    .save = sia_save,
    .load = sia_load,
};
