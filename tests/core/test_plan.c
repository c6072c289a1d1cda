/* test_plan.c - a plan says, takes back, and leaves no trace.
 *
 * The cases open a plan by hand on a scene's state, as a round would, and ask
 * it what each job has. Closing must put the maps back bit by bit; the
 * property test does that for random words with nested marks.
 */
#include "core/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "desk.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <string.h>

#define SCENE                                                                \
    "2 nodes x 4 gpus; A wants 4 on n1[0-3]; B wants 2 on n0[0-1]; C wants " \
    "2; "                                                                    \
    "D wants 8"

static void an_empty_plan_has_every_gpu_free(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    assert_int_equal(firn_plan_free(plan), 8);
    assert_string_equal(desk_has(&desk, "A"), "-");
    assert_true(firn_plan_give(plan, desk_job(&desk, "D"), 8));
    assert_string_equal(desk_has(&desk, "D"), "n0[0-3] n1[0-3]");
    assert_int_equal(firn_plan_free(plan), 0);
    assert_false(firn_plan_keep(plan, desk_job(&desk, "A")));
    assert_false(firn_plan_give(plan, desk_job(&desk, "C"), 2));
    assert_string_equal(desk_has(&desk, "C"), "-");
    desk_close(&desk);
}

static void keep_all_starts_from_what_runs(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    firn_plan_keep_all(plan);
    assert_int_equal(firn_plan_free(plan), 2);
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    assert_true(firn_plan_keep(plan, desk_job(&desk, "A")));
    assert_false(firn_plan_keep(plan, desk_job(&desk, "C")));
    assert_true(firn_plan_give(plan, desk_job(&desk, "C"), 2));
    assert_string_equal(desk_has(&desk, "C"), "n0[2-3]");
    assert_false(firn_plan_give(plan, desk_job(&desk, "D"), 8));
    desk_close(&desk);
}

static void a_job_stays_where_it_is_when_its_size_is_kept(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        desk_open(&desk, "3 nodes x 4 gpus; A wants 2 on n2[1,3]; B wants 2");
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 2));
    assert_string_equal(desk_has(&desk, "A"), "n2[1,3]");
    /* Another size: placed anew. */
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 3));
    assert_string_equal(desk_has(&desk, "A"), "n0[0-2]");
    /* Its old GPUs are taken: placed elsewhere. */
    struct firn_alloc old = scene_alloc(desk.scene, "n2[2-3]");
    firn_plan_place(plan, desk_job(&desk, "B"), &old);
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 2));
    assert_string_equal(desk_has(&desk, "A"), "n2[0-1]");
    desk_close(&desk);
}

static void a_job_moves_when_what_it_holds_is_not_what_is_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(
        &desk, "1 node x 4 gpus of v100; 2 nodes x 4 gpus of t4; "
               "A wants 4 on n0[0-1] n1[0-1]; B wants 2 shares on n2[0-1]~");
    const struct firn_job *a = desk_job(&desk, "A"), *b = desk_job(&desk, "B");
    assert_true(firn_plan_give(plan, a, 4));
    assert_string_equal(desk_has(&desk, "A"), "n0[0-1] n1[0-1]");
    struct firn_want want = {.gpus = 4, .one_type = true};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(desk_has(&desk, "A"), "n0[0-3]");
    want = (struct firn_want){.gpus = 4, .types = 2};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    want = (struct firn_want){.gpus = 4, .one_node = true};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(desk_has(&desk, "A"), "n0[0-3]");
    want = (struct firn_want){.gpus = 4, .counts = (int[]){2, 2}};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(desk_has(&desk, "A"), "n0[0-1] n1[0-1]");
    want.counts = (int[]){1, 3};
    assert_true(firn_plan_give_want(plan, a, &want));
    assert_string_equal(desk_has(&desk, "A"), "n0[0] n1[0-2]");
    want = (struct firn_want){.gpus = 2, .shared = true};
    assert_true(firn_plan_give_want(plan, b, &want));
    assert_string_equal(desk_has(&desk, "B"), "n2[0-1]~");
    desk_close(&desk);
}

static void a_job_stays_when_what_it_holds_is_just_what_is_wanted(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        desk_open(&desk, "1 node x 2 gpus of v100; 2 nodes x 4 gpus of t4; "
                         "A wants 2 on n2[2-3]");
    const struct firn_want wants[] = {
        {.gpus = 2, .one_type = true},
        {.gpus = 2, .one_node = true},
        {.gpus = 2, .types = 2},
        {.gpus = 2, .counts = (int[]){0, 2}},
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        assert_true(firn_plan_give_want(plan, desk_job(&desk, "A"), &wants[i]));
        assert_string_equal(desk_has(&desk, "A"), "n2[2-3]");
    }
    desk_close(&desk);
}

