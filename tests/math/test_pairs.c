/* test_pairs.c - tasks in pairs against all subsets, and their constraints. */
#include "base/arena.h"
#include "base/fmath.h"
#include "base/rng.h"
#include "lib/programs.h"
#include "lib/trials.h"
#include "math/pairs.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SMALL = 9, MOST = 80, SIZES = 5, MODES = 2, UNITS = 40 };
enum { PAIRS = MODES * MOST * (MOST - 1) / 2 };

struct instance {
    size_t alone_start[MOST + 1], pair_start[PAIRS + 1];
    int alone_cost[MOST * SIZES], pair_cost[PAIRS * SIZES];
    double alone_value[MOST * SIZES], pair_value[PAIRS * SIZES];
    int first[PAIRS], second[PAIRS];
    struct pairs_problem p;
};

/* Sizes 1, 2, 4, 8, 16; a task's speed grows with a power of its size over
 * the fair one, a pair's with the mean power, times a gain from merging.
 * `is_wild`: values and costs at random instead, some of them negative. */
static size_t menu(struct rng *rng, int *cost, double *value, bool is_wild,
                   double scale, double fair, double power)
{
    for (int e = 0; e < SIZES; e++) {
        cost[e] = is_wild ? (int)rng_below(rng, 9) : 1 << e;
        value[e] = is_wild ? 10 * scale * rng_unit(rng) - 2
                           : scale * fm_pow(cost[e] / fair, power);
    }
    return SIZES;
}

static void draw(struct instance *in, struct rng *rng, size_t n, int capacity,
                 bool is_wild)
{
    double power[MOST], fair = fmax(1, capacity / (double)n);
    size_t k = 0, e = 0;
    for (size_t i = 0; i < n; i++) {
        power[i] = 0.5 + 0.45 * rng_unit(rng);
        in->alone_start[i] = SIZES * i;
        menu(rng, &in->alone_cost[SIZES * i], &in->alone_value[SIZES * i],
             is_wild, 0.5 + rng_unit(rng), fair, power[i]);
    }
    in->alone_start[n] = SIZES * n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            for (int mode = 0; mode < MODES; mode++) {
                double gain = 0.6 + 0.9 * rng_unit(rng);
                if (gain < 0.9)
                    continue; /* merging would not pay */
                bool is_turned = rng_below(rng, 2);
                in->pair_start[k] = e;
                in->first[k] = (int)(is_turned ? j : i);
                in->second[k++] = (int)(is_turned ? i : j);
                e += menu(rng, &in->pair_cost[e], &in->pair_value[e], is_wild,
                          2 * gain, 2 * fair, (power[i] + power[j]) / 2);
            }
    in->pair_start[k] = e;
    in->p = (struct pairs_problem){
        {n, in->alone_start, in->alone_cost, in->alone_value, 0},
        {k, in->pair_start, in->pair_cost, in->pair_value, 0},
        in->first,
        in->second,
        capacity,
        0,
        0};
}

/* best[set][c]: of the tasks in the set with capacity c. */
static double best_of[1 << SMALL][UNITS + 1];

static void better(double *best, const double *from, const struct menus *menus,
                   size_t i, int capacity)
{
    for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
        for (int c = menus->cost[e]; c <= capacity; c++)
            best[c] = fmax(best[c], from[c - menus->cost[e]] + menus->value[e]);
}

static double by_subsets(const struct pairs_problem *p)
{
    for (int c = 0; c <= p->capacity; c++)
        best_of[0][c] = 0;
    for (unsigned set = 1; set < 1U << p->alone.n; set++) {
        size_t i = 0;
        while (!(set >> i & 1))
            i++;
        unsigned rest = set & ~(1U << i);
        for (int c = 0; c <= p->capacity; c++)
            best_of[set][c] = best_of[rest][c];
        better(best_of[set], best_of[rest], &p->alone, i, p->capacity);
        for (size_t k = 0; k < p->together.n; k++) {
            int a = p->first[k], b = p->second[k];
            size_t other = (size_t)(a == (int)i ? b : a);
            if ((a == (int)i || b == (int)i) && rest >> other & 1)
                better(best_of[set], best_of[rest & ~(1U << other)],
                       &p->together, k, p->capacity);
        }
    }
    return best_of[(1U << p->alone.n) - 1][p->capacity];
}

/* Each task is used once, both tasks of a pair have it, the costs are within
 * the capacity, and the value is the one reported. */
