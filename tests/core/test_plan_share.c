/* test_plan_share.c - half-shares, hosts, crowds and merged jobs in a plan.
 */
#include "core/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "desk.h"
#include <cmocka.h>
#include <string.h>

static void shares_join_a_host_until_it_is_full(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        desk_open(&desk, "1 node x 4 gpus; A wants 2 shares; B wants 2 shares; "
                         "C wants 2 shares; D wants 2");
    const struct firn_job *a = desk_job(&desk, "A"), *b = desk_job(&desk, "B");
    const struct firn_job *c = desk_job(&desk, "C"), *d = desk_job(&desk, "D");
    struct firn_want half = {.gpus = 2, .shared = true};
    assert_false(firn_plan_share(plan, b, a)); /* A has nothing */
    assert_true(firn_plan_give(plan, a, 2));
    assert_false(firn_plan_share(plan, b, a)); /* A holds them whole */
    assert_true(firn_plan_give_want(plan, a, &half));
    assert_int_equal(firn_plan_free(plan), 2);
    assert_false(firn_plan_share(plan, a, a));
    assert_true(firn_plan_share(plan, b, a));
    assert_string_equal(desk_has(&desk, "B"), "n0[0-1]~");
    assert_int_equal(firn_plan_free(plan), 2);
    assert_false(firn_plan_share(plan, c, b)); /* two are on each */
    assert_true(firn_plan_share(plan, b, a));  /* B is already there */
    firn_plan_drop(plan, a);
    assert_int_equal(firn_plan_free(plan), 2); /* B still has its halves */
    assert_true(firn_plan_share(plan, c, b));
    assert_true(firn_plan_give(plan, d, 2));
    assert_int_equal(firn_plan_free(plan), 0);
    desk_close(&desk);
}

/* A has n0[0-1] and shares n0[1] with B; D has n1[0-1]. Of A's two GPUs one is
 * full: C, of three, gets n0[0], then D's two; of four, a free one as well. */
#define HOSTS                                                    \
    "2 nodes x 4 gpus; A wants 2 shares on n0[0-1]~; "           \
    "B wants 1 shares on n0[1]~; D wants 2 shares on n1[0-1]~; " \
    "E wants 1 on n1[2]; C wants 4 shares"

static bool joins(struct desk *desk, const char *hosts, struct firn_want want)
{
    const struct firn_job *at[4];
    int n = 0;
    for (; *hosts; hosts++, n++)
        at[n] = desk_job(desk, (char[]){*hosts, 0});
    return firn_plan_join(&desk->plan, desk_job(desk, "C"), at, n, &want);
}

static void a_job_joins_several_hosts_and_free_gpus(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, HOSTS);
    firn_plan_keep_all(plan);
    size_t mark = firn_plan_mark(plan);
    assert_true(joins(&desk, "AD", (struct firn_want){.gpus = 3}));
    assert_string_equal(desk_has(&desk, "C"), "n0[0] n1[0-1]~");
    assert_int_equal(firn_plan_free(plan), 3);
    firn_plan_undo(plan, mark);
    assert_true(joins(&desk, "AD", (struct firn_want){.gpus = 4}));
    assert_string_equal(desk_has(&desk, "C"), "n0[0] n1[0-1,3]~");
    assert_int_equal(firn_plan_free(plan), 2);
    firn_plan_undo(plan, mark);
    /* in the order of the hosts, and no more than is wanted */
    assert_true(joins(&desk, "DA", (struct firn_want){.gpus = 1}));
    assert_string_equal(desk_has(&desk, "C"), "n1[0]~");
    /* again, from where it is; the free one is the best fit */
    assert_true(joins(&desk, "AB", (struct firn_want){.gpus = 2}));
    assert_string_equal(desk_has(&desk, "C"), "n0[0] n1[3]~");
    /* without hosts: free ones */
    assert_true(joins(&desk, "", (struct firn_want){.gpus = 2}));
    assert_string_equal(desk_has(&desk, "C"), "n0[2-3]~");
    desk_close(&desk);
}

