/* str.h - text into numbers, strictly, and back; the nearest of several names.
 */
#ifndef BASE_STR_H
#define BASE_STR_H
#include <stdbool.h>
#include <stddef.h>

/* The whole text is a finite decimal number ("1e3" and " 7 " are; "", "7x",
 * "nan", "0x10" are not). */
bool str_double(const char *text, double *out);
/* The whole text is an integer from min to max; "8.0" is 8. */
bool str_int(const char *text, long min, long max, long *out);
/* The whole text is decimal digits, a number up to max: how an id is written
 * ("17" is one; "1e0", "+1", " 1" and "1.0" are not). */
bool str_id(const char *text, long max, long *out);
/* The fewest digits that read back as the same number; "nan", "inf", "-inf".
 * Returns `out`. Does not depend on the locale. */
enum { STR_DOUBLE_MAX = 32 };
const char *double_text(double value, char out[STR_DOUBLE_MAX]);
bool str_equal_nocase(const char *a, const char *b);
/* Which of names[0..n) is closest in edits to `text`; -1 when none is within
 * a third of its length (at least 2). Ties: the first. */
int str_nearest(const char *text, const char *const *names, size_t n);
/* Copies with truncation, always terminated. Returns false when cut. */
bool str_copy(char *out, size_t size, const char *text);
/* Cuts white space at both ends, in place; returns the first kept byte. */
char *str_trim(char *text);

#endif
