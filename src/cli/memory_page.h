/* memory_page.h - output of `firn memory` as text and JSON.
 */
#ifndef CLI_MEMORY_PAGE_H
#define CLI_MEMORY_PAGE_H
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <firn/peakplan.h>

enum { MEMORY_PLANS = 256, MEMORY_CHANGES = 3 };

/* The best plans on a cluster. */
struct memory_plans {
    struct firn_cluster cluster;
    struct firn_llm_gpus types[FIRN_TYPES_MAX];
    struct firn_peak_plan at[MEMORY_PLANS];
    size_t n, total;
    struct firn_peak_refused refused;
};

/* The answer for one GPU type. */
struct memory_fit {
    struct firn_llm_gpus gpus;
    int micro_batch; /* the largest that fits; 0: not even 1 */
    struct firn_peak_advice changes[MEMORY_CHANGES];
    size_t nchanges;
};

/* What is printed. `job` was checked; a NULL was not asked for. */
struct memory_page {
    const struct firn_peak_job *job;
    const struct memory_plans *plans;
    const struct memory_fit *fit;
};

void memory_page_table(const struct memory_page *page, struct firn_buf *out);
void memory_page_json(const struct memory_page *page, struct firn_buf *out);

/* The list of known models. */
void memory_page_shapes(bool is_json, struct firn_buf *out);

#endif
