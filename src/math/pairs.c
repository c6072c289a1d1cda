/* pairs.c - a price on the capacity, and a matching inside.
 *
 * At a price of q per unit of capacity every menu is one number: the best net
 * value s_i(q) of task i alone (0 when idle) and p_k(q) of pair k. What is
 * left is to pair the tasks, which is a maximum-weight matching with weights
 * p_k - s_i - s_j, since a pair is worth it only beyond its two tasks alone:
 *
 *     D(q) = q capacity + sum_i s_i + heaviest matching
 *
 * bounds every choice from above, is convex and made of straight pieces, one
 * for each pairing with its entries (value V, cost U: V + q (capacity - U)).
 * Its minimum is found by taking a piece on the left (U > capacity) and one
 * on the right, evaluating where they meet, and replacing one of them, until
 * the piece found is one already known. The first two are looked for around
 * the price that greedy pairings, a tenth of the work, would give.
 *
 * Every pairing met on the way is turned into a choice that fits: the best
 * entries for it over the one capacity row, exact for that pairing. Then
 * pairings are tried that differ from the best one in a swap of partners, those
 * first that lose least at the price of the bound; those that lose more than
 * the gap cannot be better and are left out. The best of all is the answer, the
 * minimum of D the bound.
 */
#include "math/pairs.h"
#include "base/arena.h"
#include "math/matching.h"
#include "math/sumrow.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const size_t idle = SIZE_MAX;

/* --- the entries of a given pairing -----------------------------------------
 *
 * With the pairing given, each pair and each task left over is one unit with
 * one menu, and what remains is one capacity row (sumrow.h). The menu of a
 * pair also has all the ways to run its two tasks apart. A menu is made by
 * cost: for each cost the best way to spend it, in an array over the costs up
 * to the capacity. Entries that are worth no more than a cheaper one are left
 * out, so the row's solver gets sorted, short menus.
 */

/* The pairs by their tasks: those of tasks i < j are list[start[i * n + j]]
 * to the next start. */
struct pairs_index {
    size_t *start;
    int *list;
};

struct units {
    const struct pairs_problem *p;
    struct pairs_index index;
    struct frontier front; /* of single tasks; the first entry is idle */
    struct arena inner;    /* reset for each pairing */
};

/* A way to run a unit: together in pair k, or each of its tasks alone. */
struct way {
    double value;
    int pair;
    size_t entry[2];
};

/* The menus of all units, one after the other. */
struct unit_menus {
    size_t n, *start, *task; /* task[u]: the lower task of unit u */
    int *cost;
    double *value;
    struct way *way;
};

/* Counting sort of the pairs by their two tasks. */
static void index_pairs(struct units *units, struct arena *scratch)
{
    const struct pairs_problem *p = units->p;
    size_t n = p->alone.n, cells = n * n + 1, k = 0;
    size_t *start = arena_alloc(scratch, (cells + 1) * sizeof *start);
    int *list = arena_alloc(scratch, p->together.n * sizeof *list);
    for (int pass = 0; pass < 2; pass++) {
        for (k = 0; k < p->together.n; k++) {
            size_t a = (size_t)p->first[k], b = (size_t)p->second[k];
            size_t cell = a < b ? a * n + b : b * n + a;
            if (pass == 0)
                start[cell + 2]++;
            else
                list[start[cell + 1]++] = (int)k;
        }
        for (size_t c = 2; pass == 0 && c <= cells; c++)
            start[c] += start[c - 1];
    }
    units->index = (struct pairs_index){start, list};
}

