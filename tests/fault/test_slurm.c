/* test_slurm.c - Slurm and firnd killed at random: nothing lost or doubled.
 *
 * The driver has a real Slurm on this host (tools/slurm-bed), three nodes of
 * four GPUs, and firnd with --engine slurm. It keeps twenty jobs in flight, of
 * one to three GPUs, some elastic, all with checkpoints, and kills with
 * SIGKILL, alone and together, at random instants: the controller, a node's
 * slurmd with all of its job steps or without, firnd. The dead are started
 * again after up to two seconds. Now and then the controller is only stopped
 * (SIGSTOP) and goes on later; in a soak for longer than firnd waits for an
 * answer of Slurm's. A submit without an answer is sent again under the same
 * key.
 *
 * The jobs are this very program (lib/tickjob.h): each worker locks its rank of
 * its job, and its GPU by node and index as Slurm gives them. So the
 * processes themselves show doubling and double booking, not firn.
 *
 * Checked at the end: each acknowledged job succeeded; the ledger keeps the
 * rules of lib/tickledger.h; Slurm's queue is empty, and no process of a job is
 * left.
 *
 * FIRN_SEED repeats the faults of a run; FIRN_VICTIMS spares some: the sum of 1
 * (controller), 2 (nodes) and 4 (firnd). With FIRND_HOSTS each node is a host
 * of its own (slurm-bed --hosts), in a network namespace that the caller made.
 *
 * Cost: about 4 s a round; 5 rounds, 2 under a checker, 200 in a soak. With
 * FIRN_SLURM_CRASHES=n the controller is killed in every round, n times in all
 * (`make kills`).
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/askfirnd.h"
#include "lib/oncejob.h"
#include "lib/slurmbed.h"
#include "lib/tickjob.h"
#include "lib/tickledger.h"
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    REQUESTS = 20000,
    TEXT = ASKFIRND_TEXT,
    PATH = 400,
    LOAD = 20, /* 6 under a checker */
    NODES = 3,
    KILLS = 1000,
    LONGEST_S = 240 /* that anything is waited for */
};
enum victim { CTLD = 1, NODE = 2, FIRND = 4 };

#define ICEFROG \
    "--policy=icefrog", "--set=icefrog.interval=1", "--set=icefrog.restart=0"

struct request {
    long job; /* 0: not acknowledged */
    bool is_done;
};

static struct {
    char folder[PATH / 2], firnd[PATH / 2], self[PATH_MAX];
    struct slurmbed bed;
    char work[PATH]; /* the jobs' folder */
    pid_t pid;       /* 0: none */
    int node;        /* that is dead; -1: none */
    bool is_ctld_dead, is_ctld_stopped, is_good;
    struct rng rng;
    int n, ndone; /* requests; the last may be without an answer */
    struct request all[REQUESTS];
    int of_job[REQUESTS]; /* 1 + the request, by the job's id */
    struct tickledger_death deaths[KILLS];
    int ndeaths, nkills[8], nstops;
    double ready_most_s; /* the longest that firnd took to answer */
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

/* --- the bed -------------------------------------------------------------- */

/* Kills a node with all its processes, or its slurmd alone: then the job goes
 * on, but Slurm cannot report on it. */
static void kill_node(void)
{
    struct tickledger_death *d = &s.deaths[s.ndeaths];
    s.node = (int)rng_below(&s.rng, NODES);
    snprintf(d->node, sizeof d->node, "n%d", s.node % NODES);
    if (rng_below(&s.rng, 3) == 0) {
        assert_int_equal(slurmbed_tell(&s.bed, "kill", d->node, NULL), 0);
        return;
    }
    d->from_s = tickjob_now_s();
    assert_int_equal(slurmbed_tell(&s.bed, "kill", d->node, "--steps"), 0);
    d->to_s = tickjob_now_s();
    s.ndeaths++;
}

/* --- firnd ---------------------------------------------------------------- */

static void begin_life(void)
{
    char state[PATH], sock[PATH], token[PATH], address[32], port[32];
    char listen[80];
    snprintf(state, sizeof state, "--state=%s/state", s.folder);
    snprintf(sock, sizeof sock, "--socket=%s/sock", s.folder);
    snprintf(token, sizeof token, "--token-file=%s/token", s.folder);
    slurmbed_word(&s.bed, "address", "127.0.0.1", address);
    slurmbed_word(&s.bed, "port", "?", port);
    snprintf(listen, sizeof listen, "--listen=%s:%s", address, port);
    const char *argv[] = {s.firnd, state,          sock,
                          token,   listen,         "--engine=slurm",
                          ICEFROG, "--allow-root", "--listen-plain",
                          NULL};
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid == 0)
        slurmbed_exec(&s.bed, argv);
}

