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
    struct live_args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc < 0)
        rc = flags_operands(&page, argc, argv, 0, 0, "");
    if (rc >= 0)
        return rc;
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = live_show(&live, "/v1/nodes", live_nodes_table);
    live_close(&live);
    return rc;
}
