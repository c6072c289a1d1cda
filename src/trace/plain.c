/* plain.c - the plainest trace: number, time, GPUs, duration.
 *
 *     job_id,submit_time,num_gpus,duration
 *
 * Seconds throughout. This is what one writes by hand or with a script; the
 * job is a gang. Further columns are passed over.
 */
#include "trace/row.h"

enum { JOB_ID, SUBMIT, GPUS, DURATION };
static const char *const columns[] = {"job_id", "submit_time", "num_gpus",
                                      "duration", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, columns, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, 4, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, JOB_ID, &spec.name, err) ||
        !row_time(row, SUBMIT, &spec.submit_s, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        !row_span(row, DURATION, &spec.duration_s, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_plain = {
    .name = "plain",
    .summary = "job_id,submit_time,num_gpus,duration in seconds",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
