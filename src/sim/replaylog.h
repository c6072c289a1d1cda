/* replaylog.h - the state of a replay, shared by its two halves.
 *
 * replay.c reads lines, header and summary; replayjobs.c follows the jobs.
 */
#ifndef SIM_REPLAYLOG_H
#define SIM_REPLAYLOG_H
#include "sim/ledger.h"
#include "sim/recount.h"

enum replay_state { REPLAY_WAITING, REPLAY_RUNNING, REPLAY_ENDED };

/* A job as the log's lines tell it. */
struct replay_job {
    int id, gpus, gpus_min, gpus_max;
    bool may_share;
    bool is_unrated; /* got GPUs at `since_s`; no rate told yet */
    bool may_lose;   /* its node died: it may resume with less done */
    enum replay_state state;
    struct holding held;
    double submit_s, duration_s;
    double since_s, held_s;         /* as in struct firn_job */
    double done_s, rate, resumes_s; /* as in struct firn_report */
    int starts;
};

struct replay {
    struct ledger ledger;
    struct recount count;
    VEC(struct replay_job) jobs; /* by id, which ascends */
    double now_s;
    double quantum_s, checkpoint_s; /* from the header */
    long line;                      /* the line being read */
    long conflict_line; /* where the ledger's first conflict arose */
    long down_line;     /* where a node with jobs on it went down */
    char *columns[10];  /* of the line being read */
    int ncolumns;
    struct firn_error *err;
};

/* One line that begins with a time. */
enum firn_status replay_event(struct replay *replay);
/* What must hold before time goes on, and at the end of the log. A failure
 * there sets `line` to the line it is about. */
enum firn_status replay_settled(struct replay *replay);
void replay_release(struct replay *replay);

#endif
