/* eventlog.c - what happened in a run, line by line.
 *
 * Lines are added to a buffer that is written out in large pieces. Nothing is
 * looked up and nothing is remembered between lines, so that a log costs a
 * run little and the reader has to find out by itself whether it makes sense.
 */
#include "sim/eventlog.h"
#include "base/buf.h"
#include "base/mem.h"
#include "sim/outfile.h"
#include "sim/summary.h"
#include "sim/world.h"
#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 15 }; /* an allocation is folded behind these */

struct eventlog {
    struct outfile file;
    struct firn_buf alloc; /* scratch */
};

static void put_setting(struct firn_buf *out, const char *name, double value)
{
    buf_printf(out, "%s\t", name);
    buf_double(out, value);
    buf_putc(out, '\n');
}

static void put_cluster(struct firn_buf *out, const struct firn_cluster *c)
{
    buf_printf(out, "jobs_per_gpu\t%d\ncluster\t", c->jobs_per_gpu);
    buf_json_string(out, c->name);
    buf_printf(out, "\t%d\t%d\n", c->nnodes, c->ngpus);
    for (int from = 0, to; from < c->nnodes; from = to) {
        const struct firn_node *a = &c->nodes[from];
        for (to = from + 1; to < c->nnodes; to++) {
            const struct firn_node *b = &c->nodes[to];
            if (b->ngpus != a->ngpus || b->type != a->type ||
                b->is_up != a->is_up)
                break;
        }
        buf_printf(out, "nodes\t%d", from);
        if (to - from > 1)
            buf_printf(out, "-%d", to - 1);
        buf_printf(out, "\t%d\t", a->ngpus);
        buf_json_string(out, c->types[a->type].name);
        buf_puts(out, a->is_up ? "\tup\n" : "\tdown\n");
    }
}

/* Nothing for a text that was not given. */
static void put_text(struct firn_buf *out, const char *name, const char *text)
{
    if (text == NULL)
        return;
    buf_printf(out, "%s\t", name);
    buf_json_string(out, text);
    buf_putc(out, '\n');
}

/* A line for each application. */
static void put_costs(struct firn_buf *out, const char *key,
                      const struct firn_restart_cost *costs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%s\t", key);
        buf_json_string(out, costs[i].app);
        buf_putc(out, '\t');
        buf_double(out, costs[i].cost_s);
        buf_putc(out, '\n');
    }
}

static void put_restarts(struct firn_buf *out, const struct firn_sim_options *o)
{
    put_setting(out, "restart_s", o->restart_s);
    for (size_t i = 0; i < o->npairs; i++) {
        buf_puts(out, "pair_of\t");
        buf_json_string(out, o->pairs[i].app);
        buf_putc(out, '\t');
        buf_json_string(out, o->pairs[i].other);
        buf_putc(out, '\t');
        buf_double(out, o->pairs[i].slowdown);
        buf_putc(out, '\n');
    }
    if (o->restart_is_all)
        put_text(out, "restart_all", "all");
    put_costs(out, "restart_of", o->restarts, o->nrestarts);
    if (o->quiet_starts)
        put_text(out, "starts", "quiet");
    if (o->prepares > 0) {
        char key[40];
        snprintf(key, sizeof key, "prepared_of\t%d", o->prepares);
        put_costs(out, key, o->prepared, o->nprepared);
    }
    put_costs(out, "end_of", o->ends, o->nends);
    if (!o->resizes)
        return;
    put_setting(out, "resize_s", o->resize_s);
    if (o->resize_prepare_s > 0)
        put_setting(out, "resize_prepare_s", o->resize_prepare_s);
    if (o->resize_slowdown > 0)
        put_setting(out, "resize_slowdown", o->resize_slowdown);
    if (o->resize_is_all)
        put_text(out, "resize_all", "all");
    for (size_t i = 0; i < o->nresize_costs; i++) {
        const struct firn_cost *cost = &o->resize_costs[i].cost;
        const double numbers[] = {cost->pause_s, cost->prepare_s,
                                  cost->slowdown};
        buf_puts(out, "resize_of\t");
        buf_json_string(out, o->resize_costs[i].app);
        for (int k = 0; k < 3; k++) {
            buf_putc(out, '\t');
            buf_double(out, numbers[k]);
        }
        buf_putc(out, '\n');
    }
}

