/* test_tree.c - the shape of the tree, and folds by it, against sums that are
 * written out by hand. */
#include "base/rng.h"
#include "train/tree.h"
#include <firn/fold.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40, ROOM = 1300 };

static float pool[MOST][ROOM];
static double wide[MOST][ROOM];

static int fill(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 18);
    for (size_t v = 0; v < MOST; v++)
        for (size_t i = 0; i < ROOM; i++) {
            pool[v][i] =
                ldexpf((float)(rng_unit(&rng) - 0.5), (int)rng_below(&rng, 24));
            wide[v][i] = (double)pool[v][i] * (1 + rng_unit(&rng));
        }
    return 0;
}

/* The definition, literally: split, sum both parts, add. */
static float plain(size_t from, size_t to, size_t i)
{
    if (to - from == 1)
        return pool[from][i];
    size_t half = 1;
    while (2 * half < to - from)
        half *= 2;
    volatile float left = plain(from, from + half, i);
    volatile float right = plain(from + half, to, i);
    return left + right;
}

static double plain_wide(size_t from, size_t to, size_t i)
{
    if (to - from == 1)
        return wide[from][i];
    size_t half = firn_tree_split(to - from);
    volatile double left = plain_wide(from, from + half, i);
    volatile double right = plain_wide(from + half, to, i);
    return left + right;
}

static float tree_of(const float *x, size_t n)
{
    const float *in[8];
    float out;
    for (size_t v = 0; v < n; v++)
        in[v] = x + v;
    firn_fold_tree_f32(&out, in, NULL, n, 1, 1);
    return out;
}

/* One unit in the last place of 2^24 is 2: 2^24 + 1 is 2^24, and 1 + 1 first
 * makes the 2 that counts. */
static void sums_of_three_to_eight_are_those_worked_by_hand(void **state)
{
    (void)state;
    const float big = 16777216; /* 2^24 */
    /* (big + 1) + (1 + 1) = big + 2; the chain loses all three ones. */
    assert_true(tree_of((float[]){big, 1, 1, 1}, 4) == big + 2);
    /* (big + 1) + 1 = big */
    assert_true(tree_of((float[]){big, 1, 1}, 3) == big);
    /* ((1 + 1) + (1 + 1)) + big = big + 4 */
    assert_true(tree_of((float[]){1, 1, 1, 1, big}, 5) == big + 4);
    /* ((big + 1) + (1 + 1)) + (1 + 1) = (big + 2) + 2 */
    assert_true(tree_of((float[]){big, 1, 1, 1, 1, 1}, 6) == big + 4);
    /* ((1 + 1) + (1 + 1)) + ((big + 1) + 1) = 4 + big */
    assert_true(tree_of((float[]){1, 1, 1, 1, big, 1, 1}, 7) == big + 4);
    /* ((big + 1) + (1 + 1)) + ((1 + 1) + (1 + 1)) = (big + 2) + 4 */
    assert_true(tree_of((float[]){big, 1, 1, 1, 1, 1, 1, 1}, 8) == big + 6);
}

static void a_tree_of_any_size_is_its_definition(void **state)
{
    (void)state;
    const float *in[MOST];
    const double *win[MOST];
    static float out[ROOM];
    static double wout[ROOM];
    for (size_t v = 0; v < MOST; v++) {
        in[v] = pool[v];
        win[v] = wide[v];
    }
    for (size_t nin = 1; nin <= MOST; nin++) {
        size_t n = nin % 3 == 0 ? ROOM : nin * 7 + 1;
        firn_fold_tree_f32(out, in, NULL, nin, n, (float)nin);
        firn_fold_tree_f64(wout, win, NULL, nin, n, (double)nin);
        for (size_t i = 0; i < n; i++) {
            assert_true(out[i] == plain(0, nin, i) / (float)nin);
            assert_true(wout[i] == plain_wide(0, nin, i) / (double)nin);
        }
    }
}

static void very_long_results_have_the_same_order(void **state)
{
    (void)state;
    enum { LONG = (4 << 20) / sizeof(float) + 37 };
    const float *in[8];
    float *out = malloc((LONG + 4) * sizeof *out);
    float *x = malloc((LONG + 8) * sizeof *x);
    for (size_t i = 0; i < LONG + 8; i++)
        x[i] = pool[i % MOST][i % ROOM];
    for (size_t v = 0; v < 8; v++)
        in[v] = x + v;
    for (size_t nin = 2; nin <= 8; nin++) {
        firn_fold_tree_f32(out + 1, in, NULL, nin, LONG, (float)nin);
        for (size_t i = 0; i < LONG; i += 97) {
            float want = tree_of(x + i, nin) / (float)nin;
            assert_true(out[1 + i] == want);
        }
    }
    free(x);
    free(out);
}

/* --- blocks ----------------------------------------------------------------
 */

static void check_blocks(const int *owner, int nthreads, int wanted,
                         const int *want)
{
    struct tree_block block[MOST];
    size_t n = firn_tree_blocks(block, owner, nthreads, wanted);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(block[i].first, want[2 * i]);
        assert_int_equal(block[i].end, want[2 * i + 1]);
    }
    assert_int_equal(want[2 * n], -1);
}

