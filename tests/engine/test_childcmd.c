/* test_childcmd.c - commands beside the loop: reported once each, in order,
 * killed when they are late, and nothing of them is left.
 *
 * After each case there is no child to wait for and no descriptor more than
 * before.
 */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "engine/childcmd.h"
#include "engine/procs.h"
#include "lib/temp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Nothing takes so long, but on a machine that does nothing for a while; what
 * would take longer sleeps a thousand seconds. */
enum { LIMIT_S = 100 };

static int nfds(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

static int nfds_before;

static int set_up(void **state)
{
    struct commands *c = NULL;
    nfds_before = nfds();
    assert_int_equal(commands_open(&c, 4, NULL), FIRN_OK);
    *state = c;
    return 0;
}

/* How long it took. Who was killed and is not dead after two seconds is not
 * waited for by it. */
static double close_all(struct commands *c)
{
    double start_s = clock_elapsed_s();
    commands_close(c);
    double took_s = clock_elapsed_s() - start_s;
    while (took_s >= 2 && waitpid(-1, NULL, 0) > 0)
        ;
    return took_s;
}

static int tear_down(void **state)
{
    close_all(*state);
    bool is_alone = waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
    return is_alone && nfds() == nfds_before ? 0 : -1;
}

static void ask(struct commands *c, const char *const *words, int tag)
{
    commands_start(
        c, &(struct command){.argv = words, .limit_s = LIMIT_S, .tag = tag});
}

static void ask_shell(struct commands *c, const char *script, int tag)
{
    ask(c, (const char *const[]){"sh", "-c", script, NULL}, tag);
}

static void feed(struct commands *c, const char *script,
                 struct firn_bytes input)
{
    const char *const words[] = {"sh", "-c", script, NULL};
    commands_start(c, &(struct command){
                          .argv = words, .input = input, .limit_s = LIMIT_S});
}

/* The next one that is over. Waits on the descriptor alone: one that is not
 * readable in time fails the test. */
static struct command_done next(struct commands *c)
{
    struct command_done done;
    double until_s = clock_elapsed_s() + 2 * LIMIT_S;
    while (!commands_next(c, &done)) {
        struct pollfd fd = {.fd = commands_fd(c), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 2000 * LIMIT_S), 1);
        assert_true(clock_elapsed_s() < until_s);
    }
    assert_int_equal(done.out.at[done.out.n], '\0');
    assert_int_equal(done.err.at[done.err.n], '\0');
    return done;
}

static void assert_quiet(struct commands *c)
{
    struct command_done done;
    struct pollfd fd = {.fd = commands_fd(c), .events = POLLIN};
    assert_false(commands_next(c, &done));
    assert_int_equal(poll(&fd, 1, 0), 0);
}

static void arguments_arrive_unchanged(void **state)
{
    struct commands *c = *state;
    char word[] = "a  'b' $HOME\n*";
    commands_start(c, &(struct command){
                          .argv = (const char *const[]){"echo", word, "", NULL},
                          .limit_s = LIMIT_S,
                          .tag = 7,
                          .about = INT64_MAX,
                          .more = -3});
    memset(word, 'x', sizeof word - 1);
    assert_int_equal(commands_count(c, -1), 1);
    assert_int_equal(commands_count(c, 7), 1);
    assert_int_equal(commands_count(c, 8), 0);
    struct command_done done = next(c);
    assert_true(done.has_run && !done.is_late && done.status == 0);
    assert_string_equal(done.out.at, "a  'b' $HOME\n* \n");
    assert_string_equal(done.err.at, "");
    assert_true(done.tag == 7 && done.about == INT64_MAX && done.more == -3);
    assert_true(done.took_s >= 0 && done.took_s < LIMIT_S);
    assert_int_equal(commands_count(c, -1), 0);
    assert_quiet(c);
}

static void stdout_and_stderr_are_separate(void **state)
{
    struct commands *c = *state;
    ask_shell(c, "echo one; echo two >&2; printf three; exit 41", 0);
    struct command_done done = next(c);
    assert_string_equal(done.out.at, "one\nthree");
    assert_string_equal(done.err.at, "two\n");
    assert_int_equal(done.status, 41);
}

static void a_killed_command_reports_128_plus_the_signal(void **state)
{
    struct commands *c = *state;
    ask_shell(c, "kill -TERM $$", 0);
    struct command_done done = next(c);
    assert_true(done.has_run && !done.is_late);
    assert_int_equal(done.status, 128 + SIGTERM);
}

