/* ring.c - the sum in the order in which gloo's ring makes it.
 *
 * gloo cuts the vector into segments, a multiple of the number of ranks and
 * at least two for each, of at most a mebibyte. Group r of the segments goes
 * round the ring against the order of the ranks: rank r-1 starts, r-2 adds
 * its own, ..., and rank r adds last. So each element has one fixed order of
 * its operands, which depends on where in the vector it lies. That is why a
 * framework's own reduction changes its bits when a gradient moves to another
 * bucket, and why firn_fold_f32() is the reference and not this.
 *
 * The rule, for n elements of four bytes and V ranks:
 *
 *   segments = max(2 V, ceil(4 n / 2^20)), rounded up to a multiple of V
 *   length   = ceil(4 n / segments), rounded up to whole elements
 *
 * Trailing segments may be short or empty. Cost: that of the plain fold.
 */
#include <firn/fold.h>
#include <stdint.h>

enum { SEGMENT_BYTES = 1 << 20, BATCH = 8 };

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Elements of a group: its segments lie one behind the other. */
static size_t group_length(size_t nin, size_t n)
{
    uint64_t bytes = (uint64_t)n * sizeof(float);
    uint64_t segments = ceil_div(bytes, SEGMENT_BYTES);
    if (segments < 2 * (uint64_t)nin)
        segments = 2 * (uint64_t)nin;
    uint64_t each = ceil_div(segments, nin);
    uint64_t length = ceil_div(ceil_div(bytes, each * nin), sizeof(float));
    return (size_t)(each * length);
}

/* The r-th group: operands r-1, r-2, ..., r, some at a time. */
static void sum_group(float *out, const float *const *in, size_t nin, size_t r,
                      size_t at, size_t n)
{
    const float *some[BATCH];
    size_t held = 0;
    for (size_t done = 0; done < nin;) {
        size_t k = held;
        for (; k < BATCH && done < nin; done++)
            some[k++] = in[(r + 2 * nin - 1 - done) % nin] + at;
        firn_fold_f32(out + at, some, k, n, 1);
        some[0] = out + at;
        held = 1;
    }
}

void firn_fold_ring_f32(float *out, const float *const *in, size_t nin,
                        size_t n)
{
    size_t length = group_length(nin, n);
    for (size_t r = 0; r < nin; r++) {
        size_t at = r * length;
        if (at < n)
            sum_group(out, in, nin, r, at, n - at < length ? n - at : length);
    }
}
