/* cmd_release.c - `firn release`: lets held jobs start.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "release",
    .usage = "[options] JOB [JOB...]",
    .about = "Releases held jobs: they may be started again.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
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
