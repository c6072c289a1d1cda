/* known_open.c - profiles, ready for use.
 *
 * Statistics that one profile takes from another are copied, with the batches
 * and the work they belong to. Variances by layer are brought to the number of
 * layers that the profile itself can freeze: two counts of one network differ
 * in what is a layer, so its cumulative variance is read at equal shares of
 * the layers.
 */
#include "base/mem.h"
#include "core/known.h"
#include "model/measured.h"
#include <math.h>
#include <string.h>

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

enum firn_status known_link(struct known *known, struct firn_error *err)
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

enum firn_status known_load(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct known known = {.format = "", .cluster = cluster};
    FIRN_TRY(strcmp(profiles, "builtin") == 0
                 ? firn_profiles_builtin(&known.profiles, err)
                 : firn_profiles_load(&known.profiles, profiles, err));
    *out = known;
    return FIRN_OK;
}

enum firn_status known_open(struct known *out, const char *profiles,
                            const struct firn_cluster *cluster,
                            struct firn_error *err)
{
    struct known known;
    FIRN_TRY(known_load(&known, profiles, cluster, err));
    enum firn_status status = known_link(&known, err);
    if (status == FIRN_OK)
        *out = known;
    else
        known_close(&known);
    return status;
}

void known_close(struct known *known)
{
    firn_profiles_release(&known->profiles);
    *known = (struct known){0};
}