static void more_than_a_pipe_holds_goes_in_and_out(void **state)
{
    struct commands *c = *state;
    enum { N = 3000000 };
    struct firn_buf input = {0};
    while (input.n < N)
        buf_printf(&input, "%zu ", input.n);
    feed(c, "tee /dev/stderr", (struct firn_bytes){input.at, input.n});
    struct command_done done = next(c);
    assert_int_equal(done.status, 0);
    assert_int_equal(done.out.n, input.n);
    assert_memory_equal(done.out.at, input.at, input.n);
    assert_int_equal(done.err.n, input.n);
    assert_memory_equal(done.err.at, input.at, input.n);
    buf_release(&input);
}

static void unread_input_of_a_command_is_not_an_error(void **state)
{
    struct commands *c = *state;
    struct firn_buf input = {0};
    for (int i = 0; i < 100000; i++)
        buf_puts(&input, "abc");
    feed(c, "true", (struct firn_bytes){input.at, input.n});
    buf_release(&input);
    assert_int_equal(next(c).status, 0);
    ask(c, (const char *const[]){"cat", NULL}, 0); /* no input: /dev/null */
    struct command_done done = next(c);
    assert_true(done.status == 0 && done.out.n == 0);
}

static void a_commands_variables_replace_our_own(void **state)
{
    struct commands *c = *state;
    static const char *const words[] = {"sh", "-c",
                                        "env | grep FIRN_CHILD | sort", NULL};
    static const char *const env[] = {"FIRN_CHILD_A=x=y",
                                      "FIRN_CHILD_C=", NULL};
    setenv("FIRN_CHILD_A", "ours", 1);
    setenv("FIRN_CHILD_AB", "kept", 1);
    commands_start(
        c, &(struct command){.argv = words, .env = env, .limit_s = LIMIT_S});
    assert_string_equal(
        next(c).out.at,
        "FIRN_CHILD_A=x=y\nFIRN_CHILD_AB=kept\nFIRN_CHILD_C=\n");
    unsetenv("FIRN_CHILD_A");
    unsetenv("FIRN_CHILD_AB");
}

/* Can the C library say that there is no such program? Not under valgrind,
 * where vfork is fork: the child ends with 127 instead. */
static bool spawn_tells(void)
{
    char *const words[] = {(char[]){"/firn-no-such-command"}, NULL};
    pid_t pid;
    if (posix_spawn(&pid, words[0], NULL, NULL, words, NULL) != 0)
        return true;
    waitpid(pid, NULL, 0);
    return false;
}

static void a_missing_program_is_an_error(void **state)
{
    if (!spawn_tells())
        skip();
    struct commands *c = *state;
    struct pollfd fd = {.fd = commands_fd(c), .events = POLLIN};
    /* By its path: PATH may have folders that we may not search. */
    ask(c, (const char *const[]){"/firn-no-such-command", "x", NULL}, 5);
    assert_int_equal(poll(&fd, 1, 1000 * LIMIT_S), 1);
    struct command_done done = next(c);
    assert_true(!done.has_run && done.tag == 5);
    assert_string_equal(
        done.err.at,
        "cannot run '/firn-no-such-command': No such file or directory");
    ask(c, (const char *const[]){"/", NULL}, 5);
    done = next(c);
    assert_false(done.has_run);
    assert_string_equal(done.err.at, "cannot run '/': Permission denied");
    ask(c, (const char *const[]){NULL}, 5);
    assert_false(next(c).has_run);
}

enum { LOOKS = LIMIT_S * 500 }; /* with naps between them */

