/* test_sumrow.c - the multiple-choice knapsack against plain tables. */
#include "base/arena.h"
#include "base/rng.h"
#include "lib/trials.h"
#include "math/sumrow.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MENUS = 60, ENTRIES = 12, COSTS = 400 };

/* How values depend on costs. */
enum kind { FREE, CONCAVE, EQUAL_TO_COST, NEAR_COST, GRID, KINDS };

struct instance {
    size_t start[MENUS + 1];
    int cost[MENUS * ENTRIES];
    double value[MENUS * ENTRIES];
    struct menus menus;
};

static double draw_value(struct rng *rng, enum kind kind, int cost,
                         double power)
{
    switch (kind) {
    case FREE:
        return 20 * rng_unit(rng) - 5;
    case CONCAVE:
        return 10 * power * sqrt(cost);
    case EQUAL_TO_COST:
        return cost;
    case NEAR_COST:
        return cost + rng_unit(rng);
    default:
        return (double)rng_below(rng, 6);
    }
}

static void draw(struct instance *in, struct rng *rng, size_t n)
{
    enum kind kind = (enum kind)rng_below(rng, KINDS);
    int least = 0, most = 0, spread = 1 + (int)rng_below(rng, 30);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length = 1 + rng_below(rng, ENTRIES);
        double power = rng_unit(rng);
        int low = 1000, high = 0;
        in->start[i] = k;
        for (size_t e = 0; e < length; e++, k++) {
            int cost = (int)rng_below(rng, (uint64_t)spread);
            in->cost[k] = e == 0 && rng_below(rng, 2) ? 0 : cost;
            in->value[k] = draw_value(rng, kind, in->cost[k], power);
            low = in->cost[k] < low ? in->cost[k] : low;
            high = in->cost[k] > high ? in->cost[k] : high;
        }
        least += low;
        most += high;
    }
    in->start[n] = k;
    int span = most - least < COSTS ? most - least : COSTS;
    in->menus = (struct menus){n, in->start, in->cost, in->value,
                               least + (int)rng_below(rng, (uint64_t)span + 2)};
}

/* The best sum by the textbook table, nothing pruned. */
static double table(const struct menus *menus)
{
    static double now[60 * COSTS], next[60 * COSTS];
    for (int c = 0; c <= menus->capacity; c++)
        now[c] = 0;
    for (size_t i = 0; i < menus->n; i++) {
        for (int c = 0; c <= menus->capacity; c++) {
            next[c] = -INFINITY;
            for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
                if (menus->cost[e] <= c)
                    next[c] = fmax(next[c],
                                   now[c - menus->cost[e]] + menus->value[e]);
        }
        for (int c = 0; c <= menus->capacity; c++)
            now[c] = next[c];
    }
    return now[menus->capacity];
}

static void check(const struct menus *menus, int seed)
{
    struct arena arena = {0};
    struct sumrow_result r;
    size_t entry[MENUS];
    double best = table(menus), sum = 0;
    int64_t spent = 0;
    assert_int_equal(sumrow_solve(menus, entry, &r, &arena, NULL), FIRN_OK);
    for (size_t i = 0; i < menus->n; i++) {
        assert_in_range(entry[i], menus->start[i], menus->start[i + 1] - 1);
        sum += menus->value[entry[i]];
        spent += menus->cost[entry[i]];
    }
    if (spent > menus->capacity || fabs(sum - r.value) > 1e-9)
        fail_msg("seed %d: costs %d of %d, value %g reported %g", seed,
                 (int)spent, menus->capacity, sum, r.value);
    if (fabs(r.value - best) > 1e-9 * (1 + fabs(best)))
        fail_msg("seed %d: %.12g, best %.12g", seed, r.value, best);
    if (r.bound < best - 1e-9 * (1 + fabs(best)))
        fail_msg("seed %d: bound %.12g, best %.12g", seed, r.bound, best);
    arena_release(&arena);
}

static void a_few_menus_give_the_best_sum(void **state)
{
    (void)state;
    static struct instance in;
    for (int seed = 1; seed <= trials(3000); seed++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, rng_below(&rng, 9));
        check(&in.menus, seed);
    }
}

static void many_menus_give_the_best_sum(void **state)
{
    (void)state;
    static struct instance in;
    for (int seed = 1; seed <= trials(200); seed++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, 20 + rng_below(&rng, MENUS - 19));
        check(&in.menus, seed);
    }
}

/* Capacity 5: {2: 3, 3: 7}, {3: 4, 4: 9}. By worth per unit 7/3 goes first
 * (cost 3), and what is left, 2, buys nothing: 7. The first at 2 and the
 * second at 3 make 7 as well; the second alone at 4 makes 9. The relaxation:
 * 7 + 2 of 4 units at 9/4 = 11.5. */
static void the_best_sum_is_not_the_greedy_one(void **state)
{
    (void)state;
    size_t start[] = {0, 3, 6}, entry[2];
    int cost[] = {0, 2, 3, 0, 3, 4};
    double value[] = {0, 3, 7, 0, 4, 9};
    struct menus menus = {2, start, cost, value, 5};
    struct sumrow_result r;
    struct arena arena = {0};
    sumrow_solve(&menus, entry, &r, &arena, NULL);
    assert_true(r.value == 9 && fabs(r.bound - 11.5) < 1e-12);
    assert_true(fabs(r.price - 2.25) < 1e-12);
    assert_int_equal(entry[0], 0);
    assert_int_equal(entry[1], 5);
    menus.capacity = 7; /* both at their best: nothing to decide */
    sumrow_solve(&menus, entry, &r, &arena, NULL);
    assert_true(r.value == 16 && r.bound == 16 && r.core == 0);
    assert_true(r.price == 0);
    arena_release(&arena);
}

static void bad_menus_are_refused_with_a_sentence(void **state)
{
    (void)state;
    size_t start[] = {0, 1}, entry[1] = {7};
    int cost[] = {-2};
    double value[] = {1};
    struct menus menus = {1, start, cost, value, 4};
    struct sumrow_result r;
    struct firn_error err = {0};
    struct arena arena = {0};
    assert_int_equal(sumrow_solve(&menus, entry, &r, &arena, &err),
                     FIRN_EINVAL);
    assert_string_equal(err.text,
                        "sum over one row: menu 1, entry 1: cost -2, value 1");
    assert_int_equal(entry[0], 7);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_sum_is_not_the_greedy_one),
        cmocka_unit_test(a_few_menus_give_the_best_sum),
        cmocka_unit_test(many_menus_give_the_best_sum),
        cmocka_unit_test(bad_menus_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
