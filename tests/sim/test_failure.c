/* test_failure.c - nodes that die: from a file, drawn, and what it costs.
 */
#include "lib/play.h"
#include "sim/failure.h"
#include <firn/policy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

static enum firn_status parse(struct failures *out, const char *text,
                              struct firn_error *err)
{
    *out = (struct failures){0};
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    enum firn_status status = failures_parse(out, in, "f.csv", 4, err);
    lines_close(in);
    return status;
}

static void file_is_read_in_order(void **state)
{
    (void)state;
    struct failures f;
    struct firn_error err = {0};
    assert_int_equal(parse(&f,
                           "time_s,node,state\n# a comment\n\n"
                           "0.5,3,down\n 7 , 0 , down\r\n7,3,up",
                           &err),
                     FIRN_OK);
    assert_int_equal(f.rows.n, 3);
    assert_false(failures_are_drawn(&f));
    assert_true(failures_next_s(&f) == 0.5);
    struct failure_row row = failures_take(&f);
    assert_true(row.at_s == 0.5 && row.node == 3 && !row.is_up);
    row = failures_take(&f);
    assert_true(row.at_s == 7 && row.node == 0 && !row.is_up);
    row = failures_take(&f);
    assert_true(row.at_s == 7 && row.node == 3 && row.is_up);
    assert_true(isinf(failures_next_s(&f)));
    failures_release(&f);
}

static void wrong_rows_are_named_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"1,0\n", "f.csv: line 1 is not time_s,node,down|up"},
        {"1,0,down,x\n", "f.csv: line 1 is not time_s,node,down|up"},
        {"# x\nabc,0,down\n", "f.csv: line 2 has no time in seconds"},
        {"-1,0,down\n", "f.csv: line 1 has no time in seconds"},
        {"nan,0,down\n", "f.csv: line 1 has no time in seconds"},
        {"1,4,down\n", "f.csv: line 1 names a node the cluster does not have"},
        {"1,-1,down\n", "f.csv: line 1 names a node the cluster does not have"},
        {"1,n0,up\n", "f.csv: line 1 names a node the cluster does not have"},
        {"1,0,broken\n", "f.csv: line 1 is neither down nor up"},
        {"5,0,down\n4,0,up\n", "f.csv: line 2 goes back in time"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct failures f;
        struct firn_error err = {0};
        assert_int_equal(parse(&f, cases[i].text, &err), FIRN_EINVAL);
        assert_string_equal(err.text, cases[i].sentence);
        failures_release(&f);
    }
}

static void a_missing_or_bad_failure_file_stops_the_run(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10\n");
    play.options.failures = play.failures;
    assert_int_not_equal(play_try(&play, "fifo"), FIRN_OK);
    assert_non_null(strstr(play.err.text, "failures.csv"));
    play_failures(&play, "5,1,down\n");
    assert_int_equal(play_try(&play, "fifo"), FIRN_EINVAL);
    assert_non_null(strstr(play.err.text, "failures.csv: line 1 "));
    play_close(&play);
}

/* ---- drawn ---- */

enum { DRAWS = 400 };

/* The first changes of each node, of a cluster of `nnodes`. */
static void draw(int nnodes, uint64_t seed, double out[][DRAWS])
{
    struct failures f = {0};
    int counts[8] = {0};
    failures_draw(&f, nnodes, 1000, 100, seed);
    assert_true(failures_are_drawn(&f));
    for (double last_s = 0;;) {
        bool is_full = true;
        for (int i = 0; i < nnodes; i++)
            is_full = is_full && counts[i] >= DRAWS;
        if (is_full)
            break;
        double next_s = failures_next_s(&f);
        struct failure_row row = failures_take(&f);
        assert_true(row.at_s == next_s && row.at_s >= last_s);
        last_s = row.at_s;
        int k = counts[row.node]++;
        assert_int_equal(row.is_up, k % 2); /* down first, then in turn */
        if (k < DRAWS)
            out[row.node][k] = row.at_s;
    }
    failures_release(&f);
}

static void drawn_failures_repeat_and_nodes_are_independent(void **state)
{
    (void)state;
    static double a[3][DRAWS], b[3][DRAWS], more[5][DRAWS], other[3][DRAWS];
    draw(3, 7, a);
    draw(3, 7, b);
    draw(5, 7, more);
    draw(3, 8, other);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(a, more, sizeof a);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            assert_true(a[i][0] != other[k][0]);
            assert_true(i == k || a[i][0] != a[k][0]);
        }
}

