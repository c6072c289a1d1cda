/* measured_fit.c - makes the shipped profiles from the published tables.
 *
 * Step times: FIRN_FORM_FULL of itertime.h, fitted to every row; the error
 * told is that of the same rows, without any learned correction. Memory: a
 * line through the peaks with nothing frozen. EasyScale published one batch
 * for each model and type: its time is taken as proportional to the batch.
 * Deterministic: the same tables give the same bytes.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/evaluate.h"
#include "model/measured.h"
#include "model/profilemaker.h"
#include "model/sheet.h"
#include <math.h>
#include <string.h>

#define ADAPTDL "petuum/adaptdl, branch osdi21-artifact (Apache-2.0)"
#define SIA     "siasosp23/artifacts, sia-simulator"

struct firn_profile *maker_add(struct maker *m, const char *source,
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
    p->restart_s = -1;
    return p;
}

void maker_tell(struct firn_profile *p, const char *origin,
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

/* Fits one type to its rows. */
enum firn_status maker_fit(struct firn_profile *p, const char *type,
                           const struct maker_obs *obs, struct firn_error *err)
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
static void observe(const struct steptable *table, struct maker_obs *out)
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
    struct maker_obs obs = {0};
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
    struct maker_obs obs = {0};
    FIRN_TRY(measured_table(&table, p->source, p->app, type, m->dir, m->err));
    observe(&table, &obs);
    enum firn_status status = maker_fit(p, type, &obs, m->err);
    vec_release(&obs);
    steptable_release(&table);
    return status;
}

enum firn_status maker_stats(struct maker *m, struct firn_profile *p,
                             size_t most)
{
    FIRN_TRY(measured_stats(&p->stats, p->source, p->app, m->dir, m->err));
    measured_thin(&p->stats, most);
    return FIRN_OK;
}

/* --- Pollux and Sia ------------------------------------------------------ */

enum firn_status maker_read(struct maker *m, struct sheet *out, const char *dir,
                            const char *rel)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/%s", dir, rel);
    enum firn_status status = sheet_read(out, path.at, m->err);
    buf_release(&path);
    return status;
}

double maker_cell(const struct sheet *sheet, size_t row, const char *column)
{
    return sheet_number(sheet, row, sheet_column(sheet, column));
}

static enum firn_status make_pollux(struct maker *m, const char *source,
                                    const char *const *types)
{
    struct sheet apps = {0};
    bool is_sia = strcmp(source, "sia") == 0;
    enum firn_status status = maker_read(m, &apps, m->dir, "pollux/apps.csv");
    for (size_t i = 0; i < apps.nrows && status == FIRN_OK; i++) {
        const char *app =
            sheet_text(&apps, i, sheet_column(&apps, "application"));
        struct firn_profile *p = maker_add(m, source, app);
        maker_tell(p, is_sia ? SIA "; epochs of " ADAPTDL : ADAPTDL,
                   is_sia ? "4x T4, 8x V100, 8x A100-40GB, 4x Quadro RTX 6000, "
                            "8x RTX 2080 Ti a node"
                          : "AWS g4dn.12xlarge, 4x T4 a node, up to 16 nodes",
                   MAKER_FITTED MAKER_THINNED);
        p->epochs = maker_cell(&apps, i, "max_epochs");
        p->batch0 = maker_cell(&apps, i, "init_batch_size");
        p->batch_max = maker_cell(&apps, i, "max_batch_size");
        if (!is_sia) { /* there each type has its own */
            p->local_min = maker_cell(&apps, i, "min_local_bsz");
            p->local_max = maker_cell(&apps, i, "max_local_bsz");
        }
        p->restart_s = maker_cell(&apps, i, "sia_rescale_time_s");
        for (int t = 0; types[t] != NULL && status == FIRN_OK; t++)
            status = fit_table(m, p, types[t]);
        if (status == FIRN_OK)
            status = maker_stats(m, p, FIRN_PROFILE_STAGES);
        if (status == FIRN_OK && p->stats.nstages > 0)
            p->progress = p->stats.end[p->stats.nstages - 1];
    }
    sheet_release(&apps);
    return status;
}

/* --- Titan ---------------------------------------------------------------- */

/* A line through (x, y) by least squares, both coefficients >= 0. */
void maker_line(const double *x, const double *y, size_t n, double *a,
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
    enum firn_status status = maker_read(m, &in, m->dir, rel.at);
    buf_release(&rel);
    if (status != FIRN_OK)
        return status;
    double *x = mem_new(2 * in.nrows, sizeof *x), *y = x + in.nrows;
    for (size_t i = 0; i < in.nrows; i++) {
        x[i] = maker_cell(&in, i, "local_bsz");
        y[i] = 1024 * maker_cell(&in, i, "gpu_memory");
    }
    struct firn_profile_gpu *gpu = &p->gpus[p->ngpus - 1];
    maker_line(x, y, in.nrows, &gpu->mem_mib, &gpu->mem_sample_mib);
    mem_free(x);
    sheet_release(&in);
    return FIRN_OK;
}

