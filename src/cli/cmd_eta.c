/* cmd_eta.c - `firn eta`: when a job may start and be done.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livewords.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "eta",
    .usage = "[options] JOB",
    .about = "Says from when to when a job may start and be done, by rolling "
             "the present\nstate forward. It is a guess: jobs come and go, and "
             "users' guesses are off.\n"
             "A JOB is a number, a name, or the beginning of a name that no "
             "other has.",
    .table = table,
};

int cmd_eta(int argc, char **argv)
{
    static const struct live_shown shown = {.page = &page,
                                            .before = "/v1/jobs/",
                                            .behind = "/eta",
                                            .print = live_eta_page};
    return live_shown_run(&shown, argc, argv);
}
