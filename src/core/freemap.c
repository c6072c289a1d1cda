/* freemap.c - free GPUs by board, nodes by free count.
 *
 * Invariants:
 * (1) bit g of free[b] is set exactly when the node is up and no job holds
 *     the GPU; shared[b] and free[b] never have a bit in common;
 * (2) sharers[64 b + g] > 0 exactly when bit g of shared[b] is set, and it
 *     never exceeds jobs_per_gpu;
 * (3) node n is in bucket node_free[n] of its type, and in no other;
 * (4) free_gpus, types[].free and stranded are sums over node_free.
 *
 * Cost: taking or giving back is O(parts) plus a constant per node touched;
 * finding a node is O(nodes / 64).
 */
#include "core/freemap.h"
#include "base/mem.h"

static int popcount(uint64_t bits)
{
    return __builtin_popcountll(bits);
}

static int lowest(uint64_t bits)
{
    return __builtin_ctzll(bits);
}

static int highest(uint64_t bits)
{
    return 63 - __builtin_clzll(bits);
}

/* The GPUs that board `board` of a node with `ngpus` has. */
static uint64_t board_gpus(int ngpus, int board)
{
    int left = ngpus - board * FIRN_BOARD_GPUS;
    if (left <= 0)
        return 0;
    return left >= FIRN_BOARD_GPUS ? ~(uint64_t)0 : ((uint64_t)1 << left) - 1;
}

static uint64_t *bucket(const struct freemap_type *type, int free)
{
    return type->bits + (size_t)free * type->words;
}

static void bucket_add(struct freemap_type *type, int free, int rank)
{
    bucket(type, free)[rank / 64] |= (uint64_t)1 << rank % 64;
    if (type->count[free]++ == 0)
        type->filled[free / 64] |= (uint64_t)1 << free % 64;
}

static void bucket_drop(struct freemap_type *type, int free, int rank)
{
    bucket(type, free)[rank / 64] &= ~((uint64_t)1 << rank % 64);
    if (--type->count[free] == 0)
        type->filled[free / 64] &= ~((uint64_t)1 << free % 64);
}

static int stranded_on(const struct freemap *map, firn_node_id node, int free)
{
    return free < map->cluster->nodes[node].ngpus ? free : 0;
}

/* Moves a node to another bucket and keeps the sums. */
static void set_node_free(struct freemap *map, firn_node_id node, int free)
{
    int before = map->node_free[node];
    if (before == free)
        return;
    struct freemap_type *type = &map->types[map->cluster->nodes[node].type];
    bucket_drop(type, before, map->rank[node]);
    bucket_add(type, free, map->rank[node]);
    type->free += free - before;
    map->free_gpus += free - before;
    map->stranded +=
        stranded_on(map, node, free) - stranded_on(map, node, before);
    map->node_free[node] = free;
}

static void init_type(struct freemap *map, firn_type_id id)
{
    struct freemap_type *type = &map->types[id];
    const struct firn_cluster *cluster = map->cluster;
    type->nodes = mem_new((size_t)cluster->nnodes, sizeof *type->nodes);
    for (int i = 0; i < cluster->nnodes; i++) {
        if (cluster->nodes[i].type != id)
            continue;
        map->rank[i] = type->nnodes;
        type->nodes[type->nnodes++] = i;
        if (cluster->nodes[i].ngpus > type->max)
            type->max = cluster->nodes[i].ngpus;
    }
    size_t buckets = (size_t)type->max + 1;
    type->words = ((size_t)type->nnodes + 63) / 64;
    type->bits = mem_new(buckets * type->words, sizeof *type->bits);
    type->count = mem_new(buckets, sizeof *type->count);
    type->filled = mem_new((buckets + 63) / 64, sizeof *type->filled);
    for (int i = 0; i < type->nnodes; i++)
        bucket_add(type, 0, i);
}

