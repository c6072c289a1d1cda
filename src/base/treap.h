/* treap.h - an ordered set of slots with running sums.
 *
 * Items are small non-negative integers (slots) with a key, a tie-breaking id
 * and a weight. Ordered by (key, id). Several trees may share one pool of
 * nodes as long as a slot is in at most one of them. Shape depends only on
 * the ids, through a fixed hash, so everything is repeatable.
 */
#ifndef BASE_TREAP_H
#define BASE_TREAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct treap_node {
    double key;
    int64_t sum;     /* weights in the subtree */
    int id, weight;  /* id breaks ties */
    int left, right; /* slots, -1 for none */
    uint32_t priority;
};

struct treap_pool {
    struct treap_node *at; /* by slot */
    size_t n;
};

enum { TREAP_NONE = -1 };

/* `root` is a slot or TREAP_NONE, held by the caller. All O(log n). */
void treap_insert(struct treap_pool *pool, int *root, int slot, double key,
                  int id, int weight);
void treap_remove(struct treap_pool *pool, int *root, int slot);
/* First and last in order, or TREAP_NONE. */
int treap_first(const struct treap_pool *pool, int root);
int treap_last(const struct treap_pool *pool, int root);
/* The first item after (key, id), which need not be in; or TREAP_NONE. */
int treap_after(const struct treap_pool *pool, int root, double key, int id);
/* Sum of the weights of all items before (key, id). */
int64_t treap_sum_before(const struct treap_pool *pool, int root, double key,
                         int id);
int64_t treap_sum(const struct treap_pool *pool, int root);
void treap_release(struct treap_pool *pool);

#endif
