/* test_join_far.c - processes that share no memory join and leave over TCP.
 *
 * As test_train_join.c, on a far board: the bits of a run must be those of a
 * run that was never resized.
 */
#include "base/rng.h"
#include "lib/joinjob.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, ELEMENTS = 300, STEPS = 60 };

static char top[200];

static int make_top(void **state)
{
    const char *dir = getenv("TMPDIR");
    (void)state;
    snprintf(top, sizeof top, "%.150s/firn-far-XXXXXX",
             dir != NULL ? dir : "/tmp");
    return mkdtemp(top) == NULL ? -1 : 0;
}

static int remove_top(void **state)
{
    (void)state;
    return rmdir(top);
}

static struct joinjob job_of(const char *name, bool is_far, int nprocs)
{
    struct joinjob job;
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", top, name);
    joinjob_open(&job, dir, THREADS, ELEMENTS, STEPS);
    job.is_far = is_far;
    joinjob_start(&job, nprocs);
    joinjob_allow(&job, 5);
    return job;
}

/* The bits of a run that was never resized. */
static uint64_t reference(void)
{
    static uint64_t hash;
    if (hash != 0)
        return hash;
    struct joinjob job = job_of("reference", false, 2);
    assert_true(joinjob_finish(&job));
    hash = joinjob_hash(&job);
    joinjob_close(&job);
    return hash;
}

static void end_well(struct joinjob *job)
{
    assert_true(joinjob_finish(job));
    assert_true(joinjob_hash(job) == reference());
    joinjob_close(job);
}

static void check(const char *name, int nold, int nnew, const int *from)
{
    struct joinjob job = job_of(name, true, nold);
    assert_int_equal(joinjob_resize(&job, nnew, from, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    assert_int_equal(job.nlost, 0);
    assert_true(joinjob_result(&job).pause_s > 0);
    end_well(&job);
}

static void processes_join_over_tcp_with_the_same_bits(void **state)
{
    (void)state;
    check("grows", 1, 2, (int[]){0, -1});
    check("grows-much", 1, 4, (int[]){0, -1, -1, -1});
    check("grows-in-front", 1, 2, (int[]){-1, 0});
}

static void processes_leave_over_tcp_with_the_same_bits(void **state)
{
    (void)state;
    check("shrinks", 3, 1, (int[]){0});
    check("shrinks-to-its-last", 3, 1, (int[]){2}); /* process 0 leaves */
    check("moves", 1, 1, (int[]){-1});
    check("moves-and-grows", 2, 3, (int[]){-1, 1, -1});
}

static void a_group_over_tcp_is_resized_again(void **state)
{
    (void)state;
    struct joinjob job = job_of("again", true, 1);
    int first[] = {0, -1, -1}, second[] = {2, 0}, third[] = {-1, 1, 0, -1};
    assert_int_equal(joinjob_resize(&job, 3, first, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    assert_int_equal(joinjob_resize(&job, 2, second, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    assert_int_equal(joinjob_resize(&job, 4, third, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    end_well(&job);
}

static void a_joiner_that_dies_before_it_is_ready_changes_nothing(void **state)
{
    (void)state;
    struct joinjob job = job_of("early", true, 2);
    int from[] = {0, 1, -1};
    assert_int_equal(joinjob_resize(&job, 3, from, JOINJOB_JOINER_EARLY),
                     FIRN_JOIN_FAILED);
    assert_int_equal(joinjob_resize(&job, 3, from, JOINJOB_NONE),
                     FIRN_JOIN_DONE);
    end_well(&job);
}

static void a_joiner_that_dies_in_the_switch_ends_it_at_once(void **state)
{
    (void)state;
    struct joinjob job = job_of("late", true, 2);
    int from[] = {0, 1, -1};
    enum firn_join_phase phase =
        joinjob_resize(&job, 3, from, JOINJOB_JOINER_LATE);
    if (phase == FIRN_JOIN_FAILED) {
        assert_true(joinjob_result(&job).pause_s < 30); /* of 60 */
        end_well(&job);
        return;
    }
    joinjob_close(&job); /* it was killed after the commit */
}

static void a_joiner_with_other_tensors_is_refused(void **state)
{
    (void)state;
    struct joinjob job = job_of("other", true, 1);
    int from[] = {0, -1};
    assert_int_equal(joinjob_resize(&job, 2, from, JOINJOB_OTHER_MODEL),
                     FIRN_JOIN_FAILED);
    end_well(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_join_over_tcp_with_the_same_bits),
        cmocka_unit_test(processes_leave_over_tcp_with_the_same_bits),
        cmocka_unit_test(a_group_over_tcp_is_resized_again),
        cmocka_unit_test(a_joiner_that_dies_before_it_is_ready_changes_nothing),
        cmocka_unit_test(a_joiner_that_dies_in_the_switch_ends_it_at_once),
        cmocka_unit_test(a_joiner_with_other_tensors_is_refused),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
