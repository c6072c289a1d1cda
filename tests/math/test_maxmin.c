/* test_maxmin.c - max-min and leximin against all choices there are. */
#include "base/arena.h"
#include "base/rng.h"
#include "base/sort.h"
#include "lib/programs.h"
#include "lib/trials.h"
#include "math/maxmin.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MENUS = 7, ENTRIES = 5, LARGE = 400, LONG = 40 };
enum { MIDDLE = 24, MIDDLE_COST = 1080, LADDER = 6 };

/* Menus of their own arrays; `values` distinct values, 0 for all distinct. */
struct instance {
    size_t start[LARGE + 1];
    int cost[LARGE * LONG];
    double value[LARGE * LONG];
    struct menus menus;
};

static void draw(struct instance *in, struct rng *rng, size_t n, size_t most,
                 uint64_t values)
{
    size_t k = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        in->start[i] = k;
        size_t length = 1 + rng_below(rng, most);
        for (size_t e = 0; e < length; e++, k++) {
            in->cost[k] = e == 0 ? 0 : (int)rng_below(rng, 2 + most);
            in->value[k] = values ? (double)rng_below(rng, values)
                                  : rng_unit(rng) * (in->cost[k] + 0.5);
        }
        sum += (int64_t)length;
    }
    in->start[n] = k;
    in->menus = (struct menus){n, in->start, in->cost, in->value,
                               (int)rng_below(rng, (uint64_t)sum + 2)};
}

/* The menus pass most of the same levels at costs of their own: a tie at each
 * level, and menus that may wait in several. */
static void draw_ladders(struct instance *in, struct rng *rng, size_t n)
{
    size_t k = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        in->start[i] = k;
        for (int e = 0, cost = 0; e < LADDER; e++) {
            if (e > 0 && rng_below(rng, 3) == 0)
                continue;
            in->cost[k] = cost;
            in->value[k++] = e;
            cost += 1 + (int)rng_below(rng, 9);
        }
        sum += in->cost[k - 1];
    }
    in->start[n] = k;
    in->menus = (struct menus){n, in->start, in->cost, in->value,
                               (int)rng_below(rng, (uint64_t)sum + 2)};
}

static void sorted_values(const struct menus *menus, const size_t *entry,
                          double *out)
{
    for (size_t i = 0; i < menus->n; i++)
        out[i] = menus->value[entry[i]];
    sort_doubles(out, menus->n);
}

