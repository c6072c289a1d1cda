/* loop_nodes.c - nodes: what they are called, and whether they are in use.
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
#include "daemon/loopwork.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --------------------------------------------------------------- */

const char *loop_node_name(const struct loop *loop, firn_node_id node)
{
    const char *name = loop->engine->node_name != NULL
                           ? loop->engine->node_name(loop->engine_state, node)
                           : NULL;
    return name != NULL ? name : loop->node_names[node];
}

bool loop_node_find(const struct loop *loop, const char *name,
                    firn_node_id *out)
{
    for (int i = 0; i < loop->cluster.nnodes; i++)
        if (strcmp(loop_node_name(loop, i), name) == 0) {
            *out = i;
            return true;
        }
    return false;
}

void loop_gpus_text(const struct loop *loop, const char *held,
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
        if (node >= 0 && node < loop->cluster.nnodes && *end == '[') {
            buf_puts(out, loop_node_name(loop, (firn_node_id)node));
            at = end;
        } else {
            buf_putc(out, *at++);
        }
    }
}

void loop_alloc_text(const struct loop *loop, const struct firn_alloc *gpus,
                     struct firn_buf *out)
{
    struct firn_buf text = {0};
    firn_alloc_print(gpus, &text);
    loop_gpus_text(loop, text.at, out);
    buf_release(&text);
}

/* --- numbers of another run ---------------------------------------------- */

/* The names by number, with blanks between. */
static void list_names(const struct loop *loop, struct firn_buf *out)
{
    for (int i = 0; i < loop->cluster.nnodes; i++)
        buf_printf(out, "%s%s", i > 0 ? " " : "", loop_node_name(loop, i));
}

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

