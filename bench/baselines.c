/* baselines.c - the authors' results by their own rules, and their CPU time.
 *
 * Each imitated simulator runs one workload of its artifact: the mean
 * completion time beside the authors', and the CPU time of the whole run,
 * tables included. Then the same Pollux and Sia workloads in the default
 * simulator, for the time alone. Best of a few runs; the policies that search
 * run once or twice. All of it needs $FIRN_DATA.
 */
#include "lib/data.h"
#include "lib/measure.h"
#include <firn/compat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLLUX    "pollux/workloads/workload-6.csv"
#define TITAN     "ymir/workloads/FM-1-vit.csv"
#define SIA       "sia/workloads/philly/workload-6.csv"
#define EASYSCALE "easyscale/workload.csv"

static const char sia_cluster[] = "6x4:t4,2x8:a100@40,3x8:2080ti";
static const char easyscale_cluster[] = "1x32:v100,1x16:p100,1x16:t4";

struct subject {
    const char *world; /* NULL: the default simulator */
    const char *policy, *trace, *cluster;
    double want_s;  /* the authors' mean JCT; 0: not known */
    double off_max; /* allowed relative difference; 0: equal */
    double cpu_max_s;
    int runs;
};

static const struct subject subjects[] = {
    {"adaptdl", "tiresias", POLLUX, "16x4:t4", 3469.69375, 0, 0.05, 5},
    {"adaptdl", "optimus", POLLUX, "16x4:t4", 5301.875, 0, 0.05, 5},
    {"adaptdl", "pollux", POLLUX, "16x4:t4", 2446.13125, 0.03, 3, 1},
    {"titan", "srtf", TITAN, "8x4:v100", 3719.601875, 0, 0.1, 3},
    {"titan", "tiresias", TITAN, "8x4:v100", 5335.881410, 0, 0.1, 3},
    {"titan", "optimus", TITAN, "8x4:v100", 1653.986828, 0, 0.1, 3},
    {"titan", "themis", TITAN, "8x4:v100", 2864.467500, 0, 0.1, 3},
    {"sia", "sia", SIA, sia_cluster, 2090, 0.02, 1, 1},
    {"easyscale", "yarn-cs", EASYSCALE, easyscale_cluster, 4551.1282, 0, 0.1,
     3},
    {"easyscale", "easyscale-homo", EASYSCALE, easyscale_cluster, 388.3506, 0,
     0.1, 3},
    {"easyscale", "easyscale-heter", EASYSCALE, easyscale_cluster, 393.7343, 0,
     0.1, 3},
    {NULL, "tiresias", POLLUX, "16x4:t4", 0, 0, 0.05, 5},
    {NULL, "optimus", POLLUX, "16x4:t4", 0, 0, 0.05, 5},
    {NULL, "pollux", POLLUX, "16x4:t4", 0, 0, 3, 1},
    {NULL, "themis", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "lucid", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "sia", SIA, sia_cluster, 0, 0, 1, 1},
    {NULL, "icefrog", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "sjf-ffs", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "sjf-bsbf", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "frenzy", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "easyscale", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
    {NULL, "ymir", POLLUX, "16x4:t4", 0, 0, 0.1, 3},
};

enum { NSUBJECTS = sizeof subjects / sizeof *subjects };

/* The mean JCT and the least CPU time of some runs; false on failure. */
static bool run(const struct subject *s, double *jct_s, double *cpu_s)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err = {0};
    char trace[512], data[512];
    snprintf(trace, sizeof trace, "%s", data_path(s->trace));
    snprintf(data, sizeof data, "%s", data_path(""));
    if (s->world != NULL)
        options.world = firn_compat_find(s->world, &err);
    bool ok = err.status == FIRN_OK &&
              firn_cluster_open(&cluster, s->cluster, &err) == FIRN_OK;
    options.trace = trace;
    options.profiles = s->world ? data : "builtin";
    options.cluster = &cluster;
    options.policy = s->policy;
    *cpu_s = INFINITY;
    for (int i = 0; ok && i < s->runs; i++) {
        ok = firn_sim_run(&options, &result, &err) == FIRN_OK;
        *cpu_s = ok ? fmin(*cpu_s, result.cpu_s) : NAN;
        *jct_s = ok ? result.jct_mean_s : NAN;
    }
    if (!ok)
        measure_say("%s: %s", s->policy, err.text);
    return ok;
}

/* Rounds `value` to as many digits as `want` was published with. */
static double as_published(double value, double want)
{
    char text[32];
    double scale = 1;
    for (int digits = 0; digits <= 6; digits++, scale *= 10) {
        snprintf(text, sizeof text, "%.*f", digits, want);
        if (strtod(text, NULL) == want)
            return round(value * scale) / scale;
    }
    return value;
}

static bool tell(const struct subject *s)
{
    char name[96];
    const char *world = s->world ? s->world : "honest";
    double jct_s, cpu_s;
    if (!run(s, &jct_s, &cpu_s))
        return false;
    snprintf(name, sizeof name, "%s, %s, mean JCT", world, s->policy);
    if (s->want_s > 0 && s->off_max == 0)
        measure_exactly(name, as_published(jct_s, s->want_s), s->want_s, "s");
    snprintf(name, sizeof name, "%s, %s, off the authors' mean JCT by", world,
             s->policy);
    if (s->off_max > 0)
        measure_at_most(name, fabs(jct_s / s->want_s - 1), s->off_max, "");
    snprintf(name, sizeof name, "%s, %s, CPU", world, s->policy);
    measure_at_most(name, cpu_s, s->cpu_max_s, "s");
    return true;
}

int main(void)
{
    bool ok = true;
    for (int i = 0; i < NSUBJECTS; i++) {
        if (data_path(subjects[i].trace) == NULL)
            measure_say("baselines: %s is not here", subjects[i].trace);
        else
            ok &= tell(&subjects[i]);
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
