/* synth.h - made-up jobs that look like Philly's.
 *
 * A generator draws jobs one by one: GPUs and durations from what the Philly
 * trace has, arrivals as a Poisson process, even or with the time of day. Time
 * is then stretched so that the jobs ask for exactly `load` of the cluster:
 *
 *     sum(gpus x duration) / (cluster GPUs x time from first to last) = load
 *
 * Same options, same jobs, on any machine. Memory does not grow with the
 * number of jobs.
 */
#ifndef TRACE_SYNTH_H
#define TRACE_SYNTH_H
#include "base/rng.h"
#include <firn/job.h>
#include <stddef.h>

enum synth_arrivals { SYNTH_POISSON, SYNTH_DIURNAL };

struct synth_options {
    long jobs; /* >= 1 */
    uint64_t seed;
    enum synth_arrivals arrivals;
    double load;             /* > 0 */
    int cluster_gpus;        /* >= 1 */
    int gpus_max;            /* no job asks for more; 0: cluster_gpus */
    double multi;            /* share of jobs with several GPUs; 0: Philly's */
    double duration_max_s;   /* no job lasts longer; 0: 60 days */
    double elastic;          /* share of jobs that are elastic, 0..1 */
    const char *const *apps; /* names to draw from, borrowed; or NULL */
    size_t napps;
    /* Language models instead, by their names in firn/llm.h; borrowed, or NULL.
     * Their users name a model and a batch, and no number of GPUs. Of each
     * model: the GPUs it is expected to use, for the load, and the batches it
     * may have, bit k for 2^k, of 2 to 32. */
    const char *const *models;
    const int *model_gpus;
    const unsigned *model_batches;
    size_t nmodels;
};

/* Each property has its own stream of numbers, so that asking for elastic jobs
 * or applications changes nothing else. */
struct synth_draws {
    struct rng arrival, gpus, duration, elastic, app, model, batch;
};

struct synth {
    struct synth_options options;
    struct synth_draws draws;
    double gap_sum;   /* of the arrivals so far, before stretching */
    double gap_total; /* of all of them */
    double span_s;    /* from the first arrival to the last */
    double gpu_s;     /* what all jobs ask for */
    long made;        /* jobs so far */
    char name[32];
};

/* A model's sequences: 1024 tokens, or as many as it has positions for. 0 when
 * there is no such model. */
int synth_seq(const char *model);

/* Checks the options and draws everything once, to know the total. O(jobs).
 * FIRN_EINVAL with a sentence. */
enum firn_status synth_init(struct synth *synth,
                            const struct synth_options *options,
                            struct firn_error *err);

/* The next job, in order of submission; its texts live until the next call.
 * False after the last. */
bool synth_next(struct synth *synth, struct firn_job_spec *out);

#endif
