/* sheet.c - reads a table of comma-separated cells. */
#include "model/sheet.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

static size_t count(const char *line)
{
    size_t n = 1;
    for (; *line != '\0'; line++)
        n += *line == ',';
    return n;
}

/* Cuts a copy of the line into n cells. */
static void cut(struct sheet *sheet, const char *line, char **out, size_t n)
{
    char *text = arena_strdup(&sheet->arena, line);
    for (size_t i = 0; i < n; i++) {
        char *end = strchr(text, ',');
        out[i] = text;
        if (end == NULL)
            break;
        *end = '\0';
        text = end + 1;
    }
}

static enum firn_status read_rows(struct sheet *sheet, struct lines *in,
                                  const char *path, struct firn_error *err)
{
    const char *line = lines_next(in);
    if (line == NULL || lines_bad(in))
        return firn_fail(err, FIRN_EINVAL, "%s: line 1: no header", path);
    sheet->ncols = count(line);
    sheet->names = mem_new(sheet->ncols, sizeof *sheet->names);
    cut(sheet, line, sheet->names, sheet->ncols);
    while ((line = lines_next(in)) != NULL) {
        if (*line == '\0' && !lines_bad(in))
            continue;
        if (lines_bad(in) || count(line) != sheet->ncols)
            return firn_fail(err, FIRN_EINVAL,
                             "%s: line %ld: %zu cells, not %zu", path,
                             lines_number(in), count(line), sheet->ncols);
        if (sheet->nrows == sheet->cap) {
            size_t cap = sheet->cap > 0 ? 2 * sheet->cap : 256;
            sheet->cells = mem_grow(sheet->cells, sheet->cap * sheet->ncols,
                                    cap * sheet->ncols, sizeof *sheet->cells);
            sheet->cap = cap;
        }
        cut(sheet, line, sheet->cells + sheet->nrows * sheet->ncols,
            sheet->ncols);
        sheet->nrows++;
    }
    return FIRN_OK;
}

enum firn_status sheet_read(struct sheet *out, const char *path,
                            struct firn_error *err)
{
    struct sheet sheet = {0};
    struct lines *in;
    FIRN_TRY(lines_open(&in, path, err));
    enum firn_status status = read_rows(&sheet, in, path, err);
    lines_close(in);
    if (status == FIRN_OK)
        *out = sheet;
    else
        sheet_release(&sheet);
    return status;
}

void sheet_release(struct sheet *sheet)
{
    mem_free(sheet->names);
    mem_free(sheet->cells);
    arena_release(&sheet->arena);
    *sheet = (struct sheet){0};
}

int sheet_column(const struct sheet *sheet, const char *name)
{
    for (size_t i = 0; i < sheet->ncols; i++)
        if (strcmp(sheet->names[i], name) == 0)
            return (int)i;
    return -1;
}

const char *sheet_text(const struct sheet *sheet, size_t row, int column)
{
    return column < 0 ? "" : sheet->cells[row * sheet->ncols + (size_t)column];
}

double sheet_number(const struct sheet *sheet, size_t row, int column)
{
    double value;
    return str_double(sheet_text(sheet, row, column), &value) ? value
                                                              : (double)NAN;
}
