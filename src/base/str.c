/* str.c - numbers from text and back, nearest names, safe copies.
 *
 * A decimal is read in one pass into a 19-digit integer and a power of ten.
 * When the integer is below 2^53 and the power within 22, both are exact
 * doubles and one multiplication or division rounds correctly (Clinger, PLDI
 * 1990): that is nearly every number of a trace. The others go to strtod in
 * the "C" locale. Both ways give the same double.
 *
 * Grammar, after white space is cut at both ends:
 *   [+-] digits [. digits] [e [+-] digits], or [+-] . digits [e ...].
 *
 * A number becomes its shortest text: a decimal of at most 15 digits survives
 * the trip through a double, and 17 digits always do, so the first of 15, 16
 * and 17 digits that reads back equal is the shortest. Two shortcuts give the
 * same text without printf, because results hold millions of numbers: whole
 * numbers below 2^53, and numbers with up to six decimals. For the second,
 * n / 10^k is correctly rounded when n < 2^53 and k <= 22, so it is the very
 * double that reading "n / 10^k" gives; if it equals the value and n has at
 * most 15 digits, those digits are the answer. -0 is written as 0.
 */
#include "base/str.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_space(const char *at)
{
    while (is_space(*at))
        at++;
    return at;
}

/* value = digits * 10^exp10, unless some digits were `cut`. */
struct decimal {
    uint64_t digits;
    int exp10;
    bool is_negative, is_cut;
};

/* Adds the digits at `at`; each counts `shift` in the exponent. */
static const char *read_digits(const char *at, struct decimal *dec, int shift)
{
    for (; is_digit(*at); at++) {
        if (dec->digits < 1000000000000000000u) {
            dec->digits = dec->digits * 10 + (uint64_t)(*at - '0');
            dec->exp10 -= shift;
        } else {
            dec->is_cut = true;
        }
    }
    return at;
}

/* The exponent after the 'e', held within +-99999; NULL when there is none. */
static const char *read_exponent(const char *at, struct decimal *dec)
{
    bool is_negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    if (!is_digit(*at))
        return NULL;
    int exp10 = 0;
    for (; is_digit(*at); at++)
        if (exp10 < 99999)
            exp10 = exp10 * 10 + (*at - '0');
    dec->exp10 += is_negative ? -exp10 : exp10;
    return at;
}

/* Reads the whole grammar; false when `text` is something else. */
static bool read_decimal(const char *text, struct decimal *dec)
{
    const char *at = text;
    dec->is_negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    const char *start = at;
    at = read_digits(at, dec, 0);
    size_t ndigits = (size_t)(at - start);
    if (*at == '.') {
        start = ++at;
        at = read_digits(at, dec, 1);
        ndigits += (size_t)(at - start);
    }
    if (ndigits == 0)
        return false;
    if (*at == 'e' || *at == 'E')
        at = read_exponent(at + 1, dec);
    return at != NULL && *skip_space(at) == '\0';
}

static double read_slowly(const char *text)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(plain);
    double value = strtod(text, NULL);
    uselocale(before);
    freelocale(plain);
    return value;
}

bool str_double(const char *text, double *out)
{
    static const double tens[] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal dec = {0};
    text = skip_space(text);
    if (!read_decimal(text, &dec))
        return false;
    double value = (double)dec.digits;
    if (dec.is_cut || dec.digits > (uint64_t)1 << 53 || dec.exp10 < -22 ||
        dec.exp10 > 22) {
        value = read_slowly(text); /* has the sign */
        if (!isfinite(value))
            return false;
        *out = value;
        return true;
    }
    if (dec.exp10 < 0)
        value /= tens[-dec.exp10];
    else
        value *= tens[dec.exp10];
    *out = dec.is_negative ? -value : value;
    return true;
}

bool str_int(const char *text, long min, long max, long *out)
{
    double value = 0.0;
    if (!str_double(text, &value) || floor(value) != value)
        return false;
    if (fabs(value) > 9007199254740992.0) /* not exact: could be a neighbour */
        return false;
    long n = (long)value;
    if (n < min || n > max)
        return false;
    *out = n;
    return true;
}

