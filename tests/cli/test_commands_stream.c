/* test_commands_stream.c - commands that follow a log or events, and hostile
 * answers of firnd.
 */
#include "firncmd.h"
#include "folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ALIVE                                                                  \
    "all=0&state=running%2Cstarting%2Cresizing%2Cpreempting%2Ccompleting%2Cpe" \
    "nding"
#define JOBS "GET /v1/jobs?limit=100000&after=0&" ALIVE

/* --- following ------------------------------------------------------------ */

static void logs_escapes_control_characters_unless_raw(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?offset=0&limit=1048576", 200,
              "one\n\x1b]0;owned\x07\rtwo\xff\n");
    assert_int_equal(cmd_firn("logs 7"), 0);
    assert_string_equal(cmd_ran.out, "one\n\\x1b]0;owned\\x07\ntwo\\xff\n");
    assert_int_equal(cmd_firn("logs --raw 7"), 0);
    assert_string_equal(cmd_ran.out, "one\n\x1b]0;owned\x07\rtwo\xff\n");
    assert_int_equal(cmd_firn("logs -o json 7"), 0);
    assert_null(strchr(cmd_ran.out, '\x1b'));
}

static void logs_tail_prints_the_last_lines(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?tail=2&limit=1048576", 200,
              "c\nd");
    assert_int_equal(cmd_firn("logs -n 2 7"), 0);
    assert_string_equal(cmd_ran.out, "c\nd");
}

static void a_followed_log_continues_after_a_restart_of_firnd(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?offset=0&limit=1048576", 200,
              "abc\n");
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?follow=1&offset=4", 200, "def\n");
    fake_tell(&cmd_fake, "GET /v1/jobs/7/logs?offset=8&limit=1048576", 200, "");
    assert_int_equal(cmd_firn("logs -f 7"), 0);
    assert_string_equal(cmd_ran.out, "abc\ndef\n");
    fake_tell_open(&cmd_fake, "GET /v1/jobs/7/logs?follow=1&offset=4", "ghi\n");
    assert_int_equal(cmd_run("logs -f 7", NULL, "ghi"), 130);
    assert_string_equal(cmd_ran.out, "abc\nghi\n");
}

static void events_prints_all_pages_then_new_events(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/events?after=0", 200,
              "{\"events\": [{\"id\": 1, \"at_s\": 1000, \"job\": 7, \"kind\":"
              " \"submitted\", \"text\": \"by root\"}], \"last\": 1}");
    fake_tell(&cmd_fake, "GET /v1/events?after=1", 200,
              "{\"events\": [], \"last\": 1}");
    fake_tell_open(&cmd_fake, "GET /v1/events?follow=1&after=1",
                   ":\n\nid: 2\nevent: started\ndata: {\"id\": 2, \"at_s\": "
                   "1001, \"job\": 7, \"kind\": \"started\", \"text\": \"on "
                   "\\u001b[2Jn0\"}\n\n");
    assert_int_equal(cmd_firn("events"), 0);
    assert_string_equal(cmd_ran.out,
                        "1970-01-01 00:16:40       7  submitted   by "
                        "root\n");
    assert_int_equal(cmd_run("events -f", NULL, "started"), 130);
    cmd_out_has("started     on \\x1b[2Jn0\n");
    assert_int_equal(cmd_run("events -f -o json", NULL, "started"), 130);
    cmd_out_has("\"kind\":\"started\",\"text\":\"on \\u001b[2Jn0\"}\n");
}

