/* test_replay.c - a good log is accepted, and each way to be wrong is named.
 *
 * The good log is worked out by hand below: gangs, an elastic job, sharing,
 * preemption, a resize and a node that dies. Each case changes one thing of it
 * and expects the sentence that goes with it.
 *
 *   a (4 GPUs, 100 s)       n0[0-3] 0..100
 *   b (1-4 GPUs, 60 s)      n1[0-1] 0..50, n1[2-3] 60..80, n1[0-3] 80..102.5
 *   c (2 GPUs, 40 s)        n1[0-1] 10..70, until 50 shared with b
 *   d (1 GPU, 50 s)         n0[0] 110..150, n0 dies, n1[0] 160..220
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/rng.h"
#include "sim/replay.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char good[] = "#firn-log 1\n"
                           "trace\t\"hand.csv\"\n"
                           "policy\t\"toy\"\n"
                           "seed\t7\n"
                           "restart_s\t10\n"
                           "scaling\t1\n"
                           "share_slowdown\t2\n"
                           "interval_s\t0\n"
                           "quantum_s\t0\n"
                           "charges_first_start\t0\n"
                           "mtbf_s\t0\n"
                           "mttr_s\t0\n"
                           "checkpoint_s\t100\n"
                           "jobs_per_gpu\t2\n"
                           "cluster\t\"two\"\t2\t8\n"
                           "nodes\t0-1\t4\t\"v100\"\tup\n"
                           "0\tsubmit\t0\t\"a\"\t4\t4\t4\t100\t0\n"
                           "0\tstart\t0\tn0[0-3]\n"
                           "0\trate\t0\t0\t1\t0\n"
                           "0\tsubmit\t1\t\"b\"\t2\t1\t4\t60\t1\n"
                           "0\tstart\t1\tn1[0-1]\n"
                           "0\trate\t1\t0\t1\t0\n"
                           "10\tsubmit\t2\t\"c\"\t2\t2\t2\t40\t1\n"
                           "10\tmove\t1\tn1[0-1]~\n"
                           "10\trate\t1\t10\t0.5\t20\n"
                           "10\tstart\t2\tn1[0-1]~\n"
                           "10\trate\t2\t0\t0.5\t10\n"
                           "50\tstop\t1\t25\tpreempt\n"
                           "50\trate\t2\t20\t1\t50\n"
                           "60\tstart\t1\tn1[2-3]\n"
                           "60\trate\t1\t25\t1\t70\n"
                           "70\tdone\t2\n"
                           "80\tresize\t1\tn1[0-1,\\\n"
                           "2-3]\n"
                           "80\trate\t1\t35\t2\t90\n"
                           "100\tdone\t0\n"
                           "102.5\tdone\t1\n"
                           "110\tsubmit\t3\t\"d\"\t1\t1\t1\t50\t0\n"
                           "110\tstart\t3\tn0[0]\n"
                           "110\trate\t3\t0\t1\t110\n"
                           "150\tstop\t3\t40\tnode\n"
                           "150\tnode_down\t0\n"
                           "160\tstart\t3\tn1[0]\n"
                           "160\trate\t3\t0\t1\t170\n"
                           "200\tnode_up\t0\n"
                           "220\tdone\t3\n"
                           "end\n"
                           "seed\t7\n"
                           "restart_s\t10\n"
                           "jobs\t4\n"
                           "unfinished\t0\n"
                           "rejected\t0\n"
                           "bad_rows\t0\n"
                           "ignored_rows\t0\n"
                           "unsorted_rows\t0\n"
                           "nominal_jobs\t0\n"
                           "jct_mean_s\t93.125\n"
                           "jct_p50_s\t101.25\n"
                           "jct_p90_s\t107.75\n"
                           "jct_p99_s\t109.775\n"
                           "jct_max_s\t110\n"
                           "jobs_gpus_1\t1\n"
                           "jct_mean_s_gpus_1\t110\n"
                           "jobs_gpus_2-4\t3\n"
                           "jct_mean_s_gpus_2-4\t87.5\n"
                           "jobs_gpus_5-8\t0\n"
                           "jct_mean_s_gpus_5-8\tnan\n"
                           "jobs_gpus_9+\t0\n"
                           "jct_mean_s_gpus_9+\tnan\n"
                           "queue_mean_s\t5\n"
                           "queue_p50_s\t5\n"
                           "queue_p99_s\t10\n"
                           "makespan_s\t220\n"
                           "gpu_alloc_ratio\t0.4935897435897436\n"
                           "gpu_util_ratio\t0.4\n"
                           "fragmentation\t0.1\n"
                           "restarts\t4\n"
                           "failures\t1\n"
                           "rho_mean\t1\n"
                           "rho_p50\t1\n"
                           "rho_p99\t1\n"
                           "rho_max\t1\n"
                           "unfair_share\t0\n"
                           "gpu_s_given\t850\n"
                           "gpu_s_useful\t720\n"
                           "gpu_s_overhead\t90\n"
                           "gpu_s_lost\t40\n"
                           "rounds\t9\n"
                           "events\t9\n"
                           "steps\t10\n";

static enum firn_status check(const char *text, size_t n,
                              struct firn_sim_result *out,
                              struct firn_error *err)
{
    struct lines *in = lines_from((struct firn_bytes){text, n});
    enum firn_status status = replay_lines(in, "log", out, err);
    lines_close(in);
    return status;
}

/* The good log with the first `from` replaced. */
static struct firn_buf edited(const char *from, const char *to)
{
    struct firn_buf text = {0};
    const char *at = strstr(good, from);
    if (!at)
        fail_msg("the good log has no '%s'", from);
    buf_add(&text, good, (size_t)(at - good));
    buf_puts(&text, to);
    buf_puts(&text, at + strlen(from));
    return text;
}

