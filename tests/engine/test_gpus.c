/* test_gpus.c - GPUs of a driver that is made up here, and declared ones. */
#include "engine/gpus.h"
#include "lib/fakenvml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static enum firn_status ask(struct gpus *gpus, const struct fakegpu *of,
                            unsigned n, struct firn_error *err)
{
    struct nvml nvml = fakenvml_use(of, n);
    return gpus_ask(gpus, &nvml, err);
}

static void gives(const char *name, double gib, const char *spec)
{
    struct gpus gpus;
    struct firn_error err;
    struct fakegpu one = {.name = name, .gib = gib, .pids = {0}};
    assert_int_equal(ask(&gpus, &one, 1, &err), FIRN_OK);
    assert_string_equal(gpus.spec.at, spec);
    gpus_close(&gpus);
}

static void driver_names_become_gpu_types(void **state)
{
    (void)state;
    gives("NVIDIA H200", 140.44, "1x1:h200@140.4");
    gives("NVIDIA A100-SXM4-80GB", 79.25, "1x1:a100@79.2");
    gives("Tesla V100-SXM2-16GB", 15.78, "1x1:v100@15.7");
    gives("Quadro RTX 6000", 23.65, "1x1:rtx6000@23.6");
    gives("NVIDIA GeForce RTX 2080 Ti", 11, "1x1:2080ti@11.0");
    gives("NVIDIA RTX A6000", 47.5, "1x1:a6000@47.5");
    gives("NVIDIA L40", 45, "1x1:l40@45.0"); /* neither l4 nor l40s */
    gives("NVIDIA GB10", 119.75, "1x1:gb10@119.7");
    gives("NVIDIA", 1, "1x1:gpu@1.0");
    assert_int_equal(fakenvml_nopen(), 0);
}

static void each_kind_is_a_node_and_keeps_its_devices(void **state)
{
    (void)state;
    static const struct fakegpu mixed[] = {
        {.name = "NVIDIA A100-PCIE-40GB", .gib = 39.5, .pids = {0}},
        {.name = "Tesla T4", .gib = 14.75, .pids = {0}},
        {.name = "NVIDIA A100-PCIE-40GB", .gib = 39.5, .pids = {0}},
        {.name = "NVIDIA A100-SXM4-80GB", .gib = 79.25, .pids = {0}}};
    struct gpus gpus;
    struct firn_error err;
    assert_int_equal(ask(&gpus, mixed, 4, &err), FIRN_OK);
    assert_string_equal(gpus.spec.at,
                        "1x2:a100@39.5,1x1:t4@14.7,1x1:a100-79@79.2");
    assert_string_equal(gpus_at(&gpus, 0, 1)->visible, "GPU-2");
    assert_string_equal(gpus_at(&gpus, 1, 0)->visible, "GPU-1");
    assert_string_equal(gpus_at(&gpus, 2, 0)->visible, "GPU-3");
    assert_int_equal(gpus_at(&gpus, 1, 0)->minor, 2); /* as the driver says */
    assert_int_equal(gpus_at(&gpus, 2, 0)->minor, 0);
    assert_null(gpus_at(&gpus, 1, 1));
    assert_int_equal(gpus.cluster.ngpus, 4);
    gpus_close(&gpus);
}

/* Also those that others use: the cluster is the same at every start. */
static void a_driver_without_gpus_is_an_error(void **state)
{
    (void)state;
    struct gpus gpus;
    struct firn_error err = {0};
    struct fakegpu busy = {.name = "Tesla T4", .gib = 15, .pids = {1}};
    assert_int_equal(ask(&gpus, &busy, 1, &err), FIRN_OK);
    assert_int_equal(gpus.at.n, 1);
    gpus_close(&gpus);
    assert_int_equal(ask(&gpus, &busy, 0, &err), FIRN_ENOENT);
    assert_non_null(strstr(err.text, "has no GPU;"));
    assert_int_equal(fakenvml_nopen(), 0);
}

static void declared_gpus_need_no_driver(void **state)
{
    (void)state;
    struct gpus gpus;
    struct firn_error err;
    assert_int_equal(gpus_open(&gpus, "2x2:v100@16,1x1:t4", &err), FIRN_OK);
    assert_int_equal(gpus.cluster.nnodes, 3);
    assert_int_equal(gpus.at.n, 5);
    assert_string_equal(gpus_at(&gpus, 1, 1)->visible, "1");
    assert_false(gpus.has_nvml);
    gpus_close(&gpus);
    assert_int_equal(gpus_open(&gpus, "2x0:v100", &err), FIRN_EINVAL);
    assert_int_equal(gpus_open(&gpus, "4", &err), FIRN_EINVAL);
}

/* The driver's, where there is one; else a sentence that helps. */
static void an_empty_spec_asks_the_driver(void **state)
{
    (void)state;
    struct gpus gpus;
    struct firn_error err = {0};
    if (gpus_open(&gpus, "", &err) == FIRN_OK) {
        assert_true(gpus.at.n > 0);
        assert_memory_equal(gpus.at.at[0].visible, "GPU-", 4);
        print_message("the driver has %s\n", gpus.spec.at);
        gpus_close(&gpus);
        return;
    }
    print_message("%s\n", err.text);
    assert_int_equal(err.status, FIRN_ENOENT);
}

static void the_driver_says_how_a_gpu_is_used(void **state)
{
    (void)state;
    const struct fakegpu two[] = {
        {.name = "Tesla T4", .gib = 15, .used_gib = 3.5, .percent = 42},
        {.name = "Tesla T4", .gib = 15, .percent = 101}};
    struct nvml nvml = fakenvml_use(two, 2);
    struct firn_load load = {-1, -1};
    assert_true(nvml_load(&nvml, 0, &load));
    assert_true(load.util == 0.42 && load.mem_gib == 3.5);
    load = (struct firn_load){-1, -1};
    assert_false(nvml_load(&nvml, 1, &load)); /* no share of anything */
    assert_false(nvml_load(&nvml, 2, &load)); /* is not there */
    nvml.utilisation = NULL;                  /* of an old driver */
    assert_false(nvml_load(&nvml, 0, &load));
    assert_true(load.util == -1 && load.mem_gib == -1);
    nvml_close(&nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_names_become_gpu_types),
        cmocka_unit_test(each_kind_is_a_node_and_keeps_its_devices),
        cmocka_unit_test(a_driver_without_gpus_is_an_error),
        cmocka_unit_test(declared_gpus_need_no_driver),
        cmocka_unit_test(an_empty_spec_asks_the_driver),
        cmocka_unit_test(the_driver_says_how_a_gpu_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
