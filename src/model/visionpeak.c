/* visionpeak.c - networks of convolutions from their shapes, and lines through
 * measured peaks.
 *
 * A walk over the layers adds up parameters and the numbers kept for the
 * backward pass of one sample. Parameters are exact (test_visionpeak.c has
 * those of torchvision and diffusers). Kept numbers of ConvNeXt and the U-Net
 * were compared with what PyTorch keeps on a CPU; those of ResNets with peaks
 * measured on an H200 in fp32.
 *
 * The peak is at the end of the forward pass or at the optimizer's step. The
 * convolutions' workspace is the median of what seven measured rows (ResNet18
 * and 50, 224 x 224, profiles/h200/freeze.csv) have above the count.
 *
 * Cost: microseconds; no allocation.
 */
#include <firn/visionpeak.h>

#include "base/fmath.h"
#include "base/str.h"
#include "model/peakterms.h"
#include "model/range.h"
#include <math.h>
#include <stdlib.h>

static const double conv_workspace_mib = 65;
static const double context_mib = 771; /* profiles/h200/context.csv */

enum kind { RESNET, BOTTLENECK, CONVNEXT, UNET };

static const struct network {
    const char *name;
    enum kind kind;
    int depths[4], widths[4];
} networks[] = {
    {"resnet18", RESNET, {2, 2, 2, 2}, {64, 128, 256, 512}},
    {"resnet34", RESNET, {3, 4, 6, 3}, {64, 128, 256, 512}},
    {"resnet50", BOTTLENECK, {3, 4, 6, 3}, {64, 128, 256, 512}},
    {"resnet101", BOTTLENECK, {3, 4, 23, 3}, {64, 128, 256, 512}},
    {"resnet152", BOTTLENECK, {3, 8, 36, 3}, {64, 128, 256, 512}},
    {"convnext-tiny", CONVNEXT, {3, 3, 9, 3}, {96, 192, 384, 768}},
    {"convnext-small", CONVNEXT, {3, 3, 27, 3}, {96, 192, 384, 768}},
    {"convnext-base", CONVNEXT, {3, 3, 27, 3}, {128, 256, 512, 1024}},
    {"convnext-large", CONVNEXT, {3, 3, 27, 3}, {192, 384, 768, 1536}},
    {"unet-sd15", UNET, {2, 2, 2, 2}, {320, 640, 1280, 1280}},
};

enum { NNETWORKS = sizeof networks / sizeof *networks, CLASSES = 1000 };

size_t firn_vision_count(void)
{
    return NNETWORKS;
}

const char *firn_vision_name(size_t i)
{
    return networks[i].name;
}

enum firn_status firn_vision_find(size_t *i, const char *name,
                                  struct firn_error *err)
{
    for (size_t k = 0; k < NNETWORKS; k++)
        if (str_equal_nocase(networks[k].name, name)) {
            *i = k;
            return FIRN_OK;
        }
    return firn_fail(err, FIRN_ENOENT, "no network '%.40s'", name);
}

/* --- layers --------------------------------------------------------------- */

struct walk {
    double params;
    double kept; /* numbers of one sample */
};

static void walk_resnet(struct walk *w, const struct network *n, double side)
{
    bool is_deep = n->kind == BOTTLENECK;
    double in = 64, area = side * side / 4;
    w->params = 3 * 64 * 49 + 128;
    w->kept = 3 * side * side + 2 * 64 * area;
    area /= 4;
    w->kept += (2 + 1) * 64 * area; /* indices of the pooling are int64 */
    for (int i = 0; i < 4; i++) {
        double c = n->widths[i], out = is_deep ? 4 * c : c;
        for (int b = 0; b < n->depths[i]; b++) {
            double before = area;
            area /= i > 0 && b == 0 ? 4 : 1;
            w->params += is_deep ? in * c + 9 * c * c + 4 * c * c + 12 * c
                                 : 9 * in * c + 9 * c * c + 4 * c;
            w->kept += is_deep ? 2 * c * before + 2 * c * area + 8 * c * area
                               : 4 * c * area;
            if (in != out || before != area) { /* shortcut */
                w->params += in * out + 2 * out;
                w->kept += out * area;
            }
            in = out;
        }
    }
    w->params += in * CLASSES + CLASSES;
}

static void walk_convnext(struct walk *w, const struct network *n, double side)
{
    double area = side * side / 16, in = 3;
    w->kept = 3 * side * side + n->widths[0] * area;
    for (int i = 0; i < 4; i++) {
        double d = n->widths[i];
        if (i == 0) {
            w->params += 16 * in * d + d + 2 * d;
        } else { /* norm, then 2 x 2 */
            w->params += 2 * in + 4 * in * d + d;
            w->kept += 2 * in * area;
            area /= 4;
        }
        w->params += n->depths[i] * (8 * d * d + (49 + 1 + 2 + 4 + 1 + 1) * d);
        w->kept += n->depths[i] * 12 * d * area;
        in = d;
    }
    w->params += 2 * in + in * CLASSES + CLASSES;
}

