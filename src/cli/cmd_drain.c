/* cmd_drain.c - `firn drain`: takes nodes out of service.
 */
#include "cli/command.h"
#include "cli/live.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "drain",
    .usage = "[options] NODE [NODE...]",
    .about = "Drains nodes: no job is started on them until 'firn undrain'. "
             "Running jobs that can be moved leave by a checkpoint; the others "
             "run to their end.",
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
