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
 * and given back as whole steps.
 */
#ifndef FIRN_FREEZER_H
#define FIRN_FREEZER_H
#include <firn/freeze.h>
#include <firn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct firn_freezer;

enum firn_freezer_rule {
    FIRN_FREEZER_OFF,
    FIRN_FREEZER_PENALTY,
    FIRN_FREEZER_FREEZEOUT,
    FIRN_FREEZER_USER
};

/* What is known at a boundary. Shares are of the part that is not frozen. */
struct firn_freezer_ask {
    uint64_t step, epoch;
    double progress;        /* of the whole training, in [0, 1] */
    const double *variance; /* nlayers, mean per step of this epoch; NULL when
                               nothing was measured */
    double forward_s, backward_s, rest_s; /* mean step times, as now frozen */
};

/* Frozen layers wanted at this boundary, 0 .. nlayers - 1. */
typedef size_t firn_freezer_user(void *arg, const struct firn_freezer_ask *ask,
                                 const struct firn_freeze *freeze);

struct firn_freezer_config {
    size_t nlayers;
    const double *flops;       /* of each layer's backward; NULL: equal */
    const uint64_t *nelements; /* parameters of each layer */
    enum firn_freezer_rule rule;
    struct firn_tuner tuner;         /* penalty; max_share 0: the default */
    uint64_t warmup_epochs;          /* penalty: nothing freezes before; the
                                        variance falls fast at first */
    struct firn_freezeout freezeout; /* freezeout */
    firn_freezer_user *user;
    void *arg;
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
    FIRN_DECIDED_LAYOUT      /* value: processes; for the record */
};

/* Decides (or takes the log's word, while there is one for this step) and
 * appends to the log when something changes. The frozen layers from now on in
 * *nfrozen. */
FIRN_API enum firn_status
firn_freezer_decide(struct firn_freezer *freezer,
                    const struct firn_freezer_ask *ask, size_t *nfrozen,
                    struct firn_error *err);
/* A decision of somebody else (the scheduler's order, process 0's broadcast,
 * a change of passes). */
FIRN_API enum firn_status firn_freezer_set(struct firn_freezer *freezer,
                                           const struct firn_decision *decision,
                                           struct firn_error *err);
FIRN_API size_t firn_freezer_frozen(const struct firn_freezer *freezer);
FIRN_API double firn_freezer_psi(const struct firn_freezer *freezer);

/* A step is done at the present penalty. Extra whole steps that are now due
 * (0 mostly); effective steps so far in *effective (may be NULL). */
FIRN_API unsigned firn_freezer_step(struct firn_freezer *freezer,
                                    double *effective);

/* The log, borrowed until the next change. */
FIRN_API size_t firn_freezer_log(const struct firn_freezer *freezer,
                                 const struct firn_decision **log);
/* From now on decisions come from this log, up to its last step. */
FIRN_API enum firn_status firn_freezer_replay(struct firn_freezer *freezer,
                                              const struct firn_decision *log,
                                              size_t n, struct firn_error *err);

/* Everything (log, variances, what is owed) as bytes for a checkpoint. */
FIRN_API size_t firn_freezer_saved(const struct firn_freezer *freezer);
FIRN_API void firn_freezer_save(const struct firn_freezer *freezer,
                                void *bytes);
FIRN_API enum firn_status firn_freezer_load(struct firn_freezer *freezer,
                                            const void *bytes, size_t n,
                                            struct firn_error *err);

#endif