/* Frontiers of the tasks alone, each with an idle entry at cost 0. */
static void make_frontier(struct units *units, struct arena *scratch)
{
    const struct menus *alone = &units->p->alone;
    size_t n = alone->n, from = n > 0 ? alone->start[0] : 0;
    size_t total = n > 0 ? alone->start[n] - from + n : 0, k = 0;
    size_t *start = arena_alloc(scratch, (n + 1) * sizeof *start);
    size_t *origin = arena_alloc(scratch, total * sizeof *origin);
    int *cost = arena_alloc(scratch, total * sizeof *cost);
    double *value = arena_alloc(scratch, total * sizeof *value);
    for (size_t i = 0; i < n; i++) {
        start[i] = k;
        origin[k++] = idle;
        for (size_t e = alone->start[i]; e < alone->start[i + 1]; e++, k++) {
            origin[k] = e;
            cost[k] = alone->cost[e];
            value[k] = alone->value[e];
        }
    }
    start[n] = k;
    struct menus with_idle = {n, start, cost, value, units->p->capacity};
    struct frontier f = menus_frontier(&with_idle, scratch);
    size_t *entry = arena_alloc(scratch, f.start[n] * sizeof *entry);
    for (size_t e = 0; e < f.start[n]; e++)
        entry[e] = origin[f.entry[e]];
    f.entry = entry;
    units->front = f;
}

static void offer(struct way *by_cost, int capacity, int cost, struct way way)
{
    if (cost <= capacity && way.value > by_cost[cost].value)
        by_cost[cost] = way;
}

/* All ways of tasks a and b (a itself when it is alone) into by_cost. */
static void list_ways(const struct units *units, size_t a, size_t b,
                      struct way *by_cost)
{
    const struct frontier *f = &units->front;
    const struct pairs_problem *p = units->p;
    for (size_t x = f->start[a]; x < f->start[a + 1]; x++) {
        if (f->cost[x] > p->capacity)
            break; /* costs rise */
        if (a == b)
            offer(by_cost, p->capacity, f->cost[x],
                  (struct way){f->value[x], PAIRS_NONE, {f->entry[x], idle}});
        for (size_t y = f->start[b]; a != b && y < f->start[b + 1] &&
                                     f->cost[y] <= p->capacity - f->cost[x];
             y++)
            offer(by_cost, p->capacity, f->cost[x] + f->cost[y],
                  (struct way){f->value[x] + f->value[y],
                               PAIRS_NONE,
                               {f->entry[x], f->entry[y]}});
    }
    if (a == b)
        return;
    size_t cell = a * p->alone.n + b;
    for (size_t k = units->index.start[cell]; k < units->index.start[cell + 1];
         k++) {
        size_t pair = (size_t)units->index.list[k];
        for (size_t e = p->together.start[pair];
             e < p->together.start[pair + 1]; e++)
            offer(by_cost, p->capacity, p->together.cost[e],
                  (struct way){p->together.value[e], (int)pair, {e, e}});
    }
}

/* Appends a unit with the ways in by_cost to the menus, and clears by_cost. */
static void add_unit(struct unit_menus *menus, struct way *by_cost,
                     int capacity, size_t task)
{
    size_t k = menus->start[menus->n];
    double best = -INFINITY;
    menus->task[menus->n++] = task;
    for (int c = 0; c <= capacity; c++) {
        if (by_cost[c].value > best) {
            best = by_cost[c].value;
            menus->cost[k] = c;
            menus->value[k] = best;
            menus->way[k++] = by_cost[c];
        }
        by_cost[c].value = -INFINITY;
    }
    menus->start[menus->n] = k;
}

/* An upper bound on the entries of all menus of a pairing. */
static size_t most_entries(const struct units *units, const int *partner)
{
    const struct pairs_problem *p = units->p;
    const struct frontier *f = &units->front;
    size_t n = p->alone.n, width = (size_t)p->capacity + 1, total = 0;
    for (size_t i = 0; i < n; i++) {
        size_t ways = f->start[i + 1] - f->start[i];
        if (partner[i] >= 0 && (size_t)partner[i] > i) {
            size_t j = (size_t)partner[i];
            size_t from = units->index.start[i * n + j];
            size_t to = units->index.start[i * n + j + 1];
            ways *= f->start[j + 1] - f->start[j];
            for (; from < to; from++) {
                size_t k = (size_t)units->index.list[from];
                ways += p->together.start[k + 1] - p->together.start[k];
            }
        }
        total += ways < width ? ways : width;
    }
    return total;
}

