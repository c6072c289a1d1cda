/* tree.c - see tree.h.
 *
 * The blocks of a place are found from the smallest up: thread v begins the
 * largest block whose threads all have v's owner and whose first thread is v.
 * The running sum is a binary counter: before thread o of a block, one sum is
 * held for each bit of o that is set, the largest first.
 *
 * Invariant: blocks are disjoint, rising, and no two of them could be replaced
 * by their parent. Cost: O(V log V).
 */
#include "train/tree.h"
#include <firn/fold.h>
#include <stdbool.h>

const char *firn_sum_name(enum firn_sum sum)
{
    return sum == FIRN_SUM_CHAIN ? "chain" : "tree";
}

size_t firn_tree_split(size_t n)
{
    size_t half = 1;
    while (half * 2 < n)
        half *= 2;
    return half;
}

static bool is_held(const int *owner, int from, int to)
{
    for (int v = from + 1; v < to; v++)
        if (owner[v] != owner[from])
            return false;
    return true;
}

/* The end of the largest block that begins at `from` and has one owner. */
static int block_end(const int *owner, int from, int nthreads)
{
    int end = from + 1;
    for (int size = 2; from % size == 0 && size / 2 < nthreads; size *= 2) {
        int to = size < nthreads - from ? from + size : nthreads;
        if (!is_held(owner, from, to))
            break;
        end = to;
    }
    return end;
}

size_t firn_tree_blocks(struct tree_block *block, const int *owner,
                        int nthreads, int wanted)
{
    size_t n = 0;
    for (int v = 0, end; v < nthreads; v = end) {
        end = block_end(owner, v, nthreads);
        if (wanted < 0 || owner[v] == wanted)
            block[n++] = (struct tree_block){v, end};
    }
    return n;
}

size_t firn_tree_depth(size_t n)
{
    size_t depth = 1;
    while (n > (size_t)1 << depth)
        depth++;
    return depth;
}

size_t firn_tree_held(size_t offset)
{
    size_t n = 0;
    for (; offset != 0; offset &= offset - 1)
        n++;
    return n;
}

size_t firn_tree_merges(size_t offset)
{
    size_t n = 0;
    for (; offset & 1; offset >>= 1)
        n++;
    return n;
}
