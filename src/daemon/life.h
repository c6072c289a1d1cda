/* life.h - the life of a job: one table of states, events and what follows.
 *
 * What happens to a job is an event. life_next() looks up what follows from it:
 * the job's next state, the reason and the sentence that users see, and the
 * actions that the book (jobs on disk), the desk (the round) and the dock (the
 * engine) have to take. It is a pure function: no clock, no file, no engine.
 * All else that decides is a fact about the job at that moment, given by the
 * caller as a set of bits.
 *
 *     event -> life_next() -> actions -> book, desk, dock
 *
 * Two jobs that are trained by one set of processes are partners. The processes
 * are those of the partner with the lower id, the lead; what happens to them is
 * an event of the lead and, as one of the "partner" events, of the other job.
 */
#ifndef DAEMON_LIFE_H
#define DAEMON_LIFE_H
#include "daemon/livejob.h"
#include <firn/status.h>

/* what happened, in the words of docs/jobs.md */
#define LIFE_EVENT_MAP(X)                                                   \
    X(SUBMITTED, "it is submitted")                                         \
    X(CHANGED, "its user changes its bounds or priority")                   \
    X(HOLD, "its user holds it")                                            \
    X(RELEASE, "its user releases it")                                      \
    X(CANCEL, "its user cancels it")                                        \
    X(NEVER_FITS, "the cluster has no GPUs that it could ever run on")      \
    X(REJECTED, "the policy rejects it")                                    \
    X(GIVEN, "the policy gives it GPUs, or other GPUs")                     \
    X(TAKEN, "the policy takes its GPUs away")                              \
    X(DRAINED, "its node is drained")                                       \
    X(NODE_DOWN, "its node is down")                                        \
    X(SENT_AWAY, "firnd takes its GPUs away")                               \
    X(PUT_BACK, "its GPUs are taken by foreign processes before it starts") \
    X(REFUSED, "the engine refuses the step")                               \
    X(ATTEMPT, "the engine is about to start its processes")                \
    X(BEGINS, "its processes are being started")                            \
    X(RUNS, "its processes run")                                            \
    X(RESIZED, "it was resized while it trains")                            \
    X(NOT_RESIZED, "it could not be resized while it trains")               \
    X(LEFT, "its processes have left the GPUs as they were asked to")       \
    X(DONE, "its processes end with status 0")                              \
    X(FAILED_EXIT, "its processes end with another status")                 \
    X(FAILED_SIGNAL, "its processes are ended by a signal")                 \
    X(FAILED_MEMORY, "its processes run out of memory")                     \
    X(FAILED_LOST, "its supervisor or its host vanishes")                   \
    X(FAILED_INBOX, "it is cancelled in the cluster's own queue")           \
    X(INBOX_GONE, "it is taken out of the cluster's own queue")             \
    X(RETRY_DUE, "its wait before the next try is over")                    \
    X(PARTNER_BEGINS, "its partner's attempt begins, for both")             \
    X(PARTNER_LEFT, "its partner's processes have left the GPUs")           \
    X(PARTNER_DONE, "its partner's processes end with status 0")            \
    X(PARTNER_FAILED, "its partner's processes fail")                       \
    X(PARTNER_CANCELLED, "its partner is cancelled")                        \
    X(PARTNER_SILENT, "its partner reports for ten minutes, it does not")   \
    X(PARTNER_UNWANTED, "the policy parts it from its partner")             \
    X(PARTNER_GONE, "the partner that was to train it is gone")             \
    X(RECOVERED_RUNNING, "firnd starts again and the job holds GPUs")       \
    X(RECOVERED_GONE, "firnd starts again and the job holds no GPUs")

enum life_event {
#define X(code, words) LIFE_##code,
    LIFE_EVENT_MAP(X)
#undef X
        LIFE_NEVENTS
};

/* What holds of a job when something happens to it: bits. */
#define LIFE_FACT_MAP(X)                                                  \
    X(ENDING, "it is cancelled")                                          \
    X(HELD, "it is held")                                                 \
    X(INBOX, "it came by the cluster's own queue")                        \
    X(RIGID, "it can neither write checkpoints nor start over")           \
    X(CHECKPOINTS, "it can write checkpoints")                            \
    X(PINNED, "its GPUs are blocked for it, outside of the round")        \
    X(IN_ROUND, "the round has it")                                       \
    X(GRANTED, "the round gives it GPUs")                                 \
    X(GRANTED_ALONE, "the round gives it GPUs, without a partner")        \
    X(PRESENT, "the engine has processes of it, or is to start them")     \
    X(LEAVING, "its processes were asked to leave")                       \
    X(ACTIVE, "its processes run")                                        \
    X(OPEN, "its present attempt is open")                                \
    X(PARTNERED, "its processes train its partner too")                   \
    X(TRAINED, "its partner's processes train it")                        \
    X(AWAITS, "the round wants its partner's processes to train it")      \
    X(LONE, "it is not to have a partner any more")                       \
    X(MAY_RETRY, "its retry rule allows another try")                     \
    X(SAYS_DONE, "its last report says that all its work is done")        \
    X(OUT_OF_BOUNDS, "it holds fewer or more GPUs than its bounds allow") \
    X(OUTDATED, "the round schedules it by what it asked for before")

