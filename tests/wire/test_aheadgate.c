/* test_aheadgate.c - the words between a supervisor and a process started
 * early. */
#include "wire/aheadgate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void variables_of_a_place_may_change_and_others_may_not(void **state)
{
    (void)state;
    assert_true(firn_gate_is_late("FIRN_GPUS=2"));
    assert_true(firn_gate_is_late("CUDA_VISIBLE_DEVICES="));
    assert_true(firn_gate_is_late("RANK=0"));
    assert_true(firn_gate_is_late("MASTER_PORT=1"));
    assert_false(firn_gate_is_late("OMP_NUM_THREADS=1"));
    assert_false(firn_gate_is_late("RANKING=0"));
    assert_false(firn_gate_is_late("RAN=0"));
    assert_false(firn_gate_is_late("PATH=/bin"));
}

static void environments_with_another_number_of_threads_differ(void **state)
{
    (void)state;
    const char *const prepared[] = {"A=1", "OMP_NUM_THREADS=1", "RANK=0", NULL};
    const char *const same[] = {"OMP_NUM_THREADS=1", "RANK=3", "A=1",
                                "FIRN_GPUS=4", NULL};
    const char *const other[] = {"A=1", "OMP_NUM_THREADS=2", "RANK=0", NULL};
    const char *const fewer[] = {"A=1", "RANK=0", NULL};
    assert_true(firn_gate_is_alike(prepared, same));
    assert_false(firn_gate_is_alike(prepared, other));
    assert_false(firn_gate_is_alike(prepared, fewer));
    assert_false(firn_gate_is_alike(fewer, prepared));
}

static void every_mark_of_an_attempt_fits_in_place_of_the_first(void **state)
{
    (void)state;
    static const char worker[] =
        "FIRN_HERD=0123456789abcdef-7-0000000000000001";
    static const char shepherd[] =
        "FIRN_SHEPHERD=0123456789abcdef-7-7fffffffffffffff";
    const char *const marks[] = {worker, shepherd};
    for (int i = 0; i < 2; i++) {
        char mark[FIRN_GATE_MARK_TEXT], before[] = "A=1";
        char *environment[] = {before, mark, NULL};
        firn_gate_mark(mark, "0123456789abcdef", 7);
        size_t room = strlen(mark);
        assert_int_equal(strncmp(mark, "FIRN_AHEAD=0123456789abcdef-7-", 30),
                         0);
        assert_true(firn_gate_remark(environment, marks[i]));
        assert_string_equal(mark, marks[i]);
        for (size_t k = strlen(mark); k <= room; k++)
            assert_int_equal(mark[k], 0);
        assert_false(firn_gate_remark(environment, marks[i]));
    }
}

static void a_mark_that_is_too_long_is_not_written(void **state)
{
    (void)state;
    char mark[FIRN_GATE_MARK_TEXT], before[FIRN_GATE_MARK_TEXT], longer[200];
    char *environment[] = {mark, NULL};
    firn_gate_mark(mark, "m", 7);
    memcpy(before, mark, sizeof mark);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_false(firn_gate_remark(environment, longer));
    assert_memory_equal(mark, before, strlen(before) + 1);
    firn_gate_mark(mark, "", 7);
    assert_string_equal(mark, "");
}

static void an_opening_is_one_message_with_all_variables(void **state)
{
    (void)state;
    const char *const environment[] = {"A=1", "B=", NULL};
    static char big[FIRN_GATE_BYTES + 1];
    const char *const too_long[] = {big, NULL};
    char got[64];
    struct firn_gate_head head;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(firn_gate_open(ends[0], environment, 5));
    assert_int_equal(read(ends[1], got, sizeof got), sizeof head + 7);
    memcpy(&head, got, sizeof head);
    assert_int_equal(head.nbytes, 7);
    assert_true(head.opened_s == 5);
    assert_memory_equal(got + sizeof head, "A=1\0B=", 7);
    memset(big, 'x', sizeof big - 1);
    assert_false(firn_gate_open(ends[0], too_long, 5));
    close(ends[0]);
    assert_int_equal(read(ends[1], got, sizeof got), 0);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_a_place_may_change_and_others_may_not),
        cmocka_unit_test(environments_with_another_number_of_threads_differ),
        cmocka_unit_test(every_mark_of_an_attempt_fits_in_place_of_the_first),
        cmocka_unit_test(a_mark_that_is_too_long_is_not_written),
        cmocka_unit_test(an_opening_is_one_message_with_all_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
