/* test_visionpeak.c - memory of networks of convolutions: from shapes, and by
 * lines through two measured peaks, beside profiles/h200/freeze.csv.
 */
#include "lib/csv.h"
#include <firn/visionpeak.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

static struct firn_vision_peak predict(const char *name, int image, int batch,
                                       enum firn_peak_mode mode)
{
    struct firn_vision_job job = {.image = image,
                                  .micro_batch = batch,
                                  .mode = mode,
                                  .optimizer = FIRN_OPT_SGD};
    struct firn_vision_peak out;
    assert_int_equal(firn_vision_find(&job.network, name, NULL), FIRN_OK);
    assert_int_equal(firn_vision_peak_of(&job, &out, NULL), FIRN_OK);
    return out;
}

static void parameters_are_those_of_the_libraries(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double params;
    } want[] = {{"resnet18", 11689512},        {"resnet34", 21797672},
                {"resnet50", 25557032},        {"resnet101", 44549160},
                {"resnet152", 60192808},       {"convnext-tiny", 28589128},
                {"convnext-small", 50223688},  {"convnext-base", 88591464},
                {"convnext-large", 197767336}, {"unet-sd15", 859520964}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        double got = predict(want[i].name, 0, 1, FIRN_MODE_FP32).params;
        if (got != want[i].params)
            fail_msg("%s: %.0f parameters", want[i].name, got);
    }
    assert_int_equal(firn_vision_count(), sizeof want / sizeof *want);
}

/* ResNet18 at 224, by hand: image 150528; first convolution 2 x 802816; pooling
 * 3 x 200704; layer 1 8 x 200704; layers 2 to 4 9 x (100352 + 50176 + 25088)
 * = 5544448 numbers. */
static void a_resnet_keeps_two_numbers_for_each_of_a_convolution(void **state)
{
    (void)state;
    struct firn_vision_peak m = predict("resnet18", 224, 32, FIRN_MODE_FP32);
    assert_true(fabs(m.activations_mib - 32 * 4 * 5544448 / MIB) < 1e-9);
    assert_true(fabs(m.weights_mib - 4 * 11689512 / MIB) < 1e-9);
    assert_true(m.moments_mib == m.weights_mib);
    assert_true(fabs(m.expected_mib - 2 * m.weights_mib - m.activations_mib -
                     m.workspace_mib) < 1e-9);
    struct firn_vision_peak half = predict("resnet18", 224, 32, FIRN_MODE_BF16);
    assert_true(half.activations_mib == m.activations_mib / 2);
    struct firn_vision_peak big = predict("resnet18", 448, 8, FIRN_MODE_FP32);
    assert_true(fabs(big.activations_mib - m.activations_mib) < 1e-9);
}

/* What PyTorch 2.11 keeps of one sample on a CPU in fp32: ConvNeXt-tiny of
 * transformers at 224 104.11 MiB, the U-Net of diffusers at 64 1784.4 MiB. */
static void kept_tensors_are_those_of_pytorch(void **state)
{
    (void)state;
    double tiny =
        predict("convnext-tiny", 224, 16, FIRN_MODE_FP32).activations_mib;
    double unet = predict("unet-sd15", 64, 4, FIRN_MODE_FP32).activations_mib;
    assert_true(fabs(tiny / 16 / 104.11 - 1) < 0.01);
    assert_true(fabs(unet / 4 / 1784.4 - 1) < 0.01);
}

/* With few samples the optimizer's step is the peak: weights, momentum and
 * gradients. */
static void few_samples_peak_at_the_step(void **state)
{
    (void)state;
    struct firn_vision_peak m = predict("resnet152", 32, 1, FIRN_MODE_FP32);
    assert_true(m.activations_mib == 0);
    assert_true(m.gradients_mib == m.weights_mib);
}

static void networks_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct firn_vision_job job = {.image = 100, .micro_batch = 1};
    struct firn_vision_peak out;
    struct firn_peak_points p;
    size_t i;
    assert_int_equal(firn_vision_find(&i, "resnet19", NULL), FIRN_ENOENT);
    assert_int_equal(firn_vision_peak_of(&job, &out, NULL), FIRN_EINVAL);
    job.image = 224;
    job.micro_batch = 0;
    assert_int_equal(firn_vision_peak_of(&job, &out, NULL), FIRN_EINVAL);
    static const char *const bad[] = {"",          "16",          "16=1",
                                      "16=1,16=2", "16=1,32=2 ",  "0=1,2=3",
                                      "16=0,32=4", "16=nan,32=4", "a=1,b=2"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        if (firn_peak_points_read(&p, bad[k], NULL) == FIRN_OK)
            fail_msg("accepted: '%s'", bad[k]);
}

