/* test_group.c - processes that reduce gradients together.
 *
 * Each scene forks its processes; hosts are simulated by local ranks. A
 * process makes the gradients of all threads from their numbers and compares
 * what the group gives with a fold of its own, bit by bit.
 */
#include "base/rng.h"
#include "lib/forks.h"
#include "train/groupwork.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <firn/fold.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_THREADS = 8, N = 1003, STEPS = 3 };

struct scene {
    int nprocs, nthreads;
    int owner[MOST_THREADS];
    int nhosts;
    int host_procs[3]; /* processes of each, when there are several */
    bool chain;
    size_t start;
    double timeout_s;
    const char *token, *other_token; /* host 1 shows the other */
    int port, victim;
    char name[64];
};

static struct scene scene_of(int nprocs, int nthreads, const int *owner)
{
    static int nscenes;
    struct scene s = {.nprocs = nprocs, .nthreads = nthreads, .nhosts = 1};
    for (int v = 0; v < nthreads; v++)
        s.owner[v] = owner != NULL ? owner[v] : v * nprocs / nthreads;
    s.token = "a token";
    s.timeout_s = 20;
    s.victim = -1;
    snprintf(s.name, sizeof s.name, "test-%d-%d", (int)getpid(), nscenes++);
    return s;
}

static struct scene on_hosts(struct scene s, int a, int b, int c)
{
    s.nhosts = c > 0 ? 3 : 2;
    s.host_procs[0] = a;
    s.host_procs[1] = b;
    s.host_procs[2] = c;
    s.port = forks_free_port();
    return s;
}

static enum firn_status open_as(struct firn_group **g, const struct scene *s,
                                int rank, struct firn_error *err)
{
    struct firn_group_config c = {.name = s->name,
                                  .rank = rank,
                                  .nprocs = s->nprocs,
                                  .nthreads = s->nthreads,
                                  .owner = s->owner,
                                  .nelements = N,
                                  .chain = s->chain,
                                  .timeout_s = s->timeout_s};
    int host = 0, first = 0;
    while (s->nhosts > 1 && rank >= first + s->host_procs[host])
        first += s->host_procs[host++];
    if (s->nhosts > 1) {
        c.local_rank = rank - first;
        c.local_nprocs = s->host_procs[host];
        c.address = "127.0.0.1";
        c.port = s->port;
        c.token = host == 1 && s->other_token ? s->other_token : s->token;
    }
    return firn_group_open(g, &c, err);
}

static struct firn_group *opened(const struct scene *s, int rank)
{
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    enum firn_status status = open_as(&g, s, rank, &err);
    if (status != FIRN_OK)
        fprintf(stderr, "process %d: %s\n", rank, err.text);
    FORKS_CHECK(status == FIRN_OK);
    return g;
}

/* Numbers of very different sizes, so that the order of a sum shows. */
static void draw(float *grad, int thread, int step)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)(thread * 1000 + step));
    for (size_t i = 0; i < N; i++) {
        double scale = (double)(1 << rng_below(&rng, 20));
        grad[i] = (float)((rng_unit(&rng) - 0.5) * scale);
    }
}

static void fold_here(float *out, int nthreads, int step)
{
    static float grad[MOST_THREADS][N];
    const float *in[MOST_THREADS];
    for (int v = 0; v < nthreads; v++) {
        draw(grad[v], v, step);
        in[v] = grad[v];
    }
    firn_fold_f32(out, in, (size_t)nthreads, N, (float)nthreads);
}

/* One step: puts by slot or by copy, by turns. */
static enum firn_status reduce_step(struct firn_group *g, const struct scene *s,
                                    int step, float *out,
                                    struct firn_error *err)
{
    static float grad[N];
    const int *threads;
    size_t n = firn_group_threads(g, &threads);
    for (size_t i = 0; i < n; i++) {
        float *slot = firn_group_slot(g, threads[i]);
        float *at = slot != NULL && step % 2 == 0 ? slot : grad;
        draw(at, threads[i], step);
        FIRN_TRY(firn_group_put(g, threads[i], at, s->start, err));
    }
    return firn_group_reduce(g, out, s->start, (float)s->nthreads, err);
}

static int equal_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    struct firn_error err = {0};
    float out[N], want[N];
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < N; i++)
            out[i] = -7;
        enum firn_status status = reduce_step(g, s, step, out, &err);
        if (status != FIRN_OK)
            fprintf(stderr, "process %d: %s\n", rank, err.text);
        FORKS_CHECK(status == FIRN_OK);
        fold_here(want, s->nthreads, step);
        for (size_t i = 0; i < s->start; i++)
            want[i] = -7;
        FORKS_CHECK(memcmp(out, want, sizeof out) == 0);
    }
    firn_group_close(g);
    return 0;
}

