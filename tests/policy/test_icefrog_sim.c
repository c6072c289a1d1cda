/* test_icefrog_sim.c - icefrog in the simulator: loads, layers, large models.
 *
 * Jobs of toy profiles whose every number is worked out by hand, and shipped
 * ones with wrong forecasts.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"
#include "lib/play.h"
#include "lib/temp.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sharing: the rules by memory and utilisation ---- */

/* One iteration a second on one T4 and never on more, so much of it forward. */
#define NET(forward)                                                     \
    "app net\nsource test\norigin none\nhardware none\nmethod made up\n" \
    "synthetic yes\nbatch_initial 10\nbatch_max 10\nlocal_min 10\n"      \
    "local_max 10\ntime t4 alpha_s 1 phi " forward " phi_fixed " forward \
    " flop_beta 1 flop_gamma 1\n"

/* The mean completion time of two jobs of that profile, 1000 s, on one GPU. */
static double mean_of_two(const char *text)
{
    struct play play;
    char folder[TEMP_FOLDER];
    temp_open(folder);
    temp_write(folder, "net.txt", text);
    play_open(&play, "1x1:t4@16",
              "#firn-trace 1\nname,submit_s,gpus,duration_s,app,may_share\n"
              "a,0,1,1000,net,1\nb,0,1,1000,net,1\n");
    play.options.profiles = folder;
    play_run(&play, "icefrog");
    double mean_s = (play_end(&play, "a") + play_end(&play, "b")) / 2;
    play_close(&play);
    temp_close(folder);
    return mean_s;
}

/* Fig. 1: two jobs with half their layers frozen, a step of which is 0.9 s
 * forward and 0.05 s backward. Each keeps a GPU busy for 60 % of the time, or
 * for 45 % with the layers frozen: who knows that has both done at 1000 x 0.95
 * x 1.07 = 1016.5, who does not runs them one after the other, to 950 and, from
 * the round at 1200, to 2150, 1.5 times later on average. The front half has no
 * variance left, so that freezing it costs nothing. */
static void figure_1_frozen_jobs_share_a_gpu(void **unused)
{
    (void)unused;
#define HALF                                                      \
    NET("0.9")                                                    \
    "layer_count 2\nfrozen 0 1 1\nfrozen 1 0.5 0.5\nbatches 10\n" \
    "stage 1000 1 1\nlayers 0 1\nmemory_mib t4 4096 0\nbeside net 1.07\n"
    double agnostic_s = mean_of_two(HALF "utilisation t4 0.6 0\n");
    double aware_s = mean_of_two(HALF "utilisation t4 0.6 0 0.3 0\n");
    assert_true(play_near(agnostic_s, (950 + 2150) / 2.0));
    assert_true(play_near(aware_s, 1016.5));
    assert_true(agnostic_s / aware_s > 1.5);
}

/* 2 x 7168 MiB x 1.1 fit into 16 GiB, 2 x 7680 x 1.1 = 16896 MiB do not:
 * the second job begins at the round at 1200. */
static void memory_must_fit_with_its_margin(void **unused)
{
    (void)unused;
#define REST "utilisation t4 0.5 0\nbeside net 1\n"
    assert_true(
        play_near(mean_of_two(NET("0.9") "memory_mib t4 7168 0\n" REST), 1000));
    assert_true(
        play_near(mean_of_two(NET("0.9") "memory_mib t4 7680 0\n" REST), 1600));
}

/* Twice as slow together: at 300 s both have done 150, the second stops, the
 * first is done at 300 + 850 and the second 850 after the round at 1200. */
static void a_slow_pair_is_parted_at_the_next_round(void **unused)
{
    (void)unused;
    double mean_s =
        mean_of_two(NET("0.9") "memory_mib t4 4096 0\nutilisation t4 0.4 0\n"
                               "beside net 2\n");
    assert_true(play_near(mean_s, (1150 + 2050) / 2.0));
}

/* Two layers; the front one freezes while its variance is a tenth of the
 * other's: psi 1 / 1.1 at a step of 0.25 + 0.375 s, rate 1.4545. In the second
 * half of training the other has no more than it: psi 0.5 is not worth it, and
 * it thaws. By then each keeps a GPU busy for 60 % of the time: the pair parts
 * at the next round. Stage one ends at 500 / 1.4545 = 343.75; at 600 both have
 * 243.75 s left, the first goes on and the second at the round at 900. */
static void a_pair_that_thaws_is_parted(void **unused)
{
    (void)unused;
    double mean_s = mean_of_two(NET(
        "0.25") "layer_count 2\nfrozen 0 1 1\nfrozen 1 0.5 0.5\nbatches 10\n"
                "stage 500 1 1\nlayers 0.1 1\nstage 1000 1 1\nlayers 0.1 0.1\n"
                "memory_mib t4 4096 0\nutilisation t4 0.6 0 0.3 0\nbeside net "
                "1\n");
    assert_true(play_near(mean_s, (843.75 + 1143.75) / 2));
}