static struct unit_menus make_menus(struct units *units, const int *partner)
{
    size_t n = units->p->alone.n, width = (size_t)units->p->capacity + 1;
    size_t most = most_entries(units, partner);
    struct arena *inner = &units->inner;
    struct unit_menus menus = {0};
    arena_reset(inner);
    struct way *by_cost = arena_alloc(inner, width * sizeof *by_cost);
    menus.start = arena_alloc(inner, (n + 1) * sizeof *menus.start);
    menus.task = arena_alloc(inner, n * sizeof *menus.task);
    menus.cost = arena_alloc(inner, most * sizeof *menus.cost);
    menus.value = arena_alloc(inner, most * sizeof *menus.value);
    menus.way = arena_alloc(inner, most * sizeof *menus.way);
    for (size_t c = 0; c < width; c++)
        by_cost[c].value = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        size_t other = partner[i] < 0 ? i : (size_t)partner[i];
        if (other < i)
            continue;
        list_ways(units, i, other, by_cost);
        add_unit(&menus, by_cost, units->p->capacity, i);
    }
    return menus;
}

/* The best choice when only tasks i and partner[i] may be paired. Writes
 * `choice` and returns its value. */
static double units_solve(struct units *units, const int *partner,
                          struct pairs_choice *choice)
{
    struct unit_menus menus = make_menus(units, partner);
    struct sumrow_result r;
    struct menus row = {menus.n, menus.start, menus.cost, menus.value,
                        units->p->capacity};
    size_t *entry = arena_alloc(&units->inner, menus.n * sizeof *entry);
    if (sumrow_solve(&row, entry, &r, &units->inner, NULL) != FIRN_OK)
        FIRN_BUG("pairs: a unit that cannot be idle");
    for (size_t u = 0; u < menus.n; u++) {
        const struct way *way = &menus.way[entry[u]];
        size_t i = menus.task[u];
        choice[i] = (struct pairs_choice){way->pair, way->entry[0]};
        if (partner[i] >= 0)
            choice[partner[i]] =
                (struct pairs_choice){way->pair, way->entry[1]};
    }
    return r.value;
}

/* --- the search
 * --------------------------------------------------------------*/

/* Far more than are ever needed: a guard against an endless loop by rounding.
 */
enum { MOST_STEPS = 100 };

/* A pairing with its entries at some price. */
struct piece {
    double value;
    int64_t cost;
};

struct search {
    const struct pairs_problem *p;
    struct units units;
    struct matching *matching;
    double *net;        /* [task]: s_i at the price evaluated last */
    int *cost;          /* [task]: of the entry behind it */
    double *gain;       /* [task][task]: weights of the matching */
    double *pair_value; /* [task][task]: value and cost behind them */
    int *pair_cost;
    int *partner;
    struct pairs_choice *trial, *best;
    struct pairs_result result;
};

double pairs_gap(const struct pairs_result *result)
{
    return result->bound > 0 ? (result->bound - result->value) / result->bound
                             : 0;
}

static enum firn_status check_menus(const struct menus *menus, const char *what,
                                    struct firn_error *err)
{
    for (size_t i = 0; i < menus->n; i++)
        for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
            if (menus->cost[e] < 0 || !isfinite(menus->value[e]))
                return firn_fail(err, FIRN_EINVAL,
                                 "pairs: %s %zu, entry %zu: cost %d, value %g",
                                 what, i + 1, e - menus->start[i] + 1,
                                 menus->cost[e], menus->value[e]);
    return FIRN_OK;
}

static enum firn_status check(const struct pairs_problem *p,
                              struct firn_error *err)
{
    if (p->capacity < 0)
        return firn_fail(err, FIRN_EINVAL, "pairs: capacity %d", p->capacity);
    FIRN_TRY(check_menus(&p->alone, "task", err));
    FIRN_TRY(check_menus(&p->together, "pair", err));
    for (size_t k = 0; k < p->together.n; k++) {
        int a = p->first[k], b = p->second[k], n = (int)p->alone.n;
        if (a < 0 || b < 0 || a >= n || b >= n || a == b)
            return firn_fail(err, FIRN_EINVAL,
                             "pairs: pair %zu of tasks %d and %d of %d", k + 1,
                             a, b, n);
    }
    return FIRN_OK;
}

