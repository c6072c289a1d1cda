/* test_reporter.c - reports arrive, orders come back, and nothing that a
 * scheduler does or fails to do holds training up. */
#include "forks.h"
#include "httpd.h"
#include <firn/report.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Far more than anything here should take, even under a checker. */
static const double patience_s = 120;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_s(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

/* A try lasts four pauses, from one second to ten. Short ones are for those
 * who fail anyway; where one that takes too long would be a failure that is not
 * meant, they are long. */
static const double short_pause_s = 0.05, long_pause_s = 2.5;

static struct firn_reporter *open_to(const char *url, double pause_max_s)
{
    struct firn_reporter *r = NULL;
    struct firn_error err = {0};
    struct firn_reporter_config c = {.url = url,
                                     .job = "job 7/a",
                                     .token = "secret",
                                     .attempt = 3,
                                     .pause_max_s = pause_max_s};
    if (firn_reporter_open(&r, &c, &err) != FIRN_OK)
        fail_msg("%s", err.text);
    return r;
}

static void say(struct firn_reporter *r, uint64_t step, bool with_variance)
{
    static const double variance[] = {1.5, 0.25};
    struct firn_trainer_report report = firn_trainer_report_unknown();
    struct firn_error err = {0};
    report.step = step;
    report.loss = 0.5;
    if (with_variance) {
        report.variance = variance;
        report.nlayers = 2;
    }
    if (firn_reporter_say(r, &report, &err) != FIRN_OK)
        fail_msg("%s", err.text);
}

struct counts {
    uint64_t nsent, ndropped, nfailed;
};

static struct counts counts_of(struct firn_reporter *r)
{
    struct counts c;
    firn_reporter_counts(r, &c.nsent, &c.ndropped, &c.nfailed);
    return c;
}

static bool wait_counts(struct firn_reporter *r, uint64_t nsent,
                        uint64_t nfailed)
{
    for (double end_s = now_s() + patience_s; now_s() < end_s; sleep_s(0.002))
        if (counts_of(r).nsent >= nsent && counts_of(r).nfailed >= nfailed)
            return true;
    return false;
}

static bool can_send(void)
{
    if (firn_reporter_can_send())
        return true;
    print_message("built without libcurl: nothing can be sent\n");
    skip();
    return false;
}

/* A scheduler on a socket of its own. False: nothing can be sent to it. */
struct scene {
    struct httpd_place place;
    struct httpd httpd;
};

static bool scene_open(struct scene *s)
{
    if (!can_send())
        return false;
    httpd_place_make(&s->place);
    httpd_start(&s->httpd, s->place.socket);
    return true;
}

static void scene_close(struct scene *s)
{
    httpd_stop(&s->httpd);
    rmdir(s->place.dir);
}

/* --- a scheduler that is there -------------------------------------------- */

static void exchange(const char *url, struct httpd *httpd)
{
    char head[2048], body[8192];
    httpd_tell(httpd, HTTPD_ANSWER, 200,
               "{\"nfrozen\":3,\"passes\":30,"
               "\"batch\":64}");
    struct firn_reporter *r = open_to(url, long_pause_s);
    assert_int_equal(firn_reporter_orders(r).nfrozen, -1);
    say(r, 120, true);
    assert_true(wait_counts(r, 1, 0));
    struct firn_orders o = firn_reporter_orders(r);
    assert_true(o.nfrozen == 3 && o.passes == 30 && o.batch == 64 &&
                o.stop == -1);

    httpd_last(httpd, head, body);
    assert_non_null(strstr(head, "POST /jobs/job%207%2Fa/reports HTTP/1.1"));
    assert_non_null(strstr(head, "\r\nAuthorization: Bearer secret\r\n"));
    assert_non_null(strstr(head, "\r\nFirn-Attempt: 3\r\n"));
    assert_non_null(strstr(head, "\r\nFirn-Epoch: 3\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Type: application/json\r\n"));
    double variance[4];
    struct firn_trainer_report report;
    assert_int_equal(firn_trainer_report_read(&report, variance, 4, body,
                                              strlen(body), NULL),
                     FIRN_OK);
    assert_true(report.step == 120 && report.loss == 0.5 &&
                report.nlayers == 2 && variance[0] == 1.5);

    /* Word by word: what is not mentioned stays, a stop can be withdrawn. */
    httpd_tell(httpd, HTTPD_ANSWER, 200, "{\"stop\":1}");
    say(r, 121, false);
    assert_true(wait_counts(r, 2, 0));
    o = firn_reporter_orders(r);
    assert_true(o.nfrozen == 3 && o.stop == 1);
    httpd_tell(httpd, HTTPD_ANSWER, 200, "{\"stop\":0}");
    say(r, 122, false);
    assert_true(wait_counts(r, 3, 0));
    assert_int_equal(firn_reporter_orders(r).stop, 0);
    httpd_tell(httpd, HTTPD_ANSWER, 204, ""); /* nothing to say */
    say(r, 123, false);
    assert_true(wait_counts(r, 4, 0));
    struct counts c = counts_of(r);
    assert_true(c.nsent == 4 && c.ndropped == 0 && c.nfailed == 0);
    firn_reporter_close(r, 0);
}

static void reports_arrive_and_orders_come_back(void **state)
{
    (void)state;
    struct httpd httpd;
    char url[64];
    if (!can_send())
        return;
    httpd_start(&httpd, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", httpd.at.port);
    setenv("http_proxy", "http://127.0.0.1:1", 1); /* not for us */
    exchange(url, &httpd);
    unsetenv("http_proxy");
    httpd_stop(&httpd);
}

static void a_unix_socket_does_as_well(void **state)
{
    (void)state;
    struct scene s;
    if (!scene_open(&s))
        return;
    exchange(s.place.url, &s.httpd);
    scene_close(&s);
}

static void closing_sends_what_is_left(void **state)
{
    (void)state;
    struct scene s;
    char head[2048], body[8192];
    if (!scene_open(&s))
        return;
    struct firn_reporter *r = open_to(s.place.url, long_pause_s);
    for (uint64_t step = 1; step <= 5; step++)
        say(r, step, false);
    firn_reporter_close(r, patience_s);
    assert_true(httpd_wait(&s.httpd, 5, patience_s));
    httpd_last(&s.httpd, head, body);
    assert_non_null(strstr(body, "\"step\":5,"));
    scene_close(&s);
}

/* --- a scheduler that is not ---------------------------------------------- */

/* Until it has a report in its hands. */
static void wait_for_one(struct httpd *httpd)
{
    char head[2048] = "", body[8192];
    for (double end_s = now_s() + patience_s; now_s() < end_s; sleep_s(0.002)) {
        httpd_last(httpd, head, body);
        if (head[0] != '\0')
            return;
    }
    fail_msg("no report came");
}

/* Many reports to a scheduler that does not take them; how long closing took. A
 * call that waits for a try takes milliseconds or more, every time; of those
 * that do not, the machine may hold up some, not most. */
static double assert_never_waits(const char *url, struct httpd *silent)
{
    enum { REPORTS = 3000 };
    struct firn_reporter *r =
        open_to(url, silent != NULL ? long_pause_s : short_pause_s);
    double start_s = now_s(), longest_s = 0;
    int nslow = 0;
    for (uint64_t i = 0; i < REPORTS; i++) {
        double before_s = now_s();
        say(r, i, i % 7 == 0);
        firn_reporter_orders(r);
        double took_s = now_s() - before_s;
        longest_s = fmax(longest_s, took_s);
        nslow += took_s > 1e-3;
    }
    struct counts c = counts_of(r);
    /* At most 16 wait and one is under way. */
    assert_true(c.nsent == 0 && c.ndropped >= REPORTS - 17);
    print_message("say(): %.2f us in the mean, %.0f us at most, %d slow\n",
                  1e6 * (now_s() - start_s) / REPORTS, 1e6 * longest_s, nslow);
    assert_true(nslow < REPORTS / 2);
    if (silent != NULL)
        wait_for_one(silent);
    start_s = now_s();
    firn_reporter_close(r, 0.05);
    return now_s() - start_s;
}

static void a_dead_scheduler_never_holds_training_up(void **state)
{
    (void)state;
    struct httpd_place p;
    if (!can_send())
        return;
    httpd_place_make(&p);
    assert_never_waits(p.url, NULL);
    rmdir(p.dir);
    /* A port without a listener, held so that no other process takes it. */
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", forks_free_port());
    assert_never_waits(url, NULL);
}

static void a_silent_scheduler_never_holds_training_up(void **state)
{
    (void)state;
    struct httpd httpd;
    char url[64];
    if (!can_send())
        return;
    httpd_start(&httpd, NULL);
    httpd_tell(&httpd, HTTPD_SILENT, 0, "");
    snprintf(url, sizeof url, "http://127.0.0.1:%d", httpd.at.port);
    /* A try lasts ten seconds here and has begun; closing does not wait for
     * its end. A busy machine has three chances. */
    double shortest_s = 10;
    for (int i = 0; i < 3 && shortest_s > 5; i++)
        shortest_s = fmin(shortest_s, assert_never_waits(url, &httpd));
    assert_true(shortest_s <= 5);
    httpd_stop(&httpd);
}

static void after_a_restart_the_newest_of_each_kind_arrive(void **state)
{
    (void)state;
    struct scene s;
    char head[2048], body[8192];
    if (!scene_open(&s))
        return;
    struct firn_reporter *r = open_to(s.place.url, short_pause_s);
    say(r, 1, false);
    assert_true(wait_counts(r, 1, 0));
    httpd_stop(&s.httpd);
    for (uint64_t step = 2; step <= 60; step++)
        say(r, step, step == 50);
    /* One try may still be of an old one, which the next one is not. */
    struct counts c = counts_of(r);
    assert_true(wait_counts(r, 0, c.nfailed + 2));
    c = counts_of(r);
    assert_true(c.nsent == 1 && c.ndropped >= 56); /* 50 and 60 are kept */
    httpd_start(&s.httpd, s.place.socket);
    assert_true(wait_counts(r, 3, 0));
    httpd_last(&s.httpd, head, body);
    assert_non_null(strstr(body, "\"step\":60,"));
    c = counts_of(r);
    assert_true(c.nsent == 3 && c.ndropped == 57);
    assert_true(httpd_wait(&s.httpd, 2, patience_s));
    firn_reporter_close(r, 0);
    scene_close(&s);
}

/* --- a scheduler that lies ----------------------------------------------- */

static void a_malformed_reply_changes_no_order(void **state)
{
    (void)state;
    static const struct {
        enum httpd_mode mode;
        int status;
        const char *text;
    } lies[] = {{HTTPD_DRIP, 0, ""},
                {HTTPD_ANSWER, 200, "<html>stop</html>"},
                {HTTPD_ANSWER, 200, "{\"stop\":1,\"stop\":1}"},
                {HTTPD_ANSWER, 200, "{\"stop\":1,\"nfrozen\":-5}"},
                {HTTPD_ANSWER, 401, "{\"stop\":1}"},
                {HTTPD_ANSWER, 500, "{\"stop\":1}"},
                {HTTPD_ANSWER, 302, "{\"stop\":1}"},
                {HTTPD_HUGE, 0, ""},
                {HTTPD_CUT, 0, ""},
                {HTTPD_NONSENSE, 0, ""}};
    struct scene s;
    if (!scene_open(&s))
        return;
    httpd_tell(&s.httpd, lies[0].mode, lies[0].status, lies[0].text);
    struct firn_reporter *r = open_to(s.place.url, short_pause_s);
    say(r, 1, false);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        httpd_tell(&s.httpd, lies[i].mode, lies[i].status, lies[i].text);
        /* The first failure may be of the lie before, the second is not. */
        assert_true(wait_counts(r, 0, counts_of(r).nfailed + (i > 0 ? 2 : 1)));
        struct firn_orders o = firn_reporter_orders(r);
        assert_true(o.stop == -1 && o.nfrozen == -1);
        assert_true(counts_of(r).nsent == 0 && counts_of(r).ndropped == 0);
    }
    httpd_tell(&s.httpd, HTTPD_ANSWER, 200, "{\"stop\":1}");
    assert_true(wait_counts(r, 1, 0)); /* the same report, in the end */
    assert_int_equal(firn_reporter_orders(r).stop, 1);
    firn_reporter_close(r, 0);
    scene_close(&s);
}

static void a_refused_report_does_not_block_later_ones(void **state)
{
    (void)state;
    struct scene s;
    if (!scene_open(&s))
        return;
    httpd_tell(&s.httpd, HTTPD_ANSWER, 413, "too long");
    struct firn_reporter *r = open_to(s.place.url, long_pause_s);
    say(r, 1, true);
    assert_true(wait_counts(r, 0, 1));
    httpd_tell(&s.httpd, HTTPD_ANSWER, 200, "{}");
    say(r, 2, false);
    assert_true(wait_counts(r, 1, 0));
    struct counts c = counts_of(r);
    assert_true(c.nsent == 1 && c.ndropped == 1 && c.nfailed == 1);
    firn_reporter_close(r, 0);
    scene_close(&s);
}

/* Too many reports: the newest is kept and sent when it is taken again. */
static void a_429_loses_no_newest_report(void **state)
{
    (void)state;
    struct scene s;
    char head[2048], body[8192];
    if (!scene_open(&s))
        return;
    httpd_tell(&s.httpd, HTTPD_ANSWER, 429,
               "{\"error\": {\"code\": \"above-a-limit\"}}");
    struct firn_reporter *r = open_to(s.place.url, short_pause_s);
    for (uint64_t step = 1; step <= 40; step++)
        say(r, step, false);
    assert_true(wait_counts(r, 0, 2));
    httpd_tell(&s.httpd, HTTPD_ANSWER, 200, "{}");
    assert_true(wait_counts(r, 1, 0));
    firn_reporter_close(r, 60);
    httpd_last(&s.httpd, head, body);
    assert_non_null(strstr(body, "\"step\":40"));
    scene_close(&s);
}

/* --- many threads -------------------------------------------------------- */

enum { THREADS = 4, EACH = 200 };

static void *talk(void *arg)
{
    struct firn_reporter *r = arg;
    for (uint64_t i = 0; i < EACH; i++) {
        say(r, i, i % 3 == 0);
        firn_reporter_orders(r);
    }
    return NULL;
}

static void every_report_is_sent_or_counted(void **state)
{
    (void)state;
    struct scene s;
    pthread_t threads[THREADS];
    if (!scene_open(&s))
        return;
    struct firn_reporter *r = open_to(s.place.url, short_pause_s);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, talk, r), 0);
    httpd_tell(&s.httpd, HTTPD_ANSWER, 500, "");
    sleep_s(0.02);
    httpd_tell(&s.httpd, HTTPD_ANSWER, 200, "{}");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct counts c = counts_of(r);
    for (double end_s = now_s() + patience_s;
         c.nsent + c.ndropped < THREADS * EACH && now_s() < end_s;
         c = counts_of(r))
        sleep_s(0.002);
    assert_true(c.nsent + c.ndropped == THREADS * EACH && c.nsent > 0);
    firn_reporter_close(r, 0);
    scene_close(&s);
}

