/* test_noise.c - predictions and reports are wrong by as much as asked, the
 * truth is not.
 */
#include "base/buf.h"
#include "lib/play.h"
#include "sim/noise.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static double factor_of(double size, uint64_t seed, int id, int gpus, int type)
{
    const struct firn_sim_noise noise = {.throughput = size};
    const struct firn_way way = {.gpus = gpus, .type = type};
    return noise_way(&noise, seed, id, &way, 2);
}

/* Deviation 0.2, so that none of 8000 draws comes near the least factor, five
 * deviations away: the mean is 1 within 4 x 0.2 / sqrt(8000) = 0.009, the
 * deviation 0.2 within 4 x 0.2 / sqrt(16000) = 0.0064, and 68.3 % of the draws
 * are within one deviation, give or take 4 x sqrt(0.683 x 0.317 / 8000) = 2.1
 * %. The limit of a uniform draw of that size, 1.2, is exceeded. */
static void predictions_are_off_by_a_normal_factor(void **state)
{
    (void)state;
    double sum = 0, squares = 0, most = 0;
    int within = 0;
    for (int id = 0; id < 2000; id++)
        for (int gpus = 1; gpus <= 4; gpus++) {
            double off = factor_of(0.2, 9, id, gpus, 0) - 1;
            sum += off;
            squares += off * off;
            within += fabs(off) < 0.2;
            most = fmax(most, off);
        }
    assert_true(fabs(sum / 8000) < 0.009);
    assert_true(fabs(sqrt(squares / 8000) - 0.2) < 0.0064);
    assert_true(fabs(within / 8000.0 - 0.683) < 0.021);
    assert_true(most > 0.6);
}

/* Draws for 1 and 2 GPUs of the same job are no more alike than those of two
 * jobs: their correlation over 4000 jobs is 0 within 4 / sqrt(4000) = 0.063. */
static void each_way_of_a_job_has_a_draw_of_its_own(void **state)
{
    (void)state;
    double products = 0;
    for (int id = 0; id < 4000; id++)
        products += (factor_of(0.2, 9, id, 1, 0) - 1) *
                    (factor_of(0.2, 9, id, 2, 0) - 1);
    assert_true(fabs(products / 4000 / (0.2 * 0.2)) < 0.063);
    assert_true(factor_of(0.2, 9, 1, 1, 0) != factor_of(0.2, 9, 1, 1, 1));
    assert_true(factor_of(0.2, 9, 1, 1, 0) != factor_of(0.2, 8, 1, 1, 0));
    assert_true(factor_of(0.2, 9, 1, 1, 0) == factor_of(0.2, 9, 1, 1, 0));
    assert_true(factor_of(0, 9, 1, 1, 0) == 1);
    /* Twice the size is twice the error. */
    assert_true(fabs(2 * (factor_of(0.1, 9, 1, 1, 0) - 1) -
                     (factor_of(0.2, 9, 1, 1, 0) - 1)) < 1e-12);
}

static void a_way_of_mixed_types_goes_by_its_counts(void **state)
{
    (void)state;
    const struct firn_sim_noise noise = {.throughput = 0.2};
    const int one[] = {1, 2}, two[] = {2, 1};
    const struct firn_way a = {.gpus = 3, .counts = one},
                          b = {.gpus = 3, .counts = two},
                          c = {.gpus = 3, .type = 1, .counts = one};
    assert_true(noise_way(&noise, 1, 1, &a, 2) !=
                noise_way(&noise, 1, 1, &b, 2));
    assert_true(noise_way(&noise, 1, 1, &a, 2) ==
                noise_way(&noise, 1, 1, &c, 2));
}

/* As above, for 0 and 1 frozen layers of the same job on the same GPUs. */
static void each_number_of_frozen_layers_has_a_draw_of_its_own(void **state)
{
    (void)state;
    const struct firn_sim_noise noise = {.throughput = 0.2}, none = {0};
    const struct firn_way way = {.gpus = 1};
    double products = 0;
    for (int id = 0; id < 4000; id++)
        products += (noise_layers(&noise, 9, id, &way, 2, 0) - 1) *
                    (noise_layers(&noise, 9, id, &way, 2, 1) - 1);
    assert_true(fabs(products / 4000 / (0.2 * 0.2)) < 0.063);
    assert_true(noise_layers(&noise, 9, 1, &way, 2, 3) ==
                noise_layers(&noise, 9, 1, &way, 2, 3));
    assert_true(noise_layers(&none, 9, 1, &way, 2, 3) == 1);
}

