/* tables.c - measured tables beside the profiles they were fitted to.
 *
 * From a data folder: the full tables instead of the fits for the truth, and
 * statistics by epoch instead of thinned ones.
 *
 * An iteration takes T = step + (passes - 1) (step - sync) of the placement.
 * A table by frozen layers is looked up at the two nearest levels and
 * interpolated linearly between them; beyond the last level that one holds.
 */
#include "sim/tables.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

#define SPILL 0.1 /* of its speed is left to what does not fit its GPUs */

/* --- opening -------------------------------------------------------------- */

/* The profile can be a job's in this cluster: it knows one of its types. */
static bool is_here(const struct firn_profile *p,
                    const struct firn_cluster *cluster)
{
    for (int t = 0; t < cluster->ntypes; t++)
        if (firn_profile_gpu(p, cluster->types[t].name) != NULL)
            return true;
    return false;
}

/* Or one that can takes its statistics. */
static bool is_needed(const struct known *known, size_t i)
{
    const struct firn_profile *p = &known->profiles.at[i];
    bool is_lent = false;
    for (size_t k = 0; k < known->profiles.n && !is_lent; k++) {
        const struct firn_profile *q = &known->profiles.at[k];
        is_lent =
            q->stats_of[0] != '\0' && is_here(q, known->cluster) &&
            firn_profiles_find(&known->profiles, q->stats_of, NULL, NULL) == p;
    }
    return is_lent || is_here(p, known->cluster);
}

static bool has_type(const struct firn_cluster *cluster, const char *type)
{
    for (int t = 0; t < cluster->ntypes; t++)
        if (str_equal_nocase(cluster->types[t].name, type))
            return true;
    return false;
}

static enum firn_status attach_one(struct tables *tables, size_t i,
                                   const char *dir, struct firn_error *err)
{
    struct known *known = &tables->known;
    struct firn_profile *p = &known->profiles.at[i];
    struct tables_of *t = &tables->of[i];
    struct firn_profile_stats stats = {0};
    for (size_t k = 0; k < p->ngpus; k++)
        if (has_type(known->cluster, p->gpus[k].type))
            FIRN_TRY(measured_table(&t->steps[k], p->source, p->app,
                                    p->gpus[k].type, dir, err));
    FIRN_TRY(
        measured_levels(&t->levels, &t->nlevels, p->source, p->app, dir, err));
    FIRN_TRY(measured_stats(&stats, p->source, p->app, dir, err));
    if (stats.nstages == 0)
        return FIRN_OK;
    struct firn_profile_stats thin = p->stats;
    p->stats = stats;
    measured_stats_release(&thin);
    if (p->progress > 0)
        p->progress = stats.end[stats.nstages - 1];
    return FIRN_OK;
}

/* Rubick's tables of plans, those that are there. */
static enum firn_status read_plans(struct tables *tables, const char *dir,
                                   struct firn_error *err)
{
    size_t n;
    const struct plan_model *models = plan_models(&n);
    struct firn_buf path = {0};
    enum firn_status status = FIRN_OK;
    tables->plans = mem_new(n, sizeof *tables->plans);
    for (size_t i = 0; i < n && status == FIRN_OK; i++) {
        buf_clear(&path);
        buf_printf(&path, "%s/rubick/placements/%s.csv", dir, models[i].name);
        if (access(path.at, R_OK) == 0)
            status = plantable_read(&tables->plans[i], path.at, err);
    }
    buf_release(&path);
    return status;
}

enum firn_status tables_open(struct tables *out, const char *profiles,
                             const struct firn_cluster *cluster,
                             struct firn_error *err)
{
    struct tables tables = {0};
    bool is_data = measured_is_here(profiles);
    FIRN_TRY(known_load(&tables.known, is_data ? "builtin" : profiles, cluster,
                        err));
    size_t n = tables.known.profiles.n;
    enum firn_status status = FIRN_OK;
    tables.of = mem_new(n + 1, sizeof *tables.of);
    for (size_t i = 0; is_data && i < n && status == FIRN_OK; i++)
        if (is_needed(&tables.known, i))
            status = attach_one(&tables, i, profiles, err);
    if (status == FIRN_OK && is_data)
        status = read_plans(&tables, profiles, err);
    if (status == FIRN_OK)
        status = known_link(&tables.known, err);
    if (status == FIRN_OK)
        *out = tables;
    else
        tables_close(&tables);
    return status;
}

