/* test_profile.c - the text of profiles, look-up, and the rules on batches.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/play.h"
#include <firn/profile.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD                                                             \
    "app toy\nsource test\norigin test\nhardware none\nmethod made up\n" \
    "synthetic yes\n"

static const char whole[] =
    "# a comment\n" HEAD "batch_initial 10\nbatch_max 1000\nlocal_min 1\n"
    "local_max 10\nepochs 2\nprogress 200\nrestart_s 5\n"
    "time t4 alpha_s 0.5 beta_s 0.1 gamma 2 local.alpha_s 0.2 gpus_max 4\n"
    "fit_error t4 0.03 0.2 17\nmemory_mib t4 100 2.5 40 1\n"
    "utilisation t4 0.25 0.01\nlayer_count 9\nfrozen 0 1 1\n"
    "frozen 4 0.5 0.75\nfrozen 8 0.25 0.25\n"
    "time v100 beta_s 0.05\nbeside other 1.25\n"
    "batches 10 20\nstage 100 1 9 2 8\nlayers 4 5\nstage 200 0 1 -1 3\n"
    "layers 1 2\n";

static enum firn_status parse(struct firn_profile *out, const char *text,
                              struct firn_error *err)
{
    return firn_profile_parse(out, (struct firn_bytes){text, strlen(text)},
                              "toy.txt", err);
}

static void every_line_is_read(void **state)
{
    (void)state;
    struct firn_profile p = {0};
    struct firn_error err = {0};
    if (parse(&p, whole, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_string_equal(p.app, "toy");
    assert_string_equal(p.method, "made up");
    assert_true(p.is_synthetic);
    assert_true(p.batch0 == 10 && p.batch_max == 1000 && p.local_max == 10);
    assert_true(p.epochs == 2 && p.progress == 200 && p.restart_s == 5);
    assert_int_equal(p.ngpus, 2);
    const struct firn_profile_gpu *t4 = firn_profile_gpu(&p, "T4");
    assert_true(t4 == &p.gpus[0]);
    assert_true(t4->time.alpha_s == 0.5 && t4->time.gamma == 2);
    assert_true(t4->time.local.alpha_s == 0.2 && t4->time.gpus_max == 4);
    assert_true(t4->fit_mean == 0.03 && t4->fit_rows == 17);
    assert_true(t4->mem_mib == 100 && t4->mem_sample_mib == 2.5);
    assert_true(t4->util == 0.25 && t4->util_sample == 0.01);
    /* 100 + 25, less half of 40 + 10; utilisation has nothing to save */
    assert_true(firn_profile_mem_mib(t4, 10, 1) == 125);
    assert_true(firn_profile_mem_mib(t4, 10, 0.5) == 100);
    assert_true(firn_profile_util(t4, 10, 0.5) == 0.35);
    assert_true(firn_profile_util(t4, 1000, 1) == 1);
    assert_true(isnan(firn_profile_mem_mib(&p.gpus[1], 10, 1)));
    assert_true(p.layers == 9 && p.nfrozen == 3 && p.frozen[1].omega == 0.75);
    assert_true(p.gpus[1].time.gamma == 1 && isnan(p.gpus[1].fit_mean));
    assert_true(firn_profile_gpu(&p, "a100") == NULL);
    assert_true(firn_profile_beside(&p, "other") == 1.25);
    assert_true(firn_profile_beside(&p, "oth") == 0);
    assert_int_equal(p.stats.nstages, 2);
    assert_int_equal(p.stats.nlayers, 2);
    assert_true(p.stats.grad_sqr[1] == 2 && p.stats.grad_var[3] == 3);
    assert_true(p.stats.layer_var[1] == 5 && p.stats.layer_var[2] == 1);
    firn_profile_release(&p);
}

static void a_written_profile_reads_back_the_same(void **state)
{
    (void)state;
    struct firn_profile p = {0}, q = {0};
    struct firn_error err = {0};
    struct firn_buf one = {0}, two = {0};
    assert_int_equal(parse(&p, whole, &err), FIRN_OK);
    firn_profile_write(&p, &one);
    assert_int_equal(parse(&q, one.at, &err), FIRN_OK);
    firn_profile_write(&q, &two);
    assert_string_equal(one.at, two.at);
    assert_memory_equal(&p.gpus[0].time, &q.gpus[0].time,
                        sizeof p.gpus[0].time);
    buf_release(&one);
    buf_release(&two);
    firn_profile_release(&p);
    firn_profile_release(&q);
}

