/* said.h - what stands in an answer of the daemon, whatever it is.
 *
 * The other side may be older, newer or hostile: what is not there, or is of
 * another type, reads as nothing, and every text goes through safe_puts()
 * before it is printed.
 */
#ifndef CLI_SAID_H
#define CLI_SAID_H
#include "base/table.h"
#include <firn/bytes.h>
#include <jansson.h>
#include <stdbool.h>

/* "" when there is none. Borrowed from the answer. */
const char *said_text(const json_t *object, const char *key);
double said_number(const json_t *object, const char *key, double otherwise);
bool said_yes(const json_t *object, const char *key);
/* An array of no elements when there is none. Borrowed. */
const json_t *said_list(const json_t *object, const char *key);

/* Indented, ASCII only, ends with a line's end. */
void said_print(const json_t *answer, struct firn_buf *out);
/* The same in one line. */
void said_print_line(const json_t *answer, struct firn_buf *out);

/* A cell of a table with such a text, "-" for an empty one. */
void said_cell(struct table *table, const char *text);

/* Null, false, empty or negative: not known. */
bool said_is_nothing(const json_t *value);
/* A value in one line, made safe for a terminal. */
void said_value(struct firn_buf *out, const json_t *value);

/* The rest of an object, a line for each value, by its own name; keys in
 * `told` (ends with NULL) are passed over, and so is what is null, empty or
 * negative: not known. So a daemon that tells more than this program knows of
 * is not silenced. */
void said_fields(const json_t *object, const char *const *told,
                 struct firn_buf *out);

/* The texts of a list, a line each. */
void said_lines(const json_t *object, const char *key, struct firn_buf *out);

/* "45s", "12m", "3h20m", "2d4h"; "-" when it is not known (not finite, below
 * 0). */
void buf_span(struct firn_buf *out, double span_s);
/* "2026-11-15 19:44:08" here; "-" for 0. */
void buf_moment(struct firn_buf *out, double since_epoch_s);
/* The time of day, for spans. */
double moment_now_s(void);

#endif
