/* sort.c - radix sort of doubles by their bits.
 *
 * A double's bits, with the sign bit turned (all bits of negatives), order as
 * unsigned integers like the numbers do. Six passes of eleven bits each, least
 * first, sort them; a pass in which all digits are equal is left out, and
 * completion times in seconds share most of theirs. Several times as fast as
 * qsort with its calls, and a run has three such arrays of one number per job.
 */
#include "base/sort.h"
#include "base/mem.h"
#include <stdint.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 6, BINS = 1 << DIGIT_BITS };

static const uint64_t sign = (uint64_t)1 << 63;

static void to_bits(uint64_t *bits, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t b;
        memcpy(&b, &values[i], sizeof b);
        bits[i] = b & sign ? ~b : b | sign;
    }
}

static void from_bits(double *values, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t b = bits[i] & sign ? bits[i] & ~sign : ~bits[i];
        memcpy(&values[i], &b, sizeof b);
    }
}

/* One pass from `from` to `to`; false, and nothing moved, when all digits are
 * equal. */
static int pass(const uint64_t *from, uint64_t *to, size_t n, int digit)
{
    size_t start[BINS] = {0};
    int shift = digit * DIGIT_BITS;
    for (size_t i = 0; i < n; i++)
        start[from[i] >> shift & (BINS - 1)]++;
    if (start[from[0] >> shift & (BINS - 1)] == n)
        return 0;
    size_t sum = 0;
    for (int b = 0; b < BINS; b++) {
        size_t count = start[b];
        start[b] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[start[from[i] >> shift & (BINS - 1)]++] = from[i];
    return 1;
}

/* For few values the bins would cost more than the work. */
static void insertion(double *values, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double value = values[i];
        size_t j = i;
        for (; j > 0 && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
}

void sort_doubles(double *values, size_t n)
{
    int has_nan = 0;
    for (size_t i = 0; i < n; i++)
        has_nan |= values[i] != values[i];
    if (n < 64 && !has_nan) {
        insertion(values, n);
        return;
    }
    uint64_t *from = mem_new(n, sizeof *from), *to = mem_new(n, sizeof *to);
    to_bits(from, values, n);
    for (int digit = 0; digit < DIGITS; digit++) {
        if (!pass(from, to, n, digit))
            continue;
        uint64_t *spare = from;
        from = to;
        to = spare;
    }
    from_bits(values, from, n);
    mem_free(from);
    mem_free(to);
}
