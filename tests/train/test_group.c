/* test_group.c - processes that reduce gradients together.
 *
 * Each scene forks its processes; hosts are simulated by local ranks. A
 * process makes the gradients of all threads from their numbers and compares
 * what the group gives with a fold of its own, bit by bit.
 */
#include "base/rng.h"
#include "lib/forks.h"
#include "lib/groupscene.h"
#include "train/groupwork.h"
#include <firn/fold.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A scene in both orders, with slots and, where it can be, little memory. */
static void run_all_ways(struct groupscene s, bool neighbours)
{
    for (int way = 0; way < 4; way++) {
        s.chain = way % 2 == 1;
        s.sum = way < 2 ? FIRN_SUM_TREE : FIRN_SUM_CHAIN;
        if (s.chain && s.sum == FIRN_SUM_CHAIN && !neighbours)
            continue;
        if (s.nhosts > 1)
            s.port = forks_free_port();
        forks_run_well(s.nprocs, groupscene_equal, &s);
    }
}

static void every_placement_gives_the_bits_of_one_fold(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int v = 6; v <= SCENE_THREADS; v++)
            if (p <= v && p != 5 && p != 7)
                run_all_ways(groupscene_of(p, v, NULL), true);
    struct groupscene odd[] = {
        groupscene_of(3, 4, (int[]){0, 1, 2, 0}),
        groupscene_of(3, 8, (int[]){2, 0, 1, 1, 0, 2, 2, 1}),
        groupscene_of(5, 8, (int[]){4, 3, 2, 1, 0, 4, 0, 2}),
        groupscene_of(2, 7, (int[]){0, 1, 1, 1, 0, 0, 0}),
        groupscene_of(2, 3, (int[]){1, 0, 1}),
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        run_all_ways(odd[i], false);
}

/* A checkpoint may say that its job sums in the other order. */
static void the_order_may_change_between_two_reductions(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(3, 8, NULL);
    for (int little = 0; little < 2; little++) {
        s.chain = little == 1;
        s.sum = FIRN_SUM_TREE;
        s.then = FIRN_SUM_CHAIN;
        forks_run_well(3, groupscene_equal, &s);
        s.sum = FIRN_SUM_CHAIN;
        s.then = FIRN_SUM_TREE;
        forks_run_well(3, groupscene_equal, &s);
    }
    struct groupscene far = groupscene_on(groupscene_of(4, 7, NULL), 1, 3, 0);
    far.chain = true;
    far.then = FIRN_SUM_CHAIN;
    forks_run_well(4, groupscene_equal, &far);
}

static void a_chain_may_go_through_the_processes_in_any_order(void **state)
{
    (void)state;
    struct groupscene s = groupscene_of(3, 8, (int[]){2, 2, 2, 0, 0, 1, 1, 1});
    s.chain = true;
    s.sum = FIRN_SUM_CHAIN;
    forks_run_well(3, groupscene_equal, &s);
}

static void several_hosts_give_the_same_bits(void **state)
{
    (void)state;
    run_all_ways(groupscene_on(groupscene_of(4, 4, NULL), 2, 2, 0), true);
    run_all_ways(groupscene_on(groupscene_of(4, 7, NULL), 1, 3, 0), true);
    struct groupscene scrambled = groupscene_on(
        groupscene_of(5, 8, (int[]){4, 3, 2, 1, 0, 4, 0, 2}), 2, 1, 2);
    run_all_ways(scrambled, false);
    scrambled.start = 500;
    run_all_ways(scrambled, false);
    run_all_ways(groupscene_on(groupscene_of(3, 3, NULL), 1, 1, 1), true);
}

static void a_chain_goes_from_host_to_host(void **state)
{
    (void)state;
    struct groupscene s = groupscene_on(groupscene_of(4, 8, NULL), 2, 2, 0);
    s.chain = true;
    s.sum = FIRN_SUM_CHAIN;
    forks_run_well(4, groupscene_equal, &s);
    /* Hosts in another order; leaders neither first nor last on theirs. */
    struct groupscene t = groupscene_on(
        groupscene_of(5, 8, (int[]){3, 2, 2, 4, 1, 1, 0, 0}), 2, 3, 0);
    t.chain = true;
    t.sum = FIRN_SUM_CHAIN;
    forks_run_well(5, groupscene_equal, &t);
    struct groupscene u = groupscene_on(groupscene_of(3, 8, NULL), 1, 1, 1);
    u.chain = true;
    u.sum = FIRN_SUM_CHAIN;
    u.start = 17;
    forks_run_well(3, groupscene_equal, &u);
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
        int v = p + (int)rng_below(&rng, (uint64_t)(SCENE_THREADS - p + 1));
        int owner[SCENE_THREADS];
        for (int i = 0; i < v; i++)
            owner[i] = i < p ? i : (int)rng_below(&rng, (uint64_t)p);
        for (int i = v - 1; i > 0; i--) {
            int j = (int)rng_below(&rng, (uint64_t)i + 1), was = owner[i];
            owner[i] = owner[j];
            owner[j] = was;
        }
        struct groupscene s = groupscene_of(p, v, owner);
        if (p > 1 && rng_below(&rng, 2) == 0) {
            int a = 1 + (int)rng_below(&rng, (uint64_t)p - 1);
            s = groupscene_on(s, a, p - a, 0);
        }
        s.start = rng_below(&rng, SCENE_N + 1);
        s.chain = k % 2 == 1; /* the tree needs no neighbours */
        print_message("seed %d, scene %d: %d threads on %d, %d hosts\n",
                      (int)seed, k, v, p, s.nhosts);
        forks_run_well(p, groupscene_equal, &s);
    }
}

