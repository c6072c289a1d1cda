/* easyscale.h - a round of the policy easyscale, between its two files.
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
};

struct easyscale {
    int types, top;
    double waste, gain, interval_s, restart_s;
    bool skip;
    VEC(struct es_past) past;
    VEC(struct es_past) kept; /* over a restart, for jobs not met since */
};

/* A job and what it is to have. */
struct es_seat {
    const struct firn_job *job;
    struct es_past *past; /* or NULL */
    struct threadplan plan;
    struct layout has;
    double rate;     /* predicted, when it has grown */
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

/* Starts jobs that hold nothing, if need be with GPUs taken from other jobs;
 * notes for the rest why they wait. */
void es_guarantee(struct es_round *round);

#endif
