/* test_stopped.c - daemon, shepherds and jobs that are stopped for a while.
 *
 * A process may be stopped at any instant and for any time: by SIGSTOP, by a
 * debugger, by a machine that swaps. It is not dead, and what it holds is held.
 * Here up to four processes at a time, of firnd, its shepherds and their jobs,
 * are stopped at random and go on later, while short jobs are submitted and
 * endless ones are cancelled. No job may be started again: each must begin and
 * end exactly once, or be cancelled.
 *
 * Two things must not wait for a stopped process, and are tried alone: a job
 * that is cancelled ends though it is stopped itself, and though its shepherd
 * is, once its grace is over.
 *
 * Cost: 5 s; in a soak some minutes, with stops that are longer than all limits
 * of daemon and engine (30 s).
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

enum { REQUESTS = 5000, LOAD = 8, STOPPED = 4, LONGEST_S = 180 };

static const double long_stop_s = 35;

struct request {
    long job; /* 0: not acknowledged */
    bool is_endless, is_over;
    bool is_asked, is_cancelled; /* a cancel was sent, was answered */
};

static struct {
    struct firndbed bed;
    struct rng rng;
    struct request all[REQUESTS];
    int n;
    struct {
        pid_t pid; /* 0: none */
        double until_s;
    } stopped[STOPPED];
    int nstops[3];
    struct oncejob_ledger ledger;
    bool is_good;
} s = {.bed = {.gpus = "1x4:v100@16",
               .policy = "fifo",
               .more = {"--set", "local.force-s=0.3"}}};

/* --- requests ------------------------------------------------------------ */

static void submit(int i, double until_s)
{
    char key[20], reply[ASKFIRND_TEXT];
    struct request *r = &s.all[i];
    snprintf(key, sizeof key, "r%d", i);
    long job = firndbed_submit(
        &s.bed, key, r->is_endless ? 600 : 0.01 + 0.001 * (i * 37 % 60),
        r->is_endless ? "gpus: 1\ncheckpoint: {grace: 1}\n" : "gpus: 1\n",
        until_s, reply);
    if (job < 0 || (r->job != 0 && job > 0 && job != r->job))
        fail_msg("request %d was answered by %s", i, reply);
    if (job > 0)
        r->job = job;
}

static void cancel(struct request *r, double until_s)
{
    char target[60], reply[ASKFIRND_TEXT];
    snprintf(target, sizeof target, "/jobs/%ld/cancel", r->job);
    int status = firndbed_send(&s.bed, "POST", target, "", until_s, reply);
    /* An earlier cancel without an answer may have been carried out. */
    bool is_over = status == 409 && r->is_asked;
    if (status != 0 && status != 200 && !is_over)
        fail_msg("cancel of job %ld: %s", r->job, reply);
    r->is_asked = true;
    r->is_cancelled = status == 200 || is_over;
}

static bool see(struct request *r, double until_s)
{
    char target[60], reply[ASKFIRND_TEXT], state[64] = "";
    snprintf(target, sizeof target, "/jobs/%ld", r->job);
    int status = firndbed_get(&s.bed, target, until_s, reply);
    if (status == 0)
        return false;
    if (status != 200 || !firndbed_field(reply, "state", state) ||
        strcmp(state, "failed") == 0 || strcmp(state, "lost") == 0)
        fail_msg("job %ld is not well: %s", r->job, reply);
    r->is_over = strcmp(state, r->is_endless ? "cancelled" : "succeeded") == 0;
    return r->is_over;
}

static int count_living(double until_s)
{
    int n = 0;
    for (int i = 0; i < s.n; i++)
        if (s.all[i].job != 0 && !s.all[i].is_over)
            n += !see(&s.all[i], until_s);
    return n;
}

/* Some of everything, none of it for long: firnd may be the one that stands. */
static void load(void)
{
    double until_s = clock_elapsed_s() + 0.05;
    int status = 0;
    if (firndbed_has_ended(&s.bed, &status))
        fail_msg("firnd ended by itself, status %d", status);
    bool is_open = s.n > 0 && s.all[s.n - 1].job == 0;
    if (!is_open && s.n < REQUESTS && count_living(until_s) < LOAD) {
        s.all[s.n] = (struct request){.is_endless = s.n % 4 == 3};
        s.n++;
        is_open = true;
    }
    if (is_open)
        submit(s.n - 1, clock_elapsed_s() + 0.05);
    int i = s.n > 0 ? (int)rng_below(&s.rng, (uint64_t)s.n) : 0;
    i = s.n > LOAD ? s.n - 1 - i % LOAD : i;
    if (s.n > 0 && s.all[i].is_endless && s.all[i].job != 0 &&
        !s.all[i].is_cancelled)
        cancel(&s.all[i], clock_elapsed_s() + 0.05);
}

/* --- stops --------------------------------------------------------------- */

static void stop_one(int place, double time_s)
{
    static const char *const words[] = {NULL, "--shepherd", "work"};
    int kind = (int)rng_below(&s.rng, 3);
    pid_t pid = s.bed.pid;
    if (kind == 0)
        kill(pid, SIGSTOP);
    else
        pid = firndbed_signal(&s.bed, words[kind], (unsigned)rng_u64(&s.rng),
                              SIGSTOP);
    s.nstops[kind] += pid != 0;
    s.stopped[place].pid = pid;
    s.stopped[place].until_s = clock_elapsed_s() + time_s;
}

