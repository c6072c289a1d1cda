/* history.h - could a scheduler have answered like that? A checker.
 *
 * Clients write down each request: when it was sent, when its answer came, what
 * the answer said. Requests overlap, and some have no answer, so there is no
 * one order of them. The history of a job is good when some order explains it:
 * one that keeps to real time (what was answered before another was sent comes
 * first), and in which a small machine, which takes one request at a time,
 * gives exactly these answers (linearizability; Wing and Gong, 1993). A request
 * without an answer may have happened at any time since, or not at all.
 *
 * The machine of a job:
 *
 *     absent --submit--> pending --start--> active --> succeeded
 *                           ^----------------|  |----> failed
 *
 * Start, loss and end come by themselves, at any time. A job does not start,
 * and the number of its attempt does not rise, while it is held or cancelled;
 * but a start that had begun before a hold may come to nothing and be tried
 * again until the job runs.
 * Only a cancelled job becomes `cancelled`, and it is over for good, like one
 * that succeeded. A cancel without an answer may have ended the job's process
 * before its record was lost: the job has failed then. Hold, release, cancel
 * and a priority change what they name until the next such request, and are
 * refused when the job is over.
 *
 * (1) Besides, over all jobs: a key has one id in all answers, and an id
 *     one key.
 *
 * Cost: a search over orders with the states seen so far remembered; some
 * microseconds an operation unless many have no answer. At most HISTORY_MOST
 * operations of a job.
 */
#ifndef TESTS_LIB_HISTORY_H
#define TESTS_LIB_HISTORY_H
#include <stdbool.h>
#include <stddef.h>

enum { HISTORY_MOST = 64, HISTORY_SAID = 600 };

enum history_what {
    HISTORY_SUBMIT,
    HISTORY_HOLD,
    HISTORY_RELEASE,
    HISTORY_CANCEL,
    HISTORY_PRIORITY, /* to `value` */
    HISTORY_SHOW
};

enum history_result {
    HISTORY_UNKNOWN, /* no answer; until `to_s` it may have happened */
    HISTORY_OK,      /* and `seen` is what the answer showed */
    HISTORY_OVER,    /* refused: the job is over */
    HISTORY_ABSENT,  /* there is no such job */
    HISTORY_REFUSED  /* nothing has happened */
};

enum history_phase {
    HISTORY_PENDING,
    HISTORY_ACTIVE,
    HISTORY_SUCCEEDED,
    HISTORY_FAILED,
    HISTORY_CANCELLED
};

struct history_seen {
    long id, attempt;
    enum history_phase phase;
    bool is_starting; /* active, and not seen to run */
    bool is_held, is_ending;
    int priority;
};

struct history_op {
    int key; /* which job; the test's own number, from 0 */
    enum history_what what;
    int value;
    double from_s, to_s;
    enum history_result result;
    struct history_seen seen; /* with HISTORY_OK; of a submit the id only */
};

/* What is known of a job beforehand. */
struct history_rule {
    bool is_endless; /* cannot succeed */
    bool may_fail;
};

/* False: bad, and `said` has why. `rules` by key, for `nkeys` of them. */
bool history_is_good(const struct history_op *ops, size_t n,
                     const struct history_rule *rules, int nkeys,
                     char said[HISTORY_SAID]);
/* One operation in words. */
void history_say(const struct history_op *op, char out[200]);

#endif
