/* test_diff.c - each kind of step, their order, and none where nothing
 * changes.
 *
 * A small policy of the test's own says one line of words per round, such as
 * "keep-all; drop A; place B n0[2-3]", so a case reads as plan and steps.
 */
#include "core/diff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "scene.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct {
    const char *words;
    struct arena arena;
} script;

static const struct firn_job *job_called(const struct firn_view *view,
                                         const char *name)
{
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++)
        if (strcmp(jobs[i]->spec.name, name) == 0)
            return jobs[i];
    fail_msg("there is no job %s", name);
    return NULL;
}

static void say(const struct firn_view *view, struct firn_plan *plan,
                const char *clause)
{
    char verb[16] = "", name[16] = "", gpus[64] = "";
    sscanf(clause, "%15[^ ;] %15[^ ;] %63[^;]", verb, name, gpus);
    if (strcmp(verb, "keep-all") == 0) {
        firn_plan_keep_all(plan);
        return;
    }
    const struct firn_job *job = job_called(view, name);
    if (strcmp(verb, "keep") == 0) {
        assert_true(firn_plan_keep(plan, job));
    } else if (strcmp(verb, "drop") == 0) {
        firn_plan_drop(plan, job);
    } else if (strcmp(verb, "reject") == 0) {
        firn_plan_reject(plan, job, "it is of no use");
    } else {
        assert_string_equal(verb, "place");
        struct firn_alloc alloc = alloc_read(gpus, &script.arena);
        firn_plan_place(plan, job, &alloc);
    }
}

static enum firn_status decide(void *state, const struct firn_view *view,
                               struct firn_plan *plan)
{
    (void)state;
    for (const char *at = script.words; *at != '\0';) {
        say(view, plan, at);
        at += strcspn(at, ";");
        at += strspn(at, "; ");
    }
    return FIRN_OK;
}

static const struct firn_policy_def scripted = {
    .name = "scripted",
    .summary = "does as it is told",
    .does = FIRN_DOES_PREEMPT | FIRN_DOES_RESIZE | FIRN_DOES_MOVE |
            FIRN_DOES_SHARE | FIRN_DOES_REJECT,
    .decide = decide,
};

/* The steps that `words` make of a scene, and where jobs are then. */
static void expect(const char *text, const char *words, const char *steps,
                   const char *after)
{
    struct scene *scene = scene_new(text, &scripted, NULL);
    script.words = words;
    scene_decide(scene, 5);
    assert_string_equal(scene_steps(scene), steps);
    assert_string_equal(scene_text(scene), after);
    assert_int_equal(scene->nsteps, round_steps(scene->round));
    scene_free(scene);
    arena_release(&script.arena);
}

#define SCENE                                                               \
    "2 nodes x 4 gpus; A wants 2 from 1 to 4 shares on n0[0-1]; B wants 2 " \
    "on n1[0-1]; C wants 2 shares; D wants 1"

static void
a_kept_job_that_the_policy_does_not_mention_makes_no_step(void **unused)
{
    (void)unused;
    expect(SCENE, "keep-all", "", "A: n0[0-1]  B: n1[0-1]  C: -  D: -");
}

static void jobs_not_mentioned_in_an_empty_plan_stop(void **unused)
{
    (void)unused;
    expect(SCENE, "", "STOP A; STOP B", "A: -  B: -  C: -  D: -");
    expect(SCENE, "keep B", "STOP A", "A: -  B: n1[0-1]  C: -  D: -");
}

static void the_same_gpus_make_no_step(void **unused)
{
    (void)unused;
    expect(SCENE, "place A n0[0-1]; place B n1[0-1]", "",
           "A: n0[0-1]  B: n1[0-1]  C: -  D: -");
    expect(SCENE, "keep-all; drop A; keep A", "",
           "A: n0[0-1]  B: n1[0-1]  C: -  D: -");
    expect(SCENE, "keep-all; drop C; drop D", "",
           "A: n0[0-1]  B: n1[0-1]  C: -  D: -");
}

static void a_waiting_job_with_gpus_starts(void **unused)
{
    (void)unused;
    expect(SCENE, "keep-all; place C n1[2-3]", "START C n1[2-3]",
           "A: n0[0-1]  B: n1[0-1]  C: n1[2-3]  D: -");
}