static void put_header(struct firn_buf *out, const struct firn_sim_options *o)
{
    buf_puts(out, "#firn-log 1\n");
    put_text(out, "trace", o->trace);
    put_text(out, "policy", o->policy);
    put_text(out, "world", o->world ? o->world->name : world_honest.name);
    for (size_t i = 0; i < o->nsettings; i++)
        put_text(out, "setting", o->settings[i]);
    put_text(out, "profiles", o->profiles);
    if (o->freeze != FIRN_SIM_FREEZE_POLICY)
        put_text(out, "freeze", firn_sim_freeze_name(o->freeze));
    if (o->forecast != FIRN_SIM_FORECAST_FIT)
        put_text(out, "forecast", firn_sim_forecast_name(o->forecast));
    put_text(out, "failures", o->failures);
    buf_printf(out, "seed\t%llu\n", (unsigned long long)o->seed);
    put_restarts(out, o);
    if (o->transfer_key)
        put_text(out, "transfers", "key");
    put_setting(out, "scaling", o->scaling);
    put_setting(out, "share_slowdown", o->share_slowdown);
    if (o->slows_all)
        put_text(out, "slowdown_of", "all");
    put_setting(out, "interval_s", o->interval_s);
    put_setting(out, "quantum_s", o->quantum_s);
    put_setting(out, "charges_first_start", o->charges_first_start);
    put_setting(out, "mtbf_s", o->mtbf_s);
    put_setting(out, "mttr_s", o->mttr_s);
    put_setting(out, "checkpoint_s", o->checkpoint_s);
    put_setting(out, "noise_throughput", o->noise.throughput);
    put_setting(out, "noise_sharing", o->noise.sharing);
    put_setting(out, "noise_transfer", o->noise.transfer);
    put_setting(out, "noise_report", o->noise.report);
    if (o->noise.iterations > 0)
        put_setting(out, "noise_iterations", o->noise.iterations);
    put_setting(out, "elastic_min", o->elastic_min);
    put_setting(out, "elastic_max", o->elastic_max);
    put_cluster(out, o->cluster);
}

enum firn_status eventlog_open(struct eventlog **out, const char *path,
                               const struct firn_sim_options *options,
                               struct firn_error *err)
{
    struct outfile file;
    FIRN_TRY(outfile_open(&file, path, err));
    struct eventlog *log = mem_new(1, sizeof *log);
    log->file = file;
    put_header(&log->file.text, options);
    *out = log;
    return FIRN_OK;
}

/* "T kind ID", without the line's end. */
static struct firn_buf *begin(struct eventlog *log, double at_s,
                              const char *kind, int id)
{
    struct firn_buf *out = &log->file.text;
    outfile_drain(&log->file);
    buf_double(out, at_s);
    buf_printf(out, "\t%s\t%d", kind, id);
    return out;
}

static void put_column(struct firn_buf *out, double value)
{
    buf_putc(out, '\t');
    buf_double(out, value);
}

/* Appends `text`, folded at spaces into lines that any reader can take. */
static void put_folded(struct firn_buf *out, const char *text, size_t n)
{
    while (n > PIECE_BYTES) {
        size_t cut = PIECE_BYTES;
        while (cut < n && text[cut] != ' ')
            cut++;
        if (cut == n)
            break;
        buf_add(out, text, cut + 1);
        buf_puts(out, "\\\n");
        text += cut + 1;
        n -= cut + 1;
    }
    buf_add(out, text, n);
}

void eventlog_submit(struct eventlog *log, const struct firn_job *job,
                     double at_s)
{
    if (!log)
        return;
    const struct firn_job_spec *spec = &job->spec;
    struct firn_buf *out = begin(log, at_s, "submit", job->id);
    buf_putc(out, '\t');
    buf_json_string(out, spec->name);
    buf_printf(out, "\t%d\t%d\t%d", spec->gpus, spec->gpus_min, spec->gpus_max);
    put_column(out, spec->duration_s);
    /* Merged jobs hold half-shares of their GPUs, too. */
    buf_puts(out, spec->may_share || spec->may_merge ? "\t1" : "\t0");
    if (spec->submit_s != at_s)
        put_column(out, spec->submit_s);
    buf_putc(out, '\n');
}

