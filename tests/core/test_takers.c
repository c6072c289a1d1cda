/* test_takers.c - which job a step that takes GPUs is made for. */
#include "core/takers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include <cmocka.h>
#include <string.h>

enum { JOBS = 4 };

/* A plan by hand: what job i holds and shall hold; "-" is nothing. */
struct change {
    const char *from, *to;
};

static struct arena arena;

static struct firn_alloc read_gpus(const char *text)
{
    static const struct firn_alloc nothing = FIRN_ALLOC_NONE;
    return strcmp(text, "-") == 0 ? nothing : alloc_read(text, &arena);
}

static firn_job_id taker_of(const struct change changes[JOBS], int loser)
{
    struct firn_job jobs[JOBS] = {0};
    struct firn_alloc to[JOBS];
    struct firn_step steps[JOBS];
    struct diff diff = {.steps = steps};
    firn_job_id found = -2;
    for (int phase = 0; phase < 2; phase++) /* STOP and RESIZE, then START */
        for (int i = 0; i < JOBS; i++) {
            bool held = strcmp(changes[i].from, "-") != 0;
            if (strcmp(changes[i].from, changes[i].to) == 0 ||
                held != (phase == 0))
                continue;
            jobs[i].id = 10 + i;
            jobs[i].held = read_gpus(changes[i].from);
            to[i] = read_gpus(changes[i].to);
            steps[diff.nsteps++] =
                (struct firn_step){.kind = !held               ? FIRN_STEP_START
                                           : to[i].nparts == 0 ? FIRN_STEP_STOP
                                                               : FIRN_STEP_MOVE,
                                   .job = &jobs[i],
                                   .to = &to[i],
                                   .for_job = FIRN_NO_JOB};
        }
    takers_find(&diff, &arena);
    for (size_t i = 0; i < diff.nsteps; i++)
        if (steps[i].job->id == 10 + loser)
            found = steps[i].for_job;
    arena_release(&arena);
    return found;
}

static void a_stop_names_the_job_that_gets_its_gpus(void **unused)
{
    (void)unused;
    const struct change plan[JOBS] = {
        {"n0[0-3]", "-"}, {"-", "n0[0-3]"}, {"-", "n1[0-1]"}, {"-", "-"}};
    assert_int_equal(taker_of(plan, 0), 11);
    assert_int_equal(taker_of(plan, 1), FIRN_NO_JOB);
}

static void the_job_that_gets_the_most_is_named_the_lower_id_of_two(void **u)
{
    (void)u;
    const struct change most[JOBS] = {{"n0[0-3] n1[0-3]", "-"},
                                      {"-", "n0[0-1]"},
                                      {"-", "n0[2-3] n1[0]"},
                                      {"-", "n1[1-2]"}};
    const struct change tie[JOBS] = {
        {"n0[0-3]", "-"}, {"-", "-"}, {"-", "n0[2-3]"}, {"-", "n0[0-1]"}};
    assert_int_equal(taker_of(most, 0), 12);
    assert_int_equal(taker_of(tie, 0), 12);
}

static void gpus_that_no_job_gets_are_for_no_job(void **unused)
{
    (void)unused;
    const struct change plan[JOBS] = {
        {"n0[0-3]", "-"}, {"-", "n1[0-3]"}, {"-", "-"}, {"-", "-"}};
    assert_int_equal(taker_of(plan, 0), FIRN_NO_JOB);
}

static void a_job_that_shrinks_or_moves_gives_what_it_leaves(void **unused)
{
    (void)unused;
    const struct change shrinks[JOBS] = {
        {"n0[0-3]", "n0[0-1]"}, {"-", "n0[2-3]"}, {"-", "-"}, {"-", "-"}};
    const struct change swaps[JOBS] = {
        {"n0[0-1]", "n1[0-1]"}, {"n1[0-1]", "n0[0-1]"}, {"-", "-"}, {"-", "-"}};
    assert_int_equal(taker_of(shrinks, 0), 11);
    assert_int_equal(taker_of(swaps, 0), 11);
    assert_int_equal(taker_of(swaps, 1), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_names_the_job_that_gets_its_gpus),
        cmocka_unit_test(
            the_job_that_gets_the_most_is_named_the_lower_id_of_two),
        cmocka_unit_test(gpus_that_no_job_gets_are_for_no_job),
        cmocka_unit_test(a_job_that_shrinks_or_moves_gives_what_it_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
