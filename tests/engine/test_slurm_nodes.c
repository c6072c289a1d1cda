/* test_slurm_nodes.c - the Slurm engine's nodes, which go, come and are used by
 * others; and its jobs after a restart. */
#define _GNU_SOURCE
#include "base/failpoint.h"
#include "engine/attemptfiles.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct livehost host;

/* --- nodes ---------------------------------------------------------------- */

static void nodes_go_down_and_come_up(void **state)
{
    (void)state;
    fakeslurm_node("n1", "UNKNOWN", "", ""); /* the controller was started */
    livehost_pass_ms(&host, 200);
    assert_false(livehost_has_seen(&host, "DOWN"));
    fakeslurm_node("n1", "IDLE+DRAIN", "", "fan [root@now]");
    struct firn_event down = livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
    assert_int_equal(down.node, 1);
    assert_true(down.is_drained);
    assert_non_null(strstr(host.engine->node_why(host.state, 1), "fan"));
    fakeslurm_node("n1", "DOWN*", "", "Not responding");
    down = livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
    assert_false(down.is_drained);
    fakeslurm_node("n1", "IDLE", "", "");
    struct firn_event up = livehost_await(&host, FIRN_EVENT_NODE_UP, 0);
    assert_int_equal(up.node, 1);
    assert_string_equal(host.engine->node_name(host.state, 1), "n1");
}

static void a_step_after_a_lost_node_has_no_grace(void **state)
{
    (void)state;
    struct livehost_job *j =
        livehost_work(&host, 0, "stubborn", folder_file("ready"));
    struct firn_alloc none = FIRN_ALLOC_NONE;
    j->grace_s = 600;
    livehost_step(&host, 0, "n0[0] n1[0]");
    workers_await(folder_file("ready"), 2);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    struct firn_step step = {
        .kind = FIRN_STEP_STOP, .job = &j->job, .to = &none, .is_loss = true};
    assert_int_equal(host.engine->apply(host.state, &step, &host.err), FIRN_OK);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_KILLED);
}

static void foreign_gpus_are_reported(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    fakeslurm_node("n0", "MIXED",
                   "gpu:v100s0:1(IDX:0),gpu:v100s1:0(IDX:N/A),"
                   "gpu:v100s2:1(IDX:2),gpu:v100s3:0(IDX:N/A)",
                   "");
    struct firn_event taken = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(taken.taken.node, 0);
    assert_int_equal(taken.taken.board, 0);
    assert_int_equal(taken.taken.gpus, 1u << 2);
    fakeslurm_node("n0", "MIXED",
                   "gpu:v100s0:1(IDX:0),gpu:v100s1:0(IDX:N/A),"
                   "gpu:v100s2:0(IDX:N/A),gpu:v100s3:0(IDX:N/A)",
                   "");
    taken = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(taken.taken.gpus, 0);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
}

#define OTHERS                                                \
    "gpu:v100s0:1(IDX:0),gpu:v100s1:0(IDX:N/A),gpu:v100s2:0(" \
    "IDX:N/A),gpu:v100s3:0(IDX:N/A)"

static void foreign_gpus_at_the_start_are_reported_first(void **state)
{
    (void)state;
    struct firn_event event;
    livehost_close(&host);
    fakeslurm_node("n0", "MIXED", OTHERS, "");
    livehost_open(&host, "slurm", "");
    assert_true(host.engine->next(host.state, 0, &event, &host.err));
    assert_int_equal(event.kind, FIRN_EVENT_TAKEN);
    assert_int_equal(event.taken.gpus, 1);
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]"); /* is not even tried */
    livehost_pass_ms(&host, 100);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_QUEUED);
    assert_int_equal(fakeslurm_submitted(), 0);
    fakeslurm_node("n0", "IDLE", "", "");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
}

/* Others were faster. */
static void a_pending_job_whose_gpus_are_foreign_is_withdrawn(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    fakeslurm_hold(true);
    livehost_step(&host, 0, "n0[0]");
    fakeslurm_node("n0", "MIXED", OTHERS, "");
    livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_QUEUED);
    fakeslurm_hold(false);
    livehost_step(&host, 0, "n0[1]"); /* the host decides again */
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 1);
}

/* Job 0 waits in Slurm on n0[0]; its line of the queue from now on. */
static void queue_says(const char *state_and_reason)
{
    char line[300];
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(line, sizeof line, "1|%s|n0|me|%.*s|%.*s\n", state_and_reason, n,
             mark, n, mark);
    fakeslurm_line(1, line);
}

static void let_wait(void)
{
    livehost_work(&host, 0, "obey", folder_file("ready"));
    fakeslurm_hold(true);
    livehost_step(&host, 0, "n0[0]");
    while (fakeslurm_state(1)[0] == '\0')
        livehost_pass_ms(&host, 5);
    queue_says("PENDING|Resources");
    while (host.engine->job_trouble(host.state, 0) == NULL)
        livehost_pass_ms(&host, 5);
}

static void check_left_alone(void)
{
    assert_false(livehost_has_seen(&host, "TAKEN"));
    assert_false(livehost_has_seen(&host, "LEFT"));
    assert_int_equal(fakeslurm_cancelled(), 0);
}

