/* test_freemap.c - free GPUs against an array that counts holders one by one.
 *
 * The model keeps the holders of each GPU: 0 none, -1 one job whole, n > 0 that
 * many half-shares. Every answer of the map is worked out again from that array
 * by looking at all nodes.
 */
#include "core/freemap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "base/rng.h"
#include "base/vec.h"
#include "scene_random.h"
#include <cmocka.h>
#include <string.h>

enum { MODEL_NODES = 24, MODEL_GPUS = 256, HOLDS = 64 };

struct model {
    struct firn_cluster cluster;
    struct freemap map;
    int gpu[MODEL_NODES][MODEL_GPUS];
    struct firn_alloc holds[HOLDS]; /* taken now; nparts 0 for none */
    struct firn_part parts[HOLDS][MODEL_NODES * 4];
    uint64_t seed;
    int step;
};

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

#define agree(m, a, b)                                                       \
    do {                                                                     \
        long agree_a_ = (long)(a), agree_b_ = (long)(b);                     \
        if (agree_a_ != agree_b_)                                            \
            fail_msg("seed %llu, operation %d: %s is %ld, should be %ld",    \
                     (unsigned long long)(m)->seed, (m)->step, #a, agree_a_, \
                     agree_b_);                                              \
    } while (0)

/* ---- the model's own answers ---- */

static int model_node_free(const struct model *m, int node)
{
    int n = 0;
    if (m->cluster.nodes[node].is_up)
        for (int g = 0; g < m->cluster.nodes[node].ngpus; g++)
            n += m->gpu[node][g] == 0;
    return n;
}

static int model_best_fit(const struct model *m, int type, int gpus)
{
    int best = -1, free = 0;
    for (int i = 0; i < m->cluster.nnodes; i++) {
        int f = model_node_free(m, i);
        if (m->cluster.nodes[i].type == type && f >= gpus &&
            (best < 0 || f < free)) {
            best = i;
            free = f;
        }
    }
    return best;
}

static int model_emptiest(const struct model *m, int type)
{
    int best = -1, free = 0;
    for (int i = 0; i < m->cluster.nnodes; i++) {
        int f = model_node_free(m, i);
        if (m->cluster.nodes[i].type == type && f > free) {
            best = i;
            free = f;
        }
    }
    return best;
}

/* The largest nodes first, one by one. */
static int model_nodes_needed(const struct model *m, int type, int gpus)
{
    bool used[MODEL_NODES] = {false};
    int nodes = 0;
    while (gpus > 0) {
        int best = -1;
        for (int i = 0; i < m->cluster.nnodes; i++)
            if (m->cluster.nodes[i].type == type && !used[i] &&
                (best < 0 || model_node_free(m, i) > model_node_free(m, best)))
                best = i;
        if (best < 0 || model_node_free(m, best) == 0)
            return -1;
        used[best] = true;
        gpus -= model_node_free(m, best);
        nodes++;
    }
    return nodes;
}

static bool model_can_take(const struct model *m,
                           const struct firn_alloc *alloc)
{
    for (int i = 0; i < alloc->nparts; i++) {
        const struct firn_part *part = &alloc->parts[i];
        for (int b = 0; b < FIRN_BOARD_GPUS; b++) {
            if ((part->gpus >> b & 1) == 0)
                continue;
            int g = part->board * FIRN_BOARD_GPUS + b;
            if (!m->cluster.nodes[part->node].is_up ||
                g >= m->cluster.nodes[part->node].ngpus)
                return false;
            int held = m->gpu[part->node][g];
            if (alloc->is_shared ? held < 0 || held >= m->cluster.jobs_per_gpu
                                 : held != 0)
                return false;
        }
    }
    return true;
}

static void model_mark(struct model *m, const struct firn_alloc *alloc,
                       bool takes)
{
    for (int i = 0; i < alloc->nparts; i++)
        for (int b = 0; b < FIRN_BOARD_GPUS; b++) {
            if ((alloc->parts[i].gpus >> b & 1) == 0)
                continue;
            int *gpu = &m->gpu[alloc->parts[i].node]
                              [alloc->parts[i].board * FIRN_BOARD_GPUS + b];
            int one = alloc->is_shared ? 1 : -1;
            *gpu += takes ? one : -one;
        }
}

/* ---- random operations ---- */