static void refused(const char *from, const char *to, const char *sentence)
{
    struct firn_sim_result result = {.jobs = -1};
    struct firn_error err = {0};
    struct firn_buf text = edited(from, to);
    assert_int_equal(check(text.at, text.n, &result, &err), FIRN_EINVAL);
    assert_string_equal(err.text, sentence);
    assert_int_equal(result.jobs, -1);
    buf_release(&text);
}

static void accepted(const char *from, const char *to)
{
    struct firn_sim_result result;
    struct firn_error err = {0};
    struct firn_buf text = edited(from, to);
    if (check(text.at, text.n, &result, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    buf_release(&text);
}

static void a_hand_worked_log_is_accepted(void **state)
{
    (void)state;
    struct firn_sim_result result;
    struct firn_error err = {0};
    if (check(good, sizeof good - 1, &result, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.jobs, 4);
    assert_string_equal(result.trace, "hand.csv");
    assert_string_equal(result.policy, "toy");
    assert_string_equal(result.cluster, "two");
    assert_int_equal(result.seed, 7);
    assert_true(result.jct_mean_s == 93.125);
    assert_true(result.classes[1].jct_mean_s == 87.5);
}

static void two_jobs_may_swap_places_in_one_moment(void **state)
{
    (void)state;
    /* a moves onto b's node before b has left it. */
    struct firn_buf text =
        edited("0\trate\t1\t0\t1\t0\n", "0\trate\t1\t0\t1\t0\n"
                                        "5\tmove\t0\tn1[0-3]\n"
                                        "5\tmove\t1\tn0[0-1]\n"
                                        "5\trate\t0\t5\t1\t5\n"
                                        "5\trate\t1\t5\t1\t5\n");
    struct firn_sim_result result;
    struct firn_error err = {0};
    assert_int_equal(check(text.at, text.n, &result, &err), FIRN_EINVAL);
    /* The swap passes; it is c, later, that finds a there. */
    assert_string_equal(err.text, "log: line 28: GPU 0 of node 1 is held by "
                                  "more jobs than may");
    buf_release(&text);
}

static void a_file_that_is_no_log_is_refused(void **state)
{
    (void)state;
    refused("#firn-log 1", "#firn-log 2",
            "log: line 1: this is no event log: it does not begin with "
            "'#firn-log 1'");
    refused("seed\t7\n", "",
            "log: line 16: the header before this line is not whole");
    refused("seed\t7\n", "seed\t7\nseed\t7\n",
            "log: line 5: 'seed' stands twice or has no number");
    refused("quantum_s\t0\n", "quantum_s\t0\nquantum_s\t0\n",
            "log: line 10: 'quantum_s' stands twice or is no number");
    refused("quantum_s\t0\n", "quantm_s\t0\n",
            "log: line 9: 'quantm_s' does not belong there");
    refused("jobs_per_gpu\t2", "jobs_per_gpu\t0",
            "log: line 14: 'jobs_per_gpu' is not from 1 to 64");
    refused("nodes\t0-1", "nodes\t1-2",
            "log: line 16: nodes 1-2 do not follow node -1");
    refused("nodes\t0-1", "nodes\t0-2",
            "log: line 17: the cluster has 3 nodes and 12 GPUs, not 2 and 8");
    refused("nodes\t0-1\t4", "nodes\t0-1\t0",
            "log: line 16: the nodes cannot be read");
}

static void a_log_must_have_its_end(void **state)
{
    (void)state;
    refused("end\n", "aborted\n",
            "log: line 47: the run was aborted: there is no summary");
    refused("restarts\t4\n", "", "log: line 89: the summary has no 'restarts'");
    refused("steps\t10\n", "steps\t10\nsteps\t10\n",
            "log: line 91: 'steps' does not belong there");
    struct firn_sim_result result;
    struct firn_error err = {0};
    size_t cut = (size_t)(strstr(good, "end\n") - good);
    assert_int_equal(check(good, cut, &result, &err), FIRN_EINVAL);
    assert_string_equal(err.text,
                        "log: line 46: the log stops without a summary");
}

static void time_never_goes_back(void **state)
{
    (void)state;
    refused("70\tdone\t2\n", "59\tdone\t2\n",
            "log: line 32: time goes back from 60 to 59");
    refused("70\tdone\t2\n", "7x0\tdone\t2\n",
            "log: line 32: '7x0' is no time");
}

static void jobs_are_submitted_once_and_before_use(void **state)
{
    (void)state;
    refused("0\tstart\t0\t", "0\tstart\t5\t",
            "log: line 18: job 5 was never submitted");
    refused("submit\t1\t\"b\"", "submit\t0\t\"b\"",
            "log: line 20: job 0 is submitted behind job 0");
    refused("100\tdone\t0\n", "100\tdone\t0\n100\tdone\t0\n",
            "log: line 37: job 0 has ended before");
    refused("\t4\t4\t4\t100\t0", "\t4\t4\t4\t-1\t0",
            "log: line 17: job 0 has no duration");
    refused("\t2\t1\t4\t60\t1", "\t2\t5\t4\t60\t1",
            "log: line 20: job 1 wants at least 5 and at most 4 GPUs");
    refused("70\tdone\t2\n", "70\tended\t2\n",
            "log: line 32: 'ended' is no kind of event");
    refused("70\tdone\t2\n", "70\tdone\t2\t3\t4\n",
            "log: line 32: 'done' has 5 columns, not 3");
}

static void no_gpu_is_held_twice(void **state)
{
    (void)state;
    refused("start\t1\tn1[0-1]\n", "start\t1\tn0[3] n1[0]\n",
            "log: line 21: GPU 3 of node 0 is held by more jobs than may");
    /* One whole, one shared. */
    refused("10\tmove\t1\tn1[0-1]~\n10\trate\t1\t10\t0.5\t20\n", "",
            "log: line 24: GPU 0 of node 1 is held by more jobs than may");
    /* Two may share by the good log; here only one may. */
    refused("jobs_per_gpu\t2", "jobs_per_gpu\t1",
            "log: line 26: GPU 0 of node 1 is held by more jobs than may");
}

static void only_real_gpus_are_held(void **state)
{
    (void)state;
    refused("n0[0-3]", "n0[0-4]", "log: line 18: node 0 has no GPU 4");
    refused("n0[0-3]", "n2[0-3]", "log: line 18: there is no node 2");
    refused("n0[0-3]", "n0[0-1,1-2]",
            "log: line 18: GPU 1 of node 0 is named twice or out of order");
    refused("n0[0-3]", "n0[0-3",
            "log: line 18: the GPUs of node 0 cannot be "
            "read");
    refused("n0[0-3]", "-", "log: line 18: '-' is no allocation");
    refused("n0[0-3]", "n0[0-3]x", "log: line 18: 'x' is no allocation");
    refused("n0[0-3]", "n0[0-99999999999]",
            "log: line 18: the GPUs of node 0 cannot be read");
}

static void no_gpu_of_a_dead_node_is_held(void **state)
{
    (void)state;
    refused("160\tstart\t3\tn1[0]", "160\tstart\t3\tn0[0]",
            "log: line 43: node 0 is down");
    refused("150\tstop\t3\t40\tnode\n", "",
            "log: line 41: a job keeps GPUs of a node that went down");
    refused("200\tnode_up\t0\n", "200\tnode_up\t1\n",
            "log: line 45: node 1 is up already");
    refused("200\tnode_up\t0\n", "200\tnode_up\t2\n",
            "log: line 45: there is no node 2");
}

static void gangs_are_whole(void **state)
{
    (void)state;
    refused("n0[0-3]", "n0[0-2]",
            "log: line 18: job 0 is a gang of 4 GPUs and gets 3");
    refused("n1[0-1,\\\n2-3]", "n0[0-3] n1[2-3]",
            "log: line 33: job 1 runs on 1 to 4 GPUs and gets 6");
    refused("\t60\t1\n", "\t60\t0\n",
            "log: line 24: job 1 does not share GPUs");
}

static void a_step_line_of_the_wrong_kind_is_refused(void **state)
{
    (void)state;
    refused("60\tstart\t1", "60\tresize\t1",
            "log: line 30: job 1 does not run");
    refused("10\tmove\t1\tn1[0-1]~", "10\tstart\t1\tn1[0-1]~",
            "log: line 24: job 1 starts but runs already");
    refused("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]",
            "log: line 24: job 1 is moved to where it is");
    /* the same GPUs, the model spread over them another way: that is one */
    refused("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/q2",
            "log: line 24: a model is sharded (/s, /o), copied (/r) or "
            "in stages (/p4, /p4t2)");
    refused("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/p",
            "log: line 24: a model is sharded (/s, /o), copied (/r) or "
            "in stages (/p4, /p4t2)");
    accepted("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/p2~");
    accepted("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/p1t2~");
    accepted("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/o~");
    accepted("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]+2ro~");
    refused("10\tmove\t1\tn1[0-1]~", "10\tmove\t1\tn1[0-1]/s+q~",
            "log: line 24: memory is saved by '1', '2', 'r' or 'o', in this "
            "order, not by 'q'");
    refused("10\tmove\t1\tn1[0-1]~", "10\tresize\t1\tn1[0-1]~",
            "log: line 24: job 1 is resized from 2 GPUs to as many");
    refused("80\tresize\t1", "80\tmove\t1",
            "log: line 34: job 1 is moved from 2 GPUs to 4");
    refused("50\tstop\t1\t25\tpreempt\n",
            "50\tstop\t1\t25\tpreempt\n50\tstop\t1\t25\tpreempt\n",
            "log: line 29: job 1 does not run");
    refused("25\tpreempt", "25\tboredom",
            "log: line 28: 'boredom' is no reason to stop");
}

static void nothing_is_held_after_the_end(void **state)
{
    (void)state;
    /* c is done and its GPUs are free for b's resize: were they not, the good
     * log would be refused. Here c is never done. */
    refused("70\tdone\t2\n", "",
            "log: line 33: GPU 0 of node 1 is held by more jobs than may");
    refused("220\tdone\t3\n", "200\tstop\t3\t30\tpreempt\n220\tdone\t3\n",
            "log: line 47: job 3 is done but does not run");
}

static void work_adds_up(void **state)
{
    (void)state;
    refused("100\tdone\t0\n", "99\tdone\t0\n",
            "log: line 36: job 0 is done after 99 s of work, not 100");
    refused("10\trate\t1\t10\t", "10\trate\t1\t11\t",
            "log: line 25: job 1 has done 11 s, the rates before say 10");
    refused("60\trate\t1\t25\t", "60\trate\t1\t24\t",
            "log: line 31: job 1 has done 24 s, the rates before say 25");
    refused("50\tstop\t1\t25\t", "50\tstop\t1\t26\t",
            "log: line 28: job 1 has done 26 s, the rates before say 25");
    refused("checkpoint_s\t100", "checkpoint_s\t0",
            "log: line 44: job 3 has done 0 s, the rates before say 40");
    refused("0\trate\t0\t0\t1\t0\n", "",
            "log: line 35: job 0 has run without a rate");
    refused("0\trate\t0\t0\t1\t0\n", "0\trate\t0\t0\t-1\t0\n",
            "log: line 19: job 0 has a rate of -1");
}

/* Work goes back to 0 behind a line that says why, and not without it. */
static void a_job_that_begins_anew_says_why(void **state)
{
    (void)state;
    static const char up[] = "200\tnode_up\t0\n";
    accepted(up, "200\tnode_up\t0\n200\tanew\t3\t\"worse\"\n"
                 "200\trate\t3\t0\t2.5\t200\n");
    refused(up, "200\tnode_up\t0\n200\trate\t3\t0\t2.5\t200\n",
            "log: line 46: job 3 has done 0 s, the rates before say 30");
    refused(up, "200\tnode_up\t0\n200\tanew\t3\tworse\n",
            "log: line 46: job 3 begins anew without a reason");
    refused("160\tstart\t3", "155\tanew\t3\t\"worse\"\n160\tstart\t3",
            "log: line 43: job 3 does not run");
}

static void a_completion_may_be_late_by_the_quantum(void **state)
{
    (void)state;
    refused("102.5\tdone\t1\n", "103\tdone\t1\n",
            "log: line 37: job 1 goes on after 61 s of work, it has 60");
    accepted("quantum_s\t0\n", "quantum_s\t1\n");
}

static void a_summary_that_differs_from_the_lines_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"jobs\t4", "jobs\t5", "'jobs' is 5, the lines say 4"},
        {"unfinished\t0", "unfinished\t1",
         "'unfinished' is 1, the lines say 0"},
        {"rejected\t0", "rejected\t1", "'rejected' is 1, the lines say 0"},
        {"jct_mean_s\t93.125", "jct_mean_s\t93.126",
         "'jct_mean_s' is 93.126000000000005, the lines say 93.125"},
        {"jct_p50_s\t101.25", "jct_p50_s\t101",
         "'jct_p50_s' is 101, the lines say 101.25"},
        {"jct_max_s\t110", "jct_max_s\t110.00000000001",
         "'jct_max_s' is 110.00000000001, the lines say 110"},
        {"queue_mean_s\t5", "queue_mean_s\t6",
         "'queue_mean_s' is 6, the lines say 5"},
        {"makespan_s\t220", "makespan_s\t221",
         "'makespan_s' is 221, the lines say 220"},
        {"restarts\t4", "restarts\t3", "'restarts' is 3, the lines say 4"},
        {"failures\t1", "failures\t0", "'failures' is 0, the lines say 1"},
        {"gpu_s_given\t850", "gpu_s_given\t851",
         "'gpu_s_given' is 851, the lines say 850"},
        {"steps\t10", "steps\t11", "'steps' is 11, the lines say 10"},
        {"jct_mean_s_gpus_5-8\tnan", "jct_mean_s_gpus_5-8\t1",
         "'jct_mean_s_gpus_5-8' is 1, the lines say nan"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "log: line 90: the summary says %s",
                 wrong[i][2]);
        refused(wrong[i][0], wrong[i][1], sentence);
    }
    refused("gpu_s_lost\t40", "gpu_s_lost\t41",
            "log: line 90: gpu_s_given is 850, its parts add up to 851");
    refused("end\nseed\t7", "end\nseed\t8",
            "log: line 90: header and summary differ in seed or restart_s");
    refused("jobs\t4", "jobs\t-4", "log: line 50: 'jobs' is '-4'");
    accepted("jct_mean_s\t93.125", "jct_mean_s\t93.12500000001");
}

