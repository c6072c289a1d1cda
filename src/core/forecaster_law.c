/* forecaster_law.c - step times of applications, learned from reports.
 *
 * What is learned of an application is a profile: a copy of the one it has, or
 * an empty one with its name, whose law of step times (firn/itertime.h) on a
 * type of GPU is refitted to what its jobs report from there. Everything that
 * asks profiles asks this one from then on.
 *
 * A type is learned when jobs that were alone on their GPUs have reported two
 * shapes (GPUs, nodes, batch of a GPU, frozen layers) or more of it. The
 * reports of a shape are averaged, the newest counting as much as each of those
 * before, or as one of MEAN_OF (less than REPORT_RATE of forecaster.c: they
 * come from several jobs, and a refit is dear. On an H200 a job that had its
 * GPU alone reported 45 to 54 ms for a step, and slowdowns beside others are
 * judged by this mean: where the last three reports were most of it, they were
 * 5 to 9 % too low); a new shape, or one whose mean has moved by NEWS, refits
 * the law (firn_itertime_refit) from the profile's or, without one, from the
 * default: what was not seen stays as it was believed, so few reports change
 * little.
 *
 * What was seen can be saved as text and loaded again, by the names of the
 * types; the laws are fitted anew then.
 *
 * Reports of accumulated steps are not fitted: they are several passes.
 * Simulated jobs report no step times, so nothing is learned in a simulation.
 *
 * Cost: a look into a hash table for each new job; a refit takes milliseconds
 * and comes with news only. SHAPES_MAX shapes a type, LAWS_MAX applications;
 * later ones are not learned.
 */
#include "base/buf.h"
#include "base/lines.h"
#include "base/str.h"
#include "core/outlook.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEWS 0.05 /* share of a step time */

enum { MEAN_OF = 10 };
enum { SHAPES_MAX = 32, LAWS_MAX = 4096 };

/* A shape that was reported, and how long its steps were when last fitted. */
struct shape {
    struct firn_step_obs obs;
    double fitted_s;
    int n; /* reports; MEAN_OF at most */
};

struct law {
    const struct firn_profile *base; /* NULL: the application has no profile */
    struct firn_profile profile;     /* statistics and lists are `base`'s */
    long nfits;                      /* that succeeded */
    VEC(struct shape) seen[FIRN_TYPES_MAX];
};

void laws_release(struct forecaster *f)
{
    for (size_t i = 0; i < f->laws.n; i++) {
        for (int t = 0; t < f->priors.cluster->ntypes; t++)
            vec_release(&f->laws.at[i]->seen[t]);
        mem_free(f->laws.at[i]);
    }
    vec_release(&f->laws);
    map_release(&f->law_names);
}

struct known_app law_find(const struct forecaster *f,
                          const struct firn_job *job, double batch)
{
    int number = map_find(&f->law_names, job->spec.app);
    const struct law *law = number >= 0 ? f->laws.at[number] : NULL;
    if (law == NULL || law->nfits == 0 ||
        !(batch > 0 || law->profile.batch0 > 0))
        return (struct known_app){0};
    return known_by(f->priors.known, &law->profile,
                    f->priors.known->profiles.n + (size_t)number,
                    job->type_mask);
}

long law_fits(const struct forecaster *f, const char *app)
{
    int number = map_find(&f->law_names, app);
    return number >= 0 ? f->laws.at[number]->nfits : 0;
}

/* NULL: no application, or there are too many. */
static struct law *law_of(struct forecaster *f, const char *app)
{
    int number = map_find(&f->law_names, app);
    if (number >= 0)
        return f->laws.at[number];
    if (*app == '\0' || f->laws.n >= LAWS_MAX || f->priors.known == NULL)
        return NULL;
    struct law *law = mem_new(1, sizeof *law);
    law->base = known_find(f->priors.known, app, UINT32_MAX).profile;
    if (law->base != NULL)
        law->profile = *law->base;
    else
        law->profile = (struct firn_profile){
            .restart_s = -1, .resize = {.pause_s = -1}, .local_max = INFINITY};
    str_copy(law->profile.app, sizeof law->profile.app, app);
    map_add(&f->law_names, app);
    vec_add(&f->laws, law);
    return law;
}

/* --- what a report is of ------------------------------------------------- */

/* All GPUs on one type, or -1. */
static firn_type_id held_type(const struct forecaster *f,
                              const struct firn_alloc *held)
{
    firn_type_id type = -1;
    for (int i = 0; i < held->nparts; i++) {
        firn_type_id here = f->priors.cluster->nodes[held->parts[i].node].type;
        if (type >= 0 && here != type)
            return -1;
        type = here;
    }
    return type;
}

