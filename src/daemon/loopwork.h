/* loopwork.h - the loop's insides, shared by loop*.c, recover.c, why.c,
 * dryrun.c and their tests.
 *
 * The loop drives a turn. Three owners do the work: the book (jobs on disk),
 * the desk (the round, desk.h) and the dock (the engine, dock.h); none of them
 * calls the loop. What happens to a job goes one way:
 *
 *     event -> life.h -> actions -> book, desk, dock        loop_life.c
 */
#ifndef DAEMON_LOOPWORK_H
#define DAEMON_LOOPWORK_H
#include "daemon/api.h"
#include "daemon/desk.h"
#include "daemon/http.h"
#include "daemon/life.h"
#include "daemon/loop.h"
#include "daemon/recover.h"
#include "daemon/turnwatch.h"

/* When the engine is told which jobs start next: loop_ahead.c. */
struct loop_ahead {
    long ndecided; /* decisions when it was last told */
    size_t nforeseen;
    double rest_s, late_s; /* not before; also without a decision */
    VEC(firn_job_id) told; /* the jobs that it was told of last */
};

struct loop {
    const struct config *config;  /* of the start */
    const struct config *current; /* its policy and settings hold */
    struct config reread;         /* the last that was read again */
    int argc;
    char *const *argv; /* to read again; NULL: there is nothing */
    struct store *store;
    struct book *book;
    struct desk desk;
    struct dock dock;
    struct http *http;
    struct announce *announce; /* notifications of users */
    struct audit *audit;       /* NULL: it cannot be written */
    VEC(firn_job_id) waiting;  /* for other jobs: loop_after.c */
    int64_t after_seen;        /* the last event when they were looked at */
    struct api *api;
    struct metrics *metrics;
    struct retain *retain;  /* what is removed at present; NULL: nothing */
    struct turnwatch watch; /* of the present turn */
    double answered_s;      /* the last answers went out */
    bool is_broken;         /* nothing more is written */
    volatile int wants_stop;
    struct foreseen *foreseen; /* the last forecast of all; or NULL */
    struct loop_ahead ahead;
    struct api_node *nodes;        /* shown to the API */
    VEC(struct api_setting) shown; /* too */
    struct arena shown_text;
};

/* --- jobs that are prepared before they start: loop_ahead.c --------------- */

/* Tells the engine which jobs start next, if that is due; when it is again. */
double loop_ahead(struct loop *loop, double now_s);
/* Looks which waiting jobs have processes already. */
void loop_ahead_look(struct loop *loop, double now_s);

enum { LOOP_ROUND_MS = 50, LOOP_THINK_FROM = 2000 };
/* How long a turn handles requests that waited for a decision. */
static const double LOOP_SLICE_S = 0.005;

/* A report is written: the round and the forecasts learn from it. */
void loop_reported(struct loop *loop, struct live_job *job);
/* --- nodes: loop_nodes.c -------------------------------------------------- */

/* Behind the recovery: drained nodes are drained again, and those that are down
 * go. */
enum firn_status loop_nodes_begin(struct loop *loop, struct firn_error *err);

/* Counts GPUs of a node that no job holds and no foreign process uses, whether
 * the node is in the round or not. O(jobs). */
int loop_node_idle(const struct loop *loop, firn_node_id node);
enum firn_status loop_drain(struct loop *loop, firn_node_id node, bool drained,
                            struct firn_error *err);
/* The round's picture of a node to what its operator and the engine say. */
enum firn_status loop_node_follow(struct loop *loop, firn_node_id node,
                                  bool has_time, struct firn_error *err);
void loop_node_event(struct loop *loop, const struct firn_event *event);

/* --- foreign processes: loop_foreign.c ------------------------------------ */

/* Before a decision: GPUs that foreign processes use are out of the round. */
void loop_settle_foreign(struct loop *loop);

/* --- the life of a job: loop_life.c --------------------------------------- */

