/* test_train_sums.c - the order of a job's sums, and layers in pieces.
 *
 * By a toy job (lib/toyjob.h) whose runs are compared by their last
 * checkpoints, section by section.
 */
#include "lib/forks.h"
#include "lib/toyjob.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_same(const struct toyjob *a, const struct toyjob *b)
{
    assert_string_equal(toyjob_differences(a, b, false).text, "");
}

/* A whole run in the order of `sum`. */
static struct toyjob whole(const char *name, const char *sum)
{
    struct toyjob run = toyjob_of(name, 2);
    run.sum = sum;
    toyjob_go(&run, 0);
    return run;
}

/* --- the order ------------------------------------------------------------ */

static void assert_names_order(const struct toyjob *run, const char *want)
{
    struct firn_ckpt *ckpt = toyjob_last(run);
    const struct firn_ckpt_section *s = firn_ckpt_find(ckpt, "train/sum");
    assert_non_null(s);
    assert_int_equal(s->nbytes, strlen(want));
    assert_memory_equal(s->data, want, strlen(want));
    firn_ckpt_close(ckpt);
}

static void a_checkpoint_names_its_order(void **state)
{
    (void)state;
    struct toyjob tree = whole("tree", NULL), chain = whole("chain", "chain");
    assert_names_order(&tree, "tree");
    assert_names_order(&chain, "chain");
    struct toyjob_names names = toyjob_differences(&tree, &chain, false);
    assert_non_null(strstr(names.text, "weights ")); /* another rounding */
}

static void a_job_goes_on_in_the_order_it_began_with(void **state)
{
    (void)state;
    struct toyjob want = whole("chain", "chain");
    for (int little = 0; little < 2; little++) {
        struct toyjob run = toyjob_of("stopped", 3);
        run.chain = little == 1;
        run.sum = "chain";
        run.stop_at = 5;
        toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
        run.sum = NULL;
        run.stop_at = -1;
        toyjob_go(&run, 0);
        assert_same(&want, &run);
    }
}

/* Copies the last checkpoint without its order, as older versions wrote it. */
static void forget_order(const struct toyjob *run)
{
    struct firn_ckpt *ckpt = toyjob_last(run);
    struct firn_ckpt_writer *w = NULL;
    const struct firn_ckpt_section *s;
    char path[300];
    uint64_t step = firn_ckpt_step(ckpt);
    snprintf(path, sizeof path, "%s/toy-%012llu.ckpt", run->dir,
             (unsigned long long)step);
    assert_int_equal(unlink(path), 0); /* stays mapped */
    assert_int_equal(firn_ckpt_create(&w, run->dir, "toy", step, NULL),
                     FIRN_OK);
    for (size_t i = 0; (s = firn_ckpt_at(ckpt, i)) != NULL; i++)
        if (strcmp(s->name, "train/sum") != 0)
            assert_int_equal(firn_ckpt_put(w, s, NULL), FIRN_OK);
    assert_int_equal(firn_ckpt_commit(w, 0, NULL), FIRN_OK);
    firn_ckpt_close(ckpt);
}

static void an_older_checkpoint_without_an_order_is_the_chain(void **state)
{
    (void)state;
    struct toyjob want = whole("chain", "chain");
    struct toyjob run = toyjob_of("older", 2);
    run.sum = "chain";
    run.stop_at = 7;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    forget_order(&run);
    run.sum = NULL;
    run.stop_at = -1;
    run.nprocs = 3;
    toyjob_go(&run, 0);
    assert_same(&want, &run);
}

static void an_order_that_is_asked_for_replaces_the_checkpoints(void **state)
{
    (void)state;
    struct toyjob run = toyjob_of("changed", 2);
    run.sum = "chain";
    run.stop_at = 7;
    toyjob_go(&run, FIRN_EXIT_CHECKPOINT);
    run.sum = "tree";
    run.stop_at = -1;
    toyjob_go(&run, 0);
    assert_names_order(&run, "tree");
}

/* --- layers ----------------------------------------------------------------
 */

