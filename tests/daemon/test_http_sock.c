/* test_http_sock.c - sockets of a daemon that was killed while it started a
 * process: the child has them too until it comes to its own program. What it
 * is given there is a process that never does.
 */
#define _GNU_SOURCE
#include "daemon/http_sock.h"
#include "lib/folder.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct left {
    pid_t child; /* has the socket */
    int port;    /* or 0 */
};

static void fall(const char *path, int to)
{
    struct firn_error err = {0};
    struct left left = {0};
    int fd = -1;
    enum firn_status status =
        path != NULL
            ? sock_listen_path(&fd, path, NULL, &err)
            : sock_listen_address(&fd, &left.port, "127.0.0.1:0", &err);
    left.child = status == FIRN_OK ? fork() : -1;
    if (left.child == 0)
        for (;;)
            pause();
    _exit(write(to, &left, sizeof left) != sizeof left);
}

/* A daemon listens, forks and is no more; `path` NULL: on some port. */
static struct left leave_child(const char *path)
{
    struct left left = {0};
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t daemon = fork();
    assert_true(daemon >= 0);
    if (daemon == 0)
        fall(path, ends[1]);
    assert_int_equal(read(ends[0], &left, sizeof left), sizeof left);
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    assert_true(left.child > 0);
    close(ends[0]);
    close(ends[1]);
    return left;
}

static bool is_answered(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool is = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is;
}

static void a_child_of_a_killed_daemon_is_no_daemon(void **state)
{
    (void)state;
    char path[300];
    struct firn_error err = {0};
    int fd = -1;
    snprintf(path, sizeof path, "%s/sock", folder_path());
    struct left left = leave_child(path);
    assert_true(is_answered(path)); /* by the kernel alone */
    enum firn_status status = sock_listen_path(&fd, path, NULL, &err);
    kill(left.child, SIGKILL);
    if (status != FIRN_OK)
        fail_msg("%s", err.text);
    assert_true(is_answered(path));
    close(fd);
    sock_unlink(path);
}

/* A dead daemon whose child dies shortly after another daemon wants its port.
 */
static enum firn_status come_for_port(struct firn_error *err)
{
    char address[40];
    int fd = -1, port = 0;
    struct left left = leave_child(NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", left.port);
    pid_t killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        usleep(100000);
        _exit(kill(left.child, SIGKILL) != 0);
    }
    enum firn_status status = sock_listen_address(&fd, &port, address, err);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    if (status != FIRN_OK)
        return status;
    assert_int_equal(port, left.port);
    close(fd);
    return FIRN_OK;
}

/* Where the killer is kept waiting for longer than the moment, another try
 * begins from nothing. */
static void a_port_is_waited_for_a_moment(void **state)
{
    (void)state;
    struct firn_error err = {0};
    int ntries = 0;
    while (come_for_port(&err) != FIRN_OK)
        if (++ntries == 5)
            fail_msg("%s", err.text);
}

static void a_port_in_use_is_refused(void **state)
{
    (void)state;
    char address[40];
    struct firn_error err = {0};
    int fd = -1, port = 0;
    struct left left = leave_child(NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", left.port);
    enum firn_status status = sock_listen_address(&fd, &port, address, &err);
    kill(left.child, SIGKILL);
    assert_int_equal(status, FIRN_EIO);
    assert_non_null(strstr(err.text, address));
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(a_child_of_a_killed_daemon_is_no_daemon,
                                        folder_make, folder_remove),
        cmocka_unit_test(a_port_is_waited_for_a_moment),
        cmocka_unit_test(a_port_in_use_is_refused),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
