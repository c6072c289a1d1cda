/* test_commands.c - the commands that ask the daemon, against one that answers
 * as it was told to: what is sent, what is printed, how they end.
 *
 * They run the program that FIRN names (build/firn), and are skipped when it
 * is not there.
 */
#include "fakefirnd.h"
#include "folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGS_MAX = 16 };

static struct fake fake;
static struct ran ran;
static char socket_path[256];

static const char *program(void)
{
    const char *path = getenv("FIRN");
    return path != NULL && *path != '\0' ? path : "build/firn";
}

static int setup(void **state)
{
    static const char *const names[] = {"FIRN_SOCKET", "FIRN_API_URL",
                                        "FIRN_API_TOKEN_FILE",
                                        "XDG_RUNTIME_DIR", "XDG_STATE_HOME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    folder_make(state);
    snprintf(socket_path, sizeof socket_path, "%s/s", folder_path());
    fake_start(&fake, socket_path);
    setenv("FIRN_SOCKET", socket_path, 1);
    setenv("TZ", "UTC", 1);
    return 0;
}

static int teardown(void **state)
{
    fake_stop(&fake);
    return folder_remove(state);
}

/* Runs firn with the words of `line`, split at blanks; the exit status. */
static int firn_in(const char *line, const char *in, const char *until)
{
    static char words[1024];
    const char *argv[ARGS_MAX] = {program()};
    int n = 1;
    if (access(program(), X_OK) != 0) {
        print_message("skipped: there is no %s\n", program());
        skip();
    }
    snprintf(words, sizeof words, "%s", line);
    for (char *at = words; *at != '\0' && n < ARGS_MAX - 1;) {
        argv[n++] = at;
        at += strcspn(at, " ");
        if (*at == ' ')
            *at++ = '\0';
    }
    run_program(&ran, argv, in, until);
    return ran.status;
}

static int firn(const char *line)
{
    return firn_in(line, NULL, NULL);
}

static void assert_out(const char *text)
{
    if (strstr(ran.out, text) == NULL)
        fail_msg("no '%s' in:\n%s", text, ran.out);
}

static void assert_err(const char *text)
{
    if (strstr(ran.err, text) == NULL)
        fail_msg("no '%s' in:\n%s", text, ran.err);
}

/* The i-th request was that. */
static struct fake_request asked(int i, const char *what)
{
    static struct fake_request one;
    assert_true(fake_request(&fake, i, &one));
    assert_string_equal(one.what, what);
    return one;
}

static const char job_7[] =
    "{\"id\": 7, \"name\": \"resnet\", \"user\": \"root\", \"state\": "
    "\"pending\", \"reason\": \"new\", \"why\": \"no round yet\", \"held\": "
    "false, \"gpus_min\": 1, \"gpus_max\": 4, \"gpus\": \"-\"}";

/* --- no daemon ------------------------------------------------------------ */

static void no_socket_says_how_to_start_one(void **state)
{
    (void)state;
    assert_int_equal(firn("ls --socket /nowhere/firn.sock"), 1);
    assert_err("firn ls: no daemon: there is no /nowhere/firn.sock; start one "
               "with 'firnd'");
    assert_string_equal(ran.out, "");
}

static void a_socket_without_listener_is_told_apart(void **state)
{
    (void)state;
    char line[300], path[280];
    snprintf(path, sizeof path, "%s/dead", folder_path());
    struct fake other;
    fake_start(&other, path);
    other.path[0] = '\0'; /* its file stays */
    fake_stop(&other);
    snprintf(line, sizeof line, "ls --socket %s", path);
    assert_int_equal(firn(line), 1);
    assert_err("no daemon listens at");
}

static void silence_ends_with_the_timeout(void **state)
{
    (void)state;
    fake_silence(&fake);
    assert_int_equal(firn("ls --timeout 0.1"), 1);
    assert_err("did not answer within 0.1 s");
}

static void what_is_no_firnd_is_named(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/nodes", 200, "<html>hello</html>");
    assert_int_equal(firn("nodes"), 1);
    assert_err("is no firnd: it sent no JSON");
    fake_tell(&fake, "GET /v1/nodes", 502, "<html>hello</html>");
    assert_int_equal(firn("nodes"), 1);
    assert_err("answered with status 502 and no word of firn's");
}

static void wrong_use_ends_with_2(void **state)
{
    (void)state;
    assert_int_equal(firn("show"), 2);
    assert_int_equal(firn("cancel"), 2);
    assert_int_equal(firn("ls extra"), 2);
    assert_int_equal(firn("submit"), 2);
    assert_int_equal(firn("submit -f a --gpus 2"), 2);
    assert_int_equal(firn("submit --share --alone -- x"), 2);
    assert_int_equal(firn("plan"), 2);
    assert_int_equal(firn("ls --url http://x --socket y"), 2);
    assert_int_equal(firn("ls -o yaml"), 2);
    assert_int_equal(firn("why 1 2"), 2);
    assert_int_equal(fake_count(&fake), 0);
}

/* --- over TCP ------------------------------------------------------------- */

static void a_token_goes_with_the_request_and_401_says_how(void **state)
{
    (void)state;
    char path[280], line[400];
    struct fake tcp;
    struct fake_request one;
    fake_start(&tcp, NULL);
    fake_tell(&tcp, "GET /v1/nodes", 200, "{\"nodes\": []}");
    snprintf(path, sizeof path, "%s/token", folder_path());
    FILE *file = fopen(path, "w");
    fputs("sesame\nsecond line\n", file);
    fclose(file);
    snprintf(line, sizeof line,
             "nodes --url http://127.0.0.1:%d/ --token-file %s", tcp.port,
             path);
    assert_int_equal(firn(line), 0);
    assert_true(fake_request(&tcp, 0, &one));
    assert_non_null(strstr(one.head, "Authorization: Bearer sesame\r\n"));
    fake_tell(&tcp, "GET /v1/nodes", 401,
              "{\"error\": {\"code\": \"x\", \"text\": \"who are you?\"}}");
    snprintf(line, sizeof line, "nodes --url http://127.0.0.1:%d", tcp.port);
    assert_int_equal(firn(line), 1);
    assert_err("firn nodes: who are you?; name a token's file by --token-file");
    assert_true(fake_request(&tcp, 1, &one));
    assert_null(strstr(one.head, "Authorization"));
    fake_stop(&tcp);
    assert_int_equal(firn("nodes --url ftp://x"), 1);
    assert_err("is no http:// or https:// address");
}

/* --- submit --------------------------------------------------------------- */

static void a_file_is_sent_as_it_is_and_its_number_printed(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs", 201, job_7);
    assert_int_equal(firn_in("submit -f -", "run: x # \xc3\xa4\n", NULL), 0);
    assert_string_equal(ran.out, "7\n");
    assert_string_equal(ran.err, "");
    struct fake_request one = asked(0, "POST /v1/jobs");
    assert_string_equal(one.body, "run: x # \xc3\xa4\n");
    assert_non_null(strstr(one.head, "Content-Type: application/yaml\r\n"));
    assert_non_null(strstr(one.head, "Idempotency-Key: "));
}

static void a_lost_answer_is_asked_for_again_with_the_same_id(void **state)
{
    (void)state;
    struct fake_request first, second;
    fake_tell(&fake, "POST /v1/jobs", 200, job_7);
    fake_drop(&fake, 2);
    assert_int_equal(firn("submit -- true"), 0);
    assert_string_equal(ran.out, "7\n");
    assert_int_equal(fake_count(&fake), 3);
    first = asked(0, "POST /v1/jobs");
    second = asked(2, "POST /v1/jobs");
    assert_string_equal(first.head, second.head);
    assert_string_equal(first.body, second.body);
    /* Another submit has another id. */
    assert_int_equal(firn("submit -- true"), 0);
    second = asked(3, "POST /v1/jobs");
    assert_string_not_equal(first.head, second.head);
}

static void other_requests_are_sent_once(void **state)
{
    (void)state;
    fake_drop(&fake, 5);
    assert_int_equal(firn("cancel 7"), 1);
    assert_err("hung up before it answered");
    assert_int_equal(fake_count(&fake), 1);
}

static void a_wrong_line_is_named_with_its_file(void **state)
{
    (void)state;
    char path[280], line[300];
    snprintf(path, sizeof path, "%s/j.yaml", folder_path());
    snprintf(line, sizeof line, "submit -f %s", path);
    assert_int_equal(firn(line), 1);
    assert_err("j.yaml: No such file");
    FILE *file = fopen(path, "w");
    fputs("gpus: many\n", file);
    fclose(file);
    fake_tell(&fake, "POST /v1/jobs", 400,
              "{\"error\": {\"code\": \"invalid\", \"text\": \"job file: line "
              "1: 'gpus' is 'many'\"}}");
    assert_int_equal(firn(line), 1);
    assert_err("j.yaml: line 1: 'gpus' is 'many'\n");
    assert_string_equal(ran.out, "");
}

static void of_several_files_the_good_ones_are_sent(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs", 201, job_7);
    assert_int_equal(firn_in("submit -f /nowhere/a -f -", "run: x\n", NULL), 1);
    assert_string_equal(ran.out, "7\n");
    assert_err("/nowhere/a");
}

static void waiting_ends_with_the_jobs_own_status(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs", 201, job_7);
    fake_tell(&fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"name\": \"resnet\", \"state\": \"failed\", "
              "\"reason\": \"exit\", \"why\": \"status 3\", \"exit_status\": "
              "3}");
    assert_int_equal(firn("submit --wait -- false"), 3);
    assert_err("job 7 (resnet): failed: status 3");
    fake_tell(&fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"state\": \"succeeded\", \"exit_status\": 0}");
    assert_int_equal(firn("submit --wait -- true"), 0);
    fake_tell(&fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"state\": \"cancelled\", \"exit_status\": 0}");
    assert_int_equal(firn("submit --wait -- true"), 1);
}

static void an_interrupt_leaves_the_job_and_ends_with_130(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs", 201, job_7);
    fake_tell(&fake, "GET /v1/jobs/7", 200, job_7);
    assert_int_equal(firn_in("submit --wait -- x", NULL, "pending"), 130);
    assert_string_equal(ran.out, "7\n");
    assert_err("job 7 goes on; 'firn cancel 7' ends it");
}

static void a_held_job_is_held(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs?hold=1", 201, job_7);
    assert_int_equal(firn("submit --hold -- x"), 0);
    asked(0, "POST /v1/jobs?hold=1");
    assert_string_equal(ran.out, "7\n");
}

/* --- looking -------------------------------------------------------------- */

#define ALIVE                                                              \
    "&state=pending%2Cstarting%2Crunning%2Cresizing%2Cpreempting%2Ccomple" \
    "ting"
#define LIST "GET /v1/jobs?limit=100000&after=0&all=0" ALIVE

static void jobs_are_listed_page_by_page_what_runs_first(void **state)
{
    (void)state;
    fake_tell(&fake, LIST, 200,
              "{\"jobs\": [{\"id\": 1, \"name\": \"waits\", \"state\": "
              "\"pending\", \"reason\": \"capacity\", \"gpus_min\": 2, "
              "\"gpus_max\": 2, \"gpus\": \"-\"}], \"next\": 1}");
    fake_tell(&fake, "GET /v1/jobs?limit=100000&after=1&all=0" ALIVE, 200,
              "{\"jobs\": [{\"id\": 2, \"name\": \"runs\", \"user\": "
              "\"root\", \"state\": \"running\", \"gpus_min\": 1, "
              "\"gpus_max\": 8, \"gpus\": \"n0[0-3]\", \"progress\": 0.5}]}");
    assert_int_equal(firn("ls"), 0);
    assert_out("1..8  n0[0-3]");
    assert_out("50%");
    assert_true(strstr(ran.out, "runs") < strstr(ran.out, "waits"));
    assert_int_equal(firn("ls -o json"), 0);
    assert_out("\"progress\": 0.5");
    fake_tell(&fake, LIST, 200, "{\"jobs\": []}");
    assert_int_equal(firn("ls"), 0);
    assert_string_equal(ran.out, "no jobs\n");
}

static void filters_reach_the_daemon(void **state)
{
    (void)state;
    static const char what[] = "GET /v1/jobs?limit=100000&after=0&all=1&state="
                               "failed&user=uid%201000%26x";
    fake_tell(&fake, what, 200, "{\"jobs\": []}");
    const char *argv[] = {program(), "ls",         "--state", "failed",
                          "--user",  "uid 1000&x", NULL};
    run_program(&ran, argv, NULL, NULL);
    assert_int_equal(ran.status, 0);
    asked(0, what);
}

static void a_name_cannot_leave_its_part_of_the_path(void **state)
{
    (void)state;
    assert_int_equal(firn("show ../../v1/nodes?x"), 1);
    asked(0, "GET /v1/jobs/..%2F..%2Fv1%2Fnodes%3Fx");
}

static void show_has_starts_report_and_file(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/jobs/res", 200,
              "{\"id\": 7, \"name\": \"resnet\", \"user\": \"root\", "
              "\"state\": \"running\", \"gpus_min\": 1, \"gpus_max\": 1, "
              "\"gpus\": \"n0[0]\", \"started_s\": 1000, \"ask\": {\"run\": "
              "[\"python\", \"x y\"], \"may_share\": true}, \"report\": "
              "{\"loss\": 0.25, \"variance\": [1, 2]}, \"epochs\": "
              "[{\"epoch\": 1, \"started_s\": 1000, \"ended_s\": 1090, "
              "\"gpus\": \"n0[0]\", \"end\": \"checkpoint\", "
              "\"exit_status\": 85}], \"file\": \"run: x\\n\", \"novel\": 5}");
    assert_int_equal(firn("show res"), 0);
    assert_out("job 7 (resnet) of root: running");
    assert_out("started: 1970-01-01 00:16:40");
    assert_out("loss: 0.25");
    assert_out("novel: 5");
    assert_out("1m30s  n0[0]  checkpoint      85");
    assert_out("As it was sent:\n\nrun: x\n");
    assert_null(strstr(ran.out, "variance"));
}

