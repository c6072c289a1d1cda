/* firn_assign.c - one way for each seat of the policy firn, and GPUs for it.
 *
 * The assignment is exact within one part in a thousand (math/priced.h): at
 * most one choice a seat, no more GPUs of a type than there are, the greatest
 * sum of values. A choice on several types takes GPUs of each of them. Before
 * it, GPUs are set aside: seats that must not be moved have what they hold;
 * then seats that are due, by submission, the way with the most value for each
 * GPU that the rest has room for. All but the first of these leave a part of
 * each type to the seats that are not due: otherwise long jobs that are due
 * would keep short ones waiting, as first come, first served does. A seat that
 * is due and runs is not stopped. Of equal jobs that have not begun the older
 * is served first (peers.h).
 *
 * Placing: what is held stays; then the largest first, each on as few nodes as
 * can be; then those that are faster on more (firn_spread.c). A seat that finds
 * no room takes its best choice that has. The assignment counts a GPU for a
 * guest that is chosen; one that keeps its place beside its host leaves that
 * GPU free, and the seats that were not chosen get it. Jobs that may share are
 * placed such that a guest may join them; but for those that can be resized
 * without a stop, which shared GPUs rule out (firn_share.c).
 *
 * Cost: the solver's, over the running jobs and the `POOL` most valuable of
 * those that wait, and O(nodes) for each job that is placed.
 */
#include "math/priced.h"
#include "policy/firn.h"
#include "policy/peers.h"
#include <stdlib.h>

enum { POOL = 160, SEARCH = 40000, TRIES = 3 };

static bool runs(const struct one_seat *seat)
{
    return seat->job->held.nparts > 0;
}

static double density(const struct one_seat *seat)
{
    double best = 0;
    for (int i = 0; i < seat->n; i++)
        best = fmax(best, seat->choices[i].value / seat->choices[i].gpus);
    return best;
}

/* ---- who is considered ---- */

struct place {
    struct one_seat *seat;
    double key;
};

static int foremost(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = firn_cmp(runs(y->seat), runs(x->seat));
    if (order == 0)
        order = firn_cmp(y->seat->is_due, x->seat->is_due);
    if (order == 0 && !x->seat->is_due)
        order = firn_cmp(y->key, x->key);
    return order != 0 ? order : firn_cmp(x->seat->job->id, y->seat->job->id);
}

static size_t running_of(const struct one_round *round)
{
    size_t n = 0;
    for (size_t i = 0; i < round->n; i++)
        n += runs(&round->seats[i]);
    return n;
}

/* The seats that run and the most valuable of the others. */
static size_t select_seats(const struct one_round *round,
                           struct one_seat **seats)
{
    size_t most = running_of(round) + POOL;
    for (size_t i = 0; i < round->n; i++)
        seats[i] = &round->seats[i];
    if (round->n <= most)
        return round->n;
    struct place *places =
        firn_view_alloc(round->view, round->n * sizeof *places);
    for (size_t i = 0; i < round->n; i++)
        places[i] = (struct place){&round->seats[i], density(&round->seats[i])};
    qsort(places, round->n, sizeof *places, foremost);
    for (size_t i = 0; i < round->n; i++)
        seats[i] = places[i].seat;
    return most;
}

/* ---- what is set aside ---- */

static int held_choice(const struct one_seat *seat)
{
    for (int i = 0; i < seat->n; i++)
        if (seat->choices[i].is_held)
            return i;
    return ONE_NONE;
}

/* GPUs of a type that a choice takes. */
static int taken_of(const struct one_choice *choice, firn_type_id type)
{
    if (choice->counts != NULL)
        return choice->counts[type];
    return type == choice->type ? choice->taken : 0;
}

static bool has_room(const struct one_round *round,
                     const struct one_choice *choice, const int *room)
{
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        if (taken_of(choice, t) > 0 && taken_of(choice, t) > room[t])
            return false;
    return true;
}

