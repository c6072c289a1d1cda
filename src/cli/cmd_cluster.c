/* cmd_cluster.c - firn cluster: lists the presets, shows one cluster.
 *
 * `show` takes the same argument as `firn sim --cluster`: a preset, a spec or a
 * YAML file.
 */
#include "base/buf.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include <firn/cluster.h>
#include <stdio.h>
#include <string.h>

static void list_table(const struct firn_preset *presets, size_t n,
                       struct firn_buf *out)
{
    struct table table;
    table_init(&table, "lll");
    table_cell(&table, "name");
    table_cell(&table, "spec");
    table_cell(&table, "");
    for (size_t i = 0; i < n; i++) {
        table_cell(&table, presets[i].name);
        table_cell(&table, presets[i].spec);
        table_cell(&table, presets[i].summary);
    }
    table_print(&table, out);
    table_release(&table);
}

static void list_json(const struct firn_preset *presets, size_t n,
                      struct firn_buf *out)
{
    buf_puts(out, "{\"presets\":[");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        buf_json_string(out, presets[i].name);
        buf_puts(out, ",\"spec\":");
        buf_json_string(out, presets[i].spec);
        buf_puts(out, ",\"summary\":");
        buf_json_string(out, presets[i].summary);
        buf_putc(out, '}');
    }
    buf_puts(out, "\n]}\n");
}

/* Number of equal nodes from `from` on. */
static int run_length(const struct firn_cluster *cluster, int from)
{
    const struct firn_node *a = &cluster->nodes[from];
    int n = 1;
    for (; from + n < cluster->nnodes; n++) {
        const struct firn_node *b = &cluster->nodes[from + n];
        if (b->type != a->type || b->ngpus != a->ngpus || b->rack != a->rack)
            break;
    }
    return n;
}

static void show_table(const struct firn_cluster *cluster, struct firn_buf *out)
{
    static const char *const heads[] = {"nodes", "from",  "GPUs each", "type",
                                        "GiB",   "speed", "rack"};
    struct table table;
    buf_printf(
        out, "cluster %s: %d nodes, %d GPUs, %d jobs may share a GPU\n\n",
        cluster->name, cluster->nnodes, cluster->ngpus, cluster->jobs_per_gpu);
    table_init(&table, "rrrlrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    for (int i = 0, n; i < cluster->nnodes; i += n) {
        const struct firn_node *node = &cluster->nodes[i];
        const struct firn_gpu_type *type = &cluster->types[node->type];
        n = run_length(cluster, i);
        table_cellf(&table, "%d", n);
        table_cellf(&table, "n%d", i);
        table_cellf(&table, "%d", node->ngpus);
        table_cell(&table, type->name);
        if (type->mem_gib > 0)
            table_cellf(&table, "%g", type->mem_gib);
        else
            table_cell(&table, "-");
        table_cellf(&table, "%g", type->speed);
        table_cellf(&table, "%d", node->rack);
    }
    table_print(&table, out);
    table_release(&table);
}

static void show_json(const struct firn_cluster *cluster, struct firn_buf *out)
{
    buf_puts(out, "{\"name\":");
    buf_json_string(out, cluster->name);
    buf_printf(out, ",\"nodes\":%d,\"gpus\":%d,\"jobs_per_gpu\":%d,\"types\":[",
               cluster->nnodes, cluster->ngpus, cluster->jobs_per_gpu);
    for (int t = 0; t < cluster->ntypes; t++) {
        const struct firn_gpu_type *type = &cluster->types[t];
        buf_puts(out, t ? ",\n{\"name\":" : "\n{\"name\":");
        buf_json_string(out, type->name);
        buf_puts(out, ",\"mem_gib\":");
        buf_json_double(out, type->mem_gib);
        buf_puts(out, ",\"speed\":");
        buf_json_double(out, type->speed);
        buf_printf(out, ",\"gpus\":%d}", type->ngpus);
    }
    buf_puts(out, "\n],\"groups\":[");
    for (int i = 0, n; i < cluster->nnodes; i += n) {
        const struct firn_node *node = &cluster->nodes[i];
        n = run_length(cluster, i);
        buf_printf(out,
                   "%s{\"first\":%d,\"nodes\":%d,\"gpus_each\":%d,\"type\":",
                   i ? ",\n" : "\n", i, n, node->ngpus);
        buf_json_string(out, cluster->types[node->type].name);
        buf_printf(out, ",\"rack\":%d}", node->rack);
    }
    buf_puts(out, "\n]}\n");
}

static int show(const char *text, bool is_json, struct firn_buf *out)
{
    struct firn_cluster cluster;
    struct firn_error err = {0};
    if (firn_cluster_open(&cluster, text, &err) != FIRN_OK) {
        fprintf(stderr, "firn cluster: %s\n", err.text);
        return 1;
    }
    if (is_json)
        show_json(&cluster, out);
    else
        show_table(&cluster, out);
    firn_cluster_release(&cluster);
    return 0;
}

int cmd_cluster(int argc, char **argv)
{
    bool is_json = false;
    static const struct flag table[] = {FORMAT_FLAG(0), {0}};
    static const struct flags_page page = {
        .command = "cluster",
        .usage = "list [options]\nshow NAME|SPEC|FILE [options]",
        .about = "Lists the cluster presets, or shows one cluster: a preset, a "
                 "spec such as 24x8:v100,2x4:a100@80 (nodes x GPUs : type @ "
                 "GiB), or a YAML file.",
        .table = table,
    };
    int rc = flags_parse(&page, &is_json, &argc, argv);
    if (rc >= 0)
        return rc;
    bool is_list = argc < 2 || (argc == 2 && strcmp(argv[1], "list") == 0);
    if (!is_list && (argc != 3 || strcmp(argv[1], "show") != 0))
        return flags_wrong(&page, "use 'list', or 'show' and one cluster");
    struct firn_buf out = {0};
    size_t n;
    const struct firn_preset *presets = firn_cluster_presets(&n);
    if (!is_list)
        rc = show(argv[2], is_json, &out);
    else
        (is_json ? list_json : list_table)(presets, n, &out);
    if (rc <= 0)
        rc = output_write(page.command, &out);
    buf_release(&out);
    return rc;
}