static void trace_export_writes_the_job_history(void **state)
{
    (void)state;
    static const char csv[] =
        "#firn-trace 1\nname,submit_s,gpus,duration_s\n1-x,0,2,60\n";
    char path[280], line[300], got[128] = "";
    fake_tell(&cmd_fake, "GET /v1/trace?costs=0", 200, csv);
    assert_int_equal(cmd_firn("trace export"), 0);
    assert_string_equal(cmd_ran.out, csv);
    snprintf(path, sizeof path, "%s/t.csv", folder_path());
    snprintf(line, sizeof line, "trace export -o %s", path);
    assert_int_equal(cmd_firn(line), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got - 1, file), sizeof csv - 1);
    fclose(file);
    assert_string_equal(got, csv);
    /* A time before 1970 means the whole history. */
    fake_tell(&cmd_fake, "GET /v1/trace?costs=0&since=0", 200, csv);
    assert_int_equal(cmd_firn("trace export --last 99999d"), 0);
    assert_string_equal(cmd_ran.out, csv);
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"type\": \"v100\", \"gpus\": 2}]}");
    fake_tell(&cmd_fake, "GET /v1/trace?costs=1", 200, csv);
    assert_int_equal(cmd_firn("whatif --policy fifo"), 0);
    cmd_out_has("history");
    fake_tell(&cmd_fake, "GET /v1/trace?costs=1", 200,
              "#firn-trace 1\nname,submit_s,gpus,duration_s\n");
    assert_int_equal(cmd_firn("whatif --policy fifo"), 1);
    assert_string_equal(cmd_ran.err,
                        "firn whatif: no job submitted in this time has run\n");
    /* A failure leaves the file unchanged. */
    fake_tell(&cmd_fake, "GET /v1/trace?costs=0", 500,
              "{\"error\": {\"code\": \"x\", \"text\": \"no disk\"}}");
    assert_int_equal(cmd_firn(line), 1);
    cmd_err_has("firn trace export: no disk");
    assert_int_equal(access(path, R_OK), 0);
}

/* Starts of 10 s of which 1 is left, as firnd has measured them: jobs of 20 s
 * and 4 s end after 30 and 35 s. The starts of an application that does not
 * wait for its GPUs, or of an engine that prepares none, are whole: 30 and 44
 * s. */
static void whatif_prepares_starts_as_firnd_does(void **state)
{
    (void)state;
    static const struct {
        const char *costs, *mean;
    } cases[] = {
        {"\"prepares\": 1, \"apps\": [{\"app\": \"x\", \"start_s\": 10, "
         "\"waits_for_gpus\": 1, \"prepared_start_s\": 1}]",
         "32.5"},
        {"\"prepares\": 1, \"apps\": [{\"app\": \"x\", \"start_s\": 6, "
         "\"waits_for_gpus\": 1, \"prepared_start_s\": 1, "
         "\"first_steps_s\": 4}]", /* the trace has all 10 s of a start */
         "34.5"},
        {"\"prepares\": 1, \"apps\": [{\"app\": \"x\", \"start_s\": 10, "
         "\"waits_for_gpus\": 0}]",
         "37"},
        {"\"prepares\": 0, \"apps\": [{\"app\": \"x\", \"start_s\": 10, "
         "\"waits_for_gpus\": 1, \"prepared_start_s\": 1}]",
         "37"}};
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"type\": \"v100\", \"gpus\": 1}]}");
    fake_tell(&cmd_fake, "GET /v1/trace?costs=1", 200,
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,restart_s\n"
              "1-a,0,1,20,x,10\n2-b,0,1,4,x,10\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char costs[300], mean[60];
        snprintf(costs, sizeof costs, "{%s, \"pairs\": []}", cases[i].costs);
        snprintf(mean, sizeof mean, "\"jct_mean_s\":%s,", cases[i].mean);
        fake_tell(&cmd_fake, "GET /v1/costs", 200, costs);
        assert_int_equal(cmd_firn("whatif --policy fifo -o json"), 0);
        cmd_out_has(mean);
    }
}

/* Two jobs of 20 s are 2 times slower beside each other until the last 10 s of
 * each: they have done 10 after 20 s and end after 30. Without ends 40. */
static void whatif_knows_the_ends_that_firnd_has_measured(void **state)
{
    (void)state;
    static const char *const ends[] = {"10", "null"};
    static const char *const means[] = {"\"jct_mean_s\":30,",
                                        "\"jct_mean_s\":40,"};
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"type\": \"v100\", \"gpus\": 1}]}");
    fake_tell(&cmd_fake, "GET /v1/trace?costs=1", 200,
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,may_share\n"
              "1-a,0,1,20,x,1\n2-b,0,1,20,x,1\n");
    for (int i = 0; i < 2; i++) {
        char costs[200];
        snprintf(costs, sizeof costs,
                 "{\"apps\": [{\"app\": \"x\", \"end_s\": %s}], \"pairs\": "
                 "[{\"app\": \"x\", \"other\": \"x\", \"slowdown\": 2}]}",
                 ends[i]);
        fake_tell(&cmd_fake, "GET /v1/costs", 200, costs);
        assert_int_equal(cmd_firn("whatif --policy sjf-ffs -o json"), 0);
        cmd_out_has(means[i]);
    }
}