/* An event of a job's life, with all that its actions may need. */
struct happening {
    enum life_event event;
    unsigned facts, nofacts; /* that the caller knows better: enum life_fact */
    struct life_words words;
    const struct firn_event *end;   /* CLOSE_ATTEMPT */
    const struct firn_alloc *to;    /* KEEP_GPUS, RESTORE, ADOPT: its GPUs */
    const struct live_job *partner; /* OPEN_ATTEMPT: trained with it; NULL */
    double wait_s;                  /* RETRY_LATER */
    struct live_stop stop; /* why it loses GPUs; none: as book_because() says */
    double mem_gib;        /* CHARGE_RETRY: it asks for; 0: as before */
    struct firn_error *err; /* MAY be NULL */
    /* What came of it. */
    enum firn_status status; /* OPEN_ATTEMPT, RESTORE; FIRN_EINVAL: this cannot
                              * happen to it */
    bool is_adopted, has_run;
};
/* The one way to change a job's state. */
void loop_happens(struct loop *loop, struct live_job *job,
                  struct happening *what);
void loop_happens_why(struct loop *loop, struct live_job *job,
                      enum life_event event, const char *why);
/* firnd takes its GPUs away, with that sentence. */
void loop_sent_away(struct loop *loop, struct live_job *job, const char *why,
                    struct live_stop stop);
/* Behind book_cancel(): it shall end. */
void loop_cancelled(struct loop *loop, struct live_job *job);
/* It is new, or its user changed it in the book: held, released, bounds,
 * priority. */
void loop_changed(struct loop *loop, struct live_job *job);
/* Writes down the orders of its trainer for what it holds from now on. */
void loop_orders(struct loop *loop, struct live_job *job,
                 const struct firn_alloc *to);
/* Resizes a running job outside of a decision: the round has it with these GPUs
 * from now on, and the engine is told. An error: it is as it was. */
enum firn_status loop_resize(struct loop *loop, struct live_job *job,
                             const struct firn_alloc *to,
                             struct firn_error *err);
/* The attempt of a job ended with `event`: so does that of its partner. */
void loop_partner_ends(struct loop *loop, const struct live_job *lead,
                       struct live_job *partner,
                       const struct firn_event *event);
/* Jobs that others train, or are to train: ends what the round wants no more.
 */
void loop_check_partners(struct loop *loop);

/* --- bounds: loop_bounds.c ------------------------------------------------ */

/* Does it hold fewer or more GPUs than its user wants now? */
bool loop_is_out_of_bounds(const struct live_job *job,
                           const struct firn_job *in_round);
/* Behind a round: jobs that it left with GPUs outside of new bounds (bounds
 * change in no simulation, and not all policies look) are resized without a
 * stop, or leave their GPUs by a checkpoint. */
void loop_keep_bounds(struct loop *loop);

/* --- attempts: loop_attempt.c --------------------------------------------- */

/* The next attempt, on disk with the GPUs that it holds. Of a job that its
 * partner trains: with the partner's attempt, which follows. */
enum firn_status loop_open_attempt(struct loop *loop, struct live_job *job,
                                   const struct live_job *partner,
                                   struct firn_error *err);
/* The end of its open attempt, written once; NULL: none has ended. */
void loop_close_attempt(struct loop *loop, struct live_job *job,
                        const struct firn_event *event);
/* TIMES: the cluster's own account of an attempt that is over. */
void loop_attempt_times(struct loop *loop, const struct firn_event *event);
/* The end of attempts up to that one, behind which the next has begun. */
void loop_close_late(struct loop *loop, struct live_job *job, int64_t attempt,
                     const struct firn_event *event);
/* Whether the work of a job that was stopped is kept, in a sentence. `ran_s` is
 * the length of its attempt, NaN: it had none. */
void loop_stopped_text(const struct live_job *job, int end, double ran_s,
                       char out[LIVE_TEXT]);

/* --- the engine: loop_engine.c ------------------------------------------- */

/* The engine as the round sees it, and the host as the engine does. */
struct firn_engine_host loop_engine_host(struct loop *loop);
void loop_engine_init(struct loop *loop);
void loop_event(struct loop *loop, const struct firn_event *event);
/* --- what the engine does not let jobs have: loop_bars.c ------------------ */

/* FIRN_NO_JOB: all jobs. */
void loop_bars_event(struct loop *loop, firn_job_id id);
/* Its attempt has left: a bar that was told while it had one counts now. */
void loop_bars_left(struct loop *loop, firn_job_id id);
/* True: the job, which is to enter the round, waits out of it for now. */
bool loop_bars_keep_out(struct loop *loop, struct live_job *job);

/* --- jobs of the cluster's own queue: loop_inbox.c ----------------------- */

void loop_inbox_event(struct loop *loop, const struct firn_inbox *inbox);

/* --- failures: loop_fail.c ----------------------------------------------- */

