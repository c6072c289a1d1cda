/* event.h - events: what an engine reports to the round.
 */
#ifndef FIRN_EVENT_H
#define FIRN_EVENT_H
#include <firn/job.h>

FIRN_C_BEGIN

enum firn_event_kind {
    FIRN_EVENT_SUBMIT,    /* spec: a new job, id `job` above all before it */
    FIRN_EVENT_DONE,      /* job: finished its work */
    FIRN_EVENT_FAIL,      /* job: ended without finishing */
    FIRN_EVENT_REPORT,    /* job, report: progress; asks for no new decision */
    FIRN_EVENT_NODE_UP,   /* node */
    FIRN_EVENT_NODE_DOWN, /* node: its jobs are stopped; is_drained: they have
                           * time to leave */
    FIRN_EVENT_TIMER,     /* the time that was asked for has come */
    /* Of live engines, for the daemon; the round never sees them. */
    FIRN_EVENT_PHASE,   /* job, attempt: the attempt entered `phase` */
    FIRN_EVENT_LEFT,    /* job, attempt: gave its GPUs up as planned (`end`) */
    FIRN_EVENT_TAKEN,   /* taken: all GPUs of this board that foreign processes
                         * use, also those held by a job that has not started */
    FIRN_EVENT_INBOX,   /* inbox: a job in the engine's own queue, or its end */
    FIRN_EVENT_BARS,    /* job: what `bars` says of it has changed; FIRN_NO_JOB:
                         * of any job */
    FIRN_EVENT_RESIZED, /* job, attempt: a resize of the running attempt is
                         * over; is_resized: done; stays: it trains on
                         * as it was; else it is restarted */
    FIRN_EVENT_TIMES,   /* job, attempt: when an attempt that is over began and
                         * ended, by the accounting of the engine's cluster */
    FIRN_EVENT_PREPARED, /* job: processes of its next attempt wait for its
                          * GPUs, ready after prepare_s */
};

/* From `resumes_s` on, a job gains `rate` reference seconds a second, having
 * `done_s` at that moment. */
struct firn_report {
    double done_s, rate, resumes_s;
};

/* A job that its user gave to the engine's own queue (Slurm's) and not to firn.
 * The texts are not trusted, and are borrowed until the next event. After a
 * restart there is an event for each such job, then one without a key: jobs
 * that were not reported before it are gone. */
struct firn_inbox {
    const char *key; /* the engine's name for it, never used again;
                      * [A-Za-z0-9.-], at most 100 */
    const char *name, *user;
    const char *types; /* "a100|v100"; "" for any */
    int gpus;
    double limit_s; /* time limit, after which it is ended; 0: none */
    double submit_s;
    bool is_gone; /* it ended or was taken away before it was started */
};

struct firn_event {
    enum firn_event_kind kind;
    double at_s;
    firn_job_id job;
    firn_node_id node;
    const struct firn_job_spec *spec; /* SUBMIT: borrowed until next event */
    struct firn_report report;        /* REPORT */
    double finished_s;                /* DONE: when the job says it finished, if
                                       * that is not at_s; 0: at_s */
    int64_t attempt;                  /* live engines: number of the attempt */
    int phase, end;                   /* enum firn_phase, enum firn_end */
    int exit_status;                  /* as in a shell: 128 + signal */
    bool is_drained;                  /* live engines: NODE_DOWN */
    struct firn_part taken;           /* TAKEN; its `gpus` may be 0 */
    const struct firn_inbox *inbox;   /* INBOX */
    bool is_resized, stays;           /* RESIZED */
    double pause_s, prepare_s; /* RESIZED: time without training; until the new
                                * processes were ready. PREPARED: as there.
                                * PHASE: seconds that the attempt was started
                                * before it had its GPUs; 0: it was not */
    const char *why; /* RESIZED: why not; borrowed until the next events */
    double belief;   /* SUBMIT: as in struct firn_job; 0: exact */
    double began_s, ended_s; /* TIMES: seconds since 1970, equal if it never
                              * began */
    const char *user; /* TIMES: whose attempt the cluster says it was; NULL:
                       * firnd's own user's. Borrowed until the engine closes */
};

FIRN_C_END

#endif
