/* icefrog.c - every job's share of the finish time it could have.
 *
 * For a way a to run a job, E(a) its effective progress there with the layers
 * that its trainer will freeze,
 *
 *   T_acc(a) = age + left / E(a)                                         (16)
 *   IceShare(a) = min over a' of T_acc(a') / T_acc(a)                    (17)
 *
 * and every `interval` the GPUs are divided so that the smallest IceShare is
 * as large as can be, then the second smallest, and so on (Gao et al.,
 * IceFrog, TPDS 2025, section IV-B; policy/iceshare.h solves it).
 *
 * The defaults are the paper's letter, except where it cannot be meant:
 * - A job without GPUs has IceShare 0, so under load (18), the smallest share,
 *   is 0 for every plan. Hence the leximin order: as few jobs without GPUs as
 *   can be, then the smallest share of the others, and so on.
 * - (18) multiplies IceShare by a weight, which under max-min would give the
 *   important jobs less. Here it is divided by `weight` ^ priority, and of the
 *   jobs without GPUs the most important is served first. All priorities are 0
 *   unless the user says otherwise.
 * - Of equal jobs the paper does not say which is served: the oldest.
 *
 * What firn adds, each an option that is off (icefrog_menu.c has the reasons):
 * - `idle=wait`: no GPU now is worth what it is to wait for one's turn. Long
 *   jobs then wait for short ones. GPUs that are left over are divided among
 *   the jobs that would wait.
 * - `efficiency`: GPUs that cost other jobs more than they bring the job are
 *   given to it last.
 * - `charge`: a restart is part of (16). `gather`: scattered jobs are brought
 *   together.
 * - `between`: jobs submitted between two rounds divide what is free among
 *   them. By the paper they wait for the next round, also beside idle GPUs.
 *   firnd sets it (daemon/config_live.c).
 * They were chosen on jobs of the Philly trace drawn with seeds 101 to 104 and
 * judged on those drawn with seeds 201 to 220, none of which a scenario of
 * papers/ uses: 120 and 240 jobs, on V100 and on H200. Mean JCT of the letter
 * over that with all five is 1.19, 1.16, 1.20 and 1.15 there; by `idle=wait`
 * alone 1.07, 1.03, 1.09 and 1.08, by `between` 1.05, 1.04, 1.03 and 1.02, by
 * `efficiency` 1.03, 1.01, 1.04 and 1.02 (the same for 0.3 to 0.7), by `gather`
 * 1.01, 1.03, 1.00 and 1.00, by `charge` 1.00, and 1.00 to 1.01 with the
 * others.
 *
 * Sharing (icefrog_share.c): a job that accepts one GPU may have half of one,
 * at `lambda` times its rate there. Halves are counted, not paired, in the
 * division; then pairs are made, jobs left without a partner lose the choice,
 * the busiest half of them first, and the division is made anew. Objective
 * `fitness`: instead of IceShare the rate over that on a fair share of the
 * cluster, in harmonic mean, with Pollux's factor on ways that need a restart
 * (OSDI 2021, section 4).
 *
 * Invariants:
 * (1) a job holds a number of GPUs of its menu, of one type, or nothing;
 * (2) half-shares are of one GPU, and at most two jobs are on it;
 * (3) between rounds nothing that runs is touched;
 * (4) of equal jobs that have not begun the older has at least as much
 *     (policy/peers.h), although age raises what waiting is worth.
 *
 * Left out: three jobs on a GPU, which the paper found not to happen, and any
 * protection of large gangs: age raises a job's share, so they may wait long.
 * Cost: a forecast for each entry of each menu, and a few solver runs.
 */
#include "policy/icefrog.h"
#include "base/keep.h"
#include "policy/peers.h"
#include <stdint.h>

enum { TRIES = 8 };

static const char *const idle_names[] = {"zero", "wait", NULL};
static const char *const objective_names[] = {"iceshare", "fitness", NULL};

