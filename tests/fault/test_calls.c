/* test_calls.c - each system call of firnd and of shepherds fails once.
 *
 * One scenario is played again and again, each time with another call that
 * fails (lib/faultplan.h): firnd starts on two declared GPUs, takes four jobs,
 * is killed, starts again, and is asked to cancel one. Then firnd is killed
 * once more and started without faults, until all jobs are over. First the
 * scenario is played without a fault, which tells how many calls of each kind
 * there are.
 *
 * The jobs are this very program and keep a ledger (lib/oncejob.h). Checked
 * after each:
 * (1) firnd does not crash: it ends by itself at most with a status of its own,
 *     or by abort() when there is no memory, or no pipe for libuv when it
 *     starts (libuv aborts by itself then);
 * (2) without faults firnd comes up and answers, and a request has one job;
 * (3) each acknowledged job is known and comes to its end: those that were not
 *     cancelled succeed, unless their shepherd was the one that was hit. The
 *     cancelled one is cancelled;
 * (4) a job that may not be started twice began once at most, exactly once if
 *     it succeeded; no job ran beside itself, no GPU had two jobs;
 * (5) every attempt of a job that is over has an end;
 * (6) no process is left;
 * (7) in every fourth play there is an elastic trainer of examples/ too: its
 *     checkpoints are whole, and the last is what it is without faults.
 *
 * A failure prints the value of FIRN_FAULT that plays it again. Cost: about
 * 0.4 s for each fault (lib/faultlist.h says which).
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "lib/ckptcheck.h"
#include "lib/faultlist.h"
#include "lib/firndbed.h"
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    NJOBS = 5,
    ENDLESS = 1,     /* the job that is cancelled */
    TRAINER = 4,     /* one of examples/; not in every play */
    SAMPLE = 6,      /* faults of a short run */
    LONGEST_S = 600, /* that anything is waited for */
    SAID = 600
};

/* A job of the scenario: its lines, how long it works, what became of it. */
struct play_job {
    const char *more;
    double work_s;
    bool may_repeat;
    long id; /* 0: not acknowledged */
};

static struct {
    struct firndbed bed;
    struct play_job jobs[NJOBS];
    int njobs;
    char firn[FIRNDBED_PATH], cnn[FIRNDBED_PATH];
    struct firndbed home; /* has what all checkpoints are compared with */
    char good[FIRNDBED_PATH];
    struct oncejob_ledger ledger;
    bool is_cancelled; /* acknowledged */
    struct faultlist list;
    char said[SAID];
} s = {.bed = {.gpus = "1x2:v100@16", .policy = "fifo"}};

static const struct play_job plain_jobs[NJOBS] = {
    {.more = "gpus: 1\n", .work_s = 0.015},
    {.more = "gpus: 1\n", .work_s = 600},
    {.more = "gpus: 1\ncheckpoint: {grace: 2}\n"
             "retry: {on: [failure, lost], max: 20}\n",
     .work_s = 0.015,
     .may_repeat = true},
    {.more = "gpus: 1\n", .work_s = 0.010},
    {.may_repeat = true}};

static bool wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static bool wrong(const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    vsnprintf(s.said, sizeof s.said, format, rest);
    va_end(rest);
    return false;
}

/* --- the scenario -------------------------------------------------------- */

/* (1) */
static bool ended_well(int status, const struct fault *fault)
{
    bool may_abort = fault->call == FAULT_MEMORY || fault->call == FAULT_EVENT;
    if (WIFEXITED(status) || (may_abort && WTERMSIG(status) == SIGABRT))
        return true;
    return wrong("firnd ended by signal %d", WTERMSIG(status));
}

static long submit_trainer(const char *key, double until_s,
                           char reply[ASKFIRND_TEXT])
{
    char file[4 * FIRNDBED_PATH], folder[FIRNDBED_PATH];
    firndbed_path(&s.bed, "ckpt", folder);
    snprintf(file, sizeof file,
             "name: %s\nrun: [\"%s\", --epochs, \"1\", --samples, \"32\", "
             "--batch, \"16\", --every, \"1\", --judge, \"4\", --dir, "
             "\"%s\"]\ngpus: 1..2\nelastic: {threads: 2}\n"
             "checkpoint: {dir: \"%s\", grace: 2}\n"
             "retry: {on: [failure, lost], max: 20}\n",
             key, s.cnn, folder, folder);
    return firndbed_submit_file(&s.bed, key, file, until_s, reply);
}