/* Some GPUs of some nodes, often free ones; some beyond the node's last. */
static void draw_alloc(struct model *m, struct rng *rng,
                       struct firn_alloc *alloc)
{
    alloc->nparts = 0;
    alloc->ngpus = 0;
    alloc->is_shared = below(rng, 3) == 0;
    int every = 1 + below(rng, 4);
    bool only_free = below(rng, 4) > 0;
    for (int n = 0; n < m->cluster.nnodes; n++) {
        if (below(rng, m->cluster.nnodes) > every)
            continue;
        int boards = (m->cluster.nodes[n].ngpus + 63) / 64;
        for (int b = 0; b < boards; b++) {
            uint64_t gpus = rng_u64(rng) & rng_u64(rng);
            if (only_free && !alloc->is_shared)
                gpus &= m->map.free[m->map.first_board[n] + b];
            else if (below(rng, 8) > 0 && m->cluster.nodes[n].ngpus < 64)
                gpus &= ((uint64_t)1 << m->cluster.nodes[n].ngpus) - 1;
            if (gpus == 0)
                continue;
            alloc->parts[alloc->nparts++] = (struct firn_part){n, b, gpus};
            alloc->ngpus += __builtin_popcountll(gpus);
        }
    }
}

static void take_some(struct model *m, struct rng *rng)
{
    for (int i = 0; i < HOLDS; i++) {
        struct firn_alloc *alloc = &m->holds[i];
        if (alloc->nparts > 0)
            continue;
        alloc->parts = m->parts[i];
        draw_alloc(m, rng, alloc);
        bool can = model_can_take(m, alloc);
        agree(m, freemap_can_take(&m->map, alloc), can);
        if (can && alloc->nparts > 0) {
            freemap_take(&m->map, alloc);
            model_mark(m, alloc, true);
        } else {
            alloc->nparts = 0;
        }
        return;
    }
}

static void give(struct model *m, struct firn_alloc *alloc)
{
    freemap_give(&m->map, alloc);
    model_mark(m, alloc, false);
    alloc->nparts = 0;
}

static void give_some(struct model *m, struct rng *rng)
{
    struct firn_alloc *alloc = &m->holds[below(rng, HOLDS)];
    if (alloc->nparts > 0)
        give(m, alloc);
}

/* A node goes, and everything that touched it first; or it comes back. */
static void flip_node(struct model *m, struct rng *rng)
{
    int node = below(rng, m->cluster.nnodes);
    bool is_up = m->cluster.nodes[node].is_up;
    for (int i = 0; i < HOLDS && is_up; i++)
        for (int p = 0; p < m->holds[i].nparts; p++)
            if (m->holds[i].parts[p].node == node) {
                give(m, &m->holds[i]);
                break;
            }
    m->cluster.nodes[node].is_up = !is_up;
    freemap_node_changed(&m->map, node);
}

static void compare(struct model *m, struct rng *rng)
{
    int free = 0, up = 0, stranded = 0;
    for (int i = 0; i < m->cluster.nnodes; i++) {
        int f = model_node_free(m, i), n = m->cluster.nodes[i].ngpus;
        agree(m, m->map.node_free[i], f);
        free += f;
        up += m->cluster.nodes[i].is_up ? n : 0;
        stranded += f < n ? f : 0;
    }
    agree(m, m->map.free_gpus, free);
    agree(m, m->map.up_gpus, up);
    agree(m, m->map.stranded, stranded);
    for (int t = 0; t < m->cluster.ntypes; t++) {
        int gpus = 1 + below(rng, below(rng, 2) ? 8 : 300);
        agree(m, freemap_best_fit(&m->map, t, gpus),
              model_best_fit(m, t, gpus));
        agree(m, freemap_emptiest(&m->map, t), model_emptiest(m, t));
        agree(m, freemap_nodes_needed(&m->map, t, gpus),
              model_nodes_needed(m, t, gpus));
    }
}

