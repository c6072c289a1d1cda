/* loopwork.h - the loop's insides, shared by loop*.c, recover.c, why.c,
 * dryrun.c and their tests.
 *
 * For each living job of the book there is a track: whether the round knows it
 * and under which id, what the engine was last asked to give it. A job is in
 * one of four places:
 *
 *     round    waits or runs by the policy's will        round_id >= 0
 *     pinned   runs and can never be stopped or moved: its GPUs are blocked
 *              in the round                              is_pinned
 *     away     not to be scheduled: held, being ended, or to be retried later
 *     over     no track
 *
 * In the round, a job may ride: it is trained by another one's processes
 *.
 */
#ifndef DAEMON_LOOPWORK_H
#define DAEMON_LOOPWORK_H
#include "base/vec.h"
#include "core/round.h"
#include "daemon/api.h"
#include "daemon/book.h"
#include "daemon/http.h"
#include "daemon/life.h"
#include "daemon/liveforecast.h"
#include "daemon/liveforecast_merge.h"
#include "daemon/livehistory.h"
#include "daemon/loop.h"
#include "daemon/recover.h"
#include "daemon/turnwatch.h"
#include <firn/sharing.h>

/* Its last change of size, for loop_guard.c; `from` 0: none since it began. */
struct resized {
    int from;              /* GPUs before */
    double expected, rate; /* as forecast, as seen since */
    int n;                 /* reports since */
    bool is_worse;
};

/* When its end was foretold, and for when; at_s 0: it was not. */
struct told {
    double at_s, end_s;
};

struct track {
    firn_job_id id;            /* the book's */
    firn_job_id round_id;      /* FIRN_NO_JOB: not in the round */
    struct firn_alloc granted; /* by the last step; parts owned */
    struct firn_alloc blocked; /* of a pinned job, in the round; parts owned */
    bool is_pinned;
    bool is_lone;       /* not to be merged any more */
    double unheard_s;   /* since when its lead reports and it does not; 0 */
    int64_t open_epoch; /* told of by nobody yet that it ended; 0 */
    double opened_s;
    struct state_past past;     /* when it is not in the round */
    double duration_s;          /* as the round has it */
    double again_s;             /* away until then; 0: not by a retry */
    double mark_s, mark_done_s; /* of the last report, to see a rate by */
    double rate;                /* the last that was seen; 0: none */
    int64_t mark_epoch;
    bool is_older;    /* its control files are where an older firnd had them */
    bool is_told;     /* of an inbox's job: the engine has it, too */
    firn_job_id mate; /* beside whom it is watched; 0: nobody */
    struct firn_share_watch watch;
    double slow_expected; /* by how much, when they came together */
    long bad_at; /* the decision behind which the pair, found to be bad,
                  * has to be apart; 0: it is not */
    int nparted; /* times it was sent away from a mate */
    struct resized resized;
    struct told told;
    double turn; /* of the time, in a training of two; 0: not known */
    double best; /* metric in that, and the epoch that had it */
    uint64_t best_epoch;
};

struct rejected {
    firn_job_id job;
    char why[64];
};

/* A step that the engine would not take, and its words. */
struct refused {
    firn_job_id job;
    char why[LIVE_TEXT];
};

