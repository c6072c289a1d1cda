/* threads.h - the contexts of elastic threads.
 *
 * A virtual rank carries what a process of its own would have had: the states
 * of its random generators, buffers such as BatchNorm's, its place in the data.
 * Weights and optimiser are shared and are not here. Parts are named once;
 * enter() puts the parts of one thread in place, leave() takes them out again,
 * at the boundary of a mini-batch (EasyScale, section 3.2).
 *
 * A part is live memory that is copied, or a pair of functions for state that
 * cannot be reached by a pointer. Switching costs one copy of the parts each
 * way; entering the thread that is in place costs nothing.
 */
#ifndef FIRN_THREADS_H
#define FIRN_THREADS_H
#include <firn/ckpt.h>
#include <firn/status.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_threads;

/* Contexts for the `n` threads of `id` (rising, of the job's numbering). */
FIRN_API enum firn_status firn_threads_new(struct firn_threads **out,
                                           const int *id, size_t n,
                                           struct firn_error *err);
FIRN_API void firn_threads_free(struct firn_threads *threads);

/* A part of `nbytes` at `live`. Every thread starts with what is there now.
 * Names are unique, without '/'; parts are named before the first enter. */
FIRN_API enum firn_status firn_threads_part(struct firn_threads *threads,
                                            const char *name, void *live,
                                            size_t nbytes,
                                            struct firn_error *err);
/* A part by functions: `save` writes at most `max` bytes and returns how many
 * (more than max: a failure), `load` reads them back. */
struct firn_threads_by {
    size_t max;
    size_t (*save)(void *arg, void *bytes);
    void (*load)(void *arg, const void *bytes, size_t n);
    void *arg;
};
FIRN_API enum firn_status firn_threads_part_by(struct firn_threads *threads,
                                               const char *name,
                                               const struct firn_threads_by *by,
                                               struct firn_error *err);

/* The thread in place; -1: none. Entering takes out the thread that is in
 * place; leaving without one does nothing. A thread that cannot be taken out
 * stays. */
FIRN_API int firn_threads_inside(const struct firn_threads *threads);
FIRN_API enum firn_status firn_threads_enter(struct firn_threads *threads,
                                             int id, struct firn_error *err);
FIRN_API enum firn_status firn_threads_leave(struct firn_threads *threads,
                                             struct firn_error *err);

/* A thread's stored bytes of a part, to read or to write (its size is in
 * *nbytes; a part by functions may be shorter). NULL: no such. The thread must
 * not be inside. */
FIRN_API void *firn_threads_stored(struct firn_threads *threads, int id,
                                   const char *name, size_t *nbytes);

/* All stored parts as one opaque blob and back: what processes send each other
 * and what a checkpoint holds ("thread/<id>/<part>"). No thread may be in
 * place. */
FIRN_API enum firn_status firn_threads_pack(const struct firn_threads *threads,
                                            void **bytes, size_t *nbytes,
                                            struct firn_error *err);
FIRN_API void firn_threads_pack_free(void *bytes);
/* Writes every thread in a packed blob (of any process) into a checkpoint. */
FIRN_API enum firn_status firn_threads_write(const void *bytes, size_t nbytes,
                                             struct firn_ckpt_writer *writer,
                                             struct firn_error *err);
/* Fills the contexts of these threads; one that is missing, or has a part of
 * another size, is an error that names it and changes nothing. */
FIRN_API enum firn_status firn_threads_read(struct firn_threads *threads,
                                            const struct firn_ckpt *ckpt,
                                            struct firn_error *err);

/* Seconds spent in enter and leave, and how many switches, since the start. */
FIRN_API void firn_threads_cost(const struct firn_threads *threads,
                                double *switch_s, uint64_t *nswitches);

FIRN_C_END

#endif
