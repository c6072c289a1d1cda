/* test_iceshare.c - the division of GPUs against trying everything.
 */
#include "policy/iceshare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "scene_random.h"
#include <cmocka.h>
#include <stdlib.h>

enum { ITEMS = 4, CHOICES = 5 };

struct small {
    struct iceshare_choice choices[ITEMS][CHOICES];
    struct iceshare_item items[ITEMS];
    int capacity[2];
};

static void draw_small(struct small *s, struct rng *rng, int npools)
{
    for (int p = 0; p < 2; p++)
        s->capacity[p] = 1 + (int)rng_below(rng, 10);
    for (int i = 0; i < ITEMS; i++) {
        struct iceshare_choice *c = s->choices[i];
        double value = 0.3 * rng_unit(rng);
        c[0] = (struct iceshare_choice){0, 0, value};
        for (int k = 1; k < CHOICES; k++) {
            value += rng_unit(rng) / CHOICES;
            c[k] = (struct iceshare_choice){npools == 1 ? 0 : 2 * k / CHOICES,
                                            k, value};
        }
        s->items[i] = (struct iceshare_item){c, CHOICES};
    }
}

static bool fits(const struct small *s, const size_t *chosen)
{
    int taken[2] = {0, 0};
    for (int i = 0; i < ITEMS; i++)
        taken[s->choices[i][chosen[i]].pool] += s->choices[i][chosen[i]].units;
    return taken[0] <= s->capacity[0] && taken[1] <= s->capacity[1];
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Is a better than b? The values sorted, or the harmonic mean. */
static bool is_better(const struct small *s, const size_t *a, const size_t *b,
                      enum iceshare_goal goal)
{
    double x[ITEMS], y[ITEMS], sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        x[i] = s->choices[i][a[i]].value;
        y[i] = s->choices[i][b[i]].value;
        sum += 1 / (y[i] + 1e-3) - 1 / (x[i] + 1e-3);
    }
    if (goal == ICESHARE_HARMONIC)
        return sum > 1e-9;
    qsort(x, ITEMS, sizeof *x, rising);
    qsort(y, ITEMS, sizeof *y, rising);
    for (int i = 0; i < ITEMS; i++)
        if (x[i] != y[i])
            return x[i] > y[i];
    return false;
}

static void on_one_pool_the_division_is_the_best_of_all(void **unused)
{
    (void)unused;
    struct arena scratch = {0};
    for (int seed = 0; seed < trials(200); seed++) {
        struct small s;
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        draw_small(&s, &rng, 1);
        struct iceshare_problem problem = {
            s.items,
            ITEMS,
            s.capacity,
            1,
            seed % 2 ? ICESHARE_HARMONIC : ICESHARE_LEXIMIN,
            0};
        size_t chosen[ITEMS], other[ITEMS];
        assert_int_equal(iceshare_solve(&problem, chosen, &scratch, NULL),
                         FIRN_OK);
        assert_true(fits(&s, chosen));
        for (size_t code = 0; code < CHOICES * CHOICES * CHOICES * CHOICES;
             code++) {
            size_t rest = code;
            for (int i = 0; i < ITEMS; i++, rest /= CHOICES)
                other[i] = rest % CHOICES;
            if (fits(&s, other) && is_better(&s, other, chosen, problem.goal))
                fail_msg("seed %d: choice %zu is better", seed, code);
        }
        arena_reset(&scratch);
    }
    arena_release(&scratch);
}

static void groups_and_several_pools_stay_within_capacity(void **unused)
{
    (void)unused;
    struct arena scratch = {0};
    for (int seed = 0; seed < trials(300); seed++) {
        struct small s;
        struct rng rng;
        rng_seed(&rng, (uint64_t)seed);
        int npools = 1 + seed % 2;
        draw_small(&s, &rng, npools);
        struct iceshare_problem problem = {s.items,
                                           ITEMS,
                                           s.capacity,
                                           npools,
                                           seed % 3 ? ICESHARE_LEXIMIN
                                                    : ICESHARE_HARMONIC,
                                           (size_t)(seed % 4)};
        size_t chosen[ITEMS];
        assert_int_equal(iceshare_solve(&problem, chosen, &scratch, NULL),
                         FIRN_OK);
        if (!fits(&s, chosen))
            fail_msg("seed %d: more is taken than there is", seed);
        for (int i = 0; i < ITEMS; i++)
            assert_true(s.choices[i][chosen[i]].value >= s.choices[i][0].value);
        arena_reset(&scratch);
    }
    arena_release(&scratch);
}

/* Two pools of one unit, two items that each fit one pool only. */
static void every_pool_is_used(void **unused)
{
    (void)unused;
    struct arena scratch = {0};
    const struct iceshare_choice a[] = {{0, 0, 0.1}, {0, 1, 1}};
    const struct iceshare_choice b[] = {{0, 0, 0.2}, {1, 1, 1}};
    const struct iceshare_item items[] = {{a, 2}, {b, 2}};
    const int capacity[] = {1, 1};
    struct iceshare_problem problem = {items, 2, capacity, 2, ICESHARE_LEXIMIN,
                                       0};
    size_t chosen[2];
    assert_int_equal(iceshare_solve(&problem, chosen, &scratch, NULL), FIRN_OK);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 1);
    arena_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_pool_the_division_is_the_best_of_all),
        cmocka_unit_test(groups_and_several_pools_stay_within_capacity),
        cmocka_unit_test(every_pool_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