static void a_join_that_cannot_be_changes_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, HOSTS);
    firn_plan_keep_all(plan);
    assert_false(joins(&desk, "AD", (struct firn_want){.gpus = 7}));
    assert_false(joins(&desk, "E", (struct firn_want){.gpus = 1})); /* whole */
    assert_false(joins(&desk, "C", (struct firn_want){.gpus = 1})); /* itself */
    assert_false(joins(&desk, "A", (struct firn_want){.gpus = 0}));
    assert_false(joins(&desk, "A", (struct firn_want){.gpus = 1, .types = 2}));
    assert_string_equal(desk_has(&desk, "C"), "-");
    assert_int_equal(firn_plan_free(plan), 3);
    assert_int_equal((int)firn_plan_mark(plan), 0);
    desk_close(&desk);
}

/* Three may share a GPU here; a policy that wants pairs only says so. */
static void a_crowd_is_no_larger_than_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, "3 jobs per gpu; " HOSTS);
    firn_plan_keep_all(plan);
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "A"), 0), 2);
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "A"), 2), 1);
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "B"), 2), 0);
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "B"), 9), 1);
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "E"), 0),
                     0); /* whole */
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "C"), 0),
                     0); /* none */
    size_t mark = firn_plan_mark(plan);
    assert_true(joins(&desk, "A", (struct firn_want){.gpus = 2, .crowd = 2}));
    assert_string_equal(desk_has(&desk, "C"), "n0[0] n1[3]~");
    assert_int_equal(firn_plan_room(plan, desk_job(&desk, "A"), 2), 0);
    firn_plan_undo(plan, mark);
    assert_true(joins(&desk, "A", (struct firn_want){.gpus = 2}));
    assert_string_equal(desk_has(&desk, "C"), "n0[0-1]~");
    desk_close(&desk);
}

/* Exactly the host's GPUs, and only with one whose key is the same. */
static void jobs_of_one_key_are_merged(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(
        &desk, "1 node x 4 gpus; A wants 2 merges one; B wants 2 merges one; "
               "C wants 2 merges two; D wants 2 merges -; E wants 2; "
               "F wants 2 merges -");
    const struct firn_job *a = desk_job(&desk, "A"), *b = desk_job(&desk, "B");
    const struct firn_job *d = desk_job(&desk, "D");
    struct firn_want half = {.gpus = 2, .shared = true};
    assert_true(firn_plan_give_want(plan, a, &half));
    assert_false(firn_plan_merge(plan, a, a));
    for (const char *name = "CDE"; *name; name++) {
        const struct firn_job *other = desk_job(&desk, (char[]){*name, 0});
        assert_false(firn_job_may_merge(a, other));
        assert_false(firn_job_may_merge(other, a));
        assert_false(firn_plan_merge(plan, other, a));
        assert_string_equal(desk_has(&desk, (char[]){*name, 0}), "-");
    }
    assert_int_equal(firn_plan_of(plan, a)->how.merged_with, FIRN_NO_JOB);
    assert_true(firn_job_may_merge(a, b));
    assert_true(firn_plan_merge(plan, b, a));
    assert_string_equal(desk_has(&desk, "B"), "n0[0-1]~");
    assert_int_equal(firn_plan_of(plan, a)->how.merged_with, b->id);
    assert_int_equal(firn_plan_of(plan, b)->how.merged_with, a->id);
    assert_true(firn_plan_give_want(plan, d, &half));
    assert_true(firn_plan_merge(plan, desk_job(&desk, "F"), d));
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_join_a_host_until_it_is_full),
        cmocka_unit_test(a_job_joins_several_hosts_and_free_gpus),
        cmocka_unit_test(a_join_that_cannot_be_changes_nothing),
        cmocka_unit_test(a_crowd_is_no_larger_than_wanted),
        cmocka_unit_test(jobs_of_one_key_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