struct loop {
    const struct config *config; /* of the start */
    const struct config *said;   /* whose policy and settings hold */
    struct config reread;        /* the last that was read again */
    int argc;
    char *const *argv; /* to read again; NULL: there is nothing */
    struct store *store;
    struct book *book;
    struct http *http;
    struct api *api;
    struct metrics *metrics;
    const struct firn_engine_def *engine;
    void *engine_state;
    bool is_engine_open;
    struct firn_cluster cluster; /* as it was discovered */
    const struct firn_policy_def *policy;
    struct firn_engine_def live; /* the engine as the round sees it */
    struct round *round;
    struct liveforecast *forecast;
    struct livehistory *history;
    double looked_s; /* whether somebody takes longer than guessed */
    struct livemerge *merges;
    VEC(struct track *) tracks; /* by book id from first_id on; NULL: none */
    firn_job_id first_id;
    VEC(firn_job_id) books;        /* by round id */
    VEC(struct refused) refused;   /* steps that the engine would not take */
    VEC(firn_job_id) started;      /* in this round, to be pinned behind it */
    VEC(firn_job_id) later;        /* retries that wait for their time */
    VEC(firn_job_id) rebound;      /* hold what their new bounds exclude */
    VEC(firn_job_id) watched;      /* share GPUs */
    VEC(firn_job_id) riders;       /* trained by another one, or about to be */
    VEC(struct rejected) rejected; /* by the policy, in this round */
    size_t think_from;             /* jobs of a decision with its own thread */
    bool is_thinking;              /* in it, at this moment */
    VEC(firn_job_id) arrived;      /* meanwhile */
    bool *is_drained, *is_down;    /* by node: its operator, the engine */
    struct firn_buf drained_away; /* names of drained nodes that are not here */
    bool is_draining;             /* the steps of this moment are a drain's */
    struct outside *outside;      /* GPUs that others use */
    VEC(firn_node_id)
    renumbered;                /* by a node's number in the run before: its
                                * number now, -1 for none; empty: the same */
    struct api_node *nodes;    /* for the API */
    char (*node_names)[16];    /* of engines that have none */
    struct firn_buf url;       /* where trainers call */
    struct turnwatch watch;    /* of the present turn */
    double answered_s;         /* the last answers went out */
    double decided_s;          /* the last round */
    long ndecided;             /* rounds, of all policies */
    double last_round_s;       /* that it took */
    double saved_s;            /* the policy's state was kept then */
    struct launchtext *launch; /* behind the host's `launch` */
    char mark[17];             /* of all processes of its jobs */
    struct retain *retain;     /* what is removed at present; NULL: nothing */
    struct firn_error broken;  /* a write failed: the loop ends */
    VEC(const char *)
    settings; /* of policies and engines: as said, then as
               * the API set them */
    struct arena settings_text;
    VEC(struct api_setting) shown; /* to the API */
    struct arena shown_text;
    volatile int wants_stop;
    char *types_text;           /* of the last language model's spec */
    struct firn_buf *merge_key; /* of the last spec that has one */
};

enum { LOOP_ROUND_MS = 50, LOOP_THINK_FROM = 2000 };
/* How long a turn handles requests that waited for a decision. */
static const double LOOP_SLICE_S = 0.005;

double loop_now_s(const struct loop *loop);
struct track *loop_track(const struct loop *loop, firn_job_id id);
/* Made if there is none. */
struct track *loop_track_make(struct loop *loop, firn_job_id id);
void loop_track_drop(struct loop *loop, firn_job_id id);
/* The book's id of a job of the round. */
firn_job_id loop_book_id(const struct loop *loop, firn_job_id round_id);
/* The round's job, or NULL. */
const struct firn_job *loop_round_job(const struct loop *loop,
                                      const struct track *track);
/* A write that failed is remembered; false then. */
bool loop_wrote(struct loop *loop, enum firn_status status,
                const struct firn_error *err);
/* Can it ever be taken off its GPUs? */
bool loop_can_stop(const struct live_job *job);

/* --- a job's life: loop_jobs.c ------------------------------------------- */

/* What the round shall schedule it by. Strings are the job's, or live until
 * the next call. */
void loop_spec(const struct loop *loop, const struct live_job *job,
               struct firn_job_spec *out);
void loop_ask_spec(const struct loop *loop, const struct live_ask *ask,
                   double submit_s, struct firn_job_spec *out);
/* Into the round, waiting, unless it is there or pinned. An error: it can
 * never run here. */
enum firn_status loop_enter_round(struct loop *loop, struct live_job *job,
                                  struct firn_error *err);
