/* jobvalue.h - times, sizes, shares, dates, ranges and commands from text.
 *
 * Each returns NULL after writing `out`, or else what the text should have
 * been: "a time such as 90s, 45m, 2h or 1h30m".
 */
#ifndef CORE_JOBVALUE_H
#define CORE_JOBVALUE_H
#include <stdbool.h>
#include <stddef.h>

/* "90s", "45m", "2h", "1d", "1h30m"; a number alone is seconds. Up to ten
 * years. */
const char *value_time_s(const char *text, double *out);
/* "40", "40GiB", "900 MiB", "16GB"; GiB when it is a number alone. */
const char *value_gib(const char *text, double *out);
/* "90%" or "0.9": in (0, 1]. */
const char *value_share(const char *text, double *out);
/* "2026-11-20T18:00Z", "2026-11-20 18:00:00+01:00": seconds since 1970. The
 * time zone must be given. */
const char *value_date_s(const char *text, double *out);
/* "4" or "1..8", up to `most`. */
const char *value_range(const char *text, int most, int *min, int *max);
/* A name of a job or queue: letters, digits and . _ -, not only digits. */
const char *value_name(const char *text);
/* Splits a command at blanks, outside of '...' and "...", which are taken as
 * they are; characters that only a shell understands are refused. The words end
 * with NULL; value_words_free() frees them. */
const char *value_words(const char *text, char ***out);
void value_words_free(char **words);

#endif
