/* test_sjf_ffs.c - the first GPUs that hold one job, whatever it costs.
 *
 * "~" behind GPUs: held as half-shares. The simulator slows any two jobs that
 * share 1.5 times unless a case sets another factor.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "play.h"
#include "scene_random.h"
#include <cmocka.h>
#include <stdio.h>

static void gives(const char *text, const char *expected)
{
    struct scene *scene =
        scene_new(text, firn_policy_find("sjf-ffs", NULL), NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    assert_int_equal(scene->did & ~(unsigned)FIRN_DOES_SHARE, 0);
    scene_free(scene);
}

static void free_gpus_come_first(void **unused)
{
    (void)unused;
    gives("1 node x 4 gpus; H wants 2 shares on n0[0-1]~; "
          "A wants 2 for 10 shares",
          "H: n0[0-1]~  A: n0[2-3]~");
}

/* By the place of their first GPU, not by id or time. A free GPU is taken only
 * for what the hosts lack. */
static void hosts_are_taken_in_the_order_of_their_gpus(void **unused)
{
    (void)unused;
    gives("3 nodes x 2 gpus; H wants 2 for 50 shares on n2[0-1]~; "
          "G wants 2 for 900 shares on n0[0-1]~; X wants 1 on n1[0]; "
          "A wants 2 for 10 shares",
          "H: n2[0-1]~  G: n0[0-1]~  X: n1[0]  A: n0[0-1]~");
    gives("3 nodes x 2 gpus; H wants 2 for 50 shares on n2[0-1]~; "
          "G wants 2 for 900 shares on n0[0-1]~; X wants 1 on n1[0]; "
          "A wants 3 for 10 shares; B wants 2 for 20 shares",
          "H: n2[0-1]~  G: n0[0-1]~  X: n1[0]  A: n0[0-1] n2[0]~  "
          "B: n1[1] n2[1]~");
    gives("3 nodes x 2 gpus; H wants 2 for 50 shares on n2[0-1]~; "
          "G wants 2 for 900 shares on n0[0-1]~; X wants 1 on n1[0]; "
          "A wants 5 for 10 shares",
          "H: n2[0-1]~  G: n0[0-1]~  X: n1[0]  A: n0[0-1] n1[1] n2[0-1]~");
}

/* 16 GiB less a tenth: 10 + 4 fit, 10 + 5 do not. b, of 50 s at 1.5 beside a,
 * from 1 to 76; or after a, from 100 to 150. */
static void memory_has_to_fit(void **unused)
{
    (void)unused;
    for (int gib = 4; gib <= 5; gib++) {
        struct play play;
        char trace[200];
        snprintf(trace, sizeof trace,
                 "#firn-trace 1\nname,submit_s,gpus,duration_s,mem_gib\n"
                 "a,0,1,100,10\nb,1,1,50,%d\n",
                 gib);
        play_open(&play, "1x1:t4", trace);
        play.options.shares = true;
        play_run(&play, "sjf-ffs");
        assert_true(play_near(play_end(&play, "b"), gib == 4 ? 76 : 150));
        play_close(&play);
    }
}

/* At 4 times the step a pair is far worse than one after the other. It shares
 * all the same; sjf-bsbf does not. */
static void ffs_shares_whatever_the_slowdown(void **unused)
{
    struct play play;
    (void)unused;
    play_open(&play, "1x1:v100", "a,0,1,100\nb,1,1,100\n");
    play.options.shares = true;
    play.options.share_slowdown = 4;
    play_run(&play, "sjf-ffs");
    /* from 1 on both at 1/4: a's 99 s end at 397, b has done 99 by then */
    assert_true(play_near(play_end(&play, "a"), 397));
    assert_true(play_near(play_end(&play, "b"), 398));
    play_run(&play, "sjf-bsbf");
    assert_true(play_near(play_end(&play, "a"), 100));
    assert_true(play_near(play_end(&play, "b"), 200));
    play_close(&play);
}

static void random_scenes_are_never_preempted(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(100); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        unsigned kinds = SCENE_SHARING | (i % 2 ? SCENE_TYPES : 0u);
        struct firn_buf text = scene_random(&rng, kinds);
        struct scene *scene =
            scene_new(text.at, firn_policy_find("sjf-ffs", NULL), NULL);
        for (int round = 0; round < 30; round++) {
            scene_decide(scene, scene->now_s);
            if (scene->did & ~(unsigned)FIRN_DOES_SHARE)
                fail_msg("seed %d, round %d: did %#x", i, round, scene->did);
            scene_shake(scene, &rng, kinds);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_gpus_come_first),
        cmocka_unit_test(hosts_are_taken_in_the_order_of_their_gpus),
        cmocka_unit_test(memory_has_to_fit),
        cmocka_unit_test(ffs_shares_whatever_the_slowdown),
        cmocka_unit_test(random_scenes_are_never_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
