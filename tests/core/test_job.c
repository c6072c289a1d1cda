/* test_job.c - what can be said of a job, and which GPUs suit it. */
#include "core/accept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void equal(double a, double b)
{
    if (a != b)
        fail_msg("%.17g is not %.17g", a, b);
}

static struct firn_job running(void)
{
    return (struct firn_job){.state = FIRN_JOB_RUNNING,
                             .spec = {.duration_s = 100},
                             .held = {.nparts = 1, .ngpus = 4},
                             .since_s = 10,
                             .served_gpu_s = 7,
                             .done_s = 20,
                             .rate = 0.5,
                             .resumes_s = 15};
}

static void service_grows_only_while_gpus_are_held(void **unused)
{
    (void)unused;
    struct firn_job job = running();
    equal(firn_job_served_gpu_s(&job, 10), 7);
    equal(firn_job_served_gpu_s(&job, 12), 7 + 4 * 2);
    job.state = FIRN_JOB_WAITING;
    equal(firn_job_served_gpu_s(&job, 12), 7);
}

/* 20 done at 15, then half a second a second. */
static void progress_begins_after_the_restart(void **unused)
{
    (void)unused;
    struct firn_job job = running();
    equal(firn_job_done_s(&job, 10), 20);
    equal(firn_job_done_s(&job, 15), 20);
    equal(firn_job_done_s(&job, 25), 25);
    job.state = FIRN_JOB_WAITING;
    equal(firn_job_done_s(&job, 25), 20);
}

/* 80 reference seconds at rate 1/2 are 160 seconds, after what is left of the
 * restart; a waiting job, or one without a report, has its 80. */
static void time_left_counts_restart_and_rate(void **unused)
{
    (void)unused;
    struct firn_job job = running();
    equal(firn_job_left_s(&job, 10), 5 + 160);
    equal(firn_job_left_s(&job, 15), 160);
    equal(firn_job_left_s(&job, 25), 150);
    job.rate = 0;
    equal(firn_job_left_s(&job, 25), 80);
    job.state = FIRN_JOB_WAITING;
    equal(firn_job_left_s(&job, 25), 80);
}

static void a_gang_allows_one_size(void **unused)
{
    (void)unused;
    struct firn_job job = {.spec = {.gpus = 4, .gpus_min = 4, .gpus_max = 4}};
    assert_true(firn_job_is_gang(&job));
    job.spec.gpus_max = 5;
    assert_false(firn_job_is_gang(&job));
}

static void comparison_is_three_way(void **unused)
{
    (void)unused;
    assert_int_equal(firn_cmp(1, 2), -1);
    assert_int_equal(firn_cmp(2, 2), 0);
    assert_int_equal(firn_cmp(3, 2), 1);
}

/* ---- which types suit it: t4 has 16 GiB, v100 32, "odd" is not known ---- */

static struct {
    struct job_accept accept;
    char why[JOB_WHY_MAX];
} answer;

static bool accepts(const char *types, double mem_gib, int gpus)
{
    struct firn_cluster cluster;
    assert_int_equal(firn_cluster_parse_spec(
                         &cluster, "1x4:v100@32,2x2:t4@16,1x1:odd", NULL),
                     FIRN_OK);
    struct firn_job_spec spec = {.types = types,
                                 .mem_gib = mem_gib,
                                 .gpus = gpus,
                                 .gpus_min = gpus,
                                 .gpus_max = gpus};
    memset(&answer, 0, sizeof answer);
    bool ok = job_accept(&spec, &cluster, &answer.accept, answer.why);
    firn_cluster_release(&cluster);
    return ok;
}

static void types_are_named_by_a_list_in_any_case(void **unused)
{
    (void)unused;
    assert_true(accepts("", 0, 1));
    assert_int_equal(answer.accept.types, 7);
    assert_int_equal(answer.accept.gpus, 9);
    assert_true(accepts("V100", 0, 1));
    assert_int_equal(answer.accept.types, 1);
    assert_true(accepts("odd|h100|t4", 0, 1));
    assert_int_equal(answer.accept.types, 6);
    assert_int_equal(answer.accept.gpus, 5);
    assert_true(accepts("t4|", 0, 1));
    assert_int_equal(answer.accept.types, 2);
    assert_false(accepts("v10", 0, 1));
    assert_false(accepts("v1000", 0, 1));
    assert_false(accepts("|", 0, 1));
    assert_false(accepts("v100,t4", 0, 1));
    assert_false(accepts("a-name-that-is-longer-than-any-type-can-be", 0, 1));
}

static void memory_must_fit_where_it_is_known(void **unused)
{
    (void)unused;
    assert_true(accepts("", 16, 1));
    assert_int_equal(answer.accept.types, 7); /* 16 fits in 16 */
    assert_true(accepts("", 16.5, 1));
    assert_int_equal(answer.accept.types, 5);
    assert_true(accepts("", 1000, 1));
    assert_int_equal(answer.accept.types, 4); /* not known: fits */
    assert_false(accepts("t4|v100", 33, 1));
    assert_string_equal(answer.why,
                        "needs 33 GiB on each GPU; the largest that it accepts "
                        "is v100 with 32 GiB");
    assert_false(accepts("h100", 0, 1));
    assert_string_equal(
        answer.why,
        "accepts GPUs of type 'h100' only; the cluster has v100, t4, odd");
}

static void size_is_held_against_the_gpus_that_suit(void **unused)
{
    (void)unused;
    assert_true(accepts("", 0, 9));
    assert_false(accepts("", 0, 10));
    assert_string_equal(answer.why, "wants 10 GPUs, the cluster has 9");
    assert_true(accepts("t4", 0, 4));
    assert_false(accepts("t4", 0, 5));
    assert_string_equal(answer.why,
                        "wants 5 GPUs, the cluster has 4 that it can use");
}

/* 12 asked for, 3 at least, 9 there: for who never resizes a gang of 12. */
static void an_elastic_job_counts_by_the_fewest_it_accepts(void **unused)
{
    (void)unused;
    struct firn_cluster cluster;
    struct firn_job_spec spec = {
        .types = "", .gpus = 12, .gpus_min = 3, .gpus_max = 16};
    struct job_accept accept = {.resizes = true};
    char why[JOB_WHY_MAX];
    assert_int_equal(firn_cluster_parse_spec(&cluster, "1x4:v100,1x5:t4", NULL),
                     FIRN_OK);
    assert_true(job_accept(&spec, &cluster, &accept, why));
    assert_int_equal(accept.gpus, 9);
    accept.resizes = false;
    assert_false(job_accept(&spec, &cluster, &accept, why));
    assert_string_equal(why, "wants 12 GPUs, the cluster has 9");
    accept.resizes = true;
    spec.gpus_min = 10;
    assert_false(job_accept(&spec, &cluster, &accept, why));
    assert_string_equal(why, "wants 10 GPUs, the cluster has 9");
    firn_cluster_release(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(service_grows_only_while_gpus_are_held),
        cmocka_unit_test(progress_begins_after_the_restart),
        cmocka_unit_test(time_left_counts_restart_and_rate),
        cmocka_unit_test(a_gang_allows_one_size),
        cmocka_unit_test(comparison_is_three_way),
        cmocka_unit_test(types_are_named_by_a_list_in_any_case),
        cmocka_unit_test(memory_must_fit_where_it_is_known),
        cmocka_unit_test(size_is_held_against_the_gpus_that_suit),
        cmocka_unit_test(an_elastic_job_counts_by_the_fewest_it_accepts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
