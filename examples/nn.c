/* nn.c - the arithmetic of the example trainers.
 *
 * Loops are written so that a compiler vectorises over outputs, never over a
 * sum: with -ffp-contract=off the bits are then those of the source, for every
 * compiler and width of vectors. exp, log, tanh and sqrt are libm's, the same
 * for all processes of a machine.
 */
#include "nn.h"
#include <math.h>
#include <string.h>

/* --- random numbers ------------------------------------------------------- */

/* splitmix64 */
static uint64_t next(struct nn_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double nn_uniform(struct nn_rng *rng)
{
    return (double)(next(rng) >> 11) * 0x1p-53;
}

float nn_normal(struct nn_rng *rng)
{
    double u = 1.0 - nn_uniform(rng);
    double v = nn_uniform(rng);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

void nn_fill(struct nn_rng *rng, float *w, size_t n, float deviation)
{
    for (size_t i = 0; i < n; i++)
        w[i] = deviation * nn_normal(rng);
}

/* --- matrix products ----------------------------------------------------- */

bool nn_order_named(const char *name, enum nn_order *out)
{
    static const char *const names[] = {"sequential", "four", "eight"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum nn_order)i;
            return true;
        }
    return false;
}

/* c[0..n) += s * b[0..n) */
static void add_row(float *restrict c, const float *restrict b, float s,
                    size_t n)
{
    for (size_t j = 0; j < n; j++)
        c[j] += s * b[j];
}

static float from_a(const struct nn_gemm *g, size_t i, size_t k)
{
    return g->at ? g->a[k * g->m + i] : g->a[i * g->k + k];
}

/* Four rows at once, added one after the other: the same sums, fewer visits to
 * memory. */
static void add_four_rows(float *restrict c, const float *restrict b,
                          size_t stride, const float s[4], size_t n)
{
    const float *b1 = b + stride;
    const float *b2 = b1 + stride;
    const float *b3 = b2 + stride;
    for (size_t j = 0; j < n; j++)
        c[j] = (((c[j] + s[0] * b[j]) + s[1] * b1[j]) + s[2] * b2[j]) +
               s[3] * b3[j];
}

/* c[i][from..from + width) += sum over nk rows of `b`, which are those from
 * k = first on. */
struct tile {
    const float *b;
    size_t stride, first, nk, from, width;
};

static void add_tile(const struct nn_gemm *g, const struct tile *t, size_t i)
{
    float *c = g->c + i * g->n + t->from;
    size_t k = 0;
    for (; k + 4 <= t->nk; k += 4) {
        float s[4];
        for (size_t q = 0; q < 4; q++)
            s[q] = from_a(g, i, t->first + k + q);
        add_four_rows(c, t->b + k * t->stride, t->stride, s, t->width);
    }
    for (; k < t->nk; k++)
        add_row(c, t->b + k * t->stride, from_a(g, i, t->first + k), t->width);
}

enum { TILE = 64 };

/* b lies transposed: turned round tile by tile, tiles of rising k in order. */
static void gemm_transposed(const struct nn_gemm *g)
{
    float turned[TILE * TILE];
    for (size_t from = 0; from < g->n; from += TILE)
        for (size_t first = 0; first < g->k; first += TILE) {
            struct tile t = {.b = turned,
                             .stride = TILE,
                             .first = first,
                             .nk = g->k - first < TILE ? g->k - first : TILE,
                             .from = from,
                             .width = g->n - from < TILE ? g->n - from : TILE};
            for (size_t j = 0; j < t.width; j++)
                for (size_t k = 0; k < t.nk; k++)
                    turned[k * TILE + j] = g->b[(from + j) * g->k + first + k];
            for (size_t i = 0; i < g->m; i++)
                add_tile(g, &t, i);
        }
}

/* Each sum in `parts` partial sums, put together in order. */
static void gemm_in_parts(const struct nn_gemm *g, size_t parts)
{
    size_t row = g->bt ? 1 : g->n; /* from one k to the next */
    size_t column = g->bt ? g->k : 1;
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++)
            for (size_t p = 0; p < parts; p++) {
                float sum = 0;
                for (size_t k = p; k < g->k; k += parts)
                    sum += from_a(g, i, k) * g->b[k * row + j * column];
                g->c[i * g->n + j] += sum;
            }
}

