/* cmd_why.c - `firn why`: why a job waits, and what to do.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livewords.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "why",
    .usage = "[options] JOB",
    .about = "Explains the state of a job: the main reason, the resources it "
             "needs and those available, and what you can do.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
    .table = table,
};

int cmd_why(int argc, char **argv)
{
    static const struct live_shown shown = {.page = &page,
                                            .before = "/v1/jobs/",
                                            .behind = "/why",
                                            .print = live_why_page};
    return live_shown_run(&shown, argc, argv);
}
