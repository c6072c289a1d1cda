/* cnn.c - a small convolutional network on 28 x 28 pictures, elastic.
 *
 *   picture 1x28x28
 *   layer 0   conv 8,  batch norm, relu, pool   8x14x14
 *   layer 1   conv 16, batch norm, relu, pool   16x7x7
 *   layer 2   conv 16, batch norm, relu         16x7x7
 *   layer 3   linear 64, relu, dropout
 *   layer 4   linear 10
 *
 * Pictures are moved by up to two pixels, so training draws from the thread's
 * random numbers twice: there and in dropout. A frozen layer's batch norm uses
 * its running statistics and leaves them alone.
 */
#include "images.h"
#include "models.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NCONVS = 3, NLAYERS = 5, NHIDDEN = 64, NFLAT = 784 };

/* A convolution with all behind it. Offsets are into the weights (w, then
 * bias, then scale and shift) and into the buffers. */
struct stage {
    size_t side, nin, nout;
    bool pools;
    size_t w, bias, scale, running;
    float *in, *normal, *kept, *out, *pooled;
    uint8_t *from;
};

struct cnn {
    struct images images, test;
    enum nn_order order;
    size_t batch_max;
    struct stage stage[NCONVS];
    size_t layer_start[NLAYERS + 1];
    float *hidden, *logits, *columns, *dflat, *dout;
    uint8_t *mask, *label;
};

static const struct {
    size_t side, nin, nout;
    bool pools;
} shape[NCONVS] = {{28, 1, 8, true}, {14, 8, 16, true}, {7, 16, 16, false}};

static const float dropped = 0.2F;

/* --- forward ------------------------------------------------------------- */

static const float *stage_out(const struct stage *s)
{
    return s->pools ? s->pooled : s->out;
}

static void stage_forward(struct model *model, struct stage *s, size_t n,
                          bool trains)
{
    struct cnn *cnn = model->self;
    size_t area = s->side * s->side;
    struct nn_conv conv = {s->side, s->nin, s->nout, cnn->order};
    struct nn_norm norm = {n, s->nout, area, trains};
    const float *w = model->weights;
    for (size_t i = 0; i < n; i++)
        nn_conv(&conv, s->out + i * s->nout * area, s->in + i * s->nin * area,
                w + s->w, w + s->bias, cnn->columns);
    nn_batchnorm(&norm, s->out, s->normal, s->kept, w + s->scale,
                 model->buffers + s->running);
    nn_relu(s->out, n * s->nout * area);
    if (s->pools)
        nn_pool(s->pooled, s->from, s->out, s->side, n * s->nout);
}

/* y = x w^T + bias, for n rows; w is nout x nin with nout biases behind it. */
static void linear(struct cnn *cnn, float *y, const float *x, const float *w,
                   const size_t dims[3])
{
    size_t n = dims[0];
    size_t nin = dims[1];
    size_t nout = dims[2];
    for (size_t i = 0; i < n; i++)
        memcpy(y + i * nout, w + nin * nout, nout * sizeof *y);
    nn_gemm(&(struct nn_gemm){.a = x,
                              .b = w,
                              .c = y,
                              .m = n,
                              .n = nout,
                              .k = nin,
                              .bt = true,
                              .adds = true,
                              .order = cnn->order});
}

/* Logits of the n pictures that are in the first stage. */
static void forward(struct model *model, size_t n, size_t nfrozen,
                    struct nn_rng *rng)
{
    struct cnn *cnn = model->self;
    const float *w = model->weights;
    for (size_t l = 0; l < NCONVS; l++) {
        stage_forward(model, &cnn->stage[l], n, rng != NULL && l >= nfrozen);
        if (l + 1 < NCONVS)
            cnn->stage[l + 1].in = cnn->stage[l].pooled;
    }
    linear(cnn, cnn->hidden, stage_out(&cnn->stage[NCONVS - 1]),
           w + cnn->layer_start[3], (size_t[]){n, NFLAT, NHIDDEN});
    nn_relu(cnn->hidden, n * NHIDDEN);
    if (rng != NULL && nfrozen < 4)
        nn_dropout(cnn->hidden, cnn->mask, n * NHIDDEN, dropped, rng);
    linear(cnn, cnn->logits, cnn->hidden, w + cnn->layer_start[4],
           (size_t[]){n, NHIDDEN, IMAGE_KINDS});
}

/* --- backward ------------------------------------------------------------ */

/* dx (NULL: not wanted) and the gradient of w, from dy. */
static void linear_back(struct cnn *cnn, float *dx, float *dw, const float *dy,
                        const float *x, const float *w, const size_t dims[3])
{
    size_t n = dims[0];
    size_t nin = dims[1];
    size_t nout = dims[2];
    nn_gemm(&(struct nn_gemm){.a = dy,
                              .b = x,
                              .c = dw,
                              .m = nout,
                              .n = nin,
                              .k = n,
                              .at = true,
                              .adds = true,
                              .order = cnn->order});
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < nout; o++)
            dw[nin * nout + o] += dy[i * nout + o];
    if (dx != NULL)
        nn_gemm(&(struct nn_gemm){.a = dy,
                                  .b = w,
                                  .c = dx,
                                  .m = n,
                                  .n = nin,
                                  .k = nout,
                                  .order = cnn->order});
}

