/* desk.h - the round's side of firnd: who is in it, under which id, with what.
 *
 * For each living job of the book there is a track: whether the round knows it
 * and under which id, what the engine was last asked to give it. A job is in
 * one of four places:
 *
 *     round    waits or runs as the policy decides       round_id >= 0
 *     pinned   runs and can never be stopped or moved, or is being taken off
 *              its GPUs: these are blocked in the round  is_pinned
 *     away     not to be scheduled: held, being ended, or to be retried later
 *     over     no track
 *
 * Book ids are those users see. The round has ids of its own, rising: a job
 * that comes back to it (released, retried, changed) comes under a new one.
 *
 * The desk asks the book and the dock; it changes no job's state.
 */
#ifndef DAEMON_DESK_H
#define DAEMON_DESK_H
#include "base/arena.h"
#include "core/round.h"
#include "daemon/dock.h"
#include "daemon/livecosts.h"
#include "daemon/livecounts.h"
#include "daemon/liveforecast.h"
#include "daemon/liveforecast_merge.h"
#include "daemon/livehistory.h"
#include "daemon/livemetrics.h"
#include "daemon/memseen.h"
#include "daemon/partner.h"
#include <firn/sharing.h>

/* Its last change of size, for loop_guard.c; `from` 0: none since it began. */
struct resized {
    int from;              /* GPUs before */
    double expected, rate; /* as forecast, as seen since */
    int n;                 /* reports since */
    bool is_worse;
};

/* An order to the running attempt that takes it to other GPUs or off its GPUs,
 * until that is over; ordered_s 0: there is none. */
struct change {
    double ordered_s;
    int64_t attempt;
    double usual_step_s; /* by the last report before; 0: not known */
    double sum_s;        /* of step times in the reports since, */
    int nreports;        /* and how many there were */
};

/* Progress by the clock since something changed for the job: its attempt, its
 * GPUs or the job beside it. */
struct clocked {
    int64_t attempt;
    int ngpus;
    firn_job_id beside;
    double from_s, from_done_s; /* the first report since */
    double rate;                /* from then to `to_s`; 0: one report */
    double to_s;
    double slowdown; /* of that rate, by the job beside it; >= 1 */
    double alone; /* its rate alone, before that job came or as expected before
                   * its first report; 0: not known */
    bool is_expected; /* that is as expected */
    bool is_first;    /* `from_s` is the first report from these GPUs */
};

/* The part of an attempt's training that was seen: from its first step, or its
 * first report, to its last report. */
struct trained {
    int64_t attempt;
    int ngpus;
    double from_done_s, to_done_s;
    double at_s;         /* of the last report */
    double alone_s;      /* what it would have taken alone; NAN: not known */
    double guess_s;      /* of that by guessed slowdowns */
    double slowdown;     /* at the last report */
    double began_s;      /* its first step; 0: not seen from that one on */
    double usual_s;      /* since then its steps took their usual time */
    double early_s;      /* until an early report, alone; 0: none yet */
    double early_done_s; /* what it had done by then */
    bool was_beside;     /* another one that trains */
};

/* When its end was forecast, and for when; at_s 0: it was not. */
struct foretold {
    double at_s, end_s;
};

/* The memory of an attempt, of a language model: loop_memory.c. */
struct memory_seen {
    int64_t attempt;
    double most_gib; /* that its trainer reported; 0: nothing */
    int nreports;
    bool is_learned;
};

/* A duration that was looked at and need not be until then, with these GPUs. */
struct believed {
    double until_s, since_s, duration_s;
};

