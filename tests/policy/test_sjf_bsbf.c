/* test_sjf_bsbf.c - which jobs share GPUs, worked out by hand.
 *
 * In a scene every job goes at rate 1, alone or not; what the policy believes
 * is the test's forecast: a job beside another takes `xi` times as long, or
 * what its name says: a job called S.. is slowed 3 times and slows 3 times. A
 * job whose memory is known (mem 12: 12 samples a GPU in a pass, 1 GiB each)
 * needs less of it in more passes, each of which costs it 10 %. A t4 has 16
 * GiB, of which 16 / 1.1 = 14.5 may be planned. "~": held as half-shares.
 */
#include <firn/policy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "play.h"
#include "scene_random.h"
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double xi;

static double rate_of(void *state, const struct firn_job *job,
                      const struct firn_way *way, double now_s)
{
    double more =
        way->passes > 1 && job->spec.mem_gib > 0 ? way->passes - 1 : 0;
    (void)state, (void)now_s;
    return (double)way->gpus / job->spec.gpus / (1 + 0.1 * more);
}

static struct firn_load load_of(void *state, const struct firn_job *job,
                                const struct firn_way *way)
{
    double gib = job->spec.mem_gib > 0 ? job->spec.mem_gib : (double)NAN;
    (void)state;
    return (struct firn_load){(double)NAN,
                              way->passes > 1 ? ceil(gib / way->passes) : gib};
}

static double slowdown_of(void *state, const struct firn_job *job,
                          const struct firn_job *other)
{
    (void)state;
    bool is_bad = job->spec.name[0] == 'S' || other->spec.name[0] == 'S';
    return is_bad ? 3 : xi;
}

/* Slowdowns by host and by passes of the guest N, where a test sets some: of N
 * (0) and of the host (1), a host being called A, B, .. */
enum { HOSTS = 4, WAYS = 5 }; /* 1, 2, 4, 8 and 16 passes */
static double by_way[2][HOSTS][WAYS];

static int nth_way(int passes)
{
    int i = 0;
    while (1 << (i + 1) <= passes)
        i++;
    return i < WAYS ? i : WAYS - 1;
}

static double slowdown_in(void *state, const struct firn_job *job,
                          const struct firn_way *way,
                          const struct firn_job *other,
                          const struct firn_way *other_way)
{
    bool is_guest = job->spec.name[0] == 'N';
    const struct firn_job *host = is_guest ? other : job;
    int k = host->spec.name[0] - 'A';
    (void)state;
    return k < 0 || k >= HOSTS
               ? 0
               : by_way[!is_guest][k]
                       [nth_way(is_guest ? way->passes : other_way->passes)];
}

static const struct firn_forecast_def forecast = {.rate = rate_of,
                                                  .slowdown = slowdown_of,
                                                  .load = load_of,
                                                  .slowdown_in = slowdown_in};

static struct firn_policy_def bsbf;

static enum firn_status decide_knowing(void *state,
                                       const struct firn_view *view,
                                       struct firn_plan *plan)
{
    struct firn_view knowing = *view;
    knowing.forecast = &forecast;
    return firn_policy_find("sjf-bsbf", NULL)->decide(state, &knowing, plan);
}

static struct scene *open_scene(const char *text, const char *settings)
{
    bsbf = *firn_policy_find("sjf-bsbf", NULL);
    bsbf.decide = decide_knowing;
    return scene_new(text, &bsbf, settings);
}

/* Who has what after the decision at `at_s`. */
static void gives(double slowdown, const char *text, const char *settings,
                  const char *expected)
{
    xi = slowdown;
    struct scene *scene = open_scene(text, settings);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), expected);
    assert_int_equal(scene->did & ~(unsigned)FIRN_DOES_SHARE, 0);
    scene_free(scene);
}

/* The paper's letter is the default; these are the options of this project. */
#define LETTER   NULL
#define OWN      "sjf-bsbf.wait=first sjf-bsbf.order=saving sjf-bsbf.gang=whole"
#define TOGETHER "sjf-bsbf.gang=whole"

/* ---- Algorithm 1: the order, and GPUs of its own ---- */

/* B (10) before C (20) before A (100), each on two GPUs of four. A, that does
 * not fit with B and C, waits: none of them shares. */
