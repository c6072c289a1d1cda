/* test_eventlog.c - the files of a run: event log, jobs, whole or not at all.
 */
#include "base/buf.h"
#include "sim/eventlog.h"
#include "sim/jobscsv.h"
#include "sim/outfile.h"
#include "trace_text.h"
#include "worlds.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64], tmp_path[72];

static void name_file(void)
{
    snprintf(path, sizeof path, "/tmp/firn-log-%ld", (long)getpid());
    snprintf(tmp_path, sizeof tmp_path, "%s.tmp", path);
    remove(path);
}

static struct firn_node nodes[] = {
    {.id = 0, .ngpus = 4, .is_up = true},
    {.id = 1, .ngpus = 4, .is_up = true},
    {.id = 2, .type = 1, .ngpus = 8, .is_up = true},
};
static const struct firn_cluster cluster = {
    .name = "two kinds",
    .types = {{.name = "v100"}, {.name = "a100"}},
    .ntypes = 2,
    .nodes = nodes,
    .nnodes = 3,
    .ngpus = 16,
    .jobs_per_gpu = 2,
};
static const struct firn_sim_options options = {
    .trace = "a\tb.csv",
    .cluster = &cluster,
    .policy = "fifo",
    .seed = 7,
    .scaling = 0.9,
    .share_slowdown = 1.5,
    .restart_s = 30,
};

static struct eventlog *opened(void)
{
    struct eventlog *log;
    name_file();
    assert_int_equal(eventlog_open(&log, path, &options, NULL), FIRN_OK);
    return log;
}

static struct firn_job some_job(void)
{
    return (struct firn_job){
        .id = 3,
        .state = FIRN_JOB_RUNNING,
        .spec = {.name = "job \"x\"",
                 .app = "bert",
                 .group = "vc,1",
                 .submit_s = 10,
                 .gpus = 2,
                 .gpus_min = 1,
                 .gpus_max = 4,
                 .duration_s = 0.1,
                 .may_share = true},
        .first_start_s = 12,
        .since_s = 20,
        .held_s = 5,
        .served_gpu_s = 10,
        .starts = 3,
        .done_s = 1,
        .rate = 0.5,
        .resumes_s = 30,
        .note = "too big",
    };
}

static void ends_with(const struct firn_buf *text, const char *end)
{
    size_t n = strlen(end);
    assert_true(text->n >= n);
    assert_string_equal(text->at + text->n - n, end);
}

