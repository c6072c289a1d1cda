/* test_explain.c - lives worked by hand, and whose life is told.
 *
 * Logs by hand end in "aborted", so they need no summary.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "play.h"
#include "sim/explain.h"
#include "worlds.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char header[] =
    "#firn-log 1\ntrace\t\"t.csv\"\npolicy\t\"toy\"\nseed\t1\nrestart_s\t10\n"
    "scaling\t1\nshare_slowdown\t2\ninterval_s\t0\nquantum_s\t60\n"
    "charges_first_start\t0\nmtbf_s\t0\nmttr_s\t0\ncheckpoint_s\t100\n"
    "jobs_per_gpu\t2\ncluster\t\"two\"\t2\t8\nnodes\t0-1\t4\t\"v100\"\tup\n";

static enum firn_status tell(const char *events, const char *job,
                             struct explain *out, struct firn_error *err)
{
    struct firn_buf text = {0};
    buf_puts(&text, header);
    buf_puts(&text, events);
    struct lines *in = lines_from((struct firn_bytes){text.at, text.n});
    enum firn_status status = explain_lines(out, in, "log", job, err);
    lines_close(in);
    buf_release(&text);
    return status;
}

static struct explain told(const char *events, const char *job)
{
    struct explain life;
    struct firn_error err = {0};
    if (tell(events, job, &life, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return life;
}

static struct explain told_of_run(const struct play *play, const char *job)
{
    struct explain life;
    struct firn_error err = {0};
    if (explain_read(&life, play->log, job, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return life;
}

/* "wait 0-10 0" ...: what, from, to, work done at its end. */
static void has_stretches(const struct explain *life, const char *expected)
{
    static const char *const whats[] = {"wait", "restart", "train", "stand"};
    struct firn_buf text = {0};
    for (size_t i = 0; i < life->stretches.n; i++) {
        const struct explain_stretch *s = &life->stretches.at[i];
        buf_printf(&text, "%s%s %g-%g %g", i > 0 ? "; " : "", whats[s->what],
                   s->from_s, s->to_s, s->done_to_s);
    }
    assert_string_equal(text.at, expected);
    buf_release(&text);
}

/* Nothing is left out between submission and end. */
static void adds_up(const struct explain *life)
{
    double at_s = life->submit_s;
    for (size_t i = 0; i < life->stretches.n; i++) {
        assert_true(life->stretches.at[i].from_s == at_s);
        at_s = life->stretches.at[i].to_s;
    }
    assert_true(at_s == life->end_s);
    assert_true(play_near(life->end_s - life->submit_s,
                          life->waited_s + life->restarted_s + life->trained_s +
                              life->stood_s));
}

/* It has done 40 s and begins anew, which costs it 10 s more; a later wait does
 * not repeat the reason. */
static void a_job_that_begins_anew_tells_why(void **state)
{
    (void)state;
    struct firn_buf page = {0};
    struct explain life = told("0\tsubmit\t0\t\"a\"\t1\t1\t1\t100\t0\n"
                               "0\tstart\t0\tn0[0]\n0\trate\t0\t0\t1\t0\n"
                               "40\tanew\t0\t\"it is worse\"\n"
                               "40\trate\t0\t0\t1\t50\n"
                               "60\tstop\t0\t10\tpreempt\n"
                               "70\tstart\t0\tn0[0]\n70\trate\t0\t10\t1\t80\n"
                               "170\tdone\t0\naborted\n",
                               "a");
    has_stretches(&life, "train 0-40 40; restart 40-50 0; train 50-60 10; "
                         "wait 60-70 10; restart 70-80 10; train 80-170 100");
    adds_up(&life);
    assert_string_equal(life.stretches.at[1].cause, "anew");
    assert_string_equal(life.stretches.at[1].note, "it is worse");
    assert_string_equal(life.stretches.at[3].note, "");
    explain_page(&life, &page);
    assert_non_null(strstr(page.at, "begins anew: it is worse; restarts on"));
    buf_clear(&page);
    explain_json(&life, &page);
    assert_non_null(strstr(page.at, "\"note\":\"it is worse\""));
    buf_release(&page);
    explain_release(&life);
}