/* A queue of before its start, and nodes of after it. */
static void gpus_of_a_job_that_started_meanwhile_are_not_foreign(void **state)
{
    (void)state;
    let_wait();
    fakeslurm_say("squeue", "slow");
    while (!fakeslurm_was_away("squeue"))
        livehost_pass_ms(&host, 5);
    queue_says("RUNNING|None");
    fakeslurm_node("n0", "MIXED", OTHERS, "");
    livehost_pass_ms(&host, 300);
    fakeslurm_say("squeue", "");
    livehost_pass_ms(&host, 100);
    check_left_alone();
}

static void gpus_of_a_job_whose_node_boots_are_not_foreign(void **state)
{
    (void)state;
    let_wait();
    queue_says("CONFIGURING|None");
    while (host.engine->job_trouble(host.state, 0) != NULL)
        livehost_pass_ms(&host, 5);
    fakeslurm_node("n0", "MIXED", OTHERS, "");
    livehost_pass_ms(&host, 300);
    check_left_alone();
}

static void without_slots_no_job_shares_a_gpu(void **state)
{
    (void)state;
    livehost_close(&host);
    fakeslurm_plain();
    livehost_open(&host, "slurm", "");
    struct firn_cluster cluster = {0};
    assert_int_equal(host.engine->discover(host.state, &cluster, &host.err),
                     FIRN_OK);
    assert_int_equal(cluster.jobs_per_gpu, 1);
    assert_int_equal(cluster.nnodes, 2);
    firn_cluster_release(&cluster);
    assert_non_null(host.engine->no_sharing(host.state));
    struct firn_part part = {.node = 0, .gpus = 1};
    struct firn_alloc to = {.parts = &part,
                            .nparts = 1,
                            .ngpus = 1,
                            .is_shared = true,
                            .how = FIRN_HOW_AS_SUBMITTED};
    struct firn_step step = {.kind = FIRN_STEP_START,
                             .job = &livehost_work(&host, 0, "exit", "0")->job,
                             .to = &to};
    assert_int_equal(host.engine->apply(host.state, &step, &host.err),
                     FIRN_EINVAL);
    livehost_work(&host, 1, "obey", folder_file("ready"));
    livehost_step(&host, 1, "n0[2-3]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 1);
    assert_non_null(strstr(fakeslurm_words(), "\n--gres=gpu:v100:2\n"));
    /* Two are ours; the third is foreign. */
    fakeslurm_node("n0", "MIXED", "gpu:v100:3(IDX:0-2)", "");
    struct firn_event taken = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(taken.taken.gpus, 1u << 1);
}

/* --- after a restart ------------------------------------------------------ */

static void run_and_kill(const char *what, size_t after, const char *point)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct livehost other;
        char work[600];
        if (point != NULL)
            setenv("FIRN_FAILPOINT", point, 1);
        failpoint_reset();
        livehost_open(&other, "slurm", "");
        snprintf(work, sizeof work, "%s %s", what, folder_file("ready"));
        livehost_job(&other, 0, work);
        livehost_step(&other, 0, "n0[0-1]");
        if (point == NULL)
            workers_await(folder_file("ready"), after);
        else
            livehost_await(&other, FIRN_EVENT_DONE, 0);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    livehost_work(&host, 0, what, folder_file("ready"));
}

static void a_running_job_is_taken_over_and_can_be_stopped(void **state)
{
    (void)state;
    pid_t pids[4];
    run_and_kill("obey", 2, NULL);
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_RUNNING);
    livehost_pass_ms(&host, 100);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    assert_false(workers_is_gone(pids[0])); /* the very same processes */
    livehost_step(&host, 0, "");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_CHECKPOINT);
    assert_int_equal(left.attempt, 1);
    assert_int_equal(fakeslurm_submitted(), 1);
}

/* A node was added before it: numbers are not names. */
static void a_job_on_nodes_of_other_numbers_is_started_again(void **state)
{
    (void)state;
    run_and_kill("obey", 2, NULL);
    assert_int_equal(livehost_adopt(&host, 0, "n1[0-1]"), FIRN_OK);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    assert_non_null(strstr(fakeslurm_words(), "\n--nodelist=n1\n"));
    assert_int_equal(livehost_attempt(&host, 0), 2);
}

/* Killed between the number and sbatch: nothing ran, nothing will. */
static void an_attempt_that_was_not_submitted_is_fenced_off(void **state)
{
    (void)state;
    static const char *const points[] = {"engine.number.after",
                                         "engine.fork.before"};
    for (int i = 0; i < 2; i++) {
        run_and_kill("exit", 0, points[i]);
        host.jobs[0].argv[3] = "0";
        int64_t attempt = livehost_attempt(&host, 0);
        assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
        struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
        assert_int_equal(left.end, FIRN_END_LOST);
        assert_int_equal(left.attempt, attempt);
        struct firn_event end = livehost_await(&host, FIRN_EVENT_DONE, 0);
        assert_int_equal(end.attempt, attempt + 1);
        assert_int_equal(fakeslurm_submitted(), i + 1);
    }
}

