/* rehome.h - contexts of threads that move to another process (contexts.c).
 */
#ifndef TRAIN_REHOME_H
#define TRAIN_REHOME_H
#include <firn/threads.h>

/* Contexts of the `n` threads of `id`, with the parts of `like`, filled from
 * packed blobs of several processes one behind the other. FIRN_ENOENT: a thread
 * or a part is missing; `like` is not changed in any case. */
enum firn_status firn_threads_rehome(struct firn_threads **out,
                                     const struct firn_threads *like,
                                     const int *id, size_t n, const void *blobs,
                                     size_t nbytes, struct firn_error *err);
/* Swaps what two handles mean; costs measured so far stay with their handle. */
void firn_threads_swap(struct firn_threads *a, struct firn_threads *b);

#endif
