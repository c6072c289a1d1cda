/* said.c - what stands in an answer of the daemon, whatever it is.
 */
#include "cli/said.h"
#include "base/buf.h"
#include "cli/safetext.h"
#include <math.h>
#include <time.h>

const char *said_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double said_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

bool said_yes(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

const json_t *said_list(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_array(value) ? value : NULL;
}

static int append(const char *bytes, size_t n, void *arg)
{
    buf_add(arg, bytes, n);
    return 0;
}

void said_print(const json_t *answer, struct firn_buf *out)
{
    json_dump_callback(answer, append, out,
                       JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY |
                           JSON_REAL_PRECISION(17));
    buf_putc(out, '\n');
}

void said_cell(struct table *table, const char *text)
{
    struct firn_buf cell = {0};
    safe_puts(&cell, text);
    table_cell(table, cell.n > 0 ? cell.at : "-");
    buf_release(&cell);
}

void buf_span(struct firn_buf *out, double span_s)
{
    if (!isfinite(span_s) || span_s < 0 || span_s > 1e11) {
        buf_putc(out, '-');
        return;
    }
    long long s = (long long)(span_s + 0.5);
    if (s < 60)
        buf_printf(out, "%llds", s);
    else if (s < 3600)
        buf_printf(out, s < 600 && s % 60 ? "%lldm%llds" : "%lldm", s / 60,
                   s % 60);
    else if (s < 86400)
        buf_printf(out, s % 3600 >= 60 ? "%lldh%lldm" : "%lldh", s / 3600,
                   s % 3600 / 60);
    else
        buf_printf(out, s % 86400 >= 3600 ? "%lldd%lldh" : "%lldd", s / 86400,
                   s % 86400 / 3600);
}

void buf_moment(struct firn_buf *out, double since_epoch_s)
{
    struct tm parts;
    char text[32];
    if (!(since_epoch_s > 0 && since_epoch_s < 2e11)) {
        buf_putc(out, '-');
        return;
    }
    time_t moment = (time_t)since_epoch_s;
    if (localtime_r(&moment, &parts) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        text[0] = '\0';
    buf_puts(out, text);
}

double moment_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
