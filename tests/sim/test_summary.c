/* test_summary.c - table, JSON and CSV say the same, with all digits.
 */
#include "base/buf.h"
#include "sim/summary.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Every field another value, so that a mix-up shows. */
static struct firn_sim_result example(void)
{
    struct firn_sim_result r = {
        .trace = "data/jobs.csv",
        .policy = "fifo",
        .cluster = "pollux",
        .seed = 18446744073709551615u,
        .restart_s = 30.5,
    };
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    for (size_t i = 0; i < n; i++) {
        char *at = (char *)&r + fields[i].offset;
        if (fields[i].kind == SUMMARY_COUNT)
            *(long *)at = 100 + (long)i;
        if (fields[i].kind == SUMMARY_NUMBER && at != (char *)&r.restart_s)
            *(double *)at = (double)i + 0.1;
    }
    r.classes[3] = (struct firn_sim_class){0, NAN};
    return r;
}

static struct firn_buf printed(const struct firn_sim_result *results, size_t n,
                               enum firn_sim_format format)
{
    struct firn_buf out = {0};
    buf_puts(&out, "");
    firn_sim_print(results, n, format, &out);
    return out;
}

static void has(const struct firn_buf *text, const char *part)
{
    if (!strstr(text->at, part))
        fail_msg("no '%s' in:\n%s", part, text->at);
}

static void json_has_the_promised_keys_in_order(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "trace",          "policy",        "cluster",       "seed",
        "restart_s",      "jobs",          "unfinished",    "rejected",
        "bad_rows",       "ignored_rows",  "unsorted_rows", "nominal_jobs",
        "jct_mean_s",     "jct_p50_s",     "jct_p90_s",     "jct_p99_s",
        "jct_max_s",      "jct_by_gpus",   "class",         "queue_mean_s",
        "queue_p50_s",    "queue_p99_s",   "makespan_s",    "gpu_alloc_ratio",
        "gpu_util_ratio", "fragmentation", "restarts",      "failures",
        "rho_mean",       "rho_p50",       "rho_p99",       "rho_max",
        "unfair_share",   "gpu_s_given",   "gpu_s_useful",  "gpu_s_overhead",
        "gpu_s_lost",     "rounds",        "events",        "steps",
        "cpu_s"};
    struct firn_sim_result r = example();
    struct firn_buf text = printed(&r, 1, FIRN_SIM_JSON);
    const char *at = text.at;
    assert_int_equal(strncmp(at, "{\"results\":[\n{\"trace\":", 22), 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", keys[i]);
        at = strstr(at, key);
        if (!at)
            fail_msg("no %s in its place", key);
    }
    buf_release(&text);
}

static void json_numbers_have_all_their_digits(void **state)
{
    (void)state;
    struct firn_sim_result r = example();
    r.jct_mean_s = 20023.4736;
    r.rho_mean = 1.0 / 3;
    r.queue_p50_s = NAN;
    r.makespan_s = INFINITY;
    struct firn_buf text = printed(&r, 1, FIRN_SIM_JSON);
    has(&text, "\"seed\":18446744073709551615,");
    has(&text, "\"jct_mean_s\":20023.4736,");
    has(&text, "\"rho_mean\":0.3333333333333333,");
    has(&text, "\"queue_p50_s\":null,");
    has(&text, "\"makespan_s\":null,");
    has(&text, "\"jct_by_gpus\":[{\"class\":\"1\",\"jobs\":117,");
    has(&text, ",{\"class\":\"9+\",\"jobs\":0,\"jct_mean_s\":null}],"
               "\"queue_mean_s\"");
    buf_release(&text);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    struct firn_sim_result r = example();
    snprintf(r.trace, sizeof r.trace, "a\"b\\c\n.csv");
    struct firn_buf text = printed(&r, 1, FIRN_SIM_JSON);
    has(&text, "\"trace\":\"a\\\"b\\\\c\\n.csv\"");
    buf_release(&text);
}

static void no_results_are_an_empty_list(void **state)
{
    (void)state;
    struct firn_buf json = printed(NULL, 0, FIRN_SIM_JSON);
    struct firn_buf table = printed(NULL, 0, FIRN_SIM_TABLE);
    assert_string_equal(json.at, "{\"results\":[\n]}\n");
    assert_string_equal(table.at, "");
    buf_release(&json);
    buf_release(&table);
}

static int columns_of(const char *line)
{
    int n = 1;
    for (; *line != '\0' && *line != '\n'; line++)
        n += *line == ',';
    return n;
}

static void csv_has_a_column_for_each_field_but_what_is_measured(void **state)
{
    (void)state;
    struct firn_sim_result r = example();
    r.jct_mean_s = 20023.4736;
    struct firn_buf text = printed(&r, 1, FIRN_SIM_CSV);
    const char *second = strchr(text.at, '\n') + 1;
    size_t n;
    (void)summary_fields(&n);
    assert_int_equal(columns_of(text.at), (int)n - 1);
    assert_int_equal(columns_of(second), (int)n - 1);
    assert_null(strstr(text.at, "cpu_s"));
    has(&text, "jobs_gpus_9+,jct_mean_s_gpus_9+,queue_mean_s");
    has(&text, "\ndata/jobs.csv,fifo,pollux,18446744073709551615,30.5,105,");
    has(&text, ",20023.4736,");
    has(&text, ",0,,"); /* class 9+: no jobs, no mean */
    buf_release(&text);
}

