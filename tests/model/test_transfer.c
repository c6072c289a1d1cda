/* test_transfer.c - gains, merged iterations, the table of times: by hand,
 * and what measured gains say about measured transfers. */
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

enum { EPOCHS = 10, CURVES = 512, NAME = 96, SEEN = 2 };

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

/* ln(1 + G) = 0.2 + 0.5 S, hit exactly; a bad score and G = -1 are skipped. */
static void gain_is_a_line_in_the_score(void **state)
{
    (void)state;
    struct firn_gain_obs obs[5] = {{0.2, exp(0.3) - 1},
                                   {0.4, exp(0.4) - 1},
                                   {0.8, exp(0.6) - 1},
                                   {(double)NAN, 1},
                                   {0.5, -1}};
    struct firn_gain_model m = {0};
    struct firn_error err = {0};
    assert_near(firn_gain_at(&m, 3) + 1, 1, 1e-12);
    assert_int_equal(firn_gain_fit(&m, obs, 5, NULL, 0, NULL), FIRN_OK);
    assert_near(m.intercept, 0.2, 1e-9);
    assert_near(m.slope, 0.5, 1e-9);
    assert_near(m.pearson, 1, 1e-9);
    assert_true(m.scatter < 1e-6);
    assert_int_equal(m.nused, 3);
    assert_int_equal(m.nskipped, 2);
    assert_near(firn_gain_at(&m, 1), exp(0.7) - 1, 1e-9);
    assert_true(firn_gain_at(&m, -1e6) > -1);
    assert_int_equal(firn_gain_fit(&m, obs, 1, NULL, 0, &err), FIRN_EDATA);
    assert_near(m.slope, 0.5, 1e-9); /* untouched */
    assert_near(firn_gain_spatial_score(0.2, 0.6), 0.4, 1e-12);
}

/* One row, y = ln 2 at the score 0.5, and a prior of 3 rows that says 0 there:
 * the level is ln 2 / 4, and the slope stays the prior's. Four rows of ln 2
 * more move it to 5 / 8 of ln 2. */
static void a_prior_counts_for_as_many_rows_as_it_is_trusted(void **state)
{
    (void)state;
    struct firn_gain_model prior = {.intercept = -0.5, .slope = 1}, m;
    struct firn_gain_obs obs[5] = {
        {0.5, 1}, {0.5, 1}, {0.5, 1}, {0.5, 1}, {0.5, 1}};
    assert_int_equal(firn_gain_fit(&m, obs, 1, &prior, 3, NULL), FIRN_OK);
    assert_near(1 + firn_gain_at(&m, 0.5), exp(log(2) / 4), 1e-9);
    assert_near(m.slope, 1, 1e-9);
    assert_int_equal(firn_gain_fit(&m, obs, 5, &prior, 3, NULL), FIRN_OK);
    assert_near(1 + firn_gain_at(&m, 0.5), exp(log(2) * 5 / 8), 1e-9);
    assert_int_equal(firn_gain_fit(&m, obs, 0, &prior, 3, NULL), FIRN_OK);
    assert_near(1 + firn_gain_at(&m, 0.5), 1, 1e-9);
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
 * 1 + G with the gain of the first two epochs, P = 1 / loss, (c) by the head
 * start seen in the first two epochs. Pairs that meet the
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
    double sum = 0; /* P = 1 / loss, of the two epochs seen */
    for (int i = 0; i < SEEN; i++)
        sum += firn_transfer_gain(1 / joint->loss[i],
                                  1 / firn_losscurve_at(c, i + 1).value);
    double gain = sum / SEEN;
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

static void gain_of_the_first_epochs_predicts_when_a_transfer_ends(void **state)
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
    assert_true(off_gain < 0.2); /* the paper: 11 to 15 % */
}

/* Bins (1, 3) and (3, 1): halves of (1/4, 3/4) and (3/4, 1/4), whose cosine is
 * 0.375 / 0.625. To the trivial task: (1/3, 0.6) and (2/3, 0.4), cosine
 * 0.462222 / sqrt(0.471111 x 0.604444) = 0.866186. */
static void a_source_far_from_trivial_teaches_more(void **state)
{
    (void)state;
    const double a[] = {1, 3}, b[] = {3, 1}, even[] = {7, 7}, none[] = {0, 0};
    const double bad[] = {1, (double)NAN};
    const double much[] = {100, 300}; /* of more samples */
    assert_near(firn_transfer_score(a, b, 2), 0.6 + 0.15 * 0.133814, 1e-6);
    assert_near(firn_transfer_score(much, b, 2), firn_transfer_score(a, b, 2),
                1e-12);
    assert_near(firn_transfer_score(a, even, 2), 0.866186 + 0.15 * 0.133814,
                1e-6);
    assert_near(firn_transfer_score(even, a, 2), 0.866186, 1e-6);
    assert_near(firn_transfer_score(a, a, 2), 1 + 0.15 * 0.133814, 1e-6);
    assert_true(isnan(firn_transfer_score(a, none, 2)));
    assert_true(isnan(firn_transfer_score(bad, a, 2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gain_is_the_relative_improvement),
        cmocka_unit_test(a_source_far_from_trivial_teaches_more),
        cmocka_unit_test(gain_is_a_line_in_the_score),
        cmocka_unit_test(a_prior_counts_for_as_many_rows_as_it_is_trusted),
        cmocka_unit_test(spatial_iterations_are_equation_four),
        cmocka_unit_test(a_merge_without_progress_is_undone),
        cmocka_unit_test(
            gain_of_the_first_epochs_predicts_when_a_transfer_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