static void start(struct search *s, const struct pairs_problem *p,
                  struct arena *scratch)
{
    size_t n = p->alone.n;
    *s = (struct search){.p = p};
    s->units = (struct units){.p = p};
    index_pairs(&s->units, scratch);
    make_frontier(&s->units, scratch);
    s->matching = matching_new(scratch, n);
    s->net = arena_alloc(scratch, n * sizeof *s->net);
    s->cost = arena_alloc(scratch, n * sizeof *s->cost);
    s->gain = arena_alloc(scratch, n * n * sizeof *s->gain);
    s->pair_value = arena_alloc(scratch, n * n * sizeof *s->pair_value);
    s->pair_cost = arena_alloc(scratch, n * n * sizeof *s->pair_cost);
    s->partner = arena_alloc(scratch, n * sizeof *s->partner);
    s->trial = arena_alloc(scratch, n * sizeof *s->trial);
    s->best = arena_alloc(scratch, n * sizeof *s->best);
    for (size_t i = 0; i < n; i++)
        s->best[i] = (struct pairs_choice){PAIRS_NONE, idle};
    s->result.bound = INFINITY;
}

/* The entry of menu i with the best net value, of equal ones the cheapest;
 * `idle` when none is above `least`. */
static size_t best_entry(const struct menus *menus, size_t i, double price,
                         double least, int capacity)
{
    size_t best = idle;
    for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++) {
        double net = menus->value[e] - price * menus->cost[e];
        if (menus->cost[e] > capacity)
            continue;
        if (net > least || (best != idle && net == least &&
                            menus->cost[e] < menus->cost[best])) {
            least = net;
            best = e;
        }
    }
    return best;
}

static void price_tasks(struct search *s, double price)
{
    const struct menus *alone = &s->p->alone;
    for (size_t i = 0; i < alone->n; i++) {
        size_t e = best_entry(alone, i, price, 0, s->p->capacity);
        s->cost[i] = e == idle ? 0 : alone->cost[e];
        s->net[i] = e == idle ? 0 : alone->value[e] - price * alone->cost[e];
    }
}

static void price_pairs(struct search *s, double price)
{
    const struct menus *together = &s->p->together;
    size_t n = s->p->alone.n;
    for (size_t c = 0; c < n * n; c++)
        s->gain[c] = -INFINITY;
    for (size_t k = 0; k < together->n; k++) {
        size_t a = (size_t)s->p->first[k], b = (size_t)s->p->second[k];
        size_t cell = a < b ? a * n + b : b * n + a;
        double apart = s->net[a] + s->net[b];
        size_t e = best_entry(together, k, price, s->gain[cell] + apart,
                              s->p->capacity);
        if (e == idle)
            continue;
        s->gain[cell] = together->value[e] - price * together->cost[e] - apart;
        s->pair_value[cell] = together->value[e];
        s->pair_cost[cell] = together->cost[e];
    }
}

/* Pairs the two tasks that gain most, again and again: not the heaviest
 * matching, but near enough to guess a price by. */
static void pair_greedily(struct search *s)
{
    size_t n = s->p->alone.n;
    for (size_t i = 0; i < n; i++)
        s->partner[i] = PAIRS_NONE;
    for (;;) {
        size_t best = n * n;
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; s->partner[i] < 0 && j < n; j++)
                if (s->partner[j] < 0 && s->gain[i * n + j] > 0 &&
                    (best == n * n || s->gain[i * n + j] > s->gain[best]))
                    best = i * n + j;
        if (best == n * n)
            return;
        s->partner[best / n] = (int)(best % n);
        s->partner[best % n] = (int)(best / n);
    }
}

/* A pairing for this price in s->partner, and its piece: the best one, or a
 * quick guess at it. */
