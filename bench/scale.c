/* scale.c - cost per job from ten thousand to a million jobs.
 *
 *   scale FIRN    the program to measure
 *
 * Generated traces on cluster big (10000 GPUs), each run as a whole command
 * with one process at a time, the sizes in turn so that a slow minute of the
 * machine affects all of them; the best of a few runs counts. The cost per job
 * may grow from 10^4 to 10^6 jobs by log(10^6)/log(10^4) = 1.5.
 *
 * At load 0.8 the queue stays short. At load 1.5 it grows with the trace, to
 * hundreds of thousands of waiting jobs.
 *
 * Growth of the policy firn: ten elastic jobs a GPU at load 0.9, from 1000 GPUs
 * to 100 000, where a million jobs may take ten minutes and 4 GiB. `scale FIRN
 * growth` measures this alone.
 */
#include "base/buf.h"
#include "lib/measure.h"
#include "trace/synth.h"
#include "trace/write.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES = 3, GPUS = 10000 };

static const struct {
    long jobs;
    const char *name;
    int runs;
} sizes[SIZES] = {
    {10000, "10^4", 7}, {100000, "10^5", 3}, {1000000, "10^6", 2}};

static const char *const policies[] = {"fifo", "sjf", "tiresias"};

static bool write_trace(const char *path, struct synth_options options)
{
    const unsigned columns =
        options.elastic > 0 ? 0xf | 1u << WRITE_MIN | 1u << WRITE_MAX : 0xf;
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_buf text = {0};
    struct firn_error err;
    FILE *file = fopen(path, "wb");
    if (file == NULL || synth_init(&synth, &options, &err) != FIRN_OK)
        return false;
    write_header(&text, columns);
    while (synth_next(&synth, &spec)) {
        write_row(&text, &spec, columns);
        if (text.n < 1 << 16)
            continue;
        fwrite(text.at, 1, text.n, file);
        buf_clear(&text);
    }
    fwrite(text.at, 1, text.n, file);
    buf_release(&text);
    return fclose(file) == 0;
}

/* The best of the runs of one policy, for each size. */
static bool measure(const char *firn, char paths[SIZES][64], const char *policy,
                    struct measured best[SIZES])
{
    for (int i = 0; i < SIZES; i++)
        best[i] = (struct measured){.cpu_s = 1e9};
    for (int run = 0; run < sizes[0].runs; run++)
        for (int i = 0; i < SIZES; i++) {
            if (run >= sizes[i].runs)
                continue;
            const char *const argv[] = {
                firn,   "sim", "--trace", paths[i],  "--cluster", "big", "-p",
                policy, "-j",  "1",       "--quiet", "-o",        "csv", NULL};
            struct measured got = measure_command(argv);
            if (got.status != 0)
                return false;
            if (got.cpu_s < best[i].cpu_s)
                best[i] = got;
        }
    return true;
}

static void tell(const char *policy, double load,
                 const struct measured best[SIZES], bool is_bar)
{
    char name[96];
    for (int i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "%s, load %g, %s jobs: a job", policy, load,
                 sizes[i].name);
        measure_tell(name, best[i].cpu_s * 1e6 / (double)sizes[i].jobs, "us");
    }
    snprintf(name, sizeof name, "%s, load %g, 10^6 jobs: CPU", policy, load);
    measure_at_most(name, best[SIZES - 1].cpu_s, 60, "s");
    snprintf(name, sizeof name, "%s, load %g, 10^6 jobs: memory", policy, load);
    measure_at_most(name, best[SIZES - 1].peak_mib, 1000, "MiB");
    snprintf(name, sizeof name, "%s, load %g, cost per job 10^6 / 10^4", policy,
             load);
    double ratio = best[SIZES - 1].cpu_s / (double)sizes[SIZES - 1].jobs /
                   (best[0].cpu_s / (double)sizes[0].jobs);
    if (is_bar)
        measure_at_most(name, ratio, 1.5, "x");
    else
        measure_tell(name, ratio, "x");
}

static bool measure_load(const char *firn, const char *folder, double load,
                         bool is_bar)
{
    char paths[SIZES][64];
    bool ok = true;
    for (int i = 0; i < SIZES && ok; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%ld.csv", folder,
                 sizes[i].jobs);
        ok =
            write_trace(paths[i], (struct synth_options){.jobs = sizes[i].jobs,
                                                         .seed = 1,
                                                         .load = load,
                                                         .cluster_gpus = GPUS});
    }
    for (size_t i = 0; i < sizeof policies / sizeof *policies && ok; i++) {
        struct measured best[SIZES];
        ok = measure(firn, paths, policies[i], best);
        if (ok)
            tell(policies[i], load, best, is_bar);
    }
    for (int i = 0; i < SIZES; i++)
        unlink(paths[i]);
    return ok;
}

/* ---- growth ---- */

/* One run of the policy firn on that many GPUs, with ten jobs for each. */
static bool measure_gpus(const char *firn, const char *folder, int gpus,
                         struct measured *out)
{
    char path[64], cluster[32];
    snprintf(path, sizeof path, "%s/growth.csv", folder);
    snprintf(cluster, sizeof cluster, "%dx8:v100", gpus / 8);
    bool ok = write_trace(path, (struct synth_options){.jobs = 10L * gpus,
                                                       .seed = 1,
                                                       .load = 0.9,
                                                       .elastic = 1,
                                                       .cluster_gpus = gpus});
    const char *const argv[] = {firn,      "sim", "--trace", path, "--cluster",
                                cluster,   "-p",  "firn",    "-j", "1",
                                "--quiet", "-o",  "csv",     NULL};
    if (ok)
        *out = measure_command(argv);
    unlink(path);
    return ok && out->status == 0;
}

static bool measure_growth(const char *firn, const char *folder)
{
    static const int gpus[] = {1000, 10000, 100000};
    struct measured got[3] = {{0}};
    char name[96];
    for (int i = 0; i < 3; i++) {
        if (!measure_gpus(firn, folder, gpus[i], &got[i]))
            return false;
        snprintf(name, sizeof name, "firn, %d GPUs, %d elastic jobs: a job",
                 gpus[i], 10 * gpus[i]);
        measure_tell(name, got[i].cpu_s * 1e5 / gpus[i], "us");
    }
    measure_at_most("firn, 100000 GPUs, 10^6 elastic jobs: CPU", got[2].cpu_s,
                    600, "s");
    measure_at_most("firn, 100000 GPUs, 10^6 elastic jobs: memory",
                    got[2].peak_mib, 4096, "MiB");
    /* With a walk over all running jobs in each decision it is above 0.5. */
    measure_at_most("firn, cost per job at 100000 / 1000 GPUs",
                    got[2].cpu_s / 100 / got[0].cpu_s, 0.2, "x");
    return true;
}

int main(int argc, char **argv)
{
    const char *root = getenv("TMPDIR");
    char folder[48];
    bool is_growth = argc == 3 && strcmp(argv[2], "growth") == 0;
    if ((argc != 2 && !is_growth) || access(argv[1], X_OK) != 0) {
        fprintf(stderr, "usage: scale FIRN [growth]\n");
        return EXIT_FAILURE;
    }
    snprintf(folder, sizeof folder, "%s/firn-bench-XXXXXX",
             root != NULL && strlen(root) < 24 ? root : "/tmp");
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    bool ok = is_growth || (measure_load(argv[1], folder, 0.8, true) &&
                            measure_load(argv[1], folder, 1.5, false));
    ok = ok && measure_growth(argv[1], folder);
    rmdir(folder);
    if (!ok)
        measure_say("scale: a run failed");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
