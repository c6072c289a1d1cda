/* test_truth.c - rate = slowest speed x (n / gpus)^scaling / slowdown.
 */
#include "lib/play.h"
#include "sim/truth.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Node 0 has four GPUs of speed 1, node 1 four of speed 2, node 2 of 1/2. */
static struct firn_node nodes[] = {
    {0, 0, 4, 0, true}, {1, 1, 4, 0, true}, {2, 2, 4, 0, true}};
static const struct firn_cluster three = {
    .types = {{.name = "mid", .speed = 1, .ngpus = 4},
              {.name = "fast", .speed = 2, .ngpus = 4},
              {.name = "slow", .speed = 0.5, .ngpus = 4}},
    .ntypes = 3,
    .nodes = nodes,
    .nnodes = 3,
    .ngpus = 12,
    .jobs_per_gpu = 2,
};

/* The rate of a job that asks for `gpus`, with `a` GPUs of node 0, `b` of node
 * 1, `c` of node 2. */
static double rate(const struct truth *truth, int gpus, int a, int b, int c,
                   int sharers)
{
    const int counts[] = {a, b, c};
    struct firn_job job = {.spec = {.gpus = gpus}};
    struct firn_part parts[3];
    struct firn_alloc alloc = {.parts = parts, .how = FIRN_HOW_AS_SUBMITTED};
    for (int i = 0; i < 3; i++) {
        if (counts[i] == 0)
            continue;
        parts[alloc.nparts++] =
            (struct firn_part){.node = i, .gpus = (1u << counts[i]) - 1};
        alloc.ngpus += counts[i];
    }
    return truth->rate(truth, &job, &alloc, sharers);
}

static void rate_is_exactly_one_on_what_was_asked_for(void **state)
{
    (void)state;
    struct truth truth = truth_from_trace(&three, 0.7, 1.5);
    for (int n = 1; n <= 4; n++)
        assert_true(rate(&truth, n, n, 0, 0, 1) == 1);
}

static void slowest_type_held_counts(void **state)
{
    (void)state;
    struct truth truth = truth_from_trace(&three, 1, 1.5);
    assert_true(rate(&truth, 4, 0, 4, 0, 1) == 2);
    assert_true(rate(&truth, 4, 0, 0, 4, 1) == 0.5);
    assert_true(rate(&truth, 4, 2, 2, 0, 1) == 1);
    assert_true(rate(&truth, 3, 1, 1, 1, 1) == 0.5);
    assert_true(rate(&truth, 3, 0, 2, 1, 1) == 0.5);
}

static void count_of_gpus_scales_by_the_exponent(void **state)
{
    (void)state;
    struct truth linear = truth_from_trace(&three, 1, 1.5);
    struct truth root = truth_from_trace(&three, 0.5, 1.5);
    struct truth flat = truth_from_trace(&three, 0, 1.5);
    assert_true(play_near(rate(&linear, 1, 4, 0, 0, 1), 4));
    assert_true(play_near(rate(&linear, 4, 3, 0, 0, 1), 0.75));
    assert_true(play_near(rate(&root, 1, 4, 0, 0, 1), 2));
    assert_true(play_near(rate(&root, 4, 1, 0, 0, 1), 0.5));
    assert_true(play_near(rate(&root, 1, 0, 4, 0, 1), 4));
    assert_true(play_near(rate(&flat, 1, 4, 0, 0, 1), 1));
}

static void any_neighbour_divides_by_the_slowdown(void **state)
{
    (void)state;
    struct truth truth = truth_from_trace(&three, 1, 1.6);
    assert_true(play_near(rate(&truth, 2, 2, 0, 0, 2), 1 / 1.6));
    assert_true(play_near(rate(&truth, 2, 2, 0, 0, 3), 1 / 1.6));
    assert_true(play_near(rate(&truth, 2, 0, 2, 0, 2), 2 / 1.6));
}

/* On two types a run shows it: the reference type is the commonest, and a job
 * on the other goes at that one's speed. */
static void run_on_two_types_follows_their_speeds(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x1:v100,1x1:a100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,types\n"
              "v,0,1,100,v100\na,0,1,100,a100\n");
    double speed =
        play.cluster.types[firn_cluster_type(&play.cluster, "a100")].speed;
    assert_true(speed > 1);
    play_run(&play, "fifo");
    assert_true(play_end(&play, "v") == 100);
    assert_true(play_near(play_end(&play, "a"), 100 / speed));
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_is_exactly_one_on_what_was_asked_for),
        cmocka_unit_test(slowest_type_held_counts),
        cmocka_unit_test(count_of_gpus_scales_by_the_exponent),
        cmocka_unit_test(any_neighbour_divides_by_the_slowdown),
        cmocka_unit_test(run_on_two_types_follows_their_speeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