void nn_gemm(const struct nn_gemm *g)
{
    static const size_t parts_of[] = {1, 4, 8};
    struct tile whole = {.b = g->b, .stride = g->n, .nk = g->k, .width = g->n};
    if (!g->adds)
        memset(g->c, 0, g->m * g->n * sizeof *g->c);
    if (g->order != NN_SEQUENTIAL) {
        gemm_in_parts(g, parts_of[g->order]);
    } else if (g->bt) {
        gemm_transposed(g);
    } else {
        for (size_t i = 0; i < g->m; i++)
            add_tile(g, &whole, i);
    }
}

/* --- convolution --------------------------------------------------------- */

/* Row (plane, tap) of `columns` is the picture moved by that tap. */
static void spread_taps(float *columns, const float *in, size_t side,
                        size_t nplanes)
{
    size_t area = side * side;
    memset(columns, 0, nplanes * 9 * area * sizeof *columns);
    for (size_t row = 0; row < nplanes * 9; row++) {
        const float *plane = in + row / 9 * area;
        float *out = columns + row * area;
        size_t up = row % 9 / 3;
        size_t left = row % 3;
        for (size_t y = 0; y < side; y++) {
            if (y + up < 1 || y + up > side)
                continue;
            size_t from = left == 0 ? 1 : 0;
            size_t to = left == 2 ? side - 1 : side;
            memcpy(out + y * side + from,
                   plane + (y + up - 1) * side + from + left - 1,
                   (to - from) * sizeof *out);
        }
    }
}

static void gather_taps(float *din, const float *columns, size_t side,
                        size_t nplanes)
{
    size_t area = side * side;
    memset(din, 0, nplanes * area * sizeof *din);
    for (size_t row = 0; row < nplanes * 9; row++) {
        float *plane = din + row / 9 * area;
        const float *in = columns + row * area;
        size_t up = row % 9 / 3;
        size_t left = row % 3;
        for (size_t y = 0; y < side; y++) {
            if (y + up < 1 || y + up > side)
                continue;
            size_t from = left == 0 ? 1 : 0;
            size_t to = left == 2 ? side - 1 : side;
            add_row(plane + (y + up - 1) * side + from + left - 1,
                    in + y * side + from, 1, to - from);
        }
    }
}

void nn_conv(const struct nn_conv *c, float *out, const float *in,
             const float *w, const float *bias, float *columns)
{
    size_t area = c->side * c->side;
    spread_taps(columns, in, c->side, c->nin);
    for (size_t o = 0; o < c->nout; o++)
        for (size_t i = 0; i < area; i++)
            out[o * area + i] = bias[o];
    nn_gemm(&(struct nn_gemm){.a = w,
                              .b = columns,
                              .c = out,
                              .m = c->nout,
                              .n = area,
                              .k = c->nin * 9,
                              .adds = true,
                              .order = c->order});
}

void nn_conv_back(const struct nn_conv *c, float *din, float *dw, float *dbias,
                  const float *dout, const float *in, const float *w,
                  float *columns)
{
    size_t area = c->side * c->side;
    spread_taps(columns, in, c->side, c->nin);
    nn_gemm(&(struct nn_gemm){.a = dout,
                              .b = columns,
                              .c = dw,
                              .m = c->nout,
                              .n = c->nin * 9,
                              .k = area,
                              .bt = true,
                              .adds = true,
                              .order = c->order});
    for (size_t o = 0; o < c->nout; o++) {
        float sum = 0;
        for (size_t i = 0; i < area; i++)
            sum += dout[o * area + i];
        dbias[o] += sum;
    }
    if (din == NULL)
        return;
    nn_gemm(&(struct nn_gemm){.a = w,
                              .b = dout,
                              .c = columns,
                              .m = c->nin * 9,
                              .n = area,
                              .k = c->nout,
                              .at = true,
                              .order = c->order});
    gather_taps(din, columns, c->side, c->nin);
}