static void assert_choice(const struct pairs_problem *p,
                          const struct pairs_choice *choice,
                          const struct pairs_result *r, int seed)
{
    double value = 0;
    int64_t cost = 0;
    for (size_t i = 0; i < p->alone.n; i++) {
        size_t e = choice[i].entry;
        if (choice[i].pair == PAIRS_NONE) {
            if (e == SIZE_MAX)
                continue;
            assert_in_range(e, p->alone.start[i], p->alone.start[i + 1] - 1);
            value += p->alone.value[e];
            cost += p->alone.cost[e];
            continue;
        }
        size_t k = (size_t)choice[i].pair;
        int a = p->first[k], b = p->second[k];
        assert_in_range(e, p->together.start[k], p->together.start[k + 1] - 1);
        if ((a != (int)i && b != (int)i) || choice[a].pair != (int)k ||
            choice[b].pair != (int)k || choice[a].entry != choice[b].entry)
            fail_msg("seed %d: task %zu in pair %zu of %d and %d", seed, i, k,
                     a, b);
        if (a == (int)i) {
            value += p->together.value[e];
            cost += p->together.cost[e];
        }
    }
    if (cost > p->capacity)
        fail_msg("seed %d: costs %d of %d", seed, (int)cost, p->capacity);
    if (fabs(value - r->value) > 1e-9 * (1 + value) || r->bound < r->value)
        fail_msg("seed %d: worth %g, reported %g, bound %g", seed, value,
                 r->value, r->bound);
}

/* The bound is never below the optimum; the value is it nearly always, and
 * never far below. */
static void check_small(bool is_wild)
{
    static struct instance in;
    struct arena arena = {0};
    int nbest = 0, all = trials(600);
    double sum = 0;
    for (int seed = 1; seed <= all; seed++) {
        struct rng rng;
        struct pairs_choice choice[SMALL];
        struct pairs_result r;
        rng_seed(&rng, (uint64_t)seed);
        size_t n = rng_below(&rng, SMALL + 1);
        draw(&in, &rng, n, (int)rng_below(&rng, UNITS + 1), is_wild);
        double best = by_subsets(&in.p);
        assert_int_equal(pairs_solve(&in.p, choice, &r, &arena, NULL), FIRN_OK);
        assert_choice(&in.p, choice, &r, seed);
        if (r.bound < best - 1e-9 * (1 + best))
            fail_msg("seed %d: bound %.12g, best %.12g", seed, r.bound, best);
        double gap = best > 0 ? (best - r.value) / best : 0;
        if (gap > 0.10)
            fail_msg("seed %d: %.12g, best %.12g", seed, r.value, best);
        nbest += gap < 1e-9;
        sum += gap;
        arena_reset(&arena);
    }
    print_message("%d of %d optimal, mean gap %.5f %%\n", nbest, all,
                  100 * sum / all);
    assert_true(nbest >= all * 95 / 100 && sum / all < 0.001);
    arena_release(&arena);
}

static void small_problems_come_out_nearly_always_optimal(void **state)
{
    (void)state;
    check_small(false);
}

static void wild_menus_come_out_nearly_always_optimal(void **state)
{
    (void)state;
    check_small(true);
}

static void large_problems_are_proven_within_one_per_cent(void **state)
{
    (void)state;
    static struct instance in;
    struct arena arena = {0};
    static const struct {
        size_t n;
        int capacity, cases;
    } sizes[] = {{20, 16, 60}, {20, 32, 60},  {40, 32, 40},
                 {40, 64, 40}, {80, 240, 20}, {80, 64, 20}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        double worst = 0;
        for (int seed = 1; seed <= trials(sizes[k].cases); seed++) {
            struct rng rng;
            struct pairs_choice choice[MOST];
            struct pairs_result r;
            rng_seed(&rng, (uint64_t)seed);
            draw(&in, &rng, sizes[k].n, sizes[k].capacity, false);
            pairs_solve(&in.p, choice, &r, &arena, NULL);
            assert_choice(&in.p, choice, &r, seed);
            worst = fmax(worst, pairs_gap(&r));
            arena_reset(&arena);
        }
        print_message("%zu tasks, %d units: gap at most %.3f %%\n", sizes[k].n,
                      sizes[k].capacity, 100 * worst);
        assert_true(worst < 0.01);
    }
    arena_release(&arena);
}