static void why_says_the_sentence_first(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/jobs/7/why", 200,
              "{\"reason\": \"capacity\", \"text\": \"waits for 4 GPUs\", "
              "\"need\": 4, \"have\": 3, \"next\": \"ask for 3\"}");
    assert_int_equal(firn("why 7"), 0);
    assert_int_equal(strncmp(ran.out, "waits for 4 GPUs\n", 17), 0);
    assert_out("need: 4\nhave: 3\n");
    assert_out("next: ask for 3\n");
}

static void verbs_go_to_each_and_tell_of_failures(void **state)
{
    (void)state;
    fake_tell(&fake, "POST /v1/jobs/a/cancel", 200, job_7);
    fake_tell(&fake, "POST /v1/jobs/b/cancel", 404,
              "{\"error\": {\"code\": \"not-found\", \"text\": \"there is no "
              "job 'b'\"}}");
    fake_tell(&fake, "POST /v1/nodes/n0/drain", 200,
              "{\"name\": \"n0\", \"drained\": true}");
    assert_int_equal(firn("cancel b a"), 1);
    assert_string_equal(ran.out, "job 7 (resnet) is cancelled\n");
    assert_err("firn cancel: there is no job 'b'\n");
    assert_int_equal(firn("drain n0"), 0);
    assert_string_equal(ran.out, "node n0 is drained\n");
}

