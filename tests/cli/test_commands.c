/* test_commands.c - commands that talk to firnd, against a fake firnd: the
 * requests they send, their output and exit status.
 */
#include "base/buf.h"
#include "core/jobfields.h"
#include "firncmd.h"
#include "folder.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* --- no daemon ------------------------------------------------------------ */

static void without_a_socket_the_error_says_how_to_start_firnd(void **state)
{
    (void)state;
    assert_int_equal(cmd_firn("ls --socket /nowhere/firn.sock"), 1);
    cmd_err_has("firn ls: firnd is not running: there is no socket "
                "/nowhere/firn.sock; start 'firnd'");
    assert_string_equal(cmd_ran.out, "");
}

static void a_socket_without_firnd_gives_its_own_error(void **state)
{
    (void)state;
    char line[300], path[280];
    snprintf(path, sizeof path, "%s/dead", folder_path());
    struct fake other;
    fake_start(&other, path);
    other.at.path[0] = '\0'; /* keeps the socket's file */
    fake_stop(&other);
    snprintf(line, sizeof line, "ls --socket %s", path);
    assert_int_equal(cmd_firn(line), 1);
    cmd_err_has("nothing listens on");
}

static void a_request_without_answer_ends_after_the_timeout(void **state)
{
    (void)state;
    fake_silence(&cmd_fake);
    assert_int_equal(cmd_firn("ls --timeout 0.1"), 1);
    cmd_err_has("did not answer within 0.1 s");
}

static void a_server_that_is_not_firnd_is_reported(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/nodes", 200, "<html>hello</html>");
    assert_int_equal(cmd_firn("nodes"), 1);
    cmd_err_has("did not answer with JSON: is it firnd?");
    fake_tell(&cmd_fake, "GET /v1/nodes", 502, "<html>hello</html>");
    assert_int_equal(cmd_firn("nodes"), 1);
    cmd_err_has("answered with HTTP status 502 without a message of firnd");
}

static void wrong_use_ends_with_2(void **state)
{
    (void)state;
    assert_int_equal(cmd_firn("show"), 2);
    assert_int_equal(cmd_firn("cancel"), 2);
    assert_int_equal(cmd_firn("ls extra"), 2);
    assert_int_equal(cmd_firn("submit"), 2);
    assert_int_equal(cmd_firn("submit -f a --gpus 2"), 2);
    assert_int_equal(cmd_firn("submit --share --alone -- x"), 2);
    assert_int_equal(cmd_firn("plan"), 2);
    assert_int_equal(cmd_firn("ls --url http://x --socket y"), 2);
    assert_int_equal(cmd_firn("ls -o yaml"), 2);
    assert_int_equal(cmd_firn("why 1 2"), 2);
    assert_int_equal(fake_count(&cmd_fake), 0);
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
             "nodes --url http://127.0.0.1:%d/ --token-file %s", tcp.at.port,
             path);
    assert_int_equal(cmd_firn(line), 0);
    assert_true(fake_request(&tcp, 0, &one));
    assert_non_null(strstr(one.head, "Authorization: Bearer sesame\r\n"));
    fake_tell(&tcp, "GET /v1/nodes", 401,
              "{\"error\": {\"code\": \"x\", \"text\": \"who are you?\"}}");
    snprintf(line, sizeof line, "nodes --url http://127.0.0.1:%d", tcp.at.port);
    assert_int_equal(cmd_firn(line), 1);
    cmd_err_has("firn nodes: who are you?; give the token by --token-file");
    assert_true(fake_request(&tcp, 1, &one));
    assert_null(strstr(one.head, "Authorization"));
    fake_stop(&tcp);
    assert_int_equal(cmd_firn("nodes --url ftp://x"), 1);
    cmd_err_has("is not an http:// or https:// address");
}

/* --- submit --------------------------------------------------------------- */