static void take(const struct one_round *round, const struct one_choice *choice,
                 int *room)
{
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        room[t] -= taken_of(choice, t);
}

/* The choice of one type that there is room for with the most value for each
 * GPU. */
static int thriftiest(const struct one_seat *seat, const int *room)
{
    int best = ONE_NONE;
    double most = -1;
    for (int i = 0; i < seat->n; i++) {
        const struct one_choice *choice = &seat->choices[i];
        double each = choice->value / choice->gpus;
        if (choice->is_mixed || choice->gpus > room[choice->type] ||
            each <= most)
            continue;
        best = i;
        most = each;
    }
    return best;
}

static void pin(const struct one_round *round, struct one_seat *seat,
                int choice, int *room)
{
    seat->pinned = choice;
    if (choice != ONE_NONE)
        take(round, &seat->choices[choice], room);
}

static int by_submission(const void *a, const void *b)
{
    const struct one_seat *x = *(struct one_seat *const *)a;
    const struct one_seat *y = *(struct one_seat *const *)b;
    int order = firn_cmp(x->job->spec.submit_s, y->job->spec.submit_s);
    return order != 0 ? order : firn_cmp(x->job->id, y->job->id);
}

/* Sets GPUs aside for the seats that are due, which are by submission: for the
 * first what it needs, for the others up to a share of each type. A seat that
 * runs is free to have more than that; keep_due() sees to it that it is not
 * stopped. */
static void serve_due(const struct one_round *round, struct one_seat **due,
                      size_t ndue, int *room)
{
    int ntypes = round->view->cluster->ntypes;
    int kept[FIRN_TYPES_MAX], rest[FIRN_TYPES_MAX];
    for (int t = 0; t < ntypes; t++)
        kept[t] = (int)(room[t] * (1 - round->one->rules.due_share));
    for (size_t i = 0; i < ndue; i++) {
        for (int t = 0; t < ntypes; t++)
            rest[t] = i == 0 ? room[t] : room[t] - kept[t];
        int choice = thriftiest(due[i], rest);
        due[i]->is_sheltered = choice != ONE_NONE;
        pin(round, due[i], choice, room);
    }
    for (size_t i = 0; i < ndue; i++)
        if (runs(due[i]))
            due[i]->pinned = ONE_NONE;
}

/* GPUs for the seats that must have some. */
static void set_aside(const struct one_round *round, struct one_seat **seats,
                      size_t n, const int *capacity)
{
    int room[FIRN_TYPES_MAX];
    struct one_seat **due =
        firn_view_alloc(round->view, (n + 1) * sizeof(struct one_seat *));
    size_t ndue = 0;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        room[t] = capacity[t];
    for (size_t i = 0; i < n; i++) {
        struct one_seat *seat = seats[i];
        seat->pinned = ONE_NONE;
        if (seat->is_settled)
            pin(round, seat, held_choice(seat), room);
        if (seat->pinned == ONE_NONE && seat->is_due && seat->n > 0)
            due[ndue++] = seat;
    }
    if (ndue > 1)
        qsort(due, ndue, sizeof *due, by_submission);
    serve_due(round, due, ndue, room);
}

/* ---- the assignment ---- */

/* What the choice takes: of its type, and of others if it is mixed. */
static struct priced_choice priced_of(const struct one_round *round,
                                      const struct one_choice *choice)
{
    const struct firn_view *view = round->view;
    int ntypes = view->cluster->ntypes;
    struct priced_choice out = {.pool = choice->type, .units = choice->taken};
    if (choice->counts == NULL)
        return out;
    struct priced_take *more =
        firn_view_alloc(view, (size_t)ntypes * sizeof *more);
    for (int t = 0; t < ntypes; t++)
        if (t != choice->type && choice->counts[t] > 0)
            more[out.nmore++] = (struct priced_take){t, choice->counts[t]};
    out.more = more;
    return out;
}