static void every_placement_gives_the_bits_of_one_fold(void **state)
{
    (void)state;
    for (int p = 1; p <= 5; p++) {
        struct scene even = scene_of(p, p < 4 ? 4 : MOST_THREADS, NULL);
        forks_run_well(p, equal_body, &even);
        even.chain = true;
        forks_run_well(p, equal_body, &even);
    }
    struct scene odd[] = {
        scene_of(3, 4, (int[]){0, 1, 2, 0}),
        scene_of(3, 8, (int[]){2, 0, 1, 1, 0, 2, 2, 1}),
        scene_of(5, 8, (int[]){4, 3, 2, 1, 0, 4, 0, 2}),
        scene_of(2, 3, (int[]){1, 0, 1}),
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        forks_run_well(odd[i].nprocs, equal_body, &odd[i]);
}

static void a_chain_may_go_through_the_processes_in_any_order(void **state)
{
    (void)state;
    struct scene s = scene_of(3, 8, (int[]){2, 2, 2, 0, 0, 1, 1, 1});
    s.chain = true;
    forks_run_well(3, equal_body, &s);
}

static void several_hosts_give_the_same_bits(void **state)
{
    (void)state;
    struct scene two = on_hosts(scene_of(4, 4, NULL), 2, 2, 0);
    forks_run_well(4, equal_body, &two);
    struct scene scrambled =
        on_hosts(scene_of(5, 8, (int[]){4, 3, 2, 1, 0, 4, 0, 2}), 2, 1, 2);
    forks_run_well(5, equal_body, &scrambled);
    scrambled.start = 500;
    scrambled.port = forks_free_port();
    forks_run_well(5, equal_body, &scrambled);
    struct scene lonely = on_hosts(scene_of(3, 3, NULL), 1, 1, 1);
    forks_run_well(3, equal_body, &lonely);
}

static void a_chain_goes_from_host_to_host(void **state)
{
    (void)state;
    struct scene s = on_hosts(scene_of(4, 8, NULL), 2, 2, 0);
    s.chain = true;
    forks_run_well(4, equal_body, &s);
    /* Hosts in another order; leaders neither first nor last on theirs. */
    struct scene t =
        on_hosts(scene_of(5, 8, (int[]){3, 2, 2, 4, 1, 1, 0, 0}), 2, 3, 0);
    t.chain = true;
    forks_run_well(5, equal_body, &t);
    struct scene u = on_hosts(scene_of(3, 8, NULL), 1, 1, 1);
    u.chain = true;
    u.start = 17;
    forks_run_well(3, equal_body, &u);
}

static void random_placements_agree(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = 4711;
    rng_seed(&rng, seed);
    int nscenes = getenv("FIRN_QUICK") != NULL ? 3 : 12;
    for (int k = 0; k < nscenes; k++) {
        int p = 1 + (int)rng_below(&rng, 5);
        int v = p + (int)rng_below(&rng, (uint64_t)(MOST_THREADS - p + 1));
        int owner[MOST_THREADS];
        for (int i = 0; i < v; i++)
            owner[i] = i < p ? i : (int)rng_below(&rng, (uint64_t)p);
        for (int i = v - 1; i > 0; i--) {
            int j = (int)rng_below(&rng, (uint64_t)i + 1), was = owner[i];
            owner[i] = owner[j];
            owner[j] = was;
        }
        struct scene s = scene_of(p, v, owner);
        if (p > 1 && rng_below(&rng, 2) == 0) {
            int a = 1 + (int)rng_below(&rng, (uint64_t)p - 1);
            s = on_hosts(s, a, p - a, 0);
        }
        s.start = rng_below(&rng, N + 1);
        print_message("seed %d, scene %d: %d threads on %d, %d hosts\n",
                      (int)seed, k, v, p, s.nhosts);
        forks_run_well(p, equal_body, &s);
    }
}

/* The twin: what "sum at home, then add up" gives is another number. */
static void local_sums_that_are_added_differ(void **state)
{
    (void)state;
    float grad[4][N], want[N], got[N], half[N];
    const float *all[4];
    for (int v = 0; v < 4; v++) {
        draw(grad[v], v, 0);
        all[v] = grad[v];
    }
    firn_fold_f32(want, all, 4, N, 4);
    firn_fold_f32(got, all, 2, N, 1);
    firn_fold_f32(half, all + 2, 2, N, 1);
    const float *halves[] = {got, half};
    firn_fold_f32(got, halves, 2, N, 4);
    assert_memory_not_equal(got, want, sizeof got);
}

/* --- bytes ------------------------------------------------------------------
 */

static int bytes_body(int rank, void *arg)
{
    struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    float out[N];
    uint64_t moved[2];
    for (int k = 0; k < 2; k++) {
        uint64_t before = firn_group_bytes(g);
        s->start = k == 0 ? 0 : N - N / 17;
        FORKS_CHECK(reduce_step(g, s, 1, out, NULL) == FIRN_OK);
        moved[k] = firn_group_bytes(g) - before;
    }
    FORKS_CHECK(moved[0] > 0);
    FORKS_CHECK(moved[1] * 17 == moved[0]);
    firn_group_close(g);
    return 0;
}

static void bytes_shrink_to_the_share_that_is_not_frozen(void **state)
{
    (void)state;
    struct scene s = scene_of(2, 4, NULL);
    forks_run_well(2, bytes_body, &s);
    s.chain = true;
    forks_run_well(2, bytes_body, &s);
}

/* --- other calls ------------------------------------------------------------
 */

enum { LONG = 2 * GRP_HALF + 777 };

static unsigned char byte_at(int rank, size_t i)
{
    return (unsigned char)((size_t)rank * 31 + i * 7 + i / 251);
}

static size_t length_of(int rank)
{
    return rank == 1 ? 0 : rank == 2 ? LONG : (size_t)rank + 5;
}

static void check_gathered(const unsigned char *all, const size_t *nall, int n)
{
    for (int r = 0; r < n; r++) {
        FORKS_CHECK(nall[r] == length_of(r));
        for (size_t i = 0; i < nall[r]; i++)
            FORKS_CHECK(all[i] == byte_at(r, i));
        all += nall[r];
    }
}

static int share_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    unsigned char *data = malloc(LONG);
    FORKS_CHECK(data != NULL);
    for (int root = 0; root < s->nprocs; root++) {
        for (size_t i = 0; i < LONG; i++)
            data[i] = rank == root ? byte_at(root, i) : 0;
        FORKS_CHECK(firn_group_bcast(g, data, LONG, root, NULL) == FIRN_OK);
        for (size_t i = 0; i < LONG; i++)
            FORKS_CHECK(data[i] == byte_at(root, i));
        int64_t value = rank == root ? -3 : -100 - rank;
        FORKS_CHECK(firn_group_max(g, &value, NULL) == FIRN_OK);
        FORKS_CHECK(value == -3);
    }
    void *all = data;
    size_t nall[8];
    for (size_t i = 0; i < length_of(rank); i++)
        data[i] = byte_at(rank, i);
    FORKS_CHECK(firn_group_gather(g, data, length_of(rank), &all, nall, NULL) ==
                FIRN_OK);
    FORKS_CHECK((all != NULL) == (rank == 0));
    if (rank == 0)
        check_gathered(all, nall, s->nprocs);
    firn_group_free(all);
    free(data);
    firn_group_close(g);
    return 0;
}

