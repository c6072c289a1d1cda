/* test_group_meet.c - leaders of a group, among thieves and crowds.
 *
 * Strangers listen where a leader is expected, call where members are expected,
 * replay what they recorded and send back what they hear. Members meet all the
 * same, and nothing that is of use to others is sent.
 */
#define _GNU_SOURCE
#include "engine/ports.h"
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "train/groupwork.h"
#include <errno.h>
#include <fcntl.h>
#include <firn/train.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEEN = 4096, LOOKS = 6000, STRANGER = 65534 };
static const char other_key[] = "ff112233445566778899aabbccddeeff"
                                "fedcba9876543210a5a5a5a50f0f0f0f";

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < LOOKS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        FORKS_CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        firn_grp_nap(0.01);
    }
    FORKS_CHECK(false);
    return -1;
}

/* --- a thief at the port ------------------------------------------------- */

struct seen {
    unsigned char at[SEEN];
    size_t n;
};

static bool has_seen(const struct seen *seen, const void *what, size_t n)
{
    return memmem(seen->at, seen->n, what, n) != NULL;
}

/* Listens at the port; takes `ncalls` calls, each for as long as bytes come,
 * and sends all of them back where it `reflects`. */
static void steal(int listener, int ncalls, bool reflects, struct seen *seen)
{
    for (int i = 0; i < ncalls; i++) {
        int fd = accept(listener, NULL, NULL);
        struct timeval wait = {.tv_usec = 100000};
        assert_true(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        ssize_t n;
        while (seen->n < SEEN &&
               (n = recv(fd, seen->at + seen->n, SEEN - seen->n, 0)) > 0) {
            if (reflects)
                send(fd, seen->at + seen->n, (size_t)n, MSG_NOSIGNAL);
            seen->n += (size_t)n;
        }
        close(fd);
    }
}

/* A trainer as the scheduler starts it, on another host than process 0. */
static int trainer(int port)
{
    struct firn_train *train = NULL;
    size_t layer_start[] = {0, 4};
    struct firn_train_config config = {.name = "toy",
                                       .nlayers = 1,
                                       .layer_start = layer_start,
                                       .nepochs = 1,
                                       .steps_per_epoch = 1};
    struct firn_error err = {0};
    char text[16];
    snprintf(text, sizeof text, "%d", port - 1);
    setenv("MASTER_PORT", text, 1);
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("FIRN_TOKEN", "the-token-of-the-job", 1);
    setenv("FIRN_GROUP_KEY", groupscene_key, 1);
    enum firn_status status = firn_train_open(&train, &config, &err);
    fprintf(stderr, "%d: %s\n", (int)status, err.text);
    return 1;
}

static void a_thief_at_the_port_sees_neither_token_nor_key(void **state)
{
    (void)state;
    unsigned char raw[GRP_KEY];
    assert_true(firn_grp_key_read(raw, groupscene_key));
    for (int reflects = 0; reflects < 2; reflects++) {
        static struct seen seen;
        int port = forks_free_port();
        int listener = firn_grp_listen("127.0.0.1", port);
        assert_true(listener >= 0);
        fcntl(listener, F_SETFL, 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(trainer(port));
        seen.n = 0;
        steal(listener, 2, reflects, &seen);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(listener);
        assert_true(seen.n > 0);
        assert_false(has_seen(&seen, "the-token-of-the-job", 20));
        assert_false(has_seen(&seen, raw, sizeof raw));
        assert_false(has_seen(&seen, groupscene_key, 64));
        for (size_t i = 0; i + 8 <= sizeof raw; i += 8) /* nor a part of it */
            assert_false(has_seen(&seen, raw + i, 8));
    }
}

/* --- strangers who call -------------------------------------------------- */

static const struct grp_claim some_claim = {1, 11, 12, 2, 1, 1, 4000, 5000};

enum { IDLE = 400, SLOW = 40, WRONG = 40 };
static int crowd_is_there[2];

/* Calls without waiting until the call is taken. */
static int call_at(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FORKS_CHECK(fd >= 0);
    FORKS_CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ||
                errno == EINPROGRESS);
    return fd;
}

/* Calls with another key, as far as the handshake goes. */
static int call_with_another_key(int port)
{
    unsigned char key[GRP_KEY];
    struct grp_shake s;
    FORKS_CHECK(firn_grp_key_read(key, other_key));
    int fd = call_at(port);
    struct shake_out out = firn_grp_shake_call(&s, key, &some_claim);
    send(fd, out.at, out.n, MSG_NOSIGNAL);
    return fd;
}

/* Rank 2 is no member but a crowd; process 1 comes when all of it is there. It
 * stays until process 0 no longer listens. */
static int crowd_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    char byte = 'x';
    if (rank == 1)
        FORKS_CHECK(read(crowd_is_there[0], &byte, 1) == 1);
    if (rank < 2) {
        double since_s = firn_grp_now_s();
        struct firn_group *g = groupscene_open(s, rank);
        double met_s = firn_grp_now_s() - since_s;
        fprintf(stderr, "process %d: met after %.3f s\n", rank, met_s);
        FORKS_CHECK(met_s < 20); /* it takes milliseconds */
        firn_group_close(g);
        return 0;
    }
    int slow[SLOW], first = connect_to(s->port);
    for (int i = 1; i < IDLE; i++)
        (void)call_at(s->port);
    for (int i = 0; i < WRONG; i++)
        (void)call_with_another_key(s->port);
    for (int i = 0; i < SLOW; i++)
        slow[i] = call_at(s->port);
    FORKS_CHECK(write(crowd_is_there[1], &byte, 1) == 1);
    for (int turn = 0; turn < SHAKE_HELLO_BYTES; turn++) {
        for (int i = 0; i < SLOW; i++)
            send(slow[i], &byte, 1, MSG_NOSIGNAL);
        firn_grp_nap(0.005);
    }
    while (recv(first, &byte, 1, 0) > 0)
        ;
    return 0;
}