void tables_close(struct tables *tables)
{
    for (size_t i = 0; i < tables->known.profiles.n; i++) {
        struct tables_of *t = &tables->of[i];
        for (size_t k = 0; k < FIRN_PROFILE_TYPES; k++)
            steptable_release(&t->steps[k]);
        for (size_t k = 0; k < t->nlevels; k++)
            steptable_release(&t->levels[k].table);
        mem_free(t->levels);
    }
    size_t n;
    plan_models(&n);
    for (size_t i = 0; tables->plans != NULL && i < n; i++)
        plantable_release(&tables->plans[i]);
    mem_free(tables->plans);
    mem_free(tables->of);
    known_close(&tables->known);
    tables->of = NULL;
    tables->plans = NULL;
}

void tables_forget_pairs(struct tables *tables)
{
    for (size_t i = 0; i < tables->known.profiles.n; i++) {
        tables->known.profiles.at[i].npairs = 0;
        tables->known.profiles.at[i].nsharing = 0;
    }
}

/* --- what forecasts go by ------------------------------------------------- */

const char *firn_sim_forecast_name(enum firn_sim_forecast by)
{
    static const char *const names[] = {
        [FIRN_SIM_FORECAST_FIT] = "fit",
        [FIRN_SIM_FORECAST_TABLES] = "tables",
        [FIRN_SIM_FORECAST_POLLUX] = "pollux",
        [FIRN_SIM_FORECAST_DATA] = "data",
    };
    size_t i = (size_t)by;
    return i < sizeof names / sizeof *names ? names[i] : NULL;
}

enum firn_status tables_forecast_by(struct tables *tables,
                                    enum firn_sim_forecast by,
                                    struct firn_error *err)
{
    struct known *known = &tables->known;
    known->iteration_s = by == FIRN_SIM_FORECAST_TABLES ? tables_true_s : NULL;
    known->plans = by == FIRN_SIM_FORECAST_TABLES ? tables->plans : NULL;
    known->is_plain = by == FIRN_SIM_FORECAST_DATA;
    if (by != FIRN_SIM_FORECAST_POLLUX)
        return FIRN_OK;
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct firn_profile *p = &known->profiles.at[i];
        const struct steptable *steps = tables->of[i].steps;
        for (size_t k = 0; k < p->ngpus; k++)
            if (steps[k].nrows > 0)
                FIRN_TRY(measured_law(&p->gpus[k].time, &steps[k],
                                      FIRN_FORM_POLLUX, err));
    }
    return FIRN_OK;
}

/* --- step times ----------------------------------------------------------- */

static double looked_up(const struct steptable *table,
                        const struct spread *where,
                        const struct firn_batch_split *split)
{
    struct steptable_time at =
        where->nodes <= SPREAD_NODES
            ? steptable_at(table, where->each, where->nodes,
                           split->batch_per_gpu)
            : steptable_spread(table, where->gpus, where->nodes,
                               split->batch_per_gpu);
    return at.step_s + (split->accum_steps - 1) * (at.step_s - at.sync_s);
}

static double by_levels(const struct tables_of *tables,
                        const struct spread *where,
                        const struct setting *setting)
{
    const struct measured_level *at = tables->levels;
    size_t i = 0;
    while (i + 1 < tables->nlevels && at[i + 1].frozen <= setting->frozen)
        i++;
    double low_s = looked_up(&at[i].table, where, &setting->split);
    if (i + 1 == tables->nlevels || at[i].frozen >= setting->frozen)
        return low_s;
    double high_s = looked_up(&at[i + 1].table, where, &setting->split);
    return low_s + (high_s - low_s) * (setting->frozen - at[i].frozen) /
                       (at[i + 1].frozen - at[i].frozen);
}

static double true_on(const struct known *known, const struct known_app *app,
                      const struct firn_profile_gpu *gpu,
                      const struct spread *where, const struct setting *setting)
{
    const struct tables_of *tables =
        &((const struct tables *)known)->of[app->which];
    const struct steptable *steps = &tables->steps[gpu - app->profile->gpus];
    if (tables->nlevels > 0)
        return by_levels(tables, where, setting);
    if (steps->nrows > 0)
        return looked_up(steps, where, &setting->split);
    return known_law_on_s(app->profile, gpu, where, setting);
}

double tables_true_s(const struct known *known, const struct known_app *app,
                     const struct spread *where, const struct setting *setting)
{
    double longest_s = 0, slower;
    for (uint32_t types = where->types; types != 0; types &= types - 1) {
        const struct firn_profile_gpu *gpu =
            known_gpu(known, app, __builtin_ctz(types), &slower);
        longest_s =
            fmax(longest_s, slower * true_on(known, app, gpu, where, setting));
    }
    if (!known_fits(known, app, where, setting))
        longest_s /= SPILL;
    return longest_s;
}
