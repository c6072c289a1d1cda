/* test_group_faults.c - groups whose members die, fall silent or are strangers.
 */
#define _GNU_SOURCE
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "train/groupwork.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- peers that fail ----------------------------------------------------- */

static int victim_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N];
    FORKS_CHECK(groupscene_step(g, s, 0, out, &err) == FIRN_OK);
    if (rank == s->victim)
        raise(SIGKILL);
    double since_s = firn_grp_now_s();
    FORKS_CHECK(groupscene_step(g, s, 1, out, &err) == FIRN_EIO);
    FORKS_CHECK(firn_grp_now_s() - since_s < s->timeout_s / 2);
    char want[32];
    snprintf(want, sizeof want, "process %d ", s->victim);
    if (strstr(err.text, want) == NULL)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    FORKS_CHECK(strstr(err.text, want) != NULL);
    int64_t value = 0;
    FORKS_CHECK(firn_group_max(g, &value, &err) == FIRN_EIO);
    firn_group_close(g);
    return 0;
}

static void lose(struct groupscene s, int victim)
{
    int status[8];
    s.victim = victim;
    forks_run(s.nprocs, victim_body, &s, status);
    for (int r = 0; r < s.nprocs; r++)
        assert_int_equal(status[r], r == victim ? 128 + SIGKILL : 0);
}

static void a_killed_peer_is_named_by_all_the_others(void **state)
{
    (void)state;
    struct groupscene here = groupscene_of(3, 4, NULL);
    lose(here, 0);
    lose(here, 2);
    here.chain = true;
    lose(here, 1);
    here.sum = FIRN_SUM_CHAIN;
    lose(here, 1);
    lose(groupscene_on(groupscene_of(4, 4, NULL), 2, 2, 0), 3);
    lose(groupscene_on(groupscene_of(4, 4, NULL), 2, 2, 0), 2);
}

/* Opening has all the time it needs; patience ends behind it. */
static int silent_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N];
    g->timeout_s = 0.2;
    if (rank == 1) {
        for (int i = 0; i < 6000 && firn_grp_sound(g, &err) == FIRN_OK; i++)
            firn_grp_nap(0.01);
        FORKS_CHECK(groupscene_step(g, s, 0, out, &err) == FIRN_EIO);
    } else {
        FORKS_CHECK(groupscene_step(g, s, 0, out, &err) == FIRN_EIO);
        FORKS_CHECK(strstr(err.text, "process 1 was silent") != NULL);
    }
    firn_group_close(g);
    return 0;
}

static int leaving_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N];
    if (rank != 1) {
        FORKS_CHECK(groupscene_step(g, s, 0, out, &err) == FIRN_EIO);
        FORKS_CHECK(strstr(err.text, "process 1 has left") != NULL);
    }
    firn_group_close(g);
    return 0;
}

static void a_silent_peer_and_one_that_leaves_are_named(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(2, 2, NULL);
    forks_run_well(2, leaving_body, &s);
    forks_run_well(2, silent_body, &s);
}

static int absent_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    if (rank == s->victim)
        return 0;
    FORKS_CHECK(groupscene_try(&g, s, rank, &err) == FIRN_EIO);
    /* Who has no leader on its host any more, or a slow one, says the last. */
    FORKS_CHECK(strstr(err.text, "did not come") != NULL ||
                strstr(err.text, "not have this group's key") != NULL ||
                (s->nhosts > 1 && strstr(err.text, "was silent") != NULL));
    FORKS_CHECK(g == NULL);
    return 0;
}

static void peers_that_do_not_come_and_wrong_keys_are_refused(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(2, 2, NULL);
    s.timeout_s = 0.1;
    s.victim = 1;
    forks_run_well(2, absent_body, &s);
    s.victim = 0;
    forks_run_well(2, absent_body, &s);
    struct groupscene far = groupscene_on(groupscene_of(3, 3, NULL), 1, 2, 0);
    far.timeout_s = 0.2;
    far.other_key = "f0112233445566778899aabbccddeeff"
                    "fedcba9876543210a5a5a5a50f0f0f0f";
    forks_run_well(3, absent_body, &far);
}

static int other_shape_body(int rank, void *arg)
{
    struct groupscene s = *(const struct groupscene *)arg;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    s.nthreads += rank == 1;
    s.owner[s.nthreads - 1] = 1;
    FORKS_CHECK(groupscene_try(&g, &s, rank, &err) != FIRN_OK);
    FORKS_CHECK(strstr(err.text, "process 1 was set up otherwise") != NULL);
    return 0;
}

static void a_process_that_was_set_up_otherwise_is_named_at_once(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(2, 2, NULL);
    double since_s = firn_grp_now_s();
    forks_run_well(2, other_shape_body, &s);
    assert_true(firn_grp_now_s() - since_s < s.timeout_s / 2);
}

/* --- one that came and left ---------------------------------------------- */

static pid_t peer; /* the peer that is looked for; 0: none */
static int calls[2];

/* Instead of libc's, by which a group looks whether a process is there: just
 * then the peer comes, has all it wants, and ends; or it leaves without. */
