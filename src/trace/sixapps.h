/* sixapps.h - the workloads of SJF-BSBF, drawn anew from its text.
 *
 * Luo et al. (Wise Resource Sharing, section VI-A) simulate jobs of Pollux's
 * six applications that arrive as Pollux's do; the jobs are not public. A
 * generator draws such jobs from a seed. Same options, same jobs, on any
 * machine.
 */
#ifndef TRACE_SIXAPPS_H
#define TRACE_SIXAPPS_H
#include <firn/job.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIXAPPS_LARGE = 4 }; /* a job with more GPUs is large */

struct sixapps_options {
    long jobs; /* >= 1 */
    uint64_t seed;
    double large; /* share of jobs that are large, 0..1 */
    /* Mean run time alone on the GPUs asked for, of small and large jobs. */
    double small_s, large_s;
    /* The jobs of the paper's own cluster instead of the simulated ones: then
     * the three above are not read. */
    bool is_testbed;
};

/* 240 jobs, 12 % large, 0.55 and 1.75 h: Table III. */
struct sixapps_options sixapps_defaults(void);

/* In order of submission. Owns its jobs and their names. */
struct sixapps {
    struct firn_job_spec *at;
    char (*names)[32];
    size_t n;
};

/* FIRN_EINVAL with a sentence: an option is out of its range, or that share of
 * large jobs cannot be drawn. The caller releases. O(jobs log jobs). */
enum firn_status sixapps_make(struct sixapps *out,
                              const struct sixapps_options *options,
                              struct firn_error *err);
void sixapps_release(struct sixapps *jobs);

#endif
