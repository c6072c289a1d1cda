/* test_round_hooks.c - whom a round tells, what it asks of a policy, and the
 * settings it takes.
 */
#include "core/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene.h"
#include "toys.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

#define YARD "2 nodes x 4 gpus; "

/* ---- the watcher ---- */

static struct firn_buf seen;

static void saw_step(void *arg, const struct firn_step *step)
{
    (void)arg;
    buf_printf(&seen, "%s %s; ",
               step->kind == FIRN_STEP_START ? "start" : "other",
               step->job->spec.name);
}

static void saw_end(void *arg, const struct firn_job *job, const char *how,
                    double now_s, double finished_s)
{
    (void)finished_s;
    (void)arg;
    buf_printf(&seen, "%s %s %g; ", how, job->spec.name, now_s);
}

static void saw_change(void *arg, const struct state *state, double now_s)
{
    (void)arg;
    buf_printf(&seen, "%d free %g; ", state->map.free_gpus, now_s);
}

static enum firn_status no_apply(void *state, const struct firn_step *step,
                                 struct firn_error *err)
{
    (void)state, (void)step, (void)err;
    return FIRN_OK;
}

static void saw(const char *expected)
{
    assert_string_equal(seen.n > 0 ? seen.at : "", expected);
    buf_clear(&seen);
}

static void the_round_watch_is_called_for_every_change(void **unused)
{
    (void)unused;
    static const struct firn_engine_def engine = {.name = "bare",
                                                  .apply = no_apply};
    struct firn_cluster cluster;
    struct round *round;
    assert_int_equal(firn_cluster_parse_spec(&cluster, "1x4:v100", NULL),
                     FIRN_OK);
    struct round_config config = {
        .cluster = &cluster,
        .policy = &toy_greedy,
        .engine = &engine,
        .watch = {.step = saw_step, .end = saw_end, .changed = saw_change}};
    assert_int_equal(round_new(&round, &config, NULL), FIRN_OK);
    struct firn_job_spec spec = {.name = "A",
                                 .app = "",
                                 .group = "",
                                 .types = "",
                                 .gpus = 3,
                                 .gpus_min = 3,
                                 .gpus_max = 3,
                                 .duration_s = 9};
    struct firn_event event = {
        .kind = FIRN_EVENT_SUBMIT, .spec = &spec, .at_s = 1};
    assert_int_equal(round_event(round, &event, NULL), FIRN_OK);
    saw("4 free 1; ");
    assert_int_equal(round_decide(round, 2, NULL), FIRN_OK);
    saw("start A; 1 free 2; ");
    assert_int_equal(round_decide(round, 3, NULL), FIRN_OK);
    saw(""); /* nothing changed */
    event = (struct firn_event){.kind = FIRN_EVENT_REPORT, .at_s = 4};
    assert_int_equal(round_event(round, &event, NULL), FIRN_OK);
    saw("");
    event = (struct firn_event){.kind = FIRN_EVENT_DONE, .at_s = 5};
    assert_int_equal(round_event(round, &event, NULL), FIRN_OK);
    saw("done A 5; 4 free 5; ");
    assert_int_equal(round_steps(round), 1);
    round_free(round);
    round_free(NULL);
    firn_cluster_release(&cluster);
    buf_release(&seen);
}

/* ---- a policy with every hook ---- */

struct hooked {
    int fails;
};

static struct {
    int inits, finis, observed;
    enum firn_event_kind last;
    double wake_s;
    size_t nrunning; /* when wake_s was asked last */
} calls;

static const struct firn_option hooked_options[] = {
    {.name = "fails",
     .type = FIRN_OPTION_INT,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .help = "whether init fails",
     .offset = offsetof(struct hooked, fails)},
    {0},
};

static enum firn_status hooked_init(void *state, struct firn_error *err)
{
    const struct hooked *hooked = state;
    calls.inits++;
    if (hooked->fails)
        return firn_fail(err, FIRN_EDATA, "policy hooked: told to fail");
    return FIRN_OK;
}

static void hooked_fini(void *state)
{
    (void)state;
    calls.finis++;
}

static void hooked_observe(void *state, const struct firn_event *event)
{
    (void)state;
    calls.observed++;
    calls.last = event->kind;
}

static double hooked_wake_s(const void *state, const struct firn_view *view)
{
    (void)state;
    assert_int_equal(view->njobs, view->nrunning + view->nwaiting);
    calls.nrunning = view->nrunning;
    return calls.wake_s;
}

static enum firn_status hooked_decide(void *state, const struct firn_view *view,
                                      struct firn_plan *plan)
{
    (void)state;
    return toy_greedy.decide(NULL, view, plan);
}

static const struct firn_policy_def hooked = {
    .name = "hooked",
    .summary = "has every hook",
    .options = hooked_options,
    .state_size = sizeof(struct hooked),
    .decide = hooked_decide,
    .init = hooked_init,
    .fini = hooked_fini,
    .observe = hooked_observe,
    .wake_s = hooked_wake_s,
};