/* a holds all until 100; b comes at 10, and c behind it. */
static void under_fifo_a_job_waits_and_trains(void **state)
{
    (void)state;
    struct play p;
    play_open(&p, "1x4:v100", "a,0,4,100\nb,10,2,50\nc,20,4,5\n");
    play_run(&p, "fifo");
    struct explain life = told_of_run(&p, "b");
    has_stretches(&life, "wait 10-100 0; train 100-150 50");
    adds_up(&life);
    const struct explain_stretch *s = life.stretches.at;
    assert_string_equal(s[0].cause, "submit");
    assert_int_equal(s[0].gpus_free, 0);
    assert_int_equal(s[0].gpus_up, 4);
    assert_int_equal(s[0].jobs_before, 0);
    assert_string_equal(s[1].cause, "start");
    assert_string_equal(s[1].alloc, "n0[0-1]");
    assert_true(s[1].rate == 1);
    assert_int_equal(life.end, EXPLAIN_DONE);
    assert_true(life.waited_s == 90 && life.trained_s == 50);
    assert_int_equal(life.restarts, 0);
    explain_release(&life);
    life = told_of_run(&p, "2");
    assert_string_equal(life.name, "c");
    has_stretches(&life, "wait 20-150 0; train 150-155 5");
    assert_int_equal(life.stretches.at[0].jobs_before, 1);
    explain_release(&life);
    play_close(&p);
}

/* After 100 s on 4 GPUs L has had 400 GPU-seconds and falls behind S, which
 * needs 60 s. L comes back at 160, restarts for 30 s, and has 200 s left. */
static void under_tiresias_a_job_is_preempted(void **state)
{
    (void)state;
    static const char *const settings[] = {"tiresias.thresholds=400"};
    struct play p;
    struct firn_buf page = {0};
    play_open(&p, "1x4:v100", "L,0,4,300\nS,50,4,60\n");
    p.options.settings = settings;
    p.options.nsettings = 1;
    p.options.restart_s = 30;
    play_run(&p, "tiresias");
    struct explain life = told_of_run(&p, "L");
    has_stretches(&life, "train 0-100 100; wait 100-160 100; "
                         "restart 160-190 100; train 190-390 300");
    adds_up(&life);
    assert_string_equal(life.stretches.at[1].cause, "preempt");
    assert_string_equal(life.stretches.at[2].cause, "start");
    assert_string_equal(life.stretches.at[3].cause, "");
    assert_true(life.waited_s == 60 && life.restarted_s == 30);
    assert_int_equal(life.restarts, 1);
    assert_int_equal(life.preemptions, 1);
    (void)snprintf(life.trace, sizeof life.trace, "jobs.csv");
    explain_page(&life, &page);
    assert_string_equal(
        page.at,
        "L (job 0) of jobs.csv under tiresias\n"
        "asks for 4 GPUs; 5m00.0s of work\n"
        "\n"
        "     at      for    done\n"
        "  0.00s  1m40.0s   33.3%  starts; trains at 1 on 4 GPUs of 1 node: "
        "n0[0-3]\n"
        "1m40.0s  1m00.0s   33.3%  preempted; waits (0 of 4 GPUs free, 0 jobs "
        "before it)\n"
        "2m40.0s   30.00s   33.3%  starts; restarts on 4 GPUs of 1 node: "
        "n0[0-3]\n"
        "3m10.0s  3m20.0s  100.0%  trains at 1 on 4 GPUs of 1 node: n0[0-3]\n"
        "\n"
        "done at 6m30.0s, 6m30.0s after it was submitted\n"
        "waited 1m00.0s (15.4%), restarted 30.00s (7.7%), trained 5m00.0s "
        "(76.9%); 1 restart, preempted 1 time\n");
    buf_release(&page);
    explain_release(&life);
    play_close(&p);
}

/* The greedy toy notes what is free; a change of the note is a new stretch:
 * c waits for 4 GPUs while a has 2 and then, from 30 on, while b has 1. */
