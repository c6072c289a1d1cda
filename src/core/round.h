/* round.h - one decision: view, policy, plan, diff, check, steps.
 *
 *   events -> view -> policy.decide -> plan -> diff -> check -> steps -> engine
 *             frozen   pure            txn     pure    refuse
 *
 * The simulator and the daemon run this same code; only the engine differs.
 * A round is asked for by events (a job came or went, a node changed), by a
 * rank that ended, or by the policy's own wake_s.
 */
#ifndef CORE_ROUND_H
#define CORE_ROUND_H
#include "core/plan.h"
#include <firn/engine.h>

/* Called at every change, for logs and metrics; any may be NULL. */
struct round_watch {
    void *arg;
    void (*step)(void *arg, const struct firn_step *step);
    /* A job is done, failed or rejected; its memory is reused after the call.
     * By its own account it finished at `finished_s`, at or before now_s. */
    void (*end)(void *arg, const struct firn_job *job, const char *how,
                double now_s, double finished_s);
    /* After each instant at which anything changed. */
    void (*changed)(void *arg, const struct state *state, double now_s);
    /* The policy has changed job->note: why the job waits. */
    void (*note)(void *arg, const struct firn_job *job, double now_s);
    /* Calls work(what) once and returns when that call has returned: the
     * policy's decision, from view to checked plan. `run` may use another
     * thread, as long as round, cluster and forecasts do not change meanwhile.
     * NULL: the decision is made in the calling thread. */
    void (*run)(void *arg, void (*work)(void *what), void *what);
};

struct round;

struct round_config {
    const struct firn_cluster *cluster;
    const struct firn_policy_def *policy;
    const char *const *settings; /* "policy.option=value" */
    size_t nsettings;            /* read by round_new() only */
    uint64_t seed;               /* for policies that draw */
    const struct firn_engine_def *engine;
    void *engine_state;
    void
        *forecaster; /* what engine->forecast is called with; NULL: its state */
    place_rule *place; /* NULL: fewest nodes, then best fit */
    bool is_literal;   /* plans are carried out as the policy wrote them, with
                        * needless stops (core/spare.h): for worlds that imitate
                        * another simulator */
    bool names_takers; /* steps of a plan have `for_job`: core/takers.h */
    struct accounts *accounts; /* shares and quotas, borrowed; NULL: none */
    struct round_watch watch;
};

/* FIRN_EINVAL or FIRN_ENOENT for a bad setting of this policy; settings of
 * other policies are passed over. The caller frees it. */
enum firn_status round_new(struct round **out,
                           const struct round_config *config,
                           struct firn_error *err);
void round_free(struct round *round);

/* A job that was there before this round: after a restart of the daemon, or
 * put in anew under another id. */
struct round_job {
    firn_job_id id; /* above all before it */
    const struct firn_job_spec *spec;
    const struct firn_alloc *held; /* nparts 0: it waits */
    struct state_past past;
};
/* Takes it in as it was; a decision is due. The engine is not told. FIRN_EINVAL
 * as for a new job, or when the GPUs are not free; nothing has changed then. */
enum firn_status round_restore(struct round *round, const struct round_job *job,
                               double now_s, struct firn_error *err);
/* Removes the job without a step or a call; the GPUs it held are free. */
void round_withdraw(struct round *round, firn_job_id id, double now_s);

/* `id` is trained together with `with`, under the ids that they have now. */
void round_merged(struct round *round, firn_job_id id, firn_job_id with);

/* A job that holds GPUs makes no progress before `resumes_s`: its processes
 * start. Its next report says more. */
void round_starts(struct round *round, firn_job_id id, double resumes_s,
                  double now_s);

/* Replaces a guessed duration by a better guess; a decision is due. */
void round_correct(struct round *round, firn_job_id id, double duration_s,
                   double now_s);

/* These nodes are barred to the job from now on, a bit each; NULL: none. Does
 * nothing if nothing changes; else a decision is due. */
void round_bar(struct round *round, firn_job_id id, const uint64_t *nodes);

/* Takes free GPUs out of scheduling, or puts them back: they are in use by
 * processes that no policy can move, or not to be used. No view or plan has
 * them. Called between rounds, for whole GPUs; put back before their node goes
 * down. False, and no change, when they are not free. */
bool round_block(struct round *round, const struct firn_alloc *alloc);
void round_unblock(struct round *round, const struct firn_alloc *alloc);

/* Takes one event in. */
enum firn_status round_event(struct round *round,
                             const struct firn_event *event,
                             struct firn_error *err);
/* Time has come to `now_s`: ends ranks and the policy's wait. */
void round_tick(struct round *round, double now_s);
/* Asks for a decision: shares or quotas have changed. */
void round_ask(struct round *round);
/* Is a decision asked for? */
bool round_is_due(const struct round *round);
/* When round_tick must be called next at the latest; infinity for never. */
double round_wake_s(const struct round *round);
/* Decides, checks and applies. FIRN_EREFUSED when the plan is wrong; nothing
 * has changed then. */
enum firn_status round_decide(struct round *round, double now_s,
                              struct firn_error *err);

/* The policy's own memory, if it has any to keep; see firn/policy.h. A policy
 * that cannot load begins afresh: FIRN_OK. */
void round_save(const struct round *round, struct firn_buf *out);
enum firn_status round_load(struct round *round, struct firn_bytes in,
                            struct firn_error *err);

const struct state *round_state(const struct round *round);
/* The round's picture of now; its arrays die with the next decision. */
struct firn_view round_view(struct round *round, double now_s);
/* Decisions and steps so far. */
long round_count(const struct round *round);
long round_steps(const struct round *round);

#endif
