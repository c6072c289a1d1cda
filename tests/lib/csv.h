/* csv.h - rows of a plain comma-separated table, by column name.
 *
 * No quoting: the measured tables have none. Lines in front of the names that
 * begin with # are passed over.
 */
#ifndef LIB_CSV_H
#define LIB_CSV_H
#include <stdbool.h>

struct csv;

/* Opens a table; NULL if it cannot be read. */
struct csv *csv_open(const char *path);
/* Goes to the next row. */
bool csv_next(struct csv *csv);
/* A cell of this row, "" when the column or the cell is not there; lives until
 * the next row. */
const char *csv_text(const struct csv *csv, const char *column);
/* The same as a number; NaN when it is none. */
double csv_number(const struct csv *csv, const char *column);
void csv_close(struct csv *csv);

#endif
