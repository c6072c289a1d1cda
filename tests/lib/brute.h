/* brute.h - a simulator too simple to be wrong, to compare the real one with.
 *
 * Time goes in steps of one second and every number is an integer. At each
 * second it looks at every job, and when something has happened it sorts all
 * of them anew and counts GPUs; it knows nothing of nodes. It shares no code
 * with firn. An outage takes all GPUs away, as when a cluster's only node
 * dies.
 */
#ifndef LIB_BRUTE_H
#define LIB_BRUTE_H
#include <stdbool.h>

enum { BRUTE_JOBS = 64, BRUTE_OUTAGES = 4, BRUTE_QUEUES = 4 };

enum brute_policy {
    BRUTE_FIFO,      /* a job that does not fit blocks */
    BRUTE_FIFO_SKIP, /* it is passed over */
    BRUTE_SJF,
    BRUTE_SJF_STRICT,
    BRUTE_SRTF,
    BRUTE_TIRESIAS,
};

struct brute_job {
    /* Set by the caller; jobs are in order of submission. */
    int submit, gpus, duration, restart;

    /* What came out. */
    int first_start, end, held, starts;

    /* While it runs. */
    bool is_here, runs;
    int done, restart_left, run, served, queue;
};

struct brute_outage {
    int down, up;
};

struct brute {
    /* Set by the caller. */
    enum brute_policy policy;
    int gpus;
    struct brute_job jobs[BRUTE_JOBS];
    int njobs;
    int thresholds[BRUTE_QUEUES], nthresholds;
    int interval;   /* 1: each second */
    int checkpoint; /* 0: an outage loses no work */
    bool charges_first;
    struct brute_outage outages[BRUTE_OUTAGES]; /* apart, in order */
    int noutages;

    /* What came out: GPU-seconds. */
    long given, overhead, lost;

    bool is_down, is_due;
};

/* False when jobs are left after `limit` seconds. */
bool brute_run(struct brute *brute, int limit);

#endif
