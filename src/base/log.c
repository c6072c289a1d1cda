/* log.c - formats a message and passes it to the sink.
 *
 * Without a sink nothing is formatted. A message over 1023 bytes is cut.
 */
#include "base/log.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static log_sink *the_sink;
static void *the_arg;

void log_set_sink(log_sink *sink, void *arg)
{
    the_sink = sink;
    the_arg = arg;
}

static void say(enum log_level level, const char *fmt, va_list args)
{
    char text[1024];
    if (the_sink == NULL)
        return;
    vsnprintf(text, sizeof text, fmt, args);
    the_sink(the_arg, level, text);
}

void log_info(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(LOG_INFO, fmt, args);
    va_end(args);
}

void log_warn(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(LOG_WARN, fmt, args);
    va_end(args);
}
