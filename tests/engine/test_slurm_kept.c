/* test_slurm_kept.c - a Slurm engine that is opened while Slurm is away. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/log.h"
#include "engine/slurmwork.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"
#include <firn/launch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAKEN                                                 \
    "gpu:v100s0:1(IDX:0),gpu:v100s1:0(IDX:N/A),gpu:v100s2:0(" \
    "IDX:N/A),gpu:v100s3:0(IDX:N/A)"

static struct livehost host;
static char logged[1 << 14]; /* by the log */

static void hear(void *arg, enum log_level level, const char *text)
{
    size_t n = strlen(logged);
    (void)arg;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", text);
}

static const char *in_folder(const char *name)
{
    static char paths[8][400];
    static int n;
    char *path = paths[n++ % 8];
    snprintf(path, 400, "%s/%s", folder_path(), name);
    return path;
}

static void job(int id, const char *what, const char *file)
{
    char work[600];
    snprintf(work, sizeof work, "%s %s", what, file);
    livehost_job(&host, id, work);
}

static void pass_ms(int ms)
{
    for (int i = 0; i < ms / 5; i++) {
        livehost_drain(&host);
        poll(NULL, 0, 5);
    }
}

static void everything_is(const char *how)
{
    fakeslurm_say("sbatch", how);
    fakeslurm_say("squeue", how);
    fakeslurm_say("scancel", how);
    fakeslurm_say("scontrol", how);
}

static bool is_in_trouble(void)
{
    return host.engine->trouble(host.state) != NULL;
}

static void await_well(void)
{
    for (int i = 0; i < 24000 && is_in_trouble(); i++)
        pass_ms(5);
    assert_false(is_in_trouble());
}

/* The engine is closed and opened again without a controller. */
static void open_without_slurm(void)
{
    livehost_close(&host);
    everything_is("away");
    livehost_open(&host, "slurm", "");
}

static int count_gpus(void)
{
    struct firn_cluster cluster = {0};
    assert_int_equal(host.engine->discover(host.state, &cluster, &host.err),
                     FIRN_OK);
    int n = cluster.ngpus;
    firn_cluster_release(&cluster);
    return n;
}

