/* heap.h - a priority queue by key, then by order, with updates.
 *
 * An item is a small non-negative integer (a slot, a node) that is in the heap
 * at most once; its key can be changed or it can be taken out at any time.
 * Ties go to the lower `order`, so equal times come out the same way on every
 * run.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_item {
    double key;
    uint64_t order;
    int item;
};

/* A zeroed struct is a valid empty heap. */
struct heap {
    struct heap_item *at;
    size_t n, cap;
    int *place; /* place[item]: 1 + index in at[], 0 when not in */
    size_t nplace;
};

/* Puts `item` in, or moves it when it is in already. O(log n). */
void heap_set(struct heap *heap, int item, double key, uint64_t order);
/* Takes it out; nothing happens when it is not in. O(log n). */
void heap_remove(struct heap *heap, int item);
/* The earliest item, or NULL. O(1). Valid until the next change. */
const struct heap_item *heap_top(const struct heap *heap);
bool heap_has(const struct heap *heap, int item);
void heap_release(struct heap *heap);

#endif
