/* test_heap.c - the heap against a plain array searched from end to end. */
#include "base/heap.h"
#include "base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ITEMS = 300, STEPS = 20000 };

static void the_earliest_comes_out_first(void **state)
{
    (void)state;
    struct heap heap = {0};
    assert_null(heap_top(&heap));
    heap_set(&heap, 5, 30.0, 0);
    heap_set(&heap, 2, 10.0, 1);
    heap_set(&heap, 9, 20.0, 2);
    int order[] = {2, 9, 5};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_top(&heap)->item, order[i]);
        heap_remove(&heap, order[i]);
    }
    assert_null(heap_top(&heap));
    heap_release(&heap);
    heap_release(NULL);
}

static void equal_keys_come_out_by_order(void **state)
{
    (void)state;
    struct heap heap = {0};
    for (int i = 0; i < 100; i++)
        heap_set(&heap, i, 1.0, (uint64_t)(i * 37 % 100));
    for (uint64_t want = 0; want < 100; want++) {
        assert_int_equal(heap_top(&heap)->order, want);
        heap_remove(&heap, heap_top(&heap)->item);
    }
    heap_release(&heap);
}

static void removing_what_is_not_in_does_nothing(void **state)
{
    (void)state;
    struct heap heap = {0};
    heap_remove(&heap, 3);
    heap_set(&heap, 1, 1.0, 1);
    heap_remove(&heap, 1000000);
    heap_remove(&heap, -1);
    heap_remove(&heap, 0);
    assert_true(heap_has(&heap, 1));
    assert_false(heap_has(&heap, 0));
    assert_false(heap_has(&heap, -1));
    heap_release(&heap);
}

struct oracle {
    bool is_in[ITEMS];
    double key[ITEMS];
    uint64_t order[ITEMS];
};

static int earliest(const struct oracle *o)
{
    int best = -1;
    for (int i = 0; i < ITEMS; i++)
        if (o->is_in[i] &&
            (best < 0 || o->key[i] < o->key[best] ||
             (o->key[i] == o->key[best] && o->order[i] < o->order[best])))
            best = i;
    return best;
}

static void random_step(struct heap *heap, struct oracle *o, struct rng *rng,
                        uint64_t step)
{
    int item = (int)rng_below(rng, ITEMS);
    uint64_t what = rng_below(rng, 4);
    if (what == 0 || (what == 1 && heap->n > ITEMS / 2)) {
        int top = earliest(o);
        if (what == 1 && top >= 0)
            item = top;
        heap_remove(heap, item);
        o->is_in[item] = false;
        return;
    }
    o->is_in[item] = true;
    o->key[item] = (double)rng_below(rng, 20) - 10.0; /* many ties */
    o->order[item] = step;
    heap_set(heap, item, o->key[item], step);
}

static void random_work_agrees_with_a_plain_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct heap heap = {0};
        struct oracle o = {0};
        struct rng rng;
        rng_seed(&rng, seed);
        for (uint64_t step = 0; step < STEPS; step++) {
            random_step(&heap, &o, &rng, step);
            int want = earliest(&o);
            const struct heap_item *top = heap_top(&heap);
            if ((top ? top->item : -1) != want)
                fail_msg("seed %d step %d: top %d, not %d", (int)seed,
                         (int)step, top ? top->item : -1, want);
        }
        for (int i = 0; i < ITEMS; i++)
            assert_int_equal(heap_has(&heap, i), o.is_in[i]);
        heap_release(&heap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_comes_out_first),
        cmocka_unit_test(equal_keys_come_out_by_order),
        cmocka_unit_test(removing_what_is_not_in_does_nothing),
        cmocka_unit_test(random_work_agrees_with_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
