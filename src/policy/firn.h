/* firn.h - the parts of the policy firn; private to it.
 *
 * firn.c has the idea and the order of the parts. A round seats every job, or
 * two that are trained together, as one seat; each part reads and completes
 * the seats:
 *
 *   firn_window.c  which jobs are looked at, if there are many
 *   firn_due.c     how long a job may wait
 *   firn_past.c    what ended jobs teach: the work of new ones, weights
 *   firn_merge.c   fine-tuning: who is trained together, who waits for whom
 *   firn_menu.c    the ways in which a seat could run
 *   firn_spread.c  jobs that are faster on more nodes than they need
 *   firn_worth.c   what each way is worth; who must not be moved or must run
 *   firn_assign.c  one way for each seat, and GPUs for it
 *   firn_rest.c    GPUs that are left over: jobs on several types
 *   firn_pair.c    what two jobs on the same GPUs gain
 *   firn_share.c   who has a place on shared GPUs
 *   firn_note.c    why each job has what it has
 */
#ifndef POLICY_FIRN_H
#define POLICY_FIRN_H
#include "base/map.h"
#include "base/vec.h"
#include "policy/rounds.h"
#include <firn/offer.h>
#include <firn/policy.h>

enum one_knows { ONE_FORECAST, ONE_PROGRESS, ONE_HISTORY, ONE_SERVICE };

enum {
    ONE_NONE = -1,
    ONE_LATELY = 16, /* arrivals by which their rate is known, and at first */
    ONE_FEW = 4,
    ONE_TASKS = 64,  /* fine-tuning applications that are told apart */
    ONE_CLASSES = 48 /* of work, four to a factor of ten, from 1 GPU-s on */
};

struct one_rules {
    double alpha, alpha_rigid, narrow, horizon_s, horizon_jobs, horizon_past,
        keep, keep_queue, grow, weight;
    int ahead_s;
    int knows;
    bool resize, batch, freeze, threads, mixed, share, merge, weights, unknown;
    double mix_min, spread_min, slow_most, share_min;
    double gather_s, gather_min, pair_min, after_min, after_known, after_gain;
    double wait_times, wait_least_s, turn, due_share;
    double restarts, lost;
    int effort;
};

/* Work that ended jobs of one kind had, in reference seconds x GPUs. */
struct one_past {
    double sum[ONE_CLASSES];
    int count[ONE_CLASSES];
};

/* What was seen of a job when it was submitted. */
struct one_known {
    firn_job_id id;
    int kind; /* of one->kinds; ONE_NONE: it has ended */
    int task; /* of one->tasks, or ONE_NONE */
    int gpus;
    uint32_t types;  /* that it accepts */
    double submit_s; /* or when a quota let it in */
    double work_s;   /* x GPUs; not looked at before it has ended, unless
                      * forecasts are */
    double fifo_s;   /* its wait under first come, first served; NaN: not yet */
};

/* First come, first served, played beside the real schedule. */
struct one_end {
    double at_s;
    firn_type_id type;
    int gpus;
};
struct one_queue {
    int up[FIRN_TYPES_MAX];
    int free[FIRN_TYPES_MAX]; /* below 0 when GPUs went down */
    double last_s;            /* the latest start */
    VEC(struct one_end) ends;
};

/* The cluster's nodes. */
struct one_nodes {
    int n, ngpus;
    int of_type[FIRN_TYPES_MAX];
    int gpus_most[FIRN_TYPES_MAX]; /* of the largest node of the type */
};

struct one {
    struct one_rules rules;
    struct one_nodes nodes;
    struct rounds rounds;
    firn_job_id window_from, window_to; /* the last job of the window before,
                                         * and of the latest one */
    bool was_tight, is_tight; /* some job would have used more GPUs, before the
                               * latest decision and in it */
    long was_calm, is_calm;   /* running jobs in a row, by windows, that had
                               * their best way; then and now */
    bool is_filling;          /* the latest decision started many jobs */
    bool gathers;  /* fine-tuning jobs waited at the latest decision */
    double tail_s; /* when a waiting job may start beside the end of another */
    VEC(struct one_known) known; /* by id */
    size_t nended;               /* of them have ended */
    firn_job_id met_last;        /* the last job that was met in order */
    bool has_missed;             /* and not all before it were, so far */
    double lately_s[ONE_LATELY]; /* when the latest jobs came, in a ring */
    long ncame;                  /* jobs that came so far */
    struct one_queue queue;
    struct map kinds;             /* "app\ngroup" */
    VEC(struct one_past) pasts;   /* by kind */
    struct map tasks;             /* applications of fine-tuning jobs */
    firn_job_id ended[ONE_TASKS]; /* the latest job of a task that ended; or
                                   * FIRN_NO_JOB */
    double pair[ONE_TASKS][ONE_TASKS]; /* of two together: TranWt; 0 */
    double came[ONE_TASKS];   /* jobs of a task, older ones counting less */
    double came_s[ONE_TASKS]; /* when the latest of them came */
};

