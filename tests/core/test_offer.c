/* test_offer.c - menus: what a job could do, and beside whom.
 *
 * The forecast is the test's own: a job on g GPUs of type t goes at
 * g / asked x speed[t], a pass more costs it 10 %, and it needs 1 GiB plus its
 * samples a pass on each GPU. A t4 has 16 GiB, a v100 16 (its speed is 2.5).
 */
#include <firn/offer.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene.h"
#include "toys.h"
#include <cmocka.h>
#include <firn/parallel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Jobs have 12 samples a GPU. */
enum { SAMPLES = 12 };

static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    int passes = way->passes > 0 ? way->passes : 1;
    (void)state, (void)now_s;
    if (way->gpus > 16 || way->stages > 4)
        return 0;
    double more = passes > SAMPLES ? SAMPLES - 1 : passes - 1;
    double speed = way->type == 1 ? 2.5 : 1;
    if (way->tunes & FIRN_TUNE_THREADS) /* two GPUs and more gain by them */
        speed *= way->gpus > 1 ? 1.5 : 0.5;
    return speed * way->gpus / job->spec.gpus / (1 + 0.1 * more);
}

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    int passes = way->passes > 0 ? way->passes : 1;
    (void)state, (void)job;
    return (struct firn_load){(double)NAN,
                              job->spec.name[0] == 'U'
                                  ? (double)NAN
                                  : 1 + ceil((double)SAMPLES / passes)};
}

static double xi = 1.25;

static double slowdown_of(void *state, const struct firn_job *job,
                          const struct firn_job *other)
{
    (void)state, (void)other;
    return job->spec.name[0] == 'H' ? 1.5 : xi;
}

/* P is trained sharded or in stages, of which it has four at most. */
static unsigned parallels_of(void *state, const struct firn_job *job)
{
    (void)state;
    return job->spec.name[0] == 'P'
               ? 1u << FIRN_PARALLEL_SHARDED | 1u << FIRN_PARALLEL_PIPELINE
               : 0;
}

static const struct firn_forecast_def forecast = {.rate = rate_of,
                                                  .slowdown = slowdown_of,
                                                  .load = load_of,
                                                  .parallels = parallels_of};

static struct firn_view look(struct scene *scene)
{
    struct firn_view view = round_view(scene->round, 0);
    view.forecast = &forecast;
    return view;
}

