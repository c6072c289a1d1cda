/* test_restart.c - what policies keep over a restart of the scheduler.
 *
 * Each registered policy is driven through random scenes. Now and then its
 * state is saved and loaded into a fresh one, a twin, which from then on is
 * shown the same views and hears the same events: it must plan the same. So a
 * policy that keeps nothing must not need to.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct firn_policy_def *inner;
static const char *setting; /* "policy.option=value", or NULL */
static void *twin;          /* NULL: none yet */

/* ---- states ---- */

static void *fresh_state(void)
{
    void *state = mem_new(1, inner->state_size);
    struct firn_error err = {0};
    firn_options_default(inner->options, state);
    if (setting != NULL) {
        const char *name = strchr(setting, '.') + 1;
        const char *equals = strchr(name, '=');
        char option[FIRN_NAME_MAX];
        snprintf(option, sizeof option, "%.*s", (int)(equals - name), name);
        assert_int_equal(firn_option_set(inner->options, state, inner->name,
                                         option, equals + 1, &err),
                         FIRN_OK);
    }
    if (inner->init != NULL)
        assert_int_equal(inner->init(state, &err), FIRN_OK);
    return state;
}

static void drop_state(void *state)
{
    if (state != NULL && inner->fini != NULL)
        inner->fini(state);
    mem_free(state);
}

static struct firn_buf saved(const void *state)
{
    struct firn_buf out = {0};
    inner->save(state, &out);
    return out;
}

static enum firn_status load_bytes(void *state, const char *at, size_t n,
                                   struct firn_error *err)
{
    *err = (struct firn_error){0};
    return inner->load(state, (struct firn_bytes){at, n}, err);
}

/* A twin of this state. */
static void make_twin(const void *state)
{
    struct firn_error err;
    drop_state(twin);
    twin = fresh_state();
    if (inner->save == NULL)
        return;
    struct firn_buf bytes = saved(state);
    if (load_bytes(twin, bytes.at, bytes.n, &err) != FIRN_OK)
        fail_msg("%s: %s", inner->name, err.text);
    buf_release(&bytes);
}

/* ---- the stand-in ---- */

static struct firn_buf plan_text(const struct firn_view *view,
                                 const struct firn_plan *plan)
{
    struct firn_buf out = {0};
    const struct firn_job *const *jobs = firn_view_jobs(view);
    for (size_t i = 0; i < view->njobs; i++) {
        buf_printf(&out, " %s: ", jobs[i]->spec.name);
        firn_alloc_print(firn_plan_of(plan, jobs[i]), &out);
    }
    buf_puts(&out, "");
    return out;
}

static enum firn_status decide_with_twin(void *state,
                                         const struct firn_view *view,
                                         struct firn_plan *plan)
{
    FIRN_TRY(inner->decide(state, view, plan));
    if (twin == NULL)
        return FIRN_OK;
    struct firn_buf first = plan_text(view, plan);
    firn_plan_undo(plan, 0);
    FIRN_TRY(inner->decide(twin, view, plan));
    struct firn_buf second = plan_text(view, plan);
    if (strcmp(first.at, second.at) != 0)
        fail_msg("%s at %g s plans%s, and after a restart%s", inner->name,
                 view->now_s, first.at, second.at);
    buf_release(&first);
    buf_release(&second);
    return FIRN_OK;
}

static void observe_with_twin(void *state, const struct firn_event *event)
{
    inner->observe(state, event);
    if (twin != NULL)
        inner->observe(twin, event);
}

static double wake_with_twin(const void *state, const struct firn_view *view)
{
    double wake_s = inner->wake_s(state, view);
    if (twin != NULL && inner->wake_s(twin, view) != wake_s)
        fail_msg("%s wakes at %g s, and after a restart at %g s", inner->name,
                 wake_s, inner->wake_s(twin, view));
    return wake_s;
}

static void drive(uint64_t seed, unsigned kinds)
{
    struct firn_policy_def def = *inner;
    struct rng rng;
    def.decide = decide_with_twin;
    def.observe = inner->observe ? observe_with_twin : NULL;
    def.wake_s = inner->wake_s ? wake_with_twin : NULL;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds);
    struct scene *scene = scene_new(text.at, &def, setting);
    for (int round = 0; round < 40; round++) {
        struct firn_error err = {0};
        if (round % 7 == 5)
            make_twin(scene_state(scene)->policy_state);
        if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
            fail_msg("%s, seed %llu, round %d: %s", inner->name,
                     (unsigned long long)seed, round, err.text);
        scene_shake(scene, &rng, kinds);
        round_tick(scene->round, scene->now_s);
    }
    drop_state(twin);
    twin = NULL;
    buf_release(&text);
    scene_free(scene);
}

static void drives(const struct firn_policy_def *policy, const char *with)
{
    static const unsigned kinds[] = {
        0, SCENE_TYPES | SCENE_CHOOSY, SCENE_ELASTIC | SCENE_SHARING,
        SCENE_TYPES | SCENE_ELASTIC | SCENE_SHARING};
    inner = policy;
    setting = with;
    for (int i = 0; i < trials(24); i++)
        drive((uint64_t)(5000 + i), kinds[i % 4]);
}

