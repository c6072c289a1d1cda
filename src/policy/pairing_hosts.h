/* pairing_hosts.h - the jobs whose GPUs another may share; for pairing.c.
 */
#ifndef POLICY_PAIRING_HOSTS_H
#define POLICY_PAIRING_HOSTS_H
#include "policy/pairing.h"
#include <firn/forecast.h>

enum { PAIRING_CROWD = 2 }; /* jobs on a GPU: the paper's C */

/* A job that holds GPUs. */
struct pairing_host {
    const struct firn_job *job;
    firn_type_id type;
    int frees;           /* GPUs that are free when it ends */
    int room;            /* GPUs that it is alone on, and another may join */
    double left_s;       /* as it goes now */
    double slow;         /* how much slower than alone that is */
    double place;        /* its first GPU, counted from the cluster's first */
    double mem_gib;      /* below 0: not asked yet */
    struct firn_way way; /* of it in this plan; gpus 0: not asked yet */
};

struct pairing_hosts {
    const struct firn_view *view;
    const struct firn_plan *plan;
    const struct pairing_rule *rule;
    struct pairing_host *at; /* NULL: not looked for yet */
    size_t n;
    int open[FIRN_TYPES_MAX]; /* GPUs on which one more may come, by type */
};

/* Those that run. Others are added as they get GPUs. O(running). */
void pairing_hosts_find(struct pairing_hosts *hosts);

/* One that got GPUs of its own in this round. */
void pairing_hosts_started(struct pairing_hosts *hosts,
                           const struct firn_job *job);
/* One that shares from this round on, with this time to go. */
void pairing_hosts_joined(struct pairing_hosts *hosts,
                          const struct firn_job *job, double left_s,
                          double slow);
/* Another job has joined it and slows it by this factor. */
void pairing_hosts_taken(struct pairing_hosts *hosts, struct pairing_host *host,
                         double slow);

/* The way it runs in this plan. */
const struct firn_way *pairing_hosts_way(const struct pairing_hosts *hosts,
                                         struct pairing_host *host);

/* What it needs on a GPU, as it is run; NaN: not known. */
double pairing_hosts_gib(const struct pairing_hosts *hosts,
                         struct pairing_host *host);

/* Work left of a job, in reference seconds. */
double pairing_hosts_work_s(const struct pairing_hosts *hosts,
                            const struct firn_job *job);

#endif
