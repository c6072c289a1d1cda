/* test_matching.c - matchings against all subsets, and by their proofs. */
#include "base/arena.h"
#include "base/rng.h"
#include "lib/trials.h"
#include "math/matching.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SMALL = 14, MOST = 160 };

static double weight[MOST * MOST];
static int partner[MOST];

/* Edges with the given chance; weights real, or whole from -2 to 4 so that
 * many are equal, zero or negative, or spread over nine decades. */
static void draw(struct rng *rng, size_t n)
{
    double chance = rng_below(rng, 3) ? rng_unit(rng) : 1;
    int kind = (int)rng_below(rng, 4);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            double w = -INFINITY;
            if (rng_unit(rng) < chance)
                w = kind == 0   ? rng_unit(rng) - 0.3
                    : kind == 1 ? (double)rng_below(rng, 7) - 2
                    : kind == 2 ? 1 + 0.01 * rng_unit(rng)
                                : pow(10, 9 * rng_unit(rng) - 6);
            weight[i * n + j] = w;
        }
}

/* best[set]: the heaviest matching of the vertices in the set. */
static double by_subsets(size_t n)
{
    static double best[1 << SMALL];
    best[0] = 0;
    for (unsigned set = 1; set < 1U << n; set++) {
        size_t i = 0;
        while (!(set >> i & 1))
            i++;
        unsigned rest = set & ~(1U << i);
        best[set] = best[rest];
        for (size_t j = i + 1; j < n; j++)
            if (rest >> j & 1 && weight[i * n + j] > 0)
                best[set] = fmax(best[set],
                                 best[rest & ~(1U << j)] + weight[i * n + j]);
    }
    return best[(1U << n) - 1];
}

static void assert_is_matching(size_t n, double sum, int seed)
{
    double again = 0;
    for (size_t i = 0; i < n; i++) {
        if (partner[i] < 0)
            continue;
        size_t j = (size_t)partner[i];
        if (j >= n || j == i || partner[j] != (int)i)
            fail_msg("seed %d: %zu is matched to %d", seed, i, partner[i]);
        double w = i < j ? weight[i * n + j] : weight[j * n + i];
        if (!(w > 0))
            fail_msg("seed %d: edge of weight %g", seed, w);
        again += i < j ? w : 0;
    }
    assert_true(fabs(again - sum) <= 1e-12 * (1 + again));
}

static void small_graphs_give_the_heaviest_of_all_matchings(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct matching *m = matching_new(&arena, SMALL);
    for (int seed = 1; seed <= trials(2000); seed++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        size_t n = rng_below(&rng, (seed % 10 == 0 ? SMALL : 10) + 1);
        draw(&rng, n);
        double sum = matching_solve(m, n, weight, partner),
               best = by_subsets(n);
        assert_is_matching(n, sum, seed);
        if (fabs(sum - best) > 1e-12 * (1 + best))
            fail_msg("seed %d: %zu vertices: %.15g, best %.15g", seed, n, sum,
                     best);
        if (!matching_is_proven(m))
            fail_msg("seed %d: no proof", seed);
    }
    arena_release(&arena);
}

static void large_graphs_come_with_a_proof(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct matching *m = matching_new(&arena, MOST);
    for (int seed = 1; seed <= trials(160); seed++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        size_t n = seed % 20 == 0 ? MOST : 15 + rng_below(&rng, 60);
        draw(&rng, n);
        assert_is_matching(n, matching_solve(m, n, weight, partner), seed);
        if (!matching_is_proven(m))
            fail_msg("seed %d: no proof", seed);
    }
    arena_release(&arena);
}

/* Points on a line, close ones weigh more: the odd rings of nearly equal
 * weights that blossoms are made of. */
static void nested_blossoms_come_with_a_proof(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct matching *m = matching_new(&arena, MOST);
    for (int seed = 1; seed <= trials(100); seed++) {
        struct rng rng;
        double at[MOST];
        rng_seed(&rng, (uint64_t)seed);
        size_t n = 5 + 2 * rng_below(&rng, 30);
        for (size_t i = 0; i < n; i++)
            at[i] = (double)rng_below(&rng, 1000);
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++)
                weight[i * n + j] = 1100 - fabs(at[i] - at[j]);
        assert_is_matching(n, matching_solve(m, n, weight, partner), seed);
        if (!matching_is_proven(m))
            fail_msg("seed %d: no proof", seed);
    }
    arena_release(&arena);
}

/* Triangle 0 1 2 of weight 6 with a tail 2-3 of 1: the best is 0-1 and 2-3,
 * 7. With a tail of -1 or 0 it is one edge of the triangle. */
static void a_triangle_with_a_tail_is_matched_by_hand(void **state)
{
    (void)state;
    double w[16] = {0, 6, 6, 0, 0, 0, 6, 0, 0, 0, 0, 1};
    struct arena arena = {0};
    struct matching *m = matching_new(&arena, 4);
    assert_true(matching_solve(m, 4, w, partner) == 7);
    assert_true(partner[0] == 1 && partner[1] == 0 && partner[2] == 3 &&
                partner[3] == 2);
    for (w[11] = -1; w[11] <= 0; w[11]++) {
        assert_true(matching_solve(m, 4, w, partner) == 6);
        assert_true(partner[3] == -1);
    }
    assert_true(matching_solve(m, 0, w, partner) == 0);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_triangle_with_a_tail_is_matched_by_hand),
        cmocka_unit_test(small_graphs_give_the_heaviest_of_all_matchings),
        cmocka_unit_test(large_graphs_come_with_a_proof),
        cmocka_unit_test(nested_blossoms_come_with_a_proof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