/* The same with its past, as holding `held` (nparts 0: nothing). */
enum firn_status loop_restore(struct loop *loop, struct live_job *job,
                              const struct firn_alloc *held,
                              struct firn_error *err);
/* Out of the round; what it has stays with the engine. */
void loop_withdraw(struct loop *loop, struct track *track);
/* The same and back with the GPUs that it has, as it now is: its spec has
 * changed. One that waits is out, and to be let in again. */
enum firn_status loop_reenter_round(struct loop *loop, struct live_job *job,
                                    bool *is_waiting, struct firn_error *err);
/* Out of the round for good. */
void loop_leave_round(struct loop *loop, struct track *track, bool is_done);
void loop_pin(struct loop *loop, struct live_job *job);
void loop_unpin(struct loop *loop, struct track *track);
/* Blocks the GPUs of a job that its user takes off them until its processes are
 * gone, which may take its whole grace. */
void loop_pin_leaving(struct loop *loop, struct live_job *job);
/* Steps that no round has planned: the engine asks its processes to leave, or
 * starts it on what the round gives it. */
void loop_stop_job(struct loop *loop, const struct live_job *job);
void loop_start_job(struct loop *loop, const struct live_job *job);
/* The engine takes its processes over; false: it refuses. */
bool loop_adopt(struct loop *loop, const struct live_job *job,
                const struct firn_alloc *held);
/* The engine's phase of a job, or of the partner whose processes train it. */
enum firn_phase loop_phase(const struct loop *loop, const struct live_job *job);
/* A trainer's word has been written down: what the round makes of it. */
void loop_reported(struct loop *loop, struct live_job *job);
/* GPUs of pinned jobs out of the round's way, and back: around a change of
 * nodes. */
void loop_pins_lift(struct loop *loop);
void loop_pins_set(struct loop *loop);

/* --- the GPU type that a job keeps to: loop_type.c ------------------------ */

/* At a start on that node: its type, of a job that keeps to one and has not had
 * any. */
enum firn_status loop_type_keep(struct loop *loop, struct live_job *job,
                                firn_node_id on, struct firn_error *err);
/* There are other types here, and it has done something on its own. */
bool loop_type_is_fixed(const struct loop *loop, const struct live_job *job);
/* None again, of a job that has not reported anything. */
void loop_type_free(struct loop *loop, struct live_job *job);
/* No node has the type that it keeps to: it was renamed, or is gone. */
bool loop_type_is_lost(const struct loop *loop, const struct live_job *job);
/* That in words, and what there is instead. */
void loop_type_lost_text(const struct loop *loop, const struct live_job *job,
                         char out[LIVE_TEXT]);
/* `keeps`, or "" for none, into what it is scheduled by. */
void loop_type_spec(const struct loop *loop, const char *keeps,
                    struct firn_job_spec *spec);
/* The same of a job that has held GPUs in one round and goes to another. */
void loop_type_copied(const struct state *from, const struct firn_job *job,
                      struct firn_job_spec *spec);
/* The most memory of a GPU that it may have; 0: not known. */
double loop_type_gib(const struct loop *loop, const struct live_job *job);

/* --- nodes: loop_nodes.c -------------------------------------------------- */

/* After the engine's discovery; and at the end. */
void loop_nodes_open(struct loop *loop);
void loop_nodes_close(struct loop *loop);
/* Before jobs are taken over: which numbers nodes had, and now have. */
enum firn_status loop_nodes_number(struct loop *loop, struct firn_error *err);
/* An allocation of the run before, by the numbers of this one; false: a node of
 * it is no longer there. */
bool loop_renumber(const struct loop *loop, struct firn_alloc *held);
/* Behind that: drained nodes are drained again, and those that are down go. */
enum firn_status loop_nodes_begin(struct loop *loop, struct firn_error *err);

const char *loop_node_name(const struct loop *loop, firn_node_id node);
/* Why the engine has it out; "" for no word. */
const char *loop_node_why(const struct loop *loop, firn_node_id node);
/* Its GPUs that nobody has, in the round or not. O(jobs). */
int loop_node_idle(const struct loop *loop, firn_node_id node);
bool loop_node_find(const struct loop *loop, const char *name,
                    firn_node_id *out);
