/* trace.c - reading a trace file: its format, the order of its rows, bad rows.
 *
 * Unless its caller trusts the order, opening makes one pass over the file to
 * see whether the jobs are in order of submission. Nearly all files are, and
 * are then streamed: memory is one line. A file that is not gets an index of
 * (submit, offset, line), 24 bytes a job, sorted by time and then line, and its
 * rows are sought one by one.
 *
 *     open --in order?--yes--> stream: next row, next row, ...
 *                    \--no---> index, sort --> seek, row, seek, row, ...
 *
 * (1) Jobs come out in ascending (submit_s, line), whatever the file.
 * (2) Each row is counted once: as job, ignored or bad. Of an indexed file the
 *     ignored and bad ones are counted while the index is made.
 * (3) A row is early when it was submitted before a row above it. When strict,
 *     the first early row or the first bad row, whichever comes first, ends
 *     the reading.
 * (4) Rows of other groups than the one asked for count nowhere and may be in
 *     any order. A bad row has no group: it counts.
 *
 * Cost: two passes (one when the order is trusted), some 10^6 rows a second a
 * pass; three and a sort when indexed.
 * It does not watch the file: one that changes while it is read gives bad rows
 * or too few of them.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/vec.h"
#include <firn/trace.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct entry {
    double submit_s;
    int64_t offset;
    long line;
};

enum { FIRST_BAD = 3, GROUPS_SHOWN = 8, GROUP_SHOWN_MAX = 32 };

struct firn_trace {
    char *path;
    char *group; /* NULL: all */
    bool strict, trusts_order;
    double latest_s; /* the last job's submission, when the order is trusted */
    struct lines *in;
    const struct firn_trace_def *def;
    void *state;
    int64_t rows_offset; /* where the rows begin, behind the header */
    long rows_line;
    bool is_indexed;
    VEC(struct entry) index;
    size_t at; /* next entry to read */
    struct firn_trace_report report;
};

/* What the first pass found. */
struct survey {
    long jobs, others; /* of the group; ignored and bad rows */
    bool has_early;
    double latest_s;
    long latest_line;
    char groups[GROUPS_SHOWN][GROUP_SHOWN_MAX];
    int ngroups;
};

static enum firn_status fail_at(const struct firn_trace *trace, long line,
                                struct firn_error *err, const char *sentence)
{
    return firn_fail(err, FIRN_EINVAL, "%s: line %ld: %s", trace->path, line,
                     sentence);
}

static bool is_wanted(const struct firn_trace *trace,
                      const struct firn_job_spec *spec)
{
    return trace->group == NULL || strcmp(trace->group, spec->group) == 0;
}

static enum firn_row next_row(struct firn_trace *trace,
                              struct firn_job_spec *out, struct firn_error *err)
{
    return trace->def->next(trace->state, trace->in, out, err);
}

/* Counts a bad row; the first few are kept with file and line. */
static void count_bad(struct firn_trace *trace, long line, const char *sentence)
{
    long n = trace->report.bad++;
    if (n >= FIRST_BAD)
        return;
    struct firn_error text;
    fail_at(trace, line, &text, sentence);
    memcpy(trace->report.first_bad[n], text.text, sizeof text.text);
}

/* Splits "path#group" unless there is a file of that whole name. */
static void split_path(struct firn_trace *trace, const char *path,
                       const struct firn_trace_options *options)
{
    struct stat facts;
    trace->path = mem_strdup(path);
    char *mark = strrchr(trace->path, '#');
    if (mark != NULL && mark[1] != '\0' && stat(path, &facts) != 0) {
        *mark = '\0';
        trace->group = mem_strdup(mark + 1);
    }
    if (options == NULL)
        return;
    trace->strict = options->strict;
    trace->trusts_order = options->trusts_order;
    if (options->group != NULL) {
        mem_free(trace->group);
        trace->group = mem_strdup(options->group);
    }
}

