/* test_livepatience.c - commands wait for a restarting firnd, but not forever.
 */
#include "cli/livepatience.c" /* programs link libfirn.a, which has no cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_stream_that_was_silent_for_hours_is_opened_again(void **state)
{
    (void)state;
    double contact_s = 0;
    assert_true(
        live_should_retry(&contact_s, FIRN_EIO, true, 7200)); /* it broke off */
    assert_true(live_should_retry(&contact_s, FIRN_EIO, false, 7259));
    assert_false(live_should_retry(&contact_s, FIRN_EIO, false, 7261));
}

static void an_answer_restarts_the_minute(void **state)
{
    (void)state;
    double contact_s = 0;
    assert_true(live_should_retry(&contact_s, FIRN_EIO, false, 50));
    assert_true(live_should_retry(&contact_s, FIRN_OK, false, 55));
    assert_true(live_should_retry(&contact_s, FIRN_EIO, false, 110));
    assert_false(live_should_retry(&contact_s, FIRN_EIO, false, 116));
}

static void a_rejected_request_is_not_repeated(void **state)
{
    (void)state;
    double contact_s = 0;
    assert_false(live_should_retry(&contact_s, FIRN_ENOENT, false, 1));
    assert_false(live_should_retry(&contact_s, FIRN_EINTR, true, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_was_silent_for_hours_is_opened_again),
        cmocka_unit_test(an_answer_restarts_the_minute),
        cmocka_unit_test(a_rejected_request_is_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