/* "1 2 4" GPUs, ":t" behind them for a type that is named. */
static void expect_menu(const char *text, const char *name, unsigned kinds,
                        const char *menu)
{
    struct scene *scene = scene_new(text, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    struct firn_buf out = {0};
    size_t n;
    const struct firn_offer *at =
        firn_offers(&view, scene_job(scene, name), kinds, &n);
    buf_printf(&out, "%s", "");
    for (size_t i = 0; i < n; i++) {
        buf_printf(&out, "%s%d", i ? " " : "", at[i].way.gpus);
        if (at[i].way.type != FIRN_ANY_TYPE)
            buf_printf(&out, ":%s", view.cluster->types[at[i].way.type].name);
        if (at[i].with != NULL)
            buf_printf(&out, "+%s", at[i].with->spec.name);
        if (at[i].way.parallel == FIRN_PARALLEL_SHARDED)
            buf_printf(&out, "s");
        if (at[i].way.stages > 0)
            buf_printf(&out, "p%d", at[i].way.stages);
        assert_int_equal((at[i].kinds & FIRN_OFFER_PARALLEL) != 0,
                         at[i].way.parallel != 0);
    }
    assert_string_equal(out.at, menu);
    buf_release(&out);
    scene_free(scene);
}

static void a_gang_has_one_way_and_an_elastic_job_many(void **unused)
{
    (void)unused;
    expect_menu("4 nodes x 4 gpus of t4; A wants 2", "A", 0, "2");
    expect_menu("4 nodes x 4 gpus of t4; A wants 2 from 1 to 14", "A", 0, "2");
    /* 1 to 8, whole nodes of 4, and the most it can use */
    expect_menu("4 nodes x 4 gpus of t4; A wants 2 from 1 to 14", "A",
                FIRN_OFFER_ELASTIC, "1 2 3 4 5 6 7 8 12 14");
    expect_menu("4 nodes x 4 gpus of t4; A wants 11 from 7 to 13", "A",
                FIRN_OFFER_ELASTIC, "7 8 11 12 13");
}

static void each_type_that_is_accepted_is_offered(void **unused)
{
    const char *text = "2 nodes x 4 gpus of t4; 1 node x 2 gpus of v100; "
                       "A wants 2 from 1 to 4; B wants 1 types v100; "
                       "C wants 4";
    (void)unused;
    expect_menu(text, "A", FIRN_OFFER_TYPES, "2:t4 2:v100");
    expect_menu(text, "A", FIRN_OFFER_TYPES | FIRN_OFFER_ELASTIC,
                "1:t4 2:t4 3:t4 4:t4 1:v100 2:v100");
    expect_menu(text, "B", FIRN_OFFER_TYPES, "1:v100");
    expect_menu(text, "C", FIRN_OFFER_TYPES, "4:t4"); /* two are not four */
}

/* The forecast knows of no way on more than 16 GPUs. */
static void ways_that_cannot_be_are_left_out(void **unused)
{
    (void)unused;
    expect_menu("5 nodes x 4 gpus of t4; A wants 20 from 16 to 20", "A",
                FIRN_OFFER_ELASTIC, "16");
    expect_menu("5 nodes x 4 gpus of t4; A wants 20", "A", 0, "");
}

/* Stages are powers of two that divide the GPUs; one stage is a whole copy on
 * each of them. */
static void models_are_spread_as_their_application_can(void **unused)
{
    static const char text[] = "2 nodes x 4 gpus of t4; P wants 2 from 2 to 8; "
                               "A wants 2 from 2 to 3";
    (void)unused;
    expect_menu(text, "P", FIRN_OFFER_PARALLEL, "2s 2p1 2p2");
    expect_menu(text, "P", FIRN_OFFER_PARALLEL | FIRN_OFFER_ELASTIC,
                "2s 2p1 2p2 3s 3p1 4s 4p1 4p2 4p4 5s 5p1 6s 6p1 6p2 7s 7p1 "
                "8s 8p1 8p2 8p4");
    expect_menu(text, "P", FIRN_OFFER_ELASTIC, "2 3 4 5 6 7 8");
    expect_menu(text, "A", FIRN_OFFER_PARALLEL | FIRN_OFFER_ELASTIC, "2 3");
}

/* H and G hold half-shares, W whole GPUs. */
#define HOSTS                                                              \
    "3 nodes x 2 gpus of t4; H wants 2 shares on n0[0-1]~; "               \
    "W wants 2 on n1[0-1]; G wants 1 shares on n2[0]~; A wants 2 shares; " \
    "B wants 2; U wants 1 shares"

static void hosts_are_those_that_hold_half_shares(void **unused)
{
    (void)unused;
    expect_menu(HOSTS, "U", FIRN_OFFER_SHARE, "1 1:t4+H 1:t4+G");
    expect_menu(HOSTS, "U", 0, "1");
    expect_menu(HOSTS, "A", FIRN_OFFER_SHARE, "2"); /* memory */
    expect_menu(HOSTS, "B", FIRN_OFFER_SHARE, "2"); /* it does not share */
}

/* Passes 1, 2, 4, 8, 16: samples a pass 12, 6, 3, 2, 1 and 13, 7, 4, 3, 2 GiB;
 * rates 1, 1/1.1, 1/1.3, 1/1.7, 1/2.1. Batch 24 on two GPUs: one sample a pass
 * needs 12 of them, so 16 is the last. Without a batch it is tried up to 64
 * passes; those change nothing and are left out. */
static void passes_go_down_to_one_sample(void **unused)
{
    static const double gib[] = {13, 7, 4, 3, 2};
    static const double slow[] = {1, 1.1, 1.3, 1.7, 2.1};
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    for (int batch = 0; batch <= 24; batch += 24) {
        struct firn_job job = *scene_job(scene, "A");
        size_t n;
        job.spec.batch = batch;
        const struct firn_offer *at = firn_offer_passes(&view, &job, 0, &n);
        assert_int_equal(n, 5);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(at[i].way.passes, i ? 1 << i : 0);
            assert_int_equal(at[i].way.gpus, 2);
            assert_true(at[i].mem_gib == gib[i]);
            assert_true(fabs(at[i].rate - 1 / slow[i]) < 1e-12);
        }
    }
    scene_free(scene);
}

