/* test_freezersave.c - logs that replay, bytes that load or are refused. */
#include "base/rng.h"
#include "freezing.h"
#include <firn/freezer.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 4 };

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Runs epochs from..to of ten ordinary steps; a digest of all extra steps. */
static void train(struct firn_freezer *f, uint64_t from, uint64_t to,
                  uint64_t seed, char *digest)
{
    size_t at = strlen(digest);
    for (uint64_t epoch = from; epoch < to; epoch++) {
        struct rng rng;
        double v[LAYERS];
        rng_seed(&rng, seed + epoch);
        for (size_t i = 0; i < LAYERS; i++)
            v[i] = (double)(i + 1) * (0.5 + rng_unit(&rng));
        struct firn_freezer_ask ask = freezing_ask(f, epoch, v, LAYERS);
        ask.backward_s *= 1 + 2 * rng_unit(&rng); /* times are never the same */
        freezing_decide(f, &ask);
        for (int step = 0; step < 10; step++) {
            unsigned due = firn_freezer_step(f, NULL);
            digest[at++] = (char)('0' + due);
            while (due > 0)
                due = firn_freezer_step(f, NULL);
        }
        digest[at] = '\0';
    }
}

static void assert_same_log(const struct firn_freezer *a,
                            const struct firn_freezer *b)
{
    const struct firn_decision *left = NULL, *right = NULL;
    size_t n = firn_freezer_log(a, &left);
    assert_int_equal(firn_freezer_log(b, &right), n);
    for (size_t i = 0; i < n; i++)
        assert_true(
            left[i].step == right[i].step && left[i].kind == right[i].kind &&
            left[i].value == right[i].value && left[i].psi == right[i].psi);
}

static void a_replay_gives_the_same_steps_whatever_is_measured(void **state)
{
    (void)state;
    char first[512] = "", other[512] = "", again[512] = "";
    struct firn_freezer *f = freezing_penalty(LAYERS, 1);
    train(f, 0, 16, 100, first);
    const struct firn_decision *log = NULL;
    size_t n = firn_freezer_log(f, &log);
    assert_int_equal(n, 16);

    struct firn_freezer *g = freezing_penalty(LAYERS, 1);
    train(g, 0, 16, 200, other);           /* other times and variances */
    assert_string_not_equal(first, other); /* the failing twin */
    firn_freezer_free(g);

    g = freezing_penalty(LAYERS, 1);
    assert_int_equal(firn_freezer_replay(g, log, n, NULL), FIRN_OK);
    assert_true(firn_freezer_replaying(g, 150));
    assert_false(firn_freezer_replaying(g, 151));
    train(g, 0, 16, 200, again);
    assert_string_equal(first, again);
    assert_same_log(f, g);
    firn_freezer_free(g);
    firn_freezer_free(f);
}