static int get(const char *target, double until_s, char reply[TEXT])
{
    char sock[PATH];
    path_of(sock, "sock");
    return askfirnd_get(sock, target, until_s, reply);
}

/* It ends by SIGKILL or not at all. */
static void check_alive(void)
{
    int status;
    if (s.pid != 0 && waitpid(s.pid, &status, WNOHANG) == s.pid) {
        s.pid = 0;
        fail_msg("firnd ended by itself, status %d", status);
    }
}

static void kill_firnd(void)
{
    check_alive();
    if (s.pid == 0)
        return;
    kill(s.pid, SIGKILL);
    waitpid(s.pid, NULL, 0);
    s.pid = 0;
}

static void wait_ready(void)
{
    char reply[TEXT];
    double began_s = clock_elapsed_s(), until_s = began_s + LONGEST_S;
    while (get("/health", until_s, reply) != 200) {
        check_alive();
        if (clock_elapsed_s() >= until_s)
            fail_msg("firnd does not answer");
        pause_s(0.01);
    }
    s.ready_most_s = fmax(s.ready_most_s, clock_elapsed_s() - began_s);
}

/* --- load ----------------------------------------------------------------- */

/* Sends request `i`, perhaps not for the first time. True: acknowledged. */
static bool submit(int i, double until_s)
{
    static const char *const kinds[] = {"gpus: 1\n", "gpus: 1\n", "gpus: 2\n",
                                        "gpus: 3\n",
                                        "gpus: 1..3\nelastic: {threads: 3}\n"};
    char body[PATH_MAX + 2 * PATH], sock[PATH], key[20], reply[TEXT];
    path_of(sock, "sock");
    snprintf(key, sizeof key, "r%d", i);
    snprintf(body, sizeof body,
             "name: j%d\nrun: [\"%s\", \"work\", \"%s\", \"%d\"]\n%s"
             "checkpoint: {grace: 5}\n"
             "retry: {on: [failure, lost], max: 100}\n",
             i, s.self, s.work, 8 + i * 37 % 40, kinds[i * 7 % 5]);
    int status = askfirnd_submit(sock, key, body, until_s, reply);
    if (status == 0)
        return false;
    const char *id = strstr(reply, "\"id\": ");
    if ((status != 200 && status != 201) || id == NULL)
        fail_msg("request %d was answered by %s", i, reply);
    long job = strtol(id + 6, NULL, 10);
    assert_in_range(job, 1, REQUESTS - 1);
    if (s.all[i].job != 0 && s.all[i].job != job)
        fail_msg("request %d made job %ld and %ld", i, s.all[i].job, job);
    s.all[i].job = job;
    s.of_job[job] = i + 1;
    return true;
}

static bool is_done(struct request *r, double until_s)
{
    char target[40], reply[TEXT];
    snprintf(target, sizeof target, "/jobs/%ld", r->job);
    int status = get(target, until_s, reply);
    if (status == 404 || strstr(reply, "\"state\": \"failed\"") != NULL)
        fail_msg("job %ld is lost: %s", r->job, reply);
    return status == 200 && strstr(reply, "\"state\": \"succeeded\"") != NULL;
}

/* How many of those acknowledged are not done. */
static int unended(double until_s)
{
    int n = 0;
    for (int i = 0; i < s.n; i++) {
        struct request *r = &s.all[i];
        if (r->job != 0 && !r->is_done && is_done(r, until_s)) {
            r->is_done = true;
            s.ndone++;
        }
        n += r->job != 0 && !r->is_done;
    }
    return n;
}

static void load_for(double time_s)
{
    double until_s = clock_elapsed_s() + time_s;
    bool is_open = s.n > 0 && s.all[s.n - 1].job == 0;
    int load = getenv("FIRN_QUICK") != NULL ? 6 : LOAD;
    while (clock_elapsed_s() < until_s) {
        check_alive();
        if (!is_open && s.n < REQUESTS - 1 && unended(until_s) < load) {
            s.all[s.n++] = (struct request){0};
            is_open = true;
        }
        if (is_open)
            is_open = !submit(s.n - 1, until_s);
        pause_s(0.02 + 0.1 * rng_unit(&s.rng));
    }
}

