/* row.c - cutting CSV lines into fields, and fields into numbers.
 *
 * The line is cut in place: fields are ended with NUL bytes where the commas
 * were, so a row costs one pass over its bytes and no memory. Ten million rows
 * go through here twice: trace.c looks at the order first.
 *
 * (1) Nothing is believed about the bytes: a field that is printed in a
 *     sentence is cut to 40 bytes and its unprintable bytes become '?'.
 */
#include "trace/row.h"
#include "base/str.h"
#include <string.h>

enum { SHOWN_MAX = 40 };

static const double time_max = 1e15;

/* A field fit for a sentence (1). */
static const char *shown(const char *text, char out[SHOWN_MAX + 4])
{
    if (*text == '\0')
        return "empty";
    size_t n = 0;
    for (; text[n] != '\0' && n < SHOWN_MAX; n++)
        out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    out[n] = '\0';
    if (text[n] != '\0')
        memcpy(out + n, "...", 4);
    return out;
}

/* Takes the quotes off the field at `at` in place; returns where it ended, or
 * NULL when the quote is never closed. */
static char *unquote(char *at)
{
    char *to = at, *from = at + 1;
    for (;;) {
        if (*from == '\0')
            return NULL;
        if (*from == '"' && from[1] != '"')
            break;
        if (*from == '"')
            from++;
        *to++ = *from++;
    }
    *to = '\0';
    return from + 1;
}

/* Cuts `line` into at most ROW_FIELDS_MAX fields. Returns how many, or -1 with
 * a sentence. */
static int cut(char *line, char *fields[ROW_FIELDS_MAX], struct firn_error *err)
{
    int n = 0;
    for (char *at = line;;) {
        if (n == ROW_FIELDS_MAX) {
            firn_fail(err, FIRN_EINVAL, "has more than %d fields",
                      ROW_FIELDS_MAX);
            return -1;
        }
        char *end = NULL;
        fields[n++] = at;
        if (*at == '"') {
            end = unquote(at);
            if (end == NULL || (*end != ',' && *end != '\0')) {
                firn_fail(err, FIRN_EINVAL, "field %d: %s", n,
                          end == NULL ? "the quote is not closed"
                                      : "text after the closing quote");
                return -1;
            }
        } else {
            end = at + strcspn(at, ",");
        }
        if (*end == '\0')
            return n;
        *end = '\0';
        at = end + 1;
    }
}

static char *skip_mark(char *line)
{
    return strncmp(line, "\xef\xbb\xbf", 3) == 0 ? line + 3 : line;
}

/* Which of the fields is called `name`; -1 for none, -2 for several. */
static int find(char *const *fields, int n, const char *name)
{
    int found = -1;
    for (int i = 0; i < n; i++) {
        if (strcmp(fields[i], name) != 0)
            continue;
        if (found >= 0)
            return -2;
        found = i;
    }
    return found;
}

/* Cuts a header: fields trimmed, without the mark. */
static int cut_header(char *line, char *fields[ROW_FIELDS_MAX],
                      struct firn_error *err)
{
    int n = cut(skip_mark(line), fields, err);
    for (int i = 0; i < n; i++)
        fields[i] = str_trim(fields[i]);
    return n;
}

bool row_sniff(struct firn_bytes head, const char *const *needs,
               const char *const *lacks)
{
    char line[4096];
    char *fields[ROW_FIELDS_MAX];
    const char *end = head.n > 0 ? memchr(head.at, '\n', head.n) : NULL;
    size_t n = end != NULL ? (size_t)(end - head.at) : head.n;
    if (n == 0 || n >= sizeof line || memchr(head.at, '\0', n) != NULL)
        return false;
    memcpy(line, head.at, n);
    line[n] = '\0';
    int nfields = cut_header(line, fields, NULL);
    for (; nfields > 0 && *needs != NULL; needs++)
        if (find(fields, nfields, *needs) == -1)
            return false;
    for (; lacks != NULL && *lacks != NULL; lacks++)
        if (find(fields, nfields, *lacks) != -1)
            return false;
    return nfields > 0;
}

/* The next line that is neither blank nor a comment; NULL at the end. */
static char *next_line(const struct row *row, struct lines *in)
{
    for (;;) {
        char *line = lines_next(in);
        if (line == NULL || lines_bad(in))
            return line;
        if (*line == '\0' || (row->comment != 0 && *line == row->comment))
            continue;
        if (line[strspn(line, " \t\r")] != '\0')
            return line;
    }
}

static const char unusable[] = "has a NUL byte, or is longer than 65536 bytes";

