/* test_freezer_most.c - the share of layers that may be frozen, by any rule. */
#include "freezing.h"
#include <firn/freezer.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { LAYERS = 4 };

static size_t by_epoch(void *arg, const struct firn_freezer_ask *ask,
                       const struct firn_freeze *freeze)
{
    (void)arg;
    (void)freeze;
    return ask->epoch;
}

static size_t most_of(size_t nlayers, double frozen_max)
{
    struct firn_freezer *f = freezing_make((struct firn_freezer_config){
        .nlayers = nlayers, .frozen_max = frozen_max});
    size_t most = firn_freezer_most(f);
    firn_freezer_free(f);
    return most;
}

static void a_share_of_layers_is_rounded_down_and_never_all(void **state)
{
    (void)state;
    assert_int_equal(most_of(4, 0), 3); /* no limit of its own */
    assert_int_equal(most_of(4, 1), 3);
    assert_int_equal(most_of(4, 0.5), 2);
    assert_int_equal(most_of(4, 0.49), 1);
    assert_int_equal(most_of(4, 0.2), 0);
    assert_int_equal(most_of(100, 0.29), 29); /* 28.999... in doubles */
    assert_int_equal(most_of(1, 0.9), 0);
}

/* Frozen layers by a rule at the end of training, with and without a limit. */
static size_t by_rule(enum firn_freezer_rule rule, double frozen_max)
{
    /* All variance is in the last layer: the more frozen the better. */
    const double v[LAYERS] = {0, 0, 0, 1};
    struct firn_freezer *f =
        freezing_make((struct firn_freezer_config){.nlayers = LAYERS,
                                                   .rule = rule,
                                                   .freezeout = {.first = 0.4},
                                                   .user = by_epoch,
                                                   .frozen_max = frozen_max});
    struct firn_freezer_ask ask = {.epoch = 3,
                                   .variance = v,
                                   .forward_s = 1,
                                   .backward_s = 2,
                                   .rest_s = 0.4,
                                   .progress = 1};
    size_t nfrozen = freezing_decide(f, &ask);
    const struct firn_decision *log = NULL;
    assert_int_equal(firn_freezer_log(f, &log), 1);
    assert_int_equal(log[0].value, nfrozen);
    firn_freezer_free(f);
    return nfrozen;
}

static void every_rule_keeps_to_the_limit(void **state)
{
    (void)state;
    static const enum firn_freezer_rule rules[] = {
        FIRN_FREEZER_PENALTY, FIRN_FREEZER_FREEZEOUT, FIRN_FREEZER_USER};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        assert_int_equal(by_rule(rules[i], 0), 3);
        assert_int_equal(by_rule(rules[i], 0.5), 2);
        assert_int_equal(by_rule(rules[i], 0.3), 1);
        assert_int_equal(by_rule(rules[i], 0.1), 0);
    }
}

static void a_limited_penalty_takes_the_best_of_what_may_be(void **state)
{
    (void)state;
    /* Nothing is won by the first two layers, but much by the third: with at
     * most two frozen the best is none, not two of the three. */
    const double v[LAYERS] = {1, 1, 1, 7}, flops[LAYERS] = {0, 0, 8, 1};
    const uint64_t nelements[LAYERS] = {0, 0, 8, 1};
    for (int limited = 0; limited < 2; limited++) {
        struct firn_freezer *f = freezing_make(
            (struct firn_freezer_config){.nlayers = LAYERS,
                                         .flops = flops,
                                         .nelements = nelements,
                                         .rule = FIRN_FREEZER_PENALTY,
                                         .frozen_max = limited ? 0.5 : 0});
        struct firn_freezer_ask ask = {.variance = v,
                                       .forward_s = 1,
                                       .backward_s = 9,
                                       .rest_s = 1,
                                       .progress = 0.5};
        assert_int_equal(freezing_decide(f, &ask), limited ? 0 : 3);
        firn_freezer_free(f);
    }
}

/* Bits depend on them: they are not ours to cut off. */
static void a_replay_and_the_words_of_others_are_taken_as_they_are(void **state)
{
    (void)state;
    struct firn_freezer_config c = {.nlayers = LAYERS, .frozen_max = 0.25};
    struct firn_freezer *f = freezing_make(c);
    struct firn_decision d = {
        .step = 1, .kind = FIRN_DECIDED_FROZEN, .value = 3, .psi = 0.5};
    assert_int_equal(firn_freezer_replay(f, &d, 1, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_follow(f, 1, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_frozen(f), 3);
    assert_int_equal(firn_freezer_most(f), 1);
    d.step = 2;
    d.value = 2;
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_frozen(f), 2);
    firn_freezer_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_of_layers_is_rounded_down_and_never_all),
        cmocka_unit_test(every_rule_keeps_to_the_limit),
        cmocka_unit_test(a_limited_penalty_takes_the_best_of_what_may_be),
        cmocka_unit_test(
            a_replay_and_the_words_of_others_are_taken_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
