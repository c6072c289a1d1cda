/* replaylog.h - the state of a replay, shared by its two halves.
 *
 * replay.c reads lines, header and summary; replayjobs.c follows the jobs. A
 * watch (struct replay_watch) sees each line that was found good.
 */
#ifndef SIM_REPLAYLOG_H
#define SIM_REPLAYLOG_H
#include "sim/ledger.h"
#include "sim/recount.h"
#include <firn/bytes.h>

struct lines;

enum replay_state { REPLAY_WAITING, REPLAY_RUNNING, REPLAY_ENDED };

/* A job as the log's lines tell it. */
struct replay_job {
    int id, gpus, gpus_min, gpus_max;
    bool may_share;
    bool is_unrated; /* got GPUs at `since_s`; no rate told yet */
    bool may_lose;   /* its node died: it may resume with less done */
    enum replay_state state;
    struct holding held;
    char how[80]; /* of the last move that changed the way alone; "" */
    double submitted_s, finished_s; /* by its own account */
    double duration_s;
    double since_s, held_s;         /* as in struct firn_job */
    double done_s, rate, resumes_s; /* as in struct firn_report */
    int starts;
};

struct replay;

/* Called for lines that were found good; any may be NULL. */
struct replay_watch {
    void *arg;
    /* After a line on a job, whose columns are in replay->columns. Strings
     * among them are unquoted; an allocation is in job->held only. */
    void (*line)(void *arg, const struct replay *replay,
                 const struct replay_job *job);
    /* replay->now_s is over. */
    void (*moment)(void *arg, const struct replay *replay);
    /* Nothing more is read: the log ended, was aborted, or is wrong. `said` is
     * what is known of the run. */
    void (*over)(void *arg, const struct replay *replay,
                 const struct firn_sim_result *said);
};

struct replay {
    struct ledger ledger;
    struct recount count;
    VEC(struct replay_job) jobs; /* by id, which ascends */
    double now_s;
    double quantum_s, checkpoint_s; /* from the header */
    bool adds_up;    /* work is held against rates: in an honest world, unless
                      * jobs say that they have nothing left before they end */
    bool is_aborted; /* the run was; the lines before it are good */
    const struct replay_watch *watch; /* borrowed; may be NULL */
    long line;                        /* the line being read */
    long conflict_line; /* where the ledger's first conflict arose */
    long down_line;     /* where a node with jobs on it went down */
    char *columns[12];  /* of the line being read */
    int ncolumns;
    struct firn_error *err;
};

/* One line that begins with a time. */
enum firn_status replay_event(struct replay *replay);
/* What must hold before time goes on, and at the end of the log. A failure
 * there sets `line` to the line it is about. */
enum firn_status replay_settled(struct replay *replay);
void replay_release(struct replay *replay);

/* The job with this id, or NULL. */
const struct replay_job *replay_find(const struct replay *replay, int id);

/* replay_lines() with a watch. */
enum firn_status replay_watched(struct lines *in, const char *where,
                                const struct replay_watch *watch,
                                struct firn_sim_result *out,
                                struct firn_error *err);
/* The log's next whole line without its end, in `text`, with those it goes on
 * in; false at the end of the file. FIRN_EINVAL for one that cannot be. */
bool replay_next(struct lines *in, struct firn_buf *text,
                 enum firn_status *status, struct firn_error *err);
/* Splits a line at its tabs, in place; returns how many pieces. */
int replay_split(char *text, char **columns, int max);
/* Undoes buf_json_string(), in place. False when it is no such string. */
bool replay_unquote(char *text);

#endif