static void noise_on_sharing_is_on_loads_and_slowdowns(void **state)
{
    (void)state;
    const struct firn_sim_noise on = {.sharing = 1}, off = {.throughput = 1};
    const struct firn_load load = {.util = 0.4, .mem_gib = 8};
    double util = 0, mem = 0, same = 0;
    for (int id = 0; id < 4000; id++) {
        struct firn_load wrong = noise_load(&on, 5, id, load);
        assert_true(wrong.util >= 0.05 * 0.4 && wrong.mem_gib >= 0.05 * 8);
        util += wrong.util / 0.4;
        mem += wrong.mem_gib / 8;
        same += fabs(wrong.util / 0.4 - wrong.mem_gib / 8) < 1e-9;
        assert_true(noise_slowdown(&on, 5, id, id + 1, 1.2) >= 1);
        assert_true(noise_slowdown(&off, 5, id, id + 1, 1.2) == 1.2);
        assert_true(noise_load(&off, 5, id, load).util == load.util);
    }
    /* max(0.05, 1 + z): 0.05 with a chance of 0.171, and 1.092 on average. */
    assert_true(fabs(util / 4000 - 1.092) < 0.06);
    assert_true(fabs(mem / 4000 - 1.092) < 0.06);
    assert_true(same < 4000 * 0.06); /* both at the least: 0.171^2 */
    const struct firn_load unknown = {.util = NAN, .mem_gib = NAN};
    assert_true(isnan(noise_load(&on, 5, 1, unknown).util));
}

static void reports_stay_within_their_size(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.throughput = 0.5, .report = 0.02};
    double least = 2, most = 0;
    for (int id = 0; id < 2000; id++) {
        struct noise noise = noise_of_job(9, id);
        double factor = noise_next(&noise, &size);
        least = fmin(least, factor);
        most = fmax(most, factor);
    }
    assert_true(least >= 0.98 && least < 0.981 && most < 1.02 && most > 1.019);
}

static void factors_never_come_near_zero(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.report = 10};
    for (int id = 0; id < 200; id++) {
        struct noise noise = noise_of_job(1, id);
        assert_true(noise_next(&noise, &size) >= 0.05);
        assert_true(factor_of(10, 1, id, 1, 0) >= 0.05);
    }
}

static void each_job_has_its_own_stream(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.report = 0.5};
    struct noise a = noise_of_job(7, 1), b = noise_of_job(7, 2);
    struct noise again = noise_of_job(7, 1);
    struct noise other = noise_of_job(8, 1);
    noise_next(&b, &size);
    double first = noise_next(&a, &size);
    assert_true(first == noise_next(&again, &size));
    assert_true(first != noise_next(&other, &size));
}

/* Of the work left: a draw for the job by itself and one for each partner and
 * kind of merge, within their size, that shift no other draw. */
static void noise_on_iterations_has_a_stream_of_its_own(void **state)
{
    (void)state;
    const struct firn_sim_noise off = {.throughput = 0.5, .report = 0.1};
    const struct firn_sim_noise on = {
        .throughput = 0.5, .report = 0.1, .iterations = 0.4};
    double least = 2, most = 0;
    assert_true(noise_is_on(&on));
    for (int id = 0; id < 500; id++) {
        struct noise_merge by_itself = {id, FIRN_NO_JOB, FIRN_MERGE_TOGETHER};
        struct noise_merge pair = {id, id + 1, FIRN_MERGE_TOGETHER};
        double alone = noise_iterations(&on, 3, by_itself);
        double merged = noise_iterations(&on, 3, pair);
        assert_true(alone != merged);
        assert_true(alone == noise_iterations(&on, 3, by_itself));
        assert_true(alone != noise_iterations(&on, 4, by_itself));
        assert_true(noise_iterations(&off, 3, by_itself) == 1);
        least = fmin(least, fmin(alone, merged));
        most = fmax(most, fmax(alone, merged));
        struct noise a = noise_of_job(3, id);
        struct noise b = noise_of_job(3, id);
        assert_true(noise_next(&a, &off) == noise_next(&b, &on));
    }
    assert_true(least >= 0.6 && least < 0.62 && most < 1.4 && most > 1.38);
}

/* Of the gain of transfer: partners of a job differ, and so do the two kinds of
 * merge with one of them. */
