/* memory_page.c - output of `firn memory` as text and JSON.
 *
 * The table rounds to MiB and leaves out terms that are 0; JSON has all digits
 * and all terms, and an empty list of plans if no cluster was given.
 */
#include "cli/memory_page.h"
#include "base/buf.h"
#include "base/table.h"

#define MIB 1048576.0

static double marp_mib(const struct firn_peak_job *job)
{
    struct firn_llm_shape shape = {.hidden = job->arch.hidden,
                                   .layers = job->arch.layers,
                                   .heads = job->arch.heads,
                                   .vocab = job->arch.vocab};
    return firn_marp_bytes(&shape, job->seq, job->micro_batch * job->dp,
                           job->tp, job->dp) /
           MIB;
}

static void heads(struct table *text, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        table_cell(text, names[i]);
}

static void no_plan(const struct firn_peak_refused *r, struct firn_buf *out)
{
    if (r->ways == 0)
        return;
    buf_printf(out,
               "of %zu ways none fits: the smallest (t %d, p %d, d %d, ZeRO "
               "%d, micro-batch %d) needs %.1f GiB, and no GPU has more than "
               "%.0f GiB\n",
               r->ways, r->t, r->p, r->d, r->zero, r->micro_batch,
               r->least_mib / 1024, r->most_gib);
}

static void plans_table(const struct memory_plans *plans, struct firn_buf *out)
{
    static const char *const names[] = {
        "type",         "t",        "p",           "d",
        "ZeRO",         "GPUs",     "micro-batch", "passes",
        "expected MiB", "high MiB", "left MiB",    "samples/s",
        "per GPU"};
    struct table text;
    buf_printf(out, "\n%zu plans fit%s\n", plans->total,
               plans->total > plans->n ? "; the best:" : "");
    if (plans->n == 0) {
        no_plan(&plans->refused, out);
        return;
    }
    table_init(&text, "lrrrrrrrrrrrr");
    heads(&text, names, sizeof names / sizeof *names);
    for (size_t i = 0; i < plans->n; i++) {
        const struct firn_peak_plan *p = &plans->at[i];
        const int whole[] = {p->t,     p->p,           p->d,     p->zero,
                             p->ngpus, p->micro_batch, p->passes};
        table_cell(&text, plans->types[p->type].name);
        for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
            table_cellf(&text, "%d", whole[k]);
        table_cellf(&text, "%.0f", p->expected_mib);
        table_cellf(&text, "%.0f", p->high_mib);
        table_cellf(&text, "%.0f", p->headroom_mib);
        table_cellf(&text, "%.3g", p->samples_s);
        table_cellf(&text, "%.3g", p->samples_s_gpu);
    }
    table_print(&text, out);
    table_release(&text);
}