/* A way in which a seat could run. */
struct one_choice {
    firn_type_id type; /* of several types: that of which it has most */
    int gpus;
    int taken; /* GPUs of `type`: fewer than `gpus` if of several types */
    int nodes; /* on which it has `rate`; 0: on as few as can be */
    double rate, rate_with; /* of the job, of its partner */
    double value;
    struct firn_how how;
    unsigned tunes;
    bool is_held;
    bool is_mixed;
    const int *counts; /* GPUs by type if they are of several; or NULL */
};

struct one_seat {
    const struct firn_job *job;
    const struct firn_job *with;   /* trained together with it; or NULL */
    const struct firn_job *beside; /* another job on the GPUs it holds */
    const struct one_seat *next;   /* that waits to start beside its end */
    bool is_guest;                 /* and came there later */
    const char *parted;            /* why it is parted from the job that it is
                                    * trained together with; or NULL */
    bool is_new_pair, waits;       /* for a partner or for weights */
    struct one_choice *choices;
    int n, cap;
    int chosen; /* choice, or ONE_NONE */
    int pinned; /* the choice that it must have, or ONE_NONE */
    bool is_placed, is_due, is_settled;
    bool is_sheltered; /* is due, and has GPUs set aside */
    bool is_supple; /* can be resized without a stop, and has somewhere to go */
    firn_type_id held_type;     /* ONE_NONE: nothing, or several */
    double left_s, left_with_s; /* reference seconds of work */
    double best, best_with; /* rate for each GPU in its most efficient way */
    double weight, weight_with; /* value of a rate of 1 */
    double work;                /* GPU-seconds left in the most efficient way */
    double keep;      /* restarts that a change must save besides its own */
    double horizon_s; /* for which its share is expected to last */
    double cost_s, change_s; /* of a restart, of a change while it runs */
    double full_s;           /* of a restart of which nothing is prepared */
    double prepare_s;  /* of a change while it runs: what new GPUs count for,
                        * which do nothing until they are prepared */
    double first_s;    /* of its first start, if that is to come */
    double start_s;    /* before it trains, where starts are charged */
    double whole_s;    /* the same if nothing of it is prepared */
    int nprepared;     /* jobs that the engine prepares at a time */
    double end_s;      /* behind its last step */
    double idle_s;     /* of what is left of it, without training */
    double gain;       /* by the weights it begins with; 1: none */
    firn_job_id after; /* whose weights these are, or FIRN_NO_JOB */
    double due_s;      /* when it must run at the latest; infinity: never */
};

struct one_round {
    struct one *one;
    const struct firn_view *view;
    struct firn_plan *plan;
    bool is_again; /* the decision of the same moment, asked for again */
    const struct firn_job *const *waiting; /* all that wait, by id */
    const struct firn_job *const *jobs;    /* that are looked at, by id */
    size_t njobs;
    struct one_seat *seats;
    size_t n;
    double price[FIRN_TYPES_MAX]; /* least value for each GPU that was chosen */
    double horizon_s; /* for which a share of the GPUs is expected to last */
    double nbehind;   /* jobs that wait to share, less one */
};

/* The whole decision; `round` has the policy, the view and the plan, and gets
 * the seats. */
void one_decide(struct one_round *round);
/* Is nothing done of it yet? */
bool one_is_fresh(const struct one_round *round, const struct firn_job *job);
/* A job that is looked at, or NULL. */
const struct firn_job *one_job(const struct one_round *round, firn_job_id id);

/* firn_window.c */
/* Are there too many jobs to look at all of them? */
bool one_is_many(const struct one *one, const struct firn_view *view);
/* Seconds between two decisions on as many jobs. */
double one_gap_s(const struct one *one, const struct firn_view *view);
/* Chooses the jobs that are looked at, lets all others keep what they have, and
 * takes the GPUs of those that run out of the plan. */
void one_window(struct one_round *round);
/* Remembers whether a job would have used more GPUs. */
void one_loosen(const struct one_round *round);

/* firn_past.c */
void one_observe(void *state, const struct firn_event *event);
/* Enters a job, unless it or a later one was entered before. */
void one_meet(struct one *one, const struct firn_job *job);
/* Enters the jobs, which are by id, that were held back while later ones were
 * entered. */
void one_meet_late(struct one *one, const struct firn_job *const *jobs,
                   size_t n, double now_s);
/* NULL: it was not seen. */
const struct one_known *one_known_of(const struct one *one, firn_job_id id);
/* The run time expected of a job when it is submitted. */
double one_expected_s(const struct one *one, const struct one_known *known);
/* Reference seconds of work that are left of it. */
double one_left_s(const struct one_round *round, const struct firn_job *job);
void one_past_save(const struct one *one, struct firn_buf *out);
/* Into a zeroed `one`. */
void one_past_load(struct one *one, struct keep *keep);
void one_past_free(struct one *one);
/* Jobs of a task that come in a second, by those of late. */
double one_arrivals(const struct one *one, int task, double now_s);
/* Seconds from one arrival of a job to the next, by the latest ONE_LATELY;
 * those that are missing of the first ONE_FEW count `prior_s` each. */
