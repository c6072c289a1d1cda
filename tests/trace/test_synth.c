/* test_synth.c - made-up traces: load, distributions, seeds, the bundled one.
 *
 * The bundled trace is made again from the options that traces/README.md
 * names, and must have the same bytes.
 */
#include "base/buf.h"
#include "lib/trace_text.h"
#include "trace/synth.h"
#include "trace/write.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static struct synth_options usual(long jobs)
{
    return (struct synth_options){
        .jobs = jobs, .seed = 3, .load = 0.8, .cluster_gpus = 256};
}

static struct firn_buf make(const struct synth_options *options, unsigned mask)
{
    struct firn_buf out = {0};
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    assert_int_equal(synth_init(&synth, options, &err), FIRN_OK);
    write_header(&out, mask);
    while (synth_next(&synth, &spec))
        write_row(&out, &spec, mask);
    return out;
}

/* What a trace of these options adds up to. */
struct sums {
    long jobs, ones, early_half, elastic;
    double gpu_s, last_s, longest_s, shorter_than_1200;
    int gpus_max;
};

static struct sums add_up(const struct synth_options *options)
{
    struct sums sums = {0};
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    assert_int_equal(synth_init(&synth, options, &err), FIRN_OK);
    while (synth_next(&synth, &spec)) {
        assert_true(spec.submit_s >= sums.last_s);
        assert_true(sums.jobs > 0 || spec.submit_s == 0);
        assert_true(spec.duration_s >= 1 && spec.duration_s <= 60 * 86400);
        assert_true(spec.gpus_min >= 1 && spec.gpus_min <= spec.gpus &&
                    spec.gpus <= spec.gpus_max);
        sums.jobs++;
        sums.ones += spec.gpus == 1;
        sums.gpu_s += spec.gpus * spec.duration_s;
        sums.last_s = spec.submit_s;
        sums.longest_s = fmax(sums.longest_s, spec.duration_s);
        sums.shorter_than_1200 += spec.gpus == 1 && spec.duration_s < 1200;
        sums.early_half += fmod(spec.submit_s, 86400) > 21600 &&
                           fmod(spec.submit_s, 86400) < 64800;
        sums.elastic += spec.gpus_min < spec.gpus_max;
        if (spec.gpus_max > sums.gpus_max)
            sums.gpus_max = spec.gpus_max;
    }
    return sums;
}

static void the_load_is_the_one_asked_for(void **state)
{
    (void)state;
    for (int arrivals = 0; arrivals < 2; arrivals++) {
        struct synth_options options = usual(5000);
        options.arrivals = (enum synth_arrivals)arrivals;
        options.load = 1.3;
        struct sums sums = add_up(&options);
        assert_int_equal(sums.jobs, 5000);
        double load = sums.gpu_s / (256 * sums.last_s);
        assert_true(fabs(load - 1.3) < 1e-6);
    }
}

static void sizes_and_durations_are_like_phillys(void **state)
{
    (void)state;
    struct synth_options options = usual(100000);
    struct sums sums = add_up(&options);
    /* Philly: 93.17 % have one GPU, half of which end before 1117 s. */
    assert_true(fabs((double)sums.ones / 100000 - 0.9317) < 0.004);
    assert_true(fabs(sums.shorter_than_1200 / (double)sums.ones - 0.51) < 0.02);
}

static void no_job_is_larger_than_allowed(void **state)
{
    (void)state;
    struct synth_options options = usual(20000);
    options.gpus_max = 4;
    options.elastic = 1;
    assert_int_equal(add_up(&options).gpus_max, 4);
    options.gpus_max = 0;
    options.cluster_gpus = 3;
    assert_int_equal(add_up(&options).gpus_max, 3);
    options.elastic = 0;
    assert_int_equal(add_up(&options).gpus_max, 2);
}

static void larger_and_shorter_jobs_can_be_asked_for(void **state)
{
    (void)state;
    struct synth_options options = usual(20000);
    options.multi = 0.4;
    options.duration_max_s = 3600;
    struct sums sums = add_up(&options);
    assert_true(fabs((double)sums.ones / 20000 - 0.6) < 0.02);
    assert_true(sums.longest_s <= 3600 && sums.longest_s > 3500);
}

static void days_have_more_arrivals_than_nights(void **state)
{
    (void)state;
    struct synth_options options = usual(20000);
    double even = (double)add_up(&options).early_half / 20000;
    options.arrivals = SYNTH_DIURNAL;
    double diurnal = (double)add_up(&options).early_half / 20000;
    assert_true(fabs(even - 0.5) < 0.03);
    /* of 1 - 0.5 cos, the middle half has 1/2 + 0.5/pi */
    assert_true(fabs(diurnal - 0.659) < 0.03);
}

static void same_seed_same_bytes_other_seed_other_bytes(void **state)
{
    (void)state;
    struct synth_options options = usual(300);
    struct firn_buf a = make(&options, 0), b = make(&options, 0);
    options.seed++;
    struct firn_buf c = make(&options, 0);
    assert_string_equal(a.at, b.at);
    assert_string_not_equal(a.at, c.at);
    buf_release(&a);
    buf_release(&b);
    buf_release(&c);
}