static struct piece evaluate(struct search *s, double price, bool is_guess)
{
    size_t n = s->p->alone.n;
    struct piece piece = {0, 0};
    price_tasks(s, price);
    price_pairs(s, price);
    if (is_guess)
        pair_greedily(s);
    else
        matching_solve(s->matching, n, s->gain, s->partner);
    s->result.pairings += !is_guess;
    for (size_t i = 0; i < n; i++) {
        size_t j = s->partner[i] < 0 ? i : (size_t)s->partner[i];
        if (j == i) {
            piece.value += s->net[i] + price * s->cost[i];
            piece.cost += s->cost[i];
        } else if (i < j) {
            piece.value += s->pair_value[i * n + j];
            piece.cost += s->pair_cost[i * n + j];
        }
    }
    return piece;
}

/* Turns the pairing in s->partner into a choice that fits. */
static void try_pairing(struct search *s)
{
    double value = units_solve(&s->units, s->partner, s->trial);
    if (value <= s->result.value)
        return;
    struct pairs_choice *spare = s->best;
    s->result.value = value;
    s->best = s->trial;
    s->trial = spare;
}

static double line_at(const struct search *s, struct piece piece, double price)
{
    return piece.value + price * (double)(s->p->capacity - piece.cost);
}

static bool is_close(const struct search *s)
{
    double tolerance = s->p->tolerance > 0 ? s->p->tolerance : 1e-6;
    return pairs_gap(&s->result) <= tolerance;
}

/* Where two pieces meet. */
static double meet(struct piece left, struct piece right)
{
    return (left.value - right.value) / (double)(left.cost - right.cost);
}

/* About the price of the bound, by greedy pairings; 0 if they fit at price 0.
 */
static double guess_price(struct search *s)
{
    struct piece right = {0, 0}, left = evaluate(s, 0, true);
    double price = 0;
    if (left.cost <= s->p->capacity)
        return 0;
    for (int step = 0; step < 12; step++) {
        price = fmax(0, meet(left, right)); /* these are not true pieces */
        struct piece piece = evaluate(s, price, true);
        try_pairing(s);
        double met = line_at(s, left, price);
        if (line_at(s, piece, price) <= met + 1e-3 * fabs(met))
            break;
        if (piece.cost > s->p->capacity)
            left = piece;
        else
            right = piece;
    }
    return price;
}

/* The best pairing at this price: a bound, and a choice that fits. */
static struct piece visit(struct search *s, double price)
{
    struct piece piece = evaluate(s, price, false);
    double bound = line_at(s, piece, price);
    if (bound < s->result.bound) {
        s->result.bound = bound;
        s->result.price = price;
    }
    try_pairing(s);
    return piece;
}

/* Looks for pieces on both sides of the capacity, around `price` and ever
 * further from it. False when the bound is found on the way. */
static bool bracket(struct search *s, double price, struct piece *left,
                    struct piece *right)
{
    struct piece piece = visit(s, price);
    bool is_left = piece.cost > s->p->capacity;
    *left = *right = piece;
    if (is_left && price == 0) {
        *right = (struct piece){0, 0}; /* all idle */
        return true;
    }
    double far = 0.01;
    for (int step = 0; step < MOST_STEPS && !is_close(s); step++) {
        double next = is_left ? price * (1 + far) : fmax(0, price * (1 - far));
        if (!is_left && price == 0)
            return false; /* the best entry of every task fits */
        piece = visit(s, next);
        price = next;
        far *= 4;
        *(is_left ? right : left) = piece;
        if (is_left != (piece.cost > s->p->capacity))
            return true;
        *(is_left ? left : right) = piece;
    }
    return false;
}

/* Minimises D; afterwards the bound and its price are in the result. */
static void search_price(struct search *s)
{
    struct piece left, right;
    if (!bracket(s, guess_price(s), &left, &right))
        return;
    for (int step = 0; step < MOST_STEPS && !is_close(s); step++) {
        double price = meet(left, right), met = line_at(s, left, price);
        struct piece piece = visit(s, price);
        if (line_at(s, piece, price) <= met + 1e-12 * fabs(met))
            return;
        if (piece.cost > s->p->capacity)
            left = piece;
        else
            right = piece;
    }
}

/* Tasks a < b become a pair; the tasks they were paired with are left alone,
 * or become one too. */
struct swap {
    double loss; /* of net value, at the price of the bound */
    int a, b;
    bool is_double;
};