double one_gap_of_late_s(const struct one *one, double now_s, double prior_s);
/* The number of a task, or ONE_NONE. */
int one_task(struct one *one, const char *app);

/* firn_due.c */
/* Enters the jobs that were met since the last call; the plan is empty. */
void one_queue_jobs(struct one *one, const struct firn_view *view,
                    const struct firn_plan *plan);
/* Enters one more job. */
void one_queue_job(struct one *one, struct one_known *known);
/* When the job must run at the latest; in the past: it is due. */
double one_due_s(const struct one_round *round, const struct firn_job *job);
void one_queue_save(const struct one_queue *queue, struct firn_buf *out);
void one_queue_load(struct one_queue *queue, struct keep *keep);

/* firn_merge.c: before and after the menus. */
void one_match(struct one_round *round);
void one_hold_back(struct one_round *round, struct one_seat *seat);

/* firn_menu.c */
void one_menu(struct one_round *round, struct one_seat *seat);
struct one_choice *one_add(const struct one_round *round,
                           struct one_seat *seat);

/* firn_spread.c */
/* Counts the nodes of each type, if there are others than before. */
void one_survey(struct one *one, const struct firn_cluster *cluster);
/* Could a way be on more nodes than it needs? */
bool one_may_spread(const struct one_round *round, const struct one_seat *seat,
                    const struct firn_way *way);
/* Gives the choice the nodes on which it is fastest, and the rate there. */
void one_spread(const struct one_round *round, const struct one_seat *seat,
                struct one_choice *choice);
/* Gives the job free GPUs on choice->nodes nodes; false: there are none. */
bool one_give_spread(const struct one_round *round, const struct one_seat *seat,
                     const struct one_choice *choice,
                     const struct firn_how *how);

/* firn_worth.c */
void one_worth(struct one_round *round);
/* Seconds until a job that holds its GPUs trains, or would if it came now: a
 * whole start, or less if its processes were there before. */
double one_starts_s(const struct one_round *round, const struct one_seat *seat,
                    bool is_held);
/* What the change to a way costs a job that has run, in seconds of training. */
double one_cost_s(const struct one_seat *seat, const struct one_choice *choice);
/* The share of a way's rate that is left of it by the restart it needs; above 1
 * for what the seat holds. */
double one_lasting(const struct one_seat *seat, double cost_s, double left_s,
                   double rate, bool is_held);

/* firn_assign.c */
void one_assign(struct one_round *round);
/* Gives the seat free GPUs for its choice; false: there is no room. */
bool one_give(const struct one_round *round, const struct one_seat *seat);
struct firn_how one_how(const struct one_round *round,
                        const struct one_seat *seat,
                        const struct one_choice *choice);

/* firn_rest.c */
void one_mix(struct one_round *round);

/* firn_pair.c */
/* The speeds of two jobs beside each other over those alone. */
struct one_paces {
    double guest, host;
};
/* The pace of the guest and of the host; false: they must not come together. */
bool one_find_paces(const struct one_round *round, const struct one_seat *seat,
                    const struct one_seat *host, struct one_paces *out);
/* A job beside the best host so far. */
struct one_stay {
    struct one_seat *host;
    double lost_s; /* by both jobs */
    int choice, passes;
    bool is_held;
    struct one_seat *later; /* beside whose end it could start, and in how */
    double later_s;         /* many seconds */
};
/* Makes the host the best one if the job may come to it and less is lost. */
void one_try_host(const struct one_round *round, struct one_seat *seat,
                  struct one_seat *host, struct one_stay *best);
/* The fewest passes in which the job fits beside the host; ONE_NONE: in none.
 */
int one_passes_beside(const struct one_round *round,
                      const struct one_seat *seat,
                      const struct one_choice *choice,
                      const struct one_seat *host);
/* Seconds for which it trains alone. */
double one_trains_s(const struct one_seat *seat, const struct one_choice *as);
/* Seconds until the last step of the host, alone. */
double one_ends_s(const struct one_round *round, const struct one_seat *host);
/* Are all GPUs of `part` among those of `whole`? */
bool one_lies_in(const struct firn_alloc *part, const struct firn_alloc *whole);
/* Does the job hold GPUs that the host has now, and no others? It stays on them
 * without a restart, as a guest or because the host took them from it. */
bool one_is_there(const struct one_round *round, const struct one_seat *seat,
                  const struct one_seat *host);

/* firn_share.c */
void one_share(struct one_round *round);

/* firn_note.c */
void one_explain(const struct one_round *round);

#endif
