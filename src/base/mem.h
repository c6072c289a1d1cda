/* mem.h - allocation that aborts instead of failing.
 *
 * Running out of memory aborts with a message; callers do not check. Only base/
 * calls malloc.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H
#include <stddef.h>

/* Zeroed; never NULL, even for zero bytes. Free with mem_free. */
void *mem_new(size_t count, size_t size);

/* Grows `at` from `old` to `count` elements of `size` bytes; the new ones are
 * zeroed. Returns the new place. */
void *mem_grow(void *at, size_t old, size_t count, size_t size);

char *mem_strdup(const char *text);

/* NULL is fine. */
void mem_free(void *at);

#endif