static enum firn_status open_file(struct firn_trace *trace,
                                  struct firn_error *err)
{
    struct stat facts;
    if (strcmp(trace->path, "-") == 0)
        return firn_fail(err, FIRN_EINVAL,
                         "-: a trace is read more than once, so it must be a "
                         "file");
    if (stat(trace->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return firn_fail(err, FIRN_EINVAL,
                         "%s: is a directory, not a trace file", trace->path);
    FIRN_TRY(lines_open(&trace->in, trace->path, err));
    if (lines_size(trace->in) < 0)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: a trace is read more than once, so it must be a "
                         "regular file",
                         trace->path);
    if (lines_size(trace->in) == 0)
        return firn_fail(err, FIRN_EINVAL, "%s: the file is empty",
                         trace->path);
    return FIRN_OK;
}

static enum firn_status no_format(const struct firn_trace *trace,
                                  const char *head, struct firn_error *err)
{
    char shown[81];
    size_t n = 0, nformats;
    for (; head[n] != '\0' && n < sizeof shown - 1; n++)
        shown[n] = head[n] >= ' ' && head[n] <= '~' ? head[n] : '?';
    shown[n] = '\0';
    const struct firn_trace_def *const *defs = firn_traces(&nformats);
    struct firn_buf names = {0};
    for (size_t i = 0; i < nformats; i++)
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", defs[i]->name);
    firn_fail(err, FIRN_EINVAL,
              "%s: no trace format knows this first line: '%s' (formats: %s)",
              trace->path, shown, names.at);
    buf_release(&names);
    return FIRN_EINVAL;
}

/* Finds the format by the first line, and lets it read the header. */
static enum firn_status open_format(struct firn_trace *trace,
                                    struct firn_error *err)
{
    size_t n;
    const struct firn_trace_def *const *defs = firn_traces(&n);
    const char *head = lines_next(trace->in);
    if (head == NULL || lines_bad(trace->in))
        return firn_fail(err, lines_failed(trace->in) ? FIRN_EIO : FIRN_EINVAL,
                         "%s: is not text: its first line has a NUL byte or "
                         "more than %d bytes",
                         trace->path, LINES_MAX);
    struct firn_bytes bytes = {head, strlen(head)};
    for (size_t i = 0; i < n && trace->def == NULL; i++)
        if (defs[i]->sniff(bytes))
            trace->def = defs[i];
    if (trace->def == NULL)
        return no_format(trace, head, err);
    trace->state = mem_new(1, trace->def->state_size);
    lines_seek(trace->in, 0, 1);
    if (trace->def->open(trace->state, trace->in, err) != FIRN_OK)
        return firn_fail_in(err, trace->path);
    trace->rows_offset = lines_at(trace->in);
    trace->rows_line = lines_number(trace->in) + 1;
    return FIRN_OK;
}

static void note_group(struct survey *seen, const char *group)
{
    if (seen->ngroups == GROUPS_SHOWN || *group == '\0' ||
        strlen(group) >= GROUP_SHOWN_MAX)
        return;
    for (int i = 0; i < seen->ngroups; i++)
        if (strcmp(seen->groups[i], group) == 0)
            return;
    memcpy(seen->groups[seen->ngroups++], group, strlen(group) + 1);
}

/* Takes one job into the survey; is it early (3)? */
static bool is_early(struct survey *seen, const struct firn_job_spec *spec)
{
    if (seen->jobs++ > 0 && spec->submit_s < seen->latest_s)
        return true;
    seen->latest_s = spec->submit_s;
    seen->latest_line = spec->line;
    return false;
}

/* The first pass. When strict, an early row is an error, and a bad row ends the
 * pass, to be met again when it is read. */
static enum firn_status survey_rows(struct firn_trace *trace,
                                    struct survey *seen, struct firn_error *err)
{
    struct firn_job_spec spec;
    struct firn_error bad;
    enum firn_row got;
    while ((got = next_row(trace, &spec, &bad)) != FIRN_ROW_END) {
        if (got != FIRN_ROW_JOB) {
            seen->others++;
            if (got == FIRN_ROW_BAD && trace->strict)
                break;
            continue;
        }
        if (!is_wanted(trace, &spec)) {
            note_group(seen, spec.group);
            continue;
        }
        if (!is_early(seen, &spec))
            continue;
        seen->has_early = true;
        if (!trace->strict)
            continue;
        return firn_fail(err, FIRN_EINVAL,
                         "%s: line %ld: submitted at %.15g s, before line "
                         "%ld at %.15g s: not in order",
                         trace->path, spec.line, spec.submit_s,
                         seen->latest_line, seen->latest_s);
    }
    if (lines_failed(trace->in))
        return firn_fail(err, FIRN_EIO, "%s: cannot be read", trace->path);
    lines_seek(trace->in, trace->rows_offset, trace->rows_line);
    return FIRN_OK;
}

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->submit_s != b->submit_s ? a->submit_s < b->submit_s
                                      : a->line < b->line;
}

