/* fuzz_trace.c - any bytes through one trace format; none may crash it.
 *
 * One program under several names: fuzz_trace_philly reads every input as the
 * format philly of traces.def, whatever its sniff says of the bytes, so that
 * its fuzzer spends its time there. What comes out must be sound jobs or
 * sentences, and jobs must survive being written as firn's own CSV.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "trace/write.h"
#include <firn/trace.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE(id) extern const struct firn_trace_def firn_trace_##id;
#include "trace/traces.def"
#undef TRACE

static const struct format {
    const char *name;
    const struct firn_trace_def *def;
} formats[] = {
#define TRACE(id) {#id, &firn_trace_##id},
#include "trace/traces.def"
#undef TRACE
};

static const struct firn_trace_def *format; /* by the program's name */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char mark[] = "fuzz_trace_";
    const char *name = *argc > 0 ? strstr((*argv)[0], mark) : NULL;
    for (size_t i = 0; name != NULL && i < sizeof formats / sizeof *formats;
         i++) {
        if (strcmp(name + strlen(mark), formats[i].name) == 0)
            format = formats[i].def;
    }
    if (format == NULL) {
        fprintf(stderr, "fuzz_trace: call it fuzz_trace_FORMAT\n");
        exit(2);
    }
    return 0;
}

static void need(bool is_true)
{
    if (!is_true)
        abort();
}

static void check(const struct firn_job_spec *spec)
{
    need(spec->name != NULL && *spec->name != '\0');
    need(spec->app != NULL && spec->group != NULL && spec->types != NULL);
    need(spec->submit_s >= 0 && spec->submit_s <= 1e17);
    need(spec->duration_s > 0 && spec->duration_s <= 1e33);
    need(spec->gpus_min >= (spec->seq > 0 ? 0 : 1)); /* 0: it did not say */
    need(spec->gpus_min <= spec->gpus && spec->gpus <= spec->gpus_max);
    need(spec->restart_s >= -1 && spec->mem_gib >= 0 && spec->batch >= 0);
    need(strlen(spec->name) + strlen(spec->app) + strlen(spec->types) <
         1 << 18);
}

static void read_all(void *state, struct lines *in)
{
    struct firn_job_spec spec;
    struct firn_buf row = {0};
    for (;;) {
        struct firn_error err = {0};
        enum firn_row got = format->next(state, in, &spec, &err);
        if (got == FIRN_ROW_END)
            break;
        need(got != FIRN_ROW_BAD ||
             (err.status == FIRN_EINVAL && *err.text != '\0'));
        if (got != FIRN_ROW_JOB)
            continue;
        check(&spec);
        buf_clear(&row);
        write_row(&row, &spec, write_mask(&spec));
    }
    buf_release(&row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct firn_bytes bytes = {(const char *)data, n};
    struct firn_error err = {0};
    struct lines *in = lines_from(bytes);
    void *state = mem_new(1, format->state_size);
    format->sniff(bytes);
    if (format->open(state, in, &err) == FIRN_OK)
        read_all(state, in);
    else
        need(*err.text != '\0');
    if (format->close != NULL)
        format->close(state);
    mem_free(state);
    lines_close(in);
    return 0;
}