/* From the gradient of the stage's output (in dflat) to that of its input
 * (there as well, unless the stage is the last that learns). */
static void stage_back(struct model *model, struct stage *s, size_t n,
                       bool goes_on, float *grad)
{
    struct cnn *cnn = model->self;
    size_t area = s->side * s->side;
    struct nn_conv conv = {s->side, s->nin, s->nout, cnn->order};
    struct nn_norm norm = {n, s->nout, area, true};
    const float *w = model->weights;
    float *dout = cnn->dflat;
    if (s->pools) {
        nn_pool_back(cnn->dout, cnn->dflat, s->from, s->side, n * s->nout);
        dout = cnn->dout;
    }
    nn_relu_back(dout, s->out, n * s->nout * area);
    nn_batchnorm_back(&norm, dout, grad + s->scale, s->normal, s->kept,
                      w + s->scale);
    if (dout != cnn->dout)
        memcpy(cnn->dout, dout, n * s->nout * area * sizeof *dout);
    for (size_t i = 0; i < n; i++)
        nn_conv_back(&conv, goes_on ? cnn->dflat + i * s->nin * area : NULL,
                     grad + s->w, grad + s->bias,
                     cnn->dout + i * s->nout * area, s->in + i * s->nin * area,
                     w + s->w, cnn->columns);
}

static void backward(struct model *model, size_t n, size_t nfrozen, float *grad)
{
    struct cnn *cnn = model->self;
    const float *w = model->weights;
    const size_t *at = cnn->layer_start;
    linear_back(cnn, nfrozen < 4 ? cnn->dout : NULL, grad + at[4], cnn->logits,
                cnn->hidden, w + at[4], (size_t[]){n, NHIDDEN, IMAGE_KINDS});
    if (nfrozen >= 4)
        return;
    nn_dropout_back(cnn->dout, cnn->mask, n * NHIDDEN, dropped);
    nn_relu_back(cnn->dout, cnn->hidden, n * NHIDDEN);
    linear_back(cnn, nfrozen < 3 ? cnn->dflat : NULL, grad + at[3], cnn->dout,
                stage_out(&cnn->stage[NCONVS - 1]), w + at[3],
                (size_t[]){n, NFLAT, NHIDDEN});
    for (size_t l = NCONVS; l-- > nfrozen;)
        stage_back(model, &cnn->stage[l], n, l > nfrozen, grad);
}

/* --- the model ----------------------------------------------------------- */

static double learn(struct model *model, const struct lesson *lesson,
                    float *grad)
{
    struct cnn *cnn = model->self;
    size_t nright = 0;
    double started_s = loop_now_s();
    for (size_t i = 0; i < lesson->n; i++) {
        int dx = (int)(5 * nn_uniform(lesson->rng)) - 2;
        int dy = (int)(5 * nn_uniform(lesson->rng)) - 2;
        images_take(cnn->stage[0].in + i * IMAGE_AREA, &cnn->images,
                    lesson->sample[i], dx, dy);
        cnn->label[i] = cnn->images.labels[lesson->sample[i]];
    }
    forward(model, lesson->n, lesson->nfrozen, lesson->rng);
    double loss = nn_cross_entropy(cnn->logits, cnn->label, lesson->n,
                                   IMAGE_KINDS, lesson->weight, &nright);
    model->forward_s += loop_now_s() - started_s;
    backward(model, lesson->n, lesson->nfrozen, grad);
    return loss;
}

static void judge(struct model *model, char *line, size_t nline)
{
    struct cnn *cnn = model->self;
    size_t nright = 0;
    for (size_t at = 0; at < cnn->test.n; at += cnn->batch_max) {
        size_t n = cnn->test.n - at < cnn->batch_max ? cnn->test.n - at
                                                     : cnn->batch_max;
        for (size_t i = 0; i < n; i++)
            images_take(cnn->stage[0].in + i * IMAGE_AREA, &cnn->test, at + i,
                        0, 0);
        forward(model, n, 0, NULL);
        nn_cross_entropy(cnn->logits, cnn->test.labels + at, n, IMAGE_KINDS, 1,
                         &nright);
    }
    snprintf(line, nline, "%s pictures, accuracy %.3f",
             cnn->images.is_real ? "Fashion-MNIST" : "made-up",
             cnn->test.n > 0 ? (double)nright / (double)cnn->test.n : 0);
}

