/* test_itertime.c - each equation by hand, monotonicity, and the fit. */
#include "base/rng.h"
#include "model/correct.h"
#include "model/steprow.h"
#include <firn/itertime.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static struct firn_shape shape(int nodes, int gpus, double batch)
{
    return (struct firn_shape){.nodes = nodes,
                               .gpus = gpus,
                               .batch_per_gpu = batch,
                               .accum_steps = 1,
                               .theta = 1,
                               .omega = 1};
}

/* C = 0.1 + 0.01 b; N = 0.02 + 0.005 (r-2) on one node, 0.3 + 0.01 (r-2) on
 * two, 0.4 + 0.02 (r-2) on more. */
static struct firn_itertime model(void)
{
    return (struct firn_itertime){
        .alpha_s = 0.1,
        .beta_s = 0.01,
        .gamma = 2,
        .local = {.alpha_s = 0.02, .beta_s = 0.005},
        .pair = {.alpha_s = 0.3, .beta_s = 0.01},
        .far = {.alpha_s = 0.4, .beta_s = 0.02},
        .flop_beta = 1,
        .flop_gamma = 1,
        .sync_beta = 1,
    };
}

static void compute_is_linear_in_the_batch(void **state)
{
    (void)state;
    struct firn_itertime m = model();
    struct firn_shape s = shape(1, 1, 32);
    /* S(3): 0.1 + 0.01 x 32 = 0.42. */
    assert_true(near(firn_itertime_compute(&m, &s), 0.42));
    m.curve_s = 0.001; /* + 1.024 */
    assert_true(near(firn_itertime_compute(&m, &s), 1.444));
    m.curve_s = 0;
    m.floor_s = 0.42; /* (2 x 0.42^4)^(1/4) */
    assert_true(near(firn_itertime_compute(&m, &s), 0.42 * sqrt(sqrt(2))));
    m.floor_s = 0;
    m.crowd = 0.1; /* four on a node: 0.42 x 1.3 */
    s = shape(2, 8, 32);
    assert_true(near(firn_itertime_compute(&m, &s), 0.546));
    s.gpus_on_fullest = 7;
    assert_true(near(firn_itertime_compute(&m, &s), 0.42 * 1.6));
}

static void synchronisation_follows_nodes_and_replicas(void **state)
{
    (void)state;
    struct firn_itertime m = model();
    struct firn_shape one = shape(1, 1, 8), four = shape(1, 4, 8);
    struct firn_shape two = shape(2, 8, 8), many = shape(4, 16, 8);
    assert_true(firn_itertime_sync(&m, &one) == 0);
    assert_true(near(firn_itertime_sync(&m, &four), 0.02 + 0.005 * 2));
    assert_true(near(firn_itertime_sync(&m, &two), 0.3 + 0.01 * 6));
    assert_true(near(firn_itertime_sync(&m, &many), 0.4 + 0.02 * 14));
    m.byte_s = 1e-9; /* S(4): 100 MB more at 1 GB/s */
    m.message_bytes = 1e8;
    assert_true(near(firn_itertime_sync(&m, &two), 0.36 + 0.1));
    assert_true(firn_itertime_sync(&m, &one) == 0);
}

static void overlap_goes_from_the_sum_to_the_larger(void **state)
{
    (void)state;
    assert_true(firn_overlap(3, 4, 1) == 7);
    assert_true(near(firn_overlap(3, 4, 2), 5));
    assert_true(fabs(firn_overlap(3, 4, 60) - 4) < 1e-6);
    assert_true(firn_overlap(0, 4, 3) == 4 && firn_overlap(4, 0, 3) == 4);
    assert_true(firn_overlap(0, 0, 3) == 0);
    assert_true(firn_overlap(1e-320, 4, 3) == 4);
}

