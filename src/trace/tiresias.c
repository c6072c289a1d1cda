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
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, JOB_ID, &spec.name, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        !row_time(row, SUBMIT, &spec.submit_s, err) ||
        !row_span(row, DURATION, &spec.duration_s, err))
        return FIRN_ROW_BAD;
    spec.app = row_text(row, MODEL);
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_tiresias = {
    .name = "tiresias",
    .summary = "Tiresias simulator input, in seconds",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
