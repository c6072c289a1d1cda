/* exact.c - the averages that must come out to the last digit.
 *
 * 5000 jobs of the common trace on 192 GPUs, with the averages on which other
 * simulators agree. Without the data folder nothing is measured.
 */
#include "lib/data.h"
#include "lib/measure.h"
#include <firn/sim.h>
#include <stdlib.h>

static int mean_jct(const char *trace, const char *policy, double want_s,
                    const char *name)
{
    struct firn_sim_options options = firn_sim_defaults();
    struct firn_sim_result result;
    struct firn_cluster cluster;
    struct firn_error err = {0};
    if (firn_cluster_open(&cluster, "1x192:v100", &err) != FIRN_OK)
        return EXIT_FAILURE;
    options.trace = trace;
    options.cluster = &cluster;
    options.policy = policy;
    enum firn_status status = firn_sim_run(&options, &result, &err);
    firn_cluster_release(&cluster);
    if (status != FIRN_OK) {
        measure_say("%s: %s", name, err.text);
        return EXIT_FAILURE;
    }
    measure_exactly(name, result.jct_mean_s, want_s, "s");
    return EXIT_SUCCESS;
}

int main(void)
{
    const char *trace = data_path("derived/common5000.csv");
    if (trace == NULL) {
        measure_say("exactness: derived/common5000.csv is not here");
        return EXIT_SUCCESS;
    }
    int fifo = mean_jct(trace, "fifo", 20023.4736, "common5000 fifo mean JCT");
    int sjf = mean_jct(trace, "sjf", 11962.511, "common5000 sjf mean JCT");
    return fifo == EXIT_SUCCESS && sjf == EXIT_SUCCESS ? EXIT_SUCCESS
                                                       : EXIT_FAILURE;
}