/* Which failure it is, whether there may be another try, and a sentence. */
void loop_judge_failure(struct loop *loop, struct live_job *job,
                        struct happening *what, char why[LIVE_TEXT]);
/* "with status 3": how a training of two jobs ended. */
void loop_failed_text(const struct firn_event *event, char out[LIVE_TEXT]);
/* After a restart: a job that failed before and is to be tried again waits on.
 */
void loop_wait_on(struct loop *loop, struct live_job *job, double failed_s);
/* Lets in jobs whose wait is over; returns when the next wait is. */
double loop_retry(struct loop *loop, double now_s);

/* --- memory of language models: loop_memory.c ---------------------------- */

/* Reads what earlier firnds saw; before the round is made. */
void loop_memory_load(struct loop *loop);
/* After a report of the job. */
void loop_memory_reported(struct loop *loop, struct live_job *job);
/* GiB in use on the fullest of its GPUs, as the engine measures it. */
void loop_memory_sampled(struct loop *loop, const struct live_job *job,
                         double gib);
/* An attempt has ended; before the job's GPUs are taken back. */
void loop_memory_ended(struct loop *loop, struct live_job *job,
                       const struct firn_event *event);

enum loop_memory {
    LOOP_MEMORY_UNKNOWN, /* nothing is predicted of it; `told` is as it was */
    LOOP_MEMORY_TOLD,    /* the policy makes no plans */
    LOOP_MEMORY_REPLAN,  /* another plan fits */
    LOOP_MEMORY_NO_PLAN,
};
/* It ran out of memory: raises the prediction of its model and mode. `told`
 * gets predicted beside seen. */
enum loop_memory loop_memory_ran_out(struct loop *loop, struct live_job *job,
                                     char told[LIVE_TEXT]);
/* Appends an object, predicted and seen of the plan that the job has; nothing
 * when it has none. */
void loop_memory_json(const struct loop *loop, const struct live_job *job,
                      struct firn_buf *out);

/* --- worse than expected: loop_guard.c ----------------------------------- */

/* Beside `sharer` it goes at that rate. */
void loop_guard_share(struct loop *loop, struct track *track,
                      struct track *sharer, double rate);
/* Alone it does. */
void loop_guard_alone(struct track *track, double rate);
/* A job that began with another's weights has reported. True: it does worse for
 * them, and is stopped to begin anew. */
bool loop_guard_after(struct loop *loop, struct live_job *job);
/* The round takes this step. */
void loop_guard_step(struct loop *loop, const struct firn_step *step);
/* Behind a decision: pairs that should have parted do. */
void loop_guard(struct loop *loop);
/* --- a round: loop_round.c ----------------------------------------------- */

/* Why nothing can be started at present, by the disk or the engine; NULL: it
 * can. */
const char *loop_trouble(const struct loop *loop);
/* Decides if it is time; when it is, if not yet. */
double loop_decide(struct loop *loop, double now_s);
/* The first, or another for the present one, which ends. */
enum firn_status loop_new_round(struct loop *loop,
                                const struct firn_policy_def *policy,
                                struct firn_error *err);
struct round_watch loop_watch(struct loop *loop);
/* Now and then, or at the end. */
void loop_save_policy(struct loop *loop, bool is_last);

/* Commits what was changed and sends the answers that wait for it:
 * loop_answer.c. */
enum firn_status loop_answer(struct loop *loop, struct firn_error *err);

/* --- a decision with a thread of its own: loop_think.c -------------------- */

/* A round's `run`. Submits are answered meanwhile. */
void loop_think(void *arg, void (*work)(void *what), void *what);
/* Behind the decision's steps: jobs that arrived meanwhile enter the round, and
 * other requests are handled. */
void loop_thought(struct loop *loop);

/* --- settings of the operator and of the API: loop_config.c -------------- */

/* The policy to begin with; loop->settings are filled. */
enum firn_status loop_choose_policy(struct loop *loop,
                                    const struct firn_policy_def **out,
                                    struct firn_error *err);
/* With that policy no round can be made, as `why` says: if the API had a part
 * in it, as before an upgrade that knows an option no more, it is forgotten,
 * and `out` is the operator's policy. False: it was the operator's own. */
bool loop_unchoose(struct loop *loop, const struct firn_error *why,
                   const struct firn_policy_def **out);
