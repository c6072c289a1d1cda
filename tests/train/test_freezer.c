/* test_freezer.c - decisions by hand, and books that balance. */
#include "base/rng.h"
#include "freezing.h"
#include <firn/freezer.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 4, MOST = 24 };

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

static void penalty_freezes_what_hand_calculation_says(void **state)
{
    (void)state;
    const double v[LAYERS] = {1, 2, 3, 4};
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_freezer_ask ask = {.variance = v,
                                   .forward_s = 1,
                                   .backward_s = 2,
                                   .rest_s = 0.4,
                                   .progress = 0.5};
    /* Layers are equal: theta(l) = omega(l) = 1 - l/4. With the prior,
     * backward(l) = 2 (theta + sqrt theta) / 2:
     *   l  psi  T                                        psi/T
     *   0  1.0  1 + 2.000 + 0.4 = 3.400                  0.2941
     *   1  0.9  1 + (0.75 + 0.86603) + 0.3 = 2.91603     0.3086  best
     *   2  0.7  1 + (0.50 + 0.70711) + 0.2 = 2.40711     0.2908
     *   3  0.4  1 + (0.25 + 0.50000) + 0.1 = 1.85000     0.2162 */
    assert_int_equal(freezing_decide(f, &ask), 1);
    assert_near(firn_freezer_psi(f), 0.9);
    const struct firn_decision *log = NULL;
    assert_int_equal(firn_freezer_log(f, &log), 1);
    assert_true(log[0].kind == FIRN_DECIDED_FROZEN && log[0].value == 1 &&
                log[0].psi == firn_freezer_psi(f));
    firn_freezer_free(f);
}

static void layers_of_other_weight_change_the_choice(void **state)
{
    (void)state;
    const double v[LAYERS] = {1, 2, 3, 4};
    const double flops[LAYERS] = {0, 0, 1, 1}; /* nothing to win in front */
    const uint64_t nelements[LAYERS] = {0, 0, 5, 5};
    struct firn_freezer *f = freezing_make(
        (struct firn_freezer_config){.nlayers = LAYERS,
                                     .flops = flops,
                                     .nelements = nelements,
                                     .rule = FIRN_FREEZER_PENALTY});
    struct firn_freezer_ask ask = {.variance = v,
                                   .forward_s = 1,
                                   .backward_s = 2,
                                   .rest_s = 0.4,
                                   .progress = 0.5};
    /* l = 1, 2 cost psi and bring nothing; l = 3 has theta 1/2, psi 0.4:
     * 0.4 / (1 + 1.20711 + 0.2) = 0.1662 against 1 / 3.4 = 0.2941. */
    assert_int_equal(freezing_decide(f, &ask), 0);
    assert_near(firn_freezer_psi(f), 1);
    firn_freezer_free(f);
}

static void times_seen_while_frozen_refine_the_rate(void **state)
{
    (void)state;
    const double v[LAYERS] = {1, 2, 3, 4};
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_freezer_ask ask = {.variance = v,
                                   .forward_s = 1,
                                   .backward_s = 2,
                                   .rest_s = 0.4,
                                   .progress = 0.5};
    assert_int_equal(freezing_decide(f, &ask), 1);
    /* Freezing one layer turns out to bring nothing at all: T(1) = 3.4 and
     * psi/T = 0.2647, less than 0.2941 of thawing. Beyond it the factor
     * 2 / 1.61603 is kept: T(2) = 1 + 1.4939 + 0.2667, psi/T = 0.2536. */
    ask.step = 10;
    assert_int_equal(freezing_decide(f, &ask), 0);
    /* And it is remembered: the prior would say 1 again. */
    ask.step = 20;
    assert_int_equal(freezing_decide(f, &ask), 0);
    /* A machine twice as fast changes nothing in that. */
    ask.step = 30;
    ask.forward_s = 0.5;
    ask.backward_s = 1;
    ask.rest_s = 0.2;
    assert_int_equal(freezing_decide(f, &ask), 0);
    firn_freezer_free(f);
}

/* One decision of an equal-layered model with all variance in layers 1 and 3,
 * so that one and two frozen layers have the same psi. */
