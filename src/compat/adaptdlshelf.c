/* adaptdlshelf.c - tables read once, and what the artifact says of single
 * applications.
 *
 * Limits come from the tables: the smallest and the largest batch of the
 * validation files, the smallest and the largest local batch of the measured
 * placements. The exceptions are in `oddities`, Q8 of compat/adaptdl.c.
 */
#include "compat/adaptdlshelf.h"
#include "base/buf.h"
#include "base/files.h"
#include <string.h>

/* Q8; 0: nothing odd. */
static const struct oddity {
    const char *app;
    double b_max;       /* samples on a GPU */
    int gpus_max;       /* ever */
    double tuned_batch; /* when it may choose its batch */
} oddities[] = {{"yolov3", 8, 0, 0}, {"ncf", 0, 1, 32768}};

static void entry_free(struct adlentry *entry)
{
    mem_free(entry->name);
    adlapp_release(&entry->truth);
    adlsteps_release(&entry->steps);
    for (size_t i = 0; i < entry->guesses.n; i++)
        mem_free(entry->guesses.at[i]);
    vec_release(&entry->guesses);
    mem_free(entry);
}

void adlshelf_release(struct adlshelf *shelf)
{
    for (size_t i = 0; i < shelf->entries.n; i++)
        entry_free(shelf->entries.at[i]);
    vec_release(&shelf->entries);
}

static enum firn_status read_tables(struct adlentry *entry, const char *root,
                                    struct firn_error *err)
{
    struct firn_buf folder = {0}, places = {0}, scales = {0}, far = {0};
    buf_printf(&folder, "%s/pollux/apps/%s", root, entry->name);
    buf_printf(&places, "%s/placements.csv", folder.at);
    buf_printf(&scales, "%s/scalability.csv", folder.at);
    buf_printf(&far, "%s/pollux/interpolated/%s-5plus.csv", root, entry->name);
    enum firn_status status = adlapp_open(&entry->truth, folder.at, err);
    if (status == FIRN_OK)
        status =
            adlsteps_open(&entry->steps, places.at, scales.at, far.at, err);
    buf_release(&folder);
    buf_release(&places);
    buf_release(&scales);
    buf_release(&far);
    return status;
}

static void set_limits(struct adlentry *entry)
{
    const struct adlapp *truth = &entry->truth;
    entry->limits =
        (struct adllimits){.b0 = truth->batch[0],
                           .b_min = entry->steps.b_min,
                           .b_max = entry->steps.b_max,
                           .total_max = truth->batch[truth->nbatches - 1]};
    for (size_t i = 0; i < sizeof oddities / sizeof *oddities; i++) {
        if (strcmp(oddities[i].app, entry->name) != 0)
            continue;
        if (oddities[i].b_max > 0)
            entry->limits.b_max = oddities[i].b_max;
        entry->gpus_max = oddities[i].gpus_max;
        entry->tuned_batch = oddities[i].tuned_batch;
    }
}

/* The applications there are, for a sentence. */
static void list_apps(const char *folder, struct firn_buf *out)
{
    struct files apps = {0};
    (void)files_list(&apps, folder, "");
    for (size_t i = 0; i < apps.n; i++)
        buf_printf(out, "%s%s", i > 0 ? ", " : "",
                   apps.at[i] + strlen(folder) + 1);
    files_release(&apps);
}

/* Why there is no such application. */
static enum firn_status not_there(const struct adlshelf *shelf,
                                  const char *name, struct firn_error *err)
{
    struct firn_buf folder = {0}, known = {0};
    buf_printf(&folder, "%s/pollux/apps", shelf->root);
    list_apps(folder.at, &known);
    if (known.n > 0)
        firn_fail(err, FIRN_ENOENT,
                  "%s has no tables for application '%.40s'; known: %s",
                  folder.at, name, known.at);
    else
        firn_fail(err, FIRN_ENOENT,
                  "%s: the tables of the Pollux artifact are not there; set "
                  "FIRN_DATA to the folder that holds pollux/",
                  folder.at);
    buf_release(&folder);
    buf_release(&known);
    return FIRN_ENOENT;
}

enum firn_status adlshelf_find(struct adlshelf *shelf, const char *name,
                               struct adlentry **out, struct firn_error *err)
{
    struct firn_error why = {0};
    for (size_t i = 0; i < shelf->entries.n; i++) {
        if (strcmp(shelf->entries.at[i]->name, name) == 0) {
            *out = shelf->entries.at[i];
            return FIRN_OK;
        }
    }
    struct adlentry *entry = mem_new(1, sizeof *entry);
    entry->name = mem_strdup(name);
    enum firn_status status = read_tables(entry, shelf->root, &why);
    if (status != FIRN_OK) {
        bool is_known = entry->truth.epochs > 0;
        entry_free(entry);
        return status == FIRN_ENOENT && !is_known
                   ? not_there(shelf, name, err)
                   : firn_fail(err, status, "%s", why.text);
    }
    set_limits(entry);
    vec_add(&shelf->entries, entry);
    *out = entry;
    return FIRN_OK;
}

static double iteration_s(const struct adlentry *entry, struct adlbatch batch,
                          int gpus)
{
    struct adlplace place = adlplace_packed(gpus, ADL_GPUS_PER_NODE);
    return adltime_iteration(adlsteps_at(&entry->steps, &place, batch.b),
                             batch.s);
}

struct adlguess *adlentry_guess(struct adlentry *entry, double batch)
{
    for (size_t i = 0; i < entry->guesses.n; i++)
        if (entry->guesses.at[i]->batch == batch)
            return entry->guesses.at[i];
    struct adlguess *guess = mem_new(1, sizeof *guess);
    guess->batch = batch;
    vec_add(&entry->guesses, guess);
    return guess;
}

double adlguess_s(struct adlguess *guess, const struct adlentry *entry,
                  int gpus)
{
    if (guess->iteration_s[gpus] == 0)
        guess->iteration_s[gpus] = iteration_s(
            entry, adlbatch_fixed(&entry->limits, guess->batch, gpus, true),
            gpus);
    return guess->iteration_s[gpus];
}

double adlentry_alone_s(const struct adlentry *entry, double batch, int gpus)
{
    const struct adlapp *truth = &entry->truth;
    struct adlbatch split = adlbatch_fixed(&entry->limits, batch, gpus, false);
    double total = adlbatch_total(split, gpus), duration_s = 0;
    double step_s = iteration_s(entry, split, gpus);
    for (int e = 0; e < truth->epochs; e++) {
        struct firn_noise noise = adlapp_noise(truth, total, e);
        duration_s += (truth->progress[e + 1] - truth->progress[e]) * step_s /
                      adlapp_gain(truth, &noise, total);
    }
    return duration_s;
}
