/* taskfeed.h - what simulated fine-tuning jobs report of their learning.
 *
 * Losses after each epoch, how alike their tasks are, and the epochs they took:
 * the observations of core/taskbook.h, drawn from the published curves with
 * noise. The answers of that book are what the simulator forecasts merges
 * with, unless the run asks for the answer key (transfers.h).
 */
#ifndef SIM_TASKFEED_H
#define SIM_TASKFEED_H
#include "core/taskbook.h"
#include "sim/truth.h"

struct simengine;
struct simjob;

struct taskfeed;
struct taskfeed *taskfeed_new(uint64_t seed, bool has_key);
void taskfeed_free(struct taskfeed *feed);

/* The job goes on so from now on: `near` as the truth was asked with. What it
 * did until now, `done_s`, was reported before. */
void taskfeed_turn(struct taskfeed *feed, struct simjob *sj,
                   const struct truth_near *near);
/* Reports the epochs that it has finished by `done_s`. */
void taskfeed_tell(struct taskfeed *feed, struct simjob *sj, double done_s);
/* It has met its target. */
void taskfeed_end(struct taskfeed *feed, struct simjob *sj);

/* What is expected of a task (transfers.h) merged with another; false: not to
 * be merged. A key has measured every pair: of its answers only `ratio`
 * and `ended` are set. */
bool taskfeed_answer(struct taskfeed *feed, int task, int other,
                     enum firn_merge_kind kind, struct taskbook_answer *out);
/* True progress over what is believed of it, for a rate that is reported; 1
 * for a job that is not merged. */
double taskfeed_belief(struct taskfeed *feed, const struct simjob *sj);

/* The guard of temporal transfer: a job that began with another's weights.
 * What it has done (done_s) at its next report that can show whether they
 * hurt; infinity: there will be none. */
double taskfeed_look_s(const struct taskfeed *feed, const struct simjob *sj);
/* Do they, by its last report? Then `why` is a sentence of at most n bytes. */
bool taskfeed_hurts(struct taskfeed *feed, const struct simjob *sj, char *why,
                    size_t n);

/* A merged job: the share of its work that is left by what is expected of its
 * epochs, the epochs it has reported since it was merged, and whether none of
 * them was better than what its own curve begins with. False: it is not
 * merged, and its reported progress holds. */
struct taskfeed_state {
    double left;
    int epochs;
    bool is_stalled;
};
bool taskfeed_state(struct taskfeed *feed, const struct simjob *sj,
                    double done_s, struct taskfeed_state *out);

#endif
