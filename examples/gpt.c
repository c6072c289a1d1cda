/* gpt.c - a small language model over bytes, elastic.
 *
 *   layer 0      embedding of byte and place
 *   layer 1..B   block: x += attention(norm(x)); x += mlp(norm(x))
 *   layer B + 1  norm, linear to 128 bytes
 *
 * Fine-tuning (--base): the backbone comes from a checkpoint or a seed, and
 * only the last block and the head are trained. The block is an adapter: jobs
 * over one base that are trained together share it, and have heads of their
 * own.
 *
 * Decoder only, causal, learnt places, pre-normalised, no biases. A sample is
 * a window of the text; windows of its last tenth are for judging, in bits per
 * byte. Dropout on what enters the blocks is where training draws from the
 * thread's random numbers.
 */
#include "models.h"
#include <firn/ckpt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 3,
    NLAYERS = BLOCKS + 2,
    WIDTH = 48,
    HEADS = 4,
    HEAD = WIDTH / HEADS,
    SPAN = 32, /* bytes of a window */
    BYTES = 128,
    STRIDE = 8 /* between windows */
};

/* Offsets of a block's weights within its layer. */
enum {
    GAIN1 = 0,
    QKV = GAIN1 + WIDTH,               /* WIDTH x 3 WIDTH */
    PROJECT = QKV + 3 * WIDTH * WIDTH, /* WIDTH x WIDTH */
    GAIN2 = PROJECT + WIDTH * WIDTH,
    UP = GAIN2 + WIDTH,            /* WIDTH x 4 WIDTH */
    DOWN = UP + 4 * WIDTH * WIDTH, /* 4 WIDTH x WIDTH */
    BLOCK_SIZE = DOWN + 4 * WIDTH * WIDTH
};

/* What a block remembers of one window for the way back. */
struct trace {
    float in[SPAN * WIDTH], kept1[2 * SPAN], normal1[SPAN * WIDTH];
    float qkv[SPAN * 3 * WIDTH], chance[HEADS * SPAN * SPAN];
    float mixed[SPAN * WIDTH], middle[SPAN * WIDTH], kept2[2 * SPAN];
    float normal2[SPAN * WIDTH], up[SPAN * 4 * WIDTH], act[SPAN * 4 * WIDTH];
};

struct gpt {
    uint8_t *text;
    size_t ntext, ntrain; /* windows start below ntrain */
    size_t njudge;
    enum nn_order order;
    float *all;                      /* weights, with those not trained */
    size_t layer_start[NLAYERS + 1]; /* in `all` */
    size_t nfixed, skip;             /* layers and weights not trained */
    size_t trained_start[NLAYERS + 1];
    struct trace trace[BLOCKS];
    float x[SPAN * WIDTH], kept[2 * SPAN], normal[SPAN * WIDTH];
    float logits[SPAN * BYTES];
    float dx[SPAN * WIDTH], dy[SPAN * WIDTH], dqkv[SPAN * 3 * WIDTH];
    float dup[SPAN * 4 * WIDTH];
    uint8_t mask[SPAN * WIDTH], label[SPAN];
};

static const float dropped = 0.1F;

/* --- small steps --------------------------------------------------------- */

/* y (+)= x w for SPAN rows; w is nin x nout. */
static void times(const struct gpt *gpt, float *y, const float *x,
                  const float *w, size_t nin, size_t nout, bool adds)
{
    nn_gemm(&(struct nn_gemm){.a = x,
                              .b = w,
                              .c = y,
                              .m = SPAN,
                              .n = nout,
                              .k = nin,
                              .adds = adds,
                              .order = gpt->order});
}

