/* cmd_cancel.c - `firn cancel`: cancels jobs.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "cancel",
    .usage = "[options] JOB [JOB...]",
    .about = "Cancels jobs. A waiting job leaves the queue. A running job is "
             "asked to write a checkpoint and to exit, and is killed after its "
             "grace time.\nJOB is a number, a name, or a unique prefix of a "
             "name; digits alone are always a number.",
    .table = table,
};

int cmd_cancel(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "job",
                                          .before = "/v1/jobs/",
                                          .behind = "/cancel",
                                          .done = "is cancelled",
                                          .begun = "is being cancelled"};
    return live_verb_run(&verb, argc, argv);
}