static void solve(const struct one_round *round, struct one_seat **seats,
                  size_t n, const int *capacity, int *chosen)
{
    const struct firn_view *view = round->view;
    struct priced_item *items = firn_view_alloc(view, (n + 1) * sizeof *items);
    double top = 0;
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < seats[i]->n; c++)
            top = fmax(top, seats[i]->choices[c].value);
    for (size_t i = 0; i < n; i++) {
        const struct one_seat *seat = seats[i];
        struct priced_choice *choices =
            firn_view_alloc(view, (size_t)(seat->n + 1) * sizeof *choices);
        for (int c = 0; c < seat->n; c++) {
            choices[c] = priced_of(round, &seat->choices[c]);
            choices[c].value = top > 0 ? seat->choices[c].value / top : 0;
        }
        items[i] = (struct priced_item){choices, seat->n, seat->pinned};
    }
    struct priced_problem problem = {items, (int)n, capacity,
                                     view->cluster->ntypes};
    struct priced_limits limits = {1e-3, SEARCH};
    struct priced_result result;
    if (!priced_solve(&problem, &limits, view->scratch, chosen, &result))
        FIRN_BUG("the GPUs that were set aside do not fit");
}

/* Pins those that are due, run and would be stopped; false: there are none. */
static bool keep_due(const struct one_round *round, struct one_seat **seats,
                     size_t n, const int *capacity, const int *chosen)
{
    int room[FIRN_TYPES_MAX];
    bool any = false;
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        room[t] = capacity[t];
    for (size_t i = 0; i < n; i++)
        if (seats[i]->pinned != ONE_NONE)
            pin(round, seats[i], seats[i]->pinned, room);
    for (size_t i = 0; i < n; i++) {
        struct one_seat *seat = seats[i];
        if (!seat->is_sheltered || !runs(seat) || chosen[i] != PRICED_NONE ||
            seat->pinned != ONE_NONE)
            continue;
        int held = held_choice(seat);
        bool fits =
            held != ONE_NONE && has_room(round, &seat->choices[held], room);
        pin(round, seat, fits ? held : thriftiest(seat, room), room);
        any = any || seat->pinned != ONE_NONE;
    }
    return any;
}

static uint64_t kind_of(const struct one_seat *seat)
{
    uint64_t kind = (uint64_t)seat->n;
    for (int c = 0; c < seat->n; c++) {
        kind = peers_kind(kind, seat->choices[c].gpus);
        kind = peers_kind(kind, seat->choices[c].type);
        kind = peers_kind(kind, seat->choices[c].rate);
        kind = peers_kind(kind, seat->choices[c].taken);
    }
    return peers_kind(kind, seat->waits && !seat->is_due);
}

/* The answers of equal jobs, exchanged so that the older have more. */
static void put_older_first(const struct one_round *round,
                            struct one_seat **seats, size_t n,
                            const int *chosen)
{
    struct peer *peers = firn_view_alloc(round->view, (n + 1) * sizeof *peers);
    for (size_t i = 0; i < n; i++) {
        peers[i] =
            (struct peer){.job = seats[i]->job, .kind = kind_of(seats[i])};
        if (chosen[i] != PRICED_NONE)
            peers[i].gets = seats[i]->choices[chosen[i]].gpus;
        if (seats[i]->with != NULL) /* a pair has no equal */
            peers[i].kind = peers_kind(peers[i].kind, seats[i]->job->id);
    }
    const size_t *from = peers_settle(round->view, peers, n);
    for (size_t i = 0; i < n; i++)
        seats[i]->chosen = chosen[from[i]];
}

/* ---- placing ---- */

struct firn_how one_how(const struct one_round *round,
                        const struct one_seat *seat,
                        const struct one_choice *choice)
{
    const struct one_rules *rules = &round->one->rules;
    struct firn_how how = choice->how;
    int can_s = round->view->ahead_s;
    how.merged_with = FIRN_NO_JOB;
    how.after = seat->with == NULL ? seat->after : FIRN_NO_JOB;
    how.ahead_s = rules->ahead_s < can_s ? rules->ahead_s : can_s;
    how.passes = 0;
    return how;
}

