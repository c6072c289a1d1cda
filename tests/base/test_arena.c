/* test_arena.c - alignment, zeroes, reuse after a reset.
 *
 * An arena is right when pieces do not overlap, are aligned and zeroed, and
 * when a repeated round stops asking the system for memory.
 */
#include "base/arena.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdalign.h>
#include <string.h>

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct arena arena = {0};
    unsigned char *at[200];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            at[i] = arena_alloc(&arena, 7 * i);
            assert_int_equal((uintptr_t)at[i] % alignof(max_align_t), 0);
            for (size_t j = 0; j < 7 * i; j++)
                assert_int_equal(at[i][j], 0);
            memset(at[i], (int)i, 7 * i);
        }
        for (size_t i = 0; i < 200; i++)
            for (size_t j = 0; j < 7 * i; j++)
                assert_int_equal(at[i][j], (int)i);
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void a_repeated_round_ends_in_one_chunk(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    const void *first = NULL;
    for (int round = 0; round < 5; round++) {
        const void *start = arena_alloc(&arena, 100);
        for (int i = 0; i < 1000; i++)
            arena_alloc(&arena, 100);
        if (round == 2)
            first = start;
        if (round > 2)
            assert_ptr_equal(start, first); /* same memory again */
        arena_reset(&arena);
    }
    arena_release(&arena);
}

static void one_large_round_among_small_ones_keeps_no_memory(void **state)
{
    (void)state;
    struct arena arena = {0};
    arena_alloc(&arena, 64 << 20);
    arena_reset(&arena);
    assert_non_null(arena.top); /* another one may be as large */
    arena_alloc(&arena, 9 << 20);
    arena_reset(&arena);
    assert_non_null(arena.top); /* more than an eighth was used */
    for (int i = 0; i < 1000; i++)
        arena_alloc(&arena, 1 << 10);
    arena_reset(&arena);
    assert_null(arena.top);
    arena_alloc(&arena, 1 << 19); /* a small one is kept */
    arena_reset(&arena);
    arena_alloc(&arena, 1);
    arena_reset(&arena);
    assert_non_null(arena.top);
    arena_release(&arena);
}

static void a_piece_may_be_larger_than_any_chunk(void **state)
{
    (void)state;
    struct arena arena = {0};
    char *big = arena_alloc(&arena, 1000003);
    big[1000002] = 'x';
    char *text = arena_strdup(&arena, "after the big one");
    assert_string_equal(text, "after the big one");
    assert_int_equal(big[1000002], 'x');
    arena_release(&arena);
}

static void a_printed_text_is_as_long_as_it_must_be(void **state)
{
    (void)state;
    struct arena arena = {0};
    char long_one[5000];
    memset(long_one, 'y', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = '\0';
    char *text = arena_printf(&arena, "%d of %s", 7, long_one);
    assert_int_equal(strlen(text), 5 + sizeof long_one - 1);
    assert_int_equal(strncmp(text, "7 of yyy", 8), 0);
    assert_string_equal(arena_printf(&arena, "%s", ""), "");
    assert_string_equal(arena_printf(&arena, "next"), "next");
    arena_release(&arena);
}

static void releasing_twice_or_nothing_is_fine(void **state)
{
    (void)state;
    struct arena arena = {0};
    arena_reset(&arena);
    arena_release(&arena);
    arena_release(&arena);
    arena_release(NULL);
    assert_non_null(arena_strdup(&arena, ""));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_repeated_round_ends_in_one_chunk),
        cmocka_unit_test(one_large_round_among_small_ones_keeps_no_memory),
        cmocka_unit_test(a_piece_may_be_larger_than_any_chunk),
        cmocka_unit_test(a_printed_text_is_as_long_as_it_must_be),
        cmocka_unit_test(releasing_twice_or_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
