/* nn.h - the arithmetic of the example trainers, written out by hand.
 *
 * Row-major matrices of float, forward and backward of each operation as plain
 * functions over memory that the caller holds. Nothing is allocated here and
 * nothing is kept, so a result depends on the arguments alone: that is what
 * the trainers' bit-for-bit claims stand on.
 *
 * Backward functions add to gradients of parameters and set those of inputs.
 */
#ifndef EXAMPLES_NN_H
#define EXAMPLES_NN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- random numbers ------------------------------------------------------- */

struct nn_rng {
    uint64_t state;
};
double nn_uniform(struct nn_rng *rng); /* in [0, 1) */
float nn_normal(struct nn_rng *rng);
/* n normal numbers of this deviation. */
void nn_fill(struct nn_rng *rng, float *w, size_t n, float deviation);

/* --- matrix products ----------------------------------------------------- */

/* How a sum over k is ordered. Sums of one order are the same on every
 * machine; different orders stand for GPU types whose kernels differ. */
enum nn_order {
    NN_SEQUENTIAL, /* one sum over rising k: what determinism D2 asks for */
    NN_FOUR,       /* four partial sums */
    NN_EIGHT
};
bool nn_order_named(const char *name, enum nn_order *out);

/* c = a b, or c += a b: a is m x k, b is k x n. `at`, `bt`: the matrix lies
 * transposed in memory (k x m, n x k). */
struct nn_gemm {
    const float *a, *b;
    float *c;
    size_t m, n, k;
    bool at, bt, adds;
    enum nn_order order;
};
void nn_gemm(const struct nn_gemm *g);

/* --- operations ---------------------------------------------------------- */

/* 3 x 3 convolution with padding 1 of one picture: `in` has nin planes of
 * side x side, w is nout x nin x 9, `columns` room for nin * 9 * side^2. */
struct nn_conv {
    size_t side, nin, nout;
    enum nn_order order;
};
void nn_conv(const struct nn_conv *c, float *out, const float *in,
             const float *w, const float *bias, float *columns);
void nn_conv_back(const struct nn_conv *c, float *din, float *dw, float *dbias,
                  const float *dout, const float *in, const float *w,
                  float *columns); /* din NULL: not wanted */

/* Largest of 2 x 2, for nplanes planes; `from` remembers which. */
void nn_pool(float *out, uint8_t *from, const float *in, size_t side,
             size_t nplanes);
void nn_pool_back(float *din, const float *dout, const uint8_t *from,
                  size_t side, size_t nplanes);

/* Batch normalisation over n pictures of nplanes x area. With `running` (mean,
 * then variance) updated when training, used when not. `kept` has the mean and
 * 1/deviation of each plane for the way back. */
struct nn_norm {
    size_t n, nplanes, area;
    bool trains;
};
void nn_batchnorm(const struct nn_norm *s, float *x, float *normal, float *kept,
                  const float *scale_shift, float *running);
void nn_batchnorm_back(const struct nn_norm *s, float *dx, float *dscale_shift,
                       const float *normal, const float *kept,
                       const float *scale_shift);

void nn_relu(float *x, size_t n);
void nn_relu_back(float *dx, const float *out, size_t n);
void nn_gelu(float *out, const float *in, size_t n);
void nn_gelu_back(float *dx, const float *in, size_t n); /* dx *= gelu' */
/* Zeroes with chance p, scales the rest; mask remembers. */
void nn_dropout(float *x, uint8_t *mask, size_t n, float p, struct nn_rng *rng);
void nn_dropout_back(float *dx, const uint8_t *mask, size_t n, float p);

/* Layer normalisation of rows of `width`; kept: mean and 1/deviation a row. */
void nn_layernorm(float *out, float *kept, const float *in, const float *gain,
                  size_t nrows, size_t width);
void nn_layernorm_back(float *din, float *dgain, const float *dout,
                       const float *in, const float *kept, const float *gain,
                       size_t nrows, size_t width);

/* Cross entropy of `nrows` rows of logits; turns them into the gradient times
 * weight / nrows. The mean loss; *nright counts rows whose largest is right. */
double nn_cross_entropy(float *logits, const uint8_t *label, size_t nrows,
                        size_t nclasses, float weight, size_t *nright);

/* --- optimisers ---------------------------------------------------------- */

/* Momentum: v = 0.9 v + g + decay w; w -= rate v. Adam: the usual betas; t is
 * the step from 1 on. Elements `start` to `n`. */
struct nn_update {
    float *w;
    const float *g;
    size_t start, n;
    float rate, decay;
};
void nn_sgd(const struct nn_update *u, float *velocity);
void nn_adam(const struct nn_update *u, float *first, float *second,
             uint64_t t);

#endif
