/* measured_fit.c - makes the shipped profiles from the published tables.
 *
 * Step times: FIRN_FORM_FULL of itertime.h, fitted to every row; the error
 * written is the one on these same rows, without a learned correction. Memory:
 * a line through the peaks with nothing frozen. EasyScale published
 * one batch for each model and GPU type, and a larger one on V100s: the time is
 * a line through both, and the other types are slower by the same ratio.
 * Pairs: the mean of the measured slowdowns, those below 1 counted as 1.
 * Deterministic: the same tables give the same bytes.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/evaluate.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ADAPTDL "petuum/adaptdl, branch osdi21-artifact (Apache-2.0)"
#define SIA     "siasosp23/artifacts, sia-simulator"
#define FROZEN  "gaow0007/FrozenTraceAnalysis, gaow0007/TraceCollectionLibrary"

struct maker {
    const char *dir, *h200;
    struct firn_profiles out;
    size_t cap;
    struct firn_error *err;
};

/* A VEC of measurements of one application on one GPU type. */
struct observations {
    struct firn_step_obs *at;
    size_t n, cap;
};

#define FITTED                                                         \
    "step times: least squares of log step on all rows, full form of " \
    "itertime.h"
#define THINNED \
    "; statistics: thinned to 20 stages at most, each as long as its epochs"

/* A new profile; valid until the next one is added. */
static struct firn_profile *add_profile(struct maker *m, const char *source,
                                        const char *app)
{
    if (m->out.n == m->cap) {
        size_t cap = m->cap > 0 ? 2 * m->cap : 32;
        m->out.at = mem_grow(m->out.at, m->cap, cap, sizeof *m->out.at);
        m->cap = cap;
    }
    struct firn_profile *p = &m->out.at[m->out.n++];
    str_copy(p->source, sizeof p->source, source);
    str_copy(p->app, sizeof p->app, app);
    p->restart_s = p->resize.pause_s = -1;
    return p;
}

static void set_origin(struct firn_profile *p, const char *origin,
                       const char *hardware, const char *method)
{
    str_copy(p->origin, sizeof p->origin, origin);
    str_copy(p->hardware, sizeof p->hardware, hardware);
    str_copy(p->method, sizeof p->method, method);
}

static struct firn_profile_gpu *add_gpu(struct firn_profile *p,
                                        const char *type)
{
    struct firn_profile_gpu *gpu = &p->gpus[p->ngpus++];
    str_copy(gpu->type, sizeof gpu->type, type);
    gpu->fit_mean = gpu->fit_max = (double)NAN;
    return gpu;
}

/* Adds a GPU type whose step times are fitted to `obs`. */
static enum firn_status fit_type(struct firn_profile *p, const char *type,
                                 const struct observations *obs,
                                 struct firn_error *err)
{
    const struct evaluate_options full = {FIRN_FORM_FULL, false};
    struct evaluate_result *r = mem_new(1, sizeof *r);
    enum firn_status status =
        evaluate_steps(&full, obs->at, obs->n, obs->at, obs->n, r, err);
    if (status == FIRN_OK) {
        struct firn_profile_gpu *gpu = add_gpu(p, type);
        gpu->time = r->model;
        gpu->fit_mean = r->step.mean;
        gpu->fit_max = r->step.max;
        gpu->fit_rows = (long)r->step.n;
    }
    mem_free(r);
    return status;
}

/* Rows of a step table as measurements. */
static void observe(const struct steptable *table, struct observations *out)
{
    for (size_t i = 0; i < table->nrows; i++) {
        const struct steptable_row *row = &table->rows[i];
        struct firn_step_obs obs = {
            .shape = {.nodes = row->nodes,
                      .gpus = row->gpus,
                      .batch_per_gpu = row->batch,
                      .accum_steps = 1,
                      .theta = 1,
                      .omega = 1},
            .step_s = row->step_s,
            .sync_s = row->sync_s,
        };
        for (const char *c = row->place; *c != '\0'; c++)
            if (*c - '0' > obs.shape.gpus_on_fullest)
                obs.shape.gpus_on_fullest = *c - '0';
        vec_add(out, obs);
    }
}