/* How the step was run; false: in a way that is not fitted. */
static bool shape_of(const struct forecaster *f, const struct law *law,
                     const struct forecaster_report *report,
                     struct firn_shape *out)
{
    const struct firn_alloc *held = &report->job->held;
    if (law == NULL || report->passes > 1 || held->ngpus < 1 ||
        !(report->step_s > 0) || !isfinite(report->step_s) ||
        llmjobs_is(&report->job->spec) || planjobs_is(&report->job->spec))
        return false;
    double batch = report->batch;
    if (!(batch > 0))
        batch = report->job->spec.batch > 0 ? report->job->spec.batch
                                            : law->profile.batch0;
    struct spread where = spread_of(f->priors.cluster, held);
    *out = (struct firn_shape){.nodes = where.nodes,
                               .gpus = where.gpus,
                               .gpus_on_fullest = where.fullest,
                               .batch_per_gpu = ceil(batch / where.gpus),
                               .accum_steps = 1,
                               .theta = 1,
                               .omega = 1};
    if (!(batch > 0) || (report->nfrozen > 0 && law->base == NULL))
        return false;
    if (report->nfrozen > 0) {
        struct firn_profile_frozen left =
            firn_profile_unfrozen(law->base, report->nfrozen);
        out->theta = left.theta;
        out->omega = left.omega;
    }
    return true;
}

static bool is_same(const struct firn_shape *a, const struct firn_shape *b)
{
    return a->nodes == b->nodes && a->gpus == b->gpus &&
           a->gpus_on_fullest == b->gpus_on_fullest &&
           a->batch_per_gpu == b->batch_per_gpu && a->theta == b->theta &&
           a->omega == b->omega;
}

static size_t find(const struct law *law, firn_type_id type,
                   const struct firn_shape *shape)
{
    size_t i = 0;
    while (i < law->seen[type].n &&
           !is_same(&law->seen[type].at[i].obs.shape, shape))
        i++;
    return i;
}

/* --- learning ------------------------------------------------------------ */

/* Takes in the mean of `n` step times; true: it is news. */
static bool take(struct law *law, firn_type_id type,
                 const struct firn_shape *shape, double step_s, int n)
{
    size_t i = find(law, type, shape);
    if (i == SHAPES_MAX)
        return false;
    if (i == law->seen[type].n) {
        struct shape first = {{*shape, step_s, (double)NAN}, 0, 0};
        vec_add(&law->seen[type], first);
    }
    struct shape *seen = &law->seen[type].at[i];
    seen->n = seen->n + n < MEAN_OF ? seen->n + n : MEAN_OF;
    seen->obs.step_s += (step_s - seen->obs.step_s) * n / seen->n;
    bool is_news =
        fabs(seen->obs.step_s - seen->fitted_s) > NEWS * seen->obs.step_s;
    if (is_news)
        seen->fitted_s = seen->obs.step_s;
    return is_news;
}

/* The learned profile's entry of a type; made where it has none. NULL: it is
 * full. */
static struct firn_profile_gpu *gpu_of(struct law *law, const char *type)
{
    const struct firn_profile_gpu *gpu = firn_profile_gpu(&law->profile, type);
    if (gpu != NULL)
        return &law->profile.gpus[gpu - law->profile.gpus];
    if (law->profile.ngpus == FIRN_PROFILE_TYPES)
        return NULL;
    struct firn_profile_gpu *to = &law->profile.gpus[law->profile.ngpus++];
    *to = (struct firn_profile_gpu){0};
    str_copy(to->type, sizeof to->type, type);
    return to;
}

static void refit(struct forecaster *f, struct law *law, firn_type_id type)
{
    struct firn_step_obs obs[SHAPES_MAX];
    struct firn_itertime_fit fit = {.form = FIRN_FORM_POLLUX};
    const char *name = f->priors.cluster->types[type].name;
    const struct firn_profile_gpu *known =
        law->base != NULL ? firn_profile_gpu(law->base, name) : NULL;
    struct firn_itertime time;
    struct firn_error err = {0};
    if (law->seen[type].n < 2)
        return;
    firn_itertime_default(&time);
    if (known != NULL)
        time = known->time;
    const double least = time.batch_min, most = time.batch_max;
    for (size_t i = 0; i < law->seen[type].n; i++)
        obs[i] = law->seen[type].at[i].obs;
    if (firn_itertime_refit(&time, obs, law->seen[type].n, &fit, &err) !=
        FIRN_OK)
        return;
    struct firn_profile_gpu *gpu = gpu_of(law, name);
    if (gpu == NULL)
        return;
    gpu->time = time;
    gpu->time.batch_min = least; /* what fits a GPU is not learned here */
    gpu->time.batch_max = most;
    law->nfits++;
    f->version++;
    trainer_clear(f->priors.trainer);
}

