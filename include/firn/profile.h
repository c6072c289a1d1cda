/* profile.h - what is known about an application on each type of GPU.
 *
 * A profile holds fitted step times by GPU type, the limits of its batch, how
 * much work it is, and how its gradients behave as it trains. Profiles are
 * small text files, profiles/SOURCE/APP.txt; docs/profiles.md describes the
 * format and where the shipped ones come from. Those are also part of the
 * library (firn_profiles_builtin), so that a program needs no files.
 *
 * Work is counted in iterations at the initial batch, as Pollux does. Training
 * is cut into stages; within one the gradient statistics are constant.
 *
 * `synthetic` marks a profile that was built from models, not measured.
 */
#ifndef FIRN_PROFILE_H
#define FIRN_PROFILE_H
#include <firn/bytes.h>
#include <firn/cost.h>
#include <firn/goodput.h>
#include <firn/parallel.h>
#include <firn/waste.h>
#include <stdbool.h>

FIRN_C_BEGIN

enum {
    FIRN_PROFILE_TYPES = 8,  /* GPU types in one profile */
    FIRN_PROFILE_NAME = 64,  /* bytes of a name */
    FIRN_PROFILE_TEXT = 400, /* and of a sentence */
    FIRN_PROFILE_STAGES = 20 /* stages of a shipped profile, at most */
};

/* What sharded data parallel adds to its step times: (9) and (10) of
 * firn/parallel.h. The law of the gather by the nodes it is over. */
struct firn_profile_sharded {
    double gamma_lm; /* 0: it is not trained so */
    double para_alpha_s, para_beta;
    struct firn_sync_law local, pair, far;
};

/* And pipelines: (11) to (13). */
struct firn_profile_pipeline {
    double micro_batch;      /* samples; 0: it is not trained so */
    double act_s, far_act_s; /* a sample's activations, or their gradients, to
                              * the next stage: in a node, between nodes */
};

/* The application on one type of GPU. */
struct firn_profile_gpu {
    char type[FIRN_PROFILE_NAME]; /* as clusters name it: "t4" */
    struct firn_itertime time;
    double fit_mean, fit_max; /* error of the fit, 0.03 is 3 %; NaN: none */
    long fit_rows;            /* measurements it was fitted on */
    double mem_mib, mem_sample_mib; /* peak memory of a GPU: a + b x samples;
                                     * 0, 0: not known */
    double util, util_sample; /* share of the time a GPU computes: the same,
                               * at most 1 */
    /* What of these is saved were all layers frozen: c + d x samples. */
    double mem_saved_mib, mem_saved_sample_mib, util_saved, util_saved_sample;
    struct firn_profile_sharded sharded;
    struct firn_profile_pipeline pipeline;
};

/* Gradient statistics. Stage i lasts while progress < end[i]; those of the
 * j-th batch are at [i * nbatches + j], the variance of layer j at the
 * smallest batch at [i * nlayers + j]. All NULL when nothing is known. */
struct firn_profile_stats {
    size_t nbatches, nstages, nlayers;
    double *batch; /* total batch, rising */
    double *end;   /* progress, rising */
    double *grad_sqr, *grad_var;
    double *layer_var;
};

/* What is left to train when the first `frozen` layers are not. */
struct firn_profile_frozen {
    double frozen, theta, omega; /* shares of FLOPs and of parameters */
};

/* A job of it beside one of another application on the same GPU. */
struct firn_profile_pair {
    char other[FIRN_PROFILE_NAME];
    double xi; /* step time over that alone, >= 1 */
};

/* The same on one type of GPU, by the samples of a pass of the two. */
struct firn_profile_sharing {
    char type[FIRN_PROFILE_NAME], other[FIRN_PROFILE_NAME];
    double samples, other_samples;
    double xi;
};

/* Several processes of one job on one GPU of a type, each with elastic threads
 * of its own, beside one process with all of them. */
struct firn_profile_executors {
    char type[FIRN_PROFILE_NAME];
    int number;     /* >= 2 */
    double speed;   /* mini-batches a second of all of them / of one */
    double mem_mib; /* of all of them on the GPU, peak */
    double samples; /* in a mini-batch of a thread, when it was measured */
};

struct firn_profile {
    char app[FIRN_PROFILE_NAME], source[FIRN_PROFILE_NAME];
    char origin[FIRN_PROFILE_TEXT];   /* its source: authors and place */
    char hardware[FIRN_PROFILE_TEXT]; /* on what */
    char method[FIRN_PROFILE_TEXT];   /* how the numbers were made */
    bool is_synthetic;
    double batch0, batch_max;    /* total batch: initial, largest; 0: not
                                  * known */
    double local_min, local_max; /* batch on one GPU and pass */
    double epochs, progress;     /* all its work; 0: not known */
    double restart_s;            /* < 0: not known */
    double states_mib; /* weights, gradients and optimizer of the whole model,
                        * which sharding and pipelines divide; 0: not known, or
                        * counted with the memory of a GPU */
    struct firn_profile_gpu gpus[FIRN_PROFILE_TYPES];
    size_t ngpus;
    struct firn_profile_stats stats;    /* owned */
    char stats_of[FIRN_PROFILE_NAME];   /* SOURCE/APP whose statistics hold for
                                         * it as well; "": none */
    double layers;                      /* it can freeze; 0: not known */
    struct firn_profile_frozen *frozen; /* by layers, rising from 0; owned */
    size_t nfrozen;
    struct firn_profile_pair *pairs; /* owned */
    size_t npairs;
    struct firn_profile_sharing *sharing; /* owned */
    size_t nsharing;
    char layers_of[FIRN_PROFILE_NAME]; /* SOURCE/APP whose variances by layer
                                        * replace those of the statistics, at
                                        * equal shares of training; "": none */
    struct firn_profile_executors *executors; /* owned */
    size_t nexecutors;
    struct firn_cost resize; /* without a stop; pause_s < 0: not measured */
};

