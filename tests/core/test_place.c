/* test_place.c - which GPUs: fewest nodes, then best fit; types; brute force.
 *
 * Examples name free GPUs by what is held; the comment beside each gives the
 * free GPUs of the nodes. The property test tries every subset of nodes of a
 * small cluster and asks for the fewest that can hold the job.
 */
#include "core/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "base/rng.h"
#include "scene_random.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct yard {
    struct firn_cluster cluster;
    struct freemap map;
    struct arena arena;
    struct firn_buf text;
};

static void open_yard(struct yard *yard, const char *spec, const char *held)
{
    memset(yard, 0, sizeof *yard);
    assert_int_equal(firn_cluster_parse_spec(&yard->cluster, spec, NULL),
                     FIRN_OK);
    freemap_init(&yard->map, &yard->cluster);
    struct firn_alloc alloc = alloc_read(held, &yard->arena);
    freemap_take(&yard->map, &alloc);
}

static void close_yard(struct yard *yard)
{
    freemap_release(&yard->map);
    firn_cluster_release(&yard->cluster);
    arena_release(&yard->arena);
    buf_release(&yard->text);
}

/* Where it is placed, as text; "no" when there is no room. The map is as
 * before afterwards. */
static const char *placed(struct yard *yard, struct firn_want want,
                          uint32_t accepts)
{
    struct firn_alloc out = FIRN_ALLOC_NONE;
    struct firn_buf before = freemap_text(&yard->map);
    bool fits = place_take(&yard->map, &want, accepts, &yard->arena, &out);
    buf_clear(&yard->text);
    if (fits) {
        assert_int_equal(out.ngpus, want.gpus);
        freemap_give(&yard->map, &out);
        firn_alloc_print(&out, &yard->text);
    } else {
        buf_puts(&yard->text, "no");
    }
    struct firn_buf after = freemap_text(&yard->map);
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    return yard->text.at;
}

static const char *plain(struct yard *yard, int gpus)
{
    return placed(yard, (struct firn_want){.gpus = gpus}, ~(uint32_t)0);
}

static void a_job_that_fits_one_node_goes_to_the_fullest_such(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "4x8:v100", "n1[0-4] n2[0-2] n3[0-2]"); /* 8 3 5 5 */
    assert_string_equal(plain(&yard, 1), "n1[5]");
    assert_string_equal(plain(&yard, 3), "n1[5-7]");
    assert_string_equal(plain(&yard, 4), "n2[3-6]");
    assert_string_equal(plain(&yard, 6), "n0[0-5]");
    close_yard(&yard);
}

static void a_large_job_takes_whole_nodes_then_the_best_fit(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "4x8:v100", "n1[0-4] n2[0-2] n3[0-2]"); /* 8 3 5 5 */
    assert_string_equal(plain(&yard, 8), "n0[0-7]");
    /* 8 + 1: the one goes to n1, where 3 are free. */
    assert_string_equal(plain(&yard, 9), "n0[0-7] n1[5]");
    assert_string_equal(plain(&yard, 12), "n0[0-7] n2[3-6]");
    /* 8 + 5 + 3: n2 whole before n3, and n1 fits the rest exactly. */
    assert_string_equal(plain(&yard, 16), "n0[0-7] n1[5-7] n2[3-7]");
    assert_string_equal(plain(&yard, 21), "n0[0-7] n1[5-7] n2[3-7] n3[3-7]");
    assert_string_equal(plain(&yard, 22), "no");
    assert_string_equal(plain(&yard, 0), "no");
    assert_string_equal(plain(&yard, -1), "no");
    close_yard(&yard);
}

static void scattered_gpus_of_a_node_are_taken_from_the_lowest(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "1x8:v100", "n0[0,2,5]");
    assert_string_equal(plain(&yard, 3), "n0[1,3-4]");
    assert_string_equal(plain(&yard, 5), "n0[1,3-4,6-7]");
    close_yard(&yard);
}

static void boards_of_one_node_are_one_node(void **unused)
{
    (void)unused;
    struct yard yard;
    struct arena arena = {0};
    open_yard(&yard, "2x192:v100", "n0[0-59] n1[0-29,100-129]"); /* 132 132 */
    struct firn_want want = {.gpus = 132, .one_node = true};
    struct firn_alloc all = alloc_read("n0[60-191]", &arena), out;
    assert_true(place_take(&yard.map, &want, 1, &yard.arena, &out));
    assert_true(firn_alloc_equal(&out, &all));
    assert_int_equal(firn_alloc_nodes(&out), 1);
    freemap_give(&yard.map, &out);
    want.gpus = 6; /* across the end of a board */
    struct firn_alloc six = alloc_read("n0[60-65]", &arena);
    assert_true(place_take(&yard.map, &want, 1, &yard.arena, &out));
    assert_true(firn_alloc_equal(&out, &six));
    freemap_give(&yard.map, &out);
    arena_release(&arena);
    close_yard(&yard);
}