static void the_step_is_icefrog_5_and_pollux_without_forward(void **state)
{
    (void)state;
    struct firn_itertime m = model();
    struct firn_shape s = shape(2, 8, 38); /* C = 0.48, N = 0.36 */
    struct firn_itertime_parts p = firn_itertime_parts(&m, &s);
    /* phi = 0: sqrt(0.48^2 + 0.36^2) = 0.6. */
    assert_true(near(p.step_s, 0.6) && near(p.iteration_s, 0.6));
    m.phi = m.phi_fixed = 0.25; /* F = 0.12, B = 0.36: 0.12 + 0.36 sqrt 2 */
    p = firn_itertime_parts(&m, &s);
    assert_true(near(p.forward_s, 0.12) && near(p.backward_s, 0.36));
    assert_true(near(p.step_s, 0.12 + 0.36 * sqrt(2)));
    assert_true(near(firn_itertime_iteration(&m, &s), p.iteration_s));
    m.phi_fixed = 0; /* F = 0.25 (0.48 - 0.1) */
    p = firn_itertime_parts(&m, &s);
    assert_true(near(p.forward_s, 0.095) && near(p.backward_s, 0.385));
}

static void accumulation_repeats_compute_only(void **state)
{
    (void)state;
    struct firn_itertime m = model();
    struct firn_shape s = shape(2, 8, 38);
    s.accum_steps = 3;
    /* S(7): 2 x 0.48 + 0.6 = 1.56; 8 x 38 x 3 samples. */
    assert_true(near(firn_itertime_iteration(&m, &s), 1.56));
    assert_true(near(firn_itertime_throughput(&m, &s), 912 / 1.56));
}

static void freezing_shrinks_backward_and_sync(void **state)
{
    (void)state;
    struct firn_itertime m = model();
    struct firn_shape s = shape(2, 8, 38);
    m.phi = m.phi_fixed = 0.25;
    m.flop_alpha_s = 0.01;
    m.flop_beta = 0.9;
    m.flop_gamma = 0.5;
    m.sync_alpha_s = 0.02;
    m.sync_beta = 0.5;
    s.theta = 0.25;
    s.omega = 0.5;
    struct firn_itertime_parts p = firn_itertime_parts(&m, &s);
    /* I(6): 0.01 + 0.9 x sqrt(0.25) x 0.36; I(7): 0.02 + 0.5 x 0.5 x 0.36. */
    assert_true(near(p.backward_s, 0.172) && near(p.sync_s, 0.11));
    assert_true(near(p.step_s, 0.12 + sqrt(0.172 * 0.172 + 0.11 * 0.11)));
    m.flop_alpha_s = m.sync_alpha_s = 9; /* never above the unfrozen times */
    p = firn_itertime_parts(&m, &s);
    assert_true(near(p.backward_s, 0.36) && near(p.sync_s, 0.36));
    m.flop_alpha_s = 0;
    s.theta = 0;
    assert_true(firn_itertime_backward(&m, &s) == 0);
}

static struct firn_itertime draw_model(struct rng *rng)
{
    struct firn_itertime m = {
        .alpha_s = rng_unit(rng),
        .beta_s = 0.1 * rng_unit(rng),
        .curve_s = 0.001 * rng_unit(rng),
        .floor_s = rng_unit(rng),
        .crowd = 0.1 * rng_unit(rng),
        .phi = 0.9 * rng_unit(rng),
        .phi_fixed = 0.9 * rng_unit(rng),
        .gamma = 1 + 5 * rng_unit(rng),
        .flop_alpha_s = 0.1 * rng_unit(rng),
        .flop_beta = 0.2 + 0.8 * rng_unit(rng),
        .flop_gamma = 0.5 + 0.7 * rng_unit(rng),
        .sync_alpha_s = 0.1 * rng_unit(rng),
        .sync_beta = rng_unit(rng),
    };
    struct firn_sync_law *laws[] = {&m.local, &m.pair, &m.far};
    for (int i = 0; i < 3; i++)
        *laws[i] = (struct firn_sync_law){rng_unit(rng), 0.1 * rng_unit(rng),
                                          0.1 * rng_unit(rng)};
    m.local.crowd_s = 0;
    return m;
}

static struct firn_shape draw_shape(struct rng *rng, bool freezes)
{
    int nodes = 1 + (int)rng_below(rng, 4);
    struct firn_shape s = shape(nodes, nodes * (1 + (int)rng_below(rng, 4)),
                                (double)(1 + rng_below(rng, 64)));
    if (freezes && rng_below(rng, 2) == 0) {
        s.theta = 0.05 + 0.95 * rng_unit(rng);
        s.omega = rng_unit(rng);
    }
    return s;
}

