/* livecounts.h - how long jobs train by their number of iterations.
 *
 * A user who says how many iterations a job makes (`target: {iterations: N}`)
 * has said how long it trains as soon as jobs like it have ended: those of the
 * same application, number of GPUs, GPU type and batch (model/counted.h).
 */
#ifndef DAEMON_LIVECOUNTS_H
#define DAEMON_LIVECOUNTS_H
#include <firn/bytes.h>
#include <firn/cluster.h>
#include <firn/job.h>

struct livecounts;

enum { LIVECOUNTS_KEY = 320 };

struct livecounts *livecounts_new(void);
void livecounts_free(struct livecounts *counts);

/* Which jobs are like one of this spec, as a text. False: it names no
 * application, or may run on several of the cluster's GPU types, on which an
 * iteration takes different times. */
bool livecounts_key(const struct firn_cluster *cluster,
                    const struct firn_job_spec *spec, char out[LIVECOUNTS_KEY]);

/* A job like that has ended and would have trained for `trained_s` alone. True:
 * this has clearly changed what is expected of as many iterations. */
bool livecounts_ended(struct livecounts *counts, const char *key,
                      double iterations, double trained_s);
/* Seconds that a job of `iterations` trains alone; 0: not known. */
double livecounts_training_s(const struct livecounts *counts, const char *key,
                             double iterations);

/* What was learned of the jobs that are alike, in the order in which the first
 * of each kind ended. False beyond the last. */
struct livecounts_row {
    char app[LIVECOUNTS_KEY], type[LIVECOUNTS_KEY]; /* type "": the only one */
    long gpus, batch;                               /* batch 0: none stated */
    double iteration_s;                             /* of a later iteration */
    double first_s; /* that the first ones take in addition */
};
bool livecounts_at(const struct livecounts *counts, size_t i,
                   struct livecounts_row *out);

/* As text, and back; a line that cannot be read is passed over. */
void livecounts_save(const struct livecounts *counts, struct firn_buf *out);
void livecounts_load(struct livecounts *counts, const char *text);

#endif
