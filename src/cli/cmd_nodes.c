/* cmd_nodes.c - `firn nodes`: the nodes and their GPUs.
 */
#include "cli/command.h"
#include "cli/live.h"
#include "cli/livenodes.h"

static const struct flag table[] = {LIVE_FLAGS, {0}};

static const struct flags_page page = {
    .command = "nodes",
    .usage = "[options]",
    .about = "Lists the nodes: their GPUs, those that are free, those that "
             "somebody uses\nwithout firn (OUTSIDE), and the memory of each.",
    .table = table,
};

int cmd_nodes(int argc, char **argv)
{
    struct live_args args = {0};
    struct live live;
    int rc = flags_parse(&page, &args, &argc, argv);
    if (rc >= 0)
        return rc;
    if (argc > 1)
        return flags_wrong(&page, "takes options only");
    rc = live_open(&live, &page, &args);
    if (rc < 0)
        rc = live_show(&live, "/v1/nodes", live_nodes_table);
    live_close(&live);
    return rc;
}
