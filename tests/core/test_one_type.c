/* test_one_type.c - a job that keeps to one GPU type for its whole life.
 *
 * Each case has its twin: the same without `alike`, where types are mixed or
 * left as ever.
 */
#include "core/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "core/accept.h"
#include "desk.h"
#include "scene_random.h"
#include "toys.h"
#include <cmocka.h>
#include <firn/offer.h>
#include <firn/policy.h>
#include <stdio.h>
#include <string.h>

#define MIXED "1 node x 3 gpus of v100; 1 node x 2 gpus of t4; "

/* ---- what it is given ---- */

static void a_one_type_job_is_given_one_type_or_nothing(void **unused)
{
    (void)unused;
    static const char *const said[] = {
        MIXED "A wants 4 from 1 to 4 alike; B wants 1",
        MIXED "A wants 4 from 1 to 4; B wants 1"};
    for (int mixes = 0; mixes < 2; mixes++) {
        struct desk desk;
        struct firn_plan *plan = desk_open(&desk, said[mixes]);
        const struct firn_job *a = desk_job(&desk, "A");
        const int both[FIRN_TYPES_MAX] = {1, 1}, one[FIRN_TYPES_MAX] = {0, 2};
        struct firn_want want = {.gpus = 2, .counts = both};
        assert_true(firn_plan_give(plan, a, 4) == mixes);
        assert_true(firn_plan_give_want(plan, a, &want) == mixes);
        want.counts = one;
        assert_true(firn_plan_give_want(plan, a, &want));
        assert_string_equal(desk_has(&desk, "A"), "n1[0-1]");
        assert_true(firn_plan_give(plan, a, 3));
        assert_string_equal(desk_has(&desk, "A"), "n0[0-2]");
        assert_int_equal(firn_plan_free(plan), 2);
        desk_close(&desk);
    }
}

/* H has one of each, I one of a t4, J one of a v100. */
static void a_one_type_job_shares_and_joins_gpus_of_one_type(void **unused)
{
    (void)unused;
    static const char *const said[] = {" alike", ""};
    for (int mixes = 0; mixes < 2; mixes++) {
        struct desk desk;
        char text[256];
        snprintf(text, sizeof text,
                 MIXED "H wants 2 shares on n0[0] n1[0]~; "
                       "I wants 1 shares on n1[1]~; "
                       "J wants 1 shares on n0[1]~; "
                       "C wants 2 from 1 to 4 shares%s",
                 said[mixes]);
        struct firn_plan *plan = desk_open(&desk, text);
        const struct firn_job *c = desk_job(&desk, "C");
        const struct firn_job *h = desk_job(&desk, "H");
        const struct firn_job *ij[] = {desk_job(&desk, "I"),
                                       desk_job(&desk, "J")};
        struct firn_want two = {.gpus = 2}, three = {.gpus = 3};
        firn_plan_keep_all(plan);
        assert_true(firn_plan_share(plan, c, h) == mixes);
        assert_true(firn_plan_join(plan, c, ij, 2, &two) == mixes);
        assert_true(firn_plan_join(plan, c, ij, 1, &two) == mixes);
        assert_true(firn_plan_join(plan, c, ij + 1, 1, &two));
        assert_string_equal(desk_has(&desk, "C"), "n0[1-2]~");
        assert_false(firn_plan_join(plan, c, ij + 1, 1, &three));
        for (int i = 0; i < 2; i++)
            firn_plan_drop(plan, ij[i]);
        firn_plan_drop(plan, h);
        three.gpus = 4; /* free ones alone */
        assert_true(firn_plan_join(plan, c, NULL, 0, &three) == mixes);
        desk_close(&desk);
    }
}

/* ---- what is refused ---- */

static enum firn_status one_of_each(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    (void)state;
    struct firn_part parts[] = {{0, 0, 1}, {1, 0, 1}};
    struct firn_alloc both = {
        .parts = parts, .nparts = 2, .ngpus = 2, .how = FIRN_HOW_AS_SUBMITTED};
    firn_plan_place(plan, firn_view_jobs(view)[0], &both);
    return FIRN_OK;
}

