/* jobfile_value.h - the values of a job file, each from its text.
 *
 * Each returns NULL and writes `out`, or says what it should have been: "a time
 * such as 90s, 45m, 2h or 1h30m".
 */
#ifndef DAEMON_JOBFILE_VALUE_H
#define DAEMON_JOBFILE_VALUE_H
#include <stdbool.h>
#include <stddef.h>

/* "90s", "45m", "2h", "1d", "1h30m"; a number alone is seconds. Up to ten
 * years. */
const char *value_time_s(const char *text, double *out);
/* "40", "40GiB", "900 MiB", "16GB"; GiB when it is a number alone. */
const char *value_gib(const char *text, double *out);
/* "90%" or "0.9": in (0, 1]. */
const char *value_share(const char *text, double *out);
/* "2026-11-20T18:00Z", "2026-11-20 18:00:00+01:00": seconds since the epoch. A
 * place in the world must be named. */
const char *value_date_s(const char *text, double *out);
/* "4" or "1..8". */
const char *value_range(const char *text, int *min, int *max);
/* A name of a job or queue: letters, digits and . _ -, not only digits. */
const char *value_name(const char *text);
/* What shells would understand and we do not: cuts a text at blanks, outside
 * of '...' and "...", which are taken as they are. The words, ending with
 * NULL, are the caller's to free by mem_free, each and the list. */
const char *value_words(const char *text, char ***out);

#endif
