/* test_handover.c - GPUs that are let go after a while.
 *
 * An elastic job of two threads on two V100s, and a server with a priority of
 * one GPU that comes while it runs. All times are worked out by hand.
 */
#include "sim/handover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/play.h"
#include "lib/temp.h"
#include <cmocka.h>
#include <string.h>

#define COLUMNS                                                       \
    "#firn-trace 1\nname,submit_s,gpus,duration_s,gpus_min,gpus_max," \
    "app,batch,priority,group\n"

static const char toy[] =
    "app toy\nsource test\norigin none\nhardware none\nmethod made up\n"
    "synthetic yes\ntime v100 beta_s 0.25 batch_max 16\n";

static const char *const settings[] = {"easyscale.several=1",
                                       "easyscale.again=1"};

static double waits(struct play *play, const char *group)
{
    for (int i = 0; i < play->result.ngroups; i++)
        if (strcmp(play->result.groups[i].name, group) == 0)
            return play->result.groups[i].queue_max_s;
    fail_msg("no group %s", group);
    return 0;
}

static void play_with(struct play *play, const char *rows, double handover_s,
                      const char *profiles)
{
    play_open(play, "1x2:v100", rows);
    play->options.restart_s = 5;
    play->options.handover_s = handover_s;
    play->options.profiles = profiles;
    play->options.settings = settings;
    play->options.nsettings = 2;
    play_run(play, "easyscale");
}

/* The server is given its GPU at 100, has it 3 s later, and ends at 153. */
static void a_server_waits_until_its_gpu_is_let_go(void **unused)
{
    struct play play;
    const char rows[] =
        COLUMNS "a,0,2,1000,1,2,,,0,\ns,100,1,50,1,1,,,9,serve\n";
    (void)unused;
    play_with(&play, rows, 3, NULL);
    assert_true(play_near(play_end(&play, "s"), 153));
    assert_true(play_near(waits(&play, "serve"), 3));
    assert_true(play_job(&play, "s")->queue_s == 0); /* it held the GPU */
    play_close(&play);
    play_with(&play, rows, 0, NULL);
    assert_true(play_near(play_end(&play, "s"), 150));
    assert_true(waits(&play, "serve") == 0);
    play_close(&play);
}

/* 8 threads of a sample, 4 on each V100: a step takes 1 s. At 100.4 it has 0.6
 * s left, and 3 s more for the checkpoint. */
static void a_mini_batch_is_finished_first(void **unused)
{
    struct play play;
    char folder[TEMP_FOLDER];
    (void)unused;
    temp_open(folder);
    temp_write(folder, "toy.txt", toy);
    play_with(&play,
              COLUMNS "a,0,2,1000,1,8,toy,8,0,\ns,100.4,1,50,1,1,,,9,serve\n",
              3, folder);
    assert_true(play_near(waits(&play, "serve"), 3.6));
    assert_true(play_near(play_end(&play, "s"), 100.4 + 3.6 + 50));
    play_close(&play);
    temp_close(folder);
}

/* A GPU that is free, or whose job has ended, is had at once. */
static void nothing_is_waited_for_where_no_job_ran(void **unused)
{
    struct play play;
    (void)unused;
    play_with(&play,
              COLUMNS "b,0,1,100,1,1,,,0,\ns,50,1,40,1,1,,,9,serve\n"
                      "t,100,1,40,1,1,,,9,serve\n",
              3, NULL);
    assert_true(play_near(play_end(&play, "s"), 90));
    assert_true(play_near(play_end(&play, "t"), 140));
    assert_true(waits(&play, "serve") == 0);
    play_close(&play);
}

/* GPUs 1 and 2 are left, 0 is kept; a GPU that was to be free at 9 is not free
 * sooner because its next job, which never had it, leaves at 5. */
static void a_gpu_is_free_when_its_last_user_is_gone(void **unused)
{
    struct firn_cluster cluster;
    struct firn_error err;
    struct handover handover = {0};
    struct firn_part three = {0, 0, 7}, one = {0, 0, 1}, two = {0, 0, 2};
    struct firn_alloc all = {.parts = &three, .nparts = 1};
    struct firn_alloc first = {.parts = &one, .nparts = 1};
    struct firn_alloc second = {.parts = &two, .nparts = 1};
    struct firn_alloc none = {0};
    (void)unused;
    assert_int_equal(firn_cluster_open(&cluster, "1x4:v100", &err), FIRN_OK);
    handover_leave(&handover, &all, &none, 9); /* off */
    assert_true(handover_ready_s(&handover, &all, 1) == 1);
    handover_open(&handover, &cluster);
    handover_leave(&handover, &all, &first, 9);
    assert_true(handover_ready_s(&handover, &first, 1) == 1);
    assert_true(handover_ready_s(&handover, &second, 1) == 9);
    handover_leave(&handover, &second, &none, 5);
    assert_true(handover_ready_s(&handover, &second, 6) == 9);
    assert_true(handover_ready_s(&handover, &all, 10) == 10);
    handover_close(&handover);
    firn_cluster_release(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_waits_until_its_gpu_is_let_go),
        cmocka_unit_test(a_mini_batch_is_finished_first),
        cmocka_unit_test(nothing_is_waited_for_where_no_job_ran),
        cmocka_unit_test(a_gpu_is_free_when_its_last_user_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
