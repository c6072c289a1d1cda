/* test_shepherds.c - shepherds killed while their jobs run.
 *
 * firnd has four declared GPUs and some ten short jobs at a time, of which
 * every second may be started again when it is lost. A random shepherd of a
 * first, second or third attempt is killed with SIGKILL every few milliseconds,
 * now and then firnd too. The workers of a shepherd die with it, and the
 * kernel drops their locks, by which the invariants are checked
 * (lib/oncejob.h).
 *
 * Checked: each acknowledged job comes to an end that firnd knows; a job that
 * may be started again succeeds, and its attempts follow each other; one that
 * may not began once at most; never two workers of a job, nor two jobs on a
 * GPU; no process is left.
 *
 * Cost: about 40 ms a kill; 25 kills, 15 under a checker, 400 in a soak,
 * FIRN_SHEPHERD_KILLS of them where that is set (`make kills`).
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/firndbed.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

enum { REQUESTS = 20000, LOAD = 10, LONGEST_S = 240, FIRND_EVERY = 25 };

struct request {
    long job;       /* 0: not acknowledged */
    char state[16]; /* of one that is over; "" before */
};

static struct {
    struct firndbed bed;
    struct rng rng;
    struct request all[REQUESTS];
    int n, nover, nfirnd; /* requests; of them over; kills of firnd */
    struct oncejob_ledger ledger;
    bool is_good;
} s = {.bed = {.gpus = "1x4:v100@16", .policy = "fifo"}};

static bool may_repeat(int i)
{
    return i % 2 == 0;
}

static bool submit(int i, double until_s)
{
    char key[20], reply[ASKFIRND_TEXT];
    snprintf(key, sizeof key, "r%d", i);
    long job = firndbed_submit(
        &s.bed, key, 0.02 + 0.001 * (i * 37 % 60),
        may_repeat(i) ? "gpus: 1\nretry: {on: [failure, lost], max: 100}\n"
                      : "gpus: 1\n",
        until_s, reply);
    if (job < 0 || (s.all[i].job != 0 && job > 0 && job != s.all[i].job))
        fail_msg("request %d was answered by %s", i, reply);
    if (job > 0)
        s.all[i].job = job;
    return job > 0;
}

/* Asks for those that are not known to be over; how many are not. */
static int count_unended(double until_s)
{
    int n = 0;
    for (int i = 0; i < s.n; i++) {
        char target[40], reply[ASKFIRND_TEXT], state[64] = "";
        struct request *r = &s.all[i];
        if (r->state[0] != '\0' || r->job == 0)
            continue;
        n++;
        snprintf(target, sizeof target, "/jobs/%ld", r->job);
        int status = firndbed_get(&s.bed, target, until_s, reply);
        if (status == 404)
            fail_msg("job %ld is lost: %s", r->job, reply);
        if (status != 200 || !firndbed_field(reply, "state", state))
            continue;
        if (strcmp(state, "succeeded") != 0 && strcmp(state, "failed") != 0 &&
            strcmp(state, "lost") != 0)
            continue;
        snprintf(r->state, sizeof r->state, "%.15s", state);
        s.nover++;
        n--;
    }
    return n;
}

static void revive(void)
{
    assert_true(firndbed_begin(&s.bed, NULL));
    if (!firndbed_is_ready(&s.bed, LONGEST_S))
        fail_msg("firnd does not answer");
}

static void load(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    int status = 0;
    if (firndbed_has_ended(&s.bed, &status))
        fail_msg("firnd ended by itself, status %d", status);
    if (s.n < REQUESTS && count_unended(until_s) < LOAD) {
        s.n += s.n == 0 || s.all[s.n - 1].job != 0;
        submit(s.n - 1, until_s);
    }
}

/* A shepherd of a job's first attempts: one that is killed again and again
 * waits minutes for its next attempt, and the test would only wait. */
static bool kill_shepherd(void)
{
    static const char *const attempts[] = {"/epoch-1", "/epoch-2", "/epoch-3"};
    return firndbed_signal(&s.bed, attempts[rng_below(&s.rng, 3)],
                           (unsigned)rng_u64(&s.rng), SIGKILL) != 0;
}