static void the_latest_entry_of_a_job_counts(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    firn_plan_keep_all(plan);
    firn_plan_drop(plan, desk_job(&desk, "A"));
    assert_string_equal(desk_has(&desk, "A"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 2));
    assert_string_equal(desk_has(&desk, "A"), "n0[2-3]");
    assert_true(firn_plan_keep(plan, desk_job(&desk, "A")));
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    firn_plan_reject(plan, desk_job(&desk, "A"), "no more");
    assert_string_equal(desk_has(&desk, "A"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_int_equal(plan_entry_of(plan, desk_job(&desk, "A"))->kind,
                     PLAN_REJECT);
    assert_null(plan_entry_of(plan, desk_job(&desk, "B")));
    desk_close(&desk);
}

static void a_give_that_does_not_fit_changes_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    firn_plan_keep_all(plan);
    struct firn_buf before = freemap_text(plan->map);
    assert_false(firn_plan_give(plan, desk_job(&desk, "A"), 7));
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    struct firn_buf after = freemap_text(plan->map);
    assert_string_equal(before.at, after.at);
    buf_release(&before);
    buf_release(&after);
    desk_close(&desk);
}

static void the_view_counts_free_gpus_by_type(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan =
        desk_open(&desk, "1 node x 4 gpus of v100; 2 nodes x 2 gpus of t4; "
                         "n2 down; A wants 3 types v100; B wants 1 types t4");
    assert_int_equal(firn_plan_free(plan), 6);
    assert_int_equal(firn_plan_free_of(plan, 0), 4);
    assert_int_equal(firn_plan_free_of(plan, 1), 2);
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 3));
    assert_int_equal(firn_plan_free_of(plan, 0), 1);
    assert_false(firn_plan_give(plan, desk_job(&desk, "B"), 3));
    assert_true(firn_plan_give(plan, desk_job(&desk, "B"), 1));
    assert_string_equal(desk_has(&desk, "B"), "n1[0]");
    desk_close(&desk);
}

static void wrong_gpus_are_recorded_but_take_nothing(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    static const char *const wrong[] = {"n9[0]", "n0[4]", "n0[0] n0[0]",
                                        "n1[0] n0[0]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_alloc alloc = scene_alloc(desk.scene, wrong[i]);
        firn_plan_place(plan, desk_job(&desk, "C"), &alloc);
        assert_int_equal(firn_plan_free(plan), 8);
        assert_false(plan_entry_of(plan, desk_job(&desk, "C"))->in_map);
    }
    assert_true(firn_plan_give(plan, desk_job(&desk, "C"), 2));
    assert_int_equal(firn_plan_free(plan), 6);
    desk_close(&desk);
}

static void right_gpus_are_taken_on_several_nodes_and_boards(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(
        &desk, "2 nodes x 4 gpus; 1 node x 130 gpus; A wants 2; B wants 4");
    struct firn_alloc nodes = scene_alloc(desk.scene, "n0[0] n1[3]");
    firn_plan_place(plan, desk_job(&desk, "A"), &nodes);
    assert_int_equal(firn_plan_free(plan), 136);
    struct firn_alloc boards = scene_alloc(desk.scene, "n1[0] n2[63-64,129]");
    firn_plan_place(plan, desk_job(&desk, "B"), &boards);
    assert_int_equal(firn_plan_free(plan), 132);
    assert_string_equal(desk_has(&desk, "B"), "n1[0] n2[63-64,129]");
    firn_plan_drop(plan, desk_job(&desk, "A"));
    assert_int_equal(firn_plan_free(plan), 134);
    desk_close(&desk);
}

static void undo_goes_back_to_the_mark(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    firn_plan_keep_all(plan);
    size_t start = firn_plan_mark(plan);
    firn_plan_drop(plan, desk_job(&desk, "A"));
    size_t dropped = firn_plan_mark(plan);
    assert_true(firn_plan_give(plan, desk_job(&desk, "C"), 2));
    firn_plan_drop(plan, desk_job(&desk, "B"));
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 4));
    firn_plan_undo(plan, dropped);
    assert_string_equal(desk_has(&desk, "A"), "-");
    assert_string_equal(desk_has(&desk, "B"), "n0[0-1]");
    assert_string_equal(desk_has(&desk, "C"), "-");
    assert_int_equal(firn_plan_free(plan), 6);
    firn_plan_undo(plan, start);
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    assert_int_equal(firn_plan_free(plan), 2);
    firn_plan_undo(plan, start);
    desk_close(&desk);
}

/* Tunes are the policy's, for each job those that are named, without those that
 * its trainer cannot do; a mark undoes them. */