static bool submit_all(double limit_s)
{
    for (int i = 0; i < s.njobs; i++) {
        char key[20], reply[ASKFIRND_TEXT];
        struct play_job *job = &s.jobs[i];
        snprintf(key, sizeof key, "j%d", i);
        double until_s = clock_elapsed_s() + limit_s;
        long id = i == TRAINER ? submit_trainer(key, until_s, reply)
                               : firndbed_submit(&s.bed, key, job->work_s,
                                                 job->more, until_s, reply);
        if (id > 0 && job->id > 0 && id != job->id)
            return wrong("request %s made jobs %ld and %ld", key, job->id, id);
        for (int k = 0; k < i && id > 0; k++)
            if (s.jobs[k].id == id)
                return wrong("request %s got job %ld of another", key, id);
        if (id > 0)
            job->id = id;
    }
    return true;
}

static int count_unknown(void)
{
    int n = 0;
    for (int i = 0; i < s.njobs; i++)
        n += s.jobs[i].id == 0;
    return n;
}

static void cancel(double limit_s)
{
    char target[40], reply[ASKFIRND_TEXT];
    if (s.jobs[ENDLESS].id == 0)
        return;
    snprintf(target, sizeof target, "/jobs/%ld/cancel", s.jobs[ENDLESS].id);
    int status = firndbed_send(&s.bed, "POST", target, "",
                               clock_elapsed_s() + limit_s, reply);
    s.is_cancelled |= status >= 200 && status < 300;
}

static bool is_over(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0 || strcmp(state, "lost") == 0;
}

/* How many acknowledged jobs are not seen to be over. */
static int count_unended(double limit_s)
{
    int n = 0;
    for (int i = 0; i < s.njobs; i++) {
        char target[40], reply[ASKFIRND_TEXT], state[64] = "";
        snprintf(target, sizeof target, "/jobs/%ld", s.jobs[i].id);
        n += s.jobs[i].id == 0 ||
             firndbed_get(&s.bed, target, clock_elapsed_s() + limit_s, reply) !=
                 200 ||
             !firndbed_field(reply, "state", state) || !is_over(state);
    }
    return n;
}

static int count_begun(void)
{
    int n = 0;
    oncejob_read(&s.ledger, s.bed.folder);
    for (int i = 0; i < s.njobs; i++)
        n +=
            s.jobs[i].id > 0 && oncejob_of(&s.ledger, s.jobs[i].id)->nbegun > 0;
    return n;
}

/* A life of firnd in which a call may fail. It is not waited for: what is not
 * done in it is left to the next. */
static bool faulty_life(const struct fault *fault, bool is_first)
{
    int status = 0;
    if (!firndbed_begin(&s.bed, NULL))
        return wrong("fork: %s", strerror(errno));
    if (firndbed_is_ready(&s.bed, 1)) {
        if (!submit_all(0.3)) /* (2) */
            return false;
        if (!is_first)
            cancel(0.3);
        double until_s = clock_elapsed_s() + (is_first ? 0.15 : 0.3);
        while (clock_elapsed_s() < until_s &&
               !firndbed_has_ended(&s.bed, &status) &&
               (is_first ? count_begun() < 2 : count_unended(0.1) > 0))
            firndbed_pause_s(0.004);
    }
    firndbed_kill(&s.bed, &status);
    return ended_well(status, fault);
}

static bool final_life(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    if (!firndbed_begin(&s.bed, NULL) || !firndbed_is_ready(&s.bed, LONGEST_S))
        return wrong("firnd does not come up any more"); /* (2) */
    for (;;) {
        if (count_unknown() > 0 && !submit_all(LONGEST_S))
            return false;
        if (!s.is_cancelled)
            cancel(LONGEST_S);
        if (count_unended(LONGEST_S) == 0)
            return true;
        if (firndbed_has_ended(&s.bed, NULL))
            return wrong("firnd ended without a fault");
        if (clock_elapsed_s() > until_s)
            return wrong("%d jobs do not end", count_unended(LONGEST_S));
        firndbed_pause_s(0.004);
    }
}

/* --- what must hold ------------------------------------------------------ */

/* (5): of each attempt "started_s" and "ended_s". */
static bool has_ends(const char *reply)
{
    const char *at = strstr(reply, "\"attempts\": [");
    while (at != NULL && (at = strstr(at, "{\"attempt\": ")) != NULL) {
        size_t n = strcspn(at, "}");
        if (memmem(at, n, "\"started_s\": ", 13) != NULL &&
            memmem(at, n, "\"ended_s\": ", 11) == NULL)
            return false;
        at += n;
    }
    return true;
}