static void more_work_never_takes_less_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct firn_itertime m = draw_model(&rng);
        struct firn_shape s = draw_shape(&rng, true), t = s;
        double before = firn_itertime_iteration(&m, &s), after;
        struct firn_itertime_parts p = firn_itertime_parts(&m, &s);
        if (p.step_s > (p.forward_s + p.backward_s + p.sync_s) * (1 + 1e-12) ||
            p.step_s < p.forward_s + fmax(p.backward_s, p.sync_s) - 1e-12)
            fail_msg("seed %d: the overlap is out of range", (int)seed);
        t.batch_per_gpu += 1;
        after = firn_itertime_iteration(&m, &t);
        if (after < before)
            fail_msg("seed %d: a larger batch is faster", (int)seed);
        t = s;
        t.gpus += t.nodes;
        if (s.gpus > 1 && firn_itertime_iteration(&m, &t) < before)
            fail_msg("seed %d: more replicas are faster", (int)seed);
        t = s;
        t.theta = fmin(1, s.theta * 1.2);
        t.omega = fmin(1, s.omega * 1.2);
        if (firn_itertime_iteration(&m, &t) < before - 1e-12)
            fail_msg("seed %d: freezing less is faster", (int)seed);
    }
}

/* All parameters free; the slopes against central differences. */
static void slopes_agree_with_finite_differences(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct rng rng;
        struct steprow rows[1];
        struct steprows t = {.rows = rows, .ncolumns = NPARAMS};
        double p[NPARAMS], r[2], low[2], high[2], jac[2 * NPARAMS];
        rng_seed(&rng, seed);
        struct firn_step_obs obs = {
            .shape = draw_shape(&rng, true), .step_s = 1, .sync_s = 0.1};
        steprow_add(&t, &obs);
        steprow_lay_out(&t);
        for (int j = 0; j < NPARAMS; j++) {
            t.column[j] = j;
            p[j] = 0.1 + rng_unit(&rng);
        }
        p[GAMMA] += 1;
        p[PHI] *= 0.7;
        p[PHI_FIXED] *= 0.7;
        p[FLOP] *= 0.1;
        p[SYNC] *= 0.1;
        steprow_residuals(&t, p, r, jac);
        for (int j = 0; j < NPARAMS; j++) {
            double kept = p[j], h = 1e-6;
            p[j] = kept + h;
            steprow_residuals(&t, p, high, NULL);
            p[j] = kept - h;
            steprow_residuals(&t, p, low, NULL);
            p[j] = kept;
            for (int i = 0; i < 2; i++) {
                double want = (high[i] - low[i]) / (2 * h);
                double got = jac[i * NPARAMS + j];
                if (fabs(want - got) > 1e-6 * (1 + fabs(want)))
                    fail_msg("seed %d: slope %d of residual %d: %g, not %g",
                             (int)seed, j, i, got, want);
            }
        }
    }
}

static size_t observe(const struct firn_itertime *truth, struct rng *rng,
                      struct firn_step_obs *obs, size_t n, double noise)
{
    for (size_t i = 0; i < n; i++) {
        obs[i].shape = draw_shape(rng, false);
        struct firn_itertime_parts p =
            firn_itertime_parts(truth, &obs[i].shape);
        obs[i].step_s = p.step_s * (1 + noise * rng_normal(rng));
        obs[i].sync_s = fmax(0, obs[i].step_s - p.forward_s - p.backward_s);
    }
    return n;
}

static void a_fit_of_exact_steps_predicts_other_shapes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct rng rng;
        struct firn_step_obs obs[60];
        struct firn_itertime truth = model(), m;
        struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
        rng_seed(&rng, seed);
        truth.far = truth.pair;
        truth.beta_s = 0.05 * rng_unit(&rng);
        truth.gamma = 1.2 + rng_unit(&rng);
        observe(&truth, &rng, obs, 60, 0);
        firn_itertime_default(&m);
        assert_int_equal(firn_itertime_refit(&m, obs, 60, &fit, NULL), FIRN_OK);
        for (int i = 0; i < 50; i++) {
            struct firn_shape s = draw_shape(&rng, false);
            double want = firn_itertime_iteration(&truth, &s);
            double got = firn_itertime_iteration(&m, &s);
            if (fabs(got / want - 1) > 0.02)
                fail_msg("seed %d: %g, not %g", (int)seed, got, want);
        }
        assert_int_equal(fit.nused, 60);
    }
}