struct track {
    firn_job_id id;            /* the book's */
    firn_job_id round_id;      /* FIRN_NO_JOB: not in the round */
    struct firn_alloc granted; /* by the last step; parts owned */
    struct firn_alloc blocked; /* of a pinned job, in the round; parts owned */
    bool is_pinned;
    int outside_member;   /* charged for `blocked` */
    bool is_lone;         /* not to be merged any more */
    double unheard_s;     /* since when its lead reports and it does not; 0 */
    int64_t open_attempt; /* the attempt without an end; 0: none */
    double opened_s;
    struct state_past past;     /* when it is not in the round */
    double duration_s;          /* as the round has it */
    struct believed believed;   /* of one that does not report */
    double again_s;             /* away until then; 0: not by a retry */
    double mark_s, mark_done_s; /* of the last report, to see a rate by */
    double rate;                /* the last that was seen; 0: none */
    int64_t mark_attempt;
    bool is_told;       /* of an inbox's job: the engine has it, too */
    firn_job_id sharer; /* the job beside which it is watched; 0: none */
    struct firn_share_watch watch;
    double slow_expected; /* by how much, when they came together */
    long bad_at; /* the decision behind which the pair, found to be bad,
                  * has to be apart; 0: it is not */
    int nparted; /* times it was sent away from shared GPUs */
    struct resized resized;
    struct memory_seen memory;
    struct foretold eta;
    struct change change;
    double launch_s;       /* of the open attempt: until its process; 0 */
    double prepared_s;     /* its processes were there this long before; 0 */
    double early_s;        /* of one that waits: since when they are; 0 */
    int64_t waits_attempt; /* the last whose abilities were learned from */
    double last_step_s;    /* when it reported its last step; 0: it has not */
    bool ends_beside; /* and a job on the same GPUs before either was gone */
    double trained_s; /* of one that has ended: what its training would
                       * have taken alone; 0: not known */
    int64_t start_attempt; /* the last whose start was measured */
    struct clocked pace;
    struct trained trained;
    bool is_alone; /* in the open attempt, from its first second on */
    double turn;   /* of the time, in a training of two; 0: not known */
    double best;   /* metric in that, and the epoch that had it */
    uint64_t best_epoch;
    int64_t warned_attempt; /* of its time limit: loop_limits.c */
    double idle_since_s;    /* no GPU was used since */
    double idle_done;       /* progress at that moment */
    int64_t idle_attempt;   /* attempt of these */
    bool is_idle_told;
    uint64_t told_epoch;   /* the last that the estimator was told of */
    firn_job_id told_with; /* the job that it was trained together with then */
    bool is_mixed;         /* that has changed since its first epoch */
};

struct rejected {
    firn_job_id job;
    char why[64];
};

/* A step that the engine refused, and why. */
struct refused {
    firn_job_id job;
    char why[LIVE_TEXT];
};

enum { ETA_ERRORS = 64 };

/* A simulated future, which says what time it is in it, and for how long the
 * processes of a waiting job of its round are there. */
struct desk_future {
    double (*early_s)(const void *of, firn_job_id job); /* NULL: no future */
    double (*now_s)(const void *of);
    const void *of;
};

struct desk {
    struct book *book;
    struct dock *dock;
    struct metrics *metrics;
    struct round *round;
    struct accounts *accounts; /* users and projects; NULL: none */
    const struct firn_policy_def *policy;
    struct firn_engine_def live; /* the engine as the round sees it */
    VEC(const char *)
    settings; /* of policies and engines: as the operator set them, then as the
               * API did */
    struct arena settings_text;
    /* Jobs. */
    VEC(struct track *) tracks; /* by book id from first_id on; NULL: none */
    firn_job_id first_id;
    VEC(firn_job_id) books;     /* by round id */
    VEC(firn_job_id) later;     /* retries that wait for their time */
    VEC(firn_job_id) led;       /* trained by a partner, or about to be */
    VEC(firn_job_id) watched;   /* share GPUs */
    struct foreign *foreign;    /* GPUs that foreign processes use */
    char *types_text;           /* of the last language model's spec */
    struct firn_buf *merge_key; /* of the last spec that has one */
    /* What is expected. */
    struct liveforecast *forecast;
    struct livecosts *costs;
    struct livecounts *counts;
    double eta_errors[ETA_ERRORS]; /* of the last ends, relative; a ring */
    long neta_errors;
    struct livehistory *history;
    struct memseen *memory; /* of language models; NULL: not read yet */
    int nprepared;          /* jobs that the engine prepares at a time, and it
                             * says whose processes are there */
    struct desk_future future; /* that is being rolled */
    bool readmits;             /* waiting jobs, so that they keep their order */
    struct livemerge *merges;
    double limits_s; /* time limits are looked at then */
    double looked_s; /* whether a job takes longer than guessed */
    /* Of one decision, for behind it. */
    VEC(struct refused) refused;    /* steps that the engine would not take */
    VEC(firn_job_id) started;       /* to be pinned */
    VEC(firn_job_id) rebound;       /* hold what their new bounds exclude */
    VEC(struct rejected) rejected;  /* by the policy */
    bool is_draining;               /* the steps of this moment are a drain's */
    double decided_s, last_round_s; /* the last round; how long it took */
    long ndecided;                  /* rounds, of all policies */
    double saved_s;                 /* the policy's state was kept then */
    /* A decision with a thread of its own: loop_think.c. */
    size_t think_from;        /* jobs from which on there is one */
    bool is_thinking;         /* at this moment */
    VEC(firn_job_id) arrived; /* meanwhile */
};