static void layers_in_pieces_train_the_same_bits(void **state)
{
    (void)state;
    struct toyjob want = toyjob_of("rows", 2);
    want.rule = FIRN_FREEZER_USER;
    toyjob_go(&want, 0);
    for (int little = 0; little < 2; little++) {
        struct toyjob run = toyjob_of("pieces", 3);
        run.rule = FIRN_FREEZER_USER;
        run.scattered = true;
        run.chain = little == 1;
        run.watch_frozen = true;
        toyjob_go(&run, 0);
        assert_string_equal(toyjob_differences(&want, &run, true).text, "");
    }
}

static void refuse(const struct firn_train_config *given, const char *want)
{
    struct firn_train_config c = *given;
    struct firn_train *t = NULL;
    struct firn_error err = {0};
    c.nlayers = 2;
    c.steps_per_epoch = 1;
    assert_int_equal(firn_train_open(&t, &c, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, want));
    assert_null(t);
}

static void wrong_ranges_are_refused(void **state)
{
    (void)state;
    const size_t start[] = {0, 1, 2};
    struct firn_train_range over[] = {{1, 4, 4}, {0, 0, 5}};
    struct firn_train_range third[] = {{0, 0, 4}, {2, 4, 4}};
    struct firn_train_range endless[] = {{0, 8, SIZE_MAX}};
    refuse(&(struct firn_train_config){.range = over, .nranges = 2},
           "ranges of layers 0 and 1 overlap at element 4");
    refuse(&(struct firn_train_config){.range = third, .nranges = 2},
           "range 1 belongs to layer 2 of 2 layers");
    refuse(&(struct firn_train_config){.range = endless, .nranges = 1},
           "is too long");
    refuse(&(struct firn_train_config){.layer_start = start,
                                       .range = over,
                                       .nranges = 2},
           "not both");
    refuse(
        &(struct firn_train_config){.layer_start = start, .peer_timeout_s = -1},
        "time-out of -1 s");
}

/* --- what a session says of itself ------------------------------------------
 */

static int ask_body(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    struct firn_train *t = NULL;
    struct firn_train_config c = {.nlayers = 1,
                                  .layer_start = (const size_t[]){0, 3},
                                  .nepochs = 1,
                                  .steps_per_epoch = 1};
    setenv("FIRN_THREADS", "6", 1);
    setenv("FIRN_PEER_TIMEOUT_S", "77.5", 1);
    FORKS_CHECK(firn_train_open(&t, &c, NULL) == FIRN_OK);
    FORKS_CHECK(firn_train_nthreads(t) == 6);
    FORKS_CHECK(firn_train_sum(t) == FIRN_SUM_TREE);
    FORKS_CHECK(firn_group_timeout_s(firn_train_group(t)) == 77.5);
    FORKS_CHECK(firn_train_close(t, NULL) == 0);
    c.peer_timeout_s = 12;
    c.sum = FIRN_SUM_CHAIN;
    FORKS_CHECK(firn_train_open(&t, &c, NULL) == FIRN_OK);
    FORKS_CHECK(firn_train_sum(t) == FIRN_SUM_CHAIN);
    FORKS_CHECK(firn_group_timeout_s(firn_train_group(t)) == 12);
    FORKS_CHECK(firn_train_close(t, NULL) == 0);
    return 0;
}

static void a_session_knows_its_threads_order_and_time_out(void **state)
{
    (void)state;
    forks_run_well(1, ask_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_names_its_order),
        cmocka_unit_test(a_job_goes_on_in_the_order_it_began_with),
        cmocka_unit_test(an_older_checkpoint_without_an_order_is_the_chain),
        cmocka_unit_test(an_order_that_is_asked_for_replaces_the_checkpoints),
        cmocka_unit_test(layers_in_pieces_train_the_same_bits),
        cmocka_unit_test(wrong_ranges_are_refused),
        cmocka_unit_test(a_session_knows_its_threads_order_and_time_out),
    };
    return cmocka_run_group_tests(tests, toyjob_make_top, toyjob_remove_top);
}
