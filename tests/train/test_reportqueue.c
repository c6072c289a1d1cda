/* test_reportqueue.c - few slots, and the newest of each kind is never lost. */
#include "base/rng.h"
#include "train/reportqueue.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct firn_reportitem item(uint64_t step, bool with_variance)
{
    static const double variance[] = {1, 2, 3};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    struct firn_reportitem made;
    report.step = step;
    if (with_variance) {
        report.variance = variance;
        report.nlayers = 3;
    }
    assert_int_equal(firn_reportitem_init(&made, &report, NULL), FIRN_OK);
    return made;
}

static size_t add(struct firn_reportqueue *q, uint64_t step, bool variance)
{
    struct firn_reportitem made = item(step, variance);
    return firn_reportqueue_add(q, &made);
}

static void assert_next(struct firn_reportqueue *q, uint64_t step)
{
    assert_true(q->n > 0);
    struct firn_reportitem first = firn_reportqueue_take(q);
    assert_int_equal(first.report.step, step);
    firn_reportitem_release(&first);
}

static void reports_come_out_in_order_with_their_own_variances(void **state)
{
    (void)state;
    struct firn_reportqueue q = {0};
    assert_int_equal(add(&q, 1, false), 0);
    assert_int_equal(add(&q, 2, true), 0);
    assert_next(&q, 1);
    struct firn_reportitem second = firn_reportqueue_take(&q);
    assert_true(second.report.variance == second.variance &&
                second.variance[2] == 3 && second.report.nlayers == 3);
    firn_reportitem_release(&second);
    assert_int_equal(q.n, 0);
}

static void a_full_queue_drops_the_oldest_superseded_one(void **state)
{
    (void)state;
    struct firn_reportqueue q = {0};
    add(&q, 0, true); /* the only one of its kind: stays for ever */
    for (uint64_t i = 1; i < FIRN_REPORTQUEUE_SLOTS; i++)
        assert_int_equal(add(&q, i, false), 0);
    assert_int_equal(add(&q, 100, false), 1);
    assert_int_equal(q.n, FIRN_REPORTQUEUE_SLOTS);
    assert_next(&q, 0);
    assert_next(&q, 2); /* 1 went */
    assert_int_equal(firn_reportqueue_thin(&q), FIRN_REPORTQUEUE_SLOTS - 3);
    assert_next(&q, 100);
    assert_int_equal(q.n, 0);
}

static void a_returned_report_gives_way_to_a_newer_one(void **state)
{
    (void)state;
    struct firn_reportqueue q = {0};
    struct firn_reportitem taken = item(1, true);
    add(&q, 2, false);
    assert_int_equal(firn_reportqueue_back(&q, &taken), 0); /* other kind */
    assert_next(&q, 1);
    taken = item(1, false);
    assert_int_equal(firn_reportqueue_back(&q, &taken), 1);
    assert_next(&q, 2);
    for (uint64_t i = 0; i < FIRN_REPORTQUEUE_SLOTS; i++)
        add(&q, i, false);
    taken = item(50, true); /* comes back into a full one */
    assert_int_equal(firn_reportqueue_back(&q, &taken), 1);
    assert_int_equal(q.n, FIRN_REPORTQUEUE_SLOTS);
    assert_next(&q, 50);
    assert_next(&q, 1);
    firn_reportqueue_release(&q);
}

static void whatever_happens_the_newest_of_each_kind_is_there(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_reportqueue q = {0};
    uint64_t newest[2] = {0, 0}, nadded = 0, ngone = 0;
    print_message("seed 11\n");
    rng_seed(&rng, 11);
    for (uint64_t step = 1; step <= 4000; step++) {
        bool variance = rng_below(&rng, 5) == 0;
        ngone += add(&q, step, variance);
        nadded++;
        newest[variance] = step;
        if (rng_below(&rng, 3) == 0) {
            struct firn_reportitem taken = firn_reportqueue_take(&q);
            ngone += firn_reportqueue_back(&q, &taken);
        }
        if (rng_below(&rng, 40) == 0)
            ngone += firn_reportqueue_thin(&q);
        assert_true(q.n <= FIRN_REPORTQUEUE_SLOTS);
        assert_int_equal(q.n, nadded - ngone);
        uint64_t last[2] = {0, 0};
        for (size_t i = 0; i < q.n; i++) {
            size_t kind = q.at[i].variance != NULL;
            assert_true(q.at[i].report.step > last[kind]); /* in order */
            last[kind] = q.at[i].report.step;
        }
        assert_true(last[0] == newest[0] && last[1] == newest[1]);
    }
    firn_reportqueue_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_come_out_in_order_with_their_own_variances),
        cmocka_unit_test(a_full_queue_drops_the_oldest_superseded_one),
        cmocka_unit_test(a_returned_report_gives_way_to_a_newer_one),
        cmocka_unit_test(whatever_happens_the_newest_of_each_kind_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
