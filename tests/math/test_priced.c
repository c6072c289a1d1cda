/* test_priced.c - one choice each from shared pools, against trying all and
 * against cbc.
 *
 * For every instance: the choices fit, their value is the one reported, no
 * choice is worth more than the bound, and the gap is the difference.
 */
#include "math/priced.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "math/cbc.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 48, CHOICES = 24, POOLS = 4, MORE = 2 };

/* A choice of one pool: pool, units, value. */
#define OF(pool, units, value)      \
    {                               \
        pool, units, value, NULL, 0 \
    }

/* A problem and where its numbers lie. */
struct instance {
    struct priced_choice choices[ITEMS][CHOICES];
    struct priced_take more[ITEMS][CHOICES][MORE];
    struct priced_item items[ITEMS];
    int capacity[POOLS];
    struct priced_problem problem;
};

static const struct priced_limits exact = {0, 1000000};

static bool is_quick(void)
{
    return getenv("FIRN_QUICK") != NULL;
}

/* The sum of what is chosen; NaN when it does not fit, or leaves a pin. */
static double sum_of(const struct priced_problem *problem, const int *chosen)
{
    int used[POOLS] = {0};
    double sum = 0;
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        if (item->pinned != PRICED_NONE && chosen[i] != item->pinned)
            return (double)NAN;
        if (chosen[i] == PRICED_NONE)
            continue;
        if (chosen[i] < 0 || chosen[i] >= item->nchoices)
            return (double)NAN;
        const struct priced_choice *choice = &item->choices[chosen[i]];
        used[choice->pool] += choice->units;
        for (int m = 0; m < choice->nmore; m++)
            used[choice->more[m].pool] += choice->more[m].units;
        sum += choice->value;
    }
    for (int p = 0; p < problem->npools; p++)
        if (used[p] > problem->capacity[p])
            return (double)NAN;
    return sum;
}

static double pinned_value(const struct priced_problem *problem)
{
    double sum = 0;
    for (int i = 0; i < problem->nitems; i++)
        if (problem->items[i].pinned != PRICED_NONE)
            sum += problem->items[i].choices[problem->items[i].pinned].value;
    return sum;
}

/* Solves, and checks everything that holds without knowing the best. */
static struct priced_result solve(const struct priced_problem *problem,
                                  struct priced_limits limits, uint64_t seed)
{
    struct arena scratch = {0};
    struct priced_result result;
    int chosen[ITEMS];
    if (!priced_solve(problem, &limits, &scratch, chosen, &result))
        fail_msg("seed %llu: what is pinned should fit",
                 (unsigned long long)seed);
    double sum = sum_of(problem, chosen);
    double bound = result.bound - pinned_value(problem);
    double gap = bound > 1e-9 ? (result.bound - result.value) / bound : 0;
    bool is_near = result.gap <= limits.gap + 1e-9;
    bool is_out = result.nodes >= limits.nodes;
    if (!(fabs(sum - result.value) < 1e-9) || !(result.value <= result.bound) ||
        fabs(result.gap - gap) > 1e-9 || !(is_near || is_out))
        fail_msg("seed %llu: says %.12g, is worth %.12g, bound %.12g, gap "
                 "%.3g, %ld nodes",
                 (unsigned long long)seed, result.value, sum, result.bound,
                 result.gap, result.nodes);
    arena_release(&scratch);
    return result;
}

/* ---- by hand ---- */

/* Four units. a: 2 for 3; b: 2 for 2 or 3 for 3.5; c: 1 for 1. a and b at 2
 * are worth 5; a, b at 2 and c do not fit (5 units); b at 3 and c 4.5; a and c
 * 4. So 5, which a price of 1 proves: 4 * 1 + (3-2) + 0 + (3.5-3) + 0 = 5.5,
 * and no price does better than the 5.25 of the linear relaxation, in which b
 * takes half of each: the rest is searched. */
