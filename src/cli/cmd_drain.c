/* cmd_drain.c - `firn drain`: nodes that shall get no more jobs.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "drain",
    .usage = "[options] NODE [NODE...]",
    .about = "Keeps new jobs from nodes, for repairs, until 'firn undrain'.",
    .table = table,
};

int cmd_drain(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "node",
                                          .before = "/v1/nodes/",
                                          .behind = "/drain",
                                          .done = "is drained"};
    return live_verb_run(&verb, argc, argv);
}
