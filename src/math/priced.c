/* priced.c - prices for pools, by columns generated; the bound they prove.
 *
 * Let unit prices be p >= 0. If every item takes the choice with the largest
 * value - price * units (or none, at 0), then
 *
 *     bound(p) = sum over pools of p * capacity
 *              + sum over items of max(0, value - p * units)
 *
 * is at least the best sum that fits (Lagrangian relaxation of the capacity
 * rows). For a choice of several pools price * units is the sum over them; all
 * that follows holds for it too. The least bound over all p is the value of the
 * linear relaxation, which differs from the best by a few items at most, one
 * for each pool.
 *
 * The prices are those of a small linear program over whole answers k, each
 * with its value v_k and use u_k of the pools (Dantzig and Wolfe):
 *
 *     maximise sum x_k v_k,  sum x_k u_k <= capacity,  sum x_k = 1,  x >= 0
 *
 * Its rows are the pools and one more, so a basis is a matrix of this size;
 * the best answer to the present prices is the column that enters, and columns
 * that left are forgotten. Prices of early bases jump about, so answers are
 * asked for at prices half way to the best ones so far, and at the basis' own
 * only when those bring nothing (smoothing; Wentges 1997).
 *
 * Invariants:
 * (1) `bound` is bound(p) of `price`, whatever rounding does to the basis;
 * (2) a choice that takes at least as much of every pool as another one of the
 *     item, and is not worth more, is left out;
 * (3) `chosen` always fits;
 * (4) no two takes of a choice are of the same pool.
 *
 * Cost: a set of prices is O(takes of all choices + pools^2); 20 to 60 of them
 * as a rule. A choice of one pool has all its numbers in its option: further
 * takes are looked up only where there are some.
 */
#include "math/priced.h"
#include "base/arena.h"
#include "math/cbc.h"
#include "math/priced_work.h"
#include <firn/status.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = PRICED_POOLS_MAX + 1 };

/* ---- further takes ---- */

double priced_price_of(const struct priced_work *work, int more,
                       const double *price)
{
    double sum = 0;
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        sum += price[t->pool] * t->units;
    return sum;
}

void priced_add_more(const struct priced_work *work, int more, int sign,
                     int *units)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        units[t->pool] += sign * t->units;
}

int priced_more_in(const struct priced_work *work, int more, int pool)
{
    for (const struct priced_take *t = &work->take[more]; t->pool >= 0; t++)
        if (t->pool == pool)
            return t->units;
    return 0;
}

/* ---- reducing ---- */

/* Units that a choice takes of a pool. */
static int units_of(const struct priced_choice *choice, int pool)
{
    if (choice->pool == pool)
        return choice->units;
    for (int i = 0; i < choice->nmore; i++)
        if (choice->more[i].pool == pool)
            return choice->more[i].units;
    return 0;
}

/* Does `a` take no more of any pool than `b`? Then `is_less` says whether it
 * takes less of some. */
static bool takes_no_more(const struct priced_choice *a,
                          const struct priced_choice *b, bool *is_less)
{
    int theirs = units_of(b, a->pool);
    if (a->units > theirs || a->nmore > b->nmore)
        return false;
    *is_less = a->units < theirs || a->nmore < b->nmore;
    for (int i = 0; i < a->nmore; i++) {
        theirs = units_of(b, a->more[i].pool);
        if (a->more[i].units > theirs)
            return false;
        *is_less = *is_less || a->more[i].units < theirs;
    }
    return true;
}

static bool is_too_large(const struct priced_choice *choice,
                         const int *capacity)
{
    if (choice->units > capacity[choice->pool])
        return true;
    for (int i = 0; i < choice->nmore; i++)
        if (choice->more[i].units > capacity[choice->more[i].pool])
            return true;
    return false;
}

/* Is choice `c` never better than another one of the same item: (2)? */
static bool is_dominated_mixed(const struct priced_item *item, int c)
{
    const struct priced_choice *it = &item->choices[c];
    for (int k = 0; k < item->nchoices; k++) {
        const struct priced_choice *other = &item->choices[k];
        bool is_less;
        if (other->value < it->value || k == c ||
            !takes_no_more(other, it, &is_less))
            continue;
        if (is_less || other->value > it->value || k < c)
            return true;
    }
    return false;
}

/* The same of a choice of one pool: another one of that pool only can take no
 * more. */
static bool is_dominated(const struct priced_item *item, int c)
{
    const struct priced_choice *it = &item->choices[c];
    for (int k = 0; k < item->nchoices; k++) {
        const struct priced_choice *other = &item->choices[k];
        if (other->pool != it->pool || other->units > it->units ||
            other->value < it->value || k == c || other->nmore > 0)
            continue;
        if (other->units < it->units || other->value > it->value || k < c)
            return true;
    }
    return false;
}

