/* trace_export.c - `firn trace export`: the job history of firnd as a trace.
 *
 * firnd writes the rows (firn's own CSV); they are copied as they arrive.
 */
#include "cli/trace_export.h"
#ifdef FIRN_WITHOUT_CLIENT
#include <stdio.h>

int trace_export(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fprintf(stderr, "firn trace export: this firn was built without libcurl "
                    "or jansson and cannot connect to firnd\n");
    return 1;
}

#else
#include "base/buf.h"
#include "cli/live.h"
#include "cli/livetrace.h"
#include "cli/output.h"

struct args {
    struct live_args live;
    const char *out;
    double last_s;
};

static const struct flag table[] = {
    {"last", 0, "TIME",
     "only jobs submitted in the last TIME, e.g. 7d (default: all)",
     flag_duration, offsetof(struct args, last_s)},
    {"output", 'o', "OUT", "output file (default: standard output)", flag_text,
     offsetof(struct args, out)},
    LIVE_PLACE_FLAGS,
    {0},
};

static const struct flags_page page = {
    .command = "trace export",
    .usage = "[options]",
    .about = "Writes the jobs of firnd as a trace (firn's own CSV): submission "
             "time, requested GPUs and run time of each job. 'firn sim' and "
             "'firn trace stat' read it.",
    .table = table,
};

int trace_export(int argc, char **argv)
{
    struct args args = {0};
    struct live live;
    struct firn_error err = {0};
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args.live);
    if (rc < 0)
        rc = live_trace_write(&live, args.out, args.last_s, false, NULL,
                              &err) == FIRN_OK
                 ? 0
                 : live_failed(&live, &err);
    live_close(&live);
    return rc;
}
#endif
