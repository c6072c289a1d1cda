/* test_serving.c - replicas that follow the day.
 */
#include "trace/serving.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct serving_options options = {
    .cluster_gpus = 400, .share = 0.5, .span_s = 86400, .seed = 7};

static struct serving make(void)
{
    struct serving serving;
    struct firn_error err = {0};
    if (serving_make(&serving, &options, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return serving;
}

static int alive(const struct serving *serving, double t_s)
{
    int n = 0;
    for (size_t i = 0; i < serving->replicas.n; i++)
        n += serving->replicas.at[i].from_s <= t_s &&
             t_s < serving->replicas.at[i].to_s;
    return n;
}

/* Mean 200: 100 at midnight and 300 at noon, with a deviation of 4. */
static void noon_has_three_times_as_many_as_midnight(void **unused)
{
    (void)unused;
    struct serving serving = make();
    assert_in_range(alive(&serving, 300), 100 - 16, 100 + 16);
    assert_in_range(alive(&serving, 43200), 300 - 16, 300 + 16);
    assert_in_range(alive(&serving, 86100), 100 - 16, 100 + 16);
    double held_s = 0;
    for (size_t i = 0; i < serving.replicas.n; i++)
        held_s += serving.replicas.at[i].to_s - serving.replicas.at[i].from_s;
    assert_true(fabs(held_s / 86400 - 200) < 4);
    serving_release(&serving);
}

static void never_more_than_the_cluster_has(void **unused)
{
    (void)unused;
    struct serving_options most = options;
    struct serving serving;
    most.share = 1;
    assert_int_equal(serving_make(&serving, &most, NULL), FIRN_OK);
    for (double t_s = 0; t_s < 86400; t_s += 77)
        assert_in_range(alive(&serving, t_s), 0, 400);
    serving_release(&serving);
}

static void replicas_are_jobs_of_one_gpu_with_priority(void **unused)
{
    (void)unused;
    struct serving serving = make();
    struct firn_job_spec spec;
    double last_s = 0;
    size_t n = 0;
    for (; serving_peek_s(&serving) < INFINITY; n++) {
        double next_s = serving_peek_s(&serving);
        assert_true(serving_next(&serving, &spec));
        assert_true(spec.submit_s == next_s && next_s >= last_s);
        assert_true(spec.duration_s > 0);
        assert_true(spec.submit_s + spec.duration_s <= 86401);
        assert_int_equal(spec.gpus_max, 1);
        assert_int_equal(spec.priority, SERVING_PRIORITY);
        assert_string_equal(spec.group, "serving");
        last_s = next_s;
    }
    assert_int_equal(n, serving.replicas.n);
    assert_false(serving_next(&serving, &spec));
    serving_release(&serving);
}

static void the_same_seed_makes_the_same_trace(void **unused)
{
    (void)unused;
    struct serving a = make(), b = make();
    assert_int_equal(a.replicas.n, b.replicas.n);
    assert_memory_equal(a.replicas.at, b.replicas.at,
                        a.replicas.n * sizeof *a.replicas.at);
    serving_release(&a);
    serving_release(&b);
}

static void a_share_that_cannot_be_is_refused(void **unused)
{
    (void)unused;
    struct serving_options wrong = options;
    struct serving serving;
    struct firn_error err = {0};
    wrong.share = 1.5;
    assert_int_equal(serving_make(&serving, &wrong, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "serving is 1.5: must be above 0, to 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noon_has_three_times_as_many_as_midnight),
        cmocka_unit_test(never_more_than_the_cluster_has),
        cmocka_unit_test(replicas_are_jobs_of_one_gpu_with_priority),
        cmocka_unit_test(the_same_seed_makes_the_same_trace),
        cmocka_unit_test(a_share_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
