/* test_calls.c - each system call of firnd and of shepherds fails once.
 *
 * One scenario is played again and again, each time with another call that
 * fails (lib/faultplan.h): firnd starts on two declared GPUs, takes four jobs,
 * is killed, starts again, and is told to cancel one. Then firnd is killed once
 * more and started without faults, until all jobs are over. First the scenario
 * is played without a fault, which tells how many calls of each kind there are.
 *
 * The jobs are this very program and keep a ledger (lib/oncejob.h). Checked
 * after each:
 * (1) firnd does not crash: it ends by itself at most with a status of its own,
 *     or by abort() when there is no memory;
 * (2) without faults firnd comes up and answers, and a request has one job;
 * (3) each acknowledged job is known and comes to its end: those that were not
 *     cancelled succeed, unless their shepherd was the one that was hit. The
 *     cancelled one is cancelled;
 * (4) a job that may not be started twice began once at most, exactly once if
 *     it succeeded; no job ran beside itself, no GPU had two jobs;
 * (5) every attempt of a job that is over has an end;
 * (6) no process is left.
 *
 * A failure is told as the value of FIRN_FAULT that plays it again.
 *
 * Cost: about 0.4 s for each fault. Without FIRN_SOAK a sample of them by
 * FIRN_SEED, as many as FIRN_FAULTS says; with it all. Of calls that there are
 * very many of (firnd reads the whole of /proc to find processes) only each
 * k-th fails, so that a kind has at most EACH of them.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/firndbed.h"
#include <errno.h>
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
#include <unistd.h>

#include <cmocka.h>

enum {
    NJOBS = 4,
    ENDLESS = 1,    /* the job that is cancelled */
    SAMPLE = 12,    /* faults of a short run */
    EACH = 400,     /* of a kind, in a long one */
    WANTS_ENDS = 0, /* is (5) asked for? */
    SHOWN = 20,     /* failures that are told */
    LONGEST_S = 60, /* that anything is waited for */
    SAID = 600
};

struct fault {
    enum fault_role role;
    enum fault_call call;
    int error;
    long nth, length;
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
    struct oncejob_ledger ledger;
    bool is_cancelled; /* acknowledged */
    long counts[FAULT_ROLES][FAULT_CALLS];
    char said[SAID];
} s = {.bed = {.gpus = "1x2:v100@16", .policy = "fifo"}};

static const struct play_job plain_jobs[NJOBS] = {
    {.more = "gpus: 1\n", .work_s = 0.015},
    {.more = "gpus: 1\n", .work_s = 600},
    {.more = "gpus: 1\ncheckpoint: {grace: 2}\n"
             "retry: {on: [failure, lost], max: 20}\n",
     .work_s = 0.015,
     .may_repeat = true},
    {.more = "gpus: 1\n", .work_s = 0.010}};

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

/* --- the scenario ----------------------------------------------------------
 */

/* (1) */
static bool ended_well(int status, const struct fault *fault)
{
    if (WIFEXITED(status) ||
        (fault->call == FAULT_MEMORY && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGABRT))
        return true;
    return wrong("firnd ended by signal %d", WTERMSIG(status));
}