static void bytes_go_from_one_to_all_and_from_all_to_one(void **state)
{
    (void)state;
    struct scene one = scene_of(1, 1, NULL), here = scene_of(3, 3, NULL);
    struct scene far = on_hosts(scene_of(4, 4, NULL), 1, 2, 1);
    forks_run_well(1, share_body, &one);
    forks_run_well(3, share_body, &here);
    forks_run_well(4, share_body, &far);
}

static int misuse_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    struct firn_error err = {0};
    float out[N] = {0};
    FORKS_CHECK(firn_group_reduce(g, out, 0, 1, &err) == FIRN_EINVAL);
    FORKS_CHECK(strstr(err.text, "was not put") != NULL);
    FORKS_CHECK(firn_group_put(g, 99, out, 0, &err) == FIRN_EINVAL);
    FORKS_CHECK(firn_group_put(g, 0, out, N + 1, &err) == FIRN_EINVAL);
    FORKS_CHECK(firn_group_slot(g, 99) == NULL);
    FORKS_CHECK(firn_group_bcast(g, out, 1, 5, &err) == FIRN_EINVAL);
    FORKS_CHECK(reduce_step(g, s, 0, out, &err) == FIRN_OK);
    firn_group_close(g);
    return 0;
}

static void misuse_is_told_and_harmless(void **state)
{
    (void)state;
    struct firn_group *g = NULL;
    struct firn_error err;
    struct scene idle = scene_of(2, 2, (int[]){0, 0});
    assert_int_equal(open_as(&g, &idle, 0, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "process 1 has no thread"));
    struct scene stray = scene_of(2, 2, (int[]){0, 2});
    assert_int_equal(open_as(&g, &stray, 0, &err), FIRN_EINVAL);
    struct scene torn = scene_of(2, 3, (int[]){0, 1, 0});
    torn.chain = true;
    assert_int_equal(open_as(&g, &torn, 0, &err), FIRN_EINVAL);
    struct scene few = scene_of(3, 2, NULL);
    assert_int_equal(open_as(&g, &few, 0, &err), FIRN_EINVAL);
    assert_null(g);
    struct scene fine = scene_of(1, 2, NULL);
    forks_run_well(1, misuse_body, &fine);
}