static void a_replay_may_be_stopped_and_resumed(void **state)
{
    (void)state;
    char first[512] = "", again[512] = "";
    struct firn_freezer *f = freezing_penalty(LAYERS, 1);
    train(f, 0, 16, 100, first);
    const struct firn_decision *log = NULL;
    size_t n = firn_freezer_log(f, &log);

    struct firn_freezer *g = freezing_penalty(LAYERS, 1);
    assert_int_equal(firn_freezer_replay(g, log, n, NULL), FIRN_OK);
    train(g, 0, 7, 200, again);
    size_t nbytes = firn_freezer_saved(g);
    char *bytes = malloc(nbytes);
    assert_non_null(bytes);
    firn_freezer_save(g, bytes);
    firn_freezer_free(g);
    g = freezing_penalty(LAYERS, 1);
    assert_int_equal(firn_freezer_load(g, bytes, nbytes, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_replay(g, log, n, NULL), FIRN_OK);
    train(g, 7, 16, 300, again);
    assert_string_equal(first, again);
    assert_same_log(f, g);
    free(bytes);
    firn_freezer_free(g);
    firn_freezer_free(f);
}

static void orders_between_boundaries_are_replayed_where_they_came(void **state)
{
    (void)state;
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    const struct firn_decision orders[] = {
        {.step = 3, .kind = FIRN_DECIDED_LAYOUT, .value = 2},
        {.step = 5, .kind = FIRN_DECIDED_PASSES, .value = 4},
        {.step = 8, .kind = FIRN_DECIDED_FROZEN, .value = 1, .psi = 0.5}};
    assert_int_equal(firn_freezer_replay(f, orders, 3, NULL), FIRN_OK);
    /* A decision recorded at the same step has no effect. */
    struct firn_decision layout = {.kind = FIRN_DECIDED_LAYOUT, .value = 7};
    assert_int_equal(firn_freezer_set(f, &layout, NULL), FIRN_OK);
    unsigned passes[10];
    size_t frozen[10];
    for (uint64_t step = 0; step < 10; step++) {
        assert_int_equal(firn_freezer_follow(f, step, NULL), FIRN_OK);
        passes[step] = firn_freezer_passes(f);
        frozen[step] = firn_freezer_frozen(f);
    }
    assert_true(passes[4] == 0 && passes[5] == 4 && passes[9] == 4);
    assert_true(frozen[7] == 0 && frozen[8] == 1);
    assert_near(firn_freezer_psi(f), 0.5);
    const struct firn_decision *log = NULL;
    assert_int_equal(firn_freezer_log(f, &log), 3); /* not the old layout */
    firn_freezer_free(f);
}

static void saved_and_loaded_it_goes_on_as_before(void **state)
{
    (void)state;
    char whole[512] = "", parts[512] = "", without[512] = "";
    struct firn_freezer *f = freezing_penalty(LAYERS, 1);
    train(f, 0, 16, 100, whole);
    struct firn_freezer *g = freezing_penalty(LAYERS, 1);
    train(g, 0, 9, 100, parts);
    struct firn_decision passes = {
        .step = 80, .kind = FIRN_DECIDED_PASSES, .value = 3};
    assert_int_equal(firn_freezer_set(g, &passes, NULL), FIRN_OK);
    size_t nbytes = firn_freezer_saved(g);
    char *bytes = malloc(nbytes), *again = malloc(nbytes);
    assert_true(bytes != NULL && again != NULL);
    firn_freezer_save(g, bytes);
    firn_freezer_free(g);

    g = freezing_penalty(LAYERS, 1);
    assert_int_equal(firn_freezer_load(g, bytes, nbytes, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_passes(g), 3);
    assert_int_equal(firn_freezer_saved(g), nbytes);
    firn_freezer_save(g, again);
    assert_memory_equal(bytes, again, nbytes);
    memcpy(without, parts, sizeof parts);
    train(g, 9, 16, 100, parts);
    assert_string_equal(whole, parts);
    firn_freezer_free(g);

    g = freezing_penalty(LAYERS, 1); /* the failing twin: nothing was loaded */
    train(g, 9, 16, 100, without);
    assert_string_not_equal(whole, without);
    firn_freezer_free(g);
    free(bytes);
    free(again);
    firn_freezer_free(f);
}

static void steps_that_are_due_survive(void **state)
{
    (void)state;
    struct firn_decision d = {
        .kind = FIRN_DECIDED_FROZEN, .value = 2, .psi = 0.25};
    struct firn_freezer *f = freezing_penalty(LAYERS, 0);
    struct firn_freezer *g = freezing_penalty(LAYERS, 0);
    unsigned char bytes[1024];
    double effective = 0;
    assert_int_equal(firn_freezer_set(f, &d, NULL), FIRN_OK);
    assert_int_equal(firn_freezer_step(f, NULL), 3);
    assert_true(firn_freezer_saved(f) <= sizeof bytes);
    firn_freezer_save(f, bytes);
    assert_int_equal(firn_freezer_load(g, bytes, firn_freezer_saved(f), NULL),
                     FIRN_OK);
    assert_int_equal(firn_freezer_frozen(g), 2);
    assert_int_equal(firn_freezer_step(g, &effective), 2);
    assert_near(effective, 0.5);
    firn_freezer_free(f);
    firn_freezer_free(g);
}

static uint64_t fnv(const unsigned char *at, size_t n)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

/* Makes the sum at the end right. */
static void seal(unsigned char *bytes, size_t n)
{
    uint64_t sum = fnv(bytes, n - 8);
    for (size_t k = 0; k < 8; k++)
        bytes[n - 8 + k] = (unsigned char)(sum >> 8 * k);
}

static void damaged_bytes_are_refused_and_change_nothing(void **state)
{
    (void)state;
    char digest[512] = "";
    struct firn_freezer *f = freezing_penalty(LAYERS, 1);
    train(f, 0, 6, 100, digest);
    size_t nbytes = firn_freezer_saved(f);
    unsigned char *bytes = malloc(nbytes), *mine = malloc(nbytes);
    unsigned char *after = malloc(nbytes);
    assert_true(bytes != NULL && mine != NULL && after != NULL);
    firn_freezer_save(f, bytes);
    for (size_t i = 0; i < nbytes; i++) {
        struct firn_error err = {0};
        memcpy(mine, bytes, nbytes);
        mine[i] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(firn_freezer_load(f, mine, nbytes, &err), FIRN_EINVAL);
        assert_true(err.text[0] != '\0');
        unsigned char *cut = malloc(i > 0 ? i : 1);
        assert_non_null(cut);
        memcpy(cut, bytes, i);
        assert_int_equal(firn_freezer_load(f, cut, i, &err), FIRN_EINVAL);
        free(cut);
    }
    firn_freezer_save(f, after);
    assert_memory_equal(bytes, after, nbytes);
    free(bytes);
    free(mine);
    free(after);
    firn_freezer_free(f);
}

static void hostile_bytes_with_a_right_sum_do_no_harm(void **state)
{
    (void)state;
    struct rng rng;
    char digest[512] = "";
    struct firn_freezer *f = freezing_penalty(LAYERS, 1);
    int n = getenv("FIRN_QUICK") != NULL ? 500 : 20000, ntaken = 0;
    train(f, 0, 6, 100, digest);
    size_t nbytes = firn_freezer_saved(f);
    unsigned char *bytes = malloc(nbytes), *mine = malloc(nbytes);
    assert_true(bytes != NULL && mine != NULL);
    firn_freezer_save(f, bytes);
    struct firn_error err = {0};
    memcpy(mine, bytes, nbytes);
    mine[16] = LAYERS; /* frozen: all */
    seal(mine, nbytes);
    assert_int_equal(firn_freezer_load(f, mine, nbytes, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "all layers are frozen"));
    print_message("seed 3\n");
    rng_seed(&rng, 3);
    for (int i = 0; i < n; i++) {
        memcpy(mine, bytes, nbytes);
        for (uint64_t k = 1 + rng_below(&rng, 4); k > 0; k--)
            mine[rng_below(&rng, nbytes - 8)] = (unsigned char)rng_u64(&rng);
        seal(mine, nbytes);
        if (firn_freezer_load(f, mine, nbytes, NULL) != FIRN_OK)
            continue;
        ntaken++;
        assert_true(firn_freezer_frozen(f) < LAYERS);
        assert_true(firn_freezer_psi(f) > 0 && firn_freezer_psi(f) <= 1);
        struct firn_freezer_ask ask = freezing_ask(f, 9, NULL, LAYERS);
        size_t nfrozen = 0;
        ask.step = UINT64_MAX;
        if (firn_freezer_decide(f, &ask, &nfrozen, NULL) == FIRN_OK)
            assert_true(nfrozen < LAYERS && firn_freezer_psi(f) > 0);
        firn_freezer_step(f, NULL);
    }
    assert_true(ntaken > n / 100 && ntaken < n);
    free(bytes);
    free(mine);
    firn_freezer_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_gives_the_same_steps_whatever_is_measured),
        cmocka_unit_test(a_replay_may_be_stopped_and_resumed),
        cmocka_unit_test(
            orders_between_boundaries_are_replayed_where_they_came),
        cmocka_unit_test(saved_and_loaded_it_goes_on_as_before),
        cmocka_unit_test(steps_that_are_due_survive),
        cmocka_unit_test(damaged_bytes_are_refused_and_change_nothing),
        cmocka_unit_test(hostile_bytes_with_a_right_sum_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
