/* test_trace_import.c - tables of other programs as traces: sacct as it comes,
 * any table by a mapping, and what is said when a column is missing.
 */
#include "cli/flags.c" /* programs link libfirn.a, which has no cli */
#include "cli/trace_import.c"
#include "cli/trace_kube.c"
#include "lib/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static char path[512];

static void put_file(const char *text)
{
    snprintf(path, sizeof path, "%s/table", folder_path());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *from, const char *map, const char *want,
                   struct trace_import *report)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    if (trace_import(path, from, map, &out, report, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_string_equal(out.at, want);
    buf_release(&out);
}

static void sacct_is_read_as_it_comes(void **state)
{
    (void)state;
    struct trace_import report;
    put_file("JobID|User|Submit|Elapsed|AllocTRES|State\n"
             "12|ann|2026-11-17T10:00:30|1-00:00:10|billing=8,cpu=8,gres/gpu=2,"
             "gres/gpu:a100=2,mem=64G,node=1|COMPLETED\n"
             "12.batch||2026-11-17T10:00:30|1-00:00:10|cpu=8|COMPLETED\n"
             "11|bob|2026-11-17T10:00:00|00:05:00|cpu=1,gres/gpu=1|FAILED\n"
             "13|ann|2026-11-17T11:00:00|00:05:00|cpu=4|COMPLETED\n"
             "14|ann|2026-11-17T11:00:00|00:00:00|gres/gpu=4|CANCELLED\n"
             "15|eve|yesterday|00:01:00|gres/gpu=4|COMPLETED\n");
    expect("sacct", NULL,
           "#firn-trace 1\nname,submit_s,gpus,duration_s,group\n"
           "11,0,1,300,bob\n12,30,2,86410,ann\n",
           &report);
    assert_int_equal(report.jobs, 2);
    assert_int_equal(report.not_gpu, 3);
    assert_int_equal(report.bad, 1);
    assert_string_equal(report.first,
                        "line 7: its submission time cannot be read");
}

static void any_table_is_read_by_a_mapping(void **state)
{
    (void)state;
    struct trace_import report;
    put_file("when,who,cards,\"how long\",model\n"
             "100,ann,gpu:a100:4,1.5h,\"resnet, 50\"\n"
             "90,bob,2,10:00,bert\n");
    expect(NULL, "submit=when,gpus=cards,duration=how long,user=who,app=model",
           "#firn-trace 1\nname,submit_s,gpus,duration_s,app,group\n"
           "j3,0,2,600,bert,bob\nj2,10,4,5400,\"resnet, 50\",ann\n",
           &report);
    assert_int_equal(report.jobs, 2);
}

static void expect_error(const char *from, const char *map, const char *want)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    struct trace_import report;
    assert_int_not_equal(trace_import(path, from, map, &out, &report, &err),
                         FIRN_OK);
    if (strstr(err.text, want) == NULL)
        fail_msg("'%s' is not in '%s'", want, err.text);
    buf_release(&out);
}

static void a_missing_column_is_answered_with_a_mapping(void **state)
{
    (void)state;
    put_file("Submit,cards,Elapsed\n1,2,3\n");
    expect_error(NULL, NULL,
                 "no column for 'gpus'; try --map 'submit=Submit,gpus=cards,"
                 "duration=Elapsed'; the columns are Submit, cards, Elapsed");
    expect_error(NULL, "gpus=card",
                 "there is no column 'card'; try --map 'submit=Submit,gpus="
                 "cards,duration=Elapsed'");
    expect_error(NULL, "gpu=cards", "'gpu=cards' is not FIELD=COLUMN");
    expect_error("sacct", NULL, "the first line has no '|'");
    expect_error("pbs", NULL, "'pbs' is not known; there are sacct and kube");
    put_file("a,b,Elapsed\n1,2,3\n");
    expect_error(NULL, NULL, "try --map 'submit=COLUMN,gpus=COLUMN,");
    put_file("");
    expect_error(NULL, NULL, "the table is empty");
    put_file("Submit,gpus,Elapsed\n1,0,3\nx,2,3\n");
    expect_error(NULL, NULL, "no job that ran on GPUs (1 rows without");
}