/* H takes 13 of 16 GiB. With a margin of 10 % on both there is room for
 * 16 / 1.1 - 13 = 1.54 GiB: A fits in no number of passes. Run in 4 passes H
 * takes 4 and leaves 10.5: A fits in 2 (7 GiB). */
static void the_fastest_way_that_fits_is_offered(void **unused)
{
    struct firn_offer offer;
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    const struct firn_job *a = scene_job(scene, "A");
    struct firn_job h = *scene_job(scene, "H");
    assert_false(firn_offer_beside(&view, a, &h, &offer));
    h.held.how.passes = 4;
    assert_true(firn_offer_beside(&view, a, &h, &offer));
    assert_int_equal(offer.way.passes, 2);
    assert_true(offer.mem_gib == 7);
    assert_ptr_equal(offer.with, &h);
    assert_int_equal(offer.kinds, FIRN_OFFER_SHARE);
    /* 1 / 1.1 beside H is 1.25 times slower; H is at 1 / 1.3, 1.5 slower */
    assert_true(fabs(offer.rate - 1 / 1.1 / 1.25) < 1e-12);
    assert_true(fabs(offer.with_rate - 1 / 1.3 / 1.5) < 1e-12);
    /* of unknown memory: it fits, as it is */
    assert_true(firn_offer_beside(&view, scene_job(scene, "U"), &h, &offer));
    assert_int_equal(offer.way.passes, 0);
    scene_free(scene);
}

static void a_way_without_a_forecast_is_not_offered(void **unused)
{
    struct firn_offer offer;
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    const struct firn_job *u = scene_job(scene, "U");
    const struct firn_job *g = scene_job(scene, "G");
    assert_true(firn_offer_beside(&view, u, g, &offer));
    xi = (double)NAN;
    assert_false(firn_offer_beside(&view, u, g, &offer));
    xi = 1.25;
    assert_false(firn_offer_beside(&view, g, g, &offer));
    assert_false(firn_offer_beside(&view, g, u, &offer)); /* holds nothing */
    view.forecast = NULL;
    assert_false(firn_offer_beside(&view, u, g, &offer));
    scene_free(scene);
}

/* 7 + 7 GiB are 15.4 with the margin; 7 + 8 are 16.5. */
static void two_jobs_fit_with_a_margin(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    assert_true(firn_offer_fits(&view, 0, 7, 7));
    assert_false(firn_offer_fits(&view, 0, 7, 8));
    assert_true(firn_offer_fits(&view, 0, (double)NAN, 80));
    scene_free(scene);
}

/* Of a job that can do all but one thing the menu is the whole one less the
 * ways that need it. */
static void what_a_trainer_cannot_do_is_on_no_menu(void **unused)
{
    static const char spread[] = "2 nodes x 4 gpus of t4; "
                                 "P wants 4 from 2 to 8 cannot ";
    (void)unused;
    char text[128];
    snprintf(text, sizeof text, "%s%s", spread, "sharded");
    expect_menu(text, "P", FIRN_OFFER_PARALLEL, "4p1 4p2 4p4");
    snprintf(text, sizeof text, "%s%s", spread, "pipeline");
    expect_menu(text, "P", FIRN_OFFER_PARALLEL, "4s");
    snprintf(text, sizeof text, "%s%s", spread, "sharded,pipeline");
    expect_menu(text, "P", FIRN_OFFER_PARALLEL, "4"); /* as submitted */
    snprintf(text, sizeof text, "%s%s", spread, "resize");
    expect_menu(text, "P", FIRN_OFFER_ELASTIC, "4");
}