static void each_fault_is_named_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {HEAD "colour red\n", "toy.txt: line 7: 'colour' is not a key"},
        {HEAD "time t4 beta_s\n", "line 7: 'time' takes a GPU type"},
        {HEAD "time t4 speed 3\n", "'speed' is not a parameter"},
        {HEAD "time t4 beta_s -1\n", "beta_s is '-1'"},
        {HEAD "time t4 beta_s nan\n", "beta_s is 'nan'"},
        {HEAD "time t4 gamma 1\n", "takes no time"},
        {HEAD "time t4 beta_s 1\ntime T4 beta_s 1\n", "given twice"},
        {HEAD "fit_error t4 1 1 1\n", "has its 'time' before it"},
        {HEAD "time t4 beta_s 1\nfit_error t4 1 1\n", "3 numbers"},
        {HEAD "batch_initial 0\n", "batch_initial is '0'"},
        {HEAD "time t4 alpha_s 1\nmemory_mib t4 1 2 3\n", "2 or 4 numbers"},
        {HEAD "time t4 alpha_s 1\nmemory_mib t4 1 2 3 0\n",
         "would save more than there is"},
        {HEAD "epochs 1 2\n", "'epochs' takes one number"},
        {HEAD "epochs 1\nepochs 2\n", "'epochs' takes one number, once"},
        {HEAD "stage 1 2 3\n", "'stage' before 'batches'"},
        {HEAD "batches 2 1\n", "must rise"},
        {HEAD "batches\n", "names none"},
        {HEAD "batches 1\nstage 5 1\n", "2 numbers, not 1 + 2 x 1"},
        {HEAD "batches 1\nstage 5 1 1\nstage 5 1 1\n", "stages must rise"},
        {HEAD "batches 1\nstage 5 1 1\n", "need 'batch_initial'"},
        {HEAD "batches 1\n", "without a 'stage'"},
        {HEAD "layers 1\n", "must follow a 'stage'"},
        {HEAD "batches 1\nstage 5 1 1\nlayers 1\nstage 6 1 1\n",
         "has no 'layers'"},
        {HEAD "beside a 0.5\n", "beside is '0.5'"},
        {HEAD "executors v100 2 1.2 9000\n", "'executors' takes"},
        {HEAD "executors v100 1 1 9000 32\n", "executors is '1'"},
        {HEAD "executors v100 2 2.5 9000 32\n", "speed is '2.5'"},
        {HEAD "executors v100 2.5 2 9000 32\n", "a whole number"},
        {HEAD "frozen 0 1 0.9\n", "begins with 0 1 1"},
        {HEAD "frozen 0 1 1\nfrozen 1 1\n", "two shares"},
        {HEAD "frozen 0 1 1\nfrozen 2 0.5 0.5\nfrozen 2 0.4 0.4\n",
         "must rise"},
        {HEAD "frozen 0 1 1\nfrozen 2 0.5 1.5\n", "not in shares"},
        {HEAD "frozen 0 1 1\nfrozen 2 0.5 0.5\nlayer_count 2\n",
         "needs a 'layer_count'"},
        {HEAD "stats_of a/b\nstats_of a/c\n", "once"},
        {HEAD "layers_of a/b\nlayers_of a/c\n", "'layers_of' takes"},
        {HEAD "layers_of a/b c\n", "'layers_of' takes"},
        {HEAD "batch_initial 1\nbatches 1\nstage 5 1 1\nstats_of a/b\n",
         "of its own"},
        {HEAD "app again\n", "'app' is given twice"},
        {"app a\n", "'source' is missing"},
        {"app\n", "'app' is empty"},
        {HEAD "synthetic no\n", "yes or no, once"},
        {"", "'app' is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_profile p = {.ngpus = 77};
        struct firn_error err = {0};
        assert_int_equal(parse(&p, cases[i][0], &err), FIRN_EINVAL);
        if (strstr(err.text, cases[i][1]) == NULL)
            fail_msg("case %zu: '%s' does not say '%s'", i, err.text,
                     cases[i][1]);
        assert_int_equal(p.ngpus, 77);
    }
}

