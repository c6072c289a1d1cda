/* lucid.h - what the policy lucid has learnt of run times.
 *
 * lucid.c has the essay. With estimates=oracle none of it is used.
 */
#ifndef POLICY_LUCID_H
#define POLICY_LUCID_H
#include "base/map.h"
#include "base/vec.h"
#include <firn/policy.h>

enum { LUCID_ORACLE, LUCID_HISTORY };

/* Work of jobs that have finished. */
struct lucid_past {
    double sum_s;
    long n;
};

/* A job that has been submitted and not ended, by id. */
struct lucid_seen {
    int app, group;          /* in the maps, from 1 on; 0: not there */
    struct firn_report last; /* its last report */
};

struct lucid {
    int estimates;
    bool pack, skip, one_node;
    int limit;
    double tiny_below, jumbo_above;
    double memory, longer, slowdown, busy;

    /* With estimates=history only. */
    struct map apps, groups;
    VEC(struct lucid_past) by_app;
    VEC(struct lucid_past) by_group;
    struct lucid_past all;
    VEC(struct lucid_seen) seen;
};

/* Run time on the GPUs asked for; 1 when nothing has been learnt. */
double lucid_estimate_s(const struct lucid *lucid, const struct firn_job *job);

/* For struct firn_policy_def. */
void lucid_observe(void *state, const struct firn_event *event);
void lucid_fini(void *state);
void lucid_save(const void *state, struct firn_buf *out);
enum firn_status lucid_load(void *state, struct firn_bytes in,
                            struct firn_error *err);

#endif