static void
without_slurm_running_jobs_are_taken_over_and_starts_wait(void **state)
{
    (void)state;
    job(0, "obey", in_folder("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(in_folder("ready"), 1);
    open_without_slurm();
    assert_true(is_in_trouble());
    assert_non_null(strstr(host.engine->trouble(host.state),
                           "slurmctld does not answer (since "));
    assert_int_equal(count_gpus(), 8);
    assert_string_equal(host.engine->node_name(host.state, 1), "n1");
    job(0, "obey", in_folder("ready"));
    job(1, "exit", "0");
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    livehost_step(&host, 1, "n0[1]");
    pass_ms(200); /* longer than a lost answer is waited for */
    assert_int_equal(host.engine->phase(host.state, 1), FIRN_PHASE_QUEUED);
    assert_int_equal(livehost_attempt(&host, 1), 0);
    everything_is("");
    livehost_await(&host, FIRN_EVENT_DONE, 1);
    await_well(); /* a question of before may just have been answered */
    assert_int_equal(host.engine->phase(host.state, 0), FIRN_PHASE_RUNNING);
    assert_null(strstr(host.seen, "LEFT 0"));
    assert_int_equal(livehost_attempt(&host, 0), 1);
    assert_int_equal(fakeslurm_submitted(), 2);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
}

static void an_inbox_job_that_a_user_cancels_ends(void **state)
{
    (void)state;
    job(0, "obey", in_folder("ready"));
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(in_folder("ready"), 1);
    open_without_slurm();
    job(0, "obey", in_folder("ready"));
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    host.engine->cancel(host.state, 0);
    livehost_await(&host, FIRN_EVENT_FAIL, 0);
    assert_true(is_in_trouble());
    everything_is("");
}

/* Since when it is pending is not known. */
static void a_pending_attempt_that_is_taken_over_is_no_long_wait(void **state)
{
    (void)state;
    job(0, "exit", "0");
    fakeslurm_hold(true);
    livehost_step(&host, 0, "n0[0]");
    for (int i = 0; i < 24000 && strcmp(fakeslurm_state(1), "PENDING") != 0;
         i++)
        pass_ms(5);
    livehost_close(&host);
    livehost_open(&host, "slurm", "");
    job(0, "exit", "0");
    assert_int_equal(livehost_adopt(&host, 0, "n0[0]"), FIRN_OK);
    fakeslurm_hold(false);
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_null(strstr(logged, "is pending for"));
}

/* What a node was when it was kept says nothing of what it is. */
static void a_node_that_was_down_in_the_file_counts_as_up(void **state)
{
    (void)state;
    fakeslurm_node("n1", "DOWN", "", "no power");
    livehost_close(&host);
    livehost_open(&host, "slurm", "");
    open_without_slurm();
    pass_ms(60);
    assert_null(strstr(host.seen, "DOWN"));
    everything_is("");
    livehost_await(&host, FIRN_EVENT_NODE_DOWN, 0);
    assert_non_null(strstr(host.engine->node_why(host.state, 1), "no power"));
}

/* squeue alone is not enough: foreign GPUs are not known. */
static void no_job_starts_before_foreign_gpus_are_known(void **state)
{
    (void)state;
    open_without_slurm();
    job(0, "exit", "0");
    livehost_step(&host, 0, "n0[0]");
    fakeslurm_node("n0", "MIXED", TAKEN, "");
    fakeslurm_say("sbatch", "");
    fakeslurm_say("squeue", "");
    pass_ms(100);
    assert_true(is_in_trouble());
    assert_int_equal(fakeslurm_submitted(), 0);
    fakeslurm_say("scontrol", "");
    struct firn_event taken = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(taken.taken.gpus, 1);
    await_well();
    pass_ms(50);
    assert_int_equal(fakeslurm_submitted(), 0);
    fakeslurm_node("n0", "IDLE", "", "");
    livehost_await(&host, FIRN_EVENT_DONE, 0);
}

/* --- the file ------------------------------------------------------------- */

static struct slurm *with_state(const char *partition)
{
    static struct slurm l;
    memset(&l, 0, sizeof l);
    snprintf(l.state, sizeof l.state, "%s", folder_path());
    snprintf(l.partition, sizeof l.partition, "%s", partition);
    l.version = 2205;
    return &l;
}

static bool is_kept(const char *partition)
{
    struct slurm_kept kept = {0};
    bool is_there = slurm_kept_read(with_state(partition), &kept);
    buf_release(&kept.nodes);
    return is_there;
}

static void a_new_node_is_used_after_the_next_start(void **s)
{
    (void)s;
    struct slurm_kept kept = {0};
    assert_true(slurm_kept_read(with_state(""), &kept));
    assert_string_equal(kept.partition, "main");
    assert_int_equal(kept.version, 2205);
    kept.nodes.n = (size_t)(strchr(kept.nodes.at, '\n') + 1 - kept.nodes.at);
    kept.nodes.at[kept.nodes.n] = '\0';
    slurm_kept_write(with_state("main"), "", &kept.nodes);
    buf_release(&kept.nodes);
    open_without_slurm();
    assert_int_equal(count_gpus(), 4);
    everything_is("");
    await_well();
    assert_non_null(strstr(logged, "Slurm has a new node, n1"));
    assert_null(strstr(logged, "have changed"));
    assert_int_equal(count_gpus(), 4);
    livehost_close(&host);
    livehost_open(&host, "slurm", "");
    assert_int_equal(count_gpus(), 8);
}

static void a_node_whose_gpus_changed_is_logged(void **state)
{
    (void)state;
    livehost_close(&host);
    everything_is("away");
    livehost_open(&host, "slurm", "");
    fakeslurm_plain();
    everything_is("");
    await_well();
    assert_non_null(strstr(logged, "the GPUs of node n0 have changed"));
    assert_null(strstr(logged, "did not have"));
}

static void put(const char *at, size_t n)
{
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_int_equal(
        attempt_put(top, "slurm-nodes", (struct firn_bytes){at, n}, NULL),
        FIRN_OK);
    close(top);
}

static void a_damaged_node_file_is_ignored(void **state)
{
    (void)state;
    struct firn_buf text = {0};
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_true(attempt_get(top, "slurm-nodes", &text));
    close(top);
    assert_true(is_kept(""));
    assert_false(is_kept("main")); /* it was not asked for by its name */
    for (size_t i = 0; i < text.n; i += 5) {
        text.at[i] ^= 1;
        put(text.at, text.n);
        text.at[i] ^= 1;
        if (is_kept(""))
            fail_msg("byte %zu may be anything", i);
        put(text.at, i);
        assert_false(is_kept(""));
    }
    buf_putc(&text, 'x');
    put(text.at, text.n);
    assert_false(is_kept(""));
    put(text.at, text.n - 1);
    assert_true(is_kept(""));
    buf_release(&text);
}

static void at_the_first_start_slurm_is_waited_for(void **state)
{
    (void)state;
    livehost_close(&host);
    unlink(in_folder("slurm-nodes"));
    everything_is("away");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 24000 && !fakeslurm_was_away("scontrol"); i++)
            poll(NULL, 0, 5);
        everything_is("");
        _exit(0);
    }
    livehost_open(&host, "slurm", "");
    assert_false(is_in_trouble());
    assert_int_equal(count_gpus(), 8);
    const char *line =
        strstr(logged, "waiting for slurmctld to list the nodes");
    assert_non_null(line);
    assert_null(strstr(line + 1, "waiting for slurmctld")); /* now and then */
    waitpid(pid, NULL, 0);
    assert_true(is_kept(""));
}

static void a_node_with_unusable_gpus_is_logged(void **state)
{
    (void)state;
    livehost_close(&host);
    fakeslurm_gres("n1", "gpu:a100:2,gpu:v100:2");
    setenv("SLURM_CLUSTERS", "elsewhere", 1); /* of another session's */
    livehost_open(&host, "slurm", "");
    assert_int_equal(count_gpus(), 4);
    assert_non_null(
        strstr(logged, "node n1 is not used: it has GPUs of several"));
    assert_null(getenv("SLURM_CLUSTERS"));
}

static int set_up(void **state)
{
    if (folder_make(state) != 0)
        return 1;
    logged[0] = '\0';
    log_set_sink(hear, NULL);
    fakeslurm_open();
    livehost_open(&host, "slurm", "");
    return 0;
}

static int tear_down(void **state)
{
    livehost_close(&host);
    log_set_sink(NULL, NULL);
    return workers_sweep(state);
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
        CASE(without_slurm_running_jobs_are_taken_over_and_starts_wait),
        CASE(an_inbox_job_that_a_user_cancels_ends),
        CASE(a_pending_attempt_that_is_taken_over_is_no_long_wait),
        CASE(a_node_that_was_down_in_the_file_counts_as_up),
        CASE(no_job_starts_before_foreign_gpus_are_known),
        CASE(a_new_node_is_used_after_the_next_start),
        CASE(a_node_whose_gpus_changed_is_logged),
        CASE(a_damaged_node_file_is_ignored),
        CASE(at_the_first_start_slurm_is_waited_for),
        CASE(a_node_with_unusable_gpus_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
