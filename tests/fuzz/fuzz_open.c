/* fuzz_open.c - any bytes as a trace file, through firn_trace_open().
 *
 * The bytes go to a file, since a trace is read more than once. Whatever they
 * are, jobs come out in order and every row is counted; reading strictly gives
 * no more jobs than reading easily.
 */
#include <firn/trace.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void need(bool is_true)
{
    if (!is_true)
        abort();
}

static const char *write_file(const uint8_t *data, size_t n)
{
    static char path[64];
    if (*path == '\0') {
        snprintf(path, sizeof path, "/tmp/firn-fuzz-open-%ld", (long)getpid());
    }
    FILE *file = fopen(path, "wb");
    need(file != NULL);
    need(fwrite(data, 1, n, file) == n);
    need(fclose(file) == 0);
    return path;
}

static long read_jobs(const char *path, bool strict)
{
    struct firn_trace *trace = NULL;
    struct firn_error err = {0};
    struct firn_job_spec spec;
    struct firn_trace_options options = {.strict = strict};
    if (firn_trace_open(&trace, path, &options, &err) != FIRN_OK) {
        need(*err.text != '\0' && trace == NULL);
        return 0;
    }
    double last_s = 0;
    long last_line = 0, jobs = 0;
    while (firn_trace_next(trace, &spec, &err)) {
        need(spec.submit_s > last_s ||
             (spec.submit_s == last_s && spec.line > last_line) || jobs == 0);
        last_s = spec.submit_s;
        last_line = spec.line;
        jobs++;
    }
    need(strict || err.status == FIRN_OK);
    need(firn_trace_report(trace)->jobs == jobs);
    firn_trace_close(trace);
    return jobs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = write_file(data, n);
    need(read_jobs(path, true) <= read_jobs(path, false));
    unlink(path);
    return 0;
}
