/* option.c - settings of plug-ins, read by one table of types.
 *
 * Each type has a row in `types`: how to read a value and how to describe what
 * it accepts. Reading, the sentence about a bad value and the help page use the
 * same row and the same record, so they agree by construction.
 *
 * Ranges: a side that is infinite (or DBL_MAX, or INT_MAX for a whole number)
 * is open, and min == max means that there is no range at all.
 *
 * Invariants:
 * (1) the state is written only after the whole value was read and is in range;
 * (2) what describe says is what read accepts.
 */
#include "base/buf.h"
#include "base/str.h"
#include <firn/option.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The range with open sides as infinities. */
static void range_of(const struct firn_option *option, double *min, double *max)
{
    bool is_whole = option->type == FIRN_OPTION_INT;
    double limit = is_whole ? (double)INT_MAX : DBL_MAX;
    bool is_open = option->min == option->max;
    *min = is_open || option->min <= -limit ? -(double)INFINITY : option->min;
    *max = is_open || option->max >= limit ? (double)INFINITY : option->max;
}

static bool is_in_range(const struct firn_option *option, double value)
{
    double min, max;
    range_of(option, &min, &max);
    return value >= min && value <= max;
}

static bool read_bool(const struct firn_option *option, void *at,
                      const char *text)
{
    static const char *const words[] = {"0",   "1",  "no",    "yes",
                                        "off", "on", "false", "true"};
    (void)option;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_equal_nocase(text, words[i]))
            continue;
        bool value = i % 2 == 1;
        memcpy(at, &value, sizeof value);
        return true;
    }
    return false;
}

static bool read_int(const struct firn_option *option, void *at,
                     const char *text)
{
    long n = 0;
    if (!str_int(text, INT_MIN, INT_MAX, &n) || !is_in_range(option, (double)n))
        return false;
    int value = (int)n;
    memcpy(at, &value, sizeof value);
    return true;
}

static bool read_double(const struct firn_option *option, void *at,
                        const char *text)
{
    double value = 0.0;
    if (!str_double(text, &value) || !is_in_range(option, value))
        return false;
    memcpy(at, &value, sizeof value);
    return true;
}

static bool read_choice(const struct firn_option *option, void *at,
                        const char *text)
{
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (!str_equal_nocase(text, option->choices[i]))
            continue;
        memcpy(at, &i, sizeof i);
        return true;
    }
    return false;
}

static bool read_list(const struct firn_option *option, void *at,
                      const char *text)
{
    struct firn_list list = {0};
    for (bool is_last = false; !is_last;) {
        size_t n = strcspn(text, ",");
        is_last = text[n] == '\0';
        char item[64];
        if (n >= sizeof item || list.n == FIRN_LIST_MAX)
            return false;
        memcpy(item, text, n);
        item[n] = '\0';
        double value = 0.0;
        if (!str_double(item, &value) || !is_in_range(option, value))
            return false;
        if (value <= (list.n > 0 ? list.at[list.n - 1] : 0.0))
            return false; /* not ascending, or not positive */
        list.at[list.n++] = value;
        text += n + 1;
    }
    memcpy(at, &list, sizeof list); /* (1) */
    return true;
}