/* All but the round. */
void desk_close(struct desk *desk);

/* --- jobs that are prepared before they start: desk_ahead.c --------------- */

/* May the job's processes be started before its GPUs are free? */
bool desk_can_ahead(const struct desk *desk, const struct live_job *job);
/* Did the trainers of an application wait for their GPUs? */
bool desk_app_waits(const struct desk *desk, const char *app);
/* How many jobs the engine prepares at a time. */
size_t desk_prepares(const struct desk *desk);
/* For how long the processes of a waiting job are there, in seconds, in the
 * future that is being rolled or now. False: it is not known. */
bool desk_early_s(const struct desk *desk, const struct firn_job *job,
                  double *early_s);

/* --- tracks and the round: desk.c ----------------------------------------- */

struct track *desk_track(const struct desk *desk, firn_job_id id);
/* Made if there is none. */
struct track *desk_track_make(struct desk *desk, firn_job_id id);
void desk_track_drop(struct desk *desk, firn_job_id id);
/* The book's id of a job of the round. */
firn_job_id desk_book_id(const struct desk *desk, firn_job_id round_id);
/* The round's job, or NULL. */
const struct firn_job *desk_job(const struct desk *desk,
                                const struct track *track);
/* Can it ever be taken off its GPUs? */
bool desk_can_stop(const struct live_job *job);
/* The duration to be expected of a job without one; 0: nothing is known. */
double desk_guess_s(const struct desk *desk, const struct live_ask *ask);
/* FIRN_CAN_*: what the job cannot do here, for its trainer or for the engine.
 */
unsigned desk_cannot(const struct desk *desk, const struct live_job *job);
/* What the round shall schedule it by. Strings are the job's, or live until
 * the next call. */
void desk_spec(const struct desk *desk, const struct live_job *job,
               struct firn_job_spec *out);
void desk_ask_spec(const struct desk *desk, const struct live_ask *ask,
                   double submit_s, struct firn_job_spec *out);
/* Into the round, waiting, unless it is there or pinned. An error: it can
 * never run here. */
enum firn_status desk_enter(struct desk *desk, struct live_job *job,
                            struct firn_error *err);
/* The same with its past, as holding `held` (nparts 0: nothing). */
enum firn_status desk_restore(struct desk *desk, struct live_job *job,
                              const struct firn_alloc *held,
                              struct firn_error *err);
/* Out of the round; what it has stays with the engine. */
void desk_withdraw(struct desk *desk, struct track *track);
/* The same and back with the GPUs that it has, as it now is: its spec has
 * changed. One that waits is out, and to be let in again. */
enum firn_status desk_reenter(struct desk *desk, struct live_job *job,
                              bool *is_waiting, struct firn_error *err);
/* Out of the round for good. */
void desk_leave(struct desk *desk, struct track *track, bool is_done);
/* Out of the round; its GPUs are blocked there until it is unpinned. */
void desk_pin(struct desk *desk, struct live_job *job);
void desk_unpin(struct desk *desk, struct track *track);
/* Pins a job that its user takes off its GPUs until its processes are gone,
 * which may take its whole grace. */
void desk_pin_leaving(struct desk *desk, struct live_job *job);
/* GPUs of pinned jobs out of the round's way, and back: around a change of
 * nodes. */
void desk_lift_pins(struct desk *desk);
void desk_set_pins(struct desk *desk);
/* All jobs and blocked GPUs of the present round into another. */
enum firn_status desk_copy(struct desk *desk, struct round *to, double now_s,
                           struct firn_error *err);

/* Seconds from the GPUs to the first step of a job whose processes were started
 * `prepared_s` before, as measured of its application; 0: nothing was. */
double desk_start_s(const struct desk *desk, const char *app,
                    double prepared_s);
/* What a restart and a resize cost the job, as far as that is known:
 * loop_costs.c. */
void desk_costs(const struct desk *desk, const struct firn_job *job,
                struct firn_costs *out);
/* A user's duration counts from the start of a job to its end. Returns which
 * part of the spec's duration is training: by the iterations of the job, else
 * by what durations of the application were wrong by, less start and end. */
double desk_share_of_training(const struct desk *desk,
                              const struct firn_job_spec *spec);
/* The time that a job with this duration trains alone on what it asked for, by
 * its iterations, else as far as durations of its application were wrong by,
 * and what comes before its first and behind its last step; both are 0 and the
 * duration is the answer where that was not given by its user and neither are
 * its iterations known. */