void freemap_init(struct freemap *map, const struct firn_cluster *cluster)
{
    size_t nnodes = (size_t)cluster->nnodes;
    *map = (struct freemap){.cluster = cluster};
    map->first_board = mem_new(nnodes + 1, sizeof *map->first_board);
    map->node_free = mem_new(nnodes, sizeof *map->node_free);
    map->rank = mem_new(nnodes, sizeof *map->rank);
    int boards = 0;
    for (int i = 0; i < cluster->nnodes; i++) {
        map->first_board[i] = boards;
        boards +=
            (cluster->nodes[i].ngpus + FIRN_BOARD_GPUS - 1) / FIRN_BOARD_GPUS;
    }
    map->first_board[cluster->nnodes] = boards;
    map->free = mem_new((size_t)boards, sizeof *map->free);
    map->shared = mem_new((size_t)boards, sizeof *map->shared);
    map->sharers = mem_new((size_t)boards * FIRN_BOARD_GPUS, 1);
    for (int i = 0; i < cluster->ntypes; i++)
        init_type(map, i);
    for (int i = 0; i < cluster->nnodes; i++)
        if (cluster->nodes[i].is_up)
            freemap_node_changed(map, i);
}

void freemap_release(struct freemap *map)
{
    if (map == NULL || map->cluster == NULL)
        return;
    for (int i = 0; i < map->cluster->ntypes; i++) {
        mem_free(map->types[i].nodes);
        mem_free(map->types[i].bits);
        mem_free(map->types[i].count);
        mem_free(map->types[i].filled);
    }
    mem_free(map->first_board);
    mem_free(map->free);
    mem_free(map->shared);
    mem_free(map->sharers);
    mem_free(map->node_free);
    mem_free(map->rank);
    *map = (struct freemap){0};
}

void freemap_node_changed(struct freemap *map, firn_node_id node)
{
    const struct firn_node *n = &map->cluster->nodes[node];
    int first = map->first_board[node], end = map->first_board[node + 1];
    for (int b = first; b < end; b++)
        map->free[b] = n->is_up ? board_gpus(n->ngpus, b - first) : 0;
    int gpus = n->is_up ? n->ngpus : -n->ngpus;
    map->types[n->type].up += gpus;
    map->up_gpus += gpus;
    set_node_free(map, node, n->is_up ? n->ngpus : 0);
}

static bool part_exists(const struct freemap *map, const struct firn_part *part)
{
    const struct firn_cluster *cluster = map->cluster;
    if (part->node < 0 || part->node >= cluster->nnodes || part->board < 0 ||
        part->board >= FIRN_NODE_GPUS_MAX / FIRN_BOARD_GPUS)
        return false;
    const struct firn_node *node = &cluster->nodes[part->node];
    return node->is_up && part->gpus != 0 &&
           (part->gpus & ~board_gpus(node->ngpus, part->board)) == 0;
}

static bool can_share(const struct freemap *map, int board, uint64_t gpus)
{
    if ((gpus & ~(map->free[board] | map->shared[board])) != 0)
        return false;
    const uint8_t *sharers = map->sharers + (size_t)board * FIRN_BOARD_GPUS;
    for (uint64_t left = gpus & map->shared[board]; left; left &= left - 1)
        if (sharers[lowest(left)] >= map->cluster->jobs_per_gpu)
            return false;
    return true;
}

bool freemap_can_take(const struct freemap *map, const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        if (!part_exists(map, part))
            return false;
        int board = map->first_board[part->node] + part->board;
        bool ok = alloc->is_shared ? can_share(map, board, part->gpus)
                                   : (part->gpus & ~map->free[board]) == 0;
        if (!ok)
            return false;
    }
    return true;
}

/* One more (or one fewer) half-share on each of these GPUs. */
static void count_sharers(struct freemap *map, int board, uint64_t gpus,
                          bool more)
{
    uint8_t *sharers = map->sharers + (size_t)board * FIRN_BOARD_GPUS;
    for (; gpus; gpus &= gpus - 1) {
        int gpu = lowest(gpus);
        sharers[gpu] = (uint8_t)(sharers[gpu] + (more ? 1 : -1));
        uint64_t bit = (uint64_t)1 << gpu;
        if (sharers[gpu] > 0) {
            map->shared[board] |= bit;
            map->free[board] &= ~bit;
        } else {
            map->shared[board] &= ~bit;
            map->free[board] |= bit;
        }
    }
}

