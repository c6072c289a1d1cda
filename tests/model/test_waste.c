/* test_waste.c - EasyScale's equations by hand; layouts against brute force.
 */
#include "base/rng.h"
#include <firn/waste.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fmax(fabs(a), fabs(b)));
}

static struct firn_waste waste(const struct firn_waste_type *types, int n,
                               int maxp)
{
    struct firn_waste w;
    struct firn_error err;
    if (firn_waste_of(types, n, maxp, &w, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return w;
}

static void waste_and_perf_are_equations_1a_to_1e(void **state)
{
    (void)state;
    /* 1 V100, 1 P100, 2 T4 (the paper's example of a mix), 8 threads. C = 4,
     * 2, 1 and A = 4, 2, 1: (1a) 4 + 2 + 2 = 8; (1b) f = 1; nothing wasted;
     * perf 8. */
    struct firn_waste_type types[] = {
        {1, 4, 4, 0, 0}, {1, 2, 2, 0, 0}, {2, 1, 1, 0, 0}};
    struct firn_waste w = waste(types, 3, 8);
    assert_true(w.capacity == 8 && w.step_s == 1);
    assert_true(w.waste == 0 && w.waste_norm == 0 && w.perf == 8);
    /* Even threads, 2 each: f = max(2/4, 2/2, 2/1) = 2;
     * waste = (4 - 1) + (2 - 1) + 2 (1 - 1) + 0 = 4; of 8: a half; perf 4. */
    types[0].threads = types[1].threads = types[2].threads = 2;
    w = waste(types, 3, 8);
    assert_true(w.step_s == 2 && w.waste == 4 && w.waste_norm == 0.5);
    assert_true(w.perf == 4);
}

static void with_the_factor_n_perf_is_maxp_over_the_step_time(void **state)
{
    (void)state;
    /* 3 T4 with C = 1 and A = 2 beside 1 V100 with C = 2.45 (ResNet50's) and
     * A = 5: capacity 11, f = max(2, 5/2.45 = 2.0408) = 2.0408. As printed the
     * T4s' gap would count once: 0.02 instead of 0.06, and perf would exceed
     * the 11 threads done in 2.0408 s. */
    struct firn_waste_type types[] = {{1, 2.45, 5, 0, 0}, {3, 1, 2, 0, 0}};
    struct firn_waste w = waste(types, 2, 11);
    double f = 5 / 2.45;
    assert_true(near(w.waste, 3 * (1 - 2 / f)));
    assert_true(near(w.perf, 11 / f));
    assert_true(near(w.perf, 2.45 + 3 - w.waste));
    /* Ten threads leave one unit of the capacity unused: (1c)'s second part. */
    w = waste(types, 2, 10);
    assert_true(near(w.waste, 3 * (1 - 2 / f) + 1 / f));
    assert_true(near(w.perf, 10 / f));
}

static void resnet50_on_a_v100_and_a_t4(void **state)
{
    (void)state;
    /* 2.45 times faster on a V100 than on a T4. 7 threads: 5 and 2, step
     * 2.0408 (5 / 2.45), waste 3.45 - 7/2.0408 = 0.02. Even halves (4 and 3)
     * take 3 s. */
    const double rates[] = {2.45, 1};
    int threads[2];
    struct firn_waste w;
    assert_int_equal(firn_waste_layout(rates, 2, 7, threads, &w, NULL),
                     FIRN_OK);
    assert_int_equal(threads[0], 5);
    assert_int_equal(threads[1], 2);
    assert_true(near(w.step_s, 5 / 2.45) && near(w.waste, 3.45 - 7 * 0.49));
}

static void several_executors_multiply_both(void **state)
{
    (void)state;
    /* m = 2, I = 0.6: MC = 2 x 10 x 0.6 = 12, MA = 2 x 3 = 6; f = 0.5; 12
     * threads on 2 GPUs: nothing wasted, perf 24. */
    struct firn_waste_type type = {2, 10, 3, 2, 0.6};
    struct firn_waste w = waste(&type, 1, 12);
    assert_true(near(w.step_s, 0.5) && near(w.perf, 24));
    assert_true(near(w.waste, 0) && w.capacity == 12);
}

/* Two V100s of C = 5 and 8 threads. One executor: A = 4, f = 4 / 5 = 0.8 s,
 * perf
 * 10. Two executors that keep 0.55 each: MC = 2 x 5 x 0.55 = 5.5, MA = 2 x 2 =
 * 4, f = 4 / 5.5, perf 11, no waste. A V100 of C = 4 with two such executors
 * (MC 4.4) beside a T4 of C = 1, and 5 threads: 2 on each executor take 2 / 2.2
 * s, the fifth 1 s on the T4 (a third one on an executor: 1.36 s); f = 1, perf
 * 5 of 5.4. */
static void the_best_layout_counts_executors(void **state)
{
    (void)state;
    struct firn_waste w;
    struct firn_waste_type one[] = {{2, 5, 0, 0, 0}};
    assert_true(firn_waste_best(one, 1, 8, &w));
    assert_true(one[0].threads == 4 && near(w.step_s, 0.8) && near(w.perf, 10));
    struct firn_waste_type two[] = {{2, 5, 0, 2, 0.55}};
    assert_true(firn_waste_best(two, 1, 8, &w));
    assert_true(two[0].threads == 2 && w.capacity == 8);
    assert_true(near(w.step_s, 4 / 5.5) && near(w.perf, 11));
    assert_true(near(w.waste, 0));
    struct firn_waste_type mix[] = {{1, 4, 0, 2, 0.55}, {1, 1, 0, 0, 0}};
    assert_true(firn_waste_best(mix, 2, 5, &w));
    assert_true(mix[0].threads == 2 && mix[1].threads == 1);
    assert_true(near(w.step_s, 1) && near(w.perf, 5));
    assert_true(near(w.waste_norm, 0.4 / 5.4));
    struct firn_waste same = waste(mix, 2, 5); /* (1a) to (1e) of that layout */
    assert_true(near(same.perf, w.perf) && near(same.waste, w.waste));
}

/* Seconds of a mini-batch of ResNet50, batch 32, with 1 to 7 workers on a V100:
 * packed, and as threads of one executor (the artifact's
 * sharing_minibatch_s.csv, to four digits; eight do not fit). So m executors of
 * a thread do m I = alone / packed times as much as one with m threads: 0.98 to
 * 1.06. */
static void packing_resnet50_is_worth_little(void **state)
{
    static const double packed_s[] = {0.1828, 0.1981, 0.1940, 0.1851,
                                      0.1843, 0.1950, 0.1825};
    static const double threads_s[] = {0.2106, 0.1967, 0.1952, 0.1928,
                                       0.1923, 0.1920, 0.1934};
    (void)state;
    double best = 0, worst = INFINITY;
    for (int m = 2; m <= 7; m++) {
        double keeps = threads_s[m - 1] / packed_s[m - 1] / m;
        struct firn_waste_type type = {1, 1 / threads_s[m - 1], 1, m, keeps};
        struct firn_waste_type slow = {1, 1 / threads_s[m - 1], m, 1, 1};
        double gain = waste(&type, 1, m).perf / waste(&slow, 1, m).perf;
        best = fmax(best, gain);
        worst = fmin(worst, gain);
    }
    assert_true(best > 1.05 && best < 1.07);
    assert_true(worst > 0.97 && worst < 1);
}

static void types_without_gpus_do_not_count(void **state)
{
    (void)state;
    struct firn_waste_type types[] = {{2, 1, 1, 0, 0}, {0, 0.001, 50, 0, 0}};
    struct firn_waste w = waste(types, 2, 2);
    assert_true(w.step_s == 1 && w.waste == 0 && w.capacity == 2);
}

static void perf_and_waste_share_out_the_capability(void **state)
{
    (void)state;
    const uint64_t seed = 4;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 5000; i++) {
        struct firn_waste_type types[4];
        double total = 0;
        int room = 0, n = 1 + (int)rng_below(&rng, 4);
        for (int k = 0; k < n; k++) {
            types[k] = (struct firn_waste_type){
                (int)rng_below(&rng, 5) + (k == 0), 0.1 + 5 * rng_unit(&rng),
                1 + (int)rng_below(&rng, 6), 1 + (int)rng_below(&rng, 3),
                0.3 + 0.7 * rng_unit(&rng)};
            total += types[k].ngpus * types[k].executors * types[k].rate *
                     types[k].interference;
            room += types[k].ngpus * types[k].executors * types[k].threads;
        }
        struct firn_waste w =
            waste(types, n, 1 + (int)rng_below(&rng, (uint64_t)room));
        if (fabs(w.perf + w.waste - total) > 1e-9 * total ||
            !(w.waste > -1e-9 * total) || !(w.waste_norm < 1))
            fail_msg("seed %llu, case %d", (unsigned long long)seed, i);
    }
}

/* --- layouts --- */

/* The least max n_g / C_g over all layouts, tried one by one; rates are p/q
 * with small p and q, so that cross products are exact. */
struct oracle {
    int p[5], q[5], n;
    long best_num, best_den; /* of the step time */
};

static void try_all(struct oracle *o, int g, int left, long num, long den)
{
    if (o->best_den && num * o->best_den >= o->best_num * den)
        return;
    if (g == o->n) {
        if (left == 0) {
            o->best_num = num;
            o->best_den = den;
        }
        return;
    }
    for (int k = 0; k <= left; k++) {
        /* k / (p / q) = k q / p */
        long t = (long)k * o->q[g], d = o->p[g];
        bool is_later = t * den > num * d;
        try_all(o, g + 1, left - k, is_later ? t : num, is_later ? d : den);
    }
}

static void layouts_are_the_best_there_are(void **state)
{
    (void)state;
    const uint64_t seed = 20230812;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 800; i++) {
        struct oracle o = {.n = 1 + (int)rng_below(&rng, 5)};
        double rates[5];
        int threads[5], maxp = 1 + (int)rng_below(&rng, 14), sum = 0;
        /* Denominators are powers of two: the rates are exact, and ties are
         * frequent. */
        for (int g = 0; g < o.n; g++) {
            o.p[g] = 1 + (int)rng_below(&rng, 12);
            o.q[g] = 1 << rng_below(&rng, 4);
            rates[g] = (double)o.p[g] / o.q[g];
        }
        struct firn_waste w;
        try_all(&o, 0, maxp, 0, 1);
        assert_int_equal(firn_waste_layout(rates, o.n, maxp, threads, &w, NULL),
                         FIRN_OK);
        long num = 0, den = 1;
        for (int g = 0; g < o.n; g++) {
            long t = (long)threads[g] * o.q[g];
            sum += threads[g];
            if (t * den > num * o.p[g]) {
                num = t;
                den = o.p[g];
            }
        }
        if (sum != maxp || num * o.best_den != o.best_num * den)
            fail_msg("seed %llu, case %d: step %ld/%ld, best %ld/%ld",
                     (unsigned long long)seed, i, num, den, o.best_num,
                     o.best_den);
        assert_true(near(w.perf * w.step_s, maxp));
    }
}