static void two_points_give_a_sane_model(void **state)
{
    (void)state;
    struct firn_step_obs obs[] = {
        {.shape = shape(1, 1, 16), .step_s = 0.2, .sync_s = NAN},
        {.shape = shape(1, 1, 32), .step_s = 0.35, .sync_s = NAN}};
    struct firn_itertime m;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_FULL};
    struct firn_shape s = shape(1, 1, 24), far = shape(4, 16, 24);
    firn_itertime_default(&m);
    assert_int_equal(firn_itertime_refit(&m, obs, 2, &fit, NULL), FIRN_OK);
    assert_true(fabs(firn_itertime_iteration(&m, &s) - 0.275) < 0.01);
    /* Nothing is known of other nodes: no slower than compute alone would
     * be, as in Pollux, and marked as a guess. */
    assert_true(firn_itertime_iteration(&m, &far) >=
                firn_itertime_iteration(&m, &s));
    assert_true(firn_itertime_parts(&m, &far).extrapolated);
    assert_false(firn_itertime_parts(&m, &s).extrapolated);
}

static void a_node_class_not_seen_costs_more_than_one_node(void **state)
{
    (void)state;
    struct firn_step_obs obs[8];
    struct firn_itertime m;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
    struct firn_itertime truth = model();
    for (int i = 0; i < 8; i++) {
        obs[i].shape = shape(1, 1 + i % 4, 8 + 8 * (i / 4));
        struct firn_itertime_parts p =
            firn_itertime_parts(&truth, &obs[i].shape);
        obs[i].step_s = p.step_s;
        obs[i].sync_s = p.step_s - p.forward_s - p.backward_s;
    }
    firn_itertime_default(&m);
    assert_int_equal(firn_itertime_refit(&m, obs, 8, &fit, NULL), FIRN_OK);
    assert_true(m.local.alpha_s > 0);
    assert_true(m.pair.alpha_s >= 1.1 * m.local.alpha_s);
    assert_true(m.far.alpha_s >= m.pair.alpha_s);
}

static void a_fitted_prior_holds_until_measured_otherwise(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_step_obs obs[60];
    struct firn_itertime truth = model(), m;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
    rng_seed(&rng, 3);
    truth.far = truth.pair;
    observe(&truth, &rng, obs, 60, 0);
    firn_itertime_default(&m);
    assert_int_equal(firn_itertime_refit(&m, obs, 60, &fit, NULL), FIRN_OK);
    /* Two more points on one GPU: what is known of two nodes stays. */
    struct firn_itertime before = m;
    struct firn_step_obs more[] = {
        {.shape = shape(1, 1, 8), .step_s = 0.18, .sync_s = NAN},
        {.shape = shape(1, 1, 16), .step_s = 0.26, .sync_s = NAN}};
    assert_int_equal(firn_itertime_refit(&m, more, 2, &fit, NULL), FIRN_OK);
    assert_true(m.pair.alpha_s == before.pair.alpha_s);
    assert_true(m.gpus_max == before.gpus_max);
    assert_true(m.batch_max == before.batch_max);
}

static void bad_measurements_are_named_and_left_out(void **state)
{
    (void)state;
    struct firn_step_obs obs[] = {
        {.shape = shape(1, 1, 8), .step_s = 0.1, .sync_s = NAN},
        {.shape = shape(1, 1, 8), .step_s = -1, .sync_s = NAN},
        {.shape = shape(1, 1, 8), .step_s = INFINITY, .sync_s = NAN}};
    struct firn_itertime m, before;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_FULL};
    struct firn_error err;
    firn_itertime_default(&m);
    before = m;
    assert_int_equal(firn_itertime_refit(&m, obs, 3, &fit, &err), FIRN_EDATA);
    assert_string_equal(err.text,
                        "iteration time: 1 usable measurements, 2 are needed; "
                        "row 2: the step time is not positive");
    assert_memory_equal(&m, &before, sizeof m);
    obs[2].step_s = 0.12;
    assert_int_equal(firn_itertime_refit(&m, obs, 3, &fit, &err), FIRN_OK);
    assert_true(fit.nused == 2 && fit.nrejected == 1);
    obs[0].shape.theta = NAN;
    assert_non_null(firn_step_obs_fault(&obs[0]));
    obs[0].shape = shape(3, 2, 8);
    assert_non_null(firn_step_obs_fault(&obs[0]));
    obs[0].shape = shape(1, 2, 0);
    assert_non_null(firn_step_obs_fault(&obs[0]));
}

