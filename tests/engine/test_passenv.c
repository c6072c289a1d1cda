/* test_passenv.c - what jobs get of the scheduler's environment. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "engine/attemptfiles.h"
#include "engine/passenv.h"
#include "lib/fakeslurm.h"
#include "lib/folder.h"
#include "lib/livehost.h"
#include "lib/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct livehost host;

static void pass_env_takes_names_and_prefixes(void **state)
{
    (void)state;
    assert_true(passenv_has("PATH=/bin", ""));
    assert_true(passenv_has("LC_ALL=C", ""));
    assert_true(passenv_has("NCCL_DEBUG=INFO", ""));
    assert_false(passenv_has("PATHS=/bin", ""));
    assert_false(passenv_has("LCX=1", ""));
    assert_false(passenv_has("AWS_SECRET_ACCESS_KEY=x", ""));
    assert_false(passenv_has("HF_TOKEN=x", "WANDB_*, OTHER"));
    assert_true(passenv_has("WANDB_MODE=x", "WANDB_*, OTHER"));
    assert_true(passenv_has("OTHER=", "WANDB_*, OTHER"));
    assert_true(passenv_has("OTHER=", "OTHER,WANDB_*"));
    assert_false(passenv_has("OTHERS=", "WANDB_*,,OTHER"));
    assert_true(passenv_has("ANYTHING=1", "*"));
    assert_false(passenv_has("FIRN_TOKEN=x", "*,FIRN_TOKEN"));
    assert_false(passenv_has("no variable", "*"));
    assert_false(passenv_has("=x", "*"));
}

static void invalid_names_in_pass_env_are_errors(void **state)
{
    (void)state;
    struct firn_error err = {0};
    static const char *const good[] = {"", "A", "A,B_*", " A , B", "*", "a1"};
    static const char *const bad[] = {"A=b", "*A",           "A-B",    "1A",
                                      "A**", "A,FIRN_TOKEN", "FIRN_*", "A;B"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(passenv_check(good[i], &err), FIRN_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(passenv_check(bad[i], &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "A;B"));
}

/* A job that writes its environment down, started by a scheduler that has
 * secrets in its own. */
static void dump(const char *gpus)
{
    static const char *const secrets[] = {"AWS_SECRET_ACCESS_KEY", "FIRN_TOKEN",
                                          "DATABASE_PASSWORD"};
    struct firn_buf text = {0};
    for (size_t i = 0; i < 3; i++)
        setenv(secrets[i], "a-secret-of-the-operator", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("TEST_PASSED", "asked-for", 1); /* pass-env of lib/livehost.c */
    livehost_work(&host, 0, "dump", folder_file("dump"));
    livehost_step(&host, 0, gpus);
    livehost_await(&host, FIRN_EVENT_DONE, 0);
    for (size_t i = 0; i < 3; i++)
        unsetenv(secrets[i]);
    int top = open(folder_path(), O_RDONLY | O_DIRECTORY);
    assert_int_equal(attempt_get(top, "dump.0", &text), ATTEMPT_PRESENT);
    close(top);
    assert_null(strstr(text.at, "a-secret-of-the-operator"));
    assert_non_null(strstr(text.at, "\nNCCL_DEBUG=WARN\n"));
    assert_non_null(strstr(text.at, "\nTEST_PASSED=asked-for\n"));
    assert_non_null(strstr(text.at, "\nPATH="));
    assert_non_null(strstr(text.at, "\nFIRN_TOKEN=secret\n")); /* the job's */
    buf_release(&text);
}

static void a_secret_of_the_scheduler_does_not_reach_a_job(void **state)
{
    assert_int_equal(livehost_set_up(&host, "local", "2x4:v100", state), 0);
    dump("n0[0]");
    assert_int_equal(livehost_tear_down(&host, state), 0);
}

static void a_running_slurm_job_is_kept_when_descriptors_are_short(void **state)
{
    assert_int_equal(livehost_set_up(&host, "slurm", "", state), 0);
    dump("n0[0]");
    assert_int_equal(livehost_tear_down(&host, state), 0);
}

int main(int argc, char **argv)
{
    int code = fakeslurm_main(argc, argv);
    if (code < 0)
        code = workers_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pass_env_takes_names_and_prefixes),
        cmocka_unit_test(invalid_names_in_pass_env_are_errors),
        cmocka_unit_test(a_secret_of_the_scheduler_does_not_reach_a_job),
        cmocka_unit_test(
            a_running_slurm_job_is_kept_when_descriptors_are_short),
    };
    return cmocka_run_group_tests_name("passenv", tests, NULL, NULL);
}