static void spans_and_moments_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double s;
    } spans[] = {{"1-02:03:04", 93784}, {"02:03:04", 7384},
                 {"03:04", 184},        {"90", 90},
                 {"1.5h", 5400},        {"0:01.5", 1.5}},
      moments[] = {{"0", 0},
                   {"1700000000.5", 1700000000.5},
                   {"1970-01-02T00:00:00", 86400},
                   {"2024-02-29T12:00:00", 1709208000},
                   {"2024-03-01 00:00:00Z", 1709251200},
                   {"2024-03-01T02:00:00+02:00", 1709251200},
                   {"2024-02-29T19:00:00-05:00", 1709251200}};
    static const char *const wrong[] = {
        "", "x", "1:2:3:4", "-1:00", "1:", ":1", "a-1:00", "1-", "Unknown"};
    double s;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (!trace_import_span(spans[i].text, &s) || s != spans[i].s)
            fail_msg("'%s'", spans[i].text);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        if (!trace_import_moment(moments[i].text, &s) || s != moments[i].s)
            fail_msg("'%s' is %.1f", moments[i].text, s);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (trace_import_span(wrong[i], &s))
            fail_msg("'%s' is %g s", wrong[i], s);
    assert_false(trace_import_moment("2024-13-01T00:00:00", &s));
    assert_false(trace_import_moment("2024-01-01T00:00:00 or so", &s));
}

static void gpus_are_found_in_lists(void **state)
{
    (void)state;
    int n;
    assert_true(trace_import_gpus("cpu=8,gres/gpu=2", "gres/gpu", &n));
    assert_int_equal(n, 2);
    assert_true(
        trace_import_gpus("gres/gpu:a100=3,gres/gpu=3", "gres/gpu", &n));
    assert_int_equal(n, 3);
    assert_true(trace_import_gpus("cpu=8,gres/gpu:a100=3,gres/gpu:t4=2",
                                  "gres/gpu", &n));
    assert_int_equal(n, 5);
    assert_false(trace_import_gpus("gres/gpu:a100=x", "gres/gpu", &n));
    assert_true(trace_import_gpus("cpu=8", "gres/gpu", &n));
    assert_int_equal(n, 0);
    assert_true(trace_import_gpus("gpu:v100:4(IDX:0-3)", "", &n));
    assert_int_equal(n, 4);
    assert_true(trace_import_gpus("0.5", "", &n));
    assert_int_equal(n, 1);
    assert_false(trace_import_gpus("many", "", &n));
}

/* Two o'clock did not exist in Berlin on that night: 1:30 and 3:30 are an hour
 * apart. */
static void times_are_of_the_zone_that_is_given(void **state)
{
    (void)state;
    double before_s, behind_s, named_s;
    assert_false(trace_import_zone("Middle/Nowhere"));
    assert_false(trace_import_zone("../../etc/passwd"));
    if (!trace_import_zone("Europe/Berlin"))
        skip(); /* no zones are installed */
    assert_true(trace_import_moment("2024-03-31T01:30:00", &before_s));
    assert_true(trace_import_moment("2024-03-31T03:30:00", &behind_s));
    assert_true(trace_import_moment("2024-03-31T01:30:00Z", &named_s));
    assert_true(behind_s - before_s == 3600);
    assert_true(named_s == behind_s);
    assert_true(trace_import_zone("UTC"));
}

