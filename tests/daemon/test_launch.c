/* test_launch.c - what a job file says is what the job's processes are told. */
#include "daemon/loopwork.h"
#include "lib/folder.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char gpus[] = "1x4:v100@16";

/* What the processes of a job of these lines are told. */
static void check(const char *policy, const char *lines, const char *told)
{
    struct loopscene s;
    loopscene_open(&s, gpus, policy, false);
    loopscene_submit(&s, "a", lines);
    loopscene_turn(&s);
    assert_string_equal(loopscene_told(&s, "a"), told);
    loopscene_close(&s);
    loopscene_remove_state();
}

static void what_the_file_does_not_say_is_not_told(void **state)
{
    (void)state;
    check("icefrog", "gpus: 1",
          "freeze '' 0, threads 0, grace 60, every 0 never, mate 0");
}

static void freezing_goes_with_its_limit(void **state)
{
    (void)state;
    check("icefrog", "gpus: 1\nfreeze: {max: 40%}",
          "freeze 'penalty' 0.4, threads 0, grace 60, every 0 never, mate 0");
    check("icefrog", "gpus: 1\nfreeze: {rule: freezeout}",
          "freeze 'freezeout' 0, threads 0, grace 60, every 0 never, mate 0");
    /* The limit holds for what a program does of its own accord, too. */
    check("fifo", "gpus: 1\nfreeze: {max: 40%}",
          "freeze 'off' 0.4, threads 0, grace 60, every 0 never, mate 0");
}

static void threads_and_checkpoints_are_told(void **state)
{
    (void)state;
    check("fifo",
          "gpus: 2\nelastic: {threads: 6}\n"
          "checkpoint: {grace: 2m, interval: 30m}",
          "freeze '' 0, threads 6, grace 120, every 1800, mate 0");
}

#define TASK(set, more)                      \
    "gpus: 1\nduration: 1h\nworkdir: /tmp\n" \
    "finetune: {base: base, dataset: " set ", sharing: allowed}\n" more

/* Each has its own limit; both write when the first of them is to. */
static void of_two_in_one_training_each_keeps_its_limit(void **state)
{
    (void)state;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "ymir", false);
    loopscene_submit(
        &s, "a",
        TASK("one", "checkpoint: {interval: 1h}\nfreeze: {max: 0.75}"));
    loopscene_submit(
        &s, "b",
        TASK("two", "checkpoint: {interval: 10m}\nfreeze: {max: 0.25}"));
    loopscene_turn(&s);
    assert_int_equal(loopscene_mate(&s, "a"), loopscene_job(&s, "b")->id);
    assert_string_equal(
        loopscene_told(&s, "a"),
        "freeze 'off' 0.75, threads 0, grace 60, every 600, mate 0.25");
    loopscene_close(&s);
}

/* The end of a path: "jobs/1/work" of "<state>/jobs/1/work". */
static void check_below(const struct loopscene *s, const char *path,
                        const char *below)
{
    size_t n = strlen(s->config.state);
    assert_memory_equal(path, s->config.state, n);
    assert_string_equal(path + n + 1, below);
}

static void control_files_are_not_where_a_job_runs(void **state)
{
    (void)state;
    struct loopscene s;
    struct firn_launch launch = {0};
    loopscene_open(&s, gpus, "fifo", false);
    int id = loopscene_submit(&s, "a", "gpus: 1\ncheckpoint: {grace: 60}")->id;
    loopscene_turn(&s);
    assert_int_equal(id, 1);
    assert_true(dock_launch(&s.loop->dock, id, &launch));
    check_below(&s, launch.folder, "control/1");
    check_below(&s, launch.workdir, "jobs/1/work");
    check_below(&s, launch.ckpt, "jobs/1/ckpt");
    check_below(&s, launch.log, "jobs/1/log");
    struct stat st;
    assert_int_equal(stat(launch.folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(launch.has_run);
    loopscene_close(&s);
}

static void a_job_of_an_older_firnd_keeps_its_folders(void **state)
{
    (void)state;
    struct loopscene s;
    struct firn_launch launch = {0};
    char path[400];
    loopscene_open(&s, gpus, "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1\ncheckpoint: {grace: 60}");
    loopscene_turn(&s);
    snprintf(path, sizeof path, "%s/control/1", s.config.state);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/jobs/1/lock", s.config.state);
    fclose(fopen(path, "w"));
    loopscene_kill(&s);
    loopscene_open(&s, gpus, "fifo", true);
    assert_true(dock_launch(&s.loop->dock, 1, &launch));
    check_below(&s, launch.folder, "jobs/1");
    check_below(&s, launch.workdir, "jobs/1");
    check_below(&s, launch.ckpt, "jobs/1/ckpt");
    loopscene_submit(&s, "b", "gpus: 1");
    loopscene_turn(&s);
    assert_true(dock_launch(&s.loop->dock, 2, &launch));
    check_below(&s, launch.folder, "control/2");
    loopscene_close(&s);
}

/* Processes are known by it: a new one would hide those that are there. */
static void the_mark_of_a_state_folder_stays(void **state)
{
    (void)state;
    struct loopscene s;
    char mark[17];
    loopscene_open(&s, gpus, "fifo", false);
    loopscene_submit(&s, "a", "gpus: 1");
    loopscene_turn(&s);
    memcpy(mark, s.loop->dock.mark, sizeof mark);
    assert_int_equal(strlen(mark), 16);
    loopscene_kill(&s);
    loopscene_open(&s, gpus, "fifo", true);
    assert_string_equal(s.loop->dock.mark, mark);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_the_file_does_not_say_is_not_told),
        CASE(freezing_goes_with_its_limit),
        CASE(threads_and_checkpoints_are_told),
        CASE(of_two_in_one_training_each_keeps_its_limit),
        CASE(control_files_are_not_where_a_job_runs),
        CASE(a_job_of_an_older_firnd_keeps_its_folders),
        CASE(the_mark_of_a_state_folder_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
