/* pool.h - many tasks in parallel child processes.
 *
 * Each task runs in a child of its own, also when only one runs at a time, so
 * that one that crashes takes nothing with it. A child sends how far it is and
 * in the end its outcome through a pipe; the parent waits for all of them.
 * SIGINT and SIGTERM stop the pool: the children are told, those that do not
 * listen are killed, and the outcomes that are there are kept. Outcomes are
 * kept by task, whatever ends first.
 */
#ifndef CLI_POOL_H
#define CLI_POOL_H
#include <firn/status.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct pool_child; /* a child's end of its pipe */

enum pool_state {
    POOL_WAITING, /* not begun */
    POOL_RUNNING,
    POOL_ENDED,   /* status and, unless it crashed, `out` are filled */
    POOL_STOPPED, /* interrupted before it ended */
};

struct pool_outcome {
    enum pool_state state;
    double share; /* how far, 0..1 */
    enum firn_status status;
    bool has_out; /* the child lived to send `out` */
    char text[FIRN_ERROR_TEXT];
    void *out; /* out_size bytes; the pool's until pool_release() */
};

struct pool {
    /* To be set before. */
    size_t ntasks, out_size;
    int width; /* children at a time, >= 1 */
    void *arg;
    /* In the child: does the task and fills `out`, which is zeroed. */
    enum firn_status (*run)(void *arg, size_t task, struct pool_child *child,
                            void *out, struct firn_error *err);
    /* In the parent, a few times a second; may be NULL. */
    void (*watch)(void *arg, const struct pool *pool);

    /* Filled by pool_run(). */
    struct pool_outcome *outcomes; /* ntasks of them */
    bool is_interrupted;
};

/* Runs all tasks. Returns when each has ended or was stopped. */
void pool_run(struct pool *pool);
void pool_release(struct pool *pool);

/* How far the pool is. */
struct pool_sight {
    double share;   /* of all tasks, 0..1 */
    size_t nended;  /* tasks that have ended */
    size_t running; /* the first that runs; ntasks when none does */
};

/* For the parent, of a pool with a task or more. */
struct pool_sight pool_look(const struct pool *pool);

/* For the child: tells the parent how far it is; cheap when it hardly moved. */
void pool_share(struct pool_child *child, double share);
/* For the child: becomes non-zero when it shall stop. */
const volatile sig_atomic_t *pool_stop(void);

#endif
