/* alloc_text.c - "n0[0-3] n7[1,3]~" into parts, and maps into text.
 *
 * The reader makes one part for each (node, board) in the order they appear,
 * so a test can also write allocations that are wrong: a node twice, nodes out
 * of order, GPUs beyond the last.
 */
#include "alloc_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 256 };

/* One GPU of a node: a bit in its board's part, the newest part of all. */
static void add_gpu(struct firn_alloc *alloc, int first, int node, int gpu)
{
    int board = gpu / FIRN_BOARD_GPUS;
    struct firn_part *last = &alloc->parts[alloc->nparts - 1];
    if (alloc->nparts == first || last->board != board) {
        if (alloc->nparts == PARTS_MAX)
            fail_msg("an allocation of more than %d parts", PARTS_MAX);
        last = &alloc->parts[alloc->nparts++];
        *last = (struct firn_part){.node = node, .board = board};
    }
    last->gpus |= (uint64_t)1 << gpu % FIRN_BOARD_GPUS;
    alloc->ngpus++;
}

struct firn_alloc alloc_read(const char *text, struct arena *arena)
{
    struct firn_alloc alloc = FIRN_ALLOC_NONE;
    alloc.parts = arena_alloc(arena, PARTS_MAX * sizeof *alloc.parts);
    char *at = arena_strdup(arena, text);
    while (*at == 'n') {
        int node = (int)strtol(at + 1, &at, 10), first = alloc.nparts;
        if (*at != '[')
            fail_msg("'%s' is not an allocation", text);
        while (*at == '[' || *at == ',') {
            long gpu = strtol(at + 1, &at, 10);
            long last = *at == '-' ? strtol(at + 1, &at, 10) : gpu;
            for (; gpu <= last; gpu++)
                add_gpu(&alloc, first, node, (int)gpu);
        }
        at += *at == ']';
        at += *at == ' ';
    }
    alloc.is_shared = *at == '~';
    if (at[alloc.is_shared] != '\0')
        fail_msg("'%s' is not an allocation", text);
    return alloc;
}

/* A node's boards; returns its free GPUs. */
static int node_text(const struct freemap *map, firn_node_id node,
                     struct firn_buf *out)
{
    int free = 0;
    for (int b = map->first_board[node]; b < map->first_board[node + 1]; b++) {
        free += __builtin_popcountll(map->free[b]);
        assert_true((map->free[b] & map->shared[b]) == 0);
        buf_printf(out, " %016llx/%016llx", (unsigned long long)map->free[b],
                   (unsigned long long)map->shared[b]);
        for (int g = 0; g < FIRN_BOARD_GPUS; g++) {
            int sharers = map->sharers[b * FIRN_BOARD_GPUS + g];
            assert_int_equal(sharers > 0, map->shared[b] >> g & 1);
            assert_true(sharers <= map->cluster->jobs_per_gpu);
            if (sharers > 0)
                buf_printf(out, " %d:%d", g, sharers);
        }
    }
    return free;
}

/* The buckets of one type hold each node once, under its free count. */
static void check_type(const struct freemap *map, firn_type_id id)
{
    const struct freemap_type *type = &map->types[id];
    int free = 0, up = 0;
    for (int i = 0; i < type->nnodes; i++) {
        const struct firn_node *node = &map->cluster->nodes[type->nodes[i]];
        int of_node = map->node_free[node->id];
        assert_int_equal(node->type, id);
        free += of_node;
        up += node->is_up ? node->ngpus : 0;
        for (int f = 0; f <= type->max; f++) {
            uint64_t word =
                type->bits[(size_t)f * type->words + (size_t)i / 64];
            assert_int_equal(word >> i % 64 & 1, f == of_node);
        }
    }
    assert_int_equal(type->free, free);
    assert_int_equal(type->up, up);
    for (int f = 0; f <= type->max; f++) {
        int nodes = 0;
        for (int i = 0; i < type->nnodes; i++)
            nodes += map->node_free[type->nodes[i]] == f;
        assert_int_equal(type->count[f], nodes);
        assert_int_equal(type->filled[f / 64] >> f % 64 & 1, nodes > 0);
    }
}

struct firn_buf freemap_text(const struct freemap *map)
{
    struct firn_buf out = {0};
    int free = 0, up = 0, stranded = 0;
    for (int i = 0; i < map->cluster->nnodes; i++) {
        const struct firn_node *node = &map->cluster->nodes[i];
        buf_printf(&out, "n%d%s", i, node->is_up ? "" : " down");
        int of_node = node_text(map, i, &out);
        assert_int_equal(of_node, map->node_free[i]);
        free += of_node;
        up += node->is_up ? node->ngpus : 0;
        stranded += of_node < node->ngpus ? of_node : 0;
        buf_putc(&out, '\n');
    }
    for (int t = 0; t < map->cluster->ntypes; t++)
        check_type(map, t);
    assert_int_equal(map->free_gpus, free);
    assert_int_equal(map->up_gpus, up);
    assert_int_equal(map->stranded, stranded);
    buf_printf(&out, "free %d up %d stranded %d\n", free, up, stranded);
    return out;
}
