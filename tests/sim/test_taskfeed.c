/* test_taskfeed.c - a forecast of a merge comes from reports, not from the
 * table that the simulated world runs by. */
#include "sim/taskfeed.h"
#include "sim/transfers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Pairs of tasks of a model, in both kinds, of which a ratio is known. */
static int count_known(struct taskfeed *feed)
{
    int known = 0;
    struct taskbook_answer answer;
    for (int a = 1; a <= TRANSFERS_TASKS; a++)
        for (int b = 1; b <= TRANSFERS_TASKS; b++)
            for (int kind = 0; kind < 2; kind++)
                known += transfers_is_pair(a, b) &&
                         taskfeed_answer(feed, a, b, (enum firn_merge_kind)kind,
                                         &answer);
    return known;
}

static void nothing_is_known_of_any_pair_before_a_report(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct taskfeed *feed = taskfeed_new(seed, false);
        assert_int_equal(count_known(feed), 0);
        taskfeed_free(feed);
    }
}

static void the_answer_key_knows_what_was_measured(void **state)
{
    (void)state;
    struct taskfeed *feed = taskfeed_new(1, true);
    int vit = transfers_task("vit@cifar100"),
        food = transfers_task("vit@food101");
    struct taskbook_answer answer;
    assert_true(count_known(feed) > 250);
    assert_true(taskfeed_answer(feed, vit, food, FIRN_MERGE_TOGETHER, &answer));
    assert_true(answer.ratio == 0.1); /* 1 epoch instead of 10 */
    assert_false(taskfeed_answer(feed, food, vit, FIRN_MERGE_AFTER, &answer));
    taskfeed_free(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_of_any_pair_before_a_report),
        cmocka_unit_test(the_answer_key_knows_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
