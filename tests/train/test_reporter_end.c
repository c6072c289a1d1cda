/* test_reporter_end.c - the last word of a trainer: a scheduler that is slow
 * hears it, one that is away delays closing only briefly. */
#include "httpd.h"
#include <firn/report.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Far more than anything here should take, even under a checker. */
static const double patience_s = 120;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)(1e9 * (s - floor(s)))};
    nanosleep(&t, NULL);
}

static struct firn_reporter *open_to(const char *url)
{
    struct firn_reporter *r = NULL;
    struct firn_reporter_config c = {.url = url, .job = "7"};
    assert_int_equal(firn_reporter_open(&r, &c, NULL), FIRN_OK);
    return r;
}

static void say(struct firn_reporter *r, uint64_t step)
{
    struct firn_trainer_report report = firn_trainer_report_unknown();
    report.step = step;
    assert_int_equal(firn_reporter_say(r, &report, NULL), FIRN_OK);
}

static bool can_send(void)
{
    if (firn_reporter_can_send())
        return true;
    print_message("built without libcurl: nothing can be sent\n");
    skip();
    return false;
}

/* --- one that is slow ----------------------------------------------------- */

/* Holds up a scheduler's answers for a while. */
struct holdup {
    struct httpd *httpd;
    double for_s;
    atomic_bool has_begun;
};

static void *hold_up(void *arg)
{
    struct holdup *h = arg;
    pthread_mutex_lock(&h->httpd->lock);
    atomic_store(&h->has_begun, true);
    sleep_s(h->for_s);
    pthread_mutex_unlock(&h->httpd->lock);
    return NULL;
}

static int nheard(struct httpd *httpd)
{
    pthread_mutex_lock(&httpd->lock);
    int n = httpd->nrequests;
    pthread_mutex_unlock(&httpd->lock);
    return n;
}

/* Ten reports to one that answers late, and the end: was the last heard? */
static bool end_late(struct httpd *httpd, const char *url, double late_s,
                     double wait_s)
{
    struct holdup h = {.httpd = httpd, .for_s = late_s};
    char head[2048], body[8192];
    pthread_t thread;
    struct firn_reporter *r = open_to(url);
    assert_int_equal(pthread_create(&thread, NULL, hold_up, &h), 0);
    while (!atomic_load(&h.has_begun))
        sleep_s(0.001);
    for (uint64_t step = 1; step <= 10; step++)
        say(r, step);
    firn_reporter_close(r, wait_s);
    pthread_join(thread, NULL);
    httpd_last(httpd, head, body);
    return strstr(body, "\"step\":10,") != NULL;
}

static void the_last_report_reaches_a_slow_scheduler(void **state)
{
    (void)state;
    struct httpd_place p;
    struct httpd httpd;
    if (!can_send())
        return;
    httpd_place_make(&p);
    httpd_start(&httpd, p.socket);
    assert_true(end_late(&httpd, p.url, 0.1, patience_s));
    assert_true(httpd_wait(&httpd, 10, patience_s));
    /* More than half of the time is over: what is superseded is left out. A
     * busy machine has three chances, with more time for each. */
    bool is_good = false;
    for (double wait_s = 1; wait_s < 60 && !is_good; wait_s *= 5) {
        int before = nheard(&httpd);
        is_good = end_late(&httpd, p.url, 0.6 * wait_s, wait_s) &&
                  nheard(&httpd) < before + 9;
    }
    assert_true(is_good);
    httpd_stop(&httpd);
    rmdir(p.dir);
}

/* --- one that is away ----------------------------------------------------- */

static void closing_waits_less_for_a_scheduler_that_is_away(void **state)
{
    (void)state;
    struct httpd_place p;
    if (!can_send())
        return;
    httpd_place_make(&p);
    double shortest_s = 10;
    for (int i = 0; i < 3 && shortest_s >= 2; i++) {
        struct firn_reporter *r = open_to(p.url);
        say(r, 1);
        double start_s = now_s();
        firn_reporter_close(r, 2);
        shortest_s = fmin(shortest_s, now_s() - start_s);
    }
    assert_true(shortest_s < 2);
    rmdir(p.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_report_reaches_a_slow_scheduler),
        cmocka_unit_test(closing_waits_less_for_a_scheduler_that_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