/* Rank 2 calls as fast as it can, with another key and without a word by turns,
 * until process 0 no longer listens. */
static int flood_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    int fd[IDLE], first = rank == 2 ? connect_to(s->port) : -1;
    char byte = 'x';
    if (rank < 2)
        return crowd_body(rank, arg);
    for (int i = 0; i < IDLE; i++)
        fd[i] = -1;
    for (int i = 0;; i++) {
        int *at = &fd[i % IDLE];
        if (*at >= 0)
            close(*at);
        *at = i % 2 == 0 ? call_at(s->port) : call_with_another_key(s->port);
        if (i == IDLE)
            FORKS_CHECK(write(crowd_is_there[1], &byte, 1) == 1);
        if (i > IDLE && i % 64 == 0) { /* still there? */
            int probe = socket(AF_INET, SOCK_STREAM, 0);
            struct sockaddr_in there = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)s->port)};
            there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            if (connect(probe, (struct sockaddr *)&there, sizeof there) != 0)
                break;
            close(probe);
        }
    }
    close(first);
    return 0;
}

static void a_flood_of_callers_does_not_keep_a_group_apart(void **state)
{
    (void)state;
    int nfloods = getenv("FIRN_SOAK") != NULL ? 500 : 1;
    for (int i = 0; i < nfloods; i++) {
        struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
        assert_int_equal(pipe(crowd_is_there), 0);
        forks_run_well(3, flood_body, &s);
        close(crowd_is_there[0]);
        close(crowd_is_there[1]);
    }
}

static void a_crowd_of_callers_does_not_delay_a_group(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
    assert_int_equal(pipe(crowd_is_there), 0);
    forks_run_well(3, crowd_body, &s);
    close(crowd_is_there[0]);
    close(crowd_is_there[1]);
}

/* --- members that do not fit --------------------------------------------- */

enum unlike { OTHER_KEY, OTHER_WORLD, OTHER_NAME, OTHER_SHAPE, UNLIKES };

static const char *const unlike_text[UNLIKES] = {
    [OTHER_KEY] = "does not have this group's key: FIRN_GROUP_KEY differs",
    [OTHER_WORLD] = "refuses this host: its group has 3 processes",
    [OTHER_NAME] = "refuses this host: it is of another group",
    [OTHER_SHAPE] = "refuses this host: process 1 was set up otherwise"};

