/* test_log.c - remarks go to the sink, or nowhere. */
#include "base/log.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void keep(void *arg, enum log_level level, const char *text)
{
    snprintf(arg, 64, "%s: %s", level == LOG_WARN ? "warn" : "info", text);
}

static void messages_go_to_the_sink_or_are_dropped(void **state)
{
    (void)state;
    char last[64] = "";
    log_warn("dropped %d", 1);
    log_set_sink(keep, last);
    log_warn("line %d", 7);
    assert_string_equal(last, "warn: line 7");
    log_info("%s", "done");
    assert_string_equal(last, "info: done");
    log_set_sink(NULL, NULL);
    log_warn("gone");
    assert_string_equal(last, "info: done");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_to_the_sink_or_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
