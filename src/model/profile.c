/* profile.c - look-up, batch rule and gradient statistics of profiles.
 *
 * The batch rule is the one the AdaptDL simulator uses for jobs whose total
 * batch B is fixed, on r GPUs with at most bmax samples a GPU and pass:
 *
 *     L = ceil(B / r),  s = ceil(L / bmax)    (>= 2 when r = 1 and B > B0)
 *     b = min(ceil(L / s), floor(Bmax / (r s)))
 *
 * with ceilings that forgive 1e-8. The gain of a batch is goodput.h's, its two
 * statistics interpolated linearly in B between the measured batches and held
 * beyond them; estimates of |g|^2 below 0 count as 0.
 */
#include <firn/profile.h>

#include "base/buf.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

void firn_profile_release(struct firn_profile *profile)
{
    struct firn_profile_stats *s = &profile->stats;
    mem_free(s->batch);
    mem_free(s->end);
    mem_free(s->grad_sqr);
    mem_free(s->grad_var);
    mem_free(s->layer_var);
    *s = (struct firn_profile_stats){0};
    mem_free(profile->pairs);
    profile->pairs = NULL;
    profile->npairs = 0;
    mem_free(profile->sharing);
    profile->sharing = NULL;
    profile->nsharing = 0;
    mem_free(profile->executors);
    profile->executors = NULL;
    profile->nexecutors = 0;
    mem_free(profile->frozen);
    profile->frozen = NULL;
    profile->nfrozen = 0;
}

/* The application goes by that name: exactly, or before an '@'. */
static bool goes_by(const char *name, const char *app)
{
    size_t n = strlen(name);
    return strncmp(name, app, n) == 0 && (app[n] == '\0' || app[n] == '@');
}

double firn_profile_beside(const struct firn_profile *profile,
                           const char *other)
{
    for (size_t i = 0; i < profile->npairs; i++)
        if (goes_by(profile->pairs[i].other, other))
            return profile->pairs[i].xi;
    return 0;
}

/* How far apart two batches are; one that is not known is not far. */
static double apart(double a, double b)
{
    return a > 0 && b > 0 ? fabs(fm_log(a / b)) : 0;
}

double firn_profile_beside_at(const struct firn_profile *profile,
                              const char *type, double samples,
                              const char *other, double other_samples)
{
    const struct firn_profile_sharing *best = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < profile->nsharing; i++) {
        const struct firn_profile_sharing *row = &profile->sharing[i];
        if (!goes_by(row->other, other) || !str_equal_nocase(row->type, type))
            continue;
        double far = apart(samples, row->samples) +
                     apart(other_samples, row->other_samples);
        if (far < least) {
            least = far;
            best = row;
        }
    }
    return best != NULL ? best->xi : firn_profile_beside(profile, other);
}

void firn_profiles_release(struct firn_profiles *profiles)
{
    for (size_t i = 0; i < profiles->n; i++)
        firn_profile_release(&profiles->at[i]);
    mem_free(profiles->at);
    *profiles = (struct firn_profiles){0};
}

bool firn_profile_is(const struct firn_profile *profile, const char *app)
{
    return goes_by(profile->app, app);
}

const struct firn_profile_gpu *
firn_profile_gpu(const struct firn_profile *profile, const char *type)
{
    for (size_t i = 0; i < profile->ngpus; i++)
        if (str_equal_nocase(profile->gpus[i].type, type))
            return &profile->gpus[i];
    return NULL;
}

double firn_profile_mem_mib(const struct firn_profile_gpu *gpu, double samples,
                            double theta)
{
    double all = gpu->mem_mib + gpu->mem_sample_mib * samples;
    double saved = gpu->mem_saved_mib + gpu->mem_saved_sample_mib * samples;
    return all > 0 ? all - (1 - theta) * saved : (double)NAN;
}

double firn_profile_util(const struct firn_profile_gpu *gpu, double samples,
                         double theta)
{
    double all = gpu->util + gpu->util_sample * samples;
    double saved = gpu->util_saved + gpu->util_saved_sample * samples;
    return all > 0 ? fmin(1, all - (1 - theta) * saved) : (double)NAN;
}

static void say_unknown(const struct firn_profiles *profiles, const char *app,
                        struct firn_error *err)
{
    const char **names = mem_new(profiles->n + 1, sizeof *names);
    struct firn_buf known = {0};
    for (size_t i = 0; i < profiles->n; i++) {
        names[i] = profiles->at[i].app;
        buf_printf(&known, "%s%s/%s", i > 0 ? ", " : "", profiles->at[i].source,
                   profiles->at[i].app);
    }
    int near = str_nearest(app, names, profiles->n);
    firn_fail(err, FIRN_ENOENT, "no profile of '%.40s'%s%s%s; known: %s", app,
              near >= 0 ? " (nearest: " : "", near >= 0 ? names[near] : "",
              near >= 0 ? ")" : "", known.n > 0 ? known.at : "none");
    buf_release(&known);
    mem_free(names);
}

