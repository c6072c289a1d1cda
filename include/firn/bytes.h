/* bytes.h - a borrowed run of bytes, and a buffer that grows.
 *
 * `struct firn_bytes` points into memory somebody else owns. `struct
 * firn_buf` owns its memory; its `at` is always NUL-terminated once anything
 * has been added, so it can be read as a C string. The functions that fill a
 * buffer are in base/buf.h.
 */
#ifndef FIRN_BYTES_H
#define FIRN_BYTES_H
#include <stddef.h>

struct firn_bytes {
    const char *at;
    size_t n;
};

struct firn_buf {
    char *at;
    size_t n, cap;
};

#endif
