/* keep.c - fields in lines of text.
 *
 * A field is a line: a number, or "LENGTH:BYTES" for a text, whose bytes may
 * be anything but 0. The first line is "firn-keep WHOSE VERSION".
 *
 * Invariant: once is_bad is set nothing is read any more.
 */
#include "base/keep.h"
#include "base/buf.h"
#include "base/str.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { NUMBER_MAX = 64 };

void keep_begin(struct firn_buf *out, const char *whose, int version)
{
    buf_printf(out, "firn-keep %s %d\n", whose, version);
}

void keep_double(struct firn_buf *out, double value)
{
    buf_double(out, value);
    buf_putc(out, '\n');
}

/* Without printf() where a double is exact: policies keep several numbers of
 * each job. */
void keep_int(struct firn_buf *out, long value)
{
    if (fabs((double)value) < 9007199254740992.0)
        keep_double(out, (double)value);
    else
        buf_printf(out, "%ld\n", value);
}

void keep_text(struct firn_buf *out, const char *text)
{
    buf_printf(out, "%zu:%s\n", strlen(text), text);
}

void keep_names(struct firn_buf *out, const struct map *names)
{
    keep_int(out, (long)names->n);
    for (size_t i = 0; i < names->n; i++)
        keep_text(out, map_name(names, (int)i));
}

enum firn_status keep_open(struct keep *in, struct firn_bytes bytes,
                           const char *whose, int version,
                           struct firn_error *err)
{
    struct firn_buf first = {0};
    keep_begin(&first, whose, version);
    bool is_ours =
        bytes.n >= first.n && memcmp(bytes.at, first.at, first.n) == 0;
    *in = (struct keep){.whose = whose};
    if (is_ours) {
        in->at = bytes.at + first.n;
        in->end = bytes.at + bytes.n;
    }
    buf_release(&first);
    if (is_ours)
        return FIRN_OK;
    const char *line = bytes.n > 0 ? memchr(bytes.at, '\n', bytes.n) : NULL;
    size_t n = line ? (size_t)(line - bytes.at) : bytes.n;
    return firn_fail(err, FIRN_EDATA,
                     "the kept state is not that of %s, version %d: it begins "
                     "with '%.*s'",
                     whose, version, (int)(n < 60 ? n : 60),
                     n > 0 ? bytes.at : "");
}

/* The next line as a string in `out`; false when there is none so short. */
static bool read_line(struct keep *in, char out[NUMBER_MAX])
{
    size_t left = in->is_bad ? 0 : (size_t)(in->end - in->at);
    const char *end = left > 0 ? memchr(in->at, '\n', left) : NULL;
    if (end == NULL || end - in->at >= NUMBER_MAX) {
        in->is_bad = true;
        return false;
    }
    size_t n = (size_t)(end - in->at);
    memcpy(out, in->at, n);
    out[n] = '\0';
    in->at = end + 1;
    return true;
}

double keep_read_double(struct keep *in)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", (double)NAN},
                 {"inf", (double)INFINITY},
                 {"-inf", -(double)INFINITY}};
    char line[NUMBER_MAX];
    double value = 0;
    if (!read_line(in, line))
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(line, words[i].text) == 0)
            return words[i].value;
    if (str_double(line, &value))
        return value;
    in->is_bad = true;
    return 0;
}

long keep_read_int(struct keep *in, long min, long max)
{
    char line[NUMBER_MAX];
    long value = min;
    if (!read_line(in, line))
        return min;
    if (str_int(line, min, max, &value))
        return value;
    in->is_bad = true;
    return min;
}

const char *keep_read_text(struct keep *in, size_t *n)
{
    size_t left = in->is_bad ? 0 : (size_t)(in->end - in->at), length = 0;
    const char *at = in->at, *end = in->end;
    *n = 0;
    while (left > 0 && at < end && *at >= '0' && *at <= '9' && length <= left)
        length = 10 * length + (size_t)(*at++ - '0');
    if (left == 0 || at == in->at || at == end || *at != ':' ||
        (size_t)(end - at) < length + 2 || at[1 + length] != '\n' ||
        memchr(at + 1, '\0', length) != NULL) {
        in->is_bad = true;
        return "";
    }
    in->at = at + length + 2;
    *n = length;
    return at + 1;
}

/* A name that comes twice would have another number. */
void keep_read_names(struct keep *in, struct map *names)
{
    struct firn_buf name = {0};
    long n = keep_read_int(in, 0, INT32_MAX);
    for (long i = 0; i < n && !in->is_bad; i++) {
        size_t length;
        const char *text = keep_read_text(in, &length);
        buf_clear(&name);
        buf_add(&name, text, length);
        buf_putc(&name, '\0');
        if (map_add(names, name.at) != (int)i)
            in->is_bad = true;
    }
    buf_release(&name);
}

enum firn_status keep_close(struct keep *in, struct firn_error *err)
{
    if (!in->is_bad && in->at == in->end)
        return FIRN_OK;
    return firn_fail(err, FIRN_EDATA, "the kept state of %s is damaged%s",
                     in->whose, in->is_bad ? "" : ": bytes are left over");
}
