/* jobvalue.c - times, sizes, shares, dates, ranges and commands from text.
 *
 * Dates are counted in days from 1970-01-01 by the rule of the Gregorian
 * calendar: 365 days, and one more each 4th year that is no 100th but may be a
 * 400th. No time zone data are read.
 */
#include "core/jobvalue.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "core/jobfields.h"
#include <string.h>

enum { WORDS_MAX = 1024 };

static const char digits[] = "0123456789";

/* --- numbers with units -------------------------------------------------- */

struct unit {
    const char *name;
    double factor;
};

/* A number and what follows it; `at` goes behind the number. */
static bool take_number(const char **at, double *out)
{
    char number[32];
    size_t n = strspn(*at, "0123456789.");
    if (n == 0 || n >= sizeof number)
        return false;
    memcpy(number, *at, n);
    number[n] = '\0';
    *at += n;
    return str_double(number, out);
}

static bool take_unit(const char **at, const struct unit *units, double *out)
{
    for (; units->name != NULL; units++) {
        size_t n = strlen(units->name);
        if (strncmp(*at, units->name, n) != 0)
            continue;
        *at += n;
        *out = units->factor;
        return true;
    }
    return false;
}

const char *value_time_s(const char *text, double *out)
{
    static const char what[] = "a time such as 90s, 45m, 2h or 1h30m";
    static const struct unit units[] = {
        {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
    const char *at = text;
    double sum_s = 0, value = 0, unit_s = 0, before_s = 1e18;
    if (str_double(text, &sum_s) && strspn(text, "0123456789.") == strlen(text))
        at = "";
    else
        sum_s = 0;
    while (*at != '\0') {
        if (!take_number(&at, &value) || !take_unit(&at, units, &unit_s) ||
            unit_s >= before_s)
            return what;
        sum_s += value * unit_s;
        before_s = unit_s;
    }
    if (text[0] == '\0' || !(sum_s >= 0) || sum_s > 10 * 366 * 86400.0)
        return what;
    *out = sum_s;
    return NULL;
}

const char *value_gib(const char *text, double *out)
{
    static const char what[] = "a size such as 40GiB, 900MiB or 16GB";
    static const struct unit units[] = {{"GiB", 1},
                                        {"MiB", 1.0 / 1024},
                                        {"TiB", 1024},
                                        {"GB", 1e9 / 1073741824.0},
                                        {"MB", 1e6 / 1073741824.0},
                                        {"TB", 1e12 / 1073741824.0},
                                        {NULL, 0}};
    const char *at = text;
    double value = 0, unit = 1;
    if (!take_number(&at, &value))
        return what;
    at += strspn(at, " ");
    if (*at != '\0' && (!take_unit(&at, units, &unit) || *at != '\0'))
        return what;
    value *= unit;
    if (!(value > 0) || value > 1e6)
        return what;
    *out = value;
    return NULL;
}

const char *value_share(const char *text, double *out)
{
    static const char what[] = "a share such as 90% or 0.9";
    const char *at = text;
    double value = 0;
    if (!take_number(&at, &value))
        return what;
    if (*at == '%') {
        value /= 100;
        at++;
    }
    if (*at != '\0' || !(value > 0) || value > 1)
        return what;
    *out = value;
    return NULL;
}

/* --- dates --------------------------------------------------------------- */

/* Exactly `n` digits from min to max. */
static bool take_digits(const char **at, size_t n, long min, long max,
                        long *out)
{
    char number[8];
    if (strspn(*at, digits) < n || n >= sizeof number)
        return false;
    memcpy(number, *at, n);
    number[n] = '\0';
    *at += n;
    return str_int(number, min, max, out);
}

static bool take_letter(const char **at, const char *letters)
{
    if (**at == '\0' || strchr(letters, **at) == NULL)
        return false;
    ++*at;
    return true;
}

static bool is_leap(long year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static long month_days(long year, long month)
{
    static const long days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

static long days_since_1970(long year, long month, long day)
{
    long days = day - 1;
    for (long y = 1970; y < year; y++)
        days += 365 + is_leap(y);
    for (long m = 1; m < month; m++)
        days += month_days(year, m);
    return days;
}

/* "Z", "+01:00": minutes east. */
static bool take_zone(const char **at, long *out)
{
    long hours = 0, minutes = 0;
    bool is_west = **at == '-';
    if (take_letter(at, "Zz")) {
        *out = 0;
        return true;
    }
    if (!take_letter(at, "+-") || !take_digits(at, 2, 0, 14, &hours) ||
        !take_letter(at, ":") || !take_digits(at, 2, 0, 59, &minutes))
        return false;
    *out = (is_west ? -1 : 1) * (60 * hours + minutes);
    return true;
}

const char *value_date_s(const char *text, double *out)
{
    static const char what[] =
        "a date such as 2026-11-20T18:00Z or 2026-11-20T18:00:00+01:00";
    const char *at = text;
    long year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    long east = 0;
    if (!take_digits(&at, 4, 1970, 2200, &year) || !take_letter(&at, "-") ||
        !take_digits(&at, 2, 1, 12, &month) || !take_letter(&at, "-") ||
        !take_digits(&at, 2, 1, month_days(year, month), &day) ||
        !take_letter(&at, "Tt ") || !take_digits(&at, 2, 0, 23, &hour) ||
        !take_letter(&at, ":") || !take_digits(&at, 2, 0, 59, &minute))
        return what;
    if (take_letter(&at, ":") && !take_digits(&at, 2, 0, 59, &second))
        return what;
    if (!take_zone(&at, &east) || *at != '\0')
        return what;
    *out = 86400.0 * (double)days_since_1970(year, month, day) +
           3600.0 * (double)hour + 60.0 * (double)(minute - east) +
           (double)second;
    return NULL;
}

/* --- GPUs and names ------------------------------------------------------ */

const char *value_range(const char *text, int most, int *min, int *max)
{
    static const char what[] =
        "a number of GPUs such as 4, or a range such as 1..8";
    char first[16] = "";
    const char *dots = strstr(text, "..");
    size_t n = dots != NULL ? (size_t)(dots - text) : strlen(text);
    long low = 0, high = 0;
    if (n >= sizeof first || strspn(text, digits) < n)
        return what;
    memcpy(first, text, n);
    first[n] = '\0';
    if (!str_int(first, 1, most, &low))
        return what;
    high = low;
    if (dots != NULL && (strspn(dots + 2, digits) != strlen(dots + 2) ||
                         !str_int(dots + 2, low, most, &high)))
        return what;
    *min = (int)low;
    *max = (int)high;
    return NULL;
}

const char *value_name(const char *text)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(text, good);
    if (n == 0 || n > JOB_NAME_MAX || text[n] != '\0' || text[0] == '.' ||
        text[0] == '-')
        return "1 to 64 letters, digits and . _ -, a letter or digit first";
    if (strspn(text, digits) == n)
        return "a name with a letter in it (digits alone are the number of a "
               "job)";
    return NULL;
}

/* --- commands ------------------------------------------------------------ */

struct words {
    char **at;
    size_t n, cap;
};

static const char *fail_words(struct words *words, struct firn_buf *word,
                              const char *why)
{
    for (size_t i = 0; i < words->n; i++)
        mem_free(words->at[i]);
    vec_release(words);
    buf_release(word);
    return why;
}

static void end_word(struct words *words, struct firn_buf *word)
{
    if (word->at == NULL)
        return;
    vec_add(words, word->at);
    *word = (struct firn_buf){0};
}

const char *value_words(const char *text, char ***out)
{
    struct words words = {0};
    struct firn_buf word = {0};
    for (const char *at = text; *at != '\0'; at++) {
        if (strchr("|&;<>$`*", *at) != NULL)
            return fail_words(&words, &word,
                              "a command without | & ; < > $ ` * outside of "
                              "quotes (no shell reads it; with one: [sh, -c, "
                              "'...'])");
        if (*at == ' ') {
            end_word(&words, &word);
        } else if (*at == '\'' || *at == '"') {
            const char *end = strchr(at + 1, *at);
            if (end == NULL)
                return fail_words(&words, &word,
                                  "a command whose quotes are closed");
            buf_add(&word, at + 1, (size_t)(end - at - 1));
            at = end;
        } else {
            buf_putc(&word, *at);
        }
    }
    end_word(&words, &word);
    if (words.n == 0 || words.n > WORDS_MAX || words.at[0][0] == '\0')
        return fail_words(&words, &word, "a command of 1 to 1024 words");
    vec_add(&words, NULL);
    *out = words.at;
    return NULL;
}

void value_words_free(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        mem_free(words[i]);
    mem_free(words);
}
