/* test_conserve.c - what must hold in every run, on random scenes.
 *
 * Random clusters, jobs, restart costs, checkpoints, failures from a file or
 * drawn, decision intervals and quanta, under every registered policy:
 *
 * (1) no job is lost: finished + unfinished + rejected + bad = rows;
 * (2) GPU-seconds given = useful + overhead + lost, and are the sum of what
 *     the jobs held;
 * (3) on one type useful GPU-seconds are the sum of gpus x duration, and a job
 *     takes at least its duration;
 * (4) the replay, which shares no code with core, accepts the log;
 * (5) the same run again gives the same bytes;
 * (6) the same jobs, shorter or on more nodes, still run.
 *
 * Seeds are printed; FIRN_SEED runs one of them alone.
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
#include <unistd.h>

static uint64_t seed;
static const char *policy;

#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what))                                                       \
            fail_msg("FIRN_SEED=%llu, policy %s, %s:%d: not so: %s",       \
                     (unsigned long long)seed, policy, __FILE__, __LINE__, \
                     #what);                                               \
    } while (0)

static const struct {
    const char *spec, *larger, *types; /* some types of it, or "" */
} clusters[] = {
    {"1x8:v100", "2x8:v100", ""},
    {"4x2:v100", "9x2:v100", ""},
    {"3x8:t4", "5x8:t4", "t4"},
    {"1x130:v100", "2x130:v100", ""},
    {"2x4:v100,2x4:a100", "4x4:v100,4x4:a100", "a100"},
    {"sia", "6x8:2080ti,4x8:a100@40,2x4:rtx6000", "a100|rtx6000"},
    {"3x1:v100,1x8:t4", "6x1:v100,3x8:t4", "t4"},
};

enum { NCLUSTERS = sizeof clusters / sizeof *clusters };

/* A scene before it is written to files. */
struct draft {
    int cluster, njobs;
    struct {
        double submit_s, duration_s, restart_s;
        int gpus;
        bool is_picky;
    } jobs[64];
};

static int below(struct rng *rng, int n)
{
    return (int)rng_below(rng, (uint64_t)n);
}

/* The GPUs of the largest type that is in the list; yarn-cs cannot run a job
 * that no single type can hold. */
static int largest(const struct firn_cluster *cluster, const char *list)
{
    int most = 0;
    for (int t = 0; t < cluster->ntypes; t++)
        if ((*list == '\0' || strstr(list, cluster->types[t].name)) &&
            cluster->types[t].ngpus > most)
            most = cluster->types[t].ngpus;
    return most;
}

static void draw_jobs(struct rng *rng, struct draft *d,
                      const struct firn_cluster *cluster)
{
    double gap_s = 1 + 40 * rng_unit(rng), at_s = 0;
    double mean_s = 5 + 100 * rng_unit(rng);
    bool is_whole = below(rng, 3) == 0;
    d->njobs = 1 + below(rng, 60);
    for (int i = 0; i < d->njobs; i++) {
        at_s += below(rng, 4) ? rng_exp(rng, gap_s) : 0;
        double duration_s = 0.001 + rng_exp(rng, mean_s);
        d->jobs[i].submit_s = is_whole ? ceil(at_s) : at_s;
        d->jobs[i].duration_s = is_whole ? ceil(duration_s) : duration_s;
        d->jobs[i].restart_s = below(rng, 4) ? -1 : below(rng, 20);
        d->jobs[i].is_picky = below(rng, 3) == 0;
        int gpus = largest(
            cluster, d->jobs[i].is_picky ? clusters[d->cluster].types : "");
        int most = below(rng, 5) ? (gpus + 3) / 4 : gpus;
        d->jobs[i].gpus = 1 + below(rng, most);
    }
}

/* The trace with durations times `factor`. */
static struct firn_buf rows_of(const struct draft *d, double factor)
{
    struct firn_buf out = {0};
    buf_puts(&out, "#firn-trace 1\n"
                   "name,submit_s,gpus,duration_s,types,restart_s\n");
    for (int i = 0; i < d->njobs; i++)
        buf_printf(&out, "j%d,%.17g,%d,%.17g,%s,%g\n", i, d->jobs[i].submit_s,
                   d->jobs[i].gpus, d->jobs[i].duration_s * factor,
                   d->jobs[i].is_picky ? clusters[d->cluster].types : "",
                   d->jobs[i].restart_s);
    return out;
}

