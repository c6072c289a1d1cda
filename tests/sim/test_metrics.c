/* test_metrics.c - integrals, ratios and classes, by hand.
 *
 * Percentiles, rho and queueing are in test_sim.c; here is what needs several
 * nodes, nodes that go, or numbers of jobs told directly.
 */
#include "lib/play.h"
#include "sim/metrics.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Two nodes of four; a (2 GPUs) sits on one for 100 s: of 6 free GPUs the 2
 * beside it are fragmented. */
static void fragmentation_is_free_gpus_beside_used_ones(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x4:v100", "a,0,2,100\n");
    play_run(&play, "fifo");
    assert_true(play_near(play.result.fragmentation, 2.0 / 6));
    assert_true(play_near(play.result.gpu_alloc_ratio, 2.0 / 8));
    play_close(&play);
}

/* a (4 GPUs) fills a node, b (1 GPU) sits on the other from 50 on, both to
 * 100. Free: 4x50 whole, then 3x50 beside b: 150 of 350. */
static void fragmentation_is_averaged_over_time(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x4:v100", "a,0,4,100\nb,50,1,50\n");
    play_run(&play, "fifo");
    assert_true(play_near(play.result.fragmentation, 150.0 / 350));
    play_close(&play);
}

static void full_cluster_is_not_fragmented(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x4:v100", "a,0,8,100\n");
    play_run(&play, "fifo");
    assert_true(play.result.fragmentation == 0);
    assert_true(play.result.gpu_alloc_ratio == 1);
    play_close(&play);
}

/* The idle node is down from 50 on: 8x50 + 4x50 GPU-seconds were up. */
static void ratios_count_gpus_that_are_up(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x4:v100", "a,0,4,100\n");
    play_failures(&play, "50,1,down\n");
    play_run(&play, "fifo");
    assert_true(play_near(play.result.gpu_alloc_ratio, 400.0 / 600));
    assert_int_equal(play.result.failures, 1);
    play_close(&play);
}

static void jobs_are_classed_by_the_gpus_they_ask_for(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "4x8:v100",
              "a,0,1,10\nb,0,2,20\nc,0,4,30\nd,0,5,40\ne,0,8,50\nf,0,9,60\n");
    play_run(&play, "fifo");
    const struct firn_sim_class *c = play.result.classes;
    assert_true(c[0].jobs == 1 && c[0].jct_mean_s == 10);
    assert_true(c[1].jobs == 2 && c[1].jct_mean_s == 25);
    assert_true(c[2].jobs == 2 && c[2].jct_mean_s == 45);
    assert_true(c[3].jobs == 1 && c[3].jct_mean_s == 60);
    play_close(&play);
}

/* One GPU: a ends at 10, b waits for it and ends at 30, c (no group, but an
 * application) waits until then. */
static void groups_have_means_of_their_own(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,group,app\n"
              "a,0,1,10,x,z\nb,0,1,20,x,\nc,5,1,30,,z\nd,100,1,1,,\n");
    play_run(&play, "fifo");
    const struct firn_sim_group *g = play.result.groups;
    assert_int_equal(play.result.ngroups, 3);
    assert_string_equal(g[0].name, "x");
    assert_true(g[0].jobs == 2 && g[0].jct_mean_s == 20);
    assert_true(g[0].queue_mean_s == 5 && g[0].queue_max_s == 10);
    assert_string_equal(g[1].name, "z");
    assert_true(g[1].jobs == 1 && g[1].jct_mean_s == 55);
    assert_true(g[1].queue_max_s == 25);
    assert_string_equal(g[2].name, "");
    assert_true(g[2].queue_max_s == 0);
    assert_true(play.result.together_jobs == 0 && play.result.after_jobs == 0);
    play_close(&play);
}

/* Those that end first; a ninth is in none. */
static void more_groups_than_there_is_room_for_are_left_out(void **state)
{
    (void)state;
    struct play play;
    char rows[512] = "#firn-trace 1\nname,submit_s,gpus,duration_s,group\n";
    for (int i = 0; i < FIRN_GROUPS + 2; i++)
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows),
                 "j%d,%d,1,1,g%d\n", i, i, i);
    play_open(&play, "1x1:v100", rows);
    play_run(&play, "fifo");
    assert_int_equal(play.result.ngroups, FIRN_GROUPS);
    assert_string_equal(play.result.groups[FIRN_GROUPS - 1].name, "g7");
    assert_int_equal(play.result.jobs, FIRN_GROUPS + 2);
    play_close(&play);
}

/* How the cluster is told to be; metrics read only these fields. */
static void tell(struct metrics *metrics, double at_s, int held, int stranded,
                 size_t running, size_t waiting)
{
    struct state state = {.nrunning = running, .nwaiting = waiting};
    state.map.up_gpus = 8;
    state.map.free_gpus = 8 - held;
    state.map.stranded = stranded;
    metrics_changed(metrics, &state, at_s);
}

