/* test_slurm.c - the Slurm engine when Slurm does not behave: answers that get
 * lost, a controller that is away, forgets, gives numbers out again and brings
 * back what was cancelled. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/attemptfiles.h"
#include "engine/shepherd.h"
#include "engine/slurmwork.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct livehost host;

/* Lets the engine work until `is_so`, two minutes at most. */
static void until(bool (*is_so)(void))
{
    for (int i = 0; i < 24000 && !is_so(); i++) {
        livehost_drain(&host);
        poll(NULL, 0, 5);
    }
    if (!is_so())
        fail_msg("it never came to that; seen: %s", host.seen);
}

/* A rank of job 0 that would tell if another attempt of it were there. */
static void start_alone(const char *gpus, size_t n)
{
    char lock[400];
    snprintf(lock, sizeof lock, "%s", folder_file("turn"));
    livehost_work(&host, 0, "alone", folder_file("ready"))->argv[4] =
        arena_strdup(&host.text, lock);
    livehost_step(&host, 0, gpus);
    workers_await(folder_file("ready"), n);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
}

static void is_never_twice(void)
{
    struct firn_buf text = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "ready", &text));
    close(top);
    assert_null(strstr(text.at, "TWICE"));
    buf_release(&text);
}

/* --- submitting ----------------------------------------------------------- */

static void a_lost_answer_is_found_by_its_tag(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    fakeslurm_say("sbatch", "deaf");
    fakeslurm_hold(true);
    livehost_step(&host, 0, "n0[0]");
    livehost_pass_ms(&host, 300);
    fakeslurm_hold(false);
    assert_int_equal(livehost_await(&host, FIRN_EVENT_DONE, 0).attempt, 1);
    assert_int_equal(fakeslurm_submitted(), 1);
}

/* Others may have its GPUs meanwhile. */
static void a_refused_start_gives_its_gpus_back(void **state)
{
    (void)state;
    livehost_work(&host, 0, "exit", "0");
    fakeslurm_say("sbatch", "refuse");
    livehost_step(&host, 0, "n0[0]");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    assert_int_equal(left.attempt, 1);
    livehost_await(&host, FIRN_EVENT_BARS, 0);
    struct firn_bars bars;
    assert_true(host.engine->bars(host.state, 0, &bars));
    assert_true(bars.until_s > host.engine->now_s(host.state));
    assert_int_equal(host.engine->phase(host.state, 0), FIRN_PHASE_GONE);
    livehost_step(&host, 0, "n0[0]");
    assert_int_equal(livehost_await(&host, FIRN_EVENT_DONE, 0).attempt, 2);
    assert_false(host.engine->bars(host.state, 0, &bars));
    assert_int_equal(fakeslurm_submitted(), 1);
}

static bool is_pending(void)
{
    return strcmp(fakeslurm_state(1), "PENDING") == 0;
}

static void a_pending_attempt_is_cancelled_by_a_stop(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    fakeslurm_hold(true);
    livehost_step(&host, 0, "n0[0]");
    until(is_pending);
    livehost_pass_ms(&host, 100);
    assert_string_equal(fakeslurm_state(1), "PENDING");
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_string_equal(fakeslurm_state(1), "CANCELLED");
    fakeslurm_hold(false);
    livehost_pass_ms(&host, 200);
    assert_int_equal(workers_ready(folder_file("ready")), 0);
}

