/* cmd_eta.c - `firn eta`: when a job starts and ends.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livewords.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "eta",
    .usage = "[options] JOB",
    .about = "Predicts when a job starts and ends, with a range, by simulating "
             "the current state forward. New jobs and wrong estimates of run "
             "times change the answer.\n"
             "JOB is a number, a name, or a unique prefix of a name.",
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
