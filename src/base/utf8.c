/* utf8.c - characters of UTF-8: the one decoder and the one encoder.
 *
 * RFC 3629: at most four bytes, no surrogates, nothing above U+10FFFF, and the
 * shortest form only. Needs libc alone: libfirn_train has it too.
 */
#include "base/utf8.h"

int utf8_decode(const char *s, size_t n, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)s;
    if (n == 0)
        return -1;
    if (at[0] < 0x80) {
        *out = at[0];
        return 1;
    }
    int length = (at[0] & 0xe0) == 0xc0   ? 2
                 : (at[0] & 0xf0) == 0xe0 ? 3
                 : (at[0] & 0xf8) == 0xf0 ? 4
                                          : 0;
    uint32_t c = at[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n)
            return -1;
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3fu);
    }
    if (length == 0 || c < least[length] || c > 0x10ffff ||
        (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *out = c;
    return length;
}

size_t utf8_encode(uint32_t c, char out[4])
{
    static const unsigned first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[n] | c);
    return n;
}