/* Sinks at[i] until both entries below it are not after it. */
static void sink_entry(struct entry *at, size_t n, size_t i)
{
    struct entry moved = at[i];
    for (size_t below; (below = 2 * i + 1) < n; i = below) {
        if (below + 1 < n && is_before(&at[below], &at[below + 1]))
            below++;
        if (!is_before(&moved, &at[below]))
            break;
        at[i] = at[below];
    }
    at[i] = moved;
}

/* Heapsort: in place, as the index may be most of the memory there is. */
static void sort_entries(struct entry *at, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sink_entry(at, n, i);
    while (n > 1) {
        struct entry last = at[--n];
        at[n] = at[0];
        at[0] = last;
        sink_entry(at, n, 0);
    }
}

/* Makes the index of a file that is not in order, and counts the rows that are
 * not in it (2). */
static void index_rows(struct firn_trace *trace, long jobs)
{
    struct firn_job_spec spec;
    struct firn_error bad;
    struct survey seen = {0};
    enum firn_row got;
    vec_reserve(&trace->index, (size_t)jobs);
    while ((got = next_row(trace, &spec, &bad)) != FIRN_ROW_END) {
        if (got == FIRN_ROW_IGNORED)
            trace->report.ignored++;
        if (got == FIRN_ROW_BAD)
            count_bad(trace, lines_number(trace->in), bad.text);
        if (got != FIRN_ROW_JOB || !is_wanted(trace, &spec))
            continue;
        trace->report.unsorted += is_early(&seen, &spec);
        vec_add(&trace->index,
                ((struct entry){spec.submit_s, lines_offset(trace->in),
                                spec.line}));
    }
    sort_entries(trace->index.at, trace->index.n);
    trace->is_indexed = true;
}

static enum firn_status no_jobs(const struct firn_trace *trace,
                                const struct survey *seen,
                                struct firn_error *err)
{
    if (trace->group == NULL)
        return firn_fail(err, FIRN_EINVAL,
                         "%s: a %s trace with a header and no rows",
                         trace->path, trace->def->name);
    struct firn_buf names = {0};
    for (int i = 0; i < seen->ngroups; i++)
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", seen->groups[i]);
    if (seen->ngroups == GROUPS_SHOWN)
        buf_puts(&names, ", ...");
    firn_fail(err, FIRN_EINVAL, "%s: no job of group '%.60s'; there are: %s",
              trace->path, trace->group, names.n > 0 ? names.at : "none");
    buf_release(&names);
    return FIRN_EINVAL;
}