static void run_model(uint64_t seed, const char *spec, int share, int steps)
{
    static struct model model;
    struct model *m = &model;
    struct firn_error err = {0};
    struct rng rng;
    memset(m, 0, sizeof *m);
    m->seed = seed;
    rng_seed(&rng, seed);
    assert_int_equal(firn_cluster_parse_spec(&m->cluster, spec, &err), FIRN_OK);
    assert_true(m->cluster.nnodes <= MODEL_NODES);
    m->cluster.jobs_per_gpu = share;
    if (below(&rng, 2))
        m->cluster.nodes[below(&rng, m->cluster.nnodes)].is_up = false;
    freemap_init(&m->map, &m->cluster);
    for (m->step = 0; m->step < steps; m->step++) {
        int what = below(&rng, 20);
        if (what < 10)
            take_some(m, &rng);
        else if (what < 19)
            give_some(m, &rng);
        else
            flip_node(m, &rng);
        compare(m, &rng);
        struct firn_buf text = freemap_text(&m->map);
        buf_release(&text);
    }
    freemap_release(&m->map);
    firn_cluster_release(&m->cluster);
}

/* ---- cases ---- */

static void the_map_agrees_with_an_array_of_holders(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"6x8:v100", "4x4:v100,3x8:t4,1x1:a100",
                                        "1x1:v100"};
    for (int i = 0; i < trials(30); i++)
        run_model((uint64_t)i, specs[i % 3], 2 + i % 2, 300);
}

static void the_map_agrees_on_nodes_of_several_boards(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"2x192:v100", "1x64:v100,2x65:t4",
                                        "2x128:v100,3x8:v100,1x256:t4"};
    for (int i = 0; i < trials(30); i++)
        run_model((uint64_t)(1000 + i), specs[i % 3], 2, 200);
}

static void giving_everything_back_restores_the_map(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct freemap map;
    struct arena arena = {0};
    assert_int_equal(firn_cluster_parse_spec(&cluster, "2x192:v100", NULL),
                     FIRN_OK);
    freemap_init(&map, &cluster);
    struct firn_buf before = freemap_text(&map);
    struct firn_alloc whole = alloc_read("n0[0-3,70-71,191]", &arena);
    struct firn_alloc half = alloc_read("n0[64] n1[0-191]~", &arena);
    freemap_take(&map, &whole);
    freemap_take(&map, &half);
    freemap_take(&map, &half);
    assert_int_equal(map.free_gpus, 384 - 7 - 193);
    assert_int_equal(map.stranded, 192 - 8);
    assert_false(freemap_can_take(&map, &half)); /* two on each already */
    freemap_give(&map, &half);
    assert_true(freemap_can_take(&map, &half));
    struct firn_alloc alone = alloc_read("n0[64]", &arena);
    assert_false(freemap_can_take(&map, &alone)); /* still half held */
    freemap_give(&map, &half);
    assert_true(freemap_can_take(&map, &alone));
    freemap_give(&map, &whole);
    struct firn_buf after = freemap_text(&map);
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    arena_release(&arena);
    freemap_release(&map);
    freemap_release(&map);
    firn_cluster_release(&cluster);
}

static void best_fit_is_the_fullest_node_that_still_fits(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct freemap map;
    struct arena arena = {0};
    assert_int_equal(firn_cluster_parse_spec(&cluster, "4x8:v100", NULL),
                     FIRN_OK);
    freemap_init(&map, &cluster);
    struct firn_alloc held = alloc_read("n1[0-4] n2[0-2] n3[0-2]", &arena);
    freemap_take(&map, &held); /* free: 8 3 5 5 */
    assert_int_equal(freemap_best_fit(&map, 0, 1), 1);
    assert_int_equal(freemap_best_fit(&map, 0, 3), 1);
    assert_int_equal(freemap_best_fit(&map, 0, 4), 2); /* equal: lower id */
    assert_int_equal(freemap_best_fit(&map, 0, 6), 0);
    assert_int_equal(freemap_best_fit(&map, 0, 9), -1);
    assert_int_equal(freemap_emptiest(&map, 0), 0);
    assert_int_equal(freemap_nodes_needed(&map, 0, 8), 1);
    assert_int_equal(freemap_nodes_needed(&map, 0, 13), 2);
    assert_int_equal(freemap_nodes_needed(&map, 0, 14), 3);
    assert_int_equal(freemap_nodes_needed(&map, 0, 21), 4);
    assert_int_equal(freemap_nodes_needed(&map, 0, 22), -1);
    assert_int_equal(map.stranded, 13);
    arena_release(&arena);
    freemap_release(&map);
    firn_cluster_release(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_agrees_with_an_array_of_holders),
        cmocka_unit_test(the_map_agrees_on_nodes_of_several_boards),
        cmocka_unit_test(giving_everything_back_restores_the_map),
        cmocka_unit_test(best_fit_is_the_fullest_node_that_still_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
