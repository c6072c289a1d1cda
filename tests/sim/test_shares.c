/* test_shares.c - shares and quotas over simulated weeks, under every policy.
 *
 * The jobs' file says what each job held; the usage file says what each user
 * was charged; the log says when jobs got and lost GPUs. The three are written
 * by different code and must agree. In `make soak` (FIRN_SOAK=1) they are
 * six weeks, with four seeds and nodes that fail.
 */
#include "base/buf.h"
#include "base/rng.h"
#include "lib/play.h"
#include <firn/policy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char heads[] = "#firn-trace 1\n"
                            "name,submit_s,gpus,duration_s,group\n";

struct lab {
    struct play play;
    char shares[PLAY_PATH], usage[PLAY_PATH];
};

static void lab_open(struct lab *lab, const char *spec, const char *rows,
                     const char *shares)
{
    play_open(&lab->play, spec, rows);
    snprintf(lab->shares, sizeof lab->shares, "%s/shares.yaml",
             lab->play.folder);
    snprintf(lab->usage, sizeof lab->usage, "%s/usage.csv", lab->play.folder);
    play_write(lab->shares, shares);
    lab->play.options.accounts = lab->shares;
    lab->play.options.usage_path = lab->usage;
}

static void lab_close(struct lab *lab)
{
    remove(lab->shares);
    remove(lab->usage);
    play_close(&lab->play);
}

/* GPU-hours of a user; of all for NULL. */
static double used_h(const struct lab *lab, const char *user)
{
    struct firn_buf text = play_read(lab->usage);
    double sum = 0;
    char *save = NULL;
    for (char *line = strtok_r(text.at, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char project[64], name[64];
        double a, b, hours;
        if (sscanf(line, "%63[^,],%63[^,],%lf,%lf,%lf", project, name, &a, &b,
                   &hours) == 5 &&
            (user == NULL || strcmp(user, name) == 0))
            sum += hours;
    }
    buf_release(&text);
    return sum;
}

/* GPU-hours that jobs whose names begin so held. */
static double held_h(const struct lab *lab, const char *prefix)
{
    double sum = 0;
    for (size_t i = 0; i < lab->play.done.n; i++)
        if (strncmp(lab->play.done.at[i].name, prefix, strlen(prefix)) == 0)
            sum += lab->play.done.at[i].served_gpu_s;
    return sum / 3600;
}

/* Jobs with that prefix that ended before `at_s`. */
static int ended(const struct lab *lab, const char *prefix, double at_s)
{
    int n = 0;
    for (size_t i = 0; i < lab->play.done.n; i++)
        n += strncmp(lab->play.done.at[i].name, prefix, strlen(prefix)) == 0 &&
             lab->play.done.at[i].end_s <= at_s;
    return n;
}

static double last_end_s(const struct lab *lab, const char *prefix)
{
    double last_s = 0;
    for (size_t i = 0; i < lab->play.done.n; i++)
        if (strncmp(lab->play.done.at[i].name, prefix, strlen(prefix)) == 0)
            last_s = fmax(last_s, lab->play.done.at[i].end_s);
    return last_s;
}

/* --- the log, added up ------------------------------------------------------
 */

enum { MOST_JOBS = 4096, NUSERS = 5, WEEK_S = 7 * 86400 };
static const char *const users[NUSERS] = {"ann", "bob", "cyd", "dan", "eve"};

struct ledger {
    int user[MOST_JOBS];   /* of each job */
    int gpus[MOST_JOBS];   /* that it holds */
    int held[NUSERS];      /* GPUs at present */
    int most[NUSERS];      /* at one time */
    double week_h[NUSERS]; /* GPU-hours of this week */
    double most_h[NUSERS]; /* of the fullest week */
    double total_h[NUSERS];
    double at_s;
};

/* "n0[4] n1[4,6-7]" are four GPUs. */
static int count_gpus(const char *text)
{
    int n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char *end = NULL;
        if (*at != '[' && *at != ',')
            continue;
        long first = strtol(at + 1, &end, 10);
        n += 1 + (*end == '-' ? (int)(strtol(end + 1, NULL, 10) - first) : 0);
    }
    return n;
}

