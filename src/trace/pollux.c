/* pollux.c - workloads of Pollux (OSDI 2021) and Sia (SOSP 2023).
 *
 *     name,time,application,num_replicas,batch_size
 *
 * Seconds. The file has no durations: a job's work is its application's, from
 * nominal.def in seconds of one T4, over num_replicas. That is the user's
 * request; the authors' elastic policies choose GPUs and batch themselves, so
 * these are the same jobs but not the same run times. The job is elastic, from
 * one GPU to 64; a policy that does not resize gives it num_replicas.
 */
#include "trace/nominal.h"

/* In the order nominal_row() reads them. */
static const char *const columns[] = {
    "name", "time", "application", "num_replicas", "batch_size", NULL};

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
    return nominal_row(state, in, "pollux", "t4", out, err);
}

const struct firn_trace_def firn_trace_pollux = {
    .name = "pollux",
    .summary = "Pollux and Sia workloads; nominal durations on T4",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
