/* measured_resize.c - what a resize without a stop costs, from its table.
 *
 * profiles/h200/resize.csv (bench/gpu/train_resize.py; the same rows are in
 * docs/measurements/h200) has ResNet50, BERT-base and GPT-2 small growing from
 * one process to two on an H200 and back. A profile of one of these models gets
 *
 *     resize_s          median pause of all resizes by joining
 *     resize_prepare_s  median time until the new processes were ready, of the
 *                       resizes that had any
 *
 * on every type of GPU: the pause is mostly the first step in the new layout,
 * and nearly all of the preparation is host work. The slowdown of steps
 * meanwhile was not measured: resize_slowdown is left out. Other applications
 * were not measured and get nothing.
 *
 * Cost: O(rows) for each profile of such an application.
 */
#include "base/mem.h"
#include "math/stats.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <string.h>

/* Names under which profiles have a model of the table. */
static const struct {
    const char *app, *model;
} models[] = {
    {"imagenet", "resnet50"},    {"resnet50", "resnet50"},
    {"resnet50-c", "resnet50"},  {"resnet50-cifar10", "resnet50"},
    {"resnet50-i", "resnet50"},  {"bert", "bert-base"},
    {"bert-base", "bert-base"},  {"bert-wikitext2", "bert-base"},
    {"gpt-small", "gpt2-small"},
};

static double cell(const struct sheet *in, size_t row, const char *column)
{
    return sheet_number(in, row, sheet_column(in, column));
}

static void set_cost(struct firn_profile *p, const struct sheet *in,
                     const char *model)
{
    int model_at = sheet_column(in, "model"), how_at = sheet_column(in, "how");
    double *pauses = mem_new(in->nrows + 1, sizeof *pauses);
    double *prepares = mem_new(in->nrows + 1, sizeof *prepares);
    size_t npauses = 0, nprepares = 0;
    for (size_t i = 0; i < in->nrows; i++) {
        if (strcmp(sheet_text(in, i, model_at), model) != 0 ||
            strcmp(sheet_text(in, i, how_at), "join") != 0)
            continue;
        pauses[npauses++] = cell(in, i, "pause_s");
        if (cell(in, i, "to") > cell(in, i, "from"))
            prepares[nprepares++] = cell(in, i, "ready_s");
    }
    if (npauses > 0) {
        p->resize.pause_s = stats_median(pauses, npauses);
        p->resize.prepare_s =
            nprepares > 0 ? stats_median(prepares, nprepares) : 0;
    }
    mem_free(pauses);
    mem_free(prepares);
}

void measured_resize(struct firn_profile *profile, const struct sheet *table)
{
    profile->resize.pause_s = -1;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        if (strcmp(models[k].app, profile->app) == 0)
            set_cost(profile, table, models[k].model);
}