/* Bytes changed at random are refused or accepted, never a crash. */
static void damaged_logs_are_survived(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 20240);
    long refusals = 0;
    for (int i = 0; i < 3000; i++) {
        struct firn_buf text = {0};
        struct firn_sim_result result;
        struct firn_error err = {0};
        buf_add(&text, good, sizeof good - 1);
        for (uint64_t k = 1 + rng_below(&rng, 3); k > 0; k--)
            text.at[rng_below(&rng, text.n)] = (char)rng_below(&rng, 256);
        refusals += check(text.at, text.n, &result, &err) != FIRN_OK;
        buf_release(&text);
    }
    assert_true(refusals > 2000);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct firn_sim_result result;
    struct firn_error err = {0};
    assert_int_not_equal(firn_sim_replay("/nonexistent/log", &result, &err),
                         FIRN_OK);
    assert_non_null(strstr(err.text, "/nonexistent/log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hand_worked_log_is_accepted),
        cmocka_unit_test(two_jobs_may_swap_places_in_one_moment),
        cmocka_unit_test(a_file_that_is_no_log_is_refused),
        cmocka_unit_test(a_log_must_have_its_end),
        cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(jobs_are_submitted_once_and_before_use),
        cmocka_unit_test(no_gpu_is_held_twice),
        cmocka_unit_test(only_real_gpus_are_held),
        cmocka_unit_test(no_gpu_of_a_dead_node_is_held),
        cmocka_unit_test(gangs_are_whole),
        cmocka_unit_test(a_step_line_of_the_wrong_kind_is_refused),
        cmocka_unit_test(nothing_is_held_after_the_end),
        cmocka_unit_test(work_adds_up),
        cmocka_unit_test(a_job_that_begins_anew_says_why),
        cmocka_unit_test(a_completion_may_be_late_by_the_quantum),
        cmocka_unit_test(a_summary_that_differs_from_the_lines_is_refused),
        cmocka_unit_test(damaged_logs_are_survived),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