static void the_shortest_goes_first_on_gpus_of_its_own(void **unused)
{
    (void)unused;
    gives(1.2,
          "1 node x 4 gpus; A wants 2 for 100; B wants 2 for 10; "
          "C wants 2 for 20",
          NULL, "A: -  B: n0[0-1]  C: n0[2-3]");
    /* what counts is the time left, not the time in all */
    gives(1.2,
          "1 node x 4 gpus; A wants 2 for 100 did 95; B wants 2 for 10; "
          "C wants 2 for 20",
          NULL, "A: n0[0-1]  B: n0[2-3]  C: -");
}

/* A job that may share holds half-shares, on the fewest nodes. */
static void free_gpus_are_taken_together(void **unused)
{
    (void)unused;
    gives(1.2, "2 nodes x 4 gpus; X wants 1 on n0[0]; A wants 4 shares", NULL,
          "X: n0[0]  A: n1[0-3]~");
}

/* The long one does not fit and is passed over. */
static void a_job_that_does_not_fit_is_passed(void **unused)
{
    (void)unused;
    gives(1.2,
          "1 node x 2 gpus; X wants 1 for 50 on n0[0]; A wants 2 for 10; "
          "B wants 1 for 20",
          NULL, "X: n0[0]  A: -  B: n0[1]");
}

/* ---- Theorem 1 ---- */

/* One GPU, its holder H of b s left, and N of a s. Slowdowns are equal: they
 * share below 1.5 when N is the longer one, below 1 + b / (2 a) otherwise;
 * at the limit they do not. */
static void a_pair_shares_when_its_mean_is_shorter(void **unused)
{
    static const struct {
        double a, b, xi;
        bool shares;
    } rows[] = {{100, 300, 1.5, true},  {100, 300, 2, true},
                {100, 300, 2.5, false}, {300, 100, 1.4, true},
                {300, 100, 1.5, false}, {100, 100, 1.49, true},
                {100, 100, 1.5, false}};
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int letter = 0; letter < 2; letter++) {
            char text[200];
            snprintf(text, sizeof text,
                     "1 node x 1 gpus; H wants 1 for %g shares on n0[0]~; "
                     "N wants 1 for %g shares",
                     rows[i].b, rows[i].a);
            /* the first GPU to come free is the host's: `wait` is no matter */
            gives(rows[i].xi, text, letter ? LETTER : OWN,
                  rows[i].shares ? "H: n0[0]~  N: n0[0]~" : "H: n0[0]~  N: -");
        }
}

/* H holds a GPU for 1000 s more, X (whole) for 10. N of 100 s: in turn with H
 * its mean is 1050; shared at 2 the ends are 200 and 1100, mean 650. But after
 * X it would be done at 110 and H at 1000: mean 555. So it waits for X. At 1.5
 * it would be 150 and 1050: 600, still worse; at 1.1: 110 and 1010, 560; at
 * 1.05: 105 and 1005, 555: no better, at 1.04 it shares. */
static void waiting_for_other_gpus_may_be_better(void **unused)
{
    const char *text = "1 node x 2 gpus; H wants 1 for 1000 shares on n0[0]~; "
                       "X wants 1 for 10 on n0[1]; N wants 1 for 100 shares";
    (void)unused;
    gives(2, text, LETTER, "H: n0[0]~  X: n0[1]  N: n0[0]~");
    gives(2, text, OWN, "H: n0[0]~  X: n0[1]  N: -");
    gives(1.1, text, OWN, "H: n0[0]~  X: n0[1]  N: -");
    gives(1.04, text, OWN, "H: n0[0]~  X: n0[1]  N: n0[0]~");
    /* X's one GPU is not enough for two */
    gives(1.4,
          "1 node x 3 gpus; H wants 2 for 1000 shares on n0[0-1]~; "
          "X wants 1 for 10 on n0[2]; N wants 2 for 100 shares",
          OWN, "H: n0[0-1]~  X: n0[2]  N: n0[0-1]~");
}

static void an_unknown_slowdown_is_no_reason_to_share(void **unused)
{
    (void)unused;
    gives((double)NAN,
          "1 node x 1 gpus; H wants 1 shares on n0[0]~; "
          "N wants 1 for 10 shares",
          NULL, "H: n0[0]~  N: -");
}