static void fit_table(const struct memory_page *page, struct firn_buf *out)
{
    const struct memory_fit *fit = page->fit;
    struct firn_peak m = firn_peak_of(page->job);
    bool fits = m.device_mib <= fit->gpus.mem_gib * 1024;
    buf_printf(out, "\n%s with %.0f GiB: micro-batch %d %s\n", fit->gpus.name,
               fit->gpus.mem_gib, page->job->micro_batch,
               fits ? "fits" : "does not fit");
    if (fit->micro_batch > 0)
        buf_printf(out, "the largest micro-batch that fits: %d\n",
                   fit->micro_batch);
    else
        buf_puts(out, "not even a micro-batch of 1 fits\n");
    if (fits)
        return;
    if (fit->nchanges == 0) {
        buf_puts(out, "no change, and no four together, make it fit\n");
        return;
    }
    static const char *const names[] = {"changes that make it fit", "GPUs",
                                        "device MiB", "time of a sample", ""};
    struct table text;
    table_init(&text, "lrrrl");
    heads(&text, names, sizeof names / sizeof *names);
    for (size_t i = 0; i < fit->nchanges; i++) {
        const struct firn_peak_advice *a = &fit->changes[i];
        table_cell(&text, a->text);
        table_cellf(&text, "%d", a->gpus);
        table_cellf(&text, "%.0f", a->device_mib);
        table_cellf(&text, "x %.2f", a->slowdown);
        table_cell(&text, a->changes_training ? "trains otherwise" : "");
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

static void print_model(const struct firn_peak_job *job,
                        const struct firn_peak *m, struct firn_buf *out)
{
    const struct firn_arch *a = &job->arch;
    buf_printf(out, "%s: %.0f parameters", a->name[0] ? a->name : "the shape",
               m->params);
    if (m->trained != m->params)
        buf_printf(out, ", %.0f of adapters trained", m->trained);
    if (a->taken[0])
        buf_printf(out, "\nmodel_type '%s' is not known: taken for %s", a->name,
                   a->taken);
    buf_printf(out, "\n%s\npeak: %s%s\n\n",
               m->is_measured
                   ? "this way of training was measured on a GPU"
                   : "extrapolated: this way of training was not measured, so "
                     "the interval is wider",
               firn_peak_moment_word(m->moment),
               job->pp == 1    ? ""
               : m->stage == 0 ? " (first stage of the pipeline)"
                               : " (last stage of the pipeline)");
}

void memory_page_table(const struct memory_page *page, struct firn_buf *out)
{
    const struct firn_peak_job *job = page->job;
    struct firn_peak m = firn_peak_of(job);
    struct table text;
    print_model(job, &m, out);
    table_init(&text, "lrl");
    table_cell(&text, "on each GPU");
    table_cell(&text, "MiB");
    table_cell(&text, "");
    for (int i = 0; i < FIRN_TERMS; i++)
        if (m.terms_mib[i] > 0)
            line(&text, firn_peak_term_word((enum firn_peak_term)i),
                 m.terms_mib[i], firn_peak_term_about((enum firn_peak_term)i));
    line(&text, "expected", m.expected_mib, "sum: the peak of all tensors");
    line(&text, "low", m.low_mib, "");
    line(&text, "high", m.high_mib, "with fragmentation");
    line(&text, "reserved", m.reserved_mib, "by the allocator, expected");
    line(&text, "device", m.device_mib, "high and CUDA context: must fit");
    if (job->arch.kind == FIRN_ARCH_DECODER)
        line(&text, "MARP", marp_mib(job), "Frenzy's formula as printed");
    table_print(&text, out);
    table_release(&text);
    if (job->optimizer == FIRN_OPT_ADAMW && job->adapter == FIRN_ADAPTER_NONE)
        buf_puts(out,
                 "adamw steps tensor by tensor; torch.optim.AdamW without "
                 "foreach= and fused= needs more: --optimizer adamw-foreach\n");
    if (page->fit)
        fit_table(page, out);
    if (page->plans)
        plans_table(page->plans, out);
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
        const struct firn_peak_plan *p = &plans->at[i];
        buf_puts(out, i ? ",\n{\"type\":" : "\n{\"type\":");
        buf_json_string(out, plans->types[p->type].name);
        buf_printf(out,
                   ",\"t\":%d,\"p\":%d,\"d\":%d,\"zero\":%d,\"gpus\":%d,"
                   "\"micro_batch\":%d,\"passes\":%d",
                   p->t, p->p, p->d, p->zero, p->ngpus, p->micro_batch,
                   p->passes);
        json_double(out, "expected_mib", p->expected_mib);
        json_double(out, "high_mib", p->high_mib);
        json_double(out, "device_mib", p->device_mib);
        json_double(out, "headroom_mib", p->headroom_mib);
        json_double(out, "samples_s", p->samples_s);
        json_double(out, "samples_s_gpu", p->samples_s_gpu);
        buf_putc(out, '}');
    }
    buf_puts(out, "]");
}

static void fit_json(const struct memory_fit *fit, struct firn_buf *out)
{
    buf_puts(out, ",\n\"gpu\":{\"type\":");
    buf_json_string(out, fit->gpus.name);
    json_double(out, "mem_gib", fit->gpus.mem_gib);
    buf_printf(out, ",\"largest_micro_batch\":%d,\"changes\":[",
               fit->micro_batch);
    for (size_t i = 0; i < fit->nchanges; i++) {
        const struct firn_peak_advice *a = &fit->changes[i];
        buf_puts(out, i ? ",\n{\"options\":" : "\n{\"options\":");
        buf_json_string(out, a->text);
        json_double(out, "device_mib", a->device_mib);
        json_double(out, "slowdown", a->slowdown);
        buf_printf(out, ",\"gpus\":%d,\"changes_training\":%s}", a->gpus,
                   a->changes_training ? "true" : "false");
    }
    buf_puts(out, "]}");
}

static void numbers_json(const struct firn_peak_job *job,
                         const struct firn_peak *m, struct firn_buf *out)
{
    json_double(out, "params", m->params);
    json_double(out, "trained_params", m->trained);
    buf_printf(out, ",\"extrapolated\":%s,\n\"unit\":\"MiB per GPU\"",
               m->is_measured ? "false" : "true");
    json_double(out, "low_mib", m->low_mib);
    json_double(out, "expected_mib", m->expected_mib);
    json_double(out, "high_mib", m->high_mib);
    json_double(out, "alloc_mib", m->expected_mib);
    json_double(out, "reserved_mib", m->reserved_mib);
    json_double(out, "device_mib", m->device_mib);
    json_double(out, "marp_mib", marp_mib(job));
    buf_puts(out, ",\"moment\":");
    buf_json_string(out, firn_peak_moment_word(m->moment));
}

void memory_page_json(const struct memory_page *page, struct firn_buf *out)
{
    const struct firn_peak_job *job = page->job;
    struct firn_peak m = firn_peak_of(job);
    buf_puts(out, "{\"model\":");
    if (job->arch.name[0])
        buf_json_string(out, job->arch.name);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"family\":");
    buf_json_string(out, job->arch.family);
    if (job->arch.taken[0]) {
        buf_puts(out, ",\"taken_for\":");
        buf_json_string(out, job->arch.taken);
    }
    numbers_json(job, &m, out);
    buf_puts(out, ",\n\"breakdown\":{");
    for (int i = 0; i < FIRN_TERMS; i++) {
        buf_printf(out, "%s\"%s_mib\":", i ? "," : "",
                   firn_peak_term_word((enum firn_peak_term)i));
        buf_json_double(out, m.terms_mib[i]);
    }
    buf_puts(out, "}");
    if (page->fit)
        fit_json(page->fit, out);
    if (page->plans)
        plans_json(page->plans, out);
    else
        buf_puts(out, ",\n\"plans_total\":0,\"plans\":[]");
    buf_puts(out, "}\n");
}

