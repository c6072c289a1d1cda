/* firn.c - firn's own CSV, as `firn trace convert` and `gen` write it.
 *
 *     #firn-trace 1
 *     name,submit_s,gpus,duration_s[,gpus_min][,gpus_max][,app][,group]
 *     [,batch][,priority][,mem_gib][,types][,may_share][,restart_s][,nominal]
 *     [,seq][,may_merge][,frozen_max][,threads][,one_type]
 *     [,best_effort][,precision][,optimizer][,attention][,checkpointing]
 *     [,plan]
 *
 * The first line says format and version. Columns may come in any order; the
 * first four are needed, any other may be missing, and a field of theirs may be
 * empty: both mean the default (gpus_min and gpus_max: gpus; texts: empty;
 * numbers: 0; restart_s: -1, the simulation's). A column with another name is
 * an error, as it would be a mistyped one. A job with `seq` is a language
 * model: its app is a shape of firn/llm.h or a model of firn/arch.h, it has a
 * batch, and `gpus` may be 0: the user named no number. Lines that begin with
 * '#' are comments. write.c writes it; docs/trace-formats.md is the manual.
 */
#include "base/str.h"
#include "core/planjobs.h"
#include "trace/row.h"
#include "trace/write.h"
#include <firn/peak.h>
#include <string.h>

static const char *const columns[] = {
#define X(id, name) name,
    WRITE_COLUMNS(X)
#undef X
        NULL};

static const char mark[] = "#firn-trace 1";

/* The first line, with or without a UTF-8 mark and white space behind. */
static bool is_mark(const char *line, size_t n)
{
    if (n >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        n -= 3;
    }
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\r'))
        n--;
    return n == sizeof mark - 1 && memcmp(line, mark, n) == 0;
}

static bool sniff(struct firn_bytes head)
{
    const char *end = head.n > 0 ? memchr(head.at, '\n', head.n) : NULL;
    return is_mark(head.at, end != NULL ? (size_t)(end - head.at) : head.n);
}

/* Every column of the header must be one of ours. */
static enum firn_status check_columns(const struct row *row,
                                      struct firn_error *err)
{
    for (int i = 0; i < row->ncolumns; i++) {
        int near = str_nearest(row->fields[i], columns, WRITE_NCOLUMNS);
        if (near >= 0 && strcmp(columns[near], row->fields[i]) == 0)
            continue;
        return firn_fail(err, FIRN_EINVAL,
                         "header: no column '%.40s' in this format%s%s",
                         row->fields[i], near >= 0 ? "; nearest is " : "",
                         near >= 0 ? columns[near] : "");
    }
    return FIRN_OK;
}

static enum firn_status open(void *state, struct lines *in,
                             struct firn_error *err)
{
    struct row *row = state;
    const char *line = lines_next(in);
    if (line == NULL || lines_bad(in) || !is_mark(line, strlen(line)))
        return firn_fail(err, FIRN_EINVAL, "the first line is not '%s'", mark);
    row->comment = '#';
    FIRN_TRY(row_open(row, in, columns, WRITE_NEEDED, err));
    return check_columns(row, err);
}

/* An optional whole number; `out` keeps its default when the field is empty. */
static bool maybe_int(const struct row *row, int column, int min, int max,
                      int *out, struct firn_error *err)
{
    return *row_text(row, column) == '\0' ||
           row_int(row, column, min, max, out, err);
}

static bool maybe_number(const struct row *row, int column, double min,
                         double *out, struct firn_error *err)
{
    return *row_text(row, column) == '\0' ||
           row_number(row, column, min, 1e15, out, err);
}

/* A share, to 1; 0 or nothing: no limit. */
static bool maybe_share(const struct row *row, int column, double *out,
                        struct firn_error *err)
{
    return *row_text(row, column) == '\0' ||
           row_number(row, column, 0, 1, out, err);
}

/* GPUs 0: of a language model only. */
static bool read_gang(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    int least = *row_text(row, WRITE_SEQ) == '\0' ? 1 : 0;
    if (!row_int(row, WRITE_GPUS, least, ROW_GPUS_MAX, &spec->gpus, err))
        return false;
    spec->gpus_min = spec->gpus_max = spec->gpus;
    return true;
}

static bool read_gpus(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    if (!read_gang(row, spec, err) ||
        !maybe_int(row, WRITE_MIN, 1, ROW_GPUS_MAX, &spec->gpus_min, err) ||
        !maybe_int(row, WRITE_MAX, 1, ROW_GPUS_MAX, &spec->gpus_max, err))
        return false;
    if (spec->gpus_min <= spec->gpus && spec->gpus <= spec->gpus_max)
        return true;
    firn_fail(err, FIRN_EINVAL, "'gpus' is %d, not within %d to %d", spec->gpus,
              spec->gpus_min, spec->gpus_max);
    return false;
}

static bool read_restart(const struct row *row, struct firn_job_spec *spec,
                         struct firn_error *err)
{
    if (!maybe_number(row, WRITE_RESTART, -1, &spec->restart_s, err))
        return false;
    if (spec->restart_s >= 0 || spec->restart_s <= -1)
        return true;
    firn_fail(err, FIRN_EINVAL, "'restart_s' is %g: must be -1, or from 0",
              spec->restart_s);
    return false;
}

/* How a language model is trained; the four columns are in the order of the
 * settings. */