/* Without passes H leaves no room for A, which takes 13 GiB in one. */
static void a_job_that_takes_no_orders_of_passes_has_one_way(void **unused)
{
    struct firn_offer offer;
    size_t n;
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    struct firn_job a = *scene_job(scene, "A");
    struct firn_job h = *scene_job(scene, "H");
    h.held.how.passes = 4;
    assert_true(firn_offer_beside(&view, &a, &h, &offer));
    a.spec.cannot = FIRN_CAN_PASSES;
    const struct firn_offer *at = firn_offer_passes(&view, &a, 0, &n);
    assert_int_equal(n, 1);
    assert_int_equal(at[0].way.passes, 0);
    assert_false(firn_offer_beside(&view, &a, &h, &offer));
    struct firn_way two = {.gpus = 2, .type = 0, .passes = 2};
    assert_true(firn_view_rate(&view, &a, &two) == 0);
    two.passes = 1;
    assert_true(firn_view_rate(&view, &a, &two) == 1);
    scene_free(scene);
}

/* A tuning that the trainer lacks is neither offered nor counted. */
static void tunings_are_those_of_the_trainer(void **unused)
{
    static const unsigned kinds = FIRN_OFFER_FREEZE | FIRN_OFFER_BATCH;
    static const struct {
        unsigned cannot, tunes;
    } cases[] = {
        {0, FIRN_TUNE_FREEZE | FIRN_TUNE_BATCH},
        {FIRN_CAN_FREEZE, FIRN_TUNE_BATCH},
        {FIRN_CAN_BATCH, FIRN_TUNE_FREEZE},
        {FIRN_CAN_ALL, 0},
    };
    (void)unused;
    struct scene *scene = scene_new(HOSTS, &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    struct firn_job a = *scene_job(scene, "A");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n;
        a.spec.cannot = cases[i].cannot;
        const struct firn_offer *at = firn_offers(&view, &a, kinds, &n);
        assert_int_equal(n, 1);
        assert_int_equal(at[0].way.tunes, cases[i].tunes);
        assert_int_equal((at[0].kinds & FIRN_OFFER_FREEZE) != 0,
                         (cases[i].tunes & FIRN_TUNE_FREEZE) != 0);
        assert_int_equal((at[0].kinds & FIRN_OFFER_BATCH) != 0,
                         (cases[i].tunes & FIRN_TUNE_BATCH) != 0);
    }
    scene_free(scene);
}

/* Elastic threads take the place of a tuned batch where they are faster. */
static void threads_are_offered_where_they_are_faster(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(
        "2 nodes x 4 gpus of t4; A wants 1 from 1 to 2", &toy_do_nothing, NULL);
    struct firn_view view = look(scene);
    unsigned kinds = FIRN_OFFER_ELASTIC | FIRN_OFFER_BATCH;
    size_t n;
    const struct firn_offer *at = firn_offers(&view, scene_job(scene, "A"),
                                              kinds | FIRN_OFFER_THREADS, &n);
    assert_int_equal(n, 2);
    assert_int_equal(at[0].way.tunes, FIRN_TUNE_BATCH);
    assert_int_equal(at[0].kinds & FIRN_OFFER_THREADS, 0);
    assert_int_equal(at[1].way.tunes, FIRN_TUNE_THREADS);
    assert_int_equal(at[1].kinds & (FIRN_OFFER_THREADS | FIRN_OFFER_BATCH),
                     FIRN_OFFER_THREADS);
    assert_float_equal(at[1].rate, 3, 1e-9);
    at = firn_offers(&view, scene_job(scene, "A"), kinds, &n);
    assert_int_equal(at[1].way.tunes, FIRN_TUNE_BATCH);
    assert_float_equal(at[1].rate, 2, 1e-9);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gang_has_one_way_and_an_elastic_job_many),
        cmocka_unit_test(each_type_that_is_accepted_is_offered),
        cmocka_unit_test(ways_that_cannot_be_are_left_out),
        cmocka_unit_test(models_are_spread_as_their_application_can),
        cmocka_unit_test(hosts_are_those_that_hold_half_shares),
        cmocka_unit_test(passes_go_down_to_one_sample),
        cmocka_unit_test(the_fastest_way_that_fits_is_offered),
        cmocka_unit_test(a_way_without_a_forecast_is_not_offered),
        cmocka_unit_test(two_jobs_fit_with_a_margin),
        cmocka_unit_test(what_a_trainer_cannot_do_is_on_no_menu),
        cmocka_unit_test(a_job_that_takes_no_orders_of_passes_has_one_way),
        cmocka_unit_test(tunings_are_those_of_the_trainer),
        cmocka_unit_test(threads_are_offered_where_they_are_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
