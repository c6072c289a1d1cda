/* published.c - how many of the authors' published results are reproduced.
 *
 * Each row that the authors of AdaptDL and TitanSched published for a policy
 * imitated here is run by their rules: averages of tiresias and optimus in all
 * digits, those of TitanSched's four policies in the digits printed, and its
 * own policy, which they solved with Gurobi, within a bound. Pollux draws at
 * random there: the mean of three seeds, over the workloads of a load. Takes
 * two minutes, nearly all of it for Pollux. Without the data folder nothing is
 * measured.
 */
#include "lib/csv.h"
#include "lib/data.h"
#include "lib/measure.h"
#include <firn/compat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 3 };

#define POLLUX "pollux/paper_results_avg_jct.csv"
#define TITAN  "ymir/author_sim_results_summary.csv"

/* The mean completion time of a workload by the rules of a world; NaN when it
 * cannot be run. */
static double mean_s(const char *world, const char *spec, const char *policy,
                     const char *trace, uint64_t seed)
{
    static const char *const merging[] = {"ymir.merge=yes"};
    bool merges = strcmp(policy, "ymir+") == 0;
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err = {0};
    options.trace = data_path(trace);
    options.profiles = data_path("");
    options.world = firn_compat_find(world, &err);
    options.policy = merges ? "ymir" : policy;
    options.settings = merging;
    options.nsettings = merges;
    options.seed = seed;
    options.cluster = &cluster;
    if (options.trace == NULL || options.world == NULL ||
        firn_cluster_open(&cluster, spec, &err) != FIRN_OK)
        return (double)NAN;
    enum firn_status status = firn_sim_run(&options, &result, &err);
    firn_cluster_release(&cluster);
    if (status != FIRN_OK)
        measure_say("%s, %s: %s", trace, policy, err.text);
    return status == FIRN_OK ? result.jct_mean_s : (double)NAN;
}

static double adaptdl_s(const char *policy, const char *load,
                        const char *workload, uint64_t seed)
{
    char trace[96];
    bool is_one = strcmp(load, "1.0") == 0;
    snprintf(trace, sizeof trace, "pollux/workloads%s%s/%s.csv",
             is_one ? "" : "-", is_one ? "" : load, workload);
    return mean_s("adaptdl", "16x4:t4", policy, trace, seed);
}

/* The load of a row POLICY-LOAD about job loads, or NULL. */
static const char *load_of(const struct csv *row, const char *policy)
{
    const char *config = csv_text(row, "config");
    size_t n = strlen(policy);
    if (strcmp(csv_text(row, "experiment"), "results-jobload") != 0 ||
        strncmp(config, policy, n) != 0 || config[n] != '-')
        return NULL;
    return config + n + 1;
}

static void count_adaptdl(const char *policy)
{
    struct csv *csv = csv_open(data_path(POLLUX));
    char name[96];
    int equal = 0, all = 0;
    while (csv_next(csv)) {
        const char *load = load_of(csv, policy);
        if (load == NULL)
            continue;
        all++;
        equal += adaptdl_s(policy, load, csv_text(csv, "workload"), 1) ==
                 csv_number(csv, "avg_jct_s");
    }
    csv_close(csv);
    snprintf(name, sizeof name,
             "adaptdl, %s, averages equal of those published", policy);
    measure_exactly(name, equal, all, "");
}

static void near_pollux(const char *load)
{
    struct csv *csv = csv_open(data_path(POLLUX));
    char name[96];
    double ours = 0, theirs = 0;
    while (csv_next(csv)) {
        const char *row = load_of(csv, "pollux");
        if (row == NULL || strcmp(row, load) != 0)
            continue;
        theirs += csv_number(csv, "avg_jct_s");
        for (int seed = 1; seed <= SEEDS; seed++)
            ours += adaptdl_s("pollux", load, csv_text(csv, "workload"),
                              (uint64_t)seed) /
                    SEEDS;
    }
    csv_close(csv);
    snprintf(name, sizeof name, "adaptdl, pollux, load %s, off by", load);
    measure_at_most(name, 100 * fabs(ours / theirs - 1), 3, "%");
}

/* Rows main/POLICY/WORKLOAD; the means are printed with six digits. */
static void count_titan(const char *policy)
{
    struct csv *csv = csv_open(data_path(TITAN));
    char name[96], start[32], trace[96], text[32];
    int equal = 0, all = 0;
    int n = snprintf(start, sizeof start, "main/%s/", policy);
    while (csv_next(csv)) {
        const char *row = csv_text(csv, "experiment");
        if (strncmp(row, start, (size_t)n) != 0)
            continue;
        snprintf(trace, sizeof trace, "ymir/workloads/%s.csv", row + n);
        snprintf(text, sizeof text, "%g",
                 mean_s("titan", "8x4:v100", policy, trace, 1));
        all++;
        equal += strcmp(text, csv_text(csv, "mean_jct_s")) == 0;
    }
    csv_close(csv);
    snprintf(name, sizeof name, "titan, %s, means equal of those published",
             policy);
    measure_exactly(name, equal, all, "");
}

/* Rows cluster/titan/FM-LOAD-MODEL-MERGES-True of the authors' own policy,
 * which another solver found: firn's are near, not equal. */
static void near_titan(bool merges, double limit)
{
    struct csv *csv = csv_open(data_path(TITAN));
    char name[96], trace[96];
    int near = 0, all = 0;
    while (csv_next(csv)) {
        int load, used = 0;
        char model[32], merged[8];
        if (sscanf(csv_text(csv, "experiment"),
                   "cluster/titan/FM-%d-%31[a-z]%n", &load, model, &used) != 2)
            continue;
        const char *rest = csv_text(csv, "experiment") + used;
        bool is_large = strncmp(rest, "-large-", 7) == 0;
        bool is_base = strncmp(rest, "-base-", 6) == 0;
        rest += is_large ? 7 : is_base ? 6 : 1;
        snprintf(merged, sizeof merged, "%.4s", rest);
        if (merges != (strcmp(merged, "True") == 0) || (load != 1 && load != 2))
            continue;
        snprintf(trace, sizeof trace, "ymir/workloads/FM-%d-%s%s.csv", load,
                 model,
                 is_large  ? "-large"
                 : is_base ? "-base"
                           : "");
        double ours = mean_s("titan", load == 1 ? "8x4:v100" : "16x4:v100",
                             merges ? "ymir+" : "ymir", trace, 1);
        all++;
        near += fabs(ours / csv_number(csv, "mean_jct_s") - 1) <= limit;
    }
    csv_close(csv);
    snprintf(name, sizeof name, "titan, ymir%s, means within %g %%",
             merges ? " merging" : "", 100 * limit);
    measure_exactly(name, near, all, "");
}

int main(void)
{
    if (data_path(POLLUX) == NULL || data_path(TITAN) == NULL) {
        measure_say("published: the authors' results are not here");
        return EXIT_SUCCESS;
    }
    count_adaptdl("tiresias");
    count_adaptdl("optimus");
    count_titan("srtf");
    count_titan("tiresias");
    count_titan("optimus");
    count_titan("themis");
    near_titan(false, 0.015);
    near_titan(true, 0.02);
    near_pollux("0.5");
    near_pollux("1.0");
    near_pollux("1.5");
    near_pollux("2.0");
    return EXIT_SUCCESS;
}