static void top_without_a_terminal_prints_one_page(void **state)
{
    (void)state;
    fake_tell(&fake,
              "GET /v1/jobs?limit=100000&after=0&state=pending,starting,"
              "running,resizing,preempting,completing",
              200,
              "{\"jobs\": [{\"id\": 3, \"name\": \"x\", \"state\": "
              "\"running\"}]}");
    fake_tell(&fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"name\": \"n0\", \"type\": \"v100\", \"mem_gib\":"
              " 16, \"gpus\": 4, \"free\": 1, \"outside\": 0, \"up\": true, "
              "\"drained\": false}]}");
    assert_int_equal(firn("top"), 0);
    assert_out("3 of 4 in use");
    assert_out("1 running, 0 pending");
    assert_null(strchr(ran.out, '\x1b'));
    assert_int_equal(firn("top -o json"), 0);
    assert_out("\"free\": 1");
}

/* --- following ------------------------------------------------------------ */

static void logs_are_made_harmless_unless_raw(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/jobs/7/logs?offset=0&limit=1048576", 200,
              "one\n\x1b]0;owned\x07\rtwo\xff\n");
    assert_int_equal(firn("logs 7"), 0);
    assert_string_equal(ran.out, "one\n\\x1b]0;owned\\x07\ntwo\\xff\n");
    assert_int_equal(firn("logs --raw 7"), 0);
    assert_string_equal(ran.out, "one\n\x1b]0;owned\x07\rtwo\xff\n");
    assert_int_equal(firn("logs -o json 7"), 0);
    assert_null(strchr(ran.out, '\x1b'));
}

