/* api_trace.c - finished jobs as a trace that the simulator reads.
 *
 * A row for each finished job that has held GPUs: what its user asked for, its
 * time of submit (counted from the first row's), and its run time (past.c). A
 * job that ran on several sets of GPUs has the `gpus` of its last attempt. The
 * job's number is added to its name, since names in a trace are unique.
 *
 * `since` leaves out jobs submitted before, in seconds since 1970.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "daemon/apiwork.h"
#include "daemon/jobfile.h"
#include "daemon/past.h"
#include "trace/write.h"
#include <stdio.h>
#include <string.h>

static bool add_attempt(void *arg, const struct store_attempt *attempt)
{
    if (attempt->end >= 0)
        past_add(arg, attempt->held, attempt->ended_s - attempt->started_s);
    return true;
}

struct trace {
    struct store *store;
    struct firn_cluster cluster;
    bool knows_cluster;
    struct arena arena; /* of the specs' texts */
    VEC(struct firn_job_spec) specs;
    double since_s, first_s, last_s;
    struct firn_error err;
    enum firn_status status;
};

static const char *row_name(struct trace *trace, const struct live_job *job)
{
    size_t n = strlen(job->ask.name) + 16;
    char *name = arena_alloc(&trace->arena, n);
    snprintf(name, n, "%d-%s", job->id, job->ask.name);
    return name;
}

/* The spec outlives its job: what it points to is copied. */
static void add_spec(struct trace *trace, const struct live_job *job,
                     const struct past *past)
{
    struct firn_job_spec spec;
    if (trace->specs.n == 0)
        trace->first_s = trace->last_s = job->submitted_s;
    if (job->submitted_s > trace->last_s) /* a clock may have been put back */
        trace->last_s = job->submitted_s;
    jobfile_spec(&job->ask, trace->last_s - trace->first_s, &spec);
    spec.name = row_name(trace, job);
    spec.app = arena_strdup(&trace->arena, spec.app);
    spec.group = arena_strdup(&trace->arena, spec.group);
    spec.types = arena_strdup(&trace->arena, spec.types);
    spec.is_nominal = false; /* it was seen */
    past_spec(past, &spec);
    vec_add(&trace->specs, spec);
}

static bool add_job(void *arg, struct live_job *job)
{
    struct trace *trace = arg;
    struct past past = {
        .cluster = trace->knows_cluster ? &trace->cluster : NULL,
        .type = job->gpu_type,
        .may_stop = job->ask.can_checkpoint || job->ask.may_restart};
    if (live_state_is_over(job->state) && job->attempt > 0 &&
        job->submitted_s >= trace->since_s) {
        trace->status = store_each_attempt(trace->store, job->id, add_attempt,
                                           &past, &trace->err);
        if (trace->status == FIRN_OK && past.starts.n > 0)
            add_spec(trace, job, &past);
    }
    past_release(&past);
    live_job_free(job);
    return trace->status == FIRN_OK;
}

static void write_all(const struct trace *trace, struct firn_buf *out)
{
    unsigned mask = 0;
    for (size_t i = 0; i < trace->specs.n; i++)
        mask |= write_mask(&trace->specs.at[i]);
    write_header(out, mask);
    for (size_t i = 0; i < trace->specs.n; i++)
        write_row(out, &trace->specs.at[i], mask);
}

/* The nodes of now, as `firn whatif` makes its cluster of them. */
static void open_cluster(struct trace *trace, const struct api_host *host)
{
    struct firn_buf text = {0};
    struct firn_error err = {0};
    const struct api_node *nodes = NULL;
    size_t n = host->nodes != NULL ? host->nodes(host->arg, &nodes) : 0;
    for (size_t i = 0; i < n; i++) {
        buf_printf(&text, "%s1x%d:%s", i > 0 ? "," : "", nodes[i].ngpus,
                   nodes[i].type);
        if (nodes[i].mem_gib >= 1)
            buf_printf(&text, "@%.0f", nodes[i].mem_gib);
    }
    trace->knows_cluster =
        n > 0 &&
        firn_cluster_parse_spec(&trace->cluster, text.at, &err) == FIRN_OK;
    buf_release(&text);
}

void api_trace_get(struct api_call *call)
{
    struct trace trace = {.store = call->api->host.store};
    struct firn_buf out = {0};
    int64_t since;
    size_t nbad;
    if (!api_query_int(call, "since", INT64_MAX, 0, &since))
        return;
    trace.since_s = (double)since;
    open_cluster(&trace, &call->api->host);
    enum firn_status status =
        store_each_job(trace.store, true, add_job, &trace, &nbad, &trace.err);
    if (status == FIRN_OK)
        status = trace.status;
    if (status == FIRN_OK) {
        write_all(&trace, &out);
        api_reply_as(call, 200, "text/csv; charset=utf-8", &out);
    } else {
        api_fail(call, &trace.err);
    }
    firn_cluster_release(&trace.cluster);
    vec_release(&trace.specs);
    arena_release(&trace.arena);
}