static size_t choose(double psi, double backward_s, double rest_s)
{
    const double v[LAYERS] = {1 - psi, 0, psi, 0};
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_freezer_ask ask = {.variance = v,
                                   .forward_s = 1,
                                   .backward_s = backward_s,
                                   .rest_s = rest_s,
                                   .progress = 0.5};
    size_t nfrozen = freezing_decide(f, &ask);
    firn_freezer_free(f);
    return nfrozen;
}

static void
backward_goes_half_with_the_root_and_rest_with_parameters(void **state)
{
    (void)state;
    /* T(0) = 3, T(2) = 1 + 2 (0.5 + 0.70711) / 2 = 2.20711: worth it above
     * psi = 0.7357. By theta alone it would be 0.667, by its root 0.805. */
    assert_int_equal(choose(0.70, 2, 0), 0);
    assert_int_equal(choose(0.75, 2, 0), 2);
    /* T(0) = 3.1, T(2) = 1 + 0.06036 + 2 / 2: above psi = 0.6646. */
    assert_int_equal(choose(0.65, 0.1, 2), 0);
    assert_int_equal(choose(0.68, 0.1, 2), 2);
}

static void a_new_measurement_moves_what_was_seen_half_way(void **state)
{
    (void)state;
    static const struct {
        double psi;
        size_t then;
    } cases[] = {{0.70, 2}, {0.67, 0}};
    for (size_t i = 0; i < 2; i++) {
        const double psi = cases[i].psi;
        const double v[LAYERS] = {1 - psi, 0, psi, 0};
        struct firn_freezer *f = freezing_penalty(LAYERS, 0);
        struct firn_freezer_ask ask = {
            .variance = v, .forward_s = 1, .backward_s = 2, .progress = 0.5};
        assert_int_equal(freezing_decide(f, &ask), 0);
        /* Seen 2, then 6: taken as 4, for which two layers are worth it above
         * psi = 3.41421 / 5 = 0.6828; for 2 it is 0.7357, for 6 0.6602. */
        ask.step = 10;
        ask.backward_s = 6;
        assert_int_equal(freezing_decide(f, &ask), cases[i].then);
        firn_freezer_free(f);
    }
}

static void nothing_freezes_before_times_and_variances_are_known(void **state)
{
    (void)state;
    const double v[LAYERS] = {0.001, 0.001, 0.001, 4};
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_freezer_ask ask = {.progress = 0.5};
    assert_int_equal(freezing_decide(f, &ask), 0);
    ask.forward_s = 1;
    ask.backward_s = 2;
    assert_int_equal(freezing_decide(f, &ask), 0);
    ask.variance = v;
    ask.forward_s = 0;
    assert_int_equal(freezing_decide(f, &ask), 0);
    ask.forward_s = 1;
    assert_int_equal(freezing_decide(f, &ask), 3); /* the failing twin */
    /* At a re-allocation without new numbers it stays as it is. */
    ask.variance = NULL;
    ask.forward_s = ask.backward_s = 0;
    assert_int_equal(freezing_decide(f, &ask), 3);
    firn_freezer_free(f);
}

static void caps_warmup_and_hysteresis_are_the_tuners(void **state)
{
    (void)state;
    const double v[LAYERS] = {0.001, 0.001, 0.001, 4};
    struct firn_freezer_config c = {.nlayers = LAYERS,
                                    .rule = FIRN_FREEZER_PENALTY,
                                    .tuner = {.max_share = 0.5},
                                    .warmup_epochs = 2};
    struct firn_freezer *f = freezing_make(c);
    struct firn_freezer_ask ask = freezing_ask(f, 1, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask),
                     0); /* one epoch done, two wanted */
    ask = freezing_ask(f, 2, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 2); /* half of four */
    firn_freezer_free(f);
    c.tuner.warmup = 0.15; /* of all progress: epoch 3 of 20 */
    f = freezing_make(c);
    ask = freezing_ask(f, 2, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 0);
    ask = freezing_ask(f, 3, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 2);
    firn_freezer_free(f);
    c.tuner.hysteresis = 10; /* no gain is that large */
    f = freezing_make(c);
    ask = freezing_ask(f, 4, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 0);
    firn_freezer_free(f);
}

/* Six layers of a small CNN: the variance falls fourfold after epoch 0, then
 * drifts up as the learning rate falls, with the noise of a real one. */