static int compare(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int64_t cost_of(const struct menus *menus, const size_t *entry)
{
    int64_t sum = 0;
    for (size_t i = 0; i < menus->n; i++)
        sum += menus->cost[entry[i]];
    return sum;
}

static void assert_menus_respected(const struct menus *menus,
                                   const size_t *entry)
{
    for (size_t i = 0; i < menus->n; i++)
        assert_in_range(entry[i], menus->start[i], menus->start[i + 1] - 1);
    assert_true(cost_of(menus, entry) <= menus->capacity);
}

/* The leximin-best sorted values of all choices that fit. */
static void brute(const struct menus *menus, double *best)
{
    size_t entry[MENUS], n = menus->n;
    memcpy(entry, menus->start, n * sizeof *entry);
    for (size_t i = 0; i < n; i++)
        best[i] = -INFINITY;
    for (;;) {
        double values[MENUS];
        sorted_values(menus, entry, values);
        if (cost_of(menus, entry) <= menus->capacity &&
            compare(values, best, n) > 0)
            memcpy(best, values, n * sizeof *best);
        size_t i = 0;
        while (i < n && ++entry[i] == menus->start[i + 1]) {
            entry[i] = menus->start[i];
            i++;
        }
        if (i == n)
            return;
    }
}

static void check_against_brute(const struct instance *in, uint64_t seed)
{
    struct arena arena = {0};
    struct maxmin_result r, w;
    size_t entry[MENUS];
    double best[MENUS], mine[MENUS];
    brute(&in->menus, best);
    assert_int_equal(maxmin_leximin(&in->menus, 0, entry, &r, &arena, NULL),
                     FIRN_OK);
    assert_menus_respected(&in->menus, entry);
    sorted_values(&in->menus, entry, mine);
    if (compare(mine, best, in->menus.n) != 0 || !r.is_exact)
        fail_msg("seed %d: not the leximin optimum", (int)seed);
    assert_true(r.worst == best[0]);
    assert_int_equal(r.spent, cost_of(&in->menus, entry));
    maxmin_worst(&in->menus, entry, &w, &arena, NULL);
    assert_menus_respected(&in->menus, entry);
    sorted_values(&in->menus, entry, mine);
    if (w.worst != best[0] || mine[0] != best[0])
        fail_msg("seed %d: worst %g, optimum %g", (int)seed, w.worst, best[0]);
    arena_release(&arena);
}

static void draw_and_check(uint64_t seed, size_t most, uint64_t values)
{
    static struct instance in;
    struct rng rng;
    rng_seed(&rng, seed);
    draw(&in, &rng, 1 + rng_below(&rng, most), ENTRIES, values);
    check_against_brute(&in, seed);
}

static void leximin_equals_all_choices_with_distinct_values(void **state)
{
    (void)state;
    for (int seed = 1; seed <= trials(1500); seed++)
        draw_and_check((uint64_t)seed, 6, 0);
}

/* Few distinct values: nearly every level has ties in which some can rise. */
static void leximin_equals_all_choices_with_many_ties(void **state)
{
    (void)state;
    for (int seed = 1; seed <= trials(4000); seed++)
        draw_and_check((uint64_t)seed, MENUS, 2 + (uint64_t)seed % 5);
}

/* Adding the same value to two sorted lists does not change which is larger,
 * so the best list for each capacity can be built menu by menu: exact for
 * more menus than all choices could be tried for. */
static void by_capacity(const struct menus *menus, double *best)
{
    static double now[MIDDLE_COST + 1][MIDDLE], next[MIDDLE_COST + 1][MIDDLE];
    for (size_t i = 0; i < menus->n; i++) {
        for (int c = 0; c <= menus->capacity; c++) {
            next[c][0] = -INFINITY;
            for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++) {
                double list[MIDDLE];
                if (menus->cost[e] > c)
                    continue;
                const double *from = now[c - menus->cost[e]];
                size_t k = i;
                for (; k > 0 && from[k - 1] > menus->value[e]; k--)
                    list[k] = from[k - 1];
                list[k] = menus->value[e];
                memcpy(list, from, k * sizeof *list);
                if (compare(list, next[c], i + 1) > 0)
                    memcpy(next[c], list, (i + 1) * sizeof *list);
            }
        }
        memcpy(now, next, sizeof now);
    }
    memcpy(best, now[menus->capacity], menus->n * sizeof *best);
}

