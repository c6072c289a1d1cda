/* iceshare.c - IceFrog's allocation problem, exactly where it can be.
 *
 * One pool: the paper gives max-min (18) to an ILP solver. Over one capacity
 * it needs none: math/maxmin.h finds the leximin choice, of which the max-min
 * is the first part, in near-linear time. The harmonic mean (Pollux's Fitness
 * with p = -1) is the sum of -1 / value over one capacity: math/sumrow.h.
 *
 * Several pools are two problems: which pool each item belongs to, and how
 * much it gets there. math/priced.h settles the first for the largest sum of
 *
 *     -1 / (value + e)^4        e = 0.001, so that nothing is not infinite
 *
 * in which the small values count most, as they do in leximin; then the row of
 * each pool is solved exactly for the items dealt to it. An item that priced.h
 * leaves out stands in the row of its best choice: it may still get something.
 * For the harmonic mean the first answer, with power 1, is the answer.
 *
 * Groups: a row of very many items may be cut as POP does (Narayanan et al.,
 * SOSP 2021; math/partition.h), by what each would take at best. The number of
 * groups is limited so that each item's smallest choice fits in one.
 *
 * Invariants:
 * (1) the units taken from a pool are at most its capacity;
 * (2) equal input gives equal output.
 *
 * Cost: that of the solvers, under 1 ms for 400 items and 960 GPUs. The groups
 * are solved one after the other: all of them together take less time than
 * starting a thread for each would save.
 */
#include "policy/iceshare.h"
#include "math/maxmin.h"
#include "math/partition.h"
#include "math/priced.h"
#include "math/sumrow.h"
#include <string.h>

/* Steps that ties may cost: some milliseconds. */
enum { TIE_WORK = 2000000, PRICED_NODES = 2000 };

/* Some of the items, one pool, and what is left in it. */
struct row {
    const struct iceshare_problem *problem;
    const size_t *item;
    size_t n;
    int pool, capacity;
};

static double utility(enum iceshare_goal goal, double value)
{
    double x = 1 / ((value > 0 ? value : 0) + 1e-3);
    return goal == ICESHARE_HARMONIC ? -x : -(x * x) * (x * x);
}

/* ---- one row ---- */

static bool is_in(const struct row *row, const struct iceshare_choice *choice)
{
    return choice->units == 0 ||
           (choice->pool == row->pool && choice->units <= row->capacity);
}

/* The menus of a row; `from` says which choice each entry is. */
static struct menus menus_of(const struct row *row, size_t *from,
                             struct arena *scratch)
{
    const struct iceshare_problem *problem = row->problem;
    size_t total = 0, k = 0;
    for (size_t i = 0; i < row->n; i++)
        total += problem->items[row->item[i]].n;
    size_t *start = arena_alloc(scratch, (row->n + 1) * sizeof *start);
    int *cost = arena_alloc(scratch, (total + 1) * sizeof *cost);
    double *value = arena_alloc(scratch, (total + 1) * sizeof *value);
    for (size_t i = 0; i < row->n; i++) {
        const struct iceshare_item *item = &problem->items[row->item[i]];
        for (size_t c = 0; c < item->n; c++) {
            const struct iceshare_choice *choice = &item->choices[c];
            if (!is_in(row, choice))
                continue;
            from[k] = c;
            cost[k] = choice->units;
            value[k++] = problem->goal == ICESHARE_LEXIMIN
                             ? choice->value
                             : utility(problem->goal, choice->value);
        }
        start[i + 1] = k;
    }
    return (struct menus){row->n, start, cost, value, row->capacity};
}

static enum firn_status solve_row(const struct row *row, size_t *chosen,
                                  struct arena *scratch, struct firn_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < row->n; i++)
        total += row->problem->items[row->item[i]].n;
    size_t *from = arena_alloc(scratch, (total + 1) * sizeof *from);
    size_t *entry = arena_alloc(scratch, (row->n + 1) * sizeof *entry);
    struct menus menus = menus_of(row, from, scratch);
    if (row->problem->goal == ICESHARE_LEXIMIN) {
        struct maxmin_result result;
        FIRN_TRY(
            maxmin_leximin(&menus, TIE_WORK, entry, &result, scratch, err));
    } else {
        struct sumrow_result result;
        FIRN_TRY(sumrow_solve(&menus, entry, &result, scratch, err));
    }
    for (size_t i = 0; i < row->n; i++)
        chosen[row->item[i]] = from[entry[i]];
    return FIRN_OK;
}

/* ---- groups ---- */

/* What an item takes at least, and at best, in the row; 0: nothing. */
static void needs(const struct row *row, size_t i, int *least, int *best)
{
    const struct iceshare_item *item = &row->problem->items[row->item[i]];
    double value = item->choices[0].value;
    *least = *best = 0;
    for (size_t c = 1; c < item->n; c++) {
        const struct iceshare_choice *choice = &item->choices[c];
        if (!is_in(row, choice) || !(choice->value > item->choices[0].value))
            continue;
        if (*least == 0 || choice->units < *least)
            *least = choice->units;
        if (choice->value > value) {
            value = choice->value;
            *best = choice->units;
        }
    }
}

