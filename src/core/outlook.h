/* outlook.h - the forecaster's insides: what is kept of each job.
 *
 * Shared by the forecaster*.c files only.
 *
 *   forecaster.c       corrections by reports, and the answers
 *   forecaster_fit.c   a way by the fit alone
 *   forecaster_law.c   step times of applications, learned from reports
 *   forecaster_pair.c  slowdowns on shared GPUs
 *   forecaster_load.c  memory and utilisation
 */
#ifndef CORE_OUTLOOK_H
#define CORE_OUTLOOK_H
#include "base/map.h"
#include "base/vec.h"
#include "core/forecaster.h"
#include "core/llmjobs.h"
#include "core/planjobs.h"
#include "core/waytable.h"
#include <firn/freeze.h>
#include <firn/sharing.h>

/* How much the newest of several reports of one condition counts. */
#define REPORT_RATE 0.5

/* What a trainer reports of its settings. Zeroed: as submitted. */
struct reported {
    double batch; /* of all GPUs together; 0: not reported */
    int nfrozen;  /* layers */
};

/* A way that the job was run in. */
struct tried {
    struct firn_way way; /* with everything said, but for `counts` */
    double ratio;        /* reported over fitted */
    double rate;         /* reported: reference seconds a second, */
    double share;        /* and of the job's work a second */
    struct reported setting;
    size_t part;
    int starts, n;           /* of the job; reports since that start */
    bool is_alone, is_mixed; /* of several types: */
    int counts[FIRN_TYPES_MAX];
};

struct law;

/* What is expected of one job, by slot. */
struct outlook {
    firn_job_id id;         /* whose it is, from 1 on; 0: no job's */
    unsigned version;       /* of the laws it was made by */
    double duration_s;      /* of the job, when it was made */
    double from_s, until_s; /* of done_s, while it is in `part` */
    double correction; /* of ways not tried: the mean ratio of those tried */
    /* By the fit; or, of ways it was run in, corrected and below 0. */
    struct waytable answers;

    bool is_laid_out; /* by the job's present spec */
    long nfits;       /* of the law of its application, when it was */
    size_t part;
    struct known_app app; /* as profiled, or as learned */
    int pair_app; /* number of the profile in the pair table; -1: it has none */
    bool is_llm;
    struct llmjob llm;
    struct planjob
        plan;           /* its plans were measured; model NULL: they were not */
    firn_type_id type;  /* its reference */
    struct running ref; /* by the fit */
    struct parts parts;
    double *ends; /* reference seconds at which each part ends */
    VEC(struct tried) tried;
    size_t stay; /* the way of the last report, from 1 on; 0: it shared GPUs */
    int useful_gpus; /* beyond them it was seen to get slower; 0: never */
    struct reported setting; /* by the last report that has it */
    /* Variances of its gradients as reported; nlayers 0: none were. */
    struct firn_freeze freeze;
    double *freeze_storage;

    /* Beside another job before it was ever alone. */
    struct firn_way beside_way;
    double beside_share; /* of its work a second */
    int beside_app, nbeside, nalone;

    double mem_gib, util;     /* by its trainer's account; 0: not reported */
    struct firn_load sampled; /* as measured from outside */
    int nsampled;
};

/* Two that are bad for each other: applications by number, or -1 - id for a
 * job that names none. */
struct bad_pair {
    int a, b; /* a <= b */
};

struct forecaster {
    struct forecaster_priors priors;
    int largest[FIRN_TYPES_MAX]; /* node of each type */
    VEC(struct outlook) jobs;    /* by slot */

    unsigned version; /* changes when a law does */
    struct map law_names;
    VEC(struct law *) laws; /* by number in `law_names` */

    struct map pair_names; /* applications without a profile */
    struct firn_pairs pairs;
    double *pairs_storage; /* NULL: nothing was seen of any pair */
    int *class_of;
    VEC(struct bad_pair) bad;

    struct map load_names;
    VEC(struct firn_load) loads; /* by number in `load_names`, then type */
};

/* --- forecaster.c --- */

/* The outlook that there is; NULL: none. */
static inline struct outlook *outlook_find(const struct forecaster *f,
                                           struct forecaster_key key)
{
    size_t slot = (size_t)key.slot;
    return slot < f->jobs.cap && f->jobs.at[slot].id == key.id + 1
               ? &f->jobs.at[slot]
               : NULL;
}
/* The same, an empty one if there is none. */
struct outlook *outlook_keep(struct forecaster *f, struct forecaster_key key);
/* With the duration, the profile and the step times of now. */
struct outlook *outlook_make(struct forecaster *f, struct forecaster_key key,
                             const struct firn_job *job);
/* Made anew when the slot had another job. Moves when the next slot is asked
 * for. */
static inline struct outlook *outlook_of(struct forecaster *f,
                                         struct forecaster_key key,
                                         const struct firn_job *job)
{
    struct outlook *o = outlook_find(f, key);
    return o != NULL && o->version == f->version &&
                   o->duration_s == job->spec.duration_s
               ? o
               : outlook_make(f, key, job);
}
/* Brings it to the part of training in which `done_s` lies. */
void outlook_move(struct outlook *o, const struct firn_job *job, double done_s);

/* --- forecaster_fit.c --- */

/* Reads the profile, or what was learned, and lays training out in parts. */
void outlook_lay_out(struct forecaster *f, struct outlook *o,
                     const struct firn_job *job);
/* The rate of a way with everything said, by the fit in the job's present part
 * of training; 0 when it cannot be. */
double outlook_fit(const struct forecaster *f, const struct outlook *o,
                   const struct firn_job *job, const struct firn_way *way);
/* Its elastic threads and executors by type in that way; false: its steps are
 * not known, or it cannot be run so. */
bool outlook_threads(const struct forecaster *f, const struct outlook *o,
                     const struct firn_job *job, const struct firn_way *way,
                     struct firn_waste_type *types);
/* The same way with everything said: its type, and how many nodes. */
struct firn_way outlook_plain(const struct forecaster *f,
                              const struct outlook *o,
                              const struct firn_way *way);
/* The settings of its trainer on `where`, run that way, by a profile. */
struct setting outlook_setting(const struct forecaster *f,
                               const struct outlook *o,
                               const struct firn_job *job,
                               const struct spread *where,
                               const struct firn_way *way);
/* The batch that its trainer is taken to have, where it tunes none. */
double outlook_batch(const struct outlook *o, const struct firn_job *job);

/* --- forecaster_load.c --- */

/* Samples on a GPU in one pass, run that way; 0: not known. */
double outlook_samples(const struct forecaster *f, const struct outlook *o,
                       const struct firn_job *job, const struct firn_way *way);

/* --- forecaster_law.c --- */

/* The learned profile of a job, if there is one that it can use. */
struct known_app law_find(const struct forecaster *f,
                          const struct firn_job *job, double batch);
/* How often the law of an application was fitted; 0: never. */
long law_fits(const struct forecaster *f, const char *app);
/* Takes in the step time of a job that is alone on its GPUs. */
void law_learn(struct forecaster *f, const struct forecaster_report *report);
/* How long steps run so were seen to take alone; 0: never. */
double law_alone_s(const struct forecaster *f,
                   const struct forecaster_report *report);
void laws_release(struct forecaster *f);

/* --- forecaster_pair.c --- */

/* The number of an application in the pair table; -1: there are too many. */
int pair_number(struct forecaster *f, const char *app);
/* One of application `a` went `slower` times slower beside one of `b`. */
void pair_add(struct forecaster *f, int a, int b, double slower);
void pairs_release(struct forecaster *f);

#endif