/* --- processes and settings ---------------------------------------------- */

/* The child's copy is never freed; it should not look lost either. */
static struct firn_reporter *volatile before_fork;

static void a_forked_child_has_no_reporter(void **state)
{
    (void)state;
    struct httpd_place p;
    httpd_place_make(&p);
    struct firn_reporter *r = before_fork = open_to(p.url, short_pause_s);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct firn_trainer_report report = firn_trainer_report_unknown();
        bool good = firn_reporter_say(r, &report, NULL) == FIRN_EINVAL &&
                    firn_reporter_orders(r).stop == -1;
        firn_reporter_close(r, 5);
        _exit(good ? 7 : 8);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    firn_reporter_close(r, 0);
    rmdir(p.dir);
}

static void assert_not_opened(const struct firn_reporter_config *c,
                              const char *why)
{
    struct firn_reporter *r = NULL;
    struct firn_error err = {0};
    assert_int_equal(firn_reporter_open(&r, c, &err), FIRN_EINVAL);
    assert_null(r);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void wrong_settings_are_named(void **state)
{
    (void)state;
    struct firn_reporter_config c = {
        .url = "ftp://x", .job = "a", .attempt = 0};
    assert_not_opened(&c, "FIRN_URL 'ftp://x'");
    c.url = "http://a b";
    assert_not_opened(&c, "FIRN_URL");
    c.url = "unix:";
    assert_not_opened(&c, "the socket's path has 0 bytes");
    c.url = "http://x";
    c.token = "a\r\nX-Evil: 1";
    assert_not_opened(&c, "FIRN_TOKEN");
    c.token = NULL;
    c.job = NULL;
    unsetenv("FIRN_JOB");
    assert_not_opened(&c, "FIRN_JOB");
    c.pause_max_s = NAN;
    assert_not_opened(&c, "longest pause");
    setenv("FIRN_URL", "http://127.0.0.1:1", 1);
    setenv("FIRN_JOB", "7", 1);
    setenv("FIRN_EPOCH", "x", 1);
    assert_not_opened(NULL, "FIRN_EPOCH 'x'");
    setenv("FIRN_ATTEMPT", "2x", 1); /* goes before the older name */
    assert_not_opened(NULL, "FIRN_ATTEMPT '2x'");
    setenv("FIRN_ATTEMPT", "2", 1);
    struct firn_reporter *r = NULL;
    assert_int_equal(firn_reporter_open(&r, NULL, NULL), FIRN_OK);
    struct firn_trainer_report report = firn_trainer_report_unknown();
    struct firn_error err = {0};
    report.part_s[FIRN_STEP_REDUCE] = NAN;
    assert_int_equal(firn_reporter_say(r, &report, &err), FIRN_EINVAL);
    assert_non_null(strstr(err.text, "reduce time is"));
    firn_reporter_close(r, 0);
    firn_reporter_close(NULL, 0);
    unsetenv("FIRN_URL");
    unsetenv("FIRN_JOB");
    unsetenv("FIRN_EPOCH");
    unsetenv("FIRN_ATTEMPT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_arrive_and_orders_come_back),
        cmocka_unit_test(a_unix_socket_does_as_well),
        cmocka_unit_test(closing_sends_what_is_left),
        cmocka_unit_test(a_dead_scheduler_never_holds_training_up),
        cmocka_unit_test(a_silent_scheduler_never_holds_training_up),
        cmocka_unit_test(after_a_restart_the_newest_of_each_kind_arrive),
        cmocka_unit_test(a_malformed_reply_changes_no_order),
        cmocka_unit_test(a_refused_report_does_not_block_later_ones),
        cmocka_unit_test(a_429_loses_no_newest_report),
        cmocka_unit_test(every_report_is_sent_or_counted),
        cmocka_unit_test(a_forked_child_has_no_reporter),
        cmocka_unit_test(wrong_settings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
