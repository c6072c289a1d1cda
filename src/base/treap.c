/* treap.c - a search tree that balances itself by hashed priorities.
 *
 * A treap is a search tree by (key, id) and a heap by priority. With
 * priorities that look random it has the shape of a tree built in random
 * order: expected depth about 2 ln n, whatever the order of the work
 * (Seidel and Aragon, Algorithmica 1996).
 *
 * Insert walks down past the higher priorities, adding the weight on its way,
 * then splits what it meets there into the new node's two sides. Remove walks
 * down taking the weight off and puts the merge of both sides in its place.
 * Both touch O(1) nodes beyond the walk, in expectation, so the split and the
 * merge may recurse.
 *
 * Invariants:
 * (1) left side before the node, right side after it, by (key, id);
 * (2) no child has a higher priority than its parent;
 * (3) sum is weight plus the sums of both sides;
 * (4) priority is a one-to-one function of the id, so it never ties and the
 *     shape does not depend on the order of the work.
 * Not here: parents, ranks. Two items of one tree must not
 * have both key and id in common; a key is never NaN.
 */
#include "base/treap.h"
#include "base/mem.h"
#include <firn/status.h>
#include <math.h>

/* Each step can be undone, so different ids give different results (4). */
static uint32_t priority_of(int id)
{
    uint32_t h = (uint32_t)id + 0x9e3779b9u;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

static bool is_before(const struct treap_node *node, double key, int id)
{
    return node->key < key || (node->key == key && node->id < id);
}

static int64_t sum_of(const struct treap_node *at, int slot)
{
    return slot == TREAP_NONE ? 0 : at[slot].sum;
}

static void add_up(struct treap_node *at, struct treap_node *node)
{
    node->sum = node->weight + sum_of(at, node->left) +
                sum_of(at, node->right); /* (3) */
}

static void make_room(struct treap_pool *pool, int slot)
{
    if ((size_t)slot < pool->n)
        return;
    size_t n = pool->n ? pool->n : 16;
    while (n <= (size_t)slot)
        n *= 2;
    pool->at = mem_grow(pool->at, pool->n, n, sizeof *pool->at);
    pool->n = n;
}

/* Cuts the tree `slot` into those before (key, id) and the others. */
static void split(struct treap_node *at, int slot, double key, int id,
                  int *before, int *others)
{
    if (slot == TREAP_NONE) {
        *before = *others = TREAP_NONE;
        return;
    }
    struct treap_node *node = &at[slot];
    if (is_before(node, key, id)) {
        *before = slot;
        split(at, node->right, key, id, &node->right, others);
    } else {
        *others = slot;
        split(at, node->left, key, id, before, &node->left);
    }
    add_up(at, node);
}

/* One tree of two, all of `a` being before all of `b`. */
static int merge(struct treap_node *at, int a, int b)
{
    if (a == TREAP_NONE)
        return b;
    if (b == TREAP_NONE)
        return a;
    if (at[a].priority > at[b].priority) {
        at[a].sum += at[b].sum;
        at[a].right = merge(at, at[a].right, b);
        return a;
    }
    at[b].sum += at[a].sum;
    at[b].left = merge(at, a, at[b].left);
    return b;
}

void treap_insert(struct treap_pool *pool, int *root, int slot, double key,
                  int id, int weight)
{
    if (slot < 0 || isnan(key))
        FIRN_BUG("treap slot %d with key %g", slot, key);
    make_room(pool, slot);
    struct treap_node *at = pool->at;
    struct treap_node *node = &at[slot];
    *node = (struct treap_node){
        .key = key, .id = id, .weight = weight, .priority = priority_of(id)};
    int *link = root;
    while (*link != TREAP_NONE && at[*link].priority > node->priority) {
        struct treap_node *above = &at[*link];
        above->sum += weight;
        link = is_before(above, key, id) ? &above->right : &above->left;
    }
    int below = *link;
    *link = slot;
    split(at, below, key, id, &node->left, &node->right);
    add_up(at, node);
}

void treap_remove(struct treap_pool *pool, int *root, int slot)
{
    if (slot < 0 || (size_t)slot >= pool->n)
        FIRN_BUG("treap slot %d was never in", slot);
    struct treap_node *at = pool->at;
    struct treap_node *node = &at[slot];
    int *link = root;
    while (*link != slot) {
        if (*link == TREAP_NONE)
            FIRN_BUG("treap slot %d is not in this tree", slot);
        struct treap_node *above = &at[*link];
        above->sum -= node->weight;
        link = is_before(above, node->key, node->id) ? &above->right
                                                     : &above->left;
    }
    *link = merge(at, node->left, node->right);
}

int treap_first(const struct treap_pool *pool, int root)
{
    if (root == TREAP_NONE)
        return TREAP_NONE;
    while (pool->at[root].left != TREAP_NONE)
        root = pool->at[root].left;
    return root;
}

int treap_last(const struct treap_pool *pool, int root)
{
    if (root == TREAP_NONE)
        return TREAP_NONE;
    while (pool->at[root].right != TREAP_NONE)
        root = pool->at[root].right;
    return root;
}

int treap_after(const struct treap_pool *pool, int root, double key, int id)
{
    int after = TREAP_NONE;
    while (root != TREAP_NONE) {
        const struct treap_node *node = &pool->at[root];
        bool is_past =
            !is_before(node, key, id) && (node->key != key || node->id != id);
        after = is_past ? root : after;
        root = is_past ? node->left : node->right;
    }
    return after;
}

int64_t treap_sum_before(const struct treap_pool *pool, int root, double key,
                         int id)
{
    int64_t sum = 0;
    while (root != TREAP_NONE) {
        const struct treap_node *node = &pool->at[root];
        if (is_before(node, key, id)) {
            sum += node->weight + sum_of(pool->at, node->left);
            root = node->right;
        } else {
            root = node->left;
        }
    }
    return sum;
}

int64_t treap_sum(const struct treap_pool *pool, int root)
{
    return sum_of(pool->at, root);
}

void treap_release(struct treap_pool *pool)
{
    if (pool == NULL)
        return;
    mem_free(pool->at);
    *pool = (struct treap_pool){0};
}