static bool submit_all(double limit_s)
{
    for (int i = 0; i < NJOBS; i++) {
        char key[20], reply[ASKFIRND_TEXT];
        struct play_job *job = &s.jobs[i];
        snprintf(key, sizeof key, "j%d", i);
        long id = firndbed_submit(&s.bed, key, job->work_s, job->more,
                                  clock_elapsed_s() + limit_s, reply);
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
    for (int i = 0; i < NJOBS; i++)
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
    for (int i = 0; i < NJOBS; i++) {
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
    for (int i = 0; i < NJOBS; i++)
        n += s.jobs[i].id > 0 && s.ledger.jobs[s.jobs[i].id].nbegun > 0;
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

/* --- what must hold ---------------------------------------------------------
 */

/* (5): of each attempt "started_s" and "ended_s". */
static bool has_ends(const char *reply)
{
    const char *at = strstr(reply, "\"epochs\": [");
    while (at != NULL && (at = strstr(at, "{\"epoch\": ")) != NULL) {
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
    const struct oncejob_tally *t = &s.ledger.jobs[job->id];
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
    if (strcmp(state, "succeeded") == 0 && t->nended < 1)
        return wrong("job %ld succeeded without its end: %.400s", job->id,
                     body);
    if (WANTS_ENDS && !has_ends(body))
        return wrong("job %ld has an attempt without an end: %.400s", job->id,
                     strstr(body, "\"epochs\""));
    return true;
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

static bool play(const struct fault *fault)
{
    memcpy(s.jobs, plain_jobs, sizeof s.jobs);
    memset(&s.ledger, 0, sizeof s.ledger);
    s.is_cancelled = false;
    if (!firndbed_make(&s.bed, "calls", true))
        return wrong("no folder: %s", strerror(errno));
    faultplan_strike(s.bed.plan, fault->role, fault->call, fault->error,
                     fault->nth, fault->length);
    bool is_good = faulty_life(fault, true) && faulty_life(fault, false);
    faultplan_stop(s.bed.plan);
    is_good = is_good && final_life();
    oncejob_read(&s.ledger, s.bed.folder);
    for (int i = 0; i < NJOBS && is_good; i++)
        is_good = job_is_good(i, fault);
    firndbed_kill(&s.bed, NULL);
    is_good = is_good && nothing_is_left();
    for (int r = 0; r < FAULT_ROLES && fault->nth == 0; r++)
        for (int c = 0; c < FAULT_CALLS; c++)
            s.counts[r][c] = s.bed.plan->counts[r][c];
    if (!is_good) {
        print_error("FIRN_FAULT='%s %s %s %ld %ld' %s: %s\n",
                    fault_role_name(fault->role), fault_call_name(fault->call),
                    fault->nth > 0 ? fault_error_name(fault->error) : "none",
                    fault->nth, fault->length, s.bed.plan->struck, s.said);
        firndbed_show_log(&s.bed);
    }
    if (!is_good && getenv("FIRN_KEEP") != NULL)
        return false;
    return firndbed_remove(&s.bed) == 0 && is_good;
}

/* --- which faults -----------------------------------------------------------
 */

/* Kinds that a role never calls are left out. */
static struct fault draw_fault(struct rng *rng)
{
    struct fault f = {.length = rng_below(rng, 3) == 0 ? 10 : 1};
    do {
        f.role = (enum fault_role)rng_below(rng, FAULT_TRAINER);
        f.call = (enum fault_call)rng_below(rng, FAULT_CALLS);
    } while (s.counts[f.role][f.call] == 0);
    const int *errors = fault_errors(f.call);
    int n = 0;
    while (errors[n] != 0)
        n++;
    f.error = errors[rng_below(rng, (uint64_t)n)];
    f.nth = 1 + (long)rng_below(rng, (uint64_t)s.counts[f.role][f.call]);
    return f;
}

static int play_sample(struct rng *rng, int n)
{
    int nbad = 0;
    for (int i = 0; i < n && nbad < SHOWN; i++) {
        struct fault f = draw_fault(rng);
        nbad += !play(&f);
    }
    return nbad;
}

/* "daemon open EMFILE 94 10" */
static bool read_fault(const char *text, struct fault *out)
{
    char role[20], call[20], error[20];
    if (sscanf(text, "%19s %19s %19s %ld %ld", role, call, error, &out->nth,
               &out->length) != 5)
        return false;
    for (int r = 0; r < FAULT_ROLES; r++)
        for (int c = 0; c < FAULT_CALLS; c++) {
            const int *e = fault_errors((enum fault_call)c);
            if (strcmp(fault_role_name((enum fault_role)r), role) != 0 ||
                strcmp(fault_call_name((enum fault_call)c), call) != 0)
                continue;
            while (*e != 0 && strcmp(fault_error_name(*e), error) != 0)
                e++;
            out->role = (enum fault_role)r;
            out->call = (enum fault_call)c;
            out->error = *e;
            return *e != 0;
        }
    return false;
}

/* Every call of a kind, one after the other; part `part` of `nparts`. */
static int play_all(int part, int nparts, long *nplayed)
{
    int nbad = 0;
    long i = 0;
    for (int role = 0; role < FAULT_TRAINER; role++)
        for (int call = 0; call < FAULT_CALLS; call++)
            for (long nth = 1; nth <= s.counts[role][call];
                 nth += 1 + s.counts[role][call] / EACH)
                for (const int *e = fault_errors((enum fault_call)call);
                     *e != 0 && nbad < SHOWN; e++) {
                    struct fault f = {(enum fault_role)role,
                                      (enum fault_call)call, *e, nth, 1};
                    if (i++ % nparts != part)
                        continue;
                    nbad += !play(&f);
                    ++*nplayed;
                }
    return nbad;
}

/* In several processes: most of the time each of them waits. */
static int play_all_at_once(void)
{
    enum { PARTS = 4 };
    pid_t pids[PARTS];
    int nbad = 0;
    for (int i = 0; i < PARTS; i++)
        if ((pids[i] = fork()) == 0) {
            long nplayed = 0;
            int bad = play_all(i, PARTS, &nplayed);
            print_message("# part %d: %ld faults\n", i, nplayed);
            _exit(bad);
        }
    for (int i = 0; i < PARTS; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        nbad += WIFEXITED(status) ? WEXITSTATUS(status) : SHOWN;
    }
    return nbad;
}

/* --- cases ------------------------------------------------------------------
 */

static bool is_possible(void)
{
    return getenv("FIRN_QUICK") == NULL && access(s.bed.firnd, X_OK) == 0;
}

static int find_firnd(void **state)
{
    (void)state;
    if (firndbed_make(&s.bed, "calls", false))
        return firndbed_remove(&s.bed);
    return 0;
}

static void without_a_fault_all_jobs_come_to_their_end(void **state)
{
    (void)state;
    struct fault none = {.nth = 0};
    if (!is_possible())
        skip();
    double began_s = clock_elapsed_s();
    assert_true(play(&none));
    print_message("# %.3f s; calls of", clock_elapsed_s() - began_s);
    for (int r = 0; r < FAULT_TRAINER; r++) {
        print_message(" %s:", fault_role_name((enum fault_role)r));
        for (int c = 0; c < FAULT_CALLS; c++)
            if (s.counts[r][c] > 0)
                print_message(" %s %ld", fault_call_name((enum fault_call)c),
                              s.counts[r][c]);
    }
    print_message("\n");
    /* SQLite's own are among them. */
    assert_true(s.counts[FAULT_DAEMON][FAULT_WRITE] > 50);
    assert_true(s.counts[FAULT_DAEMON][FAULT_SYNC] > 5);
}

static void after_any_call_failed_nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED"), *number = getenv("FIRN_FAULTS");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    struct rng rng;
    int nbad;
    if (!is_possible())
        skip();
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    const char *one = getenv("FIRN_FAULT");
    if (one != NULL) {
        struct fault f;
        assert_true(read_fault(one, &f));
        nbad = !play(&f);
    } else if (number == NULL && getenv("FIRN_SOAK") != NULL)
        nbad = play_all_at_once();
    else
        nbad = play_sample(&rng, number != NULL ? (int)strtol(number, NULL, 10)
                                                : SAMPLE);
    if (nbad > 0)
        fail_msg("%d faults were not survived", nbad);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(without_a_fault_all_jobs_come_to_their_end),
        cmocka_unit_test(after_any_call_failed_nothing_is_lost_or_doubled),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.bed.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, find_firnd, NULL);
}