/* From 10 on: 8 GPUs up; 4 held 10..20, 8 held 20..40, 0 held 40..50. */
static void integrals_begin_with_the_first_submission(void **state)
{
    (void)state;
    struct firn_cluster cluster = {.ngpus = 8};
    struct metrics metrics;
    struct firn_sim_result out = {0};
    metrics_init(&metrics, &cluster, 1, NULL);
    tell(&metrics, 0, 0, 0, 0, 0);
    tell(&metrics, 5, 0, 0, 0, 0);
    metrics_arriving(&metrics, 10);
    tell(&metrics, 10, 4, 1, 1, 0);
    tell(&metrics, 20, 8, 0, 2, 3);
    tell(&metrics, 40, 0, 0, 0, 0);
    tell(&metrics, 50, 0, 0, 0, 0);
    assert_true(metrics.sums.up == 8 * 40);
    assert_true(metrics.sums.held == 4 * 10 + 8 * 20);
    assert_true(metrics.sums.free == 4 * 10 + 8 * 10);
    assert_true(metrics.sums.stranded == 10);
    assert_true(metrics.sums.jobs == 10 + 5 * 20);
    metrics_result(&metrics, &out);
    assert_true(out.gpu_alloc_ratio == 200.0 / 320);
    assert_true(out.fragmentation == 10.0 / 120);
    assert_true(isnan(out.jct_mean_s) && isnan(out.makespan_s));
    assert_true(isnan(out.rho_mean) && isnan(out.unfair_share));
    assert_int_equal(out.jobs, 0);
    metrics_release(&metrics);
}

/* One job whose N-th share is a quarter of what it asks: rho against duration
 * x 4^scaling. 8 GPUs, 4 jobs in the system, it asks for 8: share 2 of 8. */
static void fair_share_follows_the_scaling_exponent(void **state)
{
    (void)state;
    static const double cases[][2] = {{1, 0.25}, {0.5, 0.5}, {0, 1}};
    struct firn_cluster cluster = {.ngpus = 8};
    struct firn_job job = {
        .held = {.nparts = 1, .ngpus = 8},
        .spec = {.group = "", .app = "", .gpus = 8, .duration_s = 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct metrics metrics;
        metrics_init(&metrics, &cluster, cases[i][0], NULL);
        metrics_arriving(&metrics, 0);
        metrics_submitted(&metrics, &job);
        tell(&metrics, 0, 8, 0, 1, 3);
        double rho = metrics_done(&metrics, &job, 100, 100, 0);
        assert_true(play_near(rho, cases[i][1]));
        metrics_release(&metrics);
    }
}

/* The row of the timeline at `at_s`. */
static void timeline_at(const struct play *play, double at_s, long out[6])
{
    struct firn_buf text = play_read(play->timeline);
    char want[32];
    snprintf(want, sizeof want, "\n%g,", at_s);
    const char *row = strstr(text.at, want);
    assert_non_null(row);
    assert_int_equal(sscanf(row + strlen(want), "%ld,%ld,%ld,%ld,%ld,%ld",
                            &out[0], &out[1], &out[2], &out[3], &out[4],
                            &out[5]),
                     6);
    mem_free(text.at);
}

/* The schedule of test_sim.c, srtf with a restart of 4 s: long (2 GPUs) [0..2)
 * and [5..17) of which [5..9) without progress, short (1 GPU) [2..5). */
static void timeline_tells_progress_from_restarts(void **state)
{
    (void)state;
    static const struct {
        double at_s;
        long want[6]; /* running, waiting, up, held, progressing, fragmented */
    } cases[] = {
        {1, {1, 0, 2, 2, 2, 0}},  {3, {1, 1, 2, 1, 1, 1}},
        {5, {1, 0, 2, 2, 0, 0}},  {8, {1, 0, 2, 2, 0, 0}},
        {9, {1, 0, 2, 2, 2, 0}},  {16, {1, 0, 2, 2, 2, 0}},
        {17, {0, 0, 2, 0, 0, 0}},
    };
    struct play play;
    play_open(&play, "1x2:v100", "long,0,2,10\nshort,2,1,3\n");
    play.options.restart_s = 4;
    play.options.timeline_s = 1;
    play_run(&play, "srtf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long got[6];
        timeline_at(&play, cases[i].at_s, got);
        assert_memory_equal(got, cases[i].want, sizeof got);
    }
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragmentation_is_free_gpus_beside_used_ones),
        cmocka_unit_test(fragmentation_is_averaged_over_time),
        cmocka_unit_test(full_cluster_is_not_fragmented),
        cmocka_unit_test(ratios_count_gpus_that_are_up),
        cmocka_unit_test(jobs_are_classed_by_the_gpus_they_ask_for),
        cmocka_unit_test(groups_have_means_of_their_own),
        cmocka_unit_test(more_groups_than_there_is_room_for_are_left_out),
        cmocka_unit_test(integrals_begin_with_the_first_submission),
        cmocka_unit_test(fair_share_follows_the_scaling_exponent),
        cmocka_unit_test(timeline_tells_progress_from_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
