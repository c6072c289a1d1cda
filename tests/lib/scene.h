/* scene.h - a cluster, jobs and a policy from one line of text.
 *
 *   "2 nodes x 4 gpus; A wants 4; B wants 2 served 10 took 30 on n1[0-1]"
 *
 * Clauses end at ';'. Machines first:
 *
 *   2 nodes x 4 gpus [of v100]     nodes, in the order of the clauses
 *   3 jobs per gpu                 how many may share one
 *   n1 down                        that node is down
 *
 * then jobs, whose ids are 0, 1, 2 in the order of the clauses:
 *
 *   A wants 4        a gang of 4 GPUs
 *     from 1 to 8    elastic: fewest, most
 *     for 100        duration in seconds (1000)
 *     at 20          submitted then (0); times must not fall
 *     types v100|t4  GPU types it accepts
 *     mem 32         GiB it needs on each GPU
 *     shares         accepts half-shares
 *     merges KEY     may be trained together with those of the same key; - for
 *                    none
 *     alike          its GPUs are of one type, the same for its whole life
 *     humble         best effort: no GPU is guaranteed to it
 *     barred n0,n3   nodes that it cannot be given; not with `at`
 *     cannot A,B     what its trainer cannot do, in the words of firn/can.h
 *     seq 128        a language model with sequences of that many tokens
 *     served 40      GPU-seconds held before the scene begins
 *     took 10        seconds with GPUs before the scene begins
 *     did 10         reference seconds done before the scene begins
 *     on n0[0-3]     holds these now; the last word of a clause
 *
 * A scene drives core's round with an engine of its own: it applies nothing,
 * writes down the steps, and every job goes at rate 1 while it holds GPUs,
 * from `restart_s` after each change on. What it forecasts is `speed`, against
 * the GPUs a job asked for, a slowdown of 1.1 for any two jobs that share, and
 * that two are trained together in half the time of both.
 * Wrong texts fail the test.
 */
#ifndef LIB_SCENE_H
#define LIB_SCENE_H
#include "base/vec.h"
#include "core/round.h"

struct scene_job {
    firn_job_id id;
    struct firn_job_spec spec;
};

/* How fast a job would go on that many GPUs of that many nodes, against one
 * GPU. */
typedef double scene_speed(const struct firn_job *job, int gpus, int nodes);

/* r / (1 + 0.1 (r - 1)), and 0.9 of that over several nodes. */
scene_speed scene_amdahl;

struct scene {
    struct firn_cluster cluster;
    struct round *round;
    double now_s;
    double restart_s; /* after each change of GPUs; 0 */
    struct arena text;
    VEC(const char *) names; /* by id, also of jobs that have ended */
    VEC(struct scene_job) later;
    size_t nlater;            /* of them, submitted already */
    VEC(firn_job_id) changed; /* got GPUs in this decision */
    scene_speed *speed;       /* of the forecast; NULL: scene_amdahl */
    const double *starts_s;   /* by id: of the first start, which durations have
                               * in them, as a share of what is left; NULL: no
                               * time, or not known */
    bool has_fast_types;      /* a faster GPU type is forecast to be faster */
    bool has_ways;     /* passes save memory, models are spread faster than not,
                        * language models split in two, weights handed on */
    bool engine_fails; /* the engine refuses the next steps */
    bool starts_began; /* a START was seen in this decision */
    unsigned did;      /* FIRN_DOES_* seen so far */
    long nsteps, nsettled;
    struct firn_buf steps, shown, log;
};

/* `settings` are words "policy.option=value"; NULL for none. */
struct scene *scene_new(const char *text, const struct firn_policy_def *policy,
                        const char *settings);
void scene_free(struct scene *scene);
/* From now on that policy decides, on what runs and waits now. */
void scene_hand_over(struct scene *scene, const struct firn_policy_def *policy);

/* One more job, submitted now: "C wants 2 for 10". */
void scene_submit(struct scene *scene, const char *clause);
/* It has finished; or failed. */
void scene_done(struct scene *scene, const char *name);
void scene_fail(struct scene *scene, const char *name);
void scene_node(struct scene *scene, firn_node_id node, bool is_up);
/* A TIMER event. */
void scene_timer(struct scene *scene);

/* Time goes to `now_s` (jobs whose time it is come in) and the policy decides;
 * a refusal fails the test. */
void scene_decide(struct scene *scene, double now_s);
/* The same, returning what happened. */
enum firn_status scene_try(struct scene *scene, double now_s,
                           struct firn_error *err);

/* Lets time run until `until_s`, or until nothing more happens: submissions,
 * completions, wake-ups, and a decision whenever one is due. What happened,
 * one line for each moment: "0: START A n0[0-3]\n100: DONE A; START B n0[0]\n".
 * Valid until the next call. */
const char *scene_play(struct scene *scene, double until_s);
/* When the next job ends by itself; infinity for never. */
double scene_next_done_s(const struct scene *scene);

/* "A: n0[0-3]  B: -" for the living jobs, by id. Valid until the next call. */
const char *scene_text(struct scene *scene);
/* The steps since the last decision began, "STOP B; START A n0[0-3]"; "LOSE B"
 * when its node died, "REJECT B" when it was rejected. */
const char *scene_steps(const struct scene *scene);

/* A living job, or NULL. */
const struct firn_job *scene_job(const struct scene *scene, const char *name);
/* Core's state, to look at and to meddle with. */
struct state *scene_state(const struct scene *scene);
/* Parts in memory that lives as long as the scene. */
struct firn_alloc scene_alloc(struct scene *scene, const char *text);

#endif
