/* test_jobtext.c - options become the job file that was meant.
 *
 * That every option has its key is seen in tests/daemon/test_jobfields.c.
 */
#include "cli/flags.c"
#include "cli/jobtext.c" /* programs link libfirn.a, which has no cli */
#include "cli/safetext.c"
#include <setjmp.h>

#include <cmocka.h>

static const struct flag none[] = {{0}};
static const struct flags_page page = {
    .command = "submit", .table = none, .shared = job_flags_table};

/* Parses options, whose last is NULL. Returns as flags_parse(). */
static int parse(struct job_flags *flags, char **options)
{
    char *argv[32] = {"submit"};
    int argc = 1;
    while (*options != NULL)
        argv[argc++] = *options++;
    job_flags_init(flags);
    return flags_parse(&page, flags, &argc, argv);
}

static void assert_text(char **options, char **argv, const char *want)
{
    struct job_flags flags;
    struct firn_buf out = {0};
    struct firn_error err = {0};
    assert_int_equal(parse(&flags, options), -1);
    assert_int_equal(job_flags_any(&flags), *options != NULL);
    assert_int_equal(job_text(&out, &flags, argv, "/home/u", &err), FIRN_OK);
    assert_string_equal(out.at, want);
    job_flags_release(&flags);
    buf_release(&out);
}

static enum firn_status text_error(char **options, char **argv,
                                   struct firn_error *err)
{
    struct job_flags flags;
    struct firn_buf out = {0};
    assert_int_equal(parse(&flags, options), -1);
    enum firn_status status = job_text(&out, &flags, argv, "/", err);
    job_flags_release(&flags);
    buf_release(&out);
    return status;
}

static void a_command_alone_runs_in_the_current_directory(void **state)
{
    (void)state;
    char *argv[] = {"python", "train.py", "--lr", "0.1", NULL};
    assert_text((char *[]){NULL}, argv,
                "run: [\"python\", \"train.py\", \"--lr\", \"0.1\"]\n"
                "workdir: \"/home/u\"\n");
}

static void options_of_one_group_become_one_mapping(void **state)
{
    (void)state;
    char *options[] = {"-w",    "sub",       "--retry", "2",   "--retry-on",
                       "lost",  "--alone",   "--grace", "1.5", "-p",
                       "0",     "--elastic", "--env",   "A=1", "-eB=x=y",
                       "--env", "C=",        NULL};
    assert_text(options, (char *[]){"x", NULL},
                "priority: 0\nrun: [\"x\"]\n"
                "env: {\"A\": \"1\", \"B\": \"x=y\", \"C\": \"\"}\n"
                "workdir: \"/home/u/sub\"\nshare: \"never\"\n"
                "elastic: {consistency: \"D1\"}\ncheckpoint: {grace: 1.5}\n"
                "retry: {max: 2, on: [\"lost\"]}\n");
}

static void a_level_goes_before_elastic_in_any_order(void **state)
{
    (void)state;
    static const char want[] = "run: [\"x\"]\nworkdir: \"/home/u\"\n"
                               "elastic: {consistency: \"D0\"}\n";
    char *argv[] = {"x", NULL};
    assert_text((char *[]){"--elastic", "--consistency", "D0", NULL}, argv,
                want);
    assert_text((char *[]){"--consistency", "D0", "--elastic", NULL}, argv,
                want);
}

static void wrong_values_are_refused_when_they_are_given(void **state)
{
    (void)state;
    static char *const cases[][3] = {
        {"--gpus", "8..1", NULL},     {"--priority", "101", NULL},
        {"--threads", "0", NULL},     {"--duration", "soon", NULL},
        {"--memory", "much", NULL},   {"--freeze", "hard", NULL},
        {"--gpu", "a100,v|1", NULL},  {"--retry-on", "oom", NULL},
        {"--name", "12", NULL},       {"--queue", "", NULL},
        {"--share", "--alone", NULL}, {"--alone", "--share", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job_flags flags;
        assert_int_equal(parse(&flags, (char **)cases[i]), 2);
        job_flags_release(&flags);
    }
}

static void no_text_becomes_a_yaml_key(void **state)
{
    (void)state;
    char *options[] = {"--base", "x\"\npriority: 100 # \\", NULL};
    char *argv[] = {"sh", "-c", "echo ']' \"$X\"; a: b", NULL};
    assert_text(options, argv,
                "run: [\"sh\", \"-c\", \"echo ']' \\\"$X\\\"; a: b\"]\n"
                "workdir: \"/home/u\"\n"
                "finetune: {base: \"x\\\"\\u000apriority: 100 # \\\\\"}\n");
}

static void a_variable_without_a_value_takes_that_of_this_process(void **state)
{
    (void)state;
    char *options[] = {"--env", "TEST_VARIABLE", NULL};
    char *argv[] = {"x", NULL};
    struct firn_error err = {0};
    unsetenv("TEST_VARIABLE");
    assert_int_equal(text_error(options, argv, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "--env TEST_VARIABLE: TEST_VARIABLE is not "
                                  "set in the environment; give "
                                  "TEST_VARIABLE=VALUE");
    setenv("TEST_VARIABLE", "7", 1);
    assert_text(options, argv,
                "run: [\"x\"]\nenv: {\"TEST_VARIABLE\": \"7\"}\n"
                "workdir: \"/home/u\"\n");
    options[1] = "RANK=0";
    assert_int_equal(text_error(options, argv, &err), FIRN_EINVAL);
    assert_string_equal(err.text, "--env RANK: firn sets this variable itself");
}

static void bytes_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    struct firn_error err = {0};
    assert_int_equal(
        text_error((char *[]){NULL}, (char *[]){"x", "a\xff", NULL}, &err),
        FIRN_EINVAL);
    assert_string_equal(err.text, "run 'a\\xff' is not UTF-8");
}

/* Fixed: the help of --can was cut after 159 bytes. */
static void help_of_an_option_is_whole(void **state)
{
    (void)state;
    const struct flag *table = job_flags_table();
    for (size_t i = 0; i < JOB_NFIELDS; i++) {
        const char *note = job_fields[i].flag_note;
        for (const struct flag *f = table; note != NULL && f->name; f++)
            if (job_fields[i].flag && strcmp(f->name, job_fields[i].flag) == 0)
                assert_non_null(strstr(f->help, note));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_alone_runs_in_the_current_directory),
        cmocka_unit_test(options_of_one_group_become_one_mapping),
        cmocka_unit_test(a_level_goes_before_elastic_in_any_order),
        cmocka_unit_test(wrong_values_are_refused_when_they_are_given),
        cmocka_unit_test(no_text_becomes_a_yaml_key),
        cmocka_unit_test(a_variable_without_a_value_takes_that_of_this_process),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused),
        cmocka_unit_test(help_of_an_option_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
