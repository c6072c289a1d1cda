/* test_titan.c - TitanSched's quirks one by one, and what it refuses.
 *
 * On tables of the test's own, in which a step takes (samples on a GPU) / 48
 * seconds and an exchange none, so a job does 48 samples a second on each GPU;
 * an epoch of food101 has 4800 samples, 100 s on one GPU. A start costs 10 s:
 * 4 to load, 6 for the checkpoint. The authors' own results are in
 * test_titan_results.c.
 */
#include <firn/compat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/play.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAIN "8x4:v100"
#define HEADER                                                     \
    "name,submission_time,application,num_gpus,target_batch_size," \
    "target_lr,target_gradient_steps,target_metric\n"

/* ---- a small world ---- */

static const char *const files[] = {
    "dataset_sizes.csv",
    "hpo_curves.csv",
    "profiles/V100/vit_placements.csv",
    "profiles/V100/vit_scalability.csv",
    "profiles/V100/vit_context_switch.csv",
};
static const char *const folders[] = {"", "profiles", "profiles/V100"};

struct small {
    struct play play;
    char path[PLAY_PATH + 64];
};

static const char *path_of(struct small *s, const char *name)
{
    snprintf(s->path, sizeof s->path, "%s/ymir/%s", s->play.folder, name);
    return s->path;
}

/* Every shape on up to four nodes, at 4 and 256 samples a GPU. */
static void put_placements(struct firn_buf *out)
{
    buf_puts(out, "placement,local_bsz,step_time,sync_time\n");
    for (int p = 1; p <= 4444; p++) {
        bool is_shape = true;
        for (int left = p; left > 0; left /= 10)
            is_shape &= left % 10 >= 1 && left % 10 <= 4;
        if (is_shape)
            buf_printf(out, "%d,4,%.17g,0\n%d,256,%.17g,0\n", p, 4. / 48, p,
                       256. / 48);
    }
}

static void put_scalability(struct firn_buf *out)
{
    static const int rows[][2] = {{6, 16}, {6, 20}, {6, 24},
                                  {8, 24}, {8, 28}, {8, 32}};
    buf_puts(out, "num_nodes,num_replicas,local_bsz,step_time,sync_time\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int b = 4; b <= 256; b += 252)
            buf_printf(out, "%d,%d,%d,%.17g,0\n", rows[i][0], rows[i][1], b,
                       b / 48.);
}

static void put_tables(struct small *s)
{
    struct firn_buf text = {0};
    play_write(path_of(s, files[0]),
               "dataset,num_samples_as_used\nfood101,4800\nmnist,4812\n"
               "cifar100,4836\nfashion_mnist,4800000\n"
               "imagenet-split-0,13920.05\n");
    buf_puts(&text, "model,dataset,lr,grad_accum_steps,metric,epoch,value\n");
    static const char *const sets[] = {"food101", "mnist", "cifar100",
                                       "fashion_mnist", "imagenet-split-0"};
    for (int i = 0; i < 5; i++)
        buf_printf(&text,
                   "vit,%s,1e-4,1,eval_accuracy,1.0,0.903167\n"
                   "vit,%s,1e-4,1,eval_loss,0.5,0.99\n"
                   "vit,%s,1e-4,1,eval_accuracy,2.0,0.95\n",
                   sets[i], sets[i], sets[i]);
    play_write(path_of(s, files[1]), text.at);
    buf_clear(&text);
    put_placements(&text);
    play_write(path_of(s, files[2]), text.at);
    buf_clear(&text);
    put_scalability(&text);
    play_write(path_of(s, files[3]), text.at);
    buf_release(&text);
    play_write(path_of(s, files[4]), "app,time_cost\na,3\nb,4\n");
}

static void open_small(struct small *s, const char *rows)
{
    struct firn_buf text = {0};
    play_open(&s->play, MAIN, "");
    buf_printf(&text, HEADER "%s", rows);
    play_write(s->play.trace, text.at);
    buf_release(&text);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(path_of(s, folders[i]), 0700), 0);
    put_tables(s);
    s->play.options.profiles = s->play.folder;
    s->play.options.world = firn_compat_find("titan", NULL);
    s->play.options.restart_s = 6;
    assert_non_null(s->play.options.world);
}

static void close_small(struct small *s)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(path_of(s, files[i]));
    for (size_t i = sizeof folders / sizeof *folders; i > 0; i--)
        rmdir(path_of(s, folders[i - 1]));
    play_close(&s->play);
}

