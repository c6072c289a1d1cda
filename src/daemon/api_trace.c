/* api_trace.c - the daemon's history as a trace that the simulator reads.
 *
 * A row for each job that is over and has held GPUs: what its user asked for,
 * when it came (counted from the first of them), and how long it ran. A job
 * that ran on several sets of GPUs has `gpus` of its last start, and as its
 * duration all its GPU-seconds over that many: as if it scaled perfectly,
 * which is what the simulator assumes of jobs it has no profile of. A name is
 * given its job's number, for names in a trace are unique.
 *
 * `since` leaves out jobs that came before, in seconds since 1970.
 */
#include "base/arena.h"
#include "base/buf.h"
#include "daemon/apiwork.h"
#include "daemon/jobfile.h"
#include "trace/write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPUs in "n0[0-3] n7[1,3]~": six. */
static int count_gpus(const char *held)
{
    int n = 0;
    bool is_inside = false;
    for (const char *at = held; *at != '\0';) {
        if (*at == '[' || *at == ']')
            is_inside = *at == '[';
        if (!is_inside || *at < '0' || *at > '9') {
            at++;
            continue;
        }
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        n += (int)(last - first + 1);
        at = end;
    }
    return n;
}

struct past {
    double gpu_s;
    int gpus;
};

static bool add_epoch(void *arg, const struct store_epoch *epoch)
{
    struct past *past = arg;
    int gpus = epoch->held != NULL ? count_gpus(epoch->held) : 0;
    double ran_s = epoch->ended_s - epoch->started_s;
    if (gpus < 1 || epoch->end < 0 || !(ran_s > 0))
        return true;
    past->gpu_s += ran_s * gpus;
    past->gpus = gpus;
    return true;
}

struct trace {
    struct store *store;
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
    spec.seq = 0; /* its run time was seen; no shape is needed for it */
    spec.gpus = past->gpus;
    if (spec.gpus_min < 1 || spec.gpus_min > spec.gpus)
        spec.gpus_min = spec.gpus;
    if (spec.gpus_max < spec.gpus)
        spec.gpus_max = spec.gpus;
    spec.duration_s = past->gpu_s / past->gpus;
    vec_add(&trace->specs, spec);
}

static bool add_job(void *arg, struct live_job *job)
{
    struct trace *trace = arg;
    struct past past = {0};
    if (live_state_is_over(job->state) && job->epoch > 0 &&
        job->submitted_s >= trace->since_s) {
        trace->status = store_each_epoch(trace->store, job->id, add_epoch,
                                         &past, &trace->err);
        if (trace->status == FIRN_OK && past.gpus > 0)
            add_spec(trace, job, &past);
    }
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

void api_trace_get(struct api_call *call)
{
    struct trace trace = {.store = call->api->host.store};
    struct firn_buf out = {0};
    int64_t since;
    size_t nbad;
    if (!api_query_int(call, "since", INT64_MAX, 0, &since))
        return;
    trace.since_s = (double)since;
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
    vec_release(&trace.specs);
    arena_release(&trace.arena);
}