/* The same of an allocation. */
void loop_alloc_text(const struct loop *loop, const struct firn_alloc *gpus,
                     struct firn_buf *out);
/* "n0[0-3] n7[1]" with the nodes' names, appended. */
void loop_gpus_text(const struct loop *loop, const char *held,
                    struct firn_buf *out);
enum firn_status loop_drain(struct loop *loop, firn_node_id node, bool drained,
                            struct firn_error *err);
/* The round's picture of a node to what its operator and the engine say. */
enum firn_status loop_node_follow(struct loop *loop, firn_node_id node,
                                  bool has_time, struct firn_error *err);
void loop_node_event(struct loop *loop, const struct firn_event *event);

/* --- others: loop_outside.c ----------------------------------------------- */

void loop_outside_open(struct loop *loop);
void loop_outside_close(struct loop *loop);
void loop_outside_taken(struct loop *loop, const struct firn_part *taken);
/* Before a decision: what others use is out of the round. */
void loop_outside_settle(struct loop *loop);
/* Before a node leaves or comes: its blocked GPUs are back in the round. */
void loop_outside_lift(struct loop *loop, firn_node_id node);
/* What is blocked, in a round that has the present one's jobs and nodes. */
void loop_outside_copy(const struct loop *loop, struct round *to);
/* GPUs of a node that others use. */
int loop_outside_count(const struct loop *loop, firn_node_id node);

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
    double mem_gib;         /* CHARGE_RETRY: it asks for; 0: as before */
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
/* Behind book_cancel(): it shall end. */
void loop_cancelled(struct loop *loop, struct live_job *job);
/* It is new, or its user changed it in the book: held, released, bounds,
 * priority. */
void loop_changed(struct loop *loop, struct live_job *job);
/* Behind a round: jobs that it left with GPUs outside of new bounds (bounds
 * change in no simulation, and not all policies look) leave them by a
 * checkpoint. */
void loop_keep_bounds(struct loop *loop);
/* The attempt of a job ended with `event`: so does that of its partner. */
void loop_partner_ends(struct loop *loop, const struct live_job *lead,
                       struct live_job *partner,
                       const struct firn_event *event);
/* Jobs that others train, or are to train: ends what the round wants no more.
 */
void loop_check_partners(struct loop *loop);

/* --- attempts: loop_attempt.c --------------------------------------------- */

/* The next attempt, on disk with the GPUs that it holds. Of a job that its
 * partner trains: with the partner's attempt, which follows. */
enum firn_status loop_open_attempt(struct loop *loop, struct live_job *job,
                                   const struct live_job *partner,
                                   struct firn_error *err);
/* The end of its open attempt, written once; NULL: none has ended. */
void loop_close_attempt(struct loop *loop, struct live_job *job,
                        const struct firn_event *event);
/* The end of attempts up to that one, behind which the next has begun. */
void loop_close_late(struct loop *loop, struct live_job *job, int64_t epoch,
                     const struct firn_event *event);
/* Whether the work of a job that was stopped is kept, in a sentence. `ran_s` is
 * the length of its attempt, NaN: it had none. */
void loop_stopped_text(const struct live_job *job, int end, double ran_s,
                       char out[LIVE_TEXT]);

/* --- partners: partner.c -------------------------------------------------- */

/* The other job of its present attempt, if two are trained in it; or NULL. */
struct live_job *partner_of(struct book *book, const struct live_job *job);
/* The partner whose processes train it; NULL: none. */
struct live_job *partner_lead(struct book *book, const struct live_job *job);
/* The job that the round wants it to be trained together with; or NULL. */
struct live_job *partner_wanted(const struct loop *loop,
                                const struct live_job *job);
