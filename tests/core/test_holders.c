/* test_holders.c - who shares a GPU, by the index and by a look at all jobs. */
#include "core/holders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/rng.h"
#include <cmocka.h>
#include <string.h>

enum { JOBS = 40, STEPS = 4000, NONE = FIRN_NO_JOB };

struct bench {
    struct firn_cluster cluster;
    struct freemap map;
    struct holders holders;
    struct firn_job jobs[JOBS];
    struct firn_part parts[JOBS][3];
    struct arena text;
};

/* Nodes of 70 GPUs have two boards. */
static void bench_open(struct bench *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(firn_cluster_parse_spec(
                         &b->cluster, "1x4:v100,1x70:v100,3x4:v100", NULL),
                     FIRN_OK);
    freemap_init(&b->map, &b->cluster);
    b->holders.map = &b->map;
    for (int i = 0; i < JOBS; i++)
        b->jobs[i].id = 3 * i;
}

static void bench_close(struct bench *b)
{
    holders_release(&b->holders);
    freemap_release(&b->map);
    firn_cluster_release(&b->cluster);
    arena_release(&b->text);
}

static void hold(struct bench *b, int job, const char *gpus)
{
    b->jobs[job].held = alloc_read(gpus, &b->text);
    holders_add(&b->holders, &b->jobs[job]);
}

static int next(const struct bench *b, const char *gpus, int after)
{
    struct arena text = {0};
    struct firn_alloc alloc = alloc_read(gpus, &text);
    const struct firn_job *job = holders_next(&b->holders, &alloc, after);
    arena_release(&text);
    return job != NULL ? job->id : NONE;
}

static void sharers_come_by_id_and_only_those_of_the_same_gpus(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    assert_int_equal(next(&b, "n0[0]~", NONE), NONE);
    hold(&b, 2, "n0[0-1] n2[3]~");
    hold(&b, 1, "n0[1-2]~");
    hold(&b, 4, "n0[3]~");
    hold(&b, 5, "n0[0]"); /* whole: no other job can have it */
    assert_int_equal(next(&b, "n0[0-2]~", NONE), 3);
    assert_int_equal(next(&b, "n0[0-2]~", 3), 6);
    assert_int_equal(next(&b, "n0[0-2]~", 6), NONE);
    assert_int_equal(next(&b, "n0[0]~", NONE), 6);
    assert_int_equal(next(&b, "n2[3]~", NONE), 6);
    assert_int_equal(next(&b, "n2[0]~", NONE), NONE);
    holders_remove(&b.holders, &b.jobs[2]);
    assert_int_equal(next(&b, "n0[0-2] n2[3]~", 3), NONE);
    bench_close(&b);
}

static void a_gpu_of_the_second_board_is_not_one_of_the_first(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b);
    hold(&b, 1, "n1[2]~");
    hold(&b, 2, "n1[66]~");
    assert_int_equal(next(&b, "n1[2]~", NONE), 3);
    assert_int_equal(next(&b, "n1[2]~", 3), NONE);
    assert_int_equal(next(&b, "n1[66]~", NONE), 6);
    bench_close(&b);
}

static int slow_next(const struct bench *b, const struct firn_alloc *gpus,
                     int after)
{
    for (int i = 0; i < JOBS; i++)
        if (b->jobs[i].id > after && b->jobs[i].held.is_shared &&
            firn_alloc_overlaps(&b->jobs[i].held, gpus))
            return b->jobs[i].id;
    return NONE;
}

static void draw(struct bench *b, int job, struct rng *rng)
{
    struct firn_alloc *held = &b->jobs[job].held;
    *held = (struct firn_alloc){.parts = b->parts[job],
                                .is_shared = rng_below(rng, 4) > 0};
    int node = (int)rng_below(rng, 3);
    for (int n = (int)rng_below(rng, 3) + 1; n > 0; n--, node++)
        held->parts[held->nparts++] = (struct firn_part){
            .node = node, .gpus = rng_below(rng, 15) + 1, .board = 0};
}

static void the_index_equals_a_look_at_all_jobs(void **state)
{
    (void)state;
    struct bench b;
    struct rng rng;
    rng_seed(&rng, 11);
    bench_open(&b);
    for (int i = 0; i < STEPS; i++) {
        int job = (int)rng_below(&rng, JOBS);
        struct firn_alloc *held = &b.jobs[job].held;
        if (held->nparts > 0) {
            holders_remove(&b.holders, &b.jobs[job]);
            *held = (struct firn_alloc){.nparts = 0};
        } else {
            draw(&b, job, &rng);
            holders_add(&b.holders, &b.jobs[job]);
        }
        const struct firn_alloc *gpus =
            &b.jobs[(int)rng_below(&rng, JOBS)].held;
        int after = (int)rng_below(&rng, (uint64_t)(3 * JOBS)) - 1;
        const struct firn_job *found = holders_next(&b.holders, gpus, after);
        assert_int_equal(found != NULL ? found->id : NONE,
                         slow_next(&b, gpus, after));
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharers_come_by_id_and_only_those_of_the_same_gpus),
        cmocka_unit_test(a_gpu_of_the_second_board_is_not_one_of_the_first),
        cmocka_unit_test(the_index_equals_a_look_at_all_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