static void a_life_shows_the_notes_of_the_policy(void **state)
{
    (void)state;
    struct play p;
    play_open(&p, "1x4:v100", "a,0,2,30\nb,5,1,95\nc,10,4,50\nd,20,4,5\n");
    p.options.world = world_late();
    play_run(&p, "greedy");
    struct explain life = told_of_run(&p, "c");
    assert_string_equal(life.world, "late");
    assert_int_equal(life.stretches.n, 3);
    assert_string_equal(life.stretches.at[0].note, "needs 4, 1 are free");
    assert_true(life.stretches.at[0].to_s == 30);
    assert_string_equal(life.stretches.at[1].note, "needs 4, 3 are free");
    assert_string_equal(life.stretches.at[1].cause, "");
    assert_int_equal(life.stretches.at[2].what, EXPLAIN_TRAINS);
    /* 100 + 50, and the 0.3 s the toy world finishes late. */
    assert_true(play_near(life.end_s, 150.3));
    adds_up(&life);
    explain_release(&life);
    struct firn_buf log = play_read(p.log);
    assert_non_null(strstr(log.at, "world\t\"late\"\n"));
    /* The decision at 20, when d came, had no other word on c. */
    int nnotes = 0;
    for (const char *at = log.at; (at = strstr(at, "\tnote\t2\t")); at++)
        nnotes++;
    assert_int_equal(nnotes, 2);
    assert_non_null(strstr(log.at, "\n30\tnote\t2\t\"needs 4, 3 are free\"\n"));
    buf_release(&log);
    play_close(&p);
}

/* b shares from 10 to 50, waits, comes back, grows, and is done at 102.5; the
 * quantum lets it be seen at 120. */
static const char shared[] = "0\tsubmit\t1\t\"b\"\t2\t1\t4\t60\t1\n"
                             "0\tstart\t1\tn1[0-1]~\n"
                             "0\trate\t1\t0\t1\t0\n"
                             "10\tsubmit\t2\t\"c\"\t2\t2\t2\t40\t1\n"
                             "10\trate\t1\t10\t0.5\t10\n"
                             "10\tstart\t2\tn1[0-1]~\n"
                             "10\trate\t2\t0\t0.5\t10\n"
                             "50\tstop\t1\t30\tpreempt\n"
                             "50\tnote\t1\t\"make room\"\n"
                             "50\trate\t2\t20\t1\t50\n"
                             "60\tstart\t1\tn0[0,2]\n"
                             "60\trate\t1\t30\t1\t70\n"
                             "70\tdone\t2\n"
                             "80\tresize\t1\tn0[0,2-3] n1[1]\n"
                             "80\trate\t1\t40\t2\t90\n"
                             "120\tdone\t1\n"
                             "aborted\n";

static void a_life_shows_neighbours_sizes_and_the_quantum(void **state)
{
    (void)state;
    struct explain life = told(shared, "b");
    has_stretches(&life, "train 0-10 10; train 10-50 30; wait 50-60 30; "
                         "restart 60-70 30; train 70-80 40; restart 80-90 40; "
                         "train 90-100 60; stand 100-120 60");
    adds_up(&life);
    const struct explain_stretch *s = life.stretches.at;
    assert_int_equal(s[0].nwith, 0);
    assert_int_equal(s[1].nwith, 1);
    assert_string_equal(s[1].with[0], "c");
    assert_true(s[1].rate == 0.5);
    assert_string_equal(s[2].note, "make room");
    assert_int_equal(s[2].gpus_free, 6);
    assert_string_equal(s[3].alloc, "n0[0,2]");
    assert_string_equal(s[5].cause, "resize");
    assert_string_equal(s[5].alloc, "n0[0,2-3] n1[1]");
    assert_int_equal(s[5].gpus, 4);
    assert_int_equal(s[5].nodes, 2);
    assert_int_equal(life.restarts, 2);
    assert_true(life.restarted_s == 20 && life.stood_s == 20);
    explain_release(&life);
    life = told(shared, "c");
    has_stretches(&life, "train 10-50 20; train 50-70 40");
    assert_string_equal(life.stretches.at[0].with[0], "b");
    assert_int_equal(life.stretches.at[1].nwith, 0);
    explain_release(&life);
}