const struct firn_profile *
firn_profiles_find(const struct firn_profiles *profiles, const char *app,
                   const char *type, struct firn_error *err)
{
    const struct firn_profile *other = NULL;
    for (size_t i = 0; i < profiles->n; i++) {
        const struct firn_profile *p = &profiles->at[i];
        size_t n = strlen(p->source); /* of "pollux/bert" */
        bool is_of = strncmp(p->source, app, n) == 0 && app[n] == '/';
        if (!firn_profile_is(p, is_of ? app + n + 1 : app))
            continue;
        if (type == NULL || firn_profile_gpu(p, type) != NULL)
            return p;
        other = p;
    }
    if (other == NULL)
        say_unknown(profiles, app, err);
    else
        firn_fail(err, FIRN_ENOENT,
                  "no profile of '%.40s' on %.40s; %s/%s knows %s", app, type,
                  other->source, other->app,
                  other->ngpus > 0 ? other->gpus[0].type : "no type");
    return NULL;
}

static double up(double x)
{
    return ceil(x - 1e-8);
}

struct firn_batch_split firn_profile_split(const struct firn_profile *profile,
                                           double batch, int gpus,
                                           double local_max)
{
    double total = batch > 0 ? batch : profile->batch0;
    double each = up((total > 0 ? total : gpus) / gpus);
    double passes = local_max > 0 ? up(each / local_max) : 1;
    if (gpus == 1 && profile->batch0 > 0 && total > profile->batch0)
        passes = passes < 2 ? 2 : passes;
    passes = passes < 1 ? 1 : passes > 1e6 ? 1e6 : passes;
    double b = up(each / passes);
    if (profile->batch_max > 0)
        b = fmin(b, floor(profile->batch_max / (gpus * passes)));
    b = b < 1 ? 1 : b;
    return (struct firn_batch_split){
        .batch_per_gpu = b,
        .accum_steps = (int)passes,
        .total = gpus * b * passes,
    };
}

size_t firn_profile_stage(const struct firn_profile *profile, double progress)
{
    const struct firn_profile_stats *s = &profile->stats;
    size_t low = 0, high = s->nstages > 0 ? s->nstages - 1 : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (progress < s->end[mid])
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

struct firn_profile_frozen
firn_profile_unfrozen(const struct firn_profile *profile, double frozen)
{
    const struct firn_profile_frozen *at = profile->frozen;
    size_t i = 0, n = profile->nfrozen;
    if (n == 0 || !(frozen > 0))
        return (struct firn_profile_frozen){0, 1, 1};
    while (i + 1 < n && at[i + 1].frozen <= frozen)
        i++;
    if (i + 1 == n)
        return (struct firn_profile_frozen){frozen, at[i].theta, at[i].omega};
    double part = (frozen - at[i].frozen) / (at[i + 1].frozen - at[i].frozen);
    return (struct firn_profile_frozen){
        .frozen = frozen,
        .theta = at[i].theta + part * (at[i + 1].theta - at[i].theta),
        .omega = at[i].omega + part * (at[i + 1].omega - at[i].omega),
    };
}

struct firn_noise firn_profile_noise(const struct firn_profile *profile,
                                     size_t stage, double batch)
{
    const struct firn_profile_stats *s = &profile->stats;
    size_t i = 0;
    while (i + 1 < s->nbatches && s->batch[i + 1] < batch)
        i++;
    size_t j = i + 1 < s->nbatches ? i + 1 : i;
    double part =
        j > i ? (batch - s->batch[i]) / (s->batch[j] - s->batch[i]) : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    const double *sqr = s->grad_sqr + stage * s->nbatches;
    const double *var = s->grad_var + stage * s->nbatches;
    struct firn_noise noise = {
        .grad_sqr = sqr[i] + part * (sqr[j] - sqr[i]),
        .grad_var = var[i] + part * (var[j] - var[i]),
        .batch0 = profile->batch0,
    };
    noise.grad_sqr = noise.grad_sqr > 0 ? noise.grad_sqr : 0;
    noise.grad_var = noise.grad_var > 0 ? noise.grad_var : 0;
    return noise;
}

double firn_profile_gain(const struct firn_profile *profile, size_t stage,
                         double batch)
{
    const struct firn_profile_stats *s = &profile->stats;
    if (s->nbatches == 0 || s->nstages == 0 || !(profile->batch0 > 0))
        return profile->batch0 > 0 ? batch / profile->batch0 : batch;
    struct firn_noise noise = firn_profile_noise(profile, stage, batch);
    return firn_gain(&noise, batch);
}

int firn_profile_executors(const struct firn_profile *profile, const char *type,
                           double mem_gib, double samples,
                           struct firn_executor_ways *out)
{
    out->n = 0;
    for (size_t i = 0; i < profile->nexecutors; i++) {
        const struct firn_profile_executors *row = &profile->executors[i];
        int at = out->n;
        if (!str_equal_nocase(row->type, type) ||
            row->mem_mib > mem_gib * 1024 ||
            fabs(row->samples - samples) > 1e-6)
            continue;
        if (at == FIRN_EXECUTORS_MAX)
            break;
        for (; at > 0 && out->at[at - 1].number > row->number; at--)
            out->at[at] = out->at[at - 1];
        out->at[at] = (struct firn_executors){row->number, row->speed};
        out->n++;
    }
    return out->n;
}
