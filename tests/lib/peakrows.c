/* peakrows.c - rows of profiles/h200/modern_memory.csv as jobs of firn/peak.h.
 *
 * A row names a file of bench/gpu/configs and how many of its layers were
 * built.
 */
#include "lib/peakrows.h"

#include "base/files.h"
#include "base/str.h"
#include "lib/csv.h"
#include "model/lsq.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum firn_status read_arch(struct firn_arch *arch, const char *model,
                                  struct firn_error *err)
{
    struct firn_buf text = {0};
    char path[128];
    snprintf(path, sizeof path, "bench/gpu/configs/%s.json", model);
    FIRN_TRY(files_text(&text, path, err));
    enum firn_status status =
        firn_arch_read(arch, (struct firn_bytes){text.at, text.n}, err);
    firn_buf_release(&text);
    return status;
}

/* As bench/gpu/modern_memory.py cuts a config. */
static void cut(struct firn_arch *arch, int layers)
{
    arch->layers = layers;
    if (arch->kind == FIRN_ARCH_SEQ2SEQ)
        arch->decoder_layers = layers;
}

/* A column that an older table does not have leaves the setting as it is. */
static enum firn_status set_cell(struct firn_peak_job *job, const char *setting,
                                 const char *cell, struct firn_error *err)
{
    return *cell != '\0' ? firn_peak_set(job, setting, cell, err) : FIRN_OK;
}

/* "qlora-fp32": all that 4 bits do not pack is in fp32, under autocast. */
static enum firn_status set_mode(struct firn_peak_job *job, const char *mode,
                                 struct firn_error *err)
{
    if (strcmp(mode, "lora") != 0 && strcmp(mode, "dora") != 0 &&
        strncmp(mode, "qlora", 5) != 0)
        return firn_peak_set(job, "precision", mode, err);
    bool is_wide = strcmp(mode, "qlora-fp32") == 0;
    FIRN_TRY(firn_peak_set(job, "precision", is_wide ? "amp" : "bf16", err));
    return firn_peak_set(job, "adapter", is_wide ? "qlora" : mode, err);
}

static enum firn_status set_words(struct firn_peak_job *job,
                                  const struct csv *csv, struct firn_error *err)
{
    static const char *const again[] = {"off", "layers", "selective"};
    double checkpointing = csv_number(csv, "checkpointing");
    int which =
        checkpointing >= 0 && checkpointing <= 2 ? (int)checkpointing : 0;
    FIRN_TRY(set_mode(job, csv_text(csv, "mode"), err));
    FIRN_TRY(firn_peak_set(job, "optimizer", csv_text(csv, "optimizer"), err));
    FIRN_TRY(firn_peak_set(job, "checkpointing", again[which], err));
    FIRN_TRY(set_cell(job, "offload", csv_text(csv, "offload"), err));
    FIRN_TRY(set_cell(job, "loss", csv_text(csv, "loss"), err));
    if (job->adapter == FIRN_ADAPTER_NONE)
        return FIRN_OK;
    FIRN_TRY(firn_peak_set(job, "lora", csv_text(csv, "lora_rank"), err));
    return firn_peak_set(job, "lora_on", csv_text(csv, "lora_on"), err);
}

static enum firn_status read_row(struct peakrow *row, const struct csv *csv,
                                 struct firn_error *err)
{
    *row = (struct peakrow){.is_held = strcmp(csv_text(csv, "part"), "fit")};
    str_copy(row->model, sizeof row->model, csv_text(csv, "model"));
    str_copy(row->family, sizeof row->family, csv_text(csv, "family"));
    str_copy(row->mode, sizeof row->mode, csv_text(csv, "mode"));
    str_copy(row->optimizer, sizeof row->optimizer, csv_text(csv, "optimizer"));
    FIRN_TRY(read_arch(&row->job.arch, row->model, err));
    cut(&row->job.arch, (int)csv_number(csv, "layers"));
    FIRN_TRY(set_words(&row->job, csv, err));
    row->job.seq = (int)csv_number(csv, "seq");
    row->job.micro_batch = (int)csv_number(csv, "micro_batch");
    row->repeat = (int)csv_number(csv, "repeat");
    row->params = csv_number(csv, "params");
    row->trained = csv_number(csv, "trainable");
    row->alloc_mib = csv_number(csv, "peak_alloc_mib");
    row->reserved_mib = csv_number(csv, "peak_reserved_mib");
    row->static_mib = csv_number(csv, "static_alloc_mib");
    return firn_peak_check(&row->job, err);
}