/* Time passes, week by week. */
static void pass(struct ledger *l, double until_s)
{
    while (l->at_s < until_s) {
        double end_s = (floor(l->at_s / WEEK_S) + 1) * WEEK_S;
        double to_s = end_s < until_s ? end_s : until_s;
        for (int u = 0; u < NUSERS; u++) {
            double hours = l->held[u] * (to_s - l->at_s) / 3600;
            l->total_h[u] += hours;
            l->week_h[u] += hours;
            l->most_h[u] = fmax(l->most_h[u], l->week_h[u]);
            l->week_h[u] = to_s == end_s ? 0 : l->week_h[u];
        }
        l->at_s = to_s;
    }
}

/* A job holds this number of GPUs from now on. */
static void hold(struct ledger *l, int job, int gpus)
{
    int u = l->user[job];
    l->held[u] += gpus - l->gpus[job];
    l->gpus[job] = gpus;
    l->most[u] = l->held[u] > l->most[u] ? l->held[u] : l->most[u];
}

static void add_line(struct ledger *l, char *line)
{
    char *words[4] = {0}, *save = NULL;
    for (int i = 0; i < 4; i++)
        words[i] = strtok_r(i == 0 ? line : NULL, "\t", &save);
    if (words[2] == NULL || strspn(words[0], "0123456789.e+") == 0)
        return;
    int job = atoi(words[2]);
    if (strcmp(words[1], "submit") == 0 && words[3] != NULL) {
        assert_true(job >= 0 && job < MOST_JOBS);
        for (int u = 0; u < NUSERS; u++)
            if (strncmp(words[3] + 1, users[u], 3) == 0)
                l->user[job] = u;
        return;
    }
    pass(l, strtod(words[0], NULL));
    if (strcmp(words[1], "start") == 0 || strcmp(words[1], "move") == 0 ||
        strcmp(words[1], "resize") == 0)
        hold(l, job, count_gpus(words[3]));
    else if (strcmp(words[1], "stop") == 0 || strcmp(words[1], "done") == 0)
        hold(l, job, 0);
}

static void read_log(const struct lab *lab, struct ledger *l)
{
    struct firn_buf text = play_read(lab->play.log);
    char *save = NULL;
    *l = (struct ledger){0};
    for (char *line = strtok_r(text.at, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save))
        add_line(l, line);
    buf_release(&text);
}

/* --- weeks under every policy --------------------------------------------- */

static void add_weeks(struct firn_buf *rows, int njobs, uint64_t seed)
{
    struct rng rng;
    double at_s = 0;
    rng_seed(&rng, seed);
    buf_puts(rows, heads);
    for (int i = 0; i < njobs; i++) {
        const char *user = users[rng_below(&rng, NUSERS)];
        at_s += (double)rng_below(&rng, 18000);
        buf_printf(rows, "%s%d,%.0f,%d,%d,%s\n", user, i, at_s,
                   1 << rng_below(&rng, 3), 600 + (int)rng_below(&rng, 60000),
                   user);
    }
}

static const char lab_shares[] = "half-life: 3d\n"
                                 "window: 7d\n"
                                 "projects:\n"
                                 "  - name: vision\n"
                                 "    share: 3\n"
                                 "    members: ann, bob\n"
                                 "  - name: speech\n"
                                 "    gpus: 6\n"
                                 "    members: cyd\n"
                                 "users:\n"
                                 "  - name: bob\n"
                                 "    share: 2\n"
                                 "    gpu-hours: 150\n"
                                 "  - name: dan\n"
                                 "    gpus: 4\n"
                                 "    borrow: no\n"
                                 "  - name: eve\n"
                                 "    gpu-hours: 60\n"
                                 "    borrow: no\n";

/* Each user is charged what the user's jobs held, by the jobs' file and by the
 * log, and no hard quota is exceeded at any time or in any week. */
static void check_charges(const struct lab *lab, const char *policy)
{
    static struct ledger ledger;
    double all_h = used_h(lab, NULL);
    read_log(lab, &ledger);
    for (int u = 0; u < NUSERS; u++) {
        double charged_h = used_h(lab, users[u]);
        if (fabs(charged_h - held_h(lab, users[u])) > 1e-6 * all_h ||
            fabs(charged_h - ledger.total_h[u]) > 1e-6 * all_h)
            fail_msg("%s: %s is charged %.9g GPU-hours, its jobs held %.9g, "
                     "the log has %.9g",
                     policy, users[u], charged_h, held_h(lab, users[u]),
                     ledger.total_h[u]);
    }
    if (ledger.most[3] > 4)
        fail_msg("%s: dan holds %d GPUs, of 4", policy, ledger.most[3]);
    if (ledger.most_h[4] > 60.001)
        fail_msg("%s: eve has %.6g GPU-hours in a week, of 60", policy,
                 ledger.most_h[4]);
    if (!(ledger.most_h[4] > 59)) /* else this tests nothing */
        fail_msg("%s: eve has only %.6g GPU-hours", policy, ledger.most_h[4]);
}

