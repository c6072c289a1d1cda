/* test_clients.c - many clients, many faults at once, and one history.
 *
 * Several processes talk to firnd by its socket: they submit, submit again
 * under the same key, hold, release, cancel, change priorities, show and list,
 * and write down each request with its times and its answer. Meanwhile firnd is
 * killed and started again, stopped and continued, its disk is full, syncs are
 * slow, and the time of day jumps; several of these at once. At the end of a
 * round all faults are gone, firnd is started once more, and every job is asked
 * for once more.
 *
 * While the disk is full changes may wait in firnd's memory, and what is shown
 * may be lost with it. So looks at a firnd whose disk was full say nothing;
 * acknowledged changes count all the same.
 *
 * Checked of each round:
 * (1) some order explains the history of each job (lib/history.h): nothing that
 *     was acknowledged is lost, undone, or happened before it was asked for; a
 *     request that firnd refused had no effect;
 * (2) by the jobs' own ledger none began twice, ran beside itself, or shared a
 *     GPU (lib/oncejob.h);
 * (3) firnd never ends by itself, on a full disk neither;
 * (4) all jobs can be cancelled then, and no process is left.
 *
 * Cost: about 5 s a round; one round, 60 in a soak, FIRN_ROUNDS where that is
 * set. FIRN_SEED repeats the choices of the nemesis and the clients, though not
 * their order.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/rng.h"
#include "lib/firndbed.h"
#include "lib/history.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    CLIENTS = 6,
    KEYS = 400,
    OPS = 40000,
    EACH = HISTORY_MOST - 10, /* operations of a job; some come at the end */
    LIVING = 12,              /* jobs that are worked on at a time */
    PAGE = 6,                 /* jobs of a list */
    LONGEST_S = 120
};

/* What the processes share. */
struct shared {
    _Atomic int nops, nkeys, is_stopped;
    _Atomic int was_full;   /* in this life of firnd */
    _Atomic long ids[KEYS]; /* 0: not known */
    _Atomic int nof[KEYS];  /* operations */
    struct history_op ops[OPS];
};

static struct {
    struct firndbed bed;
    struct shared *shared;
    struct rng rng;
    struct oncejob_ledger ledger;
    pid_t clients[CLIENTS];
    int nkills, nstops, nfull, njumps, nslow;
    bool is_good;
} s = {.bed = {.gpus = "1x3:v100@16", .policy = "fifo"}};

static struct history_rule rule_of(int key)
{
    return (struct history_rule){.is_endless = key % 3 == 0};
}

/* --- a client ------------------------------------------------------------ */

/* A place in the history; NULL: it is full. */
static struct history_op *begin_op(int key, enum history_what what, int value)
{
    int i = atomic_fetch_add(&s.shared->nops, 1);
    if (i >= OPS)
        return NULL;
    struct history_op *op = &s.shared->ops[i];
    *op = (struct history_op){
        .key = key, .what = what, .value = value, .from_s = clock_elapsed_s()};
    s.shared->nof[key]++;
    return op;
}

static bool read_seen(const char *reply, struct history_seen *out)
{
    static const struct {
        const char *name;
        enum history_phase phase;
    } states[] = {{"pending", HISTORY_PENDING},
                  {"succeeded", HISTORY_SUCCEEDED},
                  {"failed", HISTORY_FAILED},
                  {"lost", HISTORY_FAILED},
                  {"cancelled", HISTORY_CANCELLED}};
    char id[64], state[64], held[64], ending[64], priority[64], attempt[64];
    if (!firndbed_field(reply, "id", id) ||
        !firndbed_field(reply, "state", state) ||
        !firndbed_field(reply, "held", held) ||
        !firndbed_field(reply, "ending", ending) ||
        !firndbed_field(reply, "priority", priority) ||
        !firndbed_field(reply, "attempt", attempt))
        return false;
    *out = (struct history_seen){.id = strtol(id, NULL, 10),
                                 .attempt = strtol(attempt, NULL, 10),
                                 .phase = HISTORY_ACTIVE,
                                 .is_starting = strcmp(state, "starting") == 0,
                                 .is_held = strcmp(held, "true") == 0,
                                 .is_ending = strcmp(ending, "true") == 0,
                                 .priority = (int)strtol(priority, NULL, 10)};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(states[i].name, state) == 0)
            out->phase = states[i].phase;
    return true;
}