double desk_training_s(const struct desk *desk, const struct live_job *job,
                       double duration_s, double *start_s, double *end_s);
/* The relative error that nine of ten foretold ends were within, of the last
 * ETA_ERRORS; at least a tenth. */
double desk_eta_width(const struct desk *desk);
/* What its training took, or would have taken without the jobs beside it; 0:
 * not known, or by guessed slowdowns. */
double desk_trained_s(const struct live_job *job, const struct track *track);
/* The rate that the job, with this id in the book, should have alone on what it
 * holds, in seconds of its duration: loop_pace.c. */
double desk_expected_rate(const struct desk *desk, firn_job_id id,
                          const struct firn_job *job);
/* Its rate as the clock has it, which forecasts of ends go by; 0: it does not
 * report. */
double desk_pace(const struct desk *desk, const struct live_job *job,
                 const struct track *track);
/* The same alone on its GPUs: what was seen beside another job, times the
 * slowdown of the two. */
double desk_pace_alone(const struct desk *desk, const struct live_job *job,
                       const struct track *track);
/* When the first steps of the open attempt, which are slow, were over, or will
 * be: LIVECOST_FIRST behind the first of them. 0: it is not known when that
 * was. */
double desk_usual_from_s(const struct desk *desk, const struct live_job *job,
                         const struct track *track);
/* The moment from which a job that has reported makes what is left of its work
 * at its pace: that of its last report, or, if that was one of slow first
 * steps, a later one. */
double desk_paced_from_s(const struct desk *desk, const struct live_job *job,
                         const struct track *track);
/* What the first steps of the training took longer than as many later ones; a
 * negative number: not known. */
double desk_first_s(const struct live_job *job, const struct track *track);
/* Does the job, which holds GPUs, make steps of the usual time on them? It has
 * reported some, or it is there for longer than starts of its application
 * take. */
bool desk_is_training(const struct desk *desk, const struct track *track);

/* --- the GPU type that a job keeps to: desk_type.c ----------------------- */

/* At a start on that node: its type, of a job that keeps to one and has not had
 * any. */
enum firn_status desk_type_keep(struct desk *desk, struct live_job *job,
                                firn_node_id on, struct firn_error *err);
/* There are other types here, and it has done something on its own. */
bool desk_type_is_fixed(const struct desk *desk, const struct live_job *job);
/* None again, of a job that has not reported anything. */
void desk_type_free(struct desk *desk, struct live_job *job);
/* No node has the type that it keeps to: it was renamed, or is gone. */
bool desk_type_is_lost(const struct desk *desk, const struct live_job *job);
/* A sentence about that, and which types there are. */
void desk_type_lost_text(const struct desk *desk, const struct live_job *job,
                         char out[LIVE_TEXT]);
/* `keeps`, or "" for none, into what it is scheduled by. */
void desk_type_spec(const struct desk *desk, const char *keeps,
                    struct firn_job_spec *spec);
/* The same of a job that has held GPUs in one round and goes to another. */
void desk_type_copied(const struct state *from, const struct firn_job *job,
                      struct firn_job_spec *spec);
/* The most memory of a GPU that it may have; 0: not known. */
double desk_type_gib(const struct desk *desk, const struct live_job *job);

/* --- foreign processes: desk_foreign.c ----------------------------------- */

void foreign_open(struct desk *desk);
void foreign_close(struct desk *desk);
/* The engine's last report of a board. */
void foreign_taken(struct desk *desk, const struct firn_part *taken);
/* Blocks what is to be blocked and is free in the round, once `put_back` has
 * taken from jobs what the engine has not started. Jobs of ours that run on
 * such GPUs go on, and are named in the log once. */
typedef void foreign_put_back(void *arg, firn_node_id node, int board,
                              uint64_t gpus);
void foreign_settle(struct desk *desk, foreign_put_back *put_back, void *arg);
/* Before a node leaves or comes: its blocked GPUs are back in the round. */
void foreign_lift(struct desk *desk, firn_node_id node);
/* What is blocked, in a round that has the present one's jobs and nodes. */
void foreign_copy(const struct desk *desk, struct round *to);
/* GPUs of a node that foreign processes use. */
int foreign_count(const struct desk *desk, firn_node_id node);
/* Does a foreign process use this GPU of the node? */
bool foreign_has(const struct desk *desk, firn_node_id node, int gpu);

/* --- partners: desk_partner.c -------------------------------------------- */

