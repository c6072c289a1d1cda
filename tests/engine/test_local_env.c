/* test_local_env.c - variables of workers, on declared and on real GPUs. */
#include "engine/launchfile.h"
#include "engine/localwork.h"
#include "lib/alloc_text.h"
#include <firn/parallel.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct bench {
    struct local local;
    struct localjob job;
    struct firn_launch launch;
    struct launchfile out;
    struct arena text;
};

static void bench_open(struct bench *b, const char *spec, const char *gpus)
{
    struct firn_error err;
    memset(b, 0, sizeof *b);
    assert_int_equal(gpus_open(&b->local.gpus, spec, &err), FIRN_OK);
    b->job.base.id = 4;
    b->job.base.attempt = 9;
    b->job.base.want = alloc_read(gpus, &b->text);
}

static void bench_tell(struct bench *b)
{
    launchfile_release(&b->out);
    b->out = (struct launchfile){0};
    local_variables(&b->local, &b->job, &b->launch, &b->out);
}

static void bench_close(struct bench *b)
{
    launchfile_release(&b->out);
    b->local.gpus.has_nvml = false; /* there was no library */
    gpus_close(&b->local.gpus);
    arena_release(&b->text);
}

/* The value of a variable of all workers, or of one; NULL: not set. */
static const char *value(const struct bench *b, int worker, const char *name)
{
    const char *const *at = b->out.common.at;
    size_t n = b->out.common.n, size = strlen(name);
    if (worker >= 0) {
        at = b->out.own.at + b->out.workers.at[worker].first;
        n = b->out.workers.at[worker].n;
    }
    for (size_t i = 0; i < n; i++)
        if (strncmp(at[i], name, size) == 0 && at[i][size] == '=')
            return at[i] + size + 1;
    return NULL;
}

static void an_unreadable_end_of_a_worker_is_not_reported(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "1x2:v100", "n0[1]");
    bench_tell(&b);
    static const char *const silent[] = {
        "FIRN_URL",         "FIRN_TOKEN",      "FIRN_DIR",
        "FIRN_FREEZE",      "FIRN_THREADS",    "FIRN_PASSES",
        "FIRN_MEM_SHARE",   "OMP_NUM_THREADS", "FIRN_FREEZE_MAX",
        "FIRN_CKPT_EVERY_S"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        assert_null(value(&b, -1, silent[i]));
    assert_string_equal(value(&b, -1, "WORLD_SIZE"), "1");
    assert_string_equal(value(&b, -1, "FIRN_EPOCH"), "9");
    assert_string_equal(value(&b, 0, "CUDA_VISIBLE_DEVICES"), "1");
    b.launch.ckpt = "/ckpt";
    b.launch.freeze = "penalty";
    b.launch.freeze_max = 0.3;
    b.launch.ckpt_every_s = 1800;
    b.job.base.want.how.passes = 3;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_DIR"), "/ckpt");
    assert_string_equal(value(&b, -1, "FIRN_FREEZE"), "penalty");
    assert_string_equal(value(&b, -1, "FIRN_FREEZE_MAX"), "0.3");
    assert_string_equal(value(&b, -1, "FIRN_CKPT_EVERY_S"), "1800");
    assert_string_equal(value(&b, -1, "FIRN_PASSES"), "3");
    bench_close(&b);
}

