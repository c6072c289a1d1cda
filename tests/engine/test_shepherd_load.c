/* test_shepherd_load.c - the load of a worker's GPU, from its node to firnd. */
#include "engine/shepherdwork.h"
#include "lib/fakenvml.h"
#include "lib/folder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void a_load_is_read_by_worker_and_attempt(void **state)
{
    (void)state;
    int folder = attempt_folder(folder_path(), 3, true);
    struct firn_load load = {0.75, 12.5}, got = {0};
    assert_true(folder >= 0);
    assert_int_equal(attempt_load_get(folder, 0, 3, &got), ATTEMPT_ABSENT);
    assert_int_equal(attempt_load_put(folder, 0, 3, &load, NULL), FIRN_OK);
    assert_int_equal(attempt_load_get(folder, 0, 3, &got), ATTEMPT_PRESENT);
    assert_true(got.util == 0.75 && got.mem_gib == 12.5);
    assert_int_equal(attempt_load_get(folder, 1, 3, &got), ATTEMPT_ABSENT);
    assert_int_equal(attempt_load_get(folder, 0, 4, &got), ATTEMPT_ABSENT);
    load = (struct firn_load){0, 0}; /* overwritten by shorter numbers */
    assert_int_equal(attempt_load_put(folder, 0, 3, &load, NULL), FIRN_OK);
    assert_int_equal(attempt_load_get(folder, 0, 3, &got), ATTEMPT_PRESENT);
    assert_true(got.util == 0 && got.mem_gib == 0);
    int fd = openat(folder, "load-1", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(write(fd, "nonsense\n", 9) == 9);
    close(fd);
    assert_int_equal(attempt_load_get(folder, 1, 3, &got), ATTEMPT_DAMAGED);
    close(folder);
    folder_empty(folder_path());
}

/* The entry of the task's place; a list of one has the GPU of any place. */
static void a_gpu_is_found_by_number_or_uuid(void **state)
{
    (void)state;
    static const struct fakegpu gpus[] = {
        {.name = "T4", .gib = 15}, {.name = "T4", .gib = 15, .percent = 40}};
    struct nvml nvml = fakenvml_use(gpus, 2);
    char uuid[96] = "", list[128];
    void *handle = NULL;
    unsigned device = 9;
    assert_true(shepherd_load_device(&nvml, "0,1", "1", &device));
    assert_int_equal(device, 1);
    assert_true(shepherd_load_device(&nvml, "1", "3", &device));
    assert_int_equal(device, 1);
    assert_true(shepherd_load_device(&nvml, "0", NULL, &device));
    assert_int_equal(device, 0);
    assert_int_equal(nvml.handle(1, &handle), 0);
    assert_int_equal(nvml.uuid(handle, uuid, sizeof uuid), 0);
    snprintf(list, sizeof list, "0,%s", uuid);
    assert_true(shepherd_load_device(&nvml, list, "1", &device));
    assert_int_equal(device, 1);
    assert_false(shepherd_load_device(&nvml, "0,1", "2", &device));
    assert_false(shepherd_load_device(&nvml, "2", "0", &device));
    assert_false(shepherd_load_device(&nvml, "", "0", &device));
    assert_false(shepherd_load_device(&nvml, "GPU-none", "0", &device));
    assert_false(shepherd_load_device(&nvml, NULL, "0", &device));
    assert_false(shepherd_load_device(&nvml, "0", "x", &device));
    nvml_close(&nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_load_is_read_by_worker_and_attempt,
                                        folder_make, folder_remove),
        cmocka_unit_test(a_gpu_is_found_by_number_or_uuid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
