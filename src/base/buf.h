/* buf.h - filling a struct firn_buf: text, numbers, JSON strings.
 *
 * Numbers are written with the fewest digits that read back as the same
 * double, so output has all its digits and no noise: 20023.4736, not
 * 20023.473600000001.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include "base/str.h"
#include <firn/bytes.h>

void buf_add(struct firn_buf *buf, const char *bytes, size_t n);
void buf_puts(struct firn_buf *buf, const char *text);
void buf_putc(struct firn_buf *buf, char c);
void buf_printf(struct firn_buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Shortest form that reads back equal; "nan", "inf", "-inf". */
void buf_double(struct firn_buf *buf, double value);
/* JSON (base/jsonwrite.h has the rest): a number, null when it is not finite.
 */
void buf_json_double(struct firn_buf *buf, double value);
/* JSON: quoted and escaped; bytes that are not UTF-8 become U+FFFD. */
void buf_json_string(struct firn_buf *buf, const char *text);
/* CSV: quoted when it must be. */
void buf_csv_string(struct firn_buf *buf, const char *text);
/* Empties it, keeps the memory. */
void buf_clear(struct firn_buf *buf);
void buf_release(struct firn_buf *buf);

#endif