static void the_floors_at_the_step_time_hold_all_threads(void **state)
{
    (void)state;
    const uint64_t seed = 77;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 2000; i++) {
        double rates[64], total = 0;
        int threads[64], n = 1 + (int)rng_below(&rng, 64);
        int maxp = 1 + (int)rng_below(&rng, 100000), sum = 0;
        struct firn_waste w;
        for (int g = 0; g < n; g++)
            total += rates[g] = 0.01 + 10 * rng_unit(&rng);
        assert_int_equal(firn_waste_layout(rates, n, maxp, threads, &w, NULL),
                         FIRN_OK);
        long before = 0;
        for (int g = 0; g < n; g++) {
            sum += threads[g];
            before += (long)floor(w.step_s * (1 - 1e-12) * rates[g]);
        }
        /* All are placed, and a little earlier there is no room for all. */
        if (sum != maxp || before >= maxp || w.step_s < maxp / total - 1e-9)
            fail_msg("seed %llu, case %d", (unsigned long long)seed, i);
    }
}

static void ties_are_decided_without_rounding(void **state)
{
    (void)state;
    /* As doubles, 0.3 is less than three times 0.1, by 1/36028797018963968: so
     * 3 threads at 0.3 end later than 1 at 0.1, though both quotients round to
     * 10. Of 3 threads the slow GPU gets one; of 5 as well, for 4/0.3 < 2/0.1.
     */
    const double rates[] = {0.3, 0.1};
    int threads[2];
    assert_int_equal(firn_waste_layout(rates, 2, 3, threads, NULL, NULL),
                     FIRN_OK);
    assert_int_equal(threads[0], 2);
    assert_int_equal(threads[1], 1);
    assert_int_equal(firn_waste_layout(rates, 2, 5, threads, NULL, NULL),
                     FIRN_OK);
    assert_int_equal(threads[0], 4);
    assert_int_equal(threads[1], 1);
    /* Equal GPUs: the lower one first. */
    const double same[] = {2, 2, 2};
    int three[3];
    assert_int_equal(firn_waste_layout(same, 3, 4, three, NULL, NULL), FIRN_OK);
    assert_int_equal(three[0], 2);
    assert_int_equal(three[1], 1);
    /* Rates that are one unit in the last place apart. */
    const double close[] = {1, nextafter(1, 2)};
    assert_int_equal(firn_waste_layout(close, 2, 1, threads, NULL, NULL),
                     FIRN_OK);
    assert_int_equal(threads[1], 1);
}

