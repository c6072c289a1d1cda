/* table.c - aligned columns of text.
 *
 * All cells lie behind one another in one buffer; two passes over them, one
 * for the widths and one to print.
 */
#include "base/table.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { GAP = 2, CELL_MAX = 512 };

void table_init(struct table *table, const char *align)
{
    *table = (struct table){.align = align};
}

void table_cell(struct table *table, const char *text)
{
    if (table->ncells == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : 64;
        table->ends =
            mem_grow(table->ends, table->cap, cap, sizeof *table->ends);
        table->cap = cap;
    }
    buf_puts(&table->text, text);
    table->ends[table->ncells++] = table->text.n;
}

void table_cellf(struct table *table, const char *fmt, ...)
{
    char text[CELL_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    table_cell(table, text);
}

static struct firn_bytes cell(const struct table *table, size_t i)
{
    size_t from = i ? table->ends[i - 1] : 0;
    return (struct firn_bytes){table->text.at ? table->text.at + from : "",
                               table->ends[i] - from};
}

/* Characters: bytes that do not continue another. */
static size_t width(struct firn_bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += utf8_is_first(text.at[i]);
    return n;
}

static void pad(struct firn_buf *out, size_t n)
{
    while (n-- > 0)
        buf_putc(out, ' ');
}

void table_print(const struct table *table, struct firn_buf *out)
{
    size_t ncolumns = strlen(table->align), owed = 0;
    size_t *widths = mem_new(ncolumns, sizeof *widths);
    for (size_t i = 0; i < table->ncells; i++) {
        size_t w = width(cell(table, i));
        if (w > widths[i % ncolumns])
            widths[i % ncolumns] = w;
    }
    for (size_t i = 0; i < table->ncells; i++) {
        size_t column = i % ncolumns;
        struct firn_bytes text = cell(table, i);
        size_t room = widths[column] - width(text);
        size_t before = table->align[column] == 'r' ? room : 0;
        owed = column ? owed + GAP + before : before;
        if (text.n > 0) {
            pad(out, owed);
            buf_add(out, text.at, text.n);
            owed = 0;
        }
        owed += room - before;
        if (column + 1 == ncolumns || i + 1 == table->ncells)
            buf_putc(out, '\n');
    }
    mem_free(widths);
}

void table_release(struct table *table)
{
    if (!table)
        return;
    buf_release(&table->text);
    mem_free(table->ends);
    *table = (struct table){0};
}
