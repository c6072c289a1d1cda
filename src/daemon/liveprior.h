/* liveprior.h - what is expected of a job by its application alone.
 *
 * Before a job has said anything of itself, its application may be known: by
 * one of the shipped profiles (firn/profile.h), by the shape of a language
 * model (core/llmjobs.h), or by what other jobs of it have reported.
 * liveprior.c says which goes before which; liveforecast.c corrects the answers
 * by what the job itself reports.
 */
#ifndef DAEMON_LIVEPRIOR_H
#define DAEMON_LIVEPRIOR_H
#include <firn/forecast.h>

struct liveprior;

/* `cluster` is borrowed. */
struct liveprior *liveprior_new(const struct firn_cluster *cluster);
void liveprior_free(struct liveprior *prior);

/* How its trainer runs it, as far as it said so. Zeroed: as submitted. */
struct prior_setting {
    double batch; /* of all GPUs together; 0: not known */
    int nfrozen;  /* layers */
};

/* The type that its durations refer to. */
firn_type_id liveprior_type(const struct liveprior *prior,
                            const struct firn_job *job);
/* Reference seconds a second that way; 0 when it cannot be. */
double liveprior_rate(struct liveprior *prior, const struct firn_job *job,
                      const struct firn_way *way,
                      const struct prior_setting *setting);
/* On one GPU; NaN: not known. */
struct firn_load liveprior_load(struct liveprior *prior,
                                const struct firn_job *job,
                                const struct firn_way *way,
                                const struct prior_setting *setting);
/* How many times slower it was measured to go beside the other; 0: never. */
double liveprior_beside(struct liveprior *prior, const struct firn_job *job,
                        const char *other);
/* Its batch cannot be split over more; 0: no word. */
int liveprior_gpus_max(struct liveprior *prior, const struct firn_job *job);

/* A step of a job, alone on what it holds, took so long. */
struct prior_step {
    const struct firn_job *job; /* with what it holds */
    struct prior_setting setting;
    int passes;
    double step_s;
};
void liveprior_saw(struct liveprior *prior, const struct prior_step *step);
/* How long steps run so were seen to take alone; 0: never. */
double liveprior_alone_s(struct liveprior *prior,
                         const struct prior_step *step);

#endif