static void fields_read_back_as_they_were_written(void **state)
{
    (void)state;
    struct firn_sim_result r = example(), back = {0};
    r.fragmentation = 1.0 / 3;
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    for (size_t i = 0; i < n; i++) {
        struct firn_buf text = {0};
        summary_value(&fields[i], &r, &text);
        assert_int_equal(summary_read(&fields[i], text.at, &back, NULL),
                         FIRN_OK);
        struct firn_buf again = {0};
        summary_value(&fields[i], &back, &again);
        assert_string_equal(text.at, again.at);
        buf_release(&again);
        buf_release(&text);
    }
    assert_true(back.fragmentation == r.fragmentation);
    assert_true(back.cpu_s == r.cpu_s);
    assert_true(isnan(back.classes[3].jct_mean_s));
}

static void a_summary_field_that_is_no_number_is_refused(void **state)
{
    (void)state;
    struct firn_sim_result r = {0};
    struct firn_error err = {0};
    size_t n;
    const struct summary_field *fields = summary_fields(&n);
    for (size_t i = 0; i < n; i++)
        if (fields[i].kind != SUMMARY_TEXT)
            assert_int_equal(summary_read(&fields[i], "12x", &r, &err),
                             FIRN_EINVAL);
    assert_int_equal(summary_read(&fields[3], "", &r, &err), FIRN_EINVAL);
    assert_int_equal(summary_read(&fields[3], "18446744073709551616", &r, &err),
                     FIRN_EINVAL);
}

static void time_says(double time_s, const char *text)
{
    struct firn_buf out = {0};
    summary_time(time_s, &out);
    assert_string_equal(out.at, text);
    buf_release(&out);
}

static void times_are_for_people(void **state)
{
    (void)state;
    time_says(0, "0.00s");
    time_says(12.344, "12.34s");
    time_says(59.994, "59.99s");
    time_says(59.996, "1m00.0s");
    time_says(754.45, "12m34.5s");
    time_says(3599.94, "59m59.9s");
    time_says(3599.96, "1h00m00s");
    time_says(20023.4736, "5h33m43s");
    time_says(359999.4, "99h59m59s");
    time_says(359999.6, "4d04h00m");
    time_says(86400 * 63 + 4 * 3600 + 12 * 60 + 29, "63d04h12m");
    time_says(NAN, "-");
    time_says(1e300, "1e+300s");
    time_says(INFINITY, "infs");
}

static void the_table_has_a_row_for_each_result(void **state)
{
    (void)state;
    struct firn_sim_result r[2] = {example(), example()};
    snprintf(r[1].policy, sizeof r[1].policy, "opportunistic");
    r[0].jct_mean_s = 20023.4736;
    r[0].gpu_alloc_ratio = 0.693;
    r[0].bad_rows = r[1].bad_rows = 1;
    r[0].unfinished = 0;
    r[1].rejected = 2;
    struct firn_buf text = printed(r, 2, FIRN_SIM_TABLE);
    has(&text, "cluster pollux, a restart costs 30.5 s, seed "
               "18446744073709551615\n\ntrace     policy         jobs  JCT");
    has(&text, "\njobs.csv  fifo            105  5h33m43s");
    has(&text, "\njobs.csv  opportunistic   105 ");
    has(&text, " 69.3 ");
    has(&text, "mean JCT by GPUs asked for\n");
    has(&text, "\njobs.csv: 1 bad row skipped, 109 rows that are no GPU jobs "
               "ignored, 110 rows out of order of submission, 111 jobs with "
               "nominal durations\n");
    has(&text, "\njobs.csv, opportunistic: 106 jobs unfinished, 2 jobs "
               "rejected");
    /* Said of the trace once, not once a policy. */
    assert_null(strstr(strstr(text.at, "bad row") + 1, "bad row"));
    assert_null(strstr(text.at, "cpu"));
    buf_release(&text);
}

static void the_table_does_not_depend_on_the_measured_time(void **state)
{
    (void)state;
    struct firn_sim_result a = example(), b = example();
    b.cpu_s = 77;
    for (int f = 0; f < 2; f++) {
        enum firn_sim_format format = f ? FIRN_SIM_CSV : FIRN_SIM_TABLE;
        struct firn_buf x = printed(&a, 1, format);
        struct firn_buf y = printed(&b, 1, format);
        assert_string_equal(x.at, y.at);
        buf_release(&x);
        buf_release(&y);
    }
}

static void traces_keep_the_part_of_their_path_that_differs(void **state)
{
    (void)state;
    struct firn_sim_result r[2] = {example(), example()};
    snprintf(r[0].trace, sizeof r[0].trace, "data/a/jobs.csv");
    snprintf(r[1].trace, sizeof r[1].trace, "data/ab/jobs.csv");
    struct firn_buf text = printed(r, 2, FIRN_SIM_TABLE);
    has(&text, "\na/jobs.csv   fifo");
    has(&text, "\nab/jobs.csv  fifo");
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_promised_keys_in_order),
        cmocka_unit_test(json_numbers_have_all_their_digits),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(no_results_are_an_empty_list),
        cmocka_unit_test(csv_has_a_column_for_each_field_but_what_is_measured),
        cmocka_unit_test(fields_read_back_as_they_were_written),
        cmocka_unit_test(a_summary_field_that_is_no_number_is_refused),
        cmocka_unit_test(times_are_for_people),
        cmocka_unit_test(the_table_has_a_row_for_each_result),
        cmocka_unit_test(the_table_does_not_depend_on_the_measured_time),
        cmocka_unit_test(traces_keep_the_part_of_their_path_that_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