const struct firn_option icefrog_options[] = {
    FIRN_NUMBER(struct icefrog, interval_s, "interval", "300", 1, 1e9,
                "seconds between two divisions of the GPUs"),
    FIRN_CHOICE(struct icefrog, objective, "objective", "iceshare",
                objective_names,
                "share of the best finish time, or Pollux's fitness"),
    FIRN_CHOICE(struct icefrog, idle, "idle", "zero", idle_names,
                "value of no GPU: 0 as in the paper, or what it is worth to "
                "wait for one's turn"),
    FIRN_NUMBER(struct icefrog, efficiency, "efficiency", "0", 0, 1,
                "the least part of its work that a GPU must do; 0: no limit, "
                "and no waste, as in the paper"),
    FIRN_NUMBER(
        struct icefrog, behind, "behind", "0.15", 0, 1e6,
        "jobs a GPU that are expected to come, for weighing wasted GPUs"),
    FIRN_BOOL(struct icefrog, charges, "charge", "no",
              "count the cost of a restart in the time to the end of a job"),
    FIRN_BOOL(struct icefrog, gathers, "gather", "no",
              "move jobs that run on several nodes to one if that pays"),
    FIRN_BOOL(struct icefrog, between, "between", "no",
              "jobs submitted between two divisions get free GPUs at once; "
              "no: they wait, as in the paper"),
    FIRN_NUMBER(struct icefrog, restart_s, "restart", "60", 0, 1e9,
                "seconds a restart costs jobs that do not name a cost, for "
                "charge, gather and fitness"),
    FIRN_NUMBER(struct icefrog, weight, "weight", "2", 1, 1e3,
                "how much more a job counts for each step of priority"),
    FIRN_BOOL(struct icefrog, sharing, "sharing", "yes",
              "two jobs that accept one GPU may share it"),
    FIRN_NUMBER(struct icefrog, lambda, "lambda", "0.9", 0.01, 1,
                "rate on a shared GPU over that alone, as expected"),
    FIRN_NUMBER(
        struct icefrog, evict, "evict", "0.7", 0, 1,
        "rate on a shared GPU over that alone below which a pair parts"),
    FIRN_BOOL(struct icefrog, packs_unknown, "unknown", "no",
              "jobs of unknown memory or utilisation share too"),
    FIRN_INT(struct icefrog, group, "partition", "20000", 0, 1e9,
             "more jobs than that are divided into groups; 0: never"),
    {0},
};

/* ---- the division ---- */

/* What these items choose out of `capacity`. */
static const size_t *solve(const struct ice_round *round,
                           const struct iceshare_item *items, size_t n,
                           const int *capacity)
{
    struct firn_error err = {0};
    size_t *chosen = firn_view_alloc(round->view, (n + 1) * sizeof *chosen);
    struct iceshare_problem problem = {
        .items = items,
        .n = n,
        .capacity = capacity,
        .npools = round->view->cluster->ntypes,
        .goal = round->ice->objective == ICEFROG_FITNESS ? ICESHARE_HARMONIC
                                                         : ICESHARE_LEXIMIN,
        .group = (size_t)round->ice->group};
    if (iceshare_solve(&problem, chosen, round->view->scratch, &err) != FIRN_OK)
        FIRN_BUG("%s", err.text);
    return chosen;
}

/* What is known of a job: its choices and their rates. */
static uint64_t kind_of(const struct ice_seat *seat)
{
    uint64_t kind = seat->n;
    for (size_t c = 0; c < seat->n; c++) {
        kind = peers_kind(kind, seat->choices[c].units);
        kind = peers_kind(kind, seat->choices[c].pool);
        kind = peers_kind(kind, seat->details[c].rate);
    }
    return kind;
}

/* The choices of equal jobs, exchanged so that the older have more: (4). */
static const size_t *put_older_first(const struct ice_round *round,
                                     const size_t *who, size_t n,
                                     const size_t *chosen)
{
    struct peer *peers = firn_view_alloc(round->view, (n + 1) * sizeof *peers);
    size_t *sorted = firn_view_alloc(round->view, (n + 1) * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        const struct ice_seat *seat = &round->seats[who[i]];
        peers[i] = (struct peer){.job = seat->job,
                                 .kind = kind_of(seat),
                                 .gets = seat->choices[chosen[i]].units};
    }
    const size_t *from = peers_settle(round->view, peers, n);
    for (size_t i = 0; i < n; i++)
        sorted[i] = chosen[from[i]];
    return sorted;
}

