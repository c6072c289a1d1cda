/* test_evaluate.c - every model that a measured table allows, fitted and
 * scored. */
#include "lib/csv.h"
#include "model/evaluate.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 20, ROWS = 512, SEED = 1, SEEDS = 4 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        fail_msg("%g is not %g", a, b);
}

/* A made-up application: its model can predict every quantity exactly. */
static struct evaluate_row row(double batch, int frozen)
{
    double theta = 1 - (double)frozen / LAYERS;
    double base = 2e-3 + 1e-4 * batch;
    return (struct evaluate_row){
        .shape = {1, 1, 1, batch, 1, theta, theta},
        .nlayers = LAYERS,
        .nfrozen = frozen,
        .iter_s = base / 2 + base * theta,
        .sync_s = (double)NAN,
        .bwd_s = base * theta,
        .mem_mib = 400 + 2 * batch + 3 * batch * theta,
        .util_pct = 10 + 0.5 * batch + 5 * theta,
    };
}

static size_t make(struct evaluate_row *out)
{
    size_t n = 0;
    for (int batch = 8; batch <= 64; batch *= 2)
        for (int frozen = 0; frozen < LAYERS; frozen += 2)
            out[n++] = row(batch, frozen);
    return n;
}

static void each_quantity_of_a_table_is_fitted(void **state)
{
    (void)state;
    static struct evaluate_row rows[64];
    static struct evaluate_models m;
    size_t n = make(rows);
    evaluate_fit(&m, rows, n);
    struct evaluate_row at = row(24, 7);
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        if (q == EVALUATE_COMPUTE)
            continue;
        assert_true(m.has[q]);
        assert_near(evaluate_predict(&m, &at, (enum evaluate_quantity)q),
                    evaluate_measured(&at, (enum evaluate_quantity)q), 0.03);
        struct evaluate_error e =
            evaluate_rows(&m, rows, n, (enum evaluate_quantity)q);
        assert_int_equal(e.n, n);
        assert_true(e.mean < 0.03 && e.r2 > 0.99);
    }
    assert_false(m.has[EVALUATE_COMPUTE]);
    assert_true(isnan(evaluate_predict(&m, &at, EVALUATE_COMPUTE)));
}

/* The prediction of a row must not change with the row's measured values. */
static void a_prediction_does_not_depend_on_the_measured_value(void **state)
{
    (void)state;
    static struct evaluate_row rows[64];
    static struct evaluate_models m;
    evaluate_fit(&m, rows, make(rows));
    struct evaluate_row honest = row(48, 4), blank = row(48, 4);
    blank.iter_s = blank.bwd_s = blank.mem_mib = blank.util_pct = (double)NAN;
    for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
        double a = evaluate_predict(&m, &honest, (enum evaluate_quantity)q);
        double b = evaluate_predict(&m, &blank, (enum evaluate_quantity)q);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

/* Batch 16 has no row with nothing frozen: its 2 + 1.6 = 3.6 ms are guessed
 * from the rows that are there. */
static void a_batch_without_an_unfrozen_row_is_guessed(void **state)
{
    (void)state;
    static struct evaluate_row rows[64];
    static struct evaluate_models m;
    size_t n = make(rows), kept = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].shape.batch_per_gpu > 16 ||
            rows[i].shape.batch_per_gpu < 16 || rows[i].nfrozen > 5)
            rows[kept++] = rows[i];
    evaluate_fit(&m, rows, kept);
    struct evaluate_row at = row(16, 4);
    assert_near(evaluate_predict(&m, &at, EVALUATE_BACKWARD), at.bwd_s, 0.05);
    at = row(16, 0);
    assert_near(evaluate_predict(&m, &at, EVALUATE_BACKWARD), at.bwd_s, 0.05);
}

static void bad_rows_are_left_out_and_their_fault_named(void **state)
{
    (void)state;
    static struct evaluate_row rows[64];
    static struct evaluate_models m;
    size_t n = make(rows);
    rows[3].iter_s = -1;
    rows[4].bwd_s = 0;
    rows[5].mem_mib = (double)INFINITY;
    rows[6].util_pct = 101;
    rows[7].nfrozen = LAYERS;
    rows[8].shape.theta = 2;
    for (size_t i = 3; i <= 8; i++)
        assert_non_null(evaluate_row_fault(&rows[i]));
    assert_null(evaluate_row_fault(&rows[9]));
    assert_non_null(strstr(evaluate_row_fault(&rows[4]), "backward"));
    evaluate_fit(&m, rows, n);
    assert_int_equal(evaluate_rows(&m, rows, n, EVALUATE_ITERATION).n, n - 6);
    assert_int_equal(m.step_fit.nrejected, 0);
    assert_int_equal(m.memory.nused, n - 6);
}

static void too_few_rows_are_reported_for_each_quantity(void **state)
{
    (void)state;
    static struct evaluate_models m;
    struct evaluate_row rows[2] = {row(8, 0), row(16, 2)};
    rows[0].bwd_s = rows[1].bwd_s = (double)NAN;
    evaluate_fit(&m, rows, 2);
    assert_true(m.has[EVALUATE_ITERATION]);
    assert_false(m.has[EVALUATE_BACKWARD]);
    assert_non_null(strstr(m.why[EVALUATE_BACKWARD].text, "no backward time"));
    assert_false(m.has[EVALUATE_MEMORY]);
    assert_non_null(strstr(m.why[EVALUATE_MEMORY].text, "needs 4"));
    evaluate_fit(&m, rows, 0);
    assert_false(m.has[EVALUATE_ITERATION]);
    assert_int_equal(evaluate_rows(&m, rows, 2, EVALUATE_ITERATION).n, 0);
}

