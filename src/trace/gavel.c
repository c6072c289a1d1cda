/* gavel.c - traces of Gavel (OSDI 2020): models and steps.
 *
 *     vc,job,model,total_steps,arrival_s,num_gpus
 *     trace,job,model,total_steps,num_gpus,priority,slo,arrival_s
 *
 * Both kinds hold several traces in one file, told apart by `vc` (a Philly
 * virtual cluster) or `trace`; that becomes the group, so "file#group" reads
 * one. Jobs are numbered from 0 in each, so a job's name is group/number.
 *
 * A duration is total_steps over the measured steps per second of the model on
 * that many V100s in one server (gavel.def). Measured counts are 1, 2, 4 and
 * 8, and 1 only for three models; for another count the rate of the next
 * smaller measured one is taken, so such durations are upper bounds. It is an
 * estimate from the model's name, hence `is_nominal`. The number in the
 * model's name is its batch for each GPU. The deadline (slo) is passed over.
 */
#include "base/str.h"
#include "trace/row.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB, MODEL, STEPS, ARRIVAL, GPUS, NEEDED, VC = NEEDED, TRACE, PRIORITY };
static const char *const columns[] = {"job",       "model",    "total_steps",
                                      "arrival_s", "num_gpus", "vc",
                                      "trace",     "priority", NULL};
static const char *const needs[] = {"job",       "model",    "total_steps",
                                    "arrival_s", "num_gpus", NULL};

enum { COUNTS = 4 }; /* 1, 2, 4, 8 GPUs */

static const struct rate {
    const char *model;
    double steps_s[COUNTS]; /* on 1 << i GPUs; 0: not measured */
} rates[] = {
#define GAVEL(model, on1, on2, on4, on8) {model, {on1, on2, on4, on8}},
#include "trace/gavel.def"
#undef GAVEL
};

struct gavel {
    struct row row;
    char name[128];
};

static bool sniff(struct firn_bytes head)
{
    return row_sniff(head, needs, NULL);
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    struct gavel *gavel = state;
    return row_open(&gavel->row, in, columns, NEEDED, err);
}

/* Steps per second of a model on that many GPUs; 0 when it is not known. */
static double find_rate(const char *model, int gpus)
{
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (strcmp(rates[i].model, model) != 0)
            continue;
        double steps_s = 0;
        for (int k = 0; k < COUNTS && 1 << k <= gpus; k++)
            if (rates[i].steps_s[k] > 0)
                steps_s = rates[i].steps_s[k];
        return steps_s;
    }
    return 0;
}

/* "LM (batch size 80)" on 2 GPUs: 160. 0 for a name without a number. */
static int find_batch(const char *model, int gpus)
{
    static const char mark[] = "(batch size ";
    const char *at = strstr(model, mark);
    if (at == NULL)
        return 0;
    double total = (double)strtol(at + sizeof mark - 1, NULL, 10) * gpus;
    return total <= ROW_NUMBER_MAX ? (int)total : 0;
}

static void unknown(const char *model, struct firn_error *err)
{
    char known[FIRN_ERROR_TEXT] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        size_t room = sizeof known - n;
        int wrote = snprintf(known + n, room, "%s%s", n > 0 ? ", " : "",
                             rates[i].model);
        if (wrote < 0 || (size_t)wrote >= room)
            break;
        n += (size_t)wrote;
    }
    known[n] = '\0';
    firn_fail(err, FIRN_EINVAL, "no model '%.40s'; known: %s", model, known);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct gavel *gavel = state;
    const struct row *row = &gavel->row;
    enum firn_row got = row_next(&gavel->row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    double steps = 0;
    const char *job = NULL;
    if (!row_name(row, JOB, &job, err) || !row_span(row, STEPS, &steps, err) ||
        !row_time(row, ARRIVAL, &spec.submit_s, err) ||
        !row_gang(row, GPUS, &spec, err) ||
        (row_has(row, PRIORITY) &&
         !row_int(row, PRIORITY, -ROW_NUMBER_MAX, ROW_NUMBER_MAX,
                  &spec.priority, err)))
        return FIRN_ROW_BAD;
    spec.app = row_text(row, MODEL);
    double steps_s = find_rate(spec.app, spec.gpus);
    if (!(steps_s > 0)) {
        unknown(spec.app, err);
        return FIRN_ROW_BAD;
    }
    spec.group = row_text(row, row_has(row, VC) ? VC : TRACE);
    snprintf(gavel->name, sizeof gavel->name, "%.60s%s%.60s", spec.group,
             *spec.group != '\0' ? "/" : "", job);
    spec.name = gavel->name;
    spec.duration_s = steps / steps_s;
    spec.batch = find_batch(spec.app, spec.gpus);
    spec.is_nominal = true;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_gavel = {
    .name = "gavel",
    .summary = "Gavel traces; durations from steps on V100; groups",
    .state_size = sizeof(struct gavel),
    .sniff = sniff,
    .open = open,
    .next = next,
};
