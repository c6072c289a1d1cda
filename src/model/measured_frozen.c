/* measured_frozen.c - shipped profiles of tables by frozen layers, and pairs.
 *
 * IceFrog's BERT and YOLOv3, the gradient statistics of its CIFAR models, and
 * the H200 tables. Pairs: the mean of what was measured, values under 1
 * counting as 1.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/measured.h"
#include "model/profilemaker.h"
#include <math.h>
#include <string.h>

#define FROZEN "gaow0007/FrozenTraceAnalysis, gaow0007/TraceCollectionLibrary"

/* --- IceFrog ---------------------------------------------------------------
 */

/* Unfrozen shares by frozen layers. BERT's FLOPs were counted twice by the
 * authors and go below zero; its activations stand in for them. */
static bool shares(const struct sheet *layers, const char *app, double frozen,
                   struct firn_shape *shape)
{
    const char *column = strcmp(app, "bert_wikitext2") == 0
                             ? "activation_frac_left"
                             : "flop_frac_left";
    for (size_t i = 0; i < layers->nrows; i++)
        if (strcmp(sheet_text(layers, i, 0), app) == 0 &&
            maker_cell(layers, i, "frozen_layers") == frozen) {
            shape->theta = maker_cell(layers, i, column);
            shape->omega = maker_cell(layers, i, "param_frac_left");
            return true;
        }
    return false;
}

/* What is left by frozen layers, never more than before. */
static void add_frozen(struct firn_profile *p, double frozen, double theta,
                       double omega)
{
    struct firn_profile_frozen last = {-1, INFINITY, INFINITY};
    if (p->frozen != NULL && p->nfrozen > 0)
        last = p->frozen[p->nfrozen - 1];
    if (frozen <= last.frozen)
        return;
    p->frozen =
        mem_grow(p->frozen, p->nfrozen, p->nfrozen + 1, sizeof *p->frozen);
    p->frozen[p->nfrozen] = (struct firn_profile_frozen){
        .frozen = frozen,
        .theta = fmin(last.theta, theta),
        .omega = fmin(last.omega, omega),
    };
    p->nfrozen++;
}

/* The last row of the layers' table leaves one layer. */
static void fill_frozen(struct firn_profile *p, const struct sheet *layers,
                        const char *app)
{
    for (size_t i = 0; i < layers->nrows; i++) {
        double frozen = maker_cell(layers, i, "frozen_layers");
        struct firn_shape shape;
        if (strcmp(sheet_text(layers, i, 0), app) != 0 ||
            !shares(layers, app, frozen, &shape))
            continue;
        p->layers = frozen + 1;
        add_frozen(p, frozen, fmax(shape.theta, 0), fmax(shape.omega, 0));
    }
}

enum firn_status maker_frozen(struct maker *m, const char *app,
                              const char *folder)
{
    struct sheet layers = {0}, in = {0};
    struct firn_buf rel = {0};
    struct maker_obs obs = {0};
    struct firn_profile *p = maker_add(m, "icefrog", app);
    maker_tell(p, FROZEN, "V100-32GB by its memory (not stated), 4 a node",
               MAKER_FITTED ", theta and omega by frozen layers" MAKER_THINNED);
    buf_printf(&rel, "icefrog/%s/placements.csv", folder);
    enum firn_status status =
        maker_read(m, &layers, m->dir, "icefrog/layer_info.csv");
    if (status == FIRN_OK)
        status = maker_read(m, &in, m->dir, rel.at);
    for (size_t i = 0; i < in.nrows; i++) {
        struct firn_step_obs o = {.shape = {.accum_steps = 1},
                                  .step_s = maker_cell(&in, i, "step_time"),
                                  .sync_s = maker_cell(&in, i, "sync_time")};
        for (const char *c = sheet_text(&in, i, 0); *c != '\0'; c++) {
            o.shape.nodes++;
            o.shape.gpus += *c - '0';
            if (*c - '0' > o.shape.gpus_on_fullest)
                o.shape.gpus_on_fullest = *c - '0';
        }
        o.shape.batch_per_gpu = maker_cell(&in, i, "local_bsz");
        if (shares(&layers, folder, maker_cell(&in, i, "frozen_layer"),
                   &o.shape))
            vec_add(&obs, o);
    }
    fill_frozen(p, &layers, folder);
    if (status == FIRN_OK)
        status = maker_fit(p, "v100", &obs, m->err);
    if (status == FIRN_OK) {
        p->local_min = p->gpus[0].time.batch_min;
        p->local_max = p->gpus[0].time.batch_max;
        status = maker_stats(m, p, 10);
    }
    if (status == FIRN_OK && p->stats.nstages > 0) {
        p->batch0 = p->stats.batch[0];
        p->batch_max = p->stats.batch[p->stats.nbatches - 1];
    }
    vec_release(&obs);
    buf_release(&rel);
    sheet_release(&in);
    sheet_release(&layers);
    return status;
}

