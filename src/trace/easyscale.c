/* easyscale.c - the elastic workload of EasyScale (SC 2023).
 *
 *     name,time,application,max_parallelism,batch_size,epochs,
 *     enable_heterogeneous_deterministic,preferred_gpu,<no name>
 *
 * Seconds; batch_size is that of one of max_parallelism workers, so the total
 * batch is their product. A job is elastic, from 1 GPU to max_parallelism, and
 * its duration refers to max_parallelism of them: epochs times the nominal
 * GPU-seconds of an epoch, over max_parallelism. (Mini-batch time is taken as
 * proportional to the batch, so the batch cancels.)
 *
 * The flag says whether the job's results are the same on any GPU type
 * (determinism level D2; one row has 40 there, which is yes). If so, or if the
 * file does not say, it accepts every type and its duration is that on V100s,
 * the reference of the published cluster. If not (0), it accepts the preferred
 * GPU only, and its duration is that on it; so a copy of the file with 0 in
 * all rows is the workload of a scheduler that honours preferences. The last
 * column is passed over. Names repeat in the published file; each row is a job
 * here.
 */
#include "trace/nominal.h"
#include "trace/row.h"

enum { NAME, TIME, APP, GPUS, BATCH, EPOCHS, GPU_TYPE, ANY_TYPE };
static const char *const columns[] = {"name",
                                      "time",
                                      "application",
                                      "max_parallelism",
                                      "batch_size",
                                      "epochs",
                                      "preferred_gpu",
                                      "enable_heterogeneous_deterministic",
                                      NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, columns, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, 7, err);
}

/* Fills app, types, duration and restart cost. */
static bool find_work(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    double epochs = 0;
    if (!row_span(row, EPOCHS, &epochs, err))
        return false;
    spec->app = row_text(row, APP);
    int any = 1;
    if (row_has(row, ANY_TYPE) &&
        !row_int(row, ANY_TYPE, 0, ROW_NUMBER_MAX, &any, err))
        return false;
    const char *gpu = row_text(row, GPU_TYPE);
    const struct nominal *work = nominal_find("easyscale", spec->app, gpu);
    if (work != NULL && any != 0)
        work = nominal_find("easyscale", spec->app, "v100");
    spec->types = any != 0 ? "" : gpu;
    if (work == NULL && nominal_find("easyscale", spec->app, "v100") != NULL) {
        firn_fail(err, FIRN_EINVAL,
                  "'preferred_gpu' is '%.40s': must be v100, p100 or t4", gpu);
        return false;
    }
    return nominal_fill("easyscale", work, epochs, spec, err);
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
        !row_int(row, BATCH, 1, ROW_NUMBER_MAX, &spec.batch, err) ||
        !find_work(row, &spec, err))
        return FIRN_ROW_BAD;
    spec.gpus_min = 1;
    double total = (double)spec.batch * spec.gpus;
    spec.batch = total <= ROW_NUMBER_MAX ? (int)total : 0;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_easyscale = {
    .name = "easyscale",
    .summary = "EasyScale's elastic jobs; nominal durations",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