/* Does the round want a partner's processes to train it? */
bool partner_awaited(const struct loop *loop, const struct live_job *job);
/* ", together with job 3 (name)", or nothing. */
void partner_words(const struct loop *loop, const struct live_job *job,
                   struct firn_buf *out);
/* With the book's ids for the round's. */
struct firn_how partner_how(const struct loop *loop,
                            const struct firn_how *how);
/* A job has come back to the round under this id: its partner there shall name
 * it so. */
void partner_relink(struct loop *loop, firn_job_id round_id);
/* After a restart, when all jobs are in: partners name each other again. */
void partner_recover(struct loop *loop);

/* --- what merging is worth: loop_merge.c ---------------------------------- */

/* Two jobs of a round that has this loop's ids. */
struct loop_pair {
    const struct firn_job *a, *b;
    enum firn_merge_kind kind;
};
/* Behind `merge` of the forecasts. */
bool loop_merge(struct loop *loop, const struct loop_pair *pair,
                const struct firn_way *way, double now_s,
                struct firn_merge *out);
/* Appends a JSON list of sentences: why it is not trained together with other
 * jobs, of one whose user allows that and that is not. Empty: nothing stands
 * against it. O(jobs). */
void loop_not_merged(const struct loop *loop, const struct live_job *job,
                     struct firn_buf *json);
/* A report of a job that is trained together with another; false: it is
 * trained alone. */
bool loop_merge_reported(struct loop *loop, struct live_job *job,
                         const struct firn_job *in_round);

/* --- the engine: loop_engine.c ------------------------------------------- */

/* What a job of the round, or of a copy of it, needs when it is run so. */
struct firn_load loop_load(const struct loop *loop, const struct firn_job *job,
                           const struct firn_way *way, bool is_elastic);
/* The engine as the round sees it, and the host as the engine does. */
void loop_engine_init(struct loop *loop);
enum firn_status loop_attach(struct loop *loop, struct firn_error *err);
void loop_event(struct loop *loop, const struct firn_event *event);
void loop_launch_free(struct loop *loop);
/* The host's `launch`: loop_launch.c. */
bool loop_launch(void *arg, firn_job_id id, struct firn_launch *out);
/* The mark of this state folder (engine/herd.h): read, or drawn. */
enum firn_status loop_mark(struct loop *loop, struct firn_error *err);
/* Finds where the control files are of a job that was started before. FIRN_EIO:
 * that cannot be looked at; the scheduler must not start. */
enum firn_status loop_layout(struct loop *loop, const struct live_job *job,
                             struct firn_error *err);
/* Where a job's log and checkpoints are; in `out`. */
const char *loop_job_folder(const struct loop *loop, firn_job_id id,
                            struct firn_buf *out);

/* --- jobs that came past us: loop_inbox.c --------------------------------- */

void loop_inbox_event(struct loop *loop, const struct firn_inbox *inbox);

/* --- failures: loop_fail.c ----------------------------------------------- */

/* Which failure it is, whether there may be another try, and a sentence. */
void loop_judge_failure(struct loop *loop, const struct live_job *job,
                        struct happening *what, char why[LIVE_TEXT]);
/* "with status 3": how a training of two jobs ended. */
void loop_failed_text(const struct firn_event *event, char out[LIVE_TEXT]);
/* After a restart: one that failed then and is to be tried again waits on. */
void loop_wait_on(struct loop *loop, struct live_job *job, double failed_s);
/* Lets in those whose wait is over; when the next one's is. */
double loop_retry(struct loop *loop, double now_s);

/* --- how long they take: loop_span.c ------------------------------------- */

/* What is to be expected of a job without a duration; 0: nothing is known. */
double loop_guess_s(const struct loop *loop, const struct live_ask *ask);
/* It succeeded: what is learned of it. After a restart: of all there are. */
void loop_span_ended(struct loop *loop, const struct live_job *job,
                     const struct track *track);
void loop_span_recover(struct loop *loop);
/* Now and then: those that take longer than was guessed. */
void loop_span_look(struct loop *loop, double now_s);