/* dx = dy w^T and dw += x^T dy. */
static void times_back(const struct gpt *gpt, float *dx, float *dw,
                       const float *dy, const float *x, const float *w,
                       const size_t dims[2])
{
    nn_gemm(&(struct nn_gemm){.a = x,
                              .b = dy,
                              .c = dw,
                              .m = dims[0],
                              .n = dims[1],
                              .k = SPAN,
                              .at = true,
                              .adds = true,
                              .order = gpt->order});
    nn_gemm(&(struct nn_gemm){.a = dy,
                              .b = w,
                              .c = dx,
                              .m = SPAN,
                              .n = dims[0],
                              .k = dims[1],
                              .bt = true,
                              .order = gpt->order});
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

/* --- attention ----------------------------------------------------------- */

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Row t of a head: chances over places 0..t. */
static void attend_row(struct trace *tr, size_t head, size_t t)
{
    float *chance = tr->chance + (head * SPAN + t) * SPAN;
    const float *q = tr->qkv + t * 3 * WIDTH + head * HEAD;
    float scale = 1 / sqrtf((float)HEAD);
    float top = -INFINITY;
    double sum = 0;
    for (size_t s = 0; s <= t; s++) {
        const float *k = tr->qkv + s * 3 * WIDTH + WIDTH + head * HEAD;
        chance[s] = scale * dot(q, k, HEAD);
        top = chance[s] > top ? chance[s] : top;
    }
    for (size_t s = 0; s <= t; s++)
        sum += exp((double)(chance[s] - top));
    for (size_t s = 0; s <= t; s++)
        chance[s] = (float)(exp((double)(chance[s] - top)) / sum);
    float *out = tr->mixed + t * WIDTH + head * HEAD;
    for (size_t s = 0; s <= t; s++) {
        const float *v = tr->qkv + s * 3 * WIDTH + 2 * WIDTH + head * HEAD;
        for (size_t i = 0; i < HEAD; i++)
            out[i] += chance[s] * v[i];
    }
}

static void attend(struct trace *tr)
{
    memset(tr->mixed, 0, sizeof tr->mixed);
    for (size_t head = 0; head < HEADS; head++)
        for (size_t t = 0; t < SPAN; t++)
            attend_row(tr, head, t);
}

/* Adds to dqkv what row t of a head gives back for dmixed. */
static void attend_row_back(const struct trace *tr, float *dqkv,
                            const float *dmixed, size_t head, size_t t)
{
    const float *chance = tr->chance + (head * SPAN + t) * SPAN;
    const float *dout = dmixed + t * WIDTH + head * HEAD;
    size_t q = t * 3 * WIDTH + head * HEAD;
    float scale = 1 / sqrtf((float)HEAD);
    float dchance[SPAN];
    float level = 0;
    for (size_t s = 0; s <= t; s++) {
        size_t v = s * 3 * WIDTH + 2 * WIDTH + head * HEAD;
        dchance[s] = dot(dout, tr->qkv + v, HEAD);
        level += dchance[s] * chance[s];
        for (size_t i = 0; i < HEAD; i++)
            dqkv[v + i] += chance[s] * dout[i];
    }
    for (size_t s = 0; s <= t; s++) {
        size_t k = s * 3 * WIDTH + WIDTH + head * HEAD;
        float d = scale * chance[s] * (dchance[s] - level);
        for (size_t i = 0; i < HEAD; i++) {
            dqkv[q + i] += d * tr->qkv[k + i];
            dqkv[k + i] += d * tr->qkv[q + i];
        }
    }
}

/* --- blocks -------------------------------------------------------------- */

static void block_forward(struct gpt *gpt, struct trace *tr, const float *w)
{
    memcpy(tr->in, gpt->x, sizeof tr->in);
    nn_layernorm(tr->normal1, tr->kept1, tr->in, w + GAIN1, SPAN, WIDTH);
    times(gpt, tr->qkv, tr->normal1, w + QKV, WIDTH, 3 * WIDTH, false);
    attend(tr);
    times(gpt, gpt->x, tr->mixed, w + PROJECT, WIDTH, WIDTH, true);
    memcpy(tr->middle, gpt->x, sizeof tr->middle);
    nn_layernorm(tr->normal2, tr->kept2, tr->middle, w + GAIN2, SPAN, WIDTH);
    times(gpt, tr->up, tr->normal2, w + UP, WIDTH, 4 * WIDTH, false);
    nn_gelu(tr->act, tr->up, SPAN * 4 * WIDTH);
    times(gpt, gpt->x, tr->act, w + DOWN, 4 * WIDTH, WIDTH, true);
}

/* gpt->dx: from the gradient of the block's output to that of its input. */
static void block_back(struct gpt *gpt, const struct trace *tr, const float *w,
                       float *dw)
{
    float dnormal[SPAN * WIDTH];
    times_back(gpt, gpt->dup, dw + DOWN, gpt->dx, tr->act, w + DOWN,
               (size_t[]){4 * WIDTH, WIDTH});
    nn_gelu_back(gpt->dup, tr->up, SPAN * 4 * WIDTH);
    times_back(gpt, dnormal, dw + UP, gpt->dup, tr->normal2, w + UP,
               (size_t[]){WIDTH, 4 * WIDTH});
    nn_layernorm_back(gpt->dy, dw + GAIN2, dnormal, tr->middle, tr->kept2,
                      w + GAIN2, SPAN, WIDTH);
    add(gpt->dx, gpt->dy, SPAN * WIDTH);
    times_back(gpt, dnormal, dw + PROJECT, gpt->dx, tr->mixed, w + PROJECT,
               (size_t[]){WIDTH, WIDTH});
    memset(gpt->dqkv, 0, sizeof gpt->dqkv);
    for (size_t head = 0; head < HEADS; head++)
        for (size_t t = 0; t < SPAN; t++)
            attend_row_back(tr, gpt->dqkv, dnormal, head, t);
    times_back(gpt, dnormal, dw + QKV, gpt->dqkv, tr->normal1, w + QKV,
               (size_t[]){WIDTH, 3 * WIDTH});
    nn_layernorm_back(gpt->dy, dw + GAIN1, dnormal, tr->in, tr->kept1,
                      w + GAIN1, SPAN, WIDTH);
    add(gpt->dx, gpt->dy, SPAN * WIDTH);
}

/* --- one window ---------------------------------------------------------- */

static void forward(struct model *model, const uint8_t *window,
                    struct nn_rng *rng)
{
    struct gpt *gpt = model->self;
    const float *w = gpt->all;
    for (size_t t = 0; t < SPAN; t++)
        for (size_t i = 0; i < WIDTH; i++)
            gpt->x[t * WIDTH + i] =
                w[window[t] * WIDTH + i] + w[(BYTES + t) * WIDTH + i];
    if (rng != NULL)
        nn_dropout(gpt->x, gpt->mask, SPAN * WIDTH, dropped, rng);
    for (size_t b = 0; b < BLOCKS; b++)
        block_forward(gpt, &gpt->trace[b], w + gpt->layer_start[b + 1]);
    const float *head = w + gpt->layer_start[NLAYERS - 1];
    nn_layernorm(gpt->normal, gpt->kept, gpt->x, head, SPAN, WIDTH);
    times(gpt, gpt->logits, gpt->normal, head + WIDTH, WIDTH, BYTES, false);
    memcpy(gpt->label, window + 1, SPAN);
}

/* `grad` begins with the first weight that is trained. */
static void backward(struct model *model, const uint8_t *window, size_t nfrozen,
                     float *grad)
{
    struct gpt *gpt = model->self;
    const float *w = gpt->all;
    size_t at = gpt->layer_start[NLAYERS - 1];
    float *head = grad + (at - gpt->skip);
    float dnormal[SPAN * WIDTH];
    nfrozen += gpt->nfixed;
    times_back(gpt, dnormal, head + WIDTH, gpt->logits, gpt->normal,
               w + at + WIDTH, (size_t[]){WIDTH, BYTES});
    nn_layernorm_back(gpt->dx, head, dnormal, gpt->x, gpt->kept, w + at, SPAN,
                      WIDTH);
    for (size_t b = BLOCKS; b-- > 0 && b + 1 >= nfrozen;)
        block_back(gpt, &gpt->trace[b], w + gpt->layer_start[b + 1],
                   grad + (gpt->layer_start[b + 1] - gpt->skip));
    if (nfrozen > 0)
        return;
    nn_dropout_back(gpt->dx, gpt->mask, SPAN * WIDTH, dropped);
    for (size_t t = 0; t < SPAN; t++) {
        add(grad + window[t] * WIDTH, gpt->dx + t * WIDTH, WIDTH);
        add(grad + (BYTES + t) * WIDTH, gpt->dx + t * WIDTH, WIDTH);
    }
}

/* --- the model ----------------------------------------------------------- */

static double learn(struct model *model, const struct lesson *lesson,
                    float *grad)
{
    struct gpt *gpt = model->self;
    double loss = 0;
    size_t nright = 0;
    for (size_t i = 0; i < lesson->n; i++) {
        const uint8_t *window = gpt->text + (size_t)lesson->sample[i] * STRIDE;
        double started_s = loop_now_s();
        forward(model, window, lesson->rng);
        loss += nn_cross_entropy(gpt->logits, gpt->label, SPAN, BYTES,
                                 lesson->weight / (float)lesson->n, &nright);
        model->forward_s += loop_now_s() - started_s;
        backward(model, window, lesson->nfrozen, grad);
    }
    return loss / (double)lesson->n;
}

/* Over the windows to judge by: the loss of one; how many bytes are right. */
static double look_over(struct model *model, double *right)
{
    struct gpt *gpt = model->self;
    double loss = 0;
    size_t nright = 0;
    size_t n = 0;
    for (size_t at = gpt->ntrain; at + SPAN < gpt->ntext && n < gpt->njudge;
         at += SPAN, n++) {
        forward(model, gpt->text + at, NULL);
        loss +=
            nn_cross_entropy(gpt->logits, gpt->label, SPAN, BYTES, 1, &nright);
    }
    *right = n > 0 ? (double)nright / (double)(n * SPAN) : 0;
    return n > 0 ? loss / (double)n : 0;
}

static double measure(struct model *model)
{
    double right;
    look_over(model, &right);
    return right;
}

static void judge(struct model *model, char *line, size_t nline)
{
    double right;
    double loss = look_over(model, &right);
    snprintf(line, nline, "%.3f bits per byte, %.3f right", loss / log(2),
             right);
}

static void close_model(struct model *model)
{
    struct gpt *gpt = model->self;
    free(gpt->text);
    free(gpt->all);
    free(gpt);
}

static bool read_text(struct gpt *gpt, const char *path, char *why, size_t nwhy)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "rb");
    gpt->text = malloc(MOST);
    if (file == NULL || gpt->text == NULL) {
        snprintf(why, nwhy, "%s: cannot be read", path);
        if (file != NULL)
            fclose(file);
        return false;
    }
    gpt->ntext = fread(gpt->text, 1, MOST, file);
    fclose(file);
    for (size_t i = 0; i < gpt->ntext; i++)
        gpt->text[i] &= BYTES - 1;
    if (gpt->ntext < 40 * SPAN) {
        snprintf(why, nwhy, "%s: only %zu bytes of text", path, gpt->ntext);
        return false;
    }
    gpt->ntrain = gpt->ntext / 10 * 9;
    return true;
}

