/* test_check.c - every lie is refused with a sentence, and nothing changes.
 *
 * The liar (tests/lib/policy_liar.c) is honest at 0 s, lies at 1 s and is
 * honest again at 2 s. For each lie: the sentence names the policy, the time,
 * the job and what is wrong; jobs, free GPUs and clock are as before; and the
 * honest round afterwards gives what it would have given.
 */
#include "core/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_text.h"
#include "base/buf.h"
#include "scene.h"
#include "toys.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct lie {
    const char *name;
    unsigned does;
    const char *scene; /* before the lie */
    const char *said;  /* the sentence has this */
    const char *after; /* what the honest round gives */
};

#define YARD "2 nodes x 4 gpus; "

static const struct lie lies[] = {
    {"oversubscribe", 0, YARD "A wants 2 on n0[0-1]; B wants 2",
     "'B', has -) would use a GPU that another job has",
     "A: n0[0-1]  B: n0[2-3]"},
    {"same-gpus-twice", 0, YARD "A wants 2; B wants 2",
     "'B', has -) would use a GPU that another job has",
     "A: n0[0-1]  B: n0[2-3]"},
    {"split", 0, YARD "A wants 3", "'A', has -) is a gang and would be split",
     "A: n0[0-2]"},
    {"too-many", 0, YARD "A wants 3",
     "'A', has -) is a gang and would be split", "A: n0[0-2]"},
    {"too-many", 0, YARD "A wants 2 from 1 to 3",
     "'A', has -) would hold fewer or more GPUs than it allows", "A: n0[0-1]"},
    {"split", 0, YARD "A wants 3 from 3 to 4",
     "'A', has -) would hold fewer or more GPUs than it allows", "A: n0[0-2]"},
    {"wrong-type", 0,
     "1 node x 4 gpus of v100; 1 node x 4 gpus of t4; A wants 1 types t4",
     "'A', has -) would use a GPU type it does not accept", "A: n1[0]"},
    {"wrong-type", 0,
     "1 node x 4 gpus of v100; 1 node x 4 gpus of t4; A wants 1 mem 20",
     "'A', has -) would use a GPU type it does not accept", "A: n0[0]"},
    {"dead-node", 0, YARD "n1 down; A wants 2",
     "'A', has -) would use a node that is down", "A: n0[0-1]"},
    {"no-node", 0, YARD "A wants 2",
     "'A', has -) would use a node that is not there", "A: n0[0-1]"},
    {"negative-node", 0, YARD "A wants 2",
     "'A', has -) would use a node that is not there", "A: n0[0-1]"},
    {"no-gpu", 0, YARD "A wants 2",
     "'A', has -) would use a GPU that is not there", "A: n0[0-1]"},
    {"no-gpu", 0, YARD "A wants 1",
     "'A', has -) would use a GPU that is not there", "A: n0[0]"},
    {"no-board", 0, YARD "A wants 1",
     "'A', has -) would use a GPU that is not there", "A: n0[0]"},
    {"negative-board", 0, YARD "A wants 1",
     "'A', has -) would use a GPU that is not there", "A: n0[0]"},
    {"empty-part", 0, YARD "A wants 2",
     "'A', has -) would use a GPU that is not there", "A: n0[0-1]"},
    {"node-twice", 0, YARD "A wants 2",
     "'A', has -) names a node twice or out of order", "A: n0[0-1]"},
    {"gpu-twice", 0, YARD "A wants 2",
     "'A', has -) names a node twice or out of order", "A: n0[0-1]"},
    {"out-of-order", 0, YARD "A wants 2",
     "'A', has -) names a node twice or out of order", "A: n0[0-1]"},
    {"wrong-count", 0, YARD "A wants 2",
     "'A', has -) has its GPUs counted wrong", "A: n0[0-1]"},
    {"nothing", 0, YARD "A wants 2",
     "'A', has -) is given an empty set of GPUs", "A: n0[0-1]"},
    {"odd-stages", 0, YARD "A wants 3",
     "'A', has -) would be split in a way that cannot be", "A: n0[0-2]"},
    {"zeroed-how", 0, YARD "A wants 2",
     "'A', has -) has a zeroed `how`, which names job 0 as its partner: start "
     "from FIRN_HOW_AS_SUBMITTED",
     "A: n0[0-1]"},
    {"preempt", 0, YARD "A wants 2 on n0[0-1]; B wants 4",
     "'A', has n0[0-1]) would be stopped by a policy that does not preempt",
     "A: n0[0-1]  B: n1[0-3]"},
    {"resize", 0, YARD "A wants 2 from 1 to 4 on n0[0-1]; B wants 1",
     "'A', has n0[0-1]) would be resized by a policy that does not resize",
     "A: n0[0-1]  B: n0[2]"},
    {"move", 0, YARD "A wants 2 on n0[0-1]; B wants 1",
     "'A', has n0[0-1]) would be moved by a policy that does not move",
     "A: n0[0-1]  B: n0[2]"},
    {"share", 0, YARD "A wants 2 shares",
     "'A', has -) would share GPUs under a policy that does not share",
     "A: n0[0-1]"},
    {"share", FIRN_DOES_SHARE, YARD "A wants 2",
     "'A', has -) would share GPUs but does not allow it", "A: n0[0-1]"},
    {"share-a-whole-one", FIRN_DOES_SHARE,
     YARD "A wants 2 shares on n0[0-1]; B wants 2 shares",
     "'B', has -) would use a GPU that another job has",
     "A: n0[0-1]  B: n0[2-3]"},
    {"crowd", FIRN_DOES_SHARE,
     YARD "A wants 2 shares on n0[0-1]~; B wants 2 shares on n0[0-1]~; "
          "C wants 2 shares",
     "'C', has -) would use a GPU that another job has",
     "A: n0[0-1]~  B: n0[0-1]~  C: n0[2-3]"},
    {"passes", 0, YARD "A wants 2 cannot passes",
     "'A', has -) would run in passes, which its trainer cannot", "A: n0[0-1]"},
    {"tensor", 0, YARD "A wants 2 cannot tensor",
     "'A', has -) would be split in tensors, which its trainer cannot",
     "A: n0[0-1]"},
    {"sharded", 0, YARD "A wants 2 cannot sharded",
     "'A', has -) would be sharded, which its trainer cannot", "A: n0[0-1]"},
    {"stages", 0, YARD "A wants 2 cannot pipeline",
     "'A', has -) would run in stages, which its trainer cannot", "A: n0[0-1]"},
    {"after", 0, YARD "A wants 2 cannot after",
     "'A', has -) would start from another's weights, which its trainer cannot",
     "A: n0[0-1]"},
    {"merge", FIRN_DOES_MERGE,
     YARD "A wants 2 merges k cannot partner; B wants 2 merges k",
     "'A', has -) would be merged, which its trainer cannot",
     "A: n0[0-1]  B: n0[2-3]"},
    {"split", 0, YARD "A wants 3 from 1 to 4 cannot resize",
     "'A', has -) is a gang and would be split", "A: n0[0-2]"},
    {"merge", 0, YARD "A wants 2 merges k; B wants 2 merges k",
     "'A', has -) would be merged by a policy that does not merge",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge", FIRN_DOES_MERGE, YARD "A wants 2; B wants 2 merges k",
     "'A', has -) would be merged but does not allow it",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge", FIRN_DOES_MERGE, YARD "A wants 2 merges k; B wants 2",
     "'A', has -) would be merged with a job it cannot be trained with",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge", FIRN_DOES_MERGE, YARD "A wants 2 merges k; B wants 2 merges K",
     "'A', has -) would be merged with a job it cannot be trained with",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge", FIRN_DOES_MERGE, YARD "A wants 2 merges k; B wants 2 merges -",
     "'A', has -) would be merged with a job it cannot be trained with",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge-one-sided", FIRN_DOES_MERGE,
     YARD "A wants 2 merges k; B wants 2 merges k",
     "'A', has -) is merged with a job that is not merged with it",
     "A: n0[0-1]  B: n0[2-3]"},
    {"merge-with-itself", FIRN_DOES_MERGE, YARD "A wants 2 merges k",
     "'A', has -) is merged with a job that is not merged with it",
     "A: n0[0-1]"},
    {"reject", 0, YARD "A wants 2",
     "'A', has -) would be rejected by a policy that does not reject",
     "A: n0[0-1]"},
};