/* A file is sent with the current directory. */
static const char *with_here(void)
{
    static char what[3 * 300];
    char here[280];
    assert_non_null(getcwd(here, sizeof here));
    size_t n = (size_t)snprintf(what, sizeof what, "POST /v1/jobs?workdir=");
    for (const char *at = here; *at != '\0'; at++) {
        bool is_plain = isalnum((unsigned char)*at) || strchr("-._~", *at);
        n += (size_t)snprintf(what + n, sizeof what - n,
                              is_plain ? "%c" : "%%%02X", *at);
    }
    return what;
}

static void
submit_sends_the_file_unchanged_and_prints_the_job_number(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, with_here(), 201, cmd_job);
    assert_int_equal(cmd_run("submit -f -", "run: x # \xc3\xa4\n", NULL), 0);
    assert_string_equal(cmd_ran.out, "7\n");
    assert_string_equal(cmd_ran.err, "");
    const struct fake_request *one = cmd_asked(0, with_here());
    assert_string_equal(one->body, "run: x # \xc3\xa4\n");
    assert_non_null(strstr(one->head, "Content-Type: application/yaml\r\n"));
    assert_non_null(strstr(one->head, "Idempotency-Key: "));
}

static void a_submit_without_answer_is_repeated_with_the_same_id(void **state)
{
    (void)state;
    struct fake_request first, second;
    fake_tell(&cmd_fake, "POST /v1/jobs", 200, cmd_job);
    fake_drop(&cmd_fake, 2);
    assert_int_equal(cmd_firn("submit -- true"), 0);
    assert_string_equal(cmd_ran.out, "7\n");
    assert_int_equal(fake_count(&cmd_fake), 3);
    first = *cmd_asked(0, "POST /v1/jobs");
    second = *cmd_asked(2, "POST /v1/jobs");
    assert_string_equal(first.head, second.head);
    assert_string_equal(first.body, second.body);
    /* The next submit has another id. */
    assert_int_equal(cmd_firn("submit -- true"), 0);
    second = *cmd_asked(3, "POST /v1/jobs");
    assert_string_not_equal(first.head, second.head);
}

static void a_cancel_without_answer_is_not_repeated(void **state)
{
    (void)state;
    fake_drop(&cmd_fake, 5);
    assert_int_equal(cmd_firn("cancel 7"), 1);
    cmd_err_has("closed the connection before it answered");
    assert_int_equal(fake_count(&cmd_fake), 1);
}

static void an_error_in_a_job_file_names_file_and_line(void **state)
{
    (void)state;
    char path[280], line[300];
    snprintf(path, sizeof path, "%s/j.yaml", folder_path());
    snprintf(line, sizeof line, "submit -f %s", path);
    assert_int_equal(cmd_firn(line), 1);
    cmd_err_has("j.yaml: No such file");
    FILE *file = fopen(path, "w");
    fputs("gpus: many\n", file);
    fclose(file);
    fake_tell(&cmd_fake, with_here(), 400,
              "{\"error\": {\"code\": \"invalid\", \"text\": \"job file: line "
              "1: 'gpus' is 'many'\"}}");
    assert_int_equal(cmd_firn(line), 1);
    cmd_err_has("j.yaml: line 1: 'gpus' is 'many'\n");
    assert_string_equal(cmd_ran.out, "");
}

static void a_bad_file_does_not_stop_the_other_files(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, with_here(), 201, cmd_job);
    assert_int_equal(cmd_run("submit -f /nowhere/a -f -", "run: x\n", NULL), 1);
    assert_string_equal(cmd_ran.out, "7\n");
    cmd_err_has("/nowhere/a");
}

static void submit_wait_exits_with_the_status_of_the_job(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "POST /v1/jobs", 201, cmd_job);
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"name\": \"resnet\", \"state\": \"failed\", "
              "\"reason\": \"exit\", \"why\": \"status 3\", \"exit_status\": "
              "3}");
    assert_int_equal(cmd_firn("submit --wait -- false"), 3);
    cmd_err_has("job 7 (resnet): failed: status 3");
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"state\": \"succeeded\", \"exit_status\": 0}");
    assert_int_equal(cmd_firn("submit --wait -- true"), 0);
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200,
              "{\"id\": 7, \"state\": \"cancelled\", \"exit_status\": 0}");
    assert_int_equal(cmd_firn("submit --wait -- true"), 1);
}

