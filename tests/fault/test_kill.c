/* test_kill.c - firnd killed at any instant: no job is lost or runs twice.
 *
 * The driver starts firnd on four declared GPUs, submits jobs of a few dozen
 * milliseconds with request ids, and kills it with SIGKILL: at a random
 * instant, or by a failpoint at each place where a commit, a fork, an exec, an
 * answer or a rename has just been made or is about to be. A request without
 * an answer is sent again in the next life with the same id, and now and then
 * one that was answered.
 *
 * The jobs are this very program: a worker locks a file of its job and one of
 * its GPU, and keeps a ledger (lib/oncejob.h).
 *
 * Checked:
 * (1) each start leads to an answer, within two seconds in the mean;
 * (2) a request has one job however often it is sent, no two have the same;
 * (3) each acknowledged job is known at the end, and succeeded;
 * (4) by the ledger it began once and ended once. Where the failpoint kills the
 *     shepherd itself the job is allowed retries, begins again with a higher
 *     attempt, and ends at least once;
 * (5) never two workers of a job, nor two jobs on a GPU;
 * (6) only acknowledged jobs run, and no process is left.
 *
 * Cost: 0.2 s for each of 60 lives; 15 under a checker, 1000 in a soak, and
 * FIRN_KILLS of them where that is set (`make kills`).
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/askfirnd.h"
#include "lib/oncejob.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    REQUESTS = 20000,
    TEXT = ASKFIRND_TEXT,
    PATH = 400,
    LOAD = 10,
    LOG_SHOWN = 3000, /* bytes of firnd's, after a failure */
    LONGEST_S = 120   /* that anything is waited for */
};

/* In firnd itself: each must kill it. */
static const char *const points[] = {
    "store.commit.before", "store.commit.after", "loop.commit.before",
    "loop.commit.after",   "loop.answer.before", "loop.answer.after",
    "book.attempt.before", "book.attempt.after", "engine.number.after",
    "engine.launch.after", "engine.fence.after", "engine.rename.before",
    "engine.rename.after", "engine.fork.before", "engine.fork.after"};
/* In what it has started. */
static const char *const herd_points[] = {
    "shepherd.enter.before", "shepherd.lock.after",  "shepherd.pid.after",
    "shepherd.fork.before",  "shepherd.fork.after",  "shepherd.exec.before",
    "shepherd.exec.after",   "shepherd.exit.before", "shepherd.exit.after"};
/* Passed only with a state that cannot be read: tests/daemon/test_store_file
 * kills there; only in a resize without a stop: tests/e2e/212 does; only with a
 * further allocation of Slurm: tests/e2e/322 does; and only where a job is
 * prepared before its GPUs are free: tests/e2e/217 does. */
static const char *const other_points[] = {"store.aside.before",
                                           "store.aside.after",
                                           "engine.resize.launch.after",
                                           "engine.resize.after",
                                           "engine.resize.signal.after",
                                           "shepherd.joiners.after",
                                           "shepherd.resized.before",
                                           "shepherd.resized.after",
                                           "engine.pilot.before",
                                           "engine.pilot.after",
                                           "engine.pilot.list.after",
                                           "engine.ahead.before",
                                           "engine.ahead.after",
                                           "engine.go.before",
                                           "engine.go.after",
                                           "shepherd.go.after",
                                           "shepherd.park.before",
                                           "shepherd.park.after"};
enum {
    POINTS = sizeof points / sizeof points[0],
    HERD_POINTS = sizeof herd_points / sizeof herd_points[0],
    OTHER_POINTS = sizeof other_points / sizeof other_points[0],
    ALL_POINTS = POINTS + HERD_POINTS + OTHER_POINTS
};

static const char *point_at(int i)
{
    if (i < POINTS)
        return points[i];
    i -= POINTS;
    return i < HERD_POINTS ? herd_points[i] : other_points[i - HERD_POINTS];
}

struct request {
    long job;       /* 0: not acknowledged */
    bool may_retry; /* its shepherd is killed, too */
};