/* --- faults --------------------------------------------------------------- */

static void kill_one(enum victim victim)
{
    if (victim == CTLD && getenv("FIRN_SLURM_CRASHES") == NULL &&
        rng_below(&s.rng, 3) == 0) { /* it forgets nothing, and is silent */
        s.is_ctld_stopped = slurmbed_signal(&s.bed, SIGSTOP);
        s.nkills[CTLD]--;
        s.nstops++;
        return;
    }
    if (victim == CTLD) { /* what it forgot may be ended at any time later */
        s.deaths[s.ndeaths++] = (struct tickledger_death){"", 0, INFINITY};
        assert_int_equal(slurmbed_tell(&s.bed, "kill", "ctld", NULL), 0);
    } else if (victim == NODE)
        kill_node();
    else
        kill_firnd();
    s.is_ctld_dead |= victim == CTLD;
}

/* The administrator tells Slurm that the node is dead, before it finds out. */
static void give_up(const char *name)
{
    char text[160];
    const char *argv[] = {"sh", "-c", text, NULL};
    snprintf(text, sizeof text,
             "timeout 15 scontrol update NodeName=%s State=DOWN Reason=dead",
             name);
    slurmbed_run(&s.bed, argv);
}

static void start_one(enum victim victim)
{
    char name[8];
    if (victim == CTLD && s.is_ctld_dead) {
        assert_int_equal(slurmbed_tell(&s.bed, "start", "ctld", NULL), 0);
        s.is_ctld_dead = false;
    } else if (victim == NODE && s.node >= 0) {
        snprintf(name, sizeof name, "n%d", s.node % NODES);
        if (!s.is_ctld_dead && rng_below(&s.rng, 2) == 0)
            give_up(name);
        assert_int_equal(slurmbed_tell(&s.bed, "start", name, NULL), 0);
        s.node = -1;
    } else if (victim == FIRND && s.pid == 0) {
        begin_life();
    }
}

/* A controller that forgot jobs gives their numbers out again, and drains the
 * nodes that still know them; a person looks at such nodes and takes them back.
 */
static void mend(void)
{
    const char *argv[] = {"sh", "-c",
                          "for n in $(timeout 15 sinfo -h -N -t drain -o %N | "
                          "sort -u); do timeout 15 scontrol update "
                          "NodeName=$n State=RESUME; done",
                          NULL};
    slurmbed_run(&s.bed, argv);
}

static void round_of_faults(void)
{
    static const enum victim all[] = {CTLD, NODE, FIRND};
    const char *only = getenv("FIRN_VICTIMS");
    unsigned victims = 1 + (unsigned)rng_below(&s.rng, 7);
    if (getenv("FIRN_SLURM_CRASHES") != NULL)
        victims |= CTLD;
    if (only != NULL)
        victims &= (unsigned)strtoul(only, NULL, 10);
    int first = (int)rng_below(&s.rng, 3);
    load_for(0.4 + 1.6 * rng_unit(&s.rng));
    for (int i = 0; i < 3; i++)
        if ((victims & (unsigned)all[(first + i) % 3]) != 0) {
            s.nkills[all[(first + i) % 3]]++;
            kill_one(all[(first + i) % 3]);
            pause_s(fmax(0, 0.6 * rng_unit(&s.rng) - 0.3));
        }
    bool is_long = s.is_ctld_stopped && getenv("FIRN_SOAK") != NULL &&
                   rng_below(&s.rng, 10) == 0;
    load_for(is_long ? 60 : 2 * rng_unit(&s.rng));
    if (s.is_ctld_stopped)
        slurmbed_signal(&s.bed, SIGCONT);
    s.is_ctld_stopped = false;
    first = (int)rng_below(&s.rng, 3);
    for (int i = 0; i < 3; i++)
        start_one(all[(first + i) % 3]);
    wait_ready();
    mend();
}

/* --- the end -------------------------------------------------------------- */

static void drain(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    while (s.n > 0 && s.all[s.n - 1].job == 0 && clock_elapsed_s() < until_s)
        submit(s.n - 1, until_s);
    while (unended(until_s) > 0) {
        check_alive();
        if (clock_elapsed_s() < until_s) {
            mend();
            pause_s(0.5);
            continue;
        }
        for (int i = 0; i < s.n; i++)
            if (!s.all[i].is_done)
                print_error("job %ld is not done\n", s.all[i].job);
        fail_msg("%d of %d jobs do not end", unended(until_s), s.n);
    }
}