/* ---- Algorithm 1: whose GPUs ---- */

/* N (10) beside G (50), H (400) or I (200), at 1.2. Shared: 12 and b + 2, mean
 * b / 2 + 7; in turn b + 5. It saves b / 2 - 2: most beside H. The least mean
 * time is beside G. */
static void the_best_host_is_taken(void **unused)
{
    const char *text = "3 nodes x 1 gpus; G wants 1 for 50 shares on n0[0]~; "
                       "H wants 1 for 400 shares on n1[0]~; "
                       "I wants 1 for 200 shares on n2[0]~; "
                       "N wants 1 for 10 shares";
    (void)unused;
    gives(1.2, text, OWN, "G: n0[0]~  H: n1[0]~  I: n2[0]~  N: n1[0]~");
    gives(1.2, text, LETTER, "G: n0[0]~  H: n1[0]~  I: n2[0]~  N: n0[0]~");
}

/* N wants two: the best host's GPU and the second best's. One more is free; it
 * is used only when the hosts have too few. */
static void gpus_come_from_several_hosts_then_from_the_free(void **unused)
{
    const char *text = "4 nodes x 1 gpus; G wants 1 for 50 shares on n0[0]~; "
                       "H wants 1 for 400 shares on n1[0]~; "
                       "I wants 1 for 200 shares on n2[0]~; "
                       "N wants %d for 10 shares";
    char wants[200];
    (void)unused;
    snprintf(wants, sizeof wants, text, 2);
    gives(1.2, wants, OWN, "G: n0[0]~  H: n1[0]~  I: n2[0]~  N: n1[0] n2[0]~");
    gives(1.2, wants, LETTER,
          "G: n0[0]~  H: n1[0]~  I: n2[0]~  N: n0[0] n2[0]~");
    snprintf(wants, sizeof wants, text, 4);
    gives(1.2, wants, OWN,
          "G: n0[0]~  H: n1[0]~  I: n2[0]~  N: n0[0] n1[0] n2[0] n3[0]~");
}

/* Hosts that hold whole GPUs are left alone, and so are full GPUs: H is alone
 * on one of its two. Three may share here; the policy makes pairs. */
static void a_gpu_holds_two_jobs_at_most(void **unused)
{
    const char *text = "1 node x 2 gpus; 3 jobs per gpu; "
                       "H wants 2 for 1000 shares on n0[0-1]~; "
                       "G wants 1 for 900 shares on n0[0]~; "
                       "M wants 1 for 10 shares; N wants 1 for 20 shares";
    (void)unused;
    gives(1.2, text, NULL, "H: n0[0-1]~  G: n0[0]~  M: n0[1]~  N: -");
    gives(1.2,
          "1 node x 1 gpus; H wants 1 for 1000 on n0[0]; "
          "M wants 1 for 10 shares",
          NULL, "H: n0[0]  M: -");
    gives(1.2,
          "1 node x 1 gpus; H wants 1 for 1000 shares on n0[0]~; "
          "M wants 1 for 10",
          NULL, "H: n0[0]~  M: -"); /* M does not share */
}

/* Both come at once: M (10) starts, N (20) joins it in the same round. M and
 * N: 12 and 22, mean 17; in turn 10 and 30, 20. */
static void a_job_just_started_is_a_host(void **unused)
{
    (void)unused;
    gives(1.2,
          "1 node x 1 gpus; N wants 1 for 20 shares; "
          "M wants 1 for 10 shares",
          NULL, "N: n0[0]~  M: n0[0]~");
}

/* N (100) wants two. H (1000) is fine: xi 1.2, and so is S (1000), though it
 * slows N 3 times: alone with S the ends are 300 and 1200, mean 750, in turn
 * 1050. Together N goes at 3, beside H too: its ends 300 and 1050, mean 675,
 * against 1050: stands. But with T of 150 s in place of H: alone 120 and 170,
 * mean 145, in turn 200; at 3: T ends at 180, N by then has done 60 of 100 and
 * ends at 220, mean 200: no gain. Then S is left out and N waits. */
