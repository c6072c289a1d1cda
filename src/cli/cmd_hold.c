/* cmd_hold.c - `firn hold`: keeps jobs from starting.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "hold",
    .usage = "[options] JOB [JOB...]",
    .about = "Holds jobs: they are not started until 'firn release'. A running "
             "job that can be stopped writes a checkpoint and stops; one that "
             "cannot runs to its end.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

int cmd_hold(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "job",
                                          .before = "/v1/jobs/",
                                          .behind = "/hold",
                                          .done = "is held",
                                          .begun = "will be held when it has "
                                                   "left its GPUs"};
    return live_verb_run(&verb, argc, argv);
}
