/* siashelf.c - the tables of Sia's applications, each read once.
 *
 * The quirks, such as two-tables, are listed in compat/sia.c.
 */
#include "compat/siashelf.h"
#include "base/buf.h"
#include "base/mem.h"
#include <string.h>

const struct siatype sia_types[SIA_TYPES] = {
    {"t4", "aws", 6, 4}, {"a100", "dgx-ext", 2, 8}, {"2080ti", "rtx", 3, 8}};

/* two-tables, slowdowns */
static const struct {
    const char *app;
    double restart_s, believed_s, slowdown;
} habits[SIA_APPS] = {
    {"bert", 120, 120, 1.2},      {"cifar10", 50, 30, 1.8},
    {"deepspeech2", 25, 25, 1.2}, {"imagenet", 250, 250, 1.2},
    {"ncf", 15, 30, 1.5},         {"yolov3", 80, 45, 1.2},
};

static enum firn_status read_type(struct siaapp *app, const char *root,
                                  const char *name, int type,
                                  struct firn_error *err)
{
    struct firn_buf near = {0}, far = {0};
    const char *suffix = sia_types[type].suffix;
    struct adllimits *limits = &app->limits[type];
    buf_printf(&near, "%s/sia/apps/%s/placements-%s.csv", root, name, suffix);
    buf_printf(&far, "%s/sia/apps/%s/scalability-%s.csv", root, name, suffix);
    enum firn_status status =
        adlsteps_open(&app->steps[type], near.at, far.at, NULL, err);
    buf_release(&near);
    buf_release(&far);
    FIRN_TRY(status);
    *limits = (struct adllimits){.b0 = app->truth.batch[0],
                                 .b_min = app->steps[type].b_min,
                                 .b_max = app->steps[type].b_max,
                                 .total_max =
                                     app->truth.batch[app->truth.nbatches - 1]};
    if (strcmp(name, "deepspeech2") == 0 && strcmp(suffix, "rtx") == 0)
        limits->b_max = 57; /* deepspeech-57 */
    return FIRN_OK;
}

static void app_free(struct siaapp *app)
{
    if (app == NULL)
        return;
    adlapp_release(&app->truth);
    for (int t = 0; t < SIA_TYPES; t++)
        adlsteps_release(&app->steps[t]);
    mem_free(app);
}

void siashelf_release(struct siashelf *shelf)
{
    for (int i = 0; i < SIA_APPS; i++)
        app_free(shelf->apps[i]);
}

static enum firn_status unknown_app(const char *name, struct firn_error *err)
{
    struct firn_buf known = {0};
    for (int i = 0; i < SIA_APPS; i++)
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", habits[i].app);
    firn_fail(err, FIRN_ENOENT,
              "application '%.40s' is not one of Sia's simulator; known: %s",
              name, known.at);
    buf_release(&known);
    return FIRN_ENOENT;
}

enum firn_status siashelf_find(struct siashelf *shelf, const char *name,
                               const struct siaapp **out,
                               struct firn_error *err)
{
    int i = 0;
    while (i < SIA_APPS && strcmp(habits[i].app, name) != 0)
        i++;
    if (i == SIA_APPS)
        return unknown_app(name, err);
    if (shelf->apps[i] == NULL) {
        struct siaapp *app = mem_new(1, sizeof *app);
        app->restart_s = habits[i].restart_s;
        app->believed_s = habits[i].believed_s;
        app->slowdown = habits[i].slowdown;
        struct firn_buf folder = {0};
        buf_printf(&folder, "%s/pollux/apps/%s", shelf->root, name);
        enum firn_status status = adlapp_open(&app->truth, folder.at, err);
        buf_release(&folder);
        for (int t = 0; t < SIA_TYPES && status == FIRN_OK; t++)
            status = read_type(app, shelf->root, name, t, err);
        if (status != FIRN_OK) {
            app_free(app);
            return status;
        }
        shelf->apps[i] = app;
    }
    *out = shelf->apps[i];
    return FIRN_OK;
}

double siaapp_alone_s(const struct siaapp *app, double batch, int gpus)
{
    const struct adlapp *truth = &app->truth;
    struct adlplace place = adlplace_packed(gpus, sia_types[0].per_node);
    struct adlbatch split = adlbatch_fixed(&app->limits[0], batch, gpus, false);
    struct adltime time = adlsteps_at(&app->steps[0], &place, split.b);
    double total = adlbatch_total(split, gpus), sum_s = 0;
    for (int e = 0; e < truth->epochs; e++) {
        struct firn_noise noise = adlapp_noise(truth, total, e);
        sum_s += (truth->progress[e + 1] - truth->progress[e]) *
                 adltime_iteration(time, split.s) /
                 adlapp_gain(truth, &noise, total);
    }
    return sum_s;
}