static void epoch_variance(double *v, uint64_t epoch, struct rng *rng)
{
    static const double base[6] = {1, 1.6, 2.2, 3, 5, 9};
    double level = epoch == 0 ? 4 : 1 + 0.03 * (double)epoch;
    for (size_t i = 0; i < 6; i++) {
        /* The front layers fall late: that is what fools an early choice. */
        double late = epoch == 0 && i < 3 ? 1.3 : 1;
        v[i] = base[i] * level * late * (1 + 0.04 * (rng_unit(rng) - 0.5));
    }
}

/* Changes of the frozen count from `from` on, over eight epochs. */
static int changes(uint64_t warmup, uint64_t from, uint64_t seed, size_t *last)
{
    struct rng rng;
    struct firn_freezer *f = freezing_make((struct firn_freezer_config){
        .nlayers = 6,
        .rule = FIRN_FREEZER_PENALTY,
        .warmup_epochs = warmup,
        .tuner = {.max_share = 0.9, .hysteresis = 0.02}});
    int n = 0;
    rng_seed(&rng, seed);
    for (uint64_t epoch = 1; epoch <= 8; epoch++) {
        double v[6];
        epoch_variance(v, epoch - 1, &rng);
        struct firn_freezer_ask ask = freezing_ask(f, epoch, v, 6);
        size_t was = firn_freezer_frozen(f);
        *last = freezing_decide(f, &ask);
        n += epoch > from && *last != was;
    }
    firn_freezer_free(f);
    return n;
}

static void a_warmup_damps_the_swing_of_the_first_epochs(void **state)
{
    (void)state;
    int swings_early = 0, swings_late = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        size_t early = 0, late = 0;
        /* After the first choice each should stay. */
        swings_early += changes(1, 1, seed, &early);
        swings_late += changes(FIRN_FREEZER_WARMUP, 3, seed, &late);
        assert_true(late > 0);
    }
    print_message("changes after the first choice, 20 trainings: warm-up of "
                  "one epoch %d, of three %d\n",
                  swings_early, swings_late);
    assert_int_equal(swings_late, 0);
    assert_true(swings_early >= 20);
}

static void freezeout_follows_its_schedule_and_owes_nothing(void **state)
{
    (void)state;
    const double v[LAYERS] = {1, 1, 1, 1};
    struct firn_freezer *f = freezing_make(
        (struct firn_freezer_config){.nlayers = LAYERS,
                                     .rule = FIRN_FREEZER_FREEZEOUT,
                                     .freezeout = {.first = 0.4}});
    /* t = 0.4, 0.6, 0.8, 1 */
    static const struct {
        double progress;
        size_t nfrozen;
    } expect[] = {{0, 0}, {0.39, 0}, {0.41, 1}, {0.61, 2}, {0.81, 3}, {1, 3}};
    for (size_t i = 0; i < sizeof expect / sizeof *expect; i++) {
        struct firn_freezer_ask ask = {
            .step = i, .progress = expect[i].progress, .variance = v};
        assert_int_equal(freezing_decide(f, &ask), expect[i].nfrozen);
        assert_true(firn_freezer_psi(f) == 1);
        assert_int_equal(firn_freezer_step(f, NULL), 0);
    }
    firn_freezer_free(f);
}

static size_t every_other(void *arg, const struct firn_freezer_ask *ask,
                          const struct firn_freeze *freeze)
{
    assert_int_equal(freeze->nlayers, LAYERS);
    *(int *)arg += 1;
    return ask->epoch;
}

static void a_users_rule_is_asked_and_checked(void **state)
{
    (void)state;
    const double v[LAYERS] = {1, 1, 1, 1};
    int nasked = 0;
    struct firn_freezer *f =
        freezing_make((struct firn_freezer_config){.nlayers = LAYERS,
                                                   .rule = FIRN_FREEZER_USER,
                                                   .user = every_other,
                                                   .arg = &nasked});
    struct firn_freezer_ask ask = freezing_ask(f, 2, NULL, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 2);
    assert_near(firn_freezer_psi(f), 1); /* nothing was measured */
    ask = freezing_ask(f, 3, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 3);
    /* Two frozen layers kept 0 as V0; the third enters with 1 of 2. */
    assert_near(firn_freezer_psi(f), 0.5);
    size_t nfrozen = 77;
    struct firn_error err = {0};
    ask = freezing_ask(f, 4, v, LAYERS);
    assert_int_equal(firn_freezer_decide(f, &ask, &nfrozen, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "4 of 4 layers"));
    assert_int_equal(nfrozen, 77);
    assert_int_equal(firn_freezer_frozen(f), 3);
    assert_int_equal(nasked, 3);
    firn_freezer_free(f);
}

