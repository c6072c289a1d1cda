/* test_launchmsg.c - requests to the launcher and identities of a supervisor,
 * as texts: what is not exactly one of them is refused.
 */
#include "base/buf.h"
#include "engine/identity.h"
#include "engine/launchmsg.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static enum firn_status read_line(const char *text, struct launchmsg *out)
{
    struct firn_error err = {0};
    return launchmsg_read(out, (struct firn_bytes){text, strlen(text)}, &err);
}

static void a_request_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "check ann\n",
        "start b.o-b_2 7 3 0123456789abcdef 000000000000000f "
        "ffffffffffffffff\n",
        "gpus 7 3 0123456789abcdef 8000000000000001 0000000000000000\n",
        "end 2147483647 ffffffffffffffff\n", "check EXAMPLE+ann$\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct launchmsg msg;
        struct firn_buf out = {0};
        assert_int_equal(read_line(lines[i], &msg), FIRN_OK);
        launchmsg_write(&msg, &out);
        assert_string_equal(out.at, lines[i]);
        buf_release(&out);
    }
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "\n",
        "check\n",
        "check \n",
        "check ann",
        "check ann\n\n",
        "check  ann\n",
        "check ann \n",
        "check ann 1\n",
        "Check ann\n",
        "check ../ann\n",
        "check a/b\n",
        "check -x\n",
        "check .\n",
        "check a\nb\n",
        "start ann 7 3\n",
        "start ann 7 3 0123\n",
        "start ann 7 3 0123456789ABCDEF\n",
        "start ann 0 3 0123456789abcdef\n",
        "start ann 07 3 0123456789abcdef\n",
        "start ann -7 3 0123456789abcdef\n",
        "start ann 7 0 0123456789abcdef\n",
        "start ann 2147483648 3 0123456789abcdef\n",
        "start ann 7 9999999999999999999 0123456789abcdef\n",
        "start ann 7 3 0123456789abcdef x\n",
        "start ann 7 3 0123456789abcdef\n",
        "start ann 7 3 0123456789abcdef 000000000000000f\n",
        "start ann 7 3 0123456789abcdef 000000000000000F 000000000000000f\n",
        "start ann 7 3 0123456789abcdef f f\n",
        "start ann 7 3 0123456789abcdef 000000000000000f 000000000000000f \n",
        "start ann 7 3 0123456789abcdef 000000000000000f 000000000000000f 0\n",
        "gpus ann 7 3 0123456789abcdef 000000000000000f 000000000000000f\n",
        "gpus 7 0123456789abcdef 000000000000000f 000000000000000f\n",
        "gpus 7 3 0123456789abcdef\n",
        "end 7 0123456789abcdef 000000000000000f\n",
        "end ann 7 0123456789abcdef\n",
        "end 7\n",
        "stop 7 0123456789abcdef\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct launchmsg msg;
        if (read_line(wrong[i], &msg) != FIRN_EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
    }
    struct launchmsg msg;
    struct firn_error err = {0};
    assert_int_equal(
        launchmsg_read(&msg, (struct firn_bytes){"check a\0b\n", 10}, &err),
        FIRN_EINVAL);
}

static void an_identity_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"1000:1001:4,27,1001",
                                        "65534:65534:", "4294967294:1:1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct identity identity;
        char out[IDENTITY_TEXT];
        assert_true(identity_read(texts[i], &identity));
        identity_write(&identity, out);
        assert_string_equal(out, texts[i]);
    }
}

static void root_is_no_identity(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "0:0:",
                                        "0:5:5",
                                        "5:0:5",
                                        "5:5:0",
                                        "5:5",
                                        "5",
                                        "5:5:1,",
                                        "5:5:,1",
                                        "5:5:1 2",
                                        "05:5:5",
                                        "-1:5:5",
                                        "+1:5:5",
                                        "4294967295:5:5",
                                        "5:4294967296:5",
                                        "5:5:5x",
                                        "99999999999999999999:5:5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct identity identity;
        if (identity_read(wrong[i], &identity))
            fail_msg("'%s' was taken", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_written_as_it_was_read),
        cmocka_unit_test(other_lines_are_refused),
        cmocka_unit_test(an_identity_is_written_as_it_was_read),
        cmocka_unit_test(root_is_no_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
