/* flags.c - the options of a command, described by one table.
 *
 * One pass over argv: option values are stored, operands are moved to the front
 * of argv in their order. Names are found by linear search; tables are short.
 * Abbreviated names are not accepted, because a script that uses one would
 * break when an option is added; the nearest name is suggested instead.
 */
#include "cli/flags.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 79, NAMES_MAX = 64 };

enum firn_status flag_yes(void *at, const char *value, struct firn_error *err)
{
    (void)value;
    (void)err;
    *(bool *)at = true;
    return FIRN_OK;
}

enum firn_status flag_text(void *at, const char *value, struct firn_error *err)
{
    if (*value == '\0')
        return firn_fail(err, FIRN_EINVAL, "is empty");
    *(const char **)at = value;
    return FIRN_OK;
}

enum firn_status flag_double(void *at, const char *value,
                             struct firn_error *err)
{
    if (!str_double(value, at))
        return firn_fail(err, FIRN_EINVAL, "'%s' is not a number", value);
    return FIRN_OK;
}

enum firn_status flag_positive(void *at, const char *value,
                               struct firn_error *err)
{
    double number;
    FIRN_TRY(flag_double(&number, value, err));
    if (!(number > 0))
        return firn_fail(err, FIRN_EINVAL, "%s is not above 0", value);
    *(double *)at = number;
    return FIRN_OK;
}

enum firn_status duration_parse(const char *text, double *out_s,
                                struct firn_error *err)
{
    static const struct {
        char suffix;
        double unit_s;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char digits[64];
    size_t n = strlen(text);
    double unit_s = 1, number;
    for (size_t i = 0; n > 0 && i < sizeof units / sizeof *units; i++) {
        if (text[n - 1] != units[i].suffix)
            continue;
        unit_s = units[i].unit_s;
        n--;
        break;
    }
    if (n >= sizeof digits)
        n = 0;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (!str_double(digits, &number))
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is not a duration such as 90, 90s, 15m, 2h, 1d",
                         text);
    if (number < 0)
        return firn_fail(err, FIRN_EINVAL, "%s is below 0", text);
    *out_s = number * unit_s;
    return FIRN_OK;
}

enum firn_status flag_duration(void *at, const char *value,
                               struct firn_error *err)
{
    return duration_parse(value, at, err);
}

enum firn_status flag_count(void *at, const char *value, struct firn_error *err)
{
    long number;
    if (!str_int(value, 1, INT32_MAX, &number))
        return firn_fail(err, FIRN_EINVAL, "'%s' is not an integer above 0",
                         value);
    *(int *)at = (int)number;
    return FIRN_OK;
}

enum firn_status flag_whole(void *at, const char *value, struct firn_error *err)
{
    if (!str_int(value, 0, INT32_MAX, at))
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is not an integer from 0 to %d", value,
                         INT32_MAX);
    return FIRN_OK;
}

enum firn_status flag_seed(void *at, const char *value, struct firn_error *err)
{
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(value, &end, 10);
    if (strspn(value, "0123456789") != strlen(value) || *value == '\0' ||
        errno != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "'%s' is not an integer from 0 to 2^64-1", value);
    *(uint64_t *)at = seed;
    return FIRN_OK;
}

void words_add(struct words *words, const char *text, size_t n)
{
    char *copy = mem_new(n + 1, 1);
    memcpy(copy, text, n);
    vec_add(words, copy);
}

void words_release(struct words *words)
{
    for (size_t i = 0; i < words->n; i++)
        mem_free(words->at[i]);
    vec_release(words);
}

enum firn_status flag_word(void *at, const char *value, struct firn_error *err)
{
    if (*value == '\0')
        return firn_fail(err, FIRN_EINVAL, "is empty");
    words_add(at, value, strlen(value));
    return FIRN_OK;
}

enum firn_status flag_words(void *at, const char *value, struct firn_error *err)
{
    for (;;) {
        size_t n = strcspn(value, ",");
        if (n == 0)
            return firn_fail(err, FIRN_EINVAL, "has an empty name");
        words_add(at, value, n);
        if (value[n] == '\0')
            return FIRN_OK;
        value += n + 1;
    }
}

/* Prints `text`, wrapped between the columns `indent` and HELP_WIDTH; `column`
 * is where the cursor is. Line breaks and leading blanks are kept. */
