/* nominal.c - the table of nominal.def, and the sentence for a name that it
 * lacks.
 *
 * Linear search: the longest list has some forty names, and a workload a
 * thousand rows.
 */
#include "trace/nominal.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

static const struct nominal table[] = {
#define NOMINAL(format, app, gpu, gpu_s, restart_s) \
    {#format, app, gpu, gpu_s, restart_s},
#include "trace/nominal.def"
#undef NOMINAL
};

enum { NTABLE = sizeof table / sizeof *table };

const struct nominal *nominal_find(const char *format, const char *app,
                                   const char *gpu)
{
    for (int i = 0; i < NTABLE; i++)
        if (strcmp(table[i].app, app) == 0 &&
            strcmp(table[i].format, format) == 0 &&
            str_equal_nocase(table[i].gpu, gpu))
            return &table[i];
    return NULL;
}

static void unknown(const char *format, const char *app, struct firn_error *err)
{
    char known[FIRN_ERROR_TEXT] = "";
    size_t n = 0;
    const char *last = "";
    for (int i = 0; i < NTABLE; i++) {
        if (strcmp(table[i].format, format) != 0 ||
            strcmp(table[i].app, last) == 0)
            continue;
        last = table[i].app;
        size_t room = sizeof known - n;
        int wrote = snprintf(known + n, room, "%s%s", n > 0 ? ", " : "", last);
        if (wrote < 0 || (size_t)wrote >= room)
            break;
        n += (size_t)wrote;
    }
    known[n] = '\0';
    firn_fail(err, FIRN_EINVAL, "no application '%.40s'; known: %s", app,
              known);
}

bool nominal_fill(const char *format, const struct nominal *work, double times,
                  struct firn_job_spec *spec, struct firn_error *err)
{
    if (work == NULL) {
        unknown(format, spec->app, err);
        return false;
    }
    spec->duration_s = times * work->gpu_s / spec->gpus;
    spec->restart_s = work->restart_s;
    spec->is_nominal = true;
    return true;
}

enum firn_row nominal_row(struct row *row, struct lines *in, const char *format,
                          const char *gpu, struct firn_job_spec *out,
                          struct firn_error *err)
{
    enum { NAME, TIME, APP, GPUS, BATCH };
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, NAME, &spec.name, err) ||
        !row_time(row, TIME, &spec.submit_s, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        !row_int(row, BATCH, 1, ROW_NUMBER_MAX, &spec.batch, err))
        return FIRN_ROW_BAD;
    spec.gpus_min = 1;
    if (spec.gpus_max < NOMINAL_GPUS_MAX)
        spec.gpus_max = NOMINAL_GPUS_MAX;
    spec.app = row_text(row, APP);
    const struct nominal *work = nominal_find(format, spec.app, gpu);
    if (!nominal_fill(format, work, 1, &spec, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}