static void another_number_of_gpus_is_a_resize(void **unused)
{
    (void)unused;
    expect(SCENE, "keep-all; place A n0[0-2]", "RESIZE A n0[0-2]",
           "A: n0[0-2]  B: n1[0-1]  C: -  D: -");
    expect(SCENE, "keep-all; place A n1[3]", "RESIZE A n1[3]",
           "A: n1[3]  B: n1[0-1]  C: -  D: -");
}

static void as_many_gpus_elsewhere_or_held_otherwise_is_a_move(void **unused)
{
    (void)unused;
    expect(SCENE, "keep-all; place A n0[1-2]", "MOVE A n0[1-2]",
           "A: n0[1-2]  B: n1[0-1]  C: -  D: -");
    expect(SCENE, "keep-all; place A n0[0-1]~", "MOVE A n0[0-1]~",
           "A: n0[0-1]~  B: n1[0-1]  C: -  D: -");
}

static void stops_come_first_and_starts_last_each_by_id(void **unused)
{
    (void)unused;
    expect(SCENE, "place D n0[0]; place C n1[0-1]",
           "STOP A; STOP B; "
           "START C n1[0-1]; "
           "START D n0[0]",
           "A: -  B: -  C: n1[0-1]  D: n0[0]");
    expect(SCENE "; E wants 1 on n0[2]; F wants 1 on n0[3]; G wants 1",
           "keep-all; place G n0[2]; place F n1[3]; drop E; place D n0[3]; "
           "place A n1[2]; place B n0[0-1]",
           "STOP E; RESIZE A n1[2]; MOVE B n0[0-1]; MOVE F n1[3]; "
           "START D n0[3]; START G n0[2]",
           "A: n1[2]  B: n0[0-1]  C: -  D: n0[3]  E: -  F: n1[3]  G: n0[2]");
}

static void a_rejected_job_ends_and_stops_first_if_it_runs(void **unused)
{
    (void)unused;
    expect(SCENE, "keep-all; reject D; reject C", "REJECT C; REJECT D",
           "A: n0[0-1]  B: n1[0-1]");
    expect(SCENE, "keep-all; reject A; place C n0[0-1]",
           "STOP A; START C n0[0-1]; REJECT A", "B: n1[0-1]  C: n0[0-1]  D: -");
    expect(SCENE, "keep-all; reject D; place D n0[3]", "START D n0[3]",
           "A: n0[0-1]  B: n1[0-1]  C: -  D: n0[3]");
}

static void steps_carry_the_time_and_the_job_as_it_was(void **unused)
{
    (void)unused;
    struct scene *scene = scene_new(SCENE, &scripted, NULL);
    struct state *state = scene_state(scene);
    struct firn_view view = round_view(scene->round, 7);
    struct firn_plan plan;
    struct diff diff;
    plan_init(&plan, state, NULL);
    plan_open(&plan, &view);
    diff_plan(&plan, &diff);
    assert_int_equal(diff.nsteps, 2);
    assert_int_equal(diff.nrejects, 0);
    assert_ptr_equal(diff.steps[1].job, scene_job(scene, "B"));
    assert_true(diff.steps[1].at_s == 7);
    assert_int_equal(diff.steps[1].to->nparts, 0);
    assert_false(diff.steps[1].is_loss);
    plan_clear(&plan);
    plan_open(&plan, &view);
    firn_plan_keep_all(&plan);
    diff_plan(&plan, &diff);
    assert_int_equal(diff.nsteps, 0);
    plan_release(&plan);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_kept_job_that_the_policy_does_not_mention_makes_no_step),
        cmocka_unit_test(jobs_not_mentioned_in_an_empty_plan_stop),
        cmocka_unit_test(the_same_gpus_make_no_step),
        cmocka_unit_test(a_waiting_job_with_gpus_starts),
        cmocka_unit_test(another_number_of_gpus_is_a_resize),
        cmocka_unit_test(as_many_gpus_elsewhere_or_held_otherwise_is_a_move),
        cmocka_unit_test(stops_come_first_and_starts_last_each_by_id),
        cmocka_unit_test(a_rejected_job_ends_and_stops_first_if_it_runs),
        cmocka_unit_test(steps_carry_the_time_and_the_job_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
