/* repromemory.c - error of memory predictions on a table of measured peaks.
 *
 * Leave one out: the constants for a model are fitted to the other models,
 * because the shipped constants were fitted to every row of the table.
 */
#include "repro/repromemory.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/sheet.h"
#include <firn/memory.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0

enum predictor { MARP, MEMORY, MEMORY_ALL, WEIGHTS, NPREDICTORS };

static const char *const names[] = {"marp", "memory", "memory-all", "weights",
                                    NULL};

const char *memory_predictor(int i)
{
    return names[i];
}

const char *memory_planted(void)
{
    return names[WEIGHTS];
}

struct peaks {
    VEC(struct firn_memory_row) of_model, others;
};

static bool choose(const char *text, const char *const *words, int *out)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

/* Parses row `at` of the sheet; false if a cell is invalid. */
static bool read_row(const struct sheet *sheet, size_t at,
                     struct firn_memory_row *out)
{
    static const char *const precisions[] = {"fp32", "bf16", "amp", "megatron",
                                             NULL};
    static const char *const attentions[] = {"eager", "sdpa", NULL};
    static const char *const optimizers[] = {"adamw", "sgd", NULL};
    static const char *const columns[] = {"model",     "seq",   "micro_batch",
                                          "precision", "attn",  "checkpointing",
                                          "optimizer", "tensor"};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    const char *cell[COLUMNS];
    long seq, batch, again, tensor = 1;
    int precision, attention, optimizer;
    for (int i = 0; i < COLUMNS; i++) {
        int column = sheet_column(sheet, columns[i]);
        cell[i] = column >= 0 ? sheet_text(sheet, at, column) : "";
    }
    if (!str_int(cell[1], 1, 1L << 24, &seq) ||
        !str_int(cell[2], 1, 1L << 24, &batch) ||
        !choose(cell[3], precisions, &precision) ||
        !choose(cell[4], attentions, &attention) ||
        !str_int(cell[5], 0, 1, &again) ||
        !choose(cell[6], optimizers, &optimizer) ||
        (cell[7][0] != '\0' && !str_int(cell[7], 1, 1L << 16, &tensor)))
        return false;
    *out = (struct firn_memory_row){
        .job = {.seq = (int)seq,
                .micro_batch = (int)batch,
                .precision = (enum firn_precision)precision,
                .attention = (enum firn_attention)attention,
                .optimizer = (enum firn_optimizer)optimizer,
                .is_checkpointing = again == 1,
                .tp = (int)tensor,
                .dp = 1},
        .alloc_mib =
            sheet_number(sheet, at, sheet_column(sheet, "peak_alloc_mib")),
        .reserved_mib =
            sheet_number(sheet, at, sheet_column(sheet, "peak_reserved_mib")),
    };
    return out->alloc_mib > 0 && out->reserved_mib > 0 &&
           firn_llm_find(&out->job.shape, cell[0], NULL) == FIRN_OK &&
           firn_memory_check(&out->job, NULL) == FIRN_OK;
}

static enum firn_status read_peaks(struct peaks *out, const char *path,
                                   const char *model, struct firn_error *err)
{
    struct sheet sheet = {0};
    enum firn_status status = FIRN_OK;
    FIRN_TRY(sheet_read(&sheet, path, err));
    int column = sheet_column(&sheet, "model");
    for (size_t i = 0; i < sheet.nrows && status == FIRN_OK; i++) {
        struct firn_memory_row row;
        if (column < 0 || !read_row(&sheet, i, &row))
            status =
                firn_fail(err, FIRN_EINVAL,
                          "%s: row %zu is not a measured peak", path, i + 1);
        else if (strcmp(sheet_text(&sheet, i, column), model) == 0)
            vec_add(&out->of_model, row);
        else
            vec_add(&out->others, row);
    }
    sheet_release(&sheet);
    if (status == FIRN_OK && out->of_model.n == 0)
        status = firn_fail(err, FIRN_EINVAL, "%s: no row of model '%s'", path,
                           model);
    return status;
}

/* Does Frenzy's formula cover the job? */
static bool is_plain(const struct firn_memory_job *job)
{
    return (job->precision == FIRN_PRECISION_AMP ||
            job->precision == FIRN_PRECISION_MEGATRON) &&
           job->attention == FIRN_ATTENTION_EAGER &&
           job->optimizer == FIRN_OPTIMIZER_ADAMW && !job->is_checkpointing;
}

/* Predicted peak of a row in MiB; `fit` is not used by MARP and WEIGHTS. */
static double predict(enum predictor by, const struct firn_memory_job *job,
                      const struct firn_memory_fit *fit)
{
    switch (by) {
    case MARP:
        return firn_marp_bytes(&job->shape, job->seq, job->micro_batch, job->tp,
                               1) /
               MIB;
    case WEIGHTS:
        return 16 * firn_llm_params(&job->shape, job->seq) / MIB;
    default:
        return firn_memory_of(job, fit).expected_mib;
    }
}

static enum firn_status score(const struct peaks *peaks, enum predictor by,
                              struct evaluate_error *out,
                              struct firn_error *err)
{
    struct firn_memory_fit fit = {0};
    size_t n = 0;
    if (by == MEMORY || by == MEMORY_ALL)
        FIRN_TRY(firn_memory_calibrate(peaks->others.at, peaks->others.n, &fit,
                                       err));
    double *mib = mem_new(2 * peaks->of_model.n, sizeof *mib);
    double *measured = mib + peaks->of_model.n;
    for (size_t i = 0; i < peaks->of_model.n; i++) {
        const struct firn_memory_row *row = &peaks->of_model.at[i];
        const struct firn_memory_job *job = &row->job;
        if (by != MEMORY_ALL && !is_plain(job))
            continue;
        mib[n] = predict(by, job, &fit);
        measured[n++] = row->alloc_mib;
    }
    *out = evaluate_error(mib, measured, n);
    mem_free(mib);
    return n > 0 ? FIRN_OK
                 : firn_fail(err, FIRN_EINVAL,
                             "no row that Frenzy's formula covers");
}

enum firn_status memory_evaluate(const char *predictor, const char *spec,
                                 struct evaluate_error *out,
                                 struct firn_error *err)
{
    struct peaks peaks = {0};
    struct evaluate_error error = {0};
    int by;
    if (!choose(predictor, names, &by))
        return firn_fail(err, FIRN_EINVAL, "unknown predictor '%s'", predictor);
    const char *hash = strrchr(spec, '#');
    if (hash == NULL)
        return firn_fail(err, FIRN_EINVAL, "%s: expected FILE#MODEL", spec);
    char *path = mem_strdup(spec);
    path[hash - spec] = '\0';
    enum firn_status status = read_peaks(&peaks, path, hash + 1, err);
    if (status == FIRN_OK)
        status = score(&peaks, (enum predictor)by, &error, err);
    if (status == FIRN_OK)
        *out = error;
    vec_release(&peaks.of_model);
    vec_release(&peaks.others);
    mem_free(path);
    return status;
}
