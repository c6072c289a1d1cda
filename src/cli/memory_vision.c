/* memory_vision.c - output for networks of convolutions (firn/visionpeak.h) and
 * for lines through measured peaks.
 */
#include "cli/memory_vision.h"

#include "base/buf.h"
#include "base/table.h"

struct term {
    const char *name;
    double mib;
    const char *about;
};

static void json_terms(const struct term *terms, size_t n, struct firn_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%s\"%s_mib\":", i ? "," : "", terms[i].name);
        buf_json_double(out, terms[i].mib);
    }
}

static void print_terms(const struct term *terms, size_t n,
                        struct firn_buf *out)
{
    struct table text;
    table_init(&text, "lrl");
    table_cell(&text, "on the GPU");
    table_cell(&text, "MiB");
    table_cell(&text, "");
    for (size_t i = 0; i < n; i++) {
        if (terms[i].mib <= 0)
            continue;
        table_cell(&text, terms[i].name);
        table_cellf(&text, "%.0f", terms[i].mib);
        table_cell(&text, terms[i].about);
    }
    table_print(&text, out);
    table_release(&text);
}

enum firn_status memory_vision(const struct firn_vision_job *job, bool is_json,
                               struct firn_buf *out, struct firn_error *err)
{
    struct firn_vision_peak m;
    FIRN_TRY(firn_vision_peak_of(job, &m, err));
    const struct term terms[] = {
        {"weights", m.weights_mib, ""},
        {"casts", m.casts_mib, "copies of weights in bf16"},
        {"moments", m.moments_mib, "state of the optimizer"},
        {"gradients", m.gradients_mib, ""},
        {"scratch", m.scratch_mib, "of the optimizer's step"},
        {"activations", m.activations_mib, "kept for the backward pass"},
        {"workspace", m.workspace_mib, "of libraries and convolutions"},
        {"expected", m.expected_mib, "sum: the peak of all tensors"},
        {"low", m.low_mib, ""},
        {"high", m.high_mib, ""},
        {"device", m.device_mib, "high and CUDA context: must fit"},
    };
    size_t n = sizeof terms / sizeof *terms;
    const char *name = firn_vision_name(job->network);
    if (is_json) {
        buf_puts(out, "{\"model\":");
        buf_json_string(out, name);
        buf_printf(out, ",\"params\":%.0f,\"is_measured\":%s,", m.params,
                   m.is_measured ? "true" : "false");
        json_terms(terms, n, out);
        buf_puts(out, "}\n");
        return FIRN_OK;
    }
    buf_printf(out, "%s: %.0f parameters\n%s\n\n", name, m.params,
               m.is_measured
                   ? "networks of this kind were measured on a GPU"
                   : "computed from shapes: this network or precision "
                     "was not measured on a GPU");
    print_terms(terms, n, out);
    return FIRN_OK;
}

enum firn_status memory_measured(const char *points, int batch, bool is_json,
                                 struct firn_buf *out, struct firn_error *err)
{
    struct firn_peak_points p;
    struct firn_peak_line m;
    FIRN_TRY(firn_peak_points_read(&p, points, err));
    FIRN_TRY(firn_peak_line_at(&p, batch, &m, err));
    const struct term terms[] = {
        {"base", m.base_mib, "that does not grow with the batch"},
        {"sample", m.sample_mib, "of each sample"},
        {"expected", m.expected_mib, "base and all samples"},
        {"low", m.low_mib, ""},
        {"high", m.high_mib, ""},
    };
    size_t n = sizeof terms / sizeof *terms;
    if (is_json) {
        buf_printf(out, "{\"micro_batch\":%d,", batch);
        json_terms(terms, n, out);
        buf_puts(out, "}\n");
        return FIRN_OK;
    }
    buf_printf(out,
               "batch %d, on the line through %.0f MiB at %d and %.0f MiB at "
               "%d\n\n",
               batch, p.mib[0], p.batch[0], p.mib[1], p.batch[1]);
    print_terms(terms, n, out);
    return FIRN_OK;
}

void memory_vision_names(struct firn_buf *out)
{
    buf_puts(out, "\nnetworks of convolutions:");
    for (size_t i = 0; i < firn_vision_count(); i++)
        buf_printf(out, "%s %s", i ? "," : "", firn_vision_name(i));
    buf_puts(out, "\n");
}
