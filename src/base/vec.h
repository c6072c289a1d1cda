/* vec.h - an array that grows: struct { T *at; size_t n, cap; }.
 *
 * VEC(int) ids = {0}; vec_add(&ids, 3); ids.at[0]; vec_release(&ids).
 * Macros because C has no other way to keep the element type.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H
#include "base/mem.h"

#define VEC(type)      \
    struct {           \
        type *at;      \
        size_t n, cap; \
    }

/* Room for `count` elements in all; the new ones are zeroed. */
#define vec_reserve(v, count)                                                 \
    do {                                                                      \
        size_t vec_want_ = (count);                                           \
        if (vec_want_ > (v)->cap) {                                           \
            size_t vec_cap_ = (v)->cap ? 2 * (v)->cap : 8;                    \
            if (vec_cap_ < vec_want_)                                         \
                vec_cap_ = vec_want_;                                         \
            (v)->at = mem_grow((v)->at, (v)->cap, vec_cap_, sizeof *(v)->at); \
            (v)->cap = vec_cap_;                                              \
        }                                                                     \
    } while (0)

#define vec_add(v, value)             \
    do {                              \
        vec_reserve((v), (v)->n + 1); \
        (v)->at[(v)->n++] = (value);  \
    } while (0)

#define vec_release(v)     \
    do {                   \
        mem_free((v)->at); \
        (v)->at = NULL;    \
        (v)->n = 0;        \
        (v)->cap = 0;      \
    } while (0)

#endif
