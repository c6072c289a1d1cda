/* arena.h - memory that is freed all at once.
 *
 * Allocation is a pointer bump, zeroed and never NULL. Reset keeps the largest
 * chunk, so a round that runs ten million times allocates from the system a
 * handful of times. A large chunk of which little was used is given back.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *top; /* newest chunk; older ones behind it */
    size_t used;             /* bytes used in `top` */
    size_t total;            /* bytes handed out since the last reset */
};

/* A zeroed struct is a valid empty arena. */
void arena_init(struct arena *arena);
void *arena_alloc(struct arena *arena, size_t bytes);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Everything handed out is gone; the memory is kept for reuse. */
void arena_reset(struct arena *arena);
void arena_release(struct arena *arena);

#endif
