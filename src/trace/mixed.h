/* mixed.h - a workload in which every freedom of a policy has jobs to use it.
 *
 * Made by us, of no recorded cluster: vision models that may share a GPU and
 * freeze layers, elastic jobs, language models without a number of GPUs, and
 * fine-tuning jobs of one backbone. Same options, same jobs, on any machine.
 */
#ifndef TRACE_MIXED_H
#define TRACE_MIXED_H
#include <firn/job.h>
#include <stddef.h>
#include <stdint.h>

struct mixed_options {
    long jobs; /* >= 1 */
    uint64_t seed;
    double per_hour; /* arrivals, > 0 */
};

/* 240 jobs, 30 an hour: eight hours. */
struct mixed_options mixed_defaults(void);

/* In order of submission. Owns its jobs and their names. */
struct mixed {
    struct firn_job_spec *at;
    char (*names)[40];
    size_t n;
};

/* FIRN_EINVAL with a sentence for an option out of its range. The caller
 * releases. O(jobs). */
enum firn_status mixed_make(struct mixed *out,
                            const struct mixed_options *options,
                            struct firn_error *err);
void mixed_release(struct mixed *jobs);

#endif