static void close_model(struct model *model)
{
    struct cnn *cnn = model->self;
    for (size_t l = 0; l < NCONVS; l++) {
        struct stage *s = &cnn->stage[l];
        if (l == 0)
            free(s->in);
        free(s->normal);
        free(s->kept);
        free(s->out);
        free(s->pooled);
        free(s->from);
    }
    free(cnn->hidden);
    free(cnn->logits);
    free(cnn->columns);
    free(cnn->dflat);
    free(cnn->dout);
    free(cnn->mask);
    free(cnn->label);
    images_release(&cnn->images);
    images_release(&cnn->test);
    free(model->weights);
    free(model->buffers);
    free(cnn);
}

/* Where everything lies in the flat weights, in layer order. */
static void lay_out(struct model *model, struct cnn *cnn)
{
    size_t at = 0;
    for (size_t l = 0; l < NCONVS; l++) {
        struct stage *s = &cnn->stage[l];
        *s = (struct stage){.side = shape[l].side,
                            .nin = shape[l].nin,
                            .nout = shape[l].nout,
                            .pools = shape[l].pools};
        cnn->layer_start[l] = at;
        s->w = at;
        s->bias = s->w + s->nout * s->nin * 9;
        s->scale = s->bias + s->nout;
        at = s->scale + 2 * s->nout;
        s->running = model->nbuffers;
        model->nbuffers += 2 * s->nout;
    }
    cnn->layer_start[3] = at;
    at += NFLAT * NHIDDEN + NHIDDEN;
    cnn->layer_start[4] = at;
    at += NHIDDEN * IMAGE_KINDS + IMAGE_KINDS;
    cnn->layer_start[5] = at;
    model->nweights = at;
    model->nlayers = NLAYERS;
    model->layer_start = cnn->layer_start;
}

static void *room(size_t n, size_t size, bool *is_short)
{
    void *at = calloc(n, size);
    *is_short |= at == NULL;
    return at;
}

static bool make_room(struct model *model, struct cnn *cnn)
{
    bool is_short = false;
    size_t n = cnn->batch_max;
    size_t largest = 8 * 28 * 28; /* of any stage, one picture */
    for (size_t l = 0; l < NCONVS; l++) {
        struct stage *s = &cnn->stage[l];
        size_t size = n * s->nout * s->side * s->side;
        if (l == 0)
            s->in = room(n * IMAGE_AREA, sizeof(float), &is_short);
        s->normal = room(size, sizeof(float), &is_short);
        s->kept = room(2 * s->nout, sizeof(float), &is_short);
        s->out = room(size, sizeof(float), &is_short);
        s->pooled = room(size / 4, sizeof(float), &is_short);
        s->from = room(size / 4, 1, &is_short);
    }
    cnn->hidden = room(n * NHIDDEN, sizeof(float), &is_short);
    cnn->logits = room(n * IMAGE_KINDS, sizeof(float), &is_short);
    cnn->columns = room(16 * 9 * 28 * 28, sizeof(float), &is_short);
    cnn->dflat = room(n * largest, sizeof(float), &is_short);
    cnn->dout = room(n * largest, sizeof(float), &is_short);
    cnn->mask = room(n * NHIDDEN, 1, &is_short);
    cnn->label = room(n, 1, &is_short);
    model->weights = room(model->nweights, sizeof(float), &is_short);
    model->buffers = room(model->nbuffers, sizeof(float), &is_short);
    return !is_short;
}

static void draw_weights(struct model *model, struct cnn *cnn, uint64_t seed)
{
    struct nn_rng rng = {.state = seed};
    float *w = model->weights;
    for (size_t l = 0; l < NCONVS; l++) {
        struct stage *s = &cnn->stage[l];
        nn_fill(&rng, w + s->w, s->nout * s->nin * 9,
                s->nin > 8   ? 0.12F
                : s->nin > 1 ? 0.17F
                             : 0.47F);
        for (size_t o = 0; o < s->nout; o++) {
            w[s->scale + o] = 1;
            model->buffers[s->running + s->nout + o] = 1;
        }
    }
    nn_fill(&rng, w + cnn->layer_start[3], NFLAT * NHIDDEN, 0.05F);
    nn_fill(&rng, w + cnn->layer_start[4], NHIDDEN * IMAGE_KINDS, 0.15F);
}

bool cnn_open(struct model *model, const struct options *options, char *why,
              size_t nwhy)
{
    struct cnn *cnn = calloc(1, sizeof *cnn);
    if (cnn == NULL)
        return false;
    *model = (struct model){.name = "cnn",
                            .self = cnn,
                            .learn = learn,
                            .judge = judge,
                            .close = close_model};
    cnn->order = options->order;
    cnn->batch_max = (size_t)options->batch;
    lay_out(model, cnn);
    if (!images_load(&cnn->images, true, (size_t)options->nsamples, why,
                     nwhy) ||
        !images_load(&cnn->test, false, (size_t)options->njudge, why, nwhy) ||
        !make_room(model, cnn)) {
        close_model(model);
        return false;
    }
    model->nsamples = cnn->images.n;
    draw_weights(model, cnn, options->seed);
    return true;
}