static bool is_pointless(const struct priced_item *item, int c,
                         const int *capacity)
{
    const struct priced_choice *it = &item->choices[c];
    if (!(it->value > 0) || is_too_large(it, capacity))
        return true;
    return it->nmore == 0 ? is_dominated(item, c) : is_dominated_mixed(item, c);
}

static bool is_take(int pool, int units, int npools)
{
    return units >= 1 && pool >= 0 && pool < npools;
}

static inline bool is_valid(const struct priced_choice *choice, int npools)
{
    uint32_t pools = 0;
    if (!isfinite(choice->value) || choice->nmore < 0 ||
        !is_take(choice->pool, choice->units, npools))
        return false;
    pools |= (uint32_t)1 << choice->pool;
    for (int i = 0; i < choice->nmore; i++) {
        const struct priced_take *take = &choice->more[i];
        if (!is_take(take->pool, take->units, npools) ||
            (pools >> take->pool & 1) != 0) /* (4) */
            return false;
        pools |= (uint32_t)1 << take->pool;
    }
    return true;
}

/* Takes what is pinned, and counts the further takes of all choices; false when
 * it does not fit. */
static bool take_pinned(const struct priced_problem *problem,
                        struct priced_work *work, double *value)
{
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        for (int c = 0; c < item->nchoices; c++) {
            if (!is_valid(&item->choices[c], problem->npools))
                FIRN_BUG("choice %d of item %d is invalid", c, i);
            if (item->choices[c].nmore > 0)
                work->ntakes += item->choices[c].nmore + 1;
        }
        if (item->pinned == PRICED_NONE)
            continue;
        const struct priced_choice *c = &item->choices[item->pinned];
        work->capacity[c->pool] -= c->units;
        for (int k = 0; k < c->nmore; k++)
            work->capacity[c->more[k].pool] -= c->more[k].units;
        *value += c->value;
    }
    for (int p = 0; p < problem->npools; p++)
        if (work->capacity[p] < 0)
            return false;
    return true;
}

/* Memory for the items and choices of the problem. */
static void new_lists(const struct priced_problem *problem,
                      struct priced_work *work, struct arena *scratch)
{
    size_t n = (size_t)problem->nitems, m = 0;
    for (size_t i = 0; i < n; i++)
        m += (size_t)problem->items[i].nchoices;
    work->item = arena_alloc(scratch, (n + 1) * sizeof(int));
    work->first = arena_alloc(scratch, (n + 2) * sizeof(int));
    work->chosen = arena_alloc(scratch, (n + 1) * sizeof(int));
    work->option = arena_alloc(scratch, (m + 1) * sizeof(struct priced_option));
    work->take =
        arena_alloc(scratch, (size_t)(work->ntakes + 1) * sizeof *work->take);
    work->take[0].pool = -1;
    work->ntakes = 1;
}

/* The choice as an option, with its further takes. */
static struct priced_option option_from(struct priced_work *work,
                                        const struct priced_choice *choice,
                                        int origin)
{
    struct priced_option out = {choice->pool, choice->units, choice->value,
                                origin, 0};
    if (choice->nmore == 0)
        return out;
    out.more = work->ntakes;
    for (int i = 0; i < choice->nmore; i++)
        work->take[work->ntakes++] = choice->more[i];
    work->take[work->ntakes++] = (struct priced_take){-1, 0};
    return out;
}

/* False when what is pinned does not fit. */
static bool reduce(const struct priced_problem *problem,
                   struct priced_work *work, struct arena *scratch,
                   double *pinned)
{
    if (problem->npools < 0 || problem->npools > PRICED_POOLS_MAX)
        FIRN_BUG("%d pools", problem->npools);
    work->npools = problem->npools;
    for (int p = 0; p < problem->npools; p++)
        work->capacity[p] = problem->capacity[p];
    if (!take_pinned(problem, work, pinned))
        return false;
    new_lists(problem, work, scratch);
    int at = 0;
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        double most = 0;
        if (item->pinned != PRICED_NONE)
            continue;
        for (int c = 0; c < item->nchoices; c++) {
            const struct priced_choice *it = &item->choices[c];
            if (is_pointless(item, c, work->capacity))
                continue;
            work->option[at++] = option_from(work, it, c);
            most = fmax(most, it->value);
        }
        if (at > work->first[work->n]) {
            work->item[work->n++] = i;
            work->first[work->n] = at;
            work->size += most;
        }
    }
    return true;
}

/* ---- prices ---- */

/* The small linear program: a basis by its inverse. */
struct master {
    int rows; /* pools, and one for "an answer" */
    double inverse[ROWS_MAX][ROWS_MAX];
    double level[ROWS_MAX]; /* of the basic columns */
    double cost[ROWS_MAX];  /* of the basic columns */
    double dual[ROWS_MAX];  /* cost * inverse */
};

