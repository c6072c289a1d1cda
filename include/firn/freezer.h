/* freezer.h - when a training job freezes its front layers, and what it owes.
 *
 * Decisions are taken at the boundary of an epoch or a re-allocation, by
 * process 0, from measured times and variances; hence no two runs need agree.
 * So a decision is an input: it is logged with its step, stored in the
 * checkpoint and sent to all processes, and a replay takes the log instead of
 * deciding (IceFrog IV-A; EasyScale's D1 holds with freezing that way).
 *
 * Rules: `penalty` (the layer tuner of firn/freeze.h over psi * rate),
 * `freezeout` (the schedule of Brock et al.), `user` (a function of yours),
 * `off`. A step at penalty psi < 1 owes 1/psi - 1 extra steps; they are summed
 * and given back as whole steps. FreezeOut knows no penalty: its psi is 1, it
 * owes nothing.
 *
 * One thread at a time.
 */
#ifndef FIRN_FREEZER_H
#define FIRN_FREEZER_H
#include <firn/freeze.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FIRN_C_BEGIN

struct firn_freezer;

enum firn_freezer_rule {
    FIRN_FREEZER_OFF,
    FIRN_FREEZER_PENALTY,
    FIRN_FREEZER_FREEZEOUT,
    FIRN_FREEZER_USER
};

/* What is known at a boundary. */
struct firn_freezer_ask {
    uint64_t step, epoch;   /* done; 0, 0 before the first */
    double progress;        /* of the whole training, in [0, 1] */
    const double *variance; /* nlayers, mean per step of this epoch; NULL when
                               nothing was measured */
    /* Mean step times, as frozen until now; 0: not measured. forward_s is what
     * freezing leaves as it is (data as well), rest_s what goes with the
     * parameters left: reduction and update. */
    double forward_s, backward_s, rest_s;
};

/* Frozen layers wanted at this boundary, 0 .. nlayers - 1. */
typedef size_t firn_freezer_user(void *arg, const struct firn_freezer_ask *ask,
                                 const struct firn_freeze *freeze);

enum { FIRN_FREEZER_WARMUP = 3 }; /* epochs that have proved enough */

struct firn_freezer_config {
    size_t nlayers;
    const double *flops;       /* of each layer's backward; NULL: equal */
    const uint64_t *nelements; /* parameters of each layer; NULL: equal */
    enum firn_freezer_rule rule;
    struct firn_tuner tuner;         /* penalty; max_share 0: the default */
    uint64_t warmup_epochs;          /* penalty: epochs that are done before a
                                        layer freezes; 0: none.
                                        The variance falls three- to fivefold
                                        at first: FIRN_FREEZER_WARMUP */
    struct firn_freezeout freezeout; /* freezeout */
    firn_freezer_user *user;
    void *arg;
    double frozen_max; /* the most that any rule freezes, as a share of the
                          layers, to 1; 0: no limit of its own */
};
FIRN_API enum firn_status firn_freezer_new(struct firn_freezer **out,
                                           const struct firn_freezer_config *c,
                                           struct firn_error *err);
FIRN_API void firn_freezer_free(struct firn_freezer *freezer);

/* One entry of the decision log. */
struct firn_decision {
    uint64_t step, epoch;
    uint32_t kind; /* FIRN_DECIDED_* */
    uint32_t value;
    double psi; /* of frozen layers; else 0 */
};
enum {
    FIRN_DECIDED_FROZEN = 1, /* value: layers */
    FIRN_DECIDED_PASSES,     /* value: sub-batches of a batch */
    FIRN_DECIDED_LAYOUT,     /* value: processes; for the record */
    FIRN_DECIDED_BATCH,      /* value: samples of a step, over all threads */
    FIRN_DECIDED_RATE        /* value: the learning rate, in millionths of the
                                submitted one */
};

