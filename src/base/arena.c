/* arena.c - a chain of chunks, each at least twice the one before.
 *
 * Invariants:
 * (1) every address handed out is aligned for any type;
 * (2) after a reset at most one chunk is left, the largest, so the steady state
 *     of a repeated round is one chunk and no malloc;
 * (3) none is left that is above SHRINK_FROM and of which less than a
 *     SHRINK_BY-th was used: one large round among small ones does not keep its
 *     memory.
 * Cost: O(bytes) for zeroing, O(1) otherwise.
 */
#include "base/arena.h"
#include "base/mem.h"
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *below;
    size_t size;
    alignas(max_align_t) char bytes[];
};

enum { FIRST_BYTES = 4096, SHRINK_FROM = 1 << 20, SHRINK_BY = 8 };

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

static void add_chunk(struct arena *arena, size_t bytes)
{
    size_t size = arena->top ? 2 * arena->top->size : FIRST_BYTES;
    while (size < bytes)
        size *= 2;
    struct arena_chunk *chunk = mem_new(1, sizeof *chunk + size);
    chunk->below = arena->top;
    chunk->size = size;
    arena->top = chunk;
    arena->used = 0;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    size_t align = alignof(max_align_t);
    bytes = (bytes + align - 1) / align * align;
    if (arena->top == NULL || arena->top->size - arena->used < bytes)
        add_chunk(arena, bytes);
    char *at = arena->top->bytes + arena->used;
    arena->used += bytes;
    arena->total += bytes;
    return memset(at, 0, bytes);
}

char *arena_strdup(struct arena *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(arena_alloc(arena, n), text, n);
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *text = arena_alloc(arena, n < 0 ? 1 : (size_t)n + 1);
    if (n > 0)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

static void free_below(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *below = chunk->below;
        mem_free(chunk);
        chunk = below;
    }
}

void arena_reset(struct arena *arena)
{
    if (arena->top == NULL)
        return;
    if (arena->top->size > SHRINK_FROM &&
        arena->total < arena->top->size / SHRINK_BY) {
        arena_release(arena); /* (3) */
        return;
    }
    free_below(arena->top->below); /* (2): chunks only grow */
    arena->top->below = NULL;
    arena->used = arena->total = 0;
}

void arena_release(struct arena *arena)
{
    if (arena == NULL)
        return;
    free_below(arena->top);
    *arena = (struct arena){0};
}
