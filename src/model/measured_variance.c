/* measured_variance.c - gradient variance by layer, from firn's own trainings.
 *
 * profiles/h200/freeze_variance.csv has, for several seeds of a training, the
 * variance of each layer's gradient at twenty points of it, across
 * micro-batches of `micro` samples. A profile of it has ten stages of equal
 * length. The number of a layer in a stage is the median over all rows of the
 * stage, of every seed and session: single probes differ by a factor of ten in
 * the ResNets' first quarter, and a mean would be that of the largest.
 * Variances are scaled from micro-batches to the batch by micro / batch. |g|^2
 * is the median too, at least 0; tr(Sigma) the sum over the layers.
 *
 * The trainings are shorter than those whose step times stand beside them, and
 * on other data (docs/models/freeze.md says which); so a profile takes only
 * the variances by layer from here, by `layers_of`.
 */
#include "base/mem.h"
#include "base/str.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 10 };

static const struct {
    const char *task, *app, *method;
} trainings[] = {
    {"resnet18", "resnet18-fashion", "ResNet18 on Fashion-MNIST"},
    {"resnet50", "resnet50-fashion", "ResNet50 on Fashion-MNIST"},
    {"bert", "bert-debian", "8 x 512 encoder, masked words"},
    {"bert-tune", "bert-debian-tune", "8 x 512 encoder, tuned to sections"},
    {"gpt", "gpt-python", "8 x 512 decoder, bytes of Python"},
};

static double cell(const struct sheet *in, size_t row, const char *name)
{
    return sheet_number(in, row, sheet_column(in, name));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *at, size_t n)
{
    qsort(at, n, sizeof *at, by_value);
    return n % 2 ? at[n / 2] : 0.5 * (at[n / 2 - 1] + at[n / 2]);
}

/* The stage that a row belongs to; STAGES when the row is another task's. */
static size_t stage_of(const struct sheet *in, size_t row, const char *task)
{
    if (strcmp(sheet_text(in, row, sheet_column(in, "task")), task) != 0)
        return STAGES;
    double share = cell(in, row, "step") / cell(in, row, "length");
    return (size_t)fmin(ceil(share * STAGES - 1e-9) - 1, STAGES - 1);
}

/* The k-th of a row's variances by layer. */
static double layer_at(const struct sheet *in, size_t row, size_t k)
{
    const char *c = sheet_text(in, row, sheet_column(in, "by_layer"));
    double value = (double)NAN;
    for (size_t i = 0; i <= k; i++) {
        char *end;
        value = strtod(c, &end);
        if (end == c)
            return (double)NAN;
        c = end;
    }
    return value;
}

static void fill_stage(struct firn_profile_stats *s, const struct sheet *in,
                       const char *task, size_t stage)
{
    double *at = mem_new(in->nrows + 1, sizeof *at);
    size_t n = 0;
    double scale = 1;
    for (size_t i = 0; i < in->nrows; i++)
        if (stage_of(in, i, task) == stage) {
            at[n++] = cell(in, i, "grad_sq");
            scale = cell(in, i, "micro") / cell(in, i, "batch");
        }
    s->grad_sqr[stage] = n > 0 ? fmax(median(at, n), 0) : 0;
    for (size_t k = 0; k < s->nlayers; k++) {
        n = 0;
        for (size_t i = 0; i < in->nrows; i++)
            if (stage_of(in, i, task) == stage)
                at[n++] = layer_at(in, i, k);
        double v = n > 0 ? scale * fmax(median(at, n), 0) : 0;
        s->layer_var[stage * s->nlayers + k] = v;
        s->grad_var[stage] += v;
    }
    mem_free(at);
}

static void fill(struct firn_profile *p, const struct sheet *in,
                 const char *task, size_t row)
{
    struct firn_profile_stats *s = &p->stats;
    p->batch0 = cell(in, row, "batch");
    p->progress = cell(in, row, "length");
    p->restart_s = p->resize.pause_s = -1;
    s->nbatches = 1;
    s->nstages = STAGES;
    s->nlayers = (size_t)cell(in, row, "layers");
    s->batch = mem_new(1, sizeof *s->batch);
    s->batch[0] = p->batch0;
    s->end = mem_new(STAGES, sizeof *s->end);
    s->grad_sqr = mem_new(STAGES, sizeof *s->grad_sqr);
    s->grad_var = mem_new(STAGES, sizeof *s->grad_var);
    s->layer_var = mem_new(STAGES * s->nlayers, sizeof *s->layer_var);
    for (size_t i = 0; i < STAGES; i++) {
        s->end[i] = p->progress * (double)(i + 1) / STAGES;
        fill_stage(s, in, task, i);
    }
}

enum firn_status measured_variance(struct firn_profile *out, const char *task,
                                   const char *path, struct firn_error *err)
{
    struct sheet in = {0};
    struct firn_profile p = {0};
    size_t t = 0, row = 0, n = sizeof trainings / sizeof *trainings;
    while (t < n && strcmp(trainings[t].task, task) != 0)
        t++;
    if (t == n)
        return firn_fail(err, FIRN_EINVAL, "'%s' is not a training", task);
    FIRN_TRY(sheet_read(&in, path, err));
    while (row < in.nrows && stage_of(&in, row, task) == STAGES)
        row++;
    if (row < in.nrows) {
        str_copy(p.app, sizeof p.app, trainings[t].app);
        str_copy(p.source, sizeof p.source, "h200");
        str_copy(p.origin, sizeof p.origin,
                 "measured for firn, profiles/h200/freeze_variance.csv");
        str_copy(p.hardware, sizeof p.hardware,
                 "one NVIDIA H200 141 GB, PyTorch");
        str_copy(p.method, sizeof p.method, trainings[t].method);
        fill(&p, &in, task, row);
    }
    sheet_release(&in);
    if (p.app[0] == '\0')
        return firn_fail(err, FIRN_EDATA, "%s has no row of '%s'", path, task);
    *out = p;
    return FIRN_OK;
}
