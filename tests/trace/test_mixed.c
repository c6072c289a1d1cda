/* test_mixed.c - the mixed workload has what mixed.def says, and reads back. */
#include "base/buf.h"
#include "lib/trace_text.h"
#include "trace/mixed.h"
#include "trace/write.h"
#include <firn/trace.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mixed make(long jobs, uint64_t seed)
{
    struct mixed_options options = mixed_defaults();
    struct mixed out;
    struct firn_error err = {0};
    options.jobs = jobs;
    options.seed = seed;
    if (mixed_make(&out, &options, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return out;
}

static double share(const struct mixed *jobs, const char *class)
{
    double n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += strcmp(jobs->at[i].group, class) == 0;
    return n / (double)jobs->n;
}

static void classes_are_as_frequent_as_the_table_says(void **unused)
{
    (void)unused;
    struct mixed jobs = make(20000, 3);
    assert_true(fabs(share(&jobs, "vision") - 0.24) < 0.015);
    assert_true(fabs(share(&jobs, "masked") - 0.10) < 0.015);
    assert_true(fabs(share(&jobs, "elastic") - 0.18) < 0.015);
    assert_true(fabs(share(&jobs, "language") - 0.14) < 0.015);
    assert_true(fabs(share(&jobs, "finetune") - 0.34) < 0.015);
    double hours = jobs.at[jobs.n - 1].submit_s / 3600;
    assert_true(fabs((double)jobs.n / hours - 30) < 1);
    mixed_release(&jobs);
}

static void each_class_allows_what_its_policy_needs(void **unused)
{
    (void)unused;
    struct mixed jobs = make(500, 4);
    for (size_t i = 0; i < jobs.n; i++) {
        const struct firn_job_spec *job = &jobs.at[i];
        bool is_language = strcmp(job->group, "language") == 0;
        bool is_tuning = strcmp(job->group, "finetune") == 0;
        bool shares = strcmp(job->group, "vision") == 0 ||
                      strcmp(job->group, "masked") == 0;
        assert_int_equal(job->gpus == 0, is_language);
        assert_int_equal(job->seq > 0, is_language);
        assert_int_equal(job->may_merge, is_tuning);
        assert_int_equal(job->may_share, shares);
        assert_true(is_language || job->gpus_max > job->gpus_min);
        assert_true(job->gpus_max <= 8);
        assert_true(job->duration_s >= 40);
        assert_true(i == 0 || job->submit_s >= jobs.at[i - 1].submit_s);
    }
    mixed_release(&jobs);
}

static void options_out_of_range_are_refused(void **unused)
{
    (void)unused;
    struct mixed jobs;
    struct firn_error err = {0};
    struct mixed_options options = mixed_defaults();
    options.jobs = 0;
    assert_int_equal(mixed_make(&jobs, &options, &err), FIRN_EINVAL);
    options = mixed_defaults();
    options.per_hour = NAN;
    assert_int_equal(mixed_make(&jobs, &options, &err), FIRN_EINVAL);
}

static void the_bundled_trace_can_be_made_again(void **unused)
{
    (void)unused;
    struct mixed jobs = make(240, 1);
    struct firn_buf made = {0}, kept = file_text("traces/mixed.csv");
    struct firn_buf readme = file_text("traces/README.md");
    unsigned mask = 0;
    for (size_t i = 0; i < jobs.n; i++)
        mask |= write_mask(&jobs.at[i]);
    write_header(&made, mask);
    for (size_t i = 0; i < jobs.n; i++)
        write_row(&made, &jobs.at[i], mask);
    assert_string_equal(made.at, kept.at);
    assert_non_null(strstr(readme.at, "firn trace gen --mixed --jobs 240 "
                                      "--seed 1 -o traces/mixed.csv\n"));
    buf_release(&made);
    buf_release(&kept);
    buf_release(&readme);
    mixed_release(&jobs);
}

/* Before: a language model beside elastic jobs was written with gpus_min 0,
 * which no reader accepts. */
static void every_row_of_the_bundled_trace_is_a_job(void **unused)
{
    (void)unused;
    struct firn_trace *trace = NULL;
    struct firn_job_spec spec;
    struct firn_error err = {0};
    size_t n = 0, open = 0;
    assert_int_equal(firn_trace_open(&trace, "traces/mixed.csv",
                                     &(struct firn_trace_options){0}, &err),
                     FIRN_OK);
    while (firn_trace_next(trace, &spec, &err)) {
        n++;
        open += spec.gpus == 0;
    }
    assert_int_equal(n, 240);
    assert_int_equal(open, 33);
    firn_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_as_frequent_as_the_table_says),
        cmocka_unit_test(each_class_allows_what_its_policy_needs),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(the_bundled_trace_can_be_made_again),
        cmocka_unit_test(every_row_of_the_bundled_trace_is_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
