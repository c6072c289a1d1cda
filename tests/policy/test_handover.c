/* test_handover.c - each policy takes over what each other one left.
 *
 * An operator changes the policy of a scheduler that runs jobs: on whole GPUs,
 * on shared ones, merged, with more or fewer GPUs than they asked for. The new
 * one finds them as they are. It may leave them so, but its plans are valid,
 * and every job that fits still ends.
 *
 * Cost: policies squared times a scene of a dozen jobs.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "scene_random.h"
#include <cmocka.h>

static const char *from_name, *to_name;
static uint64_t with_seed;

static void decide(struct scene *scene)
{
    struct firn_error err = {0};
    if (scene_try(scene, scene->now_s, &err) != FIRN_OK)
        fail_msg("from %s to %s, seed %llu: %s", from_name, to_name,
                 (unsigned long long)with_seed, err.text);
}

/* How many jobs hold GPUs with others, or not the number they asked for. */
static int count_odd(const struct scene *scene)
{
    int n = 0;
    for (struct state_job *sj = scene_state(scene)->first; sj; sj = sj->after)
        n +=
            sj->job.held.nparts > 0 &&
            (sj->job.held.is_shared || sj->job.held.ngpus != sj->job.spec.gpus);
    return n;
}

/* Returns how much of what is handed over is odd. */
static int hand_over(const struct firn_policy_def *from,
                     const struct firn_policy_def *to, uint64_t seed)
{
    static const unsigned kinds[] = {
        SCENE_SHARING, SCENE_SHARING | SCENE_ELASTIC,
        SCENE_SHARING | SCENE_TYPES | SCENE_ELASTIC | SCENE_CHOOSY};
    struct rng rng;
    from_name = from->name;
    to_name = to->name;
    with_seed = seed;
    rng_seed(&rng, seed);
    struct firn_buf text = scene_random(&rng, kinds[seed % 3]);
    struct scene *scene = scene_new(text.at, from, NULL);
    for (int round = 0; round < 6; round++) {
        decide(scene);
        scene_shake(scene, &rng, kinds[seed % 3]);
        round_tick(scene->round, scene->now_s);
    }
    decide(scene);
    int nodd = count_odd(scene);
    scene_hand_over(scene, to);
    for (int round = 0; round < 6; round++) {
        decide(scene);
        scene_shake(scene, &rng, kinds[seed % 3]);
        round_tick(scene->round, scene->now_s);
    }
    buf_release(&text);
    scene_free(scene);
    return nodd;
}

static void any_policy_goes_on_from_any_other(void **unused)
{
    (void)unused;
    size_t n;
    int nodd = 0;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (int i = 0; i < trials(6); i++)
                nodd += hand_over(all[a], all[b],
                                  (uint64_t)(9000 + i + 17 * (int)(a + b)));
    assert_true(nodd > 100); /* else nothing was shown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_policy_goes_on_from_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
