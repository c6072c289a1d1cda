/* llmplan.h - the speed of a model whose parameters were counted before. */
#ifndef MODEL_LLMPLAN_H
#define MODEL_LLMPLAN_H
#include <firn/llmplan.h>

/* firn_llm_samples_s() of a model with `params` parameters, which a search over
 * splits counts once. */
double llmplan_samples_s(const struct firn_memory_job *job, double params,
                         const struct firn_llm_gpus *gpus,
                         const struct firn_llm_speed *speed);

#endif
