/* test_alloc.c - allocations as text, compared, and counted by node. */
#include <firn/alloc.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include <cmocka.h>
#include <firn/parallel.h>

static void prints(const struct firn_alloc *alloc, const char *expected)
{
    struct firn_buf out = {0};
    firn_alloc_print(alloc, &out);
    assert_string_equal(out.at, expected);
    buf_release(&out);
}

static void nothing_prints_as_a_dash(void **unused)
{
    (void)unused;
    struct firn_alloc nothing = FIRN_ALLOC_NONE;
    prints(&nothing, "-");
    nothing.is_shared = true;
    prints(&nothing, "-");
    assert_int_equal(firn_alloc_nodes(&nothing), 0);
}

static void gpus_print_as_ranges_of_each_node(void **unused)
{
    (void)unused;
    struct firn_part parts[] = {{0, 0, 0xf}, {7, 0, 0xa}, {9, 0, 1}};
    struct firn_alloc alloc = {parts, 3, 7, false, 0, FIRN_HOW_AS_SUBMITTED};
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]");
    alloc.is_shared = true;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]~");
    alloc.how.parallel = FIRN_PARALLEL_PIPELINE;
    alloc.how.stages = 7;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/p7~");
    alloc.is_shared = false;
    alloc.how.parallel = FIRN_PARALLEL_SHARDED;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/s");
    alloc.how.parallel = FIRN_PARALLEL_OFFLOAD;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/o");
    alloc.how.parallel = FIRN_PARALLEL_RECOMPUTE;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/r");
    alloc.how.parallel = FIRN_PARALLEL_PIPELINE;
    alloc.how.stages = 1;
    alloc.how.tensor = 7;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/p1t7");
    alloc.how = (struct firn_how)FIRN_HOW_AS_SUBMITTED;
    alloc.how.parallel = FIRN_PARALLEL_DATA | FIRN_SAVES_GRADIENTS;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]+2");
    alloc.how.parallel =
        FIRN_PARALLEL_SHARDED | FIRN_SAVES_ACTIVATIONS | FIRN_SAVES_HOST;
    prints(&alloc, "n0[0-3] n7[1,3] n9[0]/s+ro");
    alloc.how.parallel = 0;
    alloc.is_shared = true;
    parts[0].gpus = 0x8000000000000001u;
    prints(&alloc, "n0[0,63] n7[1,3] n9[0]~");
    parts[0].gpus = ~(uint64_t)0;
    prints(&alloc, "n0[0-63] n7[1,3] n9[0]~");
}

static void print_appends_to_what_is_there(void **unused)
{
    (void)unused;
    struct firn_buf out = {0};
    struct firn_part part = {3, 0, 6};
    buf_puts(&out, "A: ");
    firn_alloc_print(
        &(struct firn_alloc){&part, 1, 2, false, 0, FIRN_HOW_AS_SUBMITTED},
        &out);
    assert_string_equal(out.at, "A: n3[1-2]");
    buf_release(&out);
}

static void boards_do_not_show_in_the_text(void **unused)
{
    (void)unused;
    struct firn_part parts[] = {{2, 0, 1}, {2, 1, 0x41}, {2, 2, 2}, {3, 2, 1}};
    struct firn_alloc alloc = {parts, 4, 5, false, 0, FIRN_HOW_AS_SUBMITTED};
    prints(&alloc, "n2[0,64,70,129] n3[128]");
    parts[0].gpus = parts[1].gpus = ~(uint64_t)0;
    prints(&alloc, "n2[0-127,129] n3[128]");
    parts[1].gpus = 3;
    parts[2].gpus = (uint64_t)1 << 63;
    prints(&alloc, "n2[0-65,191] n3[128]");
    assert_int_equal(firn_alloc_nodes(&alloc), 2);
}

static void allocations_are_equal_only_in_every_part(void **unused)
{
    (void)unused;
    struct firn_part p[] = {{0, 0, 3}, {1, 0, 1}}, q[] = {{0, 0, 3}, {1, 0, 1}};
    struct firn_alloc a = {p, 2, 3, false, 0, FIRN_HOW_AS_SUBMITTED},
                      b = {q, 2, 3, false, 0, FIRN_HOW_AS_SUBMITTED};
    assert_true(firn_alloc_equal(&a, &b));
    q[1].gpus = 2;
    assert_false(firn_alloc_equal(&a, &b));
    q[1] = (struct firn_part){2, 0, 1};
    assert_false(firn_alloc_equal(&a, &b));
    q[1] = (struct firn_part){1, 1, 1};
    assert_false(firn_alloc_equal(&a, &b));
    q[1] = p[1];
    b.is_shared = true;
    assert_false(firn_alloc_equal(&a, &b));
    b.is_shared = false;
    assert_true(firn_alloc_equal(&a, &b));
    b.how.parallel = FIRN_PARALLEL_SHARDED;
    assert_false(firn_alloc_equal(&a, &b));
    b.how.parallel = 0;
    b.how.stages = 3;
    assert_false(firn_alloc_equal(&a, &b));
    b = (struct firn_alloc){q, 1, 2, false, 0, FIRN_HOW_AS_SUBMITTED};
    assert_false(firn_alloc_equal(&a, &b));
    assert_false(firn_alloc_equal(&b, &a));
    struct firn_alloc none = FIRN_ALLOC_NONE;
    assert_true(firn_alloc_equal(&none, &none));
    struct firn_alloc zeroed = {0};
    assert_true(firn_alloc_equal(&none, &zeroed));
    assert_false(firn_how_equal(&none.how, &zeroed.how));
}

static void allocations_overlap_by_a_gpu_of_the_same_node(void **unused)
{
    (void)unused;
    struct arena arena = {0};
    struct firn_alloc a = alloc_read("n0[0-1] n2[3]", &arena);
    struct firn_alloc beside = alloc_read("n0[2-3] n1[0-1]", &arena);
    struct firn_alloc across = alloc_read("n1[0] n2[2-3]", &arena);
    struct firn_alloc none = FIRN_ALLOC_NONE;
    assert_true(firn_alloc_overlaps(&a, &a));
    assert_false(firn_alloc_overlaps(&a, &beside));
    assert_true(firn_alloc_overlaps(&a, &across));
    assert_true(firn_alloc_overlaps(&across, &a));
    assert_false(firn_alloc_overlaps(&a, &none));
    arena_release(&arena);
}

static void text_reads_back_as_the_same_allocation(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"n0[0-3]", "n0[0-3] n7[1,3]~",
                                        "n5[0,63-64,70,129,190-191]",
                                        "n1[0] n2[0] n3[0-191]~"};
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct firn_alloc alloc = alloc_read(texts[i], &arena);
        struct firn_buf out = {0};
        firn_alloc_print(&alloc, &out);
        struct firn_alloc again = alloc_read(out.at, &arena);
        assert_true(firn_alloc_equal(&alloc, &again));
        assert_int_equal(alloc.ngpus, again.ngpus);
        buf_release(&out);
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_prints_as_a_dash),
        cmocka_unit_test(gpus_print_as_ranges_of_each_node),
        cmocka_unit_test(print_appends_to_what_is_there),
        cmocka_unit_test(boards_do_not_show_in_the_text),
        cmocka_unit_test(allocations_are_equal_only_in_every_part),
        cmocka_unit_test(allocations_overlap_by_a_gpu_of_the_same_node),
        cmocka_unit_test(text_reads_back_as_the_same_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