/* Between two levels linearly, beyond the last as there. */
static void shares_left_are_interpolated(void **state)
{
    (void)state;
    struct firn_profile p = {0};
    struct firn_error err = {0};
    assert_int_equal(parse(&p, whole, &err), FIRN_OK);
    static const double cases[][3] = {{0, 1, 1},       {1, 0.875, 0.9375},
                                      {4, 0.5, 0.75},  {6, 0.375, 0.5},
                                      {8, 0.25, 0.25}, {8.5, 0.25, 0.25}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_profile_frozen at = firn_profile_unfrozen(&p, cases[i][0]);
        assert_true(at.theta == cases[i][1] && at.omega == cases[i][2]);
    }
    firn_profile_release(&p);
}

/* The rule's own examples: total batch and GPUs in, batch, passes and realised
 * batch out; as the AdaptDL simulator computes them. */
static void batches_split_as_in_adaptdl(void **state)
{
    (void)state;
    static const struct {
        const char *app;
        double batch;
        int gpus;
        double each;
        int passes;
        double total;
    } cases[] = {
        {"cifar10", 2048, 6, 342, 1, 2052},
        {"cifar10", 4096, 12, 341, 1, 4092},
        {"bert", 384, 8, 12, 4, 384},
        {"bert", 384, 6, 10, 6, 360},
        {"imagenet", 6400, 48, 134, 1, 6432},
        {"yolov3", 64, 4, 8, 2, 64},
        {"deepspeech2", 320, 6, 54, 1, 324},
        {"deepspeech2", 640, 1, 80, 8, 640},
        {"ncf", 32768, 1, 16384, 2, 32768},
        {"bert", 12, 1, 12, 1, 12},
        {"bert", 0, 1, 12, 1, 12},
    };
    struct firn_profiles all = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_profiles_builtin(&all, &err), FIRN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[40];
        snprintf(name, sizeof name, "pollux/%s", cases[i].app);
        const struct firn_profile *p =
            firn_profiles_find(&all, name, "t4", &err);
        assert_non_null(p);
        struct firn_batch_split s =
            firn_profile_split(p, cases[i].batch, cases[i].gpus, p->local_max);
        if (s.batch_per_gpu != cases[i].each ||
            s.accum_steps != cases[i].passes || s.total != cases[i].total)
            fail_msg("%s %g on %d: %g x %d, %g", cases[i].app, cases[i].batch,
                     cases[i].gpus, s.batch_per_gpu, s.accum_steps, s.total);
    }
    firn_profiles_release(&all);
}

/* Stage 1: V = 9, G = 1 at 10 and 8, 2 at 20. At B = 15 they are 8.5 and 1.5,
 * scale 1.5: 10 / (8.5 / 1.5 + 1.5) = 1.395349. Stage 2 at 20: G = -1 counts
 * as 0, so the gain is the scale. Beyond 20 the statistics of 20 hold. */
static void gain_interpolates_between_batches(void **state)
{
    (void)state;
    struct firn_profile p = {0};
    struct firn_error err = {0};
    assert_int_equal(parse(&p, whole, &err), FIRN_OK);
    assert_int_equal(firn_profile_stage(&p, 0), 0);
    assert_int_equal(firn_profile_stage(&p, 99.9), 0);
    assert_int_equal(firn_profile_stage(&p, 100), 1);
    assert_int_equal(firn_profile_stage(&p, 1e9), 1);
    assert_true(firn_profile_gain(&p, 0, 10) == 1);
    assert_true(
        play_near(firn_profile_gain(&p, 0, 15), 10 / (8.5 / 1.5 + 1.5)));
    assert_true(play_near(firn_profile_gain(&p, 0, 40), 10 / (8 / 4. + 2)));
    assert_true(play_near(firn_profile_gain(&p, 1, 20), 2));
    firn_profile_release(&p);
}

static void names_are_found_with_source_type_or_data_set(void **state)
{
    (void)state;
    struct firn_profiles all = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_profiles_builtin(&all, &err), FIRN_OK);
    const struct firn_profile *p = firn_profiles_find(&all, "bert", "t4", &err);
    assert_non_null(p);
    assert_string_equal(p->source, "easyscale");
    p = firn_profiles_find(&all, "bert", "2080ti", &err);
    assert_string_equal(p->source, "bsbf"); /* sia's, with memory and pairs */
    p = firn_profiles_find(&all, "bert", "rtx6000", &err);
    assert_string_equal(p->source, "sia");
    p = firn_profiles_find(&all, "pollux/bert", NULL, &err);
    assert_string_equal(p->source, "pollux");
    p = firn_profiles_find(&all, "vit@food101", "a100", &err);
    assert_string_equal(p->app, "vit");
    assert_null(firn_profiles_find(&all, "cifar11", NULL, &err));
    assert_non_null(strstr(err.text, "nearest: cifar10"));
    assert_non_null(strstr(err.text, "known: bsbf/bert"));
    assert_null(firn_profiles_find(&all, "pollux/bert", "h100", &err));
    assert_non_null(strstr(err.text, "on h100"));
    firn_profiles_release(&all);
}

