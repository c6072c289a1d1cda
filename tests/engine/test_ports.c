/* test_ports.c - ports of an attempt: free, and held for its workers. */
#define _GNU_SOURCE
#include "engine/ports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 65534 };

/* Other tests draw too: a seed of our own, and of our children. */
static uint64_t seed(void)
{
    static uint64_t drawn;
    if (drawn == 0)
        drawn = (uint64_t)getpid() * 7919;
    return drawn;
}

/* A way to bind a port. */
struct way {
    bool is_six, is_any, is_six_only, reuses_address, reuses_port;
};

static struct way way_of(unsigned bits)
{
    return (struct way){.is_six = bits & 1,
                        .is_any = bits & 2,
                        .is_six_only = bits & 4,
                        .reuses_address = bits & 8,
                        .reuses_port = bits & 16};
}

/* A listening socket at the port, or -1. */
static int listen_by(const struct way *way, int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port)};
    if (!way->is_any) {
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        six.sin6_addr = in6addr_loopback;
    }
    int on = 1, only = way->is_six_only;
    int fd = socket(way->is_six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    if (way->is_six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (way->reuses_address)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (way->reuses_port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    int code = way->is_six ? bind(fd, (struct sockaddr *)&six, sizeof six)
                           : bind(fd, (struct sockaddr *)&four, sizeof four);
    if (code == 0 && listen(fd, 1) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Whether some way that `allowed` picks listens at the port. */
static bool can_listen(int port, bool (*allowed)(const struct way *))
{
    bool can = false;
    for (unsigned bits = 0; bits < 32; bits++) {
        struct way way = way_of(bits);
        int fd = allowed(&way) ? listen_by(&way, port) : -1;
        if (fd >= 0) {
            print_message("port %d: bound by way %u\n", port, bits);
            close(fd);
            can = true;
        }
    }
    return can;
}

static bool any(const struct way *way)
{
    (void)way;
    return true;
}

/* The kernel lets SO_REUSEPORT share a port within one user only: any other
 * user is no better off than one that does not set it. */
static bool without_reuseport(const struct way *way)
{
    return !way->reuses_port;
}

static void held_ports_are_not_given_out_again(void **state)
{
    (void)state;
    struct ports a, b;
    assert_true(ports_hold(&a, seed()));
    assert_true(ports_hold(&b, seed()));
    assert_true(b.first >= a.first + PORTS_HELD ||
                a.first >= b.first + PORTS_HELD);
    assert_in_range(a.first, 10000, 29996);
    assert_in_range(b.first, 10000, 29996);
    ports_release(&a);
    ports_release(&b);
}

static void ports_are_free_again_when_their_process_ends(void **state)
{
    (void)state;
    int ends[2], port = 0, status = 0;
    struct ports ports;
    assert_int_equal(pipe(ends), 0);
    (void)seed();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!ports_hold(&ports, seed()))
            _exit(2);
        _exit(write(ends[1], &ports.first, sizeof port) != sizeof port);
    }
    assert_int_equal(read(ends[0], &port, sizeof port), sizeof port);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    close(ends[1]);
    assert_true(ports_hold(&ports, seed()));
    assert_int_equal(ports.first, port);
    ports_release(&ports);
}

static void a_port_in_use_or_below_one_is_not_picked(void **state)
{
    (void)state;
    const struct way plain = {0};
    for (int above = 0; above < PORTS_HELD; above++) {
        struct ports ports, other;
        assert_true(ports_hold(&ports, seed()));
        int port = ports.first;
        ports_release(&ports);
        int fd = listen_by(&plain, port + above);
        assert_true(fd >= 0);
        assert_true(ports_hold(&other, seed()));
        assert_int_not_equal(other.first, port);
        ports_release(&other);
        close(fd);
    }
}

static void another_user_cannot_listen_at_a_held_port(void **state)
{
    (void)state;
    struct ports ports;
    assert_true(ports_hold(&ports, seed()));
    for (int i = 1; i < PORTS_HELD; i++)
        assert_false(can_listen(ports.first + i, without_reuseport));
    if (geteuid() != 0) {
        print_message("not root: another user was not tried\n");
        ports_release(&ports);
        return;
    }
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool could = setuid(STRANGER) != 0;
        for (int i = 1; i < PORTS_HELD; i++)
            could |= can_listen(ports.first + i, any);
        _exit(could);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ports_release(&ports);
}

static void ports_that_were_chosen_elsewhere_can_be_held_here(void **state)
{
    (void)state;
    struct ports ports, again, third;
    assert_true(ports_hold(&ports, seed()));
    ports_release(&ports);
    ports_hold_at(&again, ports.first);
    assert_int_equal(again.first, ports.first);
    assert_false(can_listen(ports.first + 1, without_reuseport));
    ports_hold_at(&third, ports.first); /* on the same host: it has them */
    for (int i = 0; i < PORTS_HELD; i++) {
        assert_true(again.held[i] >= 0);
        assert_int_equal(third.held[i], -1);
    }
    ports_release(&third);
    ports_release(&again);
}

/* As firn's trainers and as torch.distributed do. */
static void workers_can_listen_at_the_ports_that_are_held_for_them(void **state)
{
    (void)state;
    const struct way ours = {.reuses_address = true, .reuses_port = true};
    const struct way torch = {.reuses_address = true};
    struct ports ports;
    assert_true(ports_hold(&ports, seed()));
    for (int i = 0; i < PORTS_HELD; i++) {
        int fd = listen_by(i == 0 ? &torch : &ours, ports.first + i);
        assert_true(fd >= 0);
        close(fd);
    }
    ports_release(&ports);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(held_ports_are_not_given_out_again),
        cmocka_unit_test(ports_are_free_again_when_their_process_ends),
        cmocka_unit_test(a_port_in_use_or_below_one_is_not_picked),
        cmocka_unit_test(another_user_cannot_listen_at_a_held_port),
        cmocka_unit_test(ports_that_were_chosen_elsewhere_can_be_held_here),
        cmocka_unit_test(
            workers_can_listen_at_the_ports_that_are_held_for_them),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
