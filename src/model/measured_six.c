/* measured_six.c - Pollux's six applications on a 2080 Ti that two jobs share.
 *
 * Step times are those of Sia's 2080 Ti. SJF-BSBF needs two things more, which
 * its authors measured and did not publish: the memory of a job by its
 * sub-batch, and the slowdown of each pair. They are taken from other people's
 * measurements, and where there are none from a model:
 *
 * Memory, MiB of a GPU: a + b x samples.
 *   cifar10    measured: a line through Lucid's ResNet-18 (CIFAR-10, fp32) at
 *              32, 64 and 128 on an RTX 3090
 *   imagenet   measured: the same of ResNet-50 (ImageNet, mixed precision: in
 *              fp32 the 200 samples that Sia ran would not fit 11 GB)
 *   ncf        measured: 2050 at 64 and 128 (Lucid's NeuMF), with the slope of
 *              a line through 2048 to 32768 samples on an H200
 *   bert       one row measured: 20162 at 32 (Lucid's BERT, SQuAD, fp32). The
 *              intercept is a model: 2050 of a process that holds next to
 *              nothing (NeuMF's), and 16 bytes for each of 108.9 million
 *              parameters (weights, gradients, Adam's two moments)
 *   yolov3, deepspeech2  measured: a line through 1 to 8 and 2 to 40 samples on
 *              an H200 (fp32, the memory of the process; profiles/h200)
 *
 * Slowdowns, measured by Gavel on a P100, whose speed is nearest to that of the
 * 2080 Ti of those that Gavel has (0.68 and 0.64 of a V100): by pair, and by
 * the batch of both. cifar10 (ResNet-18) and imagenet (ResNet-50) are the same
 * models. The others stand in for those that were not measured: Recommendation
 * for ncf (both on MovieLens), Transformer for bert, the LSTM language model
 * for deepspeech2, CycleGAN for yolov3. The largest batch of a stand-in is
 * taken for the whole batch of the job that it stands for, half of it for half.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <math.h>
#include <string.h>

static const char type[] = "2080ti";

/* Memory that is no line through rows. */
static const struct {
    const char *app;
    double mib, sample_mib;
} modelled[] = {
    {"ncf", 2050, 0}, /* the slope is fitted below */
    {"bert", 2050 + 108.9e6 * 16 / 1048576, (20162 - 3711.7) / 32},
};

/* Rows of Lucid that are. */
static const struct {
    const char *app, *model, *data, *amp;
} measured[] = {
    {"cifar10", "ResNet18", "CIFAR-10", "0"},
    {"imagenet", "ResNet50", "ImageNet", "1"},
};

/* Which batch of Gavel stands for which samples of a pass. */
static const struct level {
    const char *app;
    double samples;
    const char *job, *batch;
} levels[] = {
    {"cifar10", 256, "ResNet-18", "256"},
    {"cifar10", 128, "ResNet-18", "128"},
    {"cifar10", 64, "ResNet-18", "64"},
    {"cifar10", 32, "ResNet-18", "32"},
    {"imagenet", 128, "ResNet-50", "128"},
    {"imagenet", 64, "ResNet-50", "64"},
    {"imagenet", 32, "ResNet-50", "32"},
    {"imagenet", 16, "ResNet-50", "16"},
    {"ncf", 32768, "Recommendation", "8192"},
    {"ncf", 16384, "Recommendation", "4096"},
    {"ncf", 8192, "Recommendation", "2048"},
    {"ncf", 4096, "Recommendation", "1024"},
    {"ncf", 2048, "Recommendation", "512"},
    {"bert", 12, "Transformer", "256"},
    {"bert", 6, "Transformer", "128"},
    {"bert", 3, "Transformer", "64"},
    {"deepspeech2", 40, "LM", "80"},
    {"deepspeech2", 20, "LM", "40"},
    {"deepspeech2", 10, "LM", "20"},
    {"yolov3", 8, "CycleGAN", ""},
};

enum { NLEVELS = sizeof levels / sizeof *levels };

static enum firn_status read_table(struct sheet *out, const char *dir,
                                   const char *rel, struct firn_error *err)
{
    struct firn_buf path = {0};
    buf_printf(&path, "%s/%s", dir, rel);
    enum firn_status status = sheet_read(out, path.at, err);
    buf_release(&path);
    return status;
}