static void the_same_data_give_the_same_bits(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_step_obs obs[40];
    struct firn_itertime truth = model(), a, b;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_FULL};
    rng_seed(&rng, 5);
    observe(&truth, &rng, obs, 40, 0.05);
    firn_itertime_default(&a);
    firn_itertime_default(&b);
    assert_int_equal(firn_itertime_refit(&a, obs, 40, &fit, NULL), FIRN_OK);
    assert_int_equal(firn_itertime_refit(&b, obs, 40, &fit, NULL), FIRN_OK);
    assert_memory_equal(&a, &b, sizeof a);
}

static void message_times_are_fitted_by_a_line(void **state)
{
    (void)state;
    double bytes[] = {1e6, 2e6, 4e6}, s[] = {0.003, 0.005, 0.009}, a, b;
    struct firn_error err;
    /* S(4): 1 ms + 2 ns a byte. */
    assert_int_equal(firn_itertime_fit_message(bytes, s, 3, &a, &b, &err),
                     FIRN_OK);
    assert_true(fabs(a - 0.001) < 1e-12 && fabs(b - 2e-9) < 1e-18);
    assert_int_equal(firn_itertime_fit_message(bytes, s, 1, &a, &b, &err),
                     FIRN_EDATA);
}

static void a_correction_learns_an_odd_batch_and_not_noise(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_step_obs obs[300];
    struct firn_itertime truth = model();
    struct correction c;
    struct firn_shape odd = shape(1, 2, 24), even = shape(1, 2, 32);
    rng_seed(&rng, 9);
    for (int i = 0; i < 300; i++) {
        obs[i].shape = shape(1 + i % 3, 6, 8.0 * (1 + i % 4));
        obs[i].step_s = firn_itertime_iteration(&truth, &obs[i].shape) *
                        (i % 4 == 2 ? 1.5 : 1) * (1 + 0.01 * rng_normal(&rng));
        obs[i].sync_s = NAN;
    }
    correction_learn(&c, &truth, obs, 300);
    assert_true(fabs(correction_factor(&c, &odd) - 1.5) < 0.03);
    assert_true(fabs(correction_factor(&c, &even) - 1) < 0.03);
    even.batch_per_gpu = 28; /* between the two: half way */
    assert_true(correction_factor(&c, &even) > 1.15);
    correction_learn(&c, &truth, obs, 7);
    assert_true(correction_factor(&c, &odd) == 1);
    for (int i = 0; i < 300; i++) {
        obs[i].shape = draw_shape(&rng, false);
        obs[i].step_s = firn_itertime_iteration(&truth, &obs[i].shape) *
                        (1 + 0.05 * rng_normal(&rng));
    }
    correction_learn(&c, &truth, obs, 300);
    double sum = 0;
    for (int i = 0; i < 300; i++)
        sum += fabs(correction_factor(&c, &obs[i].shape) - 1);
    assert_true(sum / 300 < 0.025);
}

static void a_correction_learns_an_odd_placement_at_one_batch(void **state)
{
    (void)state;
    struct rng rng;
    struct firn_step_obs obs[960];
    struct firn_itertime truth = model();
    struct correction c;
    rng_seed(&rng, 11);
    for (int i = 0; i < 960; i++) {
        int nodes = 1 + i % 2, more = i / 2 % 6, batch = i / 12 % 8;
        obs[i].shape = shape(nodes, nodes + more, 8.0 * (1 + batch));
        bool is_odd = nodes == 2 && more == 3 && batch == 4;
        obs[i].step_s = firn_itertime_iteration(&truth, &obs[i].shape) *
                        (is_odd ? 1.5 : 1) * (1 + 0.01 * rng_normal(&rng));
        obs[i].sync_s = NAN;
    }
    correction_learn(&c, &truth, obs, 960);
    struct firn_shape odd = shape(2, 5, 40), near = shape(2, 5, 48);
    assert_true(fabs(correction_factor(&c, &odd) - 1.5) < 0.1);
    assert_true(fabs(correction_factor(&c, &near) - 1) < 0.05);
    near = shape(2, 6, 40);
    assert_true(fabs(correction_factor(&c, &near) - 1) < 0.05);
}