enum firn_status measured_law(struct firn_itertime *out,
                              const struct steptable *table,
                              enum firn_itertime_form form,
                              struct firn_error *err)
{
    struct observations obs = {0};
    struct firn_itertime law;
    struct firn_itertime_fit fit = {.form = form};
    firn_itertime_default(&law);
    observe(table, &obs);
    enum firn_status status =
        firn_itertime_refit(&law, obs.at, obs.n, &fit, err);
    if (status == FIRN_OK)
        *out = law;
    vec_release(&obs);
    return status;
}

static enum firn_status fit_table(struct maker *m, struct firn_profile *p,
                                  const char *type)
{
    struct steptable table = {0};
    struct observations obs = {0};
    FIRN_TRY(measured_table(&table, p->source, p->app, type, m->dir, m->err));
    observe(&table, &obs);
    enum firn_status status = fit_type(p, type, &obs, m->err);
    vec_release(&obs);
    steptable_release(&table);
    return status;
}

static enum firn_status add_stats(struct maker *m, struct firn_profile *p,
                                  size_t most)
{
    FIRN_TRY(measured_stats(&p->stats, p->source, p->app, m->dir, m->err));
    measured_thin(&p->stats, most);
    return FIRN_OK;
}

/* --- Pollux and Sia ------------------------------------------------------ */

static enum firn_status read_sheet(struct maker *m, struct sheet *out,
                                   const char *dir, const char *rel)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/%s", dir, rel);
    enum firn_status status = sheet_read(out, path.at, m->err);
    buf_release(&path);
    return status;
}

static double cell(const struct sheet *sheet, size_t row, const char *column)
{
    return sheet_number(sheet, row, sheet_column(sheet, column));
}

static enum firn_status make_pollux(struct maker *m, const char *source,
                                    const char *const *types)
{
    struct sheet apps = {0};
    bool is_sia = strcmp(source, "sia") == 0;
    enum firn_status status = read_sheet(m, &apps, m->dir, "pollux/apps.csv");
    for (size_t i = 0; i < apps.nrows && status == FIRN_OK; i++) {
        const char *app =
            sheet_text(&apps, i, sheet_column(&apps, "application"));
        struct firn_profile *p = add_profile(m, source, app);
        set_origin(p, is_sia ? SIA "; epochs of " ADAPTDL : ADAPTDL,
                   is_sia ? "4x T4, 8x V100, 8x A100-40GB, 4x Quadro RTX 6000, "
                            "8x RTX 2080 Ti a node"
                          : "AWS g4dn.12xlarge, 4x T4 a node, up to 16 nodes",
                   FITTED THINNED);
        p->epochs = cell(&apps, i, "max_epochs");
        p->batch0 = cell(&apps, i, "init_batch_size");
        p->batch_max = cell(&apps, i, "max_batch_size");
        if (!is_sia) { /* in Sia's tables the limits depend on the type */
            p->local_min = cell(&apps, i, "min_local_bsz");
            p->local_max = cell(&apps, i, "max_local_bsz");
        }
        p->restart_s = cell(&apps, i, "sia_rescale_time_s");
        for (int t = 0; types[t] != NULL && status == FIRN_OK; t++)
            status = fit_table(m, p, types[t]);
        if (status == FIRN_OK)
            status = add_stats(m, p, FIRN_PROFILE_STAGES);
        if (status == FIRN_OK && p->stats.nstages > 0)
            p->progress = p->stats.end[p->stats.nstages - 1];
    }
    sheet_release(&apps);
    return status;
}

/* --- Titan ---------------------------------------------------------------- */

/* A line through (x, y) by least squares, both coefficients >= 0. */
static void fit_line(const double *x, const double *y, size_t n, double *a,
                     double *b)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, k = (double)n;
    for (size_t i = 0; i < n; i++) {
        sx += x[i];
        sy += y[i];
        sxx += x[i] * x[i];
        sxy += x[i] * y[i];
    }
    double under = k * sxx - sx * sx;
    *b = under > 0 ? (k * sxy - sx * sy) / under : 0;
    *b = *b > 0 ? *b : 0;
    *a = n > 0 ? (sy - *b * sx) / k : 0;
    if (*a < 0) {
        *a = 0;
        *b = sxx > 0 ? sxy / sxx : 0;
    }
}