/* A least-squares line. */
struct line {
    double n, x, y, xx, xy;
};

static void line_add(struct line *line, double x, double y)
{
    line->n++;
    line->x += x;
    line->y += y;
    line->xx += x * x;
    line->xy += x * y;
}

static double line_slope(const struct line *line)
{
    return (line->n * line->xy - line->x * line->y) /
           (line->n * line->xx - line->x * line->x);
}

static double line_at_0(const struct line *line)
{
    return (line->y - line_slope(line) * line->x) / line->n;
}

static bool is_cell(const struct sheet *in, size_t row, const char *column,
                    const char *text)
{
    return strcmp(sheet_text(in, row, sheet_column(in, column)), text) == 0;
}

/* Memory by samples of Lucid's rows `which`. */
static enum firn_status lucid_line(struct line *line, size_t which,
                                   const char *dir, struct firn_error *err)
{
    struct sheet in = {0};
    FIRN_TRY(read_table(&in, dir, "lucid/single_job_profile.csv", err));
    for (size_t i = 0; i < in.nrows; i++)
        if (is_cell(&in, i, "model", measured[which].model) &&
            is_cell(&in, i, "dataset", measured[which].data) &&
            is_cell(&in, i, "amp", measured[which].amp))
            line_add(line, sheet_number(&in, i, sheet_column(&in, "batchsize")),
                     sheet_number(&in, i, sheet_column(&in, "gmem")));
    sheet_release(&in);
    return FIRN_OK;
}

/* Of the application's process on the H200. */
static enum firn_status h200_line(struct line *line, const char *app,
                                  const char *h200, struct firn_error *err)
{
    struct sheet in = {0};
    FIRN_TRY(read_table(&in, h200, "six_alone.csv", err));
    for (size_t i = 0; i < in.nrows; i++)
        if (is_cell(&in, i, "app", app))
            line_add(line, sheet_number(&in, i, sheet_column(&in, "sub_batch")),
                     sheet_number(&in, i, sheet_column(&in, "gpu_used_mib")));
    sheet_release(&in);
    return FIRN_OK;
}

static enum firn_status set_memory(struct firn_profile *p, const char *dir,
                                   const char *h200, struct firn_error *err)
{
    struct firn_profile_gpu *gpu = &p->gpus[0];
    struct line line = {0};
    bool is_lucids = false;
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strcmp(measured[i].app, p->app) == 0) {
            FIRN_TRY(lucid_line(&line, i, dir, err));
            is_lucids = true;
        }
    if (!is_lucids)
        FIRN_TRY(h200_line(&line, p->app, h200, err));
    if (line.n < 2)
        return firn_fail(err, FIRN_EDATA, "%s has %g rows of memory", p->app,
                         line.n);
    gpu->mem_mib = line_at_0(&line);
    gpu->mem_sample_mib = line_slope(&line);
    for (size_t i = 0; i < sizeof modelled / sizeof *modelled; i++)
        if (strcmp(modelled[i].app, p->app) == 0) {
            gpu->mem_mib = modelled[i].mib;
            if (modelled[i].sample_mib > 0)
                gpu->mem_sample_mib = modelled[i].sample_mib;
        }
    return FIRN_OK;
}

/* Gavel's slowdown of one level beside another on the P100; 0: none. Each pair
 * is listed once. */
static double slowdown(const struct sheet *in, const struct level *a,
                       const struct level *b)
{
    int gpu = sheet_column(in, "gpu"), source = sheet_column(in, "source");
    int job_a = sheet_column(in, "job_a"), job_b = sheet_column(in, "job_b");
    int batch_a = sheet_column(in, "batch_a");
    int batch_b = sheet_column(in, "batch_b");
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, source), "gavel") != 0 ||
            strcmp(sheet_text(in, i, gpu), "P100") != 0)
            continue;
        bool is_ab = strcmp(sheet_text(in, i, job_a), a->job) == 0 &&
                     strcmp(sheet_text(in, i, job_b), b->job) == 0 &&
                     strcmp(sheet_text(in, i, batch_a), a->batch) == 0 &&
                     strcmp(sheet_text(in, i, batch_b), b->batch) == 0;
        bool is_ba = strcmp(sheet_text(in, i, job_a), b->job) == 0 &&
                     strcmp(sheet_text(in, i, job_b), a->job) == 0 &&
                     strcmp(sheet_text(in, i, batch_a), b->batch) == 0 &&
                     strcmp(sheet_text(in, i, batch_b), a->batch) == 0;
        if (is_ab || is_ba)
            return sheet_number(
                in, i, sheet_column(in, is_ab ? "slowdown_a" : "slowdown_b"));
    }
    return 0;
}