static void each_launch_has_a_group_key_of_its_own(void **state)
{
    (void)state;
    static const char token[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct bench b;
    char first[65];
    bench_open(&b, "2x1:v100", "n0[0] n1[0]");
    b.launch.token = token;
    bench_tell(&b);
    const char *key = value(&b, -1, "FIRN_GROUP_KEY");
    assert_non_null(key);
    assert_int_equal(strlen(key), 64);
    assert_int_equal(strspn(key, "0123456789abcdef"), 64);
    assert_string_not_equal(key, token);
    snprintf(first, sizeof first, "%s", key);
    bench_tell(&b); /* the same job, attempt and token */
    assert_string_not_equal(value(&b, -1, "FIRN_GROUP_KEY"), first);
    assert_string_equal(value(&b, -1, "FIRN_TOKEN"), token);
    bench_close(&b);
}

static void a_co_trained_job_is_in_the_environment_without_sharing(void **state)
{
    (void)state;
    static const char *const words[] = {"/bin/tune", "--text", "a b", NULL};
    struct firn_launch_mate mate = {.job = 7,
                                    .attempt = 2,
                                    .name = "other",
                                    .argv = words,
                                    .dataset = "squad",
                                    .ckpt = "/seven",
                                    .token = "secret",
                                    .threads = 4,
                                    .freeze_max = 0.25};
    struct bench b;
    bench_open(&b, "1x2:v100", "n0[1]");
    b.job.base.want.is_shared = true;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_MATE_JOB"));
    assert_null(value(&b, -1, "FIRN_AFTER"));
    assert_non_null(value(&b, -1, "FIRN_SHARE"));
    assert_null(value(&b, -1, "FIRN_MATE_FREEZE_MAX"));
    b.launch.mate = &mate;
    b.launch.after = "/three";
    b.launch.after_job = 3;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_MATE_JOB"), "7");
    assert_string_equal(value(&b, -1, "FIRN_MATE_EPOCH"), "2");
    assert_string_equal(value(&b, -1, "FIRN_MATE_TOKEN"), "secret");
    assert_string_equal(value(&b, -1, "FIRN_MATE_DIR"), "/seven");
    assert_string_equal(value(&b, -1, "FIRN_MATE_DATA"), "squad");
    assert_string_equal(value(&b, -1, "FIRN_MATE_THREADS"), "4");
    assert_string_equal(value(&b, -1, "FIRN_MATE_FREEZE_MAX"), "0.25");
    assert_null(value(&b, -1, "FIRN_FREEZE_MAX")); /* that one's, not ours */
    assert_string_equal(value(&b, -1, "FIRN_MATE_ARGV"),
                        "/bin/tune\x1f--text\x1f"
                        "a b");
    assert_string_equal(value(&b, -1, "FIRN_AFTER"), "/three");
    assert_string_equal(value(&b, -1, "FIRN_AFTER_JOB"), "3");
    assert_null(
        value(&b, -1, "FIRN_SHARE")); /* it shares with its partner only */
    bench_close(&b);
}

static void workers_get_the_plan_of_a_language_model(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "2x4:v100", "n0[0-3] n1[0-3]");
    bench_tell(&b);
    static const char *const silent[] = {"FIRN_TENSOR", "FIRN_STAGES",
                                         "FIRN_REPLICAS", "FIRN_SHARDED"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        assert_null(value(&b, -1, silent[i]));
    b.job.base.want.how.tensor = 4;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "WORLD_SIZE"), "8");
    assert_string_equal(value(&b, -1, "FIRN_TENSOR"), "4");
    assert_string_equal(value(&b, -1, "FIRN_REPLICAS"), "2");
    assert_null(value(&b, -1, "FIRN_STAGES"));
    b.job.base.want.how.tensor = 0;
    b.job.base.want.how.stages = 2;
    b.job.base.want.how.parallel = FIRN_PARALLEL_PIPELINE;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_STAGES"), "2");
    assert_string_equal(value(&b, -1, "FIRN_REPLICAS"), "4");
    assert_null(value(&b, -1, "FIRN_TENSOR"));
    b.job.base.want.how.stages = 0;
    b.job.base.want.how.parallel = FIRN_PARALLEL_SHARDED;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_SHARDED"), "1");
    assert_string_equal(value(&b, -1, "FIRN_ZERO"), "3");
    assert_null(value(&b, -1, "FIRN_REPLICAS"));
    assert_null(value(&b, -1, "FIRN_RECOMPUTE"));
    assert_null(value(&b, -1, "FIRN_OFFLOAD"));
    b.job.base.want.how.parallel = FIRN_PARALLEL_DATA | FIRN_SAVES_STATE |
                                   FIRN_SAVES_ACTIVATIONS | FIRN_SAVES_HOST;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_SHARDED"));
    assert_string_equal(value(&b, -1, "FIRN_ZERO"), "1");
    assert_string_equal(value(&b, -1, "FIRN_RECOMPUTE"), "1");
    assert_string_equal(value(&b, -1, "FIRN_OFFLOAD"), "1");
    bench_close(&b);
}

