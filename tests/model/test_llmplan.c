/* test_llmplan.c - which plans are feasible, their speed, their order. */
#include <firn/llmplan.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { PLANS = 256 };

static struct firn_memory_job job(const char *name, int seq)
{
    struct firn_memory_job j = {.seq = seq,
                                .micro_batch = 1,
                                .precision = FIRN_PRECISION_AMP,
                                .attention = FIRN_ATTENTION_SDPA};
    struct firn_error err;
    assert_int_equal(firn_llm_find(&j.shape, name, &err), FIRN_OK);
    assert_int_equal(firn_memory_check(&j, &err), FIRN_OK);
    return j;
}

static const struct firn_llm_gpus sia[] = {
    {"2080ti", 11, 0.64, 8, 24},
    {"a100", 40, 2.2, 8, 16},
    {"rtx6000", 24, 0.85, 4, 4},
};

static void the_speed_is_as_computed_by_hand(void **state)
{
    (void)state;
    /* gpt2 on 2 x 2 GPUs of speed 2, micro-batch 4, s 1024, amp. */
    struct firn_memory_job j = job("gpt2", 1024);
    struct firn_llm_gpus gpus = {"x", 40, 2, 4, 8};
    struct firn_llm_speed speed = {1e13, 1e12, 1e11, 1e9, 1e-3, 1e10};
    j.tp = j.dp = 2;
    j.micro_batch = 4;
    double w = 124439808;
    double flops = 6 * w * 1024 + 12.0 * 12 * 768 * 1024 * 1024;
    double host = 12 * 1e-3; /* not faster on GPUs of speed 2 */
    double compute = 4 * flops / (2 * 2e13) + host;
    /* 4 x 12 all-reduces of 4 x 1024 x 768 x 2 bytes, factor 2 (1/2) = 1 */
    double tensor = 48 * 4.0 * 1024 * 768 * 2 / 1e11;
    double data = 4 * w / 2 / 1e11;
    double got = firn_llm_samples_s(&j, &gpus, &speed);
    assert_true(fabs(got * (compute + tensor + data) - 8) < 1e-9);
    /* Eager attention: 4 x 12 heads x 1024^2 x 12 layers, of which a GPU has
     * half, at 2 x 1e10 a second. */
    j.attention = FIRN_ATTENTION_EAGER;
    double matrices = 4 * 12 * 1024.0 * 1024 * 12 / 2 / 2e10;
    got = firn_llm_samples_s(&j, &gpus, &speed);
    assert_true(fabs(got * (compute + matrices + tensor + data) - 8) < 1e-9);
    j.attention = FIRN_ATTENTION_SDPA;
    /* Checkpointing computes the forward pass twice. */
    j.is_checkpointing = true;
    got = firn_llm_samples_s(&j, &gpus, &speed);
    assert_true(fabs(got * (compute * 4 / 3 + tensor + data) - 8) < 1e-9);
    /* Four replicas of two do not fit in the node: its network is shared. */
    j.is_checkpointing = false;
    j.dp = 4;
    data = 1.5 * 4 * w / 2 / (1e9 / 4);
    got = firn_llm_samples_s(&j, &gpus, &speed);
    assert_true(fabs(got * (compute + tensor + data) - 16) < 1e-9);
    /* fp32 has its own rate and twice the bytes. */
    j.dp = 1;
    j.precision = FIRN_PRECISION_FP32;
    got = firn_llm_samples_s(&j, &gpus, &speed);
    compute = host + 10 * (compute - host);
    assert_true(fabs(got * (compute + tensor * 2) - 4) < 1e-9);
}

/* Of model/llm_speeds.def: 0.737 x 312e12 of an A100, 0.01548 x 1555e9, and the
 * host's 8.63 ms; a type that is not there is a V100 times its speed, but for
 * host and links. */
