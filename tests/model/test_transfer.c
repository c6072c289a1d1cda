/* test_transfer.c - gains, merged iterations, the table of times: by hand,
 * and what measured gains say about measured transfers. */
#include "base/rng.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "math/stats.h"
#include <firn/losscurve.h>
#include <firn/transfer.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ENTRIES = 64, EPOCHS = 10, CURVES = 512, NAME = 96, SEEN = 2 };

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1e-9 + fabs(b))))
        fail_msg("%g is not %g", a, b);
}

static void gain_is_the_relative_improvement(void **state)
{
    (void)state;
    /* (1): (0.9 - 0.75) / 0.75 = 0.2 */
    assert_near(firn_transfer_gain(0.9, 0.75), 0.2, 1e-12);
    assert_near(firn_transfer_gain(0.6, 0.75), -0.2, 1e-12);
    assert_true(isnan(firn_transfer_gain(0.9, 0)));
}

static void gain_is_a_line_in_the_score(void **state)
{
    (void)state;
    /* through (0, 0.1), (1, 0.2), (2, 0.6): means 1 and 0.3, slope 0.5 / 2 =
     * 0.25, intercept 0.05; r = 0.5 / sqrt(2 * 0.14) */
    struct firn_gain_obs obs[5] = {
        {0, 0.1}, {(double)NAN, 1}, {1, 0.2}, {1, -1.5}, {2, 0.6}};
    struct firn_gain_model m = {0};
    struct firn_error err;
    assert_near(firn_gain_at(&m, 3).gain + 1, 1, 1e-12);
    assert_true(firn_gain_at(&m, 3).extrapolated);
    assert_int_equal(firn_gain_fit(&m, obs, 5, NULL), FIRN_OK);
    assert_near(m.slope, 0.25, 1e-12);
    assert_near(m.intercept, 0.05, 1e-12);
    assert_near(m.pearson, 0.5 / sqrt(0.28), 1e-12);
    assert_int_equal(m.nskipped, 2);
    assert_near(firn_gain_at(&m, 1.4).gain, 0.4, 1e-12);
    assert_false(firn_gain_at(&m, 1.4).extrapolated);
    assert_true(firn_gain_at(&m, 2.1).extrapolated);
    assert_true(firn_gain_at(&m, -100).gain > -1);
    assert_int_equal(firn_gain_fit(&m, obs, 2, &err), FIRN_EDATA);
    assert_near(m.slope, 0.25, 1e-12);
    assert_near(firn_gain_spatial_score(0.2, 0.6), 0.4, 1e-12);
}

static void spatial_iterations_are_equation_four(void **state)
{
    (void)state;
    /* (4): A 100 * 32 / 1600 = 2 epochs, B 300 * 16 / 1200 = 4 epochs; both
     * take 4 epochs of 2800 samples in batches of 48: 233.3 */
    struct firn_task_size a = {100, 32, 1600}, b = {300, 16, 1200};
    assert_near(firn_spatial_iterations(&a, &b), 4 * 2800.0 / 48, 1e-12);
    assert_near(firn_spatial_iterations(&b, &a), 4 * 2800.0 / 48, 1e-12);
    /* twins: as many iterations as one of them alone */
    assert_near(firn_spatial_iterations(&a, &a), 100, 1e-12);
    a.samples = 0;
    assert_true(isnan(firn_spatial_iterations(&a, &b)));
}

/* --- table ---------------------------------------------------------- */

static double at(const struct firn_lut *lut, int gpus, int batch)
{
    struct firn_lut_value v = {-1, true};
    firn_lut_find(lut, (struct firn_lut_key){gpus, batch, 1, 0}, &v);
    return v.iter_s;
}

static void put(struct firn_lut *lut, int gpus, int batch, double iter_s)
{
    assert_int_equal(firn_lut_put(lut, (struct firn_lut_key){gpus, batch, 1, 0},
                                  iter_s, NULL),
                     FIRN_OK);
}

