/* test_adaptdljob.c - one job of the AdaptDL simulator against numbers that
 * simulator printed.
 *
 * Where no other reason is given, an expected number was produced by the
 * published artifact itself (branch osdi21-artifact) for the same question,
 * and is given with all the digits that were written down.
 */
#include "base/buf.h"
#include "compat/adaptdljob.h"
#include "lib/data.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An application of the published tables, with all it takes to run it. */
struct known {
    struct adlapp app;
    struct adlsteps steps;
    struct adllimits limits;
};

static bool has_data(void)
{
    if (data_path("pollux/apps") != NULL &&
        data_path("pollux/interpolated") != NULL)
        return true;
    print_message("no $FIRN_DATA/pollux: left out\n");
    return false;
}

static const char *path_of(struct firn_buf *path, const char *fmt,
                           const char *app)
{
    buf_clear(path);
    buf_printf(path, fmt, data_path("pollux"), app);
    return path->at;
}

static struct known known(const char *app)
{
    struct known k = {0};
    struct firn_buf path[4] = {{0}};
    struct firn_error err = {0};
    enum firn_status status =
        adlapp_open(&k.app, path_of(&path[0], "%s/apps/%s", app), &err);
    if (status == FIRN_OK)
        status = adlsteps_open(
            &k.steps, path_of(&path[1], "%s/apps/%s/placements.csv", app),
            path_of(&path[2], "%s/apps/%s/scalability.csv", app),
            path_of(&path[3], "%s/interpolated/%s-5plus.csv", app), &err);
    for (int i = 0; i < 4; i++)
        buf_release(&path[i]);
    if (status != FIRN_OK)
        fail_msg("%s", err.text);
    k.limits = (struct adllimits){
        .b0 = k.app.batch[0],
        .b_min = k.steps.b_min,
        .b_max = strcmp(app, "yolov3") == 0 ? 8 : k.steps.b_max,
        .total_max = k.app.batch[k.app.nbatches - 1],
    };
    return k;
}

static void forget(struct known *k)
{
    adlapp_release(&k->app);
    adlsteps_release(&k->steps);
}

/* "4,2", or "6*4" for six nodes of four. */
static struct adlplace place(const char *text)
{
    struct adlplace out = {0};
    int times, gpus;
    if (sscanf(text, "%d*%d", &times, &gpus) == 2)
        return adlplace_packed(times * gpus, gpus);
    for (; *text != '\0'; text += *text == ',')
        assert_true(adlplace_add(&out, *text++ - '0'));
    return out;
}

/* Equal to the digits that were written down. */
static void assert_near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.12g, not %.12g", value, want);
}

static void step_times_are_those_of_the_artifact(void **state)
{
    static const struct {
        const char *app, *place;
        int b;
        double step_s, sync_s;
    } rows[] = {
        {"cifar10", "1", 128, 0.103115323, 0.000525336},
        {"cifar10", "4,2", 342, 0.268777414, 0.020076066},
        {"cifar10", "2,4", 342, 0.268777414, 0.020076066},
        {"cifar10", "1,3,2", 100, 0.148151534, 0.068059275},
        {"cifar10", "1,2,3", 100, 0.150870728, 0.070045600},
        {"bert", "4", 7, 0.680147901, 0.093732959},
        {"bert", "4,4", 9, 2.521101212, 1.826682101},
        {"deepspeech2", "4,4,2", 33, 1.247383625, 0.250095372},
        {"yolov3", "1", 5, 0.358801335, 0.002507357},
        {"ncf", "1", 16384, 0.014968738, 0.000339132},
        {"ncf", "2", 5000, 0.012775016, 0.002017478},
        {"bert", "4,3,2,1,1", 12, 1.752985689, 0.885896354},
        {"imagenet", "6*4", 150, 0.809504784, 0.057493146},
        {"imagenet", "16*4", 180, 0.988771342, 0.106732920},
        {"imagenet", "4,4,4,4,4,3,2,2,1", 123, 0.734321117, 0.108235522},
        {"yolov3", "7*4", 8, 1.413286567, 1.041822754},
        {"yolov3", "5*1", 7, 0.881962933, 0.524530948},
        {"deepspeech2", "10*4", 16, 1.277223126, 0.482059998},
        {"cifar10", "9*3", 150, 0.205417364, 0.086794683},
    };
    (void)state;
    if (!has_data())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct known k = known(rows[i].app);
        struct adlplace at = place(rows[i].place);
        struct adltime time = adlsteps_at(&k.steps, &at, rows[i].b);
        if (!(fabs(time.step_s - rows[i].step_s) < 1e-9) ||
            !(fabs(time.sync_s - rows[i].sync_s) < 1e-9))
            fail_msg("%s on %s: %.10g %.10g", rows[i].app, rows[i].place,
                     time.step_s, time.sync_s);
        forget(&k);
    }
}