static void draw_weights(struct gpt *gpt, uint64_t seed)
{
    struct nn_rng rng = {.state = seed};
    float *w = gpt->all;
    nn_fill(&rng, w, gpt->layer_start[NLAYERS], 0.08F);
    for (size_t i = 0; i < WIDTH; i++) {
        for (size_t b = 0; b < BLOCKS; b++) {
            w[gpt->layer_start[b + 1] + GAIN1 + i] = 1;
            w[gpt->layer_start[b + 1] + GAIN2 + i] = 1;
        }
        w[gpt->layer_start[NLAYERS - 1] + i] = 1;
    }
}

/* The base: "seed:N", or a checkpoint of a run that trained all of it. */
static bool read_base(struct gpt *gpt, const char *base, char *why, size_t nwhy)
{
    struct firn_ckpt *ckpt = NULL;
    struct firn_error err = {0};
    char *end = NULL;
    if (strncmp(base, "seed:", 5) == 0) {
        unsigned long seed = strtoul(base + 5, &end, 10);
        snprintf(why, nwhy, "%s: no number", base);
        draw_weights(gpt, seed);
        return end != base + 5 && *end == '\0';
    }
    enum firn_status status = firn_ckpt_open(&ckpt, base, &err);
    if (status == FIRN_OK)
        status =
            firn_ckpt_take(ckpt, "weights", FIRN_CKPT_F32, gpt->all,
                           gpt->layer_start[NLAYERS] * sizeof(float), &err);
    snprintf(why, nwhy, "%s", err.text);
    firn_ckpt_close(ckpt);
    return status == FIRN_OK;
}