static void master_duals(struct master *master)
{
    for (int c = 0; c < master->rows; c++) {
        double sum = 0;
        for (int r = 0; r < master->rows; r++)
            sum += master->cost[r] * master->inverse[r][c];
        master->dual[c] = sum;
    }
}

/* `column` enters; false when nothing can leave. */
static bool master_pivot(struct master *master, const double *column,
                         double cost)
{
    double way[ROWS_MAX];
    int out = -1;
    double least = INFINITY;
    for (int r = 0; r < master->rows; r++) {
        way[r] = 0;
        for (int c = 0; c < master->rows; c++)
            way[r] += master->inverse[r][c] * column[c];
        if (way[r] > 1e-9 && master->level[r] / way[r] < least) {
            least = master->level[r] / way[r];
            out = r;
        }
    }
    if (out < 0)
        return false;
    for (int c = 0; c < master->rows; c++)
        master->inverse[out][c] /= way[out];
    master->level[out] = least;
    master->cost[out] = cost;
    for (int r = 0; r < master->rows; r++) {
        if (r == out || way[r] == 0)
            continue;
        for (int c = 0; c < master->rows; c++)
            master->inverse[r][c] -= way[r] * master->inverse[out][c];
        master->level[r] = fmax(0, master->level[r] - way[r] * least);
    }
    master_duals(master);
    return true;
}

/* The choices of all items at given prices. */
struct answer {
    double value, bound;
    double use[ROWS_MAX]; /* and 1 behind the pools: a column */
    int *chosen;
};

static void add_use(const struct priced_work *work,
                    const struct priced_option *o, double *use)
{
    use[o->pool] += o->units;
    for (const struct priced_take *t = &work->take[o->more]; t->pool >= 0; t++)
        use[t->pool] += t->units;
}

static void ask(const struct priced_work *work, const double *price,
                struct answer *out)
{
    out->value = 0;
    out->bound = 0;
    for (int p = 0; p < work->npools; p++) {
        out->use[p] = 0;
        out->bound += price[p] * work->capacity[p];
    }
    out->use[work->npools] = 1;
    for (int i = 0; i < work->n; i++) {
        double best = 0;
        int which = PRICED_NONE;
        for (int k = work->first[i]; k < work->first[i + 1]; k++) {
            const struct priced_option *o = &work->option[k];
            double net = priced_net_of(work, o, price);
            if (net > best) {
                best = net;
                which = k;
            }
        }
        out->chosen[i] = which;
        if (which == PRICED_NONE)
            continue;
        out->bound += best;
        out->value += work->option[which].value;
        add_use(work, &work->option[which], out->use);
    }
}

/* The least bound, its prices, and what is chosen at them (which need not
 * fit). Returns how many prices were tried. */
static int find_prices(struct priced_work *work, struct arena *scratch)
{
    struct master master = {.rows = work->npools + 1};
    struct answer answer;
    int tried = 0, most = 60 + 20 * work->npools;
    answer.chosen = arena_alloc(scratch, (size_t)(work->n + 1) * sizeof(int));
    for (int r = 0; r < master.rows; r++) { /* all pools idle, no item served */
        master.inverse[r][r] = 1;
        master.level[r] = r < work->npools ? work->capacity[r] : 1;
    }
    work->bound = INFINITY;
    bool is_smooth = false;
    while (tried < most) {
        double price[PRICED_POOLS_MAX];
        double low = 0;
        int idle = -1;
        for (int p = 0; p < work->npools; p++)
            if (master.dual[p] < low - priced_tiny(work))
                low = master.dual[idle = p];
        if (idle >= 0) { /* a pool should have been left idle */
            double column[ROWS_MAX] = {0};
            column[idle] = 1;
            if (!master_pivot(&master, column, 0))
                break;
            tried++; /* no endless loop whatever rounding does */
            continue;
        }
        for (int p = 0; p < work->npools; p++) {
            price[p] = fmax(0, master.dual[p]);
            if (is_smooth)
                price[p] = 0.5 * (price[p] + work->price[p]);
        }
        ask(work, price, &answer);
        tried++;
        if (answer.bound < work->bound) {
            work->bound = answer.bound;
            memcpy(work->price, price, sizeof price);
            memcpy(work->chosen, answer.chosen, (size_t)work->n * sizeof(int));
        }
        double worth = answer.value; /* > 0: the answer should enter */
        for (int r = 0; r < master.rows; r++)
            worth -= master.dual[r] * answer.use[r];
        bool enters = worth > priced_tiny(work);
        if (!enters && !is_smooth)
            break; /* nothing is worth more than the basis: the least bound */
        is_smooth = enters;
        if (enters && !master_pivot(&master, answer.use, answer.value))
            break;
    }
    return tried;
}
/* ---- the whole ---- */

