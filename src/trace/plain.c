/* plain.c - the plainest trace: number, time, GPUs, duration.
 *
 *     job_id,submit_time,num_gpus,duration
 *
 * Seconds throughout. For traces written by hand or by a script. Each job is a
 * gang; further columns are ignored.
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
    static const struct row_basics at = {JOB_ID, SUBMIT, GPUS, DURATION};
    return row_basics(state, in, &at, out, err);
}

const struct firn_trace_def firn_trace_plain = {
    .name = "plain",
    .summary = "job_id,submit_time,num_gpus,duration in seconds",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
