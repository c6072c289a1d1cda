/* test_waytable.c - what is put in for a way comes out for it alone. */
#include "base/rng.h"
#include "core/waytable.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TYPES = 3, GPUS = 70, NODES = 20, PASSES = 3 };

/* Beside an array of all ways, those without a place of their own too: random
 * puts, gets and clears. */
static double naive[TYPES + 1][4][GPUS][NODES][PASSES];

static double *naive_at(const struct firn_way *way)
{
    return &naive[way->type + 1][way->tunes][way->gpus - 1][way->nodes]
                 [way->passes];
}

static void naive_clear(void)
{
    double *at = &naive[0][0][0][0][0];
    for (size_t i = 0; i < sizeof naive / sizeof *at; i++)
        at[i] = (double)NAN;
}

static void a_waytable_answers_as_an_array_would(void **state)
{
    (void)state;
    struct waytable table;
    struct rng rng;
    const char *given = getenv("FIRN_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    rng_seed(&rng, seed);
    waytable_init(&table, TYPES);
    naive_clear();
    for (int i = 0; i < 200000; i++) {
        struct firn_way way = {.gpus = 1 + (int)rng_below(&rng, GPUS),
                               .nodes = (int)rng_below(&rng, NODES),
                               .type = (int)rng_below(&rng, TYPES + 1) - 1,
                               .tunes = (unsigned)rng_below(&rng, 4)};
        way.passes = rng_below(&rng, 4) ? 0 : (int)rng_below(&rng, 3);
        double is = waytable_get(&table, &way), want = *naive_at(&way);
        if (!(is == want || (isnan(is) && isnan(want))))
            fail_msg("FIRN_SEED=%llu: step %d: %g, not %g",
                     (unsigned long long)seed, i, is, want);
        if (rng_below(&rng, 3) > 0) {
            *naive_at(&way) = rng_unit(&rng) - 0.5;
            waytable_put(&table, &way, *naive_at(&way));
        }
        if (rng_below(&rng, 60000) == 0) {
            naive_clear();
            waytable_clear(&table);
        }
    }
    waytable_release(&table);
}

/* Thousands of GPUs, hundreds of nodes: every way is hashed. */
static void ways_of_thousands_of_gpus_do_not_collide(void **state)
{
    (void)state;
    struct waytable table;
    waytable_init(&table, 1);
    for (int gpus = 1; gpus <= 20000; gpus += 37) {
        struct firn_way way = {.gpus = gpus, .nodes = gpus / 8 + 1};
        struct firn_way packed = {.gpus = gpus};
        waytable_put(&table, &way, gpus);
        waytable_put(&table, &packed, -gpus);
    }
    for (int gpus = 1; gpus <= 20000; gpus += 37) {
        struct firn_way way = {.gpus = gpus, .nodes = gpus / 8 + 1};
        struct firn_way packed = {.gpus = gpus};
        struct firn_way other = {.gpus = gpus + 1, .nodes = gpus / 8 + 1};
        assert_true(waytable_get(&table, &way) == gpus);
        assert_true(waytable_get(&table, &packed) == -gpus);
        assert_true(isnan(waytable_get(&table, &other)));
    }
    waytable_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waytable_answers_as_an_array_would),
        cmocka_unit_test(ways_of_thousands_of_gpus_do_not_collide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
