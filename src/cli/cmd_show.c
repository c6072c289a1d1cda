/* cmd_show.c - `firn show`: all that is known of a job.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livejobs.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "show",
    .usage = "[options] JOB",
    .about = "Shows a job: what was asked for, its state and why, what it "
             "holds, what it\nlast reported, its starts.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
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
