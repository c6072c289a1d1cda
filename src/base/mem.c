/* mem.c - malloc that aborts instead of failing.
 *
 * Why abort: a scheduler's state is on disk, and a restart recovers it; code
 * that continues after a failed allocation is never tested.
 */
#include "base/mem.h"
#include <firn/status.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *mem_new(size_t count, size_t size)
{
    void *at = calloc(count ? count : 1, size ? size : 1);
    if (at == NULL)
        FIRN_BUG("out of memory for %zu x %zu bytes", count, size);
    return at;
}

void *mem_grow(void *at, size_t old, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        FIRN_BUG("%zu x %zu bytes do not fit in memory", count, size);
    char *grown = realloc(at, count * size);
    if (grown == NULL)
        FIRN_BUG("out of memory for %zu x %zu bytes", count, size);
    if (count > old)
        memset(grown + old * size, 0, (count - old) * size);
    return grown;
}

char *mem_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(mem_new(n, 1), text, n);
}

void mem_free(void *at)
{
    free(at);
}
