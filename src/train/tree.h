/* tree.h - the shape of the tree in which a job's gradients are summed.
 *
 * Internal to train/; firn/fold.h defines the shape. Every node of the tree
 * over V threads is an aligned block: threads i * 2^k to (i + 1) * 2^k - 1,
 * without those from V on. Two neighbouring blocks of the same 2^k whose first
 * has an even i are summed to the block of 2^(k + 1).
 */
#ifndef TRAIN_TREE_H
#define TRAIN_TREE_H
#include <stddef.h>

/* An aligned block: threads first to end - 1. */
struct tree_block {
    int first, end;
};

/* The largest power of two below n, which is at least 2: where n threads are
 * split. */
size_t firn_tree_split(size_t n);

/* The largest aligned blocks whose threads have one owner (a process, or a
 * host). Fills `block` (room for nthreads) with those of `wanted`, or of all
 * owners when that is negative, rising; returns their number. */
size_t firn_tree_blocks(struct tree_block *block, const int *owner,
                        int nthreads, int wanted);

/* Vectors that the running sum of a block of n threads needs at most. */
size_t firn_tree_depth(size_t n);

/* Thread `offset` of a block comes next. How many sums are held before it, and
 * with how many of them, from the last, it is merged: 0: it is held by itself.
 * With 1 it is added to the last one; with m the last m - 1 results are added
 * to the one before in turn. */
size_t firn_tree_held(size_t offset);
size_t firn_tree_merges(size_t offset);

#endif