static void ends(struct small *s, const char *name, double want_s)
{
    double end_s = play_end(&s->play, name);
    if (!play_near(end_s, want_s))
        fail_msg("%s ends at %.17g, not at %.17g", name, end_s, want_s);
}

static void says(struct small *s, const char *policy, const char *text)
{
    assert_int_not_equal(play_try(&s->play, policy), FIRN_OK);
    if (strstr(s->play.err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", s->play.err.text, text);
}

/* ---- the quirks, one by one ---- */

/* rounds, every-start: submitted at 45, waits for 300, burns 10 s, trains two
 * epochs in 200 s: 45 + 255 + 10 + 200. Its GPU is free at 600. On 4 GPUs the
 * 200 s are 50. */
static void a_job_waits_for_the_round_and_pays_for_its_start(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,45,vit@food101,1,48,1e-4,1,0.95\n"
                   "b,300,vit@food101,4,48,1e-4,1,0.95\n");
    play_run(&s.play, "srtf");
    ends(&s, "a", 510);
    ends(&s, "b", 360);
    assert_true(s.play.result.gpu_s_given == 300 + 4 * 300);
    assert_true(play_near(s.play.result.gpu_s_useful, 400));
    s.play.options.restart_s = 0;
    play_run(&s.play, "srtf");
    ends(&s, "a", 504);
    close_small(&s);
}

/* charged-time: 9624 samples take 200.5 s and are charged 200, 9672 take 201.5
 * and are charged 202. With 10 epochs (a target out of reach) c takes 1000 s:
 * 290 + 300 + 300 + 110, no rounding; a completion is submission + charge. */
static void time_is_charged_in_whole_seconds_half_to_even(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@mnist,1,48,1e-4,1,0.95\n"
                   "b,0,vit@cifar100,1,48,1e-4,1,0.95\n"
                   "c,0,vit@food101,1,48,1e-4,1,0.96\n");
    play_run(&s.play, "srtf");
    ends(&s, "a", 210);
    ends(&s, "b", 212);
    ends(&s, "c", 1010);
    close_small(&s);
}

/* last-bit: 0.9031667581914699 as digits is above 2^53, so the sum of digits
 * is rounded up and the target is read too high: the first epoch, whose
 * metric it is, does not meet it. */
static void a_target_read_one_bit_too_high_is_not_met(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.903167\n"
                   "b,0,vit@food101,1,48,1e-4,1,0.9031667581914699\n"
                   "c,0,vit@food101,1,48,1e-4,1,0.90316675\n");
    play_run(&s.play, "srtf");
    ends(&s, "a", 110);
    ends(&s, "b", 210);
    ends(&s, "c", 110);
    close_small(&s);
}

/* no-preemption: a and b hold all GPUs for 10 + 6250 s, which end in the round
 * to 6300. c, of one GPU and 100 s, comes at 10 and starts at 6300. */
static void srtf_does_not_take_gpus_back(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@fashion_mnist,16,64,1e-4,1,0.9\n"
                   "b,0,vit@fashion_mnist,16,64,1e-4,1,0.9\n"
                   "c,10,vit@food101,1,48,1e-4,1,0.9\n");
    play_run(&s.play, "srtf");
    assert_true(s.play.result.restarts == 0);
    ends(&s, "a", 10 + 6250);
    ends(&s, "c", 6300 + 10 + 100);
    close_small(&s);
}

/* consolidate: eight jobs of 3 GPUs take a node each. d wants 8, and 8 are
 * free by count, but on eight nodes: at 300 it is put off, until 600, when the
 * others are gone. It was counted as started all the same, so e, with its one
 * GPU, waits as long. */
static void a_job_that_would_be_scattered_is_put_off(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a1,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a2,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a3,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a4,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a5,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a6,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a7,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "a8,0,vit@food101,3,48,1e-4,1,0.96\n"
                   "d,1,vit@food101,8,48,1e-4,1,0.95\n"
                   "e,1,vit@food101,1,48,1e-4,1,0.95\n");
    play_run(&s.play, "tiresias");
    ends(&s, "a1", 10 + 333);     /* 1000 / 3, over two rounds: 290 and 43 */
    ends(&s, "d", 600 + 10 + 25); /* each GPU 6 samples: 200 / 8 */
    ends(&s, "e", 600 + 10 + 200);
    close_small(&s);
}

