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

static bool write_trace(const char *path, long jobs, double load)
{
    struct synth_options options = {
        .jobs = jobs, .seed = 1, .load = load, .cluster_gpus = GPUS};
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_buf text = {0};
    struct firn_error err;
    FILE *file = fopen(path, "wb");
    if (file == NULL || synth_init(&synth, &options, &err) != FIRN_OK)
        return false;
    write_header(&text, 0xf);
    while (synth_next(&synth, &spec)) {
        write_row(&text, &spec, 0xf);
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
        ok = write_trace(paths[i], sizes[i].jobs, load);
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

int main(int argc, char **argv)
{
    const char *root = getenv("TMPDIR");
    char folder[48];
    if (argc != 2 || access(argv[1], X_OK) != 0) {
        fprintf(stderr, "usage: scale FIRN\n");
        return EXIT_FAILURE;
    }
    snprintf(folder, sizeof folder, "%s/firn-bench-XXXXXX",
             root != NULL && strlen(root) < 24 ? root : "/tmp");
    if (mkdtemp(folder) == NULL)
        return EXIT_FAILURE;
    bool ok = measure_load(argv[1], folder, 0.8, true) &&
              measure_load(argv[1], folder, 1.5, false);
    rmdir(folder);
    if (!ok)
        measure_say("scale: a run failed");
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
