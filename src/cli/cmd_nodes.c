/* cmd_nodes.c - `firn nodes`: the nodes and their GPUs.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livenodes.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "nodes",
    .usage = "[options]",
    .about =
        "Lists the nodes: state, GPU type, GPUs, free GPUs, GPUs in use by "
        "foreign processes (OUTSIDE) and memory per GPU in GiB. WHY is the "
        "reason why a node is out of service.",
    .table = table,
};

int cmd_nodes(int argc, char **argv)
{
    static const struct live_shown shown = {
        .page = &page, .before = "/v1/nodes", .print = live_nodes_table};
    return live_shown_run(&shown, argc, argv);
}
