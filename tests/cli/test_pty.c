/* test_pty.c - frames of a terminal, and the names of its sockets.
 */
#include "base/buf.h"
#include "cli/pty.c" /* programs link libfirn.a, which has no cli */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void frames_come_back_in_any_pieces(void **unused)
{
    (void)unused;
    char bytes[10000], kind = 0, back[sizeof bytes];
    struct firn_buf all = {0};
    struct firn_bytes payload;
    size_t nback = 0, at = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    pty_frame(&all, 'o', bytes, sizeof bytes);
    for (size_t seen = 0; seen <= all.n; seen++) {
        long n = pty_parse((struct firn_bytes){all.at + at, seen - at}, &kind,
                           &payload);
        assert_true(n >= 0);
        if (n == 0)
            continue;
        assert_int_equal(kind, 'o');
        assert_true(payload.n > 0 && payload.n <= PTY_FRAME);
        memcpy(back + nback, payload.at, payload.n);
        nback += payload.n;
        at += (size_t)n;
    }
    assert_int_equal(nback, sizeof bytes);
    assert_int_equal(at, all.n);
    assert_memory_equal(back, bytes, sizeof bytes);
    buf_release(&all);
}

static void an_empty_frame_is_a_frame(void **unused)
{
    (void)unused;
    char kind = 0;
    struct firn_buf all = {0};
    struct firn_bytes payload;
    pty_frame(&all, 'i', "", 0);
    assert_int_equal(
        pty_parse((struct firn_bytes){all.at, all.n}, &kind, &payload), 3);
    assert_int_equal(payload.n, 0);
    buf_release(&all);
}

static void bytes_that_are_no_frame_are_refused(void **unused)
{
    (void)unused;
    char kind = 0;
    struct firn_bytes payload;
    static const char *const wrong[] = {"GET", "\0\0\0", "o\1\x11",
                                        "i\xff\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(
            pty_parse((struct firn_bytes){wrong[i], 3}, &kind, &payload), -1);
}

static void only_names_that_were_drawn_are_paths(void **unused)
{
    (void)unused;
    char a[PTY_PATH], b[PTY_PATH];
    struct firn_error err = {0};
    assert_int_equal(pty_new_path(a, &err), FIRN_OK);
    assert_int_equal(pty_new_path(b, &err), FIRN_OK);
    assert_string_not_equal(a, b);
    assert_true(pty_is_path(a));
    assert_false(pty_is_path("/tmp/firn-tty-"));
    assert_false(pty_is_path("/tmp/firn-tty-../../../../../../../etc/xx"));
    a[strlen(a) - 1] = 'g';
    assert_false(pty_is_path(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back_in_any_pieces),
        cmocka_unit_test(an_empty_frame_is_a_frame),
        cmocka_unit_test(bytes_that_are_no_frame_are_refused),
        cmocka_unit_test(only_names_that_were_drawn_are_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