static enum firn_status titan_memory(struct maker *m, struct firn_profile *p,
                                     const char *folder)
{
    struct sheet in = {0};
    struct firn_buf rel = {0};
    buf_printf(&rel, "ymir/profiles/%s/%s_memory.csv", folder, p->app);
    enum firn_status status = read_sheet(m, &in, m->dir, rel.at);
    buf_release(&rel);
    if (status != FIRN_OK)
        return status;
    double *x = mem_new(2 * in.nrows, sizeof *x), *y = x + in.nrows;
    for (size_t i = 0; i < in.nrows; i++) {
        x[i] = cell(&in, i, "local_bsz");
        y[i] = 1024 * cell(&in, i, "gpu_memory");
    }
    struct firn_profile_gpu *gpu = &p->gpus[p->ngpus - 1];
    fit_line(x, y, in.nrows, &gpu->mem_mib, &gpu->mem_sample_mib);
    mem_free(x);
    sheet_release(&in);
    return FIRN_OK;
}

static enum firn_status titan_restart(struct maker *m, struct firn_profile *p)
{
    struct sheet in = {0};
    struct firn_buf rel = {0};
    buf_printf(&rel, "ymir/profiles/V100/%s_context_switch.csv", p->app);
    enum firn_status status = read_sheet(m, &in, m->dir, rel.at);
    buf_release(&rel);
    for (size_t i = 0; i < in.nrows && status == FIRN_OK; i++)
        p->restart_s = fmax(p->restart_s, 30 + cell(&in, i, "time_cost"));
    sheet_release(&in);
    return status;
}

static enum firn_status make_titan(struct maker *m)
{
    static const char *const apps[] = {"roberta-base", "roberta-large", "vit",
                                       "vit-large"};
    static const char *const types[][2] = {{"v100", "V100"}, {"a100", "A100"}};
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++) {
        struct firn_profile *p = add_profile(m, "titan", apps[i]);
        set_origin(
            p, "gaow0007/TitanSched f71cf44 (MIT)", "4x V100-32GB a node; A100",
            FITTED "; restart: 30 s and the longest load of weights and data");
        for (int t = 0; t < 2; t++) {
            FIRN_TRY(fit_table(m, p, types[t][0]));
            FIRN_TRY(titan_memory(m, p, types[t][1]));
        }
        p->local_min = p->gpus[0].time.batch_min;
        p->local_max = p->gpus[0].time.batch_max;
        FIRN_TRY(titan_restart(m, p));
    }
    return FIRN_OK;
}

/* --- EasyScale ------------------------------------------------------------ */

/* Seconds of a mini-batch of `large` on a V100, of the table context_switch;
 * YOLOv3's is its first point again, so 0.6 of the time at half the batch is
 * assumed. */
static double easyscale_slope(const struct sheet *large, const char *app,
                              double batch, double time_s, double *most)
{
    static const struct {
        const char *app;
        double batch;
    } largest[] = {{"vgg19", 64},     {"bert", 16},
                   {"electra", 16},   {"swintransformer", 64},
                   {"resnet50", 128}, {"shufflenetv2", 256},
                   {"ncf", 16384}};
    *most = batch;
    for (size_t k = 0; k < sizeof largest / sizeof *largest; k++)
        for (size_t i = 0; i < large->nrows; i++)
            if (strcmp(largest[k].app, app) == 0 &&
                strcmp(sheet_text(large, i, 0), app) == 0) {
                *most = largest[k].batch;
                return (cell(large, i, "disable") / time_s - 1) /
                       (*most / batch - 1);
            }
    return 0.8;
}