static void a_gpu_type_has_its_own_speed(void **state)
{
    (void)state;
    struct firn_llm_speed a100 = firn_llm_speed_of("A100", 7);
    assert_true(fabs(a100.half_flops_s - 229.944e12) < 1e6);
    assert_true(fabs(a100.fp32_flops_s - 66.1e12) < 1e6);
    assert_true(fabs(a100.matrix_s - 24.0714e9) < 1e4);
    assert_true(fabs(a100.layer_s - 8.63e-3) < 1e-9);
    assert_true(fabs(a100.node_bytes_s - 40.1e9) < 1);
    struct firn_llm_speed v100 = firn_llm_speed_of("v100", 1);
    struct firn_llm_speed mine = firn_llm_speed_of("mine", 3);
    assert_true(fabs(mine.half_flops_s / v100.half_flops_s - 3) < 1e-9);
    assert_true(fabs(mine.matrix_s / v100.matrix_s - 3) < 1e-9);
    assert_true(mine.layer_s == v100.layer_s);
    assert_true(mine.net_bytes_s == v100.net_bytes_s);
}

/* Rows of docs/measurements/h200/megatron_memory.csv: forward, backward and
 * optimizer of one rank. */
static void measured_steps_are_within_thirty_per_cent(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int batch, t;
        double ms;
    } rows[] = {{"gpt2-7b", 8, 4, 216.6},   {"gpt2-7b", 2, 4, 82.9},
                {"gpt2-7b", 4, 2, 226.1},   {"gpt2-350m", 16, 1, 227.2},
                {"gpt2-350m", 4, 1, 65.3},  {"gpt2-774m", 8, 1, 224.9},
                {"gpt2-124m", 16, 1, 95.9}, {"gpt2-350m", 16, 2, 124.9}};
    struct firn_llm_speed speed = firn_llm_speed_of("h200", 1);
    struct firn_llm_gpus gpus = {"h200", 141, 1, 8, 8};
    speed.node_bytes_s = INFINITY; /* no message was sent */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct firn_memory_job j = job(rows[i].model, 1024);
        j.precision = FIRN_PRECISION_MEGATRON;
        j.attention = FIRN_ATTENTION_EAGER;
        j.tp = rows[i].t;
        j.dp = 1;
        j.micro_batch = rows[i].batch;
        double ms = 1e3 * j.micro_batch / firn_llm_samples_s(&j, &gpus, &speed);
        if (fabs(ms / rows[i].ms - 1) > 0.3)
            fail_msg("%s, batch %d, t %d: %.1f ms, measured %.1f",
                     rows[i].model, j.micro_batch, j.tp, ms, rows[i].ms);
    }
}

static void every_plan_is_feasible_and_none_is_missing(void **state)
{
    (void)state;
    static struct firn_llm_plan plans[PLANS];
    struct firn_memory_job j = job("gpt2-large", 1024);
    struct firn_llm_plan_options o = {.types = sia, .ntypes = 3, .batch = 12};
    size_t n = firn_llm_plans(&j, &o, plans, PLANS), want = 0;
    assert_true(n > 0 && n < PLANS);
    for (size_t i = 0; i < n; i++) {
        const struct firn_llm_plan *p = &plans[i];
        const struct firn_llm_gpus *gpus = &sia[p->type];
        assert_true((p->t & (p->t - 1)) == 0 && p->t <= gpus->node_gpus);
        assert_int_equal(20 % p->t, 0);
        assert_int_equal(12 % p->d, 0);
        assert_int_equal(p->ngpus, p->t * p->d);
        assert_int_equal(p->micro_batch, 12 / p->d);
        assert_true(p->ngpus <= gpus->count);
        assert_true(p->memory.device_mib <= gpus->mem_gib * 1024);
        assert_true(p->headroom_mib ==
                    gpus->mem_gib * 1024 - p->memory.device_mib);
    }
    for (int k = 0; k < 3; k++)
        for (int t = 1; t <= 4; t *= 2) /* 8 does not divide 20 heads */
            for (int d = 1; d <= 12; d++) {
                if (12 % d != 0 || t * d > sia[k].count || t > sia[k].node_gpus)
                    continue;
                j.tp = t;
                j.dp = d;
                j.micro_batch = 12 / d;
                want += firn_memory_of(&j, NULL).device_mib <=
                        sia[k].mem_gib * 1024;
            }
    assert_int_equal(n, want);
}