static struct {
    char folder[PATH / 2], firnd[PATH / 2], self[PATH_MAX];
    pid_t pid; /* 0: none */
    double ready_most_s, ready_sum_s, limit_s;
    int nready, nlives, is_good; /* the case came to its end */
    struct rng rng;
    int n; /* requests; the last may be without an answer */
    struct request all[REQUESTS];
    int of_job[ONCEJOB_MAX]; /* 1 + the request, by the job's id */
    struct oncejob_ledger ledger;
} s;

static void pause_s(double t)
{
    struct timespec time = {(time_t)t, (long)(1e9 * (t - (double)(time_t)t))};
    nanosleep(&time, NULL);
}

static void path_of(char out[PATH], const char *name)
{
    snprintf(out, PATH, "%s/%s", s.folder, name);
}

/* --- the ledger ---------------------------------------------------------- */

static struct request *request_of(long job)
{
    assert_in_range(job, 1, ONCEJOB_MAX - 1);
    return s.of_job[job] > 0 ? &s.all[s.of_job[job] - 1] : NULL;
}

/* Those acknowledged and not seen to end. */
static int unended(bool with_retries)
{
    int n = 0;
    oncejob_read(&s.ledger, s.folder);
    for (int i = 0; i < s.n; i++)
        n += s.all[i].job != 0 && s.ledger.jobs[s.all[i].job].nended == 0 &&
             (with_retries || !s.all[i].may_retry);
    return n;
}

/* --- talking ------------------------------------------------------------- */

static int get(const char *target, double until_s, char reply[TEXT])
{
    char sock[PATH];
    path_of(sock, "sock");
    return askfirnd_get(sock, target, until_s, reply);
}

/* Sends request `i`, perhaps not for the first time. True: acknowledged. */
static bool submit(int i, double until_s)
{
    char body[PATH_MAX + 2 * PATH], key[20], sock[PATH], reply[TEXT];
    struct request *r = &s.all[i];
    path_of(sock, "sock");
    snprintf(key, sizeof key, "r%d", i);
    snprintf(body, sizeof body,
             "name: j%d\nrun: [\"%s\", \"work\", \"%s\", \"0.%03d\"]\n"
             "gpus: 1\n%s",
             i, s.self, s.folder, 20 + i * 37 % 60,
             r->may_retry ? "retry: {on: [failure, lost], max: 100}\n" : "");
    int status = askfirnd_submit(sock, key, body, until_s, reply);
    if (status == 0)
        return false;
    const char *id = strstr(reply, "\"id\": ");
    if ((status != 200 && status != 201) || id == NULL)
        fail_msg("request %d was answered by %s", i, reply);
    long job = strtol(id + 6, NULL, 10);
    if (job <= 0 || (r->job != 0 && r->job != job)) /* (2) */
        fail_msg("request %d made job %ld and %ld", i, r->job, job);
    if (r->job == 0 && request_of(job) != NULL)
        fail_msg("request %d got the job %ld of another", i, job);
    r->job = job;
    s.of_job[job] = i + 1;
    return true;
}

/* --- lives --------------------------------------------------------------- */

static void begin_life(const char *failpoint)
{
    char state[PATH], sock[PATH], err[PATH];
    path_of(state, "state");
    path_of(sock, "sock");
    path_of(err, "err");
    s.nlives++;
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid > 0)
        return;
    int fd = open(err, O_WRONLY | O_APPEND | O_CREAT, 0600);
    unsetenv("FIRN_FAILPOINT");
    if (failpoint != NULL)
        setenv("FIRN_FAILPOINT", failpoint, 1);
    if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0)
        execl(s.firnd, "firnd", "--state", state, "--socket", sock, "--gpus",
              "1x4:v100@16", "--policy", "fifo", "--allow-root", (char *)NULL);
    _exit(127);
}

/* It ends by SIGKILL or not at all. */
static bool is_dead(int flags)
{
    int status;
    if (s.pid == 0)
        return true;
    if (waitpid(s.pid, &status, flags) != s.pid)
        return false;
    s.pid = 0;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("firnd ended by itself, status %d", status);
    return true;
}

static void kill_now(void)
{
    if (s.pid != 0) {
        kill(s.pid, SIGKILL);
        is_dead(0);
    }
}