/* What ALLOC does not have, of a job that stays where it is. */
static void put_how(struct eventlog *log, const struct firn_step *step,
                    struct firn_buf *out)
{
    const struct firn_how *how = &step->to->how;
    struct firn_buf held = {0};
    if (step->kind != FIRN_STEP_MOVE)
        return;
    firn_alloc_print(&step->job->held, &held);
    if (strcmp(held.at, log->alloc.at) == 0)
        buf_printf(out, "\tpasses=%d tensor=%d with=%d after=%d", how->passes,
                   how->tensor, how->merged_with, how->after);
    buf_release(&held);
}

void eventlog_step(struct eventlog *log, const struct firn_step *step)
{
    static const char *const kinds[] = {
        [FIRN_STEP_START] = "start",
        [FIRN_STEP_STOP] = "stop",
        [FIRN_STEP_RESIZE] = "resize",
        [FIRN_STEP_MOVE] = "move",
    };
    if (!log)
        return;
    struct firn_buf *out =
        begin(log, step->at_s, kinds[step->kind], step->job->id);
    if (step->kind == FIRN_STEP_STOP) {
        put_column(out, firn_job_done_s(step->job, step->at_s));
        buf_puts(out, step->is_loss ? "\tnode\n" : "\tpreempt\n");
        return;
    }
    buf_clear(&log->alloc);
    firn_alloc_print(step->to, &log->alloc);
    buf_putc(out, '\t');
    put_folded(out, log->alloc.at, log->alloc.n);
    put_how(log, step, out);
    buf_putc(out, '\n');
}

void eventlog_report(struct eventlog *log, const struct firn_job *job,
                     double at_s, const struct firn_report *report)
{
    if (!log)
        return;
    struct firn_buf *out = begin(log, at_s, "rate", job->id);
    put_column(out, report->done_s);
    put_column(out, report->rate);
    put_column(out, report->resumes_s);
    buf_putc(out, '\n');
}

void eventlog_end(struct eventlog *log, const struct firn_job *job, double at_s,
                  const char *how, double finished_s)
{
    if (!log)
        return;
    struct firn_buf *out = begin(log, at_s, how, job->id);
    if (finished_s != at_s)
        put_column(out, finished_s);
    if (strcmp(how, "reject") == 0) {
        buf_putc(out, '\t');
        buf_json_string(out, job->note);
    }
    buf_putc(out, '\n');
}

void eventlog_note(struct eventlog *log, const struct firn_job *job,
                   double at_s)
{
    if (!log)
        return;
    struct firn_buf *out = begin(log, at_s, "note", job->id);
    buf_putc(out, '\t');
    buf_json_string(out, job->note);
    buf_putc(out, '\n');
}

void eventlog_anew(struct eventlog *log, const struct firn_job *job,
                   double at_s, const char *why)
{
    if (!log)
        return;
    struct firn_buf *out = begin(log, at_s, "anew", job->id);
    buf_putc(out, '\t');
    buf_json_string(out, why);
    buf_putc(out, '\n');
}

void eventlog_node(struct eventlog *log, firn_node_id node, bool is_up,
                   double at_s)
{
    if (!log)
        return;
    buf_putc(begin(log, at_s, is_up ? "node_up" : "node_down", node), '\n');
}

static void put_summary(struct firn_buf *out,
                        const struct firn_sim_result *result)
{
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    buf_puts(out, "end\n");
    for (size_t i = 0; i < n; i++) {
        if (fields[i].is_measured || fields[i].kind == SUMMARY_TEXT)
            continue;
        buf_printf(out, "%s\t", fields[i].name);
        summary_value(&fields[i], result, out);
        buf_putc(out, '\n');
    }
}

enum firn_status eventlog_close(struct eventlog *log,
                                const struct firn_sim_result *result,
                                struct firn_error *err)
{
    if (!log)
        return FIRN_OK;
    if (result)
        put_summary(&log->file.text, result);
    else
        buf_puts(&log->file.text, "aborted\n");
    enum firn_status status = outfile_close(&log->file, err);
    buf_release(&log->alloc);
    mem_free(log);
    return status;
}
