/* cmd_report.c - `firn report`: results of simulations as one page.
 */
#include "base/buf.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/report.h"
#include <stdio.h>

struct args {
    const char *out, *charts;
    bool is_png;
};

static const struct flag table[] = {
    {"out", 'o', "FILE", "output file (default: report.html)", flag_text,
     offsetof(struct args, out)},
    {"charts", 0, "DIR", "also write each chart as an SVG file into DIR",
     flag_text, offsetof(struct args, charts)},
    {"png", 0, NULL,
     "with --charts: also as PNG (needs rsvg-convert of librsvg2-bin)",
     flag_yes, offsetof(struct args, is_png)},
    {0},
};

static const struct flags_page page = {
    .command = "report",
    .usage = "[options] DIR...",
    .about =
        "Writes one HTML page about the simulations whose results 'firn sim "
        "--out DIR' wrote: completion times and their distribution, GPUs held "
        "and jobs waiting over time, means by size, fairness, and for each "
        "policy the jobs that make the difference to the best one. The page "
        "needs no other file and no network.",
    .table = table,
};

int cmd_report(int argc, char **argv)
{
    struct args args = {.out = "report.html"};
    struct report report = {0};
    struct firn_buf text = {0};
    struct firn_error err = {0};
    enum firn_status status = FIRN_OK;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 1, 1000, "DIR");
    if (rc < 0 && args.is_png && args.charts == NULL)
        rc = flags_wrong(&page, "--png needs --charts DIR");
    if (rc >= 0)
        return rc;
    for (int i = 1; i < argc && status == FIRN_OK; i++)
        status = report_read(&report, argv[i], &err);
    if (status == FIRN_OK) {
        report_page(&report, &text);
        status = output_file(args.out, &text, &err);
    }
    if (status == FIRN_OK && args.charts != NULL) {
        status = report_charts(&text, args.charts, args.is_png, &err);
    }
    if (status != FIRN_OK)
        fprintf(stderr, "firn report: %s\n", err.text);
    report_release(&report);
    buf_release(&text);
    return status == FIRN_OK ? 0 : 1;
}
