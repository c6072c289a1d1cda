/* test_treap.c - the treap against a sorted array; its shape and its depth. */
#include "base/rng.h"
#include "base/treap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { SLOTS = 256, STEPS = 6000 };

static void an_empty_tree_has_no_first_and_no_sum(void **state)
{
    (void)state;
    struct treap_pool pool = {0};
    assert_int_equal(treap_first(&pool, TREAP_NONE), TREAP_NONE);
    assert_int_equal(treap_last(&pool, TREAP_NONE), TREAP_NONE);
    assert_int_equal(treap_sum(&pool, TREAP_NONE), 0);
    assert_int_equal(treap_sum_before(&pool, TREAP_NONE, 1e9, 1), 0);
    treap_release(&pool);
    treap_release(NULL);
}

static void two_trees_share_one_pool(void **state)
{
    (void)state;
    struct treap_pool pool = {0};
    int odd = TREAP_NONE, even = TREAP_NONE;
    for (int i = 0; i < 1000; i++)
        treap_insert(&pool, i % 2 ? &odd : &even, i, -i, i, 1);
    assert_int_equal(treap_first(&pool, odd), 999);
    assert_int_equal(treap_last(&pool, odd), 1);
    assert_int_equal(treap_first(&pool, even), 998);
    assert_int_equal(treap_sum(&pool, odd), 500);
    assert_int_equal(treap_sum_before(&pool, even, -500.0, 500), 249);
    treap_remove(&pool, &odd, 999);
    treap_insert(&pool, &even, 999, -999.0, 999, 7);
    assert_int_equal(treap_sum(&pool, odd), 499);
    assert_int_equal(treap_sum(&pool, even), 507);
    assert_int_equal(treap_first(&pool, even), 999);
    treap_release(&pool);
}

struct oracle {
    int n, slot[SLOTS];
    double key[SLOTS];
    int id[SLOTS], weight[SLOTS]; /* by slot */
};

static bool before(double key, int id, double other, int other_id)
{
    return key < other || (key == other && id < other_id);
}

static void oracle_insert(struct oracle *o, int slot)
{
    int i = o->n++;
    for (; i > 0; i--) {
        int prev = o->slot[i - 1];
        if (before(o->key[prev], o->id[prev], o->key[slot], o->id[slot]))
            break;
        o->slot[i] = prev;
    }
    o->slot[i] = slot;
}

static void oracle_remove(struct oracle *o, int slot)
{
    int i = 0;
    while (o->slot[i] != slot)
        i++;
    o->n--;
    memmove(&o->slot[i], &o->slot[i + 1], sizeof(int) * (size_t)(o->n - i));
}

static int64_t oracle_sum(const struct oracle *o, double key, int id)
{
    int64_t sum = 0;
    for (int i = 0; i < o->n; i++) {
        int slot = o->slot[i];
        if (before(o->key[slot], o->id[slot], key, id))
            sum += o->weight[slot];
    }
    return sum;
}

static int oracle_after(const struct oracle *o, double key, int id)
{
    for (int i = 0; i < o->n; i++) {
        int slot = o->slot[i];
        if (before(key, id, o->key[slot], o->id[slot]))
            return slot;
    }
    return TREAP_NONE;
}

static bool is_in(const struct oracle *o, int slot)
{
    for (int i = 0; i < o->n; i++)
        if (o->slot[i] == slot)
            return true;
    return false;
}

static void random_step(struct treap_pool *pool, int *root, struct oracle *o,
                        struct rng *rng)
{
    int slot = (int)rng_below(rng, SLOTS);
    if (is_in(o, slot)) {
        treap_remove(pool, root, slot);
        oracle_remove(o, slot);
        return;
    }
    o->key[slot] = (double)rng_below(rng, 12) - 6.0; /* many ties */
    o->id[slot] = slot * 7 % SLOTS;
    o->weight[slot] = (int)rng_below(rng, 9);
    treap_insert(pool, root, slot, o->key[slot], o->id[slot], o->weight[slot]);
    oracle_insert(o, slot);
}

static void random_work_agrees_with_a_sorted_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct treap_pool pool = {0};
        struct oracle o = {0};
        struct rng rng;
        int root = TREAP_NONE;
        rng_seed(&rng, seed);
        for (int step = 0; step < STEPS; step++) {
            random_step(&pool, &root, &o, &rng);
            double key = (double)rng_below(&rng, 14) - 7.0;
            int id = (int)rng_below(&rng, SLOTS);
            int first = o.n ? o.slot[0] : TREAP_NONE;
            int last = o.n ? o.slot[o.n - 1] : TREAP_NONE;
            if (treap_first(&pool, root) != first ||
                treap_last(&pool, root) != last ||
                treap_after(&pool, root, key, id) !=
                    oracle_after(&o, key, id) ||
                treap_sum(&pool, root) != oracle_sum(&o, 1e9, 0) ||
                treap_sum_before(&pool, root, key, id) !=
                    oracle_sum(&o, key, id))
                fail_msg("seed %d step %d: not as the sorted array", (int)seed,
                         step);
        }
        treap_release(&pool);
    }
}

static void the_order_of_the_work_leaves_no_trace(void **state)
{
    (void)state;
    struct treap_pool up = {0}, down = {0};
    int up_root = TREAP_NONE, down_root = TREAP_NONE;
    for (int i = 0; i < 500; i++) {
        treap_insert(&up, &up_root, i, i % 10, i, 1);
        treap_insert(&down, &down_root, 499 - i, (499 - i) % 10, 499 - i, 1);
    }
    assert_int_equal(up_root, down_root);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(up.at[i].left, down.at[i].left);
        assert_int_equal(up.at[i].right, down.at[i].right);
        assert_int_equal(up.at[i].sum, down.at[i].sum);
    }
    treap_release(&up);
    treap_release(&down);
}

static int depth(const struct treap_pool *pool, int slot)
{
    if (slot == TREAP_NONE)
        return 0;
    int left = depth(pool, pool->at[slot].left);
    int right = depth(pool, pool->at[slot].right);
    return 1 + (left > right ? left : right);
}

static void sorted_input_keeps_the_tree_shallow(void **state)
{
    (void)state;
    struct treap_pool pool = {0};
    int root = TREAP_NONE;
    for (int i = 0; i < 100000; i++)
        treap_insert(&pool, &root, i, i, i, 1);
    assert_in_range(depth(&pool, root), 17, 60);
    treap_release(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_tree_has_no_first_and_no_sum),
        cmocka_unit_test(two_trees_share_one_pool),
        cmocka_unit_test(random_work_agrees_with_a_sorted_array),
        cmocka_unit_test(the_order_of_the_work_leaves_no_trace),
        cmocka_unit_test(sorted_input_keeps_the_tree_shallow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
