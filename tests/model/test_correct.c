/* test_correct.c - effects of the frozen share on crowded hosts, and shrinkage.
 *
 * The other families of model/correct.h are tested in test_itertime.c.
 */
#include "base/rng.h"
#include "model/correct.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROWS = 960, SEED = 5 };

static struct firn_shape shape(int gpus, double batch, double theta)
{
    return (struct firn_shape){1, gpus, gpus, batch, 1, theta, theta};
}

/* A row in `model`'s time, `factor` times as long, give or take 1 %. */
static struct firn_step_obs observe(const struct firn_itertime *model,
                                    struct firn_shape s, double factor,
                                    struct rng *rng)
{
    double noise = 1 + 0.01 * rng_normal(rng);
    return (struct firn_step_obs){
        s, firn_itertime_parts(model, &s).step_s * factor * noise, (double)NAN};
}

static double factor_at(const struct correction *c, struct firn_shape s)
{
    return correction_factor(c, &s);
}

static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) < tolerance;
}

/* Four GPUs at batch 32 and more wait for their host: with little left to
 * train, a step takes 1.4 times what it should. */
static void a_host_that_cannot_feed_its_gpus_is_learned(void **state)
{
    (void)state;
    static struct correction c;
    static struct firn_step_obs obs[ROWS];
    struct firn_itertime model;
    struct rng rng;
    firn_itertime_default(&model);
    rng_seed(&rng, SEED);
    for (int i = 0; i < ROWS; i++) {
        int gpus = 1 + i % 4, batch = 8 << i / 4 % 4;
        double theta = 1 - 0.2 * (i / 16 % 5);
        bool waits = gpus == 4 && batch >= 32 && theta < 0.5;
        obs[i] =
            observe(&model, shape(gpus, batch, theta), waits ? 1.4 : 1, &rng);
    }
    correction_learn(&c, &model, obs, ROWS);
    assert_true(is_near(factor_at(&c, shape(4, 64, 0.2)), 1.4, 0.06));
    assert_true(is_near(factor_at(&c, shape(4, 32, 0.4)), 1.4, 0.06));
    assert_true(is_near(factor_at(&c, shape(4, 64, 1)), 1, 0.05));
    assert_true(is_near(factor_at(&c, shape(3, 64, 0.2)), 1, 0.05));
    assert_true(is_near(factor_at(&c, shape(4, 8, 0.2)), 1, 0.05));
    double between = factor_at(&c, shape(4, 64, 0.5)); /* of 0.4 and 0.6 */
    assert_true(between > 1.1 && between < 1.3);
}

/* Batches up to 32 are exact, and every second placement there takes a quarter
 * longer; the larger ones scatter by 30 % and have no effects. One lambda by
 * the scatter of all would leave a third of the effects away. */
static void exact_rows_keep_their_effects_beside_rows_that_scatter(void **state)
{
    (void)state;
    static struct correction c;
    static struct firn_step_obs obs[ROWS];
    struct firn_itertime model;
    struct rng rng;
    firn_itertime_default(&model);
    rng_seed(&rng, SEED);
    for (int i = 0; i < 320; i++) {
        int gpus = 1 + i % 8, batch = 8 << i / 8 % 4 * 2;
        bool is_odd = (gpus + i / 8 % 4) % 2 == 0;
        double factor = batch > 32 ? fmax(0.2, 1 + 0.3 * rng_normal(&rng))
                        : is_odd   ? 1.25
                                   : 1;
        obs[i] = observe(&model, shape(gpus, batch, 1), factor, &rng);
    }
    correction_learn(&c, &model, obs, 320);
    for (int gpus = 1; gpus <= 8; gpus++) {
        double odd = factor_at(&c, shape(gpus, gpus % 2 == 0 ? 8 : 32, 1));
        double even = factor_at(&c, shape(gpus, gpus % 2 == 0 ? 32 : 8, 1));
        assert_true(odd / even > 1.19 && odd / even < 1.31);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_cannot_feed_its_gpus_is_learned),
        cmocka_unit_test(
            exact_rows_keep_their_effects_beside_rows_that_scatter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
