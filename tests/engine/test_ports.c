/* test_ports.c - ports of epochs: free, and promised to one. */
#define _GNU_SOURCE
#include "engine/ports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Other tests draw too: a seed of our own, and of our children. */
static uint64_t seed(void)
{
    static uint64_t drawn;
    if (drawn == 0)
        drawn = (uint64_t)getpid() * 7919;
    return drawn;
}

/* Who only looked whether it is free would say the same port twice. */
static void a_port_that_is_promised_is_not_given_out_again(void **state)
{
    (void)state;
    int first = -1, second = -1;
    int a = ports_pick(seed(), &first), b = ports_pick(seed(), &second);
    assert_true(first >= 0 && second >= 0);
    assert_int_not_equal(a, b);
    assert_in_range(a, 10000, 29998);
    assert_in_range(b, 10000, 29998);
    assert_int_equal(a % 2, 0);
    close(first);
    close(second);
}

static void a_promise_goes_with_its_process(void **state)
{
    (void)state;
    int promise = -1, ends[2], port = 0, status = 0;
    assert_int_equal(pipe(ends), 0);
    (void)seed();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        port = ports_pick(seed(), &promise);
        _exit(write(ends[1], &port, sizeof port) != sizeof port);
    }
    assert_int_equal(read(ends[0], &port, sizeof port), sizeof port);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(ports_pick(seed(), &promise), port);
    close(promise);
}

static int listen_on(int port)
{
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void a_port_in_use_or_below_one_is_not_picked(void **state)
{
    (void)state;
    for (int above = 0; above < 2; above++) {
        int promise = -1, other = -1;
        int port = ports_pick(seed(), &promise);
        int fd = listen_on(port + above);
        close(promise);
        assert_int_not_equal(ports_pick(seed(), &other), port);
        close(other);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_port_that_is_promised_is_not_given_out_again),
        cmocka_unit_test(a_promise_goes_with_its_process),
        cmocka_unit_test(a_port_in_use_or_below_one_is_not_picked),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