static bool keep(const struct one_round *round, const struct one_seat *seat)
{
    size_t mark = firn_plan_mark(round->plan);
    if (firn_plan_keep(round->plan, seat->job) &&
        (seat->with == NULL || firn_plan_keep(round->plan, seat->with)))
        return true;
    firn_plan_undo(round->plan, mark);
    return false;
}

bool one_give(const struct one_round *round, const struct one_seat *seat)
{
    const struct one_choice *choice = &seat->choices[seat->chosen];
    const struct firn_job *with = seat->with;
    struct firn_how how = one_how(round, seat, choice);
    struct firn_want want = {.gpus = choice->gpus,
                             .types = (uint32_t)1 << choice->type,
                             .one_type = true,
                             .shared =
                                 with != NULL || (round->one->rules.share &&
                                                  seat->job->spec.may_share &&
                                                  !seat->is_supple),
                             .how = &how};
    if (choice->counts != NULL)
        want = (struct firn_want){
            .gpus = choice->gpus, .counts = choice->counts, .how = &how};
    size_t mark = firn_plan_mark(round->plan);
    if (choice->nodes > 0 && one_give_spread(round, seat, choice, &how)) {
        firn_plan_tune(round->plan, seat->job, choice->tunes);
        return true;
    }
    if (firn_plan_give_want(round->plan, seat->job, &want) &&
        (with == NULL || firn_plan_merge(round->plan, with, seat->job))) {
        firn_plan_tune(round->plan, seat->job, choice->tunes);
        if (with != NULL)
            firn_plan_tune(round->plan, with, choice->tunes);
        return true;
    }
    firn_plan_undo(round->plan, mark);
    return false;
}

/* Those that are packed first, the largest of them first. */
static int by_size(const void *a, const void *b)
{
    const struct one_seat *x = *(struct one_seat *const *)a;
    const struct one_seat *y = *(struct one_seat *const *)b;
    const struct one_choice *p = &x->choices[x->chosen];
    const struct one_choice *q = &y->choices[y->chosen];
    int order = firn_cmp(p->nodes > 0, q->nodes > 0);
    if (order == 0)
        order = firn_cmp(q->gpus, p->gpus);
    return order != 0 ? order : firn_cmp(x->job->id, y->job->id);
}

/* A seat whose GPUs are scattered or taken: its best choice of no more GPUs
 * that has room. */
static void place_smaller(const struct one_round *round, struct one_seat *seat)
{
    int most = seat->choices[seat->chosen].gpus;
    if (seat->with == NULL && runs(seat) && !seat->is_guest &&
        seat->parted == NULL && keep(round, seat)) {
        int held = held_choice(seat);
        seat->chosen = held != ONE_NONE ? held : seat->chosen;
        seat->is_placed = true;
        return;
    }
    for (int gpus = most; gpus > 0; gpus--)
        for (int c = 0; c < seat->n; c++) {
            const struct one_choice *choice = &seat->choices[c];
            if (choice->gpus != gpus || choice->is_mixed ||
                !(choice->value > 0) ||
                firn_plan_free_of(round->plan, choice->type) < gpus)
                continue;
            seat->chosen = c;
            seat->is_placed = one_give(round, seat);
            if (seat->is_placed)
                return;
        }
    seat->chosen = ONE_NONE;
}

static void place_all(const struct one_round *round, struct one_seat **seats,
                      size_t n)
{
    struct one_seat **order =
        firn_view_alloc(round->view, (n + 1) * sizeof(struct one_seat *));
    size_t norder = 0;
    for (size_t i = 0; i < n; i++) {
        struct one_seat *seat = seats[i];
        if (seat->chosen == ONE_NONE)
            continue;
        if (seat->choices[seat->chosen].is_held)
            seat->is_placed = keep(round, seat);
        if (!seat->is_placed)
            order[norder++] = seat;
    }
    if (norder > 1)
        qsort(order, norder, sizeof *order, by_size);
    for (size_t i = 0; i < norder; i++)
        order[i]->is_placed = one_give(round, order[i]);
    for (size_t i = 0; i < norder; i++)
        if (!order[i]->is_placed)
            place_smaller(round, order[i]);
}

