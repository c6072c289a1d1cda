/* test_liveforecast_merge.c - what merging is worth, before and after reports.
 */
#include "base/buf.h"
#include "daemon/liveforecast_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static struct livemerge_side side_of(const char *set, double alone_s)
{
    return (struct livemerge_side){.base = "bert",
                                   .dataset = set,
                                   .alone_s = alone_s,
                                   .epoch_s = alone_s / 10,
                                   .is_new = true};
}

static struct firn_merge expect(struct livemerge *m, double a, double b,
                                enum firn_merge_kind kind)
{
    struct livemerge_side side[] = {side_of("one", a), side_of("two", b)};
    struct firn_merge merge;
    assert_true(livemerge_expect(m, side, kind, &merge));
    return merge;
}

static void before_reports_the_gain_is_that_of_published_pairs(void **state)
{
    (void)state;
    struct livemerge *m = livemerge_new();
    struct firn_merge merge = expect(m, 100, 100, FIRN_MERGE_TOGETHER);
    NEAR(merge.left_s[0], 200 / 1.5);
    NEAR(merge.left_s[1], 200 / 1.5);
    NEAR(merge.weight, 300 / (400 / 1.5)); /* above 1: it pays */
    NEAR(merge.epoch_s, 20);
    /* A short one and a long one are better one after the other. */
    assert_true(expect(m, 10, 1000, FIRN_MERGE_TOGETHER).weight < 1);
    merge = expect(m, 100, 100, FIRN_MERGE_AFTER);
    NEAR(merge.left_s[0], 100);
    NEAR(merge.left_s[1], 100 + 100 / 1.11);
    NEAR(merge.epoch_s, 10);
    livemerge_free(m);
}

static void jobs_of_one_dataset_or_of_two_bases_are_not_merged(void **state)
{
    (void)state;
    struct livemerge *m = livemerge_new();
    struct firn_merge merge = {.weight = 77};
    struct livemerge_side side[] = {side_of("one", 10), side_of("one", 10)};
    assert_false(livemerge_expect(m, side, FIRN_MERGE_TOGETHER, &merge));
    side[1] = side_of("two", 10);
    side[1].base = "gpt2";
    assert_false(livemerge_expect(m, side, FIRN_MERGE_TOGETHER, &merge));
    side[1] = side_of("two", (double)NAN);
    assert_false(livemerge_expect(m, side, FIRN_MERGE_TOGETHER, &merge));
    side[1] = side_of("two", 10);
    side[1].is_new = false;
    assert_false(livemerge_expect(m, side, FIRN_MERGE_AFTER, &merge));
    assert_true(merge.weight == 77);
    assert_true(livemerge_expect(m, side, FIRN_MERGE_TOGETHER, &merge));
    livemerge_free(m);
}

static void an_observed_gain_replaces_the_published_one(void **state)
{
    (void)state;
    struct livemerge *m = livemerge_new();
    struct livemerge_side seen[] = {side_of("two", 1), side_of("one", 1)};
    livemerge_saw(m, seen, 1.2);
    livemerge_saw(m, seen,
                  1.0); /* the newest observation of this pair counts */
    NEAR(expect(m, 100, 100, FIRN_MERGE_TOGETHER).left_s[0], 200);
    /* Others of the base: the mean of it and of the prior. */
    struct livemerge_side others[] = {side_of("three", 100),
                                      side_of("four", 100)};
    struct firn_merge merge;
    assert_true(livemerge_expect(m, others, FIRN_MERGE_TOGETHER, &merge));
    NEAR(merge.left_s[0], 200 / 1.25);
    others[0].base = others[1].base = "gpt2"; /* of which nothing is known */
    assert_true(livemerge_expect(m, others, FIRN_MERGE_TOGETHER, &merge));
    NEAR(merge.left_s[0], 200 / 1.5);
    livemerge_saw(m, seen, (double)NAN);
    livemerge_saw(m, seen, -1);
    NEAR(expect(m, 100, 100, FIRN_MERGE_TOGETHER).left_s[0], 200);
    livemerge_free(m);
}

/* Jobs of a dataset, alone: losses 1/k, the target 0.1. */
static void train_alone(struct livemerge *m, const char *set)
{
    for (int k = 1; k <= 10; k++) {
        struct livemerge_epoch epoch = {.base = "bert",
                                        .dataset = set,
                                        .epoch = k,
                                        .loss = 1.0 / k,
                                        .target_loss = 0.1,
                                        .epochs_max = 10};
        livemerge_epoch(m, &epoch);
        if (k == 10)
            livemerge_ended(m, &epoch);
    }
}