/* consolidate: at 300 a (1 GPU) and b (4) start. b is placed first and takes
 * node 0, a then the fullest node that fits, which is node 1. */
static void starts_are_placed_by_size(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,10,vit@food101,1,48,1e-4,1,0.95\n"
                   "b,20,vit@food101,4,48,1e-4,1,0.95\n");
    play_run(&s.play, "tiresias");
    struct firn_buf log = play_read(s.play.log);
    assert_non_null(strstr(log.at, "300\tstart\t0\tn1[0]\n"));
    assert_non_null(strstr(log.at, "300\tstart\t1\tn0[0-3]\n"));
    buf_release(&log);
    close_small(&s);
}

/* list-order: a (8 GPUs) and b (16) came together, but b falls to the lower
 * queue at 900 and a at 1800, so there b is before a. c, of 16, comes at 1810
 * and starts at 2100: b stays, a has no room until 2400. By id it would be b
 * that stops. a alone takes 12500 s. */
static void equal_submissions_come_in_the_order_they_fell(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@fashion_mnist,8,64,1e-4,1,0.9\n"
                   "b,0,vit@fashion_mnist,16,64,1e-4,1,0.9\n"
                   "c,1810,vit@food101,16,64,1e-4,1,0.9\n");
    play_run(&s.play, "tiresias");
    ends(&s, "c", 2100 + 10 + 6);
    ends(&s, "b", 10 + 6250);
    ends(&s, "a", 10 + 12500 + 300 + 10);
    close_small(&s);
}

/* near-enough: 13920.05 samples are 290 s and a thousandth. After the 290 s of
 * the first round a twentieth of a sample is left and the job is done: it
 * holds its GPU for one round, not two. */
static void a_tenth_of_a_sample_is_near_enough(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@imagenet-split-0,1,48,1e-4,1,0.9\n");
    play_run(&s.play, "srtf");
    ends(&s, "a", 300);
    assert_true(s.play.result.gpu_s_given == 300);
    close_small(&s);
}

/* wrong-job: with a batch of 8 job l can use two GPUs (4 samples each), a with
 * 48 can use twelve. When l is the last of the list, a's second GPU reaches
 * l's limit and it gets no third, though 28 idle: 10 epochs on 2 GPUs, 500 s.
 * When a is the last, it grows to twelve, 83.3 s. */
static void optimus_asks_the_last_job_for_the_limit(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.96\n"
                   "l,0,vit@food101,1,8,1e-4,1,0.96\n");
    play_run(&s.play, "optimus");
    ends(&s, "a", 10 + 500);
    close_small(&s);
    open_small(&s, "l,0,vit@food101,1,8,1e-4,1,0.96\n"
                   "a,0,vit@food101,1,48,1e-4,1,0.96\n");
    play_run(&s.play, "optimus");
    ends(&s, "a", 10 + 83);
    close_small(&s);
}

/* filtered-run: of one bidder 0.8 is one, of three two (2.4), so of three
 * jobs that come together only two start at the first round; the third, the
 * only one left, starts at the next. */
static void themis_leaves_the_fairest_fifth_waiting(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n"
                   "b,0,vit@food101,1,48,1e-4,1,0.95\n"
                   "c,0,vit@food101,1,48,1e-4,1,0.95\n");
    play_run(&s.play, "themis");
    ends(&s, "a", 210);
    ends(&s, "b", 210);
    ends(&s, "c", 60 + 210);
    close_small(&s);
}

/* restart-served, list-order: a and b, 16 GPUs each, have 16 x (10 + 290 + 300
 * + 300) = 14400 GPU-seconds at 900 and fall to the lower queue, a before b. c
 * came at 10, wants 16 and is in the upper queue: at 900 it starts and b, the
 * last, stops until 1200. c trains 4800 samples in 6.25 s. */
static void tiresias_counts_the_restart_as_service(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@fashion_mnist,16,64,1e-4,1,0.9\n"
                   "b,0,vit@fashion_mnist,16,64,1e-4,1,0.9\n"
                   "c,10,vit@food101,16,64,1e-4,1,0.9\n");
    play_run(&s.play, "tiresias");
    ends(&s, "a", 10 + 6250);
    ends(&s, "c", 900 + 10 + 6);
    ends(&s, "b", 10 + 6250 + 300 + 10);
    assert_true(s.play.result.restarts == 1);
    close_small(&s);
}

/* ---- refused options ---- */