static void values_are_those_of_an_integer_program(void **state)
{
    (void)state;
    static struct instance in;
    struct arena arena = {0};
    struct cbc cbc = {.deadline_s = 300};
    int all = getenv("FIRN_QUICK") != NULL ? 2 : 12, nbest = 0;
    for (int seed = 1; seed <= all; seed++) {
        struct rng rng;
        struct pairs_choice choice[MOST];
        struct pairs_result r;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, 10 + rng_below(&rng, 16), 8 + (int)rng_below(&rng, 50),
             seed % 4 == 0);
        struct milp program = program_of_pairs(&in.p, &arena);
        double *x = arena_alloc(&arena, (size_t)program.ncols * sizeof *x);
        if (cbc_solve(&cbc, &program, &arena, x) != CBC_SOLVED) {
            print_message("no answer from cbc\n");
            arena_release(&arena);
            skip();
        }
        double best = -milp_value(&program, x);
        pairs_solve(&in.p, choice, &r, &arena, NULL);
        assert_choice(&in.p, choice, &r, seed);
        if (r.bound < best * (1 - 1e-6) || r.value > best * (1 + 1e-6) ||
            r.value < 0.99 * best)
            fail_msg("seed %d: %.9g to %.9g, optimum %.9g", seed, r.value,
                     r.bound, best);
        nbest += r.value > best * (1 - 1e-6);
        arena_reset(&arena);
    }
    print_message("%d of %d optimal\n", nbest, all);
    arena_release(&arena);
}

/* Two tasks worth 3 for 2 units each alone, 5 for 2 units together; a third
 * worth 4 for 2 units. With 2 units: the pair, 5. With 4: the pair and the
 * third, 9. With 6: all alone, 10. */
static void a_pair_is_split_when_there_is_room(void **state)
{
    (void)state;
    size_t alone_start[] = {0, 1, 2, 3}, pair_start[] = {0, 1};
    int cost[] = {2, 2, 2}, pair_cost[] = {2}, first[] = {1}, second[] = {0};
    double value[] = {3, 3, 4}, pair_value[] = {5};
    struct pairs_problem p = {{3, alone_start, cost, value, 0},
                              {1, pair_start, pair_cost, pair_value, 0},
                              first,
                              second,
                              0,
                              0,
                              0};
    static const double want[] = {0, 0, 5, 5, 9, 9, 10, 10};
    struct pairs_choice choice[3];
    struct pairs_result r;
    struct arena arena = {0};
    for (p.capacity = 0; p.capacity < 8; p.capacity++) {
        pairs_solve(&p, choice, &r, &arena, NULL);
        assert_true(r.value == want[p.capacity]);
        assert_choice(&p, choice, &r, 0);
    }
    p.capacity = 4;
    pairs_solve(&p, choice, &r, &arena, NULL);
    assert_true(choice[0].pair == 0 && choice[1].pair == 0);
    assert_true(choice[2].pair == PAIRS_NONE && choice[2].entry == 2);
    arena_release(&arena);
}

static void bad_pairs_are_refused_with_a_sentence(void **state)
{
    (void)state;
    size_t start[] = {0, 1, 1}, pair_start[] = {0, 1};
    int cost[] = {2}, pair_cost[] = {2}, first[] = {1}, second[] = {2};
    double value[] = {3}, pair_value[] = {5};
    struct pairs_problem p = {{2, start, cost, value, 0},
                              {1, pair_start, pair_cost, pair_value, 0},
                              first,
                              second,
                              4,
                              0,
                              0};
    struct pairs_choice choice[2] = {{9, 9}, {9, 9}};
    struct pairs_result r;
    struct firn_error err = {0};
    struct arena arena = {0};
    assert_int_equal(pairs_solve(&p, choice, &r, &arena, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "pairs: pair 1 of tasks 1 and 2 of 2");
    second[0] = 0;
    pair_value[0] = NAN;
    assert_int_equal(pairs_solve(&p, choice, &r, &arena, &err), FIRN_EINVAL);
    assert_int_equal(choice[0].pair, 9);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_split_when_there_is_room),
        cmocka_unit_test(small_problems_come_out_nearly_always_optimal),
        cmocka_unit_test(wild_menus_come_out_nearly_always_optimal),
        cmocka_unit_test(large_problems_are_proven_within_one_per_cent),
        cmocka_unit_test(values_are_those_of_an_integer_program),
        cmocka_unit_test(bad_pairs_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
