/* test_partition.c - groups of equal weight, solved apart, put together. */
#include "base/arena.h"
#include "base/rng.h"
#include "math/partition.h"
#include "math/sumrow.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { USERS = 120, ENTRIES = 8, GROUPS = 7, CASES = 200 };

/* Weights 5 4 3 3 1 to two groups: 5 | 4, then 3 to the lighter second (7),
 * 3 to the first (8), 1 to the second (8). Of 5 units 2.5 each; the odd one
 * goes to the first. */
static void weights_are_dealt_heaviest_first(void **state)
{
    (void)state;
    double weight[] = {3, 5, 1, 4, 3};
    int group[5], share[3];
    struct arena arena = {0};
    partition_split(weight, 5, 2, 5, group, share, &arena);
    assert_int_equal(group[1], 0);
    assert_int_equal(group[3], 1);
    assert_int_equal(group[0], 1);
    assert_int_equal(group[4], 0);
    assert_int_equal(group[2], 1);
    assert_int_equal(share[0], 3);
    assert_int_equal(share[1], 2);
    partition_split(NULL, 5, 2, 10, group, share, &arena);
    assert_int_equal(share[0], 6); /* three users of five */
    assert_int_equal(share[1], 4);
    partition_split(NULL, 0, 3, 8, group, share, &arena);
    assert_int_equal(share[0], 3);
    assert_int_equal(share[1], 3);
    assert_int_equal(share[2], 2);
    arena_release(&arena);
}

static void shares_add_up_and_groups_are_even(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (int seed = 1; seed <= CASES; seed++) {
        struct rng rng;
        double weight[USERS], load[GROUPS] = {0}, heaviest = 0;
        int group[USERS], share[GROUPS], sum = 0;
        rng_seed(&rng, (uint64_t)seed);
        size_t n = rng_below(&rng, USERS + 1), k = 1 + rng_below(&rng, GROUPS);
        int capacity = (int)rng_below(&rng, 1000);
        for (size_t i = 0; i < n; i++) {
            weight[i] = rng_exp(&rng, 1);
            heaviest = fmax(heaviest, weight[i]);
        }
        partition_split(weight, n, k, capacity, group, share, &arena);
        for (size_t i = 0; i < n; i++) {
            assert_in_range(group[i], 0, k - 1);
            load[group[i]] += weight[i];
        }
        for (size_t g = 0; g < k; g++) {
            sum += share[g];
            assert_true(share[g] >= 0);
            for (size_t h = 0; h < k; h++)
                if (load[g] - load[h] > heaviest + 1e-9)
                    fail_msg("seed %d: groups weigh %g and %g", seed, load[g],
                             load[h]);
        }
        if (sum != capacity)
            fail_msg("seed %d: shares of %d, capacity %d", seed, sum, capacity);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

struct instance {
    size_t start[USERS + 1];
    int cost[USERS * ENTRIES];
    double value[USERS * ENTRIES];
};

/* Speeds that grow with the square root of the cost. */
static void draw(struct instance *in, struct rng *rng)
{
    for (size_t i = 0; i < USERS; i++) {
        double scale = 0.5 + rng_unit(rng);
        in->start[i + 1] = ENTRIES * (i + 1);
        for (int e = 0; e < ENTRIES; e++) {
            in->cost[ENTRIES * i + (size_t)e] = e;
            in->value[ENTRIES * i + (size_t)e] = scale * sqrt(e);
        }
    }
}

/* The best sum of one group; adds its costs. */
static double solve_group(const struct instance *in, const int *group, int g,
                          int capacity, int64_t *spent)
{
    size_t start[USERS + 1] = {0}, entry[USERS], n = 0, k = 0;
    static int cost[USERS * ENTRIES];
    static double value[USERS * ENTRIES];
    struct sumrow_result r;
    struct arena arena = {0};
    for (size_t i = 0; i < USERS; i++) {
        if (group[i] != g)
            continue;
        for (size_t e = in->start[i]; e < in->start[i + 1]; e++, k++) {
            cost[k] = in->cost[e];
            value[k] = in->value[e];
        }
        start[++n] = k;
    }
    struct menus menus = {n, start, cost, value, capacity};
    assert_int_equal(sumrow_solve(&menus, entry, &r, &arena, NULL), FIRN_OK);
    for (size_t i = 0; i < n; i++)
        *spent += cost[entry[i]];
    arena_release(&arena);
    return r.value;
}

static void groups_solved_apart_fit_together_and_lose_little(void **state)
{
    (void)state;
    static struct instance in;
    struct arena arena = {0};
    for (int seed = 1; seed <= 20; seed++) {
        struct rng rng;
        struct sumrow_result whole;
        int group[USERS], share[GROUPS], capacity = 300;
        size_t entry[USERS];
        int64_t spent = 0;
        double sum = 0;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng);
        struct menus menus = {USERS, in.start, in.cost, in.value, capacity};
        sumrow_solve(&menus, entry, &whole, &arena, NULL);
        partition_split(NULL, USERS, 4, capacity, group, share, &arena);
        for (int g = 0; g < 4; g++)
            sum += solve_group(&in, group, g, share[g], &spent);
        if (spent > capacity || sum > whole.value + 1e-9 ||
            sum < 0.97 * whole.value)
            fail_msg("seed %d: %g of %g for %d of %d", seed, sum, whole.value,
                     (int)spent, capacity);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_dealt_heaviest_first),
        cmocka_unit_test(shares_add_up_and_groups_are_even),
        cmocka_unit_test(groups_solved_apart_fit_together_and_lose_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