/* 40 s of work are lost with node 0 and done again on node 1. */
static void a_life_shows_the_work_lost_with_a_node(void **state)
{
    (void)state;
    struct explain life = told("10\tsubmit\t3\t\"d\"\t1\t1\t1\t50\t0\n"
                               "10\tstart\t3\tn0[0]\n"
                               "10\trate\t3\t0\t1\t10\n"
                               "50\tstop\t3\t40\tnode\n"
                               "50\tnode_down\t0\n"
                               "60\tstart\t3\tn1[0]\n"
                               "60\trate\t3\t0\t1\t70\n"
                               "120\tdone\t3\n"
                               "aborted\n",
                               "d");
    has_stretches(&life, "train 10-50 40; wait 50-60 40; restart 60-70 0; "
                         "train 70-120 50");
    adds_up(&life);
    assert_string_equal(life.stretches.at[1].cause, "node");
    assert_int_equal(life.stretches.at[1].gpus_up, 4);
    assert_true(life.lost_s == 40);
    assert_int_equal(life.node_losses, 1);
    explain_release(&life);
}

static void a_life_may_end_in_failure_in_rejection_or_not_at_all(void **state)
{
    (void)state;
    static const char events[] = "0\tsubmit\t0\t\"x\"\t8\t8\t8\t60\t0\n"
                                 "5\tsubmit\t1\t\"y\"\t1\t1\t1\t60\t0\n"
                                 "20\treject\t0\t\"too \\\"big\\\"\"\n"
                                 "30\tstart\t1\tn0[1]\n"
                                 "30\trate\t1\t0\t1\t30\n"
                                 "40\tsubmit\t2\t\"z\"\t1\t1\t1\t60\t0\n"
                                 "45\tfail\t1\n"
                                 "50\tnode_down\t1\n"
                                 "50\tsubmit\t3\t\"w\"\t1\t1\t1\t60\t0\n"
                                 "aborted\n";
    struct explain life = told(events, "x");
    has_stretches(&life, "wait 0-20 0");
    assert_int_equal(life.end, EXPLAIN_REJECT);
    assert_string_equal(life.reason, "too \"big\"");
    explain_release(&life);
    life = told(events, "y");
    has_stretches(&life, "wait 5-30 0; train 30-45 15");
    assert_int_equal(life.end, EXPLAIN_FAILED);
    explain_release(&life);
    life = told(events, "z");
    has_stretches(&life, "wait 40-50 0");
    assert_int_equal(life.end, EXPLAIN_OPEN);
    explain_release(&life);
    life = told(events, "w");
    has_stretches(&life, "wait 50-50 0");
    assert_int_equal(life.stretches.at[0].gpus_free, 4);
    explain_release(&life);
}

/* Submitted at 3 though heard of at 5; done at 66 though heard of at 90. */
static void a_life_goes_by_the_jobs_own_account(void **state)
{
    (void)state;
    struct explain life = told("5\tsubmit\t0\t\"x\"\t1\t1\t1\t60\t0\t3\n"
                               "6\tstart\t0\tn0[1]\n"
                               "6\trate\t0\t0\t1\t6\n"
                               "70\trate\t0\t60\t0\t70\n"
                               "90\tdone\t0\t66\n"
                               "aborted\n",
                               "x");
    has_stretches(&life, "wait 3-6 0; train 6-66 60");
    adds_up(&life);
    assert_true(life.end_s == 66);
    explain_release(&life);
}