static void extra_steps_pay_exactly_what_is_owed(void **state)
{
    (void)state;
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_decision d = {
        .kind = FIRN_DECIDED_FROZEN, .value = 2, .psi = 0.8};
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    /* A quarter of a step is owed by each ordinary one: every fourth is
     * followed by an extra one, which owes nothing itself. */
    double effective = 0;
    char seen[32] = "";
    for (int i = 0; i < 15; i++)
        seen[i] = (char)('0' + firn_freezer_step(f, &effective));
    assert_string_equal(seen, "000100001000010");
    assert_near(effective, 12); /* 15 * 0.8: twelve ordinary steps */
    firn_freezer_free(f);

    f = freezing_penalty(LAYERS, 0);
    d.psi = 0.3; /* 7/3 extra steps each */
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    int ordinary = 0, all = 0;
    for (unsigned due = 0; ordinary < 300; all++) {
        ordinary += due == 0;
        due = firn_freezer_step(f, &effective);
    }
    while (firn_freezer_step(f, &effective) > 0)
        all++;
    assert_true(fabs(effective - 300) < 1.5);
    assert_true(abs(all - 1000) <= 4);
    firn_freezer_free(f);
}

static void a_tiny_penalty_owes_no_more_than_99(void **state)
{
    (void)state;
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_decision d = {
        .kind = FIRN_DECIDED_FROZEN, .value = 2, .psi = 1e-300};
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    assert_near(firn_freezer_psi(f), 0.01);
    assert_int_equal(firn_freezer_step(f, NULL), 99);
    assert_int_equal(firn_freezer_step(f, NULL), 98);
    firn_freezer_free(f);
}

/* (3) in long double, with books of its own. */
static long double oracle_psi(const long double *value, size_t nlayers,
                              size_t nfrozen)
{
    long double front = 0, back = 0;
    for (size_t i = 0; i < nlayers; i++)
        *(i < nfrozen ? &front : &back) += value[i];
    return nfrozen == 0 ? 1 : back / (front + back);
}

static void psi_equals_a_long_double_oracle(void **state)
{
    (void)state;
    struct rng rng;
    int nscenes = getenv("FIRN_QUICK") != NULL ? 20 : 300, nfrozen_seen = 0;
    print_message("seed 7\n");
    rng_seed(&rng, 7);
    for (int scene = 0; scene < nscenes; scene++) {
        size_t n = 2 + rng_below(&rng, MOST - 2);
        struct firn_freezer *f = freezing_penalty(n, 0);
        long double kept[MOST] = {0};
        for (uint64_t epoch = 0; epoch < 12; epoch++) {
            double v[MOST];
            for (size_t i = 0; i < n; i++)
                v[i] = rng_unit(&rng) * (double)(i + 1) * 1e-3;
            for (size_t i = firn_freezer_frozen(f); i < n; i++)
                kept[i] = v[i];
            struct firn_freezer_ask ask = freezing_ask(f, epoch, v, n);
            size_t l = freezing_decide(f, &ask);
            long double psi = oracle_psi(kept, n, l);
            assert_true(fabsl(firn_freezer_psi(f) - psi) <= 1e-6L * psi);
            nfrozen_seen += l > 0;
        }
        firn_freezer_free(f);
    }
    assert_true(nfrozen_seen > nscenes); /* it did freeze */
}

static void assert_says(enum firn_status status, const struct firn_error *err,
                        const char *what)
{
    assert_int_equal(status, FIRN_EINVAL);
    if (strstr(err->text, what) == NULL)
        fail_msg("'%s' does not say '%s'", err->text, what);
}