bool str_id(const char *text, long max, long *out)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && text[n] == '\0' && str_int(text, 0, max, out);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_equal_nocase(const char *a, const char *b)
{
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

enum { NAME_BYTES = 64 }; /* longer names are compared by their start */

/* Insertions, deletions and replacements from `a` to `b`, case aside. */
static size_t edits(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[NAME_BYTES + 1];
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

int str_nearest(const char *text, const char *const *names, size_t n)
{
    size_t ntext = strnlen(text, NAME_BYTES);
    size_t limit = ntext / 3 > 2 ? ntext / 3 : 2;
    int best = -1;
    for (size_t i = 0; i < n; i++) {
        size_t d = edits(text, ntext, names[i], strnlen(names[i], NAME_BYTES));
        if (d > limit)
            continue;
        best = (int)i;
        if (d == 0)
            break;
        limit = d - 1; /* the next must be nearer */
    }
    return best;
}

bool str_copy(char *out, size_t size, const char *text)
{
    size_t n = strlen(text);
    bool fits = n < size;
    if (size == 0)
        return false;
    if (!fits)
        n = size - 1;
    memcpy(out, text, n);
    out[n] = '\0';
    return fits;
}

char *str_trim(char *text)
{
    while (is_space(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && is_space(text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

/* --- numbers as text ------------------------------------------------------ */

/* The digits of `n` so that they end at `end`; returns where they start. */
static char *digits_before(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    return end;
}

static const char *whole_text(double size, bool is_negative,
                              char out[STR_DOUBLE_MAX])
{
    char *end = out + STR_DOUBLE_MAX - 1;
    *end = '\0';
    char *at = digits_before(end, (uint64_t)size);
    if (is_negative && size > 0.0)
        *--at = '-';
    return memmove(out, at, (size_t)(end - at) + 1);
}

/* "123.4736" when six decimals are enough, else NULL. */
static const char *decimal_text(double size, bool is_negative,
                                char out[STR_DOUBLE_MAX])
{
    static const double tens[] = {1e1, 1e2, 1e3, 1e4, 1e5, 1e6};
    if (size < 1e-4 || size >= 1e9)
        return NULL;
    for (int k = 1; k <= 6; k++) {
        double scaled = floor(size * tens[k - 1] + 0.5);
        if (scaled >= 1e15)
            return NULL;
        if (scaled / tens[k - 1] != size)
            continue;
        uint64_t n = (uint64_t)scaled;
        uint64_t ten = (uint64_t)tens[k - 1];
        char *end = out + STR_DOUBLE_MAX - 1;
        *end = '\0';
        char *dot = digits_before(end, n % ten + ten); /* keeps zeros */
        *dot = '.';
        char *at = digits_before(dot, n / ten);
        if (is_negative)
            *--at = '-';
        return memmove(out, at, (size_t)(end - at) + 1);
    }
    return NULL;
}

static const char *printed_text(double value, char out[STR_DOUBLE_MAX])
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(plain);
    int first = fabs(value) < DBL_MIN ? 1 : 15; /* subnormals have fewer */
    for (int digits = first; digits <= 17; digits++) {
        char text[64]; /* more than needed, which compilers cannot know */
        double back = 0.0;
        snprintf(text, sizeof text, "%.*g", digits, value);
        str_copy(out, STR_DOUBLE_MAX, text); /* at most 24 bytes */
        if (digits == 17 || (str_double(out, &back) && back == value))
            break;
    }
    uselocale(before);
    freelocale(plain);
    return out;
}

const char *double_text(double value, char out[STR_DOUBLE_MAX])
{
    double size = fabs(value);
    bool is_negative = value < 0.0;
    if (isnan(value) || isinf(value)) {
        str_copy(out, STR_DOUBLE_MAX,
                 isnan(value)  ? "nan"
                 : is_negative ? "-inf"
                               : "inf");
        return out;
    }
    if (size < 9007199254740992.0 && floor(size) == size)
        return whole_text(size, is_negative, out);
    const char *text = decimal_text(size, is_negative, out);
    return text != NULL ? text : printed_text(value, out);
}
