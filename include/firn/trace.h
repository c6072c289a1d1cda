/* trace.h - where simulated jobs come from.
 *
 * A trace file is recognised by its content and read line by line, in order of
 * submission; a file that is not in order is indexed first and still read in
 * order. Bad rows are counted, the first few named, and skipped; when strict,
 * the first one ends the reading. Rows that are not GPU jobs are ignored and
 * counted apart.
 */
#ifndef FIRN_TRACE_H
#define FIRN_TRACE_H
#include <firn/bytes.h>
#include <firn/job.h>

FIRN_C_BEGIN

struct lines; /* base/lines.h */

enum firn_row {
    FIRN_ROW_JOB, /* `out` is filled; its strings live until the next call */
    FIRN_ROW_IGNORED, /* fine, but not a GPU job */
    FIRN_ROW_BAD,     /* err has the sentence, without file and line */
    FIRN_ROW_END,
};

/* One format: one file in src/trace and one line in traces.def. */
struct firn_trace_def {
    const char *name, *summary;
    size_t state_size;
    /* Does this look like ours? `head` is the first line or more. */
    bool (*sniff)(struct firn_bytes head);
    /* Reads the header. */
    enum firn_status (*open)(void *state, struct lines *in,
                             struct firn_error *err);
    enum firn_row (*next)(void *state, struct lines *in,
                          struct firn_job_spec *out, struct firn_error *err);
    void (*close)(void *state);
};

struct firn_trace;

struct firn_trace_options {
    bool strict;
    const char *group; /* only rows of this group; NULL for all */
    bool trusts_order; /* reads at once, without looking first whether the
                        * rows are in order; one that is not ends the reading
                        * with FIRN_EDATA, and the file is to be opened anew
                        * without this */
};

/* What reading a trace has met so far. */
struct firn_trace_report {
    long jobs, ignored, bad, unsorted;
    char first_bad[3][FIRN_ERROR_TEXT]; /* "file: line 3: ..." */
};

/* Opens `path` ("-" is not a trace: it must be seekable); "path#group" reads
 * one group. FIRN_EINVAL when no format knows it, with the formats there are.
 */
FIRN_API enum firn_status
firn_trace_open(struct firn_trace **out, const char *path,
                const struct firn_trace_options *options,
                struct firn_error *err);

/* The next job, by submission time, ties by line. False at the end, or when
 * strict and a row is bad: then `err->status` is not FIRN_OK. */
FIRN_API bool firn_trace_next(struct firn_trace *trace,
                              struct firn_job_spec *out,
                              struct firn_error *err);

/* The job just read cannot be used ("wants 9 GPUs, the cluster has 8"): counts
 * it as bad. FIRN_EINVAL when strict, else FIRN_OK. */
FIRN_API enum firn_status firn_trace_refuse(struct firn_trace *trace,
                                            const struct firn_job_spec *spec,
                                            const char *why,
                                            struct firn_error *err);

FIRN_API const struct firn_trace_report *
firn_trace_report(const struct firn_trace *trace);
FIRN_API const struct firn_trace_def *
firn_trace_format(const struct firn_trace *trace);
/* How much of the file has been read, 0..1, for progress bars. */
FIRN_API double firn_trace_progress(const struct firn_trace *trace);
FIRN_API void firn_trace_close(struct firn_trace *trace);

/* All formats, in the order of traces.def. */
FIRN_API const struct firn_trace_def *const *firn_traces(size_t *n);

FIRN_C_END

#endif