/* Three rates on the same GPUs are one row; a neighbour makes another. */
static void the_page_has_one_row_for_many_rates(void **state)
{
    (void)state;
    struct firn_buf page = {0};
    struct explain life = told("0\tsubmit\t0\t\"x\"\t1\t1\t1\t60\t1\n"
                               "0\tstart\t0\tn0[1]~\n"
                               "0\trate\t0\t0\t1\t0\n"
                               "10\trate\t0\t10\t0.75\t10\n"
                               "20\trate\t0\t17.5\t1.25\t20\n"
                               "30\tsubmit\t1\t\"y\"\t1\t1\t1\t60\t1\n"
                               "30\tstart\t1\tn0[1]~\n"
                               "30\trate\t1\t0\t0.5\t30\n"
                               "40\tnode_down\t1\n"
                               "aborted\n",
                               "x");
    has_stretches(&life, "train 0-10 10; train 10-20 17.5; train 20-30 30; "
                         "train 30-40 42.5");
    explain_page(&life, &page);
    assert_non_null(strstr(page.at, "\n 0.00s  30.00s  50.0%  starts; trains "
                                    "at 0.75 to 1.25 on 1 GPU of 1 node: "
                                    "n0[1]~\n"));
    assert_non_null(strstr(page.at, "\n30.00s  10.00s  70.8%  trains at 1.25 "
                                    "on 1 GPU of 1 node: n0[1]~; shares with "
                                    "y\n"));
    buf_release(&page);
    explain_release(&life);
}

static void json_has_every_stretch_of_a_life(void **state)
{
    (void)state;
    struct firn_buf json = {0};
    struct explain life = told(shared, "c");
    explain_json(&life, &json);
    assert_string_equal(
        json.at,
        "{\"trace\":\"t.csv\",\"policy\":\"toy\",\"world\":\"honest\","
        "\"name\":\"c\",\"id\":2,\"gpus\":2,\"gpus_min\":2,\"gpus_max\":2,"
        "\"duration_s\":40,\"submit_s\":10,\"end\":\"done\",\"end_s\":70,"
        "\"reason\":\"\",\"jct_s\":60,\"waited_s\":0,\"waited_share\":0,"
        "\"restarted_s\":0,\"restarted_share\":0,\"trained_s\":60,"
        "\"trained_share\":1,\"stood_s\":0,\"stood_share\":0,\"lost_s\":0,"
        "\"restarts\":0,\"preemptions\":0,\"node_losses\":0,\"stretches\":[\n"
        "{\"what\":\"train\",\"cause\":\"start\",\"from_s\":10,\"to_s\":50,"
        "\"done_from_s\":0,\"done_to_s\":20,\"gpus\":2,\"nodes\":1,"
        "\"alloc\":\"n1[0-1]~\",\"with\":[\"b\"],\"rate\":0.5},\n"
        "{\"what\":\"train\",\"cause\":\"\",\"from_s\":50,\"to_s\":70,"
        "\"done_from_s\":20,\"done_to_s\":40,\"gpus\":2,\"nodes\":1,"
        "\"alloc\":\"n1[0-1]~\",\"with\":[],\"rate\":1}]}");
    buf_release(&json);
    explain_release(&life);
}

static const char many[] = "0\tsubmit\t4\t\"train-1\"\t1\t1\t1\t60\t0\n"
                           "0\tsubmit\t5\t\"train-10\"\t1\t1\t1\t60\t0\n"
                           "0\tsubmit\t6\t\"eval-1\"\t1\t1\t1\t60\t0\n"
                           "0\tsubmit\t7\t\"4\"\t1\t1\t1\t60\t0\n"
                           "aborted\n";

static void a_job_is_named_in_three_ways(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        int id;
    } cases[] = {
        {"train-1", 4}, {"5", 5}, {"ev", 6}, {"train-10", 5}, {"4", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct explain life = told(many, cases[i].word);
        assert_int_equal(life.id, cases[i].id);
        explain_release(&life);
    }
}

static void not_told(const char *events, const char *job,
                     enum firn_status status, const char *sentence)
{
    struct explain life = {.id = 77};
    struct firn_error err = {0};
    assert_int_equal(tell(events, job, &life, &err), status);
    assert_string_equal(err.text, sentence);
    assert_int_equal(life.id, 77);
}