static void a_gpu_far_too_slow_gets_nothing(void **state)
{
    (void)state;
    const double rates[] = {1e-9, 1e9};
    int threads[2];
    struct firn_waste w;
    assert_int_equal(
        firn_waste_layout(rates, 2, FIRN_WASTE_THREADS_MAX, threads, &w, NULL),
        FIRN_OK);
    assert_int_equal(threads[0], 0);
    assert_int_equal(threads[1], FIRN_WASTE_THREADS_MAX);
}

static void invalid_numbers_are_refused_and_nothing_is_written(void **state)
{
    (void)state;
    static const double bad[] = {0, -1, NAN, INFINITY};
    struct firn_waste w = {.perf = 7};
    struct firn_error err;
    int threads[2] = {-9, -9};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const double rates[] = {1, bad[i]};
        struct firn_waste_type types[] = {{1, 1, 1, 0, 0},
                                          {1, bad[i], 1, 0, 0}};
        assert_int_equal(firn_waste_layout(rates, 2, 4, threads, &w, &err),
                         FIRN_EINVAL);
        assert_non_null(strstr(err.text, "GPU 1"));
        assert_int_equal(firn_waste_of(types, 2, 2, &w, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "type 1"));
    }
    const double rates[] = {1, 1};
    assert_int_equal(firn_waste_layout(rates, 2, 0, threads, &w, &err),
                     FIRN_EINVAL);
    assert_int_equal(firn_waste_layout(rates, 0, 1, threads, &w, &err),
                     FIRN_EINVAL);
    struct firn_waste_type type = {1, 1, 1, 0, 0};
    assert_int_equal(firn_waste_of(&type, 1, 2, &w, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "(1a)"));
    type.ngpus = 0;
    assert_int_equal(firn_waste_of(&type, 1, 1, &w, &err), FIRN_EINVAL);
    assert_true(w.perf == 7 && threads[0] == -9 && threads[1] == -9);
}

