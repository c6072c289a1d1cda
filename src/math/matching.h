/* matching.h - the heaviest matching of a graph that need not be bipartite.
 *
 * A matching is a set of edges without a common end; the heaviest has the
 * largest sum of weights. Edges of weight 0 or less are never in it. Exact:
 * weights are taken to 50 bits of the largest and everything after that is
 * integer arithmetic, with a proof that can be checked.
 */
#ifndef MATH_MATCHING_H
#define MATH_MATCHING_H
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct matching; /* working memory, and the proof of the last answer */

/* For graphs of up to `most` vertices; lives as long as `arena`. About
 * 30 most^2 bytes. */
struct matching *matching_new(struct arena *arena, size_t most);

/* weight[i * n + j], i < j, is the weight of the edge between i and j; the
 * rest is not read. A weight may be minus infinity, but not NaN or infinite.
 * Writes to partner[i] the other end of i's edge, or -1, and returns the sum of
 * the weights. O(n^3), nothing is allocated. */
double matching_solve(struct matching *m, size_t n, const double *weight,
                      int *partner);

/* Do the dual values of the last solve prove its answer the heaviest? True
 * unless there is a bug. O(n^2), and O(size^2) for each blossom. */
bool matching_is_proven(const struct matching *m);

#endif
