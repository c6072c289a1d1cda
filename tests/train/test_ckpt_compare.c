/* test_ckpt_compare.c - two checkpoints are equal by bits, and the first
 * difference is named. */
#include "lib/folder.h"
#include <firn/ckpt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct firn_ckpt_section f32(const char *name, const float *data,
                                    uint64_t n)
{
    return (struct firn_ckpt_section){.name = name,
                                      .type = FIRN_CKPT_F32,
                                      .ndims = 1,
                                      .dims = {n},
                                      .data = data,
                                      .nbytes = 4 * n};
}

enum { DIFFERENCES = 12 };
struct differences {
    struct firn_ckpt_difference at[DIFFERENCES];
    size_t n;
};

static void note(void *arg, const struct firn_ckpt_difference *d)
{
    struct differences *found = arg;
    assert_true(found->n < DIFFERENCES);
    found->at[found->n++] = *d;
}

/* Written and read back. */
static struct firn_ckpt *written(uint64_t step,
                                 const struct firn_ckpt_section *s, size_t n)
{
    struct firn_ckpt_writer *w = NULL;
    struct firn_ckpt *c = NULL;
    struct firn_error err = {0};
    const char *dir = folder_path();
    assert_int_equal(firn_ckpt_create(&w, dir, "job", step, &err), FIRN_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(firn_ckpt_put(w, &s[i], &err), FIRN_OK);
    assert_int_equal(firn_ckpt_commit(w, 9, &err), FIRN_OK);
    assert_int_equal(firn_ckpt_open_newest(&c, dir, "job", NULL, &err),
                     FIRN_OK);
    assert_int_equal(firn_ckpt_step(c), step);
    return c;
}

static void compare_names_the_first_difference(void **state)
{
    (void)state;
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 2, 3.5f, 4, 5, 3};
    int64_t big[2] = {7, INT64_C(1) << 60};
    struct differences found = {0};
    struct firn_ckpt_section left[] = {f32("same", a, 6),
                                       f32("gone", a, 1),
                                       f32("bits", a, 6),
                                       f32("shape", a, 6),
                                       {"i", FIRN_CKPT_I64, 1, {2}, big, 16}};
    struct firn_ckpt_section right[] = {
        f32("come", a, 2),
        f32("bits", b, 6),
        {"shape", FIRN_CKPT_F32, 2, {6, 1}, a, 24},
        f32("same", a, 6),
        {"i", FIRN_CKPT_I64, 1, {2}, big, 16}};
    struct firn_ckpt *l = written(1, left, 5), *r = written(2, right, 5);
    assert_int_equal(firn_ckpt_compare(l, l, note, &found), 0);
    assert_int_equal(found.n, 0);
    assert_int_equal(firn_ckpt_compare(l, r, note, &found), 4);
    assert_int_equal(found.n, 4);
    assert_string_equal(found.at[0].name, "gone");
    assert_int_equal(found.at[0].kind, FIRN_CKPT_ONLY_LEFT);
    assert_string_equal(found.at[1].name, "bits");
    assert_int_equal(found.at[1].kind, FIRN_CKPT_OTHER_BITS);
    assert_int_equal(found.at[1].nelements, 6);
    assert_int_equal(found.at[1].ndiffer, 2);
    assert_int_equal(found.at[1].first, 2);
    assert_true(found.at[1].left == 3 && found.at[1].right == 3.5);
    assert_true(found.at[1].largest == 3);
    assert_int_equal(found.at[2].kind, FIRN_CKPT_OTHER_SHAPE);
    assert_string_equal(found.at[3].name, "come");
    assert_int_equal(found.at[3].kind, FIRN_CKPT_ONLY_RIGHT);
    firn_ckpt_close(l);
    firn_ckpt_close(r);
}

static void zeros_have_a_sign_and_a_nan_equals_itself(void **state)
{
    (void)state;
    float a[4] = {0.0f, (float)NAN, (float)INFINITY, 1};
    float b[4] = {-0.0f, (float)NAN, (float)INFINITY, (float)NAN};
    struct differences found = {0};
    struct firn_ckpt_section left = f32("x", a, 4), right = f32("x", b, 4);
    struct firn_ckpt *l = written(1, &left, 1), *r = written(2, &right, 1);
    assert_int_equal(firn_ckpt_compare(l, r, note, &found), 1);
    assert_int_equal(found.at[0].ndiffer, 2);
    assert_int_equal(found.at[0].first, 0);
    assert_true(signbit(found.at[0].right) && !signbit(found.at[0].left));
    assert_true(found.at[0].largest == 0);
    firn_ckpt_close(l);
    firn_ckpt_close(r);
}

static void halves_are_read_as_numbers(void **state)
{
    (void)state;
    static const struct {
        enum firn_ckpt_type type;
        uint16_t bits;
        double is;
    } table[] = {
        {FIRN_CKPT_F16, 0x3c00, 1},
        {FIRN_CKPT_F16, 0xc500, -5},
        {FIRN_CKPT_F16, 0x7bff, 65504},
        {FIRN_CKPT_F16, 0x0001, 0x1p-24},
        {FIRN_CKPT_F16, 0x03ff, 0x3ffp-24},
        {FIRN_CKPT_F16, 0x7c00, INFINITY},
        {FIRN_CKPT_BF16, 0x3f80, 1},
        {FIRN_CKPT_BF16, 0xc0a0, -5},
        {FIRN_CKPT_BF16, 0x0001, 0x1p-133},
        {FIRN_CKPT_BF16, 0xff80, -INFINITY},
        {FIRN_CKPT_BF16, 0x4049, 0x1.92p+1},
    };
    enum { N = sizeof table / sizeof *table };
    struct firn_ckpt_section s[2][N];
    struct differences found = {0};
    uint16_t other = 0x8000;
    char names[N][8];
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        s[0][i] = (struct firn_ckpt_section){names[i], table[i].type,  1,
                                             {1},      &table[i].bits, 2};
        s[1][i] = s[0][i];
        s[1][i].data = &other;
    }
    struct firn_ckpt *l = written(1, s[0], N), *r = written(2, s[1], N);
    assert_int_equal(firn_ckpt_compare(l, r, note, &found), N);
    for (size_t i = 0; i < N; i++) {
        assert_true(found.at[i].left == table[i].is);
        assert_true(found.at[i].right == 0 && signbit(found.at[i].right));
    }
    firn_ckpt_close(l);
    firn_ckpt_close(r);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(compare_names_the_first_difference),
        CASE(zeros_have_a_sign_and_a_nan_equals_itself),
        CASE(halves_are_read_as_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