static void the_last_lines_of_a_log(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/jobs/7/logs?tail=2&limit=1048576", 200, "c\nd");
    assert_int_equal(firn("logs -n 2 7"), 0);
    assert_string_equal(ran.out, "c\nd");
}

static void a_followed_log_goes_on_where_it_was(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/jobs/7/logs?offset=0&limit=1048576", 200,
              "abc\n");
    fake_tell(&fake, "GET /v1/jobs/7/logs?follow=1&offset=4", 200, "def\n");
    assert_int_equal(firn("logs -f 7"), 0);
    assert_string_equal(ran.out, "abc\ndef\n");
    fake_tell_open(&fake, "GET /v1/jobs/7/logs?follow=1&offset=4", "ghi\n");
    assert_int_equal(firn_in("logs -f 7", NULL, "ghi"), 130);
    assert_string_equal(ran.out, "abc\nghi\n");
}

static void events_come_in_pages_and_then_as_they_happen(void **state)
{
    (void)state;
    fake_tell(&fake, "GET /v1/events?after=0", 200,
              "{\"events\": [{\"id\": 1, \"at_s\": 1000, \"job\": 7, \"kind\":"
              " \"submitted\", \"text\": \"by root\"}], \"last\": 1}");
    fake_tell(&fake, "GET /v1/events?after=1", 200,
              "{\"events\": [], \"last\": 1}");
    fake_tell_open(&fake, "GET /v1/events?follow=1&after=1",
                   ":\n\nid: 2\nevent: started\ndata: {\"id\": 2, \"at_s\": "
                   "1001, \"job\": 7, \"kind\": \"started\", \"text\": \"on "
                   "\\u001b[2Jn0\"}\n\n");
    assert_int_equal(firn("events"), 0);
    assert_string_equal(ran.out, "1970-01-01 00:16:40       7  submitted   by "
                                 "root\n");
    assert_int_equal(firn_in("events -f", NULL, "started"), 130);
    assert_out("started     on \\x1b[2Jn0\n");
    assert_int_equal(firn_in("events -f -o json", NULL, "started"), 130);
    assert_out("\"kind\":\"started\",\"text\":\"on \\u001B[2Jn0\"}\n");
}