static void workers_get_the_language_model_of_the_job_file(void **state)
{
    (void)state;
    static const char *const silent[] = {"FIRN_MODEL", "FIRN_PRECISION",
                                         "FIRN_OPTIMIZER", "FIRN_ATTENTION",
                                         "FIRN_CHECKPOINTING"};
    struct bench b;
    bench_open(&b, "1x2:v100", "n0[0-1]");
    b.launch.batch = 8; /* told to every job that has one */
    bench_tell(&b);
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        assert_null(value(&b, -1, silent[i]));
    assert_string_equal(value(&b, -1, "FIRN_BATCH"), "8");
    b.launch.model = "{\"kind\":\"llm\",\"hidden\":64}";
    b.launch.precision = "bf16";
    b.launch.optimizer = "sgd";
    b.launch.attention = "sdpa";
    b.launch.checkpointing = "";
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_MODEL"),
                        "{\"kind\":\"llm\",\"hidden\":64}");
    assert_string_equal(value(&b, -1, "FIRN_PRECISION"), "bf16");
    assert_string_equal(value(&b, -1, "FIRN_OPTIMIZER"), "sgd");
    assert_string_equal(value(&b, -1, "FIRN_ATTENTION"), "sdpa");
    assert_null(value(&b, -1, "FIRN_CHECKPOINTING")); /* the default */
    assert_string_equal(value(&b, -1, "FIRN_BATCH"), "8");
    bench_close(&b);
}

/* A t4 has half the speed of a v100. */
static void
faster_gpus_get_more_threads_where_the_policy_lets_them(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "1x2:v100,1x2:t4", "n0[0] n1[0]");
    b.launch.threads = 6;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_LAYOUT"));
    b.job.base.want.tunes = FIRN_TUNE_THREADS;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_LAYOUT"), "0,0,0,0,1,1");
    b.launch.threads = 2; /* one each at least */
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_LAYOUT"), "0,1");
    struct firn_launch_mate mate = {.job = 7, .ckpt = "", .threads = 2};
    b.launch.mate = &mate;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_LAYOUT"), "0,1");
    mate.threads = 4; /* a layout of two would be wrong for it */
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_LAYOUT"));
    b.launch.mate = NULL;
    b.launch.threads = 1; /* which is the trainer's to refuse */
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_LAYOUT"));
    b.launch.threads = 6;
    b.job.base.want = alloc_read("n0[0-1]", &b.text);
    b.job.base.want.tunes = FIRN_TUNE_THREADS;
    bench_tell(&b); /* equal GPUs: evenly, by the trainer */
    assert_null(value(&b, -1, "FIRN_LAYOUT"));
    bench_close(&b);
}

/* Two workers on the V100, one on the T4, which is half as fast: all three do
 * a thread in the same time. Each is alone on a host and sees its own GPU. */
static void several_workers_of_a_job_on_one_gpu(void **state)
{
    (void)state;
    struct bench b;
    int executors[FIRN_TYPES_MAX] = {2, 1};
    bench_open(&b, "1x2:v100,1x2:t4", "n0[1] n1[0]");
    b.local.gpus.has_nvml = true;
    for (size_t i = 0; i < 4; i++)
        snprintf(b.local.gpus.at.at[i].visible, 16, "GPU-%zu", i);
    b.launch.threads = 6;
    b.launch.executors = executors;
    b.job.base.want.tunes = FIRN_TUNE_THREADS | FIRN_TUNE_EXECUTORS;
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 3);
    assert_string_equal(value(&b, -1, "WORLD_SIZE"), "3");
    assert_string_equal(value(&b, -1, "GROUP_WORLD_SIZE"), "3");
    assert_string_equal(value(&b, -1, "FIRN_THROUGH"), "memory");
    assert_null(value(&b, -1, "FIRN_LAYOUT")); /* evenly, by the trainer */
    for (int i = 0; i < 3; i++) {
        assert_string_equal(value(&b, i, "LOCAL_RANK"), "0");
        assert_string_equal(value(&b, i, "LOCAL_WORLD_SIZE"), "1");
        assert_string_equal(value(&b, i, "CUDA_VISIBLE_DEVICES"),
                            i < 2 ? "GPU-1" : "GPU-2");
    }
    assert_string_equal(value(&b, 2, "RANK"), "2");
    assert_string_equal(value(&b, 2, "GROUP_RANK"), "2");
    executors[1] = 2; /* each half as fast as one on the V100 */
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_LAYOUT"), "0,0,1,1,2,3");
    executors[0] = 6; /* more workers than threads */
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 2);
    executors[0] = 2;
    b.job.base.want.tunes = FIRN_TUNE_THREADS; /* not the policy's to decide */
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 2);
    assert_null(value(&b, -1, "FIRN_THROUGH"));
    bench_close(&b);
}