/* The engine's phase of a job, or of the partner whose processes train it. */
enum firn_phase desk_phase(const struct desk *desk, const struct live_job *job);
/* The job that the round wants it to be trained together with; or NULL. */
struct live_job *partner_wanted(const struct desk *desk,
                                const struct live_job *job);
/* Does the round want a partner's processes to train it? */
bool partner_awaited(const struct desk *desk, const struct live_job *job);
/* ", together with job 3 (name)", or nothing. */
void partner_words(const struct desk *desk, const struct live_job *job,
                   struct firn_buf *out);
/* With the book's ids for the round's. */
struct firn_how partner_how(const struct desk *desk,
                            const struct firn_how *how);
/* After a restart, when all jobs are in: partners name each other again. */
void partner_recover(struct desk *desk);

/* --- what merging is worth: desk_merge.c --------------------------------- */

/* Two jobs of a round that has the desk's ids. */
struct desk_pair {
    const struct firn_job *a, *b;
    enum firn_merge_kind kind;
};
/* Behind `merge` of the forecasts. */
bool desk_merge(struct desk *desk, const struct desk_pair *pair,
                const struct firn_way *way, double now_s,
                struct firn_merge *out);
/* Behind `after` of the forecasts. */
bool desk_after(struct desk *desk, firn_job_id from, const struct firn_job *job,
                struct firn_after *out);
/* Appends a JSON list of sentences: why it is not trained together with other
 * jobs, of one whose user allows that and that is not. Empty: nothing stands
 * against it. O(jobs). */
void desk_not_merged(const struct desk *desk, const struct live_job *job,
                     struct firn_buf *json);
/* A report of a job that is trained together with another; false: it is
 * trained alone. */
bool desk_merge_reported(struct desk *desk, struct live_job *job,
                         const struct firn_job *in_round);
/* A fine-tuning job has reported, or is done: its epochs go to the estimator
 * of merges. */
void desk_task_reported(struct desk *desk, const struct live_job *job);
void desk_task_ended(struct desk *desk, const struct live_job *job);
/* Does it do worse with the weights of the job that it began with than without?
 * `out` is then a sentence. */
bool desk_after_hurts(struct desk *desk, const struct live_job *job,
                      char out[LIVE_TEXT]);
/* It begins anew, alone. */
void desk_task_anew(struct desk *desk, const struct live_job *job);

/* --- how long they train by their iterations: desk_counts.c -------------- */

/* Seconds of training alone on what the job asked for, and the same with a
 * usual start and end; 0: its user did not say its iterations, or no job like
 * it has ended. */
double desk_counted_s(const struct desk *desk,
                      const struct firn_job_spec *spec);
double desk_counted_whole_s(const struct desk *desk,
                            const struct firn_job_spec *spec);
/* Do all of its steps take equal times? Not if layers are frozen, the policy
 * may change its batch, or it may have been trained together with another. */
bool desk_steps_are_alike(const struct live_job *job);
/* It has ended well: what it teaches. True: jobs like it are expected to train
 * for clearly more or less since. */
bool desk_counts_ended(struct desk *desk, const struct live_job *job,
                       const struct track *track,
                       const struct firn_job_spec *spec);

/* --- how long they take, and what they need: desk_span.c ----------------- */

/* It succeeded: what is learned of it. After a restart: of all there are. */
void desk_span_ended(struct desk *desk, const struct live_job *job,
                     const struct track *track);
void desk_span_recover(struct desk *desk);
/* Now and then: those that take longer than was guessed. */
void desk_span_look(struct desk *desk, double now_s);

/* The duration of a job that has done `done_s` of its work and does not report
 * progress: `duration_s`, or half as much again as often as the job has nearly
 * used it up. A duration that is zero, negative or NaN counts as an hour. Ends
 * for every pair of numbers. */
double desk_stretched(double duration_s, double done_s);

struct desk_left {
    double left_s;
    bool reports;  /* it says how far it is */
    bool is_known; /* that, or how long such jobs take is given or was seen */
};
/* Of a job that has GPUs. */
struct desk_left desk_left(const struct desk *desk, const struct live_job *job,
                           const struct track *track);

/* It is expected to end `left_s` seconds from now; it has ended. */
void desk_eta_told(struct track *track, double now_s, double left_s);
void desk_eta_ended(struct desk *desk, const struct track *track);

/* What a job of the round, or of a copy of it, needs when it is run so. */
struct firn_load desk_load(const struct desk *desk, const struct firn_job *job,
                           const struct firn_way *way);
#endif