static enum firn_status onto_node_1(void *state, const struct firn_view *view,
                                    struct firn_plan *plan)
{
    (void)state;
    struct firn_part part = {1, 0, 1};
    struct firn_alloc alloc = {
        .parts = &part, .nparts = 1, .ngpus = 1, .how = FIRN_HOW_AS_SUBMITTED};
    firn_plan_place(plan, firn_view_jobs(view)[0], &alloc);
    return FIRN_OK;
}

static void is_refused(const char *text, const char *says,
                       enum firn_status (*decide)(void *,
                                                  const struct firn_view *,
                                                  struct firn_plan *))
{
    struct firn_policy_def def = {.name = "blind",
                                  .summary = "",
                                  .does = FIRN_DOES_MOVE | FIRN_DOES_RESIZE,
                                  .decide = decide};
    struct scene *scene = scene_new(text, &def, NULL);
    struct firn_error err = {0};
    scene_timer(scene);
    enum firn_status status = scene_try(scene, 1, &err);
    assert_int_equal(status, says == NULL ? FIRN_OK : FIRN_EREFUSED);
    if (says != NULL && strstr(err.text, says) == NULL)
        fail_msg("the sentence is \"%s\"", err.text);
    scene_free(scene);
}

static void a_plan_that_mixes_or_changes_its_type_is_refused(void **unused)
{
    (void)unused;
    is_refused(MIXED "A wants 2 alike",
               "'A', has -) would use GPUs of several types but keeps to one",
               one_of_each);
    is_refused(MIXED "A wants 2", NULL, one_of_each);
    is_refused(MIXED "A wants 1 alike on n0[0]",
               "'A', has n0[0]) would leave the GPU type that it keeps to",
               onto_node_1);
    is_refused(MIXED "A wants 1 on n0[0]", NULL, onto_node_1);
    is_refused(MIXED "A wants 1 alike", NULL, onto_node_1);
    is_refused(MIXED "A wants 1 types v100 alike",
               "'A', has -) would use a GPU type it does not accept",
               onto_node_1);
}

/* ---- for life ---- */

static void the_type_it_first_held_is_its_type_for_life(void **unused)
{
    (void)unused;
    static const char *const said[] = {
        "1 node x 2 gpus of v100; 1 node x 2 gpus of t4; A wants 2 alike",
        "1 node x 2 gpus of v100; 1 node x 2 gpus of t4; A wants 2"};
    for (int moves = 0; moves < 2; moves++) {
        struct scene *scene = scene_new(said[moves], &toy_greedy, NULL);
        assert_int_equal(scene_job(scene, "A")->type_mask, 3);
        scene_decide(scene, 0);
        assert_string_equal(scene_text(scene), "A: n0[0-1]");
        assert_int_equal(scene_job(scene, "A")->type_mask, moves ? 3 : 1);
        scene_node(scene, 0, false);
        scene_decide(scene, 1);
        assert_string_equal(scene_text(scene), moves ? "A: n1[0-1]" : "A: -");
        assert_int_equal(scene_job(scene, "A")->type_mask, moves ? 3 : 1);
        scene_node(scene, 0, true);
        scene_decide(scene, 2);
        assert_string_equal(scene_text(scene),
                            moves ? "A: n1[0-1]" : "A: n0[0-1]");
        scene_free(scene);
    }
}

/* ---- who is accepted ---- */

static bool accepts(int gpus, int gpus_min, bool resizes, bool one_type,
                    char why[JOB_WHY_MAX])
{
    struct firn_cluster cluster;
    struct firn_job_spec spec = {.types = "",
                                 .gpus = gpus,
                                 .gpus_min = gpus_min,
                                 .gpus_max = gpus,
                                 .one_type = one_type};
    struct job_accept accept = {.resizes = resizes};
    assert_int_equal(firn_cluster_parse_spec(&cluster, "1x3:v100,2x1:t4", NULL),
                     FIRN_OK);
    bool is_good = job_accept(&spec, &cluster, &accept, why);
    assert_int_equal(accept.gpus, one_type ? 3 : 5);
    assert_int_equal(accept.types, 3);
    firn_cluster_release(&cluster);
    return is_good;
}

static void
a_one_type_job_is_accepted_when_one_type_could_hold_it(void **unused)
{
    (void)unused;
    char why[JOB_WHY_MAX] = "";
    assert_true(accepts(3, 3, false, true, why));
    assert_false(accepts(4, 4, false, true, why));
    assert_string_equal(why, "wants 4 GPUs of one type, the cluster has 3");
    assert_true(accepts(4, 4, false, false, why));
    assert_false(accepts(4, 1, false, true, why));
    assert_true(accepts(4, 1, true, true, why)); /* with fewer */
}