/* --- peers that fail --------------------------------------------------------
 */

static int victim_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    struct firn_error err = {0};
    float out[N];
    FORKS_CHECK(reduce_step(g, s, 0, out, &err) == FIRN_OK);
    if (rank == s->victim)
        raise(SIGKILL);
    double since_s = firn_grp_now_s();
    FORKS_CHECK(reduce_step(g, s, 1, out, &err) == FIRN_EIO);
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

static void lose(struct scene s, int victim)
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
    struct scene here = scene_of(3, 4, NULL);
    lose(here, 0);
    lose(here, 2);
    here.chain = true;
    lose(here, 1);
    lose(on_hosts(scene_of(4, 4, NULL), 2, 2, 0), 3);
    lose(on_hosts(scene_of(4, 4, NULL), 2, 2, 0), 2);
}

static int silent_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    struct firn_error err = {0};
    float out[N];
    if (rank == 1) {
        firn_grp_nap(s->timeout_s * 2);
        FORKS_CHECK(reduce_step(g, s, 0, out, &err) == FIRN_EIO);
    } else {
        FORKS_CHECK(reduce_step(g, s, 0, out, &err) == FIRN_EIO);
        FORKS_CHECK(strstr(err.text, "process 1 was silent") != NULL);
    }
    firn_group_close(g);
    return 0;
}

static int leaving_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
    struct firn_error err = {0};
    float out[N];
    if (rank != 1) {
        FORKS_CHECK(reduce_step(g, s, 0, out, &err) == FIRN_EIO);
        FORKS_CHECK(strstr(err.text, "process 1 has left") != NULL);
    }
    firn_group_close(g);
    return 0;
}

static void a_silent_peer_and_one_that_leaves_are_named(void **state)
{
    (void)state;
    struct scene s = scene_of(2, 2, NULL);
    forks_run_well(2, leaving_body, &s);
    s.timeout_s = 0.15;
    forks_run_well(2, silent_body, &s);
}

static int absent_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = NULL;
    struct firn_error err = {0};
    if (rank == s->victim)
        return 0;
    FORKS_CHECK(open_as(&g, s, rank, &err) == FIRN_EIO);
    FORKS_CHECK(strstr(err.text, "did not come") != NULL ||
                strstr(err.text, "not let") != NULL);
    FORKS_CHECK(g == NULL);
    return 0;
}

static void peers_that_do_not_come_and_wrong_tokens_are_refused(void **state)
{
    (void)state;
    struct scene s = scene_of(2, 2, NULL);
    s.timeout_s = 0.1;
    s.victim = 1;
    forks_run_well(2, absent_body, &s);
    s.victim = 0;
    forks_run_well(2, absent_body, &s);
    struct scene far = on_hosts(scene_of(3, 3, NULL), 1, 2, 0);
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
    const struct scene *s = arg;
    if (rank < 2) {
        if (rank == 1)
            firn_grp_nap(0.05);
        return equal_body(rank, arg);
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
    struct scene s = on_hosts(scene_of(2, 2, NULL), 1, 1, 0);
    forks_run_well(3, stranger_body, &s);
}

static int nameless_body(int rank, void *arg)
{
    const struct scene *s = arg;
    struct firn_group *g = opened(s, rank);
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
    open_as(&g, arg, 0, &err);
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
    struct scene s = scene_of(3, 3, NULL);
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
    forks_run_well(3, equal_body, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_gives_the_bits_of_one_fold),
        cmocka_unit_test(a_chain_may_go_through_the_processes_in_any_order),
        cmocka_unit_test(several_hosts_give_the_same_bits),
        cmocka_unit_test(a_chain_goes_from_host_to_host),
        cmocka_unit_test(random_placements_agree),
        cmocka_unit_test(local_sums_that_are_added_differ),
        cmocka_unit_test(bytes_shrink_to_the_share_that_is_not_frozen),
        cmocka_unit_test(bytes_go_from_one_to_all_and_from_all_to_one),
        cmocka_unit_test(misuse_is_told_and_harmless),
        cmocka_unit_test(a_killed_peer_is_named_by_all_the_others),
        cmocka_unit_test(a_silent_peer_and_one_that_leaves_are_named),
        cmocka_unit_test(peers_that_do_not_come_and_wrong_tokens_are_refused),
        cmocka_unit_test(strangers_do_not_disturb_a_meeting),
        cmocka_unit_test(nothing_has_a_name_and_leftovers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
