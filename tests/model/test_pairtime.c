/* test_pairtime.c - Theorem 1 of SJF-BSBF, by hand and by trying all moments.
 *
 * The brute force knows nothing of cases: it lets the two jobs go on in turn
 * until the next thing happens.
 */
#include <firn/pairtime.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "lib/trials.h"
#include <cmocka.h>
#include <math.h>

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (1 + fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

/* a = 100, b = 300, both slowed 1.5 times. Both from now: the new one is done
 * at 150, the running one has done 100 of its 300 by then and ends at 350: mean
 * 250. In turn: 300 and 400, mean 350. At 2.5 the new one ends at 250, the
 * running one has done 100 again and ends at 450: 350, no better than waiting.
 */
static void a_short_job_beside_a_long_one(void **unused)
{
    static const struct {
        double xi, shared_s;
        bool shares;
    } rows[] = {{1.5, 250, true}, {2, 300, true}, {2.5, 350, false}};
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct firn_pairtime p = {100, 300, rows[i].xi, rows[i].xi};
        assert_near(firn_pairtime_shared(&p), rows[i].shared_s);
        assert_near(firn_pairtime_in_turn(&p), 350);
        assert_int_equal(firn_pairtime_shares(&p), rows[i].shares);
    }
}

/* a = 300, b = 100. At 1.4 the running one ends at 140, the new one has done
 * 100 and ends at 340: mean 240. In turn: 100 and 400, mean 250. At 1.5 it is
 * 150 and 350: 250, no better. */
static void a_long_job_beside_a_short_one(void **unused)
{
    struct firn_pairtime p = {300, 100, 1.4, 1.4};
    (void)unused;
    assert_near(firn_pairtime_shared(&p), 240);
    assert_near(firn_pairtime_in_turn(&p), 250);
    assert_true(firn_pairtime_shares(&p));
    p.new_xi = p.running_xi = 1.5;
    assert_near(firn_pairtime_shared(&p), 250);
    assert_false(firn_pairtime_shares(&p));
}

/* Unequal: a = 60 at 2, b = 90 at 1.2. The running one ends at 108; the new one
 * has done 54 and ends at 114: mean 111. In turn: 90 and 150, mean 120. Joining
 * at 30: the running one has 60 left and ends at 30 + 72 = 102, the new one
 * has done 36 and ends at 126: mean 114. */
static void each_job_has_a_slowdown_of_its_own(void **unused)
{
    struct firn_pairtime p = {60, 90, 2, 1.2};
    (void)unused;
    assert_near(firn_pairtime_shared(&p), 111);
    assert_near(firn_pairtime_in_turn(&p), 120);
    assert_near(firn_pairtime_mean(&p, 30), 114);
}

/* Joining later than the running one's end only wastes time. */
static void joining_after_the_end_only_wastes_time(void **unused)
{
    struct firn_pairtime p = {60, 90, 2, 1.2};
    (void)unused;
    assert_near(firn_pairtime_mean(&p, 90), firn_pairtime_in_turn(&p));
    assert_near(firn_pairtime_mean(&p, 100), (90 + 160) / 2.0);
    /* elsewhere from 20 on: 90 and 80 */
    assert_near(firn_pairtime_apart(&p, 20), 85);
    assert_near(firn_pairtime_apart(&p, 90), firn_pairtime_in_turn(&p));
}

/* With equal slowdowns: a new job that stays the longer one shares below 1.5;
 * a shorter one below 1 + b / (2 a). */
static void equal_slowdowns_have_a_simple_rule(void **unused)
{
    struct rng rng;
    (void)unused;
    rng_seed(&rng, 7);
    for (int i = 0; i < trials(1000); i++) {
        double a = 1 + 999 * rng_unit(&rng), b = 1 + 999 * rng_unit(&rng);
        double xi = 1 + 3 * rng_unit(&rng);
        double limit = a >= b ? 1.5 : 1 + b / (2 * a);
        struct firn_pairtime p = {a, b, xi, xi};
        if (fabs(xi - limit) > 1e-9)
            assert_int_equal(firn_pairtime_shares(&p), xi < limit);
    }
}

