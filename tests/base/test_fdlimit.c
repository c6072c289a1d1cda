/* test_fdlimit.c - the limit is raised for us, not for what we start. */
#include "base/fdlimit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>

static void set(rlim_t soft)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = soft;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void http_leaves_descriptors_to_the_rest(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    static const struct {
        rlim_t limit;
        unsigned share;
    } cases[] = {{8, 1}, {64, 8}, {256, 32}, {512, 64}, {1024, 192}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].limit > before.rlim_max)
            continue;
        set(cases[i].limit);
        assert_int_equal(fdlimit_http_share(1000, 2), cases[i].share);
        assert_int_equal(fdlimit_http_share(1, 2), 1);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_raised_limit_is_not_that_of_children(void **state)
{
    (void)state;
    struct rlimit now;
    int child = 0;
    set(100);
    fdlimit_raise();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_true(now.rlim_cur == now.rlim_max);
    fdlimit_child_begin();
    FILE *in = popen("ulimit -n", "r");
    fdlimit_child_end();
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%d", &child), 1);
    pclose(in);
    assert_int_equal(child, 100);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_true(now.rlim_cur == now.rlim_max);
    fdlimit_raise(); /* again: nothing changes */
    fdlimit_child_begin();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, 100);
    fdlimit_child_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_leaves_descriptors_to_the_rest),
        cmocka_unit_test(a_raised_limit_is_not_that_of_children),
    };
    return cmocka_run_group_tests_name("fdlimit", tests, NULL, NULL);
}