/* ---- how it is served and offered GPUs ---- */

static void served(const char *policy, const char *text, const char *expected)
{
    struct scene *scene = scene_new(text, firn_policy_find(policy, NULL), NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    scene_free(scene);
}

/* X holds one v100; by count there are 4 GPUs for B. */
static void
serving_by_rank_counts_gpus_by_type_for_a_one_type_job(void **unused)
{
    (void)unused;
    static const char twos[] = "1 node x 3 gpus of v100; 1 node x 3 gpus of "
                               "t4; X wants 1 on n0[0]; Y wants 1 on n1[0]; ";
    char text[256];
    static const char *const names[] = {"sjf", "srtf", "tiresias"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "%sB wants 3 for 2000 alike; C wants 2 for 3000", twos);
        served(names[i], text, "X: n0[0]  Y: n1[0]  B: -  C: n0[1-2]");
        snprintf(text, sizeof text, "%sB wants 3 for 2000; C wants 2 for 3000",
                 twos);
        served(names[i], text, "X: n0[0]  Y: n1[0]  B: n0[1-2] n1[1]  C: -");
    }
    snprintf(text, sizeof text, "%sB wants 3 alike; C wants 2", twos);
    served("fifo", text, "X: n0[0]  Y: n1[0]  B: -  C: -"); /* strict */
}

static void
a_one_type_job_may_have_no_more_gpus_than_one_type_has(void **unused)
{
    (void)unused;
    struct desk desk;
    desk_open(&desk, MIXED "A wants 5 from 1 to 5 alike; "
                           "B wants 5 from 1 to 5; "
                           "T wants 1 from 1 to 5 alike on n1[0]");
    const struct firn_job *a = desk_job(&desk, "A"), *b = desk_job(&desk, "B");
    assert_int_equal(firn_view_gpus_max(&desk.view, a, 0), 3);
    assert_int_equal(firn_view_gpus_max(&desk.view, b, 0), 5);
    assert_int_equal(firn_view_gpus_max(&desk.view, desk_job(&desk, "T"), 0),
                     2);
    desk_close(&desk);
}

static size_t noffers[2][2]; /* of A and B: as submitted, and elastic */

static enum firn_status look_at_offers(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    (void)state, (void)plan;
    for (int i = 0; i < 2; i++) {
        const struct firn_job *job = firn_view_jobs(view)[i];
        firn_offers(view, job, 0, &noffers[i][0]);
        firn_offers(view, job, FIRN_OFFER_ELASTIC, &noffers[i][1]);
    }
    return FIRN_OK;
}

/* As submitted A runs nowhere; elastic it has 1, 2 and 3 GPUs. */
static void
the_offers_of_a_one_type_job_end_with_what_one_type_has(void **unused)
{
    (void)unused;
    static const struct firn_policy_def policy = {.name = "looks",
                                                  .summary = "",
                                                  .decide = look_at_offers,
                                                  .does = FIRN_DOES_RESIZE};
    struct scene *scene = scene_new(MIXED "A wants 5 from 1 to 5 alike; "
                                          "B wants 5 from 1 to 5",
                                    &policy, NULL);
    scene_decide(scene, 0);
    assert_int_equal(noffers[0][0], 0);
    assert_int_equal(noffers[0][1], 3);
    assert_int_equal(noffers[1][0], 1);
    assert_int_equal(noffers[1][1], 5);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_one_type_job_is_given_one_type_or_nothing),
        cmocka_unit_test(a_one_type_job_shares_and_joins_gpus_of_one_type),
        cmocka_unit_test(a_plan_that_mixes_or_changes_its_type_is_refused),
        cmocka_unit_test(the_type_it_first_held_is_its_type_for_life),
        cmocka_unit_test(
            a_one_type_job_is_accepted_when_one_type_could_hold_it),
        cmocka_unit_test(
            serving_by_rank_counts_gpus_by_type_for_a_one_type_job),
        cmocka_unit_test(
            a_one_type_job_may_have_no_more_gpus_than_one_type_has),
        cmocka_unit_test(
            the_offers_of_a_one_type_job_end_with_what_one_type_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
