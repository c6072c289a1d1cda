/* test_config.c - flags over a file over defaults, and what is refused.
 */
#include "daemon/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lib/folder.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum firn_status flags(struct config *config, struct firn_error *err,
                              const char *a, const char *b)
{
    char *argv[] = {"firnd", (char *)a, (char *)b, NULL};
    *config = (struct config){0};
    return config_flags(config, b != NULL ? 3 : 2, argv, err);
}

static void every_option_has_a_default(void **unused)
{
    (void)unused;
    struct config config = {0};
    struct firn_error err = {0};
    setenv("XDG_STATE_HOME", "/var/x", 1);
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_string_equal(config.engine, "local");
    assert_string_equal(config.policy, "firn");
    assert_string_equal(config.state, "/var/x/firn");
    assert_string_equal(config.socket, "/var/x/firn/firn.sock");
    assert_null(config.listen);
    config_release(&config);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/ann", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_string_equal(config.state, "/home/ann/.local/state/firn");
    assert_string_equal(config.socket, "/run/user/7/firn.sock");
    config_release(&config);
    unsetenv("HOME");
    assert_int_equal(config_finish(&config, &err), FIRN_EINVAL);
    config_release(&config);
}

static void limits_of_what_is_kept_are_checked(void **unused)
{
    (void)unused;
    struct config config = {0};
    struct firn_error err = {0};
    setenv("XDG_STATE_HOME", "/var/x", 1);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_int_equal(config.keep.log_mib, 64);
    assert_int_equal(config.keep.jobs, 10000);
    assert_int_equal(config.keep.jobs_days, 30);
    assert_int_equal(config.keep.rows, 100000);
    assert_int_equal(config.keep.events_days, 30);
    config_release(&config);
    assert_int_equal(flags(&config, &err, "--log-mib=0", "--keep-rows=7"),
                     FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_int_equal(config.keep.log_mib, 0);
    assert_int_equal(config.keep.rows, 7);
    config_release(&config);
    static const char *const wrong[] = {"-1", "x", "1.5", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(flags(&config, &err, "--keep-jobs-days", wrong[i]),
                         FIRN_OK);
        assert_int_equal(config_finish(&config, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "'keep-jobs-days' is '"));
        config_release(&config);
    }
    unsetenv("XDG_STATE_HOME");
}

static void
directories_are_created_only_above_the_default_state_directory(void **unused)
{
    (void)unused;
    struct config config = {0};
    struct firn_error err = {0};
    struct stat st;
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", folder_path(), 1);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    config_make_parents(&config);
    assert_int_equal(stat(folder_file(".local/state"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(config.state, &st), -1); /* the store makes it */
    config_release(&config);
    assert_int_equal(
        flags(&config, &err, "--state", folder_file("typing/error")), FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    config_make_parents(&config);
    assert_int_equal(stat(folder_file("typing"), &st), -1);
    config_release(&config);
    unsetenv("HOME");
    folder_empty(folder_path());
}

static void the_command_line_takes_precedence_over_the_file(void **unused)
{
    (void)unused;
    static const char text[] = "# a comment\n"
                               "policy: fifo\n"
                               "state: /from/file\n"
                               "settings: [fifo.skip=0, local.cgroup=off]\n";
    struct config config = {0};
    struct firn_error err = {0};
    char *argv[] = {"firnd", "--policy=sjf", "--set", "fifo.skip=1", NULL};
    assert_int_equal(config_flags(&config, 4, argv, &err), FIRN_OK);
    assert_int_equal(config_text(&config,
                                 (struct firn_bytes){text, strlen(text)}, "f",
                                 &err),
                     FIRN_OK);
    assert_string_equal(config.policy, "sjf");
    assert_string_equal(config.state, "/from/file");
    assert_int_equal(config.nsettings, 3);
    assert_string_equal(config.settings[0], "fifo.skip=0");
    assert_string_equal(config.settings[2], "fifo.skip=1"); /* the last word */
    config_release(&config);
}

/* The last setting of an option counts, so the operator's come after. */
static void settings_of_firnd_come_before_the_operators(void **unused)
{
    (void)unused;
    struct config config = {0};
    struct firn_error err = {0};
    char *argv[] = {"firnd", "--state", "/s", "--set", "icefrog.between=no",
                    NULL};
    assert_int_equal(config_flags(&config, 5, argv, &err), FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_int_equal(config.nsettings, config.nlive + 1);
    assert_string_equal(config.settings[0], "icefrog.between=yes");
    assert_string_equal(config.settings[config.nlive], "icefrog.between=no");
    config_release(&config);
}

static void an_error_names_the_wrong_option(void **unused)
{
    (void)unused;
    static const struct {
        const char *a, *b, *want;
    } cases[] = {
        {"--polcy", "x", "did you mean --policy?"},
        {"--policy", NULL, "--policy needs a value"},
        {"--policy=", NULL, "--policy needs a value"},
        {"fifo", NULL, "unknown option 'fifo'"},
        {"--set", "skip", "owner.option=value"},
        {"--a-name-that-is-longer-than-any-there-is", "1", "unknown option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct firn_error err = {0};
        assert_int_equal(flags(&config, &err, cases[i].a, cases[i].b),
                         FIRN_EINVAL);
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("%s: \"%s\"", cases[i].a, err.text);
        config_release(&config);
    }
    struct config config = {0};
    struct firn_error err = {0};
    char *twice[] = {"firnd", "--policy=a", "--policy=b", NULL};
    assert_int_equal(config_flags(&config, 3, twice, &err), FIRN_EINVAL);
    config_release(&config);
}

static void firnd_refuses_root_unless_allowed(void **unused)
{
    (void)unused;
    static const struct {
        const char *flag, *file;
        uid_t uid;
        enum firn_status status;
    } cases[] = {
        {"--policy=fifo", "", 1000, FIRN_OK},
        {"--policy=fifo", "", 0, FIRN_EINVAL},
        {"--allow-root", "", 0, FIRN_OK},
        {"--allow-root=yes", "", 0, FIRN_OK},
        {"--policy=fifo", "allow-root: yes\n", 0, FIRN_OK},
        {"--policy=fifo", "allow-root: no\n", 0, FIRN_EINVAL},
        {"--allow-root=no", "allow-root: yes\n", 0, FIRN_EINVAL},
    };
    setenv("HOME", "/home/ann", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct firn_error err = {0};
        struct firn_bytes text = {cases[i].file, strlen(cases[i].file)};
        assert_int_equal(flags(&config, &err, cases[i].flag, NULL), FIRN_OK);
        assert_int_equal(config_text(&config, text, "f", &err), FIRN_OK);
        assert_int_equal(config_finish(&config, &err), FIRN_OK);
        if (config_check_user(&config, cases[i].uid, &err) != cases[i].status)
            fail_msg("case %zu: %s", i, err.text);
        if (cases[i].status != FIRN_OK)
            assert_non_null(strstr(err.text, "--allow-root"));
        config_release(&config);
    }
    struct config config;
    struct firn_error err = {0};
    assert_int_equal(flags(&config, &err, "--allow-root=maybe", NULL), FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "use yes or no"));
    config_release(&config);
    unsetenv("HOME");
}

static void the_limit_of_jobs_can_be_set(void **unused)
{
    (void)unused;
    static const char text[] = "jobs-max: 50\nuser-jobs-max: 7\n";
    struct config config = {.state = "/s"};
    struct firn_error err = {0};
    size_t jobs, of_user;
    config_job_limits(&config, &jobs, &of_user);
    assert_true(jobs == 200000 && of_user == 0);
    assert_int_equal(config_text(&config,
                                 (struct firn_bytes){text, strlen(text)}, "f",
                                 &err),
                     FIRN_OK);
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    config_job_limits(&config, &jobs, &of_user);
    assert_true(jobs == 50 && of_user == 7);
    config_release(&config);
    static const char *const wrong[] = {"-1", "many", "1.5", "200000000"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct config bad = {.state = "/s", .jobs_max = wrong[i]};
        assert_int_equal(config_finish(&bad, &err), FIRN_EINVAL);
        assert_non_null(
            strstr(err.text, "expected a whole number from 0 (no limit)"));
        config_release(&bad);
    }
}

static void an_error_in_the_file_names_the_line(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"policy: a\npolicies: b\n", "f: line 2: unknown key 'policies'"},
        {"policy: a\npolicy: b\n", "f: line 2: 'policy' is given twice"},
        {"policy:\n", "'policy' has no value"},
        {"policy: [a]\n", "unexpected list"},
        {"policy: {a: b}\n", "unexpected mapping"},
        {"settings: a.b=c\n", "'settings' must be a list"},
        {"settings: [abc]\n", "owner.option=value"},
        {"settings: []\nsettings: []\n", "line 2"},
        {"- policy\n", "expected 'key: value'"},
        {"policy\n", "expected 'key: value'"},
        {"policy: \"a\\x01b\"\n", "a control character"},
        {"policy: &a b\nstate: *a\n", "YAML aliases are not supported"},
        {"config: other\n", "unknown key 'config'"},
        {"policy: \"a\n", "f: line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = {0};
        struct firn_error err = {0};
        struct firn_bytes text = {cases[i].text, strlen(cases[i].text)};
        assert_int_equal(config_text(&config, text, "f", &err), FIRN_EINVAL);
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("%s: \"%s\"", cases[i].text, err.text);
        config_release(&config);
    }
}

static void a_file_may_be_empty(void **unused)
{
    (void)unused;
    struct config config = {0};
    struct firn_error err = {0};
    assert_int_equal(
        config_text(&config, (struct firn_bytes){NULL, 0}, "f", &err), FIRN_OK);
    assert_int_equal(
        config_text(&config, (struct firn_bytes){"# x\n", 4}, "f", &err),
        FIRN_OK);
    config_release(&config);
}

static void write_token(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

static void tcp_needs_a_token_file_of_mode_0600(void **unused)
{
    (void)unused;
    char path[512];
    const char *token = NULL;
    struct config config = {.state = "/s", .listen = "127.0.0.1:0"};
    struct firn_error err = {0};
    assert_int_equal(config_finish(&config, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "token"));
    snprintf(path, sizeof path, "%s/token", folder_path());
    config.token_file = path;
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    assert_int_equal(config_token(&config, &token, &err), FIRN_ENOENT);
    write_token(path, "0123456789abcdef\n", 0644);
    assert_int_equal(config_token(&config, &token, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "chmod 600"));
    write_token(path, "short\n", 0600);
    assert_int_equal(config_token(&config, &token, &err), FIRN_EINVAL);
    write_token(path, "", 0600);
    assert_int_equal(config_token(&config, &token, &err), FIRN_EINVAL);
    assert_null(token);
    write_token(path, "0123456789abcdef\nmore\n", 0600);
    assert_int_equal(config_token(&config, &token, &err), FIRN_OK);
    assert_string_equal(token, "0123456789abcdef");
    config_release(&config);
}

static void expect_url(struct config config, bool is_remote, const char *want)
{
    struct firn_error err = {0};
    struct firn_buf url = {0};
    enum firn_status status = config_url(&config, is_remote, 7070, &url, &err);
    if (want == NULL) {
        assert_int_equal(status, FIRN_EINVAL);
        assert_non_null(strstr(err.text, "--listen"));
    } else {
        assert_int_equal(status, FIRN_OK);
        assert_string_equal(url.at, want);
    }
    buf_release(&url);
}

static void trainers_get_an_address_that_they_can_reach(void **unused)
{
    (void)unused;
    char host[256] = "", any[300];
    gethostname(host, sizeof host - 1);
    snprintf(any, sizeof any, "http://%s:7070", host);
    struct config config = {.engine = "slurm", .socket = "/s/firn.sock"};
    expect_url(config, false, "unix:/s/firn.sock");
    expect_url(config, true, NULL);
    config.callback = "https://head.lan/firn";
    expect_url(config, true, NULL);
    expect_url(config, false, "https://head.lan/firn");
    config.listen = "10.0.0.1:0";
    expect_url(config, true, "https://head.lan/firn");
    config.callback = NULL;
    expect_url(config, true, "http://10.0.0.1:7070");
    expect_url(config, false, "unix:/s/firn.sock");
    config.listen = "[fe80::1]:1";
    expect_url(config, true, "http://[fe80::1]:7070");
    config.listen = "0.0.0.0:1";
    expect_url(config, true, any);
    config.listen = "[::]:1";
    expect_url(config, true, any);
}

static void a_callback_must_be_an_http_address(void **unused)
{
    (void)unused;
    static const char *const wrong[] = {
        "head:7070",    "http://",   "unix:/run/firn.sock", "http://a b",
        "http://:7070", "http:///x", "ftp://head",          "http://u@h",
    };
    struct firn_error err = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct config config = {.state = "/s", .callback = wrong[i]};
        assert_int_equal(config_finish(&config, &err), FIRN_EINVAL);
        assert_non_null(strstr(err.text, "callback"));
        config_release(&config);
    }
    struct config config = {.state = "/s", .callback = "http://head:7070"};
    assert_int_equal(config_finish(&config, &err), FIRN_OK);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_a_default),
        cmocka_unit_test(limits_of_what_is_kept_are_checked),
        cmocka_unit_test_setup_teardown(
            directories_are_created_only_above_the_default_state_directory,
            folder_make, folder_remove),
        cmocka_unit_test(the_command_line_takes_precedence_over_the_file),
        cmocka_unit_test(settings_of_firnd_come_before_the_operators),
        cmocka_unit_test(an_error_names_the_wrong_option),
        cmocka_unit_test(firnd_refuses_root_unless_allowed),
        cmocka_unit_test(the_limit_of_jobs_can_be_set),
        cmocka_unit_test(an_error_in_the_file_names_the_line),
        cmocka_unit_test(a_file_may_be_empty),
        cmocka_unit_test(trainers_get_an_address_that_they_can_reach),
        cmocka_unit_test(a_callback_must_be_an_http_address),
        cmocka_unit_test_setup_teardown(tcp_needs_a_token_file_of_mode_0600,
                                        folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
