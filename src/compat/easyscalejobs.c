/* easyscalejobs.c - rows, times and work, as the artifact takes them.
 *
 * A row is name, submission, application, maxP, batch of one worker, epochs,
 * whether it may mix GPU types (any number but 0: one row has 40) and the GPU
 * type it prefers. Its work is epochs x the application's samples. The table
 * is keyed by name (names): a later row replaces the earlier one but keeps its
 * place, so the published 68 rows are 62 jobs.
 *
 * The artifact's logs of mini-batch times are not public. In their place
 * time(b) = t x b / b0, with t and b0 from determinism_overhead.csv, column
 * ddp_determinism. The world easyscale-fitted draws a line through a second
 * point instead, and stretches all times (easyscale_fitted.c).
 *
 * Rows that the trace's reader refuses are left out and counted, as in any
 * run; the artifact would have stopped.
 */
#include "compat/easyscalejobs.h"
#include "base/str.h"
#include "compat/easyscalefit.h"
#include "model/sheet.h"
#include "trace/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

struct es_offer es_job_whole(const struct es_job *job)
{
    struct es_offer whole = {.speedup = 1};
    whole.gpus[job->preferred] = job->workers;
    whole.ests[job->preferred] = 1;
    return whole;
}

double es_job_pace(const struct es_job *job, const int ests[ES_TYPES])
{
    double iteration_s = 0;
    for (int i = 0; i < ES_TYPES; i++)
        iteration_s =
            fmax(iteration_s, es_batch_s(job->app, i, job->batch) * ests[i]);
    return (double)job->batch * job->workers / iteration_s;
}

/* ---- tables ---- */

static struct es_app *find_app(struct es_jobs *jobs, const char *name)
{
    if (str_equal_nocase(name, "NeuMF")) /* one table has the model's name */
        name = "ncf";
    for (int i = 0; i < jobs->napps; i++)
        if (str_equal_nocase(jobs->apps[i].name, name))
            return &jobs->apps[i];
    return NULL;
}

static int find_type(const char *name)
{
    for (int i = 0; i < ES_TYPES; i++)
        if (str_equal_nocase(es_type_names[i], name))
            return i;
    return -1;
}