/* Types against the exact layout of the same GPUs one by one. */
static void the_layout_by_types_equals_the_layout_by_gpus(void **state)
{
    (void)state;
    const uint64_t seed = 9;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < 5000; i++) {
        static const double some[] = {1, 2, 0.5, 2.45, 1.55, 1.0 / 3};
        struct firn_waste_type types[4] = {0};
        double rates[64];
        int threads[64], n = 0, ntypes = 1 + (int)rng_below(&rng, 4);
        int maxp = 1 + (int)rng_below(&rng, 70);
        for (int k = 0; k < ntypes; k++) {
            types[k].ngpus = (int)rng_below(&rng, 9) + (k == 0);
            types[k].rate = some[rng_below(&rng, 6)];
            for (int g = 0; g < types[k].ngpus; g++)
                rates[n++] = types[k].rate;
        }
        struct firn_waste by_gpu, by_type, check;
        assert_int_equal(
            firn_waste_layout(rates, n, maxp, threads, &by_gpu, NULL), FIRN_OK);
        assert_true(firn_waste_best(types, ntypes, maxp, &by_type));
        assert_int_equal(firn_waste_of(types, ntypes, maxp, &check, NULL),
                         FIRN_OK);
        if (by_type.step_s != by_gpu.step_s || check.step_s != by_gpu.step_s ||
            check.capacity != by_type.capacity ||
            !near(check.waste, by_type.waste))
            fail_msg("seed %llu, case %d: %g by types, %g by GPUs",
                     (unsigned long long)seed, i, by_type.step_s,
                     by_gpu.step_s);
    }
}

