/* forks.c - see forks.h.
 */
#include "lib/forks.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 64 };

void forks_check_(bool fact, const char *text, const char *file, int line)
{
    if (fact)
        return;
    fprintf(stderr, "%s:%d: process %d: not so: %s\n", file, line,
            (int)getpid(), text);
    _exit(1);
}

void forks_run(int n, forks_body *body, void *arg, int *status)
{
    pid_t pid[MOST];
    assert_true(n <= MOST);
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(body(i, arg));
    }
    for (int i = 0; i < n; i++) {
        int how = 0;
        assert_int_equal(waitpid(pid[i], &how, 0), pid[i]);
        status[i] = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    }
}

void forks_run_well(int n, forks_body *body, void *arg)
{
    int status[MOST] = {0};
    forks_run(n, body, arg, status);
    for (int i = 0; i < n; i++)
        assert_int_equal(status[i], 0);
}

int forks_free_port(void)
{
    static int held = -1;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    if (held >= 0)
        close(held);
    held = fd;
    return ntohs(at.sin_port);
}
