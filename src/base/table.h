/* table.h - aligned columns of text.
 *
 * Cells are added row by row; the widths are found when it is printed.
 * Columns are two spaces apart and no line ends in a space. A width counts
 * characters of UTF-8, not bytes.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H
#include <firn/bytes.h>

struct table {
    const char *align; /* one of l, r for each column; borrowed */
    struct firn_buf text;
    size_t *ends; /* where each cell ends in `text` */
    size_t ncells, cap;
};

void table_init(struct table *table, const char *align);
/* Adds the next cell, from the left; a row ends with its last column. */
void table_cell(struct table *table, const char *text);
void table_cellf(struct table *table, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the rows to `out`; a last row that is not full is padded. */
void table_print(const struct table *table, struct firn_buf *out);
void table_release(struct table *table);

#endif
