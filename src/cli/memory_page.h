/* memory_page.h - output of `firn memory` as text and JSON.
 */
#ifndef CLI_MEMORY_PAGE_H
#define CLI_MEMORY_PAGE_H
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <firn/llmplan.h>

enum { MEMORY_PLANS = 256 };

/* The best plans on a cluster. */
struct memory_plans {
    struct firn_cluster cluster;
    struct firn_llm_gpus types[FIRN_TYPES_MAX];
    struct firn_llm_plan at[MEMORY_PLANS];
    size_t n, total;
};

/* `job` was checked; `plans` NULL: no cluster was given. */
void memory_page_table(const struct firn_memory_job *job,
                       const struct memory_plans *plans, struct firn_buf *out);
void memory_page_json(const struct firn_memory_job *job,
                      const struct memory_plans *plans, struct firn_buf *out);

/* The list of known models. */
void memory_page_shapes(bool is_json, struct firn_buf *out);

#endif
