/* cmd_release.c - `firn release`: jobs that were held may be started.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "release",
    .usage = "[options] JOB [JOB...]",
    .about = "Lets jobs be started that were kept back by 'firn hold'.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
    .table = table,
};

int cmd_release(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "job",
                                          .before = "/v1/jobs/",
                                          .behind = "/release",
                                          .done = "is released"};
    return live_verb_run(&verb, argc, argv);
}