static void efficiency_is_that_of_the_artifact(void **state)
{
    static const struct {
        const char *app;
        double batch;
        int e;
        double g, v, gain, efficiency, goal, iterations;
    } rows[] = {
        {"cifar10", 128, 0, 8.94730754, 5.0665933, 1, 1, 390.714386, 390},
        {"cifar10", 300, 0, 15.8051873, 13.0743911, 1.350548377, 0.576233974,
         390.714386, 286.7656},
        {"cifar10", 2052, 50, 0.0238077708, 3.32902435, 14.485190401,
         0.903559635, 19922.0, 1939.8906},
        {"cifar10", 4096, 99, 1.901613e-05, 0.0241275321, 31.237388252,
         0.976168383, 39062.908167, 2011},
        {"bert", 54, 0, 5.42594574e13, 6.77622356e15, 4.378270820, 0.972949071,
         7387, 1762.875},
        {"bert", 54, 1, 6.80838965e10, 4.27473646e13, 4.475093422, 0.994465205,
         14774, 3501.125},
        {"imagenet", 3600, 0, 4.3479477, 14.5262794, 3.661369891, 0.203409438,
         6405.927175, 991.625},
        {"imagenet", 3600, 45, 0.129955722, 22.4242211, 16.394145706,
         0.910785873, 294669, 22580.375},
        {"imagenet", 12800, 89, 0.0578796566, 50.4572137, 59.691206399,
         0.932675100, 576525.594896, 14461},
        {"deepspeech2", 330, 40, 1.30753753e-07, 3.58127924e-04, 16.407183927,
         0.994374783, 14624.830826, 1377.7188},
        {"yolov3", 224, 25, 239.749498, 16668.6935, 20.248177865, 0.723149209,
         53790.779035, 3346.25},
        {"ncf", 32768, 3, 22318.4948, 146823258, 125.576099747, 0.981063279,
         77669.695758, 635},
    };
    (void)state;
    if (!has_data())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct known k = known(rows[i].app);
        double batch = rows[i].batch, scale = batch / k.app.batch[0];
        struct firn_noise noise = adlapp_noise(&k.app, batch, rows[i].e);
        double gain = adlapp_gain(&k.app, &noise, batch);
        assert_near(noise.grad_sqr, rows[i].g, 1e-7);
        assert_near(noise.grad_var, rows[i].v, 1e-7);
        assert_near(gain, rows[i].gain, 1e-9);
        assert_near(gain / scale, rows[i].efficiency, 1e-8);
        assert_near(k.app.progress[rows[i].e + 1], rows[i].goal, 1e-8);
        assert_near(adlapp_iterations(&k.app, batch, rows[i].e),
                    rows[i].iterations, 1e-6);
        forget(&k);
    }
}