enum firn_status maker_cifar(struct maker *m)
{
    static const char *const apps[] = {
        "googlenet-cifar10", "mobilenetv2-cifar10", "resnet18-cifar10",
        "resnet50-cifar10", "vgg19-cifar10"};
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++) {
        struct firn_profile *p = maker_add(m, "icefrog", apps[i]);
        maker_tell(
            p, FROZEN, "not stated; statistics do not depend on it",
            "per-layer gradient variance at the smallest batch and sums at "
            "all, means over epochs, 10 stages; no step times published");
        FIRN_TRY(measured_stats(&p->stats, p->source, p->app, m->dir, m->err));
        p->epochs = (double)p->stats.nstages;
        measured_thin(&p->stats, 10);
        p->batch0 = p->stats.batch[0];
        p->batch_max = p->stats.batch[p->stats.nbatches - 1];
        p->progress = p->stats.end[p->stats.nstages - 1];
    }
    return FIRN_OK;
}

/* --- H200 --------------------------------------------------------------- */

/* Whose gradient statistics those of a model are: the same network trained on
 * the same kind of data by IceFrog's authors. */
static const char *statistics_of(const char *model)
{
    static const char *const of[][2] = {
        {"bert-base", "icefrog/bert-wikitext2"},
        {"googlenet-c", "icefrog/googlenet-cifar10"},
        {"mobilenetv2-c", "icefrog/mobilenetv2-cifar10"},
        {"resnet18-c", "icefrog/resnet18-cifar10"},
        {"resnet50-c", "icefrog/resnet50-cifar10"},
        {"vgg19-c", "icefrog/vgg19-cifar10"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(of[i][0], model) == 0)
            return of[i][1];
    return "";
}

/* A row of the table: what it says of memory and utilisation. */
struct usage_row {
    double batch, theta, mem_mib, util; /* util: NaN when not measured */
};

/* What is saved of the line a + b x as theta falls: (1 - theta) (c + d x) by
 * least squares, c and d within 0 and a, b. */
static void fit_saved(const struct usage_row *rows, size_t n, bool is_util,
                      double *const at[4])
{
    double ww = 0, wx = 0, xx = 0, wy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        double w = 1 - rows[i].theta, x = w * rows[i].batch;
        double value = is_util ? rows[i].util : rows[i].mem_mib;
        if (!(w > 0) || isnan(value))
            continue;
        double y = *at[0] + *at[1] * rows[i].batch - value;
        ww += w * w;
        wx += w * x;
        xx += x * x;
        wy += w * y;
        xy += x * y;
    }
    double under = ww * xx - wx * wx;
    double d = under > 1e-9 * ww * xx ? (ww * xy - wx * wy) / under : 0;
    d = fmin(fmax(d, 0), *at[1]);
    double c = ww > 0 ? (wy - d * wx) / ww : 0;
    if (c < 0 && xx > 0)
        d = fmin(fmax(xy / xx, 0), *at[1]);
    *at[2] = fmin(fmax(c, 0), *at[0]);
    *at[3] = d;
}

