/* csv.c - splits lines at commas. */
#include "lib/csv.h"
#include "base/lines.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

enum { COLUMNS = 32, NAMES_BYTES = 2048 };

struct csv {
    struct lines *lines;
    char names_text[NAMES_BYTES];
    char *names[COLUMNS], *cells[COLUMNS];
    int nnames, ncells;
};

static int split(char *line, char **out)
{
    int n = 0;
    while (line != NULL && n < COLUMNS) {
        out[n++] = line;
        line = strchr(line, ',');
        if (line != NULL)
            *line++ = '\0';
    }
    return n;
}

struct csv *csv_open(const char *path)
{
    struct csv *csv = mem_new(1, sizeof *csv);
    char *head = NULL;
    if (lines_open(&csv->lines, path, NULL) == FIRN_OK)
        do
            head = lines_next(csv->lines);
        while (head != NULL && *head == '#');
    if (head == NULL) {
        csv_close(csv);
        return NULL;
    }
    str_copy(csv->names_text, sizeof csv->names_text, head);
    csv->nnames = split(csv->names_text, csv->names);
    return csv;
}

bool csv_next(struct csv *csv)
{
    char *line = lines_next(csv->lines);
    csv->ncells = line != NULL ? split(line, csv->cells) : 0;
    return line != NULL;
}

const char *csv_text(const struct csv *csv, const char *column)
{
    for (int i = 0; i < csv->nnames && i < csv->ncells; i++)
        if (strcmp(csv->names[i], column) == 0)
            return csv->cells[i];
    return "";
}

double csv_number(const struct csv *csv, const char *column)
{
    double x;
    return str_double(csv_text(csv, column), &x) ? x : (double)NAN;
}

void csv_close(struct csv *csv)
{
    if (csv == NULL)
        return;
    lines_close(csv->lines);
    mem_free(csv);
}