/* (1); false: dead before. */
static bool wait_ready(void)
{
    char reply[TEXT];
    double began_s = clock_elapsed_s();
    while (get("/health", began_s + LONGEST_S, reply) != 200) {
        if (is_dead(WNOHANG))
            return false;
        if (clock_elapsed_s() - began_s >= LONGEST_S)
            fail_msg("firnd does not answer");
        pause_s(0.002);
    }
    double took_s = clock_elapsed_s() - began_s;
    s.nready++;
    s.ready_sum_s += took_s;
    s.ready_most_s = fmax(s.ready_most_s, took_s);
    return true;
}

/* Load until then, or until it is dead. */
static void load_until(double until_s)
{
    bool is_open = s.n > 0 && s.all[s.n - 1].job == 0;
    while (clock_elapsed_s() < until_s && !is_dead(WNOHANG)) {
        if (!is_open && unended(true) < LOAD && s.n < REQUESTS) {
            s.all[s.n++] = (struct request){0};
            is_open = true;
        }
        if (is_open)
            is_open = !submit(s.n - 1, until_s);
        else if (s.n > 0 && rng_below(&s.rng, 8) == 0)
            submit((int)rng_below(&s.rng, (uint64_t)s.n), until_s); /* (2) */
        pause_s(0.012 * rng_unit(&s.rng));
    }
}

static void random_life(void)
{
    begin_life(NULL);
    if (rng_below(&s.rng, 4) == 0)
        pause_s(0.06 * rng_unit(&s.rng)); /* perhaps before it is ready */
    else if (wait_ready())
        load_until(clock_elapsed_s() + 0.25 * rng_unit(&s.rng));
    kill_now();
}

static void point_life(const char *point, int pass)
{
    char text[80];
    snprintf(text, sizeof text, "%.60s:%d", point, pass);
    begin_life(text);
    wait_ready();
    load_until(clock_elapsed_s() + LONGEST_S);
    if (s.pid != 0)
        fail_msg("firnd never came to %s", text);
}

/* Prints each job that has not ended by the ledger. True: firnd reports one of
 * them, which may not be started again, as over: it is lost. */
static bool show_unended(bool with_retries, bool is_last)
{
    char target[40], reply[TEXT];
    bool is_lost = false;
    for (int i = 0; i < s.n; i++) {
        const struct request *r = &s.all[i];
        if (r->job == 0 || s.ledger.jobs[r->job].nended != 0 ||
            (!with_retries && r->may_retry))
            continue;
        snprintf(target, sizeof target, "/jobs/%ld", r->job);
        int status = get(target, clock_elapsed_s() + LONGEST_S, reply);
        bool is_over = status == 200 && !r->may_retry &&
                       (strstr(reply, "\"state\": \"lost\"") != NULL ||
                        strstr(reply, "\"state\": \"failed\"") != NULL);
        is_lost |= is_over;
        if (is_over || is_last)
            print_error("%s\n", reply);
    }
    return is_lost;
}

/* An ordinary life until all jobs have ended. A job that was killed again and
 * again waits twice as long each time, over restarts too. */
static void drain(bool with_retries)
{
    double until_s = clock_elapsed_s() + (with_retries ? 3 : 1) * LONGEST_S;
    double look_s = clock_elapsed_s() + 2;
    begin_life(NULL);
    assert_true(wait_ready());
    while (s.n > 0 && s.all[s.n - 1].job == 0)
        submit(s.n - 1, until_s);
    while (unended(with_retries) > 0) {
        bool is_last = clock_elapsed_s() >= until_s;
        if (is_last || clock_elapsed_s() >= look_s) {
            look_s = clock_elapsed_s() + 2;
            if (show_unended(with_retries, is_last) || is_last)
                fail_msg("%d jobs are forgotten", unended(with_retries));
        }
        pause_s(0.01);
    }
}

/* Waits until firnd reports that the job lost its shepherd, or is done. */
static void herd_life(const char *point)
{
    char target[40], reply[TEXT];
    double until_s = clock_elapsed_s() + LONGEST_S;
    begin_life(point);
    wait_ready();
    s.all[s.n++] = (struct request){.may_retry = true};
    while (!submit(s.n - 1, until_s))
        assert_true(clock_elapsed_s() < until_s);
    snprintf(target, sizeof target, "/jobs/%ld", s.all[s.n - 1].job);
    for (;;) {
        int status = get(target, until_s, reply);
        const char *end = strstr(reply, "\"end\": \"");
        if (status == 200 && end != NULL) {
            bool is_done = strncmp(end + 8, "done", 4) == 0;
            if (is_done != (strcmp(point, "shepherd.exit.after") == 0))
                fail_msg("%s: %s", point, reply);
            break;
        }
        if (clock_elapsed_s() >= until_s)
            fail_msg("%s did nothing: %s", point, reply);
        pause_s(0.005);
    }
    kill_now();
}