static void elastic_jobs_and_applications_change_nothing_else(void **state)
{
    (void)state;
    static const char *const apps[] = {"ncf", "bert"};
    struct synth_options options = usual(300);
    struct firn_buf a = make(&options, 0);
    options.elastic = 0.5;
    options.apps = apps;
    options.napps = 2;
    struct firn_buf b = make(&options, 0);
    assert_string_equal(a.at, b.at); /* the mask leaves both columns out */
    struct sums sums = add_up(&options);
    assert_true(sums.elastic > 100 && sums.elastic < 200);
    struct firn_buf c = make(&options, 1u << WRITE_APP);
    assert_non_null(strstr(c.at, ",ncf\n"));
    assert_non_null(strstr(c.at, ",bert\n"));
    buf_release(&a);
    buf_release(&b);
    buf_release(&c);
}

/* The load counts the GPUs that each model is expected to use. Batches are
 * those allowed, all of them. */
static void language_models_have_a_batch_and_no_number_of_gpus(void **state)
{
    (void)state;
    static const char *const models[] = {"bert-base", "gpt2-7b"};
    static const int gpus[] = {1, 8};
    static const unsigned batches[] = {2 | 4 | 8 | 16 | 32, 2 | 8};
    struct synth_options options = usual(300);
    options.models = models;
    options.model_gpus = gpus;
    options.model_batches = batches;
    options.nmodels = 2;
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    unsigned seen[2] = {0, 0};
    double gpu_s = 0, last_s = 0;
    assert_int_equal(synth_init(&synth, &options, &err), FIRN_OK);
    while (synth_next(&synth, &spec)) {
        int which = strcmp(spec.app, models[1]) == 0;
        assert_int_equal(spec.gpus, 0);
        assert_int_equal(spec.seq, which ? 1024 : 512);
        seen[which] |= (unsigned)spec.batch;
        gpu_s += gpus[which] * spec.duration_s;
        last_s = spec.submit_s;
    }
    assert_int_equal(seen[0], batches[0]);
    assert_int_equal(seen[1], batches[1]);
    assert_true(fabs(gpu_s / (256 * last_s) - 0.8) < 1e-6);
    static const char *const wrong[] = {"gpt2-8b"};
    options.models = wrong;
    options.nmodels = 1;
    assert_int_equal(synth_init(&synth, &options, &err), FIRN_ENOENT);
}

static void one_job_comes_at_once(void **state)
{
    (void)state;
    struct synth_options options = usual(1);
    options.arrivals = SYNTH_DIURNAL;
    assert_int_equal(add_up(&options).jobs, 1);
}

static void options_out_of_range_are_refused_with_a_sentence(void **state)
{
    (void)state;
    struct synth synth;
    struct firn_error err;
    struct synth_options wrong[7];
    for (int i = 0; i < 7; i++)
        wrong[i] = usual(10);
    wrong[0].jobs = 0;
    wrong[1].load = 0;
    wrong[2].cluster_gpus = 0;
    wrong[3].elastic = 1.5;
    wrong[4].load = NAN;
    wrong[5].multi = -0.1;
    wrong[6].duration_max_s = 1;
    for (int i = 0; i < 7; i++)
        assert_int_equal(synth_init(&synth, &wrong[i], &err), FIRN_EINVAL);
}

static void the_bundled_trace_can_be_made_again(void **state)
{
    (void)state;
    static const char command[] =
        "firn trace gen --jobs 400 --seed 10 --arrivals diurnal --load 1.1 "
        "--cluster 16x4:v100 --gpus-max 16 --multi 0.5 --duration-max 3d "
        "-o traces/quickstart.csv\n";
    const struct synth_options options = {.jobs = 400,
                                          .seed = 10,
                                          .arrivals = SYNTH_DIURNAL,
                                          .load = 1.1,
                                          .cluster_gpus = 64,
                                          .gpus_max = 16,
                                          .multi = 0.5,
                                          .duration_max_s = 3 * 86400};
    struct firn_buf made = make(&options, 0);
    struct firn_buf kept = file_text("traces/quickstart.csv");
    assert_string_equal(made.at, kept.at);
    struct firn_buf readme = file_text("traces/README.md");
    assert_non_null(strstr(readme.at, command));
    buf_release(&made);
    buf_release(&kept);
    buf_release(&readme);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_load_is_the_one_asked_for),
        cmocka_unit_test(sizes_and_durations_are_like_phillys),
        cmocka_unit_test(no_job_is_larger_than_allowed),
        cmocka_unit_test(larger_and_shorter_jobs_can_be_asked_for),
        cmocka_unit_test(days_have_more_arrivals_than_nights),
        cmocka_unit_test(same_seed_same_bytes_other_seed_other_bytes),
        cmocka_unit_test(elastic_jobs_and_applications_change_nothing_else),
        cmocka_unit_test(language_models_have_a_batch_and_no_number_of_gpus),
        cmocka_unit_test(one_job_comes_at_once),
        cmocka_unit_test(options_out_of_range_are_refused_with_a_sentence),
        cmocka_unit_test(the_bundled_trace_can_be_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
