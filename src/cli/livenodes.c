/* livenodes.c - the nodes of firnd as a table.
 */
#include "cli/livenodes.h"
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"
#include "cli/safetext.h"

static const char *state_of(const json_t *node)
{
    if (json_is_false(json_object_get(node, "up")))
        return "down";
    return answer_yes(node, "drained") ? "drained" : "up";
}

static void add_row(struct table *table, const json_t *node, bool has_why)
{
    double mem_gib = answer_number(node, "mem_gib", 0);
    answer_cell(table, answer_text(node, "name"));
    table_cell(table, state_of(node));
    answer_cell(table, answer_text(node, "type"));
    table_cellf(table, "%.0f", answer_number(node, "gpus", 0));
    table_cellf(table, "%.0f", answer_number(node, "free", 0));
    table_cellf(table, "%.0f", answer_number(node, "outside", 0));
    table_cellf(table, mem_gib > 0 ? "%.0f" : "-", mem_gib);
    if (has_why)
        answer_cell(table, answer_text(node, "why"));
}

void live_nodes_table(const json_t *answer, struct firn_buf *out)
{
    static const char *const heads[] = {"NODE", "STATE",   "TYPE", "GPUS",
                                        "FREE", "OUTSIDE", "GIB"};
    const json_t *nodes = answer_list(answer, "nodes");
    bool has_why = false;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        has_why |= json_object_get(json_array_get(nodes, i), "why") != NULL;
    struct table table;
    table_init(&table, has_why ? "lllrrrrl" : "lllrrrr");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(&table, heads[i]);
    if (has_why)
        table_cell(&table, "WHY");
    for (size_t i = 0; i < json_array_size(nodes); i++)
        add_row(&table, json_array_get(nodes, i), has_why);
    table_print(&table, out);
    table_release(&table);
    if (json_object_get(answer, "trouble") != NULL) {
        buf_puts(out, "no job is started: ");
        safe_puts(out, answer_text(answer, "trouble"));
        buf_putc(out, '\n');
    }
}

void live_nodes_sum(const json_t *answer, double *ngpus, double *nfree)
{
    const json_t *nodes = answer_list(answer, "nodes");
    *ngpus = *nfree = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        *ngpus += answer_number(json_array_get(nodes, i), "gpus", 0);
        *nfree += answer_number(json_array_get(nodes, i), "free", 0);
    }
}
