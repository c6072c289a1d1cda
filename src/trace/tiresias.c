/* tiresias.c - the 60-job trace of the Tiresias simulator (NSDI 2019).
 *
 *     job_id,num_gpu,submit_time,iterations,model_name,duration,interval
 *
 * Seconds. Iterations and interval are passed over. Muri's files have these
 * columns and more, in milliseconds; `iteration_time` tells them apart.
 */
#include "trace/row.h"

enum { JOB_ID, GPUS, SUBMIT, MODEL, DURATION };
static const char *const columns[] = {"job_id",     "num_gpu",  "submit_time",
                                      "model_name", "duration", NULL};
static const char *const needs[] = {"job_id",     "num_gpu",    "submit_time",
                                    "iterations", "model_name", "duration",
                                    "interval",   NULL};
static const char *const lacks[] = {"iteration_time", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, lacks);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, 5, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    static const struct row_basics at = {JOB_ID, SUBMIT, GPUS, DURATION};
    enum firn_row got = row_basics(state, in, &at, out, err);
    if (got == FIRN_ROW_JOB)
        out->app = row_text(state, MODEL);
    return got;
}

const struct firn_trace_def firn_trace_tiresias = {
    .name = "tiresias",
    .summary = "Tiresias simulator input, in seconds",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
