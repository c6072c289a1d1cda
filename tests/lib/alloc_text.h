/* alloc_text.h - allocations from text, and free GPUs as text, for tests.
 *
 * The text is that of firn_alloc_print(): "n0[0-3] n7[1,3]~".
 */
#ifndef LIB_ALLOC_TEXT_H
#define LIB_ALLOC_TEXT_H
#include "base/arena.h"
#include "core/freemap.h"

/* Reads it; the parts live in `arena`. Fails the test on a bad text. Nodes and
 * GPUs need not exist, and come in the order of the text. */
struct firn_alloc alloc_read(const char *text, struct arena *arena);

/* Everything a map knows, after checking that its sums and buckets agree with
 * its boards: two maps with the same text are the same. The caller releases
 * it. */
struct firn_buf freemap_text(const struct freemap *map);

#endif
