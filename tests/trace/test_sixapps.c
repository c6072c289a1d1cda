/* test_sixapps.c - the drawn workload of SJF-BSBF has the paper's figures.
 *
 * By hand, for 240 jobs: 240 / 1200 = 0.2 of Pollux's jobs are 94.8 of
 * ncf, 96.4 of cifar10, 21 of deepspeech2, 14.4 of bert, 4.8 of imagenet
 * and 8.6 of yolov3: rounded down 237, so the three largest remainders (ncf,
 * imagenet, yolov3) get one more. 12 % of 240 is 28.8: 29 large jobs.
 */
#include "trace/sixapps.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sixapps make(long jobs, double large, uint64_t seed)
{
    struct sixapps_options options = sixapps_defaults();
    struct sixapps out;
    struct firn_error err = {0};
    options.jobs = jobs;
    options.large = large;
    options.seed = seed;
    if (sixapps_make(&out, &options, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return out;
}

static int count(const struct sixapps *jobs, const char *app)
{
    int n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += strcmp(jobs->at[i].app, app) == 0;
    return n;
}

static void applications_are_in_polluxs_proportions(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sixapps jobs = make(240, 0.12, seed);
        assert_int_equal(jobs.n, 240);
        assert_int_equal(count(&jobs, "ncf"), 95);
        assert_int_equal(count(&jobs, "cifar10"), 96);
        assert_int_equal(count(&jobs, "deepspeech2"), 21);
        assert_int_equal(count(&jobs, "bert"), 14);
        assert_int_equal(count(&jobs, "imagenet"), 5);
        assert_int_equal(count(&jobs, "yolov3"), 9);
        sixapps_release(&jobs);
    }
}

/* The mean run time of jobs of that size, and how many they are. */
static double mean_s(const struct sixapps *jobs, bool is_large, int *n)
{
    double sum = 0;
    *n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        if ((jobs->at[i].gpus > SIXAPPS_LARGE) == is_large) {
            sum += jobs->at[i].duration_s;
            ++*n;
        }
    return sum / *n;
}

static void the_share_of_large_jobs_and_both_means_are_the_papers(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sixapps some = make(240, 0.12, seed);
        struct sixapps many = make(480, 0.13, seed);
        int n;
        assert_true(fabs(mean_s(&some, true, &n) - 6300) < 1e-6);
        assert_int_equal(n, 29);
        assert_true(fabs(mean_s(&some, false, &n) - 1980) < 1e-6);
        assert_int_equal(n, 211);
        assert_true(fabs(mean_s(&many, true, &n) - 6300) < 1e-6);
        assert_int_equal(n, 62); /* 62.4 */
        sixapps_release(&some);
        sixapps_release(&many);
    }
}

static void gpus_and_batches_are_those_of_the_applications(void **unused)
{
    struct sixapps jobs = make(480, 0.13, 7);
    (void)unused;
    for (size_t i = 0; i < jobs.n; i++) {
        const struct firn_job_spec *job = &jobs.at[i];
        bool is_small = job->gpus == 1 || job->gpus == 2 || job->gpus == 4;
        bool is_large = job->gpus == 8 || job->gpus == 12 || job->gpus == 16;
        assert_true(is_small || is_large);
        if (strcmp(job->app, "imagenet") == 0)
            assert_true(is_large && job->batch == 128 * job->gpus);
        if (strcmp(job->app, "ncf") == 0)
            assert_true(job->gpus == 1 && job->batch == 32768);
        if (strcmp(job->app, "yolov3") == 0)
            assert_true(job->gpus == 4 && job->batch == 32);
    }
    sixapps_release(&jobs);
}

/* In 100 draws of 240 jobs the eleventh half-hour, Pollux's busiest, has 148 in
 * 1200 of the arrivals (2960 of 24000, deviation 51), the last one 32 in 1200.
 * Large jobs come like the others: the mean rank of a large job is half. */
