/* sheet.h - a measured table: named columns, rows of cells.
 *
 * Comma-separated, a header first, no quoting: the published tables have none.
 * The whole file is held.
 */
#ifndef MODEL_SHEET_H
#define MODEL_SHEET_H
#include "base/arena.h"
#include <firn/status.h>
#include <stdbool.h>

struct sheet {
    char **names;
    char **cells; /* [row * ncols + col] */
    size_t ncols, nrows, cap;
    struct arena arena;
};

/* FIRN_ENOENT when there is no such file; FIRN_EINVAL with file and line when
 * a row has another number of cells than the header. The caller releases. */
enum firn_status sheet_read(struct sheet *out, const char *path,
                            struct firn_error *err);
void sheet_release(struct sheet *sheet);

/* The index of the column `name`; -1 for none. */
int sheet_column(const struct sheet *sheet, const char *name);
const char *sheet_text(const struct sheet *sheet, size_t row, int column);
/* NaN when the cell is no number or the column is -1. */
double sheet_number(const struct sheet *sheet, size_t row, int column);

#endif