/* The duration of a job that has done `done_s` of its work and does not report
 * progress: `duration_s`, or half as much again as often as the job has nearly
 * used it up. A duration that is zero, negative or NaN counts as an hour. Ends
 * for every pair of numbers. */
double loop_stretched(double duration_s, double done_s);

struct loop_left {
    double left_s;
    bool reports;  /* it says how far it is */
    bool is_known; /* that, or somebody said or saw how long such jobs take */
};
/* Of a job that has GPUs. */
struct loop_left loop_left(const struct loop *loop, const struct live_job *job,
                           const struct track *track);

/* --- worse than expected: loop_guard.c ----------------------------------- */

bool loop_overlaps(const struct firn_alloc *a, const struct firn_alloc *b);
/* Beside `mate` it goes at that rate. */
void loop_guard_share(struct loop *loop, struct track *track,
                      struct track *mate, double rate);
/* Alone it does. */
void loop_guard_alone(struct track *track, double rate);
/* The round takes this step. */
void loop_guard_step(struct loop *loop, const struct firn_step *step);
/* Behind a decision: pairs that should have parted do. */
void loop_guard(struct loop *loop);
/* It is expected to end so many seconds from now; it has. */
void loop_guard_told(struct track *track, double now_s, double left_s);
void loop_guard_ended(struct loop *loop, const struct track *track);

/* --- a round: loop_round.c ----------------------------------------------- */

/* Why nothing can be started at present, by the disk or the engine; NULL: it
 * can. */
const char *loop_trouble(const struct loop *loop);
/* Why no two jobs can share a GPU here; NULL: they can. */
const char *loop_no_sharing(const struct loop *loop);
/* Decides if it is time; when it is, if not yet. */
double loop_decide(struct loop *loop, double now_s);
/* The first, or another for the present one, which ends. */
enum firn_status loop_new_round(struct loop *loop,
                                const struct firn_policy_def *policy,
                                struct firn_error *err);
/* All jobs and blocked GPUs of the present round into another. */
enum firn_status loop_copy_round(struct loop *loop, struct round *to,
                                 double now_s, struct firn_error *err);
struct round_watch loop_watch(struct loop *loop);
/* Now and then, or at the end. */
void loop_save_policy(struct loop *loop, bool is_last);

/* Commits what was changed and answers those who wait for it: loop.c. */
enum firn_status loop_answer(struct loop *loop, struct firn_error *err);

/* --- a decision with a thread of its own: loop_think.c -------------------- */

/* A round's `run`. Submits are answered meanwhile. */
void loop_think(void *arg, void (*work)(void *what), void *what);
/* Behind the decision's steps: who came meanwhile enters the round, and other
 * requests are handled. */
void loop_thought(struct loop *loop);

/* --- the operator's word and the API's: loop_config.c -------------------- */

/* The policy to begin with; loop->settings are filled. */
enum firn_status loop_choose_policy(struct loop *loop,
                                    const struct firn_policy_def **out,
                                    struct firn_error *err);
/* With that policy no round can be made, as `why` says: if the API had a part
 * in it, as before an upgrade that knows an option no more, it is forgotten,
 * and the operator's word is in `out`. False: it was the operator's own. */
bool loop_unchoose(struct loop *loop, const struct firn_error *why,
                   const struct firn_policy_def **out);
/* The API sets "owner.option=value"; then keeps that and the policy. */
void loop_set(struct loop *loop, const char *setting);
void loop_keep_choice(struct loop *loop);
/* Flags, file and token again. */
void loop_reload(struct loop *loop);
/* How many jobs it takes, by what the operator says. */
void loop_limit_jobs(struct loop *loop, const struct config *config);

/* --- the HTTP API's host: loop_host.c ------------------------------------ */

struct api_host loop_host(struct loop *loop);

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
enum firn_status dryrun_eta(struct loop *loop, struct live_job *job,
                            struct firn_buf *json, struct firn_error *err);

#endif