int kill(pid_t pid, int number)
{
    siginfo_t info;
    if (number == 0 && peer > 0 && pid == peer) {
        peer = 0;
        FORKS_CHECK(write(calls[1], "x", 1) == 1);
        FORKS_CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    }
    return (int)syscall(SYS_kill, pid, number);
}

static int late_body(const struct groupscene *s)
{
    char word[] = "word", byte;
    struct firn_group *g = groupscene_open(s, 1);
    FORKS_CHECK(read(calls[0], &byte, 1) == 1);
    if (s->victim != 1)
        FORKS_CHECK(firn_group_bcast(g, word, sizeof word, 1, NULL) == FIRN_OK);
    firn_group_close(g);
    return 0;
}

static int waiting_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    char word[5] = "";
    int how = 0;
    struct firn_error err = {0};
    FORKS_CHECK(rank == 0 && pipe(calls) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(late_body(s));
    struct firn_group *g = groupscene_open(s, 0);
    peer = pid;
    enum firn_status status = firn_group_bcast(g, word, sizeof word, 1, &err);
    if (status != FIRN_OK && s->victim != 1)
        fprintf(stderr, "%s\n", err.text);
    FORKS_CHECK(peer == 0);
    if (s->victim == 1)
        FORKS_CHECK(strstr(err.text, "process 1 has left") != NULL);
    else
        FORKS_CHECK(strcmp(word, "word") == 0 &&
                    firn_grp_sound(g, &err) == FIRN_OK);
    FORKS_CHECK(waitpid(pid, &how, 0) == pid && how == 0);
    firn_group_close(g);
    return 0;
}

static void a_peer_that_came_and_left_during_a_look_has_come(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(2, 2, NULL);
    forks_run_well(1, waiting_body, &s);
}

static void a_peer_that_left_during_a_look_has_left(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(2, 2, NULL);
    s.victim = 1;
    forks_run_well(1, waiting_body, &s);
}

/* --- strangers and leftovers --------------------------------------------- */

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 30000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        FORKS_CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        firn_grp_nap(0.002);
    }
    return -1;
}

static int was_there[2]; /* a pipe: all strangers have called */

/* Rank 2 is no member: it is silent on one line, tells nonsense on others.
 * Process 1 comes behind it, and the silent one stays until they have met. */
static int stranger_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    char junk[600], byte = 'x';
    if (rank == 1)
        FORKS_CHECK(read(was_there[0], &byte, 1) == 1);
    if (rank < 2)
        return groupscene_equal(rank, arg);
    memset(junk, 'x', sizeof junk);
    int fd = connect_to(s->port);
    FORKS_CHECK(fd >= 0);
    for (int i = 0; i < 3; i++) {
        int other = connect_to(s->port);
        FORKS_CHECK(other >= 0);
        memcpy(junk, "firngrp1", i == 0 ? 0 : 8);
        send(other, junk, i == 2 ? 20 : sizeof junk, MSG_NOSIGNAL);
        close(other);
    }
    FORKS_CHECK(write(was_there[1], &byte, 1) == 1);
    while (recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
    return 0;
}

static void strangers_do_not_disturb_a_meeting(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
    assert_int_equal(pipe(was_there), 0);
    forks_run_well(3, stranger_body, &s);
    close(was_there[0]);
    close(was_there[1]);
}

static int tells[2]; /* a pipe: the name that the memory had */

static int nameless_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    FORKS_CHECK(shm_open(g->shm_name, O_RDWR, 0) < 0 && errno == ENOENT);
    if (rank == 0)
        FORKS_CHECK(write(tells[1], g->shm_name, GRP_NAME) == GRP_NAME);
    firn_group_close(g);
    return 0;
}

/* The leader of a start that is killed while it waits. */
static int stuck_body(int rank, void *arg)
{
    struct firn_group *g = NULL;
    struct firn_error err;
    (void)rank;
    groupscene_try(&g, arg, 0, &err);
    return 1;
}

/* Is there shared memory by the name that this scene's group has? */
static bool has_leftover(const char *name)
{
    int fd = shm_open(name, O_RDWR, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void shared_memory_has_no_name_and_leftovers_are_replaced(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(3, 3, NULL);
    char name[GRP_NAME];
    assert_int_equal(pipe(tells), 0);
    forks_run_well(3, nameless_body, &s);
    assert_int_equal(read(tells[0], name, sizeof name), sizeof name);
    assert_false(has_leftover(name));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(stuck_body(0, &s));
    for (int i = 0; i < 6000 && !has_leftover(name); i++)
        firn_grp_nap(0.01);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(has_leftover(name));
    forks_run_well(3, nameless_body, &s);
    forks_run_well(3, groupscene_equal, &s);
    close(tells[0]);
    close(tells[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_peer_is_named_by_all_the_others),
        cmocka_unit_test(a_silent_peer_and_one_that_leaves_are_named),
        cmocka_unit_test(peers_that_do_not_come_and_wrong_keys_are_refused),
        cmocka_unit_test(a_process_that_was_set_up_otherwise_is_named_at_once),
        cmocka_unit_test(a_peer_that_came_and_left_during_a_look_has_come),
        cmocka_unit_test(a_peer_that_left_during_a_look_has_left),
        cmocka_unit_test(strangers_do_not_disturb_a_meeting),
        cmocka_unit_test(shared_memory_has_no_name_and_leftovers_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
