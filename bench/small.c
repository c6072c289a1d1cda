/* small.c - time of everyday runs.
 *
 *   small FIRN    the program to measure
 *
 * A Pollux workload of 160 jobs under three policies, and the common trace of
 * 5000 jobs under fifo: the best of many runs in one process (the library), and
 * of as many whole commands (with the start of the program). Without the data
 * folder generated traces of the same size are used, with a notice.
 */
#include "base/buf.h"
#include "lib/data.h"
#include "lib/measure.h"
#include "trace/synth.h"
#include "trace/write.h"
#include <firn/sim.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 15 }; /* the best of them: a busy machine has quiet moments */

struct subject {
    const char *name, *trace, *cluster;
    double limit_ms;
};

/* The best firn_sim_run(), in milliseconds of CPU; NaN on failure. */
static double in_process_ms(const struct subject *s, const char *policy)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err;
    double best_ms = INFINITY;
    if (firn_cluster_open(&cluster, s->cluster, &err) != FIRN_OK)
        return NAN;
    options.trace = s->trace;
    options.cluster = &cluster;
    options.policy = policy;
    for (int i = 0; i < RUNS; i++) {
        enum firn_status status = firn_sim_run(&options, &result, &err);
        best_ms = status == FIRN_OK ? fmin(best_ms, result.cpu_s * 1e3) : NAN;
    }
    firn_cluster_release(&cluster);
    return best_ms;
}

static double command_ms(const char *firn, const struct subject *s,
                         const char *policy)
{
    const char *const argv[] = {
        firn,   "sim", "--trace", s->trace,  "--cluster", s->cluster, "-p",
        policy, "-j",  "1",       "--quiet", "-o",        "csv",      NULL};
    double best_ms = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        struct measured got = measure_command(argv);
        best_ms = got.status == 0 ? fmin(best_ms, got.cpu_s * 1e3) : NAN;
    }
    return best_ms;
}

static void tell(const char *firn, const struct subject *s, const char *policy)
{
    char name[96];
    snprintf(name, sizeof name, "%s, %s, in one process, best of %d", s->name,
             policy, RUNS);
    measure_at_most(name, in_process_ms(s, policy), s->limit_ms, "ms");
    snprintf(name, sizeof name, "%s, %s, whole command, best of %d", s->name,
             policy, RUNS);
    measure_at_most(name, command_ms(firn, s, policy), s->limit_ms, "ms");
}

/* Writes a generated trace into a temporary file. */
static bool generate(char path[64], long jobs, int gpus)
{
    struct synth_options options = {
        .jobs = jobs, .seed = 1, .load = 1, .cluster_gpus = gpus};
    struct synth synth;
    struct firn_job_spec spec;
    struct firn_buf text = {0};
    struct firn_error err;
    snprintf(path, 64, "/tmp/firn-bench-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || synth_init(&synth, &options, &err) != FIRN_OK)
        return false;
    write_header(&text, 0xf);
    while (synth_next(&synth, &spec))
        write_row(&text, &spec, 0xf);
    bool ok = write(fd, text.at, text.n) == (ssize_t)text.n;
    buf_release(&text);
    return close(fd) == 0 && ok;
}

int main(int argc, char **argv)
{
    char stand_ins[2][64] = {"", ""};
    struct subject pollux = {"160 Pollux jobs",
                             data_path("pollux/workloads/workload-1.csv"),
                             "pollux", 20};
    struct subject common = {"common5000", data_path("derived/common5000.csv"),
                             "1x192:v100", 10};
    if (argc != 2 || access(argv[1], X_OK) != 0) {
        fprintf(stderr, "usage: small FIRN\n");
        return EXIT_FAILURE;
    }
    if (pollux.trace == NULL && generate(stand_ins[0], 160, 64)) {
        measure_say("no Pollux workload here: 160 generated jobs stand in");
        pollux.trace = stand_ins[0];
    }
    if (common.trace == NULL && generate(stand_ins[1], 5000, 192)) {
        measure_say("no common5000 here: 5000 generated jobs stand in");
        common.trace = stand_ins[1];
    }
    if (pollux.trace == NULL || common.trace == NULL)
        return EXIT_FAILURE;
    tell(argv[1], &pollux, "fifo");
    tell(argv[1], &pollux, "sjf");
    tell(argv[1], &pollux, "tiresias");
    tell(argv[1], &common, "fifo");
    for (int i = 0; i < 2; i++)
        if (*stand_ins[i] != '\0')
            unlink(stand_ins[i]);
    return EXIT_SUCCESS;
}
