/* measured.c - step tables and gradient statistics of a data folder.
 *
 * Step times by frozen layers: IceFrog's BERT and YOLOv3 have one
 * placements.csv whose rows give the number of frozen front layers. Each such
 * number becomes a table of its own, so that a placement and a batch are
 * looked up as in any other table and the interpolation between numbers of
 * frozen layers comes last.
 *
 * Gradient statistics: validation-B.csv has a row for each epoch at total
 * batch B. Epoch e ends, whatever the batch, at the least `progress` that any
 * of these files has after e epochs (AdaptDL's rule), and its statistics are
 * row e of each file. Files of different length are cut to the shortest.
 */
#include "model/measured.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/sheet.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static bool is_there(const char *path)
{
    return access(path, R_OK) == 0;
}

bool measured_is_here(const char *dir)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/pollux/apps", dir);
    bool is_here = is_there(path.at);
    buf_release(&path);
    return is_here;
}

static const char *sia_suffix(const char *type)
{
    static const char *const of[][2] = {{"t4", "aws"},
                                        {"v100", "azure"},
                                        {"a100", "dgx-ext"},
                                        {"rtx6000", "quad"},
                                        {"2080ti", "rtx"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (str_equal_nocase(of[i][0], type))
            return of[i][1];
    return "none";
}

/* The path of a step table; kind is placements or scalability. */
static void table_path(struct firn_buf *out, const char *source,
                       const char *app, const char *type, const char *dir,
                       const char *kind)
{
    buf_clear(out);
    if (strcmp(source, "pollux") == 0)
        buf_printf(out, "%s/pollux/apps/%s/%s.csv", dir, app, kind);
    else if (strcmp(source, "sia") == 0 || strcmp(source, "bsbf") == 0)
        buf_printf(out, "%s/sia/apps/%s/%s-%s.csv", dir, app, kind,
                   sia_suffix(type));
    else if (strcmp(source, "titan") == 0)
        buf_printf(out, "%s/ymir/profiles/%s/%s_%s.csv", dir,
                   str_equal_nocase(type, "a100") ? "A100" : "V100", app, kind);
}

enum firn_status measured_table(struct steptable *out, const char *source,
                                const char *app, const char *type,
                                const char *dir, struct firn_error *err)
{
    static const char *const kinds[] = {"placements", "scalability"};
    struct steptable table = {0};
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    for (int i = 0; i < 2 && status == FIRN_OK; i++) {
        table_path(&path, source, app, type, dir, kinds[i]);
        if (path.n > 0 && is_there(path.at))
            status = steptable_read(&table, path.at, err);
    }
    buf_release(&path);
    if (status != FIRN_OK) {
        steptable_release(&table);
        return status;
    }
    steptable_ready(&table);
    *out = table;
    return FIRN_OK;
}

/* --- step times by frozen layers ------------------------------------------ */

/* Inserts an empty level in order, unless there is one with as many layers. */
static void add_level(struct measured_level **at, size_t *n, double frozen)
{
    size_t i = *n;
    while (i > 0 && (*at)[i - 1].frozen > frozen)
        i--;
    if (!(frozen >= 0) || (i > 0 && (*at)[i - 1].frozen == frozen))
        return;
    *at = mem_grow(*at, *n, *n + 1, sizeof **at);
    memmove(*at + i + 1, *at + i, (*n - i) * sizeof **at);
    (*at)[i] = (struct measured_level){.frozen = frozen};
    (*n)++;
}

enum firn_status measured_levels(struct measured_level **out, size_t *n,
                                 const char *source, const char *app,
                                 const char *dir, struct firn_error *err)
{
    struct firn_buf path = {0};
    struct sheet in = {0};
    struct measured_level *at = NULL;
    size_t count = 0;
    enum firn_status status = FIRN_OK;
    bool is_bert = strcmp(app, "bert-wikitext2") == 0;
    if (strcmp(source, "icefrog") == 0 &&
        (is_bert || strcmp(app, "yolov3-voc") == 0))
        buf_printf(&path, "%s/icefrog/%s/placements.csv", dir,
                   is_bert ? "bert_wikitext2" : "yolov3_voc");
    if (path.n > 0 && is_there(path.at))
        status = sheet_read(&in, path.at, err);
    int column = sheet_column(&in, "frozen_layer");
    for (size_t i = 0; i < in.nrows; i++)
        add_level(&at, &count, sheet_number(&in, i, column));
    for (size_t i = 0; i < count && status == FIRN_OK; i++) {
        status = steptable_add(&at[i].table, &in, at[i].frozen, path.at, err);
        steptable_ready(&at[i].table);
    }
    for (size_t i = 0; i < count && status != FIRN_OK; i++)
        steptable_release(&at[i].table);
    if (status == FIRN_OK) {
        *out = at;
        *n = count;
    } else {
        mem_free(at);
    }
    sheet_release(&in);
    buf_release(&path);
    return status;
}

/* --- gradient statistics -------------------------------------------------- */

static bool stats_folder(struct firn_buf *out, const char *source,
                         const char *app, const char *dir)
{
    static const char *const cifar[][2] = {{"resnet18", "ResNet18"},
                                           {"vgg19", "VGG19"},
                                           {"resnet50", "ResNet50"},
                                           {"mobilenetv2", "MobileNetV2"},
                                           {"googlenet", "GoogLeNet"}};
    if (strcmp(source, "pollux") == 0 || strcmp(source, "sia") == 0)
        buf_printf(out, "%s/pollux/apps/%s", dir, app);
    else if (strcmp(source, "icefrog") != 0)
        return false;
    else if (strcmp(app, "bert-wikitext2") == 0)
        buf_printf(out, "%s/icefrog/bert_wikitext2", dir);
    for (size_t i = 0; out->n == 0 && i < sizeof cifar / sizeof *cifar; i++) {
        size_t n = strlen(cifar[i][0]);
        if (strncmp(app, cifar[i][0], n) == 0 &&
            strcmp(app + n, "-cifar10") == 0)
            buf_printf(out, "%s/icefrog/cifar10/%s", dir, cifar[i][1]);
    }
    return out->n > 0;
}

/* The B of "validation-B.csv"; false for any other name. */
static bool batch_of(const char *name, double *out)
{
    static const char begin[] = "validation-", end[] = ".csv";
    char text[64];
    if (strncmp(name, begin, sizeof begin - 1) != 0 ||
        !str_copy(text, sizeof text, name + sizeof begin - 1))
        return false;
    char *dot = strchr(text, '.');
    if (dot == NULL || strcmp(dot, end) != 0)
        return false;
    *dot = '\0';
    return str_double(text, out) && *out > 0;
}

size_t measured_batches(double **out, const char *folder)
{
    VEC(double) found = {0};
    struct files files = {0};
    (void)files_list(&files, folder, ".csv");
    for (size_t i = 0; i < files.n; i++) {
        double batch;
        if (batch_of(files.at[i] + strlen(folder) + 1, &batch))
            vec_add(&found, batch);
    }
    files_release(&files);
    sort_doubles(found.at, found.n);
    *out = found.at;
    return found.n;
}

/* Per-layer variances of the smallest batch. */
static void fill_layers(struct firn_profile_stats *s, const struct sheet *file)
{
    struct firn_buf text = {0};
    while (s->nlayers < 10000) {
        buf_clear(&text);
        buf_printf(&text, "layer_%zu_grad_var", s->nlayers);
        if (sheet_column(file, text.at) < 0)
            break;
        s->nlayers++;
    }
    s->layer_var = mem_new(s->nstages * s->nlayers, sizeof *s->layer_var);
    for (size_t j = 0; j < s->nlayers; j++) {
        buf_clear(&text);
        buf_printf(&text, "layer_%zu_grad_var", j);
        int column = sheet_column(file, text.at);
        for (size_t e = 0; e < s->nstages; e++)
            s->layer_var[e * s->nlayers + j] = sheet_number(file, e, column);
    }
    buf_release(&text);
}

static enum firn_status fill(struct firn_profile_stats *s,
                             const struct sheet *files, const char *folder,
                             struct firn_error *err)
{
    s->nstages = files[0].nrows;
    for (size_t j = 1; j < s->nbatches; j++)
        if (files[j].nrows < s->nstages)
            s->nstages = files[j].nrows;
    s->end = mem_new(s->nstages, sizeof *s->end);
    s->grad_sqr = mem_new(s->nstages * s->nbatches, sizeof *s->grad_sqr);
    s->grad_var = mem_new(s->nstages * s->nbatches, sizeof *s->grad_var);
    for (size_t e = 0; e < s->nstages; e++) {
        double least = INFINITY;
        for (size_t j = 0; j < s->nbatches; j++) {
            const struct sheet *f = &files[j];
            size_t at = e * s->nbatches + j;
            double progress = sheet_number(f, e, sheet_column(f, "progress"));
            s->grad_sqr[at] = sheet_number(f, e, sheet_column(f, "grad_sqr"));
            s->grad_var[at] = sheet_number(f, e, sheet_column(f, "grad_var"));
            if (!isfinite(progress) || !isfinite(s->grad_sqr[at]) ||
                !isfinite(s->grad_var[at]))
                return firn_fail(err, FIRN_EINVAL,
                                 "%s/validation-%.0f.csv: row %zu: not numbers",
                                 folder, s->batch[j], e + 1);
            least = fmin(least, progress);
        }
        s->end[e] = least;
        if (!(least > (e > 0 ? s->end[e - 1] : 0)))
            return firn_fail(err, FIRN_EINVAL,
                             "%s: progress does not rise in epoch %zu", folder,
                             e + 1);
    }
    fill_layers(s, &files[0]);
    return FIRN_OK;
}

void measured_stats_release(struct firn_profile_stats *s)
{
    mem_free(s->batch);
    mem_free(s->end);
    mem_free(s->grad_sqr);
    mem_free(s->grad_var);
    mem_free(s->layer_var);
    *s = (struct firn_profile_stats){0};
}

enum firn_status measured_stats(struct firn_profile_stats *out,
                                const char *source, const char *app,
                                const char *dir, struct firn_error *err)
{
    struct firn_profile_stats s = {0};
    struct firn_buf folder = {0};
    enum firn_status status = FIRN_OK;
    if (stats_folder(&folder, source, app, dir))
        s.nbatches = measured_batches(&s.batch, folder.at);
    if (s.nbatches > 0) {
        struct sheet *files = mem_new(s.nbatches, sizeof *files);
        struct firn_buf path = {0};
        for (size_t i = 0; i < s.nbatches && status == FIRN_OK; i++) {
            buf_clear(&path);
            buf_printf(&path, "%s/validation-%.0f.csv", folder.at, s.batch[i]);
            status = sheet_read(&files[i], path.at, err);
        }
        buf_release(&path);
        if (status == FIRN_OK)
            status = fill(&s, files, folder.at, err);
        for (size_t i = 0; i < s.nbatches; i++)
            sheet_release(&files[i]);
        mem_free(files);
    }
    buf_release(&folder);
    if (status == FIRN_OK)
        *out = s;
    else
        measured_stats_release(&s);
    return status;
}

/* Means of rows from..to of a matrix, into its row i. */
static void mean_rows(double *at, size_t width, size_t i, size_t from,
                      size_t to)
{
    for (size_t j = 0; j < width; j++) {
        double sum = 0;
        for (size_t e = from; e < to; e++)
            sum += at[e * width + j];
        at[i * width + j] = sum / (double)(to - from);
    }
}

static double at_least_0(double x)
{
    return x > 0 ? x : 0;
}

/* The ratio |g|^2 / tr(Sigma) with which the stage takes as long as its epochs
 * from..to did, at the j-th batch: 1/gain = (1/scale + ratio) / (1 + ratio) is
 * averaged over their work and solved for the ratio. */
static double mean_ratio(const struct firn_profile_stats *s, size_t j,
                         size_t from, size_t to)
{
    double scale = s->batch[j] / s->batch[0];
    double work = 0, cost = 0, ratios = 0;
    for (size_t e = from; e < to; e++) {
        double w = s->end[e] - (e > 0 ? s->end[e - 1] : 0);
        double var = at_least_0(s->grad_var[e * s->nbatches + j]);
        double sqr = at_least_0(s->grad_sqr[e * s->nbatches + j]);
        double ratio = var > 0 ? sqr / var : 1e9;
        work += w;
        ratios += w * ratio;
        cost += w * (1 / scale + ratio) / (1 + ratio);
    }
    cost /= work;
    if (scale <= 1 || !(cost < 1 - 1e-12))
        return ratios / work;
    return at_least_0((cost - 1 / scale) / (1 - cost));
}

void measured_thin(struct firn_profile_stats *s, size_t most)
{
    if (s->nstages <= most)
        return;
    double *ratio = mem_new(most * s->nbatches, sizeof *ratio);
    for (size_t i = 0; i < most; i++)
        for (size_t j = 0; j < s->nbatches; j++)
            ratio[i * s->nbatches + j] = mean_ratio(
                s, j, i * s->nstages / most, (i + 1) * s->nstages / most);
    for (size_t i = 0; i < most; i++) {
        size_t from = i * s->nstages / most;
        size_t to = (i + 1) * s->nstages / most;
        mean_rows(s->grad_var, s->nbatches, i, from, to);
        mean_rows(s->layer_var, s->nlayers, i, from, to);
        for (size_t j = 0; j < s->nbatches; j++)
            s->grad_sqr[i * s->nbatches + j] =
                ratio[i * s->nbatches + j] * s->grad_var[i * s->nbatches + j];
        s->end[i] = s->end[to - 1];
    }
    mem_free(ratio);
    s->nstages = most;
}