static void a_small_problem_is_solved(void **unused)
{
    (void)unused;
    const struct priced_choice a[] = {OF(0, 2, 3)};
    const struct priced_choice b[] = {OF(0, 2, 2), OF(0, 3, 3.5)};
    const struct priced_choice c[] = {OF(0, 1, 1)};
    const struct priced_item items[] = {
        {a, 1, PRICED_NONE}, {b, 2, PRICED_NONE}, {c, 1, PRICED_NONE}};
    const int capacity[] = {4};
    const struct priced_problem problem = {items, 3, capacity, 1};
    struct arena scratch = {0};
    struct priced_result result;
    int chosen[3];
    assert_true(priced_solve(&problem, &exact, &scratch, chosen, &result));
    assert_true(fabs(result.value - 5) < 1e-12 && result.gap < 1e-9);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 0);
    assert_int_equal(chosen[2], PRICED_NONE);
    arena_release(&scratch);
}

/* Two pools of 2. x takes 2 of either, 5 or 4; y only 2 of the first, 4. Both
 * are served when x goes to its second best: 4 + 4. */
static void an_item_gives_way_to_another_pool(void **unused)
{
    (void)unused;
    const struct priced_choice x[] = {OF(0, 2, 5), OF(1, 2, 4)};
    const struct priced_choice y[] = {OF(0, 2, 4)};
    const struct priced_item items[] = {{x, 2, PRICED_NONE},
                                        {y, 1, PRICED_NONE}};
    const int capacity[] = {2, 2};
    const struct priced_problem problem = {items, 2, capacity, 2};
    struct priced_result result = solve(&problem, exact, 0);
    assert_true(result.value == 8 && result.gap < 1e-9);
}

/* The pinned one is worth less than nothing and takes half of the pool. */
static void a_pinned_item_keeps_its_choice(void **unused)
{
    (void)unused;
    const struct priced_choice x[] = {OF(0, 1, 3), OF(0, 2, -1)};
    const struct priced_choice y[] = {OF(0, 4, 9), OF(0, 2, 4)};
    const struct priced_item items[] = {{x, 2, 1}, {y, 2, PRICED_NONE}};
    const int capacity[] = {4};
    const struct priced_problem problem = {items, 2, capacity, 1};
    struct priced_result result = solve(&problem, exact, 0);
    assert_true(result.value == 3);
}

/* Two pools of 2. x takes 1 of each for 3, or 2 of the first for 2; y takes 2
 * of the second for 2. Both are served only if x takes the first alone: 4. A y
 * that is worth 0.5 is not: 3. */
static void a_choice_takes_from_two_pools(void **unused)
{
    (void)unused;
    const struct priced_take other[] = {{1, 1}};
    const struct priced_choice x[] = {{0, 1, 3, other, 1}, OF(0, 2, 2)};
    const struct priced_choice y[] = {OF(1, 2, 2)};
    const struct priced_choice poor[] = {OF(1, 2, 0.5)};
    struct priced_item items[] = {{x, 2, PRICED_NONE}, {y, 1, PRICED_NONE}};
    const int capacity[] = {2, 2};
    const struct priced_problem problem = {items, 2, capacity, 2};
    struct priced_result result = solve(&problem, exact, 0);
    assert_true(fabs(result.value - 4) < 1e-12 && result.gap < 1e-9);
    items[1].choices = poor;
    result = solve(&problem, exact, 0);
    assert_true(fabs(result.value - 3) < 1e-12 && result.gap < 1e-9);
}

/* The choice of two pools takes less of the first than the other one, which is
 * worth as much, but some of the second: neither is left out, whichever pool is
 * full. */
static void a_choice_of_two_pools_is_not_left_out_for_one_of_one(void **unused)
{
    (void)unused;
    const struct priced_take other[] = {{1, 1}};
    const struct priced_choice x[] = {OF(0, 2, 1), {0, 1, 1, other, 1}};
    const struct priced_item items[] = {{x, 2, PRICED_NONE}};
    const int first_full[] = {1, 1}, second_full[] = {2, 0};
    const struct priced_problem one = {items, 1, first_full, 2};
    const struct priced_problem two = {items, 1, second_full, 2};
    assert_true(solve(&one, exact, 0).value == 1);
    assert_true(solve(&two, exact, 0).value == 1);
}