static void the_history_becomes_a_trace(void **state)
{
    (void)state;
    static const char csv[] =
        "#firn-trace 1\nname,submit_s,gpus,duration_s\n1-x,0,2,60\n";
    char path[280], line[300], got[128] = "";
    fake_tell(&fake, "GET /v1/trace", 200, csv);
    assert_int_equal(firn("trace export"), 0);
    assert_string_equal(ran.out, csv);
    snprintf(path, sizeof path, "%s/t.csv", folder_path());
    snprintf(line, sizeof line, "trace export -o %s", path);
    assert_int_equal(firn(line), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got - 1, file), sizeof csv - 1);
    fclose(file);
    assert_string_equal(got, csv);
    /* A failure leaves what was there. */
    fake_tell(&fake, "GET /v1/trace", 500,
              "{\"error\": {\"code\": \"x\", \"text\": \"no disk\"}}");
    assert_int_equal(firn(line), 1);
    assert_err("firn trace export: no disk");
    assert_int_equal(access(path, R_OK), 0);
}

/* --- hostile -------------------------------------------------------------- */

#define EVIL "x\\u001b]0;owned\\u0007\\u202e\\u009b31m\\n\\r"

static void nothing_hostile_reaches_the_terminal(void **state)
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
        fake_tell(&fake, whats[i], 200, job);
    fake_tell(&fake, LIST, 200, jobs);
    fake_tell(&fake, "GET /v1/nodes", 200, jobs);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(firn(lines[i]), 0);
        assert_out("owned");
        assert_null(strpbrk(ran.out, "\x1b\x07\r\x9b"));
        assert_null(strstr(ran.out, "\xe2\x80\xae"));
    }
    fake_tell(&fake, "GET /v1/jobs/7", 400,
              "{\"error\": {\"text\": \"" EVIL "\"}}");
    assert_int_equal(firn("show 7"), 1);
    assert_err("owned");
    assert_null(strpbrk(ran.err, "\x1b\x07\r\x9b"));
}