static enum firn_status titan_restart(struct maker *m, struct firn_profile *p)
{
    struct sheet in = {0};
    struct firn_buf rel = {0};
    buf_printf(&rel, "ymir/profiles/V100/%s_context_switch.csv", p->app);
    enum firn_status status = maker_read(m, &in, m->dir, rel.at);
    buf_release(&rel);
    for (size_t i = 0; i < in.nrows && status == FIRN_OK; i++)
        p->restart_s = fmax(p->restart_s, 30 + maker_cell(&in, i, "time_cost"));
    sheet_release(&in);
    return status;
}

static enum firn_status make_titan(struct maker *m)
{
    static const char *const apps[] = {"roberta-base", "roberta-large", "vit",
                                       "vit-large"};
    static const char *const types[][2] = {{"v100", "V100"}, {"a100", "A100"}};
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++) {
        struct firn_profile *p = maker_add(m, "titan", apps[i]);
        maker_tell(p, "gaow0007/TitanSched f71cf44 (MIT)",
                   "4x V100-32GB a node; A100",
                   MAKER_FITTED
                   "; restart: 30 s and the longest load of weights and data");
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

static void make_easyscale_one(struct maker *m, const struct sheet *in,
                               const char *model)
{
    struct firn_profile *p = NULL;
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, 0), model) != 0)
            continue;
        double batch = maker_cell(in, i, "bs");
        if (p == NULL) {
            /* NeuMF is called ncf in their workload. */
            p = maker_add(m, "easyscale",
                          strcmp(model, "NeuMF") == 0 ? "ncf" : model);
            for (char *c = p->app; *c != '\0'; c++)
                if (*c >= 'A' && *c <= 'Z')
                    *c = (char)(*c - 'A' + 'a');
            maker_tell(
                p, "sUntvoOk/EasyScale_info_for_SC23 c5ff7b6",
                "V100-32GB, P100-16GB, T4-16GB, one GPU",
                "one deterministic mini-batch (column ddp_determinism), its "
                "time taken as proportional to the batch; no cost of "
                "synchronisation was published");
            p->local_max = batch;
            p->local_min = 1;
            p->restart_s = 20;
        }
        struct firn_profile_gpu *gpu =
            add_gpu(p, sheet_text(in, i, sheet_column(in, "gpu")));
        gpu->time.gamma = 1;
        gpu->time.beta_s = maker_cell(in, i, "ddp_determinism") / batch;
        gpu->time.batch_min = gpu->time.batch_max = batch;
        gpu->time.gpus_max = gpu->time.nodes_max = 1;
    }
}

static enum firn_status make_easyscale(struct maker *m)
{
    struct sheet in = {0};
    FIRN_TRY(maker_read(m, &in, m->dir, "easyscale/determinism_overhead.csv"));
    for (size_t i = 0; i < in.nrows; i++)
        if (i == 0 ||
            strcmp(sheet_text(&in, i, 0), sheet_text(&in, i - 1, 0)) != 0)
            make_easyscale_one(m, &in, sheet_text(&in, i, 0));
    sheet_release(&in);
    return FIRN_OK;
}

enum firn_status measured_profiles(struct firn_profiles *out, const char *dir,
                                   const char *h200, struct firn_error *err)
{
    static const char *const pollux[] = {"t4", NULL};
    static const char *const sia[] = {"t4",      "v100",   "a100",
                                      "rtx6000", "2080ti", NULL};
    struct maker m = {.dir = dir, .h200 = h200, .err = err};
    enum firn_status status = make_pollux(&m, "pollux", pollux);
    if (status == FIRN_OK)
        status = make_pollux(&m, "sia", sia);
    if (status == FIRN_OK)
        status = maker_frozen(&m, "bert-wikitext2", "bert_wikitext2");
    if (status == FIRN_OK)
        status = maker_frozen(&m, "yolov3-voc", "yolov3_voc");
    if (status == FIRN_OK)
        status = maker_cifar(&m);
    if (status == FIRN_OK)
        status = make_titan(&m);
    if (status == FIRN_OK)
        status = make_easyscale(&m);
    if (status == FIRN_OK)
        status = maker_h200(&m);
    if (status == FIRN_OK)
        status = maker_pairs(&m, "h200");
    if (status == FIRN_OK)
        status = maker_pairs(&m, "titan");
    if (status == FIRN_OK)
        *out = m.out;
    else
        firn_profiles_release(&m.out);
    return status;
}
