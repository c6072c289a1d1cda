/* api_trace.c - finished jobs as a trace that the simulator reads.
 *
 * A row for each finished job that has held GPUs: what its user asked for, its
 * time of submit (counted from the first row's), and its run time (past.c). A
 * job that ran on several sets of GPUs has the `gpus` of its last attempt. The
 * job's number is added to its name, since names in a trace are unique.
 *
 * With `costs=1` run times are of the training alone: without the start of each
 * attempt, or the mean of its application if it was not measured, without what
 * its first steps take longer than later ones, and without what the job lost to
 * others on its GPUs, by the measured slowdown of the pair. The row's restart_s
 * is the mean start without preparation, with those first steps.
 *
 * `since` leaves out jobs submitted before, in seconds since 1970.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "daemon/apiwork.h"
#include "daemon/jobfile.h"
#include "daemon/past.h"
#include "daemon/recover.h"
#include "trace/write.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* An attempt on shared GPUs. */
struct shared {
    firn_job_id job;
    const char *app;        /* in the arena */
    double began_s, last_s; /* its first usual step and its last one */
    struct firn_alloc held; /* parts owned */
};

struct trace {
    struct store *store;
    const struct api_host *host;
    bool has_costs; /* durations are of the training alone */
    VEC(struct shared) shared;
    struct firn_cluster cluster;
    bool knows_cluster;
    struct arena arena; /* of the specs' texts */
    VEC(struct firn_job_spec) specs;
    double since_s, first_s, last_s;
    struct firn_error err;
    enum firn_status status;
};

/* --- what of an attempt was training --------------------------------------
 */

static double cost_of(const struct trace *trace, const char *app,
                      enum livecost which)
{
    const struct api_host *host = trace->host;
    double cost = host->cost != NULL ? host->cost(host->arg, app, which) : -1;
    return cost > 0 ? cost : 0;
}

/* Seconds that it lost to other jobs on its GPUs, by the measured slowdown. */
static double lost_s(const struct trace *trace, const struct shared *mine)
{
    const struct api_host *host = trace->host;
    double lost = 0;
    for (size_t i = 0; i < trace->shared.n && host->slowdown != NULL; i++) {
        const struct shared *other = &trace->shared.at[i];
        double from_s = fmax(mine->began_s, other->began_s);
        double both_s = fmin(mine->last_s, other->last_s) - from_s;
        if (other->job == mine->job || !(both_s > 0) ||
            !firn_alloc_overlaps(&mine->held, &other->held))
            continue;
        double xi = host->slowdown(host->arg, mine->app, other->app);
        if (xi > 1 && xi < 1e3)
            lost += both_s * (1 - 1 / xi);
    }
    return lost;
}

static const double LEAST_S = 0.001; /* of an attempt that was done */

struct adding {
    struct trace *trace;
    const struct live_job *job;
    struct past *past;
};

/* Until its steps take their usual time. */
static double start_of(const struct adding *adding,
                       const struct store_attempt *attempt)
{
    const char *app = adding->job->ask.app;
    double start_s = attempt->first_step_s > 0
                         ? attempt->first_step_s
                         : cost_of(adding->trace, app, LIVECOST_START);
    return start_s + cost_of(adding->trace, app, LIVECOST_FIRST);
}

/* A job that was done held its GPUs for some time behind its last step. */
static double end_of(const struct adding *adding,
                     const struct store_attempt *attempt)
{
    return attempt->end == FIRN_END_DONE
               ? cost_of(adding->trace, adding->job->ask.app, LIVECOST_END)
               : 0;
}

static bool read_shared(const struct adding *adding,
                        const struct store_attempt *attempt, struct shared *out)
{
    *out = (struct shared){
        .job = adding->job->id,
        .app = adding->job->ask.app,
        .began_s = attempt->started_s + start_of(adding, attempt),
        .last_s = attempt->ended_s - end_of(adding, attempt)};
    return attempt->end >= 0 && attempt->held != NULL &&
           recover_alloc(attempt->held, &out->held);
}

