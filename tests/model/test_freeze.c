/* test_freeze.c - penalty, tuner, FreezeOut: numbers worked by hand. */
#include "base/rng.h"
#include <firn/freeze.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 4, MOST = 40 };

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-12 * (1 + fabs(b)));
}

static void observe(struct firn_freeze *f, double a, double b, double c,
                    double d)
{
    double v[LAYERS] = {a, b, c, d};
    assert_int_equal(firn_freeze_observe(f, v, LAYERS, NULL), FIRN_OK);
}

static void penalty_is_the_share_of_variance_that_is_not_frozen(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    firn_freeze_init(&f, storage, LAYERS);
    assert_near(firn_freeze_penalty(&f, 0), 1);
    assert_near(firn_freeze_penalty(&f, 1), 0); /* nothing observed yet */
    observe(&f, 4, 3, 2, 1);
    /* (3): psi(1) = (3+2+1) / (4 + 3+2+1) = 0.6, psi(2) = 3/10, psi(3) = 1/10
     */
    assert_near(firn_freeze_penalty(&f, 0), 1);
    assert_near(firn_freeze_penalty(&f, 1), 0.6);
    assert_near(firn_freeze_penalty(&f, 2), 0.3);
    assert_near(firn_freeze_penalty(&f, 3), 0.1);
    assert_near(firn_freeze_penalty(&f, 4), 0);
    assert_near(firn_freeze_penalty(&f, 5), 0);
    /* owed: 1/0.6 - 1 = 2/3 of an iteration */
    assert_near(firn_freeze_owed(0.6), 2.0 / 3);
    assert_near(firn_freeze_owed(1), 0);
    assert_true(isinf(firn_freeze_owed(0)));
}

static void frozen_layers_keep_the_variance_they_had(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    firn_freeze_init(&f, storage, LAYERS);
    observe(&f, 4, 3, 2, 1);
    assert_int_equal(firn_freeze_set(&f, 2, NULL), FIRN_OK);
    observe(&f, 99, 99, 1, 0.5); /* what frozen layers report is ignored */
    /* V0 = 4 + 3, V(3..4) = 1.5: psi(2) = 1.5 / 8.5 */
    assert_near(firn_freeze_penalty(&f, 2), 1.5 / 8.5);
    /* more: layer 3 enters V0 with 1, V = 0.5 */
    assert_near(firn_freeze_penalty(&f, 3), 0.5 / 8.5);
    /* fewer: layer 2 comes back with the recorded 3: V = 4.5, V0 = 4 */
    assert_near(firn_freeze_penalty(&f, 1), 4.5 / 8.5);
}

static void thawed_layers_are_measured_again(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    firn_freeze_init(&f, storage, LAYERS);
    observe(&f, 4, 3, 2, 1);
    assert_int_equal(firn_freeze_set(&f, 2, NULL), FIRN_OK);
    assert_int_equal(firn_freeze_set(&f, 1, NULL), FIRN_OK);
    assert_near(firn_freeze_penalty(&f, 1), 0.6); /* the recorded 3 until ... */
    observe(&f, 99, 2, 1, 0.5);
    assert_near(firn_freeze_penalty(&f, 1), 3.5 / 7.5); /* ... 2 is seen */
}

static void bad_variances_are_refused_and_change_nothing(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    struct firn_error err;
    firn_freeze_init(&f, storage, LAYERS);
    observe(&f, 4, -3, 2, 1); /* unbiased estimates may be negative: 0 */
    assert_near(firn_freeze_penalty(&f, 2), 3.0 / 7);
    double bad[LAYERS] = {1, 1, (double)NAN, 1};
    assert_int_equal(firn_freeze_observe(&f, bad, LAYERS, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "layer 3"));
    assert_int_equal(firn_freeze_observe(&f, bad, 2, &err), FIRN_EINVAL);
    assert_int_equal(firn_freeze_set(&f, LAYERS, &err), FIRN_EINVAL);
    assert_near(firn_freeze_penalty(&f, 2), 3.0 / 7);
    assert_int_equal(f.nfrozen, 0);
}

/* (3) from two arrays, as it is printed. */
static double printed(const double *now, const double *kept, size_t n,
                      size_t frozen, size_t candidate)
{
    double v0 = 0, v = 0;
    for (size_t i = 0; i < n; i++) {
        double x = i < frozen ? kept[i] : now[i];
        if (i < candidate)
            v0 += x;
        else
            v += x;
    }
    return candidate == 0 ? 1 : v / (v0 + v);
}