static int count_of(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

static int nwanted;

static bool are_submitted(void)
{
    return fakeslurm_submitted() == nwanted;
}

/* The words of the sbatch that follows from the step; it is the `n`th. */
static const char *words_of_step(int id, const char *gpus, int n)
{
    livehost_work(&host, id, "exit", "0");
    livehost_step(&host, id, gpus);
    nwanted = n;
    until(are_submitted);
    return fakeslurm_words();
}

static void nodes_with_equal_wants_are_one_component(void **state)
{
    (void)state;
    fakeslurm_hold(true);
    const char *words = words_of_step(0, "n0[1,3] n1[1,3]", 1);
    assert_non_null(strstr(words, "\n--nodes=2\n--nodelist=n0,n1\n"));
    assert_non_null(strstr(words, "\n--gres=gpu:v100s1:1,gpu:v100s3:1\n"));
    assert_int_equal(count_of(words, "\n:\n"), 0);
    words = words_of_step(1, "n0[0] n1[0,2]", 2);
    assert_int_equal(count_of(words, "\n:\n"), 1);
    assert_int_equal(count_of(words, "--comment=firn:"), 2);
    assert_non_null(strstr(words, "\n--ntasks-per-node=2\n"));
    words = words_of_step(2, "n0[2]~", 3);
    assert_non_null(strstr(words, "\n--gres=shard:v100s2:2\n"));
    fakeslurm_hold(false);
    livehost_await(&host, FIRN_EVENT_DONE, 2);
}

/* No text of a user is in an argument or the script of sbatch. */
static void no_text_of_a_user_reaches_sbatch(void **state)
{
    (void)state;
    struct livehost_job *j = livehost_work(&host, 0, "exit", "0");
    j->argv[4] = "\n#SBATCH --nodelist=n9\n$(touch HOSTILE)";
    j->env[0] = "HOSTILE=`touch HOSTILE`\n#SBATCH --hold";
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_null(strstr(fakeslurm_words(), "HOSTILE"));
    assert_null(strstr(fakeslurm_words(), "exit"));
    struct firn_buf text = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "slurm/state/script-1", &text));
    close(top);
    assert_null(strstr(text.at, "HOSTILE"));
    assert_null(strstr(text.at, "#SBATCH"));
    buf_release(&text);
}

/* --- the controller ------------------------------------------------------- */

static void everything_is(const char *how)
{
    static const char *const all[] = {"sbatch", "squeue", "scontrol",
                                      "scancel"};
    for (size_t i = 0; i < 4; i++)
        fakeslurm_say(all[i], how);
}

static bool is_in_trouble(void)
{
    return host.engine->trouble(host.state) != NULL;
}

static bool is_well(void)
{
    return !is_in_trouble();
}

/* Each question was asked again since: no answer from before is under way. */
static bool is_away(void)
{
    return fakeslurm_was_away("squeue") && fakeslurm_was_away("scontrol") &&
           is_in_trouble();
}

static void while_the_controller_is_away_jobs_run_and_starts_wait(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_work(&host, 1, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    assert_null(host.engine->trouble(host.state));
    everything_is("away");
    until(is_away);
    assert_non_null(strstr(host.engine->trouble(host.state),
                           "slurmctld does not answer (since "));
    livehost_step(&host, 1, "n0[1]");
    livehost_pass_ms(&host, 200);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_RUNNING);
    assert_int_equal(livehost_phase(&host, 1), FIRN_PHASE_QUEUED);
    assert_int_equal(livehost_attempt(&host, 1), 0); /* no number is wasted */
    everything_is("");
    livehost_await(&host, FIRN_EVENT_DONE, 1);
    until(is_well); /* a question of before may just have been answered */
    assert_false(livehost_has_seen(&host, "LEFT 0"));
}

/* What Slurm has of the first job. */
static void first_is(const char *state)
{
    char line[300];
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(line, sizeof line, "1|%s|None||me|%.*s|%.*s\n", state, n, mark, n,
             mark);
    fakeslurm_line(1, line);
}

static bool has_ended(void)
{
    struct attempt_exit how;
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    bool is_there = attempt_exit_get(folder, &how);
    close(folder);
    return is_there;
}

/* Its node, a person or the time limit: unknown until Slurm answers. */
static void the_cause_of_an_end_is_asked_when_slurm_is_back(void **state)
{
    (void)state;
    struct attempt_pid pid;
    start_alone("n0[0]", 1);
    everything_is("away");
    until(is_away);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_true(attempt_pid_get(folder, &pid));
    close(folder);
    kill((pid_t)pid.pid, SIGINT); /* SIGTERM would ask for a checkpoint */
    until(has_ended);
    struct slurmjob *job = NULL;
    for (int i = 0; i < 40 && (job = slurm_find(host.state, 0)) != NULL; i++) {
        job->base.until_s = job->look_s = 0; /* long ago */
        livehost_pass_ms(&host, 5);
    }
    assert_false(livehost_has_seen(&host, "FAIL"));
    while (strcmp(fakeslurm_state(1), "RUNNING") == 0)
        poll(NULL, 0, 5);
    first_is("NODE_FAIL");
    everything_is("");
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
}