static size_t check_ledger(void)
{
    char said[300], state[PATH];
    path_of(state, "state");
    size_t nlines = 0;
    struct tickledger ledger = {.folder = s.work,
                                .state = state,
                                .known = s.of_job,
                                .njobs = REQUESTS,
                                .deaths = s.deaths,
                                .ndeaths = (size_t)s.ndeaths};
    if (!tickledger_is_good(&ledger, &nlines, said))
        fail_msg("%s", said);
    return nlines;
}

/* No process is left when firnd is gone. */
static void check_processes(void)
{
    const char *queue[] = {"sh", "-c",
                           "test -z \"$(timeout 20 squeue -h -o %i)\"", NULL};
    char state[PATH];
    double until_s = clock_elapsed_s() + LONGEST_S;
    path_of(state, "state");
    kill_firnd();
    while (slurmbed_run(&s.bed, queue) != 0 || oncejob_processes(s.work) > 0 ||
           oncejob_processes(state) > 0) {
        if (clock_elapsed_s() > until_s)
            fail_msg("%d processes are left, or jobs in Slurm's queue",
                     oncejob_processes(s.work) + oncejob_processes(state));
        pause_s(0.2);
    }
}

/* --- cases ---------------------------------------------------------------- */

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR"), *firn = getenv("FIRN");
    char token[PATH];
    snprintf(s.folder, sizeof s.folder, "%.75s/firn-slurm-XXXXXX",
             tmp != NULL ? tmp : "/tmp");
    if (firn != NULL)
        snprintf(s.firnd, sizeof s.firnd, "%.180sd", firn);
    if (mkdtemp(s.folder) == NULL)
        return 1;
    path_of(s.work, "work");
    path_of(s.bed.log, "err");
    path_of(token, "token");
    s.node = -1;
    s.is_good = false;
    int fd = open(token, O_WRONLY | O_CREAT, 0600);
    bool is_written = write(fd, "0123456789abcdef01234567\n", 25) == 25;
    close(fd);
    return !is_written || mkdir(s.work, 0700) != 0;
}

/* After a failure all is gone too, but the log is shown. */
static int remove_folder(void **state)
{
    (void)state;
    if (s.pid != 0) {
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
    }
    s.pid = 0;
    slurmbed_down(&s.bed);
    if (!s.is_good) {
        char path[PATH], line[300];
        path_of(path, "err");
        FILE *f = fopen(path, "r");
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            print_error("%s", line);
        if (f != NULL)
            fclose(f);
    }
    if (!s.is_good && getenv("FIRN_KEEP") != NULL)
        return 0;
    return oncejob_remove(s.folder);
}

static void
no_job_is_lost_or_doubled_when_slurm_and_firnd_are_killed(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED");
    const char *number = getenv("FIRN_SLURM_CRASHES");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    int n = number != NULL                 ? (int)strtol(number, NULL, 10)
            : getenv("FIRN_SOAK") != NULL  ? 200
            : getenv("FIRN_QUICK") != NULL ? 2
                                           : 5;
    if (access(s.firnd, X_OK) != 0 || !slurmbed_is_possible(&s.bed)) {
        print_message("# Slurm or firnd is not here\n");
        s.is_good = true;
        skip();
    }
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&s.rng, seed);
    double began_s = clock_elapsed_s();
    assert_true(slurmbed_up(&s.bed, NODES));
    begin_life();
    wait_ready();
    for (int i = 0; i < n; i++)
        round_of_faults();
    drain();
    size_t nlines = check_ledger();
    check_processes();
    print_message("# %d rounds: slurmctld killed %d times and stopped %d, a "
                  "node killed %d, firnd %d; %d jobs, %zu lines in their "
                  "ledger, %.1f s in all\n",
                  n, s.nkills[CTLD], s.nstops, s.nkills[NODE], s.nkills[FIRND],
                  s.n, nlines, clock_elapsed_s() - began_s);
    /* What is lost, doubled or on a GPU of another has failed above. */
    print_message("# figures: slurmctld %d %d %d 0 0 %.3f %.1f\n",
                  s.nkills[CTLD], s.n, s.n - s.ndone, s.ready_most_s,
                  clock_elapsed_s() - began_s);
    s.is_good = true;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(
            no_job_is_lost_or_doubled_when_slurm_and_firnd_are_killed,
            make_folder, remove_folder),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return tickjob_work(argv[2], (int)strtol(argv[3], NULL, 10));
    if (realpath(argv[0], s.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, NULL, NULL);
}