static void make_easyscale_one(struct maker *m, const struct sheet *in,
                               const struct sheet *large, const char *model)
{
    struct firn_profile *p = NULL;
    double slope = 1, most = 0;
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, 0), model) != 0)
            continue;
        double batch = cell(in, i, "bs");
        if (p == NULL) {
            /* NeuMF is called ncf in their workload. */
            p = add_profile(m, "easyscale",
                            strcmp(model, "NeuMF") == 0 ? "ncf" : model);
            for (char *c = p->app; *c != '\0'; c++)
                if (*c >= 'A' && *c <= 'Z')
                    *c = (char)(*c - 'A' + 'a');
            set_origin(
                p, "sUntvoOk/EasyScale_info_for_SC23 c5ff7b6",
                "V100-32GB, P100-16GB, T4-16GB, one GPU",
                "a line through a deterministic mini-batch (column "
                "ddp_determinism) and one of the largest batch on a V100 "
                "(context_switch); YOLOv3's slope is assumed; no cost of "
                "synchronisation was published");
            slope = easyscale_slope(large, p->app, batch,
                                    cell(in, i, "ddp_determinism"), &most);
            p->local_max = most;
            p->local_min = 1;
            p->restart_s = 20;
        }
        struct firn_profile_gpu *gpu =
            add_gpu(p, sheet_text(in, i, sheet_column(in, "gpu")));
        gpu->time.gamma = 1;
        double time_s = cell(in, i, "ddp_determinism");
        gpu->time.alpha_s = time_s * (1 - slope);
        gpu->time.beta_s = time_s * slope / batch;
        gpu->time.batch_min = batch;
        gpu->time.batch_max = most;
        gpu->time.gpus_max = gpu->time.nodes_max = 1;
    }
}

/* Numbers of executors of one model, rows APP_ddp (processes packed on a V100)
 * and APP_eddp (one process with as many threads) of two tables: how many times
 * as many mini-batches a second all processes do as the one, and their memory.
 * The tables stop where memory is exceeded. */
static void add_executors(struct firn_profile *p, const struct sheet *time,
                          const struct sheet *memory, double samples)
{
    char packed[FIRN_PROFILE_NAME + 8], one[FIRN_PROFILE_NAME + 8];
    size_t at[3] = {time->nrows, time->nrows, memory->nrows};
    snprintf(packed, sizeof packed, "%s_ddp", p->app);
    snprintf(one, sizeof one, "%s_eddp", p->app);
    for (size_t i = 0; i < time->nrows; i++) {
        at[0] = strcmp(sheet_text(time, i, 0), packed) == 0 ? i : at[0];
        at[1] = strcmp(sheet_text(time, i, 0), one) == 0 ? i : at[1];
    }
    for (size_t i = 0; i < memory->nrows; i++)
        at[2] = strcmp(sheet_text(memory, i, 0), packed) == 0 ? i : at[2];
    if (at[0] == time->nrows || at[1] == time->nrows || at[2] == memory->nrows)
        return;
    p->executors = mem_new(FIRN_EXECUTORS_MAX, sizeof *p->executors);
    for (int m = 2; m < 2 + FIRN_EXECUTORS_MAX; m++) {
        double speed =
            sheet_number(time, at[1], m) / sheet_number(time, at[0], m);
        if (!(speed > 0))
            break;
        p->executors[p->nexecutors++] = (struct firn_profile_executors){
            .type = "v100",
            .number = m,
            .speed = speed,
            .mem_mib = sheet_number(memory, at[2], m),
            .samples = samples};
    }
}

/* The mini-batches of sharing_minibatch_s.csv are in the paper, 5.1.3. */
static enum firn_status make_executors(struct maker *m)
{
    struct sheet time = {0}, memory = {0};
    FIRN_TRY(read_sheet(m, &time, m->dir, "easyscale/sharing_minibatch_s.csv"));
    enum firn_status status =
        read_sheet(m, &memory, m->dir, "easyscale/sharing_memory_mb.csv");
    for (size_t i = 0; i < m->out.n && status == FIRN_OK; i++) {
        struct firn_profile *p = &m->out.at[i];
        if (strcmp(p->source, "easyscale") != 0)
            continue;
        if (strcmp(p->app, "resnet50") == 0)
            add_executors(p, &time, &memory, 32);
        if (strcmp(p->app, "shufflenetv2") == 0)
            add_executors(p, &time, &memory, 512);
    }
    sheet_release(&time);
    sheet_release(&memory);
    return status;
}

