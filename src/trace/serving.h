/* serving.h - a made-up serving load: short rigid jobs with priority.
 *
 * Model servers beside training (EasyScale, SC 2023, 5.3): replicas of one GPU
 * each, as many as the time of day asks for. To a scheduler they are jobs of a
 * higher priority that come and go, and training has what they leave.
 */
#ifndef TRACE_SERVING_H
#define TRACE_SERVING_H
#include "base/vec.h"
#include <firn/job.h>

enum { SERVING_PRIORITY = 100 };

struct serving_options {
    int cluster_gpus; /* >= 1 */
    double share;     /* of them that it holds on the mean of a day, 0..1 */
    double span_s;    /* from 0 to when the last replica is gone */
    uint64_t seed;
};

struct serving_replica {
    double from_s, to_s;
};

/* Initialised by serving_make(). */
struct serving {
    VEC(struct serving_replica) replicas; /* by from_s */
    size_t next;
    char name[32];
};

/* FIRN_EINVAL with a sentence for a share that cannot be. The caller
 * releases. */
enum firn_status serving_make(struct serving *out,
                              const struct serving_options *options,
                              struct firn_error *err);
void serving_release(struct serving *serving);

/* When the next replica comes; infinity after the last. */
double serving_peek_s(const struct serving *serving);

/* The next replica as a job, in order of submission; its texts live until the
 * next call. False after the last. */
bool serving_next(struct serving *serving, struct firn_job_spec *out);

#endif