/* Process 1, configured differently from process 0. */
static int unlike_body(int rank, void *arg)
{
    struct groupscene s = *(const struct groupscene *)arg;
    enum unlike unlike = (enum unlike)s.victim;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    (void)rank;
    if (unlike == OTHER_WORLD) {
        s.nprocs = s.nthreads = s.nhosts = 3;
        s.owner[2] = 2;
        s.host_procs[2] = 1;
    } else if (unlike == OTHER_NAME) {
        s.name[0] = 'x';
    } else if (unlike == OTHER_SHAPE) {
        s.nthreads++;
        s.owner[2] = 1;
    }
    double since_s = firn_grp_now_s();
    if (unlike == OTHER_KEY) /* it calls again while its time lasts */
        for (s.timeout_s = 0.5; s.timeout_s < 100; s.timeout_s *= 4) {
            FORKS_CHECK(groupscene_try(&g, &s, 1, &err) == FIRN_EIO);
            if (strstr(err.text, unlike_text[unlike]) != NULL)
                return 0;
        }
    FORKS_CHECK(groupscene_try(&g, &s, 1, &err) == FIRN_EIO);
    if (strstr(err.text, unlike_text[unlike]) == NULL)
        fprintf(stderr, "%s\n", err.text);
    FORKS_CHECK(strstr(err.text, unlike_text[unlike]) != NULL);
    FORKS_CHECK(firn_grp_now_s() - since_s < s.timeout_s / 2);
    return 0;
}

static int leader_body(const struct groupscene *s)
{
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    groupscene_try(&g, s, 0, &err);
    return 1;
}

static void a_member_with_a_wrong_rank_learns_the_reason(void **state)
{
    (void)state;
    for (int unlike = 0; unlike < UNLIKES; unlike++) {
        struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
        s.victim = unlike;
        if (unlike == OTHER_KEY)
            s.other_key = other_key;
        pid_t leader = fork();
        assert_true(leader >= 0);
        if (leader == 0)
            _exit(leader_body(&s));
        int fd = connect_to(s.port); /* it listens */
        forks_run_well(1, unlike_body, &s);
        kill(leader, SIGKILL);
        assert_int_equal(waitpid(leader, NULL, 0), leader);
        close(fd);
    }
}

static int awaiting_body(int rank, void *arg)
{
    struct groupscene s = *(const struct groupscene *)arg;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    s.timeout_s = 1;
    FORKS_CHECK(groupscene_try(&g, &s, rank, &err) == FIRN_EIO);
    if (rank == 0)
        FORKS_CHECK(strstr(err.text, "process 1 did not come for 1 s") != NULL);
    return 0;
}

static void process_0_names_the_one_that_did_not_prove_its_key(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
    s.other_key = other_key;
    forks_run_well(2, awaiting_body, &s);
}

static void several_hosts_need_a_key_and_one_host_does_not(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        NULL,
        "",
        "0011",
        "a token",
        "x0112233445566778899aabbccddeefffedcba9876543210a5a5a5a50f0f0f0f",
        "00112233445566778899aabbccddeefffedcba9876543210a5a5a5a50f0f0f0f0"};
    struct groupscene s = groupscene_on(groupscene_of(2, 2, NULL), 1, 1, 0);
    struct firn_group *g = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_error err = {0};
        s.key = wrong[i];
        assert_int_equal(groupscene_try(&g, &s, 1, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "FIRN_GROUP_KEY"));
        if (i == 0)
            assert_non_null(strstr(err.text, "openssl rand -hex 32"));
    }
    struct groupscene here = groupscene_of(2, 2, NULL); /* it gives no key */
    forks_run_well(2, groupscene_equal, &here);
}

