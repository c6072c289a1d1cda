/* alloc.c - comparing and printing allocations.
 *
 * Text form, read at a glance and by the event log's checker: a group per
 * node, GPUs as ranges, "/s" behind it when the model is sharded over them,
 * "/p4" when it is in four stages, "~" when held as half-shares:
 * "n0[0-3] n7[1,3]~". Boards do not show: GPU 70 of a node is 70.
 */
#include <firn/alloc.h>

#include "base/buf.h"
#include <firn/parallel.h>

bool firn_how_equal(const struct firn_how *a, const struct firn_how *b)
{
    return a->passes == b->passes && a->tensor == b->tensor &&
           a->parallel == b->parallel && a->stages == b->stages &&
           a->merged_with == b->merged_with && a->after == b->after;
}

bool firn_alloc_equal(const struct firn_alloc *a, const struct firn_alloc *b)
{
    if (a->nparts == 0 && b->nparts == 0)
        return true;
    if (a->nparts != b->nparts || a->is_shared != b->is_shared ||
        !firn_how_equal(&a->how, &b->how))
        return false;
    for (int i = 0; i < a->nparts; i++) {
        const struct firn_part *p = &a->parts[i], *q = &b->parts[i];
        if (p->node != q->node || p->board != q->board || p->gpus != q->gpus)
            return false;
    }
    return true;
}

bool firn_alloc_overlaps(const struct firn_alloc *a, const struct firn_alloc *b)
{
    for (int i = 0; i < a->nparts; i++)
        for (int k = 0; k < b->nparts; k++)
            if (a->parts[i].node == b->parts[k].node &&
                a->parts[i].board == b->parts[k].board &&
                (a->parts[i].gpus & b->parts[k].gpus) != 0)
                return true;
    return false;
}

int firn_alloc_nodes(const struct firn_alloc *alloc)
{
    int n = 0;
    for (int i = 0; i < alloc->nparts; i++)
        n += i == 0 || alloc->parts[i].node != alloc->parts[i - 1].node;
    return n;
}

/* A run of GPUs, still growing; first < 0: none yet. */
struct range {
    int first, last;
    bool follows; /* another one was printed before it */
};

static void print_range(struct range *range, struct firn_buf *out)
{
    if (range->first < 0)
        return;
    buf_printf(out, "%s%d", range->follows ? "," : "", range->first);
    if (range->last > range->first)
        buf_printf(out, "-%d", range->last);
    range->follows = true;
}

static void print_part(const struct firn_part *part, struct range *range,
                       struct firn_buf *out)
{
    for (uint64_t left = part->gpus; left; left &= left - 1) {
        int gpu = part->board * FIRN_BOARD_GPUS + __builtin_ctzll(left);
        if (range->first < 0 || gpu != range->last + 1) {
            print_range(range, out);
            range->first = gpu;
        }
        range->last = gpu;
    }
}

static void print_saves(int parallel, struct firn_buf *out)
{
    static const char marks[] = "12ro"; /* in the order of the bits */
    if ((parallel & FIRN_SAVES) == 0)
        return;
    buf_putc(out, '+');
    for (int i = 0; marks[i] != '\0'; i++)
        if (parallel & FIRN_SAVES_STATE << i)
            buf_putc(out, marks[i]);
}

void firn_alloc_print(const struct firn_alloc *alloc, struct firn_buf *out)
{
    if (alloc->nparts == 0) {
        buf_puts(out, "-");
        return;
    }
    for (int i = 0; i < alloc->nparts;) {
        firn_node_id node = alloc->parts[i].node;
        struct range range = {.first = -1};
        buf_printf(out, "%sn%d[", i > 0 ? " " : "", node);
        for (; i < alloc->nparts && alloc->parts[i].node == node; i++)
            print_part(&alloc->parts[i], &range, out);
        print_range(&range, out);
        buf_putc(out, ']');
    }
    int kind = firn_parallel_kind(alloc->how.parallel);
    if (kind == FIRN_PARALLEL_SHARDED)
        buf_puts(out, "/s");
    if (kind == FIRN_PARALLEL_PIPELINE)
        buf_printf(out, "/p%d", alloc->how.stages);
    if (kind == FIRN_PARALLEL_PIPELINE && alloc->how.tensor > 1)
        buf_printf(out, "t%d", alloc->how.tensor);
    if (kind == FIRN_PARALLEL_OFFLOAD)
        buf_puts(out, "/o");
    if (kind == FIRN_PARALLEL_RECOMPUTE)
        buf_puts(out, "/r");
    print_saves(alloc->how.parallel, out);
    if (alloc->is_shared)
        buf_putc(out, '~');
}
