/* peakrows.c - rows of profiles/h200/modern_memory.csv as jobs of firn/peak.h.
 *
 * A row names a file of bench/gpu/configs and how many of its layers were
 * built. gemma2 was measured with eager attention, all others with sdpa.
 */
#include "lib/peakrows.h"

#include "base/files.h"
#include "base/str.h"
#include "lib/csv.h"
#include <stdio.h>
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

static enum firn_status set_words(struct firn_peak_job *job,
                                  const struct csv *csv, struct firn_error *err)
{
    bool is_lora = strcmp(csv_text(csv, "mode"), "lora") == 0;
    bool is_again = csv_number(csv, "checkpointing") > 0;
    FIRN_TRY(firn_peak_set(job, "precision",
                           is_lora ? "bf16" : csv_text(csv, "mode"), err));
    FIRN_TRY(
        firn_peak_set(job, "optimizer", csv_text(csv, "optimizer"), err));
    FIRN_TRY(firn_peak_set(job, "checkpointing", is_again ? "layers" : "off",
                           err));
    if (!is_lora)
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
    str_copy(row->optimizer, sizeof row->optimizer,
             csv_text(csv, "optimizer"));
    FIRN_TRY(read_arch(&row->job.arch, row->model, err));
    cut(&row->job.arch, (int)csv_number(csv, "layers"));
    FIRN_TRY(set_words(&row->job, csv, err));
    row->job.seq = (int)csv_number(csv, "seq");
    row->job.micro_batch = (int)csv_number(csv, "micro_batch");
    row->job.is_eager = strcmp(row->family, "gemma2") == 0;
    row->repeat = (int)csv_number(csv, "repeat");
    row->params = csv_number(csv, "params");
    row->trained = csv_number(csv, "trainable");
    row->alloc_mib = csv_number(csv, "peak_alloc_mib");
    row->reserved_mib = csv_number(csv, "peak_reserved_mib");
    row->static_mib = csv_number(csv, "static_alloc_mib");
    return firn_peak_check(&row->job, err);
}

size_t peakrows_read(struct peakrow *rows, const char *path)
{
    struct csv *csv = csv_open(path);
    struct firn_error err = {0};
    size_t n = 0;
    if (!csv) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 0;
    }
    while (n < PEAKROWS_MAX && csv_next(csv)) {
        if (read_row(&rows[n], csv, &err) != FIRN_OK) {
            fprintf(stderr, "%s, row %zu: %s\n", path, n + 1, err.text);
            n = 0;
            break;
        }
        n++;
    }
    csv_close(csv);
    return n;
}
