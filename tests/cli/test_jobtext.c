/* test_jobtext.c - a job file made from options. */
#include "cli/flags.c"
#include "cli/jobtext.c" /* programs link libfirn.a, which has no cli */
#include "cli/safetext.c"
#include <setjmp.h>

#include <cmocka.h>

static void assert_text(const struct job_flags *flags, char **argv,
                        const char *want)
{
    struct firn_buf out = {0};
    struct firn_error err = {0};
    assert_int_equal(job_text(&out, flags, argv, "/home/u", &err), FIRN_OK);
    assert_string_equal(out.at, want);
    buf_release(&out);
}

static void a_job_without_workdir_runs_in_the_current_directory(void **state)
{
    (void)state;
    struct job_flags flags = {.priority = -1};
    char *argv[] = {"python", "train.py", "--lr", "0.1", NULL};
    assert_false(job_flags_any(&flags));
    assert_text(&flags, argv,
                "run: [\"python\", \"train.py\", \"--lr\", \"0.1\"]\n"
                "workdir: \"/home/u\"\n");
}

static void every_flag_has_its_key(void **state)
{
    (void)state;
    char *types[] = {"a100", "v100"}, *env[] = {"A=1", "B=x=y", "C="};
    struct job_flags flags = {.name = "n",
                              .queue = "q",
                              .app = "resnet50",
                              .workdir = "sub",
                              .priority = 0,
                              .gpus = "1..8",
                              .types = {types, 2, 2},
                              .is_alone = true,
                              .env = {env, 3, 3},
                              .is_elastic = true,
                              .threads = 8,
                              .batch = 32,
                              .freeze = "penalty",
                              .freeze_max = "90%",
                              .ckpt_dir = "/ckpt",
                              .grace_s = 1.5,
                              .ckpt_every_s = 1000000,
                              .retries = 2,
                              .duration_s = 3600,
                              .memory_gib = 7.5,
                              .epochs = 3,
                              .may_restart = true,
                              .deadline = "2026-11-20T18:00Z"};
    char *argv[] = {"x", NULL};
    assert_true(job_flags_any(&flags));
    assert_text(&flags, argv,
                "name: \"n\"\nqueue: \"q\"\napp: \"resnet50\"\npriority: 0\n"
                "run: [\"x\"]\nworkdir: \"/home/u/sub\"\n"
                "env: {\"A\": \"1\", \"B\": \"x=y\", \"C\": \"\"}\n"
                "gpus: \"1..8\"\ngpu: [\"a100\", \"v100\"]\nshare: never\n"
                "batch: 32\nelastic: {consistency: \"D1\", threads: 8}\n"
                "freeze: {rule: \"penalty\", max: \"90%\"}\n"
                "target: {epochs: 3}\n"
                "checkpoint: {dir: \"/ckpt\", grace: 1.5, interval: 1000000}\n"
                "restart: allowed\ndeadline: \"2026-11-20T18:00Z\"\n"
                "retry: {max: 2}\nduration: 3600\nmemory: 7.5\n");
}

static void no_text_becomes_a_yaml_key(void **state)
{
    (void)state;
    struct job_flags flags = {.priority = -1,
                              .name = "x\"\npriority: 100 # \\"};
    char *argv[] = {"sh", "-c", "echo ']' \"$X\"; a: b", NULL};
    assert_text(&flags, argv,
                "name: \"x\\\"\\u000apriority: 100 # \\\\\"\n"
                "run: [\"sh\", \"-c\", \"echo ']' \\\"$X\\\"; a: b\"]\n"
                "workdir: \"/home/u\"\n");
}

static void env_without_a_value_copies_the_variable_or_fails(void **state)
{
    (void)state;
    char *env[] = {"FIRN_TEST_VARIABLE"};
    char *argv[] = {"x", NULL};
    struct job_flags flags = {.priority = -1, .env = {env, 1, 1}};
    struct firn_buf out = {0};
    struct firn_error err = {0};
    unsetenv("FIRN_TEST_VARIABLE");
    assert_int_equal(job_text(&out, &flags, argv, "/", &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "FIRN_TEST_VARIABLE"));
    buf_release(&out);
    setenv("FIRN_TEST_VARIABLE", "7", 1);
    assert_text(&flags, argv,
                "run: [\"x\"]\nworkdir: \"/home/u\"\n"
                "env: {\"FIRN_TEST_VARIABLE\": \"7\"}\n");
}

static void text_that_is_not_utf8_is_rejected(void **state)
{
    (void)state;
    char *argv[] = {"x", "a\xff", NULL};
    struct job_flags flags = {.priority = -1};
    struct firn_buf out = {0};
    struct firn_error err = {0};
    assert_int_equal(job_text(&out, &flags, argv, "/", &err), FIRN_EINVAL);
    assert_string_equal(err.text, "run 'a\\xff' is not UTF-8");
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_workdir_runs_in_the_current_directory),
        cmocka_unit_test(every_flag_has_its_key),
        cmocka_unit_test(no_text_becomes_a_yaml_key),
        cmocka_unit_test(env_without_a_value_copies_the_variable_or_fails),
        cmocka_unit_test(text_that_is_not_utf8_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