static void a_gang_goes_at_its_worst_slowdown(void **unused)
{
    (void)unused;
    gives(1.2,
          "2 nodes x 1 gpus; H wants 1 for 1000 shares on n0[0]~; "
          "S wants 1 for 1000 shares on n1[0]~; N wants 2 for 100 shares",
          TOGETHER, "H: n0[0]~  S: n1[0]~  N: n0[0] n1[0]~");
    gives(1.2,
          "2 nodes x 1 gpus; T wants 1 for 150 shares on n0[0]~; "
          "S wants 1 for 1000 shares on n1[0]~; N wants 2 for 100 shares",
          TOGETHER, "T: n0[0]~  S: n1[0]~  N: -");
    /* with another gentle host it goes there */
    gives(1.2,
          "3 nodes x 1 gpus; T wants 1 for 150 shares on n0[0]~; "
          "S wants 1 for 400 shares on n1[0]~; "
          "H wants 1 for 1000 shares on n2[0]~; N wants 2 for 100 shares",
          TOGETHER, "T: n0[0]~  S: n1[0]~  H: n2[0]~  N: n0[0] n2[0]~");
}

/* By the letter the same hosts are judged one by one: T's pair alone gains, and
 * S's too, so N shares with both, though together it gains nothing at T. */
static void the_letter_judges_each_pair_alone(void **unused)
{
    (void)unused;
    gives(1.2,
          "2 nodes x 1 gpus; T wants 1 for 150 shares on n0[0]~; "
          "S wants 1 for 1000 shares on n1[0]~; N wants 2 for 100 shares",
          LETTER, "T: n0[0]~  S: n1[0]~  N: n0[0] n1[0]~");
}

/* Hosts of one type, though the other has some too. */
static void gpus_of_one_job_are_of_one_type(void **unused)
{
    const char *text = "1 node x 2 gpus of t4; 1 node x 1 gpus of v100; "
                       "G wants 1 for 100 shares on n0[0]~; "
                       "H wants 1 for 90 shares on n0[1]~; "
                       "I wants 1 for 400 shares on n1[0]~; "
                       "N wants %d for 10 shares";
    char wants[240];
    (void)unused;
    snprintf(wants, sizeof wants, text, 2);
    gives(1.2, wants, OWN, "G: n0[0]~  H: n0[1]~  I: n1[0]~  N: n0[0-1]~");
    snprintf(wants, sizeof wants, text, 1);
    gives(1.2, wants, OWN, "G: n0[0]~  H: n0[1]~  I: n1[0]~  N: n1[0]~");
}

/* ---- Algorithm 2: passes ---- */

/* H takes 8 of 14.5 GiB and leaves 6.5. N needs 12 in one pass, 6 in two, at
 * 1 / 1.1 of its rate. */
static void as_many_passes_as_memory_needs(void **unused)
{
    static const struct {
        double host, guest;
        int passes;
    } rows[] = {{8, 6, 0},    {8, 12, 2}, {11, 12, 4},
                {13, 12, 16}, {2, 12, 0}, {14, 12, -1}};
    (void)unused;
    xi = 1.2;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "1 node x 1 gpus of t4; H wants 1 for 1000 mem %g shares on "
                 "n0[0]~; N wants 1 for 100 mem %g shares",
                 rows[i].host, rows[i].guest);
        struct scene *scene = open_scene(text, NULL);
        scene_decide(scene, 0);
        const struct firn_job *job = scene_job(scene, "N");
        assert_int_equal(job->held.nparts, rows[i].passes >= 0 ? 1 : 0);
        if (rows[i].passes >= 0)
            assert_int_equal(job->held.how.passes, rows[i].passes);
        scene_free(scene);
    }
}

/* Beside H it must run in 16 passes, 2.5 times as long: 100 s become 250. H has
 * 200 left. At 1.2: H ends at 240, N by then has done 200 of 250 and ends at
 * 290: mean 265; in turn it is 200 and 300 (as it is then alone in one pass;
 * but the pair is compared in the same way, 200 and 450: 325). Sharing wins; at
 * 1.5 it is no better: 300 and 350 against 200 and 450. */
