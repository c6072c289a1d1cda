/* test_vec.c - the array that grows. */
#include "base/vec.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void elements_stay_in_order_while_it_grows(void **state)
{
    (void)state;
    VEC(int) v = {0};
    for (int i = 0; i < 10000; i++)
        vec_add(&v, 3 * i);
    assert_int_equal(v.n, 10000);
    assert_true(v.cap >= v.n);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(v.at[i], 3 * i);
    vec_release(&v);
    assert_null(v.at);
    assert_int_equal(v.n, 0);
}

static void reserved_elements_are_zero_and_not_counted(void **state)
{
    (void)state;
    VEC(double) v = {0};
    vec_reserve(&v, 100);
    assert_int_equal(v.n, 0);
    for (int i = 0; i < 100; i++)
        assert_true(v.at[i] == 0.0);
    vec_reserve(&v, 5); /* never shrinks */
    assert_true(v.cap >= 100);
    vec_release(&v);
}

static void structs_are_elements_too(void **state)
{
    (void)state;
    struct point {
        int x, y;
    };
    VEC(struct point) v = {0};
    vec_add(&v, ((struct point){1, 2}));
    vec_add(&v, ((struct point){3, 4}));
    assert_int_equal(v.at[1].y, 4);
    vec_release(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stay_in_order_while_it_grows),
        cmocka_unit_test(reserved_elements_are_zero_and_not_counted),
        cmocka_unit_test(structs_are_elements_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