/* Memory saved is no more than any row saves, or jobs would run out of it. */
static void be_careful(struct firn_profile_gpu *gpu,
                       const struct usage_row *rows, size_t n)
{
    double part = 1;
    for (size_t i = 0; i < n; i++) {
        double all = gpu->mem_mib + gpu->mem_sample_mib * rows[i].batch;
        double least = firn_profile_mem_mib(gpu, rows[i].batch, rows[i].theta);
        if (least < rows[i].mem_mib && all > least)
            part = fmin(part, (all - rows[i].mem_mib) / (all - least));
    }
    gpu->mem_saved_mib *= fmax(part, 0);
    gpu->mem_saved_sample_mib *= fmax(part, 0);
}

static void fit_usage(struct firn_profile_gpu *gpu,
                      const struct usage_row *rows, size_t n)
{
    double *x = mem_new(3 * n + 1, sizeof *x), *y = x + n, *u = y + n;
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].theta == 1) {
            x[k] = rows[i].batch;
            y[k] = rows[i].mem_mib;
            u[k++] = rows[i].util;
        }
    maker_line(x, y, k, &gpu->mem_mib, &gpu->mem_sample_mib);
    maker_line(x, u, k, &gpu->util, &gpu->util_sample);
    mem_free(x);
    fit_saved(rows, n, false,
              (double *const[]){&gpu->mem_mib, &gpu->mem_sample_mib,
                                &gpu->mem_saved_mib,
                                &gpu->mem_saved_sample_mib});
    be_careful(gpu, rows, n);
    fit_saved(rows, n, true,
              (double *const[]){&gpu->util, &gpu->util_sample, &gpu->util_saved,
                                &gpu->util_saved_sample});
}

/* The rows of one model; `usage` has room for all of them. */
static void read_h200(struct firn_profile *p, const struct sheet *in,
                      struct maker_obs *obs, struct usage_row *usage)
{
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, 0), p->app) != 0)
            continue;
        struct firn_step_obs o = {
            .shape = {.nodes = 1,
                      .gpus = 1,
                      .gpus_on_fullest = 1,
                      .batch_per_gpu = maker_cell(in, i, "batch"),
                      .accum_steps = 1,
                      .theta = maker_cell(in, i, "flops_unfrozen_ratio"),
                      .omega = maker_cell(in, i, "params_unfrozen_ratio")},
            .step_s = maker_cell(in, i, "iter_ms") / 1000,
            .sync_s = (double)NAN,
        };
        usage[obs->n] =
            (struct usage_row){o.shape.batch_per_gpu, o.shape.theta,
                               maker_cell(in, i, "peak_alloc_mib"),
                               maker_cell(in, i, "gpu_util_pct") / 100};
        vec_add(obs, o);
        p->layers = maker_cell(in, i, "layers");
        add_frozen(p, maker_cell(in, i, "frozen"), o.shape.theta,
                   o.shape.omega);
    }
}

static enum firn_status make_h200_one(struct maker *m, const struct sheet *in,
                                      const char *model)
{
    struct maker_obs obs = {0};
    struct usage_row *usage = mem_new(in->nrows + 1, sizeof *usage);
    struct firn_profile *p = maker_add(m, "h200", model);
    read_h200(p, in, &obs, usage);
    maker_tell(p, "measured for firn, profiles/h200/freeze.csv",
               "one NVIDIA H200 141 GB, PyTorch, fp32, SGD with momentum",
               MAKER_FITTED
               ", theta and omega by frozen layers; memory: a line through "
               "PyTorch's peaks with nothing frozen, less what every row saves "
               "by 1 - theta; utilisation: NVML's means, by least squares");
    enum firn_status status = maker_fit(p, "h200", &obs, m->err);
    if (status == FIRN_OK) {
        fit_usage(&p->gpus[0], usage, obs.n);
        str_copy(p->stats_of, sizeof p->stats_of, statistics_of(model));
        p->local_min = p->gpus[0].time.batch_min;
        p->local_max = p->gpus[0].time.batch_max;
    }
    mem_free(usage);
    vec_release(&obs);
    return status;
}