static void
leximin_equals_the_optimum_when_menus_pass_the_same_levels(void **state)
{
    (void)state;
    static struct instance in;
    struct arena arena = {0};
    for (int seed = 1; seed <= trials(400); seed++) {
        struct rng rng;
        struct maxmin_result r;
        size_t entry[MIDDLE];
        double best[MIDDLE], mine[MIDDLE];
        rng_seed(&rng, (uint64_t)seed);
        draw_ladders(&in, &rng, 3 + rng_below(&rng, MIDDLE - 2));
        by_capacity(&in.menus, best);
        maxmin_leximin(&in.menus, 0, entry, &r, &arena, NULL);
        assert_menus_respected(&in.menus, entry);
        sorted_values(&in.menus, entry, mine);
        if (compare(mine, best, in.menus.n) != 0 || !r.is_exact)
            fail_msg("seed %d: not the leximin optimum", seed);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

/* Capacity 2, three menus at 0: {1: 5}, {1: 7}, {2: 9}. Two can rise, not
 * three; the two cheap ones do, for sorted values 0 5 7. With a fourth menu
 * {1: 6} the best two of the cheap three are 6 and 7: 0 0 6 7. */
static void
which_menu_stays_behind_depends_on_the_values_of_the_others(void **state)
{
    (void)state;
    size_t start[] = {0, 2, 4, 6, 8}, entry[4];
    int cost[] = {0, 1, 0, 1, 0, 2, 0, 1};
    double value[] = {0, 5, 0, 7, 0, 9, 0, 6};
    struct menus menus = {3, start, cost, value, 2};
    struct maxmin_result r;
    struct arena arena = {0};
    maxmin_leximin(&menus, 0, entry, &r, &arena, NULL);
    assert_int_equal(entry[0], 1);
    assert_int_equal(entry[1], 3);
    assert_int_equal(entry[2], 4);
    menus.n = 4;
    maxmin_leximin(&menus, 0, entry, &r, &arena, NULL);
    assert_int_equal(entry[0], 0);
    assert_int_equal(entry[1], 3);
    assert_int_equal(entry[2], 4);
    assert_int_equal(entry[3], 7);
    assert_true(r.worst == 0 && r.spent == 2 && r.is_exact);
    arena_release(&arena);
}

static void of_menus_alike_the_first_gets_more(void **state)
{
    (void)state;
    size_t start[] = {0, 3, 6, 9}, entry[3];
    int cost[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    double value[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    struct menus menus = {3, start, cost, value, 4};
    struct maxmin_result r;
    struct arena arena = {0};
    maxmin_leximin(&menus, 0, entry, &r, &arena, NULL);
    assert_int_equal(entry[0], 2); /* 2 1 1 of 4 units */
    assert_int_equal(entry[1], 4);
    assert_int_equal(entry[2], 7);
    assert_true(r.worst == 1);
    arena_release(&arena);
}

/* The best worst value by testing every value as a threshold. */
static double best_threshold(const struct menus *menus)
{
    double best = -INFINITY;
    for (size_t t = menus->start[0]; t < menus->start[menus->n]; t++) {
        int64_t sum = 0;
        for (size_t i = 0; i < menus->n; i++) {
            int least = menus->capacity + 1;
            for (size_t e = menus->start[i]; e < menus->start[i + 1]; e++)
                if (menus->value[e] >= menus->value[t] &&
                    menus->cost[e] < least)
                    least = menus->cost[e];
            sum += least;
        }
        if (sum <= menus->capacity)
            best = fmax(best, menus->value[t]);
    }
    return best;
}

static void large_instances_reach_the_best_threshold(void **state)
{
    (void)state;
    static struct instance in;
    struct arena arena = {0};
    static size_t entry[LARGE];
    for (int seed = 1; seed <= trials(60); seed++) {
        struct rng rng;
        struct maxmin_result r, w;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, 20 + rng_below(&rng, 60), 12,
             seed % 3 ? 0 : 30 + (uint64_t)seed);
        double best = best_threshold(&in.menus);
        maxmin_worst(&in.menus, entry, &w, &arena, NULL);
        assert_menus_respected(&in.menus, entry);
        maxmin_leximin(&in.menus, 0, entry, &r, &arena, NULL);
        assert_menus_respected(&in.menus, entry);
        if (w.worst != best || r.worst != best)
            fail_msg("seed %d: worst %g and %g, best %g", seed, w.worst,
                     r.worst, best);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void the_worst_value_is_that_of_an_integer_program(void **state)
{
    (void)state;
    static struct instance in;
    static size_t entry[LARGE];
    struct arena arena = {0};
    struct cbc cbc = {.deadline_s = 300};
    for (int seed = 1; seed <= trials(25); seed++) {
        struct rng rng;
        struct maxmin_result r;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, 8 + rng_below(&rng, 20), 8, 0);
        struct milp program = program_of_menus(&in.menus, &arena);
        double *x = arena_alloc(&arena, (size_t)program.ncols * sizeof *x);
        if (cbc_solve(&cbc, &program, &arena, x) != CBC_SOLVED) {
            print_message("no answer from cbc\n");
            arena_release(&arena);
            skip();
        }
        double best = -milp_value(&program, x);
        maxmin_leximin(&in.menus, 0, entry, &r, &arena, NULL);
        if (fabs(r.worst - best) > 1e-5 * (1 + best))
            fail_msg("seed %d: worst %.9g, optimum %.9g", seed, r.worst, best);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

/* Each menu i could be given more only at the cost of one no better off. */
static void leximin_leaves_no_free_step(void **state)
{
    (void)state;
    static struct instance in;
    static size_t entry[LARGE];
    struct arena arena = {0};
    for (int seed = 1; seed <= trials(60); seed++) {
        struct rng rng;
        struct maxmin_result r;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, LARGE, LONG, seed % 2 ? 0 : 50);
        maxmin_leximin(&in.menus, 0, entry, &r, &arena, NULL);
        assert_menus_respected(&in.menus, entry);
        int64_t left = in.menus.capacity - r.spent;
        for (size_t i = 0; i < LARGE; i++)
            for (size_t e = in.start[i]; e < in.start[i + 1]; e++)
                if (in.value[e] > in.value[entry[i]] &&
                    in.cost[e] - in.cost[entry[i]] <= left)
                    fail_msg("seed %d: menu %zu could have more", seed, i);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

/* With one step of work the ties are settled as they stand: still a choice
 * that fits, with the same worst value, and is_exact is false. */
static void a_search_cut_short_is_reported_as_inexact(void **state)
{
    (void)state;
    static struct instance in;
    static size_t entry[LARGE];
    struct arena arena = {0};
    int ncut = 0;
    for (int seed = 1; seed <= 40; seed++) {
        struct rng rng;
        struct maxmin_result full, cut;
        rng_seed(&rng, (uint64_t)seed);
        draw(&in, &rng, 40, 6, 6);
        maxmin_leximin(&in.menus, 0, entry, &full, &arena, NULL);
        maxmin_leximin(&in.menus, 1, entry, &cut, &arena, NULL);
        assert_menus_respected(&in.menus, entry);
        assert_true(cut.worst == full.worst);
        ncut += !cut.is_exact;
        assert_true(cut.is_exact || cut.exact_upto >= cut.worst);
    }
    assert_true(ncut > 5);
    arena_release(&arena);
}

static void bad_menus_are_refused_with_a_sentence(void **state)
{
    (void)state;
    size_t start[] = {0, 1, 2}, entry[2] = {77, 77}, empty[] = {0, 1, 1};
    int cost[] = {2, 3};
    double value[] = {1, 1}, nan_value[] = {1, NAN};
    struct maxmin_result r;
    struct firn_error err = {0};
    struct arena arena = {0};
    struct menus dear = {2, start, cost, value, 4};
    struct menus none = {2, empty, cost, value, 9};
    struct menus odd = {2, start, cost, nan_value, 9};
    assert_int_equal(maxmin_worst(&dear, entry, &r, &arena, &err), FIRN_EDATA);
    assert_string_equal(err.text,
                        "max-min: the cheapest entries cost 5, capacity 4");
    assert_int_equal(maxmin_leximin(&none, 0, entry, &r, &arena, &err),
                     FIRN_EINVAL);
    assert_string_equal(err.text, "leximin: menu 2 is empty");
    assert_int_equal(maxmin_leximin(&odd, 0, entry, &r, &arena, &err),
                     FIRN_EINVAL);
    assert_int_equal(entry[0], 77);
    struct menus no_menus = {0, start, cost, value, 4};
    assert_int_equal(maxmin_leximin(&no_menus, 0, entry, &r, &arena, &err),
                     FIRN_OK);
    assert_true(isinf(r.worst) && r.spent == 0);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            which_menu_stays_behind_depends_on_the_values_of_the_others),
        cmocka_unit_test(of_menus_alike_the_first_gets_more),
        cmocka_unit_test(leximin_equals_all_choices_with_distinct_values),
        cmocka_unit_test(leximin_equals_all_choices_with_many_ties),
        cmocka_unit_test(
            leximin_equals_the_optimum_when_menus_pass_the_same_levels),
        cmocka_unit_test(large_instances_reach_the_best_threshold),
        cmocka_unit_test(the_worst_value_is_that_of_an_integer_program),
        cmocka_unit_test(leximin_leaves_no_free_step),
        cmocka_unit_test(a_search_cut_short_is_reported_as_inexact),
        cmocka_unit_test(bad_menus_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
