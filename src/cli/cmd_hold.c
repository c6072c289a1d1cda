/* cmd_hold.c - `firn hold`: jobs that shall not be started for now.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "hold",
    .usage = "[options] JOB [JOB...]",
    .about = "Keeps jobs from being started until 'firn release'. One that "
             "runs leaves by a\ncheckpoint if it can be stopped, else at its "
             "end.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
    .table = table,
};

int cmd_hold(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "job",
                                          .before = "/v1/jobs/",
                                          .behind = "/hold",
                                          .done = "is held",
                                          .begun = "is held as soon as it has "
                                                   "left its GPUs"};
    return live_verb_run(&verb, argc, argv);
}
