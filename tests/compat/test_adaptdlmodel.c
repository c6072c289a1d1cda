/* test_adaptdlmodel.c - the model that AdaptDL's jobs learn.
 *
 * Expected numbers were printed by the published artifact for the same
 * parameters and observations.
 */
#include "compat/adaptdlmodel.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Equal to the digits that were written down. */
static void assert_near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.12g, not %.12g", value, want);
}

static const struct adlparams made = {
    {0.02, 0.0006, 0.05, 0.003, 0.02, 0.001, 1.5}};

/* n, r, b, step - sync, step */
static const struct {
    int nodes, gpus, b;
    double pass_s, step_s;
} three[] = {
    {1, 1, 128, 0.1, 0.101}, {1, 2, 100, 0.08, 0.11}, {2, 8, 64, 0.06, 0.15}};

static struct adltime time_of(int i)
{
    return (struct adltime){three[i].step_s, three[i].step_s - three[i].pass_s};
}

static double objective(const struct adlparams *params, double *gradient)
{
    struct adlseen seen[3];
    for (int i = 0; i < 3; i++)
        seen[i] =
            adlseen(three[i].nodes, three[i].gpus, three[i].b, time_of(i));
    return adlmodel_objective(params, seen, 3, gradient);
}

static void the_objective_is_that_of_the_artifact(void **state)
{
    (void)state;
    static const double pass_s[] = {0.0968, 0.08, 0.0584};
    static const double network_s[] = {1.00000001e-8, 0.02, 0.068};
    for (int i = 0; i < 3; i++) {
        struct adlparts parts =
            adlparams_parts(&made, three[i].nodes, three[i].gpus, three[i].b);
        assert_near(parts.pass_s, pass_s[i], 1e-12);
        assert_near(parts.network_s, network_s[i], 1e-8);
    }
    assert_near(objective(&made, NULL), 0.29553076122, 1e-10);
}

static void the_gradient_is_that_of_the_objective(void **state)
{
    (void)state;
    double gradient[ADL_NP];
    objective(&made, gradient);
    for (int j = 0; j < ADL_NP; j++) {
        struct adlparams up = made, down = made;
        double h = 1e-6 * made.at[j];
        up.at[j] += h;
        down.at[j] -= h;
        double slope =
            (objective(&up, NULL) - objective(&down, NULL)) / (2 * h);
        assert_true(fabs(slope - gradient[j]) < 1e-6 * (1 + fabs(gradient[j])));
    }
}

static void see(struct adlmodel *model)
{
    for (int i = 0; i < 3; i++)
        adlmodel_observe(model, three[i].nodes, three[i].gpus, three[i].b,
                         time_of(i));
}

/* The artifact's minimiser ends at 0.0233383; ours must not do worse. */
static void the_fit_is_as_good_as_that_of_the_artifact(void **state)
{
    (void)state;
    struct adlmodel model = {0};
    see(&model);
    adlmodel_fit(&model);
    double value = objective(&model.params, NULL);
    print_message("objective %.7g, the artifact's 0.0233383; a %.6g %.6g "
                  "n %.6g %.6g r %.6g %.6g g %.6g\n",
                  value, model.params.at[0], model.params.at[1],
                  model.params.at[2], model.params.at[3], model.params.at[4],
                  model.params.at[5], model.params.at[6]);
    assert_true(value < 0.0233383 * 1.01);
    assert_near(model.params.at[ADL_AC], 0.0177694, 0.02);
    assert_near(model.params.at[ADL_BC], 0.000650239, 0.02);
    adlmodel_release(&model);
}

static void the_best_batch_is_that_of_the_artifact(void **state)
{
    static const struct {
        int nodes, gpus;
        double goodput;
        int b, s;
    } rows[] = {{1, 1, 1322.31405, 128, 0},
                {1, 4, 3235.02512, 81, 0},
                {2, 8, 3319.40028, 94, 0},
                {8, 32, 3137.24084, 77, 0}};
    (void)state;
    struct adlmodel model = {0};
    struct firn_noise noise = {0.5, 2.0, 128};
    struct adllimits limits = {128, 32, 1024, 4096};
    see(&model);
    adlmodel_fit(&model);
    model.params = made;
    for (int i = 0; i < 4; i++) {
        struct adlbest best =
            adlmodel_best(&model, &noise, &limits, rows[i].nodes, rows[i].gpus);
        assert_near(best.goodput, rows[i].goodput, 1e-8);
        assert_int_equal(best.batch.b, rows[i].b);
        assert_int_equal(best.batch.s, rows[i].s);
    }
    adlmodel_release(&model);
}

/* The first time counts: another placement with the same n, r and b does not
 * change what is known. */
static void only_the_first_observation_of_a_configuration_counts(void **state)
{
    (void)state;
    struct adlmodel model = {0};
    assert_true(adlmodel_is_blank(&model));
    assert_true(adlmodel_observe(&model, 2, 6, 10, (struct adltime){2, 1}));
    assert_false(adlmodel_observe(&model, 2, 6, 10, (struct adltime){3, 1}));
    assert_true(adlmodel_observe(&model, 2, 5, 10, (struct adltime){3, 1}));
    assert_true(model.seen.at[0].step_s == 2);
    assert_int_equal(model.gpus_most, 6);
    adlmodel_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_objective_is_that_of_the_artifact),
        cmocka_unit_test(the_gradient_is_that_of_the_objective),
        cmocka_unit_test(the_fit_is_as_good_as_that_of_the_artifact),
        cmocka_unit_test(the_best_batch_is_that_of_the_artifact),
        cmocka_unit_test(only_the_first_observation_of_a_configuration_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
