/* test_resizefile.c - the files of a resize, and who keeps which rank.
 */
#include "base/mem.h"
#include "engine/holding.h"
#include "engine/resizefile.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[64] = "/tmp/firn-resizefile-XXXXXX";
static int folder = -1;

static int make_top(void **state)
{
    (void)state;
    if (mkdtemp(top) == NULL)
        return -1;
    folder = open(top, O_RDONLY | O_DIRECTORY);
    return folder >= 0 ? 0 : -1;
}

static int remove_top(void **state)
{
    static const char *const names[] = {"resize", "resized", "gpus"};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        unlinkat(folder, names[i], 0);
    close(folder);
    return rmdir(top);
}

static struct firn_alloc gpus(struct firn_part *parts, int n)
{
    struct firn_alloc from = FIRN_ALLOC_NONE, out = FIRN_ALLOC_NONE;
    from.parts = parts;
    from.nparts = n;
    for (int i = 0; i < n; i++)
        for (uint64_t bits = parts[i].gpus; bits != 0; bits &= bits - 1)
            from.ngpus++;
    holding_copy(&out, &from);
    return out;
}

static void what_is_written_is_read(void **state)
{
    struct resize r = {.number = 3, .prepare_s = 600}, back;
    struct resized d = {3, true, 0.0125, 1.5, 77, "why\nnot"}, again;
    struct firn_alloc found;
    (void)state;
    assert_int_equal(resize_get(folder, &back), ATTEMPT_ABSENT);
    assert_int_equal(resized_get(folder, &again), ATTEMPT_ABSENT);
    r.old = gpus((struct firn_part[]){{0, 0, 6}}, 1);
    r.next =
        gpus((struct firn_part[]){{0, 0, 3}, {2, 1, 0x8000000000000000u}}, 2);
    resize_ranks(&r);
    assert_int_equal(resize_put(folder, &r, NULL), FIRN_OK);
    assert_int_equal(resize_get(folder, &back), ATTEMPT_PRESENT);
    assert_int_equal(back.number, 3);
    assert_true(firn_alloc_equal(&back.old, &r.old));
    assert_true(firn_alloc_equal(&back.next, &r.next));
    assert_int_equal(back.from.n, 3);
    assert_int_equal(resized_put(folder, &d, NULL), FIRN_OK);
    assert_int_equal(resized_get(folder, &again), ATTEMPT_PRESENT);
    assert_true(again.is_done && again.number == 3 && again.step == 77);
    assert_true(again.pause_s == 0.0125 && again.prepare_s == 1.5);
    assert_string_equal(again.why, "why not");
    assert_int_equal(resize_gpus_put(folder, &r.next, NULL), FIRN_OK);
    assert_int_equal(resize_gpus_get(folder, &found), ATTEMPT_PRESENT);
    assert_true(firn_alloc_equal(&found, &r.next));
    holding_release(&found);
    resize_release(&back);
    resize_release(&r);
}

static void damaged_files_are_found_out(void **state)
{
    static const char *const bad[] = {
        "",
        "firn-resize 2\n",
        "firn-resize 1\nnumber 1\nprepare 1\nfrom 0\nold 0.0.1\nnew 0.0.1\n",
        "firn-resize 1\nnumber 1\nprepare 1\nfrom\nold 0.0.1\nnew 0.0.1\nend\n",
        "firn-resize 1\nnumber 1\nprepare 1\nfrom -2\nold 0.0.1\nnew 0.0.1\n"
        "end\n",
        "firn-resize 1\nnumber 1\nprepare 1\nfrom 0\nold 0.0\nnew 0.0.1\nend\n",
        "firn-resize 1\nnumber -1\nprepare 1\nfrom 0\nold 0.0.1\nnew 0.0.1\n"
        "end\n",
        "firn-resize 1\nnumber 1\nprepare 1\nfrom 0\nold 0.0.1\nnew 0.0.1\n"
        "end\nmore\n"};
    struct resize back;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            attempt_put(folder, "resize",
                        (struct firn_bytes){bad[i], strlen(bad[i])}, NULL),
            FIRN_OK);
        if (resize_get(folder, &back) != ATTEMPT_DAMAGED)
            fail_msg("text %zu is read", i);
    }
}

/* GPUs 1 and 2 become 0, 1 and 3: GPU 1 was rank 0, and becomes rank 1. */
static void a_worker_keeps_its_gpu_and_gets_the_rank_of_it(void **state)
{
    struct resize r = {0};
    (void)state;
    r.old = gpus((struct firn_part[]){{0, 0, 6}}, 1);
    r.next = gpus((struct firn_part[]){{0, 0, 11}}, 1);
    resize_ranks(&r);
    assert_int_equal(r.from.n, 3);
    assert_int_equal(r.from.at[0], -1);
    assert_int_equal(r.from.at[1], 0);
    assert_int_equal(r.from.at[2], -1);
    resize_release(&r);
}

static void the_gpus_of_two_allocations_are_joined_in_order(void **state)
{
    struct firn_alloc a = gpus((struct firn_part[]){{1, 0, 3}}, 1);
    struct firn_alloc b =
        gpus((struct firn_part[]){{0, 0, 8}, {1, 0, 6}, {1, 1, 1}}, 3);
    (void)state;
    holding_join(&a, &b);
    assert_int_equal(a.nparts, 3);
    assert_int_equal(a.ngpus, 5);
    assert_int_equal(a.parts[0].node, 0);
    assert_int_equal(a.parts[1].gpus, 7);
    assert_int_equal(a.parts[2].board, 1);
    holding_release(&a);
    holding_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(damaged_files_are_found_out),
        cmocka_unit_test(a_worker_keeps_its_gpu_and_gets_the_rank_of_it),
        cmocka_unit_test(the_gpus_of_two_allocations_are_joined_in_order),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