/* --- the end ------------------------------------------------------------- */

static void check_job(int i, double until_s)
{
    char target[40], reply[TEXT];
    const struct request *r = &s.all[i];
    snprintf(target, sizeof target, "/jobs/%ld", r->job);
    for (;;) {
        if (get(target, until_s, reply) != 200)
            fail_msg("job %ld is not known: %s", r->job, reply);
        if (strstr(reply, "\"state\": \"succeeded\"") != NULL)
            break; /* (3) */
        if (strstr(reply, "\"state\": \"failed\"") != NULL ||
            clock_elapsed_s() > until_s)
            fail_msg("job %ld did not succeed: %s", r->job, reply);
        pause_s(0.01);
    }
    oncejob_read(&s.ledger, s.folder); /* it may have begun once more */
    const struct oncejob_tally *t = &s.ledger.jobs[r->job];
    bool is_good = r->may_retry ? t->nbegun >= t->nended && t->nended >= 1
                                : t->nbegun == 1 && t->nended == 1;
    if (!is_good || t->nbackwards > 0) /* (4) */
        fail_msg("job %ld began %d times and ended %d times: %s", r->job,
                 t->nbegun, t->nended, reply);
}

/* (5), (6) */
static void check_ledger(void)
{
    for (long job = 0; job < ONCEJOB_MAX; job++) {
        const struct oncejob_tally *t = &s.ledger.jobs[job];
        if (t->ntwice > 0)
            fail_msg("job %ld ran beside another", job);
        if (t->nbegun > 0 && s.of_job[job] == 0)
            fail_msg("job %ld runs, but its submission was never acknowledged",
                     job);
    }
}

/* One line for tools/run_kills.sh; what is lost or doubled has failed before.
 */
static void print_figures(double took_s)
{
    int nlost = 0, ndoubled = 0, nbooked = 0;
    for (int i = 0; i < s.n; i++) {
        const struct oncejob_tally *t = &s.ledger.jobs[s.all[i].job];
        nlost += t->nended == 0;
        ndoubled += !s.all[i].may_retry && t->nbegun > 1;
        nbooked += t->ntwice;
    }
    print_message("# figures: firnd %d %d %d %d %d %.3f %.1f\n", s.nlives, s.n,
                  nlost, ndoubled, nbooked, s.ready_most_s, took_s);
}

static void check_all(void)
{
    drain(true);
    double until_s = clock_elapsed_s() + LONGEST_S;
    for (int i = 0; i < s.n; i++)
        check_job(i, until_s);
    check_ledger();
    kill_now();
    for (until_s = clock_elapsed_s() + LONGEST_S;
         oncejob_processes(s.folder) > 0; pause_s(0.01))
        if (clock_elapsed_s() > until_s)
            fail_msg("%d processes are left", oncejob_processes(s.folder));
    if (s.ready_sum_s >= s.limit_s * s.nready) /* (1) */
        fail_msg("ready after %.3f s in the mean", s.ready_sum_s / s.nready);
}

/* --- cases --------------------------------------------------------------- */

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR"), *firn = getenv("FIRN");
    snprintf(s.folder, sizeof s.folder, "%.60s/firn-kill-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (firn != NULL)
        snprintf(s.firnd, sizeof s.firnd, "%.180sd", firn);
    s.limit_s = getenv("FIRN_QUICK") != NULL ? 10 : 2;
    s.is_good = 0;
    memset(s.of_job, 0, sizeof s.of_job);
    memset(&s.ledger, 0, sizeof s.ledger);
    return mkdtemp(s.folder) == NULL;
}

/* After a failure firnd and its state are gone too, but the end of its log is
 * shown. */
