/* trace_export.c - `firn trace export`: the daemon's history as a trace.
 *
 * What has run here, when it came and how long it took, as firn's own CSV: the
 * simulator replays it under other policies. The daemon writes the rows; they
 * go out as they come.
 */
#include "cli/trace_export.h"
#ifdef FIRN_WITHOUT_CLIENT
#include <stdio.h>

int trace_export(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fprintf(stderr, "firn trace export: this firn was built without libcurl "
                    "or jansson and cannot ask the daemon\n");
    return 1;
}

#else
#include "base/buf.h"
#include "cli/live.h"
#include "cli/livetrace.h"
#include "cli/sink.h"

struct args {
    struct live_args live;
    double last_s;
};

static const struct flag table[] = {
    {"last", 0, "TIME", "only jobs that came in the last 12h, 7d, ... (all)",
     flag_duration, offsetof(struct args, last_s)},
    {"output", 'o', "OUT", "file to write (standard output)", flag_text,
     offsetof(struct live_args, format)},
    LIVE_PLACE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "trace export",
    .usage = "[options]",
    .about = "Writes the daemon's jobs as a trace in firn's own CSV, which "
             "'firn sim' and\n'firn trace stat' read: when each came, what it "
             "asked for, how long it ran.",
    .table = table,
};

int trace_export(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    struct firn_error err = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page, "takes options only");
    const char *out = args.live.format;
    args.live.format = NULL;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = live_trace_write(&live, out, args.last_s, NULL, &err) == FIRN_OK
                 ? 0
                 : live_failed(&live, &err);
    live_close(&live);
    return rc;
}
#endif
