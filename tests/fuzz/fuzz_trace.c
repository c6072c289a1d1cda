/* fuzz_trace.c - any bytes through one trace format; none may crash it.
 *
 * Built once for each line of traces.def, with -DFORMAT=philly. The bytes are
 * read as that format whatever its sniff says of them, so that its fuzzer
 * spends its time there. What comes out must be sound jobs or sentences, and
 * jobs must survive being written as firn's own CSV.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/mem.h"
#include "trace/write.h"
#include <firn/trace.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PASTE(a, b) a##b
#define DEF(id)     PASTE(firn_trace_, id)

extern const struct firn_trace_def DEF(FORMAT);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

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
        enum firn_row got = DEF(FORMAT).next(state, in, &spec, &err);
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
    void *state = mem_new(1, DEF(FORMAT).state_size);
    DEF(FORMAT).sniff(bytes);
    if (DEF(FORMAT).open(state, in, &err) == FIRN_OK)
        read_all(state, in);
    else
        need(*err.text != '\0');
    if (DEF(FORMAT).close != NULL)
        DEF(FORMAT).close(state);
    mem_free(state);
    lines_close(in);
    return 0;
}