static void one_type_is_chosen_by_nodes_then_by_fit(void **unused)
{
    (void)unused;
    struct yard yard;
    /* v100: 4 4; t4: 8; p100: 2 2 2 2 */
    open_yard(&yard, "2x4:v100,1x8:t4,4x2:p100", "");
    assert_string_equal(plain(&yard, 1), "n3[0]");   /* spare 1, not 3 or 7 */
    assert_string_equal(plain(&yard, 2), "n3[0-1]"); /* spare 0 */
    assert_string_equal(plain(&yard, 3), "n0[0-2]"); /* 1 node, spare 1 */
    assert_string_equal(plain(&yard, 5), "n2[0-4]"); /* 1 node, not 2 */
    assert_string_equal(plain(&yard, 8), "n2[0-7]");
    close_yard(&yard);
}

static void equal_types_go_by_the_lower_id(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "1x4:v100,1x4:t4", "");
    assert_string_equal(plain(&yard, 2), "n0[0-1]");
    close_yard(&yard);
}

static void types_are_mixed_only_when_no_single_one_can(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x6:t4,1x2:p100", ""); /* 4 4 | 6 | 2 */
    assert_string_equal(plain(&yard, 8), "n0[0-3] n1[0-3]");
    /* v100 has most (8), then t4. */
    assert_string_equal(plain(&yard, 9), "n0[0-3] n1[0-3] n2[0]");
    assert_string_equal(plain(&yard, 16), "n0[0-3] n1[0-3] n2[0-5] n3[0-1]");
    struct firn_want want = {.gpus = 9, .one_type = true};
    assert_string_equal(placed(&yard, want, 7), "no");
    want.gpus = 8;
    assert_string_equal(placed(&yard, want, 7), "n0[0-3] n1[0-3]");
    close_yard(&yard);
}

static void only_accepted_and_allowed_types_are_used(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x6:t4,1x2:p100", "");
    struct firn_want want = {.gpus = 4};
    assert_string_equal(placed(&yard, want, 2), "n2[0-3]");
    assert_string_equal(placed(&yard, want, 4), "no");
    assert_string_equal(placed(&yard, want, 0), "no");
    want.types = 6;
    assert_string_equal(placed(&yard, want, 7), "n2[0-3]");
    assert_string_equal(placed(&yard, want, 1), "no"); /* none in common */
    want.gpus = 8;
    assert_string_equal(placed(&yard, want, 7), "n2[0-5] n3[0-1]");
    close_yard(&yard);
}

static void fastest_asks_for_speed_before_fit(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x8:t4,2x8:a100", "n3[0-7] n4[0-3]");
    assert_true(yard.cluster.types[2].speed > yard.cluster.types[0].speed);
    assert_true(yard.cluster.types[0].speed > yard.cluster.types[1].speed);
    struct firn_want want = {.gpus = 3, .fastest = true};
    assert_string_equal(placed(&yard, want, 7), "n4[4-6]");
    assert_string_equal(placed(&yard, want, 3), "n0[0-2]");
    want.gpus = 5; /* 4 a100 are not enough; v100 hold it on two nodes */
    assert_string_equal(placed(&yard, want, 7), "n0[0-3] n1[0]");
    want.gpus = 10; /* none alone: a100 4, v100 6 */
    assert_string_equal(placed(&yard, want, 7), "n0[0-3] n1[0-1] n4[4-7]");
    close_yard(&yard);
}

static void one_node_never_spreads(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x6:t4", "n2[0-2]"); /* 4 4 | 3 */
    struct firn_want want = {.gpus = 4, .one_node = true};
    assert_string_equal(placed(&yard, want, 3), "n0[0-3]");
    assert_string_equal(placed(&yard, want, 2), "no");
    want.gpus = 5;
    assert_string_equal(placed(&yard, want, 3), "no");
    close_yard(&yard);
}

static void counts_are_kept_exactly(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x6:t4", "n2[0-2]"); /* 4 4 | 3 */
    struct firn_want want = {.gpus = 5, .counts = (int[]){3, 2}};
    assert_string_equal(placed(&yard, want, 3), "n0[0-2] n2[3-4]");
    assert_string_equal(placed(&yard, want, 1), "no"); /* t4 not accepted */
    want.counts = (int[]){1, 4};
    assert_string_equal(placed(&yard, want, 3), "no"); /* 3 t4 are free */
    want.counts = (int[]){3, 1};
    assert_string_equal(placed(&yard, want, 3), "no"); /* not 5 in all */
    want.counts = (int[]){6, -1};
    assert_string_equal(placed(&yard, want, 3), "no");
    want.counts = (int[]){5, 0};
    assert_string_equal(placed(&yard, want, 1), "n0[0-3] n1[0]");
    close_yard(&yard);
}

static void counts_do_not_lift_the_other_limits(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100,1x6:t4", "");
    struct firn_want want = {
        .gpus = 5, .counts = (int[]){3, 2}, .one_type = true};
    assert_string_equal(placed(&yard, want, 3), "no");
    want = (struct firn_want){
        .gpus = 5, .counts = (int[]){5, 0}, .one_node = true};
    assert_string_equal(placed(&yard, want, 3), "no");
    want = (struct firn_want){
        .gpus = 4, .counts = (int[]){4, 0}, .one_node = true};
    assert_string_equal(placed(&yard, want, 3), "n0[0-3]");
    want.one_type = true;
    assert_string_equal(placed(&yard, want, 3), "n0[0-3]");
    close_yard(&yard);
}

