/* test_map.c - names get the numbers 0, 1, 2 in the order they came. */
#include "base/map.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

static void names_are_numbered_in_the_order_they_came(void **state)
{
    (void)state;
    struct map map = {0};
    assert_int_equal(map_find(&map, "alice"), -1);
    assert_int_equal(map_add(&map, "alice"), 0);
    assert_int_equal(map_add(&map, "bob"), 1);
    assert_int_equal(map_add(&map, "alice"), 0);
    assert_int_equal(map_add(&map, ""), 2);
    assert_int_equal(map_find(&map, "bob"), 1);
    assert_int_equal(map_find(&map, ""), 2);
    assert_int_equal(map_find(&map, "Bob"), -1);
    assert_int_equal(map.n, 3);
    assert_string_equal(map_name(&map, 1), "bob");
    map_release(&map);
    map_release(NULL);
}

static void names_are_copied(void **state)
{
    (void)state;
    struct map map = {0};
    char name[] = "mallory";
    map_add(&map, name);
    name[0] = 'x';
    assert_int_equal(map_find(&map, "mallory"), 0);
    assert_int_equal(map_find(&map, name), -1);
    map_release(&map);
}

static void many_names_keep_their_numbers(void **state)
{
    (void)state;
    enum { NAMES = 50000 };
    struct map map = {0};
    char name[32];
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "user-%d", i);
        assert_int_equal(map_add(&map, name), i);
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "user-%d", i);
        assert_int_equal(map_find(&map, name), i);
        assert_int_equal(map_add(&map, name), i);
        assert_string_equal(map_name(&map, i), name);
    }
    assert_int_equal(map_find(&map, "user-50000"), -1);
    map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_numbered_in_the_order_they_came),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(many_names_keep_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
