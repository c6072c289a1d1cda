/* dock_nodes.c - nodes: what they are called, and whether they are in use.
 *
 * A node has a number, which is what allocations are kept by, and a name, which
 * is what people see and say: the engine's own if it has names, else "n" and
 * the number. Numbers are of this run: which name had which number is kept, and
 * when the engine counts otherwise after a restart, what living jobs hold is
 * read by the names.
 *
 * A node is in the round when its operator has not drained it and the engine
 * does not say that it is down; the two come and go in any order. Before it
 * changes in the round, every GPU that is blocked comes back, and behind it
 * those that still are to be blocked are: invariant of core/round.h.
 *
 * When it leaves by a drain there is time: its jobs are asked to write a
 * checkpoint. When it is down they are lost, and wait for other GPUs.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/dock.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --------------------------------------------------------------- */

const char *dock_node_name(const struct dock *dock, firn_node_id node)
{
    const char *name = dock->engine->node_name != NULL
                           ? dock->engine->node_name(dock->engine_state, node)
                           : NULL;
    return name != NULL ? name : dock->node_names[node];
}

bool dock_node_find(const struct dock *dock, const char *name,
                    firn_node_id *out)
{
    for (int i = 0; i < dock->cluster.nnodes; i++)
        if (strcmp(dock_node_name(dock, i), name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

void dock_gpus_text(const struct dock *dock, const char *held,
                    struct firn_buf *out)
{
    if (held[0] == '\0')
        buf_putc(out, '-');
    for (const char *at = held; *at != '\0';) {
        char *end = NULL;
        bool is_first = at == held || at[-1] == ' ';
        long node = -1;
        if (is_first && at[0] == 'n' && isdigit((unsigned char)at[1]))
            node = strtol(at + 1, &end, 10);
        if (node >= 0 && node < dock->cluster.nnodes && *end == '[') {
            buf_puts(out, dock_node_name(dock, (firn_node_id)node));
            at = end;
        } else {
            buf_putc(out, *at++);
        }
    }
}

void dock_alloc_text(const struct dock *dock, const struct firn_alloc *gpus,
                     struct firn_buf *out)
{
    struct firn_buf text = {0};
    firn_alloc_print(gpus, &text);
    dock_gpus_text(dock, text.at, out);
    buf_release(&text);
}

/* --- numbers of another run ---------------------------------------------- */

/* The next word of a list; NULL: there is none. It is ended with a NUL. */
static char *next_word(char **at)
{
    char *word = *at;
    if (word == NULL || *word == '\0')
        return NULL;
    *at = word + strcspn(word, " ");
    if (**at == ' ')
        *(*at)++ = '\0';
    return word;
}

enum firn_status dock_number_nodes(struct dock *dock, struct firn_error *err)
{
    struct firn_buf now = {0}, before = {0};
    struct firn_error none = {0};
    /* The names by number, with blanks between. */
    for (int i = 0; i < dock->cluster.nnodes; i++)
        buf_printf(&now, "%s%s", i > 0 ? " " : "", dock_node_name(dock, i));
    bool was_there =
        store_get_meta(dock->store, "nodes", &before, &none) == FIRN_OK &&
        before.n > 0 && now.n > 0;
    if (was_there &&
        (before.n != now.n || memcmp(before.at, now.at, now.n) != 0)) {
        char *at = before.at;
        for (char *name; (name = next_word(&at)) != NULL;) {
            firn_node_id node = -1;
            dock_node_find(dock, name, &node);
            vec_add(&dock->renumbered, node);
        }
        log_info(
            "the nodes have changed since the last start, or their order has");
    }
    enum firn_status status = store_put_meta(
        dock->store, "nodes", (struct firn_bytes){now.at, now.n}, err);
    buf_release(&now);
    buf_release(&before);
    return status;
}

static int by_node(const void *a, const void *b)
{
    const struct firn_part *p = a, *q = b;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    return (p->board > q->board) - (p->board < q->board);
}

bool dock_renumber(const struct dock *dock, struct firn_alloc *held)
{
    if (dock->renumbered.n == 0)
        return true;
    for (int i = 0; i < held->nparts; i++) {
        size_t before = (size_t)held->parts[i].node;
        if (before >= dock->renumbered.n || dock->renumbered.at[before] < 0)
            return false;
        held->parts[i].node = dock->renumbered.at[before];
    }
    if (held->nparts > 1)
        qsort(held->parts, (size_t)held->nparts, sizeof *held->parts, by_node);
    return true;
}

/* --- drained ------------------------------------------------------------- */

enum firn_status dock_keep_drained(struct dock *dock, struct firn_error *err)
{
    struct firn_buf list = {0};
    for (int i = 0; i < dock->cluster.nnodes; i++)
        if (dock->is_drained[i])
            buf_printf(&list, "%s ", dock_node_name(dock, i));
    if (dock->drained_away.n > 0)
        buf_puts(&list, dock->drained_away.at);
    struct firn_bytes bytes = {list.n > 0 ? list.at : "", list.n};
    enum firn_status status =
        store_put_meta(dock->store, "drained", bytes, err);
    buf_release(&list);
    return status;
}

/* A number alone is how an older firnd kept it. */
static bool find_drained(const struct dock *dock, const char *word,
                         firn_node_id *out)
{
    long number = 0;
    if (dock_node_find(dock, word, out))
        return true;
    if (!str_int(word, 0, dock->cluster.nnodes - 1, &number))
        return false;
    *out = (firn_node_id)number;
    return true;
}

enum firn_status dock_recall_drained(struct dock *dock, bool *is_drained,
                                     struct firn_error *err)
{
    struct firn_buf text = {0};
    struct firn_error none = {0};
    if (store_get_meta(dock->store, "drained", &text, &none) == FIRN_OK) {
        char *at = text.n > 0 ? text.at : NULL;
        for (char *word; (word = next_word(&at)) != NULL;) {
            firn_node_id node = 0;
            if (find_drained(dock, word, &node))
                is_drained[node] = true;
            else
                buf_printf(&dock->drained_away, "%s ", word);
        }
    }
    buf_release(&text);
    return dock->drained_away.n > 0 ? dock_keep_drained(dock, err) : FIRN_OK;
}

const char *dock_node_why(const struct dock *dock, firn_node_id node)
{
    const char *why = dock->engine->node_why != NULL
                          ? dock->engine->node_why(dock->engine_state, node)
                          : NULL;
    return why != NULL ? why : "";
}

/* --- opened and closed --------------------------------------------------- */

void dock_nodes_open(struct dock *dock)
{
    int nnodes = dock->cluster.nnodes;
    size_t n = (size_t)nnodes;
    dock->is_drained = mem_new(n, sizeof *dock->is_drained);
    dock->is_down = mem_new(n, sizeof *dock->is_down);
    dock->node_names = mem_new(n, sizeof *dock->node_names);
    for (int i = 0; i < nnodes; i++) {
        snprintf(dock->node_names[i], sizeof dock->node_names[i], "n%d", i);
        /* What ran is taken over as it was; only then is a node down. */
        dock->is_down[i] = !dock->cluster.nodes[i].is_up;
        dock->cluster.nodes[i].is_up = true;
    }
}

void dock_nodes_close(struct dock *dock)
{
    buf_release(&dock->drained_away);
    vec_release(&dock->renumbered);
    mem_free(dock->is_drained);
    mem_free(dock->is_down);
    mem_free(dock->node_names);
}