/* 16 samples 2000 MiB, 64 samples 6800: 100 a sample and 400. */
static void two_points_give_a_line(void **state)
{
    (void)state;
    struct firn_peak_points p;
    struct firn_peak_line m;
    assert_int_equal(firn_peak_points_read(&p, "16=2000,64=6800", NULL),
                     FIRN_OK);
    assert_int_equal(firn_peak_line_at(&p, 32, &m, NULL), FIRN_OK);
    assert_true(m.sample_mib == 100 && m.base_mib == 400);
    assert_true(m.expected_mib == 3600);
    assert_true(fabs(m.low_mib - 0.95 * 3600) < 1e-9);
    assert_int_equal(firn_peak_line_at(&p, 128, &m, NULL), FIRN_OK);
    assert_true(m.expected_mib == 13200);
    assert_true(fabs(m.high_mib - 1.10 * 13200) < 1e-9);
    /* A line that falls is flat. */
    assert_int_equal(firn_peak_points_read(&p, "128=533,64=538", NULL),
                     FIRN_OK);
    assert_int_equal(firn_peak_line_at(&p, 256, &m, NULL), FIRN_OK);
    assert_true(m.expected_mib == 538);
}

/* --- measured ------------------------------------------------------------- */

struct measured {
    char model[32];
    int n, batch[8];
    double mib[8];
};

enum { MODELS_MAX = 16 };

static int read_measured(struct measured *out)
{
    struct csv *csv = csv_open("profiles/h200/freeze.csv");
    int n = 0;
    assert_non_null(csv);
    while (csv_next(csv)) {
        const char *model = csv_text(csv, "model");
        if (csv_number(csv, "frozen") != 0)
            continue;
        if (n == 0 || strcmp(out[n - 1].model, model) != 0)
            snprintf(out[n++].model, sizeof out->model, "%s", model);
        struct measured *m = &out[n - 1];
        m->batch[m->n] = (int)csv_number(csv, "batch");
        m->mib[m->n++] = csv_number(csv, "peak_alloc_mib");
    }
    csv_close(csv);
    return n;
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* From the least and the largest batch the ones between, and from the two least
 * the larger ones. */
static void judge(const struct measured *m, int n, const char *suffix,
                  bool is_between, double *median, double *worst)
{
    double right[64];
    int count = 0, inside = 0;
    for (int i = 0; i < n; i++) {
        int last = m[i].n - 1, other = is_between ? last : 1;
        if (m[i].n < 3 || !strstr(m[i].model, suffix))
            continue;
        struct firn_peak_points p = {{m[i].batch[0], m[i].batch[other]},
                                     {m[i].mib[0], m[i].mib[other]}};
        for (int k = 1; k <= last; k++) {
            struct firn_peak_line line;
            if (k == other)
                continue;
            assert_int_equal(firn_peak_line_at(&p, m[i].batch[k], &line, NULL),
                             FIRN_OK);
            right[count++] = 1 - fabs(line.expected_mib / m[i].mib[k] - 1);
            inside +=
                m[i].mib[k] >= line.low_mib && m[i].mib[k] <= line.high_mib;
        }
    }
    qsort(right, (size_t)count, sizeof *right, ascending);
    *median = right[count / 2];
    *worst = right[0];
    print_message("%s, %s: %d rows, median %.1f %%, worst %.1f %%, %d within "
                  "the interval\n",
                  suffix, is_between ? "between the points" : "beyond them",
                  count, 100 * *median, 100 * *worst, inside);
}

static void lines_predict_measured_peaks(void **state)
{
    static struct measured m[MODELS_MAX];
    double median, worst;
    (void)state;
    int n = read_measured(m);
    judge(m, n, "-i", true, &median, &worst);
    assert_true(median > 0.99 && worst > 0.98);
    judge(m, n, "-i", false, &median, &worst);
    assert_true(median > 0.98 && worst > 0.98);
    /* Small images: cuDNN's choice of algorithms is a large part. */
    judge(m, n, "-c", true, &median, &worst);
    assert_true(median > 0.95);
    judge(m, n, "-c", false, &median, &worst);
    assert_true(median > 0.85);
}

static void resnets_are_predicted_from_their_shapes(void **state)
{
    static struct measured m[MODELS_MAX];
    double worst = 1;
    int rows = 0;
    (void)state;
    int n = read_measured(m);
    for (int i = 0; i < n; i++) {
        bool is_18 = strcmp(m[i].model, "resnet18-i") == 0;
        if (!is_18 && strcmp(m[i].model, "resnet50-i") != 0)
            continue;
        for (int k = 0; k < m[i].n; k++, rows++) {
            struct firn_vision_peak p =
                predict(is_18 ? "resnet18" : "resnet50", 224, m[i].batch[k],
                        FIRN_MODE_FP32);
            worst = fmin(worst, 1 - fabs(p.expected_mib / m[i].mib[k] - 1));
            assert_true(m[i].mib[k] < p.high_mib && m[i].mib[k] > p.low_mib);
        }
    }
    print_message("ResNet18 and 50 at 224: %d rows, worst %.1f %%\n", rows,
                  100 * worst);
    assert_int_equal(rows, 7);
    assert_true(worst > 0.95);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(parameters_are_those_of_the_libraries),
        cmocka_unit_test(a_resnet_keeps_two_numbers_for_each_of_a_convolution),
        cmocka_unit_test(kept_tensors_are_those_of_pytorch),
        cmocka_unit_test(few_samples_peak_at_the_step),
        cmocka_unit_test(networks_that_make_no_sense_are_refused),
        cmocka_unit_test(two_points_give_a_line),
        cmocka_unit_test(lines_predict_measured_peaks),
        cmocka_unit_test(resnets_are_predicted_from_their_shapes),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