/* A pinned choice of two pools leaves 1 of each; y needs 2 of either. */
static void a_pinned_choice_takes_from_all_its_pools(void **unused)
{
    (void)unused;
    const struct priced_take other[] = {{1, 2}};
    const struct priced_choice x[] = {{0, 2, -1, other, 1}};
    const struct priced_choice y[] = {OF(0, 2, 5), OF(1, 2, 5), OF(1, 1, 1)};
    const struct priced_item items[] = {{x, 1, 0}, {y, 3, PRICED_NONE}};
    const int capacity[] = {3, 3}, too_few[] = {3, 1};
    const struct priced_problem problem = {items, 2, capacity, 2};
    const struct priced_problem tight = {items, 2, too_few, 2};
    struct arena scratch = {0};
    struct priced_result result = solve(&problem, exact, 0);
    int chosen[2];
    assert_true(result.value == 0);
    assert_false(priced_solve(&tight, &exact, &scratch, chosen, &result));
    arena_release(&scratch);
}

static void pins_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    const struct priced_choice x[] = {OF(0, 3, 1)};
    const struct priced_item items[] = {{x, 1, 0}, {x, 1, 0}};
    const int capacity[] = {5};
    const struct priced_problem problem = {items, 2, capacity, 1};
    struct arena scratch = {0};
    struct priced_result result = {.value = 7};
    int chosen[2] = {5, 5};
    assert_false(priced_solve(&problem, &exact, &scratch, chosen, &result));
    assert_true(result.value == 7 && chosen[0] == 5 && chosen[1] == 5);
    arena_release(&scratch);
}

static void nothing_to_choose_is_worth_nothing(void **unused)
{
    (void)unused;
    const struct priced_choice poor[] = {OF(0, 1, 0), OF(0, 1, -2),
                                         OF(0, 9, 5)};
    const struct priced_item items[] = {{poor, 3, PRICED_NONE},
                                        {poor, 0, PRICED_NONE}};
    const int capacity[] = {4};
    const struct priced_problem none = {items, 0, capacity, 1};
    const struct priced_problem some = {items, 2, capacity, 1};
    struct priced_result a = solve(&none, exact, 0);
    struct priced_result b = solve(&some, exact, 0);
    assert_true(a.value == 0 && a.gap == 0 && b.value == 0 && b.gap == 0);
}

/* Both are the best; of equal items and choices the first is served. */
static void ties_go_to_the_first(void **unused)
{
    (void)unused;
    const struct priced_choice x[] = {OF(0, 2, 1), OF(0, 2, 1)};
    const struct priced_item items[] = {{x, 2, PRICED_NONE},
                                        {x, 2, PRICED_NONE}};
    const int capacity[] = {2};
    const struct priced_problem problem = {items, 2, capacity, 1};
    struct arena scratch = {0};
    struct priced_result result;
    int chosen[2];
    assert_true(priced_solve(&problem, &exact, &scratch, chosen, &result));
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], PRICED_NONE);
    arena_release(&scratch);
}

/* ---- trying all ---- */

/* Gives a choice units of other pools besides its own: 0, 1 or 2 of them. */
static void draw_more(struct instance *out, struct rng *rng, int i, int c,
                      int most_units)
{
    struct priced_choice *choice = &out->choices[i][c];
    int npools = out->problem.npools;
    int from = (int)rng_below(rng, (uint64_t)npools);
    int n = (int)rng_below(rng, MORE + 1);
    choice->more = out->more[i][c];
    for (int p = 0; p < npools && choice->nmore < n; p++) {
        int pool = (from + p) % npools;
        if (pool != choice->pool)
            out->more[i][c][choice->nmore++] = (struct priced_take){
                pool, 1 + (int)rng_below(rng, (uint64_t)most_units)};
    }
}

static void draw_tiny(struct instance *out, struct rng *rng, bool is_mixed)
{
    out->problem =
        (struct priced_problem){out->items, 1 + (int)rng_below(rng, 6),
                                out->capacity, 1 + (int)rng_below(rng, 3)};
    for (int p = 0; p < out->problem.npools; p++)
        out->capacity[p] = (int)rng_below(rng, 9);
    bool is_rough = rng_below(rng, 2) == 0; /* ties */
    for (int i = 0; i < out->problem.nitems; i++) {
        out->items[i] = (struct priced_item){
            out->choices[i], (int)rng_below(rng, 5), PRICED_NONE};
        for (int c = 0; c < out->items[i].nchoices; c++) {
            double value = 4 * rng_unit(rng) - 0.5;
            out->choices[i][c] = (struct priced_choice)OF(
                (int)rng_below(rng, (uint64_t)out->problem.npools),
                1 + (int)rng_below(rng, 6),
                is_rough ? nearbyint(2 * value) / 2 : value);
            if (is_mixed)
                draw_more(out, rng, i, c, 4);
        }
        if (out->items[i].nchoices > 0 && rng_below(rng, 6) == 0)
            out->items[i].pinned =
                (int)rng_below(rng, (uint64_t)out->items[i].nchoices);
    }
}