static void the_layout_by_types_refuses_invalid_numbers(void **state)
{
    (void)state;
    struct firn_waste w;
    struct firn_waste_type types[] = {{0, 1, 0, 0, 0}, {1, NAN, 0, 0, 0}};
    assert_false(firn_waste_best(types, 1, 4, &w)); /* no GPUs */
    assert_false(firn_waste_best(types, 2, 4, &w)); /* no rate */
    types[1].rate = 1;
    assert_false(firn_waste_best(types, 2, 0, &w));
    assert_true(firn_waste_best(types, 2, 4, &w));
    assert_true(w.step_s == 4 && w.waste == 0);
}

/* The least step over all numbers of executors of all types, by trying. */
static double least_step(const struct firn_waste_type *types,
                         const struct firn_executor_ways *ways, int n, int maxp,
                         int from)
{
    struct firn_waste w;
    double least = INFINITY;
    struct firn_waste_type copy[4];
    memcpy(copy, types, (size_t)n * sizeof *copy);
    if (from == n)
        return firn_waste_best(copy, n, maxp, &w) ? w.step_s : INFINITY;
    for (int i = -1; i < ways[from].n; i++) {
        if (i >= 0 && ways[from].at[i].number * types[from].ngpus > maxp)
            continue;
        copy[from].executors = i < 0 ? 1 : ways[from].at[i].number;
        copy[from].interference =
            i < 0 ? 1 : ways[from].at[i].speed / ways[from].at[i].number;
        least = fmin(least, least_step(copy, ways, n, maxp, from + 1));
    }
    return least;
}