/* Decides, or during a replay takes the replayed decision, and appends to the
 * log: also a decision that changes nothing, for psi may change and a replay
 * has to know that nothing else did. Rule `off` decides nothing and logs
 * nothing. The frozen layers from now on in *nfrozen; a rule that wants more
 * than firn_freezer_most() gets those. FIRN_EINVAL for numbers
 * that are not finite, a step before the last decision's, and a user's rule
 * that freezes everything; frozen layers, psi and log are as before then. */
FIRN_API enum firn_status
firn_freezer_decide(struct firn_freezer *freezer,
                    const struct firn_freezer_ask *ask, size_t *nfrozen,
                    struct firn_error *err);
/* A decision that was taken elsewhere (the scheduler's order, process 0's
 * broadcast, a change of passes); it is logged and takes effect, during a
 * replay too. psi 0 with frozen layers: worked out from the variances here. The
 * limit is not applied: a caller that passes an order on asks
 * firn_freezer_most() first. */
FIRN_API enum firn_status firn_freezer_set(struct firn_freezer *freezer,
                                           const struct firn_decision *decision,
                                           struct firn_error *err);
FIRN_API size_t firn_freezer_frozen(const struct firn_freezer *freezer);
/* The most layers that may be frozen: frozen_max of them, rounded down, and one
 * less than all in any case. A replay, and a checkpoint of a run that had
 * another limit, may have more frozen: the log of a replay is obeyed as it
 * is; after a resume the trainer thaws what is too much, by firn_freezer_set()
 * at the first boundary, so that the log has it. */
FIRN_API size_t firn_freezer_most(const struct firn_freezer *freezer);
/* In (0, 1]; below 0.01 counts as 0.01; 1 where nothing was measured. */
FIRN_API double firn_freezer_psi(const struct firn_freezer *freezer);
/* Sub-batches as last decided; 0: not decided. */
FIRN_API unsigned firn_freezer_passes(const struct firn_freezer *freezer);
/* Samples of a step as last decided; 0: not decided. */
FIRN_API unsigned firn_freezer_batch(const struct firn_freezer *freezer);
/* The factor on the learning rate as last decided; 1: not decided. */
FIRN_API double firn_freezer_rate(const struct firn_freezer *freezer);

/* A step is done at the present penalty; to be called for every step, extra
 * ones as well. How many extra steps are to be done now before the next
 * ordinary one (0 mostly); effective steps so far, each counted by its psi, in
 * *effective (may be NULL). So N ordinary steps and their extra ones make N
 * effective ones, less the part of a step that is still owed. */
FIRN_API unsigned firn_freezer_step(struct firn_freezer *freezer,
                                    double *effective);

/* The log, borrowed until the next change. */
FIRN_API size_t firn_freezer_log(const struct firn_freezer *freezer,
                                 const struct firn_decision **log);
/* From now on decisions come from this log (copied), up to its last step.
 * Layouts are passed over, and so is what is in the freezer's own log already:
 * a replay that was stopped is resumed by load() and replay(). */
FIRN_API enum firn_status firn_freezer_replay(struct firn_freezer *freezer,
                                              const struct firn_decision *log,
                                              size_t n, struct firn_error *err);
/* Takes what the replayed log has up to this step; decide() does so too. To be
 * called at every boundary of a replay, for orders came at any. */
FIRN_API enum firn_status firn_freezer_follow(struct firn_freezer *freezer,
                                              uint64_t step,
                                              struct firn_error *err);
/* Is this step within the replayed log? Orders of the scheduler must wait
 * then. */
FIRN_API bool firn_freezer_replaying(const struct firn_freezer *freezer,
                                     uint64_t step);

/* Everything (log, variances, times seen, what is owed) as bytes for a
 * checkpoint, but not a replay. Load refuses bytes of another version or number
 * of layers, damaged and hostile ones, and changes nothing then. */
FIRN_API size_t firn_freezer_saved(const struct firn_freezer *freezer);
FIRN_API void firn_freezer_save(const struct firn_freezer *freezer,
                                void *bytes);
FIRN_API enum firn_status firn_freezer_load(struct firn_freezer *freezer,
                                            const void *bytes, size_t n,
                                            struct firn_error *err);

FIRN_C_END

#endif
