/* test_launcher.c - firn-launch under a firnd that asks for what it may not
 * have, and other users that ask at all. Needs root and the users daemon
 * and MEMBER, which every system has.
 */
#define _GNU_SOURCE
#include "engine/launcher.h"
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A user without a home, of whose processes there are none. */
#define MEMBER \
    "no"       \
    "body"

static struct {
    char folder[64], path[100];
    char group[64];
    uid_t firnd, other;
    pid_t pid;
} s;

static void nap(void)
{
    nanosleep(&(struct timespec){0, 10000000}, NULL);
}

/* The launcher with firnd's user `daemon`, for members of the group of
 * MEMBER. */
static int start(void **state)
{
    (void)state;
    const struct passwd *entry = getpwnam("daemon");
    s.pid = 0;
    if (geteuid() != 0 || entry == NULL)
        return 0;
    s.firnd = entry->pw_uid;
    entry = getpwnam(MEMBER);
    const struct group *group = entry != NULL ? getgrgid(entry->pw_gid) : NULL;
    if (group == NULL)
        return 0;
    s.other = entry->pw_uid;
    snprintf(s.group, sizeof s.group, "%s", group->gr_name);
    strcpy(s.folder, "/tmp/firn-launch.XXXXXX"); /* others can enter it */
    if (mkdtemp(s.folder) == NULL || chmod(s.folder, 0755) != 0)
        return 1;
    snprintf(s.path, sizeof s.path, "%s/launch", s.folder);
    s.pid = fork();
    if (s.pid == 0) {
        char program[PATH_MAX] = "";
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 32);
        char *at = n > 0 ? strstr(program, "/tests/engine/") : NULL;
        if (at != NULL) /* it is built beside the tests */
            strcpy(at, "/firn-launch");
        execl(program, "firn-launch", "--state", s.folder, "--socket", s.path,
              "--user", "daemon", "--group", s.group, "--shepherd",
              "/bin/false", (char *)NULL);
        _exit(127);
    }
    struct stat st;
    for (int i = 0; i < 12000 && s.pid > 0 && stat(s.path, &st) != 0; i++) {
        nap();
        if (waitpid(s.pid, NULL, WNOHANG) != 0)
            s.pid = 0; /* it is not built, or may not listen */
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    if (s.pid > 0) {
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
    }
    unlink(s.path);
    rmdir(s.folder);
    return 0;
}

/* The answer to these bytes for a process of that user; "": none. */
static void ask_as(uid_t uid, const char *bytes, size_t n, char out[512])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char answer[512] = "";
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        snprintf(at.sun_path, sizeof at.sun_path, "%.100s", s.path);
        if (uid != 0 && setresuid(uid, uid, uid) != 0)
            _exit(1);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
            send(fd, bytes, n, MSG_NOSIGNAL) >= 0 &&
            recv(fd, answer, sizeof answer - 1, 0) < 0)
            answer[0] = '\0';
        _exit(write(ends[1], answer, sizeof answer) < 0);
    }
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], out, 512), 512);
    waitpid(pid, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

static bool is_ready(void)
{
    if (s.pid > 0 && waitpid(s.pid, NULL, WNOHANG) == 0)
        return true;
    print_message("skipped: it needs root, firn-launch and two system users\n");
    s.pid = 0;
    return false;
}

static void firnd_gets_jobs_of_members_and_no_others(void **state)
{
    (void)state;
    static const struct {
        const char *line, *answer;
    } cases[] = {
        {"check " MEMBER "\n", "ok 0"},
        {"check root\n", "no user root: jobs of system users"},
        {"check daemon\n", "no user daemon: jobs of system users"},
        {"check no-such-user-here\n", "no user no-such-user-here: this host"},
        {"start root 1 1 0123456789abcdef\n", "no user root: jobs of system"},
        {"end 1 0123456789abcdef\n", "ok 0"},
        {"start " MEMBER " 1 1 0123456789abcdef\n", "ok "},
    };
    char answer[512];
    if (!is_ready())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask_as(s.firnd, cases[i].line, strlen(cases[i].line), answer);
        if (strncmp(answer, cases[i].answer, strlen(cases[i].answer)) != 0)
            fail_msg("%s is answered by '%s'", cases[i].line, answer);
    }
}

static void other_users_and_root_get_no_answer(void **state)
{
    (void)state;
    char answer[512];
    if (!is_ready())
        skip();
    ask_as(s.other, "check " MEMBER "\n", 13, answer);
    assert_string_equal(answer, "");
    ask_as(0, "check " MEMBER "\n", 13, answer); /* root opens the socket */
    assert_string_equal(answer, "");
    ask_as(s.firnd, "check " MEMBER "\n", 13,
           answer); /* and it still answers */
    assert_string_equal(answer, "ok 0\n");
}

static void garbage_is_refused_and_the_launcher_goes_on(void **state)
{
    (void)state;
    char answer[512], bytes[400];
    if (!is_ready())
        skip();
    uint64_t seed = 42;
    for (int i = 0; i < 100; i++) {
        size_t n = 1 + seed % sizeof bytes;
        for (size_t k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (char)(seed >> 40);
        }
        ask_as(s.firnd, bytes, n, answer);
        assert_int_equal(strncmp(answer, "no ", 3), 0);
    }
    ask_as(s.firnd, "check " MEMBER "\n", 13, answer);
    assert_string_equal(answer, "ok 0\n");
}

/* A link in place of a job's folder: its target stays root's. */
static void a_link_in_place_of_a_folder_is_not_given_away(void **state)
{
    (void)state;
    char path[300], target[300], answer[512];
    struct stat st;
    if (!is_ready())
        skip();
    snprintf(path, sizeof path, "%s/jobs", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/jobs/5", s.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(target, sizeof target, "%s/secret", s.folder);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(path, sizeof path, "%s/jobs/5/work", s.folder);
    assert_int_equal(symlink(target, path), 0);
    ask_as(s.firnd, "start " MEMBER " 5 1 0123456789abcdef\n", 34, answer);
    assert_non_null(strstr(answer, "no cannot give its folders"));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_uid, 0);
    unlink(path);
    rmdir(target);
    snprintf(path, sizeof path, "%s/jobs/5", s.folder);
    rmdir(path);
    snprintf(path, sizeof path, "%s/jobs", s.folder);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            firnd_gets_jobs_of_members_and_no_others, start, stop),
        cmocka_unit_test_setup_teardown(other_users_and_root_get_no_answer,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            garbage_is_refused_and_the_launcher_goes_on, start, stop),
        cmocka_unit_test_setup_teardown(
            a_link_in_place_of_a_folder_is_not_given_away, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