static double best_by_trying(const struct priced_problem *problem, int *chosen,
                             int at)
{
    if (at == problem->nitems) {
        double sum = sum_of(problem, chosen);
        return isnan(sum) ? -INFINITY : sum;
    }
    double best = -INFINITY;
    for (int c = PRICED_NONE; c < problem->items[at].nchoices; c++) {
        chosen[at] = c;
        best = fmax(best, best_by_trying(problem, chosen, at + 1));
    }
    return best;
}

static void expect_best(const struct instance *instance, uint64_t seed)
{
    struct arena scratch = {0};
    struct priced_result result;
    int chosen[ITEMS];
    const struct priced_problem *problem = &instance->problem;
    double best = best_by_trying(problem, chosen, 0);
    bool fits = priced_solve(problem, &exact, &scratch, chosen, &result);
    arena_release(&scratch);
    if (fits != isfinite(best))
        fail_msg("seed %llu: the pins fit: %d", (unsigned long long)seed, fits);
    if (!fits)
        return;
    result = solve(problem, exact, seed);
    if (fabs(result.value - best) > 1e-9 || result.bound < best - 1e-9 ||
        result.bound > best + 1e-6)
        fail_msg("seed %llu: %.12g, bound %.12g, best %.12g",
                 (unsigned long long)seed, result.value, result.bound, best);
    /* Without the search the value may be less, and the gap shows it. */
    result = solve(problem, (struct priced_limits){0, 0}, seed);
    if (result.value > best + 1e-9 || result.bound < best - 1e-9)
        fail_msg("seed %llu, no search: %.12g <= %.12g <= %.12g?",
                 (unsigned long long)seed, result.value, best, result.bound);
}

static void try_tiny(bool is_mixed)
{
    static struct instance instance;
    for (uint64_t seed = 1; seed <= (is_quick()                    ? 200
                                     : getenv("FIRN_SOAK") != NULL ? 3000
                                                                   : 1000);
         seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        draw_tiny(&instance, &rng, is_mixed);
        expect_best(&instance, seed);
    }
}

static void tiny_problems_are_solved_as_well_as_by_trying_all(void **unused)
{
    (void)unused;
    try_tiny(false);
}

static void so_are_tiny_problems_with_choices_of_several_pools(void **unused)
{
    (void)unused;
    try_tiny(true);
}

/* ---- against cbc ---- */

/* Every third choice of a job takes other types besides, and is worth more for
 * each GPU that it has so. */
static void mix_types(struct instance *out, struct rng *rng, int i)
{
    for (int c = 0; c < out->items[i].nchoices; c += 3) {
        struct priced_choice *choice = &out->choices[i][c];
        draw_more(out, rng, i, c, 8);
        for (int m = 0; m < choice->nmore; m++)
            choice->value += 0.05 * rng_unit(rng) * choice->more[m].units;
    }
}

/* Jobs on 6 x 4, 2 x 8 and 3 x 8 GPUs of three types, as Sia has them: 1.1
 * less rate^-0.5, in steps of 0.01 every other time, few GPUs allowed to new
 * ones, held configurations undamped. */