static void wrong_numbers_are_named(void **state)
{
    (void)state;
    struct firn_error err = {0};
    struct firn_freezer *f = NULL;
    struct firn_freezer_config c = {.nlayers = 0};
    assert_says(firn_freezer_new(&f, &c, &err), &err, "at least one layer");
    c = (struct firn_freezer_config){.nlayers = 2, .rule = FIRN_FREEZER_USER};
    assert_says(firn_freezer_new(&f, &c, &err), &err, "no function");
    c.rule = FIRN_FREEZER_FREEZEOUT;
    assert_says(firn_freezer_new(&f, &c, &err), &err, "first share is 0");
    const double flops[] = {1, NAN};
    c = (struct firn_freezer_config){.nlayers = 2, .flops = flops};
    assert_says(firn_freezer_new(&f, &c, &err), &err, "FLOPs of layer 2");
    c = (struct firn_freezer_config){.nlayers = 2, .frozen_max = 1.5};
    assert_says(firn_freezer_new(&f, &c, &err), &err, "may be frozen is 1.5");
    assert_null(f);

    f = freezing_penalty(2, 0);
    size_t nfrozen = 5;
    const double v[] = {1, INFINITY};
    struct firn_freezer_ask ask = {.step = 5, .progress = NAN};
    assert_says(firn_freezer_decide(f, &ask, &nfrozen, &err), &err, "progress");
    ask.progress = 0;
    ask.backward_s = -1;
    assert_says(firn_freezer_decide(f, &ask, &nfrozen, &err), &err,
                "backward time");
    ask.backward_s = 0;
    ask.variance = v;
    assert_says(firn_freezer_decide(f, &ask, &nfrozen, &err), &err, "layer 2");
    ask.variance = NULL;
    assert_int_equal(freezing_decide(f, &ask), 0);
    ask.step = 4;
    assert_says(firn_freezer_decide(f, &ask, &nfrozen, &err), &err,
                "at step 4 after");
    struct firn_decision d = {.step = 9, .kind = 17};
    assert_says(firn_freezer_set(f, &d, &err), &err, "unknown kind 17");
    d.kind = FIRN_DECIDED_FROZEN;
    d.value = 2;
    assert_says(firn_freezer_set(f, &d, &err), &err, "2 of 2 layers");
    d.value = 1;
    d.psi = 1.5;
    assert_says(firn_freezer_replay(f, &d, 1, &err), &err, "penalty is 1.5");
    firn_freezer_free(f);
    firn_freezer_free(NULL);
}

static void off_decides_nothing_but_obeys(void **state)
{
    (void)state;
    const double v[LAYERS] = {0.001, 0.001, 0.001, 4};
    struct firn_freezer *f =
        freezing_make((struct firn_freezer_config){.nlayers = LAYERS});
    struct firn_freezer_ask ask = freezing_ask(f, 5, v, LAYERS);
    assert_int_equal(freezing_decide(f, &ask), 0);
    const struct firn_decision *log = NULL;
    assert_int_equal(firn_freezer_log(f, &log), 0);
    struct firn_decision d = {
        .step = 50, .kind = FIRN_DECIDED_FROZEN, .value = 3};
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    assert_near(firn_freezer_psi(f), 4 / 4.003); /* by the variances here */
    assert_int_equal(freezing_decide(f, &ask), 3);
    firn_freezer_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalty_freezes_what_hand_calculation_says),
        cmocka_unit_test(layers_of_other_weight_change_the_choice),
        cmocka_unit_test(times_seen_while_frozen_refine_the_rate),
        cmocka_unit_test(
            backward_goes_half_with_the_root_and_rest_with_parameters),
        cmocka_unit_test(a_new_measurement_moves_what_was_seen_half_way),
        cmocka_unit_test(nothing_freezes_before_times_and_variances_are_known),
        cmocka_unit_test(caps_warmup_and_hysteresis_are_the_tuners),
        cmocka_unit_test(a_warmup_damps_the_swing_of_the_first_epochs),
        cmocka_unit_test(freezeout_follows_its_schedule_and_owes_nothing),
        cmocka_unit_test(a_users_rule_is_asked_and_checked),
        cmocka_unit_test(extra_steps_pay_exactly_what_is_owed),
        cmocka_unit_test(a_tiny_penalty_owes_no_more_than_99),
        cmocka_unit_test(psi_equals_a_long_double_oracle),
        cmocka_unit_test(wrong_numbers_are_named),
        cmocka_unit_test(off_decides_nothing_but_obeys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
