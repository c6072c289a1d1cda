/* trainfold.c - speed of summing gradients, beside that of memcpy.
 *
 * 25 million float32 for each operand. Both sides count the bytes that they
 * read and write, are timed by the processor's clock, alternate, and keep their
 * best of several runs: folds and copies then had the same machine. A bar is
 * the time that memcpy needs for the same bytes over that of the fold, at most
 * 1 / 0.8, for the order of the chain and for the tree. The chain of a
 * framework (add, add, add, scale: four passes) is four calls of the same
 * library, for scale. Variance by layer reads the same operands once.
 */
#include "lib/measure.h"
#include <firn/fold.h>
#include <firn/gradstat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 25000000, MOST = 8, RUNS = 9 };

static float *in[MOST], *out;

static double copy_s(void)
{
    double since = measure_cpu_s();
    memcpy(out, in[0], N * sizeof *out);
    return measure_cpu_s() - since;
}

static double fold_s(size_t nin)
{
    double since = measure_cpu_s();
    firn_fold_f32(out, (const float *const *)in, nin, N, (float)nin);
    return measure_cpu_s() - since;
}

static double tree_s(size_t nin)
{
    double since = measure_cpu_s();
    firn_fold_tree_f32(out, (const float *const *)in, NULL, nin, N, (float)nin);
    return measure_cpu_s() - since;
}

static double chain_s(void)
{
    const float *const two[] = {in[0], in[1]};
    double since = measure_cpu_s();
    firn_fold_f32(out, two, 2, N, 1);
    firn_fold_add_f32(out, in[2], N);
    firn_fold_add_f32(out, in[3], N);
    firn_fold_scale_f32(out, N, 4);
    return measure_cpu_s() - since;
}

static double variance_s(void)
{
    const size_t start[] = {0, N / 2, N};
    double sum[2] = {0}, since = measure_cpu_s();
    firn_gradstat_across(sum, (const float *const *)in, 4, start, 2, 0);
    return measure_cpu_s() - since;
}

static void tell_fold(size_t nin)
{
    char name[64];
    double bytes = (double)(nin + 1) * N * sizeof *out;
    double copied = 2.0 * N * sizeof *out, copy = INFINITY, fold = INFINITY;
    double tree = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        copy = fmin(copy, copy_s());
        fold = fmin(fold, fold_s(nin));
        tree = fmin(tree, tree_s(nin));
    }
    snprintf(name, sizeof name, "fold of %zu x 25M", nin);
    measure_tell(name, bytes / fold * 1e-9, "GB/s");
    measure_tell("memcpy beside it", copied / copy * 1e-9, "GB/s");
    snprintf(name, sizeof name, "fold of %zu, time by memcpy's speed", nin);
    measure_at_most(name, fold / bytes * copied / copy, 1 / 0.8, "");
    snprintf(name, sizeof name, "the tree of %zu, time by memcpy's speed", nin);
    measure_at_most(name, tree / bytes * copied / copy, 1 / 0.8, "");
}

static void tell_rest(void)
{
    double fold = INFINITY, chain = INFINITY, variance = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        fold = fmin(fold, fold_s(4));
        chain = fmin(chain, chain_s());
        variance = fmin(variance, variance_s());
    }
    measure_tell("fold of 4 x 25M", fold * 1e3, "ms");
    measure_tell("the same by add, add, add, scale", chain * 1e3, "ms");
    measure_at_most("fold of 4, time by that of the chain", fold / chain, 1,
                    "");
    measure_at_most("variance of 4 x 25M", variance * 1e3, 250, "ms");
}

static int make_operands(void)
{
    for (size_t v = 0; v < MOST; v++) {
        in[v] = malloc(N * sizeof *out);
        if (in[v] == NULL)
            return -1;
        for (size_t i = 0; i < N; i++)
            in[v][i] = (float)(i % 1000) + (float)v;
    }
    out = calloc(N, sizeof *out);
    return out == NULL ? -1 : 0;
}

int main(void)
{
    static const size_t sizes[] = {2, 3, 4, 8};
    if (make_operands() != 0)
        return EXIT_FAILURE;
    memset(out, 1, N * sizeof *out);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        tell_fold(sizes[i]);
    tell_rest();
    for (size_t v = 0; v < MOST; v++)
        free(in[v]);
    free(out);
    return EXIT_SUCCESS;
}