static void an_interrupt_leaves_the_job_and_ends_with_130(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "POST /v1/jobs", 201, cmd_job);
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200, cmd_job);
    assert_int_equal(cmd_run("submit --wait -- x", NULL, "pending"), 130);
    assert_string_equal(cmd_ran.out, "7\n");
    cmd_err_has("job 7 goes on; 'firn cancel 7' ends it");
}

static void a_dry_run_needs_no_firnd(void **state)
{
    (void)state;
    char home[400] = "";
    if (getenv("HOME") != NULL)
        snprintf(home, sizeof home, "%s", getenv("HOME"));
    unsetenv("HOME");
    unsetenv("FIRN_SOCKET");
    assert_int_equal(cmd_firn("submit --dry-run --gpus 2 -- true"), 0);
    cmd_out_has("gpus: 2\n");
    assert_int_equal(cmd_firn("submit --gpus 2 -- true"), 1);
    cmd_err_has("give firnd's socket by --socket or FIRN_SOCKET");
    if (*home != '\0')
        setenv("HOME", home, 1);
    assert_int_equal(fake_count(&cmd_fake), 0);
}

static void submit_hold_asks_for_a_held_job(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "POST /v1/jobs?hold=1", 201, cmd_job);
    assert_int_equal(cmd_firn("submit --hold -- x"), 0);
    cmd_asked(0, "POST /v1/jobs?hold=1");
    assert_string_equal(cmd_ran.out, "7\n");
}

static void plan_takes_the_options_of_submit(void **state)
{
    (void)state;
    struct fake_request sent;
    fake_tell(&cmd_fake, "POST /v1/jobs", 201, cmd_job);
    fake_tell(&cmd_fake, "POST /v1/plan", 200,
              "{\"text\": \"on n0[0-1]\", \"starts\": true}");
    static const char options[] =
        "-g 2 --gpu a100 --share --retry 3 --duration 2h -- python t.py";
    char line[200];
    snprintf(line, sizeof line, "submit %s", options);
    assert_int_equal(cmd_firn(line), 0);
    sent = *cmd_asked(0, "POST /v1/jobs");
    snprintf(line, sizeof line, "plan %s", options);
    assert_int_equal(cmd_firn(line), 0);
    cmd_out_has("on n0[0-1]");
    assert_string_equal(cmd_asked(1, "POST /v1/plan")->body, sent.body);
    assert_int_equal(cmd_run("plan -f -", "run: x\n", NULL), 0);
    assert_string_equal(cmd_asked(2, "POST /v1/plan")->body, "run: x\n");
    assert_int_equal(cmd_firn("plan -f - -g 2"), 2);
    assert_int_equal(cmd_firn("plan --share --alone -- x"), 2);
    assert_int_equal(fake_count(&cmd_fake), 3);
}

static void completion_prints_a_script_for_each_shell(void **state)
{
    (void)state;
    static const char *const shells[][2] = {
        {"bash", "complete -F _firn firn\n"},
        {"zsh", "compdef _firn firn\n"},
        {"fish", "complete -c firn -a '(__firn_words)'\n"}};
    for (size_t i = 0; i < 3; i++) {
        char line[40];
        snprintf(line, sizeof line, "completion %s", shells[i][0]);
        assert_int_equal(cmd_firn(line), 0);
        cmd_out_has(shells[i][1]);
        cmd_out_has("show logs attach cancel hold release wait priority");
        cmd_out_has("command firn help");
    }
    assert_int_equal(cmd_firn("completion"), 2);
    assert_int_equal(cmd_firn("completion csh"), 2);
    cmd_err_has("use bash, zsh or fish");
}

/* --- looking -------------------------------------------------------------- */

#define ALIVE                                                                  \
    "all=0&state=running%2Cstarting%2Cresizing%2Cpreempting%2Ccompleting%2Cpe" \
    "nding"
#define PAGE "GET /v1/jobs?limit=100000&after="

