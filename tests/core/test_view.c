/* test_view.c - lists of jobs, by id or in an order, and scratch memory. */
#include <firn/view.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void expect(const struct firn_job *const *jobs, size_t n,
                   const char *names)
{
    struct firn_buf out = {0};
    buf_puts(&out, "");
    for (size_t i = 0; i < n; i++)
        buf_puts(&out, jobs[i]->spec.name);
    assert_string_equal(out.at, names);
    buf_release(&out);
}

/* The waiting jobs one by one are these. */
static void expect_waiting(const struct firn_view *view, const char *names)
{
    const struct firn_job *jobs[8] = {NULL};
    size_t n = 0;
    for (const struct firn_job *job = NULL;
         n < 8 && (job = firn_view_next_waiting(view, job)) != NULL;)
        jobs[n++] = job;
    expect(jobs, n, names);
}

#define SCENE                                                                  \
    "2 nodes x 4 gpus; n1 down; A wants 2 for 50; B wants 1 for 20 on n0[1]; " \
    "C wants 1 for 50; D wants 1 for 20; E wants 2 for 90 on n0[2-3]"

static int shorter_first(const struct firn_job *a, const struct firn_job *b,
                         const struct firn_view *view, const void *arg)
{
    (void)view;
    (void)arg;
    return firn_cmp(a->spec.duration_s, b->spec.duration_s);
}

static int larger_first(const struct firn_job *a, const struct firn_job *b,
                        const struct firn_view *view, const void *arg)
{
    (void)view;
    (void)arg;
    return b->spec.gpus - a->spec.gpus;
}

/* By GPU-seconds held until view->now_s, in steps of `*arg`. */
static int less_served_first(const struct firn_job *a, const struct firn_job *b,
                             const struct firn_view *view, const void *arg)
{
    double step = *(const double *)arg;
    return firn_cmp(floor(firn_job_served_gpu_s(a, view->now_s) / step),
                    floor(firn_job_served_gpu_s(b, view->now_s) / step));
}

static void counts_and_lists_agree(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(SCENE, &toy_greedy, NULL);
    struct firn_view view = round_view(scene->round, 3);
    assert_true(view.now_s == 3);
    assert_int_equal(view.njobs, 5);
    assert_int_equal(view.nwaiting, 3);
    assert_int_equal(view.nrunning, 2);
    assert_int_equal(view.gpus_up, 4);
    assert_int_equal(view.gpus_free, 1);
    expect(firn_view_jobs(&view), 5, "ABCDE");
    expect(firn_view_waiting(&view), 3, "ACD");
    expect(firn_view_running(&view), 2, "BE");
    expect_waiting(&view, "ACD");
    scene_done(scene, "B");
    scene_fail(scene, "A");
    view = round_view(scene->round, 4);
    expect_waiting(&view, "CD");
    expect(firn_view_jobs(&view), view.njobs, "CDE");
    expect(firn_view_running(&view), view.nrunning, "E");
    scene_free(scene);
}

static void sorted_keeps_equal_jobs_by_id(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(SCENE, &toy_greedy, NULL);
    struct firn_view view = round_view(scene->round, 0);
    expect(firn_view_sorted(&view, shorter_first, NULL), 5, "BDACE");
    expect(firn_view_sorted(&view, larger_first, NULL), 5, "AEBCD");
    expect(firn_view_jobs(&view), 5, "ABCDE");
    scene_free(scene);
}

static void an_order_knows_the_time_and_its_argument(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(SCENE, &toy_greedy, NULL);
    double fine = 1, coarse = 15;
    struct firn_view view = round_view(scene->round, 10);
    expect(firn_view_sorted(&view, less_served_first, &fine), 5, "ACDBE");
    expect(firn_view_sorted(&view, less_served_first, &coarse), 5, "ABCDE");
    scene_free(scene);
}

static void a_view_without_jobs_has_empty_lists(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new("1 node x 4 gpus", &toy_greedy, NULL);
    struct firn_view view = round_view(scene->round, 0);
    assert_int_equal(view.njobs, 0);
    assert_non_null(firn_view_jobs(&view));
    assert_null(firn_view_next_waiting(&view, NULL));
    assert_non_null(firn_view_sorted(&view, larger_first, NULL));
    scene_free(scene);
}