/* (3), (4), (5) */
static bool job_is_good(int i, const struct fault *fault)
{
    char target[40], reply[ASKFIRND_TEXT], state[64] = "";
    const struct play_job *job = &s.jobs[i];
    const struct oncejob_tally *t = oncejob_of(&s.ledger, job->id);
    snprintf(target, sizeof target, "/jobs/%ld", job->id);
    if (firndbed_get(&s.bed, target, clock_elapsed_s() + LONGEST_S, reply) !=
            200 ||
        !firndbed_field(reply, "state", state))
        return wrong("job %ld is not known: %.300s", job->id, reply);
    const char *body = strstr(reply, "\r\n\r\n");
    body = body != NULL ? body + 4 : reply;
    bool is_hit = fault->role == FAULT_SHEPHERD && fault->nth > 0;
    const char *want = i == ENDLESS ? "cancelled" : "succeeded";
    is_hit |= i == ENDLESS && !s.is_cancelled; /* it was, unacknowledged */
    if (strcmp(state, want) != 0 && !(is_hit && strcmp(state, "failed") == 0) &&
        !(is_hit && strcmp(state, "lost") == 0))
        return wrong("job %ld is %s, not %s: %.400s", job->id, state, want,
                     body);
    if (t->ntwice > 0 || t->nbackwards > 0)
        return wrong("job %ld ran beside another: %.400s", job->id, body);
    if (!job->may_repeat && t->nbegun > 1)
        return wrong("job %ld began %d times: %.400s", job->id, t->nbegun,
                     body);
    if (i != TRAINER && strcmp(state, "succeeded") == 0 && t->nended < 1)
        return wrong("job %ld succeeded without its end: %.400s", job->id,
                     body);
    if (!has_ends(body))
        return wrong("job %ld has an attempt without an end: %.400s", job->id,
                     strstr(body, "\"attempts\""));
    return true;
}

/* (7); the first is without a fault. */
static bool training_is_good(void)
{
    char folder[FIRNDBED_PATH], newest[FIRNDBED_PATH];
    firndbed_path(&s.bed, "ckpt", folder);
    if (!ckptcheck_folder(s.firn, folder, true, newest, s.said))
        return false;
    if (s.good[0] == '\0') {
        firndbed_path(&s.home, "good.ckpt", s.good);
        return rename(newest, s.good) == 0;
    }
    return ckptcheck_is_same(s.firn, s.good, newest) ||
           wrong("%s has other weights than without a fault", newest);
}

/* (6) */
static bool nothing_is_left(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    while (oncejob_processes(s.bed.folder) > 0) {
        if (clock_elapsed_s() > until_s)
            return wrong("%d processes are left",
                         oncejob_processes(s.bed.folder));
        firndbed_pause_s(0.002);
    }
    return true;
}

static bool is_played(void *arg, const struct fault *fault)
{
    (void)arg;
    memcpy(s.jobs, plain_jobs, sizeof s.jobs);
    memset(&s.ledger, 0, sizeof s.ledger);
    s.is_cancelled = false;
    s.njobs = fault->nth % 4 == 0 ? NJOBS : NJOBS - 1;
    char folder[FIRNDBED_PATH];
    bool is_made = firndbed_make(&s.bed, "calls", true);
    firndbed_path(&s.bed, "ckpt", folder);
    if (!is_made || mkdir(folder, 0700) != 0)
        return wrong("no folder: %s", strerror(errno));
    faultplan_strike(s.bed.plan, fault->role, fault->call, fault->error,
                     fault->nth, fault->length);
    bool is_good = faulty_life(fault, true) && faulty_life(fault, false);
    faultplan_stop(s.bed.plan);
    is_good = is_good && final_life();
    oncejob_read(&s.ledger, s.bed.folder);
    for (int i = 0; i < s.njobs && is_good; i++)
        is_good = job_is_good(i, fault);
    firndbed_kill(&s.bed, NULL);
    is_good = is_good && nothing_is_left() &&
              (s.njobs <= TRAINER || training_is_good());
    faultlist_count(&s.list, s.bed.plan, fault);
    if (!is_good) {
        faultlist_tell(fault, s.bed.plan->struck, s.said);
        firndbed_show_log(&s.bed);
    }
    if (!is_good && getenv("FIRN_KEEP") != NULL)
        return false;
    return firndbed_remove(&s.bed) == 0 && is_good;
}

/* --- cases --------------------------------------------------------------- */

static bool is_possible(void)
{
    return getenv("FIRN_QUICK") == NULL && s.home.plan != NULL &&
           access(s.firn, X_OK) == 0 && access(s.cnn, X_OK) == 0;
}

