/* titan.c - fine-tuning workloads of the Titan / Ymir simulator.
 *
 *     name,submission_time,application,num_gpus,target_batch_size,
 *     target_lr,target_gradient_steps,target_metric
 *
 * Seconds. An application is model@dataset. The file has no durations: work
 * comes from nominal.def in seconds of one V100, over num_gpus. In the
 * published files every job of an application has the same target, so one
 * number per application is exact up to scaling; target_lr,
 * target_gradient_steps and target_metric are passed over.
 */
#include "trace/nominal.h"
#include "trace/row.h"

enum { NAME, TIME, APP, GPUS, BATCH };
static const char *const columns[] = {
    "name",     "submission_time",   "application",
    "num_gpus", "target_batch_size", NULL};

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
    const struct nominal *work = nominal_find("titan", spec.app, "v100");
    if (!nominal_fill("titan", work, 1, &spec, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_titan = {
    .name = "titan",
    .summary = "Titan and Ymir fine-tuning; nominal durations on V100",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
