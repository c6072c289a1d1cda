/* known_open.c - profiles and tables into one place.
 *
 * From a data folder: the full tables instead of the fits for truth, and
 * statistics by epoch instead of thinned ones. Then statistics that one
 * profile takes from another are copied, with the batches and the work they
 * belong to. Variances by layer are brought to the number of layers that the
 * profile itself can freeze: two counts of one network differ in what is a
 * layer, so its cumulative variance is read at equal shares of the layers.
 */
#include "base/mem.h"
#include "base/str.h"
#include "sim/known.h"
#include <math.h>
#include <string.h>

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

static enum firn_status attach_one(struct known *known, size_t i,
                                   const char *dir, struct firn_error *err)
{
    struct firn_profile *p = &known->profiles.at[i];
    struct known_tables *t = &known->tables[i];
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

static double *copy(const double *from, size_t n)
{
    double *at = mem_new(n, sizeof *at);
    if (n > 0)
        memcpy(at, from, n * sizeof *at);
    return at;
}

/* The statistics of `from`, and what they are counted in. */
static void borrow(struct firn_profile *p, const struct firn_profile *from)
{
    const struct firn_profile_stats *s = &from->stats;
    measured_stats_release(&p->stats);
    p->stats = (struct firn_profile_stats){
        .nbatches = s->nbatches,
        .nstages = s->nstages,
        .nlayers = s->nlayers,
        .batch = copy(s->batch, s->nbatches),
        .end = copy(s->end, s->nstages),
        .grad_sqr = copy(s->grad_sqr, s->nstages * s->nbatches),
        .grad_var = copy(s->grad_var, s->nstages * s->nbatches),
        .layer_var = copy(s->layer_var, s->nstages * s->nlayers),
    };
    p->batch0 = p->batch0 > 0 ? p->batch0 : from->batch0;
    p->batch_max = p->batch_max > 0 ? p->batch_max : from->batch_max;
    p->epochs = p->epochs > 0 ? p->epochs : from->epochs;
    p->progress = p->progress > 0 ? p->progress : from->progress;
}

/* The variance of the first `share` of n layers. */
static double sum_until(const double *var, size_t n, double share)
{
    double sum = 0, end = share * (double)n;
    for (size_t j = 0; j < n && (double)j < end; j++)
        sum += fmax(var[j], 0) * fmin(1, end - (double)j);
    return sum;
}

static void relayer(struct firn_profile *p)
{
    struct firn_profile_stats *s = &p->stats;
    size_t n = (size_t)p->layers;
    if (n == 0 || s->nlayers == 0 || s->nlayers == n)
        return;
    double *at = mem_new(s->nstages * n, sizeof *at);
    for (size_t i = 0; i < s->nstages; i++) {
        const double *var = s->layer_var + i * s->nlayers;
        for (size_t j = 0; j < n; j++)
            at[i * n + j] =
                sum_until(var, s->nlayers, (double)(j + 1) / (double)n) -
                sum_until(var, s->nlayers, (double)j / (double)n);
    }
    mem_free(s->layer_var);
    s->layer_var = at;
    s->nlayers = n;
}

static enum firn_status link_all(struct known *known, struct firn_error *err)
{
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct firn_profile *p = &known->profiles.at[i];
        if (p->stats_of[0] == '\0')
            continue;
        const struct firn_profile *from =
            firn_profiles_find(&known->profiles, p->stats_of, NULL, err);
        if (from == NULL)
            return FIRN_ENOENT;
        borrow(p, from);
    }
    for (size_t i = 0; i < known->profiles.n; i++)
        relayer(&known->profiles.at[i]);
    return FIRN_OK;
}

enum firn_status known_open(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct known known = {.format = "", .cluster = cluster};
    bool is_data = measured_is_here(profiles);
    FIRN_TRY(is_data || strcmp(profiles, "builtin") == 0
                 ? firn_profiles_builtin(&known.profiles, err)
                 : firn_profiles_load(&known.profiles, profiles, err));
    known.tables = mem_new(known.profiles.n + 1, sizeof *known.tables);
    enum firn_status status = FIRN_OK;
    for (size_t i = 0; is_data && i < known.profiles.n && status == FIRN_OK;
         i++)
        if (is_needed(&known, i))
            status = attach_one(&known, i, profiles, err);
    if (status == FIRN_OK)
        status = link_all(&known, err);
    if (status == FIRN_OK)
        *out = known;
    else
        known_close(&known);
    return status;
}

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

enum firn_status known_forecast_by(struct known *known,
                                   enum firn_sim_forecast by,
                                   struct firn_error *err)
{
    known->looks_up = by == FIRN_SIM_FORECAST_TABLES;
    known->is_plain = by == FIRN_SIM_FORECAST_DATA;
    if (by != FIRN_SIM_FORECAST_POLLUX)
        return FIRN_OK;
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct firn_profile *p = &known->profiles.at[i];
        const struct steptable *steps = known->tables[i].steps;
        for (size_t k = 0; k < p->ngpus; k++)
            if (steps[k].nrows > 0)
                FIRN_TRY(measured_law(&p->gpus[k].time, &steps[k],
                                      FIRN_FORM_POLLUX, err));
    }
    return FIRN_OK;
}

void known_close(struct known *known)
{
    for (size_t i = 0; i < known->profiles.n; i++) {
        struct known_tables *t = &known->tables[i];
        for (size_t k = 0; k < FIRN_PROFILE_TYPES; k++)
            steptable_release(&t->steps[k]);
        for (size_t k = 0; k < t->nlevels; k++)
            steptable_release(&t->levels[k].table);
        mem_free(t->levels);
    }
    firn_profiles_release(&known->profiles);
    mem_free(known->tables);
    *known = (struct known){0};
}