static void end_op(struct history_op *op, int status, const char *reply)
{
    enum history_result result = HISTORY_UNKNOWN;
    op->to_s = clock_elapsed_s();
    if ((status == 200 || status == 201) && read_seen(reply, &op->seen))
        result = HISTORY_OK;
    else if (status == 404)
        result = HISTORY_ABSENT;
    else if (status == 409 && strstr(reply, "\"over\"") != NULL)
        result = HISTORY_OVER;
    else if (status == 500 || askfirnd_end() == ASKFIRND_UNSENT)
        result = HISTORY_REFUSED; /* "nothing of the request has happened" */
    else if (askfirnd_end() != ASKFIRND_CUT)
        op->to_s = INFINITY; /* it may happen yet */
    bool is_look = (result == HISTORY_OK && op->what == HISTORY_SHOW) ||
                   result == HISTORY_OVER || result == HISTORY_ABSENT;
    op->result = is_look && s.shared->was_full ? HISTORY_REFUSED : result;
}

static void submit(int key, double until_s)
{
    char name[20], reply[ASKFIRND_TEXT];
    struct history_op *op = begin_op(key, HISTORY_SUBMIT, 0);
    snprintf(name, sizeof name, "k%d", key);
    if (op == NULL)
        return;
    long id = firndbed_submit(&s.bed, name,
                              rule_of(key).is_endless ? 600 : 0.01 * (key % 7),
                              "gpus: 1\n", until_s, reply);
    end_op(op, (int)strtol(reply + 9 * (strlen(reply) > 9), NULL, 10), reply);
    if (op->result == HISTORY_OK && id > 0)
        s.shared->ids[key] = id;
}

static void ask(int key, enum history_what what, int value, double until_s)
{
    static const char *const verbs[] = {[HISTORY_HOLD] = "/hold",
                                        [HISTORY_RELEASE] = "/release",
                                        [HISTORY_CANCEL] = "/cancel",
                                        [HISTORY_PRIORITY] = "",
                                        [HISTORY_SHOW] = ""};
    char target[60], body[40] = "", reply[ASKFIRND_TEXT];
    struct history_op *op = begin_op(key, what, value);
    if (op == NULL)
        return;
    snprintf(target, sizeof target, "/jobs/%ld%s", s.shared->ids[key],
             verbs[what]);
    if (what == HISTORY_PRIORITY)
        snprintf(body, sizeof body, "{\"priority\": %d}", value);
    int status =
        what == HISTORY_SHOW
            ? firndbed_get(&s.bed, target, until_s, reply)
            : firndbed_send(&s.bed, what == HISTORY_PRIORITY ? "PATCH" : "POST",
                            target, body, until_s, reply);
    end_op(op, status, reply);
}

/* A page of the list is a look at each of its jobs, at the same time. */
static void list(int key, double until_s)
{
    char target[60], reply[ASKFIRND_TEXT], name[64];
    double from_s = clock_elapsed_s();
    snprintf(target, sizeof target, "/jobs?limit=%d&after=%ld", PAGE,
             s.shared->ids[key] - 1);
    if (firndbed_get(&s.bed, target, until_s, reply) != 200 ||
        s.shared->was_full)
        return;
    double to_s = clock_elapsed_s();
    for (char *at = reply; (at = strstr(at, "{\"id\": ")) != NULL;) {
        char *end = strstr(at + 1, "{\"id\": ");
        if (end != NULL)
            end[-1] = '\0';
        struct history_seen seen;
        if (read_seen(at, &seen) && firndbed_field(at, "name", name)) {
            int listed = (int)strtol(name + 1, NULL, 10);
            struct history_op *op =
                listed < KEYS && s.shared->nof[listed] < EACH
                    ? begin_op(listed, HISTORY_SHOW, 0)
                    : NULL;
            if (op != NULL) {
                op->from_s = from_s;
                op->to_s = to_s;
                op->seen = seen;
                op->result = HISTORY_OK;
            }
        }
        at = end != NULL ? end : at + 1;
    }
}

/* One of the newest jobs; -1: none is known. */
static int pick(struct rng *rng)
{
    int n = s.shared->nkeys;
    for (int tries = 0; tries < 30 && n > 0; tries++) {
        int key = n - 1 - (int)rng_below(rng, LIVING);
        if (key >= 0 && s.shared->nof[key] < EACH && s.shared->ids[key] != 0)
            return key;
    }
    return -1;
}

