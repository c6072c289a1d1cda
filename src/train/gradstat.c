/* gradstat.c - gradient variance by layer, and the times of a step.
 *
 * Sums over a layer's elements run in LANES partial sums in double, element i
 * of the layer into number i mod LANES, which are added up in order at the
 * end. Nothing is fused (-ffp-contract=off): one fixed order, so the same
 * gradients give the same bits with every compiler and on every machine.
 *
 * Across ranks the mean comes first and the squares of the differences after
 * it: the shorter form, squares minus square of the sum, loses all digits
 * where the ranks agree. firn_gradstat_from_squares() is that shorter form,
 * for when a rank's gradient is gone before the next one's is there; its mean
 * is a float, so it may be off by 1e-7 or so of the sum of squares.
 *
 * Cost: gradients are read once from memory, and a few cycles for each element
 * and rank.
 */
#include <firn/gradstat.h>

#define INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { LANES = 4 }; /* in two vectors */

typedef double f64x2 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8), aligned(4), may_alias));

/* Two floats as doubles. */
#define WIDE(p) __builtin_convertvector(*(const f32x2 *)(p), f64x2)

static double lanes_sum(const f64x2 lane[2])
{
    return ((lane[0][0] + lane[0][1]) + lane[1][0]) + lane[1][1];
}

/* sum_v (g_v - mean)^2 of two elements. The number of ranks is a constant
 * wherever this is inlined, but once. */
static INLINE f64x2 spread_at(const float *const *grad, size_t nranks,
                              double share, size_t i)
{
    f64x2 mean = {0}, sum = {0};
    UNROLL
    for (size_t v = 0; v < nranks; v++)
        mean += WIDE(grad[v] + i);
    mean *= share;
    UNROLL
    for (size_t v = 0; v < nranks; v++) {
        f64x2 off = WIDE(grad[v] + i) - mean;
        sum += off * off;
    }
    return sum;
}

static INLINE double spread_of(const float *const *grad, size_t nranks,
                               size_t at, size_t end)
{
    double share = 1.0 / (double)nranks;
    f64x2 lane[2] = {{0}};
    for (; at + LANES <= end; at += LANES) {
        lane[0] += spread_at(grad, nranks, share, at);
        lane[1] += spread_at(grad, nranks, share, at + 2);
    }
    for (size_t l = 0; at < end; at++, l++) {
        double mean = 0, sum = 0;
        for (size_t v = 0; v < nranks; v++)
            mean += (double)grad[v][at];
        mean *= share;
        for (size_t v = 0; v < nranks; v++) {
            double off = (double)grad[v][at] - mean;
            sum += off * off;
        }
        lane[l / 2][l % 2] += sum;
    }
    return lanes_sum(lane);
}

static double spread_across(const float *const *grad, size_t nranks, size_t at,
                            size_t end)
{
    switch (nranks) {
    case 2:
        return spread_of(grad, 2, at, end);
    case 4:
        return spread_of(grad, 4, at, end);
    case 8:
        return spread_of(grad, 8, at, end);
    default:
        return spread_of(grad, nranks, at, end);
    }
}

/* The sum over n elements of (x - y)^2; y NULL is zero. */
static INLINE double spread_between(const float *x, const float *y, size_t n)
{
    f64x2 lane[2] = {{0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f64x2 a = WIDE(x + i), b = WIDE(x + i + 2);
        if (y != NULL) {
            a -= WIDE(y + i);
            b -= WIDE(y + i + 2);
        }
        lane[0] += a * a;
        lane[1] += b * b;
    }
    for (size_t l = 0; i < n; i++, l++) {
        double off = (double)x[i] - (y == NULL ? 0 : (double)y[i]);
        lane[l / 2][l % 2] += off * off;
    }
    return lanes_sum(lane);
}

void firn_gradstat_across(double *sum, const float *const *grad, size_t nranks,
                          const size_t *layer_start, size_t nlayers,
                          size_t first_layer)
{
    for (size_t k = first_layer; k < nlayers; k++)
        sum[k] +=
            spread_across(grad, nranks, layer_start[k], layer_start[k + 1]) /
            (double)(nranks - 1);
}

void firn_gradstat_between(double *sum, const float *now, const float *before,
                           const size_t *layer_start, size_t nlayers,
                           size_t first_layer)
{
    for (size_t k = first_layer; k < nlayers; k++) {
        size_t at = layer_start[k], n = layer_start[k + 1] - at;
        sum[k] += 0.5 * spread_between(now + at, before + at, n);
    }
}

void firn_gradstat_squares(double *squares, const float *grad,
                           const size_t *layer_start, size_t nlayers,
                           size_t first_layer)
{
    for (size_t k = first_layer; k < nlayers; k++) {
        size_t at = layer_start[k], n = layer_start[k + 1] - at;
        squares[k] += spread_between(grad + at, NULL, n);
    }
}

void firn_gradstat_from_squares(double *sum, const double *squares,
                                const float *mean, size_t nranks,
                                const size_t *layer_start, size_t nlayers,
                                size_t first_layer)
{
    double ranks = (double)nranks;
    for (size_t k = first_layer; k < nlayers; k++) {
        size_t at = layer_start[k], n = layer_start[k + 1] - at;
        double of_mean = spread_between(mean + at, NULL, n);
        sum[k] += (squares[k] - ranks * of_mean) / (ranks - 1);
    }
}

/* --- step times ----------------------------------------------------------- */

void firn_steptimes_add(struct firn_steptimes *times, enum firn_step_part part,
                        double seconds)
{
    times->now_s[part] += seconds;
}

void firn_steptimes_end(struct firn_steptimes *times)
{
    for (int i = 0; i < FIRN_STEP_NPARTS; i++) {
        times->sum_s[i] += times->now_s[i];
        times->now_s[i] = 0;
    }
    times->nsteps++;
}

double firn_steptimes_mean(const struct firn_steptimes *times,
                           enum firn_step_part part)
{
    return times->nsteps > 0 ? times->sum_s[part] / (double)times->nsteps : 0;
}

double firn_steptimes_step(const struct firn_steptimes *times)
{
    double sum_s = 0;
    for (int i = 0; i < FIRN_STEP_NPARTS; i++)
        sum_s += firn_steptimes_mean(times, (enum firn_step_part)i);
    return sum_s;
}