static void expect_refusal(struct scene *scene, const struct lie *lie)
{
    struct firn_error err = {0};
    char before[256];
    snprintf(before, sizeof before, "%s", scene_text(scene));
    struct firn_buf free = freemap_text(&scene_state(scene)->map);
    long settled = scene->nsettled;
    enum firn_status status = scene_try(scene, 1, &err);
    if (status != FIRN_EREFUSED || err.status != FIRN_EREFUSED)
        fail_msg("%s: not refused: %s", lie->name, scene_text(scene));
    if (strstr(err.text, lie->said) == NULL)
        fail_msg("%s: the sentence is \"%s\"", lie->name, err.text);
    assert_non_null(
        strstr(err.text, "plan of policy liar at 1 s refused: job "));
    assert_string_equal(scene_text(scene), before);
    assert_string_equal(scene_steps(scene), "");
    assert_int_equal(scene->nsettled, settled);
    struct firn_buf same = freemap_text(&scene_state(scene)->map);
    assert_string_equal(same.at, free.at);
    buf_release(&free);
    buf_release(&same);
}

static void every_lie_is_refused_and_changes_nothing(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct firn_policy_def liar = toy_liar;
        char setting[64];
        liar.does = lies[i].does;
        snprintf(setting, sizeof setting, "liar.lie=%s", lies[i].name);
        struct scene *scene = scene_new(lies[i].scene, &liar, setting);
        scene_timer(scene);
        expect_refusal(scene, &lies[i]);
        expect_refusal(scene, &lies[i]); /* and the second time too */
        scene_timer(scene);
        scene_decide(scene, 2);
        if (strcmp(scene_text(scene), lies[i].after) != 0)
            fail_msg("%s: then honest: %s", lies[i].name, scene_text(scene));
        scene_free(scene);
    }
}

