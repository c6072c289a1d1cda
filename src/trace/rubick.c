/* rubick.c - workloads of Rubick's artifact (MLSys 2025).
 *
 *     name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,
 *     exec_plan,steps,is_sla
 *
 * Seconds. A duration is that of the plan asked for on the GPUs asked for:
 * steps x the measured step (core/planjobs.c). The job may have any number of
 * GPUs from one to 64; policies that do not resize give it
 * num_gpus. A job without an SLA is best effort. An exec_plan is a word of
 * model/plantime.h; one that does not make num_gpus GPUs is a bad row. CPUs,
 * bandwidth and steps are passed over: GPUs are what firn divides.
 */
#include "core/planjobs.h"
#include "trace/row.h"
#include <string.h>

enum { NAME, SUBMIT, DURATION, APP, GPUS, PLAN, NEEDED, SLA = NEEDED };
enum { GPUS_MOST = 64 }; /* of the authors' cluster */

static const char *const needed[] = {
    "name",     "submission_time", "duration", "application",
    "num_gpus", "exec_plan",       NULL};
static const char *const columns[] = {
    "name",     "submission_time", "duration", "application",
    "num_gpus", "exec_plan",       "is_sla",   NULL};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needed, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    return row_open(state, in, columns, NEEDED, err);
}

static bool read_plan(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    struct exec_plan plan;
    const char *word = row_text(row, PLAN);
    if (!exec_plan_read(word, spec->gpus, &plan)) {
        firn_fail(err, FIRN_EINVAL,
                  "'exec_plan' is '%.40s', no plan for %d GPUs", word,
                  spec->gpus);
        return false;
    }
    spec->asked = planjobs_layout(&plan);
    if (plan_model_find(spec->app) == NULL) {
        firn_fail(err, FIRN_EINVAL,
                  "'application' is '%.40s', no model with measured plans",
                  spec->app);
        return false;
    }
    return true;
}

/* 1 or True, 0 or False as Python writes them; no SLA where the file has none.
 */
static bool read_sla(const struct row *row, struct firn_job_spec *spec,
                     struct firn_error *err)
{
    const char *word = row_text(row, SLA);
    bool is_sla = strcmp(word, "1") == 0 || strcmp(word, "True") == 0;
    spec->best_effort = !is_sla;
    if (is_sla || *word == '\0' || strcmp(word, "0") == 0 ||
        strcmp(word, "False") == 0)
        return true;
    firn_fail(err, FIRN_EINVAL, "'is_sla' is '%.40s': must be 0 or 1", word);
    return false;
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    const struct row_basics at = {NAME, SUBMIT, GPUS, DURATION};
    struct firn_job_spec spec;
    enum firn_row got = row_basics(row, in, &at, &spec, err);
    if (got != FIRN_ROW_JOB)
        return got;
    spec.app = row_text(row, APP);
    if (!read_sla(row, &spec, err) || !read_plan(row, &spec, err))
        return FIRN_ROW_BAD;
    spec.gpus_min = 1;
    spec.gpus_max = spec.gpus > GPUS_MOST ? spec.gpus : GPUS_MOST;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_rubick = {
    .name = "rubick",
    .summary = "Rubick's jobs with execution plans, steps and SLAs",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