static int kill_one(void)
{
    if (rng_below(&s.rng, FIRND_EVERY) == 0) {
        assert_true(firndbed_kill(&s.bed, NULL));
        s.nfirnd++;
        /* Shepherds die without a scheduler, too. */
        int n = kill_shepherd();
        revive();
        return n;
    }
    return kill_shepherd();
}

static void drain(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    while (count_unended(until_s) > 0) {
        if (clock_elapsed_s() > until_s)
            fail_msg("%d jobs do not end", count_unended(until_s));
        firndbed_pause_s(0.02);
    }
}

static void check_job(int i, int *ndoubled)
{
    const struct request *r = &s.all[i];
    const struct oncejob_tally *t = &s.ledger.jobs[r->job];
    bool is_done = strcmp(r->state, "succeeded") == 0;
    *ndoubled += t->ntwice > 0 || (!may_repeat(i) && t->nbegun > 1);
    if (t->ntwice > 0 || t->nbackwards > 0)
        fail_msg("job %ld ran beside another", r->job);
    if (!may_repeat(i) && t->nbegun > 1)
        fail_msg("job %ld began %d times", r->job, t->nbegun);
    if (may_repeat(i) && !is_done)
        fail_msg("job %ld is %s", r->job, r->state);
    if (is_done && t->nended < 1)
        fail_msg("job %ld succeeded without its end", r->job);
}

/* LeakSanitizer looks at a process from a second one with the same command
 * line. Killed in the place of its shepherd, it leaves that one waiting for
 * ever at its end. */
static void leave_leaks_out(void)
{
    const char *options = getenv("ASAN_OPTIONS");
    char text[512];
    snprintf(text, sizeof text, "%.400s:detect_leaks=0",
             options != NULL ? options : "");
    setenv("ASAN_OPTIONS", text, 1);
}

static void no_job_is_lost_or_doubled_when_supervisors_are_killed(void **state)
{
    (void)state;
    leave_leaks_out();
    const char *said = getenv("FIRN_SEED");
    const char *number = getenv("FIRN_SHEPHERD_KILLS");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    int nkills = 0, ndoubled = 0,
        n = number != NULL                 ? (int)strtol(number, NULL, 10)
            : getenv("FIRN_QUICK") != NULL ? 15
            : getenv("FIRN_SOAK") != NULL  ? 400
                                           : 25;
    if (!firndbed_make(&s.bed, "herd", false)) {
        s.is_good = true;
        skip();
    }
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&s.rng, seed);
    double began_s = clock_elapsed_s();
    revive();
    while (nkills < n) {
        load();
        firndbed_pause_s(0.02 * rng_unit(&s.rng));
        nkills += kill_one();
        if (clock_elapsed_s() > began_s + LONGEST_S + 2 * n)
            fail_msg("%d of %d kills took %.0f s", nkills, n,
                     clock_elapsed_s() - began_s);
    }
    drain();
    oncejob_read(&s.ledger, s.bed.folder);
    for (int i = 0; i < s.n; i++)
        if (s.all[i].job != 0)
            check_job(i, &ndoubled);
    firndbed_kill(&s.bed, NULL);
    for (double until_s = clock_elapsed_s() + LONGEST_S;
         oncejob_processes(s.bed.folder) > 0; firndbed_pause_s(0.01))
        if (clock_elapsed_s() > until_s)
            fail_msg("%d processes are left", oncejob_processes(s.bed.folder));
    print_message("# %d kills of shepherds, %d of firnd\n", nkills, s.nfirnd);
    print_message("# figures: shepherd %d %d %d %d 0 %.3f %.1f\n", nkills, s.n,
                  s.n - s.nover, ndoubled, s.bed.ready_most_s,
                  clock_elapsed_s() - began_s);
    s.is_good = true;
}

static int remove_bed(void **state)
{
    (void)state;
    if (!s.is_good)
        firndbed_show_log(&s.bed);
    return firndbed_remove(&s.bed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(
            no_job_is_lost_or_doubled_when_supervisors_are_killed, remove_bed),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.bed.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, NULL, NULL);
}