static void ls_reads_all_pages_and_lists_running_jobs_first(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, PAGE "0&" ALIVE "&pending=1000", 200,
              "{\"jobs\": [{\"id\": 1, \"name\": \"waits\", \"state\": "
              "\"pending\", \"reason\": \"capacity\", \"gpus_min\": 2, "
              "\"gpus_max\": 2, \"gpus\": \"-\"}], \"next\": 1, "
              "\"pending_left\": 999, \"pending_more\": 0}");
    fake_tell(&cmd_fake, PAGE "1&" ALIVE "&pending=999", 200,
              "{\"jobs\": [{\"id\": 2, \"name\": \"runs\", \"user\": "
              "\"root\", \"state\": \"running\", \"gpus_min\": 1, "
              "\"gpus_max\": 8, \"gpus\": \"n0[0-3]\", \"progress\": 0.5}, "
              "{\"id\": 3, \"name\": \"second\", \"state\": \"pending\"}], "
              "\"pending_left\": 998, \"pending_more\": 0}");
    assert_int_equal(cmd_firn("ls"), 0);
    cmd_out_has("1..8  n0[0-3]");
    cmd_out_has("50%");
    assert_true(strstr(cmd_ran.out, "runs") < strstr(cmd_ran.out, "waits"));
    assert_true(strstr(cmd_ran.out, "waits") < strstr(cmd_ran.out, "second"));
    assert_null(strstr(cmd_ran.out, "more"));
}

static void ls_cuts_a_long_queue_and_says_so(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, PAGE "0&" ALIVE "&pending=1", 200,
              "{\"jobs\": [{\"id\": 1, \"name\": \"a\", \"state\": "
              "\"pending\"}], \"pending_left\": 0, \"pending_more\": 7}");
    assert_int_equal(cmd_firn("ls -n 1"), 0);
    cmd_out_has("and more; --limit 0 lists all\n");
    assert_int_equal(cmd_firn("ls -n 1 -o json"), 0);
    cmd_out_has("\"more\": true");
    fake_tell(&cmd_fake, PAGE "0&" ALIVE, 200, "{\"jobs\": []}");
    assert_int_equal(cmd_firn("ls -n 0"), 0);
    assert_string_equal(cmd_ran.out, "no jobs\n");
    assert_int_equal(cmd_firn("ls -o json"), 0);
    cmd_out_has("\"more\": false");
}

/* With two requests, a job that starts between them would be in neither answer:
 * `ls` once printed "no jobs" while two jobs ran. */
static void ls_asks_for_running_and_waiting_jobs_in_one_request(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, PAGE "0&" ALIVE "&pending=1000", 200,
              "{\"jobs\": [], \"pending_left\": 1000, \"pending_more\": 0}");
    assert_int_equal(cmd_firn("ls"), 0);
    cmd_asked(0, PAGE "0&" ALIVE "&pending=1000");
    assert_int_equal(fake_count(&cmd_fake), 1);
}

/* RAN is the time on GPUs over all attempts, not the time since the first
 * start; a job that waits again keeps it. */
static void ls_shows_the_time_on_gpus(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, PAGE "0&" ALIVE "&pending=1000", 200,
              "{\"jobs\": [{\"id\": 1, \"name\": \"a\", \"state\": "
              "\"pending\", \"started_s\": 1000, \"ran_s\": 300}, "
              "{\"id\": 2, \"name\": \"b\", \"state\": \"pending\"}], "
              "\"pending_left\": 998, \"pending_more\": 0}");
    assert_int_equal(cmd_firn("ls"), 0);
    cmd_out_has("5m");
}

static void filters_of_ls_are_sent_to_firnd(void **state)
{
    (void)state;
    static const char what[] = "GET /v1/jobs?limit=100000&after=0&all=1&state="
                               "failed&user=uid%201000%26x";
    fake_tell(&cmd_fake, what, 200, "{\"jobs\": []}");
    const char *argv[] = {cmd_program(), "ls",         "--state", "failed",
                          "--user",      "uid 1000&x", NULL};
    run_program(&cmd_ran, argv, NULL, NULL);
    assert_int_equal(cmd_ran.status, 0);
    cmd_asked(0, what);
}