static void each_partner_of_a_job_has_a_draw_of_its_own(void **state)
{
    (void)state;
    const struct firn_sim_noise on = {.transfer = 0.4}, off = {.report = 0.4};
    struct noise_merge pair = {1, 2, FIRN_MERGE_TOGETHER};
    struct noise_merge other = {1, 3, FIRN_MERGE_TOGETHER};
    struct noise_merge later = {1, 2, FIRN_MERGE_AFTER};
    double factor = noise_transfer(&on, 3, pair);
    assert_true(factor >= 0.6 && factor < 1.4);
    assert_true(factor == noise_transfer(&on, 3, pair));
    assert_true(factor != noise_transfer(&on, 3, other));
    assert_true(factor != noise_transfer(&on, 3, later));
    assert_true(noise_transfer(&off, 3, pair) == 1);
}

/* FIFO reads no rate: its times are the same, to the digit, and so is the log,
 * which has the truth. */
static void noise_changes_reports_and_not_the_truth(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,4,100\nb,10,2,50\nc,20,2,70\n");
    play_run(&play, "fifo");
    struct firn_buf plain = play_read(play.log);
    play.options.noise = (struct firn_sim_noise){0.5, 1, 0.4, 0.1, 0.3};
    play_run(&play, "fifo");
    struct firn_buf noisy = play_read(play.log);
    /* From the first event on: the header says what the noise is. */
    const char *plain_events = strstr(plain.at, "\n0\tsubmit\t");
    const char *noisy_events = strstr(noisy.at, "\n0\tsubmit\t");
    assert_non_null(plain_events);
    assert_non_null(noisy_events);
    assert_string_equal(plain_events, noisy_events);
    buf_release(&plain);
    buf_release(&noisy);
    play_close(&play);
}

/* SRTF believes the reports of running jobs: a is preempted or not depending
 * on them. With preemptions the replay still accepts the log. */
static void wrong_beliefs_can_change_decisions(void **state)
{
    (void)state;
    struct play play;
    bool has_differed = false;
    play_open(&play, "1x4:v100",
              "a,0,4,100\nb,50,4,49\nc,60,4,45\nd,70,4,33\n");
    play_run(&play, "srtf");
    double plain = play.result.jct_mean_s;
    play.options.noise.report = 0.9;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        play.options.seed = seed;
        play_run(&play, "srtf");
        has_differed = has_differed || play.result.jct_mean_s != plain;
    }
    assert_true(has_differed);
    play_close(&play);
}

/* A policy that orders jobs by the work they have is told it with its errors:
 * no policy reads the truth. */
static void no_policy_knows_the_work_better_than_forecasts(void **state)
{
    (void)state;
    static const char *const policies[] = {"sjf", "srtf", "sjf-bsbf", "sjf-ffs",
                                           "firn"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct play play;
        bool has_differed = false;
        play_open(&play, "1x4:v100",
                  "a,0,4,100\nb,1,4,52\nc,2,4,50\nd,3,4,48\ne,4,4,46\n");
        play_run(&play, policies[i]);
        double plain = play.result.jct_mean_s;
        play.options.noise.iterations = 0.6;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            play.options.seed = seed;
            play_run(&play, policies[i]);
            has_differed = has_differed || play.result.jct_mean_s != plain;
        }
        if (!has_differed)
            fail_msg("%s is not misled", policies[i]);
        play_close(&play);
    }
}

static void negative_noise_is_refused(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x4:v100", "a,0,4,100\n");
    play.options.noise.report = -0.1;
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "noise on reports"));
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_off_by_a_normal_factor),
        cmocka_unit_test(each_way_of_a_job_has_a_draw_of_its_own),
        cmocka_unit_test(a_way_of_mixed_types_goes_by_its_counts),
        cmocka_unit_test(each_number_of_frozen_layers_has_a_draw_of_its_own),
        cmocka_unit_test(noise_on_sharing_is_on_loads_and_slowdowns),
        cmocka_unit_test(reports_stay_within_their_size),
        cmocka_unit_test(factors_never_come_near_zero),
        cmocka_unit_test(each_job_has_its_own_stream),
        cmocka_unit_test(noise_on_iterations_has_a_stream_of_its_own),
        cmocka_unit_test(each_partner_of_a_job_has_a_draw_of_its_own),
        cmocka_unit_test(noise_changes_reports_and_not_the_truth),
        cmocka_unit_test(wrong_beliefs_can_change_decisions),
        cmocka_unit_test(no_policy_knows_the_work_better_than_forecasts),
        cmocka_unit_test(negative_noise_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
