/* measured_levels.c - step tables of a data folder by frozen layers.
 *
 * IceFrog's BERT and YOLOv3: one placements.csv whose rows name how many front
 * layers were frozen. Each of these levels becomes a table of its own, so that
 * a placement and a batch are looked up as anywhere else and only then
 * interpolated between levels.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "model/measured.h"
#include "model/sheet.h"
#include <string.h>
#include <unistd.h>

static bool folder_of(struct firn_buf *out, const char *source, const char *app,
                      const char *dir)
{
    static const char *const of[][2] = {{"bert-wikitext2", "bert_wikitext2"},
                                        {"yolov3-voc", "yolov3_voc"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(source, "icefrog") == 0 && strcmp(app, of[i][0]) == 0)
            buf_printf(out, "%s/icefrog/%s/placements.csv", dir, of[i][1]);
    return out->n > 0 && access(out->at, R_OK) == 0;
}

/* Adds a level in its place unless it is there. */
static void add(struct measured_level **at, size_t *n, double frozen)
{
    size_t i = *n;
    while (i > 0 && (*at)[i - 1].frozen > frozen)
        i--;
    if (!(frozen >= 0) || (i > 0 && (*at)[i - 1].frozen == frozen))
        return;
    *at = mem_grow(*at, *n, *n + 1, sizeof **at);
    memmove(*at + i + 1, *at + i, (*n - i) * sizeof **at);
    (*at)[i] = (struct measured_level){.frozen = frozen};
    (*n)++;
}

enum firn_status measured_levels(struct measured_level **out, size_t *n,
                                 const char *source, const char *app,
                                 const char *dir, struct firn_error *err)
{
    struct firn_buf path = {0};
    struct sheet in = {0};
    struct measured_level *at = NULL;
    size_t count = 0;
    enum firn_status status = FIRN_OK;
    if (folder_of(&path, source, app, dir))
        status = sheet_read(&in, path.at, err);
    int column = sheet_column(&in, "frozen_layer");
    for (size_t i = 0; i < in.nrows; i++)
        add(&at, &count, sheet_number(&in, i, column));
    for (size_t i = 0; i < count && status == FIRN_OK; i++) {
        status = steptable_add(&at[i].table, &in, at[i].frozen, path.at, err);
        steptable_ready(&at[i].table);
    }
    for (size_t i = 0; i < count && status != FIRN_OK; i++)
        steptable_release(&at[i].table);
    if (status == FIRN_OK) {
        *out = at;
        *n = count;
    } else {
        mem_free(at);
    }
    sheet_release(&in);
    buf_release(&path);
    return status;
}
