/* livetrace.c - fetches the job history of firnd as a trace.
 */
#include "cli/livetrace.h"
#include "base/buf.h"
#include "cli/answer.h"
#include "cli/output.h"
#include <math.h>

enum { CHUNK = 1 << 16 };

struct fetching {
    struct sink sink;
    const char *path;
    bool is_open;
    size_t nlines;
    enum firn_status status;
    struct firn_error *err;
};

static bool take(void *arg, struct firn_bytes piece)
{
    struct fetching *f = arg;
    if (!f->is_open)
        f->status = sink_open(&f->sink, f->path, f->err);
    if (f->status != FIRN_OK)
        return false;
    f->is_open = true;
    for (size_t i = 0; i < piece.n; i++)
        f->nlines += piece.at[i] == '\n';
    buf_add(&f->sink.buf, piece.at, piece.n);
    sink_flush(&f->sink, CHUNK);
    return !f->sink.has_failed;
}

enum firn_status live_trace_write(struct live *live, const char *path,
                                  double last_s, bool has_costs, size_t *njobs,
                                  struct firn_error *err)
{
    enum { HEAD_LINES = 2 };
    struct fetching f = {.path = path, .err = err};
    struct firn_buf query = {0};
    struct firn_error closing = {0};
    buf_printf(&query, "/v1/trace?costs=%d", has_costs);
    if (last_s > 0)
        buf_printf(&query, "&since=%.0f", fmax(moment_now_s() - last_s, 0));
    enum firn_status status =
        client_stream(live->client, query.at, take, &f, err);
    buf_release(&query);
    if (status == FIRN_OK)
        status = f.status;
    if (f.is_open && sink_close(&f.sink, &closing) != FIRN_OK &&
        status == FIRN_OK)
        status = firn_fail(err, closing.status, "%s", closing.text);
    if (njobs != NULL)
        *njobs = f.nlines > HEAD_LINES ? f.nlines - HEAD_LINES : 0;
    return status;
}