/* The twin: "sum at home, then add up" is another number than the chain, and
 * than the tree when what is at home is no aligned block. */
static void local_sums_that_are_added_differ(void **state)
{
    (void)state;
    float grad[4][SCENE_N], want[SCENE_N], got[SCENE_N], half[SCENE_N];
    const float *all[4];
    for (int v = 0; v < 4; v++) {
        groupscene_draw(grad[v], v, 0);
        all[v] = grad[v];
    }
    firn_fold_f32(want, all, 4, SCENE_N, 4);
    firn_fold_f32(got, all, 2, SCENE_N, 1);
    firn_fold_f32(half, all + 2, 2, SCENE_N, 1);
    const float *halves[] = {got, half};
    firn_fold_f32(got, halves, 2, SCENE_N, 4);
    assert_memory_not_equal(got, want, sizeof got);
    firn_fold_tree_f32(want, all, NULL, 4, SCENE_N, 4);
    assert_memory_equal(got, want, sizeof got);
    firn_fold_f32(half, all + 1, 3, SCENE_N, 1);
    const float *parts[] = {all[0], half};
    firn_fold_f32(got, parts, 2, SCENE_N, 4);
    assert_memory_not_equal(got, want, sizeof got);
}

/* --- bytes --------------------------------------------------------------- */

static int bytes_body(int rank, void *arg)
{
    struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    float out[SCENE_N];
    uint64_t moved[2];
    for (int k = 0; k < 2; k++) {
        uint64_t before = firn_group_bytes(g);
        s->start = k == 0 ? 0 : SCENE_N - SCENE_N / 17;
        FORKS_CHECK(groupscene_step(g, s, 1, out, NULL) == FIRN_OK);
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
    struct groupscene s = groupscene_of(2, 4, NULL);
    forks_run_well(2, bytes_body, &s);
    s.chain = true;
    forks_run_well(2, bytes_body, &s);
    s.sum = FIRN_SUM_CHAIN;
    forks_run_well(2, bytes_body, &s);
}

/* --- other calls --------------------------------------------------------- */

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
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
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
    struct groupscene one = groupscene_of(1, 1, NULL),
                      here = groupscene_of(3, 3, NULL);
    struct groupscene far = groupscene_on(groupscene_of(4, 4, NULL), 1, 2, 1);
    forks_run_well(1, share_body, &one);
    forks_run_well(3, share_body, &here);
    forks_run_well(4, share_body, &far);
}

static int misuse_body(int rank, void *arg)
{
    const struct groupscene *s = arg;
    struct firn_group *g = groupscene_open(s, rank);
    struct firn_error err = {0};
    float out[SCENE_N] = {0};
    FORKS_CHECK(firn_group_reduce(g, out, 0, 1, &err) == FIRN_EINVAL);
    FORKS_CHECK(strstr(err.text, "was not put") != NULL);
    FORKS_CHECK(firn_group_put(g, 99, out, 0, &err) == FIRN_EINVAL);
    FORKS_CHECK(firn_group_put(g, 0, out, SCENE_N + 1, &err) == FIRN_EINVAL);
    FORKS_CHECK(firn_group_slot(g, 99) == NULL);
    FORKS_CHECK(firn_group_bcast(g, out, 1, 5, &err) == FIRN_EINVAL);
    FORKS_CHECK(groupscene_step(g, s, 0, out, &err) == FIRN_OK);
    firn_group_close(g);
    return 0;
}

static void wrong_calls_are_errors_and_change_nothing(void **state)
{
    (void)state;
    struct firn_group *g = NULL;
    struct firn_error err;
    struct groupscene idle = groupscene_of(2, 2, (int[]){0, 0});
    assert_int_equal(groupscene_try(&g, &idle, 0, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "process 1 has no thread"));
    struct groupscene misplaced = groupscene_of(2, 2, (int[]){0, 2});
    assert_int_equal(groupscene_try(&g, &misplaced, 0, &err), FIRN_EINVAL);
    struct groupscene torn = groupscene_of(2, 3, (int[]){0, 1, 0});
    torn.chain = true;
    torn.sum = FIRN_SUM_CHAIN;
    assert_int_equal(groupscene_try(&g, &torn, 0, &err), FIRN_EINVAL);
    struct groupscene few = groupscene_of(3, 2, NULL);
    assert_int_equal(groupscene_try(&g, &few, 0, &err), FIRN_EINVAL);
    assert_null(g);
    struct groupscene fine = groupscene_of(1, 2, NULL);
    forks_run_well(1, misuse_body, &fine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_gives_the_bits_of_one_fold),
        cmocka_unit_test(the_order_may_change_between_two_reductions),
        cmocka_unit_test(a_chain_may_go_through_the_processes_in_any_order),
        cmocka_unit_test(several_hosts_give_the_same_bits),
        cmocka_unit_test(a_chain_goes_from_host_to_host),
        cmocka_unit_test(random_placements_agree),
        cmocka_unit_test(local_sums_that_are_added_differ),
        cmocka_unit_test(bytes_shrink_to_the_share_that_is_not_frozen),
        cmocka_unit_test(bytes_go_from_one_to_all_and_from_all_to_one),
        cmocka_unit_test(wrong_calls_are_errors_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