static void penalty_agrees_with_the_printed_sums(void **state)
{
    (void)state;
    const uint64_t seed = 20251;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 300; round++) {
        double storage[FIRN_FREEZE_DOUBLES(MOST)], now[MOST], kept[MOST];
        size_t n = 2 + (size_t)rng_below(&rng, MOST - 2);
        struct firn_freeze f;
        firn_freeze_init(&f, storage, n);
        for (int move = 0; move < 6; move++) {
            for (size_t i = 0; i < n; i++) {
                now[i] = rng_exp(&rng, 1);
                if (i >= f.nfrozen)
                    kept[i] = now[i];
            }
            assert_int_equal(firn_freeze_observe(&f, now, n, NULL), FIRN_OK);
            double before = 1;
            for (size_t l = 0; l < n; l++) {
                double psi = firn_freeze_penalty(&f, l);
                if (fabs(psi - printed(now, kept, n, f.nfrozen, l)) > 1e-9 ||
                    psi > before || psi < 0)
                    fail_msg("seed %llu round %d: psi(%zu) = %g",
                             (unsigned long long)seed, round, l, psi);
                before = psi;
            }
            size_t next = (size_t)rng_below(&rng, n);
            assert_int_equal(firn_freeze_set(&f, next, NULL), FIRN_OK);
        }
    }
}

/* --- tuner ---------------------------------------------------------- */

/* Twice the batch: 1.5 times the rate; each frozen layer: 100 more. */
static double rate(const void *context, int batch, size_t nfrozen)
{
    const int *most = context;
    if (batch > *most)
        return 0;
    return (batch >= 32 ? 1500 : 1000) + 100 * (double)nfrozen;
}

static const int batches[] = {16, 32};

static struct firn_tuner_ask ask_for(const struct firn_freeze *f,
                                     const int *most)
{
    return (struct firn_tuner_ask){.freeze = f,
                                   .batches = batches,
                                   .nbatches = 2,
                                   .rate = rate,
                                   .context = most,
                                   .progress = 0.5};
}

static void tuner_takes_the_best_product_of_penalty_and_rate(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    struct firn_tuner tuner = firn_tuner_default();
    struct firn_tuning best;
    int most = 32;
    firn_freeze_init(&f, storage, LAYERS);
    observe(&f, 0.1, 0.1, 5, 4.8);
    /* psi = 1, 0.99, 0.98, 0.48; E at 32 = 1500, 1584, 1666, 864 */
    struct firn_tuner_ask ask = ask_for(&f, &most);
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.batch, 32);
    assert_int_equal(best.nfrozen, 2);
    assert_near(best.psi, 0.98);
    assert_near(best.rate_samples_s, 1700);
    assert_near(best.progress_samples_s, 1666);
    /* a batch that does not fit is not offered: 0.98 * 1200 at 16 */
    most = 16;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.batch, 16);
    assert_near(best.progress_samples_s, 1176);
    most = 8;
    assert_false(firn_tuner_best(&tuner, &ask, &best));
}

static void tuner_keeps_to_its_cap_and_warms_up_first(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(10)];
    double v[10] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    struct firn_freeze f;
    struct firn_tuner tuner = firn_tuner_default();
    struct firn_tuning best;
    int most = 32;
    firn_freeze_init(&f, storage, 10);
    assert_int_equal(firn_freeze_observe(&f, v, 10, NULL), FIRN_OK);
    struct firn_tuner_ask ask = ask_for(&f, &most);
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 9); /* 90 % of 10 */
    tuner.max_share = 0.55;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 5);
    tuner.layer_step = 3;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 3);
    tuner.warmup = 0.6;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 0);
    assert_int_equal(best.batch, 32);
}

static void tuner_stays_for_less_than_the_hysteresis(void **state)
{
    (void)state;
    double storage[FIRN_FREEZE_DOUBLES(LAYERS)];
    struct firn_freeze f;
    struct firn_tuner tuner = firn_tuner_default();
    struct firn_tuning best;
    int most = 32;
    firn_freeze_init(&f, storage, LAYERS);
    observe(&f, 0.1, 0.1, 5, 4.8);
    assert_int_equal(firn_freeze_set(&f, 1, NULL), FIRN_OK);
    /* now E = 1584, best 1666: 5.2 % more */
    struct firn_tuner_ask ask = ask_for(&f, &most);
    ask.batch_now = 32;
    tuner.hysteresis = 0.06;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 1);
    assert_true(best.kept);
    tuner.hysteresis = 0.05;
    assert_true(firn_tuner_best(&tuner, &ask, &best));
    assert_int_equal(best.nfrozen, 2);
    assert_false(best.kept);
}