static void a_job_name_is_percent_encoded_in_the_path(void **state)
{
    (void)state;
    assert_int_equal(cmd_firn("show ../../v1/nodes?x"), 1);
    cmd_asked(0, "GET /v1/jobs/..%2F..%2Fv1%2Fnodes%3Fx");
}

static void show_prints_attempts_report_and_job_file(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/res", 200,
              "{\"id\": 7, \"name\": \"resnet\", \"user\": \"root\", "
              "\"state\": \"running\", \"gpus_min\": 1, \"gpus_max\": 1, "
              "\"gpus\": \"n0[0]\", \"started_s\": 1000, \"ask\": {\"run\": "
              "[\"python\", \"x y\"], \"may_share\": true}, \"report\": "
              "{\"loss\": 0.25, \"variance\": [1, 2]}, \"attempts\": "
              "[{\"attempt\": 1, \"started_s\": 1000, \"ended_s\": 1090, "
              "\"gpus\": \"n0[0]\", \"end\": \"checkpoint\", "
              "\"exit_status\": 85}], \"file\": \"run: x\\n\", \"novel\": 5, "
              "\"not_merged\": [\"not merged with job 8\"]}");
    assert_int_equal(cmd_firn("show res"), 0);
    cmd_out_has("job 7 (resnet) of root: running");
    cmd_out_has("started: 1970-01-01 00:16:40");
    cmd_out_has("loss: 0.25");
    cmd_out_has("novel: 5");
    cmd_out_has("\nnot merged with job 8\n");
    cmd_out_has("ATTEMPT  STARTED");
    cmd_out_has("1m30s  n0[0]  checkpoint      85");
    cmd_out_has("Job file:\n\nrun: x\n");
    assert_null(strstr(cmd_ran.out, "variance"));
}

static void json_output_has_short_numbers_and_only_ascii(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200,
              "{\"a\": [0.1,-9223372036854775808, true,null,{}, []],"
              " \"\\u001b[1m\\\"\": \"\xc3\xa9\"}");
    assert_int_equal(cmd_firn("show 7 -o json"), 0);
    assert_string_equal(
        cmd_ran.out,
        "{\n  \"a\": [\n    0.1,\n    -9223372036854775808,\n    true,\n"
        "    null,\n    {},\n    []\n  ],\n"
        "  \"\\u001b[1m\\\"\": \"\\u00E9\"\n}\n");
}

static void json_output_has_null_below_sixty_four_levels(void **state)
{
    (void)state;
    char deep[2 * 70 + 6 + 1] = "{\"a\":";
    memset(deep + 5, '[', 70);
    memset(deep + 75, ']', 70);
    deep[145] = '}';
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200, deep);
    assert_int_equal(cmd_firn("show 7 -o json"), 0);
    cmd_out_has(
        "[\n" /* 64 levels of two blanks each */
        "                                                            "
        "                                                                "
        "    null\n");
}

/* An answer with a value for each row of core/jobfields.def. */
static void put_every_field(struct firn_buf *out)
{
    buf_puts(out, "{\"id\": 7, \"state\": \"running\", \"ask\": {\"x\": 1");
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        buf_printf(out, ", \"%s\": ", job_field_json(&job_fields[i]));
        switch (job_field_storage(&job_fields[i])) {
        case JOB_AS_TEXT:
            buf_printf(out, "\"text %zu\"", i);
            break;
        case JOB_AS_LIST:
            buf_printf(out, "[\"item\", \"%zu\"]", i);
            break;
        case JOB_AS_BOOL:
            buf_puts(out, "true");
            break;
        default:
            buf_printf(out, "%zu", 100 + i);
        }
    }
    buf_puts(out, "}}");
}