/* Behind the `from` rows that there are; as many as there are then. */
static size_t read_more(struct peakrow *rows, size_t from, const char *path)
{
    struct csv *csv = csv_open(path);
    struct firn_error err = {0};
    size_t n = from;
    if (!csv) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 0;
    }
    while (n < PEAKROWS_MAX && csv_next(csv)) {
        if (read_row(&rows[n], csv, &err) != FIRN_OK) {
            fprintf(stderr, "%s, row %zu: %s\n", path, n - from + 1, err.text);
            n = 0;
            break;
        }
        n++;
    }
    csv_close(csv);
    return n;
}

size_t peakrows_read(struct peakrow *rows, const char *path)
{
    return read_more(rows, 0, path);
}

size_t peakrows_read_all(struct peakrow *rows)
{
    size_t n = read_more(rows, 0, "profiles/h200/modern_memory.csv");
    if (n > 0)
        n = read_more(rows, n, "docs/measurements/h200/quant_memory.csv");
    for (size_t i = 0; i < n; i++)
        rows[i].is_held = false;
    return n;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    return n > 0 ? values[n / 2] : 0;
}

static bool is_fitted(const struct peakrow *row, const char *left_out)
{
    return !row->is_held && row->alloc_mib > 0 &&
           !(left_out && strcmp(row->family, left_out) == 0);
}

/* Reserved memory: least squares of what is held beyond the tensors, relative
 * to what is measured. */
static void fit_idle(const struct peakrow *rows, size_t n, const char *left_out,
                     struct peak_constants *out)
{
    struct lsq lsq;
    double x_mib[PEAK_IDLES];
    lsq_init(&lsq, PEAK_IDLES, n);
    for (size_t i = 0; i < n; i++)
        if (is_fitted(&rows[i], left_out)) {
            peak_idle_of(&rows[i].job, out, x_mib);
            double rest = rows[i].reserved_mib - x_mib[PEAK_IDLE_ALL];
            double weight = 1 / rows[i].reserved_mib;
            lsq_add(&lsq, x_mib, rest, weight * weight);
        }
    lsq_solve_positive(&lsq, out->idle);
    lsq_release(&lsq);
}

struct peak_constants peakrows_fit(const struct peakrow *rows, size_t n,
                                   const char *left_out)
{
    struct peak_constants out = peak_constants;
    double rest[PEAKROWS_MAX], worst = 0;
    int count = 0;
    out.workspace_mib = 0;
    for (size_t i = 0; i < n; i++)
        if (is_fitted(&rows[i], left_out))
            rest[count++] =
                rows[i].alloc_mib - peak_with(&rows[i].job, &out).expected_mib;
    out.workspace_mib = round(median(rest, count));
    for (size_t i = 0; i < n; i++)
        if (is_fitted(&rows[i], left_out)) {
            double e = peak_with(&rows[i].job, &out).expected_mib;
            worst = fmax(worst, fabs(e / rows[i].alloc_mib - 1));
        }
    out.spread = ceil(100 * worst) / 100;
    fit_idle(rows, n, left_out, &out);
    return out;
}

static void add_row(struct peakrows_score *score, double *right,
                    const struct peakrow *row, const struct firn_peak *m)
{
    right[score->n++] = 1 - fabs(m->expected_mib / row->alloc_mib - 1);
    score->worst = fmin(score->worst, right[score->n - 1]);
    score->above += row->alloc_mib > m->high_mib;
    score->reserved_above += row->reserved_mib > m->high_mib;
    score->width =
        fmax(score->width, (m->high_mib - m->low_mib) / m->expected_mib);
}

struct peakrows_score peakrows_judge(const struct peakrow *rows, size_t n,
                                     bool is_held, const char *family,
                                     bool leaves_out)
{
    struct peakrows_score score = {.worst = 1};
    double right[PEAKROWS_MAX];
    const char *fitted = NULL; /* for which family `constants` are */
    struct peak_constants constants = peak_constants;
    for (size_t i = 0; i < n; i++) {
        const struct peakrow *row = &rows[i];
        if (row->is_held != is_held || !(row->alloc_mib > 0) ||
            (family && strcmp(row->family, family) != 0))
            continue;
        if (leaves_out && !(fitted && strcmp(fitted, row->family) == 0)) {
            fitted = row->family;
            constants = peakrows_fit(rows, n, fitted);
        }
        struct firn_peak m = peak_with(&row->job, &constants);
        add_row(&score, right, row, &m);
    }
    score.median = median(right, score.n);
    return score;
}