static void table_interpolates_between_batches(void **state)
{
    (void)state;
    struct firn_lut_entry room[ENTRIES];
    struct firn_lut lut = {.entries = room, .cap = ENTRIES};
    put(&lut, 2, 32, 0.4);
    put(&lut, 1, 8, 0.1);
    put(&lut, 1, 32, 0.34);
    put(&lut, 1, 16, 0.18);
    assert_near(at(&lut, 1, 16), 0.18, 1e-12);
    assert_near(at(&lut, 1, 24), 0.26, 1e-12); /* half way of 0.18 and 0.34 */
    assert_near(at(&lut, 1, 64), 0.34, 1e-12);
    assert_near(at(&lut, 2, 8), 0.4, 1e-12);
    assert_near(at(&lut, 3, 8), -1, 1e-12); /* no such family */
    struct firn_lut_value v;
    assert_true(firn_lut_find(&lut, (struct firn_lut_key){1, 64, 1, 0}, &v));
    assert_true(v.extrapolated);
    assert_false(firn_lut_find(&lut, (struct firn_lut_key){1, 8, 1, 1}, &v));
    /* (5): 200 iterations of 0.26 s */
    assert_near(at(&lut, 1, 24) * 200, 52, 1e-12);
}

static void observations_correct_the_entry_and_the_rest(void **state)
{
    (void)state;
    struct firn_lut_entry room[ENTRIES];
    struct firn_lut lut = {.entries = room, .cap = ENTRIES};
    struct firn_lut_key key = {1, 8, 1, 0};
    put(&lut, 1, 8, 0.1);
    put(&lut, 4, 8, 0.2);
    assert_int_equal(firn_lut_observe(&lut, key, 0.4, NULL), FIRN_OK);
    assert_near(at(&lut, 1, 8), 0.4, 1e-12);
    /* drift 4, trusted by half: a factor of sqrt(4) */
    assert_near(at(&lut, 4, 8), 0.4, 1e-9);
    assert_int_equal(firn_lut_observe(&lut, key, 0.2, NULL), FIRN_OK);
    assert_near(at(&lut, 1, 8), 0.3, 1e-12); /* (0.4 + 0.2) / 2 */
    key.gpus = 2;
    assert_int_equal(firn_lut_observe(&lut, key, 0.7, NULL), FIRN_OK);
    assert_near(at(&lut, 2, 8), 0.7, 1e-12);
}

static void bad_times_and_a_full_table_are_refused(void **state)
{
    (void)state;
    struct firn_lut_entry room[1];
    struct firn_lut lut = {.entries = room, .cap = 1};
    struct firn_lut_key key = {1, 8, 1, 0};
    struct firn_error err;
    assert_int_equal(firn_lut_put(&lut, key, 0, &err), FIRN_EINVAL);
    assert_int_equal(firn_lut_put(&lut, key, (double)NAN, &err), FIRN_EINVAL);
    assert_int_equal(firn_lut_put(&lut, key, 1, &err), FIRN_OK);
    key.batch = 9;
    assert_int_equal(firn_lut_put(&lut, key, 1, &err), FIRN_ENOMEM);
    assert_int_equal(firn_lut_observe(&lut, key, 1, &err), FIRN_ENOMEM);
    assert_int_equal(lut.n, 1);
}

static void table_keeps_every_key_in_any_order(void **state)
{
    (void)state;
    const uint64_t seed = 8;
    struct rng rng;
    rng_seed(&rng, seed);
    for (int round = 0; round < 100; round++) {
        struct firn_lut_entry room[ENTRIES];
        struct firn_lut lut = {.entries = room, .cap = ENTRIES};
        double truth[4][8] = {{0}};
        for (int i = 0; i < 60; i++) {
            int g = (int)rng_below(&rng, 4), b = (int)rng_below(&rng, 8);
            truth[g][b] = 0.01 + rng_unit(&rng);
            put(&lut, g, b, truth[g][b]);
        }
        for (int g = 0; g < 4; g++)
            for (int b = 0; b < 8; b++)
                if (truth[g][b] > 0 && fabs(at(&lut, g, b) - truth[g][b]) > 0)
                    fail_msg("seed %llu round %d", (unsigned long long)seed,
                             round);
    }
}