/* --- hostile -------------------------------------------------------------- */

#define EVIL "x\\u001b]0;owned\\u0007\\u202e\\u009b31m\\n\\r"

static void no_command_prints_a_control_character_of_firnd(void **state)
{
    (void)state;
    static const char job[] =
        "{\"id\": 7, \"name\": \"" EVIL "\", \"user\": \"" EVIL
        "\", \"state\": \"" EVIL "\", \"reason\": \"" EVIL "\", \"why\": "
        "\"" EVIL "\", \"gpus\": \"" EVIL "\", \"" EVIL "\": \"" EVIL
        "\", \"file\": \"" EVIL "\", \"ask\": {\"run\": [\"" EVIL
        "\"]}, \"text\": \"" EVIL "\", \"next\": \"" EVIL
        "\", \"epochs\": [{\"end\": \"" EVIL "\", \"gpus\": \"" EVIL "\"}]}";
    static char jobs[4096];
    static const char *const lines[] = {"ls",
                                        "show 7",
                                        "why 7",
                                        "eta 7",
                                        "cancel 7",
                                        "hold 7",
                                        "show 7 -o json",
                                        "ls -o json",
                                        "nodes",
                                        "drain 7",
                                        "submit -o json -- x"};
    static const char *const whats[] = {
        "GET /v1/jobs/7",       "GET /v1/jobs/7/why",
        "GET /v1/jobs/7/eta",   "POST /v1/jobs/7/cancel",
        "POST /v1/jobs/7/hold", "POST /v1/nodes/7/drain",
        "POST /v1/jobs"};
    snprintf(jobs, sizeof jobs, "{\"jobs\": [%s], \"nodes\": [%s]}", job, job);
    for (size_t i = 0; i < sizeof whats / sizeof *whats; i++)
        fake_tell(&cmd_fake, whats[i], 200, job);
    fake_tell(&cmd_fake, JOBS "&pending=1000", 200, jobs);
    fake_tell(&cmd_fake, JOBS, 200, jobs);
    fake_tell(&cmd_fake, "GET /v1/nodes", 200, jobs);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(cmd_firn(lines[i]), 0);
        cmd_out_has("owned");
        assert_null(strpbrk(cmd_ran.out, "\x1b\x07\r\x9b"));
        assert_null(strstr(cmd_ran.out, "\xe2\x80\xae"));
    }
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 400,
              "{\"error\": {\"text\": \"" EVIL "\"}}");
    assert_int_equal(cmd_firn("show 7"), 1);
    cmd_err_has("owned");
    assert_null(strpbrk(cmd_ran.err, "\x1b\x07\r\x9b"));
}

static void unexpected_json_does_not_crash_a_command(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "null",
        "[]",
        "\"x\"",
        "7",
        "{}",
        "{\"jobs\": 5}",
        "{\"jobs\": [5, null, [], {\"id\": \"x\"}], \"nodes\": {\"a\": 1}}",
        "{\"jobs\": [], \"next\": 0}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        fake_tell(&cmd_fake, JOBS "&pending=1000", 200, bodies[i]);
        fake_tell(&cmd_fake, JOBS, 200, bodies[i]);
        fake_tell(&cmd_fake, "GET /v1/nodes", 200, bodies[i]);
        fake_tell(&cmd_fake, "GET /v1/jobs/7", 200, bodies[i]);
        assert_true(cmd_firn("ls") <= 1);
        assert_true(cmd_firn(i % 2 ? "nodes" : "show 7") <= 1);
    }
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, cmd_setup, cmd_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(logs_escapes_control_characters_unless_raw),
        CASE(logs_tail_prints_the_last_lines),
        CASE(a_followed_log_continues_after_a_restart_of_firnd),
        CASE(events_prints_all_pages_then_new_events),
        CASE(trace_export_writes_the_job_history),
        CASE(whatif_prepares_starts_as_firnd_does),
        CASE(whatif_knows_the_ends_that_firnd_has_measured),
        CASE(no_command_prints_a_control_character_of_firnd),
        CASE(unexpected_json_does_not_crash_a_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
