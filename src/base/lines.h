/* lines.h - a file read line by line, with line numbers and seeking.
 *
 * Lines end in \n or \r\n, the last may end in nothing. A NUL byte or a line
 * over LINES_MAX bytes makes that line too_long/has_nul: the text is then ""
 * and the caller says so; reading goes on with the next line.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H
#include <firn/bytes.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stdint.h>

enum { LINES_MAX = 1 << 16 };

struct lines;

/* The caller closes it. The second reads from memory that the caller keeps. */
enum firn_status lines_open(struct lines **out, const char *path,
                            struct firn_error *err);
struct lines *lines_from(struct firn_bytes bytes);

/* The next line without its end, in memory that lives until the next call and
 * that the caller may scribble on; NULL at the end. */
char *lines_next(struct lines *lines);
/* Of the line just read: its number (from 1), where it starts, whether it was
 * unusable. */
long lines_number(const struct lines *lines);
int64_t lines_offset(const struct lines *lines);
bool lines_bad(const struct lines *lines);
/* Goes to a place that lines_offset gave, where line `number` starts. */
void lines_seek(struct lines *lines, int64_t offset, long number);
/* Bytes read and bytes in all (-1: not known, a pipe). */
int64_t lines_at(const struct lines *lines);
int64_t lines_size(const struct lines *lines);
/* A read error happened (not the end of the file). */
bool lines_failed(const struct lines *lines);
void lines_close(struct lines *lines);

#endif