/* The firnd before cancelled the pending Slurm job itself, and was killed: no
 * person did, and the job does not fail. */
static void a_job_withdrawn_by_an_earlier_firnd_is_started_again(void **state)
{
    (void)state;
    fakeslurm_hold(true);
    run_and_kill("exit", 0, "engine.fork.after");
    host.jobs[0].argv[3] = "0";
    while (strcmp(fakeslurm_state(1), "PENDING") != 0)
        poll(NULL, 0, 5);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_int_equal(attempt_request_put(folder, "ask", ATTEMPT_KILL, NULL),
                     FIRN_OK);
    close(folder);
    queue_says("CANCELLED|None");
    fakeslurm_hold(false);
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    assert_int_equal(livehost_await(&host, FIRN_EVENT_DONE, 0).attempt, 2);
}

/* sbatch lives on without us. */
static void an_attempt_submitted_just_before_a_crash_runs_once(void **state)
{
    (void)state;
    run_and_kill("obey", 0, "engine.fork.after");
    for (int i = 0; i < 24000 && fakeslurm_state(1)[0] == '\0'; i++)
        poll(NULL, 0, 5); /* later than that it would be given up */
    assert_int_equal(livehost_adopt(&host, 0, "n0[0-1]"), FIRN_OK);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 2);
    livehost_pass_ms(&host, 100);
    assert_int_equal(workers_ready(folder_file("ready")), 2);
    assert_int_equal(fakeslurm_submitted(), 1);
}

/* Slurm lets jobs run on there: they are asked to leave, not killed. */
static void attempts_on_a_drained_node_have_their_grace(void **state)
{
    (void)state;
    static const char *const alive[] = {"MIXED+MAINTENANCE+RESERVED",
                                        "MIXED+REBOOT_REQUESTED", "MIXED@"};
    static const char *const dead[] = {"IDLE+POWERED_DOWN",
                                       "MIXED+REBOOT_ISSUED", "DOWN+DRAIN"};
    for (int i = 0; i < 6; i++) {
        fakeslurm_node("n1", i % 2 == 0 ? alive[i / 2] : dead[i / 2], "", "");
        struct firn_event down = livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
        assert_int_equal(down.is_drained, i % 2 == 0);
    }
}

static void with_a_reservation_only_its_nodes_are_used(void **state)
{
    (void)state;
    livehost_close(&host);
    fakeslurm_node("n0", "IDLE+RESERVED", "", "");
    livehost_open(&host, "slurm", "--reservation=ours");
    struct firn_event down = livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
    assert_int_equal(down.node, 1);
    assert_non_null(
        strstr(host.engine->node_why(host.state, 1), "not in the reserv"));
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    host.seen[0] = '\0';
    fakeslurm_node("n0", "IDLE+RESERVED+NOT_RESPONDING", "", "");
    livehost_pass_ms(&host, 200);
    assert_false(livehost_has_seen(&host, "DOWN")); /* for a while */
    fakeslurm_node("n0", "IDLE", "", ""); /* the controller was started */
    livehost_pass_ms(&host, 200);
    assert_false(livehost_has_seen(&host, "DOWN"));
    fakeslurm_node("n0", "IDLE+DRAIN+RESERVED", "", "");
    down = livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
    assert_int_equal(down.node, 0);
    assert_true(down.is_drained);
}

/* An orphan of ours that hangs on a node. */
static void a_lasting_orphan_hides_foreign_gpus_for_a_while_only(void **s)
{
    (void)s;
    char line[300];
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n") - 1;
    snprintf(line, sizeof line, "7|COMPLETING|None|n1|me|%.*s9|%.*s9\n", n,
             mark, n, mark);
    fakeslurm_line(7, line);
    livehost_pass_ms(&host, 200);
    fakeslurm_node("n0", "MIXED", OTHERS, "");
    struct firn_event taken = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(taken.taken.gpus, 1);
    assert_string_equal(fakeslurm_state(7), "COMPLETING");
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
        CASE(nodes_go_down_and_come_up),
        CASE(a_step_after_a_lost_node_has_no_grace),
        CASE(foreign_gpus_are_reported),
        CASE(foreign_gpus_at_the_start_are_reported_first),
        CASE(a_pending_job_whose_gpus_are_foreign_is_withdrawn),
        CASE(gpus_of_a_job_that_started_meanwhile_are_not_foreign),
        CASE(gpus_of_a_job_whose_node_boots_are_not_foreign),
        CASE(without_slots_no_job_shares_a_gpu),
        CASE(a_running_job_is_taken_over_and_can_be_stopped),
        CASE(a_job_on_nodes_of_other_numbers_is_started_again),
        CASE(an_attempt_that_was_not_submitted_is_fenced_off),
        CASE(a_job_withdrawn_by_an_earlier_firnd_is_started_again),
        CASE(an_attempt_submitted_just_before_a_crash_runs_once),
        CASE(attempts_on_a_drained_node_have_their_grace),
        CASE(with_a_reservation_only_its_nodes_are_used),
        CASE(a_lasting_orphan_hides_foreign_gpus_for_a_while_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
