/* liveplans.c - the plans of a language model, as `firn plan` prints them.
 *
 * A row has the GPUs and their type, tensor x data parallel degree, ZeRO stage,
 * samples of a pass x passes, what saves memory beside, the expected memory,
 * the high end and what a GPU must have (high and the CUDA context) beside what
 * it has, and the seconds of a step. Ways that do not fit have what they lack
 * and their largest term.
 */
#include "cli/liveplans.h"
#include "base/buf.h"
#include "base/table.h"
#include "cli/answer.h"

static void put_head(struct table *table, const char *const *more)
{
    static const char *const heads[] = {
        "GPUs",           "TYPE",    "T x D",    "ZERO",
        "BATCH x PASSES", "WITH",    "EXPECTED", "HIGH",
        "NEEDS",          "GPU HAS", "STEP"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(table, heads[i]);
    for (; *more != NULL; more++)
        table_cell(table, *more);
}

static void put_gib(struct table *table, const json_t *plan, const char *key)
{
    double gib = answer_number(plan, key, -1);
    if (gib > 0)
        table_cellf(table, "%.1f GiB", gib);
    else
        table_cell(table, "-");
}

/* What the trainer is told to do beside, to save memory. */
static void put_saves(struct table *table, const json_t *plan)
{
    bool again = json_is_true(json_object_get(plan, "recompute"));
    bool host = json_is_true(json_object_get(plan, "offload"));
    table_cell(table, again && host ? "recompute, offload"
                      : again       ? "recompute"
                      : host        ? "offload"
                                    : "-");
}

static void put_plan(struct table *table, const json_t *plan)
{
    double step_s = answer_number(plan, "step_s", 0);
    table_cellf(table, "%.0f", answer_number(plan, "gpus", 0));
    table_cell(table, answer_text(plan, "type"));
    table_cellf(table, "%.0f x %.0f", answer_number(plan, "tensor", 0),
                answer_number(plan, "replicas", 0));
    table_cellf(table, "%.0f", answer_number(plan, "zero", 0));
    table_cellf(table, "%.0f x %.0f", answer_number(plan, "micro_batch", 0),
                answer_number(plan, "passes", 0));
    put_saves(table, plan);
    put_gib(table, plan, "expected_gib");
    put_gib(table, plan, "high_gib");
    put_gib(table, plan, "need_gib");
    put_gib(table, plan, "gpu_gib");
    table_cellf(table, "%.3g s", step_s);
}

void live_plans_put(const json_t *answer, struct firn_buf *out)
{
    static const char *const none[] = {NULL};
    static const char *const more[] = {"LACKS", "LARGEST TERM", NULL};
    const json_t *plans = json_object_get(answer, "plans");
    const json_t *nearest = json_object_get(answer, "nearest");
    double ratio = answer_number(answer, "memory_ratio", 1);
    size_t i;
    const json_t *plan;
    struct table table;
    if (plans == NULL)
        return;
    buf_printf(out, "\n%.0f plans fit", answer_number(answer, "nplans", 0));
    buf_puts(out, json_array_size(plans) > 0
                      ? "; most samples a second for each GPU first:\n"
                      : ".\n");
    if (json_array_size(plans) > 0) {
        table_init(&table, "rllrllrrrrr");
        put_head(&table, none);
        json_array_foreach(plans, i, plan) put_plan(&table, plan);
        table_print(&table, out);
        table_release(&table);
    }
    if (json_array_size(nearest) > 0) {
        buf_puts(out, "\nNearest plans that do not fit:\n");
        table_init(&table, "rllrllrrrrrrl");
        put_head(&table, more);
        json_array_foreach(nearest, i, plan)
        {
            put_plan(&table, plan);
            put_gib(&table, plan, "lacks_gib");
            table_cellf(&table, "%s, %.1f GiB", answer_text(plan, "largest"),
                        answer_number(plan, "largest_gib", 0));
        }
        table_print(&table, out);
        table_release(&table);
    }
    if (ratio != 1)
        buf_printf(out,
                   "\nMemory is predicted %.0f %% of what the model says: what "
                   "was seen of this model and mode.\n",
                   100 * ratio);
}