static double gain_after(struct livemerge *m, const char *first,
                         const char *second)
{
    struct livemerge_side side[] = {side_of(first, 100), side_of(second, 100)};
    struct firn_merge merge;
    assert_true(livemerge_expect(m, side, FIRN_MERGE_AFTER, &merge));
    return 100 / (merge.left_s[1] - 100);
}

/* Three epochs instead of ten, once. */
static void weights_that_a_job_has_used_to_its_end_are_measured(void **state)
{
    (void)state;
    struct livemerge *m = livemerge_new();
    struct livemerge_side side[] = {{.base = "bert", .dataset = "one"},
                                    {.base = "bert", .dataset = "two"}};
    struct firn_after after;
    assert_true(livemerge_after(m, side, &after));
    NEAR(after.gain, 1.11);
    assert_int_equal(after.ended, 0);
    train_alone(m, "one");
    train_alone(m, "two");
    struct livemerge_epoch helped = {.base = "bert",
                                     .dataset = "two",
                                     .with = "one",
                                     .kind = FIRN_MERGE_AFTER,
                                     .target_loss = 0.1,
                                     .epochs_max = 10};
    for (helped.epoch = 1; helped.epoch <= 3; helped.epoch++) {
        helped.loss = 0.3 / helped.epoch;
        livemerge_epoch(m, &helped);
    }
    assert_true(livemerge_after(m, side, &after));
    assert_int_equal(after.ended, 0);
    helped.epoch = 3;
    livemerge_ended(m, &helped);
    assert_true(livemerge_after(m, side, &after));
    assert_int_equal(after.ended, 1);
    assert_true(after.gain > 2);
    side[1].dataset = "one"; /* its own */
    assert_false(livemerge_after(m, side, &after));
    side[1] = (struct livemerge_side){.base = "gpt2", .dataset = "two"};
    assert_false(livemerge_after(m, side, &after));
    livemerge_free(m);
}

/* b and d are like a and c. What b gained from a, and d did not gain from a, is
 * a line over scores: d is expected to gain more from c, which is like it. */
static void tasks_that_are_alike_by_embedding_gain_alike(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        double at[4];
    } places[] = {{"a", {9, 1, 1, 1}},
                  {"b", {8, 2, 1, 1}},
                  {"c", {1, 1, 1, 9}},
                  {"d", {1, 1, 2, 8}}};
    struct livemerge *m = livemerge_new();
    for (int i = 0; i < 4; i++) {
        train_alone(m, places[i].set);
        livemerge_place(m, "bert", places[i].set, places[i].at, 4);
    }
    for (int k = 1; k <= 4; k++) {
        struct livemerge_epoch helped = {.base = "bert",
                                         .dataset = "b",
                                         .with = "a",
                                         .kind = FIRN_MERGE_AFTER,
                                         .epoch = k,
                                         .loss = 0.5 / k,
                                         .target_loss = 0.1,
                                         .epochs_max = 10};
        struct livemerge_epoch not_helped = helped;
        not_helped.dataset = "d";
        not_helped.loss = 1.2 / k;
        livemerge_epoch(m, &helped);
        livemerge_epoch(m, &not_helped);
    }
    assert_true(gain_after(m, "c", "d") > gain_after(m, "a", "d"));
    /* The same after a restart, of which the places are a part. */
    struct firn_buf text = {0};
    struct firn_error err;
    livemerge_save(m, &text);
    struct livemerge *again = livemerge_new();
    assert_int_equal(
        livemerge_load(again, (struct firn_bytes){text.at, text.n}, &err),
        FIRN_OK);
    assert_true(gain_after(again, "c", "d") == gain_after(m, "c", "d"));
    buf_release(&text);
    livemerge_free(again);
    livemerge_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_reports_the_gain_is_that_of_published_pairs),
        cmocka_unit_test(jobs_of_one_dataset_or_of_two_bases_are_not_merged),
        cmocka_unit_test(an_observed_gain_replaces_the_published_one),
        cmocka_unit_test(weights_that_a_job_has_used_to_its_end_are_measured),
        cmocka_unit_test(tasks_that_are_alike_by_embedding_gain_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
