/* test_can.c - the words for what a trainer can do, and back. */
#include <firn/can.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_set_of_words_reads_back(void **state)
{
    (void)state;
    for (unsigned can = 0; can <= FIRN_CAN_ALL; can++) {
        char text[FIRN_CAN_TEXT];
        unsigned back = 12345;
        firn_can_write(text, can);
        assert_true(strlen(text) < sizeof text);
        assert_true(firn_can_read(text, strlen(text), &back));
        assert_int_equal(back, can);
    }
}

static void words_stand_in_the_order_of_the_enum(void **state)
{
    (void)state;
    char text[FIRN_CAN_TEXT];
    firn_can_write(text, FIRN_CAN_ALL);
    assert_string_equal(text, "resize,passes,freeze,batch,partner,after,tensor,"
                              "sharded,pipeline,join,executors,ahead,zero,"
                              "recompute,offload");
    firn_can_write(text, FIRN_CAN_AFTER | FIRN_CAN_RESIZE);
    assert_string_equal(text, "resize,after");
    firn_can_write(text, 0);
    assert_string_equal(text, "none");
    assert_string_equal(firn_can_name(FIRN_CAN_FREEZE), "freeze");
    assert_string_equal(firn_can_name(FIRN_CAN_ALL), "?");
    assert_string_equal(firn_can_name(0), "?");
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",          "resize,",       ",resize",  "Resize",
        "resize,no", "resize passes", "all,none", "none,resize"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned can = 7;
        assert_false(firn_can_read(wrong[i], strlen(wrong[i]), &can));
        assert_int_equal(can, 7);
    }
    unsigned can = 0;
    assert_true(firn_can_read("all", 3, &can));
    assert_int_equal(can, FIRN_CAN_ALL);
    assert_true(firn_can_read("resize|passes", 13, &can));
    assert_int_equal(can, FIRN_CAN_RESIZE | FIRN_CAN_PASSES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_words_reads_back),
        cmocka_unit_test(words_stand_in_the_order_of_the_enum),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
