/* test_launch.c - what a job file says is what the job's processes are told. */
#include "lib/folder.h"
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_the_file_does_not_say_is_not_told),
        CASE(freezing_goes_with_its_limit),
        CASE(threads_and_checkpoints_are_told),
        CASE(of_two_in_one_training_each_keeps_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
