/* alloc.c - comparing and printing allocations.
 *
 * Text form, read at a glance and by the event log's checker: a group per
 * node, GPUs as ranges, "~" behind it when held as half-shares:
 * "n0[0-3] n7[1,3]~". Boards do not show: GPU 70 of a node is 70.
 */
#include <firn/alloc.h>

#include "base/buf.h"

bool firn_alloc_equal(const struct firn_alloc *a, const struct firn_alloc *b)
{
    if (a->nparts != b->nparts || a->is_shared != b->is_shared)
        return false;
    for (int i = 0; i < a->nparts; i++) {
        const struct firn_part *p = &a->parts[i], *q = &b->parts[i];
        if (p->node != q->node || p->board != q->board || p->gpus != q->gpus)
            return false;
    }
    return true;
}

int firn_alloc_nodes(const struct firn_alloc *alloc)
{
    int n = 0;
    for (int i = 0; i < alloc->nparts; i++)
        n += i == 0 || alloc->parts[i].node != alloc->parts[i - 1].node;
    return n;
}

/* Appends the ranges of one board; returns whether anything came before. */
static bool print_board(const struct firn_part *part, bool any,
                        struct firn_buf *out)
{
    int base = part->board * FIRN_BOARD_GPUS;
    for (int i = 0; i < FIRN_BOARD_GPUS; i++) {
        if ((part->gpus >> i & 1) == 0)
            continue;
        int last = i;
        while (last + 1 < FIRN_BOARD_GPUS && (part->gpus >> (last + 1) & 1))
            last++;
        buf_puts(out, any ? "," : "");
        buf_printf(out, "%d", base + i);
        if (last > i)
            buf_printf(out, "-%d", base + last);
        any = true;
        i = last;
    }
    return any;
}

void firn_alloc_print(const struct firn_alloc *alloc, struct firn_buf *out)
{
    if (alloc->nparts == 0) {
        buf_puts(out, "-");
        return;
    }
    for (int i = 0; i < alloc->nparts;) {
        firn_node_id node = alloc->parts[i].node;
        buf_printf(out, "%sn%d[", i > 0 ? " " : "", node);
        bool any = false;
        for (; i < alloc->nparts && alloc->parts[i].node == node; i++)
            any = print_board(&alloc->parts[i], any, out);
        buf_putc(out, ']');
    }
    if (alloc->is_shared)
        buf_putc(out, '~');
}