static enum firn_status make_easyscale(struct maker *m)
{
    struct sheet in = {0}, large = {0};
    FIRN_TRY(read_sheet(m, &in, m->dir, "easyscale/determinism_overhead.csv"));
    enum firn_status status =
        read_sheet(m, &large, m->dir, "easyscale/context_switch.csv");
    for (size_t i = 0; i < in.nrows; i++)
        if (i == 0 ||
            strcmp(sheet_text(&in, i, 0), sheet_text(&in, i - 1, 0)) != 0)
            make_easyscale_one(m, &in, &large, sheet_text(&in, i, 0));
    sheet_release(&in);
    sheet_release(&large);
    return status == FIRN_OK ? make_executors(m) : status;
}

/* --- IceFrog ------------------------------------------------------------- */

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
            cell(layers, i, "frozen_layers") == frozen) {
            shape->theta = cell(layers, i, column);
            shape->omega = cell(layers, i, "param_frac_left");
            return true;
        }
    return false;
}

/* Adds the shares left with `frozen` layers frozen; they never rise. */
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

/* The shares left, for each number of frozen layers in the table. Its last row
 * leaves one layer unfrozen. */
static void fill_frozen(struct firn_profile *p, const struct sheet *layers,
                        const char *app)
{
    for (size_t i = 0; i < layers->nrows; i++) {
        double frozen = cell(layers, i, "frozen_layers");
        struct firn_shape shape;
        if (strcmp(sheet_text(layers, i, 0), app) != 0 ||
            !shares(layers, app, frozen, &shape))
            continue;
        p->layers = frozen + 1;
        add_frozen(p, frozen, fmax(shape.theta, 0), fmax(shape.omega, 0));
    }
}