enum firn_status maker_h200(struct maker *m)
{
    struct sheet in = {0};
    enum firn_status status = maker_read(m, &in, m->h200, "freeze.csv");
    for (size_t i = 0; i < in.nrows && status == FIRN_OK; i++) {
        const char *model = sheet_text(&in, i, 0);
        bool is_new = true;
        for (size_t k = 0; k < m->out.n && is_new; k++)
            is_new = strcmp(m->out.at[k].source, "h200") != 0 ||
                     strcmp(m->out.at[k].app, model) != 0;
        if (is_new)
            status = make_h200_one(m, &in, model);
    }
    sheet_release(&in);
    return status;
}

/* --- pairs ---------------------------------------------------------------- */

/* What one source measured of pairs, as a running sum. */
struct pair_sum {
    const char *a, *b;
    double xi, n;
};

static void add_xi(struct pair_sum *sums, size_t *n, const char *a,
                   const char *b, double xi)
{
    size_t i = 0;
    if (!isfinite(xi) || xi <= 0)
        return;
    while (i < *n && (strcmp(sums[i].a, a) != 0 || strcmp(sums[i].b, b) != 0))
        i++;
    if (i == *n)
        sums[(*n)++] = (struct pair_sum){.a = a, .b = b};
    sums[i].xi += xi > 1 ? xi : 1;
    sums[i].n++;
}

/* Gives the means to the profiles of that source. */
static void add_pairs(struct maker *m, const char *source,
                      const struct pair_sum *sums, size_t n)
{
    for (size_t k = 0; k < m->out.n; k++) {
        struct firn_profile *p = &m->out.at[k];
        if (strcmp(p->source, source) != 0)
            continue;
        p->pairs = mem_new(n, sizeof *p->pairs);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(sums[i].a, p->app) != 0)
                continue;
            struct firn_profile_pair *pair = &p->pairs[p->npairs++];
            str_copy(pair->other, sizeof pair->other, sums[i].b);
            pair->xi = sums[i].xi / sums[i].n;
        }
    }
}

/* Time slicing with nothing frozen on the H200; all batches of Titan. */
enum firn_status maker_pairs(struct maker *m, const char *source)
{
    struct sheet in = {0};
    bool is_h200 = strcmp(source, "h200") == 0;
    FIRN_TRY(
        maker_read(m, &in, is_h200 ? m->h200 : m->dir,
                   is_h200 ? "pairs.csv" : "derived/gpu_sharing_slowdown.csv"));
    struct pair_sum *sums = mem_new(2 * in.nrows, sizeof *sums);
    size_t n = 0;
    int a = sheet_column(&in, is_h200 ? "a" : "job_a");
    int b = sheet_column(&in, is_h200 ? "b" : "job_b");
    for (size_t i = 0; i < in.nrows; i++) {
        bool is_ours = is_h200
                           ? strcmp(sheet_text(&in, i, 0), "timeslice") == 0 &&
                                 maker_cell(&in, i, "frozen_a") == 0 &&
                                 maker_cell(&in, i, "frozen_b") == 0
                           : strcmp(sheet_text(&in, i, 0), source) == 0;
        if (!is_ours)
            continue;
        add_xi(sums, &n, sheet_text(&in, i, a), sheet_text(&in, i, b),
               maker_cell(&in, i, is_h200 ? "xi_a" : "slowdown_a"));
        add_xi(sums, &n, sheet_text(&in, i, b), sheet_text(&in, i, a),
               maker_cell(&in, i, is_h200 ? "xi_b" : "slowdown_b"));
    }
    add_pairs(m, source, sums, n);
    mem_free(sums);
    sheet_release(&in);
    return FIRN_OK;
}