static void under_every_policy_what_was_used_is_what_was_charged(void **unused)
{
    (void)unused;
    bool is_soak = getenv("FIRN_SOAK") != NULL;
    int njobs = is_soak ? 400 : 120;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    for (uint64_t seed = 7; seed < (is_soak ? 11 : 8); seed++) {
        struct firn_buf rows = {0};
        struct lab lab;
        add_weeks(&rows, njobs, seed);
        lab_open(&lab, "3x4:v100", rows.at, lab_shares);
        lab.play.options.restart_s = 30;
        lab.play.options.mtbf_s = is_soak && seed % 2 == 0 ? 86400 : 0;
        lab.play.options.seed = seed;
        for (size_t i = 0; i < n; i++) {
            play_run(&lab.play, all[i]->name);
            assert_int_equal(lab.play.done.n, njobs);
            check_charges(&lab, all[i]->name);
        }
        lab_close(&lab);
        buf_release(&rows);
    }
}

/* --- shares --------------------------------------------------------------- */

/* Two users with `each` jobs of one hour at time 0. */
static void add_rivals(struct firn_buf *rows, int each, int gpus)
{
    buf_puts(rows, heads);
    for (int i = 0; i < each; i++)
        buf_printf(rows, "ann%d,0,%d,3600,ann\nbob%d,0,%d,3600,bob\n", i, gpus,
                   i, gpus);
}

static void gpu_time_follows_the_shares_under_every_policy(void **unused)
{
    (void)unused;
    struct firn_buf rows = {0};
    struct lab lab;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    add_rivals(&rows, 60, 1);
    lab_open(&lab, "2x4:v100", rows.at,
             "users:\n  - name: ann\n    share: 3\n  - name: bob\n");
    for (size_t i = 0; i < n; i++) {
        play_run(&lab.play, all[i]->name);
        double end_s = last_end_s(&lab, "ann");
        int bob = ended(&lab, "bob", end_s);
        if (bob < 16 || bob > 26) /* 20 by the shares */
            fail_msg("%s: when ann's 60 jobs are done, bob has %d",
                     all[i]->name, bob);
    }
    lab_close(&lab);
    buf_release(&rows);
}

/* Where jobs may be resized and may share GPUs, too. */
static void elastic_jobs_that_may_share_follow_the_shares(void **unused)
{
    (void)unused;
    struct firn_buf rows = {0};
    struct lab lab;
    size_t n;
    const struct firn_policy_def *const *all = firn_policies(&n);
    add_rivals(&rows, 30, 2);
    lab_open(&lab, "2x4:v100", rows.at,
             "users:\n  - name: ann\n    share: 3\n  - name: bob\n");
    lab.play.options.elastic_min = 1;
    lab.play.options.elastic_max = 8;
    lab.play.options.shares = true;
    for (size_t i = 0; i < n; i++) {
        play_run(&lab.play, all[i]->name);
        int bob = ended(&lab, "bob", last_end_s(&lab, "ann"));
        if (bob < 6 || bob > 15) /* 10 by the shares */
            fail_msg("%s: when ann's 30 jobs are done, bob has %d",
                     all[i]->name, bob);
    }
    lab_close(&lab);
    buf_release(&rows);
}

static void a_user_who_used_much_waits_behind_one_who_did_not(void **unused)
{
    (void)unused;
    struct lab lab;
    lab_open(&lab, "1x4:v100",
             "#firn-trace 1\n"
             "name,submit_s,gpus,duration_s,group\n"
             "ann0,0,4,86400,ann\n" /* a whole day of everything */
             "ann1,80000,4,3600,ann\nann2,80000,4,3600,ann\n"
             "bob1,80001,4,3600,bob\nbob2,80001,4,3600,bob\n",
             "users: []\n");
    play_run(&lab.play, "fifo");
    assert_true(play_end(&lab.play, "bob2") < play_end(&lab.play, "ann1"));
    lab.play.options.accounts = NULL;
    lab.play.options.usage_path = NULL;
    play_run(&lab.play, "fifo");
    assert_true(play_end(&lab.play, "bob2") > play_end(&lab.play, "ann1"));
    lab_close(&lab);
}