static void one_request(struct rng *rng)
{
    double until_s = clock_elapsed_s() + 1.5;
    int key = pick(rng), what = (int)rng_below(rng, 16);
    if (key < 0 || what == 0) { /* a new one, or one again */
        int n = s.shared->nkeys;
        bool is_open = n > 0 && n <= KEYS && s.shared->ids[n - 1] == 0;
        bool is_again = n > 0 && rng_below(rng, is_open ? 16 : 2) > 0;
        key = is_again ? n - 1 - (int)rng_below(rng, is_open ? 1 : LIVING)
                       : atomic_fetch_add(&s.shared->nkeys, 1);
        if (key >= KEYS)
            s.shared->nkeys = KEYS;
        if (key >= 0 && key < KEYS && s.shared->nof[key] < EACH)
            submit(key, until_s);
    } else if (what <= 2)
        ask(key, HISTORY_HOLD, 0, until_s);
    else if (what <= 5)
        ask(key, HISTORY_RELEASE, 0, until_s);
    else if (what == 6)
        ask(key, HISTORY_CANCEL, 0, until_s);
    else if (what <= 9)
        ask(key, HISTORY_PRIORITY, 10 * (int)rng_below(rng, 4), until_s);
    else if (what == 10)
        list(key, until_s);
    else
        ask(key, HISTORY_SHOW, 0, until_s);
}

static void be_client(uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    while (!s.shared->is_stopped) {
        one_request(&rng);
        firndbed_pause_s(0.01 * rng_unit(&rng));
    }
    _exit(0);
}

/* --- the nemesis --------------------------------------------------------- */

/* (3) */
static void keep_alive(void)
{
    int status = 0;
    bool had = s.bed.pid != 0;
    if (!firndbed_has_ended(&s.bed, &status))
        return;
    if (had)
        fail_msg("firnd ended by itself, status %d", status);
    s.shared->was_full = s.bed.plan->is_disk_full;
    assert_true(firndbed_begin(&s.bed, NULL));
}

static void strike(void)
{
    static const long clocks[] = {0, 86400, -86400, 3600};
    static const long syncs_us[] = {0, 0, 5000, 40000};
    struct faultplan *plan = s.bed.plan;
    switch (rng_below(&s.rng, 6)) {
    case 0:
        s.nkills += firndbed_kill(&s.bed, NULL);
        break;
    case 1:
        s.shared->was_full = 1;
        plan->is_disk_full = !plan->is_disk_full;
        s.nfull += plan->is_disk_full;
        break;
    case 2:
        plan->clock_s = clocks[rng_below(&s.rng, 4)];
        s.njumps++;
        break;
    case 3:
        plan->sync_us = syncs_us[rng_below(&s.rng, 4)];
        s.nslow += plan->sync_us > 0;
        break;
    case 4:
        kill(s.bed.pid, SIGSTOP);
        firndbed_pause_s(0.1 * rng_unit(&s.rng));
        kill(s.bed.pid, SIGCONT);
        s.nstops++;
        break;
    default:
        plan->is_disk_full = 0;
    }
}

static void harass(double time_s)
{
    double until_s = clock_elapsed_s() + time_s;
    while (clock_elapsed_s() < until_s) {
        keep_alive();
        firndbed_pause_s(0.12 * rng_unit(&s.rng));
        keep_alive();
        strike();
    }
    faultplan_stop(s.bed.plan);
    s.shared->is_stopped = 1;
    for (int i = 0; i < CLIENTS; i++) {
        keep_alive();
        waitpid(s.clients[i], NULL, 0);
    }
}

/* --- the end of a round -------------------------------------------------- */

static void look_at_all(void)
{
    double until_s = clock_elapsed_s() + LONGEST_S;
    firndbed_kill(&s.bed, NULL);
    s.shared->was_full = 0;
    assert_true(firndbed_begin(&s.bed, NULL));
    if (!firndbed_is_ready(&s.bed, LONGEST_S))
        fail_msg("firnd does not come up any more");
    for (int key = 0; key < s.shared->nkeys && key < KEYS; key++) {
        if (s.shared->ids[key] == 0 && s.shared->nof[key] > 0)
            submit(key, until_s);
        if (s.shared->ids[key] != 0)
            ask(key, HISTORY_SHOW, 0, until_s);
    }
}

/* (4) */
static void end_all(void)
{
    char reply[ASKFIRND_TEXT], target[60];
    double until_s = clock_elapsed_s() + LONGEST_S;
    for (int key = 0; key < s.shared->nkeys && key < KEYS; key++) {
        snprintf(target, sizeof target, "/jobs/%ld/cancel", s.shared->ids[key]);
        if (s.shared->ids[key] != 0)
            firndbed_send(&s.bed, "POST", target, "", until_s, reply);
    }
    for (;;) {
        bool is_known = firndbed_get(&s.bed,
                                     "/jobs?state=pending,starting,"
                                     "running,completing",
                                     until_s, reply) == 200;
        if (is_known && strstr(reply, "{\"id\"") == NULL)
            break;
        if (clock_elapsed_s() > until_s)
            fail_msg("cancelled jobs do not end: %s", reply);
        firndbed_pause_s(0.01);
    }
    firndbed_kill(&s.bed, NULL);
    for (; oncejob_processes(s.bed.folder) > 0; firndbed_pause_s(0.01))
        if (clock_elapsed_s() > until_s)
            fail_msg("%d processes are left", oncejob_processes(s.bed.folder));
}

