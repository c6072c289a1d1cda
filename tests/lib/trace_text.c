/* trace_text.c - reads traces in tests and writes down what came.
 */
#include "lib/trace_text.h"
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "lib/play.h"
#include "trace/write.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What language models have, and a job's one type, is shown where it is. */
static const unsigned all_columns = (1u << WRITE_SEQ) - 1,
                      if_said = 1u << WRITE_SEQ | 1u << WRITE_ONE_TYPE;

/* What every job of every format must keep. */
static void check_spec(const struct firn_job_spec *spec)
{
    assert_non_null(spec->name);
    assert_true(*spec->name != '\0');
    assert_non_null(spec->app);
    assert_non_null(spec->group);
    assert_non_null(spec->types);
    assert_true(spec->submit_s >= 0 && spec->submit_s <= 1e17);
    assert_true(spec->duration_s > 0 && spec->duration_s <= 1e33);
    assert_true(spec->gpus_min >= 1 || spec->seq > 0);
    assert_true(spec->gpus_min <= spec->gpus && spec->gpus <= spec->gpus_max);
    assert_true(spec->restart_s >= -1 && spec->restart_s <= 1e15);
    assert_true(spec->mem_gib >= 0 && spec->batch >= 0);
    assert_true(spec->line >= 2);
}

static void put_job(struct firn_buf *out, const struct firn_job_spec *spec)
{
    check_spec(spec);
    buf_printf(out, "%ld: job ", spec->line);
    write_row(out, spec, all_columns | (write_mask(spec) & if_said));
}

static void put_rows(const struct firn_trace_def *def, void *state,
                     struct lines *in, struct firn_buf *out)
{
    struct firn_job_spec spec;
    for (;;) {
        struct firn_error err = {0};
        switch (def->next(state, in, &spec, &err)) {
        case FIRN_ROW_JOB:
            assert_int_equal(spec.line, lines_number(in));
            put_job(out, &spec);
            break;
        case FIRN_ROW_IGNORED:
            buf_printf(out, "%ld: ignored\n", lines_number(in));
            break;
        case FIRN_ROW_BAD:
            assert_int_equal(err.status, FIRN_EINVAL);
            assert_true(err.text[0] != '\0');
            buf_printf(out, "%ld: bad: %s\n", lines_number(in), err.text);
            break;
        case FIRN_ROW_END:
            return;
        }
    }
}

struct firn_buf trace_text(const struct firn_trace_def *def,
                           struct firn_bytes bytes)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    struct lines *in = lines_from(bytes);
    void *state = mem_new(1, def->state_size);
    buf_puts(&out, "");
    if (def->open(state, in, &err) == FIRN_OK) {
        put_rows(def, state, in, &out);
    } else {
        assert_true(err.text[0] != '\0');
        buf_printf(&out, "open: %s\n", err.text);
    }
    if (def->close != NULL)
        def->close(state);
    mem_free(state);
    lines_close(in);
    return out;
}

struct firn_buf trace_text_file(const char *path,
                                const struct firn_trace_options *options)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    struct firn_trace *trace = NULL;
    struct firn_job_spec spec;
    if (firn_trace_open(&trace, path, options, &err) != FIRN_OK) {
        assert_null(trace);
        assert_true(err.text[0] != '\0');
        buf_printf(&out, "open: %s\n", err.text);
        return out;
    }
    double progress = 0;
    while (firn_trace_next(trace, &spec, &err)) {
        put_job(&out, &spec);
        assert_true(firn_trace_progress(trace) >= progress);
        progress = firn_trace_progress(trace);
        assert_true(progress <= 1);
    }
    if (err.status != FIRN_OK)
        buf_printf(&out, "end: %s\n", err.text);
    else
        assert_true(firn_trace_progress(trace) == 1);
    const struct firn_trace_report *report = firn_trace_report(trace);
    buf_printf(&out, "report %ld %ld %ld %ld\n", report->jobs, report->ignored,
               report->bad, report->unsorted);
    for (long i = 0; i < report->bad && i < 3; i++)
        buf_printf(&out, "%s\n", report->first_bad[i]);
    firn_trace_close(trace);
    return out;
}

const struct firn_trace_def *trace_def(const char *name)
{
    size_t n;
    const struct firn_trace_def *const *defs = firn_traces(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(defs[i]->name, name) == 0)
            return defs[i];
    return NULL;
}

struct firn_buf file_text(const char *path)
{
    if (access(path, R_OK) != 0)
        fail_msg("%s is not there; tests run in the project's root", path);
    return play_read(path);
}

struct firn_buf fixture(const char *format)
{
    char path[128];
    snprintf(path, sizeof path, "tests/trace/fixtures/%s.csv", format);
    return file_text(path);
}
