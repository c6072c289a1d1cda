/* peakplan.c - time of a plan search: ways x GPU types.
 *
 * Llama-3.1-70B with LoRA, batch 64, 2048 tokens, on 100 types of 8 x 32 GPUs
 * with 16 to 214 GiB each: t to 8, p to 8, every divisor of the batch, ZeRO 0
 * to 3: about 1000 ways. The best of many runs counts, in CPU time.
 */
#include "lib/measure.h"
#include <firn/peakplan.h>
#include <stdio.h>

enum { TYPES = 100, RUNS = 200, KEPT = 16 };

int main(void)
{
    static struct firn_llm_gpus types[TYPES];
    static char names[TYPES][8];
    struct firn_peak_plan best[KEPT];
    struct firn_peak_refused refused = {0};
    struct firn_peak_job job = {.seq = 2048,
                                .micro_batch = 1,
                                .mode = FIRN_MODE_BF16,
                                .recompute = FIRN_RECOMPUTE_LAYERS,
                                .adapter = FIRN_ADAPTER_LORA,
                                .rank = 16,
                                .on = 127};
    for (int i = 0; i < TYPES; i++) {
        snprintf(names[i], sizeof names[i], "gpu%d", i);
        types[i] = (struct firn_llm_gpus){.name = names[i],
                                          .mem_gib = 16 + 2 * i,
                                          .speed = 1 + 0.1 * i,
                                          .node_gpus = 8,
                                          .count = 256};
    }
    if (firn_arch_find(&job.arch, "llama-3.1-70b", NULL) != FIRN_OK ||
        firn_peak_check(&job, NULL) != FIRN_OK)
        return 1;
    struct firn_peak_search search = {.types = types,
                                      .ntypes = TYPES,
                                      .batch = 64,
                                      .pp_max = 8,
                                      .has_zero = true,
                                      .has_accumulation = true};
    double least_s = 1;
    size_t plans = 0;
    for (int i = 0; i < RUNS; i++) {
        double start_s = measure_cpu_s();
        for (int k = 0; k < 8; k++)
            plans = firn_peak_plans(&job, &search, best, KEPT, &refused);
        double each_s = (measure_cpu_s() - start_s) / 8;
        least_s = each_s < least_s ? each_s : least_s;
    }
    measure_tell("plan search: ways", (double)refused.ways, "");
    measure_tell("plan search: plans of 100 types", (double)plans, "");
    measure_at_most("plan search, 100 types", 1e3 * least_s, 1, "ms");
    measure_tell("plan search: share of the bar", 1e5 * least_s, "%");
    return 0;
}
