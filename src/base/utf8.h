/* utf8.h - characters of UTF-8: the one decoder and the one encoder.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_BAD = 0xfffd }; /* what replaces a byte that is not UTF-8 */

/* Returns how many bytes the character at s[0..n) has and stores it; 0 when
 * they are not UTF-8; -1 when all `n` bytes may be the beginning of one. Only
 * the shortest form is UTF-8: a longer one could hide a control character. */
int utf8_decode(const char *s, size_t n, uint32_t *out);
/* Writes a character; returns how many bytes it has. */
size_t utf8_encode(uint32_t c, char out[4]);

/* Is it the first byte of a character? Counting those counts characters. */
static inline bool utf8_is_first(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

#endif
