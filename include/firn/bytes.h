/* bytes.h - a borrowed run of bytes, and a buffer that grows.
 *
 * `struct firn_bytes` points into memory that another object owns. `struct
 * firn_buf` owns its memory: start from {0}, give it back with
 * firn_buf_release(). Its `at` is NULL until something was added and
 * NUL-terminated from then on, so that it can be read as a C string.
 */
#ifndef FIRN_BYTES_H
#define FIRN_BYTES_H
#include <firn/api.h>
#include <stddef.h>

FIRN_C_BEGIN

struct firn_bytes {
    const char *at;
    size_t n;
};

struct firn_buf {
    char *at;
    size_t n, cap;
};

/* Appends `n` bytes. */
FIRN_API void firn_buf_add(struct firn_buf *buf, const void *bytes, size_t n);

/* Frees its memory; the buffer is empty then and may be used again. */
FIRN_API void firn_buf_release(struct firn_buf *buf);

FIRN_C_END

#endif