static void a_table_without_a_format_gets_a_mapping(void **state)
{
    (void)state;
    struct firn_buf map = {0};
    put_file("job number,who,when queued,how long,cards\n1,ann,5,60,2\n");
    assert_true(trace_import_suggest(path, &map));
    assert_string_equal(map.at, "name=job number,submit=when queued,gpus=cards,"
                                "duration=how long,user=who");
    buf_clear(&map);
    put_file("x,y\n1,2\n");
    assert_false(trace_import_suggest(path, &map));
    buf_release(&map);
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

#define POD(name, space, labels, gpus, created, state)                         \
    "{\"metadata\": {\"name\": \"" name "\", \"namespace\": \"" space          \
    "\", \"annotations\": {\"a\": \"{\\\"x\\\": 1}\"}, \"labels\": {" labels   \
    "}, \"creationTimestamp\": \"" created "\"}, \"spec\": {\"containers\": [" \
    "{\"resources\": {\"limits\": {\"cpu\": \"8\", " gpus "}, \"requests\": "  \
    "{" gpus "}}}, {\"name\": \"sidecar\", \"resources\": {}}]}, \"status\": " \
    "{\"startTime\": \"" created                                               \
    "\", \"containerStatuses\": [{\"state\": {" state "}}]}}"
#define RAN(from, to)                                                 \
    "\"terminated\": {\"exitCode\": 0, \"startedAt\": \"" from "\", " \
    "\"finishedAt\": \"" to "\"}"
#define GPU2 "\"nvidia.com/gpu\": \"2\""
#define GANG "\"training.kubeflow.org/job-name\": \"llama\""

static void pods_of_kubernetes_are_jobs(void **state)
{
    (void)state;
    struct trace_import report;
    put_file(
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n" POD(
            "solo", "vision", "", "\"amd.com/gpu\": 1",
            "2026-11-17T12:00:00+02:00",
            RAN("2026-11-17T10:00:30Z",
                "2026-11-17T10:10:00Z")) ",\n" /* at 0 */
        POD("w-1", "nlp", GANG, GPU2, "2026-11-17T10:01:05Z",
            RAN("2026-11-17T10:02:00Z",
                "2026-11-17T11:02:00Z")) ",\n" POD("w-0", "nlp", GANG, GPU2,
                                                   "2026-11-17T10:01:00Z",
                                                   RAN("2026-11-17T10:01:"
                                                       "30Z",
                                                       "2026-11-17T11:01:"
                                                       "00Z")) ",\n"
        /* the same training again, after the first has ended */
        POD("again", "nlp", GANG, GPU2, "2026-11-17T11:30:00Z", RAN("2026-11-17T11:30:00Z", "2026-11-17T11:31:00Z")) ",\n" POD(
            "half", "vision", "", "\"nvidia.com/gpu.shared\": \"1\"",
            "2026-11-17T11:40:00Z",
            RAN("2026-11-17T11:40:00Z",
                "2026-11-17T11:41:00Z")) ",\n" POD("web", "shop", "",
                                                   "\"memory\": \"1Gi\"",
                                                   "2026-11-17T11:00:00Z",
                                                   RAN("2026-11-17T11:00:"
                                                       "00Z",
                                                       "2026-11-17T11:41:"
                                                       "00Z")) ",\n" POD("runs",
                                                                         "nlp",
                                                                         "",
                                                                         GPU2,
                                                                         "2026-"
                                                                         "11-"
                                                                         "17T11"
                                                                         ":00:"
                                                                         "00Z",
                                                                         "\"run"
                                                                         "ning"
                                                                         "\": "
                                                                         "{\"st"
                                                                         "arted"
                                                                         "At\":"
                                                                         " \"20"
                                                                         "26-"
                                                                         "11-"
                                                                         "17T11"
                                                                         ":00:"
                                                                         "00Z\""
                                                                         "}") "]}\n");
    expect("kube", NULL,
           "#firn-trace 1\nname,submit_s,gpus,duration_s,group,may_share\n"
           "solo,0,1,600,vision,0\nllama,60,4,3660,nlp,0\n"
           "again,5400,2,60,nlp,0\nhalf,6000,1,60,vision,1\n",
           &report);
    assert_int_equal(report.jobs, 4);
    assert_int_equal(report.not_gpu, 2);
    put_file("{\"kind\": \"Pod\"}");
    expect_error("kube", NULL, "kubectl get pods -A -o json");
    put_file("{\"items\": [{");
    expect_error("kube", NULL, "byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pods_of_kubernetes_are_jobs,
                                        folder_make, folder_remove),
        CASE(sacct_is_read_as_it_comes),
        CASE(any_table_is_read_by_a_mapping),
        CASE(a_missing_column_is_answered_with_a_mapping),
        cmocka_unit_test(spans_and_moments_are_understood),
        cmocka_unit_test(gpus_are_found_in_lists),
        cmocka_unit_test(times_are_of_the_zone_that_is_given),
        CASE(a_table_without_a_format_gets_a_mapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
