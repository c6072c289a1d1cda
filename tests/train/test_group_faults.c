/* test_group_faults.c - groups whose members die, fall silent or are strangers.
 */
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "train/groupwork.h"
#include <arpa/inet.h>
#include <dirent.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- peers that fail --------------------------------------------------------
 */

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
    FORKS_CHECK(firn_grp_now_s() - since_s < 4);
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
    lose(groupscene_on(groupscene_of(4, 4, NULL), 2, 2, 0), 3);
    lose(groupscene_on(groupscene_of(4, 4, NULL), 2, 2, 0), 2);
}

static int silent_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N];
    if (rank == 1) {
        firn_grp_nap(s->timeout_s * 2);
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
    s.timeout_s = 0.15;
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
    FORKS_CHECK(strstr(err.text, "did not come") != NULL ||
                strstr(err.text, "not let") != NULL);
    FORKS_CHECK(g == NULL);
    return 0;
}

static void peers_that_do_not_come_and_wrong_tokens_are_refused(void **state)
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
    far.other_token = "another";
    forks_run_well(3, absent_body, &far);
}

/* --- strangers and leftovers ------------------------------------------------
 */

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        FORKS_CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        firn_grp_nap(0.002);
    }
    return -1;
}

/* Rank 2 is no member: it is silent on one line, tells nonsense on others. */
static int stranger_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    if (rank < 2) {
        if (rank == 1)
            firn_grp_nap(0.05);
        return groupscene_equal(rank, arg);
    }
    char junk[600];
    memset(junk, 'x', sizeof junk);
    int fd = connect_to(s->port);
    FORKS_CHECK(fd >= 0);
    for (int i = 0; i < 3; i++) {
        int other = connect_to(s->port);
        if (other < 0)
            break;
        memcpy(junk, "firngrp1", i == 0 ? 0 : 8);
        send(other, junk, i == 2 ? 20 : sizeof junk, MSG_NOSIGNAL);
        close(other);
    }
    firn_grp_nap(0.05);
    close(fd);
    return 0;
}

static void strangers_do_not_disturb_a_meeting(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
    forks_run_well(3, stranger_body, &s);
}

static int nameless_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    FORKS_CHECK(shm_open(g->shm_name, O_RDWR, 0) < 0 && errno == ENOENT);
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

static bool has_leftover(void)
{
    DIR *dir = opendir("/dev/shm");
    bool found = dir == NULL; /* the system keeps them elsewhere */
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        found |= strncmp(e->d_name, "firn-", 5) == 0;
    if (dir != NULL)
        closedir(dir);
    return found;
}

static void nothing_has_a_name_and_leftovers_do_no_harm(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(3, 3, NULL);
    forks_run_well(3, nameless_body, &s);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(stuck_body(0, &s));
    firn_grp_nap(0.05);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(has_leftover());
    forks_run_well(3, nameless_body, &s);
    forks_run_well(3, groupscene_equal, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_peer_is_named_by_all_the_others),
        cmocka_unit_test(a_silent_peer_and_one_that_leaves_are_named),
        cmocka_unit_test(peers_that_do_not_come_and_wrong_tokens_are_refused),
        cmocka_unit_test(strangers_do_not_disturb_a_meeting),
        cmocka_unit_test(nothing_has_a_name_and_leftovers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