static void passes_count_in_the_benefit(void **unused)
{
    const char *text = "1 node x 1 gpus of t4; H wants 1 for 200 mem 13 shares "
                       "on n0[0]~; N wants 1 for 100 mem 12 shares";
    (void)unused;
    gives(1.2, text, LETTER, "H: n0[0]~  N: n0[0]~");
    gives(1.5, text, LETTER, "H: n0[0]~  N: -");
    /* in one pass they would share at 1.5: 150 and 250 against 200 and 300 */
    gives(1.5,
          "1 node x 1 gpus of t4; H wants 1 for 200 mem 2 shares on n0[0]~; "
          "N wants 1 for 100 mem 12 shares",
          LETTER, "H: n0[0]~  N: n0[0]~");
}

/* Two hosts: G leaves room for one pass, H only for two: two for both. */
static void passes_fit_beside_all_hosts(void **unused)
{
    (void)unused;
    xi = 1.2;
    struct scene *scene =
        open_scene("2 nodes x 1 gpus of t4; G wants 1 mem 2 shares on n0[0]~; "
                   "H wants 1 mem 8 shares on n1[0]~; "
                   "N wants 2 for 10 mem 12 shares",
                   NULL);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene),
                        "G: n0[0]~  H: n1[0]~  N: n0[0] n1[0]~");
    assert_int_equal(scene_job(scene, "N")->held.how.passes, 2);
    scene_free(scene);
}

/* A has 1000 s left, N 100. In one pass N is slowed 3 times and slows A 3
 * times: shared the ends are 300 and 1200, mean 750. In two passes N takes
 * 110 s alone and the slowdowns are 1.1: 121 and 1011, mean 566. In four it
 * takes 130 s, at 1.1: 143 and 1013, mean 578. Two passes are best, though one
 * fits. */
static void a_smaller_sub_batch_is_taken_where_it_disturbs_less(void **unused)
{
    (void)unused;
    for (int w = 0; w < WAYS; w++)
        by_way[0][0][w] = by_way[1][0][w] = w == 0 ? 3 : 1.1;
    struct scene *scene =
        open_scene("1 node x 1 gpus of t4; A wants 1 for 1000 mem 2 shares on "
                   "n0[0]~; N wants 1 for 100 mem 12 shares",
                   LETTER);
    scene_decide(scene, 0);
    assert_string_equal(scene_text(scene), "A: n0[0]~  N: n0[0]~");
    assert_int_equal(scene_job(scene, "N")->held.how.passes, 2);
    scene_free(scene);
}

/* One host of a random scene. */
struct tried {
    double left_s, mem_gib, time_s;
    int way;
    bool shares;
};

/* Algorithm 2 as printed with its errata: b = B, B/2, .. 1; the ones that fit
 * in memory; the least time, which is the shared or the sequential one. Ends
 * are found by stepping through the two jobs, not by the formulas. */
static void algorithm_2(struct tried *host, int k, double new_s, double mem_gib)
{
    host->time_s = INFINITY;
    for (int w = 0; w < WAYS; w++) {
        double gib = w == 0 ? mem_gib : ceil(mem_gib / (1 << w));
        if (1.1 * (gib + host->mem_gib) > 16 || (w > 0 && 1 << (w - 1) >= 64))
            continue;
        double a = new_s * (1 + 0.1 * ((1 << w) - 1)), b = host->left_s;
        double xa = by_way[0][k][w], xb = by_way[1][k][w];
        bool is_new_first = a * xa < b * xb;
        double first = is_new_first ? a * xa : b * xb;
        double rest = is_new_first ? b - first / xb : a - first / xa;
        double shared = (first + (first + rest)) / 2;
        double in_turn = (b + (b + a)) / 2;
        double time_s = fmin(shared, in_turn);
        if (time_s <= host->time_s) {
            host->time_s = time_s;
            host->way = w;
            host->shares = shared < in_turn;
        }
    }
}

/* Algorithm 1, lines 10 to 17: which of the hosts get the job, by their sum of
 * 1 << k; 0: it waits. Of each host one GPU; `nfree` are free. */