static void draw_jobs(struct instance *out, struct rng *rng, int njobs,
                      bool is_mixed)
{
    static const int node[] = {4, 8, 8}, total[] = {24, 16, 24};
    bool is_rough = rng_below(rng, 2) == 0;
    out->problem = (struct priced_problem){out->items, njobs, out->capacity, 3};
    memcpy(out->capacity, total, sizeof total);
    for (int i = 0; i < njobs; i++) {
        int n = 0, most = 1 << rng_below(rng, 6);
        double power = 0.5 + 0.5 * rng_unit(rng);
        double damp = rng_below(rng, 2) ? 1 : rng_unit(rng);
        for (int p = 0; p < 3; p++) {
            double speed = 1 + (1 + p) * rng_unit(rng);
            for (int g = 1; g <= total[p];
                 g = g < node[p] ? 2 * g : g + node[p]) {
                double rate = speed * fm_pow(g, power) * damp + 1e-3;
                double cost = g > most ? 100 : fm_pow(rate, -0.5);
                cost = is_rough ? nearbyint(100 * cost) / 100 : cost;
                out->choices[i][n++] =
                    (struct priced_choice)OF(p, g, 1.1 - cost);
            }
        }
        out->items[i] = (struct priced_item){out->choices[i], n, PRICED_NONE};
        if (is_mixed)
            mix_types(out, rng, i);
        if (i < 6 && rng_below(rng, 3) == 0)
            out->items[i].pinned = (int)rng_below(rng, 3);
    }
}

/* The problem as a program for cbc, built independently of priced.c. */
struct program {
    struct milp_col cols[ITEMS * CHOICES];
    struct milp_term terms[(2 + MORE) * ITEMS * CHOICES];
    struct milp_row rows[ITEMS + POOLS];
    struct milp milp;
};

static void make_program(struct program *out,
                         const struct priced_problem *problem)
{
    int ncols = 0, nterms = 0, nrows = 0;
    for (int i = 0; i < problem->nitems; i++) {
        const struct priced_item *item = &problem->items[i];
        out->rows[nrows++] = (struct milp_row){
            -INFINITY, 1, out->terms + nterms, item->nchoices};
        for (int c = 0; c < item->nchoices; c++) {
            out->terms[nterms++] = (struct milp_term){ncols, 1};
            out->cols[ncols++] = (struct milp_col){-item->choices[c].value,
                                                   item->pinned == c, 1, true};
        }
    }
    for (int p = 0; p < problem->npools; p++) {
        struct milp_row *row = &out->rows[nrows++];
        *row = (struct milp_row){-INFINITY, problem->capacity[p],
                                 out->terms + nterms, 0};
        int col = 0;
        for (int i = 0; i < problem->nitems; i++)
            for (int c = 0; c < problem->items[i].nchoices; c++, col++) {
                const struct priced_choice *choice =
                    &problem->items[i].choices[c];
                int units = choice->pool == p ? choice->units : 0;
                for (int m = 0; m < choice->nmore; m++)
                    units +=
                        choice->more[m].pool == p ? choice->more[m].units : 0;
                if (units == 0)
                    continue;
                out->terms[nterms++] = (struct milp_term){col, units};
                row->nterms++;
            }
    }
    out->milp = (struct milp){out->cols, ncols, out->rows, nrows};
}

/* False when there is no cbc. It stops at improvements below 1e-5. */
static bool compare_with_cbc(uint64_t seed, bool is_mixed)
{
    static struct instance instance;
    static struct program program;
    static double x[ITEMS * CHOICES];
    struct arena scratch = {0};
    struct cbc cbc = {.deadline_s = 300};
    struct rng rng;
    rng_seed(&rng, seed);
    draw_jobs(&instance, &rng, 4 + (int)rng_below(&rng, 37), is_mixed);
    make_program(&program, &instance.problem);
    enum cbc_answer how = cbc_solve(&cbc, &program.milp, &scratch, x);
    arena_release(&scratch);
    if (how == CBC_MISSING)
        return false;
    if (how != CBC_SOLVED)
        fail_msg("seed %llu: cbc %s", (unsigned long long)seed,
                 cbc_answer_text(how));
    double best = -milp_value(&program.milp, x);
    struct priced_result got =
        solve(&instance.problem, (struct priced_limits){0, 20000}, seed);
    if (got.bound < best - 1e-6 ||
        (got.nodes < 20000 && fabs(got.value - best) > 2e-5))
        fail_msg("seed %llu: %.9g <= %.9g; cbc %.9g, gap %.3g",
                 (unsigned long long)seed, got.value, got.bound, best, got.gap);
    return true;
}

static void compare_many(bool is_mixed, uint64_t usually)
{
    uint64_t n = is_quick() ? 8 : getenv("FIRN_SOAK") != NULL ? 300 : usually;
    for (uint64_t seed = 1; seed <= n; seed++)
        if (!compare_with_cbc(seed, is_mixed)) {
            print_message("cbc is not installed\n");
            skip();
        }
}

