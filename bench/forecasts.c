/* forecasts.c - time of a policy's question about a job's future.
 *
 * One hundred jobs of Pollux's applications on 16 nodes of 4 T4: every way of
 * up to 64 GPUs on up to 16 nodes, as a search over allocations asks for them,
 * with the batch as submitted and tuned. The first pass fills the cache; the
 * second, in a scrambled order, is the cost in a search. The bar is 50 ns.
 */
#include "base/rng.h"
#include "lib/measure.h"
#include "sim/simforecast.h"
#include "sim/truth_table.h"
#include <math.h>
#include <stdlib.h>

enum { JOBS = 100, GPUS = 64, NODES = 16, ASKED = 4000000, REPEATS = 5 };

static struct firn_job jobs[JOBS];

static void make_jobs(void)
{
    static const char *const apps[] = {"bert",     "cifar10", "deepspeech2",
                                       "imagenet", "ncf",     "yolov3"};
    for (int i = 0; i < JOBS; i++)
        jobs[i] = (struct firn_job){
            .id = i,
            .slot = i,
            .spec = {.app = apps[i % 6],
                     .gpus = 1 + i % 8,
                     .gpus_max = GPUS,
                     .duration_s = 1000},
            .done_s = 10 * (i % 90),
            .type_mask = 1,
        };
}

/* Asks for all ways once; nanoseconds each. */
static double fill_ns(struct forecaster *forecast, unsigned tunes)
{
    double begin_s = measure_cpu_s();
    long n = 0;
    for (int i = 0; i < JOBS; i++)
        for (int gpus = 1; gpus <= GPUS; gpus++)
            for (int nodes = 0; nodes <= NODES && nodes <= gpus; nodes++) {
                struct firn_way way = {
                    .gpus = gpus, .nodes = nodes, .tunes = tunes};
                n += simforecast_rate(forecast, &jobs[i], &way, 0) >= 0;
            }
    return (measure_cpu_s() - begin_s) * 1e9 / (double)n;
}

/* Asks again for ways drawn at random; nanoseconds each. Jobs in turn, many
 * ways of each, as in a search. */
static double again_ns(struct forecaster *forecast, unsigned tunes)
{
    static struct firn_way ways[4096];
    struct rng rng;
    double sum = 0, best_ns = INFINITY;
    rng_seed(&rng, 1);
    for (int i = 0; i < 4096; i++) {
        int gpus = 1 + (int)rng_below(&rng, GPUS);
        int most = gpus < NODES ? gpus : NODES;
        ways[i] =
            (struct firn_way){.gpus = gpus,
                              .nodes = (int)rng_below(&rng, (uint64_t)most + 1),
                              .tunes = tunes};
    }
    for (int k = 0; k < REPEATS; k++) {
        double begin_s = measure_cpu_s();
        for (int i = 0; i < ASKED; i++)
            sum += simforecast_rate(forecast, &jobs[(i >> 8) % JOBS],
                                    &ways[i & 4095], 0);
        best_ns =
            fmin(best_ns, (measure_cpu_s() - begin_s) * 1e9 / (double)ASKED);
    }
    return sum > 0 ? best_ns : (double)NAN;
}

int main(void)
{
    struct firn_cluster cluster;
    struct truth_table *table;
    struct firn_error err = {0};
    if (firn_cluster_open(&cluster, "pollux", &err) != FIRN_OK ||
        truth_table_open(&table, "builtin", &cluster, FIRN_SIM_FREEZE_OFF,
                         &err) != FIRN_OK) {
        measure_say("forecasts: %s", err.text);
        return EXIT_FAILURE;
    }
    struct truth base = truth_from_trace(&cluster, 1, 1.5);
    truth_from_table(table, &base, "pollux");
    struct forecaster *forecast = simforecast_new(&base, table);
    make_jobs();
    measure_tell("forecast, batch as submitted, first asked",
                 fill_ns(forecast, 0), "ns");
    measure_at_most("forecast, batch as submitted, asked again",
                    again_ns(forecast, 0), 50, "ns");
    measure_tell("forecast, batch tuned, first asked",
                 fill_ns(forecast, FIRN_TUNE_BATCH), "ns");
    measure_at_most("forecast, batch tuned, asked again",
                    again_ns(forecast, FIRN_TUNE_BATCH), 50, "ns");
    forecaster_free(forecast);
    truth_table_free(table);
    firn_cluster_release(&cluster);
    return EXIT_SUCCESS;
}
