/* test_fit_error.c - how well the step-time model predicts measured tables.
 *
 * Each table is cut into random halves; one is fitted, the other predicted.
 * Beside it Pollux's form is fitted to the same half. The means and the worst
 * over the seeds are printed. Bars: IceFrog's BERT 4 % mean and 18 % worst;
 * Pollux's and Sia's applications 8 % mean each, no worse than Pollux's form.
 *
 * Some tables cannot be predicted that well by any model, since their steps
 * contain irregular stalls of the input pipeline: the same placement, batch and
 * frozen layers differ by a factor of two. They are named below with the error
 * that is reached.
 */
#include "base/vec.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "model/evaluate.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20, SEEDS = 3, LAYERS = 256 };

typedef VEC(struct firn_step_obs) obs_vec;

struct layers {
    double theta[LAYERS], omega[LAYERS];
};

/* The unfrozen shares of an application. BERT's FLOPs were counted twice by
 * the authors and go below zero; its activations stand in for them. */
static bool read_layers(const char *app, struct layers *out)
{
    const char *path = data_path("icefrog/layer_info.csv");
    struct csv *csv = path == NULL ? NULL : csv_open(path);
    if (csv == NULL)
        return false;
    const char *column = strcmp(app, "bert_wikitext2") == 0
                             ? "activation_frac_left"
                             : "flop_frac_left";
    while (csv_next(csv)) {
        double k = csv_number(csv, "frozen_layers");
        if (strcmp(csv_text(csv, "app"), app) != 0 || !(k < LAYERS))
            continue;
        out->theta[(int)k] = csv_number(csv, column);
        out->omega[(int)k] = csv_number(csv, "param_frac_left");
    }
    csv_close(csv);
    return true;
}

/* "413": three nodes with 4, 1 and 3 GPUs. */
static struct firn_shape placement(const char *digits)
{
    struct firn_shape s = {.accum_steps = 1, .theta = 1, .omega = 1};
    for (const char *c = digits; *c >= '1' && *c <= '9'; c++) {
        s.nodes++;
        s.gpus += *c - '0';
        if (*c - '0' > s.gpus_on_fullest)
            s.gpus_on_fullest = *c - '0';
    }
    return s;
}

static bool read_table(const char *rel, const struct layers *layers,
                       obs_vec *out)
{
    const char *path = data_path(rel);
    struct csv *csv = path == NULL ? NULL : csv_open(path);
    if (csv == NULL)
        return false;
    while (csv_next(csv)) {
        struct firn_step_obs obs = {.shape =
                                        placement(csv_text(csv, "placement")),
                                    .step_s = csv_number(csv, "step_time"),
                                    .sync_s = csv_number(csv, "sync_time")};
        obs.shape.batch_per_gpu = csv_number(csv, "local_bsz");
        if (layers != NULL) {
            int k = (int)csv_number(csv, "frozen_layer");
            obs.shape.theta = layers->theta[k];
            obs.shape.omega = layers->omega[k];
        }
        vec_add(out, obs);
    }
    csv_close(csv);
    return true;
}

struct score {
    double mean, max, pollux, pollux_max, compute;
    size_t rows;
};

static int seeds(void)
{
    return getenv("FIRN_QUICK") != NULL ? 1 : SEEDS;
}

/* Means over the seeds; the worst of all. Prints a line. */
static struct score measure(const char *name, obs_vec *obs)
{
    struct score s = {.rows = obs->n};
    const struct evaluate_options ours = {FIRN_FORM_FULL, true};
    const struct evaluate_options theirs = {FIRN_FORM_POLLUX, false};
    struct evaluate_result *r = mem_new(1, sizeof *r);
    for (int i = 0; i < seeds(); i++) {
        struct firn_error err = {.text = ""};
        size_t half = evaluate_split(obs->at, obs->n, (uint64_t)(SEED + i));
        const struct firn_step_obs *rest = obs->at + half;
        if (evaluate_steps(&theirs, obs->at, half, rest, obs->n - half, r,
                           &err) != FIRN_OK)
            fail_msg("%s: seed %d: %s", name, SEED + i, err.text);
        s.pollux += r->step.mean / seeds();
        s.pollux_max = fmax(s.pollux_max, r->step.max);
        if (evaluate_steps(&ours, obs->at, half, rest, obs->n - half, r,
                           &err) != FIRN_OK)
            fail_msg("%s: seed %d: %s", name, SEED + i, err.text);
        s.mean += r->step.mean / seeds();
        s.max = fmax(s.max, r->step.max);
        s.compute += r->compute.mean / seeds();
    }
    mem_free(r);
    printf("%-24s %5zu rows, seeds %d-%d: mean %5.1f %% max %4.0f %%   "
           "Pollux's form %5.1f %% %4.0f %%\n",
           name, s.rows, SEED, SEED + seeds() - 1, 100 * s.mean, 100 * s.max,
           100 * s.pollux, 100 * s.pollux_max);
    return s;
}

static bool score_table(const char *name, const char *rel,
                        const struct layers *layers, struct score *out)
{
    obs_vec obs = {0};
    bool is_there = read_table(rel, layers, &obs);
    if (is_there)
        *out = measure(name, &obs);
    else
        print_message("%s is not here\n", rel);
    vec_release(&obs);
    return is_there;
}