static void an_unreadable_answer_is_trouble_and_changes_nothing(void **state)
{
    (void)state;
    livehost_work(&host, 0, "obey", folder_file("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    fakeslurm_say("squeue", "babble");
    until(is_in_trouble);
    assert_non_null(strstr(host.engine->trouble(host.state), "hello"));
    livehost_pass_ms(&host, 100);
    fakeslurm_say("squeue", "");
    until(is_well);
    fakeslurm_say("scontrol", "babble");
    until(is_in_trouble);
    livehost_pass_ms(&host, 100);
    fakeslurm_say("scontrol", "");
    until(is_well);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_RUNNING);
    assert_false(livehost_has_seen(&host, "DOWN"));
}

static void a_job_that_slurm_forgot_is_ended_and_started_again(void **state)
{
    (void)state;
    start_alone("n0[0-1]", 2);
    fakeslurm_line(1, NULL);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 4);
    is_never_twice();
    assert_int_equal(livehost_attempt(&host, 0), 2);
}

static void a_reused_slurm_job_number_is_left_alone(void **state)
{
    (void)state;
    start_alone("n0[0]", 1);
    fakeslurm_line(1, "1|SUSPENDED|None|n0|me|(null)|train\n");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 2);
    is_never_twice();
    assert_string_equal(fakeslurm_state(1), "SUSPENDED");
    assert_int_equal(fakeslurm_cancelled(), 0);
}

static bool is_first_cancelled(void)
{
    return strcmp(fakeslurm_state(1), "CANCELLED") == 0;
}

/* The controller lost what it knew of the start, and would start it anew. */
static void a_job_revived_as_pending_is_cancelled(void **state)
{
    (void)state;
    start_alone("n0[0]", 1);
    first_is("PENDING");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    until(is_first_cancelled);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 2);
    is_never_twice();
}

static bool is_cancelled(void)
{
    return fakeslurm_cancelled() > 0;
}

static void a_revived_slurm_job_is_cancelled_again(void **state)
{
    (void)state;
    char line[300];
    livehost_work(&host, 0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    for (int i = 0; i < 24000 && strcmp(fakeslurm_state(1), "RUNNING") == 0;
         i++)
        poll(NULL, 0, 5); /* who still runs when it is over may be cancelled */
    livehost_pass_ms(&host, 100);
    assert_int_equal(fakeslurm_cancelled(), 0);
    const char *mark = strstr(fakeslurm_words(), "--comment=") + 10;
    int n = (int)strcspn(mark, "\n");
    snprintf(line, sizeof line, "7|PENDING|None||me|%.*s|%.*s\n", n, mark, n,
             mark);
    fakeslurm_line(7, line);
    until(is_cancelled);
    assert_string_equal(fakeslurm_state(7), "CANCELLED");
    /* Another cell's, and one that only looks like ours, are not. */
    fakeslurm_line(8, "8|PENDING|None||me|firn:1:0:1|firn:1:0:1\n");
    fakeslurm_line(9, "9|PENDING|None||me|firn:x|firn:x\n");
    livehost_pass_ms(&host, 150);
    assert_string_equal(fakeslurm_state(8), "PENDING");
    assert_string_equal(fakeslurm_state(9), "PENDING");
}

/* If Slurm starts it all the same, nothing runs. */
static void a_batch_step_that_comes_back_finds_the_fence(void **state)
{
    (void)state;
    int status = 0;
    start_alone("n0[0]", 1);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", folder_file("slurm/state/script-1"),
              (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), SHEPHERD_FENCED);
    assert_int_equal(workers_ready(folder_file("ready")), 1);
}