static void a_loaded_state_decides_as_the_saved_one(void **unused)
{
    (void)unused;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t i = 0; i < n; i++)
        drives(all[i], NULL);
    drives(firn_policy_find("lucid", NULL), "lucid.estimates=history");
    drives(firn_policy_find("easyscale", NULL), "easyscale.types=one");
    drives(firn_policy_find("easyscale", NULL), "easyscale.again=1");
    drives(firn_policy_find("themis", NULL), "themis.lease=20");
    drives(firn_policy_find("firn", NULL), "firn.effort=2");
}

/* ---- bytes ---- */

/* States that random scenes do not lead to. */
static const struct {
    const char *policy, *text;
} states[] = {
    {"themis", "firn-keep policy themis 1\n120.5\n60\n1\n"},
    {"sia", "firn-keep policy sia 1\n1\n60\n"},
    {"firn",
     "firn-keep policy firn 4\n1\n60\n-1\n3\n0\n1\n0\n5\n1\n1\n6:bert\n"
     "u\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n2\n500\n0\n0\n0\n0\n0\n0\n0\n"
     "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n"
     "0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n"
     "1\n3:qqp\n7\n1.5\n20\n0\n"
     "3\n5\n10\n30\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n0\n"
     "0\n1\n9\n0\n-1\n4\n1\n30\n400\n15\n"
     "1\n8\n4\n30\n1\n130\n0\n4\n"},
    {"rubick", "firn-keep policy rubick 1\n1\n60\n"},
    {"ymir", "firn-keep policy ymir 1\n1\n120\n2\n3\n7\n1.25\n1\n4\n9\n0.5\n"
             "0\n"},
    {"icefrog", "firn-keep policy icefrog 1\n1\n300\n2\n4:bert\n6:yol\nv3\n1\n"
                "0\n1\n"},
    {"icefrog-batch", "firn-keep policy icefrog 1\n0\n0\n0\n0\n"},
    {"easyscale", "firn-keep policy easyscale 2\n1\n8\n2\n60\n1\n4\n2\n4\n1\n"
                  "0.5\n1.25\n-inf\n1\n2\n2\n0\n1\n75\n0\n"},
    {"lucid", "firn-keep policy lucid 1\n30\n2\n1\n0:\n30\n2\n2\n1:a\n2:b:\n"
              "10\n1\n20\n1\n1\n6\n1\n2\n5\n1\n17.25\n"},
};

static void begin(size_t k)
{
    inner = firn_policy_find(states[k].policy, NULL);
    setting = NULL;
    assert_non_null(inner->save);
}

static void a_loaded_state_is_saved_as_the_same_bytes(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
        struct firn_error err;
        begin(k);
        void *state = fresh_state();
        for (int twice = 0; twice < 2; twice++) {
            if (load_bytes(state, states[k].text, strlen(states[k].text),
                           &err) != FIRN_OK)
                fail_msg("%s: %s", inner->name, err.text);
            struct firn_buf out = saved(state);
            assert_int_equal(out.n, strlen(states[k].text));
            assert_memory_equal(out.at, states[k].text, out.n);
            buf_release(&out);
        }
        drop_state(state);
    }
}

static void refuses(void *state, const char *at, size_t n)
{
    struct firn_error err;
    struct firn_buf before = saved(state);
    if (load_bytes(state, at, n, &err) == FIRN_OK)
        fail_msg("%s takes '%.*s'", inner->name, (int)n, at);
    assert_int_equal(err.status, FIRN_EDATA);
    if (strstr(err.text, "the kept state") == NULL)
        fail_msg("%s says '%s'", inner->name, err.text);
    struct firn_buf after = saved(state);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.at, after.at, before.n);
    buf_release(&before);
    buf_release(&after);
}

/* The bytes of every other policy and version, nothing, every beginning of its
 * own, and its own with something behind: the state stays as it was. */
static void foreign_and_damaged_bytes_are_refused(void **unused)
{
    (void)unused;
    size_t n = sizeof states / sizeof *states;
    for (size_t k = 0; k < n; k++) {
        const char *text = states[k].text;
        struct firn_error err;
        char more[256];
        begin(k);
        void *state = fresh_state();
        assert_int_equal(load_bytes(state, text, strlen(text), &err), FIRN_OK);
        for (size_t other = 0; other < n; other++)
            if (strncmp(states[other].text, text,
                        strlen("firn-keep policy ic")))
                refuses(state, states[other].text, strlen(states[other].text));
        for (size_t cut = 0; cut < strlen(text); cut++)
            refuses(state, text, cut);
        snprintf(more, sizeof more, "%s1\n", text);
        refuses(state, more, strlen(more));
        more[strcspn(more, "\n") - 1] = '9'; /* the version */
        refuses(state, more, strlen(text));
        drop_state(state);
    }
}

static void a_policy_that_saves_can_load(void **unused)
{
    (void)unused;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t i = 0; i < n; i++) {
        bool is_listed = false;
        for (size_t k = 0; k < sizeof states / sizeof *states; k++)
            is_listed |= strcmp(states[k].policy, all[i]->name) == 0;
        assert_int_equal(all[i]->save == NULL, all[i]->load == NULL);
        if ((all[i]->save != NULL) != is_listed)
            fail_msg("%s is not among the states of this test", all[i]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_state_decides_as_the_saved_one),
        cmocka_unit_test(a_loaded_state_is_saved_as_the_same_bytes),
        cmocka_unit_test(foreign_and_damaged_bytes_are_refused),
        cmocka_unit_test(a_policy_that_saves_can_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
