/* event.h - something happened: what an engine tells the round.
 */
#ifndef FIRN_EVENT_H
#define FIRN_EVENT_H
#include <firn/job.h>

enum firn_event_kind {
    FIRN_EVENT_SUBMIT,    /* spec: a new job, id `job` above all before it */
    FIRN_EVENT_DONE,      /* job: finished its work */
    FIRN_EVENT_FAIL,      /* job: ended without finishing */
    FIRN_EVENT_REPORT,    /* job, report: progress; asks for no new decision */
    FIRN_EVENT_NODE_UP,   /* node */
    FIRN_EVENT_NODE_DOWN, /* node: its jobs are stopped */
    FIRN_EVENT_TIMER,     /* a wake-up somebody asked for */
    /* Of live engines, for the daemon; the round never sees them. */
    FIRN_EVENT_PHASE, /* job, epoch: entered `phase` */
    FIRN_EVENT_LEFT,  /* job, epoch: gave its GPUs up as planned (`end`) */
};

/* From `resumes_s` on, a job gains `rate` reference seconds a second, having
 * `done_s` at that moment. */
struct firn_report {
    double done_s, rate, resumes_s;
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
    int64_t epoch;                    /* live engines: of the job */
    int phase, end;                   /* enum firn_phase, enum firn_end */
    int exit_status;                  /* as a shell tells it: 128 + signal */
};

#endif