/* Mean completion time, event by event. */
static double brute_s(const struct firn_pairtime *p, double after_s)
{
    double left[2] = {p->new_s, p->running_s};
    const double xi[2] = {p->new_xi, p->running_xi};
    double end_s[2] = {-1, -1}, now_s = 0;
    while (end_s[0] < 0 || end_s[1] < 0) {
        bool runs[2] = {end_s[0] < 0 && now_s >= after_s, end_s[1] < 0};
        double step_s = now_s < after_s ? after_s - now_s : INFINITY;
        for (int i = 0; i < 2; i++) {
            double slow = runs[0] && runs[1] ? xi[i] : 1;
            if (runs[i] && left[i] * slow < step_s)
                step_s = left[i] * slow;
        }
        bool both = runs[0] && runs[1];
        now_s = now_s < after_s && now_s + step_s >= after_s ? after_s
                                                             : now_s + step_s;
        for (int i = 0; i < 2; i++) {
            left[i] -= runs[i] ? step_s / (both ? xi[i] : 1) : 0;
            if (runs[i] && left[i] <= 1e-12 * p->running_s)
                end_s[i] = now_s;
        }
    }
    return (end_s[0] + end_s[1]) / 2;
}

/* No moment of 201 between now and the running job's end beats both ends; and
 * the formula is what the events say. */
static void the_best_moment_to_join_is_now_or_the_end(void **unused)
{
    struct rng rng;
    (void)unused;
    rng_seed(&rng, 11);
    for (int i = 0; i < trials(600); i++) {
        struct firn_pairtime p = {1 + 500 * rng_unit(&rng),
                                  1 + 500 * rng_unit(&rng),
                                  1 + 4 * rng_unit(&rng) * rng_unit(&rng),
                                  1 + 4 * rng_unit(&rng) * rng_unit(&rng)};
        double shared_s = firn_pairtime_shared(&p);
        double turn_s = firn_pairtime_in_turn(&p);
        double best_s = shared_s < turn_s ? shared_s : turn_s;
        for (int k = 0; k <= 200; k++) {
            double after_s = p.running_s * k / 200;
            double mean_s = brute_s(&p, after_s);
            if (mean_s < best_s * (1 - 1e-9) ||
                fabs(mean_s - firn_pairtime_mean(&p, after_s)) > 1e-6 * mean_s)
                fail_msg("seed 11, pair %d (%g %g %g %g), after %g: %g, "
                         "ends %g and %g",
                         i, p.new_s, p.running_s, p.new_xi, p.running_xi,
                         after_s, mean_s, shared_s, turn_s);
        }
    }
}

/* The choice of sub-batches relies on this: a faster new job never makes the
 * pair's mean longer. */
static void a_faster_new_job_is_better_for_the_pair(void **unused)
{
    struct rng rng;
    (void)unused;
    rng_seed(&rng, 13);
    for (int i = 0; i < trials(1000); i++) {
        struct firn_pairtime p = {
            1 + 500 * rng_unit(&rng), 1 + 500 * rng_unit(&rng),
            1 + 2 * rng_unit(&rng), 1 + 2 * rng_unit(&rng)};
        double before_s = firn_pairtime_shared(&p);
        p.new_s *= 0.9;
        assert_true(firn_pairtime_shared(&p) < before_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_job_beside_a_long_one),
        cmocka_unit_test(a_long_job_beside_a_short_one),
        cmocka_unit_test(each_job_has_a_slowdown_of_its_own),
        cmocka_unit_test(joining_after_the_end_only_wastes_time),
        cmocka_unit_test(equal_slowdowns_have_a_simple_rule),
        cmocka_unit_test(the_best_moment_to_join_is_now_or_the_end),
        cmocka_unit_test(a_faster_new_job_is_better_for_the_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
