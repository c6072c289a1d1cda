/* test_join_early.c - a switch that was prepared beside the training.
 *
 * One process, which "trains", and one that joins it, by the calls of
 * firn/join.h alone: the bridge and the new group are there before the joiner
 * is ready, and waits of an order that is given up end.
 */
#include "wire/join.h"
#include <firn/join.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 2, ELEMENTS = 50000, WORD = 0x5eed };

struct scene {
    struct firn_join_board *board;
    int fd;
    char name[64], path[64];
};

static void nap_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/* `is_far`: processes that share no memory, which meet over TCP. */
static struct scene open_scene(const char *name, bool is_far)
{
    struct scene s = {0};
    struct firn_error err = {0};
    assert_int_equal(firn_join_board_new(&s.board, &s.fd, &err), FIRN_OK);
    snprintf(s.name, sizeof s.name, "early-%s-%d", name, (int)getpid());
    snprintf(s.path, sizeof s.path, "/proc/self/fd/%d", s.fd);
    atomic_store(&s.board->is_far, is_far);
    setenv("FIRN_HOST", "127.0.0.1", 1);
    setenv("FIRN_JOIN", s.path, 1);
    unsetenv("FIRN_JOIN_ORDER");
    return s;
}

static void close_scene(struct scene *s)
{
    firn_join_board_free(s->board);
    close(s->fd);
}

static struct firn_group_config config_of(const struct scene *s)
{
    return (struct firn_group_config){.name = s->name,
                                      .nprocs = 1,
                                      .nthreads = THREADS,
                                      .nelements = ELEMENTS,
                                      .key = "0123456789abcdef0123456789abcdef"
                                             "0123456789abcdef0123456789abcdef",
                                      .timeout_s = 60};
}

/* What both do from the order to the agreement; false: something failed. */
static bool take_part(const struct scene *s, struct firn_join *join,
                      uint64_t order, bool is_new)
{
    struct firn_group_config c = config_of(s);
    struct firn_group *group = NULL;
    struct firn_error err = {0};
    uint64_t word = is_new ? 0 : WORD;
    int64_t trouble = 0;
    bool committed = false;
    if (firn_join_meet(join, order, &c, sizeof word, &err) != FIRN_OK ||
        firn_join_form(join, &c, NULL, &group, &err) != FIRN_OK)
        return false;
    firn_join_prepared(join);
    if (is_new && firn_join_ready(join, &err) != FIRN_OK)
        return false;
    while (!is_new && firn_join_due(join) == 0)
        nap_ms(1);
    firn_join_switch(join);
    bool is_good =
        firn_join_send(join, &word, sizeof word, &err) == FIRN_OK &&
        word == WORD && firn_join_max(join, &trouble, &err) == FIRN_OK &&
        trouble == 0 &&
        firn_join_agree(join, NULL, NULL, 7, &committed, &err) == FIRN_OK &&
        committed;
    firn_group_close(group);
    return is_good;
}

static pid_t start_joiner(const struct scene *s, uint64_t order)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    struct firn_join *join = NULL;
    struct firn_error err = {0};
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)order);
    setenv("FIRN_JOIN_ORDER", text, 1);
    setenv("RANK", "1", 1);
    alarm(60);
    if (firn_join_open(&join, &err) != FIRN_OK)
        _exit(2);
    _exit(take_part(s, join, order, true) ? 0 : 1);
}

static void check_switch(const char *name, bool is_far)
{
    struct scene s = open_scene(name, is_far);
    struct firn_join *join = NULL;
    struct firn_error err = {0};
    int status = -1;
    assert_int_equal(firn_join_open(&join, &err), FIRN_OK);
    assert_int_equal(firn_join_shares_memory(join), !is_far);
    firn_join_prepares(join);
    assert_int_equal(firn_join_pending(join), 0);
    uint64_t order =
        firn_join_board_order(s.board, 1, 2, (int[]){0, -1}, "", 30);
    assert_int_equal(firn_join_pending(join), order);
    assert_int_equal(firn_join_due(join), 0); /* nothing is ready */
    pid_t pid = start_joiner(&s, order);
    assert_true(take_part(&s, join, order, false));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct firn_join_told told = firn_join_board_told(s.board);
    assert_int_equal(told.state, FIRN_JOIN_STATE_DONE);
    assert_int_equal(told.step, 7);
    firn_join_close(join);
    close_scene(&s);
}

