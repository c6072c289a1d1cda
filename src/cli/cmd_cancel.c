/* cmd_cancel.c - `firn cancel`: cancels jobs.
 */
#include "cli/command.h"
#include "cli/live.h"

struct args {
    struct live_args live;
    bool is_forced;
};

static const struct flag table[] = {
    {"force", 0, NULL,
     "kill running jobs at once, without the time to write a checkpoint",
     flag_yes, offsetof(struct args, is_forced)},
    LIVE_FLAGS,
    {0},
};

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
    struct live_verb forced = verb;
    struct args args = {0};
    forced.behind = "/cancel?force=1";
    int rc = flags_parse(&page, &args, &argc, argv);
    return rc >= 0 ? rc
                   : live_verb_do(args.is_forced ? &forced : &verb, &args.live,
                                  argc, argv);
}