/* The API sets "owner.option=value"; then keeps that and the policy. */
void loop_set(struct loop *loop, const char *setting);
void loop_keep_choice(struct loop *loop);
/* Flags, file and token again. */
void loop_reload(struct loop *loop);
/* Sets how many jobs are accepted, by the operator's config. */
void loop_limit_jobs(struct loop *loop, const struct config *config);

/* --- jobs that wait for others: loop_after.c ------------------------------ */

/* A new job, if it waits for others. */
void loop_after_add(struct loop *loop, const struct live_job *job);
void loop_after_recover(struct loop *loop);
/* Releases jobs whose others have ended, and cancels those that wait in vain.
 */
void loop_after_look(struct loop *loop, double now_s);

/* --- users and projects: loop_shares.c ------------------------------------ */

/* Reads the file of --shares and charges what attempts on disk used; before
 * the first round. */
enum firn_status loop_shares_open(struct loop *loop, struct firn_error *err);
/* Reads it again. An error: nothing has changed. */
enum firn_status loop_shares_reload(struct loop *loop,
                                    const struct config *config,
                                    struct firn_error *err);
/* May its user submit it? Fills in its project. FIRN_EINVAL or FIRN_ELIMIT
 * with a sentence. */
enum firn_status loop_admits(struct loop *loop, struct live_ask *ask,
                             struct firn_error *err);
void loop_shares_json(struct loop *loop, struct firn_buf *json);

/* --- time limits and idle jobs: loop_limits.c ----------------------------- */

/* Warns and ends; returns when to look again. */
double loop_limits_look(struct loop *loop, double now_s);

/* --- the HTTP API's host: loop_host.c ------------------------------------ */

struct api_host loop_host(struct loop *loop);

/* --- what changes cost: loop_costs.c --------------------------------------
 */

void loop_costs_open(struct loop *loop);
void loop_costs_save(struct loop *loop);
/* Appends them, and the measured pairs, as a JSON object. */
void loop_costs_json(const struct loop *loop, struct firn_buf *json);
/* The job is told to leave the GPUs that it has, or to go on to others. */
void loop_costs_ordered(struct loop *loop, const struct live_job *job,
                        struct track *track);
/* An attempt was opened: the round knows when its training will begin. */
void loop_costs_opened(struct loop *loop, const struct live_job *job,
                       struct track *track);
/* Its process is there. */
void loop_costs_begun(struct loop *loop, struct track *track,
                      double prepared_s);
void loop_costs_reported(struct loop *loop, struct live_job *job,
                         struct track *track);
/* It has reported to have done that much. */
void loop_costs_paced(struct loop *loop, const struct live_job *job,
                      struct track *track, double done_s);
/* A rate by its step times, behind loop_costs_paced(): one that is lower than
 * was expected counts little in its first seconds. */
double loop_pace_settled(const struct loop *loop, const struct live_job *job,
                         const struct track *track, double rate);
/* It has such an order that is not carried out yet. */
bool loop_costs_is_changing(const struct track *track);
void loop_costs_resized(struct loop *loop, const struct live_job *job,
                        struct track *track, const struct firn_event *event);
void loop_costs_ended(struct loop *loop, const struct live_job *job,
                      struct track *track, const struct firn_event *event);

/* --- after a restart: recover.c ------------------------------------------ */

/* Every living job of the book into the round and to the engine. */
enum firn_status recover_jobs(struct loop *loop, struct firn_error *err);

/* --- questions: why.c, dryrun.c ------------------------------------------ */

enum firn_status why_job(struct loop *loop, struct live_job *job,
                         struct firn_buf *json, struct firn_error *err);
/* The same in short, without when enough GPUs are free: cheap enough for every
 * job of a list. */
void why_waits(const struct loop *loop, const struct live_job *job,
               enum live_reason *reason, char text[LIVE_TEXT]);
enum firn_status dryrun_plan(struct loop *loop, struct live_ask *ask,
                             struct firn_buf *json, struct firn_error *err);
/* All jobs at once, from what was found before where that is good enough and
 * the answer need not be `is_fresh`. */
enum firn_status dryrun_all(struct loop *loop, bool is_fresh,
                            struct firn_buf *json, struct firn_error *err);
void foreseen_free(struct foreseen *foreseen);
/* Seconds until a waiting job starts, as dryrun_eta() finds; NaN: not known. */
double dryrun_start_s(struct loop *loop, const struct live_job *job);
enum firn_status dryrun_eta(struct loop *loop, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);

#endif