enum firn_status row_open(struct row *row, struct lines *in,
                          const char *const *wants, int nneeded,
                          struct firn_error *err)
{
    char *line = next_line(row, in);
    if (line == NULL)
        return firn_fail(err, FIRN_EINVAL, "has no header");
    if (lines_bad(in))
        return firn_fail(err, FIRN_EINVAL, "line %ld: %s", lines_number(in),
                         unusable);
    int n = cut_header(line, row->fields, err);
    if (n < 0)
        return firn_fail_in(err, "header");
    row->wants = wants;
    row->ncolumns = row->nnamed = n;
    while (row->nnamed > 1 && *row->fields[row->nnamed - 1] == '\0')
        row->nnamed--;
    for (int i = 0; wants[i] != NULL; i++) {
        if (i == ROW_WANTS_MAX)
            FIRN_BUG("a format wants more than %d columns", ROW_WANTS_MAX);
        row->place[i] = find(row->fields, n, wants[i]);
        if (row->place[i] == -2)
            return firn_fail(err, FIRN_EINVAL,
                             "header: column '%s' appears twice", wants[i]);
        if (row->place[i] == -1 && i < nneeded)
            return firn_fail(err, FIRN_EINVAL, "header: no column '%s'",
                             wants[i]);
    }
    return FIRN_OK;
}

enum firn_row row_next(struct row *row, struct lines *in,
                       struct firn_error *err)
{
    char *line = next_line(row, in);
    if (line == NULL)
        return FIRN_ROW_END;
    if (lines_bad(in)) {
        firn_fail(err, FIRN_EINVAL, "%s", unusable);
        return FIRN_ROW_BAD;
    }
    row->nfields = cut(line, row->fields, err);
    if (row->nfields < 0)
        return FIRN_ROW_BAD;
    if (row->nfields < row->nnamed || row->nfields > row->ncolumns) {
        firn_fail(err, FIRN_EINVAL, "has %d field%s, the header has %d",
                  row->nfields, row->nfields == 1 ? "" : "s", row->ncolumns);
        return FIRN_ROW_BAD;
    }
    return FIRN_ROW_JOB;
}

bool row_has(const struct row *row, int column)
{
    return row->place[column] >= 0;
}

const char *row_text(const struct row *row, int column)
{
    int place = row->place[column];
    return place < 0 ? "" : row->fields[place];
}

bool row_int(const struct row *row, int column, int min, int max, int *out,
             struct firn_error *err)
{
    char shown_as[SHOWN_MAX + 4];
    const char *text = row_text(row, column);
    long value = 0;
    if (!str_int(text, min, max, &value)) {
        firn_fail(err, FIRN_EINVAL,
                  "'%s' is %s: must be a whole number from %d to %d",
                  row->wants[column], shown(text, shown_as), min, max);
        return false;
    }
    *out = (int)value;
    return true;
}

bool row_number(const struct row *row, int column, double min, double max,
                double *out, struct firn_error *err)
{
    char shown_as[SHOWN_MAX + 4];
    const char *text = row_text(row, column);
    double value = 0;
    if (!str_double(text, &value) || value < min || value > max) {
        firn_fail(err, FIRN_EINVAL,
                  "'%s' is %s: must be a number from %g to %g",
                  row->wants[column], shown(text, shown_as), min, max);
        return false;
    }
    *out = value;
    return true;
}

bool row_time(const struct row *row, int column, double *out,
              struct firn_error *err)
{
    return row_number(row, column, 0, time_max, out, err);
}

bool row_span(const struct row *row, int column, double *out,
              struct firn_error *err)
{
    char shown_as[SHOWN_MAX + 4];
    const char *text = row_text(row, column);
    double value = 0;
    if (!str_double(text, &value) || value <= 0 || value > time_max) {
        firn_fail(err, FIRN_EINVAL,
                  "'%s' is %s: must be a number above 0, to %g",
                  row->wants[column], shown(text, shown_as), time_max);
        return false;
    }
    *out = value;
    return true;
}

bool row_name(const struct row *row, int column, const char **out,
              struct firn_error *err)
{
    const char *text = row_text(row, column);
    if (*text == '\0') {
        firn_fail(err, FIRN_EINVAL, "'%s' is empty", row->wants[column]);
        return false;
    }
    *out = text;
    return true;
}

struct firn_job_spec row_spec(const struct lines *in)
{
    return (struct firn_job_spec){.name = "",
                                  .app = "",
                                  .group = "",
                                  .types = "",
                                  .restart_s = -1,
                                  .line = lines_number(in)};
}

bool row_gang(const struct row *row, int column, struct firn_job_spec *out,
              struct firn_error *err)
{
    if (!row_int(row, column, 1, ROW_GPUS_MAX, &out->gpus, err))
        return false;
    out->gpus_min = out->gpus_max = out->gpus;
    return true;
}

enum firn_row row_basics(struct row *row, struct lines *in,
                         const struct row_basics *at, struct firn_job_spec *out,
                         struct firn_error *err)
{
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, at->name, &spec.name, err) ||
        !row_time(row, at->submit, &spec.submit_s, err) ||
        !row_gang(row, at->gpus, &spec, err) ||
        !row_span(row, at->duration, &spec.duration_s, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}