enum life_fact_bit {
#define X(code, words) LIFE_BIT_##code,
    LIFE_FACT_MAP(X)
#undef X
        LIFE_NFACTS
};
enum life_fact {
#define X(code, words) LIFE_IS_##code = 1 << LIFE_BIT_##code,
    LIFE_FACT_MAP(X)
#undef X
};

/* What is to be done, in this order: bits. The state is written between
 * LEAVE_ROUND and COUNT_STOP. */
#define LIFE_ACT_MAP(X)                                                      \
    X(CLOSE_ATTEMPT, "the attempt ends, if it is the open one")              \
    X(PART_FOR_GOOD, "it is not to have a partner any more")                 \
    X(FREE_TYPE, "forgets the GPU type that it kept to")                     \
    X(LEARN, "its run time and forecasts are learned from")                  \
    X(UNPIN, "its blocked GPUs go back to the round")                        \
    X(WITHDRAW, "out of the round, to come back later")                      \
    X(LEAVE_ROUND, "out of the round for good")                              \
    X(END, "its last GPUs are let go; nothing follows")                      \
    X(CHARGE_RETRY, "one retry more is counted")                             \
    X(COUNT_STOP, "a stop is counted")                                       \
    X(COUNT_RESIZE, "a resize is counted")                                   \
    X(COUNT_WAIT, "its time in the queue is counted, once")                  \
    X(RETRY_LATER, "waits before it comes back to the round")                \
    X(OPEN_ATTEMPT, "the next attempt is on disk before a process exists")   \
    X(KEEP_GPUS, "the GPUs that it holds are written")                       \
    X(PIN, "its GPUs are blocked, out of the round")                         \
    X(PIN_LATER, "the same, once the round is decided")                      \
    X(RESTORE, "back into the round, with what it holds")                    \
    X(ADOPT, "the engine takes its processes over")                          \
    X(WATCH_PARTNER, "looked at whenever something changes for its partner") \
    X(CHECK_PARTNERS, "jobs that wait for a partner are looked at")          \
    X(PIN_LEAVING, "its GPUs are blocked until its processes are gone")      \
    X(STOP, "the engine asks its processes to leave")                        \
    X(STOP_PARTNER, "the engine asks its partner's processes to leave")      \
    X(CANCEL, "the engine ends its processes")                               \
    X(LAUNCH, "the engine starts it on what the round gives it")             \
    X(KEEP_BOUNDS, "placed anew behind the round if still out of bounds")    \
    X(READMIT, "back into the round as it now is")                           \
    X(ADMIT, "into the round, to wait")

enum life_act_bit {
#define X(code, words) LIFE_ACT_##code,
    LIFE_ACT_MAP(X)
#undef X
        LIFE_NACTS
};
enum life_act {
#define X(code, words) LIFE_DO_##code = 1 << LIFE_ACT_##code,
    LIFE_ACT_MAP(X)
#undef X
};

/* The state, or reason, stays as it is. */
enum { LIFE_SAME = -1 };

/* One line of the table: holds of `event` in one of the states `from` (a bit
 * each) when all facts of `with` hold and none of `without`. Of the lines that
 * hold, the first counts. */
struct life_row {
    enum life_event event;
    unsigned from, with, without;
    int to;                  /* enum live_state, or LIFE_SAME */
    enum live_reason reason; /* not used with LIFE_SAME */
    unsigned acts;
    const char *sentence; /* see struct life_words */
};
const struct life_row *life_rows(size_t *n);

/* What stands in a sentence for {gpus}, {from}, {partner} and {why}; NULL: the
 * empty text. */
struct life_words {
    const char *gpus, *from, *partner, *why;
};

struct life_step {
    const struct life_row *row;
    bool is_said; /* the state, reason and sentence are to be written */
    enum live_state state;
    enum live_reason reason;
    char why[LIVE_TEXT];
    unsigned acts;
};

/* What follows. FIRN_EINVAL: this cannot happen to a job in that state with
 * these facts, as `err` says; nothing is to be done. */
enum firn_status life_next(enum live_state state, enum life_event event,
                           unsigned facts, const struct life_words *words,
                           struct life_step *out, struct firn_error *err);

const char *life_event_words(enum life_event event);
const char *life_fact_words(enum life_fact_bit fact);
const char *life_act_words(enum life_act_bit act);

#endif
