/* titan.c - fine-tuning workloads of the Titan / Ymir simulator.
 *
 *     name,submission_time,application,num_gpus,target_batch_size,
 *     target_lr,target_gradient_steps,target_metric
 *
 * Seconds. An application is model@dataset. The file has no durations: work
 * comes from nominal.def in seconds of one V100, over num_gpus. In the
 * published files every job of an application has the same target, so one
 * number per application is exact up to scaling; target_lr,
 * target_gradient_steps and target_metric are passed over. All of them accept
 * to be trained together with another (Ymir).
 */
#include "trace/nominal.h"

/* In the order nominal_row() reads them. */
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
    return row_open(state, in, columns, NOMINAL_COLUMNS, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    enum firn_row got = nominal_row(state, in, "titan", "v100", out, err);
    if (got == FIRN_ROW_JOB)
        out->may_merge = true;
    return got;
}

const struct firn_trace_def firn_trace_titan = {
    .name = "titan",
    .summary = "Titan and Ymir fine-tuning; nominal durations on V100",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