static void policy_hooks_see_each_accepted_event(void **unused)
{
    (void)unused;
    memset(&calls, 0, sizeof calls);
    struct scene *scene = scene_new(YARD, &hooked, NULL);
    assert_int_equal(calls.inits, 1);
    scene_submit(scene, "A wants 1");
    assert_int_equal(calls.observed, 1);
    assert_int_equal(calls.last, FIRN_EVENT_SUBMIT);
    scene_decide(scene, 0); /* and A's report */
    assert_int_equal(calls.observed, 2);
    assert_int_equal(calls.last, FIRN_EVENT_REPORT);
    struct firn_event wrong = {.kind = FIRN_EVENT_DONE, .job = 77};
    assert_int_equal(round_event(scene->round, &wrong, NULL), FIRN_EINVAL);
    assert_int_equal(calls.observed, 2); /* what is refused is not told */
    scene_free(scene);
    assert_int_equal(calls.finis, 1);
}

static void a_policy_is_woken_when_it_asked(void **unused)
{
    (void)unused;
    memset(&calls, 0, sizeof calls);
    struct scene *scene = scene_new(YARD "A wants 1", &hooked, NULL);
    assert_true(isinf(round_wake_s(scene->round)));
    calls.wake_s = 60;
    scene_decide(scene, 0);
    assert_int_equal(calls.nrunning, 1); /* A, which has just started */
    assert_true(round_wake_s(scene->round) == 60);
    round_tick(scene->round, 59);
    assert_false(round_is_due(scene->round));
    round_tick(scene->round, 60);
    assert_true(round_is_due(scene->round));
    assert_true(isinf(round_wake_s(scene->round)));
    scene_decide(scene, 60); /* 60 is not after 60: never again */
    assert_true(isinf(round_wake_s(scene->round)));
    calls.wake_s = NAN;
    scene_decide(scene, 61);
    assert_true(isinf(round_wake_s(scene->round)));
    scene_free(scene);
}

/* ---- settings ---- */

static enum firn_status try_new(const struct firn_policy_def *policy,
                                const char *const *settings, size_t n,
                                struct firn_error *err)
{
    static const struct firn_engine_def engine = {.name = "none"};
    struct firn_cluster cluster;
    struct round *round = NULL;
    assert_int_equal(firn_cluster_parse_spec(&cluster, "1x1:v100", NULL),
                     FIRN_OK);
    struct round_config config = {.cluster = &cluster,
                                  .policy = policy,
                                  .settings = settings,
                                  .nsettings = n,
                                  .engine = &engine};
    enum firn_status status = round_new(&round, &config, err);
    assert_int_equal(status == FIRN_OK, round != NULL);
    round_free(round);
    firn_cluster_release(&cluster);
    return status;
}

static void bad_settings_are_refused_and_others_passed_over(void **unused)
{
    (void)unused;
    static const struct {
        const char *setting;
        enum firn_status status;
        const char *said;
    } cases[] = {
        {"hooked.fails=0", FIRN_OK, ""},
        {"other.fails=7", FIRN_OK, ""},
        {"hookedly.fails=7", FIRN_OK, ""},
        {"hook.fails=7", FIRN_OK, ""},
        {"hooked.fails=7", FIRN_EINVAL, "fails"},
        {"hooked.fails=", FIRN_EINVAL, "fails"},
        {"hooked.fals=1", FIRN_ENOENT, "fails"},
        {"hooked.fails", FIRN_EINVAL, "is not policy.option=value"},
        {"hooked.=1", FIRN_EINVAL, "is not policy.option=value"},
        {"hooked.a234567890123456789012345678901234567890=1", FIRN_EINVAL,
         "is not policy.option=value"},
        {"hooked.fails=1", FIRN_EDATA, "told to fail"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct firn_error err = {0};
        memset(&calls, 0, sizeof calls);
        enum firn_status status = try_new(&hooked, &cases[i].setting, 1, &err);
        if (status != cases[i].status ||
            strstr(err.text, cases[i].said) == NULL)
            fail_msg("%s: %s: \"%s\"", cases[i].setting,
                     firn_status_text(status), err.text);
        assert_int_equal(calls.finis, status == FIRN_OK);
    }
}

static void the_last_setting_of_several_counts(void **unused)
{
    (void)unused;
    static const char *const settings[] = {"hooked.fails=1", "fifo.skip=9",
                                           "hooked.fails=0"};
    assert_int_equal(try_new(&hooked, settings, 3, NULL), FIRN_OK);
}

static void a_policy_is_not_started_without_the_facts_it_needs(void **unused)
{
    (void)unused;
    struct firn_policy_def needy = hooked;
    struct firn_error err = {0};
    needy.needs = FIRN_NEED_DURATION;
    assert_int_equal(try_new(&needy, NULL, 0, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "policy hooked needs the run times"));
    needy.needs = FIRN_NEED_TYPES;
    assert_int_equal(try_new(&needy, NULL, 0, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "speeds of GPU types"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_round_watch_is_called_for_every_change),
        cmocka_unit_test(policy_hooks_see_each_accepted_event),
        cmocka_unit_test(a_policy_is_woken_when_it_asked),
        cmocka_unit_test(bad_settings_are_refused_and_others_passed_over),
        cmocka_unit_test(the_last_setting_of_several_counts),
        cmocka_unit_test(a_policy_is_not_started_without_the_facts_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