static int least_loss_first(const void *left, const void *right)
{
    const struct swap *x = left, *y = right;
    if (x->loss != y->loss)
        return x->loss < y->loss ? -1 : 1;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
    return (int)y->is_double - (int)x->is_double;
}

static double gain_of(const struct search *s, int a, int b)
{
    size_t n = s->p->alone.n;
    if (a < 0 || b < 0)
        return 0;
    return a < b ? s->gain[(size_t)a * n + (size_t)b]
                 : s->gain[(size_t)b * n + (size_t)a];
}

/* The pairing of the best choice, and how much less than the bound its pieces
 * are worth at the bound's price. */
static double load_best(struct search *s, int *base)
{
    double worth = s->result.price * s->p->capacity;
    for (size_t i = 0; i < s->p->alone.n; i++) {
        int pair = s->best[i].pair, self = (int)i;
        base[i] = PAIRS_NONE;
        if (pair != PAIRS_NONE)
            base[i] = s->p->first[pair] == self ? s->p->second[pair]
                                                : s->p->first[pair];
        worth += s->net[i] + (base[i] > self ? gain_of(s, self, base[i]) : 0);
    }
    return s->result.bound - worth;
}

/* The swaps from `base` that could lead to a better choice, the most likely
 * ones first: any choice with this pairing is worth at most bound - loss. */
static size_t list_swaps(const struct search *s, const int *base, double loss,
                         struct swap *swaps)
{
    int n = (int)s->p->alone.n;
    size_t nswaps = 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            double change = gain_of(s, a, b) - gain_of(s, a, base[a]) -
                            gain_of(s, b, base[b]);
            double both = gain_of(s, base[a], base[b]);
            bool is_double = base[a] >= 0 && base[b] >= 0 && both > 0;
            change += is_double ? both : 0;
            if (base[a] != b &&
                loss - change < s->result.bound - s->result.value)
                swaps[nswaps++] = (struct swap){loss - change, a, b, is_double};
        }
    qsort(swaps, nswaps, sizeof *swaps, least_loss_first);
    return nswaps;
}

static void apply_swap(struct search *s, const int *base, struct swap swap)
{
    int a = swap.a, b = swap.b, c = base[a], d = base[b];
    memcpy(s->partner, base, s->p->alone.n * sizeof *base);
    if (c >= 0)
        s->partner[c] = swap.is_double ? d : PAIRS_NONE;
    if (d >= 0)
        s->partner[d] = swap.is_double ? c : PAIRS_NONE;
    s->partner[a] = b;
    s->partner[b] = a;
}

/* Tries pairings next to the best one until none is better. */
static void improve(struct search *s, struct arena *scratch)
{
    size_t n = s->p->alone.n;
    int left = s->p->rounds > 0 ? s->p->rounds : 40;
    int *base = arena_alloc(scratch, n * sizeof *base);
    struct swap *swaps = arena_alloc(scratch, n * n * sizeof *swaps);
    price_tasks(s, s->result.price);
    price_pairs(s, s->result.price);
    for (bool is_better = true; is_better && left > 0;) {
        double loss = load_best(s, base), before = s->result.value;
        size_t nswaps = list_swaps(s, base, loss, swaps);
        is_better = false;
        for (size_t k = 0; k < nswaps && left > 0 && !is_better; k++) {
            apply_swap(s, base, swaps[k]);
            try_pairing(s);
            is_better = s->result.value > before;
            left--;
        }
    }
}

enum firn_status pairs_solve(const struct pairs_problem *problem,
                             struct pairs_choice *choice,
                             struct pairs_result *result, struct arena *scratch,
                             struct firn_error *err)
{
    FIRN_TRY(check(problem, err));
    struct search s;
    start(&s, problem, scratch);
    search_price(&s);
    if (!is_close(&s))
        improve(&s, scratch);
    memcpy(choice, s.best, problem->alone.n * sizeof *choice);
    *result = s.result;
    result->bound = fmax(result->bound, result->value);
    arena_release(&s.units.inner);
    return FIRN_OK;
}
