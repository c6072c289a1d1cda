/* test_sort.c - the radix sort against qsort, odd values and all sizes. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/sort.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times, tiny and huge ones, negatives and many ties. */
static double draw(struct rng *rng)
{
    switch (rng_below(rng, 5)) {
    case 0:
        return (double)rng_below(rng, 100000);
    case 1:
        return -rng_exp(rng, 1e-200);
    case 2:
        return rng_exp(rng, 1e200);
    case 3:
        return (double)rng_below(rng, 3);
    default:
        return rng_normal(rng);
    }
}

static void random_values_come_out_as_from_qsort(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        size_t n = (size_t)rng_below(&rng, seed % 10 ? 200 : 20000);
        double *got = mem_new(n, sizeof *got);
        double *want = mem_new(n, sizeof *want);
        for (size_t i = 0; i < n; i++)
            got[i] = want[i] = draw(&rng);
        sort_doubles(got, n);
        qsort(want, n, sizeof *want, by_value);
        for (size_t i = 0; i < n; i++)
            if (got[i] != want[i])
                fail_msg("seed %d: place %zu of %zu", (int)seed, i, n);
        mem_free(got);
        mem_free(want);
    }
}

static void infinities_are_at_the_ends_and_nan_is_last(void **state)
{
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++)
        values[i] = 50 - i;
    values[10] = INFINITY;
    values[20] = -INFINITY;
    values[30] = NAN;
    sort_doubles(values, 100);
    assert_true(values[0] == -INFINITY);
    assert_true(values[98] == INFINITY);
    assert_true(isnan(values[99]));
    assert_true(values[1] == -49);
}

static void zero_and_one_value_are_sorted(void **state)
{
    (void)state;
    double one = 3;
    sort_doubles(NULL, 0);
    sort_doubles(&one, 1);
    assert_true(one == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_values_come_out_as_from_qsort),
        cmocka_unit_test(infinities_are_at_the_ends_and_nan_is_last),
        cmocka_unit_test(zero_and_one_value_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