/* Layers in memory, and which of them are trained. */
static void lay_out(struct model *model, struct gpt *gpt, bool is_tuning)
{
    size_t at = (BYTES + SPAN) * WIDTH;
    for (size_t b = 0; b <= BLOCKS; b++, at += BLOCK_SIZE)
        gpt->layer_start[b + 1] = at;
    gpt->layer_start[NLAYERS] = at - BLOCK_SIZE + WIDTH + WIDTH * BYTES;
    gpt->nfixed = is_tuning ? BLOCKS : 0;
    gpt->skip = gpt->layer_start[gpt->nfixed];
    for (size_t l = gpt->nfixed; l <= NLAYERS; l++)
        gpt->trained_start[l - gpt->nfixed] = gpt->layer_start[l] - gpt->skip;
    model->nlayers = NLAYERS - gpt->nfixed;
    model->layer_start = gpt->trained_start;
    model->nweights = gpt->layer_start[NLAYERS] - gpt->skip;
    model->ncommon = is_tuning ? BLOCK_SIZE : 0;
}

bool gpt_open(struct model *model, const struct options *options, char *why,
              size_t nwhy)
{
    struct gpt *gpt = calloc(1, sizeof *gpt);
    if (gpt == NULL)
        return false;
    *model = (struct model){.name = "gpt",
                            .self = gpt,
                            .learn = learn,
                            .judge = judge,
                            .measure = measure,
                            .close = close_model};
    gpt->order = options->order;
    gpt->njudge = (size_t)options->njudge;
    lay_out(model, gpt, options->base != NULL);
    gpt->all = calloc(gpt->layer_start[NLAYERS], sizeof(float));
    const char *path = options->text ? options->text : "README.md";
    if (gpt->all == NULL || !read_text(gpt, path, why, nwhy) ||
        (options->base != NULL && !read_base(gpt, options->base, why, nwhy))) {
        close_model(model);
        return false;
    }
    size_t nwindows = (gpt->ntrain - SPAN - 1) / STRIDE;
    size_t most = (size_t)options->nsamples;
    model->nsamples = nwindows < most ? nwindows : most;
    model->weights = gpt->all + gpt->skip;
    if (options->base == NULL)
        draw_weights(gpt, options->seed);
    return true;
}