static void the_header_has_runs_of_nodes(void **state)
{
    (void)state;
    assert_int_equal(eventlog_close(opened(), NULL, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    assert_string_equal(text.at, "#firn-log 1\n"
                                 "trace\t\"a\\tb.csv\"\n"
                                 "policy\t\"fifo\"\n"
                                 "world\t\"honest\"\n"
                                 "seed\t7\n"
                                 "restart_s\t30\n"
                                 "scaling\t0.9\n"
                                 "share_slowdown\t1.5\n"
                                 "interval_s\t0\n"
                                 "quantum_s\t0\n"
                                 "charges_first_start\t0\n"
                                 "mtbf_s\t0\n"
                                 "mttr_s\t0\n"
                                 "checkpoint_s\t0\n"
                                 "noise_throughput\t0\n"
                                 "noise_sharing\t0\n"
                                 "noise_transfer\t0\n"
                                 "noise_report\t0\n"
                                 "elastic_min\t0\n"
                                 "elastic_max\t0\n"
                                 "jobs_per_gpu\t2\n"
                                 "cluster\t\"two kinds\"\t3\t16\n"
                                 "nodes\t0-1\t4\t\"v100\"\tup\n"
                                 "nodes\t2\t8\t\"a100\"\tup\n"
                                 "aborted\n");
    buf_release(&text);
    remove(path);
}

static void the_header_has_what_was_asked_for(void **state)
{
    (void)state;
    static const char *const settings[] = {"fifo.x=1", "sjf.y=a b"};
    static const struct firn_restart_cost restarts[] = {{"bert", 60}};
    struct firn_sim_options all = options;
    struct eventlog *log;
    all.world = world_late();
    all.settings = settings;
    all.nsettings = 2;
    all.restarts = restarts;
    all.nrestarts = 1;
    all.profiles = "builtin";
    all.failures = "f.csv";
    all.noise = (struct firn_sim_noise){0.5, 0.25, 0.125, 0.02, 0.4};
    all.forecast = FIRN_SIM_FORECAST_TABLES;
    all.elastic_min = 2;
    all.elastic_max = 16;
    name_file();
    assert_int_equal(eventlog_open(&log, path, &all, NULL), FIRN_OK);
    assert_int_equal(eventlog_close(log, NULL, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    static const char *const lines[] = {
        "\nworld\t\"late\"\nsetting\t\"fifo.x=1\"\nsetting\t\"sjf.y=a b\"\n"
        "profiles\t\"builtin\"\nforecast\t\"tables\"\nfailures\t\"f.csv\"\n"
        "seed\t7\n",
        "\nrestart_s\t30\nrestart_of\t\"bert\"\t60\n",
        "\nnoise_throughput\t0.5\nnoise_sharing\t0.25\n"
        "noise_transfer\t0.125\nnoise_report\t0.02\nnoise_iterations\t0.4\n",
        "\nelastic_min\t2\nelastic_max\t16\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_non_null(strstr(text.at, lines[i]));
    buf_release(&text);
    remove(path);
}

static void each_event_is_a_line(void **state)
{
    (void)state;
    struct eventlog *log = opened();
    struct firn_job job = some_job();
    job.spec.duration_s = 100.1;
    struct firn_part parts[] = {{0, 0, 0xf}, {2, 0, 0xa}};
    struct firn_alloc to = {parts, 2, 6, true, 0, FIRN_HOW_AS_SUBMITTED};
    struct firn_step step = {
        .kind = FIRN_STEP_START, .job = &job, .to = &to, .at_s = 20};
    eventlog_submit(log, &job, 10);
    eventlog_step(log, &step);
    step.kind = FIRN_STEP_STOP;
    step.at_s = 40;
    step.is_loss = true;
    eventlog_step(log, &step);
    eventlog_report(log, &job, 40, &(struct firn_report){1.0 / 3, 0.5, 50});
    eventlog_node(log, 2, false, 50);
    eventlog_node(log, 2, true, 60.25);
    eventlog_note(log, &job, 65);
    eventlog_end(log, &job, 70, "done", 70);
    eventlog_end(log, &job, 70, "done", 70.5);
    eventlog_end(log, &job, 70, "reject", 70);
    eventlog_submit(log, &job, 70);
    struct firn_sim_result result = {.jobs = 1, .steps = 9, .cpu_s = 0.123};
    assert_int_equal(eventlog_close(log, &result, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    const char *events = strstr(text.at, "\tup\n10\t");
    assert_non_null(events);
    const char want[] =
        "\tup\n"
        "10\tsubmit\t3\t\"job \\\"x\\\"\"\t2\t1\t4\t100.1\t1\n"
        "20\tstart\t3\tn0[0-3] n2[1,3]~\n"
        "40\tstop\t3\t6\tnode\n"
        "40\trate\t3\t0.3333333333333333\t0.5\t50\n"
        "50\tnode_down\t2\n"
        "60.25\tnode_up\t2\n"
        "65\tnote\t3\t\"too big\"\n"
        "70\tdone\t3\n"
        "70\tdone\t3\t70.5\n"
        "70\treject\t3\t\"too big\"\n"
        "70\tsubmit\t3\t\"job \\\"x\\\"\"\t2\t1\t4\t100.1\t1\t10\n"
        "end\n"
        "seed\t0\n";
    assert_memory_equal(events, want, sizeof want - 1);
    ends_with(&text, "\nsteps\t9\n");
    assert_null(strstr(text.at, "cpu_s"));
    buf_release(&text);
    remove(path);
}

/* No line is longer than a reader takes, however many nodes a job has. */
static void a_long_allocation_is_folded(void **state)
{
    (void)state;
    enum { NODES = 20000 };
    static struct firn_part parts[NODES];
    struct eventlog *log = opened();
    struct firn_job job = some_job();
    for (int i = 0; i < NODES; i++)
        parts[i] = (struct firn_part){i, 0, 0xff};
    struct firn_alloc to = {parts, NODES, 8 * NODES,
                            false, 0,     FIRN_HOW_AS_SUBMITTED};
    eventlog_step(
        log, &(struct firn_step){
                 .kind = FIRN_STEP_START, .job = &job, .to = &to, .at_s = 20});
    assert_int_equal(eventlog_close(log, NULL, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    size_t longest = 0, folds = 0;
    for (const char *at = text.at; *at != '\0';) {
        size_t n = strcspn(at, "\n");
        longest = n > longest ? n : longest;
        folds += n > 0 && at[n - 1] == '\\';
        at += n + 1;
    }
    assert_true(longest < 40000);
    assert_true(folds >= 6);
    buf_release(&text);
    remove(path);
}

static void a_file_appears_only_when_it_is_closed(void **state)
{
    (void)state;
    struct eventlog *log = opened();
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(tmp_path, F_OK), 0);
    assert_int_equal(eventlog_close(log, NULL, NULL), FIRN_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(tmp_path, F_OK), -1);
    remove(path);
    struct outfile out;
    assert_int_equal(outfile_open(&out, path, NULL), FIRN_OK);
    outfile_discard(&out);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(tmp_path, F_OK), -1);
}

static void a_full_disk_is_an_error_when_the_file_is_closed(void **state)
{
    (void)state;
    struct outfile out;
    struct firn_error err = {0};
    name_file();
    if (access("/dev/full", W_OK) != 0 || symlink("/dev/full", tmp_path) != 0)
        skip();
    assert_int_equal(outfile_open(&out, path, NULL), FIRN_OK);
    for (int i = 0; i < 100000; i++) {
        buf_puts(&out.text, "a line of text\n");
        outfile_drain(&out);
    }
    assert_int_equal(outfile_close(&out, &err), FIRN_EIO);
    assert_non_null(strstr(err.text, "No space left"));
    assert_int_equal(access(path, F_OK), -1);
}

static void jobs_are_rows_of_csv(void **state)
{
    (void)state;
    struct jobscsv *csv;
    struct firn_part part = {0, 0, 3};
    struct firn_job job = some_job();
    name_file();
    assert_int_equal(jobscsv_open(&csv, path, NULL), FIRN_OK);
    job.held =
        (struct firn_alloc){&part, 1, 2, false, 0, FIRN_HOW_AS_SUBMITTED};
    jobscsv_add(csv, &job, 40, 1.5);
    job.held = (struct firn_alloc)FIRN_ALLOC_NONE;
    job.state = FIRN_JOB_ENDED;
    job.first_start_s = NAN;
    job.starts = 0;
    jobscsv_add(csv, &job, 40, NAN);
    assert_int_equal(jobscsv_close(csv, NULL), FIRN_OK);
    struct firn_buf text = file_text(path);
    assert_string_equal(
        text.at,
        "name,app,group,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,"
        "held_s,served_gpu_s,restarts,rho\n"
        "\"job \"\"x\"\"\",bert,\"vc,1\",2,10,12,40,30,5,25,50,2,1.5\n"
        "\"job \"\"x\"\"\",bert,\"vc,1\",2,10,,40,30,25,5,10,0,\n");
    buf_release(&text);
    remove(path);
}

static void null_is_no_log(void **state)
{
    (void)state;
    struct firn_job job = some_job();
    eventlog_submit(NULL, &job, 0);
    eventlog_step(NULL, NULL);
    eventlog_report(NULL, &job, 0, NULL);
    eventlog_end(NULL, &job, 0, "done", 0);
    eventlog_node(NULL, 0, true, 0);
    eventlog_note(NULL, &job, 0);
    assert_int_equal(eventlog_close(NULL, NULL, NULL), FIRN_OK);
    jobscsv_add(NULL, &job, 0, 0);
    assert_int_equal(jobscsv_close(NULL, NULL), FIRN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_has_runs_of_nodes),
        cmocka_unit_test(the_header_has_what_was_asked_for),
        cmocka_unit_test(each_event_is_a_line),
        cmocka_unit_test(a_long_allocation_is_folded),
        cmocka_unit_test(a_file_appears_only_when_it_is_closed),
        cmocka_unit_test(a_full_disk_is_an_error_when_the_file_is_closed),
        cmocka_unit_test(jobs_are_rows_of_csv),
        cmocka_unit_test(null_is_no_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
