/* easyscale.h - a round of the policy easyscale, between its files.
 *
 * easyscale.c has the essay. Counts of GPUs are by type; which GPUs a job gets
 * is decided at the end.
 */
#ifndef POLICY_EASYSCALE_H
#define POLICY_EASYSCALE_H
#include "base/vec.h"
#include "policy/threadplan.h"

enum { ES_ONE, ES_MIXED };

/* What was done with a job, by slot. */
struct es_past {
    firn_job_id id; /* 1 + id of the job; 0: no job */
    int type;       /* 1 + the GPU type it first started on; 0: none */
    double at_s;    /* when it was last given more GPUs */
    int from[FIRN_TYPES_MAX], to[FIRN_TYPES_MAX];
    double from_rate, to_rate; /* observed, predicted */
    double rests_until_s;
    int lost[FIRN_TYPES_MAX], rest[FIRN_TYPES_MAX]; /* taken back; left over */
    double waits_until_s; /* for as many as were lost, beside the rest; 0: it
                           * does not wait */
    double waited_s;      /* when that was over; 0: it is not */
};

struct easyscale {
    int types, top;
    double waste, gain, interval_s, restart_s, timeout_s;
    bool skip, several, again, worth, releases;
    double wakes_s; /* the first time-out; infinity: no job waits */
    VEC(struct es_past) past;
    VEC(struct es_past) kept; /* over a restart, for jobs not met since */
};

/* A job and what it is to have. */
struct es_seat {
    const struct firn_job *job;
    struct es_past *past; /* or NULL */
    struct threadplan plan;
    struct layout has;
    double rate;              /* predicted, when it has grown */
    int lost[FIRN_TYPES_MAX]; /* GPUs taken back for other jobs, this round */
    bool has_lost;
    bool has_waited; /* `past` says so; it may have moved since */
    bool is_parked;  /* waits for GPUs like those it lost: `has` is kept free
                      * for it, and it runs on nothing */
    bool is_planned; /* `plan` is filled */
    bool is_changed; /* has != what it holds */
    bool is_falling; /* returns GPUs: proposes nothing */
    bool has_grown;
    bool is_rejected;
};

struct es_round {
    struct easyscale *es;
    const struct firn_view *view;
    struct firn_plan *plan;
    struct es_seat *seats; /* by priority, then id */
    size_t n;
    int ntypes;
    int free[FIRN_TYPES_MAX];
    int nfree;   /* sum of them */
    int surplus; /* GPUs of jobs beyond their minimum */
};

/* Its capabilities, asked for when they are first needed. */
const struct threadplan *es_plan(const struct es_round *round,
                                 struct es_seat *seat);

/* Moves GPUs of a type between a job and the free ones; `more` may be
 * negative. */
void es_move(struct es_round *round, struct es_seat *seat, int type, int more);

/* Changes the GPUs that it is to have to these. */
void es_set(struct es_round *round, struct es_seat *seat, const int *counts);

/* minP: the GPUs that are guaranteed to a job. */
int es_minimum(const struct firn_job *job);

/* Starts jobs that hold nothing, if need be with GPUs taken from other jobs;
 * notes for the rest why they wait. */
void es_guarantee(struct es_round *round);

/* ---- easyscale_return.c: the same GPUs, within a time-out ---- */

/* Finds out whether a job that holds nothing waits for GPUs like those it
 * lost, and keeps the rest of its GPUs for it. */
void es_sit_parked(struct es_round *round, struct es_seat *seat);

/* Ends the wait of a parked job, if as many GPUs of the same types are free
 * (it takes them) or if its time is over (it goes on with the rest). */
void es_try_return(struct es_round *round, struct es_seat *seat);

/* A job has lost GPUs in this round: it waits from now on; one that waited
 * already waits no longer. */
void es_park(const struct es_round *round, struct es_seat *seat);

/* Writes down what a parked job waits for; forgets it for any other. */
void es_remember_parked(const struct es_round *round,
                        const struct es_seat *seat, struct es_past *past);

/* When the first time-out is over, of all jobs; infinity: no job waits. */
double es_next_timeout_s(const struct easyscale *es, double now_s);

#endif