/* Of the U-Net: width of the time embedding and of the text, its tokens. */
enum { TIME = 1280, TEXT = 768, TOKENS = 77 };

static void add_residual(struct walk *w, double in, double out, double area)
{
    w->params += 2 * in + 9 * in * out + out + TIME * out + out + 2 * out +
                 9 * out * out + out;
    if (in != out)
        w->params += in * out + out;
    w->kept += (3 * in + 3 * out) * area;
}

static void add_transformer(struct walk *w, double d, double area)
{
    w->params += 20 * d * d + 2.0 * TEXT * d + 21 * d;
    w->kept += 31 * d * area + 2.0 * TOKENS * d;
}

static void walk_unet(struct walk *w, const struct network *n, double side)
{
    double skips[16], area = side * side, in = n->widths[0];
    int nskips = 0;
    w->params = 9 * 4 * in + in + in * TIME + TIME + (double)TIME * TIME + TIME;
    w->kept = 4 * area;
    skips[nskips++] = in;
    for (int i = 0; i < 4; i++) {
        double c = n->widths[i];
        for (int b = 0; b < 2; b++) {
            add_residual(w, b == 0 ? in : c, c, area);
            if (i < 3)
                add_transformer(w, c, area);
            skips[nskips++] = c;
        }
        in = c;
        if (i < 3) {
            w->params += 9 * c * c + c;
            skips[nskips++] = c;
            area /= 4;
        }
    }
    add_residual(w, in, in, area);
    add_transformer(w, in, area);
    add_residual(w, in, in, area);
    for (int i = 3; i >= 0; i--) {
        double c = n->widths[i];
        for (int b = 0; b < 3; b++) {
            add_residual(w, (b == 0 ? in : c) + skips[--nskips], c, area);
            if (i < 3)
                add_transformer(w, c, area);
        }
        in = c;
        if (i > 0) {
            area *= 4;
            w->params += 9 * c * c + c;
            w->kept += c * area;
        }
    }
    w->params += 2 * in + 9 * in * 4 + 4;
    w->kept += 3 * in * area;
}

static struct walk walk_of(const struct network *n, int image)
{
    struct walk w = {0};
    if (n->kind == UNET)
        walk_unet(&w, n, image);
    else if (n->kind == CONVNEXT)
        walk_convnext(&w, n, image);
    else
        walk_resnet(&w, n, image);
    return w;
}

/* --- the peak ------------------------------------------------------------- */

static enum firn_status check(const struct firn_vision_job *job, int *image,
                              struct firn_error *err)
{
    bool is_unet = networks[job->network].kind == UNET;
    int step = is_unet ? 8 : 32;
    *image = job->image > 0 ? job->image : is_unet ? 64 : 224;
    FIRN_TRY(range_check("the image's side", *image, step, 1 << 14, err));
    if (*image % step != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "the image's side is %d; a multiple of %d is wanted",
                         *image, step);
    if (job->mode > FIRN_MODE_BF16)
        return firn_fail(err, FIRN_EINVAL,
                         "fp32, amp and bf16 are possible for a network of "
                         "convolutions");
    if (job->optimizer == FIRN_OPT_ADAM_8BIT ||
        job->optimizer == FIRN_OPT_ADAFACTOR)
        return firn_fail(err, FIRN_EINVAL,
                         "adamw, lion and sgd are possible for a network of "
                         "convolutions");
    return range_check("the micro-batch", job->micro_batch, 1, 1 << 20, err);
}

/* Bytes of a kept number. Autocast computes batch norms in bf16; other norms
 * and what follows them in fp32: three of four bytes on average. */
static double kept_size(const struct firn_vision_job *job)
{
    enum kind kind = networks[job->network].kind;
    if (job->mode == FIRN_MODE_AMP)
        return kind == RESNET || kind == BOTTLENECK ? 2 : 3;
    return job->mode == FIRN_MODE_BF16 ? 2 : 4;
}

/* Moments, and copies of all parameters that the step needs. */
static void optimizer_of(enum firn_peak_optimizer optimizer, double *moments,
                         double *copies)
{
    bool is_adam = optimizer <= FIRN_OPT_ADAMW_FUSED;
    *moments = is_adam ? 2 : optimizer == FIRN_OPT_SGD_PLAIN ? 0 : 1;
    *copies = optimizer == FIRN_OPT_ADAMW_FOREACH ? 1 : 0;
}

