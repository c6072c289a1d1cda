/* test_slurm_refused.c - the Slurm engine when Slurm will not, or not yet: what
 * a job is told that has to wait, and what one that is limited has left. */
#include "engine/shepherd.h"
#include "engine/slurmwork.h"
#include "lib/fakeslurm.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static struct livehost host;

/* A limit of the site, an account that is not known: no fault of the job's,
 * and nothing that more tries would tell. */
static void a_job_that_slurm_refuses_waits_and_never_fails(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    for (int i = 0; i < 2; i++) {
        fakeslurm_say("sbatch", "refuse");
        livehost_step(&host, 0, "n0[0]");
        if (i > 0) /* it was so for a long time */
            slurm_find(host.state, 0)->base.ntries = 100;
        livehost_await(&host, FIRN_EVENT_LEFT, 0);
        assert_non_null(strstr(host.engine->job_trouble(host.state, 0),
                               "Slurm refuses it: sbatch: error"));
    }
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_null(host.engine->job_trouble(host.state, 0));
}

/* Lets the engine work until it says so of job 0, two minutes at most. */
static void until_trouble(const char *text)
{
    for (int i = 0; i < 24000; i++) {
        const char *text_now = host.engine->job_trouble(host.state, 0);
        if (text_now != NULL && strcmp(text_now, text) == 0)
            return;
        livehost_drain(&host);
        poll(NULL, 0, 5);
    }
    const char *text_now = host.engine->job_trouble(host.state, 0);
    fail_msg("it says %s", text_now != NULL ? text_now : "nothing");
}

/* Slurm keeps attempt 1 of job 0 pending for this reason. */
static void keep_pending(const char *gpus, const char *reason)
{
    char line[300];
    livehost_work(&host, 0, "exit", "0");
    fakeslurm_hold(true);
    livehost_step(&host, 0, gpus);
    for (int i = 0; i < 24000 && strcmp(fakeslurm_state(1), "PENDING") != 0;
         i++) {
        livehost_drain(&host);
        poll(NULL, 0, 5);
    }
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(line, sizeof line, "1|PENDING|%s||me|%.*s|%.*s\n", reason, n, mark,
             n, mark);
    fakeslurm_line(1, line);
}

static void a_pending_attempt_shows_slurms_reason(void **state)
{
    (void)state;
    keep_pending("n0[0]", "Priority");
    until_trouble("pending as Slurm job 1: Priority");
}

static void slurms_estimate_is_a_part_of_the_reason(void **state)
{
    (void)state;
    char text[100];
    keep_pending("n0[0]", "Priority");
    until_trouble("pending as Slurm job 1: Priority");
    int n = snprintf(text, sizeof text, "7|N/A\n1|%.0f\n",
                     host.engine->now_s(host.state) + 590);
    struct command_done done = {.has_run = true, .out = {text, (size_t)n}};
    slurm_estimate_take(host.state, &done);
    assert_string_equal(host.engine->job_trouble(host.state, 0),
                        "pending as Slurm job 1: Priority; Slurm expects to "
                        "start it in 10 min");
    double wait_s = host.engine->starts_in_s(host.state, 0);
    assert_true(wait_s > 500 && wait_s < 591);
    done.out = (struct firn_bytes){"1|N/A\n", 6};
    slurm_estimate_take(host.state, &done);
    assert_string_equal(host.engine->job_trouble(host.state, 0),
                        "pending as Slurm job 1: Priority");
}

static void a_limit_of_gpus_gives_all_back_and_allows_half(void **state)
{
    (void)state;
    struct firn_bars bars;
    keep_pending("n0[0-1]", "QOSMaxGRESPerUser");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(host.engine->phase(host.state, 0), FIRN_PHASE_GONE);
    assert_true(host.engine->bars(host.state, 0, &bars));
    assert_int_equal(bars.gpus_max, 1);
    assert_non_null(strstr(bars.why, "QOSMaxGRESPerUser"));
}

/* Of a job in two components the first may wait for "Resources" only because
 * of the limit that keeps the second. */
static void the_reason_of_every_component_counts(void **state)
{
    (void)state;
    char lines[600];
    struct firn_bars bars;
    keep_pending("n0[0-1]", "Priority");
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(lines, sizeof lines,
             "1+0|PENDING|Resources||me|%.*s|%.*s\n"
             "1+1|PENDING|QOSMaxGRESPerUser||me|%.*s|%.*s\n",
             n, mark, n, mark, n, mark, n, mark);
    fakeslurm_line(1, lines);
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_true(host.engine->bars(host.state, 0, &bars));
    assert_int_equal(bars.gpus_max, 1);
}

static void a_node_that_slurm_withholds_is_barred(void **state)
{
    (void)state;
    struct firn_bars bars;
    keep_pending("n0[0]", "ReqNodeNotAvail, UnavailableNodes:n0");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_true(host.engine->bars(host.state, 0, &bars));
    assert_int_equal(bars.nodes[0], 1);
}

/* Slurm calls GPUs that it keeps for a job of higher priority by the name of
 * reserved nodes. */
