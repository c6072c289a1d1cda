/* heap.c - a 4-ary heap that knows where each item is.
 *
 *      at[0]                  children of i: 4i+1 .. 4i+4
 *      at[1] at[2] at[3] at[4]
 *      at[5] ...
 *
 * Four children rather than two: half the levels, and the four lie next to
 * each other in memory.
 *
 * Invariants:
 * (1) no item is earlier than its parent, by (key, order);
 * (2) place[at[i].item] == i + 1, and 0 for every item that is not in.
 * Cost: O(log n) a change, O(1) for the top. Two items with the same key and
 * the same order come out in no promised order, so orders should differ.
 */
#include "base/heap.h"
#include "base/mem.h"
#include <firn/status.h>
#include <math.h>

enum { ARITY = 4 };

static bool is_earlier(const struct heap_item *a, const struct heap_item *b)
{
    return a->key < b->key || (a->key == b->key && a->order < b->order);
}

static void put(struct heap *heap, size_t i, struct heap_item entry)
{
    heap->at[i] = entry;
    heap->place[entry.item] = (int)i + 1; /* (2) */
}

static void sift_up(struct heap *heap, size_t i, struct heap_item entry)
{
    while (i > 0) {
        size_t parent = (i - 1) / ARITY;
        if (!is_earlier(&entry, &heap->at[parent]))
            break;
        put(heap, i, heap->at[parent]);
        i = parent;
    }
    put(heap, i, entry);
}

static size_t earliest_child(const struct heap *heap, size_t i)
{
    size_t first = ARITY * i + 1;
    size_t end = first + ARITY < heap->n ? first + ARITY : heap->n;
    size_t best = first;
    for (size_t c = first + 1; c < end; c++)
        if (is_earlier(&heap->at[c], &heap->at[best]))
            best = c;
    return best;
}

static void sift_down(struct heap *heap, size_t i, struct heap_item entry)
{
    while (ARITY * i + 1 < heap->n) {
        size_t child = earliest_child(heap, i);
        if (!is_earlier(&heap->at[child], &entry))
            break;
        put(heap, i, heap->at[child]);
        i = child;
    }
    put(heap, i, entry);
}

/* Puts `entry` at the hole `i`, or where it belongs from there. */
static void settle(struct heap *heap, size_t i, struct heap_item entry)
{
    if (i > 0 && is_earlier(&entry, &heap->at[(i - 1) / ARITY]))
        sift_up(heap, i, entry);
    else
        sift_down(heap, i, entry);
}

static void make_room(struct heap *heap, int item)
{
    if ((size_t)item >= heap->nplace) {
        size_t n = heap->nplace ? heap->nplace : 16;
        while (n <= (size_t)item)
            n *= 2;
        heap->place =
            mem_grow(heap->place, heap->nplace, n, sizeof *heap->place);
        heap->nplace = n;
    }
    if (heap->n == heap->cap) {
        size_t cap = heap->cap ? 2 * heap->cap : 16;
        heap->at = mem_grow(heap->at, heap->cap, cap, sizeof *heap->at);
        heap->cap = cap;
    }
}

void heap_set(struct heap *heap, int item, double key, uint64_t order)
{
    if (item < 0 || isnan(key))
        FIRN_BUG("heap item %d with key %g", item, key);
    struct heap_item entry = {.key = key, .order = order, .item = item};
    make_room(heap, item);
    if (heap->place[item] != 0)
        settle(heap, (size_t)heap->place[item] - 1, entry);
    else
        sift_up(heap, heap->n++, entry);
}

void heap_remove(struct heap *heap, int item)
{
    if (!heap_has(heap, item))
        return;
    size_t hole = (size_t)heap->place[item] - 1;
    heap->place[item] = 0;
    heap->n--;
    if (hole < heap->n)
        settle(heap, hole, heap->at[heap->n]);
}

const struct heap_item *heap_top(const struct heap *heap)
{
    return heap->n > 0 ? &heap->at[0] : NULL;
}

bool heap_has(const struct heap *heap, int item)
{
    return item >= 0 && (size_t)item < heap->nplace && heap->place[item] != 0;
}

void heap_release(struct heap *heap)
{
    if (heap == NULL)
        return;
    mem_free(heap->at);
    mem_free(heap->place);
    *heap = (struct heap){0};
}