static bool read_training(const struct row *row, struct firn_job_spec *spec,
                          struct firn_error *err)
{
    for (int i = 0; i < FIRN_TRAINING_COLUMNS; i++) {
        int column = WRITE_PRECISION + i;
        const char *word = row_text(row, column);
        if (firn_training_set(&spec->training, (enum firn_training_setting)i,
                              word))
            continue;
        firn_fail(err, FIRN_EINVAL,
                  "'%s' is '%.40s', which is none of its "
                  "values (docs/trace-formats.md)",
                  columns[column], word);
        return false;
    }
    return true;
}

/* A shape of firn/llm.h or a model of firn/arch.h, with sequences and a batch
 * that make sense. */
static bool is_model(const struct firn_job_spec *spec, struct firn_error *err)
{
    struct firn_memory_job job = {.seq = spec->seq, .micro_batch = spec->batch};
    struct firn_peak_job peak = {.seq = spec->seq, .micro_batch = spec->batch};
    if (firn_llm_find(&job.shape, spec->app, NULL) == FIRN_OK)
        return firn_memory_check(&job, err) == FIRN_OK;
    return firn_arch_find(&peak.arch, spec->app, err) == FIRN_OK &&
           firn_peak_check(&peak, err) == FIRN_OK;
}

/* A sequence: then it must be a language model that one can train. */
static bool read_seq(const struct row *row, struct firn_job_spec *spec,
                     struct firn_error *err)
{
    if (!maybe_int(row, WRITE_SEQ, 0, ROW_NUMBER_MAX, &spec->seq, err))
        return false;
    if (spec->seq == 0 && spec->gpus > 0)
        return true;
    struct firn_error why = {0};
    if (spec->seq == 0)
        firn_fail(err, FIRN_EINVAL, "'gpus' is 0 for no language model");
    else if (spec->batch < 1)
        firn_fail(err, FIRN_EINVAL, "'seq' is %d and there is no batch",
                  spec->seq);
    else if (!is_model(spec, &why))
        firn_fail(err, FIRN_EINVAL, "%s", why.text);
    else
        return true;
    return false;
}

/* The execution plan asked for, of as many GPUs as the job asks for. */
static bool read_plan(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    const char *word = row_text(row, WRITE_PLAN);
    struct exec_plan plan;
    if (*word == '\0')
        return true;
    if (!exec_plan_read(word, spec->gpus, &plan)) {
        firn_fail(err, FIRN_EINVAL, "'plan' is '%.40s', no plan for %d GPUs",
                  word, spec->gpus);
        return false;
    }
    spec->asked = planjobs_layout(&plan);
    return true;
}

static bool read_rest(const struct row *row, struct firn_job_spec *spec,
                      struct firn_error *err)
{
    int may_share = 0, may_merge = 0, is_nominal = 0, one_type = 0;
    int best_effort = 0;
    if (!maybe_int(row, WRITE_BATCH, 0, ROW_NUMBER_MAX, &spec->batch, err) ||
        !maybe_int(row, WRITE_PRIORITY, -ROW_NUMBER_MAX, ROW_NUMBER_MAX,
                   &spec->priority, err) ||
        !maybe_number(row, WRITE_MEM, 0, &spec->mem_gib, err) ||
        !maybe_int(row, WRITE_SHARE, 0, 1, &may_share, err) ||
        !maybe_int(row, WRITE_MERGE, 0, 1, &may_merge, err) ||
        !maybe_int(row, WRITE_NOMINAL, 0, 1, &is_nominal, err) ||
        !maybe_share(row, WRITE_FROZEN, &spec->frozen_max, err) ||
        !maybe_int(row, WRITE_THREADS, 0, ROW_GPUS_MAX, &spec->threads, err) ||
        !maybe_int(row, WRITE_ONE_TYPE, 0, 1, &one_type, err) ||
        !maybe_int(row, WRITE_EFFORT, 0, 1, &best_effort, err) ||
        !read_restart(row, spec, err))
        return false;
    spec->may_share = may_share != 0;
    spec->may_merge = may_merge != 0;
    spec->one_type = one_type != 0;
    spec->best_effort = best_effort != 0;
    spec->is_nominal = is_nominal != 0;
    spec->app = row_text(row, WRITE_APP);
    spec->group = row_text(row, WRITE_GROUP);
    spec->types = row_text(row, WRITE_TYPES);
    return read_training(row, spec, err) && read_seq(row, spec, err) &&
           read_plan(row, spec, err);
}

static enum firn_row next(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err)
{
    struct row *row = state;
    enum firn_row got = row_next(row, in, err);
    if (got != FIRN_ROW_JOB)
        return got;
    struct firn_job_spec spec = row_spec(in);
    if (!row_name(row, WRITE_NAME, &spec.name, err) ||
        !row_time(row, WRITE_SUBMIT, &spec.submit_s, err) ||
        !read_gpus(row, &spec, err) ||
        !row_span(row, WRITE_DURATION, &spec.duration_s, err) ||
        !read_rest(row, &spec, err))
        return FIRN_ROW_BAD;
    *out = spec;
    return FIRN_ROW_JOB;
}

const struct firn_trace_def firn_trace_firn = {
    .name = "firn",
    .summary = "firn's own CSV, written by trace convert and gen",
    .state_size = sizeof(struct row),
    .sniff = sniff,
    .open = open,
    .next = next,
};
