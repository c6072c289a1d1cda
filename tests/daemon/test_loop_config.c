/* test_loop_config.c - whose word holds: flags, firn.yaml, the API; and what a
 * restart or SIGHUP makes of it.
 */
#include "loopscene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char logged[2048];

static void note(void *arg, enum log_level level, const char *text)
{
    size_t n = strlen(logged);
    (void)arg;
    (void)level;
    snprintf(logged + n, sizeof logged - n, "%s\n", text);
}

static void set(struct loopscene *s, const char *policy, const char *option,
                const char *value, enum firn_status want)
{
    struct api_host host = loop_host(s->loop);
    struct api_setting setting = {option, value};
    struct firn_error err = {0};
    assert_int_equal(host.set_policy(host.arg, policy, &setting,
                                     option != NULL ? 1 : 0, &err),
                     want);
}

/* The value of a setting as the API shows it; "" when it is not set. */
static const char *shown(struct loopscene *s, const char *option)
{
    struct api_host host = loop_host(s->loop);
    struct api_policy policy;
    const char *value = "";
    host.policy(host.arg, &policy);
    for (size_t i = 0; i < policy.nsettings; i++)
        if (strcmp(policy.settings[i].name, option) == 0)
            value = policy.settings[i].value;
    return value;
}

static void reopen(struct loopscene *s, const char *policy, bool is_killed)
{
    struct firn_error err = {0};
    assert_int_equal(store_commit(s->loop->store, &err), FIRN_OK);
    (is_killed ? loopscene_kill : loopscene_close)(s);
    loopscene_open(s, "1x2:v100@16", policy, true);
}

static void what_the_api_set_holds_over_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    set(&s, "tiresias", NULL, NULL, FIRN_OK);
    set(&s, "icefrog", "interval", "77", FIRN_OK);
    set(&s, NULL, "interval", "88", FIRN_OK);
    set(&s, NULL, "interval", "much", FIRN_EINVAL);
    assert_string_equal(shown(&s, "interval"), "88");
    reopen(&s, "fifo", true);
    assert_string_equal(s.loop->desk.policy->name, "icefrog");
    assert_string_equal(shown(&s, "interval"), "88");
    reopen(&s, "fifo", false);
    assert_string_equal(s.loop->desk.policy->name, "icefrog");
    loopscene_close(&s);
}

static void
under_firnd_new_jobs_do_not_wait_for_a_round_unless_told_so(void **unused)
{
    (void)unused;
    struct loopscene s;
    logged[0] = '\0';
    log_set_sink(note, NULL);
    loopscene_open(&s, "1x2:v100@16", "icefrog", false);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(logged, "icefrog.between=yes is set by firnd"));
    assert_string_equal(shown(&s, "between"), "yes");
    set(&s, NULL, "between", "no", FIRN_OK);
    assert_string_equal(shown(&s, "between"), "no");
    reopen(&s, "icefrog", true);
    assert_string_equal(shown(&s, "between"), "no");
    loopscene_close(&s);
}

static void
a_setting_of_the_api_that_no_longer_exists_does_not_stop_firnd(void **unused)
{
    (void)unused;
    static const char kept[] = /* the scene's own flags, then the API's */
        "fifo\nymir.between=yes\n\ntiresias\ntiresias.of-old=1\n";
    struct loopscene s;
    struct firn_error err = {0};
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    store_put_meta(s.loop->store, "policy",
                   (struct firn_bytes){kept, sizeof kept - 1}, &err);
    logged[0] = '\0';
    log_set_sink(note, NULL);
    reopen(&s, "fifo", true);
    log_set_sink(NULL, NULL);
    assert_string_equal(s.loop->desk.policy->name, "fifo");
    assert_non_null(strstr(logged, "no option 'of-old'"));
    reopen(&s, "fifo", true); /* forgotten for good */
    assert_string_equal(s.loop->desk.policy->name, "fifo");
    loopscene_close(&s);
}

static void
another_setting_of_the_operator_replaces_that_of_the_api(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x2:v100@16", "fifo", false);
    set(&s, "icefrog", "interval", "77", FIRN_OK);
    reopen(&s, "sjf", true);
    assert_string_equal(s.loop->desk.policy->name, "sjf");
    set(&s, "tiresias", NULL, NULL, FIRN_OK); /* and this later still */
    reopen(&s, "sjf", true);
    assert_string_equal(s.loop->desk.policy->name, "tiresias");
    loopscene_close(&s);
}

/* --- read again ---------------------------------------------------------- */