/* Times up have mean 1000, times down 100: the mean of 1000 draws is within a
 * tenth, which is three standard errors. */
static void drawn_times_have_their_means(void **state)
{
    (void)state;
    static double at[5][DRAWS];
    double up_s = 0, down_s = 0;
    draw(5, 1, at);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < DRAWS; k++) {
            double span_s = at[i][k] - (k ? at[i][k - 1] : 0);
            *(k % 2 ? &down_s : &up_s) += span_s;
        }
    assert_true(fabs(up_s / 1000 - 1000) < 100);
    assert_true(fabs(down_s / 1000 - 100) < 10);
}

/* ---- in a run ---- */

/* Checkpoints every 10 s, restart 5 s. The node dies at 34: 30 are saved, 4
 * lost. Up at 50, resumes at 55 with 70 left: 125. */
static void node_lost_costs_work_since_the_checkpoint(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x2:v100", "a,0,2,100\n");
    play.options.checkpoint_s = 10;
    play.options.restart_s = 5;
    play_failures(&play, "34,0,down\n50,0,up\n");
    play_run(&play, "fifo");
    const struct firn_sim_result *r = &play.result;
    assert_true(play_end(&play, "a") == 125);
    assert_int_equal(r->failures, 1);
    assert_int_equal(r->restarts, 1);
    assert_true(r->gpu_s_lost == 8 && r->gpu_s_overhead == 10);
    assert_true(r->gpu_s_useful == 200 && r->gpu_s_given == 218);
    assert_true(play_job(&play, "a")->queue_s == 16);
    /* The ratio is over GPUs that are up: all held but while down. */
    assert_true(r->gpu_alloc_ratio == 1);
    play_close(&play);
}

/* A second failure at 78: the run since 55 has checkpoints at 65 and 75, so 3
 * of its 23 s are lost and 50 done; up at 80, resumes at 85: 135. A failure
 * while restarting (at 82) loses only the restart. */
static void checkpoints_count_from_each_start(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,100\n");
    play.options.checkpoint_s = 10;
    play.options.restart_s = 5;
    play_failures(&play, "34,0,down\n50,0,up\n78,0,down\n80,0,up\n");
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 135);
    assert_true(play.result.gpu_s_lost == 7);
    play_failures(&play, "34,0,down\n50,0,up\n78,0,down\n80,0,up\n"
                         "82,0,down\n90,0,up\n");
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 145);
    assert_true(play.result.gpu_s_lost == 7);
    assert_true(play.result.gpu_s_overhead == 5 + 2 + 5);
    assert_int_equal(play.result.failures, 3);
    play_close(&play);
}

static void without_checkpoints_no_work_is_lost(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,100\n");
    play_failures(&play, "34,0,down\n50,0,up\n");
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 116);
    assert_true(play.result.gpu_s_lost == 0);
    play_close(&play);
}

/* Preemption saves everything, whatever the checkpoints. */
static void preemption_loses_no_work(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,100\nb,34,1,10\n");
    play.options.checkpoint_s = 10;
    play_run(&play, "srtf");
    assert_true(play_end(&play, "a") == 110);
    assert_true(play.result.gpu_s_lost == 0);
    play_close(&play);
}

/* Of two nodes the first dies at 10: a (on it) waits for the second, b's,
 * until 50 and has 90 left. c needs both nodes and starts when the first is
 * back and a is done. */
static void only_jobs_of_the_node_are_hit(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x1:v100", "a,0,1,100\nb,0,1,50\nc,20,2,10\n");
    play_failures(&play, "10,0,down\n10,0,down\n120,0,up\n");
    play_run(&play, "fifo");
    assert_true(play_end(&play, "b") == 50);
    assert_true(play_end(&play, "a") == 140);
    assert_true(play_end(&play, "c") == 150);
    assert_int_equal(play.result.failures, 1);
    play_close(&play);
}

/* A job on two nodes stops when either dies, and not on the one alone. */
static void job_on_several_nodes_needs_them_all(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "2x2:v100", "a,0,4,100\n");
    play_failures(&play, "10,1,down\n30,1,up\n");
    play_run(&play, "srtf");
    assert_true(play_end(&play, "a") == 120);
    play_close(&play);
}

/* Done at the very moment its node dies: done. */
static void completion_comes_before_failure_at_one_instant(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,10\n");
    play_failures(&play, "10,0,down\n");
    play_run(&play, "fifo");
    assert_true(play_end(&play, "a") == 10);
    play_close(&play);
}

