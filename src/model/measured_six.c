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
 *   ncf        measured: 2050 at 64 and 128 (Lucid's NeuMF); the slope is a
 *              model: 1080 numbers of activations a sample, and as many of
 *              their gradients, 4 bytes each
 *   bert       one row measured: 20162 at 32 (Lucid's BERT, SQuAD, fp32). The
 *              intercept is a model: 2050 of a process that holds next to
 *              nothing (NeuMF's), and 16 bytes for each of 108.9 million
 *              parameters (weights, gradients, Adam's two moments)
 *   yolov3     a model: the intercept by 12 bytes for each of 61.9 million
 *              parameters (momentum); the slope is between 751 and 772, as Sia
 *              and Pollux ran 8 samples but not 11 in 11 GB, and 16 in 16 GB
 *   deepspeech2 a model: 42 million parameters in the same way; the slope is
 *              at most 106, as 80 samples ran in 11 GB; 100 is taken
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
    {"ncf", 2050, 1080 * 2 * 4 / 1048576.0},
    {"bert", 2050 + 108.9e6 * 16 / 1048576, (20162 - 3711.7) / 32},
    {"yolov3", 2050 + 61.9e6 * 12 / 1048576, 760},
    {"deepspeech2", 2050 + 42e6 * 12 / 1048576, 100},
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

/* The least-squares line through Lucid's rows of the application. */
static enum firn_status fit_memory(struct firn_profile_gpu *gpu, size_t which,
                                   const char *dir, struct firn_error *err)
{
    struct sheet in = {0};
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    FIRN_TRY(read_table(&in, dir, "lucid/single_job_profile.csv", err));
    for (size_t i = 0; i < in.nrows; i++) {
        if (strcmp(sheet_text(&in, i, sheet_column(&in, "model")),
                   measured[which].model) != 0 ||
            strcmp(sheet_text(&in, i, sheet_column(&in, "dataset")),
                   measured[which].data) != 0 ||
            strcmp(sheet_text(&in, i, sheet_column(&in, "amp")),
                   measured[which].amp) != 0)
            continue;
        double batch = sheet_number(&in, i, sheet_column(&in, "batchsize"));
        double mib = sheet_number(&in, i, sheet_column(&in, "gmem"));
        n++;
        x += batch;
        y += mib;
        xx += batch * batch;
        xy += batch * mib;
    }
    sheet_release(&in);
    if (n < 2)
        return firn_fail(err, FIRN_EDATA, "lucid has %g rows of %s", n,
                         measured[which].model);
    gpu->mem_sample_mib = (n * xy - x * y) / (n * xx - x * x);
    gpu->mem_mib = (y - gpu->mem_sample_mib * x) / n;
    return FIRN_OK;
}

static enum firn_status set_memory(struct firn_profile *p, const char *dir,
                                   struct firn_error *err)
{
    struct firn_profile_gpu *gpu = &p->gpus[0];
    for (size_t i = 0; i < sizeof modelled / sizeof *modelled; i++)
        if (strcmp(modelled[i].app, p->app) == 0) {
            gpu->mem_mib = modelled[i].mib;
            gpu->mem_sample_mib = modelled[i].sample_mib;
        }
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        if (strcmp(measured[i].app, p->app) == 0)
            return fit_memory(gpu, i, dir, err);
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
    p->sharing = mem_new((size_t)NLEVELS * NLEVELS, sizeof *p->sharing);
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

enum firn_status measured_six(struct firn_profile *profile,
                              const struct firn_profile *sia, const char *dir,
                              struct firn_error *err)
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
    FIRN_TRY(set_memory(profile, dir, err));
    FIRN_TRY(read_table(&in, dir, "derived/gpu_sharing_slowdown.csv", err));
    set_pairs(profile, &in);
    sheet_release(&in);
    return FIRN_OK;
}
