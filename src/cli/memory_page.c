/* memory_page.c - output of `firn memory` as text and JSON.
 *
 * The table rounds to MiB; JSON has all digits, and an empty list of plans if
 * no cluster was given.
 */
#include "cli/memory_page.h"
#include "base/buf.h"
#include "base/table.h"

#define MIB 1048576.0

static double marp_mib(const struct firn_memory_job *job)
{
    return firn_marp_bytes(&job->shape, job->seq, job->micro_batch * job->dp,
                           job->tp, job->dp) /
           MIB;
}

static void plans_table(const struct memory_plans *plans, struct firn_buf *out)
{
    static const char *const heads[] = {
        "type",         "t",        "d",        "GPUs",      "micro-batch",
        "expected MiB", "high MiB", "left MiB", "samples/s", "per GPU"};
    struct table text;
    buf_printf(out, "\n%zu plans fit%s\n", plans->total,
               plans->total > plans->n ? "; the best:" : "");
    if (plans->n == 0)
        return;
    table_init(&text, "lrrrrrrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&text, heads[i]);
    for (size_t i = 0; i < plans->n; i++) {
        const struct firn_llm_plan *p = &plans->at[i];
        table_cell(&text, plans->types[p->type].name);
        table_cellf(&text, "%d", p->t);
        table_cellf(&text, "%d", p->d);
        table_cellf(&text, "%d", p->ngpus);
        table_cellf(&text, "%d", p->micro_batch);
        table_cellf(&text, "%.0f", p->memory.expected_mib);
        table_cellf(&text, "%.0f", p->memory.high_mib);
        table_cellf(&text, "%.0f", p->headroom_mib);
        table_cellf(&text, "%.3g", p->samples_s);
        table_cellf(&text, "%.3g", p->samples_s_gpu);
    }
    table_print(&text, out);
    table_release(&text);
}

/* A row: name, MiB, remark. */
static void line(struct table *text, const char *name, double mib,
                 const char *note)
{
    table_cell(text, name);
    table_cellf(text, "%.0f", mib);
    table_cell(text, note);
}

void memory_page_table(const struct firn_memory_job *job,
                       const struct memory_plans *plans, struct firn_buf *out)
{
    struct firn_memory m = firn_memory_of(job, NULL);
    struct table text;
    buf_printf(out, "%s: %.0f parameters",
               job->shape.name ? job->shape.name : "the shape", m.params);
    if (m.trained_params != m.params)
        buf_printf(out, ", %.0f of adapters trained", m.trained_params);
    buf_printf(out, "\n%s\n\n",
               m.is_extrapolated
                   ? "extrapolated: unlike what was measured, so the interval "
                     "is wider"
                   : "within what was measured");
    table_init(&text, "lrl");
    table_cell(&text, "on each GPU");
    table_cell(&text, "MiB");
    table_cell(&text, "");
    line(&text, "weights", m.weights_mib, "with copies in the precision used");
    line(&text, "gradients", m.gradients_mib, "");
    line(&text, "optimizer", m.optimizer_mib, "");
    line(&text, "activations", m.activations_mib, "with logits");
    line(&text, "overhead", m.overhead_mib, "workspaces, rounding to blocks");
    line(&text, "expected", m.expected_mib, "sum: the peak of all tensors");
    line(&text, "low", m.low_mib, "");
    line(&text, "high", m.high_mib, "with the most fragmentation");
    line(&text, "reserved", m.reserved_mib, "by the allocator, expected");
    line(&text, "device", m.device_mib, "high and CUDA context: must fit");
    line(&text, "MARP", marp_mib(job), "Frenzy's formula as printed");
    table_print(&text, out);
    table_release(&text);
    if (plans)
        plans_table(plans, out);
}

static void json_double(struct firn_buf *out, const char *key, double value)
{
    buf_printf(out, ",\"%s\":", key);
    buf_json_double(out, value);
}

static void plans_json(const struct memory_plans *plans, struct firn_buf *out)
{
    buf_printf(out, ",\n\"plans_total\":%zu,\"plans\":[", plans->total);
    for (size_t i = 0; i < plans->n; i++) {
        const struct firn_llm_plan *p = &plans->at[i];
        buf_puts(out, i ? ",\n{\"type\":" : "\n{\"type\":");
        buf_json_string(out, plans->types[p->type].name);
        buf_printf(out, ",\"t\":%d,\"d\":%d,\"gpus\":%d,\"micro_batch\":%d",
                   p->t, p->d, p->ngpus, p->micro_batch);
        json_double(out, "low_mib", p->memory.low_mib);
        json_double(out, "expected_mib", p->memory.expected_mib);
        json_double(out, "high_mib", p->memory.high_mib);
        json_double(out, "headroom_mib", p->headroom_mib);
        json_double(out, "samples_s", p->samples_s);
        json_double(out, "samples_s_gpu", p->samples_s_gpu);
        buf_putc(out, '}');
    }
    buf_puts(out, "]");
}

void memory_page_json(const struct firn_memory_job *job,
                      const struct memory_plans *plans, struct firn_buf *out)
{
    struct firn_memory m = firn_memory_of(job, NULL);
    buf_puts(out, "{\"model\":");
    if (job->shape.name)
        buf_json_string(out, job->shape.name);
    else
        buf_puts(out, "null");
    json_double(out, "params", m.params);
    json_double(out, "trained_params", m.trained_params);
    buf_printf(out, ",\"extrapolated\":%s,\n\"unit\":\"MiB per GPU\"",
               m.is_extrapolated ? "true" : "false");
    json_double(out, "low_mib", m.low_mib);
    json_double(out, "expected_mib", m.expected_mib);
    json_double(out, "high_mib", m.high_mib);
    json_double(out, "alloc_mib", m.alloc_mib);
    json_double(out, "reserved_mib", m.reserved_mib);
    json_double(out, "device_mib", m.device_mib);
    json_double(out, "marp_mib", marp_mib(job));
    buf_puts(out, ",\n\"breakdown\":{\"weights_mib\":");
    buf_json_double(out, m.weights_mib);
    json_double(out, "gradients_mib", m.gradients_mib);
    json_double(out, "optimizer_mib", m.optimizer_mib);
    json_double(out, "activations_mib", m.activations_mib);
    json_double(out, "overhead_mib", m.overhead_mib);
    buf_puts(out, "}");
    if (plans)
        plans_json(plans, out);
    else
        buf_puts(out, ",\n\"plans_total\":0,\"plans\":[]");
    buf_puts(out, "}\n");
}

static void shapes_json(const struct firn_llm_shape *shapes, size_t n,
                        struct firn_buf *out)
{
    buf_puts(out, "{\"models\":[");
    for (size_t i = 0; i < n; i++) {
        const struct firn_llm_shape *s = &shapes[i];
        buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        buf_json_string(out, s->name);
        json_double(out, "params", firn_llm_params(s, 1024));
        buf_printf(out,
                   ",\"hidden\":%d,\"layers\":%d,\"heads\":%d,"
                   "\"kv_heads\":%d,\"ffn\":%d,\"vocab\":%d}",
                   s->hidden, s->layers, s->heads, s->kv_heads, s->ffn,
                   s->vocab);
    }
    buf_puts(out, "\n]}\n");
}

void memory_page_shapes(bool is_json, struct firn_buf *out)
{
    static const char *const heads[] = {"name",      "parameters", "hidden",
                                        "layers",    "heads",      "kv heads",
                                        "MLP width", "vocabulary"};
    size_t n;
    const struct firn_llm_shape *shapes = firn_llm_shapes(&n);
    if (is_json) {
        shapes_json(shapes, n, out);
        return;
    }
    struct table text;
    table_init(&text, "lrrrrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&text, heads[i]);
    for (size_t i = 0; i < n; i++) {
        const struct firn_llm_shape *s = &shapes[i];
        const int numbers[] = {s->hidden,   s->layers, s->heads,
                               s->kv_heads, s->ffn,    s->vocab};
        table_cell(&text, s->name);
        table_cellf(&text, "%.0f", firn_llm_params(s, 1024));
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            table_cellf(&text, "%d", numbers[k]);
    }
    table_print(&text, out);
    table_release(&text);
}
