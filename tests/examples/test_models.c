/* test_models.c - the example models' gradients against differences.
 *
 * Every derivative in examples/ is written by hand; here each model's gradient
 * is compared with (loss(w + h) - loss(w - h)) / 2h along single weights of
 * every layer, drawn at random. Dropout and moved pictures draw the same
 * numbers each time, since the generator is put back.
 */
#include "models.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t samples[] = {0, 3, 1, 7};

static double learn_once(struct model *m, size_t nfrozen, float *grad)
{
    struct nn_rng rng = {.state = 99};
    struct lesson lesson = {.sample = samples,
                            .n = 4,
                            .weight = 1,
                            .nfrozen = nfrozen,
                            .rng = &rng};
    memset(grad, 0, m->nweights * sizeof *grad);
    return m->learn(m, &lesson, grad);
}

static void open_one(struct model *m, model_open *open)
{
    struct options options = {.batch = 8,
                              .nsamples = 16,
                              .nepochs = 1,
                              .seed = 3,
                              .text = "examples/README.md"};
    char why[256] = "";
    setenv("FIRN_IMAGES", "", 1); /* made up: the same everywhere */
    if (!open(m, &options, why, sizeof why))
        fail_msg("%s", why);
}

/* Eight weights of each layer, two under a checker. ReLU, pooling and single
 * precision make single differences rough, so one of them may be off. */
static void compare_layer(struct model *m, size_t layer, const float *grad,
                          float *scratch)
{
    struct nn_rng pick = {.state = layer + 7};
    size_t from = m->layer_start[layer];
    size_t width = m->layer_start[layer + 1] - from;
    int nbad = 0, n = getenv("FIRN_QUICK") != NULL ? 2 : 8;
    for (int i = 0; i < n; i++) {
        size_t at = from + (size_t)(nn_uniform(&pick) * (double)width);
        float kept = m->weights[at];
        const float h = 3e-4F;
        m->weights[at] = kept + h;
        double up = learn_once(m, 0, scratch);
        m->weights[at] = kept - h;
        double down = learn_once(m, 0, scratch);
        m->weights[at] = kept;
        double slope = (up - down) / (2.0 * (double)h);
        double off = fabs(slope - (double)grad[at]);
        nbad += off > 0.012 + 0.08 * fabs(slope);
    }
    if (nbad > 1)
        fail_msg("%s: layer %zu: %d of %d slopes are off", m->name, layer, nbad,
                 n);
}

static void check_gradients(model_open *open)
{
    struct model m;
    open_one(&m, open);
    float *grad = calloc(m.nweights, sizeof *grad);
    float *scratch = calloc(m.nweights, sizeof *scratch);
    learn_once(&m, 0, grad);
    for (size_t layer = 0; layer < m.nlayers; layer++)
        compare_layer(&m, layer, grad, scratch);
    free(grad);
    free(scratch);
    m.close(&m);
}

static void cnn_gradient_is_the_slope_of_its_loss(void **state)
{
    (void)state;
    check_gradients(cnn_open);
}

static void gpt_gradient_is_the_slope_of_its_loss(void **state)
{
    (void)state;
    check_gradients(gpt_open);
}

/* Freezing l layers leaves their gradient untouched and the others' as it is,
 * where nothing else changes (gpt has no running statistics). */
static void frozen_layers_have_no_gradient(void **state)
{
    (void)state;
    struct model m;
    open_one(&m, gpt_open);
    float *all = calloc(m.nweights, sizeof *all);
    float *some = calloc(m.nweights, sizeof *some);
    learn_once(&m, 0, all);
    for (size_t nfrozen = 1; nfrozen < m.nlayers; nfrozen++) {
        size_t start = m.layer_start[nfrozen];
        learn_once(&m, nfrozen, some);
        for (size_t i = 0; i < start; i++)
            assert_true(some[i] == 0.0F);
        assert_memory_equal(some + start, all + start,
                            (m.nweights - start) * sizeof *all);
    }
    free(all);
    free(some);
    m.close(&m);
}

static void frozen_batch_norm_keeps_its_statistics(void **state)
{
    (void)state;
    struct model m;
    open_one(&m, cnn_open);
    float *grad = calloc(m.nweights, sizeof *grad);
    float *before = calloc(m.nbuffers, sizeof *before);
    memcpy(before, m.buffers, m.nbuffers * sizeof *before);
    learn_once(&m, 3, grad); /* all three with batch norm */
    assert_memory_equal(m.buffers, before, m.nbuffers * sizeof *before);
    learn_once(&m, 2, grad); /* the third learns */
    assert_memory_equal(m.buffers, before, 48 * sizeof *before);
    assert_memory_not_equal(m.buffers + 48, before + 48, 32 * sizeof *before);
    free(grad);
    free(before);
    m.close(&m);
}

static void the_order_of_sums_changes_bits(void **state)
{
    (void)state;
    enum { M = 5, N = 19, K = 37 };
    float a[M * K];
    float b[K * N];
    float bt[N * K];
    float c[3][M * N];
    float d[3][M * N];
    struct nn_rng rng = {.state = 4};
    nn_fill(&rng, a, M * K, 1);
    nn_fill(&rng, b, K * N, 1);
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            bt[n * K + k] = b[k * N + n];
    for (int o = 0; o < 3; o++) {
        struct nn_gemm g = {.a = a, .b = b, .c = c[o], .m = M, .n = N, .k = K};
        g.order = (enum nn_order)o;
        nn_gemm(&g);
        g.b = bt;
        g.c = d[o];
        g.bt = true;
        nn_gemm(&g);
        assert_memory_equal(c[o], d[o], sizeof c[o]); /* however it lies */
    }
    assert_memory_not_equal(c[0], c[1], sizeof c[0]);
    assert_memory_not_equal(c[1], c[2], sizeof c[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cnn_gradient_is_the_slope_of_its_loss),
        cmocka_unit_test(gpt_gradient_is_the_slope_of_its_loss),
        cmocka_unit_test(frozen_layers_have_no_gradient),
        cmocka_unit_test(frozen_batch_norm_keeps_its_statistics),
        cmocka_unit_test(the_order_of_sums_changes_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