/* How many groups, and what each item weighs. */
static size_t count_groups(const struct row *row, double *weight)
{
    size_t k = (row->n + row->problem->group - 1) / row->problem->group;
    int most = 1;
    for (size_t i = 0; i < row->n; i++) {
        int least, best;
        needs(row, i, &least, &best);
        weight[i] = best;
        most = least > most ? least : most;
    }
    size_t fit = (size_t)(row->capacity / most);
    k = k < fit ? k : fit;
    return k > 0 ? k : 1;
}

static enum firn_status solve_groups(const struct row *row, size_t *chosen,
                                     struct arena *scratch,
                                     struct firn_error *err)
{
    if (row->problem->group == 0 || row->n <= row->problem->group)
        return solve_row(row, chosen, scratch, err);
    double *weight = arena_alloc(scratch, row->n * sizeof *weight);
    int *group = arena_alloc(scratch, row->n * sizeof *group);
    size_t k = count_groups(row, weight);
    int *share = arena_alloc(scratch, k * sizeof *share);
    size_t *member = arena_alloc(scratch, row->n * sizeof *member);
    partition_split(weight, row->n, k, row->capacity, group, share, scratch);
    for (size_t g = 0; g < k; g++) {
        struct row part = *row;
        part.item = member;
        part.n = 0;
        part.capacity = share[g];
        for (size_t i = 0; i < row->n; i++)
            if ((size_t)group[i] == g)
                member[part.n++] = row->item[i];
        FIRN_TRY(solve_row(&part, chosen, scratch, err));
    }
    return FIRN_OK;
}

/* ---- several pools ---- */

/* Its choices but the first, worth what they add to it. */
static struct priced_item priced_of(const struct iceshare_problem *problem,
                                    size_t i, struct arena *scratch)
{
    const struct iceshare_item *item = &problem->items[i];
    struct priced_choice *choices =
        arena_alloc(scratch, item->n * sizeof *choices);
    double idle = utility(problem->goal, item->choices[0].value);
    for (size_t c = 1; c < item->n; c++) {
        const struct iceshare_choice *choice = &item->choices[c];
        choices[c - 1] = (struct priced_choice){
            .pool = choice->pool,
            .units = choice->units,
            .value = utility(problem->goal, choice->value) - idle};
    }
    return (struct priced_item){choices, (int)item->n - 1, PRICED_NONE};
}

/* Where an item stands: in the pool it was dealt to, or that of its best. */
static int home_of(const struct iceshare_item *item, size_t chosen)
{
    size_t best = item->n > 1 ? 1 : 0;
    if (chosen > 0)
        return item->choices[chosen].pool;
    for (size_t c = 2; c < item->n; c++)
        if (item->choices[c].value > item->choices[best].value)
            best = c;
    return item->choices[best].pool;
}

static void deal(const struct iceshare_problem *problem, size_t *chosen,
                 struct arena *scratch)
{
    struct priced_item *items =
        arena_alloc(scratch, (problem->n + 1) * sizeof *items);
    int *answer = arena_alloc(scratch, (problem->n + 1) * sizeof *answer);
    for (size_t i = 0; i < problem->n; i++)
        items[i] = priced_of(problem, i, scratch);
    struct priced_problem priced = {items, (int)problem->n, problem->capacity,
                                    problem->npools};
    struct priced_limits limits = {1e-4, PRICED_NODES};
    struct priced_result result;
    if (!priced_solve(&priced, &limits, scratch, answer, &result))
        FIRN_BUG("nothing is pinned, and yet it does not fit");
    for (size_t i = 0; i < problem->n; i++)
        chosen[i] = answer[i] == PRICED_NONE ? 0 : (size_t)answer[i] + 1;
}

enum firn_status iceshare_solve(const struct iceshare_problem *problem,
                                size_t *chosen, struct arena *scratch,
                                struct firn_error *err)
{
    size_t *member = arena_alloc(scratch, (problem->n + 1) * sizeof *member);
    int *home = arena_alloc(scratch, (problem->n + 1) * sizeof *home);
    if (problem->npools > 1) {
        deal(problem, chosen, scratch);
        if (problem->goal == ICESHARE_HARMONIC)
            return FIRN_OK;
        for (size_t i = 0; i < problem->n; i++)
            home[i] = home_of(&problem->items[i], chosen[i]);
    }
    for (int pool = 0; pool < problem->npools; pool++) {
        struct row row = {.problem = problem,
                          .item = member,
                          .pool = pool,
                          .capacity = problem->capacity[pool]};
        for (size_t i = 0; i < problem->n; i++)
            if (home[i] == pool)
                member[row.n++] = i;
        if (row.n > 0)
            FIRN_TRY(solve_groups(&row, chosen, scratch, err));
    }
    return FIRN_OK;
}
