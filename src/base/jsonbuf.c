/* jsonbuf.c - JSON appended to a growing buffer.
 *
 * A writer (jsonwrite.c) is set onto the buffer's memory for each value and
 * taken off again: three words each way, no call to the allocator but when the
 * buffer grows.
 */
#include "base/buf.h"
#include "base/jsonwrite.h"
#include "base/mem.h"

static void grow(struct jsonwrite *w, size_t more)
{
    size_t want = w->n + more, max = w->max > 32 ? 2 * w->max : 64;
    if (max < want)
        max = want;
    /* One byte behind `max` is for the NUL. */
    w->out = mem_grow(w->out, w->out != NULL ? w->max + 1 : 0, max + 1, 1);
    w->max = max;
}

static struct jsonwrite begin(const struct firn_buf *buf)
{
    char last = '{';
    if (buf->n > 0)
        last = buf->at[buf->n - 1];
    return (struct jsonwrite){.out = buf->at,
                              .max = buf->cap > 0 ? buf->cap - 1 : 0,
                              .n = buf->n,
                              .comma =
                                  last != '{' && last != '[' && last != ' ',
                              .is_spaced = true,
                              .grow = grow};
}

static void end(const struct jsonwrite *w, struct firn_buf *buf)
{
    if (w->out == NULL)
        return; /* nothing was written */
    *buf = (struct firn_buf){w->out, w->n, w->max + 1};
    buf->at[buf->n] = '\0';
}

void jsonbuf_open(struct firn_buf *out, const char *key, char bracket)
{
    struct jsonwrite w = begin(out);
    jsonwrite_open(&w, key, bracket);
    end(&w, out);
}

void jsonbuf_close(struct firn_buf *out, char bracket)
{
    buf_putc(out, bracket);
}

void jsonbuf_text(struct firn_buf *out, const char *key, const char *value)
{
    struct jsonwrite w = begin(out);
    jsonwrite_text(&w, key, value != NULL ? value : "");
    end(&w, out);
}

void jsonbuf_int(struct firn_buf *out, const char *key, int64_t value)
{
    struct jsonwrite w = begin(out);
    jsonwrite_int(&w, key, value);
    end(&w, out);
}

void jsonbuf_double(struct firn_buf *out, const char *key, double value)
{
    struct jsonwrite w = begin(out);
    jsonwrite_double(&w, key, value);
    end(&w, out);
}

void jsonbuf_bool(struct firn_buf *out, const char *key, bool value)
{
    struct jsonwrite w = begin(out);
    jsonwrite_bool(&w, key, value);
    end(&w, out);
}

void jsonbuf_raw(struct firn_buf *out, const char *key, const char *json)
{
    struct jsonwrite w = begin(out);
    jsonwrite_raw(&w, key, json);
    end(&w, out);
}

void jsonbuf_key(struct firn_buf *out, const char *key)
{
    struct jsonwrite w = begin(out);
    jsonwrite_key(&w, key);
    end(&w, out);
}

void buf_json_string(struct firn_buf *buf, const char *text)
{
    struct jsonwrite w = begin(buf);
    jsonwrite_string(&w, text);
    end(&w, buf);
}

void buf_json_double(struct firn_buf *buf, double value)
{
    struct jsonwrite w = begin(buf);
    w.comma = false;
    jsonwrite_double(&w, NULL, value);
    end(&w, buf);
}