static void a_policy_may_do_what_it_declares(void **unused)
{
    (void)unused;
    static const struct lie allowed[] = {
        {"preempt", FIRN_DOES_PREEMPT, YARD "A wants 2 on n0[0-1]", "", "A: -"},
        {"resize", FIRN_DOES_RESIZE, YARD "A wants 2 from 1 to 4 on n0[0-1]",
         "", "A: n0[0-2]"},
        {"move", FIRN_DOES_MOVE, YARD "A wants 2 on n0[0-1]", "", "A: n1[0-1]"},
        {"share", FIRN_DOES_SHARE, YARD "A wants 2 shares", "", "A: n0[0-1]~"},
        {"crowd", FIRN_DOES_SHARE,
         YARD "A wants 2 shares on n0[0-1]~; B wants 2 shares", "",
         "A: n0[0-1]~  B: n0[0-1]~"},
        {"crowd", FIRN_DOES_SHARE,
         YARD "3 jobs per gpu; A wants 1 shares on n0[0]~; "
              "B wants 1 shares on n0[0]~; C wants 1 shares",
         "", "A: n0[0]~  B: n0[0]~  C: n0[0]~"},
        {"merge", FIRN_DOES_MERGE,
         YARD "A wants 2 merges k; B wants 2 merges k", "",
         "A: n0[0-1]~  B: n0[0-1]~"},
        {"merge", FIRN_DOES_MERGE,
         YARD "A wants 2 merges -; B wants 2 merges -", "",
         "A: n0[0-1]~  B: n0[0-1]~"},
        {"reject", FIRN_DOES_REJECT, YARD "A wants 2", "", ""},
    };
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        struct firn_policy_def liar = toy_liar;
        char setting[64];
        liar.does = allowed[i].does;
        snprintf(setting, sizeof setting, "liar.lie=%s", allowed[i].name);
        struct scene *scene = scene_new(allowed[i].scene, &liar, setting);
        scene_timer(scene);
        scene_decide(scene, 1);
        assert_string_equal(scene_text(scene), allowed[i].after);
        scene_free(scene);
    }
}

static void a_policy_that_fails_is_named(void **unused)
{
    (void)unused;
    struct scene *scene =
        scene_new(YARD "A wants 2", &toy_liar, "liar.lie=fail");
    struct firn_error err = {0};
    scene_timer(scene);
    assert_int_equal(scene_try(scene, 1, &err), FIRN_EDATA);
    assert_non_null(strstr(err.text, "policy liar failed"));
    assert_string_equal(scene_text(scene), "A: -");
    scene_timer(scene);
    scene_decide(scene, 2);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

/* ---- a plan's last word counts ---- */

static enum firn_status take_it_back(void *state, const struct firn_view *view,
                                     struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *job = firn_view_jobs(view)[0];
    firn_plan_place(plan, job, &(struct firn_alloc)FIRN_ALLOC_NONE);
    firn_plan_give(plan, job, job->spec.gpus);
    return FIRN_OK;
}

static void
a_wrong_entry_that_a_later_one_replaces_is_not_checked(void **unused)
{
    (void)unused;
    static const struct firn_policy_def policy = {
        .name = "wavering", .summary = "", .decide = take_it_back};
    struct scene *scene = scene_new(YARD "A wants 2", &policy, NULL);
    scene_decide(scene, 1);
    assert_string_equal(scene_text(scene), "A: n0[0-1]");
    scene_free(scene);
}

static enum firn_status trade_places(void *state, const struct firn_view *view,
                                     struct firn_plan *plan)
{
    (void)state;
    const struct firn_job *const *jobs = firn_view_jobs(view);
    firn_plan_place(plan, jobs[0], &jobs[1]->held);
    firn_plan_place(plan, jobs[1], &jobs[0]->held);
    return FIRN_OK;
}

static void jobs_may_trade_places(void **unused)
{
    (void)unused;
    static const struct firn_policy_def policy = {.name = "trader",
                                                  .summary = "",
                                                  .does = FIRN_DOES_MOVE,
                                                  .decide = trade_places};
    struct scene *scene = scene_new(
        YARD "A wants 2 on n0[0-1]; B wants 2 on n1[2-3]", &policy, NULL);
    scene_decide(scene, 1);
    assert_string_equal(scene_text(scene), "A: n1[2-3]  B: n0[0-1]");
    assert_string_equal(scene_steps(scene), "MOVE A n1[2-3]; MOVE B n0[0-1]");
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lie_is_refused_and_changes_nothing),
        cmocka_unit_test(a_policy_may_do_what_it_declares),
        cmocka_unit_test(a_policy_that_fails_is_named),
        cmocka_unit_test(
            a_wrong_entry_that_a_later_one_replaces_is_not_checked),
        cmocka_unit_test(jobs_may_trade_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