static void tunes_are_set_for_each_job(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(
        &desk, "1 node x 8 gpus; A wants 2; B wants 2; C wants 2 cannot batch");
    struct state *state = scene_state(desk.scene);
    struct firn_policy_def policy = *state->policy;
    policy.tunes = FIRN_TUNE_BATCH | FIRN_TUNE_FREEZE;
    state->policy = &policy;
    const struct firn_job *a = desk_job(&desk, "A"), *b = desk_job(&desk, "B"),
                          *c = desk_job(&desk, "C");
    assert_true(firn_plan_give(plan, a, 2));
    assert_true(firn_plan_give(plan, b, 2));
    assert_true(firn_plan_give(plan, c, 2));
    size_t mark = firn_plan_mark(plan);
    firn_plan_tune(plan, b, FIRN_TUNE_FREEZE | FIRN_TUNE_THREADS);
    firn_plan_tune(plan, c, FIRN_TUNE_BATCH | FIRN_TUNE_FREEZE);
    assert_int_equal(firn_plan_of(plan, a)->tunes, policy.tunes);
    assert_int_equal(firn_plan_of(plan, b)->tunes, FIRN_TUNE_FREEZE);
    assert_int_equal(firn_plan_of(plan, c)->tunes, FIRN_TUNE_FREEZE);
    assert_int_equal(firn_plan_free(plan), 2);
    firn_plan_undo(plan, mark);
    assert_int_equal(firn_plan_of(plan, b)->tunes, policy.tunes);
    assert_int_equal(firn_plan_free(plan), 2);
    desk_close(&desk);
}

static void notes_are_cut_and_kept_through_undo(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(&desk, SCENE);
    size_t start = firn_plan_mark(plan);
    firn_plan_note(plan, desk_job(&desk, "C"), "%070d", 7);
    firn_plan_undo(plan, start);
    assert_int_equal(plan->notes.n, 1);
    assert_int_equal(strlen(plan->notes.at[0].text), 63);
    desk_close(&desk);
}

/* ---- random words ---- */

enum { MARKS = 8 };

struct trail {
    struct firn_buf map[MARKS];
    struct firn_buf jobs[MARKS];
    size_t mark[MARKS];
    int n;
};

static struct firn_buf plan_text(struct desk *desk)
{
    struct firn_buf out = {0};
    const struct firn_job *const *jobs = firn_view_jobs(&desk->view);
    for (size_t i = 0; i < desk->view.njobs; i++) {
        buf_puts(&out, " ");
        firn_alloc_print(firn_plan_of(&desk->plan, jobs[i]), &out);
    }
    buf_puts(&out, "");
    return out;
}

/* One random word about a random job. */
static void say(struct desk *desk, struct rng *rng)
{
    struct firn_plan *plan = &desk->plan;
    const struct firn_job *const *jobs = firn_view_jobs(&desk->view);
    const struct firn_job *a = jobs[rng_below(rng, desk->view.njobs)];
    const struct firn_job *b = jobs[rng_below(rng, desk->view.njobs)];
    struct firn_part part = {(int)rng_below(rng, 3), 0, 1 + rng_below(rng, 15)};
    struct firn_want want = {.gpus = 1 + (int)rng_below(rng, 6),
                             .shared = rng_below(rng, 2)};
    switch (rng_below(rng, 7)) {
    case 0:
        firn_plan_keep(plan, a);
        break;
    case 1:
        firn_plan_drop(plan, a);
        break;
    case 2:
        firn_plan_reject(plan, a, "no");
        break;
    case 3:
        firn_plan_share(plan, a, b);
        break;
    case 4:
        firn_plan_place(plan, a,
                        &(struct firn_alloc){&part, 1,
                                             __builtin_popcountll(part.gpus),
                                             false, 0, FIRN_HOW_AS_SUBMITTED});
        break;
    default:
        firn_plan_give_want(plan, a, &want);
    }
}

static void expect_same(uint64_t seed, struct firn_buf before,
                        struct firn_buf after)
{
    if (strcmp(before.at, after.at) != 0)
        fail_msg("seed %llu: not restored: %s but %s", (unsigned long long)seed,
                 before.at, after.at);
    buf_release(&before);
    buf_release(&after);
}

static void push(struct desk *desk, struct trail *trail)
{
    if (trail->n == MARKS)
        return;
    trail->map[trail->n] = freemap_text(desk->plan.map);
    trail->jobs[trail->n] = plan_text(desk);
    trail->mark[trail->n++] = firn_plan_mark(&desk->plan);
}