/* ---- models that are spread over GPUs ---- */

/* A sample takes a second on one GPU, 0.25 s of it forward; 8 layers. On four
 * GPUs of a node, two samples each: sharded forward sqrt(0.5^2 + 1), backward
 * sqrt(1.5^2 + 1), reduce-scatter 0.4, 3.321 s in all; as whole copies 2.4 s,
 * which do not fit; in two stages and two replicas 0.52 + 1 + 1.52 + 0.4 =
 * 3.44. On two GPUs sqrt(2) + sqrt(10) + 0.4 = 4.976 sharded, and 0.52 + 3 +
 * 1.52 = 5.04 in two stages. */
#define LARGE                                                              \
    "app large\nsource test\norigin none\nhardware none\nmethod made up\n" \
    "synthetic yes\nbatch_initial 8\nbatch_max 8\nlocal_min 1\n"           \
    "local_max 8\nlayer_count 8\nstates_mib 8000\nfrozen 0 1 1\n"          \
    "frozen 4 0.5 0.25\nfrozen 7 0.125 0.0625\n"                           \
    "time t4 beta_s 1 phi 0.25 phi_fixed 0.25 local.alpha_s 0.4 "          \
    "flop_beta 1 flop_gamma 1 sync_beta 1\nmemory_mib t4 1000 100\n"
#define SHARDED  "sharded t4 gamma_lm 2 para_beta 1 local.alpha_s 1\n"
#define PIPELINE "pipeline t4 micro_batch 2 act_s 0.01\n"

/* When a job of that profile, alone on one node of four, is done. */
static double end_of_large(const char *text, const char *job,
                           const char *policy, const char *cluster)
{
    struct play play;
    struct firn_buf rows = {0};
    char folder[TEMP_FOLDER];
    temp_open(folder);
    temp_write(folder, "large.txt", text);
    buf_printf(&rows,
               "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max,"
               "app,restart_s\na,0,%s,large,0\n",
               job);
    play_open(&play, cluster, rows.at);
    play.options.profiles = folder;
    play.options.freeze = FIRN_SIM_FREEZE_FREEZEOUT;
    if (strstr(job, "1000,") != NULL)
        play.options.freeze = FIRN_SIM_FREEZE_POLICY;
    play_run(&play, policy);
    double end_s = play_end(&play, "a");
    play_close(&play);
    temp_close(folder);
    buf_release(&rows);
    return end_s;
}

static void large_models_are_sharded_or_cut_as_they_can(void **unused)
{
    (void)unused;
    static const char job[] = "2,1000,2,4";
    double sharded_s = sqrt(1.25) + sqrt(3.25) + 0.4;
    double two_s = sqrt(2) + sqrt(10) + 0.4;
    assert_true(play_near(
        end_of_large(LARGE SHARDED PIPELINE, job, "icefrog", "1x4:t4@8"),
        1000 * sharded_s / two_s));
    assert_true(
        play_near(end_of_large(LARGE PIPELINE, job, "icefrog", "1x4:t4@8"),
                  1000 * 3.44 / 5.04));
    /* with room for whole copies these are the fastest, on two GPUs too */
    assert_true(
        play_near(end_of_large(LARGE PIPELINE, job, "icefrog", "1x4:t4@16"),
                  1000 * 2.4 / 4.4));
}

/* FreezeOut has 7 of 8 layers frozen in the last twentieth of training, 5000
 * of 1e5 s. Sharded a step then takes sqrt(1.25) + sqrt(0.1875^2 + 0.0625^2) +
 * 0.025 = 1.3407 s, in two stages 0.52 + 0.4375 + 0.1875 + 0.025 = 1.17. Who
 * leaves it to the application stays with what was best unfrozen; icefrog
 * changes it at the next round, 0 to 300 s later, and gains 219 to 258 s. */
static void frozen_models_are_cut_another_way(void **unused)
{
    (void)unused;
    static const char job[] = "4,1e5,4,4";
    double own_s =
        end_of_large(LARGE SHARDED PIPELINE, job, "fifo", "1x4:t4@8");
    double ice_s =
        end_of_large(LARGE SHARDED PIPELINE, job, "icefrog", "1x4:t4@8");
    assert_in_range((int)(own_s - ice_s), 219, 258);
    assert_true(play_near(
        end_of_large(LARGE SHARDED, job, "icefrog", "1x4:t4@8"), own_s));
}

/* ---- many jobs of one GPU ---- */

/* 200 jobs of one GPU in 150 minutes, on six nodes of four H200, which have
 * work for eight hours of them. Measured beside each other they lose at most 10
 * %.
 */
