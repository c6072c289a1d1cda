/* test_local_foreign.c - whose a process on a GPU is, and what the host is
 * reported of GPUs that others use. The driver is made up, the processes are
 * real.
 */
#define _GNU_SOURCE
#include "engine/localwork.h"
#include "engine/procs.h"
#include "lib/fakenvml.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER_USER = 65534, NO_SUCH_PID = 1 << 30 };

/* --- processes ------------------------------------------------------------ */

/* Waits for its death under this name, with one variable at most. */
static pid_t process(const char *name, const char *variable)
{
    int ends[2];
    char byte;
    const char *program = workers_program();
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *argv[] = {"test", "--wait", (char *)name, NULL};
        char *env[] = {(char *)variable, NULL};
        dup2(ends[1], 1);
        close(ends[0]);
        execve(program, argv, env);
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static int wait_for_death(const char *name)
{
    prctl(PR_SET_NAME, name);
    if (write(1, "x", 1) != 1)
        return 1;
    for (;;)
        pause();
}

/* Dead, and still in the table of processes. */
static pid_t ended(void)
{
    siginfo_t info;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    return pid;
}

static void bury(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static enum gpu_use use_of(pid_t first, pid_t second)
{
    struct fakegpu gpu = {.name = "Tesla T4",
                          .gib = 15,
                          .pids = {(unsigned)first, (unsigned)second}};
    struct nvml nvml = fakenvml_use(&gpu, 1);
    enum gpu_use use = nvml_use(&nvml, 0);
    nvml_close(&nvml);
    return use;
}

static void a_process_with_firn_attempt_may_be_ours(void **state)
{
    (void)state;
    pid_t ours = process("x", "FIRN_EPOCH=3");
    pid_t other = process("x", "FIRN_EPOCHS=3");
    pid_t bare = process("x", NULL);
    pid_t mps = process("nvidia-cuda-mps", "PATH=/bin");
    pid_t dead = ended();
    assert_int_equal(use_of(0, 0), GPU_OURS);
    assert_int_equal(use_of(ours, 0), GPU_UNSURE);
    assert_int_equal(use_of(mps, 0), GPU_OURS);
    assert_int_equal(use_of(other, 0), GPU_FOREIGN);
    assert_int_equal(use_of(ours, other), GPU_FOREIGN);
    assert_int_equal(use_of(ours, dead), GPU_UNSURE);
    assert_int_equal(use_of(bare, ours), GPU_UNSURE);
    assert_int_equal(use_of(NO_SUCH_PID, ours), GPU_UNSURE);
    assert_int_equal(use_of(NO_SUCH_PID, other), GPU_FOREIGN);
    bury(ours);
    bury(other);
    bury(bare);
    bury(mps);
    bury(dead);
}

/* Asked by a process that is not root of one that is root's. */
static void a_process_of_another_user_is_foreign(void **state)
{
    (void)state;
    pid_t of = geteuid() == 0 ? getpid() : 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char path[64];
        bool is_other_user = geteuid() != 0 || setuid(OTHER_USER) == 0;
        snprintf(path, sizeof path, "/proc/%ld/environ", (long)of);
        FILE *in = fopen(path, "r");
        if (!is_other_user || in != NULL || errno == ENOENT)
            _exit(77); /* this system hides nothing, or even who is there */
        _exit(procs_has_variable(of, "FIRN_EPOCH=") == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* By a process that is not root, too. */
static void a_worker_that_has_just_ended_is_not_foreign(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && setuid(OTHER_USER) != 0)
            _exit(77);
        pid_t dead = ended();
        int has = procs_has_variable(dead, "FIRN_EPOCH=");
        bury(dead);
        _exit(has == -1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* --- the engine ----------------------------------------------------------- */

static struct livehost host;
static struct fakegpu two[2];

static struct local *engine(void)
{
    return host.state;
}

/* The local engine as the driver's two GPUs would have it, which looks at them
 * when a start or look() wants it to. */
static void host_open(void)
{
    struct local *l;
    livehost_open(&host, "local", "1x2:t4@15");
    l = engine();
    gpus_close(&l->gpus);
    two[0] = two[1] =
        (struct fakegpu){.name = "Tesla T4", .gib = 15, .pids = {0}};
    struct nvml nvml = fakenvml_use(two, 2);
    assert_int_equal(gpus_ask(&l->gpus, &nvml, &host.err), FIRN_OK);
    local_foreign_open(l);
    l->foreign_every_s = 3600;
}

/* What a look tells: the GPUs, or -1. */
static int look(void)
{
    struct firn_event event;
    int reported = -1;
    engine()->foreign_s = 0; /* it is due */
    engine()->has_changes = true;
    while (host.engine->next(host.state, 0, &event, &host.err))
        if (event.kind == FIRN_EVENT_TAKEN) {
            assert_int_equal(event.taken.node, 0);
            assert_int_equal(event.taken.board, 0);
            assert_int_equal(reported, -1); /* once */
            reported = (int)event.taken.gpus;
        }
    return reported;
}

static void a_change_of_foreign_gpus_is_reported_once(void **state)
{
    (void)state;
    pid_t other = process("x", "A=1");
    host_open();
    assert_int_equal(look(), -1);
    two[1].pids[0] = (unsigned)other;
    assert_int_equal(look(), 2);
    assert_int_equal(look(), -1);
    two[0].pids[0] = (unsigned)other;
    two[1].pids[0] = 0;
    assert_int_equal(look(), 1);
    two[0].pids[0] = 0;
    assert_int_equal(look(), 0);
    livehost_close(&host);
    bury(other);
}

static void foreign_processes_are_checked_only_when_due(void **state)
{
    (void)state;
    pid_t other = process("x", "A=1");
    struct firn_event event;
    host_open();
    assert_int_equal(look(), -1);
    two[0].pids[0] = (unsigned)other;
    assert_false(host.engine->next(host.state, 0, &event, &host.err));
    double due_s = host.engine->now_s(host.state) + 0.05;
    engine()->foreign_s = due_s;
    engine()->has_changes = engine()->is_stale = true;
    while (!host.engine->next(host.state, 0, &event, &host.err)) {
        struct pollfd fd = {.fd = host.engine->wake_fd(host.state),
                            .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 60000), 1);
    }
    assert_int_equal(event.kind, FIRN_EVENT_TAKEN);
    assert_true(host.engine->now_s(host.state) >= due_s);
    livehost_close(&host);
    livehost_open(&host, "local", "1x2:t4@15");
    assert_true(isinf(engine()->foreign_s)); /* there is no driver to ask */
    livehost_close(&host);
    bury(other);
}

static void an_unknown_process_is_foreign_when_two_looks_see_it(void **state)
{
    (void)state;
    host_open();
    two[0].pids[0] = NO_SUCH_PID;
    assert_int_equal(look(), -1);
    two[0].pids[0] = 0;
    assert_int_equal(look(), -1); /* it had just ended */
    two[0].pids[0] = NO_SUCH_PID;
    assert_int_equal(look(), -1);
    assert_int_equal(look(), 1);
    assert_int_equal(look(), -1);
    two[0].pids[0] = 0;
    assert_int_equal(look(), 0);
    livehost_close(&host);
}

/* As in a container that has process numbers of its own. */
static void an_unknown_process_beside_an_attempt_of_ours_is_ours(void **state)
{
    (void)state;
    char work[400], file[300];
    snprintf(file, sizeof file, "%s/ready", folder_path());
    snprintf(work, sizeof work, "obey %s", file);
    host_open();
    livehost_job(&host, 0, work);
    livehost_step(&host, 0, "n0[0]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(file, 1);
    two[0].pids[0] = two[1].pids[0] = NO_SUCH_PID;
    assert_int_equal(look(), -1);
    assert_int_equal(look(), 2);
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    assert_int_equal(look(), -1);
    assert_int_equal(look(), 3);
    livehost_close(&host);
}

static void the_busiest_and_the_fullest_gpu_of_a_job_are_told(void **state)
{
    (void)state;
    char work[400], file[300];
    struct firn_load load = {-1, -1};
    snprintf(file, sizeof file, "%s/ready", folder_path());
    snprintf(work, sizeof work, "obey %s", file);
    host_open();
    two[0].percent = 70;
    two[0].used_gib = 1;
    two[1].percent = 20;
    two[1].used_gib = 3;
    livehost_job(&host, 0, work);
    assert_false(host.engine->load(host.state, 0, &load)); /* it has none */
    livehost_step(&host, 0, "n0[0-1]");
    livehost_await_phase(&host, FIRN_PHASE_RUNNING, 0);
    workers_await(file, 1);
    assert_true(host.engine->load(host.state, 0, &load));
    assert_true(load.util == 0.7 && load.mem_gib == 3);
    assert_false(host.engine->load(host.state, 1, &load)); /* no such job */
    two[1].percent = 200; /* no share of anything */
    assert_false(host.engine->load(host.state, 0, &load));
    livehost_step(&host, 0, "");
    livehost_await(&host, FIRN_EVENT_LEFT, 0);
    livehost_close(&host);
}

/* Two firnd of one user on one host. */
static void a_process_of_another_firnd_is_not_ours(void **state)
{
    (void)state;
    pid_t theirs = process("x", "FIRN_EPOCH=3");
    host_open();
    two[0].pids[0] = (unsigned)theirs;
    assert_int_equal(look(), -1);
    assert_int_equal(look(), 1);
    two[0].pids[0] = 0;
    assert_int_equal(look(), 0);
    livehost_close(&host);
    bury(theirs);
}

static void a_start_that_finds_others_tells_and_waits(void **state)
{
    (void)state;
    pid_t other = process("x", "A=1");
    host_open();
    assert_int_equal(look(), -1);
    livehost_job(&host, 0, "exit 0");
    two[0].pids[0] = (unsigned)other;
    two[1].pids[0] = NO_SUCH_PID;
    livehost_step(&host, 0, "n0[0-1]");
    struct firn_event event = livehost_await(&host, FIRN_EVENT_TAKEN, 0);
    assert_int_equal(event.taken.gpus, 1); /* of the other it is not sure */
    assert_int_equal(host.engine->phase(host.state, 0), FIRN_PHASE_QUEUED);
    two[0].pids[0] = two[1].pids[0] = 0;
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    assert_int_equal(livehost_attempt(&host, 0), 1);
    livehost_close(&host);
    bury(other);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--wait") == 0)
        return wait_for_death(argv[2]);
    int code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_with_firn_attempt_may_be_ours),
        cmocka_unit_test(a_process_of_another_user_is_foreign),
        cmocka_unit_test(a_worker_that_has_just_ended_is_not_foreign),
        cmocka_unit_test(a_change_of_foreign_gpus_is_reported_once),
        cmocka_unit_test(foreign_processes_are_checked_only_when_due),
        cmocka_unit_test(an_unknown_process_is_foreign_when_two_looks_see_it),
        cmocka_unit_test_setup_teardown(
            an_unknown_process_beside_an_attempt_of_ours_is_ours, folder_make,
            workers_sweep),
        cmocka_unit_test_setup_teardown(
            the_busiest_and_the_fullest_gpu_of_a_job_are_told, folder_make,
            workers_sweep),
        cmocka_unit_test_setup_teardown(
            a_start_that_finds_others_tells_and_waits, folder_make,
            workers_sweep),
        cmocka_unit_test(a_process_of_another_firnd_is_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