static void shipped_profiles_are_whole_and_sorted(void **state)
{
    (void)state;
    struct firn_profiles all = {0}, same = {0};
    struct firn_error err = {0};
    if (firn_profiles_builtin(&all, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_true(all.n >= 40);
    size_t synthetic = 0;
    for (size_t i = 0; i < all.n; i++) {
        const struct firn_profile *p = &all.at[i];
        synthetic += p->is_synthetic;
        assert_true(p->is_synthetic == (strcmp(p->source, "synthetic") == 0));
        assert_true(p->stats.nstages <= FIRN_PROFILE_STAGES);
        assert_true(p->ngpus > 0 || p->stats.nlayers > 0);
        if (i > 0)
            assert_true(strcmp(all.at[i - 1].source, p->source) < 0 ||
                        strcmp(all.at[i - 1].app, p->app) < 0);
        for (size_t k = 0; k < p->ngpus; k++) {
            struct firn_shape shape = {.nodes = 2,
                                       .gpus = 8,
                                       .batch_per_gpu = 8,
                                       .theta = 1,
                                       .omega = 1};
            assert_true(firn_itertime_iteration(&p->gpus[k].time, &shape) > 0);
        }
    }
    assert_int_equal(synthetic, 6);
    assert_int_equal(firn_profiles_load(&same, "profiles", &err), FIRN_OK);
    assert_int_equal(same.n, all.n);
    for (size_t i = 0; i < all.n; i++)
        assert_string_equal(same.at[i].app, all.at[i].app);
    firn_profiles_release(&all);
    firn_profiles_release(&same);
    assert_int_equal(firn_profiles_load(&same, "src/model", &err), FIRN_ENOENT);
    assert_int_equal(firn_profiles_load(&same, "no/such", &err), FIRN_ENOENT);
}

/* Is `rounded` the exact number to two digits? */
static bool is_about(double rounded, double exact)
{
    return rounded > 0.985 * exact && rounded < 1.015 * exact;
}

/* Its `method` line says that the shares are those of an H200, rounded. */
static void the_synthetic_resnet_freezes_as_the_measured_one(void **state)
{
    (void)state;
    struct firn_profiles all = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_profiles_builtin(&all, &err), FIRN_OK);
    const struct firn_profile *made = firn_profiles_find(
        &all, "synthetic/resnet50-imagenet-freeze", "a100", &err);
    const struct firn_profile *seen =
        firn_profiles_find(&all, "h200/resnet50-i", "h200", &err);
    assert_true(made != NULL && seen != NULL);
    const struct firn_itertime *m = &made->gpus[0].time,
                               *s = &seen->gpus[0].time;
    assert_true(is_about(m->flop_alpha_s, s->flop_alpha_s));
    assert_true(is_about(m->flop_beta, s->flop_beta));
    assert_true(is_about(m->flop_gamma, s->flop_gamma));
    assert_int_equal(made->nfrozen, seen->nfrozen);
    for (size_t i = 0; i < made->nfrozen; i++) {
        assert_true(made->frozen[i].frozen == seen->frozen[i].frozen);
        assert_true(is_about(made->frozen[i].theta, seen->frozen[i].theta));
        assert_true(is_about(made->frozen[i].omega, seen->frozen[i].omega));
    }
    firn_profiles_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_read),
        cmocka_unit_test(a_written_profile_reads_back_the_same),
        cmocka_unit_test(shares_left_are_interpolated),
        cmocka_unit_test(each_fault_is_named_with_its_line),
        cmocka_unit_test(batches_split_as_in_adaptdl),
        cmocka_unit_test(gain_interpolates_between_batches),
        cmocka_unit_test(names_are_found_with_source_type_or_data_set),
        cmocka_unit_test(shipped_profiles_are_whole_and_sorted),
        cmocka_unit_test(the_synthetic_resnet_freezes_as_the_measured_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