static void a_job_behind_others_keeps_its_place(void **state)
{
    (void)state;
    static const char reason[] =
        "ReqNodeNotAvail, May be reserved for other job";
    char text[120];
    struct firn_bars bars;
    fakeslurm_node("n1", "DOWN", "", "no power");
    keep_pending("n0[0-1]", reason);
    snprintf(text, sizeof text, "pending as Slurm job 1: %s", reason);
    until_trouble(text);
    livehost_pass_ms(&host, 500); /* many polls */
    assert_string_equal(fakeslurm_state(1), "PENDING");
    assert_false(livehost_has_seen(&host, "LEFT"));
    fakeslurm_node("n1", "IDLE", "", ""); /* there is room elsewhere */
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_true(host.engine->bars(host.state, 0, &bars));
    assert_int_equal(bars.nodes[0], 1);
}

static void reasons_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *reason;
        enum slurm_pending pending;
    } cases[] = {
        {"None", SLURM_WAITS_OTHER},
        {"JobHeldAdmin", SLURM_WAITS_OTHER},
        {"Priority", SLURM_WAITS_PRIORITY},
        {"Resources", SLURM_WAITS_RESOURCES},
        {"ReqNodeNotAvail, UnavailableNodes:n2", SLURM_WAITS_NODES},
        {"ReqNodeNotAvail, May be reserved for other job", SLURM_WAITS_BEHIND},
        {"Nodes required for job are DOWN, DRAINED or", SLURM_WAITS_NODES},
        {"AssocGrpGRES", SLURM_WAITS_LIMIT},
        {"QOSGrpCpuLimit", SLURM_WAITS_LIMIT},
        {"QOSNotAllowed", SLURM_WAITS_NEVER},
        {"PartitionTimeLimit", SLURM_WAITS_NEVER},
        {"AccountNotAllowed", SLURM_WAITS_NEVER},
        {"Job's account not permitted to use this partition",
         SLURM_WAITS_NEVER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(slurm_pending_of(cases[i].reason), cases[i].pending);
}

static void the_request_before_the_time_limit_leaves_time_to_work(void **state)
{
    (void)state;
    static const struct {
        double limit_s, grace_s;
        const char *words;
    } cases[] = {
        {86400, 2, "\n--time=1440\n--signal=B:USR1@62\n"},
        {60, 2, "\n--time=1\n--signal=B:USR1@30\n"},
        {1e8, 2e6, "\n--signal=B:USR1@65535\n"},
    };
    for (int i = 0; i < 3; i++) {
        ((struct slurm *)host.state)->limit_s = cases[i].limit_s;
        livehost_work(&host, i, "exit", "0")->grace_s = cases[i].grace_s;
        livehost_step(&host, i, "n0[0]");
        livehost_await(&host, FIRN_EVENT_DONE, i);
        assert_non_null(strstr(fakeslurm_words(), cases[i].words));
    }
}

/* squeue's line of attempt 1 of job 0 from now on. */
static void list_as(const char *fields)
{
    char line[300];
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(line, sizeof line, "1|%s|%.*s|%.*s\n", fields, n, mark, n, mark);
    fakeslurm_line(1, line);
}

static void slurms_times_of_an_attempt_are_reported_once(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    list_as("COMPLETED|None|n0|me 1794949170 1794949177");
    struct firn_event event = livehost_await(&host, FIRN_EVENT_TIMES, 0);
    assert_int_equal(event.attempt, 1);
    assert_true(event.began_s == 1794949170 && event.ended_s == 1794949177);
    assert_null(event.user);
    livehost_work(&host, 1, "exit", "0"); /* several answers later */
    livehost_step(&host, 1, "n0[1]");
    livehost_await(&host, FIRN_EVENT_DONE, 1);
    const char *first = strstr(host.seen, "TIMES 0.1");
    assert_true(first == NULL || strstr(first + 1, "TIMES 0.1") == NULL);
}

static void an_attempt_that_never_began_has_no_length(void **state)
{
    (void)state;
    keep_pending("n0[0]", "QOSMaxGRESPerUser");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    list_as("CANCELLED|QOSMaxGRESPerUser||me N/A 1794949177");
    struct firn_event event = livehost_await(&host, FIRN_EVENT_TIMES, 0);
    assert_true(event.began_s == 1794949177 && event.ended_s == 1794949177);
}

static int set_up(void **state)
{
    return livehost_set_up(&host, "slurm", "", state);
}

static int tear_down(void **state)
{
    return livehost_tear_down(&host, state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    int code = fakeslurm_main(argc, argv);
    if (code < 0)
        code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        CASE(a_job_that_slurm_refuses_waits_and_never_fails),
        CASE(a_pending_attempt_shows_slurms_reason),
        CASE(slurms_estimate_is_a_part_of_the_reason),
        CASE(a_limit_of_gpus_gives_all_back_and_allows_half),
        CASE(the_reason_of_every_component_counts),
        CASE(a_node_that_slurm_withholds_is_barred),
        CASE(a_job_behind_others_keeps_its_place),
        CASE(reasons_are_told_apart),
        CASE(the_request_before_the_time_limit_leaves_time_to_work),
        CASE(slurms_times_of_an_attempt_are_reported_once),
        CASE(an_attempt_that_never_began_has_no_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