/* All the work there is, in steps at the first batch. */
static void applications_end_where_they_do_in_the_artifact(void **state)
{
    static const struct {
        const char *app;
        int epochs;
        double b0, total_max, b_min, b_max, work;
    } rows[] = {
        {"bert", 2, 12, 384, 4, 12, 14774},
        {"cifar10", 100, 128, 4096, 32, 1024, 39062.908},
        {"deepspeech2", 80, 20, 640, 10, 80, 28536},
        {"imagenet", 90, 200, 12800, 20, 200, 576525.595},
        {"ncf", 10, 256, 32768, 32, 32768, 194174},
        {"yolov3", 50, 8, 512, 4, 8, 103443.978},
    };
    (void)state;
    if (!has_data())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct known k = known(rows[i].app);
        assert_int_equal(k.app.epochs, rows[i].epochs);
        assert_true(k.limits.b0 == rows[i].b0);
        assert_true(k.limits.total_max == rows[i].total_max);
        assert_true(k.limits.b_min == rows[i].b_min);
        assert_true(k.limits.b_max == rows[i].b_max);
        assert_near(k.app.progress[k.app.epochs], rows[i].work, 1e-8);
        forget(&k);
    }
}

/* bert 384 on six: L = 64, six passes of 11, but 6 x 6 x 11 = 396 is more than
 * 384, so b = 384 / 36 = 10. */
static void a_fixed_batch_is_split_as_in_the_artifact(void **state)
{
    static const struct {
        struct adllimits limits;
        double batch;
        int gpus, b, s;
        double total;
    } rows[] = {
        {{128, 32, 1024, 4096}, 2048, 6, 342, 0, 2052},
        {{128, 32, 1024, 4096}, 4096, 12, 341, 0, 4092},
        {{12, 4, 12, 384}, 384, 8, 12, 3, 384},
        {{12, 4, 12, 384}, 384, 6, 10, 5, 360},
        {{200, 20, 200, 12800}, 6400, 48, 134, 0, 6432},
        {{8, 4, 8, 512}, 64, 4, 8, 1, 64},
        {{20, 10, 80, 640}, 320, 6, 54, 0, 324},
        {{20, 10, 80, 640}, 640, 1, 80, 7, 640},
        {{256, 32, 32768, 32768}, 32768, 1, 16384, 1, 32768},
        {{12, 4, 12, 384}, 12, 1, 12, 0, 12},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct adlbatch batch =
            adlbatch_fixed(&rows[i].limits, rows[i].batch, rows[i].gpus, false);
        assert_int_equal(batch.b, rows[i].b);
        assert_int_equal(batch.s, rows[i].s);
        assert_true(adlbatch_total(batch, rows[i].gpus) == rows[i].total);
    }
    struct adlbatch two = adlbatch_fixed(&rows[9].limits, 12, 1, true);
    assert_int_equal(two.b, 6);
    assert_int_equal(two.s, 1);
}

static void a_job_alone_ends_at_the_second_it_does_in_the_artifact(void **state)
{
    static const struct {
        const char *app;
        double batch;
        const char *place;
        double end_s;
    } rows[] = {
        {"cifar10", 2048, "4,2", 940}, {"cifar10", 4096, "4,4,4", 654},
        {"bert", 384, "4,4", 2489},    {"imagenet", 6400, "12*4", 19719},
        {"yolov3", 64, "4", 14132},    {"deepspeech2", 320, "4,2", 4172},
        {"ncf", 32768, "1", 77},
    };
    (void)state;
    if (!has_data())
        skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct known k = known(rows[i].app);
        struct adljob job = {.app = &k.app, .fixed_batch = rows[i].batch};
        struct adlplace at = place(rows[i].place);
        double now_s = 0;
        adljob_place(&job, 0, &k.steps, &k.limits, &at, 30);
        while (!job.is_done) {
            struct adlstride stride = adljob_advance(&job, 60);
            now_s += stride.idle_s + stride.train_s;
        }
        assert_true(now_s == rows[i].end_s);
        adljob_release(&job);
        forget(&k);
    }
}

