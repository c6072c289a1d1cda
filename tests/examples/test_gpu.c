/* test_gpu.c - the virtual GPU of the example trainers keeps the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "folder.h"
#include "gpu.h"
#include "loop.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* A trainer of that pace, which is on the GPU when this returns. */
static pid_t neighbour(int pace_ms)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct gpu gpu;
        gpu_open(&gpu, folder_path(), pace_ms, 0.5);
        byte = gpu.file >= 0;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    return child;
}

/* Without a word, as a killed job. */
static void leaves(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* 2 ms alone; beside one of 4 ms and one of 2 ms: 2 + 0.5 x (4 + 2) = 5, and
 * with all of their paces 8. */
static void a_step_takes_a_share_of_the_paces_of_the_others_more(void **unused)
{
    (void)unused;
    struct gpu gpu;
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    gpu_open(&gpu, folder_path(), 2, 0.5);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 2e-3));
    assert_true(
        is_near(gpu_step(&gpu, loop_now_s(), 0, 3), 6e-3)); /* threads */
    pid_t slow = neighbour(4), alike = neighbour(2);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 5e-3));
    gpu.beside = 1;
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 8e-3));
    gpu.beside = 0.5;
    leaves(slow);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 3e-3));
    leaves(alike);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 2e-3));
    gpu_close(&gpu);
    gpu_close(&gpu); /* once more is no harm */
}

static void the_processes_of_a_job_have_a_gpu_each(void **unused)
{
    (void)unused;
    struct gpu gpu;
    setenv("CUDA_VISIBLE_DEVICES", "4,5", 1);
    setenv("LOCAL_RANK", "1", 1);
    pid_t other = neighbour(4);
    setenv("LOCAL_RANK", "0", 1);
    gpu_open(&gpu, folder_path(), 2, 0.5);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 2e-3));
    close(gpu.file);
    setenv("CUDA_VISIBLE_DEVICES", "5", 1); /* where the other one is */
    gpu_open(&gpu, folder_path(), 2, 0.5);
    assert_true(is_near(gpu_step(&gpu, loop_now_s(), 0, 1), 4e-3));
    leaves(other);
    close(gpu.file);
    unsetenv("LOCAL_RANK");
}

/* Began 0.1 s behind the end of the last step: the GPU has been at work all
 * the time. Began 10 s behind it: there was a pause. */
static void a_late_step_is_caught_up_with_and_a_pause_is_not(void **unused)
{
    (void)unused;
    struct gpu gpu;
    double now_s = loop_now_s();
    setenv("CUDA_VISIBLE_DEVICES", "9", 1);
    gpu_open(&gpu, folder_path(), 2, 0.5);
    gpu_step(&gpu, now_s - 20, 0, 1);
    assert_true(is_near(gpu.due_s, now_s - 20 + 2e-3));
    gpu_step(&gpu, now_s - 20 + 0.1, 0, 1);
    assert_true(is_near(gpu.due_s, now_s - 20 + 4e-3));
    gpu_step(&gpu, now_s - 20 + 0.2, 0.1, 1); /* idle meanwhile */
    assert_true(is_near(gpu.due_s, now_s - 20 + 0.1 + 6e-3));
    gpu_step(&gpu, now_s - 10, 0, 1);
    assert_true(is_near(gpu.due_s, now_s - 10 + 2e-3));
    close(gpu.file);
}

static void a_step_ends_when_it_is_due_and_not_before(void **unused)
{
    (void)unused;
    struct gpu gpu;
    double began_s = loop_now_s();
    gpu_open(&gpu, folder_path(), 30, 0.5);
    gpu_step(&gpu, began_s, 0, 1);
    assert_true(loop_now_s() >= began_s + 0.03 - 1e-6);
    close(gpu.file);
    began_s = loop_now_s();
    gpu_wait(began_s, 20);
    assert_true(loop_now_s() >= began_s + 0.02 - 1e-6);
}

int main(void)
{
#define CASE(name) \
    cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
    const struct CMUnitTest tests[] = {
        CASE(a_step_takes_a_share_of_the_paces_of_the_others_more),
        CASE(the_processes_of_a_job_have_a_gpu_each),
        CASE(a_late_step_is_caught_up_with_and_a_pause_is_not),
        CASE(a_step_ends_when_it_is_due_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
