/* test_foreign.c - logs and sums of a world that is not the honest one.
 *
 * In the world "late" (worlds.h) jobs finish 0.3 s after that was heard and
 * report a quarter second too much. On one node of 4 GPUs, under fifo:
 *
 *   a (2 GPUs, 100 s)   submitted 0, runs 0..100, finished 100.3
 *   b (4 GPUs, 50 s)    submitted 10, runs 100..150, finished 150.3
 */
#include "base/buf.h"
#include "base/lines.h"
#include "play.h"
#include "sim/replay.h"
#include "worlds.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void open_late(struct play *p)
{
    play_open(p, "1x4:v100", "a,0,2,100\nb,10,4,50\n");
    p->options.world = world_late();
}

static void sums_go_by_the_jobs_own_account_of_its_end(void **state)
{
    (void)state;
    struct play p;
    open_late(&p);
    play_run(&p, "fifo");
    const struct firn_sim_result *r = &p.result;
    assert_string_equal(r->world, "late");
    assert_true(play_near(play_job(&p, "a")->jct_s, 100.3));
    assert_true(play_near(play_job(&p, "b")->jct_s, 140.3));
    assert_true(play_near(r->jct_mean_s, 120.3));
    assert_true(play_near(r->jct_max_s, 140.3));
    assert_true(play_near(r->makespan_s, 150.3));
    /* Waiting is over before a job finishes: 0 and 90. */
    assert_true(play_near(r->queue_mean_s, 45));
    /* GPUs are held, and up, until it is heard: 400 of 600 GPU-seconds. */
    assert_true(play_near(r->gpu_s_given, 400));
    assert_true(play_near(r->gpu_alloc_ratio, 400.0 / 600));
    /* Jobs there until it is heard: a 190 job-seconds in 100 s, a 1.9th of 4
     * GPUs is all it wants; b 230 in 140 s. */
    assert_true(play_near(play_job(&p, "a")->rho, 100.3 / 100));
    assert_true(play_near(play_job(&p, "b")->rho, 140.3 / (50.0 * 230 / 140)));
    play_close(&p);
}

static enum firn_status replay_edited(const struct firn_buf *log,
                                      const char *from, const char *to,
                                      struct firn_sim_result *out,
                                      struct firn_error *err)
{
    struct firn_buf text = {0};
    const char *at = strstr(log->at, from);
    if (!at)
        fail_msg("no '%s' in:\n%s", from, log->at);
    buf_add(&text, log->at, (size_t)(at - log->at));
    buf_puts(&text, to);
    buf_puts(&text, at + strlen(from));
    struct lines *in = lines_from((struct firn_bytes){text.at, text.n});
    enum firn_status status = replay_lines(in, "log", out, err);
    lines_close(in);
    buf_release(&text);
    return status;
}

static void all_but_the_sum_of_work_is_checked(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        /* The honest world would not let the quarter second pass. */
        {"world\t\"late\"\n", "", "the rates before say"},
        {"150\tdone\t1\t150.3", "150\tdone\t1", "the summary says"},
        {"150\tdone\t1\t150.3", "150\tdone\t1\tlater", "cannot have finished"},
        {"150\tdone\t1\t150.3", "150\tdone\t1\t9", "cannot have finished"},
        {"100\tstart\t1", "50\tstart\t1", "time goes back"},
        {"100\tdone\t0\t100.3\n", "", "held by more jobs than may"},
        {"\njct_max_s\t140.3", "\njct_max_s\t141", "the summary says"},
        {"world\t\"late\"\n", "world\tlate\n", "no name behind it"},
        {"world\t\"late\"\n", "world\t\"late\"\nworld\t\"late\"\n", "twice"},
        {"world\t\"late\"\n", "setting\tx\n", "'setting' cannot be read"},
        {"world\t\"late\"\n", "restart_of\t\"x\"\ty\n", "'restart_of' cannot"},
        {"noise_report\t0\n", "noise_report\tx\n", "is no number"},
    };
    struct firn_sim_result result = {0};
    struct firn_error err = {0};
    struct play p;
    open_late(&p);
    play_run(&p, "fifo");
    struct firn_buf log = play_read(p.log);
    assert_int_equal(
        replay_edited(&log, "noise_report\t0\n", "", &result, &err), FIRN_OK);
    assert_string_equal(result.world, "late");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(
            replay_edited(&log, wrong[i][0], wrong[i][1], &result, &err),
            FIRN_EINVAL);
        if (!strstr(err.text, wrong[i][2]))
            fail_msg("'%s' does not say '%s'", err.text, wrong[i][2]);
    }
    buf_release(&log);
    play_close(&p);
}

static void a_world_has_the_policies_it_had(void **state)
{
    (void)state;
    struct play p;
    open_late(&p);
    assert_int_equal(play_try(&p, "srtf"), FIRN_EINVAL);
    assert_string_equal(p.err.text, "the late simulator never had a policy "
                                    "'srtf'; it had fifo, greedy");
    play_close(&p);
}

static void the_table_names_the_imitated_simulator(void **state)
{
    (void)state;
    struct firn_buf text = {0};
    struct firn_sim_result results[3] = {{.world = "honest"},
                                         {.world = "late"}};
    firn_sim_print(results, 3, FIRN_SIM_TABLE, &text);
    assert_non_null(strstr(text.at, "seed 0, by the rules of late\n"));
    assert_null(strstr(text.at, "honest"));
    buf_clear(&text);
    firn_sim_print(results, 2, FIRN_SIM_JSON, &text);
    assert_non_null(strstr(text.at, "\"world\":\"honest\""));
    assert_non_null(strstr(text.at, "\"world\":\"late\""));
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_go_by_the_jobs_own_account_of_its_end),
        cmocka_unit_test(all_but_the_sum_of_work_is_checked),
        cmocka_unit_test(a_world_has_the_policies_it_had),
        cmocka_unit_test(the_table_names_the_imitated_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
