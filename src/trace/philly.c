/* philly.c - the Microsoft Philly trace, as processed by the Pollux authors.
 *
 *     job_id,submit_s,duration_s,num_gpus,vc
 *
 * Seconds since the start of the trace; `vc`, the virtual cluster, becomes the
 * job's group and may be absent. Jeon et al., "Analysis of large-scale
 * multi-tenant GPU clusters for DNN training workloads", ATC 2019.
 */
#include "trace/row.h"

enum { JOB_ID, SUBMIT, DURATION, GPUS, NEEDED, VC = NEEDED };
static const char *const columns[] = {"job_id",   "submit_s", "duration_s",
                                      "num_gpus", "vc",       NULL};
static const char *const needs[] = {"job_id", "submit_s", "duration_s",
                                    "num_gpus", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, NEEDED, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    static const struct row_basics at = {JOB_ID, SUBMIT, GPUS, DURATION};
    enum firn_row got = row_basics(state, in, &at, out, err);
    if (got == FIRN_ROW_JOB)
        out->group = row_text(state, VC);
    return got;
}

const struct firn_trace_def firn_trace_philly = {
    .name = "philly",
    .summary = "Microsoft Philly jobs; groups are virtual clusters",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