/* (1): what is behind the text stays as it was; it is never read. */
static bool read_text(const struct firn_option *option, void *at,
                      const char *text)
{
    (void)option;
    size_t n = strlen(text);
    if (n >= FIRN_TEXT_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    memcpy(at, text, n + 1);
    return true;
}

static void add_range(const struct firn_option *option, struct firn_buf *out)
{
    double min, max;
    range_of(option, &min, &max);
    if (isfinite(min) && isfinite(max)) {
        buf_puts(out, " from ");
        buf_double(out, min);
        buf_puts(out, " to ");
        buf_double(out, max);
    } else if (isfinite(min)) {
        buf_puts(out, " >= ");
        buf_double(out, min);
    } else if (isfinite(max)) {
        buf_puts(out, " <= ");
        buf_double(out, max);
    }
}

static void describe_bool(const struct firn_option *option,
                          struct firn_buf *out)
{
    (void)option;
    buf_puts(out, "yes or no");
}

static void describe_int(const struct firn_option *option, struct firn_buf *out)
{
    buf_puts(out, "whole number");
    add_range(option, out);
}

static void describe_double(const struct firn_option *option,
                            struct firn_buf *out)
{
    buf_puts(out, "number");
    add_range(option, out);
}

static void describe_choice(const struct firn_option *option,
                            struct firn_buf *out)
{
    buf_puts(out, "one of ");
    for (int i = 0; option->choices[i] != NULL; i++) {
        buf_puts(out, i > 0 ? ", " : "");
        buf_puts(out, option->choices[i]);
    }
}

static void describe_list(const struct firn_option *option,
                          struct firn_buf *out)
{
    buf_printf(out, "list of 1 to %d ascending numbers", FIRN_LIST_MAX);
    if (option->min > 0.0 && option->min != option->max)
        add_range(option, out);
    else
        buf_puts(out, " > 0");
    buf_puts(out, ", with commas");
}

static void describe_text(const struct firn_option *option,
                          struct firn_buf *out)
{
    (void)option;
    buf_printf(out, "text of at most %d bytes", FIRN_TEXT_MAX - 1);
}

static const struct {
    bool (*read)(const struct firn_option *option, void *at, const char *text);
    void (*describe)(const struct firn_option *option, struct firn_buf *out);
} types[] = {
    [FIRN_OPTION_BOOL] = {read_bool, describe_bool},
    [FIRN_OPTION_INT] = {read_int, describe_int},
    [FIRN_OPTION_DOUBLE] = {read_double, describe_double},
    [FIRN_OPTION_CHOICE] = {read_choice, describe_choice},
    [FIRN_OPTION_LIST] = {read_list, describe_list},
    [FIRN_OPTION_TEXT] = {read_text, describe_text},
};

static bool read_value(const struct firn_option *option, void *state,
                       const char *text)
{
    return types[option->type].read(option, (char *)state + option->offset,
                                    text);
}

void firn_options_default(const struct firn_option *table, void *state)
{
    for (; table != NULL && table->name != NULL; table++)
        if (!read_value(table, state, table->fallback))
            FIRN_BUG("the default '%s' of option '%s' is not valid",
                     table->fallback, table->name);
}

enum { NAMES_MAX = 64 };

static enum firn_status unknown(const struct firn_option *table,
                                const char *owner, const char *name,
                                struct firn_error *err)
{
    const char *names[NAMES_MAX] = {NULL};
    size_t n = 0;
    for (; table != NULL && table->name != NULL && n < NAMES_MAX; table++)
        names[n++] = table->name;
    int nearest = str_nearest(name, names, n);
    if (n == 0)
        return firn_fail(err, FIRN_ENOENT, "%s has no options, so no '%s'",
                         owner, name);
    if (nearest < 0)
        return firn_fail(err, FIRN_ENOENT, "%s has no option '%s'", owner,
                         name);
    return firn_fail(err, FIRN_ENOENT,
                     "%s has no option '%s'; did you mean '%s'?", owner, name,
                     names[nearest]);
}

enum firn_status firn_option_set(const struct firn_option *table, void *state,
                                 const char *owner, const char *name,
                                 const char *value, struct firn_error *err)
{
    const struct firn_option *option = table;
    while (option != NULL && option->name != NULL &&
           strcmp(option->name, name) != 0)
        option++;
    if (option == NULL || option->name == NULL)
        return unknown(table, owner, name, err);
    if (read_value(option, state, value))
        return FIRN_OK;
    struct firn_buf want = {0};
    firn_option_describe(option, &want);
    enum firn_status status =
        firn_fail(err, FIRN_EINVAL, "%s.%s: '%s' is not a valid value (%s)",
                  owner, name, value, want.at);
    buf_release(&want);
    return status;
}

void firn_option_describe(const struct firn_option *option,
                          struct firn_buf *out)
{
    types[option->type].describe(option, out); /* (2) */
}