static int algorithm_1(const struct tried *hosts, int nhosts, int wants,
                       int nfree, int *passes)
{
    int taken = 0, n = 0, way = 0;
    while (n < wants) {
        int best = -1;
        for (int k = 0; k < nhosts; k++)
            if (hosts[k].shares && !(taken >> k & 1) &&
                (best < 0 || hosts[k].time_s < hosts[best].time_s))
                best = k;
        if (best < 0)
            break;
        taken |= 1 << best;
        way = hosts[best].way > way ? hosts[best].way : way;
        n++;
    }
    *passes = way > 0 ? 1 << way : 0;
    return n > 0 && n + nfree >= wants ? taken : 0;
}

/* Hosts with random times, memory and slowdowns; N wants one to four GPUs, one
 * more than are free at least. */
static void a_random_scene_is_decided_as_the_algorithms_say(struct rng *rng)
{
    struct tried hosts[HOSTS];
    struct firn_buf text = {0};
    int nhosts = 1 + (int)rng_below(rng, HOSTS), nfree = (int)rng_below(rng, 2);
    int wants = nfree + 1 + (int)rng_below(rng, (uint64_t)nhosts);
    double new_s = 10 + floor(500 * rng_unit(rng));
    double mem_gib = 2 + (double)rng_below(rng, 11);
    buf_printf(&text, "%d nodes x 1 gpus of t4", nhosts + nfree);
    for (int k = 0; k < nhosts; k++) {
        hosts[k] = (struct tried){.left_s = 10 + floor(500 * rng_unit(rng)),
                                  .mem_gib = 2 + (double)rng_below(rng, 12)};
        for (int w = 0; w < WAYS; w++) {
            by_way[0][k][w] = 1 + 2 * rng_unit(rng);
            by_way[1][k][w] = 1 + 2 * rng_unit(rng);
        }
        algorithm_2(&hosts[k], k, new_s, mem_gib);
        buf_printf(&text, "; %c wants 1 for %g mem %g shares on n%d[0]~",
                   'A' + k, hosts[k].left_s, hosts[k].mem_gib, k);
    }
    buf_printf(&text, "; N wants %d for %g mem %g shares", wants, new_s,
               mem_gib);
    int passes, taken = algorithm_1(hosts, nhosts, wants, nfree, &passes);
    struct scene *scene = open_scene(text.at, LETTER);
    scene_decide(scene, 0);
    const struct firn_job *job = scene_job(scene, "N");
    int got = 0;
    for (int i = 0; i < job->held.nparts; i++)
        if (job->held.parts[i].node < nhosts)
            got |= 1 << job->held.parts[i].node;
    if (got != taken || (taken != 0 && job->held.how.passes != passes))
        fail_msg("%s: hosts %#x in %d passes, not %#x in %d", text.at,
                 (unsigned)got, job->held.how.passes, (unsigned)taken, passes);
    scene_free(scene);
    buf_release(&text);
}

static void random_scenes_are_decided_as_the_algorithms_say(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(2000); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        a_random_scene_is_decided_as_the_algorithms_say(&rng);
    }
    memset(by_way, 0, sizeof by_way);
}

/* ---- words and properties ---- */

/* Beside H it would gain, but memory is short; beside G it would not. */
static void a_waiting_job_has_a_note_with_the_reason(void **unused)
{
    (void)unused;
    xi = 1.6;
    struct scene *scene = open_scene(
        "2 nodes x 1 gpus of t4; H wants 1 for 1000 mem 14 shares on n0[0]~; "
        "G wants 1 for 10 mem 2 shares on n1[0]~; "
        "N wants 1 for 100 mem 12 shares; M wants 2 for 200",
        LETTER);
    scene_decide(scene, 0);
    assert_string_equal(scene_job(scene, "N")->note,
                        "1 GPUs, 0 free, 2 to share; hosts: 1 mem, 1 slow");
    assert_string_equal(scene_job(scene, "M")->note,
                        "needs 2 GPUs, 0 free; does not accept sharing");
    scene_free(scene);
}

/* H 100 s, N comes at 5: joins and ends at 15 (in a scene no job is slowed). No
 * job is ever stopped or moved. */