/* As the scheduler holds the port for a trainer of the same user. */
static void a_group_meets_at_a_port_that_is_held_for_it(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(3, 3, NULL), 1, 1, 1);
    struct ports ports;
    assert_true(ports_hold(&ports, (uint64_t)getpid() * 6007));
    s.port = ports.first + 1;
    forks_run_well(3, groupscene_equal, &s);
    snprintf(s.name, sizeof s.name, "again-%d", (int)getpid());
    forks_run_well(3, groupscene_equal, &s); /* an attempt may meet twice */
    ports_release(&ports);
}

/* --- shared memory of another user
 * --------------------------------------------
 */

struct mark {
    char name[GRP_NAME];
    uint64_t shape;
    size_t control_bytes;
};
static int marks[2]; /* a pipe */

static int marking_body(int rank, void *arg)
{
    struct firn_group *g = groupscene_open(arg, rank);
    struct mark mark = {.shape = g->shape, .control_bytes = g->control_bytes};
    memcpy(mark.name, g->shm_name, sizeof mark.name);
    if (rank == 0)
        FORKS_CHECK(write(marks[1], &mark, sizeof mark) == sizeof mark);
    firn_group_close(g);
    return 0;
}

/* Memory such as a leader makes, open to all. */
static struct grp_control *forge(const struct mark *mark)
{
    umask(0);
    int fd = shm_open(mark->name, O_CREAT | O_EXCL | O_RDWR, 0666);
    FORKS_CHECK(fd >= 0 && ftruncate(fd, (off_t)mark->control_bytes) == 0);
    struct grp_control *control = mmap(
        NULL, mark->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    FORKS_CHECK(control != MAP_FAILED);
    close(fd);
    control->magic = 0x316d656d70726766;
    control->shape = mark->shape;
    atomic_store(&control->proc[0].pid, (int64_t)getpid());
    atomic_store(&control->ready, 1);
    return control;
}

/* Rank 0 is the other user, rank 1 is process 1 of the group. */
static int forged_body(int rank, void *arg)
{
    struct groupscene s = *(const struct groupscene *)arg;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    struct mark mark = {0}, over = {0};
    char byte = 'x';
    if (rank == 1) {
        FORKS_CHECK(read(crowd_is_there[0], &byte, 1) == 1);
        s.timeout_s = 0.5;
        FORKS_CHECK(groupscene_try(&g, &s, 1, &err) == FIRN_EIO);
        FORKS_CHECK(strstr(err.text, "process 0 did not come") != NULL);
        FORKS_CHECK(write(marks[1], &over, sizeof over) == sizeof over);
        return 0;
    }
    FORKS_CHECK(read(marks[0], &mark, sizeof mark) == sizeof mark);
    FORKS_CHECK(setuid(STRANGER) == 0);
    struct grp_control *control = forge(&mark);
    FORKS_CHECK(write(crowd_is_there[1], &byte, 1) == 1);
    FORKS_CHECK(read(marks[0], &over, sizeof over) == sizeof over);
    FORKS_CHECK(shm_unlink(mark.name) == 0 || errno == ENOENT);
    FORKS_CHECK(atomic_load(&control->proc[1].pid) == 0);
    return 0;
}

static void shared_memory_of_another_user_is_not_opened(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: no other user can be tried\n");
        skip();
    }
    struct groupscene s = groupscene_of(2, 2, NULL);
    assert_int_equal(pipe(marks), 0);
    assert_int_equal(pipe(crowd_is_there), 0);
    forks_run_well(2, marking_body, &s);
    forks_run_well(2, forged_body, &s);
    for (int i = 0; i < 2; i++) {
        close(marks[i]);
        close(crowd_is_there[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thief_at_the_port_sees_neither_token_nor_key),
        cmocka_unit_test(a_crowd_of_callers_does_not_delay_a_group),
        cmocka_unit_test(a_flood_of_callers_does_not_keep_a_group_apart),
        cmocka_unit_test(a_member_with_a_wrong_rank_learns_the_reason),
        cmocka_unit_test(process_0_names_the_one_that_did_not_prove_its_key),
        cmocka_unit_test(several_hosts_need_a_key_and_one_host_does_not),
        cmocka_unit_test(a_group_meets_at_a_port_that_is_held_for_it),
        cmocka_unit_test(shared_memory_of_another_user_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
