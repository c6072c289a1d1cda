/* answer.h - reads and prints JSON answers of firnd.
 *
 * firnd may be older, newer or hostile: a value that is missing or of another
 * type reads as empty, and every text is escaped (safe_puts()) before it is
 * printed.
 */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H
#include "base/table.h"
#include <firn/bytes.h>
#include <jansson.h>
#include <stdbool.h>

/* "" if there is none. Borrowed from the answer. */
const char *answer_text(const json_t *object, const char *key);
double answer_number(const json_t *object, const char *key, double otherwise);
bool answer_yes(const json_t *object, const char *key);
/* NULL, which jansson treats as an empty array, if there is none. Borrowed. */
const json_t *answer_list(const json_t *object, const char *key);

/* Appends JSON: indented, ASCII only, with a final newline. */
void answer_print(const json_t *answer, struct firn_buf *out);
/* The same in one line. */
void answer_print_line(const json_t *answer, struct firn_buf *out);

/* Adds a table cell with an escaped text, "-" for an empty one. */
void answer_cell(struct table *table, const char *text);

/* Is the value null, false, empty or negative, i.e. unknown? */
bool answer_is_unknown(const json_t *value);
/* Appends a value in one line, escaped. */
void answer_value(struct firn_buf *out, const json_t *value);

/* Appends "key: value" for each member of an object except the keys in
 * `skipped` (ends with NULL) and values that are null, false, empty or negative
 * (unknown). So members that a newer firnd adds are printed too. */
void answer_fields(const json_t *object, const char *const *skipped,
                   struct firn_buf *out);

/* Appends the texts of a list, one per line. */
void answer_lines(const json_t *object, const char *key, struct firn_buf *out);

/* Appends "45s", "12m", "3h20m" or "2d4h"; "-" if unknown (below 0 or not
 * finite). */
void buf_span(struct firn_buf *out, double span_s);
/* Appends "2026-11-15 19:44:08" in local time; "-" for 0. */
void buf_moment(struct firn_buf *out, double since_epoch_s);
/* Seconds since 1970. */
double moment_now_s(void);

#endif
