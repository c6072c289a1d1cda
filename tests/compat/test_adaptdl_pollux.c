/* test_adaptdl_pollux.c - Pollux by the rules of its authors' simulator.
 *
 * Their search is random and unseeded, so the published averages are single
 * draws; ours, over three seeds, must lie within 3 % of them for each load.
 * All of it takes two minutes and is left to soaking; the daily run takes one
 * workload and one seed. The objective is checked to the digits that a run of
 * their code gave.
 */
#include "base/mem.h"
#include "compat/adaptdlmodel.h"
#include "lib/csv.h"
#include "lib/data.h"
#include "lib/plain_nsga.h"
#include <firn/compat.h>
#include <firn/sim.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has_data(void)
{
    if (data_path("pollux/apps") != NULL &&
        data_path("pollux/interpolated") != NULL)
        return true;
    print_message("no $FIRN_DATA/pollux: left out\n");
    return false;
}

/* ---- average completion times ---- */

static double average(const char *load, const char *workload, uint64_t seed)
{
    char rel[96], root[1024];
    struct firn_cluster cluster;
    struct firn_error err = {0};
    struct firn_sim_result result = {0};
    bool is_one = strcmp(load, "1.0") == 0;
    snprintf(rel, sizeof rel, "pollux/workloads%s%s/%s.csv", is_one ? "" : "-",
             is_one ? "" : load, workload);
    snprintf(root, sizeof root, "%s/..", data_path("pollux"));
    assert_int_equal(firn_cluster_parse_spec(&cluster, "16x4:t4", &err),
                     FIRN_OK);
    struct firn_sim_options options = firn_sim_defaults();
    options.trace = data_path(rel);
    options.world = firn_compat_find("adaptdl", NULL);
    options.cluster = &cluster;
    options.policy = "pollux";
    options.profiles = root;
    options.seed = seed;
    if (firn_sim_run(&options, &result, &err) != FIRN_OK)
        fail_msg("%s: %s", rel, err.text);
    firn_cluster_release(&cluster);
    return result.jct_mean_s;
}

/* Published and ours, over the workloads of a load whose name begins with
 * `only` and over the seeds 1 .. seeds: the relative difference. */
static double difference(const char *load, const char *only, int seeds)
{
    struct csv *csv = csv_open(data_path("pollux/paper_results_avg_jct.csv"));
    double ours = 0, theirs = 0;
    char config[32];
    assert_non_null(csv);
    snprintf(config, sizeof config, "pollux-%s", load);
    while (csv_next(csv)) {
        const char *workload = csv_text(csv, "workload");
        if (strcmp(csv_text(csv, "experiment"), "results-jobload") != 0 ||
            strcmp(csv_text(csv, "config"), config) != 0 ||
            strncmp(workload, only, strlen(only)) != 0)
            continue;
        double want = csv_number(csv, "avg_jct_s"), got = 0;
        for (int seed = 1; seed <= seeds; seed++)
            got += average(load, workload, (uint64_t)seed) / seeds;
        print_message("load %s, %s: %.1f, published %.1f (%+.2f %%)\n", load,
                      workload, got, want, 100 * (got / want - 1));
        ours += got;
        theirs += want;
    }
    csv_close(csv);
    assert_true(theirs > 0);
    return ours / theirs - 1;
}

static void workload_6_is_near_the_published_average(void **state)
{
    (void)state;
    if (!has_data())
        skip();
    const char *load = getenv("FIRN_QUICK") != NULL ? "0.5" : "1.0";
    assert_true(fabs(difference(load, "workload-6", 1)) < 0.03);
}

static void every_load_is_near_the_published_average(void **state)
{
    (void)state;
    static const char *const loads[] = {"0.5", "1.0", "1.5", "2.0"};
    if (getenv("FIRN_SOAK") == NULL || !has_data()) {
        print_message("all loads: only when soaking\n");
        skip();
    }
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        double away = difference(loads[i], "", 3);
        print_message("load %s: %+.2f %%\n", loads[i], 100 * away);
        assert_true(fabs(away) < 0.03);
    }
}

/* ---- the objective ---- */

static const struct firn_noise noise = {0.5, 2.0, 128};
static const struct adllimits limits = {128, 32, 1024, 4096};

static double goodput(struct adlmodel *model, int nodes, int gpus)
{
    return adlmodel_best(model, &noise, &limits, nodes, gpus).goodput;
}

/* Speedup over 22 GPUs of one node, scaled by 16 nodes / 64 GPUs. */
static double value(void *ctx, int row, int group, int cols, int sum)
{
    (void)row;
    (void)group;
    return goodput(ctx, cols, sum) / goodput(ctx, 1, 22) * 16 / 64;
}

/* Three jobs of ages 600, 60 and 30 s, the first restarted once, on 16 nodes x
 * 4 GPUs; the first has 4 GPUs on node 0, the second 2 on node 1. */
static void the_objective_is_that_of_the_artifact(void **state)
{
    (void)state;
    static const struct {
        int first[3], third; /* of job 0 on nodes 0, 1, 2; of job 2 on 2 */
        double fitness, utility;
    } cases[] = {
        {{4, 0, 0}, 0, 0.00294388, 0.10897521},
        {{4, 0, 4}, 0, 0.00294223, 0.07380262},
        {{4, 0, 0}, 1, 0.05488504, 0.09071169},
        {{2, 0, 0}, 4, 0.076497, 0.10111291},
    };
    const struct allot_cell had[] = {{0, 4}, {1, 2}};
    const struct allot_row rows[] = {
        {1, 8, 1, (600.0 - 30) / 630, {&had[0], 1}},
        {1, 8, 1, 60.0 / 90, {&had[1], 1}},
        {1, 8, 1, 30.0 / 60, {NULL, 0}},
    };
    int room[16], group[16] = {0};
    struct adlmodel model = {
        .params = {{0.02, 0.0006, 0.05, 0.003, 0.02, 0.001, 1.5}},
        .version = 1};
    for (int c = 0; c < 16; c++)
        room[c] = 4;
    const struct allot_problem problem = {.rows = 3,
                                          .cols = 16,
                                          .row = rows,
                                          .room = room,
                                          .group = group,
                                          .value = value,
                                          .ctx = &model,
                                          .power = -1,
                                          .offset = 1e-3};
    assert_true(fabs(goodput(&model, 1, 22) - 6100.961496) < 1e-5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int matrix[3 * 16] = {0};
        memcpy(matrix, cases[i].first, sizeof cases[i].first);
        matrix[16 + 1] = 2;
        matrix[32 + 2] = cases[i].third;
        struct nsga_score score = nsga_score(&problem, matrix);
        assert_true(fabs(score.fitness - cases[i].fitness) < 1e-8);
        assert_true(fabs(score.utility * 4 - cases[i].utility) < 1e-8);
    }
    adlmodel_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_objective_is_that_of_the_artifact),
        cmocka_unit_test(workload_6_is_near_the_published_average),
        cmocka_unit_test(every_load_is_near_the_published_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