static void deal(struct ice_round *round, const size_t *who, size_t n,
                 const int *capacity)
{
    struct iceshare_item *items =
        firn_view_alloc(round->view, (n + 1) * sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = (struct iceshare_item){round->seats[who[i]].choices,
                                          round->seats[who[i]].n};
    const size_t *chosen =
        put_older_first(round, who, n, solve(round, items, n, capacity));
    for (size_t i = 0; i < n; i++)
        round->seats[who[i]].chosen = chosen[i];
}

/* Counts the GPUs that no seat has so far, by type; returns false if there is
 * none. */
static bool count_rest(const struct ice_round *round, int *rest)
{
    int ntypes = round->view->cluster->ntypes, gpus = 0;
    for (int t = 0; t < ntypes; t++)
        rest[t] = round->capacity[t];
    for (size_t i = 0; i < round->n; i++) {
        const struct ice_seat *seat = &round->seats[i];
        rest[ice_type(seat)] -= seat->choices[seat->chosen].units;
    }
    for (int t = 0; t < ntypes; t++)
        gpus += rest[t] / 2;
    return gpus > 0;
}

/* Gives GPUs that are left over to jobs that would wait: no other job wants
 * them, and any number is better than none. */
static void deal_rest(struct ice_round *round, size_t *who)
{
    int rest[FIRN_TYPES_MAX];
    size_t n = 0;
    if (!count_rest(round, rest))
        return;
    for (size_t i = 0; i < round->n; i++) {
        struct ice_seat *seat = &round->seats[i];
        if (seat->chosen > 0)
            continue;
        ice_bar_half(seat);
        seat->choices[0].value = seat->nothing;
        who[n++] = i;
    }
    if (n > 0)
        deal(round, who, n, rest);
}

/* A seat's choices beyond what it has, with what they take and are worth more;
 * `which` gets their numbers. */
static struct iceshare_item more_of(const struct ice_round *round,
                                    const struct ice_seat *seat, size_t *which)
{
    struct iceshare_choice *more =
        firn_view_alloc(round->view, seat->n * sizeof *more);
    int has = seat->choices[seat->chosen].units;
    size_t n = 1;
    more[0] = (struct iceshare_choice){ice_type(seat), 0,
                                       seat->details[seat->chosen].value};
    which[0] = seat->chosen;
    for (size_t c = seat->chosen + 1; c < seat->n && has > 1; c++)
        if (seat->choices[c].pool == ice_type(seat) &&
            seat->details[c].value > more[0].value) {
            more[n] = (struct iceshare_choice){ice_type(seat),
                                               seat->choices[c].units - has,
                                               seat->details[c].value};
            which[n++] = c;
        }
    return (struct iceshare_item){more, n};
}

/* Gives GPUs that are left over even then to jobs that use them badly. */
static void waste_rest(struct ice_round *round)
{
    const struct firn_view *view = round->view;
    int rest[FIRN_TYPES_MAX];
    if (round->ice->efficiency == 0 || !count_rest(round, rest))
        return;
    size_t most = round->n + 1;
    struct iceshare_item *items = firn_view_alloc(view, most * sizeof *items);
    size_t **which = firn_view_alloc(view, most * sizeof(size_t *));
    for (size_t i = 0; i < round->n; i++) {
        const struct ice_seat *seat = &round->seats[i];
        which[i] = firn_view_alloc(view, seat->n * sizeof(size_t));
        items[i] = more_of(round, seat, which[i]);
    }
    const size_t *chosen = solve(round, items, round->n, rest);
    for (size_t i = 0; i < round->n; i++)
        round->seats[i].chosen = which[i][chosen[i]];
}

static void divide(struct ice_round *round)
{
    size_t *who = firn_view_alloc(round->view, (round->n + 1) * sizeof *who);
    for (size_t i = 0; i < round->n; i++)
        who[i] = i;
    ice_bar_lone(round);
    for (int i = 0; i < TRIES; i++) {
        deal(round, who, round->n, round->capacity);
        if (ice_pair(round, i + 2 >= TRIES) == 0)
            break;
    }
    if (round->ice->idle == ICEFROG_WAIT &&
        round->ice->objective == ICEFROG_ICESHARE)
        deal_rest(round, who);
    waste_rest(round);
}

/* ---- the round ---- */

/* Notes for each waiting job why it waits. */
static void explain(const struct ice_round *round)
{
    for (size_t i = 0; i < round->n; i++) {
        const struct ice_seat *seat = &round->seats[i];
        const struct firn_job *job = seat->job;
        if (seat->chosen > 0)
            continue;
        size_t c = seat->n > 1 && seat->choices[1].units == 1 ? 2 : 1;
        if (seat->n == 1)
            firn_plan_note(round->plan, job,
                           "no GPU type it accepts has %d GPUs up",
                           job->spec.gpus_min);
        else
            firn_plan_note(round->plan, job,
                           "share %.2f if it waits, %.2f on %d GPUs; %d free",
                           fmax(seat->choices[0].value, 0),
                           seat->choices[c].value, seat->details[c].gpus,
                           firn_plan_free(round->plan));
    }
}

/* Between rounds no GPU is given away: jobs submitted since the last round get
 * a note with the time of the next one. */
static void put_off(const struct firn_view *view, struct firn_plan *plan,
                    double wait_s)
{
    const struct firn_job *const *waiting = firn_view_waiting(view);
    for (size_t i = 0; i < view->nwaiting; i++)
        if (waiting[i]->note[0] == '\0')
            firn_plan_note(plan, waiting[i],
                           "%d of %d GPUs are held; divided anew in %.0f s",
                           view->gpus_up - view->gpus_free, view->gpus_up,
                           wait_s);
}

static void fill_seats(struct ice_round *round)
{
    const struct firn_view *view = round->view;
    const struct firn_job *const *jobs =
        round->is_round ? firn_view_jobs(view) : firn_view_waiting(view);
    round->n = round->is_round ? view->njobs : view->nwaiting;
    round->fair = view->njobs > 0 ? view->gpus_up / (int)view->njobs : 1;
    round->seats =
        firn_view_alloc(view, (round->n + 1) * sizeof(struct ice_seat));
    for (size_t i = 0; i < round->n; i++)
        round->seats[i] = (struct ice_seat){
            .job = jobs[i], .sharer = ICE_NONE, .partner = ICE_NONE};
    ice_meet(round);
    ice_menus(round);
}

enum firn_status icefrog_decide(void *state, const struct firn_view *view,
                                struct firn_plan *plan)
{
    struct icefrog *ice = state;
    struct ice_round round = {.ice = ice, .view = view, .plan = plan};
    round.is_round = rounds_begin(&ice->rounds, view->now_s,
                                  ice->rounds.last_s + ice->interval_s);
    round.wait_s = ice->rounds.last_s + ice->interval_s - view->now_s;
    if (!round.is_round) {
        firn_plan_keep_all(plan); /* (3) */
        bool is_closed = view->gpus_free == 0 || !ice->between;
        if (is_closed)
            put_off(view, plan, round.wait_s);
        if (view->nwaiting == 0 || is_closed)
            return FIRN_OK;
    }
    /* Counts all GPUs, as the plan is empty; between rounds the free ones. */
    for (int t = 0; t < view->cluster->ntypes; t++)
        round.capacity[t] = 2 * firn_plan_free_of(plan, t);
    fill_seats(&round);
    divide(&round);
    ice_place(&round);
    explain(&round);
    return FIRN_OK;
}

double icefrog_wake_s(const void *state, const struct firn_view *view)
{
    const struct icefrog *ice = state;
    bool is_needed =
        view->nrunning > 0 || (view->nwaiting > 0 && !ice->between);
    return is_needed ? ice->rounds.last_s + ice->interval_s : INFINITY;
}

void icefrog_fini(void *state)
{
    struct icefrog *ice = state;
    map_release(&ice->apps);
    vec_release(&ice->bad);
}

/* ---- over a restart ---- */

/* The time of the last round is kept, and which applications went badly
 * together: their jobs were parted, and would be put together again. */

void icefrog_save(const void *state, struct firn_buf *out)
{
    const struct icefrog *ice = state;
    keep_begin(out, "policy icefrog", 1);
    rounds_save(&ice->rounds, out);
    keep_names(out, &ice->apps);
    keep_int(out, (long)ice->bad.n);
    for (size_t i = 0; i < ice->bad.n; i++) {
        keep_int(out, ice->bad.at[i].a);
        keep_int(out, ice->bad.at[i].b);
    }
}

enum firn_status icefrog_load(void *state, struct firn_bytes in,
                              struct firn_error *err)
{
    struct icefrog *ice = state, fresh = *ice, old = *ice;
    struct keep keep;
    FIRN_TRY(keep_open(&keep, in, "policy icefrog", 1, err));
    fresh.apps = (struct map){0};
    fresh.bad.at = NULL;
    fresh.bad.n = fresh.bad.cap = 0;
    fresh.rounds = rounds_load(&keep);
    keep_read_names(&keep, &fresh.apps);
    long last = (long)fresh.apps.n - 1, n = keep_read_int(&keep, 0, INT32_MAX);
    for (long i = 0; i < n && !keep.is_bad; i++) {
        struct icefrog_pair pair = {.a = (int)keep_read_int(&keep, 0, last)};
        pair.b = (int)keep_read_int(&keep, pair.a, last);
        vec_add(&fresh.bad, pair);
    }
    enum firn_status status = keep_close(&keep, err);
    if (status == FIRN_OK)
        *ice = fresh;
    icefrog_fini(status == FIRN_OK ? &old : &fresh);
    return status;
}

const struct firn_policy_def firn_policy_icefrog = {
    .size = sizeof(struct firn_policy_def),
    .name = "icefrog",
    .summary = "each job's share of its best finish time, the worst first",
    .paper = "Gao et al., IceFrog, TPDS 2025",
    .needs = FIRN_NEED_FORECAST | FIRN_NEED_DURATION,
    .does =
        FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE | FIRN_DOES_SHARE,
    .tunes = FIRN_TUNE_FREEZE,
    .options = icefrog_options,
    .state_size = sizeof(struct icefrog),
    .decide = icefrog_decide,
    .obeys = FIRN_OBEYS_PRIORITY,
    .fini = icefrog_fini,
    .wake_s = icefrog_wake_s,
    .save = icefrog_save,
    .load = icefrog_load,
};