static void cbc_finds_nothing_better(void **unused)
{
    (void)unused;
    compare_many(false, 35);
}

static void cbc_finds_nothing_better_of_several_pools(void **unused)
{
    (void)unused;
    compare_many(true, 12);
}

/* With the search switched off some gaps stay; then cbc is asked. */
static void cbc_is_asked_above_the_gap_only(void **unused)
{
    (void)unused;
    static struct instance instance;
    struct arena scratch = {0};
    struct cbc real = {.deadline_s = 300};
    struct cbc missing = {.program = "/no/such/cbc", .deadline_s = 300};
    long asked = 0, better = 0;
    for (uint64_t seed = 1; seed <= (is_quick() ? 3 : 15); seed++) {
        struct rng rng;
        struct priced_result alone, with, without;
        const struct priced_limits limits = {0, 0};
        int chosen[ITEMS];
        rng_seed(&rng, seed);
        draw_jobs(&instance, &rng, 12, seed % 2 == 0);
        alone = solve(&instance.problem, limits, seed);
        assert_true(priced_solve_or_ask(&instance.problem, &limits, 0.004,
                                        &missing, &scratch, chosen, &without));
        assert_true(without.value == alone.value && !without.by_cbc);
        assert_true(priced_solve_or_ask(&instance.problem, &limits, 0.004,
                                        &real, &scratch, chosen, &with));
        asked += alone.gap > 0.004;
        better += with.by_cbc;
        assert_int_equal(missing.counts[CBC_MISSING], asked);
        double sum = sum_of(&instance.problem, chosen);
        if (!(fabs(sum - with.value) < 1e-6) || with.value < alone.value ||
            with.gap > alone.gap || with.bound != alone.bound)
            fail_msg("seed %llu: %.9g, then %.9g", (unsigned long long)seed,
                     alone.value, with.value);
        arena_reset(&scratch);
    }
    arena_release(&scratch);
    assert_true(asked > 0);
    if (real.counts[CBC_MISSING] == 0)
        assert_true(is_quick() || better > 0);
}

/* ---- speed ---- */

/* Forty items of 19 choices, ten at a time; the fastest ten, since other
 * programs may use the machine. Ends as soon as ten were fast enough. */
static void forty_jobs_take_less_than_a_millisecond(void **unused)
{
    (void)unused;
    static struct instance instance;
    double least_s = INFINITY;
    if (is_quick()) {
        print_message("not timed in a quick run\n");
        skip();
    }
    for (uint64_t ten = 0; ten < 200 && least_s >= 1e-3; ten++) {
        double begin_s = clock_cpu_s();
        for (uint64_t seed = 10 * ten; seed < 10 * ten + 10; seed++) {
            struct rng rng;
            rng_seed(&rng, seed);
            draw_jobs(&instance, &rng, 40, false);
            solve(&instance.problem, (struct priced_limits){1e-4, 20000}, seed);
        }
        least_s = fmin(least_s, (clock_cpu_s() - begin_s) / 10);
    }
    print_message("%.3f ms each\n", 1e3 * least_s);
    assert_true(least_s < 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_problem_is_solved),
        cmocka_unit_test(an_item_gives_way_to_another_pool),
        cmocka_unit_test(a_pinned_item_keeps_its_choice),
        cmocka_unit_test(a_choice_takes_from_two_pools),
        cmocka_unit_test(a_choice_of_two_pools_is_not_left_out_for_one_of_one),
        cmocka_unit_test(a_pinned_choice_takes_from_all_its_pools),
        cmocka_unit_test(pins_that_do_not_fit_are_refused),
        cmocka_unit_test(nothing_to_choose_is_worth_nothing),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(tiny_problems_are_solved_as_well_as_by_trying_all),
        cmocka_unit_test(so_are_tiny_problems_with_choices_of_several_pools),
        cmocka_unit_test(cbc_finds_nothing_better),
        cmocka_unit_test(cbc_finds_nothing_better_of_several_pools),
        cmocka_unit_test(cbc_is_asked_above_the_gap_only),
        cmocka_unit_test(forty_jobs_take_less_than_a_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