/* 30 s of restart and 30 s of training; then a change: 30 s anew, whatever was
 * left of the first. Without GPUs nothing moves. */
static void a_restart_counts_down_first(void **state)
{
    (void)state;
    if (!has_data())
        skip();
    struct known k = known("cifar10");
    struct adljob job = {.app = &k.app, .fixed_batch = 128};
    struct adlplace one = place("1");
    assert_true(adljob_advance(&job, 60).train_s == 0);
    adljob_place(&job, 0, &k.steps, &k.limits, &one, 30);
    struct adlstride stride = adljob_advance(&job, 20);
    assert_true(stride.idle_s == 20 && stride.train_s == 0);
    adljob_place(&job, 0, &k.steps, &k.limits, &one, 30);
    stride = adljob_advance(&job, 60);
    assert_true(stride.idle_s == 30 && stride.train_s == 30);
    /* gain 1 at the first batch, a step in 0.103115323 s */
    assert_near(stride.gained, 30 / 0.103115323, 1e-8);
    adljob_clear(&job);
    assert_true(adljob_advance(&job, 60).gained == 0);
    adljob_release(&job);
    forget(&k);
}

/* Two rounds on each placement, from scratch. */
static void a_tuned_job_trains_as_in_the_artifact(void **state)
{
    static const struct {
        const char *app, *place;
        int b; /* after two rounds; 0: the next application begins */
        double progress;
    } rows[] = {
        {"cifar10", "1", 128, 878.5777},  {"cifar10", "2", 85, 2216.9029},
        {"cifar10", "4", 163, 4912.0274}, {"cifar10", "4,4", 409, 9083.3925},
        {"imagenet", "1", 200, 97.4521},  {"imagenet", "2", 100, 271.7700},
        {"imagenet", "4", 84, 568.2661},  {"bert", "1", 12, 97.6652},
        {"bert", "2", 12, 291.3793},
    };
    (void)state;
    if (!has_data())
        skip();
    /* Fitted parameters of cifar10 after the first two placements. */
    static const double fits[2][ADL_NP] = {
        {0.051295, 4.02636e-4, 1.1e-8, 1.1e-8, 1e-8, 1e-8, 1.001},
        {0.0251383, 6.16426e-4, 1.50349e-3, 1.1e-8, 1.36681e-3, 1e-8, 1},
    };
    struct known k = {0};
    struct adljob job = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i == 0 || strcmp(rows[i].app, rows[i - 1].app) != 0) {
            adljob_release(&job);
            forget(&k);
            k = known(rows[i].app);
            job = (struct adljob){.app = &k.app, .learns = true};
        }
        struct adlplace at = place(rows[i].place);
        adljob_place(&job, 0, &k.steps, &k.limits, &at, 30);
        adljob_advance(&job, 60);
        adljob_advance(&job, 60);
        print_message("%s on %s: b %d (%d), progress %.4f (%.4f), %zu seen\n",
                      rows[i].app, rows[i].place, job.batch.b, rows[i].b,
                      job.progress, rows[i].progress, job.models[0].seen.n);
        if (i < 2)
            for (int j = 0; j < ADL_NP; j++)
                assert_near(job.models[0].params.at[j], fits[i][j], 1e-3);
        assert_near(job.progress, rows[i].progress, 0.001);
        assert_true(abs(job.batch.b - rows[i].b) <= 0.06 * rows[i].b);
    }
    adljob_release(&job);
    forget(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_times_are_those_of_the_artifact),
        cmocka_unit_test(efficiency_is_that_of_the_artifact),
        cmocka_unit_test(applications_end_where_they_do_in_the_artifact),
        cmocka_unit_test(a_fixed_batch_is_split_as_in_the_artifact),
        cmocka_unit_test(
            a_job_alone_ends_at_the_second_it_does_in_the_artifact),
        cmocka_unit_test(a_restart_counts_down_first),
        cmocka_unit_test(a_tuned_job_trains_as_in_the_artifact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