static void shared_gpus_are_placed_on_free_ones(void **unused)
{
    (void)unused;
    struct yard yard;
    open_yard(&yard, "2x4:v100", "n0[0]");
    struct firn_want want = {.gpus = 2, .shared = true};
    assert_string_equal(placed(&yard, want, 1), "n0[1-2]~");
    close_yard(&yard);
}

/* ---- against trying everything ---- */

/* The fewest nodes of one type (of those in `accepts`; all when `mixes`) that
 * have `gpus` free; 0 when none do. */
static int fewest(const struct yard *yard, uint32_t accepts, int gpus,
                  bool mixes)
{
    int n = yard->cluster.nnodes, best = 0;
    for (unsigned set = 1; set < 1u << n; set++) {
        int free = 0, type = -1;
        bool ok = true;
        for (int i = 0; i < n; i++) {
            int t = yard->cluster.nodes[i].type;
            if ((set >> i & 1) == 0)
                continue;
            free += yard->map.node_free[i];
            ok = ok && (accepts >> t & 1) && (mixes || type < 0 || type == t);
            type = t;
        }
        int nodes = __builtin_popcount(set);
        if (ok && free >= gpus && (best == 0 || nodes < best))
            best = nodes;
    }
    return best;
}

static void hold_some(struct yard *yard, struct rng *rng)
{
    struct firn_part parts[16];
    struct firn_alloc held = {.parts = parts, .how = FIRN_HOW_AS_SUBMITTED};
    for (int i = 0; i < yard->cluster.nnodes; i++) {
        int n = yard->cluster.nodes[i].ngpus;
        uint64_t mask = rng_u64(rng) & (((uint64_t)1 << n) - 1);
        if (mask != 0 && rng_below(rng, 3) > 0)
            parts[held.nparts++] = (struct firn_part){i, 0, mask};
    }
    freemap_take(&yard->map, &held);
}

static void try_place(uint64_t seed)
{
    struct rng rng;
    struct yard yard;
    char spec[64];
    rng_seed(&rng, seed);
    snprintf(spec, sizeof spec, "%dx%d:v100,%dx%d:t4", 1 + (int)(seed % 4),
             1 + (int)rng_below(&rng, 8), 1 + (int)rng_below(&rng, 4),
             1 + (int)rng_below(&rng, 8));
    open_yard(&yard, spec, "");
    hold_some(&yard, &rng);
    for (int i = 0; i < 20; i++) {
        uint32_t accepts = 1 + (uint32_t)rng_below(&rng, 3);
        struct firn_want want = {.gpus = 1 + (int)rng_below(&rng, 24),
                                 .one_type = rng_below(&rng, 2),
                                 .one_node = rng_below(&rng, 4) == 0};
        struct firn_alloc out = FIRN_ALLOC_NONE;
        int alone = fewest(&yard, accepts, want.gpus, false);
        int any = fewest(&yard, accepts, want.gpus, true);
        bool can = want.one_node   ? alone == 1
                   : want.one_type ? alone > 0
                                   : any > 0;
        bool did = place_take(&yard.map, &want, accepts, &yard.arena, &out);
        if (did != can || (did && out.ngpus != want.gpus) ||
            (did && alone > 0 && firn_alloc_nodes(&out) != alone))
            fail_msg("seed %llu, %s, want %d of mask %u: nodes %d, fewest %d",
                     (unsigned long long)seed, spec, want.gpus, accepts,
                     did ? firn_alloc_nodes(&out) : 0, alone);
        for (int p = 0; p < out.nparts; p++)
            assert_true(accepts >> yard.cluster.nodes[out.parts[p].node].type &
                        1);
        if (did)
            freemap_give(&yard.map, &out);
    }
    close_yard(&yard);
}

static void no_fewer_nodes_would_do(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(500); i++)
        try_place((uint64_t)i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_fits_one_node_goes_to_the_fullest_such),
        cmocka_unit_test(a_large_job_takes_whole_nodes_then_the_best_fit),
        cmocka_unit_test(scattered_gpus_of_a_node_are_taken_from_the_lowest),
        cmocka_unit_test(boards_of_one_node_are_one_node),
        cmocka_unit_test(one_type_is_chosen_by_nodes_then_by_fit),
        cmocka_unit_test(equal_types_go_by_the_lower_id),
        cmocka_unit_test(types_are_mixed_only_when_no_single_one_can),
        cmocka_unit_test(only_accepted_and_allowed_types_are_used),
        cmocka_unit_test(fastest_asks_for_speed_before_fit),
        cmocka_unit_test(one_node_never_spreads),
        cmocka_unit_test(counts_are_kept_exactly),
        cmocka_unit_test(counts_do_not_lift_the_other_limits),
        cmocka_unit_test(shared_gpus_are_placed_on_free_ones),
        cmocka_unit_test(no_fewer_nodes_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