void nn_pool(float *out, uint8_t *from, const float *in, size_t side,
             size_t nplanes)
{
    size_t half = side / 2;
    for (size_t p = 0; p < nplanes * half * half; p++) {
        size_t x = p % half;
        size_t row = p / half; /* of all planes */
        const float *at =
            in + (row / half) * side * side + 2 * (row % half) * side + 2 * x;
        const float four[4] = {at[0], at[1], at[side], at[side + 1]};
        uint8_t best = 0;
        for (uint8_t i = 1; i < 4; i++)
            if (four[i] > four[best])
                best = i;
        out[p] = four[best];
        from[p] = best;
    }
}

void nn_pool_back(float *din, const float *dout, const uint8_t *from,
                  size_t side, size_t nplanes)
{
    size_t half = side / 2;
    memset(din, 0, nplanes * side * side * sizeof *din);
    for (size_t p = 0; p < nplanes * half * half; p++) {
        size_t x = 2 * (p % half) + from[p] % 2;
        size_t y = 2 * (p / half % half) + from[p] / 2;
        din[(p / half / half) * side * side + y * side + x] = dout[p];
    }
}

/* --- normalisation ------------------------------------------------------- */

static const float tiny = 1e-5F;

static void plane_moments(const struct nn_norm *s, const float *x, size_t plane,
                          float *mean, float *variance)
{
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        const float *at = x + (i * s->nplanes + plane) * s->area;
        for (size_t j = 0; j < s->area; j++) {
            sum += at[j];
            squares += (double)at[j] * at[j];
        }
    }
    double count = (double)(s->n * s->area);
    *mean = (float)(sum / count);
    double v = squares / count - sum / count * (sum / count);
    *variance = (float)(v > 0 ? v : 0);
}

void nn_batchnorm(const struct nn_norm *s, float *x, float *normal, float *kept,
                  const float *scale_shift, float *running)
{
    for (size_t p = 0; p < s->nplanes; p++) {
        float mean = running[p];
        float variance = running[s->nplanes + p];
        if (s->trains) {
            plane_moments(s, x, p, &mean, &variance);
            running[p] = 0.9F * running[p] + 0.1F * mean;
            running[s->nplanes + p] =
                0.9F * running[s->nplanes + p] + 0.1F * variance;
        }
        float inverse = 1 / sqrtf(variance + tiny);
        kept[p] = mean;
        kept[s->nplanes + p] = inverse;
        float scale = scale_shift[p];
        float shift = scale_shift[s->nplanes + p];
        for (size_t i = 0; i < s->n; i++) {
            size_t at = (i * s->nplanes + p) * s->area;
            for (size_t j = at; j < at + s->area; j++) {
                normal[j] = (x[j] - mean) * inverse;
                x[j] = normal[j] * scale + shift;
            }
        }
    }
}

void nn_batchnorm_back(const struct nn_norm *s, float *dx, float *dscale_shift,
                       const float *normal, const float *kept,
                       const float *scale_shift)
{
    double count = (double)(s->n * s->area);
    for (size_t p = 0; p < s->nplanes; p++) {
        double sum = 0;
        double along = 0;
        for (size_t i = 0; i < s->n; i++) {
            size_t at = (i * s->nplanes + p) * s->area;
            for (size_t j = at; j < at + s->area; j++) {
                sum += dx[j];
                along += (double)dx[j] * normal[j];
            }
        }
        dscale_shift[p] += (float)along;
        dscale_shift[s->nplanes + p] += (float)sum;
        float factor = scale_shift[p] * kept[s->nplanes + p];
        float mean = (float)(sum / count);
        float slope = (float)(along / count);
        for (size_t i = 0; i < s->n; i++) {
            size_t at = (i * s->nplanes + p) * s->area;
            for (size_t j = at; j < at + s->area; j++)
                dx[j] = factor *
                        (s->trains ? dx[j] - mean - normal[j] * slope : dx[j]);
        }
    }
}

