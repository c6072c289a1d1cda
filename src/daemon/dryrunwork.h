/* dryrunwork.h - between dryrun.c, which rolls forward, and dryrun_say.c, which
 * tells what came out.
 */
#ifndef DAEMON_DRYRUNWORK_H
#define DAEMON_DRYRUNWORK_H
#include "daemon/loopwork.h"

/* Of one simulated future, and how many of them an answer takes. */
enum { DRYRUN_EVENTS_MOST = 2000, DRYRUN_FUTURES = 3 };

/* What a simulated future was cut short by. */
enum dryrun_limit { DRYRUN_WITHIN, DRYRUN_EVENTS, DRYRUN_CPU, DRYRUN_WALL };

/* A job that no policy has, and when its GPUs come free. */
struct pinned {
    firn_job_id id;                   /* the book's */
    const struct firn_alloc *blocked; /* its track's */
    double end_s;
};

/* A job in a future in which all jobs are in question. */
struct dryrun_seen {
    double start_s, end_s; /* since now; NaN: not within what was rolled */
    firn_job_id hung;      /* see struct dryrun, at its start */
    char *gpus;            /* that it starts on; NULL: not kept */
};

/* A job's pace in a future: dryrun_pace.c. */
struct dryrun_pace {
    double alone;  /* its rate without neighbours; 0: not known */
    double cost_s; /* of what it got last, before it makes progress */
};

/* A job that waits and whose processes are there: dryrun_ahead.c. */
struct dryrun_ready {
    firn_job_id job; /* the round's */
    double since_s;
};

/* Jobs in the order of their starts, by the round's ids. */
struct dryrun_order {
    firn_job_id *at;
    size_t n, cap; /* base/vec.h */
};

/* A start in a future that ends behind the first of them. */
struct dryrun_start {
    firn_job_id job; /* the round's */
    double in_s;
    struct firn_alloc to; /* parts owned */
};

struct dryrun {
    struct loop *loop;
    struct firn_engine_def def;
    struct round *round;
    struct accounts *accounts; /* a copy; NULL: none */
    double began_s, now_s;
    firn_job_id job; /* in question, in this round */
    double start_s;  /* since now; NaN: not within what was rolled */
    double end_s;
    struct firn_buf gpus; /* that it starts on */
    double rate;
    int nslowed;      /* running jobs that lost GPUs for its start */
    double stretch;   /* of what jobs that do not report still need */
    bool is_known;    /* how long the job in question takes */
    firn_job_id hung; /* the book's id of a job without a duration that ended
                       * before the one in question began; FIRN_NO_JOB */
    enum dryrun_limit limit;
    int nevents; /* simulated: ends of jobs and wake-ups of the policy */
    VEC(struct pinned) pinned;
    double most_s;            /* processor time; 0: as for one job */
    struct dryrun_seen *seen; /* by the round's id; NULL: one job in question */
    size_t nseen;
    size_t starts_most; /* it ends with this start; 0: it does not */
    VEC(struct dryrun_start) starts;
    int ngpus_kept;            /* starts of which `gpus` is kept */
    struct dryrun_pace *paces; /* by the round's id */
    size_t npaces;
    /* dryrun_ahead.c */
    VEC(struct dryrun_ready) ready;
    struct dryrun_order expected; /* FIRN_NO_JOB: that start was */
    size_t nexpected;             /* of its first ones, that were */
    bool is_first;                /* no order is expected */
    struct dryrun_order order;    /* as it came out */
    VEC(double) early;            /* when jobs started that can be prepared */
};

/* About a job that is there, or one that is not. */
struct question {
    const struct live_job *job;       /* NULL: none yet */
    const struct firn_job_spec *spec; /* of one that is not */
    bool is_known;                    /* how long it takes */
};

/* A copy of the present state in which the question is asked; `stretch` is set.
 * The caller closes it, also after a failure. */
enum firn_status dryrun_open(struct dryrun *dry, struct loop *loop,
                             const struct question *q, struct firn_error *err);
void dryrun_close(struct dryrun *dry);
/* The same with all jobs in question; `stretch` and `most_s` are set. */
enum firn_status dryrun_open_all(struct dryrun *dry, struct loop *loop,
                                 struct firn_error *err);
/* --- dryrun_ahead.c --- */
/* struct desk_future's: `future` is a dryrun. */
double dryrun_ahead_s(const void *future, firn_job_id job);
/* Before it is opened: the order that is expected. An empty one: the first
 * future. */
void dryrun_ahead_expect(struct dryrun *dry, const struct dryrun_order *order);
/* Behind it: moves the order that came out to an empty one. */
void dryrun_ahead_keep(struct dryrun *dry, struct dryrun_order *order);
void dryrun_ahead_open(struct dryrun *dry);
void dryrun_ahead_close(struct dryrun *dry);
/* Behind a decision: the engine prepares the next ones. */
void dryrun_ahead_fill(struct dryrun *dry);
/* A job gets its GPUs: for how long its processes were there. */
double dryrun_ahead_starts(struct dryrun *dry, const struct firn_step *step);
/* --- dryrun_pace.c --- */
void dryrun_pace_open(struct dryrun *dry);
void dryrun_pace_close(struct dryrun *dry);
/* A step of this future: what it costs the job. */
void dryrun_pace_step(struct dryrun *dry, const struct firn_step *step);
/* Jobs on shared GPUs that have made their last step say so. */
void dryrun_pace_last(struct dryrun *dry);
/* Jobs that got GPUs, or share some, go at their rates from now on. */
void dryrun_pace_all(struct dryrun *dry);
/* A job that runs when the future begins and has not reported; it is expected
 * to need `left_s` seconds. */
void dryrun_pace_silent(struct dryrun *dry, const struct firn_job *job,
                        const struct track *track, double left_s);
/* The same of a job that reports. */
void dryrun_pace_heard(struct dryrun *dry, const struct firn_job *job,
                       const struct live_job *live, const struct track *track);
/* When the next job on shared GPUs makes its first step, or its last one with
 * an end behind it; infinite: none. */
double dryrun_turn_s(const struct dryrun *dry);
/* Seconds from its last step until its GPUs are free. */
double dryrun_end_s(const struct dryrun *dry, const struct firn_job *job);

/* Rolls on to the end of what there is, or to a limit. */
void dryrun_roll(struct dryrun *dry);
/* It starts, or is, on these: by the nodes' names. */
void dryrun_gpus(struct dryrun *dry, const struct firn_alloc *held);

/* The answer in `dry`, whose copy the caller closes, and the range. */
struct range {
    double start[2], end[2];
    int nevents; /* of all futures; DRYRUN_FUTURES * DRYRUN_EVENTS_MOST at most
                  */
};

enum firn_status dryrun_ask(struct dryrun *dry, struct loop *loop,
                            const struct question *q, struct range *range,
                            struct firn_error *err);
/* Appends which limit cut the future short; nothing when none did. */
void dryrun_limit_text(const struct dryrun *dry, struct firn_buf *text);
/* Adds the plans of a language model to an open object; of another job nothing.
 */
void dryrun_memory(const struct loop *loop, const struct live_ask *ask,
                   struct firn_buf *json);
/* The range has this moment in it; NaN: as it is. */
void dryrun_widen(double range[2], double at_s);

#endif