static void a_shepherd_that_is_killed_is_lost_with_its_workers(void **state)
{
    (void)state;
    struct attempt_pid pid;
    pid_t pids[4];
    start_alone("n0[0] n1[0]", 2);
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    int folder = attempt_folder(host.jobs[0].folder, 1, false);
    assert_true(attempt_pid_get(folder, &pid));
    close(folder);
    kill((pid_t)pid.pid, SIGKILL);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    workers_await_gone(pids[0]);
    workers_await_gone(pids[1]);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 4);
    is_never_twice();
}

/* The parent of a process, which is what plays its slurmd. */
static pid_t parent_of(int pid)
{
    char path[64], text[300] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(text, sizeof text, in));
    fclose(in);
    assert_int_equal(sscanf(strrchr(text, ')') + 1, " %*c %d", &parent), 1);
    return parent;
}

/* Its hosts died and were back before Slurm found out. */
static void vanished_workers_are_lost_although_srun_waits(void **state)
{
    (void)state;
    pid_t pids[4];
    start_alone("n0[0] n1[0]", 2);
    fakeslurm_say("srun", "hang");
    assert_int_equal(workers_pids(folder_file("ready"), pids, 4), 2);
    for (int i = 0; i < 2; i++) {
        kill(parent_of(pids[i]), SIGKILL);
        kill(pids[i], SIGKILL);
    }
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    assert_int_equal(left.attempt, 1);
    fakeslurm_say("srun", "");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 4);
    is_never_twice();
}

static void an_attempt_whose_node_died_is_lost_before_slurm_notices(void **s)
{
    (void)s;
    start_alone("n0[0-1]", 2);
    kill(parent_of(fakeslurm_batch(1)), SIGKILL);
    struct firn_event left = livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(left.end, FIRN_END_LOST);
    assert_int_equal(left.attempt, 1);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(folder_file("ready"), 4);
    is_never_twice();
    until(is_first_cancelled);
}

static void an_attempt_cancelled_from_outside_has_failed(void **state)
{
    (void)state;
    start_alone("n0[0]", 1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char path[500];
        snprintf(path, sizeof path, "%s/scancel", fakeslurm_path());
        execl(path, path, "1", (char *)NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    struct firn_event end = livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_int_equal(end.end, FIRN_END_KILLED);
    assert_int_equal(livehost_phase(&host, 0), FIRN_PHASE_GONE);
}

/* The controller crashed after its last answer, and gave the number out again:
 * an attempt that leaves then does not cancel the other. */
static void a_leaving_attempt_cancels_only_its_own_slurm_job(void **state)
{
    (void)state;
    start_alone("n0[0]", 1);
    fakeslurm_line(1, "1|PENDING|None||me|(null)|train\n");
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_string_equal(fakeslurm_state(1), "PENDING");
    assert_int_equal(fakeslurm_cancelled(), 0);
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
        CASE(a_lost_answer_is_found_by_its_tag),
        CASE(a_refused_start_gives_its_gpus_back),
        CASE(a_pending_attempt_is_cancelled_by_a_stop),
        CASE(nodes_with_equal_wants_are_one_component),
        CASE(no_text_of_a_user_reaches_sbatch),
        CASE(while_the_controller_is_away_jobs_run_and_starts_wait),
        CASE(the_cause_of_an_end_is_asked_when_slurm_is_back),
        CASE(an_unreadable_answer_is_trouble_and_changes_nothing),
        CASE(a_job_that_slurm_forgot_is_ended_and_started_again),
        CASE(a_reused_slurm_job_number_is_left_alone),
        CASE(a_job_revived_as_pending_is_cancelled),
        CASE(a_revived_slurm_job_is_cancelled_again),
        CASE(a_batch_step_that_comes_back_finds_the_fence),
        CASE(a_shepherd_that_is_killed_is_lost_with_its_workers),
        CASE(vanished_workers_are_lost_although_srun_waits),
        CASE(an_attempt_whose_node_died_is_lost_before_slurm_notices),
        CASE(an_attempt_cancelled_from_outside_has_failed),
        CASE(a_leaving_attempt_cancels_only_its_own_slurm_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