static void a_merge_without_progress_is_undone(void **state)
{
    (void)state;
    const double bad[] = {0.6, 0.59, 0.6}, good[] = {0.6, 0.5, 0.61};
    assert_true(firn_transfer_undo(bad, 3, 2));
    assert_false(firn_transfer_undo(bad, 2, 2)); /* too early to say */
    assert_false(firn_transfer_undo(good, 3, 2));
}

/* --- measured --------------------------------------------------------------
 *
 * Temporal transfers of the published curves: task B fine-tuned after A. B's
 * own curve is fitted on its ten epochs. The epoch at which B meets its
 * target after A is predicted (a) as if alone, (b) by dividing the curve by
 * 1 + G with the measured gain (the similarity scores were not published),
 * (c) by the head start seen in the first two epochs. Pairs that meet the
 * target within these two, or never, are left out. */

struct curve {
    char key[NAME];
    double loss[EPOCHS], target;
    int n;
};

struct curves {
    struct curve at[CURVES];
    int n;
};

static struct curve *curve_of(struct curves *c, const char *key, bool add)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->at[i].key, key) == 0)
            return &c->at[i];
    if (!add || c->n == CURVES)
        return NULL;
    struct curve *new = &c->at[c->n++];
    *new = (struct curve){.n = 0};
    snprintf(new->key, NAME, "%s", key);
    return new;
}

static struct csv *open_table(const char *rel)
{
    const char *path = data_path(rel);
    struct csv *csv = path != NULL ? csv_open(path) : NULL;
    if (csv == NULL) {
        print_message("no fine-tuning curves: skipped\n");
        skip();
    }
    return csv;
}

static void add_epoch(struct curve *c, const struct csv *csv)
{
    if (c != NULL && c->n < EPOCHS)
        c->loss[c->n++] = 1 - csv_number(csv, "value");
}

/* Each task of the workloads with its own curve and target, as
 * "model@dataset". */
static void load_normal(struct curves *out)
{
    static const char *const rel[] = {"ymir/workloads/FM-1-vit.csv",
                                      "ymir/workloads/FM-1-roberta-base.csv"};
    static struct curves full;
    char key[NAME];
    for (int i = 0; i < 2; i++) {
        struct csv *csv = open_table(rel[i]);
        while (csv_next(csv)) {
            const char *app = csv_text(csv, "application");
            snprintf(key, NAME, "%s %s %s", app, csv_text(csv, "target_lr"),
                     csv_text(csv, "target_gradient_steps"));
            curve_of(&full, key, true);
            curve_of(out, app, true)->target =
                1 - csv_number(csv, "target_metric") + 1e-6;
        }
        csv_close(csv);
    }
    struct csv *csv = open_table("ymir/hpo_curves.csv");
    while (csv_next(csv)) {
        snprintf(key, NAME, "%s@%s %s %s", csv_text(csv, "model"),
                 csv_text(csv, "dataset"), csv_text(csv, "lr"),
                 csv_text(csv, "grad_accum_steps"));
        if (curve_of(&full, key, false) == NULL)
            continue;
        *strchr(key, ' ') = '\0';
        add_epoch(curve_of(out, key, false), csv);
    }
    csv_close(csv);
}

static double least(const struct curve *c)
{
    double l = (double)INFINITY;
    for (int i = 0; i < c->n; i++)
        l = fmin(l, c->loss[i]);
    return l;
}

static int end_of(const struct curve *c, double target)
{
    for (int i = 0; i < c->n; i++)
        if (c->loss[i] <= target)
            return i + 1;
    return 0;
}