/* Rows for each level of the application, and their mean for each other one,
 * for schedulers that do not know the passes. */
static void set_pairs(struct firn_profile *p, const struct sheet *in)
{
    p->sharing = mem_new((size_t)NLEVELS * (NLEVELS + 2), sizeof *p->sharing);
    p->pairs = mem_new(NLEVELS, sizeof *p->pairs);
    for (int b = 0; b < NLEVELS; b++) {
        struct firn_profile_pair *pair = NULL;
        if (p->npairs > 0 &&
            strcmp(p->pairs[p->npairs - 1].other, levels[b].app) == 0)
            pair = &p->pairs[p->npairs - 1];
        for (int a = 0; a < NLEVELS; a++) {
            if (strcmp(levels[a].app, p->app) != 0)
                continue;
            double xi = slowdown(in, &levels[a], &levels[b]);
            if (!(xi > 0))
                continue;
            struct firn_profile_sharing *row = &p->sharing[p->nsharing++];
            str_copy(row->type, sizeof row->type, type);
            str_copy(row->other, sizeof row->other, levels[b].app);
            row->samples = levels[a].samples;
            row->other_samples = levels[b].samples;
            row->xi = xi > 1 ? xi : 1;
            if (pair == NULL) { /* both at the largest batch that ran */
                pair = &p->pairs[p->npairs++];
                str_copy(pair->other, sizeof pair->other, levels[b].app);
                pair->xi = row->xi;
            }
        }
    }
}

/* Row i of six_pairs.csv, if the application is one of the two. */
static void add_h200(struct firn_profile *p, const struct sheet *in, size_t i,
                     bool is_host)
{
    const char *me = is_host ? "host" : "guest";
    const char *they = is_host ? "guest" : "host";
    int mine = sheet_column(in, is_host ? "host_batch" : "guest_batch");
    int theirs = sheet_column(in, is_host ? "guest_batch" : "host_batch");
    double xi =
        sheet_number(in, i, sheet_column(in, is_host ? "xi_host" : "xi_guest"));
    if (!is_cell(in, i, me, p->app) || !is_cell(in, i, "guest_passes", "1"))
        return;
    struct firn_profile_sharing *row = &p->sharing[p->nsharing++];
    str_copy(row->type, sizeof row->type, "h200");
    str_copy(row->other, sizeof row->other,
             sheet_text(in, i, sheet_column(in, they)));
    row->samples = sheet_number(in, i, mine);
    row->other_samples = sheet_number(in, i, theirs);
    row->xi = xi > 1 ? xi : 1;
}

enum firn_status measured_six(struct firn_profile *profile,
                              const struct firn_profile *sia, const char *dir,
                              const char *h200, struct firn_error *err)
{
    struct sheet in = {0};
    const struct firn_profile_gpu *gpu = firn_profile_gpu(sia, type);
    if (gpu == NULL)
        return firn_fail(err, FIRN_EDATA, "sia/%s knows no %s", sia->app, type);
    profile->gpus[profile->ngpus++] = *gpu;
    profile->batch0 = sia->batch0;
    profile->batch_max = sia->batch_max;
    profile->epochs = sia->epochs;
    profile->progress = sia->progress;
    profile->restart_s = sia->restart_s;
    str_copy(profile->stats_of, sizeof profile->stats_of, "sia/");
    str_copy(profile->stats_of + 4, sizeof profile->stats_of - 4, sia->app);
    FIRN_TRY(set_memory(profile, dir, h200, err));
    FIRN_TRY(read_table(&in, dir, "derived/gpu_sharing_slowdown.csv", err));
    set_pairs(profile, &in);
    sheet_release(&in);
    FIRN_TRY(read_table(&in, h200, "six_pairs.csv", err));
    for (size_t i = 0; i < in.nrows; i++) {
        add_h200(profile, &in, i, true);
        if (!is_cell(&in, i, "guest",
                     sheet_text(&in, i, sheet_column(&in, "host"))))
            add_h200(profile, &in, i, false);
    }
    sheet_release(&in);
    return FIRN_OK;
}
