/* chronus.c - Philly jobs annotated with models, of Chronus (SoCC 2021).
 *
 *     job_id,vc,num_gpu,submit_time,iterations,model_name,duration
 *
 * Minutes (the file's span of 20160 is 14 days). `vc` becomes the group. A row
 * with 0 GPUs ran on processors only and is ignored. The published file is not
 * in order of submission. Iterations are passed over.
 */
#include "trace/row.h"

enum { JOB_ID, VC, GPUS, SUBMIT, MODEL, DURATION };
static const char *const columns[] = {
    "job_id", "vc", "num_gpu", "submit_time", "model_name", "duration", NULL};
static const char *const needs[] = {"job_id",      "vc",         "num_gpu",
                                    "submit_time", "iterations", "model_name",
                                    "duration",    NULL};
static const char *const lacks[] = {"iteration_time", "interval", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, lacks);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, 6, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    double submit_min = 0, duration_min = 0;
    int gpus = 0;
    if (!row_name(row, JOB_ID, &spec.name, err) ||
        !row_int(row, GPUS, 0, ROW_GPUS_MAX, &gpus, err) ||
        !row_time(row, SUBMIT, &submit_min, err) ||
        !row_span(row, DURATION, &duration_min, err))
        return FIRN_ROW_BAD;
    if (gpus == 0)
        return FIRN_ROW_IGNORED;
    spec.gpus = spec.gpus_min = spec.gpus_max = gpus;
    spec.submit_s = submit_min * 60;
    spec.duration_s = duration_min * 60;
    spec.app = row_text(row, MODEL);
    spec.group = row_text(row, VC);
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_chronus = {
    .name = "chronus",
    .summary = "Philly jobs with models, in minutes; groups are VCs",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