static void plans_are_ranked_by_speed_per_gpu(void **state)
{
    (void)state;
    static struct firn_llm_plan plans[PLANS], best[3];
    struct firn_memory_job j = job("gpt2", 512);
    struct firn_llm_plan_options o = {.types = sia, .ntypes = 3, .batch = 8};
    size_t n = firn_llm_plans(&j, &o, plans, PLANS);
    assert_true(n > 3);
    for (size_t i = 1; i < n; i++) {
        const struct firn_llm_plan *a = &plans[i - 1], *b = &plans[i];
        assert_true(a->samples_s_gpu >= b->samples_s_gpu);
        if (a->samples_s_gpu == b->samples_s_gpu)
            assert_true(a->ngpus <= b->ngpus);
    }
    /* It fits on one GPU of the fastest type, and nothing is communicated. */
    assert_int_equal(plans[0].type, 1);
    assert_int_equal(plans[0].ngpus, 1);
    /* With room for three, the three best. */
    assert_int_equal(firn_llm_plans(&j, &o, best, 3), n);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(best[i].type, plans[i].type);
        assert_int_equal(best[i].t, plans[i].t);
        assert_int_equal(best[i].d, plans[i].d);
        assert_true(best[i].samples_s == plans[i].samples_s);
        assert_true(best[i].memory.high_mib == plans[i].memory.high_mib);
    }
    assert_int_equal(firn_llm_plans(&j, &o, NULL, 0), n);
}

static void equal_speed_prefers_fewer_gpus_then_headroom(void **state)
{
    (void)state;
    /* Nothing is communicated with infinite bandwidth, so all are equal. */
    struct firn_llm_gpus types[] = {{"small", 40, 1, 1, 1},
                                    {"large", 80, 1, 1, 1}};
    struct firn_llm_speed speed = {1e13, 1e13, INFINITY, INFINITY, 0, INFINITY};
    struct firn_memory_job j = job("gpt2", 512);
    struct firn_llm_plan plans[8];
    struct firn_llm_plan_options o = {
        .types = types, .ntypes = 2, .batch = 4, .speed = &speed};
    assert_int_equal(firn_llm_plans(&j, &o, plans, 8), 2);
    assert_int_equal(plans[0].type, 1);
    types[0].count = 4;
    types[1].count = 0;
    assert_int_equal(firn_llm_plans(&j, &o, plans, 8), 3); /* d = 1, 2, 4 */
    assert_int_equal(plans[0].ngpus, 1);
    assert_int_equal(plans[1].ngpus, 2);
    assert_int_equal(plans[2].ngpus, 4);
}

static void a_model_too_large_for_one_gpu_is_split(void **state)
{
    (void)state;
    static struct firn_llm_plan plans[PLANS];
    struct firn_memory_job j = job("llama-7b", 1024);
    struct firn_llm_gpus gpus = {"a100", 80, 2, 8, 16};
    struct firn_llm_plan_options o = {.types = &gpus, .ntypes = 1, .batch = 8};
    /* 16 bytes x 6.7 billion: 100 GiB. */
    size_t n = firn_llm_plans(&j, &o, plans, PLANS);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        assert_true(plans[i].t >= 2);
    gpus.node_gpus = 1;
    assert_int_equal(firn_llm_plans(&j, &o, plans, PLANS), 0);
    /* Memory that is not known fits everything. */
    gpus.mem_gib = 0;
    assert_true(firn_llm_plans(&j, &o, plans, PLANS) > 0);
    assert_true(plans[0].headroom_mib == 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_speed_is_as_computed_by_hand),
        cmocka_unit_test(a_gpu_type_has_its_own_speed),
        cmocka_unit_test(measured_steps_are_within_thirty_per_cent),
        cmocka_unit_test(every_plan_is_feasible_and_none_is_missing),
        cmocka_unit_test(plans_are_ranked_by_speed_per_gpu),
        cmocka_unit_test(equal_speed_prefers_fewer_gpus_then_headroom),
        cmocka_unit_test(a_model_too_large_for_one_gpu_is_split),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