static void halves_depend_on_the_seed_alone(void **state)
{
    (void)state;
    struct evaluate_row a[64], b[64];
    size_t n = make(a);
    make(b);
    assert_int_equal(evaluate_halve(a, n, 7), (n + 1) / 2);
    evaluate_halve(b, n, 7);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(&a[i].iter_s, &b[i].iter_s, sizeof a[i].iter_s);
    size_t moved = 0;
    make(b);
    for (size_t i = 0; i < n; i++)
        moved += fabs(a[i].iter_s - b[i].iter_s) > 0;
    assert_true(moved > n / 2);
}

/* --- measured ------------------------------------------------------------- */

static size_t read_app(const char *path, const char *app,
                       struct evaluate_row *out)
{
    struct csv *csv = csv_open(path);
    size_t n = 0;
    while (csv != NULL && n < ROWS && csv_next(csv)) {
        if (strcmp(csv_text(csv, "model"), app) != 0)
            continue;
        out[n++] = (struct evaluate_row){
            .shape = {1, 1, 1, csv_number(csv, "batch"), 1,
                      csv_number(csv, "flops_unfrozen_ratio"),
                      csv_number(csv, "params_unfrozen_ratio")},
            .nlayers = csv_number(csv, "layers"),
            .nfrozen = csv_number(csv, "frozen"),
            .iter_s = csv_number(csv, "iter_ms") / 1e3,
            .sync_s = (double)NAN,
            .bwd_s = csv_number(csv, "bwd_ms") / 1e3,
            .mem_mib = csv_number(csv, "peak_alloc_mib"),
            .util_pct = csv_number(csv, "gpu_util_pct"),
        };
    }
    csv_close(csv);
    return n;
}

struct pool {
    double predicted[ROWS], measured[ROWS];
    size_t n;
};

static void collect(struct pool *pool, const struct evaluate_models *m,
                    const struct evaluate_row *row, enum evaluate_quantity q)
{
    double a = evaluate_predict(m, row, q), b = evaluate_measured(row, q);
    if (isnan(a) || isnan(b))
        return;
    pool->predicted[pool->n] = a;
    pool->measured[pool->n++] = b;
}

/* Halves of each application's rows, as `firn profile eval --seed` does. */
static void random_halves_of_the_second_h200_table_are_predicted(void **state)
{
    (void)state;
    static const char *const apps[] = {
        "resnet18-c",  "resnet50-c", "vgg19-c",       "mobilenetv2-c",
        "googlenet-c", "resnet18-i", "resnet50-i",    "mobilenetv2-i",
        "bert-base",   "gpt-small",  "densenet121-i",
    };
    static struct evaluate_row rows[ROWS];
    static struct evaluate_models m;
    static struct pool pool[EVALUATE_QUANTITIES];
    double mean[EVALUATE_QUANTITIES] = {0}, r2[EVALUATE_QUANTITIES] = {0};
    for (uint64_t seed = SEED; seed < SEED + SEEDS; seed++) {
        memset(pool, 0, sizeof pool);
        for (size_t a = 0; a < sizeof apps / sizeof *apps; a++) {
            size_t n = read_app("profiles/h200/freeze.csv", apps[a], rows);
            assert_true(n >= 10);
            size_t half = evaluate_halve(rows, n, seed);
            evaluate_fit(&m, rows, half);
            for (size_t i = half; i < n; i++)
                for (int q = 0; q < EVALUATE_QUANTITIES; q++)
                    collect(&pool[q], &m, &rows[i], (enum evaluate_quantity)q);
        }
        for (int q = 0; q < EVALUATE_QUANTITIES; q++) {
            struct evaluate_error e =
                evaluate_error(pool[q].predicted, pool[q].measured, pool[q].n);
            mean[q] += e.mean / SEEDS;
            r2[q] += e.r2 / SEEDS;
        }
    }
    for (int q = 0; q < EVALUATE_QUANTITIES; q++)
        if (q != EVALUATE_COMPUTE)
            print_message("%-12s seeds %d-%d: mean %.1f %%, R2 %.3f\n",
                          evaluate_quantity_name((enum evaluate_quantity)q),
                          SEED, SEED + SEEDS - 1, 100 * mean[q], r2[q]);
    assert_true(mean[EVALUATE_ITERATION] < 0.07);
    assert_true(mean[EVALUATE_BACKWARD] < 0.13);
    assert_true(r2[EVALUATE_MEMORY] > 0.99);
    assert_true(r2[EVALUATE_UTILISATION] > 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_quantity_of_a_table_is_fitted),
        cmocka_unit_test(a_prediction_does_not_depend_on_the_measured_value),
        cmocka_unit_test(a_batch_without_an_unfrozen_row_is_guessed),
        cmocka_unit_test(bad_rows_are_left_out_and_their_fault_named),
        cmocka_unit_test(too_few_rows_are_reported_for_each_quantity),
        cmocka_unit_test(halves_depend_on_the_seed_alone),
        cmocka_unit_test(random_halves_of_the_second_h200_table_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
