/* plan.h - a plan: what each job should hold, as a transaction over GPUs.
 *
 * A plan starts empty, as if every GPU that is up were free: a job not
 * mentioned will hold nothing. firn_plan_keep_all() starts instead from what
 * runs now, at no cost, and then only the changes are mentioned; that is how
 * a round over ten thousand running jobs costs what it changes. A policy uses
 * one or the other.
 *
 * Nothing here changes the cluster. Core checks the finished plan on its own
 * (core/check.c) and refuses it whole when it is wrong.
 */
#ifndef FIRN_PLAN_H
#define FIRN_PLAN_H
#include <firn/view.h>

FIRN_C_BEGIN

struct firn_plan;

/* Everything that runs stays as it is, unless mentioned later. Must be the
 * first call on the plan. O(1). */
FIRN_API void firn_plan_keep_all(struct firn_plan *plan);

/* `job` keeps exactly what it holds. False, and no change, when it holds
 * nothing or its GPUs are taken in this plan. */
FIRN_API bool firn_plan_keep(struct firn_plan *plan,
                             const struct firn_job *job);

/* How firn_plan_give() chooses. Zeroed: any type the job accepts, one type if
 * one can hold it all, mixed otherwise. A job of spec.one_type is never given
 * GPUs of several types, whatever is wanted. */
struct firn_want {
    int gpus;
    uint32_t types;    /* mask of types allowed; 0: all the job accepts */
    bool one_type;     /* never mix types */
    bool fastest;      /* fastest type first, rather than the best fit */
    bool one_node;     /* only if a single node can hold it */
    bool shared;       /* held as half-shares: others may join later */
    const int *counts; /* how many of each type exactly, by type id; or NULL */
    int crowd;         /* of firn_plan_join: the most jobs on a GPU, itself
                        * included; 0: as many as the cluster allows */
    const struct firn_how *how; /* NULL: as submitted */
};

/* Gives `job` that many whole GPUs: where it is if it already holds that many,
 * else on the fewest nodes, best fit. False, and no change, when there is no
 * room. O(nodes) at most. */
FIRN_API bool firn_plan_give(struct firn_plan *plan, const struct firn_job *job,
                             int gpus);
FIRN_API bool firn_plan_give_want(struct firn_plan *plan,
                                  const struct firn_job *job,
                                  const struct firn_want *want);

/* Gives `job` half-shares of exactly the GPUs that `host` has in this plan.
 * False, and no change, when the host holds them whole or has none, or one of
 * them is full or of a type that the job does not accept, alone or beside the
 * others. */
FIRN_API bool firn_plan_share(struct firn_plan *plan,
                              const struct firn_job *job,
                              const struct firn_job *host);

/* Gives `job` half-shares of `want->gpus` GPUs: those that the hosts have in
 * this plan, in that order and passing over full ones, then free ones. False,
 * and no change, when there are too few, or a host holds its GPUs whole,
 * or one of them is of a type that the job does not accept or want, alone or
 * beside the others. */
FIRN_API bool firn_plan_join(struct firn_plan *plan, const struct firn_job *job,
                             const struct firn_job *const *hosts, int nhosts,
                             const struct firn_want *want);

/* How many of the GPUs that `host` has in this plan one more job may join, no
 * more than `crowd` (0: as many as the cluster allows) then being on any of
 * them. O(GPUs). */
FIRN_API int firn_plan_room(const struct firn_plan *plan,
                            const struct firn_job *host, int crowd);

/* Trains the two together: `job` gets half-shares of exactly the GPUs of
 * `host`, which must hold half-shares in this plan and share with no other job.
 * False, and no change, when it cannot, or firn_job_may_merge() says no. */
FIRN_API bool firn_plan_merge(struct firn_plan *plan,
                              const struct firn_job *job,
                              const struct firn_job *host);

/* Gives `job` exactly these GPUs. Copied. Wrong GPUs are noticed when the plan
 * is checked, not here. */
FIRN_API void firn_plan_place(struct firn_plan *plan,
                              const struct firn_job *job,
                              const struct firn_alloc *alloc);

/* Leaves only these of the policy's `tunes` (FIRN_TUNE_*) to the trainer of
 * `job`, which has GPUs in this plan; without the call all of them. They come
 * into force when the job is started, resized or moved: a job that keeps its
 * GPUs keeps its tunes. */
FIRN_API void firn_plan_tune(struct firn_plan *plan, const struct firn_job *job,
                             unsigned tunes);

/* `job` holds nothing. */
FIRN_API void firn_plan_drop(struct firn_plan *plan,
                             const struct firn_job *job);

/* `job` will never be run: it ends with this reason. */
FIRN_API void firn_plan_reject(struct firn_plan *plan,
                               const struct firn_job *job, const char *reason);

/* Why `job` waits or got what it got; for `firn why`. Not undone. */
FIRN_API void firn_plan_note(struct firn_plan *plan, const struct firn_job *job,
                             const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Try and take back: everything since the mark is undone. Marks nest. */
FIRN_API size_t firn_plan_mark(const struct firn_plan *plan);
FIRN_API void firn_plan_undo(struct firn_plan *plan, size_t mark);

/* GPUs that no job has in the plan so far: all, or those of one type. */
FIRN_API int firn_plan_free(const struct firn_plan *plan);
FIRN_API int firn_plan_free_of(const struct firn_plan *plan, firn_type_id type);
/* Those of one board of a node, as a bit mask like that of a part; 0 when the
 * node is down. Some GPUs of a node that is up may be out of a policy's reach
 * (foreign processes use them): an empty plan does not count them as free. */
FIRN_API uint64_t firn_plan_free_on(const struct firn_plan *plan,
                                    firn_node_id node, int board);

/* What `job` has in the plan so far; nparts is 0 for nothing. */
FIRN_API const struct firn_alloc *firn_plan_of(const struct firn_plan *plan,
                                               const struct firn_job *job);

/* How firn_plan_serve() treats jobs that do not fit. */
enum firn_serve {
    FIRN_SERVE_STRICT = 0,  /* a job that does not fit blocks those behind it */
    FIRN_SERVE_SKIP = 1,    /* it is passed over */
    FIRN_SERVE_PREEMPT = 2, /* running jobs give way to those before them */
    FIRN_SERVE_ONE_TYPE = 4, /* a job's GPUs are all of one type; one that no
                              * type could ever hold is rejected */
    FIRN_SERVE_FASTEST = 8,  /* fastest type first */
};

/* Serves jobs in the order of the policy's `rank`, each with the GPUs it asked
 * for; `how` is a mask of enum firn_serve. One that another policy left with
 * more or fewer keeps these or stops. Which jobs run is decided by counting;
 * then running ones keep their place and the new ones are placed. The whole
 * plan of fifo, sjf, srtf and tiresias. O(changes log jobs) a round where every
 * job accepts every GPU, O(jobs) otherwise. */
FIRN_API void firn_plan_serve(struct firn_plan *plan,
                              const struct firn_view *view, unsigned how);

FIRN_C_END

#endif