/* Ordered by source, then application. Owns its profiles. */
struct firn_profiles {
    struct firn_profile *at;
    size_t n;
};

/* Reads every DIR/NAME.txt and DIR/FOLDER/NAME.txt. FIRN_EINVAL with file and
 * line for a bad one; FIRN_ENOENT when there is none. The caller releases. */
FIRN_API enum firn_status firn_profiles_load(struct firn_profiles *out,
                                             const char *dir,
                                             struct firn_error *err);

/* The shipped ones. */
FIRN_API enum firn_status firn_profiles_builtin(struct firn_profiles *out,
                                                struct firn_error *err);

FIRN_API void firn_profiles_release(struct firn_profiles *profiles);

/* One profile from text; `where` names it in sentences. The caller releases
 * it. Unknown keys are errors. */
FIRN_API enum firn_status firn_profile_parse(struct firn_profile *out,
                                             struct firn_bytes text,
                                             const char *where,
                                             struct firn_error *err);

/* The text that reads back as the same profile; numbers to 6 digits. */
FIRN_API void firn_profile_write(const struct firn_profile *profile,
                                 struct firn_buf *out);

FIRN_API void firn_profile_release(struct firn_profile *profile);

/* The first profile of that application, or SOURCE/APPLICATION, that knows the
 * type of GPU (NULL: any). "vit@food101" is "vit" when it has no profile of
 * its own. NULL with a sentence that names the nearest, or all there are. */
FIRN_API const struct firn_profile *
firn_profiles_find(const struct firn_profiles *profiles, const char *app,
                   const char *type, struct firn_error *err);

/* The application goes by this name: exactly, or before an '@'. */
FIRN_API bool firn_profile_is(const struct firn_profile *profile,
                              const char *app);

/* The application on that type (case does not matter); NULL for none. */
FIRN_API const struct firn_profile_gpu *
firn_profile_gpu(const struct firn_profile *profile, const char *type);

/* Peak memory and utilisation of a GPU with `samples` samples and a share theta
 * of FLOPs not frozen, linear in theta; NaN: not known. */
FIRN_API double firn_profile_mem_mib(const struct firn_profile_gpu *gpu,
                                     double samples, double theta);
FIRN_API double firn_profile_util(const struct firn_profile_gpu *gpu,
                                  double samples, double theta);

/* How much slower a step is beside that application; 0 when the two were never
 * measured together. */
FIRN_API double firn_profile_beside(const struct firn_profile *profile,
                                    const char *other);

/* The same on a GPU of that type, with `samples` samples in a pass of this
 * application and `other_samples` in one of the other: of the rows measured
 * there the one with the least |ln samples' ratio| + |ln other samples' ratio|,
 * the first of several. Samples that are not known (0) do not count. Without a
 * row for the type: firn_profile_beside(). */
FIRN_API double firn_profile_beside_at(const struct firn_profile *profile,
                                       const char *type, double samples,
                                       const char *other, double other_samples);

/* The executors that a GPU of that type and memory can hold, with `samples`
 * samples in a mini-batch of a thread: the rows measured with just as many,
 * rising in number. Returns how many there are. */
FIRN_API int firn_profile_executors(const struct firn_profile *profile,
                                    const char *type, double mem_gib,
                                    double samples,
                                    struct firn_executor_ways *out);

/* How a total batch is split over GPUs and passes. */
struct firn_batch_split {
    double batch_per_gpu; /* whole samples, of one pass */
    int accum_steps;      /* passes, >= 1 */
    double total;         /* realised: gpus x batch_per_gpu x accum_steps */
};

/* Pollux's rule for a fixed total batch (<= 0: the initial one): the fewest
 * passes that fit local_max, two at least for one GPU beyond the initial
 * batch, the batch on a GPU rounded up but not beyond batch_max in all. */
FIRN_API struct firn_batch_split
firn_profile_split(const struct firn_profile *profile, double batch, int gpus,
                   double local_max);

/* The stage at this progress, 0 before the first; the last one for ever. */
FIRN_API size_t firn_profile_stage(const struct firn_profile *profile,
                                   double progress);

/* The shares left with the first `frozen` layers frozen, linear between the
 * levels known and held beyond them; 1, 1 when none are. */
FIRN_API struct firn_profile_frozen
firn_profile_unfrozen(const struct firn_profile *profile, double frozen);

/* Gradient statistics at this total batch, in that stage: those of the two
 * nearest batches interpolated linearly, at least 0. The profile has some. */
FIRN_API struct firn_noise
firn_profile_noise(const struct firn_profile *profile, size_t stage,
                   double batch);

/* What one iteration at this total batch is worth in iterations at the initial
 * one, in that stage. batch / batch0 when nothing is known of gradients. */
FIRN_API double firn_profile_gain(const struct firn_profile *profile,
                                  size_t stage, double batch);

FIRN_C_END

#endif
