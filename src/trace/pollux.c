/* pollux.c - workloads of Pollux (OSDI 2021) and Sia (SOSP 2023).
 *
 *     name,time,application,num_replicas,batch_size
 *
 * Seconds. The file has no durations: a job's work is its application's, from
 * nominal.def in seconds of one T4, over num_replicas. That is the user's
 * request; the authors' elastic policies choose GPUs and batch themselves, so
 * these are the same jobs but not the same run times. The job is a gang here.
 */
#include "trace/nominal.h"
#include "trace/row.h"

enum { NAME, TIME, APP, GPUS, BATCH };
static const char *const columns[] = {
    "name", "time", "application", "num_replicas", "batch_size", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, columns, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, 5, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, NAME, &spec.name, err) ||
        !row_time(row, TIME, &spec.submit_s, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        !row_int(row, BATCH, 1, ROW_NUMBER_MAX, &spec.batch, err))
        return FIRN_ROW_BAD;
    spec.app = row_text(row, APP);
    const struct nominal *work = nominal_find("pollux", spec.app, "t4");
    if (!nominal_fill("pollux", work, 1, &spec, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_pollux = {
    .name = "pollux",
    .summary = "Pollux and Sia workloads; nominal durations on T4",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
