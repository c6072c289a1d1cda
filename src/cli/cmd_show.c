/* cmd_show.c - `firn show`: shows one job.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "show",
    .usage = "[options] JOB",
    .about = "Shows one job: state and reason, GPUs, request, last report, "
             "attempts, job file.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

int cmd_show(int argc, char **argv)
{
    static const struct live_shown shown = {.page = &page,
                                            .before = "/v1/jobs/",
                                            .behind = "",
                                            .print = live_job_page};
    return live_shown_run(&shown, argc, argv);
}