static void an_unknown_or_ambiguous_job_name_is_an_error(void **state)
{
    (void)state;
    not_told(many, "tra", FIRN_EINVAL,
             "log: 'tra' is the beginning of 2 names, 'train-1' first");
    not_told(many, "evil-1", FIRN_ENOENT,
             "log: no job 'evil-1'; did you mean 'eval-1'?");
    not_told(many, "zzzzzzzz", FIRN_ENOENT, "log: no job 'zzzzzzzz'");
    not_told("aborted\n", "x", FIRN_ENOENT, "log: no job 'x'");
}

static void a_wrong_log_tells_nothing(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"1\tnote\t0\n", "'note' has 3 columns, not 4"},
        {"1\tnote\t0\tno quotes\n", "the note on job 0 is no text"},
        {"1\tnote\t9\t\"x\"\n", "job 9 was never submitted"},
        {"1\treject\t0\tx\n", "job 0 is rejected without a reason"},
        {"1\tdone\t0\n", "job 0 is done but does not run"},
        {"1\tsings\t0\n", "'sings' is no kind of event"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct firn_buf events = {0}, sentence = {0};
        buf_printf(&events, "0\tsubmit\t0\t\"x\"\t1\t1\t1\t60\t0\n%s",
                   wrong[i][0]);
        buf_printf(&sentence, "log: line 18: %s", wrong[i][1]);
        not_told(events.at, "x", FIRN_EINVAL, sentence.at);
        buf_release(&events);
        buf_release(&sentence);
    }
    not_told("0\tsubmit\t0\t\"x\"\t1\t1\t1\t60\t0\n", "x", FIRN_EINVAL,
             "log: line 17: the log stops without a summary");
}

/* Every job of a run with failures: stretches follow each other, and their
 * times are those of the jobs' file. */
static void lives_agree_with_the_jobs_file(void **state)
{
    (void)state;
    struct firn_buf rows = {0};
    struct play p;
    for (int i = 0; i < 40; i++)
        buf_printf(&rows, "j%d,%d,%d,%d\n", i, i * 5, 1 + i % 6,
                   50 + i * 37 % 200);
    play_open(&p, "2x4:v100", rows.at);
    p.options.restart_s = 7;
    p.options.mtbf_s = 900;
    p.options.mttr_s = 60;
    p.options.checkpoint_s = 40;
    p.options.quantum_s = 3;
    play_run(&p, "tiresias");
    assert_int_equal(p.done.n, 40);
    assert_true(p.result.failures > 0 && p.result.restarts > 0);
    for (size_t i = 0; i < p.done.n; i++) {
        struct explain life = told_of_run(&p, p.done.at[i].name);
        adds_up(&life);
        assert_true(life.end_s == p.done.at[i].end_s);
        assert_int_equal(life.restarts, p.done.at[i].restarts);
        assert_true(fabs(life.waited_s - p.done.at[i].queue_s) < 1e-6);
        assert_true(play_near(life.stretches.at[life.stretches.n - 1].done_to_s,
                              life.duration_s));
        explain_release(&life);
    }
    buf_release(&rows);
    play_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_fifo_a_job_waits_and_trains),
        cmocka_unit_test(a_job_that_begins_anew_tells_why),
        cmocka_unit_test(under_tiresias_a_job_is_preempted),
        cmocka_unit_test(a_life_shows_the_notes_of_the_policy),
        cmocka_unit_test(a_life_shows_neighbours_sizes_and_the_quantum),
        cmocka_unit_test(a_life_shows_the_work_lost_with_a_node),
        cmocka_unit_test(a_life_may_end_in_failure_in_rejection_or_not_at_all),
        cmocka_unit_test(a_life_goes_by_the_jobs_own_account),
        cmocka_unit_test(the_page_has_one_row_for_many_rates),
        cmocka_unit_test(json_has_every_stretch_of_a_life),
        cmocka_unit_test(a_job_is_named_in_three_ways),
        cmocka_unit_test(an_unknown_or_ambiguous_job_name_is_an_error),
        cmocka_unit_test(a_wrong_log_tells_nothing),
        cmocka_unit_test(lives_agree_with_the_jobs_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