/* Each node may go down for a while, one after the other. */
static void draw_outages(struct rng *rng, struct play *play)
{
    struct firn_buf rows = {0};
    double at_s = 0;
    buf_puts(&rows, "time_s,node,state\n");
    for (int i = 0; i < 10; i++) {
        int node = below(rng, play->cluster.nnodes);
        at_s += rng_exp(rng, 100);
        buf_printf(&rows, "%.17g,%d,down\n", at_s, node);
        at_s += rng_exp(rng, 50);
        buf_printf(&rows, "%.17g,%d,up\n", at_s, node);
    }
    play_failures(play, rows.at);
    buf_release(&rows);
}

static void draw_options(struct rng *rng, struct play *play)
{
    static const double intervals_s[] = {0, 0, 0, 7, 60};
    static const double quanta_s[] = {0, 0, 1, 2.5};
    struct firn_sim_options *o = &play->options;
    o->restart_s = below(rng, 3) ? 20 * rng_unit(rng) : 0;
    o->interval_s = intervals_s[below(rng, 5)];
    o->quantum_s = quanta_s[below(rng, 4)];
    o->charges_first_start = below(rng, 3) == 0;
    o->checkpoint_s = below(rng, 2) ? 1 + 30 * rng_unit(rng) : 0;
    o->seed = rng_u64(rng);
    switch (below(rng, 3)) {
    case 0:
        draw_outages(rng, play);
        break;
    case 1:
        o->mtbf_s = 500 + 3000 * rng_unit(rng);
        o->mttr_s = 1 + 100 * rng_unit(rng);
        break;
    default:
        break;
    }
}

static void check_sums(const struct play *play, const struct draft *d)
{
    const struct firn_sim_result *r = &play->result;
    double served = 0, jct_s = 0;
    long restarts = 0;
    for (size_t i = 0; i < play->done.n; i++) {
        const struct play_job *job = &play->done.at[i];
        served += job->served_gpu_s;
        jct_s += job->jct_s;
        restarts += job->restarts;
        CHECK(job->queue_s >= -1e-9 * job->end_s);
        CHECK(fabs(job->queue_s + job->held_s - job->jct_s) <=
              1e-9 * job->end_s);
        CHECK(job->first_start_s >= job->submit_s);
    }
    CHECK(r->jobs + r->unfinished + r->rejected + r->bad_rows == d->njobs);
    CHECK(r->unfinished == 0);
    CHECK((size_t)r->jobs == play->done.n);
    CHECK(play_near(r->gpu_s_given,
                    r->gpu_s_useful + r->gpu_s_overhead + r->gpu_s_lost));
    CHECK(play_near(r->gpu_s_given, served));
    CHECK(play_near(r->jct_mean_s, jct_s / (double)r->jobs));
    CHECK(r->restarts == restarts);
    CHECK(r->gpu_alloc_ratio > 0 && r->gpu_alloc_ratio <= 1 + 1e-9);
    CHECK(r->gpu_util_ratio <= r->gpu_alloc_ratio * (1 + 1e-9));
    CHECK(r->fragmentation >= 0 && r->fragmentation <= 1);
    CHECK(r->jct_p50_s <= r->jct_p90_s && r->jct_p99_s <= r->jct_max_s);
    CHECK(play->options.checkpoint_s > 0 || r->gpu_s_lost == 0);
    CHECK(r->failures > 0 || r->gpu_s_lost == 0);
}