static void pop(struct desk *desk, struct trail *trail, uint64_t seed)
{
    if (trail->n == 0)
        return;
    trail->n--;
    firn_plan_undo(&desk->plan, trail->mark[trail->n]);
    expect_same(seed, trail->map[trail->n], freemap_text(desk->plan.map));
    expect_same(seed, trail->jobs[trail->n], plan_text(desk));
}

static void ramble(uint64_t seed)
{
    struct rng rng;
    struct desk desk;
    struct trail trail = {.n = 0};
    rng_seed(&rng, seed);
    struct firn_plan *plan = desk_open(
        &desk, "2 nodes x 4 gpus; 1 node x 70 gpus of t4; A wants 4 on n1[0-3];"
               "B wants 2 shares on n0[0-1]~; C wants 2 shares on n0[0-1]~;"
               "D wants 8; E wants 1 shares; F wants 3 types t4 on n2[60-62]");
    struct firn_buf live = freemap_text(&scene_state(desk.scene)->map);
    struct firn_buf empty = freemap_text(&plan->empty);
    if (rng_below(&rng, 2))
        firn_plan_keep_all(plan);
    for (int i = 0; i < 60; i++) {
        int what = (int)rng_below(&rng, 10);
        if (what == 0)
            push(&desk, &trail);
        else if (what == 1)
            pop(&desk, &trail, seed);
        else
            say(&desk, &rng);
    }
    while (trail.n > 0)
        pop(&desk, &trail, seed);
    plan_close(plan);
    expect_same(seed, live, freemap_text(&scene_state(desk.scene)->map));
    expect_same(seed, empty, freemap_text(&plan->empty));
    plan_clear(plan);
    for (size_t i = 0; i < plan->latest.cap; i++)
        assert_int_equal(plan->latest.at[i], 0);
    plan_open(plan, &desk.view);
    desk_close(&desk);
}

static void undo_restores_free_gpus_after_any_entries(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(400); i++)
        ramble((uint64_t)i);
}

static void
a_job_is_placed_beside_the_nodes_that_are_barred_to_it(void **unused)
{
    (void)unused;
    struct desk desk;
    struct firn_plan *plan = desk_open(
        &desk, "3 nodes x 4 gpus; A wants 4 barred n0; B wants 8 "
               "barred n1; C wants 9 barred n2; D wants 2 on n0[0-1]; "
               "E wants 2 barred n0 on n0[2-3]");
    assert_true(firn_plan_give(plan, desk_job(&desk, "A"), 4));
    assert_string_equal(desk_has(&desk, "A"), "n1[0-3]");
    assert_true(firn_plan_give(plan, desk_job(&desk, "B"), 8));
    assert_string_equal(desk_has(&desk, "B"), "n0[0-3] n2[0-3]");
    firn_plan_drop(plan, desk_job(&desk, "A"));
    firn_plan_drop(plan, desk_job(&desk, "B"));
    assert_int_equal(firn_plan_free(plan), 12); /* none is left hidden */
    assert_false(firn_plan_give(plan, desk_job(&desk, "C"), 9));
    assert_int_equal(firn_plan_free(plan), 12);
    /* It stays on a node that it holds already. */
    assert_true(firn_plan_keep(plan, desk_job(&desk, "E")));
    assert_string_equal(desk_has(&desk, "E"), "n0[2-3]");
    /* GPUs that a policy names itself: nothing, with a note. */
    struct firn_alloc there = scene_alloc(desk.scene, "n0[0-1]");
    firn_plan_place(plan, desk_job(&desk, "A"), &there);
    assert_string_equal(desk_has(&desk, "A"), "-");
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_plan_has_every_gpu_free),
        cmocka_unit_test(keep_all_starts_from_what_runs),
        cmocka_unit_test(a_job_stays_where_it_is_when_its_size_is_kept),
        cmocka_unit_test(a_job_moves_when_what_it_holds_is_not_what_is_wanted),
        cmocka_unit_test(a_job_stays_when_what_it_holds_is_just_what_is_wanted),
        cmocka_unit_test(the_latest_entry_of_a_job_counts),
        cmocka_unit_test(a_give_that_does_not_fit_changes_nothing),
        cmocka_unit_test(the_view_counts_free_gpus_by_type),
        cmocka_unit_test(wrong_gpus_are_recorded_but_take_nothing),
        cmocka_unit_test(right_gpus_are_taken_on_several_nodes_and_boards),
        cmocka_unit_test(
            a_job_is_placed_beside_the_nodes_that_are_barred_to_it),
        cmocka_unit_test(undo_goes_back_to_the_mark),
        cmocka_unit_test(tunes_are_set_for_each_job),
        cmocka_unit_test(notes_are_cut_and_kept_through_undo),
        cmocka_unit_test(undo_restores_free_gpus_after_any_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