/* The mean error on rows 10 to 19 of a correction learned from the first ten,
 * once or in turn with the fit. */
static double error_of_rest(const struct firn_step_obs *obs, bool is_refined)
{
    struct firn_itertime m;
    struct firn_itertime_fit fit = {.form = FIRN_FORM_FULL};
    static struct correction c;
    double sum = 0;
    firn_itertime_default(&m);
    assert_int_equal(firn_itertime_refit(&m, obs, 10, &fit, NULL), FIRN_OK);
    if (is_refined)
        correction_refine(&c, &m, FIRN_FORM_FULL, obs, 10);
    else
        correction_learn(&c, &m, obs, 10);
    for (int i = 10; i < 20; i++) {
        const struct firn_shape *s = &obs[i].shape;
        double step_s = firn_itertime_parts(&m, s).step_s;
        sum += fabs(step_s * correction_factor(&c, s) / obs[i].step_s - 1);
    }
    return sum / 10;
}

/* Two of five batches take half as long again, and half of all rows are seen:
 * fitted once, the curve through the others is bent by them. */
static void an_odd_batch_does_not_bend_the_curve_of_few_rows(void **state)
{
    (void)state;
    const uint64_t seed = 5;
    struct rng rng;
    struct firn_step_obs obs[20];
    struct firn_itertime truth = model();
    double once = 0, in_turn = 0;
    rng_seed(&rng, seed);
    for (int i = 0; i < 20; i++) {
        obs[i].shape = shape(1, 1 + i / 5, 8.0 * (1 + i % 5));
        obs[i].step_s = firn_itertime_iteration(&truth, &obs[i].shape) *
                        (i % 5 == 1 || i % 5 == 3 ? 1.5 : 1);
        obs[i].sync_s = NAN;
    }
    for (int round = 0; round < 30; round++) {
        for (size_t i = 19; i > 0; i--) {
            size_t j = (size_t)rng_below(&rng, i + 1);
            struct firn_step_obs swap = obs[i];
            obs[i] = obs[j];
            obs[j] = swap;
        }
        once += error_of_rest(obs, false) / 30;
        in_turn += error_of_rest(obs, true) / 30;
    }
    if (!(in_turn < 0.9 * once))
        fail_msg("seed %d: %.4f, learned once %.4f", (int)seed, in_turn, once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compute_is_linear_in_the_batch),
        cmocka_unit_test(synchronisation_follows_nodes_and_replicas),
        cmocka_unit_test(overlap_goes_from_the_sum_to_the_larger),
        cmocka_unit_test(the_step_is_icefrog_5_and_pollux_without_forward),
        cmocka_unit_test(accumulation_repeats_compute_only),
        cmocka_unit_test(freezing_shrinks_backward_and_sync),
        cmocka_unit_test(more_work_never_takes_less_time),
        cmocka_unit_test(slopes_agree_with_finite_differences),
        cmocka_unit_test(a_fit_of_exact_steps_predicts_other_shapes),
        cmocka_unit_test(two_points_give_a_sane_model),
        cmocka_unit_test(a_node_class_not_seen_costs_more_than_one_node),
        cmocka_unit_test(a_fitted_prior_holds_until_measured_otherwise),
        cmocka_unit_test(bad_measurements_are_named_and_left_out),
        cmocka_unit_test(the_same_data_give_the_same_bits),
        cmocka_unit_test(message_times_are_fitted_by_a_line),
        cmocka_unit_test(a_correction_learns_an_odd_batch_and_not_noise),
        cmocka_unit_test(a_correction_learns_an_odd_placement_at_one_batch),
        cmocka_unit_test(an_odd_batch_does_not_bend_the_curve_of_few_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