static enum firn_status make_frozen(struct maker *m, const char *app,
                                    const char *folder)
{
    struct sheet layers = {0}, in = {0};
    struct firn_buf rel = {0};
    struct observations obs = {0};
    struct firn_profile *p = add_profile(m, "icefrog", app);
    set_origin(p, FROZEN, "V100-32GB by its memory (not stated), 4 a node",
               FITTED ", theta and omega by frozen layers" THINNED);
    buf_printf(&rel, "icefrog/%s/placements.csv", folder);
    enum firn_status status =
        read_sheet(m, &layers, m->dir, "icefrog/layer_info.csv");
    if (status == FIRN_OK)
        status = read_sheet(m, &in, m->dir, rel.at);
    for (size_t i = 0; i < in.nrows; i++) {
        struct firn_step_obs o = {.shape = {.accum_steps = 1},
                                  .step_s = cell(&in, i, "step_time"),
                                  .sync_s = cell(&in, i, "sync_time")};
        for (const char *c = sheet_text(&in, i, 0); *c != '\0'; c++) {
            o.shape.nodes++;
            o.shape.gpus += *c - '0';
            if (*c - '0' > o.shape.gpus_on_fullest)
                o.shape.gpus_on_fullest = *c - '0';
        }
        o.shape.batch_per_gpu = cell(&in, i, "local_bsz");
        if (shares(&layers, folder, cell(&in, i, "frozen_layer"), &o.shape))
            vec_add(&obs, o);
    }
    fill_frozen(p, &layers, folder);
    if (status == FIRN_OK)
        status = fit_type(p, "v100", &obs, m->err);
    if (status == FIRN_OK) {
        p->local_min = p->gpus[0].time.batch_min;
        p->local_max = p->gpus[0].time.batch_max;
        status = add_stats(m, p, 10);
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

static enum firn_status make_cifar(struct maker *m)
{
    static const char *const apps[] = {
        "googlenet-cifar10", "mobilenetv2-cifar10", "resnet18-cifar10",
        "resnet50-cifar10", "vgg19-cifar10"};
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++) {
        struct firn_profile *p = add_profile(m, "icefrog", apps[i]);
        set_origin(
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

/* The profile whose gradient statistics stand for those of `model`: IceFrog's
 * authors trained the same network on the same kind of data. "" for none. */
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

/* The profile whose variances by layer were measured here on the same network
 * (measured_variance.c). "" for none. */
static const char *layers_of(const char *model)
{
    static const char *const of[][2] = {
        {"bert-base", "h200/bert-debian"},
        {"resnet18-c", "h200/resnet18-fashion"},
        {"resnet50-c", "h200/resnet50-fashion"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(of[i][0], model) == 0)
            return of[i][1];
    return "";
}

/* Memory and utilisation of one row of the table. */
struct usage_row {
    double batch, theta, mem_mib, util; /* util: NaN when not measured */
};

/* Fits the saving (1 - theta) (c + d x) of the line a + b x by least squares,
 * with c and d from 0 to a and b. */
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

/* Lowers the memory saved by freezing to what every row really saves: a job
 * must not run out of memory by the prediction. */
static void limit_saved(struct firn_profile_gpu *gpu,
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
    fit_line(x, y, k, &gpu->mem_mib, &gpu->mem_sample_mib);
    fit_line(x, u, k, &gpu->util, &gpu->util_sample);
    mem_free(x);
    fit_saved(rows, n, false,
              (double *const[]){&gpu->mem_mib, &gpu->mem_sample_mib,
                                &gpu->mem_saved_mib,
                                &gpu->mem_saved_sample_mib});
    limit_saved(gpu, rows, n);
    fit_saved(rows, n, true,
              (double *const[]){&gpu->util, &gpu->util_sample, &gpu->util_saved,
                                &gpu->util_saved_sample});
}

/* The rows of one model; `usage` has room for all of them. */
static void read_h200(struct firn_profile *p, const struct sheet *in,
                      struct observations *obs, struct usage_row *usage)
{
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, 0), p->app) != 0)
            continue;
        struct firn_step_obs o = {
            .shape = {.nodes = 1,
                      .gpus = 1,
                      .gpus_on_fullest = 1,
                      .batch_per_gpu = cell(in, i, "batch"),
                      .accum_steps = 1,
                      .theta = cell(in, i, "flops_unfrozen_ratio"),
                      .omega = cell(in, i, "params_unfrozen_ratio")},
            .step_s = cell(in, i, "iter_ms") / 1000,
            .sync_s = (double)NAN,
        };
        usage[obs->n] = (struct usage_row){o.shape.batch_per_gpu, o.shape.theta,
                                           cell(in, i, "peak_alloc_mib"),
                                           cell(in, i, "gpu_util_pct") / 100};
        vec_add(obs, o);
        p->layers = cell(in, i, "layers");
        add_frozen(p, cell(in, i, "frozen"), o.shape.theta, o.shape.omega);
    }
}

static enum firn_status make_h200_one(struct maker *m, const struct sheet *in,
                                      const char *model)
{
    struct observations obs = {0};
    struct usage_row *usage = mem_new(in->nrows + 1, sizeof *usage);
    struct firn_profile *p = add_profile(m, "h200", model);
    read_h200(p, in, &obs, usage);
    set_origin(p, "measured for firn, profiles/h200/freeze.csv",
               "one NVIDIA H200 141 GB, PyTorch, fp32, SGD with momentum",
               FITTED
               ", theta and omega by frozen layers; memory: a line through "
               "PyTorch's peaks with nothing frozen, less what every row saves "
               "by 1 - theta; utilisation: NVML's means, by least squares");
    enum firn_status status = fit_type(p, "h200", &obs, m->err);
    if (status == FIRN_OK) {
        fit_usage(&p->gpus[0], usage, obs.n);
        str_copy(p->stats_of, sizeof p->stats_of, statistics_of(model));
        str_copy(p->layers_of, sizeof p->layers_of, layers_of(model));
        p->local_min = p->gpus[0].time.batch_min;
        p->local_max = p->gpus[0].time.batch_max;
    }
    mem_free(usage);
    vec_release(&obs);
    return status;
}

static enum firn_status make_h200(struct maker *m)
{
    struct sheet in = {0};
    enum firn_status status = read_sheet(m, &in, m->h200, "freeze.csv");
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

/* The sum of n slowdowns of application a beside b. */
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

/* Writes the mean slowdowns into the profiles of `source`. */
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

/* Slowdowns of pairs: on the H200 those by time slicing with nothing frozen,
 * of Titan those of all batches. */
static enum firn_status make_pairs(struct maker *m, const char *source)
{
    struct sheet in = {0};
    bool is_h200 = strcmp(source, "h200") == 0;
    FIRN_TRY(
        read_sheet(m, &in, is_h200 ? m->h200 : m->dir,
                   is_h200 ? "pairs.csv" : "derived/gpu_sharing_slowdown.csv"));
    struct pair_sum *sums = mem_new(2 * in.nrows, sizeof *sums);
    size_t n = 0;
    int a = sheet_column(&in, is_h200 ? "a" : "job_a");
    int b = sheet_column(&in, is_h200 ? "b" : "job_b");
    for (size_t i = 0; i < in.nrows; i++) {
        bool is_ours = is_h200
                           ? strcmp(sheet_text(&in, i, 0), "timeslice") == 0 &&
                                 cell(&in, i, "frozen_a") == 0 &&
                                 cell(&in, i, "frozen_b") == 0
                           : strcmp(sheet_text(&in, i, 0), source) == 0;
        if (!is_ours)
            continue;
        add_xi(sums, &n, sheet_text(&in, i, a), sheet_text(&in, i, b),
               cell(&in, i, is_h200 ? "xi_a" : "slowdown_a"));
        add_xi(sums, &n, sheet_text(&in, i, b), sheet_text(&in, i, a),
               cell(&in, i, is_h200 ? "xi_b" : "slowdown_b"));
    }
    add_pairs(m, source, sums, n);
    mem_free(sums);
    sheet_release(&in);
    return FIRN_OK;
}

/* Those of Sia once more, as jobs that share. */
static enum firn_status make_bsbf(struct maker *m)
{
    size_t n = m->out.n;
    for (size_t k = 0; k < n; k++) {
        char app[FIRN_PROFILE_NAME];
        if (strcmp(m->out.at[k].source, "sia") != 0)
            continue;
        str_copy(app, sizeof app, m->out.at[k].app);
        struct firn_profile *p = add_profile(m, "bsbf", app);
        set_origin(
            p,
            SIA "; memory: S-Lab-System-Group/Lucid; pairs: "
                "stanford-futuredata/gavel",
            "2080 Ti, 8 a node (step times); RTX 3090 and H200 (memory); "
            "P100 and H200 (pairs)",
            "step times: as profiles/sia; memory and pairs: see "
            "profiles/bsbf/README.md for what is measured and what is "
            "modelled");
        FIRN_TRY(measured_six(p, &m->out.at[k], m->dir, m->h200, m->err));
    }
    return FIRN_OK;
}

static enum firn_status make_resizes(struct maker *m)
{
    struct sheet in = {0};
    enum firn_status status = read_sheet(m, &in, m->h200, "resize.csv");
    for (size_t k = 0; k < m->out.n && status == FIRN_OK; k++)
        measured_resize(&m->out.at[k], &in);
    sheet_release(&in);
    return status;
}

static enum firn_status make_all(struct maker *m)
{
    static const char *const pollux[] = {"t4", NULL};
    static const char *const sia[] = {"t4",      "v100",   "a100",
                                      "rtx6000", "2080ti", NULL};
    FIRN_TRY(make_pollux(m, "pollux", pollux));
    FIRN_TRY(make_pollux(m, "sia", sia));
    FIRN_TRY(make_bsbf(m));
    FIRN_TRY(make_frozen(m, "bert-wikitext2", "bert_wikitext2"));
    FIRN_TRY(make_frozen(m, "yolov3-voc", "yolov3_voc"));
    FIRN_TRY(make_cifar(m));
    FIRN_TRY(make_titan(m));
    FIRN_TRY(make_easyscale(m));
    FIRN_TRY(make_h200(m));
    FIRN_TRY(make_pairs(m, "h200"));
    FIRN_TRY(make_pairs(m, "titan"));
    return make_resizes(m);
}

enum firn_status measured_profiles(struct firn_profiles *out, const char *dir,
                                   const char *h200, struct firn_error *err)
{
    struct maker m = {.dir = dir, .h200 = h200, .err = err};
    enum firn_status status = make_all(&m);
    if (status == FIRN_OK)
        *out = m.out;
    else
        firn_profiles_release(&m.out);
    return status;
}
