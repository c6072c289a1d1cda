/* test_noise.c - reports are wrong by as much as asked, the truth is not.
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

static void factors_stay_within_their_size(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.throughput = 0.5, .report = 0.02};
    double least = 2, most = 0, sum = 0;
    for (int id = 0; id < 2000; id++) {
        struct noise noise = noise_of_job(&size, 9, id);
        assert_true(noise.sharing == 1 && noise.transfer == 1);
        least = fmin(least, noise.throughput);
        most = fmax(most, noise.throughput);
        sum += noise.throughput;
        for (int k = 0; k < 5; k++) {
            double factor = noise_next(&noise, &size, true);
            assert_true(fabs(factor / noise.throughput - 1) <= 0.02 + 1e-12);
        }
    }
    assert_true(least >= 0.5 && least < 0.51 && most < 1.5 && most > 1.49);
    assert_true(fabs(sum / 2000 - 1) < 0.03);
}

static void factors_never_come_near_zero(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.sharing = 10};
    for (int id = 0; id < 200; id++) {
        struct noise noise = noise_of_job(&size, 1, id);
        assert_true(noise_next(&noise, &size, true) >= 0.05);
        assert_true(noise_next(&noise, &size, false) == 1);
    }
}

static void each_job_has_its_own_stream(void **state)
{
    (void)state;
    const struct firn_sim_noise size = {.throughput = 0.5, .report = 0.5};
    struct noise a = noise_of_job(&size, 7, 1), b = noise_of_job(&size, 7, 2);
    struct noise again = noise_of_job(&size, 7, 1);
    assert_true(a.throughput != b.throughput);
    noise_next(&b, &size, false);
    assert_true(noise_next(&a, &size, false) ==
                noise_next(&again, &size, false));
    struct noise other = noise_of_job(&size, 8, 1);
    assert_true(other.throughput != again.throughput);
}

/* Of the work left: two draws a job, within their size, that shift no other
 * draw. */
static void noise_on_iterations_has_a_stream_of_its_own(void **state)
{
    (void)state;
    const struct firn_sim_noise off = {.throughput = 0.5, .report = 0.1};
    const struct firn_sim_noise on = {
        .throughput = 0.5, .report = 0.1, .iterations = 0.4};
    double least = 2, most = 0;
    assert_true(noise_is_on(&on));
    for (int id = 0; id < 500; id++) {
        double alone = noise_iterations(&on, 3, id, false);
        double merged = noise_iterations(&on, 3, id, true);
        assert_true(alone != merged);
        assert_true(alone == noise_iterations(&on, 3, id, false));
        assert_true(alone != noise_iterations(&on, 4, id, false));
        assert_true(noise_iterations(&off, 3, id, false) == 1);
        least = fmin(least, fmin(alone, merged));
        most = fmax(most, fmax(alone, merged));
        struct noise a = noise_of_job(&off, 3, id);
        struct noise b = noise_of_job(&on, 3, id);
        assert_true(a.throughput == b.throughput);
        assert_true(noise_next(&a, &off, true) == noise_next(&b, &on, true));
    }
    assert_true(least >= 0.6 && least < 0.62 && most < 1.4 && most > 1.38);
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
    play.options.noise.throughput = 0.9;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        play.options.seed = seed;
        play_run(&play, "srtf");
        has_differed = has_differed || play.result.jct_mean_s != plain;
    }
    assert_true(has_differed);
    play_close(&play);
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
        cmocka_unit_test(factors_stay_within_their_size),
        cmocka_unit_test(factors_never_come_near_zero),
        cmocka_unit_test(each_job_has_its_own_stream),
        cmocka_unit_test(noise_on_iterations_has_a_stream_of_its_own),
        cmocka_unit_test(noise_changes_reports_and_not_the_truth),
        cmocka_unit_test(wrong_beliefs_can_change_decisions),
        cmocka_unit_test(negative_noise_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