static void put_wrapped(const char *text, int column, int indent)
{
    if (column > 0 && column + 2 > indent) { /* at least two blanks */
        putchar('\n');
        column = 0;
    }
    while (*text != '\0') {
        int n =
            (int)(strspn(text, " ") + strcspn(text + strspn(text, " "), " \n"));
        if (column > indent && column + 1 + n > HELP_WIDTH) {
            putchar('\n');
            column = 0;
        }
        int gap = column < indent ? indent - column : column > indent;
        printf("%*s%.*s", gap, "", n, text);
        column += gap + n;
        text += n;
        if (*text == '\n') {
            putchar('\n');
            column = 0;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

static void put_flag(const struct flag *flag)
{
    int n = flag->letter ? printf("  -%c, ", flag->letter) : printf("      ");
    n += printf("--%s", flag->name);
    if (flag->metavar)
        n += printf(" %s", flag->metavar);
    put_wrapped(flag->help, n, HELP_COLUMN);
}

static void flags_help(const struct flags_page *page)
{
    const char *line = page->usage ? page->usage : "";
    const char *head = "usage:";
    do {
        int n = (int)strcspn(line, "\n");
        printf("%s firn %s%s%.*s\n", head, page->command, n ? " " : "", n,
               line);
        line += n + (line[n] == '\n');
        head = "      ";
    } while (*line != '\0');
    if (page->about) {
        putchar('\n');
        put_wrapped(page->about, 0, 0);
    }
    printf("\noptions:\n");
    for (const struct flag *f = page->table; f && f->name; f++)
        put_flag(f);
    put_flag(&(struct flag){"help", 'h', NULL, "print this page", NULL, 0});
    if (page->shared) {
        printf("\n%s:\n", page->shared_head);
        for (const struct flag *f = page->shared(); f->name; f++)
            put_flag(f);
    }
    if (page->more) {
        putchar('\n');
        put_wrapped(page->more, 0, 0);
    }
}

enum firn_status flag_format(void *at, const char *value,
                             struct firn_error *err)
{
    *(bool *)at = strcmp(value, "json") == 0;
    if (!*(bool *)at && strcmp(value, "table") != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "unknown format '%.40s'; use table or json", value);
    return FIRN_OK;
}

int flags_wrong(const struct flags_page *page, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "firn %s: ", page->command);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\ntry 'firn %s --help'\n", page->command);
    return 2;
}

static const struct flag *find(const struct flag *table, const char *name,
                               size_t n, char letter)
{
    for (const struct flag *f = table; f && f->name; f++)
        if (letter ? f->letter == letter
                   : strlen(f->name) == n && strncmp(f->name, name, n) == 0)
            return f;
    return NULL;
}

static int unknown(const struct flags_page *page, const char *arg)
{
    const char *names[NAMES_MAX] = {"help"};
    char name[64];
    size_t n = 1;
    for (const struct flag *f = page->table; f && f->name; f++)
        if (n < NAMES_MAX)
            names[n++] = f->name;
    for (const struct flag *f = page->shared ? page->shared() : NULL;
         f && f->name; f++)
        if (n < NAMES_MAX)
            names[n++] = f->name;
    size_t dashes = strspn(arg, "-");
    size_t length = strcspn(arg + dashes, "=");
    if (length >= sizeof name)
        length = sizeof name - 1;
    memcpy(name, arg + dashes, length);
    name[length] = '\0';
    int best = length > 1 ? str_nearest(name, names, n) : -1;
    if (best < 0)
        return flags_wrong(page, "unknown option '%s'", arg);
    return flags_wrong(page, "unknown option '%s'; did you mean --%s?", arg,
                       names[best]);
}

/* Stores the option argv[*i]; its value follows '=' or is the next argument.
 * Returns like flags_parse(). */
static int take(const struct flags_page *page, void *state, int argc,
                char **argv, int *i)
{
    char *arg = argv[*i];
    bool is_long = arg[1] == '-';
    size_t n = is_long ? strcspn(arg + 2, "=") : 1;
    const char *value = NULL;
    if (is_long && arg[2 + n] == '=')
        value = arg + 2 + n + 1;
    else if (!is_long && arg[2] != '\0')
        value = arg + 2;
    size_t base = 0;
    const struct flag *flag =
        find(page->table, arg + 2, n, is_long ? 0 : arg[1]);
    if (!flag && page->shared) {
        flag = find(page->shared(), arg + 2, n, is_long ? 0 : arg[1]);
        base = page->shared_at;
    }
    if (!flag && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
        flags_help(page);
        return 0;
    }
    if (!flag)
        return unknown(page, arg);
    if (!flag->metavar && value)
        return flags_wrong(page, "--%s takes no value", flag->name);
    if (flag->metavar && !value) {
        if (*i + 1 >= argc)
            return flags_wrong(page, "--%s needs a value (%s)", flag->name,
                               flag->metavar);
        value = argv[++*i];
    }
    struct firn_error err = {0};
    if (flag->set((char *)state + base + flag->offset, value, &err) != FIRN_OK)
        return flags_wrong(page, "--%s: %s", flag->name, err.text);
    return -1;
}

int flags_parse(const struct flags_page *page, void *state, int *argc,
                char **argv)
{
    int kept = 1;
    bool ended = false;
    for (int i = 1; i < *argc; i++) {
        if (ended || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[kept++] = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            ended = true;
            continue;
        }
        int rc = take(page, state, *argc, argv, &i);
        if (rc >= 0)
            return rc;
    }
    *argc = kept;
    return -1;
}

int flags_operands(const struct flags_page *page, int argc, char **argv,
                   int least, int most, const char *what)
{
    int n = argc - 1;
    if (n < least)
        return flags_wrong(page, n == 0 ? "no %s given" : "a %s is missing",
                           what);
    if (n <= most)
        return -1;
    if (most == 0)
        return flags_wrong(page, "unexpected argument '%s'", argv[1]);
    return flags_wrong(page, "unexpected argument '%s' after the %s",
                       argv[most + 1], what);
}

int flags_subcommand(const struct flags_page *page,
                     const struct subcommand *table, int argc, char **argv)
{
    struct firn_buf names = {0};
    for (const struct subcommand *sub = table; sub->name; sub++) {
        if (argc > 1 && strcmp(argv[1], sub->name) == 0) {
            buf_release(&names);
            return sub->run(argc - 1, argv + 1);
        }
        buf_printf(&names, "%s%s",
                   sub == table  ? ""
                   : sub[1].name ? ", "
                                 : " or ",
                   sub->name);
    }
    int rc = flags_parse(page, NULL, &argc, argv);
    if (rc < 0 && argc < 2)
        rc = flags_wrong(page, "no subcommand given: use %s", names.at);
    else if (rc < 0)
        rc = flags_wrong(page, "unknown subcommand '%s': use %s", argv[1],
                         names.at);
    buf_release(&names);
    return rc;
}