static void jobs_arrive_as_polluxs_do_whatever_their_size(void **unused)
{
    int busiest = 0, last = 0, large = 0;
    double rank = 0;
    (void)unused;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct sixapps jobs = make(240, 0.12, seed);
        for (size_t i = 0; i < jobs.n; i++) {
            double at_s = jobs.at[i].submit_s;
            assert_true(at_s >= 0 && at_s < 8 * 3600);
            assert_true(i == 0 || at_s >= jobs.at[i - 1].submit_s);
            busiest += at_s >= 18000 && at_s < 19800;
            last += at_s >= 27000;
            if (jobs.at[i].gpus > SIXAPPS_LARGE) {
                rank += ((double)i + 0.5) / 240;
                large++;
            }
        }
        sixapps_release(&jobs);
    }
    assert_in_range(busiest, 2960 - 200, 2960 + 200);
    assert_in_range(last, 640 - 100, 640 + 100);
    assert_true(fabs(rank / large - 0.5) < 0.02); /* deviation 0.0054 */
}

static bool is_equal(const struct sixapps *a, const struct sixapps *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->at[i].name, b->at[i].name) != 0 ||
            a->at[i].submit_s != b->at[i].submit_s ||
            a->at[i].duration_s != b->at[i].duration_s)
            return false;
    return true;
}

static void the_seed_decides_the_draw(void **unused)
{
    struct sixapps a = make(240, 0.12, 3), b = make(240, 0.12, 3);
    struct sixapps c = make(240, 0.12, 4);
    (void)unused;
    assert_true(is_equal(&a, &b));
    assert_false(is_equal(&a, &c));
    sixapps_release(&a);
    sixapps_release(&b);
    sixapps_release(&c);
}

/* Five of 240 jobs are imagenet and must be large; 136 can be. */
static void a_share_that_cannot_be_drawn_is_refused(void **unused)
{
    struct sixapps_options options = sixapps_defaults();
    struct sixapps out;
    struct firn_error err = {0};
    (void)unused;
    options.large = 0.01;
    assert_int_equal(sixapps_make(&out, &options, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "2 of 240 jobs cannot be large: 5 must be, "
                                  "136 can be");
    options.large = 0.6;
    assert_int_equal(sixapps_make(&out, &options, &err), FIRN_EINVAL);
    options = sixapps_defaults();
    options.jobs = 0;
    assert_int_equal(sixapps_make(&out, &options, &err), FIRN_EINVAL);
}

/* 30 jobs, ten of them with 12 or 16 GPUs, each application five times, the
 * longest iterations and the shortest 50 times apart at most; mean 102 s. */
static void the_jobs_of_the_papers_cluster_are_drawn(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sixapps_options options = {
            .jobs = 30, .seed = seed, .is_testbed = true};
        struct sixapps_options usual = sixapps_defaults();
        struct sixapps jobs;
        struct firn_error err = {0};
        options.large = usual.large;
        options.small_s = usual.small_s;
        options.large_s = usual.large_s;
        assert_int_equal(sixapps_make(&jobs, &options, &err), FIRN_OK);
        int large = 0;
        double sum_s = 0, last_s = 0;
        for (size_t i = 0; i < jobs.n; i++) {
            int gpus = jobs.at[i].gpus;
            large += gpus > 8;
            assert_true(gpus == 12 || gpus == 16 ||
                        (gpus <= 8 && (gpus & (gpus - 1)) == 0));
            assert_true(jobs.at[i].submit_s >= last_s &&
                        jobs.at[i].submit_s < 870);
            last_s = jobs.at[i].submit_s;
            sum_s += jobs.at[i].duration_s;
        }
        assert_int_equal(large, 10);
        assert_int_equal(count(&jobs, "bert"), 5);
        assert_int_equal(count(&jobs, "ncf"), 5);
        assert_true(fabs(sum_s / 30 - 102) < 1e-6);
        sixapps_release(&jobs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applications_are_in_polluxs_proportions),
        cmocka_unit_test(the_share_of_large_jobs_and_both_means_are_the_papers),
        cmocka_unit_test(gpus_and_batches_are_those_of_the_applications),
        cmocka_unit_test(jobs_arrive_as_polluxs_do_whatever_their_size),
        cmocka_unit_test(the_seed_decides_the_draw),
        cmocka_unit_test(the_jobs_of_the_papers_cluster_are_drawn),
        cmocka_unit_test(a_share_that_cannot_be_drawn_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