static void executors_are_chosen_by_the_step(void **state)
{
    (void)state;
    /* One GPU with C = 1, two executors at m I = 1.2, I = 0.6. Two threads: one
     * executor takes 2 s, two take 1 / 0.6 = 1.667 s. Three threads: 3 s, and
     * 2 / 0.6 = 3.33 s, because one of the two has two of them. */
    struct firn_executor_ways ways[2] = {{.at = {{2, 1.2}}, .n = 1}, {.n = 0}};
    struct firn_waste_type one[2] = {{.ngpus = 1, .rate = 1}};
    struct firn_waste w;
    assert_true(firn_waste_choose(one, ways, 1, 2, &w));
    assert_int_equal(one[0].executors, 2);
    assert_int_equal(one[0].threads, 1);
    assert_true(near(w.step_s, 1 / 0.6) && near(w.perf, 1.2));
    assert_true(firn_waste_choose(one, ways, 1, 3, &w));
    assert_int_equal(one[0].executors, 1);
    assert_int_equal(one[0].threads, 3);
    assert_true(near(w.step_s, 3));
    /* Beside a GPU with C = 0.6 and one executor, three threads: two on the
     * first, 1.667 s, and one on the second, 1.667 s. */
    struct firn_waste_type two[2] = {{.ngpus = 1, .rate = 1},
                                     {.ngpus = 1, .rate = 0.6}};
    assert_true(firn_waste_choose(two, ways, 2, 3, &w));
    assert_int_equal(two[0].executors, 2);
    assert_int_equal(two[1].executors, 1);
    assert_true(near(w.step_s, 1 / 0.6));
    /* Two that are no faster than one: one. */
    ways[0].at[0].speed = 1;
    assert_true(firn_waste_choose(one, ways, 1, 2, &w));
    assert_int_equal(one[0].executors, 1);
    assert_true(firn_waste_choose(one, NULL, 1, 2, &w));
    assert_true(near(w.step_s, 2));
    /* One thread: the second executor would have none. */
    ways[0].at[0].speed = 1.2;
    assert_true(firn_waste_choose(one, ways, 1, 1, &w));
    assert_int_equal(one[0].executors, 1);
    ways[0].at[0].speed = 2.1; /* more than two of them can do */
    assert_false(firn_waste_choose(one, ways, 1, 2, &w));
}

static void no_other_choice_of_executors_is_faster(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 600; i++) {
        struct firn_executor_ways ways[4] = {0};
        struct firn_waste_type types[4] = {0};
        struct firn_waste w;
        int n = 1 + (int)rng_below(&rng, 3);
        int maxp = 1 + (int)rng_below(&rng, 40);
        for (int t = 0; t < n; t++) {
            types[t].ngpus = (int)rng_below(&rng, 4) + (t == 0);
            types[t].rate = (double)(1 + rng_below(&rng, 8)) / 4;
            ways[t].n = (int)rng_below(&rng, 4);
            for (int k = 0; k < ways[t].n; k++)
                ways[t].at[k] = (struct firn_executors){
                    k + 2, (double)(2 + rng_below(&rng, 7)) / 4};
        }
        double least = least_step(types, ways, n, maxp, 0);
        assert_true(firn_waste_choose(types, ways, n, maxp, &w));
        assert_true(near(w.step_s, least));
        assert_true(w.capacity >= maxp);
        struct firn_waste again = waste(types, n, maxp); /* (1a) to (1e) */
        assert_true(near(again.step_s, w.step_s));
        assert_true(near(again.waste_norm, w.waste_norm));
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_layout_by_types_equals_the_layout_by_gpus),
        cmocka_unit_test(the_layout_by_types_refuses_invalid_numbers),
        cmocka_unit_test(waste_and_perf_are_equations_1a_to_1e),
        cmocka_unit_test(with_the_factor_n_perf_is_maxp_over_the_step_time),
        cmocka_unit_test(resnet50_on_a_v100_and_a_t4),
        cmocka_unit_test(several_executors_multiply_both),
        cmocka_unit_test(the_best_layout_counts_executors),
        cmocka_unit_test(packing_resnet50_is_worth_little),
        cmocka_unit_test(executors_are_chosen_by_the_step),
        cmocka_unit_test(no_other_choice_of_executors_is_faster),
        cmocka_unit_test(types_without_gpus_do_not_count),
        cmocka_unit_test(perf_and_waste_share_out_the_capability),
        cmocka_unit_test(layouts_are_the_best_there_are),
        cmocka_unit_test(the_floors_at_the_step_time_hold_all_threads),
        cmocka_unit_test(ties_are_decided_without_rounding),
        cmocka_unit_test(a_gpu_far_too_slow_gets_nothing),
        cmocka_unit_test(invalid_numbers_are_refused_and_nothing_is_written),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