/* --- FreezeOut ------------------------------------------------------ */

static void freezeout_ends_layers_from_the_front(void **state)
{
    (void)state;
    struct firn_freezeout rule = {.first = 0.5};
    /* five layers: t = 0.5, 0.625, 0.75, 0.875, 1 */
    assert_near(firn_freezeout_end(&rule, 5, 0), 0.5);
    assert_near(firn_freezeout_end(&rule, 5, 1), 0.625);
    assert_near(firn_freezeout_end(&rule, 5, 4), 1);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 0.49), 0);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 0.5), 1);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 0.7), 2);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 1), 4);
    rule.cubic = true; /* 0.125, 0.244, 0.422, 0.670, 1 */
    assert_near(firn_freezeout_end(&rule, 5, 0), 0.125);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 0.7), 4);
    assert_int_equal(firn_freezeout_frozen(&rule, 5, 0.3), 2);
    assert_int_equal(firn_freezeout_frozen(&rule, 1, 0.9), 0);
}

static void freezeout_anneals_along_a_cosine(void **state)
{
    (void)state;
    struct firn_freezeout rule = {.first = 0.5};
    /* layer 1 ends at 0.5; at 0.25 the cosine is at a quarter turn: 1/2 */
    assert_near(firn_freezeout_lr(&rule, 5, 0, 0), 1);
    assert_near(firn_freezeout_lr(&rule, 5, 0, 0.25), 0.5);
    assert_near(firn_freezeout_lr(&rule, 5, 0, 0.5), 0);
    assert_near(firn_freezeout_lr(&rule, 5, 0, 0.9), 0);
    rule.scaled = true; /* starts at 1 / 0.5 */
    assert_near(firn_freezeout_lr(&rule, 5, 0, 0.25), 1);
}

/* Progress grows by a tenth with each layer ... */
static double keen(const void *context, double progress, size_t nfrozen)
{
    (void)context;
    (void)progress;
    return 1 + 0.1 * (double)nfrozen;
}

/* ... or falls by a fifth ... */
static double wary(const void *context, double progress, size_t nfrozen)
{
    (void)context;
    (void)progress;
    return 1 - 0.2 * (double)nfrozen;
}

/* ... or is good late and bad early. */
static double late(const void *context, double progress, size_t nfrozen)
{
    double good_from = *(const double *)context;
    return progress < good_from ? 1 - 0.2 * (double)nfrozen
                                : 1 + 0.2 * (double)nfrozen;
}

static void tuned_freezeout_picks_by_effective_progress(void **state)
{
    (void)state;
    static const double firsts[] = {0.3, 0.5, 0.7, 0.9, 1};
    struct firn_freezeout rule = {.first = 0.5};
    double from = 0.6;
    assert_near(firn_freezeout_tune(&rule, 5, 0, firsts, 5, keen, NULL), 0.3);
    assert_near(firn_freezeout_tune(&rule, 5, 0, firsts, 5, wary, NULL), 1);
    double t0 = firn_freezeout_tune(&rule, 5, 0, firsts, 5, late, &from);
    assert_true(t0 > 0.3 && t0 < 0.9);
    assert_near(firn_freezeout_tune(&rule, 5, 0, firsts, 0, keen, NULL), 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalty_is_the_share_of_variance_that_is_not_frozen),
        cmocka_unit_test(frozen_layers_keep_the_variance_they_had),
        cmocka_unit_test(thawed_layers_are_measured_again),
        cmocka_unit_test(bad_variances_are_refused_and_change_nothing),
        cmocka_unit_test(penalty_agrees_with_the_printed_sums),
        cmocka_unit_test(tuner_takes_the_best_product_of_penalty_and_rate),
        cmocka_unit_test(tuner_keeps_to_its_cap_and_warms_up_first),
        cmocka_unit_test(tuner_stays_for_less_than_the_hysteresis),
        cmocka_unit_test(freezeout_ends_layers_from_the_front),
        cmocka_unit_test(freezeout_anneals_along_a_cosine),
        cmocka_unit_test(tuned_freezeout_picks_by_effective_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