static void write_file(const char *name, const char *text, char *path,
                       size_t max)
{
    snprintf(path, max, "%s/%s", folder_path(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
}

static bool note_reload(void *arg, const struct store_event *event)
{
    if (strstr(event->kind, "reload") != NULL)
        buf_printf(arg, "%s by %s\n", event->kind, event->caller);
    return true;
}

static void hang_up_reads_the_file_again(void **unused)
{
    (void)unused;
    struct loopscene s = {0};
    struct firn_error err = {0};
    char path[512], state[512], token[512], text[2048];
    write_file("token", "0123456789abcdef\n", token, sizeof token);
    snprintf(state, sizeof state, "%s/state", folder_path());
    snprintf(text, sizeof text,
             "policy: fifo\nstate: %s\ngpus: 1x2:v100@16\ntoken-file: %s\n",
             state, token);
    write_file("firn.yaml", text, path, sizeof path);
    char *argv[] = {"firnd", "--config", path, NULL};
    assert_int_equal(config_flags(&s.config, 3, argv, &err), FIRN_OK);
    assert_int_equal(config_finish(&s.config, &err), FIRN_OK);
    struct loop_setup setup = {.config = &s.config,
                               .engine = &loopscene_engine,
                               .is_deaf = true,
                               .argc = 3,
                               .argv = argv};
    assert_int_equal(loop_open(&s.loop, &setup, &err), FIRN_OK);
    loopscene_submit(&s, "a", "gpus: 1\ncheckpoint: {grace: 10}");
    loopscene_turn(&s);
    set(&s, "tiresias", NULL, NULL, FIRN_OK);
    log_set_sink(note, NULL);

    loop_reload(s.loop); /* as before: the API's word is the later one */
    assert_string_equal(s.loop->desk.policy->name, "tiresias");

    snprintf(text, sizeof text,
             "policy: icefrog\nstate: %s\ngpus: 1x4:v100@16\ntoken-file: %s\n"
             "settings: [icefrog.interval=60, fake.gpus=1x8]\n",
             state, token);
    write_file("firn.yaml", text, path, sizeof path);
    logged[0] = '\0';
    loop_reload(s.loop);
    assert_string_equal(s.loop->desk.policy->name, "icefrog");
    assert_string_equal(shown(&s, "interval"), "60");
    assert_non_null(strstr(logged, "'gpus' cannot change"));
    assert_non_null(strstr(logged, "settings of engine fake cannot change"));
    loopscene_turn(&s);
    assert_string_equal(loopscene_text(&s), "a running n0[0]");

    struct live_ask ask = {.gpus_min = 1, .gpus_max = 1};
    struct live_job *job;
    bool is_new;
    strcat(text, "jobs-max: 1\n");
    write_file("firn.yaml", text, path, sizeof path);
    loop_reload(s.loop);
    assert_int_equal(
        book_submit(s.loop->book, &ask, "", "", 1, &job, &is_new, &err),
        FIRN_ELIMIT); /* the job 'a' is the one */

    write_file("firn.yaml", "policy: nonesuch\n", path, sizeof path);
    logged[0] = '\0';
    loop_reload(s.loop);
    assert_non_null(strstr(logged, "nothing is changed: "));
    assert_string_equal(s.loop->desk.policy->name, "icefrog");
    write_file("firn.yaml", "policyy: fifo\n", path, sizeof path);
    loop_reload(s.loop);
    assert_string_equal(s.loop->desk.policy->name, "icefrog");
    log_set_sink(NULL, NULL);
    struct firn_buf events = {0};
    assert_int_equal(
        store_each_event(s.loop->store, 0, 100, note_reload, &events, &err),
        FIRN_OK);
    assert_string_equal(events.at, "reloaded by SIGHUP\nreloaded by SIGHUP\n"
                                   "reloaded by SIGHUP\n"
                                   "not-reloaded by SIGHUP\n"
                                   "not-reloaded by SIGHUP\n");
    buf_release(&events);
    loopscene_close(&s);
}

static void the_wait_before_a_retry_goes_on_over_a_restart(void **unused)
{
    (void)unused;
    struct loopscene s;
    loopscene_open(&s, "1x1:v100@16", "fifo", false);
    struct live_job *job =
        loopscene_submit(&s, "a", "gpus: 1\nretry: {on: [failure], max: 9}");
    for (int i = 0; i < 6; i++) { /* 1, 2, 4, 8, 16 s: then 32 s */
        loopscene_pass(&s, 40);
        assert_int_equal(job->state, LIVE_RUNNING);
        loopscene_fail(&s, "a", FIRN_END_FAILED, 3);
    }
    loopscene_kill(&s);
    loopscene_open(&s, "1x1:v100@16", "fifo", true);
    job = loopscene_job(&s, "a");
    loopscene_pass(&s, 10);
    assert_int_equal(job->state, LIVE_PENDING);
    assert_int_equal(loopscene_attempts(), 0);
    loopscene_pass(&s, 30);
    assert_int_equal(job->state, LIVE_RUNNING);
    loopscene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_the_api_set_holds_over_a_restart),
        CASE(under_firnd_new_jobs_do_not_wait_for_a_round_unless_told_so),
        CASE(a_setting_of_the_api_that_no_longer_exists_does_not_stop_firnd),
        CASE(another_setting_of_the_operator_replaces_that_of_the_api),
        CASE(hang_up_reads_the_file_again),
        CASE(the_wait_before_a_retry_goes_on_over_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