/* GPUs of each type that no chosen seat waits for. */
static void count_rest(const struct one_round *round, struct one_seat **seats,
                       size_t n, int *rest)
{
    int ntypes = round->view->cluster->ntypes;
    for (int t = 0; t < ntypes; t++)
        rest[t] = firn_plan_free_of(round->plan, t);
    for (size_t i = 0; i < n; i++) {
        if (seats[i]->is_placed || seats[i]->chosen == ONE_NONE)
            continue;
        take(round, &seats[i]->choices[seats[i]->chosen], rest);
    }
}

static void fill_one(const struct one_round *round, struct one_seat *seat,
                     int *rest)
{
    for (int c = 0; c < seat->n && !seat->is_placed; c++) {
        const struct one_choice *choice = &seat->choices[c];
        if (choice->is_mixed || !(choice->value > 0) ||
            choice->gpus > rest[choice->type])
            continue;
        int free = firn_plan_free_of(round->plan, choice->type);
        seat->chosen = c;
        seat->is_placed = one_give(round, seat);
        rest[choice->type] -=
            free - firn_plan_free_of(round->plan, choice->type);
    }
    if (!seat->is_placed)
        seat->chosen = ONE_NONE;
}

/* Gives what guests leave free to the seats that were not chosen. */
static void fill_free(const struct one_round *round, struct one_seat **seats,
                      size_t n)
{
    int rest[FIRN_TYPES_MAX], most = 0;
    count_rest(round, seats, n, rest);
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        most = rest[t] > most ? rest[t] : most;
    if (most == 0)
        return;
    struct place *order = firn_view_alloc(round->view, (n + 1) * sizeof *order);
    size_t norder = 0;
    for (size_t i = 0; i < n; i++)
        if (seats[i]->chosen == ONE_NONE && seats[i]->with == NULL &&
            !seats[i]->waits)
            order[norder++] = (struct place){seats[i], density(seats[i])};
    if (norder > 1)
        qsort(order, norder, sizeof *order, foremost);
    for (size_t i = 0; i < norder; i++)
        fill_one(round, order[i].seat, rest);
}

/* The least value for each GPU that was chosen, by type. */
static void set_prices(struct one_round *round)
{
    for (int t = 0; t < round->view->cluster->ntypes; t++)
        round->price[t] = INFINITY;
    for (size_t i = 0; i < round->n; i++) {
        const struct one_seat *seat = &round->seats[i];
        if (seat->chosen == ONE_NONE)
            continue;
        const struct one_choice *choice = &seat->choices[seat->chosen];
        round->price[choice->type] =
            fmin(round->price[choice->type], choice->value / choice->gpus);
    }
}

void one_assign(struct one_round *round)
{
    const struct firn_view *view = round->view;
    int capacity[FIRN_TYPES_MAX];
    struct one_seat **seats =
        firn_view_alloc(view, (round->n + 1) * sizeof(struct one_seat *));
    size_t n = select_seats(round, seats);
    int *chosen = firn_view_alloc(view, (n + 1) * sizeof *chosen);
    for (int t = 0; t < view->cluster->ntypes; t++)
        capacity[t] = firn_plan_free_of(round->plan, t);
    set_aside(round, seats, n, capacity);
    for (int i = 0; i < TRIES; i++) {
        solve(round, seats, n, capacity, chosen);
        if (!keep_due(round, seats, n, capacity, chosen))
            break;
    }
    put_older_first(round, seats, n, chosen);
    place_all(round, seats, n);
    fill_free(round, seats, n);
    set_prices(round);
}