static int remove_folder(void **state)
{
    (void)state;
    if (s.pid != 0) {
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
    }
    s.pid = 0;
    if (!s.is_good) {
        char path[PATH], line[300];
        path_of(path, "err");
        FILE *f = fopen(path, "r");
        if (f != NULL && fseek(f, -LOG_SHOWN, SEEK_END) != 0)
            rewind(f);
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            print_error("%s", line);
        if (f != NULL)
            fclose(f);
        for (int i = 0; i < 500 && oncejob_processes(s.folder) > 0; i++)
            pause_s(0.01);
    }
    return oncejob_remove(s.folder);
}

static void two_workers_of_a_job_at_once_are_noticed(void **state)
{
    (void)state;
    char path[PATH];
    setenv("FIRN_JOB", "7", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    path_of(path, "job-7");
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(oncejob_work(s.folder, 0), 0);
    close(lock);
    oncejob_read(&s.ledger, s.folder);
    assert_int_equal(s.ledger.jobs[7].ntwice, 1);
    assert_int_equal(s.ledger.jobs[7].nbegun, 0);
    unsetenv("FIRN_JOB");
    unsetenv("CUDA_VISIBLE_DEVICES");
    s.is_good = 1;
}

/* The place of a name in all lists, one behind the other; -1: in none. */
static int place_of(const char *name)
{
    for (int i = 0; i < ALL_POINTS; i++)
        if (strcmp(point_at(i), name) == 0)
            return i;
    return -1;
}

/* Notes which names are there; engines may share one. */
static void check_points_of(const char *folder, bool *is_there)
{
    char path[PATH], line[300], name[64];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%.200s", folder, e->d_name);
        FILE *f = strstr(path, ".c") != NULL ? fopen(path, "r") : NULL;
        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            const char *at = strstr(line, "failpoint(\"");
            bool is_one = at != NULL && sscanf(at + 11, "%63[a-z.]", name) == 1;
            int place = is_one ? place_of(name) : 0;
            if (place < 0)
                fail_msg("%s: no case kills at %s", path, name);
            if (is_one)
                is_there[place] = true;
        }
        if (f != NULL)
            fclose(f);
    }
    closedir(dir);
}

static void every_failpoint_in_the_sources_is_killed_at(void **state)
{
    (void)state;
    bool is_there[ALL_POINTS] = {false};
    check_points_of("src/daemon", is_there);
    check_points_of("src/engine", is_there);
    for (int i = 0; i < ALL_POINTS; i++)
        if (!is_there[i])
            fail_msg("there is no failpoint %s any more", point_at(i));
}

static void
no_job_is_lost_or_doubled_when_firnd_is_killed_at_any_instant(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED"), *number = getenv("FIRN_KILLS");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    int first, n = number != NULL                ? (int)strtol(number, NULL, 10)
                   : getenv("FIRN_SOAK") != NULL ? 1000
                   : getenv("FIRN_QUICK") != NULL ? 15
                                                  : 60;
    if (access(s.firnd, X_OK) != 0)
        skip();
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&s.rng, seed);
    double began_s = clock_elapsed_s();
    first = (int)rng_below(&s.rng, POINTS);
    for (int i = 0; s.nlives < n; i++) {
        random_life();
        if (i < POINTS || n > 100)
            point_life(points[(first + i) % POINTS],
                       1 + (int)rng_below(&s.rng, 3));
        if (i == (n < 100 ? 3 : POINTS)) {
            drain(false);
            kill_now();
            for (int k = 0; k < HERD_POINTS; k++)
                herd_life(herd_points[k]);
        }
    }
    check_all();
    print_message("# %d lives, %d jobs, ready after %.3f s in the mean and "
                  "%.3f s at most, %.1f s in all\n",
                  s.nlives, s.n, s.ready_sum_s / s.nready, s.ready_most_s,
                  clock_elapsed_s() - began_s);
    print_figures(clock_elapsed_s() - began_s);
    s.is_good = 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(
            two_workers_of_a_job_at_once_are_noticed, make_folder,
            remove_folder),
        cmocka_unit_test(every_failpoint_in_the_sources_is_killed_at),
        cmocka_unit_test_setup_teardown(
            no_job_is_lost_or_doubled_when_firnd_is_killed_at_any_instant,
            make_folder, remove_folder),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, NULL, NULL);
}