static void show_prints_every_field_by_its_key_in_a_job_file(void **state)
{
    (void)state;
    struct firn_buf answer = {0};
    put_every_field(&answer);
    fake_tell(&cmd_fake, "GET /v1/jobs/7", 200, answer.at);
    assert_int_equal(cmd_firn("show 7"), 0);
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const struct job_field *f = &job_fields[i];
        char want[100];
        snprintf(want, sizeof want, "\n%s: ",
                 f->key == NULL || f->kind == JOB_EVENTS ? f->name : f->key);
        if (job_field_storage(f) == JOB_AS_TEXT)
            snprintf(want + strlen(want), 32, "text %zu\n", i);
        cmd_out_has(want);
    }
    cmd_out_has("\nx: 1\n");
    buf_release(&answer);
}

static void why_prints_the_sentence_before_the_numbers(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/jobs/7/why", 200,
              "{\"reason\": \"capacity\", \"text\": \"waits for 4 GPUs\", "
              "\"need\": {\"gpus\": 4, \"mem_gib\": 40}, \"have\": {\"gpus\": "
              "3}, \"next\": \"ask for 3\", "
              "\"not_merged\": [\"not merged with job 8\", 5, \"nor 9\"]}");
    assert_int_equal(cmd_firn("why 7"), 0);
    assert_int_equal(strncmp(cmd_ran.out, "waits for 4 GPUs\n", 17), 0);
    cmd_out_has("needs: 4 GPUs, 40 GiB each\nfree: 3 suitable GPUs\n");
    cmd_out_has("next: ask for 3\nnot merged with job 8\nnor 9\n");
}

static void cancel_tries_every_job_and_reports_failures(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "POST /v1/jobs/a/cancel", 200, cmd_job);
    fake_tell(&cmd_fake, "POST /v1/jobs/b/cancel", 404,
              "{\"error\": {\"code\": \"not-found\", \"text\": \"there is no "
              "job 'b'\"}}");
    fake_tell(&cmd_fake, "POST /v1/nodes/n0/drain", 200,
              "{\"name\": \"n0\", \"drained\": true}");
    assert_int_equal(cmd_firn("cancel b a"), 1);
    assert_string_equal(cmd_ran.out, "job 7 (resnet) is cancelled\n");
    cmd_err_has("firn cancel: there is no job 'b'\n");
    fake_tell(&cmd_fake, "POST /v1/jobs/c/cancel", 200,
              "{\"id\": 8, \"name\": \"c\", \"state\": \"running\", "
              "\"ending\": true}");
    assert_int_equal(cmd_firn("cancel c"), 0);
    assert_string_equal(cmd_ran.out, "job 8 (c) is being cancelled\n");
    fake_tell(&cmd_fake, "POST /v1/jobs/c/hold", 200,
              "{\"id\": 8, \"name\": \"c\", \"state\": \"running\", "
              "\"held\": true}");
    assert_int_equal(cmd_firn("hold c"), 0);
    assert_string_equal(cmd_ran.out,
                        "job 8 (c) will be held when it has left its GPUs\n");
    fake_tell(&cmd_fake, "POST /v1/jobs/d/hold", 200,
              "{\"id\": 9, \"name\": \"d\", \"state\": \"pending\", "
              "\"held\": true}");
    assert_int_equal(cmd_firn("hold d"), 0);
    assert_string_equal(cmd_ran.out, "job 9 (d) is held\n");
    assert_int_equal(cmd_firn("drain n0"), 0);
    assert_string_equal(cmd_ran.out, "node n0 is drained\n");
}

static void why_names_what_happens_next(void **state)
{
    (void)state;
    static const char *const answers[][2] = {
        {"\"pending\", \"reason\": \"capacity\"", "GPUs free in: about 1m30s"},
        {"\"pending\", \"reason\": \"retry\"", "retried in: about 1m30s"},
        {"\"running\", \"reason\": \"none\"", "ends in: about 1m30s"}};
    for (size_t i = 0; i < 3; i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"state\": %s, \"next_s\": 90}",
                 answers[i][0]);
        fake_tell(&cmd_fake, "GET /v1/jobs/7/why", 200, body);
        assert_int_equal(cmd_firn("why 7"), 0);
        cmd_out_has(answers[i][1]);
    }
}

