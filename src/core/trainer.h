/* trainer.h - a model of what trainers set by themselves as they go.
 *
 * A trainer may tune its batch for the most goodput, and freeze front layers
 * by a rule. What it will set is predicted here, for forecasts and for the
 * truth of a simulation, from what a live trainer knows: fitted step times, and
 * the gradient statistics of the stage it is in. (The trainer that runs in a
 * user's process is src/train.)
 */
#ifndef SIM_TRAINER_H
#define SIM_TRAINER_H
#include "core/known.h"

struct trainer;
struct trainer_ask;

/* Wrong expectations of throughput, by which trainers choose layers: `factor`
 * is the expected throughput of the job there with this number of front layers
 * frozen, divided by that of the fit; > 0, and the same whenever it is asked.
 */
struct trainer_doubt {
    double (*factor)(const void *arg, const struct trainer_ask *ask,
                     size_t nfrozen);
    const void *arg;
};

/* How trainers freeze front layers: trainer.c has the rules. A rule holds for
 * every job, also where the policy leaves it to the trainer. */
enum freeze_rule {
    FREEZE_POLICY, /* by penalty where the policy leaves it to the trainer
                    * (FIRN_TUNE_FREEZE), else nothing */
    FREEZE_OFF,
    FREEZE_FREEZEOUT,
    FREEZE_TUNED,
    FREEZE_PENALTY,
};

/* `known` is borrowed. The caller frees. */
struct trainer *trainer_new(const struct known *known, enum freeze_rule rule);
void trainer_free(struct trainer *trainer);
/* From now on trainers choose layers by these expectations; settings then
 * differ between jobs. */
void trainer_set_doubt(struct trainer *trainer, struct trainer_doubt doubt);
/* Forgets what it remembers: the step times behind it have changed. */
void trainer_clear(struct trainer *trainer);

/* The rule that holds for a job with these FIRN_TUNE_*; off when its profile
 * does not know what the rule needs. */
enum freeze_rule trainer_rule(const struct trainer *trainer,
                              const struct firn_profile *profile,
                              unsigned tunes);

/* The profile has the statistics and limits that tuning the batch needs. */
bool trainer_can_tune(const struct firn_profile *profile);

/* What is asked of a trainer. */
struct trainer_ask {
    const struct known_app *app;
    const struct spread *where;
    double batch; /* as submitted; 0: the initial one */
    unsigned tunes;
    int passes; /* as in struct firn_how; not read when it tunes its batch */
    double frozen_max;           /* as in struct firn_job_spec */
    enum firn_parallel parallel; /* as in struct firn_how */
    int stages;
    firn_job_id job; /* read only with a doubt */
};

/* Parts that its settings may differ in. */
struct parts trainer_parts(const struct trainer *trainer,
                           const struct trainer_ask *ask);

/* As submitted: the batch asked for, no layers frozen. */
struct setting trainer_plain(const struct trainer *trainer,
                             const struct trainer_ask *ask);

/* What it sets in part k if it was there from the beginning. Remembered: asked
 * again, it costs a look-up. */
struct setting trainer_setting(struct trainer *trainer,
                               const struct trainer_ask *ask, size_t k);

#endif