void freemap_take(struct freemap *map, const struct firn_alloc *alloc)
{
    if (!freemap_can_take(map, alloc))
        FIRN_BUG("GPUs are taken that are not free");
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        int board = map->first_board[part->node] + part->board;
        int taken = popcount(part->gpus & map->free[board]);
        if (alloc->is_shared)
            count_sharers(map, board, part->gpus, true);
        else
            map->free[board] &= ~part->gpus;
        set_node_free(map, part->node, map->node_free[part->node] - taken);
    }
}

void freemap_give(struct freemap *map, const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        int board = map->first_board[part->node] + part->board;
        uint64_t held = alloc->is_shared
                            ? map->shared[board]
                            : ~(map->free[board] | map->shared[board]);
        if (!part_exists(map, part) || (part->gpus & ~held) != 0)
            FIRN_BUG("GPUs are given back that are not held");
        if (alloc->is_shared)
            count_sharers(map, board, part->gpus, false);
        else
            map->free[board] |= part->gpus;
        int given = popcount(part->gpus & map->free[board]);
        set_node_free(map, part->node, map->node_free[part->node] + given);
    }
}

/* Adds the GPUs of each part to those that are up, or takes them away. */
static void count_up(struct freemap *map, const struct firn_alloc *alloc,
                     int sign)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        int gpus = sign * popcount(part->gpus);
        map->types[map->cluster->nodes[part->node].type].up += gpus;
        map->up_gpus += gpus;
    }
}

void freemap_block(struct freemap *map, const struct firn_alloc *alloc)
{
    freemap_take(map, alloc);
    count_up(map, alloc, -1);
}

void freemap_unblock(struct freemap *map, const struct firn_alloc *alloc)
{
    count_up(map, alloc, 1);
    freemap_give(map, alloc);
}

/* The lowest node in a bucket that is not empty. */
static firn_node_id first_in(const struct freemap_type *type, int free)
{
    const uint64_t *bits = bucket(type, free);
    for (size_t w = 0; w < type->words; w++)
        if (bits[w] != 0)
            return type->nodes[w * 64 + (size_t)lowest(bits[w])];
    FIRN_BUG("a bucket that is counted as filled is empty");
}

firn_node_id freemap_best_fit(const struct freemap *map, firn_type_id type_id,
                              int gpus)
{
    const struct freemap_type *type = &map->types[type_id];
    if (gpus < 1 || gpus > type->max)
        return -1;
    int w = gpus / 64;
    uint64_t bits = type->filled[w] & ~(uint64_t)0 << gpus % 64;
    while (bits == 0 && (w + 1) * 64 <= type->max)
        bits = type->filled[++w];
    return bits ? first_in(type, w * 64 + lowest(bits)) : -1;
}

firn_node_id freemap_emptiest(const struct freemap *map, firn_type_id type_id)
{
    const struct freemap_type *type = &map->types[type_id];
    for (int w = type->max / 64; w >= 0; w--) {
        uint64_t bits = type->filled[w];
        if (w == 0)
            bits &= ~(uint64_t)1; /* bucket 0 has nothing to give */
        if (bits != 0)
            return first_in(type, w * 64 + highest(bits));
    }
    return -1;
}

int freemap_nodes_needed(const struct freemap *map, firn_type_id type_id,
                         int gpus)
{
    const struct freemap_type *type = &map->types[type_id];
    if (type->free < gpus)
        return -1;
    int nodes = 0;
    for (int f = type->max; f > 0 && gpus > 0; f--) {
        int use = (gpus + f - 1) / f;
        if (use > type->count[f])
            use = type->count[f];
        nodes += use;
        gpus -= use * f;
    }
    return nodes;
}