static void scratch_memory_is_zeroed(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new("1 node x 4 gpus", &toy_greedy, NULL);
    for (int round = 0; round < 3; round++) {
        struct firn_view view = round_view(scene->round, 0);
        unsigned char *bytes = firn_view_alloc(&view, 100000);
        for (int i = 0; i < 100000; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 0xff, 100000);
        scene_decide(scene, round);
    }
    scene_free(scene);
}

static void sorting_is_right_for_any_number_of_jobs(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(100); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        struct scene *scene = scene_new("1 node x 4 gpus", &toy_greedy, NULL);
        for (int n = (int)rng_below(&rng, 70); n > 0; n--) {
            char clause[64];
            snprintf(clause, sizeof clause, "J wants 1 for %d",
                     1 + (int)rng_below(&rng, 10));
            scene_submit(scene, clause);
        }
        struct firn_view view = round_view(scene->round, 0);
        const struct firn_job **jobs =
            firn_view_sorted(&view, shorter_first, NULL);
        for (size_t j = 1; j < view.njobs; j++) {
            int c = shorter_first(jobs[j - 1], jobs[j], &view, NULL);
            if (c > 0 || (c == 0 && jobs[j - 1]->id >= jobs[j]->id))
                fail_msg("seed %d: place %zu is out of order", i, j);
        }
        scene_free(scene);
    }
}

/* Four GPUs: of jobs that want one, 20 could matter; of those that want four,
 * 8. One of a kind of its own behind them all is not forgotten. */
static void the_foremost_of_a_long_queue_are_some_of_each_kind(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(
        "1 node x 4 gpus; R wants 2 for 90 on n0[0-1]", &toy_greedy, NULL);
    for (int i = 0; i < 50; i++)
        scene_submit(scene, "J wants 1 for 5");
    for (int i = 0; i < 50; i++)
        scene_submit(scene, "K wants 4 for 5");
    scene_submit(scene, "L wants 3 for 5");
    struct firn_view view = round_view(scene->round, 0);
    size_t n = 0;
    firn_view_foremost(&view, 101, &n); /* that is no long queue */
    assert_int_equal(n, 102);
    const struct firn_job *const *jobs = firn_view_foremost(&view, 100, &n);
    expect(jobs, n, "RJJJJJJJJJJJJJJJJJJJJKKKKKKKKL");
    for (size_t i = 1; i < n; i++)
        assert_true(jobs[i - 1]->id < jobs[i]->id);
    scene_free(scene);
}

/* Of 50 jobs the last 10 are the shortest: by work left they are among the
 * foremost 20, by id none of them is. */
static void the_foremost_by_an_order_are_the_first_of_that_order(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(
        "1 node x 4 gpus; R wants 2 for 90 on n0[0-1]", &toy_greedy, NULL);
    for (int i = 0; i < 40; i++)
        scene_submit(scene, "J wants 1 for 50");
    for (int i = 0; i < 10; i++)
        scene_submit(scene, "K wants 1 for 5");
    struct firn_view view = round_view(scene->round, 0);
    size_t n = 0;
    const struct firn_job *const *jobs = firn_view_foremost(&view, 10, &n);
    expect(jobs, n, "RJJJJJJJJJJJJJJJJJJJJ");
    jobs = firn_view_foremost_by(&view, 10, shorter_first, NULL, &n);
    expect(jobs, n, "RJJJJJJJJJJKKKKKKKKKK");
    for (size_t i = 1; i < n; i++)
        assert_true(jobs[i - 1]->id < jobs[i]->id);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_lists_agree),
        cmocka_unit_test(sorted_keeps_equal_jobs_by_id),
        cmocka_unit_test(an_order_knows_the_time_and_its_argument),
        cmocka_unit_test(a_view_without_jobs_has_empty_lists),
        cmocka_unit_test(scratch_memory_is_zeroed),
        cmocka_unit_test(sorting_is_right_for_any_number_of_jobs),
        cmocka_unit_test(the_foremost_of_a_long_queue_are_some_of_each_kind),
        cmocka_unit_test(the_foremost_by_an_order_are_the_first_of_that_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