void law_learn(struct forecaster *f, const struct forecaster_report *report)
{
    struct firn_shape shape;
    if (!(report->step_s > 0))
        return;
    firn_type_id type = held_type(f, &report->job->held);
    struct law *law = type >= 0 ? law_of(f, report->job->spec.app) : NULL;
    if (shape_of(f, law, report, &shape) &&
        take(law, type, &shape, report->step_s, 1))
        refit(f, law, type);
}

double law_alone_s(const struct forecaster *f,
                   const struct forecaster_report *report)
{
    firn_type_id type = held_type(f, &report->job->held);
    int number = map_find(&f->law_names, report->job->spec.app);
    const struct law *law = number >= 0 ? f->laws.at[number] : NULL;
    struct firn_shape shape;
    if (type < 0 || !shape_of(f, law, report, &shape))
        return 0;
    size_t i = find(law, type, &shape);
    return i < law->seen[type].n ? law->seen[type].at[i].obs.step_s : 0;
}

/* --- over a restart ------------------------------------------------------- */

/* A line is: application, type, nodes, GPUs, GPUs on the fullest node, samples
 * of a GPU, both unfrozen shares, seconds of a step. */
void forecaster_save_steps(const struct forecaster *f, struct firn_buf *out)
{
    const struct firn_cluster *cluster = f->priors.cluster;
    for (size_t i = 0; i < f->laws.n; i++) {
        const char *app = map_name(&f->law_names, (int)i);
        const struct law *law = f->laws.at[i];
        if (strpbrk(app, "\t\n") != NULL)
            continue;
        for (int t = 0; t < cluster->ntypes; t++)
            for (size_t k = 0; k < law->seen[t].n; k++) {
                const struct firn_step_obs *obs = &law->seen[t].at[k].obs;
                const struct firn_shape *s = &obs->shape;
                buf_printf(out, "%s\t%s\t%d %d %d %.17g %.17g %.17g %.9g\n",
                           app, cluster->types[t].name, s->nodes, s->gpus,
                           s->gpus_on_fullest, s->batch_per_gpu, s->theta,
                           s->omega, obs->step_s);
            }
    }
}

/* The numbers of a line; false: they are not seven, or not of a step. */
static bool read_numbers(const char *text, struct firn_step_obs *out)
{
    double at[7];
    for (int i = 0; i < 7; i++) {
        char *end = NULL;
        at[i] = strtod(text, &end);
        if (end == text || (i < 3 && !(at[i] >= 0 && at[i] < 1e9)))
            return false;
        text = end;
    }
    *out = (struct firn_step_obs){.shape = {.nodes = (int)at[0],
                                            .gpus = (int)at[1],
                                            .gpus_on_fullest = (int)at[2],
                                            .batch_per_gpu = at[3],
                                            .accum_steps = 1,
                                            .theta = at[4],
                                            .omega = at[5]},
                                  .step_s = at[6],
                                  .sync_s = (double)NAN};
    return *text == '\0' && firn_step_obs_fault(out) == NULL;
}

static void load_step(struct forecaster *f, char *line)
{
    struct firn_step_obs obs;
    char *type = strchr(line, '\t');
    char *rest = type != NULL ? strchr(type + 1, '\t') : NULL;
    if (rest == NULL)
        return;
    *type++ = *rest++ = '\0';
    if (!read_numbers(rest, &obs))
        return;
    for (int t = 0; t < f->priors.cluster->ntypes; t++)
        if (strcmp(f->priors.cluster->types[t].name, type) == 0) {
            struct law *law = law_of(f, line);
            if (law != NULL && take(law, t, &obs.shape, obs.step_s, MEAN_OF))
                refit(f, law, t);
        }
}

void forecaster_load_steps(struct forecaster *f, const char *text)
{
    struct lines *in = lines_from((struct firn_bytes){text, strlen(text)});
    for (char *line; (line = lines_next(in)) != NULL;)
        load_step(f, line);
    lines_close(in);
}