static enum firn_status take_app(struct es_jobs *jobs,
                                 const struct sheet *sheet, size_t r,
                                 struct firn_error *err)
{
    int name = sheet_column(sheet, "application");
    double samples = sheet_number(sheet, r, sheet_column(sheet, "dataset_len"));
    if (name < 0 || !(samples > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "apps.csv: row %zu: needs application, and "
                         "dataset_len above 0",
                         r + 1);
    if (jobs->napps == ES_APPS_MAX)
        return firn_fail(err, FIRN_EINVAL,
                         "apps.csv: row %zu: more than %d applications", r + 1,
                         ES_APPS_MAX);
    struct es_app *app = &jobs->apps[jobs->napps++];
    *app = (struct es_app){.samples = samples, .slope = 1};
    str_copy(app->name, sizeof app->name, sheet_text(sheet, r, name));
    return FIRN_OK;
}

static enum firn_status take_time(struct es_jobs *jobs,
                                  const struct sheet *sheet, size_t r,
                                  struct firn_error *err)
{
    int model = sheet_column(sheet, "model"), gpu = sheet_column(sheet, "gpu");
    double batch = sheet_number(sheet, r, sheet_column(sheet, "bs"));
    double time_s =
        sheet_number(sheet, r, sheet_column(sheet, "ddp_determinism"));
    if (model < 0 || gpu < 0 || !(batch > 0) || !(time_s > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "determinism_overhead.csv: row %zu: needs model, gpu, "
                         "and bs and ddp_determinism above 0",
                         r + 1);
    struct es_app *app = find_app(jobs, sheet_text(sheet, r, model));
    int type = find_type(sheet_text(sheet, r, gpu));
    if (app != NULL && type >= 0) {
        app->batch[type] = batch;
        app->batch_s[type] = time_s;
    }
    return FIRN_OK;
}

/* A second point of each application: the published time of its largest batch
 * on a V100. The other types are as much slower there as at the first. */
static enum firn_status take_slope(struct es_jobs *jobs,
                                   const struct sheet *sheet, size_t r,
                                   struct firn_error *err)
{
    int model = sheet_column(sheet, "model");
    double time_s = sheet_number(sheet, r, sheet_column(sheet, "disable"));
    if (model < 0 || !(time_s > 0))
        return firn_fail(err, FIRN_EINVAL,
                         "context_switch.csv: row %zu: needs model, and "
                         "disable above 0",
                         r + 1);
    struct es_app *app = find_app(jobs, sheet_text(sheet, r, model));
    if (app != NULL)
        app->slope =
            es_fit_slope(app->name, app->batch[0], app->batch_s[0], time_s);
    return FIRN_OK;
}

static enum firn_status
read_rows(struct es_jobs *jobs, const char *folder, const char *name,
          enum firn_status (*take)(struct es_jobs *, const struct sheet *,
                                   size_t, struct firn_error *),
          struct firn_error *err)
{
    char path[PATH_BYTES];
    struct sheet sheet;
    int n = snprintf(path, sizeof path, "%s/easyscale/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return firn_fail(err, FIRN_EINVAL, "the path of %s is too long", name);
    enum firn_status status = sheet_read(&sheet, path, err);
    FIRN_TRY(status);
    for (size_t r = 0; r < sheet.nrows && status == FIRN_OK; r++)
        status = take(jobs, &sheet, r, err);
    sheet_release(&sheet);
    return status;
}

static enum firn_status read_apps(struct es_jobs *jobs, const char *folder,
                                  bool is_fitted, struct firn_error *err)
{
    const char *times = "determinism_overhead.csv";
    FIRN_TRY(read_rows(jobs, folder, "apps.csv", take_app, err));
    FIRN_TRY(read_rows(jobs, folder, times, take_time, err));
    for (int a = 0; a < jobs->napps; a++)
        for (int i = 0; i < ES_TYPES; i++)
            if (!(jobs->apps[a].batch_s[i] > 0))
                return firn_fail(err, FIRN_EINVAL,
                                 "%s: has no time of %s on %s", times,
                                 jobs->apps[a].name, es_type_names[i]);
    if (!is_fitted)
        return FIRN_OK;
    FIRN_TRY(read_rows(jobs, folder, "context_switch.csv", take_slope, err));
    for (int a = 0; a < jobs->napps; a++)
        for (int i = 0; i < ES_TYPES; i++)
            jobs->apps[a].batch_s[i] *= es_fit_scale;
    return FIRN_OK;
}

/* ---- rows ---- */

static enum firn_status unknown_app(const struct es_jobs *jobs,
                                    const struct firn_job_spec *spec,
                                    struct firn_error *err)
{
    char known[FIRN_ERROR_TEXT / 2] = "";
    size_t n = 0;
    for (int i = 0; i < jobs->napps; i++)
        if (n + sizeof jobs->apps[i].name + 2 < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
                                  i > 0 ? ", " : "", jobs->apps[i].name);
    return firn_fail(err, FIRN_EINVAL,
                     "no times of application '%.40s'; there are those of %s",
                     spec->app, known);
}

/* Columns that are not in struct firn_job_spec. */
enum { EPOCHS, MIXES, PREFERRED, NCOLUMNS };
static const char *const columns[] = {
    "epochs", "enable_heterogeneous_deterministic", "preferred_gpu", NULL};

static enum firn_status finish_job(struct es_jobs *jobs, struct es_job *job,
                                   const struct row *row,
                                   struct firn_error *err)
{
    double epochs = 0, mixes = 0;
    job->app = find_app(jobs, job->spec.app);
    job->preferred = find_type(row_text(row, PREFERRED));
    job->workers = job->spec.gpus;
    job->batch = job->spec.batch / job->spec.gpus;
    if (job->app == NULL)
        return unknown_app(jobs, &job->spec, err);
    if (job->preferred < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "'preferred_gpu' is '%.40s': must be v100, p100 or t4",
                         row_text(row, PREFERRED));
    if (job->workers > ES_GPUS || job->batch < 1)
        return firn_fail(err, FIRN_EINVAL,
                         "%d workers of batch %d; the artifact has %d GPUs",
                         job->workers, job->batch, ES_GPUS);
    if (!row_span(row, EPOCHS, &epochs, err) ||
        !row_number(row, MIXES, -1e9, 1e9, &mixes, err))
        return FIRN_EINVAL;
    job->mixes = mixes != 0;
    job->samples = epochs * job->app->samples;
    struct es_offer whole = es_job_whole(job);
    job->spec.duration_s = job->samples / es_job_pace(job, whole.ests);
    return FIRN_OK;
}

static int by_line(const void *a, const void *b)
{
    const struct es_job *x = a, *y = b;
    return (x->spec.line > y->spec.line) - (x->spec.line < y->spec.line);
}

static int by_submit(const void *a, const void *b)
{
    const struct es_job *x = a, *y = b;
    int order = firn_cmp(x->spec.submit_s, y->spec.submit_s);
    return order ? order : by_line(a, b);
}

/* The rows that can be read, in the order of the file. */
static enum firn_status read_trace(struct es_jobs *jobs,
                                   struct firn_trace *trace, const char *path,
                                   struct firn_error *err)
{
    struct firn_job_spec spec;
    struct firn_error failed = {0};
    const char *format = firn_trace_format(trace)->name;
    if (strcmp(format, "easyscale") != 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: a workload of format %s; EasyScale's simulator "
                         "reads those of format easyscale",
                         path, format);
    while (firn_trace_next(trace, &spec, &failed)) {
        struct es_job job = {.spec = spec};
        job.spec.name = arena_strdup(&jobs->text, spec.name);
        job.spec.app = arena_strdup(&jobs->text, spec.app);
        job.spec.group = job.spec.types = "";
        job.spec.restart_s = 0;
        job.spec.is_nominal = false;
        vec_add(&jobs->list, job);
    }
    if (failed.status != FIRN_OK)
        return firn_fail(err, failed.status, "%s", failed.text);
    if (jobs->list.n == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: not one job that can run; the first bad row: %s",
                         path, firn_trace_report(trace)->first_bad[0]);
    qsort(jobs->list.at, jobs->list.n, sizeof *jobs->list.at, by_line);
    return FIRN_OK;
}

/* The other columns, line by line. */
static enum firn_status read_columns(struct es_jobs *jobs, const char *path,
                                     struct firn_error *err)
{
    struct row row = {0};
    struct lines *in;
    struct firn_error bad = {0};
    size_t i = 0;
    FIRN_TRY(lines_open(&in, path, err));
    enum firn_status status = row_open(&row, in, columns, NCOLUMNS, &bad);
    while (status == FIRN_OK && i < jobs->list.n &&
           row_next(&row, in, NULL) != FIRN_ROW_END)
        if (lines_number(in) == jobs->list.at[i].spec.line)
            status = finish_job(jobs, &jobs->list.at[i++], &row, &bad);
    if (status == FIRN_OK && i < jobs->list.n)
        status = firn_fail(&bad, FIRN_EIO, "the file has changed");
    if (status != FIRN_OK)
        firn_fail(err, status, "%s: line %ld: %s", path, lines_number(in),
                  bad.text);
    lines_close(in);
    return status;
}

/* A later row takes the place of an earlier one of its name (names). */
static void replace_names(struct es_jobs *jobs)
{
    struct es_job *at = jobs->list.at;
    size_t n = 0;
    for (size_t i = 0; i < jobs->list.n; i++) {
        struct es_job job = at[i];
        size_t j = 0;
        while (j < n && strcmp(at[j].spec.name, job.spec.name) != 0)
            j++;
        if (j < n)
            job.spec.line = at[j].spec.line;
        at[j] = job;
        n += j == n;
    }
    jobs->list.n = n;
}

enum firn_status es_jobs_read(struct es_jobs *out, struct firn_trace **trace,
                              const struct firn_sim_options *options,
                              struct firn_error *err)
{
    struct firn_trace_options reading = {.strict = options->strict};
    FIRN_TRY(read_apps(out, options->profiles,
                       options->world == &compat_easyscale_fitted, err));
    FIRN_TRY(firn_trace_open(trace, options->trace, &reading, err));
    FIRN_TRY(read_trace(out, *trace, options->trace, err));
    FIRN_TRY(read_columns(out, options->trace, err));
    replace_names(out);
    qsort(out->list.at, out->list.n, sizeof *out->list.at, by_submit);
    return FIRN_OK;
}

void es_jobs_release(struct es_jobs *jobs)
{
    vec_release(&jobs->list);
    arena_release(&jobs->text);
}
