/* muri.c - traces of Muri (SIGCOMM 2022), and of SJF-BSBF, which grew from it.
 *
 *     job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,
 *     interval,iteration_time,resource_time_0..2,priority
 *
 * Milliseconds. `duration` is the job's recorded run time and `iterations` was
 * made from it: the whole iterations of `iteration_time` that fit. Then the
 * two agree to within one iteration, as in all of Muri's simulated traces, and
 * the recorded duration is taken. Where they do not agree, the iterations were
 * changed later (Muri's testbed trace measured iteration times anew; SJF-BSBF
 * cut or multiplied iterations, up to 157 times, and left the durations), and
 * as a job really runs iterations, its duration is iterations x
 * iteration_time.
 *
 * batch_size is the same for any number of GPUs, so it is read as that of one
 * GPU and the total batch is its product with num_gpu. The interval and the
 * stage times (loading, computing, communicating) are passed over.
 */
#include "trace/row.h"
#include <math.h>

enum {
    JOB_ID,
    GPUS,
    SUBMIT,
    ITERATIONS,
    MODEL,
    DURATION,
    ITERATION_MS,
    NEEDED,
    BATCH = NEEDED,
    PRIORITY
};
static const char *const columns[] = {
    "job_id",   "num_gpu",        "submit_time", "iterations", "model_name",
    "duration", "iteration_time", "batch_size",  "priority",   NULL};
static const char *const needs[] = {
    "job_id",     "num_gpu",  "submit_time",    "iterations",
    "model_name", "duration", "iteration_time", NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, NEEDED, err);
}

/* The rule above, in milliseconds. */
static bool read_duration(const struct row *row, double *out_ms,
                          struct firn_error *err)
{
    double recorded_ms = 0, iterations = 0, iteration_ms = 0;
    if (!row_span(row, DURATION, &recorded_ms, err) ||
        !row_time(row, ITERATIONS, &iterations, err) ||
        !row_span(row, ITERATION_MS, &iteration_ms, err))
        return false;
    double made_ms = iterations * iteration_ms;
    if (fabs(made_ms - recorded_ms) <= iteration_ms)
        made_ms = recorded_ms;
    if (!(made_ms > 0 && made_ms <= 1e15)) {
        firn_fail(err, FIRN_EINVAL,
                  "'iterations' x 'iteration_time' is %g ms: must be above 0, "
                  "to 1e15",
                  made_ms);
        return false;
    }
    *out_ms = made_ms;
    return true;
}

/* The optional columns. */
static bool read_rest(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    if (row_has(row, BATCH)) {
        if (!row_int(row, BATCH, 1, ROW_NUMBER_MAX, &spec->batch, err))
            return false;
        double total = (double)spec->batch * spec->gpus;
        spec->batch = total <= ROW_NUMBER_MAX ? (int)total : 0;
    }
    return !row_has(row, PRIORITY) ||
           row_int(row, PRIORITY, -ROW_NUMBER_MAX, ROW_NUMBER_MAX,
                   &spec->priority, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    double submit_ms = 0, duration_ms = 0;
    if (!row_name(row, JOB_ID, &spec.name, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        !row_time(row, SUBMIT, &submit_ms, err) ||
        !read_duration(row, &duration_ms, err) || !read_rest(row, &spec, err))
        return FIRN_ROW_BAD;
    spec.submit_s = submit_ms / 1000;
    spec.duration_s = duration_ms / 1000;
    spec.app = row_text(row, MODEL);
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_muri = {
    .name = "muri",
    .summary = "Muri and SJF-BSBF traces, in milliseconds",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