void nn_layernorm(float *out, float *kept, const float *in, const float *gain,
                  size_t nrows, size_t width)
{
    for (size_t r = 0; r < nrows; r++) {
        const float *x = in + r * width;
        double sum = 0;
        double squares = 0;
        for (size_t i = 0; i < width; i++)
            sum += x[i];
        double mean = sum / (double)width;
        for (size_t i = 0; i < width; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        double inverse = 1 / sqrt(squares / (double)width + (double)tiny);
        kept[2 * r] = (float)mean;
        kept[2 * r + 1] = (float)inverse;
        for (size_t i = 0; i < width; i++)
            out[r * width + i] =
                (x[i] - kept[2 * r]) * kept[2 * r + 1] * gain[i];
    }
}

void nn_layernorm_back(float *din, float *dgain, const float *dout,
                       const float *in, const float *kept, const float *gain,
                       size_t nrows, size_t width)
{
    for (size_t r = 0; r < nrows; r++) {
        float mean = kept[2 * r];
        float inverse = kept[2 * r + 1];
        const float *x = in + r * width;
        const float *dy = dout + r * width;
        double sum = 0;
        double along = 0;
        for (size_t i = 0; i < width; i++) {
            float normal = (x[i] - mean) * inverse;
            dgain[i] += dy[i] * normal;
            sum += dy[i] * gain[i];
            along += (double)(dy[i] * gain[i]) * normal;
        }
        float level = (float)(sum / (double)width);
        float slope = (float)(along / (double)width);
        for (size_t i = 0; i < width; i++)
            din[r * width + i] = inverse * (dy[i] * gain[i] - level -
                                            (x[i] - mean) * inverse * slope);
    }
}

/* --- element by element -------------------------------------------------- */

void nn_relu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

void nn_relu_back(float *dx, const float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dx[i] = out[i] > 0 ? dx[i] : 0;
}

static const float root = 0.7978845608F; /* sqrt(2 / pi) */

void nn_gelu(float *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = in[i];
        out[i] = 0.5F * x * (1 + tanhf(root * (x + 0.044715F * x * x * x)));
    }
}

void nn_gelu_back(float *dx, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = in[i];
        float t = tanhf(root * (x + 0.044715F * x * x * x));
        float slope = root * (1 + 3 * 0.044715F * x * x);
        dx[i] *= 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * slope;
    }
}

void nn_dropout(float *x, uint8_t *mask, size_t n, float p, struct nn_rng *rng)
{
    float scale = 1 / (1 - p);
    for (size_t i = 0; i < n; i++) {
        mask[i] = nn_uniform(rng) >= (double)p;
        x[i] = mask[i] ? x[i] * scale : 0;
    }
}

void nn_dropout_back(float *dx, const uint8_t *mask, size_t n, float p)
{
    float scale = 1 / (1 - p);
    for (size_t i = 0; i < n; i++)
        dx[i] = mask[i] ? dx[i] * scale : 0;
}

double nn_cross_entropy(float *logits, const uint8_t *label, size_t nrows,
                        size_t nclasses, float weight, size_t *nright)
{
    double loss = 0;
    float factor = weight / (float)nrows;
    for (size_t r = 0; r < nrows; r++) {
        float *row = logits + r * nclasses;
        size_t best = 0;
        for (size_t c = 1; c < nclasses; c++)
            if (row[c] > row[best])
                best = c;
        *nright += best == label[r];
        float top = row[best];
        double sum = 0;
        for (size_t c = 0; c < nclasses; c++)
            sum += exp((double)(row[c] - top));
        loss += log(sum) - (double)(row[label[r]] - top);
        for (size_t c = 0; c < nclasses; c++) {
            float chance = (float)(exp((double)(row[c] - top)) / sum);
            row[c] = factor * (chance - (c == label[r] ? 1.0F : 0.0F));
        }
    }
    return loss / (double)nrows;
}

/* --- optimisers ---------------------------------------------------------- */

void nn_sgd(const struct nn_update *u, float *velocity)
{
    for (size_t i = u->start; i < u->n; i++) {
        velocity[i] = 0.9F * velocity[i] + u->g[i] + u->decay * u->w[i];
        u->w[i] -= u->rate * velocity[i];
    }
}

void nn_adam(const struct nn_update *u, float *first, float *second, uint64_t t)
{
    float bias1 = (float)(1 - pow(0.9, (double)t));
    float bias2 = (float)(1 - pow(0.999, (double)t));
    for (size_t i = u->start; i < u->n; i++) {
        float g = u->g[i] + u->decay * u->w[i];
        first[i] = 0.9F * first[i] + 0.1F * g;
        second[i] = 0.999F * second[i] + 0.001F * g * g;
        u->w[i] -=
            u->rate * (first[i] / bias1) / (sqrtf(second[i] / bias2) + 1e-8F);
    }
}