static int make_home(void **state)
{
    (void)state;
    firndbed_make(&s.home, "calls", true);
    /* Jobs run in folders of their own: a path from here is of no use there. */
    char firnd[PATH_MAX];
    if (realpath(s.home.firnd, firnd) == NULL)
        return -1;
    snprintf(s.firn, sizeof s.firn, "%.*s", (int)strlen(firnd) - 1, firnd);
    snprintf(s.cnn, sizeof s.cnn, "%.*s/examples/cnn",
             (int)(strrchr(firnd, '/') - firnd), firnd);
    return 0;
}

static int remove_home(void **state)
{
    (void)state;
    return firndbed_remove(&s.home);
}

static void without_a_fault_all_jobs_come_to_their_end(void **state)
{
    (void)state;
    struct fault none = {.nth = 0};
    if (!is_possible())
        skip();
    double began_s = clock_elapsed_s();
    assert_true(is_played(NULL, &none));
    print_message("# %.3f s without a fault\n", clock_elapsed_s() - began_s);
    faultlist_print(&s.list);
    /* SQLite's own are among them. */
    assert_true(s.list.counts[FAULT_DAEMON][FAULT_WRITE] > 50);
    assert_true(s.list.counts[FAULT_DAEMON][FAULT_SYNC] > 5);
    assert_true(s.list.counts[FAULT_SHEPHERD][FAULT_SYNC] > 5);
}

static void no_job_is_lost_or_doubled_after_any_system_call_failed(void **state)
{
    (void)state;
    if (!is_possible())
        skip();
    s.list.last = FAULT_SHEPHERD;
    int nbad = faultlist_play(&s.list, SAMPLE, is_played, NULL);
    if (nbad > 0)
        fail_msg("%d faults were not survived", nbad);
}

/* Is a job known to a firnd that meets no fault? */
static bool is_known_later(long id)
{
    char target[40], reply[ASKFIRND_TEXT];
    faultplan_stop(s.bed.plan);
    snprintf(target, sizeof target, "/jobs/%ld", id);
    bool is_known =
        firndbed_begin(&s.bed, NULL) && firndbed_is_ready(&s.bed, LONGEST_S) &&
        firndbed_get(&s.bed, target, clock_elapsed_s() + LONGEST_S, reply) ==
            200;
    firndbed_kill(&s.bed, NULL);
    return is_known;
}

/* One start of firnd in which a call on the state file fails; false: there were
 * not that many. */
static bool start_fails(enum fault_call call, int error, long nth, long id)
{
    faultplan_strike(s.bed.plan, FAULT_DAEMON, call, error, nth, 1);
    snprintf(s.bed.plan->only, sizeof s.bed.plan->only, "firn.db");
    if (firndbed_begin(&s.bed, NULL))
        firndbed_is_ready(&s.bed, LONGEST_S);
    firndbed_kill(&s.bed, NULL);
    bool is_struck = s.bed.plan->nstruck > 0;
    if (!is_known_later(id)) {
        firndbed_show_log(&s.bed);
        fail_msg("%s %ld, %s: job %ld is lost", fault_call_name(call), nth,
                 fault_error_name(error), id);
    }
    return is_struck;
}

/* SQLite opens for reading what cannot be opened for writing: such a file is
 * not to be taken for a damaged one, and moved aside with all jobs. */
static void a_state_that_cannot_be_opened_now_is_kept(void **state)
{
    (void)state;
    static const enum fault_call calls[] = {FAULT_OPEN, FAULT_READ, FAULT_STAT};
    char reply[ASKFIRND_TEXT];
    if (!is_possible())
        skip();
    assert_true(firndbed_make(&s.bed, "calls", true));
    assert_true(firndbed_begin(&s.bed, NULL));
    assert_true(firndbed_is_ready(&s.bed, LONGEST_S));
    long id = firndbed_submit(&s.bed, "kept", 0, "gpus: 1\n",
                              clock_elapsed_s() + LONGEST_S, reply);
    assert_true(id > 0);
    firndbed_kill(&s.bed, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        long n = 1, step = getenv("FIRN_SOAK") != NULL || i == 0 ? 1 : 5;
        while (start_fails(calls[i], EIO, n, id)) /* until none is left */
            n += step;
        while (n > step && i == 0)
            start_fails(calls[i], EMFILE, n -= step, id);
    }
    assert_int_equal(firndbed_remove(&s.bed), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(without_a_fault_all_jobs_come_to_their_end),
        cmocka_unit_test(
            no_job_is_lost_or_doubled_after_any_system_call_failed),
        cmocka_unit_test(a_state_that_cannot_be_opened_now_is_kept),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.bed.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, make_home, remove_home);
}
