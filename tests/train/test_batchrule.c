/* test_batchrule.c - learning rates of other batches, by hand.
 *
 * s2 = 64, g2 = 1: a batch of 32 has a gradient of squared norm 3, of which 2
 * are noise; one of 64 has 2. AdaScale's factor is 3 / 2.
 */
#include <firn/batchrule.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(enum firn_batch_rule rule, double batch, double factor)
{
    const struct firn_batch_noise noise = {64, 1};
    double got = firn_batch_factor(rule, 32, batch, &noise);
    assert_true(fabs(got - factor) < 1e-12);
}

static void each_rule_multiplies_the_learning_rate(void **state)
{
    (void)state;
    expect(FIRN_BATCH_NONE, 128, 1);
    expect(FIRN_BATCH_LINEAR, 128, 4);
    expect(FIRN_BATCH_SQRT, 128, 2);
    expect(FIRN_BATCH_ADASCALE, 64, 1.5);
    expect(FIRN_BATCH_ADASCALE, 128, 2); /* 3 / (0.5 + 1) */
    expect(FIRN_BATCH_LINEAR, 16, 0.5);
    expect(FIRN_BATCH_SQRT, 8, 0.5);
    expect(FIRN_BATCH_ADASCALE, 16, 0.6); /* 3 / 5 */
    for (int rule = FIRN_BATCH_NONE; rule <= FIRN_BATCH_ADASCALE; rule++)
        expect((enum firn_batch_rule)rule, 32, 1);
}

static void adascale_without_a_measurement_is_a_square_root(void **state)
{
    (void)state;
    const struct firn_batch_noise none = {0, 0}, pure = {64, 0};
    assert_true(firn_batch_factor(FIRN_BATCH_ADASCALE, 32, 128, NULL) == 2);
    assert_true(firn_batch_factor(FIRN_BATCH_ADASCALE, 32, 128, &none) == 2);
    /* nothing but noise: linear */
    assert_true(firn_batch_factor(FIRN_BATCH_ADASCALE, 32, 128, &pure) == 4);
    assert_true(firn_batch_factor(FIRN_BATCH_LINEAR, 0, 128, NULL) == 1);
    assert_true(firn_batch_factor(FIRN_BATCH_LINEAR, 32, -1, NULL) == 1);
}

/* Four threads of 8 samples: a thread's gradient has variance 64 / 8 = 8, the
 * mean of all four the squared norm 1 + 64 / 32 = 3. */
static void the_noise_of_a_sample_follows_from_threads(void **state)
{
    (void)state;
    struct firn_batch_noise noise = firn_batch_noise_of(4, 8, 8, 3);
    assert_true(noise.variance == 64 && noise.square == 1);
    noise = firn_batch_noise_of(4, 8, 8, 1); /* less than the noise alone */
    assert_true(noise.variance == 64 && noise.square == 0);
    noise = firn_batch_noise_of(1, 8, 8, 3);
    assert_true(noise.variance == 0 && noise.square == 0);
    noise = firn_batch_noise_of(4, 8, NAN, 3);
    assert_true(noise.variance == 0);
}

static void rules_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "linear", "sqrt", "adascale"};
    enum firn_batch_rule rule = FIRN_BATCH_NONE;
    for (int i = 0; i < 4; i++) {
        assert_true(firn_batch_rule_named(names[i], &rule));
        assert_int_equal(rule, i);
    }
    assert_false(firn_batch_rule_named("Linear", &rule));
    assert_false(firn_batch_rule_named("", &rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_multiplies_the_learning_rate),
        cmocka_unit_test(adascale_without_a_measurement_is_a_square_root),
        cmocka_unit_test(the_noise_of_a_sample_follows_from_threads),
        cmocka_unit_test(rules_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