/* ---- nothing left to happen ---- */

static const char two_types[] =
    "#firn-trace 1\nname,submit_s,gpus,duration_s,types\n"
    "any,0,1,10,a100\n"
    "picky,0,1,100,v100\n"
    "later,20,1,10,a100\n";

static void node_that_stays_down_stalls_with_a_sentence(void **state)
{
    (void)state;
    size_t n;
    const struct firn_policy_def *const *policies = firn_policies(&n);
    struct play play;
    play_open(&play, "1x1:v100,1x1:a100", two_types);
    play_failures(&play, "5,0,down\n");
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(play_try(&play, policies[i]->name), FIRN_ESTALLED);
        assert_non_null(strstr(play.err.text, policies[i]->name));
        assert_non_null(strstr(play.err.text, "nothing left to happen"));
        assert_true(play.result.jobs + play.result.unfinished == 3);
        assert_true(play.result.jobs >= 1);
        assert_int_equal(play.result.jobs, play.done.n);
    }
    play_close(&play);
}

/* Drawn failures go on for ever, but while a node is down the run goes on: its
 * repair lets the job run. The node of v100 dies at its first draw; the job
 * that needs it arrives after that. */
static void drawn_failures_do_not_stall_a_job_that_waits(void **state)
{
    (void)state;
    struct play play;
    struct failures f = {0};
    char rows[160];
    failures_draw(&f, 2, 1000, 5000, 3);
    struct failure_row down = failures_take(&f);
    while (down.node != 0)
        down = failures_take(&f);
    struct failure_row up = failures_take(&f);
    while (up.node != 0)
        up = failures_take(&f);
    failures_release(&f);
    assert_true(!down.is_up && up.is_up);
    double at_s = (down.at_s + up.at_s) / 2;
    snprintf(rows, sizeof rows,
             "#firn-trace 1\nname,submit_s,gpus,duration_s,types\n"
             "picky,%.17g,1,0.001,v100\n",
             at_s);
    play_open(&play, "1x1:v100,1x1:a100", rows);
    play.options.mtbf_s = 1000;
    play.options.mttr_s = 5000;
    play.options.seed = 3;
    play_run(&play, "fifo");
    assert_true(play_job(&play, "picky")->first_start_s == up.at_s);
    play_close(&play);
}

/* 1000 h of work on a node that lasts an hour and saves its work once a day:
 * the test would never end. */
static void failures_that_undo_all_work_end_the_run(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100", "a,0,1,3600000\n");
    play.options.mtbf_s = 3600;
    play.options.mttr_s = 60;
    play.options.checkpoint_s = 86400;
    assert_int_equal(play_try(&play, "fifo"), FIRN_ESTALLED);
    assert_non_null(strstr(play.err.text, "but node failures"));
    assert_int_equal(play.result.unfinished, 1);
    play_close(&play);
}

/* Down from the start, and no failure ever brings it back. */
static void node_down_from_the_start_stalls(void **state)
{
    (void)state;
    struct play play;
    play_open(&play, "1x1:v100,1x1:a100", two_types);
    play.cluster.nodes[0].is_up = false;
    assert_int_equal(play_try(&play, "fifo"), FIRN_ESTALLED);
    play_failures(&play, "50,0,up\n");
    play_run(&play, "sjf");
    assert_true(play_end(&play, "picky") == 150);
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_read_in_order),
        cmocka_unit_test(wrong_rows_are_named_by_line),
        cmocka_unit_test(a_missing_or_bad_failure_file_stops_the_run),
        cmocka_unit_test(drawn_failures_repeat_and_nodes_are_independent),
        cmocka_unit_test(drawn_times_have_their_means),
        cmocka_unit_test(node_lost_costs_work_since_the_checkpoint),
        cmocka_unit_test(checkpoints_count_from_each_start),
        cmocka_unit_test(without_checkpoints_no_work_is_lost),
        cmocka_unit_test(preemption_loses_no_work),
        cmocka_unit_test(only_jobs_of_the_node_are_hit),
        cmocka_unit_test(job_on_several_nodes_needs_them_all),
        cmocka_unit_test(completion_comes_before_failure_at_one_instant),
        cmocka_unit_test(node_that_stays_down_stalls_with_a_sentence),
        cmocka_unit_test(drawn_failures_do_not_stall_a_job_that_waits),
        cmocka_unit_test(failures_that_undo_all_work_end_the_run),
        cmocka_unit_test(node_down_from_the_start_stalls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