static bool fit_own(const struct curve *own, struct firn_losscurve *c)
{
    struct firn_loss_obs obs[EPOCHS];
    for (int i = 0; i < own->n; i++)
        obs[i] = (struct firn_loss_obs){i + 1, own->loss[i]};
    return firn_losscurve_fit(c, FIRN_LOSSCURVE_YMIR, 0.98 * own->target, obs,
                              (size_t)own->n, NULL) == FIRN_OK;
}

static double by_gain(const struct firn_losscurve *c, const struct curve *own,
                      const struct curve *joint)
{
    struct firn_losscurve t;
    double gain = firn_transfer_gain(1 - least(joint), 1 - least(own));
    assert_int_equal(firn_losscurve_transfer(c, gain, &t, NULL), FIRN_OK);
    return firn_losscurve_hit(&t, own->target, SEEN, 1, EPOCHS);
}

static double by_head_start(const struct firn_losscurve *c,
                            const struct curve *own, const struct curve *joint)
{
    struct firn_loss_obs obs[SEEN];
    for (int i = 0; i < SEEN; i++)
        obs[i] = (struct firn_loss_obs){i + 1, joint->loss[i]};
    double ahead = firn_losscurve_head_start(c, obs, SEEN);
    double k =
        firn_losscurve_hit(c, own->target, SEEN + ahead, 1, EPOCHS + ahead);
    return fmax(SEEN + 1, ceil(k - ahead - 1e-9));
}

static void load_joint(struct curves *out)
{
    char key[NAME];
    struct csv *csv = open_table("ymir/temporal_transfer_curves.csv");
    while (csv_next(csv)) {
        snprintf(key, NAME, "%s@%s %s", csv_text(csv, "model"),
                 csv_text(csv, "target_task"), csv_text(csv, "source_task"));
        add_epoch(curve_of(out, key, true), csv);
    }
    csv_close(csv);
}

static void head_start_predicts_when_a_transfer_ends(void **state)
{
    (void)state;
    static struct curves own, joint;
    static double alone[CURVES], gain[CURVES], ahead[CURVES], measured[CURVES];
    load_normal(&own);
    load_joint(&joint);
    size_t n = 0;
    for (int i = 0; i < joint.n; i++) {
        char key[NAME];
        struct firn_losscurve c;
        snprintf(key, NAME, "%s", joint.at[i].key);
        *strchr(key, ' ') = '\0';
        const struct curve *b = curve_of(&own, key, false);
        int end = b != NULL ? end_of(&joint.at[i], b->target) : 0;
        if (end <= SEEN || !fit_own(b, &c))
            continue;
        alone[n] = end_of(b, b->target);
        gain[n] = by_gain(&c, b, &joint.at[i]);
        ahead[n] = by_head_start(&c, b, &joint.at[i]);
        measured[n++] = end;
    }
    double off_alone = stats_mape(alone, measured, n);
    double off_gain = stats_mape(gain, measured, n);
    double off_ahead = stats_mape(ahead, measured, n);
    print_message("%zu temporal transfers: as if alone off by %.1f %%, by the "
                  "measured gain %.1f %%, by the head start %.1f %%\n",
                  n, 100 * off_alone, 100 * off_gain, 100 * off_ahead);
    assert_true(n > 40);
    assert_true(off_ahead < 0.7 * off_alone && off_ahead < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gain_is_the_relative_improvement),
        cmocka_unit_test(gain_is_a_line_in_the_score),
        cmocka_unit_test(spatial_iterations_are_equation_four),
        cmocka_unit_test(table_interpolates_between_batches),
        cmocka_unit_test(observations_correct_the_entry_and_the_rest),
        cmocka_unit_test(bad_times_and_a_full_table_are_refused),
        cmocka_unit_test(table_keeps_every_key_in_any_order),
        cmocka_unit_test(a_merge_without_progress_is_undone),
        cmocka_unit_test(head_start_predicts_when_a_transfer_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