static void the_drivers_gpus_are_all_of_one_host(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "1x2:v100@16,1x1:t4", "n0[1] n1[0]");
    b.local.gpus.has_nvml = true;
    for (size_t i = 0; i < 3; i++) {
        snprintf(b.local.gpus.at.at[i].visible, 16, "GPU-%zu", i);
        b.local.gpus.at.at[i].mem_gib = 16;
    }
    b.job.base.want.is_shared = true;
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 2);
    assert_string_equal(value(&b, 1, "LOCAL_RANK"), "1");
    assert_string_equal(value(&b, 1, "LOCAL_WORLD_SIZE"), "2");
    assert_string_equal(value(&b, 1, "CUDA_VISIBLE_DEVICES"), "GPU-1,GPU-2");
    assert_string_equal(value(&b, -1, "GROUP_WORLD_SIZE"), "1");
    assert_string_equal(value(&b, -1, "FIRN_SHARE"), "1");
    assert_string_equal(value(&b, 1, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
                        "0=8192M,1=8192M");
    bench_close(&b);
}

static void nodes_with_several_boards_are_one_node(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "1x70:v100", "n0[63-65]");
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 3);
    assert_string_equal(value(&b, 2, "CUDA_VISIBLE_DEVICES"), "63,64,65");
    assert_string_equal(value(&b, 2, "LOCAL_RANK"), "2");
    b.launch.is_per_node = true;
    bench_tell(&b);
    assert_int_equal(b.out.workers.n, 1);
    bench_close(&b);
}

static void as_many_processes_wait_to_join_as_can(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "1x8:v100", "n0[0-1]");
    b.local.join_s = 600;
    b.launch.threads = 8;
    b.launch.can_ahead = true;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_SPARES")); /* the option is 0 */
    b.local.spares = 3;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_SPARES"), "3");
    b.launch.gpus_max = 4; /* it has two */
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_SPARES"), "2");
    b.launch.threads = 3;
    bench_tell(&b);
    assert_string_equal(value(&b, -1, "FIRN_SPARES"), "1");
    b.launch.threads = 2;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_SPARES")); /* none could join */
    b.launch.threads = 8;
    b.launch.can_ahead = false;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_SPARES")); /* it would not wait */
    b.launch.can_ahead = true;
    b.local.join_s = 0;
    bench_tell(&b);
    assert_null(value(&b, -1, "FIRN_SPARES")); /* it is restarted */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unreadable_end_of_a_worker_is_not_reported),
        cmocka_unit_test(each_launch_has_a_group_key_of_its_own),
        cmocka_unit_test(
            a_co_trained_job_is_in_the_environment_without_sharing),
        cmocka_unit_test(workers_get_the_plan_of_a_language_model),
        cmocka_unit_test(workers_get_the_language_model_of_the_job_file),
        cmocka_unit_test(
            faster_gpus_get_more_threads_where_the_policy_lets_them),
        cmocka_unit_test(several_workers_of_a_job_on_one_gpu),
        cmocka_unit_test(the_drivers_gpus_are_all_of_one_host),
        cmocka_unit_test(nodes_with_several_boards_are_one_node),
        cmocka_unit_test(as_many_processes_wait_to_join_as_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
