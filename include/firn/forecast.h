/* forecast.h - what a policy may ask about a job's future.
 *
 * A policy never sees how fast a job would really go elsewhere, only what the
 * engine expects: from the application's profile, corrected by what the job
 * has reported. The simulator's expectations come from the same fitted models
 * that a live scheduler has, not from the measured tables it runs jobs by.
 *
 * An answer of NaN means "not known". All functions are pure for one view: the
 * same question has the same answer until the next decision.
 */
#ifndef FIRN_FORECAST_H
#define FIRN_FORECAST_H
#include <firn/cost.h>
#include <firn/view.h>
#include <firn/waste.h>

FIRN_C_BEGIN

enum { FIRN_ANY_TYPE = -1 };

/* A way to run a job. Zeroed but for `gpus`: packed, of type 0, as submitted.
 */
struct firn_way {
    int gpus;          /* >= 1 */
    int nodes;         /* that it is spread over; 0: as few as can be */
    firn_type_id type; /* FIRN_ANY_TYPE: the job's reference type */
    unsigned tunes;    /* FIRN_TUNE_*: what the trainer sets by itself */
    int passes;        /* as in struct firn_how; 0: as few as memory allows */
    int tensor;        /* as in struct firn_how */
    int parallel;      /* as in struct firn_how */
    int stages;        /* as in struct firn_how */
    const int *counts; /* GPUs of each type, if of several; `type` is not read
                        * then. NULL: all of one type. Borrowed. */
};

/* A way to run a language model, from its memory and the cluster's GPUs. */
struct firn_llm_way {
    struct firn_way way;
    double mem_gib;  /* that a GPU must have (firn/memory.h) */
    double marp_gib; /* the same by Frenzy's formula, in 10^9 bytes */
    double rate;     /* reference seconds a second */
};

enum firn_merge_kind {
    FIRN_MERGE_TOGETHER, /* Ymir's spatial transfer: at the same time */
    FIRN_MERGE_AFTER,    /* temporal: `b` from the weights of `a`, after it */
};

/* What is expected of two jobs that are merged. */
struct firn_merge {
    double left_s[2]; /* seconds from now until a, and b, is done */
    double weight;    /* Ymir's TranWt: the run times of both, the shorter one
                       * first, over those when merged; above 1 it pays */
    double epoch_s;   /* of both together, or of b; NaN: not known */
    double epochs;    /* of two that are being trained together: epochs that
                       * both have reported since then; else 0 */
    unsigned stalled; /* bit 0, 1: the metric of a, of b, was not better in any
                       * of them than before its training */
};

/* What the weights of an ended job are expected to save another one. */
struct firn_after {
    double gain; /* times less work */
    int ended;   /* jobs of its task that began with weights of that task and
                  * have ended: 0, it was never measured to the end */
};

/* How much of one GPU a job takes up. */
struct firn_load {
    double util;    /* share of the time the GPU computes, 0..1; or NaN */
    double mem_gib; /* memory on each GPU; or NaN */
};

/* What a trainer should set by itself when its job is run some way. */
struct firn_setting {
    double batch; /* samples of a step, over all GPUs; 0: not known */
    int nfrozen;  /* front layers that are left untrained, of those its trainer
                   * reports; -1: not known */
    double psi;   /* what a step is worth with them (firn/freeze.h); 1 */
};

/* What an engine implements; `state` is the engine's. */
struct firn_forecast_def {
    /* Reference seconds a second, > 0; 0 when it cannot run that way; NaN when
     * nothing is known. */
    double (*rate)(void *state, const struct firn_job *job,
                   const struct firn_way *way, double now_s);
    /* Seconds from now until it is done that way, restarts not counted. MAY be
     * NULL: the work left over the rate. */
    double (*left_s)(void *state, const struct firn_job *job,
                     const struct firn_way *way, double now_s);
    /* The most GPUs it can use: its batch may be too small to split further.
     * MAY be NULL: spec.gpus_max. */
    int (*gpus_max)(void *state, const struct firn_job *job, unsigned tunes);
    /* Step time of `job` beside `other` on the same GPUs / alone, >= 1. MAY be
     * NULL: not known. */
    double (*slowdown)(void *state, const struct firn_job *job,
                       const struct firn_job *other);
    /* On one GPU when it runs that way; with FIRN_TUNE_FREEZE with the layers
     * that its trainer has frozen now. MAY be NULL: not known. */
    struct firn_load (*load)(void *state, const struct firn_job *job,
                             const struct firn_way *way);
    /* The ways to run a language model that its memory allows by either
     * figure, best first: at most `max`, and how many there are. MAY be NULL:
     * the job is none. */
    size_t (*llm_ways)(void *state, const struct firn_job *job,
                       struct firn_llm_way *out, size_t max);
    /* The ways to spread its model over GPUs that its application has: bit i
     * for enum firn_parallel i. MAY be NULL: it has no choice. */
    unsigned (*parallels)(void *state, const struct firn_job *job);
    /* False: not to be merged. MAY be NULL: never. */
    bool (*merge)(void *state, const struct firn_job *a,
                  const struct firn_job *b, enum firn_merge_kind kind,
                  const struct firn_way *way, double now_s,
                  struct firn_merge *out);
    /* `slowdown` when the two are run in these ways: smaller passes need less
     * of a GPU. 0: the ways make no difference to these two. MAY be NULL: they
     * make none to any. */
    double (*slowdown_in)(void *state, const struct firn_job *job,
                          const struct firn_way *way,
                          const struct firn_job *other,
                          const struct firn_way *other_way);
    /* The best settings for that way; false: nothing is known of them. MAY be
     * NULL: never. */
    bool (*setting)(void *state, const struct firn_job *job,
                    const struct firn_way *way, struct firn_setting *out);
    /* Several processes of the job on one GPU of that type, each with elastic
     * threads of its own: the numbers of them that fit into its memory and how
     * fast they are. Returns how many numbers there are. MAY be NULL: none. */
    int (*executors)(void *state, const struct firn_job *job, firn_type_id type,
                     struct firn_executor_ways *out);
    /* What a restart and what a resize without a stop would cost the job, as
     * measured or as the simulation charges it; a pause below 0 is not known.
     * MAY be NULL: firn_view_costs() says what holds then. */
    void (*costs)(void *state, const struct firn_job *job,
                  struct firn_costs *out);
    /* Is `slowdown` of the two a guess, because no pair like them was seen? MAY
     * be NULL: it never is. */
    bool (*is_guess)(void *state, const struct firn_job *job,
                     const struct firn_job *other);
    /* What `job`, of which nothing is done, would save by the weights of the
     * ended job `from`; false: not known. MAY be NULL: never known. */
    bool (*after)(void *state, firn_job_id from, const struct firn_job *job,
                  struct firn_after *out);
};