static void shapes_json(struct firn_buf *out)
{
    buf_puts(out, "{\"models\":[");
    for (size_t i = 0; i < firn_arch_count(); i++) {
        struct firn_arch a;
        firn_arch_at(i, &a);
        buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        buf_json_string(out, a.name);
        buf_puts(out, ",\"family\":");
        buf_json_string(out, a.family);
        json_double(out, "params", firn_arch_params(&a));
        buf_printf(out,
                   ",\"hidden\":%d,\"layers\":%d,\"heads\":%d,"
                   "\"kv_heads\":%d,\"ffn\":%d,\"vocab\":%d,\"experts\":%d}",
                   a.hidden, a.layers, a.heads, a.kv_heads, a.ffn, a.vocab,
                   a.experts);
    }
    buf_puts(out, "\n]}\n");
}

void memory_page_shapes(bool is_json, struct firn_buf *out)
{
    static const char *const names[] = {
        "name",  "family",   "parameters", "hidden",     "layers",
        "heads", "kv heads", "MLP width",  "vocabulary", "experts"};
    if (is_json) {
        shapes_json(out);
        return;
    }
    struct table text;
    table_init(&text, "llrrrrrrrr");
    heads(&text, names, sizeof names / sizeof *names);
    for (size_t i = 0; i < firn_arch_count(); i++) {
        struct firn_arch a;
        firn_arch_at(i, &a);
        const int numbers[] = {a.hidden, a.layers, a.heads,  a.kv_heads,
                               a.ffn,    a.vocab,  a.experts};
        table_cell(&text, a.name);
        table_cell(&text, a.family);
        table_cellf(&text, "%.0f", firn_arch_params(&a));
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            table_cellf(&text, "%d", numbers[k]);
    }
    table_print(&text, out);
    table_release(&text);
}