static void nap(void)
{
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

/* Bytes of a small file, terminated; none when there is no such file. */
static int slurp(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t n = file != NULL ? fread(out, 1, size - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    out[n] = '\0';
    return (int)n;
}

static bool is_gone_soon(pid_t pid)
{
    for (int i = 0; i < LOOKS && procs_start(pid) != 0; i++)
        nap();
    return procs_start(pid) == 0;
}

/* Waits for a line in a file; its number. */
static pid_t await_number(const char *path)
{
    char text[32] = "";
    for (int i = 0; i < LOOKS && strchr(text, '\n') == NULL; i++) {
        nap();
        slurp(path, text, sizeof text);
    }
    assert_non_null(strchr(text, '\n'));
    return (pid_t)strtol(text, NULL, 10);
}

/* It writes all its output before its limit is checked. */
static void a_late_command_is_killed_with_its_group(void **state)
{
    struct commands *c = *state;
    char folder[TEMP_FOLDER], path[TEMP_PATH], script[2 * TEMP_PATH];
    const char *const words[] = {"sh", "-c", script, NULL};
    temp_open(folder);
    temp_name(path, folder, "pid");
    snprintf(script, sizeof script,
             "trap '' TERM; sleep 1000 & echo $!; echo said >&2; "
             "echo $! >%s; sleep 1000; echo never",
             path);
    commands_start(c, &(struct command){.argv = words, .limit_s = 0.1});
    pid_t below = await_number(path);
    struct command_done done = next(c);
    assert_true(done.is_late && done.has_run);
    assert_int_equal(done.status, 128 + SIGKILL);
    assert_true(done.took_s >= 0.1);
    assert_string_equal(done.err.at, "said\n");
    assert_int_equal(strtol(done.out.at, NULL, 10), below);
    assert_true(below > 1 && is_gone_soon(below));
    assert_quiet(c);
    temp_close(folder);
}

static void an_open_pipe_does_not_delay_the_end_of_a_command(void **state)
{
    struct commands *c = *state;
    ask_shell(c, "sleep 1000 & echo $!; exit 3", 0);
    struct command_done done = next(c);
    assert_true(!done.is_late && done.status == 3);
    pid_t below = (pid_t)strtol(done.out.at, NULL, 10);
    assert_true(below > 1 && procs_start(below) != 0); /* it may stay */
    assert_quiet(c);
    kill(below, SIGKILL);
}

static void while_a_pipe_is_held_open_nothing_spins(void **state)
{
    struct commands *c = *state;
    struct command_done done;
    ask_shell(c, "sleep 0.5 & exit 0", 0);
    int nwakes = 0;
    while (!commands_next(c, &done)) {
        struct pollfd fd = {.fd = commands_fd(c), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 1000 * LIMIT_S), 1);
        nwakes++;
    }
    assert_true(nwakes < 20);
}

/* Each says that it is there and stays until all may go. */
static void at_most_nmax_commands_run_and_in_order(void **state)
{
    struct commands *c = *state;
    enum { N = 24, NMAX = 4 };
    char folder[TEMP_FOLDER], path[TEMP_PATH], script[4 * TEMP_PATH];
    char log[2 * N + 1] = "";
    const char *const words[] = {"sh", "-c", script, NULL};
    bool is_told[N] = {false};
    int running = 0, most = 0;
    temp_open(folder);
    temp_name(path, folder, "log");
    snprintf(script, sizeof script,
             "printf + >>%s; while [ ! -e %s/go ]; do sleep 0.01; done; "
             "printf - >>%s",
             path, folder, path);
    for (int i = 0; i < N; i++)
        commands_start(c, &(struct command){.argv = words,
                                            .limit_s = LIMIT_S,
                                            .tag = i % 2,
                                            .about = i});
    assert_int_equal(commands_count(c, -1), N);
    assert_int_equal(commands_count(c, 1), N / 2);
    for (int i = 0; i < LOOKS && slurp(path, log, sizeof log) < NMAX; i++)
        nap();
    temp_write(folder, "go", "");
    for (int i = 0; i < N; i++) {
        struct command_done done = next(c);
        assert_true(done.status == 0 && !is_told[done.about]);
        assert_true(done.about < i + NMAX); /* they start in order */
        is_told[done.about] = true;
    }
    assert_int_equal(slurp(path, log, sizeof log), 2 * N);
    for (int i = 0; i < 2 * N; i++) {
        running += log[i] == '+' ? 1 : -1;
        most = running > most ? running : most;
    }
    assert_int_equal(most, NMAX);
    temp_close(folder);
}

static void with_one_place_commands_end_in_order(void **state)
{
    (void)state;
    struct commands *c = NULL;
    assert_int_equal(commands_open(&c, 1, NULL), FIRN_OK);
    bool tells = spawn_tells();
    for (int i = 0; i < 10; i++)
        ask(c,
            (const char *const[]){i % 3 == 1 ? "firn-no-such-command" : "true",
                                  NULL},
            i);
    for (int i = 0; i < 10; i++) {
        struct command_done done = next(c);
        assert_int_equal(done.tag, i);
        assert_int_equal(done.has_run, i % 3 != 1 || !tells);
    }
    assert_quiet(c);
    commands_close(c);
}

static void closing_kills_what_runs(void **state)
{
    struct commands *c = *state;
    char folder[TEMP_FOLDER], path[TEMP_PATH], script[2 * TEMP_PATH];
    temp_open(folder);
    temp_name(path, folder, "pid");
    snprintf(script, sizeof script,
             "trap '' TERM HUP; sleep 1000 & echo $! >%s; wait", path);
    ask_shell(c, script, 0);
    for (int i = 0; i < 4; i++) /* the last of them waits */
        ask_shell(c, "sleep 1000", 0);
    pid_t below = await_number(path);
    *state = NULL;
    assert_true(close_all(c) < LIMIT_S);
    assert_true(is_gone_soon(below));
    temp_close(folder);
}

static void commands_start_with_default_signal_handling(void **state)
{
    struct commands *c = *state;
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    void (*pipes)(int) = signal(SIGPIPE, SIG_IGN);
    ask(c,
        (const char *const[]){"grep", "-E", "^Sig(Blk|Ign)",
                              "/proc/self/status", NULL},
        0);
    struct command_done done = next(c);
    unsigned long long masked = 1, ignored = 1;
    assert_int_equal(
        sscanf(done.out.at, "SigBlk: %llx SigIgn: %llx", &masked, &ignored), 2);
    assert_true(masked == 0);
    assert_true((ignored & 0x7fffffff) == 0); /* above: the C library's own */
    signal(SIGPIPE, pipes);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void no_command_has_the_pipes_of_another(void **state)
{
    struct commands *c = *state;
    static const char *const list[] = {"ls", "/proc/self/fd", NULL};
    ask(c, list, 0);
    char alone[256];
    snprintf(alone, sizeof alone, "%s", next(c).out.at);
    ask_shell(c, "sleep 1000", 1);
    ask_shell(c, "sleep 1000", 1);
    ask(c, list, 0);
    assert_string_equal(next(c).out.at, alone);
}

/* In a process of its own; 0: it was as it should be. */
static int status_of_fork(bool (*is_good)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(is_good() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Without help from cmocka, and from descriptors that may be closed. */
static bool runs_one(void)
{
    struct commands *c = NULL;
    struct command_done done;
    bool is_good = commands_open(&c, 1, NULL) == FIRN_OK;
    feed(c, "cat; echo err >&2", (struct firn_bytes){"in", 2});
    while (is_good && !commands_next(c, &done)) {
        struct pollfd fd = {.fd = commands_fd(c), .events = POLLIN};
        is_good = poll(&fd, 1, 1000 * LIMIT_S) == 1;
    }
    is_good = is_good && strcmp(done.out.at, "in") == 0 &&
              strcmp(done.err.at, "err\n") == 0;
    commands_close(c);
    return is_good;
}

static bool runs_without_streams(void)
{
    return close(0) == 0 && close(1) == 0 && close(2) == 0 && runs_one();
}

static void commands_run_although_our_standard_streams_are_closed(void **state)
{
    (void)state;
    assert_int_equal(status_of_fork(runs_without_streams), 0);
}

/* A kernel that has no pidfd: the call is not known. Where filters are not
 * allowed, this is an ordinary run. */
static bool runs_without_pidfd(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
        procs_open(getpid()) >= 0)
        return false;
    return runs_one();
}

static void without_pidfds_ends_are_seen_too(void **state)
{
    (void)state;
    assert_int_equal(status_of_fork(runs_without_pidfd), 0);
}

static void a_limit_of_zero_commands_is_an_error(void **state)
{
    (void)state;
    struct commands *c = NULL;
    assert_int_equal(commands_open(&c, 0, NULL), FIRN_EINVAL);
    assert_null(c);
    commands_close(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(arguments_arrive_unchanged),
        CASE(stdout_and_stderr_are_separate),
        CASE(a_killed_command_reports_128_plus_the_signal),
        CASE(more_than_a_pipe_holds_goes_in_and_out),
        CASE(unread_input_of_a_command_is_not_an_error),
        CASE(a_commands_variables_replace_our_own),
        CASE(a_missing_program_is_an_error),
        CASE(a_late_command_is_killed_with_its_group),
        CASE(an_open_pipe_does_not_delay_the_end_of_a_command),
        CASE(while_a_pipe_is_held_open_nothing_spins),
        CASE(at_most_nmax_commands_run_and_in_order),
        CASE(with_one_place_commands_end_in_order),
        CASE(closing_kills_what_runs),
        CASE(commands_start_with_default_signal_handling),
        CASE(no_command_has_the_pipes_of_another),
        CASE(commands_run_although_our_standard_streams_are_closed),
        CASE(without_pidfds_ends_are_seen_too),
        CASE(a_limit_of_zero_commands_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