/* The same, for policies. `way` is borrowed for the call. */
FIRN_API double firn_view_rate(const struct firn_view *view,
                               const struct firn_job *job,
                               const struct firn_way *way);
FIRN_API double firn_view_left_s(const struct firn_view *view,
                                 const struct firn_job *job,
                                 const struct firn_way *way);
/* At least gpus_min and at most what the job allows and the cluster has up, of
 * one type where the job keeps to one. */
FIRN_API int firn_view_gpus_max(const struct firn_view *view,
                                const struct firn_job *job, unsigned tunes);
FIRN_API double firn_view_slowdown(const struct firn_view *view,
                                   const struct firn_job *job,
                                   const struct firn_job *other);
/* Is it a guess? Sharing once tells what it really is. */
FIRN_API bool firn_view_slowdown_is_guess(const struct firn_view *view,
                                          const struct firn_job *job,
                                          const struct firn_job *other);
/* The same with `job` run in `way` and `other` in `other_way`; 0: the ways make
 * no difference. */
FIRN_API double firn_view_slowdown_in(const struct firn_view *view,
                                      const struct firn_job *job,
                                      const struct firn_way *way,
                                      const struct firn_job *other,
                                      const struct firn_way *other_way);
/* False: not known; `out` is then {0, -1, 1}. A batch or layers that the job's
 * trainer does not set are not known either. */
FIRN_API bool firn_view_setting(const struct firn_view *view,
                                const struct firn_job *job,
                                const struct firn_way *way,
                                struct firn_setting *out);
/* `way` NULL: as submitted. */
FIRN_API struct firn_load firn_view_load(const struct firn_view *view,
                                         const struct firn_job *job,
                                         const struct firn_way *way);
/* 0 for a job that is no language model. */
FIRN_API size_t firn_view_llm_ways(const struct firn_view *view,
                                   const struct firn_job *job,
                                   struct firn_llm_way *out, size_t max);
/* 0: it has no choice. */
FIRN_API unsigned firn_view_parallels(const struct firn_view *view,
                                      const struct firn_job *job);
FIRN_API bool
firn_view_merge(const struct firn_view *view, const struct firn_job *a,
                const struct firn_job *b, enum firn_merge_kind kind,
                const struct firn_way *way, struct firn_merge *out);

/* False too for a job that may not be merged or whose trainer cannot begin with
 * the weights of another job. */
FIRN_API bool firn_view_after(const struct firn_view *view, firn_job_id from,
                              const struct firn_job *job,
                              struct firn_after *out);

/* What a change of GPUs would cost the job. A cost that is not known: of a
 * restart spec.restart_s, or FIRN_RESTART_GUESS_S where that is not known
 * either; of a resize: as a restart. A start is no change: a job that has never
 * run has no cost, and view->ahead_s seconds of a restart can be done before
 * its GPUs are free. */
#define FIRN_RESTART_GUESS_S 30.0
FIRN_API struct firn_costs firn_view_costs(const struct firn_view *view,
                                           const struct firn_job *job);
/* Seconds of training that the job loses if it gets other GPUs now, whole ones
 * and run in the same way: without a stop if it runs and can be resized, else
 * by a restart, which costs what was measured here, else spec.restart_s, else
 * `guess_s`. */
FIRN_API double firn_view_change_s(const struct firn_view *view,
                                   const struct firn_job *job, double guess_s);

/* None for a job whose trainer does not run several processes on a GPU. */
FIRN_API int firn_view_executors(const struct firn_view *view,
                                 const struct firn_job *job, firn_type_id type,
                                 struct firn_executor_ways *out);

FIRN_C_END

#endif
