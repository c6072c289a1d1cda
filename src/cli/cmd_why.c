/* cmd_why.c - `firn why`: why a job waits, and what would help.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livewords.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "why",
    .usage = "[options] JOB",
    .about = "Says why a job is where it is: the one reason that counts most, "
             "what it needs\nand what there is, and a next step.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
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