static void answers_of_another_shape_do_no_harm(void **state)
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
        fake_tell(&fake, LIST, 200, bodies[i]);
        fake_tell(&fake, "GET /v1/nodes", 200, bodies[i]);
        fake_tell(&fake, "GET /v1/jobs/7", 200, bodies[i]);
        assert_true(firn("ls") <= 1);
        assert_true(firn(i % 2 ? "nodes" : "show 7") <= 1);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_socket_says_how_to_start_one),
        CASE(a_socket_without_listener_is_told_apart),
        CASE(silence_ends_with_the_timeout),
        CASE(what_is_no_firnd_is_named),
        CASE(wrong_use_ends_with_2),
        CASE(a_token_goes_with_the_request_and_401_says_how),
        CASE(a_file_is_sent_as_it_is_and_its_number_printed),
        CASE(a_lost_answer_is_asked_for_again_with_the_same_id),
        CASE(other_requests_are_sent_once),
        CASE(a_wrong_line_is_named_with_its_file),
        CASE(of_several_files_the_good_ones_are_sent),
        CASE(waiting_ends_with_the_jobs_own_status),
        CASE(an_interrupt_leaves_the_job_and_ends_with_130),
        CASE(a_held_job_is_held),
        CASE(jobs_are_listed_page_by_page_what_runs_first),
        CASE(filters_reach_the_daemon),
        CASE(a_name_cannot_leave_its_part_of_the_path),
        CASE(show_has_starts_report_and_file),
        CASE(why_says_the_sentence_first),
        CASE(verbs_go_to_each_and_tell_of_failures),
        CASE(top_without_a_terminal_prints_one_page),
        CASE(logs_are_made_harmless_unless_raw),
        CASE(the_last_lines_of_a_log),
        CASE(a_followed_log_goes_on_where_it_was),
        CASE(events_come_in_pages_and_then_as_they_happen),
        CASE(the_history_becomes_a_trace),
        CASE(nothing_hostile_reaches_the_terminal),
        CASE(answers_of_another_shape_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