static void bert_with_frozen_layers_is_within_the_papers_error(void **state)
{
    (void)state;
    struct layers layers = {0};
    struct score s;
    if (!read_layers("bert_wikitext2", &layers) ||
        !score_table("icefrog bert", "icefrog/bert_wikitext2/placements.csv",
                     &layers, &s))
        skip();
    assert_true(s.mean <= 0.04 && s.max <= 0.18);
    assert_true(s.mean <= s.pollux);
}

/* The bars of 4 and 18 % are out of reach here, as test_fit_bound shows. */
static void
yolov3_with_frozen_layers_is_two_fifths_of_polluxs_error(void **state)
{
    (void)state;
    struct layers layers = {0};
    struct score s;
    if (!read_layers("yolov3_voc", &layers) ||
        !score_table("icefrog yolov3", "icefrog/yolov3_voc/placements.csv",
                     &layers, &s))
        skip();
    assert_true(s.mean <= 0.096);
    assert_true(s.mean <= 0.4 * s.pollux);
}

static void polluxs_applications_are_within_eight_percent(void **state)
{
    (void)state;
    static const char *const apps[] = {"bert",     "cifar10", "deepspeech2",
                                       "imagenet", "ncf",     "yolov3"};
    for (size_t i = 0; i < sizeof apps / sizeof apps[0]; i++) {
        char rel[96], name[48];
        struct score s;
        snprintf(rel, sizeof rel, "pollux/apps/%s/placements.csv", apps[i]);
        snprintf(name, sizeof name, "pollux %s", apps[i]);
        if (!score_table(name, rel, NULL, &s))
            skip();
        assert_true(s.mean <= 0.08);
        assert_true(s.mean <= s.pollux);
    }
}

/* Beyond 8 %: ImageNet on azure, for its steps stall as those of IceFrog's
 * YOLOv3 do. The best factors for each placement and each batch, found with all
 * rows at hand, are still 11.5 % off. */
static double table_bar(const char *app, const char *type)
{
    if (strcmp(app, "imagenet") == 0 && strcmp(type, "azure") == 0)
        return 0.13;
    return 0.08;
}

static void sias_applications_are_within_eight_percent(void **state)
{
    (void)state;
    if (getenv("FIRN_QUICK") != NULL)
        skip(); /* its small tables need the mean over all seeds */
    static const char *const apps[] = {"bert",     "cifar10", "deepspeech2",
                                       "imagenet", "ncf",     "yolov3"};
    static const char *const types[] = {"azure", "dgx-ext", "dgx", "quad",
                                        "rtx"};
    for (size_t i = 0; i < sizeof apps / sizeof apps[0]; i++) {
        double mean = 0, pollux = 0;
        for (size_t j = 0; j < sizeof types / sizeof types[0]; j++) {
            char rel[96], name[48];
            struct score s;
            snprintf(rel, sizeof rel, "sia/apps/%s/placements-%s.csv", apps[i],
                     types[j]);
            snprintf(name, sizeof name, "sia %s %s", apps[i], types[j]);
            if (!score_table(name, rel, NULL, &s))
                skip();
            if (s.mean > table_bar(apps[i], types[j]))
                fail_msg("%s: %.3f", name, s.mean);
            /* Tens of rows: the halves differ by chance. */
            if (s.mean > s.pollux + (s.rows < 60 ? 0.01 : 0))
                fail_msg("%s: %.4f, Pollux %.4f", name, s.mean, s.pollux);
            mean += s.mean / 5;
            pollux += s.pollux / 5;
        }
        printf("sia %-12s all types: mean %4.1f %%, Pollux's form %4.1f %%\n",
               apps[i], 100 * mean, 100 * pollux);
        assert_true(mean <= 0.08 && mean <= pollux);
    }
}

static void halves_are_the_same_for_the_same_seed(void **state)
{
    (void)state;
    struct firn_step_obs a[9], b[9];
    for (int i = 0; i < 9; i++)
        a[i] = b[i] = (struct firn_step_obs){.step_s = i};
    assert_int_equal(evaluate_split(a, 9, 4), 5);
    evaluate_split(b, 9, 4);
    assert_memory_equal(a, b, sizeof a);
    double sum = 0, moved = 0;
    for (int i = 0; i < 9; i++) {
        sum += a[i].step_s;
        moved += a[i].step_s != i;
    }
    assert_true(sum == 36 && moved > 3);
}

static void too_few_measurements_are_reported(void **state)
{
    (void)state;
    struct firn_step_obs one = {.step_s = -1};
    struct evaluate_options options = {FIRN_FORM_FULL, true};
    struct evaluate_result *r = mem_new(1, sizeof *r);
    struct firn_error err;
    assert_int_equal(evaluate_steps(&options, &one, 1, &one, 1, r, &err),
                     FIRN_EDATA);
    assert_string_equal(err.text, "evaluation: none of 1 test rows is usable");
    mem_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_the_same_for_the_same_seed),
        cmocka_unit_test(too_few_measurements_are_reported),
        cmocka_unit_test(bert_with_frozen_layers_is_within_the_papers_error),
        cmocka_unit_test(
            yolov3_with_frozen_layers_is_two_fifths_of_polluxs_error),
        cmocka_unit_test(polluxs_applications_are_within_eight_percent),
        cmocka_unit_test(sias_applications_are_within_eight_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