/* All that was asked of the job that the checker names. */
static void show_history(const char *said, size_t n)
{
    int key;
    char line[200];
    if (sscanf(said, "job %d", &key) != 1)
        return;
    for (size_t i = 0; i < n; i++)
        if (s.shared->ops[i].key == key) {
            history_say(&s.shared->ops[i], line);
            print_error("%s\n", line);
        }
}

/* (1), (2) */
static size_t check(void)
{
    char said[HISTORY_SAID];
    struct history_rule rules[KEYS];
    size_t n = (size_t)s.shared->nops;
    for (int key = 0; key < KEYS; key++)
        rules[key] = rule_of(key);
    if (n > OPS)
        n = OPS;
    if (!history_is_good(s.shared->ops, n, rules, KEYS, said)) {
        show_history(said, n);
        fail_msg("%s", said);
    }
    memset(&s.ledger, 0, sizeof s.ledger);
    oncejob_read(&s.ledger, s.bed.folder);
    for (long id = 0; id < ONCEJOB_MAX; id++) {
        const struct oncejob_tally *t = &s.ledger.jobs[id];
        if (t->nbegun > 1 || t->ntwice > 0)
            fail_msg("job %ld began %d times, %d beside another", id, t->nbegun,
                     t->ntwice);
    }
    return n;
}

static size_t play_round(double time_s)
{
    memset(s.shared, 0, sizeof *s.shared);
    if (!firndbed_make(&s.bed, "clients", true))
        fail_msg("no folder");
    assert_true(firndbed_begin(&s.bed, NULL));
    assert_true(firndbed_is_ready(&s.bed, LONGEST_S));
    for (int i = 0; i < CLIENTS; i++) {
        uint64_t seed = rng_u64(&s.rng);
        s.clients[i] = fork();
        assert_true(s.clients[i] >= 0);
        if (s.clients[i] == 0)
            be_client(seed);
    }
    harass(time_s);
    look_at_all();
    end_all();
    size_t n = check();
    assert_int_equal(firndbed_remove(&s.bed), 0);
    return n;
}

/* --- cases --------------------------------------------------------------- */

static int remove_bed(void **state)
{
    (void)state;
    if (s.shared != NULL)
        s.shared->is_stopped = 1;
    if (!s.is_good && s.bed.folder[0] != '\0')
        firndbed_show_log(&s.bed);
    for (int i = 0; i < CLIENTS; i++)
        if (s.clients[i] > 0)
            waitpid(s.clients[i], NULL, 0);
    return firndbed_remove(&s.bed);
}

static void
some_order_of_requests_explains_all_answers_under_faults(void **state)
{
    (void)state;
    const char *said = getenv("FIRN_SEED"), *number = getenv("FIRN_ROUNDS");
    uint64_t seed =
        said != NULL ? strtoull(said, NULL, 10) : (uint64_t)time(NULL);
    int n = number != NULL                ? (int)strtol(number, NULL, 10)
            : getenv("FIRN_SOAK") != NULL ? 60
                                          : 1;
    size_t nops = 0;
    if (getenv("FIRN_QUICK") != NULL || !firndbed_make(&s.bed, "clients", true))
        skip();
    firndbed_remove(&s.bed);
    print_message("# seed %llu\n", (unsigned long long)seed);
    rng_seed(&s.rng, seed);
    s.shared = mmap(NULL, sizeof *s.shared, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s.shared != MAP_FAILED);
    for (int i = 0; i < n; i++)
        nops += play_round(n == 1 ? 3 : 6);
    print_message("# %d rounds, %zu requests: %d kills, %d stops, %d times a "
                  "full disk, %d slow, %d jumps of the clock\n",
                  n, nops, s.nkills, s.nstops, s.nfull, s.nslow, s.njumps);
    s.is_good = true;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(
            some_order_of_requests_explains_all_answers_under_faults,
            remove_bed),
    };
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return oncejob_work(argv[2], strtod(argv[3], NULL));
    if (realpath(argv[0], s.bed.self) == NULL)
        return 1;
    return cmocka_run_group_tests(cases, NULL, NULL);
}