static void a_switch_finds_what_was_prepared(void **state)
{
    (void)state;
    check_switch("good", false);
}

static void a_switch_over_tcp_finds_what_was_prepared(void **state)
{
    (void)state;
    check_switch("far", true);
}

struct waiter {
    const struct scene *scene;
    struct firn_join *join;
    enum firn_status status;
    struct firn_error err;
};

/* Prepares for order 1, whose joiner never comes. */
static void *await_joiner(void *arg)
{
    struct waiter *w = arg;
    struct firn_group_config c = config_of(w->scene);
    w->status = firn_join_meet(w->join, 1, &c, 8, &w->err);
    return NULL;
}

/* `is_late`: the order is over before the thread begins. */
static void check_given_up(const char *name, bool is_far, bool is_late)
{
    struct scene s = open_scene(name, is_far);
    struct waiter w = {.scene = &s};
    struct firn_error err = {0};
    pthread_t thread;
    assert_int_equal(firn_join_open(&w.join, &err), FIRN_OK);
    firn_join_prepares(w.join);
    int from[] = {0, -1};
    assert_int_equal(firn_join_board_order(s.board, 1, 2, from, "", 30), 1);
    assert_int_equal(firn_join_pending(w.join), 1);
    if (!is_late)
        assert_int_equal(pthread_create(&thread, NULL, await_joiner, &w), 0);
    nap_ms(20); /* it waits by now, or will find the order over */
    assert_true(firn_join_board_give_up(s.board, 1));
    assert_true(firn_join_board_clear(s.board, 1));
    /* The next order is looked for while the thread still waits. */
    assert_int_equal(firn_join_board_order(s.board, 1, 2, from, "", 30), 2);
    if (is_late)
        assert_int_equal(pthread_create(&thread, NULL, await_joiner, &w), 0);
    else
        assert_int_equal(firn_join_due(w.join), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w.status, FIRN_EIO);
    assert_non_null(strstr(w.err.text, "given up"));
    firn_join_drop(w.join);
    assert_int_equal(firn_join_pending(w.join), 2);
    firn_join_close(w.join);
    close_scene(&s);
}

static void waits_end_when_the_order_is_given_up(void **state)
{
    (void)state;
    check_given_up("given-up", false, false);
    check_given_up("late", false, true);
}

static void waits_over_tcp_end_when_the_order_is_given_up(void **state)
{
    (void)state;
    check_given_up("far-given-up", true, false);
    check_given_up("far-late", true, true);
}

static void an_order_is_withdrawn_before_the_switch_once(void **state)
{
    struct scene s = open_scene("withdrawn", false);
    struct firn_join *join = NULL;
    struct firn_error err = {0};
    (void)state;
    assert_int_equal(firn_join_open(&join, &err), FIRN_OK);
    int from[] = {0, -1};
    assert_int_equal(firn_join_board_order(s.board, 1, 2, from, "", 30), 1);
    firn_join_withdraw(join, 1, "no memory");
    firn_join_withdraw(join, 1, "another reason"); /* it is over */
    struct firn_join_told told = firn_join_board_told(s.board);
    assert_int_equal(told.state, FIRN_JOIN_STATE_FAILED);
    assert_string_equal(told.why, "no memory");
    firn_join_close(join);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_switch_finds_what_was_prepared),
        cmocka_unit_test(a_switch_over_tcp_finds_what_was_prepared),
        cmocka_unit_test(waits_end_when_the_order_is_given_up),
        cmocka_unit_test(waits_over_tcp_end_when_the_order_is_given_up),
        cmocka_unit_test(an_order_is_withdrawn_before_the_switch_once),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