/* A number that another process has by now is not hurt by SIGCONT. */
static void go_on(double now_s)
{
    for (int i = 0; i < STOPPED; i++)
        if (s.stopped[i].pid != 0 && now_s >= s.stopped[i].until_s) {
            kill(s.stopped[i].pid, SIGCONT);
            s.stopped[i].pid = 0;
        }
}

static void play(int nstops, int long_every)
{
    for (int i = 0; i < nstops;) {
        int place = (int)rng_below(&s.rng, STOPPED);
        if (s.stopped[place].pid == 0) {
            i++;
            stop_one(place, long_every > 0 && i % long_every == 0
                                ? long_stop_s
                                : 0.4 * rng_unit(&s.rng));
        }
        load();
        firndbed_pause_s(0.02 * rng_unit(&s.rng));
        go_on(clock_elapsed_s());
    }
    go_on(1e300);
    kill(s.bed.pid, SIGCONT);
}

/* --- the end ------------------------------------------------------------- */

static void drain(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    for (int i = 0; i < s.n; i++) {
        while (s.all[i].job == 0 && clock_elapsed_s() < until_s)
            submit(i, until_s);
        if (s.all[i].is_endless && !s.all[i].is_cancelled)
            cancel(&s.all[i], until_s);
    }
    while (count_living(until_s) > 0) {
        if (clock_elapsed_s() > until_s)
            fail_msg("%d jobs do not end", count_living(until_s));
        firndbed_pause_s(0.01);
    }
}

static void check(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    firndbed_kill(&s.bed, NULL);
    oncejob_read(&s.ledger, s.bed.folder);
    for (int i = 0; i < s.n; i++) {
        const struct request *r = &s.all[i];
        const struct oncejob_tally *t = &s.ledger.jobs[r->job];
        if (t->ntwice > 0 || t->nbegun > 1 ||
            (!r->is_endless && (t->nbegun != 1 || t->nended != 1)))
            fail_msg("job %ld began %d times, ended %d times, %d beside "
                     "another",
                     r->job, t->nbegun, t->nended, t->ntwice);
    }
    for (; oncejob_processes(s.bed.folder) > 0; firndbed_pause_s(0.01))
        if (clock_elapsed_s() > until_s)
            fail_msg("%d processes are left", oncejob_processes(s.bed.folder));
}

/* --- cases --------------------------------------------------------------- */

static int make_bed(void **state)
{
    (void)state;
    memset(s.all, 0, sizeof s.all);
    memset(&s.ledger, 0, sizeof s.ledger);
    s.n = 0;
    s.is_good = false;
    return firndbed_make(&s.bed, "stopped", false) ? 0 : s.bed.firnd[0] == '\0';
}

static int remove_bed(void **state)
{
    (void)state;
    if (!s.is_good && s.bed.folder[0] != '\0')
        firndbed_show_log(&s.bed);
    return firndbed_remove(&s.bed);
}

static void begin(void)
{
    if (s.bed.folder[0] == '\0') {
        s.is_good = true;
        skip();
    }
    assert_true(firndbed_begin(&s.bed, NULL));
    if (!firndbed_is_ready(&s.bed, LONGEST_S))
        fail_msg("firnd does not answer");
}

static void no_job_is_lost_or_doubled_when_processes_are_stopped(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED");
    bool is_quick = getenv("FIRN_QUICK") != NULL;
    bool is_long = getenv("FIRN_SOAK") != NULL && !is_quick;
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    begin();
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&s.rng, seed);
    play(is_long ? 2000 : is_quick ? 10 : 30, is_long ? 150 : 0);
    drain();
    check();
    print_message("# %d stops of firnd, %d of shepherds, %d of jobs; %d jobs\n",
                  s.nstops[0], s.nstops[1], s.nstops[2], s.n);
    s.is_good = true;
}

/* Stops the process of the only job that has this word, and cancels the job. */
static void cancel_stopped(const char *word)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    s.all[0] = (struct request){.is_endless = true};
    s.n = 1;
    submit(0, until_s);
    for (;; firndbed_pause_s(0.005)) {
        oncejob_read(&s.ledger, s.bed.folder);
        if (s.ledger.jobs[s.all[0].job].nbegun > 0)
            break;
        if (clock_elapsed_s() > until_s)
            fail_msg("the job does not begin");
    }
    assert_true(firndbed_signal(&s.bed, word, 0, SIGSTOP) > 0);
    cancel(&s.all[0], until_s);
    drain();
    check();
    s.is_good = true;
}

static void a_cancel_ends_a_job_that_is_stopped(void **state)
{
    (void)state;
    begin();
    cancel_stopped("work");
}

static void a_cancel_ends_a_job_whose_shepherd_is_stopped(void **state)
{
    (void)state;
    begin();
    cancel_stopped("--shepherd");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(
            no_job_is_lost_or_doubled_when_processes_are_stopped, make_bed,
            remove_bed),
        cmocka_unit_test_setup_teardown(a_cancel_ends_a_job_that_is_stopped,
                                        make_bed, remove_bed),
        cmocka_unit_test_setup_teardown(
            a_cancel_ends_a_job_whose_shepherd_is_stopped, make_bed,
            remove_bed),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.bed.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, NULL, NULL);
}