enum firn_status firn_vision_peak_of(const struct firn_vision_job *job,
                                     struct firn_vision_peak *out,
                                     struct firn_error *err)
{
    const struct network *n = &networks[job->network];
    double moments, copies;
    int image;
    FIRN_TRY(check(job, &image, err));
    struct walk w = walk_of(n, image);
    double one = w.params * (job->mode == FIRN_MODE_BF16 ? 2 : 4) / MIB;
    double kept = w.kept * kept_size(job) * job->micro_batch / MIB;
    double casts = job->mode == FIRN_MODE_AMP ? one / 2 : 0;
    optimizer_of(job->optimizer, &moments, &copies);
    *out = (struct firn_vision_peak){
        .params = w.params,
        .weights_mib = one,
        .moments_mib = moments * one,
        .workspace_mib = peak_constants.workspace_mib + conv_workspace_mib,
        .is_measured = job->mode == FIRN_MODE_FP32 &&
                       (n->kind == RESNET || n->kind == BOTTLENECK)};
    if (kept + casts > (1 + copies) * one) { /* the forward pass */
        out->activations_mib = kept;
        out->casts_mib = casts;
    } else {
        out->gradients_mib = one;
        out->scratch_mib = copies * one;
    }
    out->expected_mib = out->weights_mib + out->casts_mib + out->moments_mib +
                        out->gradients_mib + out->scratch_mib +
                        out->activations_mib + out->workspace_mib;
    double spread = out->is_measured ? 0.05 : 0.125;
    out->low_mib = (1 - spread) * out->expected_mib;
    out->high_mib = (out->is_measured ? 1.20 : 1.125) * out->expected_mib;
    out->device_mib = out->high_mib + context_mib;
    return FIRN_OK;
}

/* --- measured points ------------------------------------------------------ */

/* Reads "BATCH=MIB" and the character behind it. */
static bool read_point(const char **at, long *batch, double *mib, char end)
{
    char *after;
    *batch = strtol(*at, &after, 10);
    if (after == *at || *after != '=')
        return false;
    *at = after + 1;
    *mib = strtod(*at, &after);
    if (after == *at || *after != end)
        return false;
    *at = after + 1;
    return true;
}

enum firn_status firn_peak_points_read(struct firn_peak_points *out,
                                       const char *text, struct firn_error *err)
{
    struct firn_peak_points p = {0};
    const char *at = text;
    long batch[2];
    if (!read_point(&at, &batch[0], &p.mib[0], ',') ||
        !read_point(&at, &batch[1], &p.mib[1], '\0'))
        return firn_fail(err, FIRN_EINVAL,
                         "'%.40s' is not two measured peaks: BATCH=MIB,"
                         "BATCH=MIB is wanted, 16=2100,64=7200 for example",
                         text);
    for (int i = 0; i < 2; i++) {
        FIRN_TRY(range_check("a measured batch", batch[i], 1, 1 << 20, err));
        p.batch[i] = (int)batch[i];
        if (!(p.mib[i] > 0 && p.mib[i] < 1e9))
            return firn_fail(err, FIRN_EINVAL,
                             "a measured peak is %g MiB; it must be above 0",
                             p.mib[i]);
    }
    if (p.batch[0] == p.batch[1])
        return firn_fail(err, FIRN_EINVAL,
                         "both peaks are of batch %d: two batches are wanted",
                         p.batch[0]);
    *out = p;
    return FIRN_OK;
}

enum firn_status firn_peak_line_at(const struct firn_peak_points *points,
                                   int batch, struct firn_peak_line *out,
                                   struct firn_error *err)
{
    int a = points->batch[0] < points->batch[1] ? 0 : 1, b = 1 - a;
    double x = points->batch[a], y = points->batch[b];
    FIRN_TRY(range_check("the micro-batch", batch, 1, 1 << 20, err));
    struct firn_peak_line line = {0};
    line.sample_mib = fmax(0, (points->mib[b] - points->mib[a]) / (y - x));
    line.base_mib = fmax(points->mib[a], points->mib[b]);
    if (line.sample_mib > 0)
        line.base_mib = points->mib[a] - line.sample_mib * x;
    line.expected_mib = line.base_mib + line.sample_mib * batch;
    if (!(line.expected_mib > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "the line through both peaks is below 0 at batch %d",
                         batch);
    double beyond = fm_log(fmax(1, fmax(x / batch, batch / y))) / fm_log(2);
    double spread = fmin(0.125, 0.05 * (1 + beyond));
    line.low_mib = (1 - spread) * line.expected_mib;
    line.high_mib = (1 + spread) * line.expected_mib;
    *out = line;
    return FIRN_OK;
}
