/* answer.c - reads and prints JSON answers of firnd.
 */
#include "cli/answer.h"
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "cli/jsontext.h"
#include "cli/safetext.h"
#include <math.h>
#include <string.h>
#include <time.h>

const char *answer_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

double answer_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

bool answer_yes(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

const json_t *answer_list(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_array(value) ? value : NULL;
}

/* --- JSON ----------------------------------------------------------------- */

/* Appends a tree as JSON. Numbers have the fewest digits that read back as the
 * same number; jansson always writes seventeen. Values below `levels` levels
 * become null: no reader accepts them. */
static void put_tree(const json_t *value, int levels, struct firn_buf *out)
{
    const char *key;
    json_t *part;
    size_t i;
    if (json_is_array(value) && levels > 0) {
        jsonbuf_open(out, NULL, '[');
        for (i = 0; i < json_array_size(value); i++)
            put_tree(json_array_get(value, i), levels - 1, out);
        jsonbuf_close(out, ']');
    } else if (json_is_object(value) && levels > 0) {
        jsonbuf_open(out, NULL, '{');
        json_object_foreach((json_t *)value, key, part)
        {
            jsonbuf_key(out, key);
            put_tree(part, levels - 1, out);
        }
        jsonbuf_close(out, '}');
    } else if (json_is_string(value)) { /* has no NUL: client.c refuses those */
        jsonbuf_text(out, NULL, json_string_value(value));
    } else if (json_is_integer(value)) {
        jsonbuf_int(out, NULL, json_integer_value(value));
    } else if (json_is_real(value)) {
        jsonbuf_double(out, NULL, json_real_value(value));
    } else if (json_is_boolean(value)) {
        jsonbuf_bool(out, NULL, json_is_true(value));
    } else {
        jsonbuf_raw(out, NULL, "null");
    }
}

static void print(const json_t *answer, int indent, struct firn_buf *out)
{
    struct firn_buf json = {0};
    struct jsonread in;
    put_tree(answer, JSONREAD_DEPTH, &json);
    jsonread_init(&in, json.at, json.n, NULL);
    jsontext_value(&in, indent, out);
    buf_putc(out, '\n');
    buf_release(&json);
}

void answer_print(const json_t *answer, struct firn_buf *out)
{
    print(answer, 0, out);
}

void answer_print_line(const json_t *answer, struct firn_buf *out)
{
    print(answer, -1, out);
}

/* --- pages ---------------------------------------------------------------- */

void answer_cell(struct table *table, const char *text)
{
    struct firn_buf cell = {0};
    safe_puts(&cell, text);
    table_cell(table, cell.n > 0 ? cell.at : "-");
    buf_release(&cell);
}

static bool is_skipped(const char *key, const char *const *skipped)
{
    for (; skipped != NULL && *skipped != NULL; skipped++)
        if (strcmp(key, *skipped) == 0)
            return true;
    return false;
}

bool answer_is_unknown(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) < 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Appends a value in one line, with at most two levels of nesting. */
static void put_value(struct firn_buf *out, const json_t *value, int depth)
{
    const char *key;
    json_t *part;
    size_t i;
    const char *sep = "";
    if (json_is_string(value)) {
        safe_puts(out, json_string_value(value));
    } else if (json_is_integer(value)) {
        buf_printf(out, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        buf_printf(out, "%.6g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        buf_puts(out, json_is_true(value) ? "yes" : "no");
    } else if (depth > 2) {
        buf_puts(out, "...");
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, part)
        {
            buf_puts(out, sep);
            put_value(out, part, depth + 1);
            sep = depth > 0 ? " " : ", ";
        }
    } else {
        json_object_foreach((json_t *)value, key, part)
        {
            if (answer_is_unknown(part))
                continue;
            buf_puts(out, sep);
            safe_puts(out, key);
            buf_putc(out, ' ');
            put_value(out, part, depth + 1);
            sep = ", ";
        }
    }
}

void answer_value(struct firn_buf *out, const json_t *value)
{
    put_value(out, value, 0);
}

void answer_fields(const json_t *object, const char *const *skipped,
                   struct firn_buf *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (is_skipped(key, skipped) || answer_is_unknown(value))
            continue;
        safe_puts(out, key);
        buf_puts(out, ": ");
        put_value(out, value, 0);
        buf_putc(out, '\n');
    }
}

void answer_lines(const json_t *object, const char *key, struct firn_buf *out)
{
    const json_t *list = answer_list(object, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text == NULL)
            continue;
        safe_puts(out, text);
        buf_putc(out, '\n');
    }
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