static void options_the_artifact_never_had_are_refused(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n");
    struct firn_sim_options usual = s.play.options;
    says(&s, "fifo", "never had a policy 'fifo'; it had srtf, tiresias");
    s.play.options.noise.report = 0.1;
    says(&s, "srtf", "never had noise");
    s.play.options = usual;
    s.play.options.mtbf_s = 1000;
    says(&s, "srtf", "never had failures");
    s.play.options = usual;
    s.play.options.interval_s = 60;
    says(&s, "srtf", "never had another interval");
    s.play.options = usual;
    s.play.options.elastic_max = 8;
    says(&s, "srtf", "never had elastic bounds");
    s.play.options = usual;
    s.play.options.profiles = NULL;
    says(&s, "srtf", "name the folder");
    s.play.options.profiles = "no/such/folder";
    says(&s, "srtf", "no/such/folder/ymir/dataset_sizes.csv: not there");
    close_small(&s);
}

static void other_clusters_are_refused(void **unused)
{
    (void)unused;
    static const char *const specs[] = {"4x4:v100", "8x8:v100", "8x4:a100",
                                        "8x4:v100,1x4:a100"};
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n");
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct firn_cluster other;
        assert_int_equal(firn_cluster_open(&other, specs[i], NULL), FIRN_OK);
        s.play.options.cluster = &other;
        says(&s, "srtf", "never had a cluster");
        firn_cluster_release(&other);
    }
    close_small(&s);
}

static void bad_rows_are_named(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n"
                   "b,0,vit@food102,1,48,1e-4,1,0.95\n");
    says(&s, "srtf",
         "line 3: TitanSched has no application 'vit@food102'; "
         "known: vit@food101, vit@mnist, vit@cifar100, "
         "vit@fashion_mnist, vit@imagenet-split-0");
    close_small(&s);
    open_small(&s, "a,0,vit@food101,1,48,3e-4,1,0.95\n");
    says(&s, "srtf", "line 2: TitanSched never trained vit@food101");
    close_small(&s);
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,high\n");
    says(&s, "srtf", "line 2: 'target_metric'");
    close_small(&s);
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n");
    play_write(s.play.trace, "name,submission_time,application,num_gpus,"
                             "target_batch_size\na,0,vit@food101,1,48\n");
    says(&s, "srtf", "no column 'target_lr'");
    close_small(&s);
    open_small(&s, "a,0,vit@food101,33,48,1e-4,1,0.95\n");
    says(&s, "srtf", "not one job that can run; 1 bad rows, the first: ");
    struct firn_cluster wide;
    assert_int_equal(firn_cluster_open(&wide, "16x4:v100", NULL), FIRN_OK);
    s.play.options.cluster = &wide;
    says(&s, "srtf", "wants 33 GPUs, TitanSched's jobs have at most 32");
    firn_cluster_release(&wide);
    close_small(&s);
}

static void bad_tables_are_named(void **unused)
{
    (void)unused;
    struct small s;
    open_small(&s, "a,0,vit@food101,1,48,1e-4,1,0.95\n");
    play_write(path_of(&s, files[4]), "app,time_cost\na,soon\n");
    says(&s, "srtf", "vit_context_switch.csv: row 1");
    play_write(path_of(&s, files[3]),
               "num_nodes,num_replicas,local_bsz,step_time,sync_time\n");
    play_write(path_of(&s, files[4]), "app,time_cost\na,4\n");
    says(&s, "srtf", "no step time for a batch of 48 on 17 GPUs");
    close_small(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_waits_for_the_round_and_pays_for_its_start),
        cmocka_unit_test(time_is_charged_in_whole_seconds_half_to_even),
        cmocka_unit_test(a_target_read_one_bit_too_high_is_not_met),
        cmocka_unit_test(srtf_does_not_take_gpus_back),
        cmocka_unit_test(a_job_that_would_be_scattered_is_put_off),
        cmocka_unit_test(starts_are_placed_by_size),
        cmocka_unit_test(tiresias_counts_the_restart_as_service),
        cmocka_unit_test(equal_submissions_come_in_the_order_they_fell),
        cmocka_unit_test(a_tenth_of_a_sample_is_near_enough),
        cmocka_unit_test(optimus_asks_the_last_job_for_the_limit),
        cmocka_unit_test(themis_leaves_the_fairest_fifth_waiting),
        cmocka_unit_test(options_the_artifact_never_had_are_refused),
        cmocka_unit_test(other_clusters_are_refused),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(bad_tables_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
