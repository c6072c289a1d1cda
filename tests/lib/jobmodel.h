/* jobmodel.h - the states that a job may have, from what a client has seen.
 *
 * Each answer of firnd narrows what is known; a request whose answer never came
 * (the daemon was killed) leaves two possibilities, until the job is seen
 * again. A job that is seen in a way that no answer allows is a fault of firnd.
 */
#ifndef LIB_JOBMODEL_H
#define LIB_JOBMODEL_H
#include <stdbool.h>
#include <stddef.h>

enum jobmodel_tri { MODEL_NO, MODEL_YES, MODEL_MAYBE };

/* What its command does. */
enum jobmodel_kind {
    MODEL_SLEEPS, /* for ever */
    MODEL_SUCCEEDS,
    MODEL_FAILS,
    MODEL_STRANGE, /* made of a hostile file that was taken: held */
    MODEL_NKINDS
};

struct jobmodel {
    enum jobmodel_tri exists;
    enum jobmodel_kind kind;
    int id; /* 0: not known */
    char name[48], key[48];
    enum jobmodel_tri held, cancelled;
    bool is_pinned;  /* held while it waited: it must not start */
    bool is_over;    /* seen so, or an answer said it */
    char state[16];  /* as seen last; "": never */
    char ended[32];  /* of one that is over */
    int attempt;     /* as seen last */
    int priority[8]; /* possible ones */
    int npriority;
    int gpus[8]; /* possible numbers of GPUs, of a rigid job */
    int ngpus;
};

/* A job as an answer has it. */
struct jobmodel_seen {
    int id, priority, gpus_min, gpus_max, attempt;
    bool is_held, is_ending;
    char name[48], state[16], ended[32];
};

void jobmodel_init(struct jobmodel *job, enum jobmodel_kind kind, bool is_held);

/* A request was sent and answered with 200, or not answered at all. */
void jobmodel_hold(struct jobmodel *job, bool is_held, bool is_answered);
void jobmodel_cancel(struct jobmodel *job, bool is_answered);
void jobmodel_priority(struct jobmodel *job, int value, bool is_answered);
void jobmodel_gpus(struct jobmodel *job, int value, bool is_answered);

/* Takes in how it was seen. False: that cannot be; `why` says what. */
bool jobmodel_see(struct jobmodel *job, const struct jobmodel_seen *seen,
                  char *why, size_t nwhy);

/* Reads a job at `json`, which begins with {"id": ; NULL when there is none,
 * else what is behind it. */
const char *jobmodel_read(const char *json, struct jobmodel_seen *out);

#endif
