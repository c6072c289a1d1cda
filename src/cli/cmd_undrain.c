/* cmd_undrain.c - `firn undrain`: returns nodes to service.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "undrain",
    .usage = "[options] NODE [NODE...]",
    .about = "Returns drained nodes to service: jobs may start on them again.",
    .table = table,
};

int cmd_undrain(int argc, char **argv)
{
    static const struct live_verb verb = {.page = &page,
                                          .what = "node",
                                          .before = "/v1/nodes/",
                                          .behind = "/undrain",
                                          .done = "is in service again"};
    return live_verb_run(&verb, argc, argv);
}
