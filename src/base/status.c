/* status.c - texts of enum firn_status, and the abort after a bug.
 */
#include <firn/status.h>
#include <firn/version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int http;
} table[] = {
#define X(code, text, http) {text, http},
    FIRN_STATUS_MAP(X)
#undef X
};

static const size_t ncodes = sizeof table / sizeof *table;

const char *firn_status_text(enum firn_status status)
{
    return (size_t)status < ncodes ? table[status].text : "unknown status";
}

int firn_status_http(enum firn_status status)
{
    return (size_t)status < ncodes ? table[status].http : 500;
}

enum firn_status firn_fail(struct firn_error *err, enum firn_status status,
                           const char *fmt, ...)
{
    if (err == NULL)
        return status;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    err->status = status;
    return status;
}

enum firn_status firn_fail_in(struct firn_error *err, const char *context)
{
    if (err == NULL)
        return FIRN_EINVAL;
    char text[FIRN_ERROR_TEXT];
    memcpy(text, err->text, sizeof text);
    size_t n = strlen(context);
    if (n + 3 < sizeof err->text)
        snprintf(err->text, sizeof err->text, "%s: %.*s", context,
                 (int)(sizeof err->text - n - 3), text);
    return err->status;
}

void firn_bug_(const char *file, int line, const char *fmt, ...)
{
    fflush(stdout);
    fprintf(stderr, "firn: bug at %s:%d: ", file, line);
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

const char *firn_version(void)
{
    return FIRN_VERSION;
}
