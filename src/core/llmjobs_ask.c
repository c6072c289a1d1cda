/* llmjobs_ask.c - what a user asks for a language model, put in a job's words.
 *
 * A user who asked for nothing (gpus 0) gave a duration on the best plan of
 * the reference type, best by samples a second for each GPU. Where a number of
 * GPUs is put in its place the duration is scaled: the samples to train stay.
 *
 * (1) A job that asked for nothing gets a number of GPUs if some plan fits.
 * (2) A job keeps to the types that have a split that fits; if none has, it
 *     asks for the least memory that would do, and waits with that reason.
 *
 * Cost: one search of plans, or one look at each number of GPUs of each type.
 */
#include "core/llmjobswork.h"
#include <math.h>
#include <stdio.h>

/* Those that fit by our figure, best first. */
static struct llmplans plans_that_fit(const struct llmjob *llm,
                                      const struct firn_cluster *cluster,
                                      uint32_t types)
{
    struct llmplans all = llmjobs_plans(llm, cluster, types, 1, cluster->ngpus);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].room_gib >= 0)
            all.at[n++] = all.at[i];
    all.n = n;
    return all;
}

/* The fewest GPUs of a type that hold it; 0 for none. */
static int fewest_of(const struct llmplans *plans, firn_type_id type)
{
    int fewest = 0;
    for (size_t i = 0; i < plans->n; i++) {
        int gpus = plans->at[i].t * plans->at[i].d;
        if (plans->at[i].type == type && (fewest == 0 || gpus < fewest))
            fewest = gpus;
    }
    return fewest;
}

/* Samples a second of the best plan on the reference type. */
static double best_samples_s(const struct llmplans *plans,
                             const struct firn_cluster *cluster, uint32_t types)
{
    firn_type_id type = 0;
    for (int n = 0; (type = llmjobs_nth_type(cluster, types, n)) >= 0; n++)
        for (size_t i = 0; i < plans->n; i++)
            if (plans->at[i].type == type)
                return plans->at[i].samples_s;
    return 0;
}

/* Sets the number of GPUs asked for; the samples to train stay. */
static void ask_for(struct firn_job_spec *spec, const struct llmjob *llm,
                    const struct firn_cluster *cluster,
                    const struct llmplans *plans, uint32_t types, int gpus)
{
    double samples = spec->duration_s * best_samples_s(plans, cluster, types);
    spec->gpus = gpus;
    spec->duration_s =
        samples / llmjobs_reference_samples_s(llm, cluster, types, gpus);
}

void llmjobs_ask(const struct firn_cluster *cluster, struct firn_job_spec *spec)
{
    uint32_t types = llmjobs_types(cluster, spec);
    struct llmjob llm = llmjobs_bare(spec);
    struct llmplans plans = plans_that_fit(&llm, cluster, types);
    firn_type_id fastest = -1;
    for (int t = 0; t < cluster->ntypes; t++)
        if (fewest_of(&plans, t) > 0 &&
            (fastest < 0 ||
             cluster->types[t].speed > cluster->types[fastest].speed))
            fastest = t;
    if (fastest >= 0) {
        int gpus = fewest_of(&plans, fastest);
        ask_for(spec, &llm, cluster, &plans, types, gpus);
        spec->gpus_min = spec->gpus_max = gpus;
    }
    vec_release(&plans);
}

void llmjobs_fill(const struct firn_cluster *cluster,
                  struct firn_job_spec *spec)
{
    uint32_t types = llmjobs_types(cluster, spec);
    struct llmjob llm = llmjobs_bare(spec);
    struct llmplans plans = plans_that_fit(&llm, cluster, types);
    int asked = 0, least = 0, most = 0;
    for (int t = 0; t < cluster->ntypes; t++) {
        int fewest = fewest_of(&plans, t);
        asked = fewest > asked ? fewest : asked;
        if (fewest > 0 && (least == 0 || fewest < least))
            least = fewest;
    }
    for (size_t i = 0; i < plans.n; i++) {
        int gpus = plans.at[i].t * plans.at[i].d;
        most = gpus > most ? gpus : most;
    }
    if (asked > 0) {
        ask_for(spec, &llm, cluster, &plans, types, asked);
        spec->gpus_min = least;
        spec->gpus_max = most;
    }
    vec_release(&plans);
}

/* The type has a split that fits, with a number of GPUs the job accepts. */
static bool suits(const struct llmjob *llm, const struct firn_cluster *cluster,
                  firn_type_id type, const struct firn_job_spec *spec,
                  double *need_gib)
{
    struct llmgpus of = llmjobs_gpus_of(cluster, type);
    int most = llmjobs_gpus_max(llm);
    most = most < spec->gpus_max ? most : spec->gpus_max;
    if (most > cluster->types[type].ngpus)
        most = cluster->types[type].ngpus;
    for (int gpus = spec->gpus_min; gpus <= most; gpus++) {
        struct llmspot spot = llmjobs_packed_on(&of, gpus, 0);
        double need = 0;
        struct llmhow any = {.is_open = true};
        if (llmjobs_expect(llm, &spot, any, &need) > 0)
            return true;
        *need_gib = need < *need_gib ? need : *need_gib;
    }
    return false;
}

void llmjobs_restrict(const struct firn_cluster *cluster,
                      struct firn_job_spec *spec, char text[LLMJOBS_TYPES_TEXT])
{
    struct llmjob llm = llmjobs_bare(spec);
    uint32_t types = llmjobs_types(cluster, spec);
    double need_gib = INFINITY;
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < cluster->ntypes; t++)
        if ((types >> t & 1) && suits(&llm, cluster, t, spec, &need_gib))
            n += (size_t)snprintf(text + n, LLMJOBS_TYPES_TEXT - n, "%s%s",
                                  n > 0 ? "|" : "", cluster->types[t].name);
    if (n > 0)
        spec->types = text;
    else if (isfinite(need_gib) && need_gib > spec->mem_gib)
        spec->mem_gib = need_gib;
}