bool priced_solve(const struct priced_problem *problem,
                  const struct priced_limits *limits, struct arena *scratch,
                  int *chosen, struct priced_result *result)
{
    struct priced_work *work = arena_alloc(scratch, sizeof *work);
    double pinned = 0;
    struct priced_result out = {0};
    if (!reduce(problem, work, scratch, &pinned))
        return false;
    out.prices = find_prices(work, scratch);
    priced_fill(work, scratch);
    if (priced_search_rest(work, limits->gap, limits->nodes, scratch,
                           &out.nodes))
        work->bound = fmin(work->bound, work->value + 2 * priced_tiny(work));
    for (int i = 0; i < problem->nitems; i++)
        chosen[i] = problem->items[i].pinned;
    for (int i = 0; i < work->n; i++)
        if (work->chosen[i] != PRICED_NONE)
            chosen[work->item[i]] = work->option[work->chosen[i]].origin;
    out.value = work->value + pinned;
    out.bound = fmax(work->bound, work->value) + pinned;
    out.gap = work->bound > 0 ? (work->bound - work->value) / work->bound : 0;
    if (out.gap <= 1e-9) /* rounding */
        out.gap = 0;
    *result = out;
    return true;
}

/* ---- cbc ---- */

/* One whole column for each choice; a row for each item and for each pool. */
static struct milp as_milp(const struct priced_problem *problem,
                           struct arena *scratch)
{
    size_t n = (size_t)problem->nitems, m = 0, more = 0, nrows = 0, nterms = 0;
    for (size_t i = 0; i < n; i++) {
        m += (size_t)problem->items[i].nchoices;
        for (int c = 0; c < problem->items[i].nchoices; c++)
            more += (size_t)problem->items[i].choices[c].nmore;
    }
    struct milp_col *cols = arena_alloc(scratch, (m + 1) * sizeof *cols);
    struct milp_term *terms =
        arena_alloc(scratch, (2 * (m + 1) + more) * sizeof *terms);
    struct milp_row *rows =
        arena_alloc(scratch, (n + (size_t)problem->npools + 1) * sizeof *rows);
    int col = 0;
    for (size_t i = 0; i < n; i++) {
        const struct priced_item *item = &problem->items[i];
        rows[nrows++] = (struct milp_row){item->pinned == PRICED_NONE ? 0 : 1,
                                          1, terms + nterms, item->nchoices};
        for (int c = 0; c < item->nchoices; c++, col++) {
            cols[col] = (struct milp_col){-item->choices[c].value,
                                          item->pinned == c, 1, true};
            terms[nterms++] = (struct milp_term){col, 1};
        }
    }
    for (int p = 0; p < problem->npools; p++) {
        struct milp_row *row = &rows[nrows++];
        *row = (struct milp_row){0, problem->capacity[p], terms + nterms, 0};
        col = 0;
        for (size_t i = 0; i < n; i++)
            for (int c = 0; c < problem->items[i].nchoices; c++, col++) {
                int units = units_of(&problem->items[i].choices[c], p);
                if (units == 0)
                    continue;
                terms[nterms++] = (struct milp_term){col, units};
                row->nterms++;
            }
    }
    return (struct milp){cols, col, rows, (int)nrows};
}

static void ask_cbc(const struct priced_problem *problem, struct cbc *cbc,
                    struct arena *scratch, int *chosen,
                    struct priced_result *result)
{
    struct milp milp = as_milp(problem, scratch);
    double *x = arena_alloc(scratch, (size_t)(milp.ncols + 1) * sizeof(double));
    if (cbc_solve(cbc, &milp, scratch, x) != CBC_SOLVED)
        return;
    double value = -milp_value(&milp, x);
    double tiny = 1e-9 * fmax(1, fabs(result->bound));
    if (value > result->bound + tiny) {
        cbc->counts[CBC_SOLVED]--;
        cbc->counts[CBC_LIED]++;
        return;
    }
    if (value <= result->value)
        return;
    int col = 0;
    for (int i = 0; i < problem->nitems; i++) {
        chosen[i] = PRICED_NONE;
        for (int c = 0; c < problem->items[i].nchoices; c++, col++)
            if (x[col] == 1)
                chosen[i] = c;
    }
    result->gap *= (result->bound - value) / (result->bound - result->value);
    result->value = value;
    result->by_cbc = true;
}

bool priced_solve_or_ask(const struct priced_problem *problem,
                         const struct priced_limits *limits, double cbc_above,
                         struct cbc *cbc, struct arena *scratch, int *chosen,
                         struct priced_result *result)
{
    if (!priced_solve(problem, limits, scratch, chosen, result))
        return false;
    if (result->gap > cbc_above)
        ask_cbc(problem, cbc, scratch, chosen, result);
    return true;
}