enum firn_status loop_nodes_number(struct loop *loop, struct firn_error *err)
{
    struct firn_buf now = {0}, before = {0};
    struct firn_error none = {0};
    list_names(loop, &now);
    bool was_there =
        store_get_meta(loop->store, "nodes", &before, &none) == FIRN_OK &&
        before.n > 0 && now.n > 0;
    if (was_there &&
        (before.n != now.n || memcmp(before.at, now.at, now.n) != 0)) {
        char *at = before.at;
        for (char *name; (name = next_word(&at)) != NULL;) {
            firn_node_id node = -1;
            loop_node_find(loop, name, &node);
            vec_add(&loop->renumbered, node);
        }
        log_info("the nodes are others than they were, or in another order");
    }
    enum firn_status status = store_put_meta(
        loop->store, "nodes", (struct firn_bytes){now.at, now.n}, err);
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

bool loop_renumber(const struct loop *loop, struct firn_alloc *held)
{
    if (loop->renumbered.n == 0)
        return true;
    for (int i = 0; i < held->nparts; i++) {
        size_t before = (size_t)held->parts[i].node;
        if (before >= loop->renumbered.n || loop->renumbered.at[before] < 0)
            return false;
        held->parts[i].node = loop->renumbered.at[before];
    }
    if (held->nparts > 1)
        qsort(held->parts, (size_t)held->nparts, sizeof *held->parts, by_node);
    return true;
}

/* --- in use or not ------------------------------------------------------- */

enum firn_status loop_node_follow(struct loop *loop, firn_node_id node,
                                  bool has_time, struct firn_error *err)
{
    bool is_up = !loop->is_drained[node] && !loop->is_down[node];
    if (round_state(loop->round)->cluster.nodes[node].is_up == is_up)
        return FIRN_OK;
    struct firn_event event = {.kind = is_up ? FIRN_EVENT_NODE_UP
                                             : FIRN_EVENT_NODE_DOWN,
                               .at_s = loop_now_s(loop),
                               .node = node};
    loop_pins_lift(loop);
    loop_outside_lift(loop, node);
    loop->is_draining = has_time;
    enum firn_status status = round_event(loop->round, &event, err);
    loop->is_draining = false;
    loop_pins_set(loop);
    loop_outside_settle(loop);
    return status;
}

int loop_node_idle(const struct loop *loop, firn_node_id node)
{
    enum { BOARDS = FIRN_NODE_GPUS_MAX / FIRN_BOARD_GPUS + 1 };
    uint64_t held[BOARDS] = {0}; /* two jobs may share one */
    int idle = loop->cluster.nodes[node].ngpus - loop_outside_count(loop, node);
    for (size_t i = 0; i < loop->tracks.n; i++) {
        const struct track *track = loop->tracks.at[i];
        const struct live_job *job =
            track != NULL ? book_job(loop->book, track->id) : NULL;
        struct firn_alloc has = FIRN_ALLOC_NONE;
        if (job == NULL || job->held[0] == '-' || /* nothing; most wait */
            !recover_alloc(job->held, &has))
            continue;
        for (int p = 0; p < has.nparts; p++)
            if (has.parts[p].node == node && has.parts[p].board < BOARDS)
                held[has.parts[p].board] |= has.parts[p].gpus;
        mem_free(has.parts);
    }
    for (size_t b = 0; b < BOARDS; b++)
        idle -= __builtin_popcountll(held[b]);
    return idle > 0 ? idle : 0;
}

/* By name; also those that are not here at present, for when they are back. */
static enum firn_status keep_drained(struct loop *loop, struct firn_error *err)
{
    struct firn_buf list = {0};
    for (int i = 0; i < loop->cluster.nnodes; i++)
        if (loop->is_drained[i])
            buf_printf(&list, "%s ", loop_node_name(loop, i));
    if (loop->drained_away.n > 0)
        buf_puts(&list, loop->drained_away.at);
    struct firn_bytes bytes = {list.n > 0 ? list.at : "", list.n};
    enum firn_status status =
        store_put_meta(loop->store, "drained", bytes, err);
    buf_release(&list);
    return status;
}

enum firn_status loop_drain(struct loop *loop, firn_node_id node, bool drained,
                            struct firn_error *err)
{
    if (node < 0 || node >= loop->cluster.nnodes)
        return firn_fail(err, FIRN_ENOENT, "there is no node %d", node);
    if (loop->is_drained[node] == drained)
        return FIRN_OK;
    loop->is_drained[node] = drained;
    enum firn_status status = loop_node_follow(loop, node, true, err);
    if (status != FIRN_OK) {
        loop->is_drained[node] = !drained;
        return status;
    }
    return keep_drained(loop, err);
}

/* A number alone is how an older firnd kept it. */
static bool find_drained(const struct loop *loop, const char *word,
                         firn_node_id *out)
{
    long number = 0;
    if (loop_node_find(loop, word, out))
        return true;
    if (!str_int(word, 0, loop->cluster.nnodes - 1, &number))
        return false;
    *out = (firn_node_id)number;
    return true;
}

enum firn_status loop_nodes_begin(struct loop *loop, struct firn_error *err)
{
    struct firn_buf text = {0};
    struct firn_error none = {0};
    enum firn_status status = FIRN_OK;
    if (store_get_meta(loop->store, "drained", &text, &none) == FIRN_OK) {
        char *at = text.n > 0 ? text.at : NULL;
        for (char *word;
             status == FIRN_OK && (word = next_word(&at)) != NULL;) {
            firn_node_id node = 0;
            if (find_drained(loop, word, &node))
                status = loop_drain(loop, node, true, err);
            else
                buf_printf(&loop->drained_away, "%s ", word);
        }
        if (status == FIRN_OK && loop->drained_away.n > 0)
            status = keep_drained(loop, err);
    }
    buf_release(&text);
    for (int i = 0; i < loop->cluster.nnodes && status == FIRN_OK; i++)
        if (loop->is_down[i])
            status = loop_node_follow(loop, i, false, err);
    return status;
}

void loop_node_event(struct loop *loop, const struct firn_event *event)
{
    struct firn_error err = {0};
    bool is_down = event->kind == FIRN_EVENT_NODE_DOWN;
    if (event->node < 0 || event->node >= loop->cluster.nnodes ||
        loop->is_down[event->node] == is_down)
        return;
    const char *why = loop_node_why(loop, event->node);
    log_info("node %s is %s%s%s", loop_node_name(loop, event->node),
             is_down ? "out" : "back", is_down && why[0] != '\0' ? ": " : "",
             is_down ? why : "");
    loop->is_down[event->node] = is_down;
    if (loop_node_follow(loop, event->node, event->is_drained, &err) != FIRN_OK)
        log_warn("%s", err.text);
}

const char *loop_node_why(const struct loop *loop, firn_node_id node)
{
    const char *why = loop->engine->node_why != NULL
                          ? loop->engine->node_why(loop->engine_state, node)
                          : NULL;
    return why != NULL ? why : "";
}

/* --- opened and closed --------------------------------------------------- */

void loop_nodes_open(struct loop *loop)
{
    int nnodes = loop->cluster.nnodes;
    size_t n = (size_t)nnodes;
    loop->is_drained = mem_new(n, sizeof *loop->is_drained);
    loop->is_down = mem_new(n, sizeof *loop->is_down);
    loop->node_names = mem_new(n, sizeof *loop->node_names);
    for (int i = 0; i < nnodes; i++) {
        snprintf(loop->node_names[i], sizeof loop->node_names[i], "n%d", i);
        /* What ran is taken over as it was; only then is a node down. */
        loop->is_down[i] = !loop->cluster.nodes[i].is_up;
        loop->cluster.nodes[i].is_up = true;
    }
    loop_outside_open(loop);
}

void loop_nodes_close(struct loop *loop)
{
    loop_outside_close(loop);
    buf_release(&loop->drained_away);
    vec_release(&loop->renumbered);
    mem_free(loop->is_drained);
    mem_free(loop->is_down);
    mem_free(loop->node_names);
}