static bool add_shared(void *arg, const struct store_attempt *attempt)
{
    const struct adding *adding = arg;
    struct shared shared;
    if (!read_shared(adding, attempt, &shared))
        return true;
    shared.app = arena_strdup(&adding->trace->arena, shared.app);
    if (shared.held.is_shared && shared.last_s > shared.began_s)
        vec_add(&adding->trace->shared, shared);
    else
        mem_free(shared.held.parts);
    return true;
}

static bool add_attempt(void *arg, const struct store_attempt *attempt)
{
    const struct adding *adding = arg;
    const struct trace *trace = adding->trace;
    double ran_s = attempt->ended_s - attempt->started_s;
    struct shared mine;
    if (attempt->end < 0)
        return true;
    if (attempt->end == FIRN_END_DONE) /* Slurm counts whole seconds */
        ran_s = fmax(ran_s, LEAST_S);
    if (trace->has_costs && read_shared(adding, attempt, &mine)) {
        double trained_s = attempt->ended_s - mine.began_s;
        if (mine.held.is_shared)
            trained_s -= lost_s(trace, &mine);
        ran_s = fmax(trained_s, 0.05 * ran_s);
        mem_free(mine.held.parts);
    }
    past_add(adding->past, attempt->held, ran_s);
    return true;
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
    size_t n = strlen(job->ask.name) + 16;
    char *name = arena_alloc(&trace->arena, n);
    snprintf(name, n, "%d-%s", job->id, job->ask.name);
    spec.name = name;
    spec.app = arena_strdup(&trace->arena, spec.app);
    spec.group = arena_strdup(&trace->arena, spec.group);
    spec.types = arena_strdup(&trace->arena, spec.types);
    spec.is_nominal = false; /* it was seen */
    past_spec(past, &spec);
    double start_s = cost_of(trace, spec.app, LIVECOST_START);
    if (trace->has_costs && start_s > 0)
        spec.restart_s = start_s + cost_of(trace, spec.app, LIVECOST_FIRST);
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
        struct adding adding = {trace, job, &past};
        trace->status = store_each_attempt(trace->store, job->id, add_attempt,
                                           &adding, &trace->err);
        if (trace->status == FIRN_OK && past.starts.n > 0)
            add_spec(trace, job, &past);
    }
    past_release(&past);
    live_job_free(job);
    return trace->status == FIRN_OK;
}

static bool add_sharer(void *arg, struct live_job *job)
{
    struct trace *trace = arg;
    struct adding adding = {trace, job, NULL};
    if (job->attempt > 0)
        trace->status = store_each_attempt(trace->store, job->id, add_shared,
                                           &adding, &trace->err);
    live_job_free(job);
    return trace->status == FIRN_OK;
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
    struct trace trace = {.store = call->api->host.store,
                          .host = &call->api->host};
    struct firn_buf out = {0};
    int64_t since, has_costs;
    size_t nbad;
    if (!api_query_int(call, "since", INT64_MAX, 0, &since) ||
        !api_query_int(call, "costs", 1, 0, &has_costs))
        return;
    trace.has_costs = has_costs != 0;
    trace.since_s = (double)since;
    open_cluster(&trace, &call->api->host);
    enum firn_status status = FIRN_OK;
    if (trace.has_costs)
        status = store_each_job(trace.store, true, add_sharer, &trace, &nbad,
                                &trace.err);
    if (status == FIRN_OK)
        status = store_each_job(trace.store, true, add_job, &trace, &nbad,
                                &trace.err);
    if (status == FIRN_OK)
        status = trace.status;
    if (status == FIRN_OK) {
        unsigned mask = 0;
        for (size_t i = 0; i < trace.specs.n; i++)
            mask |= write_mask(&trace.specs.at[i]);
        write_header(&out, mask);
        for (size_t i = 0; i < trace.specs.n; i++)
            write_row(&out, &trace.specs.at[i], mask);
        api_reply_as(call, 200, "text/csv; charset=utf-8", &out);
    } else {
        api_fail(call, &trace.err);
    }
    firn_cluster_release(&trace.cluster);
    vec_release(&trace.specs);
    for (size_t i = 0; i < trace.shared.n; i++)
        mem_free(trace.shared.at[i].held.parts);
    vec_release(&trace.shared);
    arena_release(&trace.arena);
}