/* --- quotas --------------------------------------------------------------- */

static void a_hard_quota_of_gpus_is_never_exceeded(void **unused)
{
    (void)unused;
    struct lab lab;
    lab_open(&lab, "1x4:v100",
             "#firn-trace 1\n"
             "name,submit_s,gpus,duration_s,group\n"
             "a,0,1,100,ann\nb,0,1,100,ann\nc,0,1,100,ann\nd,0,1,100,ann\n",
             "users:\n  - name: ann\n    gpus: 2\n    borrow: no\n");
    play_run(&lab.play, "fifo");
    assert_true(play_near(play_end(&lab.play, "b"), 100));
    assert_true(play_near(play_end(&lab.play, "d"), 200));
    lab_close(&lab);
}

static void idle_gpus_are_lent_and_taken_back(void **unused)
{
    (void)unused;
    struct lab lab;
    lab_open(&lab, "1x4:v100",
             "#firn-trace 1\n"
             "name,submit_s,gpus,duration_s,group\n"
             "a,0,2,1000,ann\nb,0,2,1000,ann\nc,500,2,100,bob\n",
             "users:\n  - name: ann\n    gpus: 2\n");
    play_run(&lab.play, "fifo");
    /* b borrows from 0 to 500, gives way to c, and goes on at 600. */
    assert_true(play_near(play_end(&lab.play, "c"), 600));
    assert_true(play_near(play_end(&lab.play, "a"), 1000));
    assert_true(play_near(play_end(&lab.play, "b"), 1100));
    assert_int_equal(play_job(&lab.play, "b")->restarts, 1);
    lab_close(&lab);
}

static void gpu_hours_last_until_the_next_window(void **unused)
{
    (void)unused;
    struct lab lab;
    lab_open(&lab, "1x4:v100",
             "#firn-trace 1\n"
             "name,submit_s,gpus,duration_s,group\n"
             "a,0,1,7200,ann\nb,0,1,7200,ann\n",
             "window: 1d\nusers:\n  - name: ann\n    gpu-hours: 2\n"
             "    borrow: no\n");
    play_run(&lab.play, "fifo");
    /* Both run for an hour, which is the quota; the rest is of the next day. */
    assert_true(play_near(play_end(&lab.play, "a"), 86400 + 3600));
    assert_true(play_near(play_end(&lab.play, "b"), 86400 + 3600));
    lab_close(&lab);
}

static void wrong_files_are_refused_with_their_line(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *said;
    } wrongs[] = {
        {"users:\n  - name: ann\n    share: -1\n", "line 2: 'share' is '-1'"},
        {"projects:\n  - name: p\nusers:\n  - name: a\n    gpus: x\n",
         "line 4: 'gpus' is 'x'"},
        {"users:\n  - name: ann\n  - name: ann\n", "user 'ann' is listed"},
        {"users:\n  - name: ann\n    members: b\n", "a user has no members"},
        {"half-life: soon\n", "'half-life' is 'soon'"},
        {"- a\n", "a list, where"},
    };
    struct lab lab;
    lab_open(&lab, "1x4:v100", "a,0,1,10\n", "");
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        play_write(lab.shares, wrongs[i].text);
        assert_int_equal(play_try(&lab.play, "fifo"), FIRN_EINVAL);
        if (strstr(lab.play.err.text, wrongs[i].said) == NULL)
            fail_msg("the sentence is \"%s\"", lab.play.err.text);
    }
    lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_every_policy_what_was_used_is_what_was_charged),
        cmocka_unit_test(gpu_time_follows_the_shares_under_every_policy),
        cmocka_unit_test(elastic_jobs_that_may_share_follow_the_shares),
        cmocka_unit_test(a_user_who_used_much_waits_behind_one_who_did_not),
        cmocka_unit_test(a_hard_quota_of_gpus_is_never_exceeded),
        cmocka_unit_test(idle_gpus_are_lent_and_taken_back),
        cmocka_unit_test(gpu_hours_last_until_the_next_window),
        cmocka_unit_test(wrong_files_are_refused_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