static struct firn_buf small_jobs(uint64_t seed)
{
    static const char *const apps[] = {"mobilenetv2-c", "resnet18-c"};
    struct firn_buf text = {0};
    struct rng rng;
    double at_s = 0;
    rng_seed(&rng, seed);
    buf_puts(&text, "#firn-trace 1\n"
                    "name,submit_s,gpus,duration_s,app,may_share,batch\n");
    for (int i = 0; i < 200; i++) {
        at_s += rng_exp(&rng, 45);
        buf_printf(&text, "j%d,%.0f,1,%.0f,%s,1,256\n", i, at_s,
                   2700 + rng_exp(&rng, 900), apps[rng_below(&rng, 2)]);
    }
    buf_puts(&text, "");
    return text;
}

static double mean_of_small(const struct firn_buf *text, const char *policy,
                            const char *settings)
{
    struct play play;
    play_open(&play, "6x4:h200", text->at);
    play.options.profiles = "builtin";
    play.options.restart_s = 60;
    play.options.settings = &settings;
    play.options.nsettings = settings != NULL;
    play_run(&play, policy);
    double mean_s = play.result.jct_mean_s;
    play_close(&play);
    return mean_s;
}

/* Where many jobs wait, half a GPU is better than a whole one some time. */
static void many_small_jobs_share_rather_than_wait(void **unused)
{
    (void)unused;
    if (getenv("FIRN_QUICK") != NULL)
        skip();
    struct firn_buf text = small_jobs(1);
    double paper_s = mean_of_small(&text, "icefrog", NULL);
    double own_s = mean_of_small(&text, "icefrog", "icefrog.idle=wait");
    double alone_s = mean_of_small(&text, "icefrog", "icefrog.sharing=no");
    double ffs_s = mean_of_small(&text, "sjf-ffs", NULL);
    print_message("mean JCT: %.0f s, idle=wait %.0f s, sharing=no %.0f s, "
                  "sjf-ffs %.0f s\n",
                  paper_s, own_s, alone_s, ffs_s);
    assert_true(paper_s < 1.05 * ffs_s);
    assert_true(own_s < ffs_s);
    assert_true(1.3 * own_s < alone_s);
    buf_release(&text);
}

/* ---- wrong forecasts ---- */

/* Jobs of the shipped profiles, elastic, on 16 T4. */
static struct firn_buf workload(uint64_t seed)
{
    static const char *const apps[] = {"cifar10", "ncf", "bert", "deepspeech2"};
    struct firn_buf text = {0};
    struct rng rng;
    double at_s = 0;
    rng_seed(&rng, seed);
    buf_puts(&text, "#firn-trace 1\n"
                    "name,submit_s,gpus,duration_s,gpus_min,gpus_max,app\n");
    for (int i = 0; i < 40; i++) {
        at_s += rng_exp(&rng, 200);
        buf_printf(&text, "j%d,%.0f,%d,%.0f,1,16,%s\n", i, at_s,
                   1 << rng_below(&rng, 3), 60 + rng_exp(&rng, 3000),
                   apps[rng_below(&rng, 4)]);
    }
    buf_puts(&text, "");
    return text;
}

/* IceFrog, Fig. 11e: noise of 50 % on the throughput costs at most 17 %. */
static void half_wrong_throughputs_cost_a_fifth_at_most(void **unused)
{
    (void)unused;
    double right_s = 0, wrong_s = 0;
    if (getenv("FIRN_QUICK") != NULL)
        skip();
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct play play;
        struct firn_buf text = workload(seed);
        play_open(&play, "4x4:t4", text.at);
        play.options.profiles = "builtin";
        play.options.restart_s = 30;
        play.options.seed = seed;
        play_run(&play, "icefrog");
        right_s += play.result.jct_mean_s;
        play.options.noise.throughput = 0.5;
        play_run(&play, "icefrog");
        wrong_s += play.result.jct_mean_s;
        play_close(&play);
        buf_release(&text);
    }
    if (!(wrong_s <= 1.2 * right_s))
        fail_msg("mean JCT %.0f s with noise, %.0f s without", wrong_s / 4,
                 right_s / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_1_frozen_jobs_share_a_gpu),
        cmocka_unit_test(memory_must_fit_with_its_margin),
        cmocka_unit_test(a_slow_pair_is_parted_at_the_next_round),
        cmocka_unit_test(a_pair_that_thaws_is_parted),
        cmocka_unit_test(large_models_are_sharded_or_cut_as_they_can),
        cmocka_unit_test(frozen_models_are_cut_another_way),
        cmocka_unit_test(many_small_jobs_share_rather_than_wait),
        cmocka_unit_test(half_wrong_throughputs_cost_a_fifth_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