static enum firn_status open_all(struct firn_trace *trace,
                                 struct firn_error *err)
{
    struct survey seen = {0};
    FIRN_TRY(open_file(trace, err));
    FIRN_TRY(open_format(trace, err));
    if (trace->trusts_order)
        return FIRN_OK;
    FIRN_TRY(survey_rows(trace, &seen, err));
    if (seen.jobs == 0 && (seen.others == 0 || trace->group != NULL))
        return no_jobs(trace, &seen, err);
    if (seen.has_early)
        index_rows(trace, seen.jobs);
    return FIRN_OK;
}

enum firn_status firn_trace_open(struct firn_trace **out, const char *path,
                                 const struct firn_trace_options *options,
                                 struct firn_error *err)
{
    struct firn_trace *trace = mem_new(1, sizeof *trace);
    split_path(trace, path, options);
    enum firn_status status = open_all(trace, err);
    if (status == FIRN_OK)
        *out = trace;
    else
        firn_trace_close(trace);
    return status;
}

/* Goes to the next entry of the index; false at its end. Rows that follow each
 * other in the file need no seek. */
static bool seek_entry(struct firn_trace *trace)
{
    if (trace->at == trace->index.n)
        return false;
    const struct entry *entry = &trace->index.at[trace->at++];
    if (entry->offset != lines_at(trace->in))
        lines_seek(trace->in, entry->offset, entry->line);
    return true;
}

bool firn_trace_next(struct firn_trace *trace, struct firn_job_spec *out,
                     struct firn_error *err)
{
    struct firn_error bad = {.status = FIRN_OK};
    enum firn_status failed = FIRN_OK;
    for (;;) {
        if (trace->is_indexed && !seek_entry(trace))
            break;
        enum firn_row got = next_row(trace, out, &bad);
        if (got == FIRN_ROW_END)
            break;
        if (got == FIRN_ROW_JOB && is_wanted(trace, out)) {
            if (trace->trusts_order && out->submit_s < trace->latest_s) {
                failed =
                    firn_fail(err, FIRN_EDATA, "%s: line %ld: not in order",
                              trace->path, out->line);
                break;
            }
            trace->latest_s = out->submit_s;
            trace->report.jobs++;
            return true;
        }
        trace->report.ignored += got == FIRN_ROW_IGNORED;
        if (got != FIRN_ROW_BAD)
            continue;
        long line = lines_number(trace->in);
        count_bad(trace, line, bad.text);
        if (trace->strict) {
            failed = fail_at(trace, line, err, bad.text);
            break;
        }
    }
    if (failed == FIRN_OK && lines_failed(trace->in))
        failed = firn_fail(err, FIRN_EIO, "%s: cannot be read", trace->path);
    if (failed == FIRN_OK && err != NULL)
        *err = (struct firn_error){.status = FIRN_OK};
    return false;
}

enum firn_status firn_trace_refuse(struct firn_trace *trace,
                                   const struct firn_job_spec *spec,
                                   const char *why, struct firn_error *err)
{
    struct firn_error text;
    firn_fail(&text, FIRN_EINVAL, "job '%.60s' %s", spec->name, why);
    trace->report.jobs--;
    count_bad(trace, spec->line, text.text);
    if (!trace->strict)
        return FIRN_OK;
    return fail_at(trace, spec->line, err, text.text);
}

const struct firn_trace_report *
firn_trace_report(const struct firn_trace *trace)
{
    return &trace->report;
}

const struct firn_trace_def *firn_trace_format(const struct firn_trace *trace)
{
    return trace->def;
}

double firn_trace_progress(const struct firn_trace *trace)
{
    if (trace->is_indexed)
        return trace->index.n > 0 ? (double)trace->at / (double)trace->index.n
                                  : 1;
    double share = (double)lines_at(trace->in) / (double)lines_size(trace->in);
    return share < 1 ? share : 1;
}

void firn_trace_close(struct firn_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->state != NULL && trace->def->close != NULL)
        trace->def->close(trace->state);
    mem_free(trace->state);
    lines_close(trace->in);
    vec_release(&trace->index);
    mem_free(trace->path);
    mem_free(trace->group);
    mem_free(trace);
}