static void nodes_prints_why_a_node_is_out_and_why_nothing_starts(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"name\": \"gpu-a\", \"type\": \"v100\", "
              "\"gpus\": 4, \"up\": false, \"why\": \"a fan\\u001b[2J\"}, "
              "{\"name\": \"gpu-b\", \"gpus\": 4, \"free\": 1, "
              "\"outside\": 3, \"up\": true}], \"trouble\": \"slurmctld "
              "does not answer\"}");
    assert_int_equal(cmd_firn("nodes"), 0);
    cmd_out_has("WHY");
    cmd_out_has("a fan\\x1b[2J");
    cmd_out_has("no job is started: slurmctld does not answer\n");
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"name\": \"n0\", \"up\": true}]}");
    assert_int_equal(cmd_firn("nodes"), 0);
    assert_null(strstr(cmd_ran.out, "WHY"));
    assert_null(strstr(cmd_ran.out, "no job is started"));
}

static void top_without_a_terminal_prints_one_page(void **state)
{
    (void)state;
    fake_tell(&cmd_fake, PAGE "0&" ALIVE "&pending=1000", 200,
              "{\"jobs\": [{\"id\": 3, \"name\": \"x\", \"state\": "
              "\"running\"}]}");
    fake_tell(&cmd_fake, "GET /v1/nodes", 200,
              "{\"nodes\": [{\"name\": \"n0\", \"type\": \"v100\", \"mem_gib\":"
              " 16, \"gpus\": 4, \"free\": 1, \"outside\": 0, \"up\": true, "
              "\"drained\": false}]}");
    assert_int_equal(cmd_firn("top"), 0);
    cmd_out_has("3 of 4 in use");
    cmd_out_has("1 running, 0 pending");
    assert_null(strchr(cmd_ran.out, '\x1b'));
    assert_int_equal(cmd_firn("top -o json"), 0);
    cmd_out_has("\"free\": 1");
}

#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, cmd_setup, cmd_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_a_socket_the_error_says_how_to_start_firnd),
        CASE(a_socket_without_firnd_gives_its_own_error),
        CASE(a_request_without_answer_ends_after_the_timeout),
        CASE(a_server_that_is_not_firnd_is_reported),
        CASE(wrong_use_ends_with_2),
        CASE(a_token_goes_with_the_request_and_401_says_how),
        CASE(submit_sends_the_file_unchanged_and_prints_the_job_number),
        CASE(a_submit_without_answer_is_repeated_with_the_same_id),
        CASE(a_cancel_without_answer_is_not_repeated),
        CASE(an_error_in_a_job_file_names_file_and_line),
        CASE(a_bad_file_does_not_stop_the_other_files),
        CASE(submit_wait_exits_with_the_status_of_the_job),
        CASE(an_interrupt_leaves_the_job_and_ends_with_130),
        CASE(a_dry_run_needs_no_firnd),
        CASE(submit_hold_asks_for_a_held_job),
        CASE(plan_takes_the_options_of_submit),
        CASE(completion_prints_a_script_for_each_shell),
        CASE(ls_reads_all_pages_and_lists_running_jobs_first),
        CASE(ls_cuts_a_long_queue_and_says_so),
        CASE(ls_asks_for_running_and_waiting_jobs_in_one_request),
        CASE(ls_shows_the_time_on_gpus),
        CASE(filters_of_ls_are_sent_to_firnd),
        CASE(a_job_name_is_percent_encoded_in_the_path),
        CASE(show_prints_attempts_report_and_job_file),
        CASE(json_output_has_short_numbers_and_only_ascii),
        CASE(json_output_has_null_below_sixty_four_levels),
        CASE(show_prints_every_field_by_its_key_in_a_job_file),
        CASE(why_prints_the_sentence_before_the_numbers),
        CASE(cancel_tries_every_job_and_reports_failures),
        CASE(why_names_what_happens_next),
        CASE(nodes_prints_why_a_node_is_out_and_why_nothing_starts),
        CASE(top_without_a_terminal_prints_one_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
