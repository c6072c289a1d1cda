/* cmd_cancel.c - `firn cancel`: jobs that shall end.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "cancel",
    .usage = "[options] JOB [JOB...]",
    .about = "Ends jobs: one that waits leaves the queue; one that runs is "
             "asked to\ncheckpoint, then to end, and is killed after its grace "
             "time.\nA JOB is a number, a name, or the beginning of a name "
             "that no other has;\ndigits alone are always a number.",
    .table = table,
};

int cmd_cancel(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "job",
                                          .before = "/v1/jobs/",
                                          .behind = "/cancel",
                                          .done = "is cancelled",
                                          .begun = "is being ended"};
    return live_verb_run(&verb, argc, argv);
}