/* Each job's own line, where the rate is always one: (3). */
static void check_work(const struct play *play, const struct draft *d)
{
    double work = 0, quantum_s = play->options.quantum_s;
    double useful = play->result.gpu_s_useful, most = 0;
    if (play->cluster.ntypes > 1)
        return;
    for (int i = 0; i < d->njobs; i++) {
        char name[16];
        snprintf(name, sizeof name, "j%d", i);
        double jct_s = play_job(play, name)->jct_s;
        double duration_s = d->jobs[i].duration_s;
        CHECK(jct_s >= duration_s * (1 - 1e-9) - 1e-9);
        work += d->jobs[i].gpus * duration_s;
        most += d->jobs[i].gpus * quantum_s;
    }
    CHECK(useful >= work * (1 - 1e-9));
    CHECK(useful <= (work + most) * (1 + 1e-9));
}

static void check_replay(const struct play *play)
{
    struct firn_sim_result again = {0};
    struct firn_error err = {0};
    if (firn_sim_replay(play->log, &again, &err) != FIRN_OK)
        fail_msg("FIRN_SEED=%llu, policy %s: the replay says: %s",
                 (unsigned long long)seed, policy, err.text);
    CHECK(again.jobs == play->result.jobs);
    CHECK(again.jct_mean_s == play->result.jct_mean_s);
}

static void run(struct play *play)
{
    if (play_try(play, policy) != FIRN_OK)
        fail_msg("FIRN_SEED=%llu, policy %s: %s", (unsigned long long)seed,
                 policy, play->err.text);
}

static void check_again(struct play *play)
{
    const char *const paths[] = {play->jobs, play->log, play->timeline};
    struct firn_buf before[3], first = {0}, second = {0};
    for (int i = 0; i < 3; i++)
        before[i] = play_read(paths[i]);
    firn_sim_print(&play->result, 1, FIRN_SIM_CSV, &first);
    run(play);
    firn_sim_print(&play->result, 1, FIRN_SIM_CSV, &second);
    CHECK(strcmp(first.at, second.at) == 0);
    buf_release(&first);
    buf_release(&second);
    for (int i = 0; i < 3; i++) {
        struct firn_buf after = play_read(paths[i]);
        CHECK(after.n == before[i].n);
        CHECK(memcmp(after.at, before[i].at, after.n) == 0);
        buf_release(&after);
        buf_release(&before[i]);
    }
}

static void check_easier(struct play *play, const struct draft *d)
{
    struct firn_error err = {0};
    struct firn_cluster small = play->cluster;
    struct firn_buf rows = rows_of(d, 0.5);
    play_write(play->trace, rows.at);
    run(play);
    CHECK(play->result.jobs == d->njobs - play->result.bad_rows);
    buf_release(&rows);
    rows = rows_of(d, 1);
    play_write(play->trace, rows.at);
    buf_release(&rows);
    CHECK(firn_cluster_open(&play->cluster, clusters[d->cluster].larger,
                            &err) == FIRN_OK);
    run(play);
    CHECK(play->result.jobs == d->njobs - play->result.bad_rows);
    firn_cluster_release(&play->cluster);
    play->cluster = small;
}

static void check_seed(void)
{
    size_t n;
    const struct firn_policy_def *const *policies = firn_policies(&n);
    struct rng rng;
    struct play play;
    struct draft d = {0};
    rng_seed(&rng, seed);
    d.cluster = below(&rng, NCLUSTERS);
    play_open(&play, clusters[d.cluster].spec, "#");
    draw_jobs(&rng, &d, &play.cluster);
    draw_options(&rng, &play);
    for (size_t i = 0; i < n; i++) {
        policy = policies[i]->name;
        struct firn_buf rows = rows_of(&d, 1);
        play_write(play.trace, rows.at);
        buf_release(&rows);
        run(&play);
        check_sums(&play, &d);
        if (play.result.bad_rows == 0)
            check_work(&play, &d);
        check_replay(&play);
        check_again(&play);
        check_easier(&play, &d);
    }
    play_close(&play);
}

static void every_policy_keeps_the_books_on_random_scenes(void **state)
{
    (void)state;
    const char *one = getenv("FIRN_SEED");
    uint64_t n = getenv("FIRN_SOAK") ? 3000 : getenv("FIRN_QUICK") ? 2 : 15;
    for (seed = 1; seed <= n && one == NULL; seed++)
        check_seed();
    if (one != NULL) {
        seed = strtoull(one, NULL, 10);
        check_seed();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_keeps_the_books_on_random_scenes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