static void a_process_holds_the_largest_aligned_blocks(void **state)
{
    (void)state;
    const int one[7] = {0};
    check_blocks(one, 7, 0, (int[]){0, 7, -1});
    const int three[] = {0, 0, 0, 1, 1, 1, 2, 2}; /* 3 + 3 + 2 threads */
    check_blocks(three, 8, 0, (int[]){0, 2, 2, 3, -1});
    check_blocks(three, 8, 1, (int[]){3, 4, 4, 6, -1});
    check_blocks(three, 8, 2, (int[]){6, 8, -1});
    check_blocks(three, 8, -1, (int[]){0, 2, 2, 3, 3, 4, 4, 6, 6, 8, -1});
    const int six[] = {0, 0, 0, 0, 1, 1}; /* 4 + 2 of 6: two nodes */
    check_blocks(six, 6, 0, (int[]){0, 4, -1});
    check_blocks(six, 6, 1, (int[]){4, 6, -1});
    const int seven[] = {1, 1, 1, 1, 0, 0, 0}; /* the last block is short */
    check_blocks(seven, 7, 0, (int[]){4, 7, -1});
    const int mixed[] = {0, 1, 0, 1, 1, 1, 0, 0};
    check_blocks(mixed, 8, 0, (int[]){0, 1, 2, 3, 6, 8, -1});
    check_blocks(mixed, 8, 1, (int[]){1, 2, 3, 4, 4, 6, -1});
}

/* Sums of blocks, then the tree over blocks, in any placement. */
static void sums_of_blocks_make_the_same_tree(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 4);
    for (int k = 0; k < 60; k++) {
        int nthreads = 1 + (int)rng_below(&rng, MOST), owner[MOST];
        uint64_t nprocs = 1 + rng_below(&rng, 4);
        for (int v = 0; v < nthreads; v++)
            owner[v] = v > 0 && rng_below(&rng, 3) > 0
                           ? owner[v - 1]
                           : (int)rng_below(&rng, nprocs);
        struct tree_block block[MOST];
        static float sum[MOST][ROOM];
        const float *in[MOST], *leaf[MOST];
        size_t first[MOST + 1] = {0};
        size_t n = firn_tree_blocks(block, owner, nthreads, -1);
        for (size_t b = 0; b < n; b++) {
            size_t size = (size_t)(block[b].end - block[b].first);
            for (size_t v = 0; v < size; v++)
                leaf[v] = pool[(size_t)block[b].first + v];
            firn_fold_tree_f32(sum[b], leaf, NULL, size, ROOM, 1);
            in[b] = sum[b];
            first[b + 1] = (size_t)block[b].end;
        }
        firn_fold_tree_f32(sum[0], in, first, n, ROOM, (float)nthreads);
        for (size_t i = 0; i < ROOM; i += 11)
            assert_true(sum[0][i] ==
                        plain(0, (size_t)nthreads, i) / (float)nthreads);
    }
}

/* A tree as high as it can be; operands are those of the pool, again and again,
 * so that neighbouring pairs are the same and a level is easily worked out. */
static float high(size_t from, size_t to)
{
    if (to - from == 1)
        return pool[from % MOST][0];
    size_t half = firn_tree_split(to - from);
    volatile float left = high(from, from + half);
    volatile float right = high(from + half, to);
    return left + right;
}

static void a_tree_of_a_million_threads_has_room(void **state)
{
    (void)state;
    const size_t sizes[] = {1 << 20, (1 << 20) - 1, 70001};
    for (size_t k = 0; k < 3; k++) {
        size_t n = sizes[k];
        const float **in = malloc(n * sizeof *in);
        size_t *first = malloc((n + 1) * sizeof *first);
        assert_true(in != NULL && first != NULL);
        for (size_t v = 0; v < n; v++) {
            in[v] = pool[v % MOST];
            first[v] = v;
        }
        first[n] = n;
        float out[2], want = high(0, n);
        firn_fold_tree_f32(out, in, NULL, n, 1, 1);
        assert_true(out[0] == want);
        /* The first block is larger than the others: no loop of eight fits. */
        float pair = pool[0][0] + pool[1][0];
        in[1] = &pair;
        first[1] = 0;
        firn_fold_tree_f32(out, in + 1, first + 1, n - 1, 1, 1);
        assert_true(out[0] == want);
        free(in);
        free(first);
    }
}

/* --- the running sum -------------------------------------------------------
 */

static void a_running_sum_needs_few_vectors_and_gives_the_tree(void **state)
{
    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        float held[8] = {0};
        size_t depth = firn_tree_depth(n);
        for (size_t o = 0; o < n; o++) {
            size_t at = firn_tree_held(o), m = firn_tree_merges(o);
            float grad = pool[o][0];
            if (m == 0) {
                assert_true(at < depth);
                held[at] = grad;
                continue;
            }
            held[at - 1] += grad;
            for (size_t k = 1; k < m; k++)
                held[at - k - 1] += held[at - k];
        }
        for (size_t left = firn_tree_held(n); left > 1; left--)
            held[left - 2] += held[left - 1];
        assert_true(held[0] == plain(0, n, 0));
    }
}

static void a_sum_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(firn_sum_name(FIRN_SUM_CHAIN), "chain");
    assert_string_equal(firn_sum_name(FIRN_SUM_TREE), "tree");
    assert_string_equal(firn_sum_name(FIRN_SUM_DEFAULT), "tree");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_three_to_eight_are_those_worked_by_hand),
        cmocka_unit_test(a_tree_of_any_size_is_its_definition),
        cmocka_unit_test(very_long_results_have_the_same_order),
        cmocka_unit_test(a_process_holds_the_largest_aligned_blocks),
        cmocka_unit_test(sums_of_blocks_make_the_same_tree),
        cmocka_unit_test(a_tree_of_a_million_threads_has_room),
        cmocka_unit_test(a_running_sum_needs_few_vectors_and_gives_the_tree),
        cmocka_unit_test(a_sum_has_a_name),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