static void a_guest_and_its_host_run_to_their_ends_unmoved(void **unused)
{
    (void)unused;
    xi = 1.2;
    struct scene *scene =
        open_scene("1 node x 2 gpus; H wants 2 for 100 shares; "
                   "N wants 1 for 10 shares at 5; M wants 2 for 50 shares at 6",
                   NULL);
    assert_string_equal(scene_play(scene, 1e9), "0: START H n0[0-1]~\n"
                                                "5: START N n0[0]~\n"
                                                "15: DONE N; START M n0[0-1]~\n"
                                                "65: DONE M\n"
                                                "100: DONE H\n");
    scene_free(scene);
}

/* No job is ever taken from where it is, whatever happens; no GPU has three. */
static void random_scenes_are_never_preempted(void **unused)
{
    (void)unused;
    for (int i = 0; i < trials(200); i++) {
        struct rng rng;
        rng_seed(&rng, (uint64_t)i);
        xi = 1 + rng_unit(&rng);
        unsigned kinds = SCENE_SHARING | (i % 2 ? SCENE_TYPES : 0u) |
                         (i % 3 ? 0u : SCENE_CHOOSY | SCENE_TYPES);
        struct firn_buf text = scene_random(&rng, kinds);
        struct scene *scene = open_scene(text.at, i % 4 ? OWN : LETTER);
        for (int round = 0; round < 30; round++) {
            scene_decide(scene, scene->now_s);
            if (scene->did & ~(unsigned)FIRN_DOES_SHARE)
                fail_msg("seed %d, round %d: did %#x", i, round, scene->did);
            scene_shake(scene, &rng, kinds);
        }
        buf_release(&text);
        scene_free(scene);
    }
}

/* A trace without profiles, and 1.4 for all who share. b (10) starts and a
 * (100) joins it: b ends at 14, when a has done 10. Now c (200) joins: a ends
 * at 14 + 90 x 1.4 = 140, c has done 90 by then and ends at 250. At 1.5 no job
 * gains: one after the other. */
static void a_plain_trace_is_run(void **unused)
{
    struct play play;
    (void)unused;
    play_open(&play, "1x1:v100", "a,0,1,100\nb,0,1,10\nc,1,1,200\n");
    play.options.shares = true;
    play.options.share_slowdown = 1.4;
    play_run(&play, "sjf-bsbf");
    assert_true(play_near(play_end(&play, "b"), 14));
    assert_true(play_near(play_end(&play, "a"), 140));
    assert_true(play_near(play_end(&play, "c"), 250));
    play.options.share_slowdown = 1.5;
    play_run(&play, "sjf-bsbf");
    assert_true(play_near(play_end(&play, "b"), 10));
    assert_true(play_near(play_end(&play, "a"), 110));
    assert_true(play_near(play_end(&play, "c"), 310));
    play_close(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_goes_first_on_gpus_of_its_own),
        cmocka_unit_test(free_gpus_are_taken_together),
        cmocka_unit_test(a_job_that_does_not_fit_is_passed),
        cmocka_unit_test(a_pair_shares_when_its_mean_is_shorter),
        cmocka_unit_test(waiting_for_other_gpus_may_be_better),
        cmocka_unit_test(an_unknown_slowdown_is_no_reason_to_share),
        cmocka_unit_test(the_best_host_is_taken),
        cmocka_unit_test(gpus_come_from_several_hosts_then_from_the_free),
        cmocka_unit_test(a_gpu_holds_two_jobs_at_most),
        cmocka_unit_test(a_job_just_started_is_a_host),
        cmocka_unit_test(a_gang_goes_at_its_worst_slowdown),
        cmocka_unit_test(the_letter_judges_each_pair_alone),
        cmocka_unit_test(gpus_of_one_job_are_of_one_type),
        cmocka_unit_test(as_many_passes_as_memory_needs),
        cmocka_unit_test(passes_count_in_the_benefit),
        cmocka_unit_test(passes_fit_beside_all_hosts),
        cmocka_unit_test(a_smaller_sub_batch_is_taken_where_it_disturbs_less),
        cmocka_unit_test(random_scenes_are_decided_as_the_algorithms_say),
        cmocka_unit_test(a_waiting_job_has_a_note_with_the_reason),
        cmocka_unit_test(a_guest_and_its_host_run_to_their_ends_unmoved),
        cmocka_unit_test(random_scenes_are_never_preempted),
        cmocka_unit_test(a_plain_trace_is_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
